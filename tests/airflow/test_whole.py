"""Whole days of published intervals: the keys are those that Airflow expects, and what is not done is named."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lowwater.errors import AwayError, ConfigError
from lowwater.instants import HOUR
from lowwater.replay.job import Job
from lowwater.replay.schedule.days import whole_range
from tests.review.ledgers import START, make

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]


def test_keys_of_24_hours_are_those_that_airflow_waits_for(plugins: None) -> None:
    """Both ways: Airflow's own roll-up of a day, and the schedule of this package."""
    from airflow.partition_mappers.base import RollupMapper
    from airflow.partition_mappers.temporal import StartOfDayMapper, StartOfMonthMapper, StartOfWeekMapper
    from airflow.partition_mappers.window import DayWindow

    from lowwater_airflow.whole import bounds, each, partition_key, whole

    keys = {partition_key(START + at * HOUR) for at in range(24)}
    assert RollupMapper(upstream_mapper=StartOfDayMapper(), window=DayWindow()).to_upstream("2025-01-01") == keys
    for mapper, period, days in (
        (StartOfDayMapper, "day", 1),
        (StartOfWeekMapper, "week", 7),
        (StartOfMonthMapper, "month", 31),
    ):
        (key,) = {mapper().to_downstream(each_key) for each_key in keys}
        begin = mapper().to_partition_date(key)
        assert begin is not None
        first, end = bounds(begin, period)
        assert first <= START < end and end - first == days * 24 * HOUR
    timetable = each("q")
    assert timetable.asset_condition == whole("q")
    assert bounds(datetime(2024, 2, 1, tzinfo=UTC), "month")[1] - bounds(datetime(2024, 2, 1, tzinfo=UTC), "month")[
        0
    ] == (29 * 24 * HOUR)


def test_a_day_is_waited_for_where_its_store_is_away(
    plugins: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other event may come for it."""
    from airflow.sdk.exceptions import TaskDeferred

    from lowwater_airflow.whole import WholePeriod

    def away(*_: object) -> None:
        raise AwayError("the store gives no answer")

    monkeypatch.setenv("LOWWATER_LAKE", str(tmp_path))
    monkeypatch.setattr(Job, "open", away)
    context: Any = {"partition_date": datetime(2026, 1, 1, tzinfo=UTC)}
    with pytest.raises(TaskDeferred) as waits:
        WholePeriod(task_id="whole", query_set="q").execute(context)
    assert waits.value.kwargs["pauses"] == 1


def test_what_is_not_done_is_named(tmp_path: Path) -> None:
    """Of eight hours one failed and one never ran; a changed skew makes the others stale."""
    root, queries = make(tmp_path, 8, frozenset({5}), frozenset())
    found = whole_range(Job.open(root, "q", queries), START, START + 8 * HOUR)
    assert [(at, state) for at, state, _ in found.lacking] == [
        (START + 5 * HOUR, "failed"),
        (START + 7 * HOUR, "missing"),
    ]
    assert found.versions == {"flows": 1}
    assert whole_range(Job.open(root, "q", queries), START, START + 5 * HOUR).lacking == ()
    settings = (root / "lowwater.toml").read_text().replace("[links.main1]\n", '[links.main1]\nskew = "7s"\n')
    (root / "lowwater.toml").write_text(settings)
    stale = whole_range(Job.open(root, "q", queries), START, START + 2 * HOUR)
    assert [state for _, state, _ in stale.lacking] == ["stale", "stale"]
    with pytest.raises(ConfigError, match="whole intervals"):
        whole_range(Job.open(root, "q", queries), START, START + HOUR // 2)
