"""When runs of intervals begin: by the clock, or only when somebody asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.timetables.interval import CronDataIntervalTimetable

if TYPE_CHECKING:
    from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction


class WhenAsked(CronDataIntervalTimetable):
    """Gives intervals to backfills and to runs that people trigger; the clock begins none.

    Airflow has no such timetable: those that its clock leaves alone have no intervals, and refuse backfills.
    """

    @property
    def summary(self) -> str:
        return "when asked"

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        """Returns the next interval of a range that is backfilled; for the clock, which catches nothing up, none."""
        if not restriction.catchup:
            return None
        return super().next_dagrun_info(
            last_automated_data_interval=last_automated_data_interval, restriction=restriction
        )


class DaysWhenAsked(WhenAsked):
    """Gives whole days (UTC) to backfills: that of each instant between the first and the last one."""

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        if restriction.earliest is not None:
            begin = restriction.earliest.in_timezone("UTC").start_of("day")
            restriction = restriction._replace(earliest=begin)
        return super().next_dagrun_info(
            last_automated_data_interval=last_automated_data_interval, restriction=restriction
        )
