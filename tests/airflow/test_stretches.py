"""A backfill of Airflow has a run for each interval, so it ends before a stretch in which nothing is recorded (I3)."""

from __future__ import annotations

import pytest

from lowwater.instants import HOUR
from lowwater.replay.schedule.due import Due

WORK = ((0, 1), (1, 2), (2, 500_000), (500_000, 500_001), (500_001, 500_002))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "order", "bounds"),
    [
        (WORK, "oldest", ("1970-01-01T00:00:00Z", "1970-01-01T01:00:00Z")),
        (WORK, "newest", ("2027-01-15T08:00:00Z", "2027-01-15T09:00:00Z")),
        (WORK[2:], "oldest", ("2027-01-15T08:00:00Z", "2027-01-15T09:00:00Z")),
    ],
)
def test_no_backfill_has_a_run_of_each_interval_of_a_stretch(
    work: tuple[tuple[int, int], ...], order: str, bounds: tuple[str, str]
) -> None:
    from lowwater_review import Act

    from lowwater_airflow import acts

    due = tuple(
        Due("q", begin * HOUR, end * HOUR, "missing", ("never run",), ("q",), 0, None, intervals=end - begin)
        for begin, end in work
    )
    span = due[0].start, due[-1].end
    act = Act("backfill", "q", "", (), due, "lowwater backfill", {"order": order}, ("q",), span, "", None, "")
    body = acts._backfill_body(act)
    assert (body["from_date"], body["to_date"]) == bounds and body["run_backwards"] == (order == "newest")
