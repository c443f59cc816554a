"""`init` over what recorders leave: spills, archives, zones, folders, lost and cut files, copies."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from lowwater.config import load_config
from lowwater.instants import HOUR, SECOND
from lowwater.lake.files.patterns import declared_coverage
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.ledgers.coverage import gaps
from tests.capturemaker import pcap_bytes, tcp
from tests.replay.support import lowwater

FRAME = tcp("10.0.0.1", "10.0.0.2", 1024, 80)
BASE = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
ZEEK = (
    "#separator \\x09\n#set_separator\t,\n#empty_field\t(empty)\n#unset_field\t-\n#path\tconn\n"
    "#fields\tts\tuid\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\tduration\n"
    "#types\ttime\tstring\taddr\tport\taddr\tport\tenum\tinterval\n"
)


def capture(path: Path, begin: float, length: float, count: int = 60, cut: bool = False) -> None:
    """A capture with packets from `begin` on, seconds after BASE."""
    path.parent.mkdir(parents=True, exist_ok=True)
    stamps = [int((BASE + begin + length * at / count) * SECOND) + 1000 for at in range(count)]
    data = pcap_bytes([(stamp, FRAME) for stamp in stamps])
    data = data[:-9] if cut else data
    path.write_bytes(gzip.compress(data, 1) if path.suffix == ".gz" else data)


def at(seconds: int, form: str, zone: str = "UTC") -> str:
    return datetime.fromtimestamp(BASE + seconds, ZoneInfo(zone)).strftime(form)


def conn(path: Path, begin: int, records: Iterable[tuple[int, int]]) -> None:
    """A log of Zeek: a line stands where its connection ends; records are (end, duration), seconds after `begin`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        f"{BASE + begin + end - length}.000000\tC{end}\t192.0.2.1\t4000\t198.51.100.1\t443\ttcp\t{length}.000000\n"
        for end, length in records
    ]
    path.write_bytes(gzip.compress((ZEEK + "".join(lines)).encode(), 1))


@pytest.mark.slow
def test_the_first_spill_comes_after_init(tmp_path: Path) -> None:
    for hour in range(3):
        capture(tmp_path / "in" / at(3600 * hour, "cap_%Y%m%d%H%M%S.pcap"), 3600 * hour, 3600)
    lake = tmp_path / "lake"
    assert lowwater("init", tmp_path / "in", "--lake", lake).code == 0
    for part in range(3):
        name = at(3 * 3600, "cap_%Y%m%d%H%M%S.pcap") + (str(part) if part else "")
        capture(tmp_path / "in" / name, 3600 * (3 + part / 3), 1200)
    (link,) = load_config(lake).links.values()
    assert link.captures is not None and link.captures[0].endswith(".pcap%c") and link.rotation == HOUR
    assert lowwater("ingest", "--lake", lake).code == 0
    captures = read_captures(open_lake(lake), ["cap"])["cap"]
    assert sum(row.packets for row in captures) == 360
    found = gaps("cap", captures, link, BASE * SECOND, (BASE + 4 * 3600) * SECOND)
    assert all(gap.until - gap.since < 21 * SECOND for gap in found), "pauses of 20 s where a file was full"


@pytest.mark.slow
def test_two_days_of_the_archive_of_zeek(tmp_path: Path) -> None:
    """Each hour begins with connections of the one before it; at 03:00 Zeek was down for ten minutes."""
    spans = [(hour * 3600, 3600) for hour in range(48)]
    spans[3:4] = [(3 * 3600, 1200), (3 * 3600 + 1800, 1800)]
    for begin, length in spans:
        name = at(begin, "%Y-%m-%d/conn.%H:%M:%S-") + at(begin + length, "%H:%M:%S.log.gz")
        conn(tmp_path / "in" / name, begin, [(1 + tick * 20, tick % 5 * 60) for tick in range(length // 20)])
    lake = tmp_path / "lake"
    said = lowwater("init", tmp_path / "in", "--lake", lake)
    assert said.code == 0 and "no file for 2026-01-01T03:20:00Z to 2026-01-01T03:30:00Z" in said.out, said
    (link,) = load_config(lake).links.values()
    assert (link.kind, link.rotation, link.timezone) == ("zeek", HOUR, "UTC")
    path = tmp_path / "in" / "2026-01-01" / "conn.03:00:00-03:20:00.log.gz"
    assert declared_coverage(link, path) == ((BASE + 10800) * SECOND, (BASE + 12000) * SECOND)
    last = declared_coverage(link, path.parent / "conn.23:00:00-00:00:00.log.gz")
    assert last is not None and last[1] == (BASE + 86400) * SECOND


@pytest.mark.slow
@pytest.mark.parametrize("dated", [True, False])
def test_settings_of_a_recorder_that_was_started_again_run(tmp_path: Path, dated: bool) -> None:
    """Three hours, a stop at 03:10, and files of an hour from 03:20 on: the gap is named, and nothing else is one."""
    minutes = [0, 60, 120, 180, 200, 260, 320]
    for number, minute in enumerate(minutes):
        name = at(60 * minute, "n-%Y%m%d-%H%M.pcap") if dated else f"n-{number:03}.pcap"
        length = 600 if minute == 180 else 3600
        capture(tmp_path / "in" / name, 60 * minute, length, length // 10)
    lake = tmp_path / "lake"
    assert lowwater("init", tmp_path / "in", "--lake", lake, "--sample", "7").code == 0
    link = load_config(lake).links["n"]
    assert (link.rotation, link.gap_tolerance) == ((HOUR, 2 * SECOND) if dated else (None, 10 * SECOND))
    assert lowwater("ingest", "--lake", lake).code == 0
    captures = read_captures(open_lake(lake), ["n"])["n"]
    found = gaps("n", captures, link, BASE * SECOND, (BASE + 6 * 3600) * SECOND)
    stopped = BASE + 3 * 3600
    assert [(gap.since // SECOND, gap.until // SECOND) for gap in found] == [(stopped + 590, stopped + 1200)]


@pytest.mark.slow
def test_the_missing_hour_and_the_cut_file_among_48(tmp_path: Path) -> None:
    for hour in range(48):
        if hour != 17:
            name = at(3600 * hour, "a_%Y%m%dT%H.pcap")
            capture(tmp_path / "in" / name, 3600 * hour, 3600, cut=hour == 29)
    lake = tmp_path / "lake"
    said = lowwater("init", tmp_path / "in", "--lake", lake)
    text = (lake / "lowwater.toml").read_text()
    for line in (
        "no file for 2026-01-01T17:00:00Z to 2026-01-01T18:00:00Z",
        "a_20260102T05.pcap is cut: it covers no more than it holds",
    ):
        assert line in said.out and f"# {line}" in text, (line, said.out)


@pytest.mark.slow
def test_a_copy_beside_its_original_counts_once(tmp_path: Path) -> None:
    for number in range(3):
        capture(tmp_path / "in" / f"a-{number}.pcap", 0 if number else 3600, 3600)
    lake = tmp_path / "lake"
    said = lowwater("init", tmp_path / "in", "--lake", lake)
    assert "a-2.pcap has the same bytes as a-1.pcap: it counts once" in said.out
    assert list(load_config(lake).links) == ["a"]
    assert lowwater("ingest", "--lake", lake).code == 0
    assert sum(row.packets for row in read_captures(open_lake(lake), ["a"])["a"]) == 120
