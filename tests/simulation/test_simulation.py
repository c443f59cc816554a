"""Schedules of the simulated world in which the real leases, commits, joins and publications run."""

from __future__ import annotations

import pytest

from tests.breadth import examples
from tests.simulation.lake import Old, schedule
from tests.simulation.world import Violation

STORIES: dict[str, tuple[Old, range | tuple[int, ...], bool]] = {
    "Delta tries a commit again on a newer version: two joins of the same files both commit": (
        Old(retries=True),
        range(8),
        False,
    ),
    "a lease that was taken over wrote its number nowhere where both had the same range: what the next ingest had"
    " cleaned away was committed after that": (Old(unfenced=True), (59,), False),
    "a maintenance whose clock is a month ahead removes what a run has not committed yet": (
        Old(clock=True),
        (43, 85),
        False,
    ),
}
"""Faults of before, seeds that find them, and whether with pins."""


SEEDS = {
    (
        1003468,
        False,
    ): "an ingest that took a lease over failed before it had written its number, and gave the lease up: the"
    " next one wrote none",
    (
        1051246,
        False,
    ): "a commit was on its way when the look at the newest version failed: the lease was given up, the next"
    " ingest cleaned the file away, and then the commit came",
}
"""Seeds that failed once, whether with pins, and what they found."""


@pytest.mark.slow
def test_schedules_leave_the_lake_as_it_has_to_be() -> None:
    for seed in range(examples(200)):
        schedule(seed)


@pytest.mark.parametrize("story", STORIES)
def test_faults_of_before_are_found(story: str) -> None:
    old, seeds, pins = STORIES[story]
    with pytest.raises(Violation):
        for seed in seeds:
            schedule(seed, old, pins=pins)


@pytest.mark.parametrize(("seed", "pins"), SEEDS)
def test_seeds_that_failed_once(seed: int, pins: bool) -> None:
    schedule(seed, pins=pins)


def test_a_seed_is_one_schedule() -> None:
    assert schedule(5, story=True) == schedule(5, story=True) != schedule(6, story=True)
