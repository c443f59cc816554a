"""Which timestamps are time jumps (SEMANTICS T3), for every shape of a clock that is set or strays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from lowwater.capture.inspect import inspect
from lowwater.capture.records.sanity import Judge
from lowwater.instants import SECOND
from tests import capturemaker as maker
from tests.breadth import examples
from tests.capture.clocks import leads, recorded

JUMP = 61
BEGIN = 1_767_225_600
YEARS = 10 * 366 * 86_400


def jumps(stamps: list[float]) -> list[int]:
    """Judges times (s) at once, and in pieces, which is the same."""
    times = [round(stamp * SECOND) for stamp in stamps]
    (_, whole), (_, parts) = (judged(times, JUMP * SECOND, piece) for piece in (len(times), 7))
    assert parts == whole
    return np.flatnonzero(whole).tolist()


def judged(stamps: list[int], jump: int, piece: int) -> tuple[Judge, list[bool]]:
    """A judge that was given times (ns) in pieces, and its verdicts."""
    judge, verdicts, waiting = Judge(jump), list[bool](), np.empty(0, np.int64)
    for begin in range(0, len(stamps), piece):
        waiting = np.concatenate([waiting, np.array(stamps[begin : begin + piece], np.int64)])
        settled = judge.settle(waiting, begin + piece >= len(stamps))
        verdicts += settled.tolist()
        waiting = waiting[len(settled) :]
    return judge, verdicts


def steady(gap: float, count: int = 120, sets: dict[int, float] | None = None) -> list[float]:
    return recorded([gap] * (count - 1), sets or {}, BEGIN)


def with_strays(stamps: list[float], at: int, strays: list[float]) -> list[float]:
    return [*stamps[:at], *strays, *stamps[at:]]


@pytest.mark.parametrize(
    ("gap", "step", "late", "most"),
    [(10, 300, 29, 290), (30, 300, 9, 270), (1, 300, 180, 299), (10, 3600, 180, 3590), (60, 3600, 59, 3540)],
)
def test_good_packets_before_a_step_back_stay_good(tmp_path: Path, gap: int, step: int, late: int, most: int) -> None:
    stamps = steady(gap, 360, {180: -step})
    path = tmp_path / "one.pcap"
    path.write_bytes(maker.pcap_bytes((int(stamp) * SECOND, maker.arp()) for stamp in stamps))
    (facts,) = inspect(path, JUMP * SECOND, SECOND).interfaces
    assert not facts.malformed
    assert (facts.packets, facts.lateness.refused, facts.lateness.largest) == (360, late, most * SECOND)


@pytest.mark.parametrize("before", [0.01, 1, 10, 45, 61, 70, 300, 3600])
@pytest.mark.parametrize("after", [0.01, 1, 10, 100, 3600])
def test_a_step_of_any_size_between_any_gaps_is_no_jump(before: float, after: float) -> None:
    for step in [62, 90, 130, 250, 299, 777, 3600, 40_000, YEARS, *(before * many for many in (2, 5, 16, 17, 40))]:
        for sign in (-1, 1):
            stamps = recorded([before] * 60 + [after] * 59, {60: sign * step}, BEGIN)
            assert jumps(stamps) == [], (step, sign)


@pytest.mark.parametrize("gap", [0.001, 1, 30])
@pytest.mark.parametrize("size", [1, 2, 8, 15, 16])
def test_up_to_sixteen_strayed_records_are_jumps(gap: float, size: int) -> None:
    for at in (20, 60, 100):
        for lead in (16 * 4 * gap + JUMP + 1, 86_400, YEARS):
            strays = [BEGIN + 120 * gap + lead + gap * number for number in range(size)]
            assert jumps(with_strays(steady(gap), at, strays)) == list(range(at, at + size)), (at, lead)


def test_seventeen_strayed_records_are_a_clock() -> None:
    assert jumps(with_strays(steady(1), 60, [BEGIN + YEARS + number for number in range(17)])) == []


sets = st.dictionaries(st.integers(0, 80), st.integers(-5000, 5000) | st.integers(-(10**8), 10**8), max_size=6)
gap_lists = st.lists(st.integers(0, 3) | st.integers(0, 5000), min_size=1, max_size=80)
worlds = st.builds(
    lambda gaps, changes, strays: [
        strays.get(number, max(int(stamp), 0)) for number, stamp in enumerate(recorded(gaps, changes, 10**6))
    ],
    gap_lists,
    sets,
    st.dictionaries(st.integers(0, 80), st.sampled_from([0, 10**6, 1 << 40]) | st.integers(0, 1 << 32), max_size=12),
)


@pytest.mark.slow
@settings(max_examples=examples(300))
@given(worlds, st.integers(0, 3000), st.integers(1, 90))
def test_jumps_and_leads_are_those_of_the_rule(stamps: list[int], jump: int, piece: int) -> None:
    judge, verdicts = judged(stamps, jump, piece)
    expected = leads(stamps)
    assert verdicts == [lead > jump for lead in expected]
    assert judge.largest_ahead == max((lead for lead in expected if lead <= jump), default=0)
    assert judge.smallest_jump == min((lead for lead in expected if lead > jump), default=None)
    # Any other max_jump between the two marks the same records, and states the same two.
    for other in {judge.largest_ahead, (judge.smallest_jump or 1 << 60) - 1}:
        again, same = judged(stamps, other, len(stamps) or 1)
        assert same == verdicts
        assert (again.largest_ahead, again.smallest_jump) == (judge.largest_ahead, judge.smallest_jump)
