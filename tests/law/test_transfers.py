"""Transfers between accounts: every published total is zero, whatever the intervals, heartbeats, order and skew."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from lowwater.low import Policy
from scripts.transfers import DISORDER, MS, SECOND, Way, exact, judged, lake_of, transfers, write

if TYPE_CHECKING:
    from lowwater.high.runner import Runner


def _way(random: Random, engine: str) -> Way:
    interval = random.choice((None, random.randint(SECOND, 90 * SECOND)))
    period = random.choice((50 * MS, SECOND, 30 * SECOND))
    order = random.choice((None, 7))
    # A smaller bound refuses late transfers: those are refused in every query alike.
    return Way(engine, interval, period, random.choice(list(Policy)), order, random.choice((DISORDER, 4 * SECOND, 0)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_every_total_of_the_reference_engine_is_zero(tmp_path: Path, kind: str) -> None:
    random, table = Random(f"transfers {kind}"), transfers(400, 3)
    write(table, tmp_path / f"transfers.{kind}")
    with lake_of(tmp_path / f"transfers.{kind}", kind) as made:
        for _ in range(4):
            way = _way(random, "reference")
            verdict = judged(made, kind, way, exact(table, way.skew))
            assert verdict.consistent and verdict.totals, f"{way}: {verdict}"
        assert not judged(made, kind, Way("reference"), exact(table.slice(1))).consistent


@pytest.mark.slow
def test_every_total_of_the_process_is_zero(tmp_path: Path, runner: Runner) -> None:
    random, table = Random("transfers"), transfers(3000, 4)
    write(table, tmp_path / "transfers.csv")
    with lake_of(tmp_path / "transfers.csv", "csv") as made:
        for _ in range(3):
            way = _way(random, "process")
            verdict = judged(made, "csv", way, exact(table, way.skew), runner)
            assert verdict.consistent and verdict.totals, f"{way}: {verdict}"
