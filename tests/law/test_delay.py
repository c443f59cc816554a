"""`delay` of links moves promises: every row is the same, and comes later by at most as much."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lowwater.config import Config
from lowwater.low import Policy
from tests.law.compare import PROCESS, REFERENCE, rows_of, ticks_of
from tests.law.record_cases import RecordCase, evaluated, record_case
from tests.law.records import RecordWorld
from tests.law.settings import SECOND

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

DELAY = 7 * SECOND


def _delayed(world: RecordWorld) -> Config:
    plain = CONFIG.fget(world)
    links = {name: link.model_copy(update={"delay": DELAY}) for name, link in plain.links.items()}
    return plain.model_copy(update={"links": links})


CONFIG: property = RecordWorld.config  # type: ignore[assignment]


def _periodic(seed: int) -> RecordCase:
    case = record_case(seed)
    own = {"policy": str(Policy.PERIODIC), "period": SECOND, "pace": (SECOND, 1), "flush": "immediate"}
    return replace(case, choice=replace(case.choice, interval=None, long=None, **own))


def _later(case: RecordCase, engine: str, patch: pytest.MonkeyPatch, runner: Runner | None = None) -> int:
    plain = evaluated(case, engine, runner)
    with patch.context() as patched:
        patched.setattr(RecordWorld, "config", property(_delayed))
        delayed = evaluated(case, engine, runner)
    later = 0
    for asked in case.asked:
        assert rows_of(delayed, asked.name, "_last") == rows_of(plain, asked.name, "_last")
        ours, theirs = ticks_of(delayed, asked.name), ticks_of(plain, asked.name)
        for row, ticks in theirs.items():
            for own, other in zip(sorted(ours[row]), sorted(ticks), strict=True):
                assert other <= own <= other + DELAY + SECOND, f"{asked.text}: {row} at {own}, without delay at {other}"
                later += own > other
    return later


@pytest.mark.slow
def test_rows_of_the_reference_engine_come_later_and_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sum(_later(_periodic(seed), REFERENCE, monkeypatch) for seed in range(0, 40, 5)) > 50


@pytest.mark.slow
def test_rows_of_the_process_come_later_and_are_the_same(monkeypatch: pytest.MonkeyPatch, runner: Runner) -> None:
    assert sum(_later(_periodic(seed), PROCESS, monkeypatch, runner) for seed in (5, 10, 15)) > 10
