"""Sampling and load shedding: the vectorised rule is the reference's, one packet at a time, and fair."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from lowwater.low.run import LoadCounter, PacketSampling, chances
from lowwater.plan.operators import Sample
from lowwater.stream import records as reference

WORD = st.integers(-(1 << 63), (1 << 63) - 1)
PACKETS = st.lists(st.tuples(st.integers(0, 5_000_000_000), st.integers(0, 1 << 31), WORD), min_size=1, max_size=60)
SAMPLES = st.none() | st.builds(Sample, st.floats(0.001, 1), st.integers(0, (1 << 63) - 1))


def columns(packets: list[reference.Packet]) -> tuple[np.ndarray, ...]:
    return tuple(np.array(column, np.int64) for column in zip(*packets, strict=True))


@given(PACKETS, SAMPLES, st.text(max_size=8), st.integers(1, 20), st.integers(1, 60))
def test_both_engines_take_the_same(
    packets: list[reference.Packet], sample: Sample | None, link: str, budget: int, cut: int
) -> None:
    load = LoadCounter(PacketSampling.of(sample, link), budget)
    for begin in range(0, len(packets), cut):
        load.add(*columns(packets[begin : begin + cut]))
    found, rates = load.thinning().take(*columns(packets))
    other = reference.PacketSampling.of(sample, link, budget, packets)
    assert [other.outcome(packet)[1] for packet in packets] == rates.tolist()
    assert [reference.chance(other.key, packet) for packet in packets] == found.tolist()
    kept = [other.outcome(packet)[0] == reference.KEPT for packet in packets]
    assert kept == (found < rates).tolist()


@pytest.mark.parametrize("rate", [0.01, 0.3, 0.9])
def test_a_share_is_taken(rate: float) -> None:
    count = 100_000
    stamps = np.arange(count) * 1_000_000
    for seed in range(5):
        taken = chances(PacketSampling.of(Sample(rate, seed), "a").key, stamps, stamps % 1500, stamps * 0) < rate
        spread = (count * rate * (1 - rate)) ** 0.5
        assert abs(int(taken.sum()) - count * rate) < 5 * spread
        # No pattern from one packet to the next.
        assert abs(int((taken[1:] & taken[:-1]).sum()) - count * rate**2) < 5 * (count * rate**2) ** 0.5


def test_seeds_and_links_take_other_packets_and_words_all_count() -> None:
    stamps = np.arange(10_000) * 1000
    zero = np.zeros_like(stamps)
    keys = [PacketSampling.of(Sample(0.5, seed), link).key for seed, link in ((0, "a"), (1, "a"), (0, "b"))]
    first, *others = [chances(key, stamps, zero, zero) for key in keys]
    others += [chances(keys[0], *words) for words in ((stamps + 1, zero, zero), (stamps, zero + 1, zero))]
    others.append(chances(keys[0], stamps, zero, zero + 1))
    for other in others:
        assert 4700 < int(((first < 0.5) == (other < 0.5)).sum()) < 5300


def test_a_budget_is_kept_second_by_second() -> None:
    stamps = np.concatenate([np.arange(50) * 20_000_000, 1_000_000_000 + np.arange(4000) * 250_000])
    zero = np.zeros_like(stamps)
    load = LoadCounter(PacketSampling.of(None, "a"), 400)
    load.add(stamps, zero, zero)
    thinning = load.thinning()
    assert (thinning.seconds, thinning.shares) == ((1,), (0.1,))
    found, rates = thinning.take(stamps, zero, zero)
    taken = found < rates
    assert taken[:50].all()
    assert 300 < int(taken[50:].sum()) < 500
