"""The hour of a file that is not read: every view names file and reason, and what is said to do makes the hour done."""

from __future__ import annotations

import re
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lake.support import capture
from tests.replay.support import lowwater

pytestmark = pytest.mark.slow

SETTINGS = """
[links.a]
captures = "{pattern}"
{rotation}
since = "2027-01-15T08:00:00Z"
until = "2027-01-15T11:00:00Z"
[query_sets.flows]
files = "flows.gsql"
"""
QUERY = "DEFINE { query_name 'flows'; } SELECT tb, count(*) AS n FROM a.ETH GROUP BY time/3600 AS tb\n"
HOURS = ("08", "09", "10")
UNTRUE = ("no capture covers", "no capture at all")


def _lake(folder: Path, dated: bool = True) -> Path:
    """A lake whose link has a capture for each of three hours: 8, 9 and 10 packets."""
    (folder / "captures").mkdir()
    lake = folder / "lake"
    lake.mkdir()
    (lake / "flows.gsql").write_text(QUERY)
    pattern = "../captures/a_%Y%m%d%H.pcap" if dated else "../captures/*.pcap"
    settings = SETTINGS.format(pattern=pattern, rotation='rotation = "1h"' if dated else "")
    (lake / "lowwater.toml").write_text(settings)
    for number in range(3):
        _hour(folder, number)
    return lake


def _hour(folder: Path, number: int) -> Path:
    seconds = [number * 3600 + at * 300 for at in range(8 + number)]
    return capture(folder / "captures" / f"a_20270115{HOURS[number]}.pcap", seconds)


def _views(lake: Path) -> Iterator[tuple[str, str]]:
    """What the views say that name what is not read, each in one line."""
    for command in (["status"], ["plan"], ["backfill"], ["report"], ["rows", "flows"], ["streams"]):
        said = lowwater(*command, "--lake", lake)
        yield command[0], " ".join((said.out + said.err).split())


def _counts(lake: Path) -> list[int]:
    said = lowwater("rows", "flows", "--lake", lake, "--format", "csv")
    assert "note" not in said.err, said.err
    return [int(line.split(",")[1]) for line in said.out.splitlines()[1:]]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"no capture, but text that somebody put there", "not a capture: it begins with 6e 6f 20 63"),
        (b"", "0 bytes"),
        (b"\xd4\xc3\xb2\xa1" + bytes(10), "cut inside the file header"),
    ],
)
def test_the_hour_of_a_refused_file_names_the_refusal(data: bytes, reason: str, tmp_path: Path) -> None:
    lake = _lake(tmp_path)
    (tmp_path / "captures" / "a_2027011509.pcap").write_bytes(data)
    lowwater("ingest", "--lake", lake)
    lowwater("backfill", "--lake", lake)
    for name, said in _views(lake):
        assert "a_2027011509.pcap" in said and reason in said, name
        assert not any(words in said for words in UNTRUE), (name, said)
    one = lowwater("replay", "flows", "--lake", lake, "--from", "2027-01-15T09:00Z", "--to", "2027-01-15T10:00Z")
    assert one.code > 0 and f"is not read: a_2027011509.pcap ({'refused: ' if data else 'it has '}{reason}" in one.err
    assert "put a file that can be read in the place of each" in one.err
    _hour(tmp_path, 1)
    assert lowwater("ingest", "--lake", lake).code == 0
    lowwater("backfill", "--lake", lake)
    assert _counts(lake) == [8, 9, 10]


def test_what_is_lost_for_good_is_set_aside(tmp_path: Path) -> None:
    lake = _lake(tmp_path)
    (tmp_path / "captures" / "a_2027011509.pcap").write_bytes(b"lost for good")
    lowwater("ingest", "--lake", lake)
    one = lowwater("replay", "flows", "--lake", lake, "--from", "2027-01-15T09:00Z", "--to", "2027-01-15T10:00Z")
    assert "lowwater set-aside --lake DIR FILE --reason WHY" in one.err
    file = tmp_path / "captures" / "a_2027011509.pcap"
    assert lowwater("set-aside", "--lake", lake, file, "--reason", "the disk failed").code == 0
    said = " ".join(lowwater("status", "--lake", lake).out.split())
    assert "no capture covers 2027-01-15T09:00:00Z to 2027-01-15T10:00:00Z" in said
    assert "a_2027011509.pcap: the disk failed" in said


@pytest.mark.parametrize("dated", [True, False])
def test_no_capture_at_all_is_not_said_where_files_lie_unread(dated: bool, tmp_path: Path) -> None:
    lake = _lake(tmp_path, dated)
    for file in (tmp_path / "captures").iterdir():
        file.write_bytes(b"text")
    lowwater("ingest", "--lake", lake)
    for command in ("status", "plan", "backfill"):
        said = lowwater(command, "--lake", lake)
        text = " ".join((said.out + said.err).split())
        assert "a_2027011509.pcap" in text and "not a capture: it begins with" in text, command
        assert not any(words in text for words in UNTRUE), (command, text)


@pytest.mark.parametrize("kind", ["tar.gz", "tar", "zip"])
def test_an_archive_is_named_until_it_is_unpacked_and_gone(kind: str, tmp_path: Path) -> None:
    lake, file = _lake(tmp_path), tmp_path / "captures" / "a_2027011509.pcap"
    archive = tmp_path / "captures" / f"day.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(archive, "w") as packed:
            packed.write(file, file.name)
    else:
        with tarfile.open(archive, "w:gz" if kind == "tar.gz" else "w") as tape:
            tape.add(file, file.name)
    file.unlink()
    lowwater("ingest", "--lake", lake)
    lowwater("backfill", "--lake", lake)
    for name, said in _views(lake):
        if name != "rows":  # an archive is of no hour
            assert archive.name in said and "whose files are not read: unpack it: `" in said, name
    (command,) = set(re.findall(r"unpack it: `([^`]*)`", said))
    if kind == "zip":
        command = f"cd {archive.parent} && python3 -m zipfile -e {archive.name} ."  # `unzip` is not on every machine
    subprocess.run(command, shell=True, check=True)
    lowwater("ingest", "--lake", lake)
    lowwater("backfill", "--lake", lake)
    assert archive.name in dict(_views(lake))["status"]  # it may hold more
    archive.unlink()
    lowwater("ingest", "--lake", lake)
    assert archive.name not in dict(_views(lake))["status"]
    assert _counts(lake) == [8, 9, 10]


def test_an_archive_that_is_set_aside_is_no_longer_unread(tmp_path: Path) -> None:
    lake, archive = _lake(tmp_path), tmp_path / "captures" / "scripts.zip"
    archive.write_bytes(b"PK\x03\x04" + bytes(40))
    lowwater("ingest", "--lake", lake)
    said = lowwater("status", "--lake", lake)
    assert "not read: link 'a': 1 file lies in the folder" in said.out
    assert lowwater("set-aside", "--lake", lake, archive, "--reason", "scripts of the recorder").code == 0
    lowwater("ingest", "--lake", lake)
    said = lowwater("status", "--lake", lake)
    assert "not read" not in said.out and "scripts.zip: scripts of the recorder" in said.out
