"""Retry policy of tasks: errors that may pass are retried, errors that the user must fix are not.

A disk or a store that is away is waited for without a try (`outages`)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule

from lowwater import errors

REPEATING: list[str | type[BaseException]] = [
    f"{kind.__module__}.{kind.__name__}"
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.LowwaterError) and kind.repeats
]

POLICY = ExceptionRetryPolicy(
    rules=[
        RetryRule(
            exception=REPEATING,
            action=RetryAction.FAIL,
            reason="the same inputs would fail again: mend what the message names, then clear the task",
        ),
        RetryRule(
            exception=["lowwater.errors.AwayError", "lowwater.errors.BusyError"],
            action=RetryAction.FAIL,
            reason="it was waited for as long as [schedule] longest_outage says: clear the task once it has passed",
        ),
        RetryRule(
            exception="lowwater.errors.LakeError",
            action=RetryAction.RETRY,
            retry_delay=timedelta(seconds=10),
            reason="the lake could not be read or written",
        ),
        RetryRule(
            exception="lowwater_airflow.child.ChildDied",
            action=RetryAction.RETRY,
            retry_delay=timedelta(seconds=5),
            reason="the process died; what it had not committed was never visible",
        ),
    ]
)
"""The first matching rule decides; other errors are retried after the delay of the task."""

RETRYING: dict[str, Any] = {
    "retries": 3,
    "retry_delay": timedelta(seconds=15),
    "retry_exponential_backoff": 2.0,
    "max_retry_delay": timedelta(minutes=10),
    "retry_policy": POLICY,
}
"""Default arguments of every task."""
