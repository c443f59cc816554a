"""Which timestamps are time jumps (SEMANTICS T3), for every shape of a clock that is set or strays."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowwater.capture import read
from lowwater.capture.inspect import inspect
from lowwater.capture.records.sanity import Judge
from lowwater.instants import SECOND
from tests import capturemaker as maker
from tests.breadth import examples
from tests.capture.clocks import leads, recorded

JUMP = 61
BEGIN = 1_767_225_600
YEARS = 10 * 366 * 86_400


def jumps(stamps: list[float], jump: float = JUMP) -> list[int]:
    """Judges times (s) at once."""
    judge = Judge(int(jump * SECOND))
    marked = judge.settle(np.array([round(stamp * SECOND) for stamp in stamps], np.int64), final=True)
    return np.flatnonzero(marked).tolist()


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


def bursts(chance: Random, gap: float, size: int) -> list[float]:
    return [chance.uniform(0, 0.1) if number % size else gap for number in range(119)]


@pytest.mark.parametrize("seed", range(8))
def test_steps_of_irregular_traffic_are_no_jumps(seed: int) -> None:
    chance = Random(seed)
    for gap in (5, 60, 600, 3600):
        shapes = [
            [chance.expovariate(1 / gap) for _ in range(119)],
            [gap * chance.uniform(0.5, 1.5) for _ in range(119)],
            *(bursts(chance, gap, size) for size in (2, 5, 8, 12, 16, 20)),
        ]
        for gaps in shapes:
            step = 10 ** chance.uniform(1.5, 5.5)
            assert jumps(recorded(gaps, {chance.randrange(40, 80): -step}, BEGIN)) == [], (gap, step)


def test_records_in_order_are_never_jumps() -> None:
    chance = Random(7)
    gaps = [10 ** chance.uniform(-6, 8) for _ in range(500)]
    assert jumps(recorded(gaps, {}), jump=0) == []


@pytest.mark.parametrize("gap", [0.001, 1, 30])
@pytest.mark.parametrize("size", [1, 2, 8, 15, 16])
def test_up_to_sixteen_strayed_records_are_jumps(gap: float, size: int) -> None:
    for at in (20, 60, 100):
        for lead in (16 * 4 * gap + JUMP + 1, 86_400, YEARS):
            strays = [BEGIN + 120 * gap + lead + gap * number for number in range(size)]
            assert jumps(with_strays(steady(gap), at, strays)) == list(range(at, at + size)), (at, lead)


def test_seventeen_strayed_records_are_a_clock() -> None:
    assert jumps(with_strays(steady(1), 60, [BEGIN + YEARS + number for number in range(17)])) == []


@pytest.mark.parametrize("seed", range(8))
def test_garbage_on_both_sides_is_a_jump_where_it_is_ahead(seed: int) -> None:
    chance = Random(seed)
    garbage = [float(chance.randrange(1 << 32)) for _ in range(chance.randrange(1, 17))]
    stamps = with_strays(steady(1), 60, garbage)
    ahead = [60 + number for number, stamp in enumerate(garbage) if stamp > BEGIN + 200]
    assert jumps(stamps) == ahead


@pytest.mark.parametrize("bit", range(9, 31))
def test_a_bit_that_flips_to_one_is_a_jump(bit: int) -> None:
    stamps = steady(1)
    if int(stamps[60]) >> bit & 1:
        stamps = [stamp - (1 << bit) for stamp in stamps]
    stamps[60] += 1 << bit
    assert jumps(stamps) == [60]


def test_a_stray_beside_a_step_and_a_stray_beside_zeros() -> None:
    stamps = steady(1, sets={60: -300})
    assert jumps(with_strays(stamps, 40, [BEGIN + YEARS])) == [40]
    assert jumps(with_strays(stamps, 80, [BEGIN + YEARS])) == [80]
    assert jumps(with_strays(with_strays(stamps, 40, [BEGIN + YEARS]), 42, [0.0] * 4)) == [40]


def test_a_lead_below_the_usual_pauses_is_no_jump() -> None:
    stamps = steady(600)
    assert jumps(with_strays(stamps, 60, [stamps[59] + 4 * 600])) == []
    assert jumps(with_strays(stamps, 60, [stamps[59] + 6 * 600])) == [60]


@pytest.mark.parametrize("count", [1, 2, 5, 15, 16, 17, 40])
@pytest.mark.parametrize("gap", [0.01, 10, 70, 600])
def test_zeros_move_nothing_wherever_they_stand(count: int, gap: float) -> None:
    for at in (0, 60, 120):
        assert jumps(with_strays(steady(gap), at, [0.0] * count)) == []


def test_clocks_that_are_set_forward_restart_drift_or_leap() -> None:
    boot = [5.0 + number for number in range(20)] + steady(60, 50)
    assert jumps(boot) == []
    for early in (1, 2, 3, 16, 17):
        assert jumps(boot[20 - early :]) == [] and jumps(boot[: 20 + early]) == []
    restart = steady(10) + [stamp - 40 * 365 * 86_400 for stamp in steady(10)]
    assert jumps(restart) == []
    assert jumps([stamp * (1 + 1e-4 * number) for number, stamp in enumerate(range(400))]) == []
    assert jumps(steady(0.25, sets={60: -1}), jump=0) == []


def test_a_clock_that_makes_up_half_of_the_records_is_believed() -> None:
    two = [stamp + 3600 * (number % 2) for number, stamp in enumerate(steady(10))]
    assert jumps(two) == list(range(1, 16, 2))  # near the first record, one of two is the stray
    third = [stamp + 3600 * (number % 3 == 0) for number, stamp in enumerate(steady(10))]
    assert jumps(third) == list(range(3, 119, 3))


def test_the_first_and_the_last_record_are_believed() -> None:
    assert jumps([BEGIN + YEARS]) == []
    assert jumps([BEGIN + YEARS, BEGIN]) == jumps([BEGIN, BEGIN + YEARS]) == []
    assert jumps([BEGIN, BEGIN + YEARS, BEGIN + 1]) == [1]
    assert jumps([BEGIN + YEARS, *steady(1)]) == jumps([*steady(1), BEGIN + YEARS]) == []


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
    judge, verdicts, waiting = Judge(jump), [], np.empty(0, np.int64)
    for begin in range(0, len(stamps), piece):
        waiting = np.concatenate([waiting, np.array(stamps[begin : begin + piece], np.int64)])
        settled = judge.settle(waiting, begin + piece >= len(stamps))
        verdicts += settled.tolist()
        waiting = waiting[len(settled) :]
    expected = leads(stamps)
    assert verdicts == [lead > jump for lead in expected]
    assert judge.largest_ahead == max((lead for lead in expected if lead <= jump), default=0)
    assert judge.smallest_jump == min((lead for lead in expected if lead > jump), default=None)
    # Any other max_jump between the two marks the same records, and states the same two.
    for other in {judge.largest_ahead, (judge.smallest_jump or 1 << 60) - 1}:
        again = Judge(other)
        assert again.settle(np.array(stamps, np.int64), final=True).tolist() == verdicts
        assert (again.largest_ahead, again.smallest_jump) == (judge.largest_ahead, judge.smallest_jump)


@settings(max_examples=examples(100))
@given(worlds, st.integers(0, 120))
def test_a_jump_is_decided_by_the_records_around_it(stamps: list[int], index: int) -> None:
    if index < len(stamps):
        begin = max(index - 32, 0)
        near = stamps[begin : index + 17]
        assert leads(stamps)[index] == leads(near)[index - begin]


@pytest.mark.parametrize("chunk", [64, 1000, 1 << 20])
def test_a_step_at_the_bound_of_a_chunk_is_a_step(tmp_path: Path, chunk: int) -> None:
    path = tmp_path / "one.pcap"
    stamps = with_strays(steady(10, 360, {180: -300}), 300, [BEGIN + YEARS])
    path.write_bytes(maker.pcap_bytes((int(stamp) * SECOND, maker.arp()) for stamp in stamps))
    reader = read(path, JUMP * SECOND, chunk_bytes=chunk)
    assert sum(batch.num_rows for batch in reader) == 360
    assert [(bad.position, bad.reason) for bad in reader.malformed] == [(300, "time-jump")]
