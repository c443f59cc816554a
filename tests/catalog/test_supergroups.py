"""The states of the sampling operator by what their algorithms promise."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given, strategies as st

from lowwater.catalog.builtin.supergroups import BasicSampling, LossyCounting, SmartSampling

LENGTHS = st.lists(st.integers(1, 1500), max_size=200)


@given(LENGTHS, st.integers(1, 3000))
def test_subset_sums_are_right_but_for_one_threshold(lengths: list[int], z: int) -> None:
    state = BasicSampling()
    estimate = sum(max(length, z) for length in lengths if state.nssample(0, length, z))
    # What large packets weigh is exact; small ones are counted in steps of z.
    assert abs(estimate - sum(lengths)) <= 2 * z


@given(LENGTHS)
def test_a_smart_sample_at_a_fixed_threshold_is_a_basic_one(lengths: list[int]) -> None:
    smart, basic = SmartSampling(), BasicSampling()
    assert [smart.ssample(0, each, 10) for each in lengths] == [basic.nssample(0, each, 200) for each in lengths]
    assert smart.packet_count(0) == len(lengths) and smart.ssthreshold(0) == 200


def sampled(weights: list[int], size: int, state: SmartSampling) -> dict[int, int]:
    """Groups of one packet each, as the operator keeps them through cleanings and the end of the window."""
    kept: dict[int, int] = {}
    for number, weight in enumerate(weights):
        if state.ssample(len(kept), weight, size):
            kept[number] = weight
            if state.ssdo_clean(len(kept)):
                count = len(kept)
                kept = {n: w for n, w in kept.items() if state.ssclean_with(count, w)}
    state.finish(len(kept))
    count = len(kept)
    return {n: w for n, w in kept.items() if state.ssfinal_clean(count, w)}


def test_about_as_many_groups_as_wanted_estimate_the_sum() -> None:
    drawn = random.Random(4)
    for size in (50, 200):
        weights = [round(drawn.paretovariate(1.2) * 100) for _ in range(20_000)]
        state = SmartSampling()
        kept = sampled(weights, size, state)
        assert size / 2 <= len(kept) <= 2 * size
        assert state.do_clean_count(0) > 1
        estimate = sum(max(weight, state.ssthreshold(0)) for weight in kept.values())
        assert abs(estimate / sum(weights) - 1) < 0.25


def test_open_flows_stay_and_closed_ones_are_thinned_out() -> None:
    state = SmartSampling()
    assert all(state.flow_ssample(0, 2) for _ in range(5)) and state.packet_count(0) == 5
    assert not state.flow_ssdo_clean(5, 100)
    # Another second: flows are counted. One is open, ten are closed now.
    assert state.flow_ssdo_clean(5, 101)
    assert state.flow_ssclean_with(5, 0, 30, 101, 10)
    stays = [state.flow_ssclean_with(5, 1, 30, 101, 90) for _ in range(10)]
    # Below the threshold of 200 a flow stays when the units of those before it have added up to it.
    assert sum(stays) == 10 * 90 // 200 and state.closed == sum(stays)
    state.finish(11)
    assert [state.flow_ssfinal_clean(11, 0, 30, 101, 5000), state.newly_closed(0), state.delay(0)] == [True, 1, 30]


@given(st.lists(st.sampled_from("aaaabbcdefgh"), max_size=300), st.integers(1, 20))
def test_lossy_counting_keeps_every_heavy_value_and_undercounts_by_buckets(values: list[str], width: int) -> None:
    state, counts = LossyCounting(), dict[str, list[int]]()
    for value in values:
        state.next_row()
        counts.setdefault(value, [0, state.current_bucket(0)])[0] += 1
        if state.local_count(0, width):
            ended = state.current_bucket(0)
            counts = {v: pair for v, pair in counts.items() if pair[0] + pair[1] - 1 > ended}
    buckets = len(values) // width
    for value, count in Counter(values).items():
        found = counts.get(value, [0])[0]
        assert count - buckets <= found <= count
    assert LossyCounting().local_count(0, 0) is None
