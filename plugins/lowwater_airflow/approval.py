"""Asks a human before an interval with audit warnings is published, if the settings ask for it.

The task stands between the audit and `PublishInterval`. It waits in the state `awaiting_input` without a worker slot.
"""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context

from lowwater.instants import format_instant
from lowwater.lake.words import WARNED
from lowwater.storage.paths import lake_path
from lowwater_airflow.operators import interval_of


class ApproveWarnings(ApprovalOperator):
    """Asks whether to publish an interval in spite of its warnings; continues at once without warnings, and where the
    interval is published by now.

    Rejecting fails the run: the published interval stays as it was, and the audited rows stay in `streams/`.

    Args:
        audited_by: id of the task whose outcome has the verdict.
    """

    def __init__(self, *, lake: PurePath, queries: Path, query_set: str, audited_by: str, **kwargs: Any) -> None:
        subject = f"Publish {query_set} in spite of warnings?"
        super().__init__(subject=subject, fail_on_reject=True, retries=0, **kwargs)
        self.lake, self.queries, self.query_set = str(lake), str(queries), query_set
        self.audited_by = audited_by

    def execute(self, context: Context) -> Any:
        outcome = context["ti"].xcom_pull(task_ids=self.audited_by)
        # An interval that is published already from the same inputs is not published again.
        if outcome["verdict"] != WARNED or outcome["state"] != "audit":
            self.log.info("nothing to approve: the audit %s", outcome["verdict"])
            return None
        from lowwater.replay.interval import standing
        from lowwater.replay.job import Job

        bounds = interval_of(context)
        if standing(Job.open(lake_path(self.lake), self.query_set, Path(self.queries)), *bounds) is not None:
            self.log.info("nothing to approve: it is published by now")
            return None
        start, end = (format_instant(bound) for bound in bounds)
        rows = "\n".join(f"* {query}: {count:,} rows" for query, count in sorted(outcome["rows"].items()))
        self.body = f"The audit of {start} to {end} **warned**.\n\n{rows}\n\nIts report: `{outcome['report']}`"
        return super().execute(context)
