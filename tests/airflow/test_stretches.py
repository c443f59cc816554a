"""What the pages ask of Airflow's backfill: days of intervals; where an interval has a run, it ends before a stretch in
which nothing is recorded (I3).
"""

from __future__ import annotations

from typing import Any

import pytest

from lowwater.instants import HOUR
from lowwater.replay.schedule.due import Due

WORK = ((0, 1), (1, 2), (2, 500_000), (500_000, 500_001), (500_001, 500_002))


def asked(work: tuple[tuple[int, int], ...], fields: dict[str, str]) -> Any:
    """A backfill of the pages, of intervals in hours."""
    from lowwater_review import Act

    due = tuple(
        Due("q", begin * HOUR, end * HOUR, "missing", ("never run",), ("q",), 0, None, intervals=end - begin)
        for begin, end in work
    )
    span = due[0].start, due[-1].end
    return Act("backfill", "q", "", (), due, "lowwater backfill", fields, ("q",), span, "", None, "")


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
    from lowwater_airflow import acts

    body = acts._backfill_body(asked(work, {"order": order}), "replay_q")
    assert (body["from_date"], body["to_date"]) == bounds and body["run_backwards"] == (order == "newest")


@pytest.mark.slow
def test_days_run_what_is_due_of_the_time_that_is_asked_for() -> None:
    """A stretch is one of the intervals of its days, so a backfill of days does not end before it."""
    from lowwater_airflow import acts

    act = asked(WORK, {"only": "stale"})
    body = acts._backfill_body(act, "backfill_q")
    assert (body["dag_id"], body["from_date"], body["to_date"]) == (
        "backfill_q", "1970-01-01T00:00:00Z", "2027-01-15T09:00:00Z",
    )  # fmt: skip
    span = {"from": "1970-01-01T00:00:00Z", "to": "2027-01-15T10:00:00Z"}
    assert body["dag_run_conf"] == {"only": ["stale"], **span}
    assert acts._backfill_body(asked(WORK, {}), "backfill_q")["dag_run_conf"] == {"only": None, **span}
