"""Bad input: one clear message that names what is wrong and what to do, the contract's exit code, no traceback."""

from __future__ import annotations

import csv
import json
import struct
from pathlib import Path

import pytest
from lowwater_generator import GeneratedCapture

from lowwater.instants import HOUR, format_instant
from tests.capturemaker import pcap_bytes, tcp, udp
from tests.replay.support import QUERIES, START, Said, ingest_all, leftovers, lowwater, states, write_settings

SECOND = 1_000_000_000
BEGIN = 1_000_000 * SECOND
YEAR = 365 * 86400 * SECOND
RECORDS = [(BEGIN + i * SECOND, tcp("10.0.0.1", "10.0.0.2", 1024, 80)) for i in range(5)]
GOOD = pcap_bytes(RECORDS, nanoseconds=True)
RECORD = 16 + len(RECORDS[0][1])  # bytes of one record


def lengthened(number: int) -> bytes:
    """The good capture, whose record `number` says that it is two gigabytes long."""
    changed = bytearray(GOOD)
    at = 24 + number * RECORD + 8
    changed[at : at + 4] = struct.pack("<I", 0x7FFFFFFF)
    return bytes(changed)


def strayed(number: int) -> bytes:
    """The good capture, whose record `number` is stamped five years ahead."""
    records = [(stamp + 5 * YEAR * (i == number), frame) for i, (stamp, frame) in enumerate(RECORDS)]
    return pcap_bytes(records, nanoseconds=True)


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.pcap"
    path.write_bytes(GOOD)
    return path


def run_flows(folder: Path, *captures: str) -> Said:
    given = [part for capture in captures for part in ("--capture", capture)]
    return lowwater("run", QUERIES / "flows.gsql", "--engine", "reference", "--out", folder / "out", *given)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "sane"),
    [(GOOD[:-20], 4), (GOOD[: 24 + 2 * RECORD + 7], 2), (lengthened(3), 4), (lengthened(0), 4), (strayed(2), 4)],
    ids=["cut inside a frame", "cut inside a header", "absurd length", "absurd length at once", "years ahead"],
)
def test_a_bad_record_is_counted_and_the_others_are_used(data: bytes, sane: int, tmp_path: Path) -> None:
    path = tmp_path / "bad.pcap"
    path.write_bytes(data)
    said = run_flows(tmp_path, f"a={path}")
    assert said.code == 0, said.err
    link = json.loads((tmp_path / "out" / "summary.json").read_text())["links"]["a"]
    assert (link["read"], link["malformed"], link["violating"], link["sane"]) == (sane + 1, 1, 0, sane)
    with (tmp_path / "out" / "flows.csv").open(newline="") as file:
        assert sum(int(row["cnt"]) for row in csv.DictReader(file)) == sane


@pytest.mark.slow
def test_the_skew_that_admits_all_is_the_largest_lateness(good: Path, tmp_path: Path) -> None:
    """As `inspect` says: 0 of a link in order, whatever its skew; of another one what its latest record needs."""
    late = tmp_path / "late.pcap"
    stamps = [RECORDS[0][0] + at * 100_000_000 for at in (0, 5, 3, 9)]
    late.write_bytes(pcap_bytes([(stamp, udp("10.0.0.1", "10.0.0.2", 5, 6)) for stamp in stamps]))
    for path, latest in ((good, 0), (late, 200_000_000)):
        said = run_flows(tmp_path, f"main1={path}")
        assert said.code == 0, said.err
        summary = json.loads((tmp_path / "out" / "summary.json").read_text())
        assert summary["links"]["main1"]["skew_that_admits_all_ns"] == latest


def replay_hour(lake: Path, hour: int) -> Said:
    span = ("--from", format_instant(START + hour * HOUR), "--to", format_instant(START + (hour + 1) * HOUR))
    return lowwater("replay", "demo", "--lake", lake, *span)


@pytest.mark.slow
def test_a_missing_capture_stops_its_interval_whatever_later_captures_say(
    captures: list[GeneratedCapture], tmp_path: Path
) -> None:
    lake, gone = tmp_path / "lake", 1
    lake.mkdir()
    write_settings(lake)
    ingest_all(lake, [each for each in captures if (each.link, each.start) != ("main1", START + gone * HOUR)])
    said = replay_hour(lake, gone)
    assert said.code == 1
    since, until = (format_instant(START + hour * HOUR) for hour in (gone, gone + 1))
    assert f"link 'main1': no capture covers {since} to {until}\n" in said.err
    assert "hint: ingest the missing capture" in said.err and "[links.main1]" in said.err
    assert set(states(lake).values()) == {"missing", "failed"}
    assert states(lake)[gone, "flows"] == "failed"
    shown = lowwater("status", "--lake", lake)
    assert shown.code == 0
    assert f"link 'main1': no capture covers {since}" in " ".join(shown.out.split())
    assert leftovers(lake) == []
