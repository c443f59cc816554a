"""The facts of captures: made ones against what was put in, real ones against capinfos."""

from __future__ import annotations

import csv
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from lowwater.capture import inspect as lateness
from lowwater.capture.inspect import CaptureFacts, inspect, inspect_times
from lowwater.capture.records.facts import InterfaceSummary
from lowwater.errors import CaptureError
from lowwater.instants import SECOND
from tests.breadth import examples
from tests.capturemaker import arp, ethernet, icmp, ip, pcap_bytes, tcp, udp

DIFFERENCES = {
    "infiniband": "ERF: capinfos reads times and lengths from its pseudo-header, not from the record",
    "pim_header_asan-2": "times of 2017, 1970 and 2049 in this order: capinfos gives the last for the first",
}
"""By a part of the file's name: why capinfos says otherwise."""

JUMP = 61 * SECOND
BASE = 1_700_000_000 * SECOND


def facts(path: Path, data: bytes, skew: int = SECOND, jump: int = JUMP) -> CaptureFacts:
    path.write_bytes(data)
    return inspect(path, jump, skew)


def test_counts_of_a_capture(tmp_path: Path) -> None:
    a, b = "10.0.0.1", "10.0.0.2"
    frames = [
        tcp(a, b, 1000, 80), tcp("2001:db8::1", "2001:db8::2", 1000, 80), udp(a, b, 53, 53), icmp(a, b),
        icmp("2001:db8::1", "2001:db8::2"), arp(), ip(a, b, 132, bytes(12)), ethernet(udp(a, b, 1, 2)[14:], vlans=[7]),
        ethernet(bytes(20), 0x88B5, vlans=[9]),
    ]  # fmt: skip
    records = [(BASE + index * SECOND, frame, 1500) for index, frame in enumerate(frames)]
    found = facts(tmp_path / "a.pcap", pcap_bytes(records, snaplen=96))
    (only,) = found.interfaces
    assert only.packets == 9 and only.truncated == 9
    assert only.wire == 9 * 1500 and only.captured == sum(min(len(frame), 96) for frame in frames)
    assert dict(only.protocols) == {"tcp": 2, "udp": 2, "icmp": 2, "arp": 1, "other": 2}
    assert dict(only.families) == {4: 5, 6: 2}
    assert dict(only.vlans) == {7: 1, 9: 1}
    assert only.duration == 8 * SECOND
    assert only.rate(only.packets) == 9 / 8
    assert only.summary is not None and only.summary.undecoded == 2
    assert found.accounted and found.malformed_bytes == 0


def undecoded(summary: InterfaceSummary) -> InterfaceSummary:
    """The summary before the records were decoded."""
    return replace(summary, undecoded=0, wire=0, types={})


@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(-5, 5), st.sampled_from([0, 0, 0, 90])), max_size=60), st.booleans())
def test_times_alone_are_those_of_decoded_packets(tmp_path: Path, steps: list[tuple[int, int]], cut: bool) -> None:
    """Records in any order, some of them with a time that is too far ahead, and a file that may be cut."""
    stamps = [BASE + (index + step + jump) * SECOND for index, (step, jump) in enumerate(steps)]
    data = pcap_bytes([(stamp, arp(), 60) for stamp in stamps])
    path = tmp_path / "a.pcap"
    decoded = facts(path, data[: -1 if cut and steps else None])
    times = inspect_times(path, JUMP, SECOND)
    assert [(one.packets, one.duration, one.malformed) for one in times.interfaces] == [
        (one.packets, one.duration, one.malformed) for one in decoded.interfaces
    ]
    for one, other in zip(times.interfaces, decoded.interfaces, strict=True):
        assert one.gaps.longest() == other.gaps.longest()
        assert (one.lateness.late, one.lateness.largest, one.lateness.refused, one.lateness.quantile(0.9)) == (
            other.lateness.late, other.lateness.largest, other.lateness.refused, other.lateness.quantile(0.9)
        )  # fmt: skip
        assert one.summary and other.summary and undecoded(one.summary) == undecoded(other.summary)
    assert times.accounted


@given(
    st.lists(st.integers(0, 1 << 62) | st.integers(0, 2000), min_size=1, max_size=300),
    st.integers(1, 40),
    st.integers(0, 1 << 61) | st.integers(0, 2000),
)
def test_lateness_keeps_its_error(values: list[int], piece: int, skew: int) -> None:
    found = lateness.Lateness(skew)
    for begin in range(0, len(values), piece):
        part = np.array(values[begin : begin + piece], np.int64)
        found.add(part, np.zeros_like(part))
    ordered = sorted(values)
    assert (found.records, found.largest) == (len(values), ordered[-1])
    assert found.late == sum(value > 0 for value in values)
    assert found.refused == sum(value > skew for value in values)
    for share in (0.01, 0.5, 0.9, 0.99, 0.999, 1.0):
        exact = ordered[max(int(np.ceil(share * len(values))), 1) - 1]
        got = found.quantile(share)
        assert got is not None and abs(got - exact) <= lateness.QUANTILE_ERROR * exact * (1 + 1e-6) + 0.5


@given(st.lists(st.integers(0, 50), min_size=1, max_size=200), st.integers(1, 30), st.integers(1, 8))
def test_gaps_are_the_longest(steps: list[int], piece: int, most: int) -> None:
    arrivals = np.cumsum(steps)
    found = lateness.Gaps(most)
    for begin in range(0, len(arrivals), piece):
        found.add(arrivals[begin : begin + piece])
    pairs = zip(arrivals.tolist(), np.diff(arrivals).tolist(), strict=False)
    silences = sorted((pair for pair in pairs if pair[1]), key=lambda pair: (-pair[1], pair[0]))
    assert list(found.longest()) == silences[:most]


def capinfos(paths: list[Path]) -> dict[str, dict[str, str]]:
    """What capinfos says of the captures that it reads, in one run."""
    command = ["capinfos", "-T", "-m", "-Q", "-S", "-c", "-d", "-s", "-a", "-e", "-o", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True)
    return {row["File name"]: row for row in csv.DictReader(done.stdout.splitlines())}


@pytest.mark.captures
def test_real_captures_equal_capinfos(captures_dir: Path) -> None:
    if shutil.which("capinfos") is None:
        pytest.skip("no capinfos on this machine")
    files = sorted(path for path in captures_dir.rglob("*") if path.is_file())
    theirs = capinfos(files)
    compared, wrong = 0, {}
    for path in files:
        try:
            found = inspect(path, 1 << 62, SECOND)
        except CaptureError:
            continue
        assert found.accounted, path
        told = theirs.get(str(path))
        (ours,), bad = (found.interfaces[:1], sum(found.interfaces[0].malformed.values()))
        if not told or bad or len(found.interfaces) > 1:
            continue
        compared += 1
        mine: dict[str, object] = {"Number of packets": str(ours.packets), "Data size (bytes)": str(ours.wire)}
        if ours.packets and ours.summary is not None and ours.summary.smallest is not None:
            mine["Strict time order"] = str(not ours.lateness.late)
            for name, value in (("Start time", ours.summary.smallest), ("End time", ours.summary.largest)):
                mine[name] = _like(told[name], value or 0)
        differing = {name: (told.get(name), value) for name, value in mine.items() if told.get(name) != value}
        if differing:
            wrong[path.name] = differing
    assert compared > 100
    unexplained = {name: told for name, told in wrong.items() if not any(part in name for part in DIFFERENCES)}
    assert unexplained == {}
    assert len(wrong) == len(DIFFERENCES)


def _like(text: str, value: int) -> str:
    """The instant in seconds with as many digits as a text has."""
    digits = len(text.partition(".")[2])
    return f"{value // SECOND}.{value % SECOND:09d}"[: len(str(value // SECOND)) + 1 + digits]
