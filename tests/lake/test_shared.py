"""The same records under two links count twice in a query over both: whoever reads the lake is told."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from lowwater.config import Config
from lowwater.instants import HOUR
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.captures import read_captures, shared_lines, shared_words
from tests.lake.support import BASE, capture

CONFIG = Config()


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


@pytest.mark.slow
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
