"""The same records under two links count twice in a query over both: whoever reads the lake is told."""

from __future__ import annotations

import gzip
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from lowwater.capture.formats.capture_file import WrittenInterface, pcapng_header, pcapng_record
from lowwater.config import Config
from lowwater.instants import HOUR
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.captures import (
    Captures,
    put_captures,
    read_captures,
    shared_captures,
    shared_lines,
    shared_words,
)
from tests.lake.support import BASE, at, capture
from tests.replay.support import lowwater

CONFIG = Config()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return open_lake(tmp_path / "lake")


def two_links(lake: Lake, folder: Path) -> tuple[Path, Path]:
    one = capture(folder / "monday.pcap", [1, 5, 9])
    two = folder / "copy.pcap.gz"
    two.write_bytes(gzip.compress(one.read_bytes()))
    ingest(lake, "a", [one], CONFIG)
    return one, two


def test_a_copy_under_another_link_is_said_by_name(lake: Lake, tmp_path: Path) -> None:
    one, two = two_links(lake, tmp_path)
    assert shared_lines(lake) == []
    (done,) = ingest(lake, "b", [two], CONFIG)
    assert (done.state, done.note) == ("added", f"link 'a' has the same 3 packets, {one}")
    assert shared_lines(lake) == [
        "links 'a' and 'b' have the same packets, 3: monday.pcap is copy.pcap.gz: a query that reads both counts "
        "each twice"
    ]
    captures = read_captures(lake, ["a", "b"])
    assert shared_words("a", captures, BASE, BASE + HOUR) == ("monday.pcap is copy.pcap.gz of link 'b'", 3)
    assert shared_words("b", captures, BASE, BASE + HOUR) == ("copy.pcap.gz is monday.pcap of link 'a'", 3)
    assert shared_words("a", captures, BASE + HOUR, BASE + 2 * HOUR) == ("", 0)
    assert shared_words("a", {"a": captures["a"]}, BASE, BASE + HOUR) == ("", 0), "the set does not read the other link"


def test_proposed_settings_say_which_links_have_the_same_records(tmp_path: Path) -> None:
    one = capture(tmp_path / "captures" / "monday.pcap", [1, 5, 9])
    shutil.copy(one, one.with_name("weekend.pcap"))
    said = lowwater("init", one.parent, "--lake", tmp_path / "lake")
    line = "monday and weekend: monday.pcap and weekend.pcap have the same records"
    assert said.code == 0 and line in said.out
    assert f"\n# {line}: a query over both links counts them twice" in (tmp_path / "lake" / "lowwater.toml").read_text()


def test_rows_of_an_older_lake_are_compared_by_their_files(lake: Lake, tmp_path: Path) -> None:
    one, _ = two_links(lake, tmp_path)
    ((row,),) = (list(rows) for rows in read_captures(lake, ["a"]).values())
    put_captures(lake, [replace(row, capture=row.file_digest, sha256=None)], [row])
    two = Path(shutil.copy(one, tmp_path / "copy.pcap"))
    (done,) = ingest(lake, "b", [two], CONFIG)
    assert done.note == f"link 'a' has the same 3 packets, {one}" and len(shared_lines(lake)) == 1


def test_interfaces_of_one_file_and_empty_files_are_no_copies(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    records = [pcapng_record(number, at(second), 60, bytes(60)) for second in (1, 2) for number in (0, 1)]
    path.write_bytes(pcapng_header([WrittenInterface("x", 1), WrittenInterface("y", 1)]) + b"".join(records))
    ingest(lake, "a", [path], CONFIG)
    for link in ("b", "c"):
        ingest(lake, link, [capture(tmp_path / f"{link}.pcap", [])], CONFIG, (BASE, BASE + HOUR))
    assert shared_lines(lake) == []
    other = Path(shutil.copy(path, tmp_path / "b.pcapng"))
    ingest(lake, "d", [other], CONFIG)
    found = shared_captures(read_captures(lake, ["a/x", "a/y", "d/x", "d/y"]))
    assert {("a/x", "d/x"), ("a/y", "d/y")} <= set(found)


def test_many_copies_are_few_words(lake: Lake, tmp_path: Path) -> None:
    two_links(lake, tmp_path)
    ((row,),) = (list(rows) for rows in read_captures(lake, ["a"]).values())
    many = [replace(row, attempt=f"a{n}", capture=str(n), sha256=str(n), path=f"{n}.pcap") for n in range(9)]
    others = [replace(each, attempt=f"b{n}", link="b") for n, each in enumerate(many)]
    text, count = shared_words("a", {"a": Captures(many), "b": Captures(others)}, BASE, BASE + HOUR)
    assert count == 27 and text.count("link 'b'") == 3 and text.endswith("; and 6 more")


def test_a_cut_copy_under_another_link_is_said(lake: Lake, tmp_path: Path) -> None:
    seconds = [n / 7 for n in range(300)]
    one = capture(tmp_path / "monday.pcap", seconds)
    two = capture(tmp_path / "cut.pcap", seconds[:150], cut=5)
    other = capture(tmp_path / "other.pcap", [*seconds[:50], *seconds[51:]])
    ingest(lake, "a", [one], CONFIG)
    (done,) = ingest(lake, "b", [two], CONFIG)
    assert f"link 'a' has a file that begins with the same packets, {one}" in done.note
    (done,) = ingest(lake, "c", [other], CONFIG)
    assert "begins with" not in done.note
    captures = read_captures(lake, ["a", "b", "c"])
    text = "monday.pcap begins with the packets of cut.pcap of link 'b'"
    assert shared_words("a", captures, BASE, BASE + HOUR) == (text, 149)
    assert shared_lines(lake) == [
        "links 'a' and 'b' have the same packets, up to 149: monday.pcap begins with the packets of cut.pcap: a query "
        "that reads both counts each twice"
    ]
