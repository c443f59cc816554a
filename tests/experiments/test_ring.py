"""The ring buffer's model beside a simulation of every packet."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.ring import Work, busy, fastest, fullest, loses

STEPS = st.lists(st.tuples(st.integers(1, 9), st.floats(0.001, 5)), min_size=1, max_size=30)


def work(steps: list[tuple[int, float]]) -> Work:
    return Work(np.array([packets for packets, _ in steps]), np.array([seconds for _, seconds in steps]))


@given(STEPS, st.floats(0.05, 50))
def test_the_fullest_buffer_is_that_of_a_simulation(steps: list[tuple[int, float]], rate: float) -> None:
    finish, served, most = 0.0, 0, 0.0
    for packets, seconds in steps:
        finish = max(finish, (served + packets) / rate) + seconds
        most = max(most, rate * finish - served)
        served += packets
    assert fullest(work(steps), rate) == pytest.approx(most)


@given(STEPS, st.integers(1, 100))
def test_the_fastest_link_loses_nothing_and_a_faster_one_does(steps: list[tuple[int, float]], capacity: int) -> None:
    given_work = work(steps)
    rate = fastest(given_work, capacity)
    assert rate <= given_work.rate
    if rate:
        assert not loses(given_work, rate, capacity)
        assert 0 < busy(given_work, rate) <= 1
    if 0 < rate < given_work.rate:
        assert loses(given_work, min(given_work.rate, rate * 1.01), capacity)


def test_one_long_step_needs_room_for_what_arrives_in_it() -> None:
    steps = [(1, 0.001)] * 1000 + [(1, 1.0)] + [(1, 0.001)] * 5000
    # In the second of the long step 500 packets arrive at 500 packets/s.
    assert not loses(work(steps), 495, 500)
    assert loses(work(steps), 600, 500)
