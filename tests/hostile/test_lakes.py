"""What happens to a lake must not show in its tables: any order of captures, late ones, other skews, kills."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.hostile.lakes import HostileLake
from tests.hostile.traffic import SECOND, make_world

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def _lake(seed: int, folder: Path, interval: int = 0) -> HostileLake:
    """The lake of a world; with intervals of `interval` seconds, or of a length of chance for 0."""
    world = make_world(seed, folder / "captures")
    return HostileLake(folder / "lake", world, interval or random.Random(seed).choice((20, 30, 45))).open(seed)


def test_a_late_capture_makes_only_what_is_stale(tmp_path: Path) -> None:
    lake = _lake(2, tmp_path, 60)
    late = lake.captures()[0]
    lake.links = {late[0]: ['policy = "exclude"']}
    lake.write_settings()
    for link, number in lake.captures()[1:]:
        lake.ingest(link, number)
    lake.backfill()
    assert lake.differences()
    lake.ingest(*late)
    lake.backfill("--only=stale")
    lake.backfill("--only=missing")
    assert not lake.differences()


@pytest.mark.nightly
def test_a_skew_changed_and_changed_back(tmp_path: Path) -> None:
    lake = _lake(9, tmp_path, 60)
    for capture in lake.captures():
        lake.ingest(*capture)
    lake.backfill()
    before = {name: lake.table(name) for name in lake.cases}
    assert not lake.differences()
    skews = dict(lake.world.skews)
    lake.world.skews = dict.fromkeys(skews, 10 * SECOND)
    lake.write_settings()
    lake.backfill()
    assert not lake.differences() and {name: lake.table(name) for name in lake.cases} != before
    lake.world.skews = skews
    lake.write_settings()
    lake.backfill()
    assert not lake.differences() and {name: lake.table(name) for name in lake.cases} == before


@pytest.mark.parametrize("seed", (5,))
def test_kills_at_random_instants(seed: int, tmp_path: Path) -> None:
    """Not between stages: at instants of the clock, so inside low, high, audit or publish as it comes."""
    lake, rng = _lake(seed, tmp_path), random.Random(seed)
    for capture in lake.captures():
        lake.ingest(*capture)
    for _ in range(4):
        if lake.killed_backfill(rng.uniform(1, 9)) is not None:
            break
    lake.backfill()
    assert not lake.differences() and lake.rows()
