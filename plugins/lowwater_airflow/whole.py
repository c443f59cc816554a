"""For DAGs of your own that read whole days, weeks or months of published tables.

`replay_<query set>` adds an event to the asset `whole(<query set>)` for each interval that it publishes as `done`. The
begin of the interval is the partition key. `each(<query set>, "day")` is a schedule with a run for a day whenever one
of its intervals was published; `WholePeriod` is its first task, and skips the rest until all of them are done.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from airflow.sdk import (
    Asset,
    Context,
    PartitionedAssetTimetable,
    StartOfDayMapper,
    StartOfMonthMapper,
    StartOfWeekMapper,
)
from airflow.sdk.exceptions import AirflowSkipException

from lowwater.errors import ConfigError
from lowwater.instants import SECOND, spoken_instant
from lowwater_airflow.retries import Patient

Period = Literal["day", "week", "month"]
KEY_FORMAT = "%Y-%m-%dT%H:%M:%S"
"""Form of a partition key, which Airflow's mappers read without being told."""
MAPPERS = {"day": StartOfDayMapper, "week": StartOfWeekMapper, "month": StartOfMonthMapper}
NAMED = 5
"""Most intervals that a skipped task names."""


def whole(query_set: str) -> Asset:
    """The asset whose events are the intervals that a query set has published whole."""
    return Asset(name=f"whole intervals of {query_set}", uri=f"lowwater://whole/{query_set}", group="lowwater")


def partition_key(start: int) -> str:
    """The partition key of the interval that begins at an instant, ns.

    Example:
        >>> partition_key(3600 * 10**9)
        '1970-01-01T01:00:00'
    """
    return datetime.fromtimestamp(start // SECOND, UTC).strftime(KEY_FORMAT)


def each(query_set: str, period: Period = "day") -> PartitionedAssetTimetable:
    """A schedule with a run for the period (UTC) of each interval that is published whole, and once more when it is
    published again."""
    return PartitionedAssetTimetable(assets=whole(query_set), default_partition_mapper=MAPPERS[period]())


def bounds(begin: datetime, period: Period) -> tuple[int, int]:
    """First instant and end of the period that begins at a moment, ns since the epoch.

    Example:
        >>> bounds(datetime(2026, 2, 1, tzinfo=UTC), "month")[1] == datetime(2026, 3, 1, tzinfo=UTC).timestamp() * 1e9
        True
    """
    day = begin.astimezone(UTC)
    if period == "month":
        end = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
    else:
        end = day + timedelta(days=1 if period == "day" else 7)
    return round(day.timestamp()) * SECOND, round(end.timestamp()) * SECOND


class WholePeriod(Patient):
    """Skips the tasks behind it unless every interval of the run's period is published whole.

    It asks the ledgers of the lake, not the events: an interval that became stale or was published incomplete since its
    event does not count. It waits for a store that is away: no other event may come for the period.

    Args:
        period: length of the run's partition, as given to `each`.
    """

    def __init__(self, *, query_set: str, period: Period = "day", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.query_set = query_set
        self.period: Period = period

    def execute(self, context: Context) -> dict[str, Any]:
        """Returns the bounds of the period, and the versions of the tables, with which readers see one state of it."""
        with self.waiting(context):
            return self._found(context)

    def _found(self, context: Context) -> dict[str, Any]:
        # Imported only here: DAG files of others are parsed often.
        from lowwater.replay.job import Job
        from lowwater.replay.schedule.days import whole_range
        from lowwater_airflow.settings import Settings

        begin = context.get("partition_date")
        if begin is None:
            raise ConfigError(
                "this run has no partition", "schedule the DAG by `each`, or trigger it with a partition key"
            )
        start, end = bounds(begin, self.period)
        settings = Settings.load()
        found = whole_range(Job.open(settings.lake, self.query_set, settings.queries), start, end)
        if found.lacking:
            named = "; ".join(f"{spoken_instant(at)} is {state}" for at, state, _ in found.lacking[:NAMED])
            more = len(found.lacking) - NAMED
            raise AirflowSkipException(f"not whole yet: {named}{f'; {more} more' if more > 0 else ''}")
        return {"start": start, "end": end, "versions": found.versions}
