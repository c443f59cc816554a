"""Retry policy of tasks: errors that may pass are retried, errors that the user must fix are not.

A disk or a store that is away is waited for without a try (`Patient`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseOperator, Context, ExceptionRetryPolicy, RetryAction, RetryRule

from lowwater import errors
from lowwater.errors import AwayError, BusyError, LowwaterError
from lowwater.instants import SECOND, format_duration
from lowwater.storage.failures import outages
from lowwater_airflow.alerts import hindered
from lowwater_airflow.settings import Settings

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


# Operators wait for a full disk, an absent store or another process in the triggerer, without slot or try.

FIRST = 10.0
"""Seconds of the first pause; each further one is twice as long, up to `[schedule] longest_pause`."""
TOLD = 3
"""Pauses after which it is an alert: shorter outages pass before anybody could do something."""


class Patient(BaseOperator):
    """Base of operators that begin anew after a pause where the disk or the store of the lake is away."""

    pauses = 0
    """Pauses of this try."""
    _since = 0.0

    @contextmanager
    def waiting(self, context: Context) -> Iterator[None]:
        """Defers the task where the block meets an outage, or another process at the same work.
        Raises LowwaterError if it has lasted for `[schedule] longest_outage`."""
        try:
            with outages():
                yield
        except (AwayError, BusyError) as error:
            self._pause(context, error)
            raise

    def again(self, context: Context, event: Any, since: float, pauses: int) -> Any:
        self._since, self.pauses = since, pauses
        return self.execute(context)

    def _pause(self, context: Context, error: LowwaterError) -> None:
        # Imported only here: every parse of a DAG file pays for its imports.
        """Defers, unless it has lasted too long."""
        from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger

        schedule, now = Settings.load().config.schedule, time.time()
        since, left = self._since or now, (self._since or now) + schedule.longest_outage / SECOND - now
        if left <= 0:
            return
        pause = min(FIRST * 2.0 ** min(self.pauses, 40), schedule.longest_pause / SECOND, max(1.0, left))
        said = (
            f"{error.message.partition(chr(10))[0]}; it is tried again after {format_duration(round(pause) * SECOND)}"
        )
        self.log.warning("%s", said)
        if self.pauses + 1 == TOLD:
            hindered(context, said)
        kwargs = {"since": since, "pauses": self.pauses + 1}
        self.defer(trigger=TimeDeltaTrigger(timedelta(seconds=pause)), method_name="again", kwargs=kwargs)
