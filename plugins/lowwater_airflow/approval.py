"""Asks a human before an interval with audit warnings is published, if the settings ask for it.

The task stands between the audit and `PublishInterval`. It waits in the state `awaiting_input` without a worker slot.
"""

from __future__ import annotations

from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context

from lowwater.instants import format_instant
from lowwater_airflow.operators import interval_of

WARNED = "warned"


class ApproveWarnings(ApprovalOperator):
    """Asks whether to publish an interval in spite of its warnings; continues at once without warnings.

    Rejecting fails the run: the published interval stays as it was, and the audited rows stay in `streams/`.

    Args:
        audited_by: id of the task whose outcome has the verdict.
    """

    def __init__(self, *, query_set: str, audited_by: str, **kwargs: Any) -> None:
        subject = f"Publish {query_set} in spite of warnings?"
        super().__init__(subject=subject, fail_on_reject=True, retries=0, **kwargs)
        self.query_set = query_set
        self.audited_by = audited_by

    def execute(self, context: Context) -> Any:
        outcome = context["ti"].xcom_pull(task_ids=self.audited_by)
        # An interval that is published already from the same inputs is not published again.
        if outcome["verdict"] != WARNED or outcome["state"] != "audit":
            self.log.info("nothing to approve: the audit %s", outcome["verdict"])
            return None
        start, end = (format_instant(bound) for bound in interval_of(context))
        rows = "\n".join(f"* {query}: {count:,} rows" for query, count in sorted(outcome["rows"].items()))
        self.body = f"The audit of {start} to {end} **warned**.\n\n{rows}\n\nIts report: `{outcome['report']}`"
        return super().execute(context)
