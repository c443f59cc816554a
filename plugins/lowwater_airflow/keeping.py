"""The operators of a schedule that takes care of itself: ingest what is new, look at a query set, run what is due.

Airflow's clock says when to look, not what to look at. Each look asks the lake (`replay.schedule.looks`), so it does
not matter which runs were missed or failed.
"""

from __future__ import annotations

import time
from pathlib import Path, PurePath
from typing import Any

from airflow.sdk import BaseOperator, BaseXCom, Context
from airflow.sdk.exceptions import AirflowSkipException

from lowwater.config import load_config
from lowwater.errors import CaptureError, GapError
from lowwater.instants import format_instant, parse_instant, spoken_duration
from lowwater.lake.query_sets import WAITING
from lowwater.storage.paths import lake_path
from lowwater_airflow.alerts import has_connection
from lowwater_airflow.checks import of_notify
from lowwater_airflow.notes import FOUND
from lowwater_airflow.operators import (
    MOST_TOLD,
    IngestCaptures,
    PublishInterval,
    ingest_spark,
    tell_ingested,
    telling,
    told_refusals,
)
from lowwater_airflow.retries import Patient


class IngestNew(IngestCaptures):
    """Ingests every file that is new, or has changed, in the folders of the links, whichever interval it is of."""

    def __init__(self, *, queries: Path, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.queries = str(queries)

    def _ingest(self, context: Context) -> list[dict[str, str]]:
        from lowwater.lake.layout import lake_to_read
        from lowwater.lake.ledgers.files import absent_folders
        from lowwater.replay.schedule.looks import Looker

        def tell(line: str, problem: bool) -> None:
            (self.log.warning if problem else self.log.info)("%s", line)

        looker = Looker(lake_path(self.lake), (), Path(self.queries), tell, spark=ingest_spark(), alone=True)
        found = looker.ingest(load_config(lake_path(self.lake)))
        tell_ingested(self, context, found.results)
        new = sum(each.state != "known" for each in found.results)
        waits = [f"link {link} waits: {fault.splitlines()[0]}" for link, fault in found.faults.items()]
        absent = absent_folders(lake_to_read(lake_path(self.lake)))
        waits += [f"link {link!r}: {why}" for link, why in sorted(absent.items())]
        context["ti"].xcom_push(FOUND, {"files": new, "waits": waits})
        if found.hindered is not None:
            raise found.hindered
        return told_refusals(found.refusals)


class RefusedFile(BaseOperator):
    """Fails with the reason why a file was refused: red in the grid of the run that has tried it."""

    def __init__(self, *, link: str, file: str, why: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.link, self.file, self.why = link, file, why

    def execute(self, context: Context) -> None:
        context["map_index_label"] = f"{self.link} {self.file}"  # type: ignore[typeddict-unknown-key]
        with telling(context):
            raise CaptureError(self.why)


class LookAtSet(Patient):
    """Looks at a query set: what of the last days it lacks, what of it can run now, and why the rest cannot.

    Returns the intervals for `KeepInterval`: those that run, and those of which is told for the first time that they
    cannot start. What is told is kept only when Airflow has it, and a try after it tells the same.
    """

    def __init__(self, *, lake: PurePath, queries: Path, query_set: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lake, self.queries, self.query_set = str(lake), str(queries), query_set

    def execute(self, context: Context) -> list[dict[str, str]]:
        """Returns begin and end of each interval, and why it cannot start; empty for those that run."""
        with telling(context), self.waiting(context):
            return self._look(context)

    def _look(self, context: Context) -> list[dict[str, str]]:
        from lowwater.lake.ledgers.intervals import range_words
        from lowwater.replay.job import Job
        from lowwater.replay.schedule.due import Due
        from lowwater.replay.schedule.looks import MOST, Left, keep_told, look

        def name(due: Due) -> str:
            return range_words(due.start, due.end, due.intervals)

        job = Job.open(lake_path(self.lake), self.query_set, Path(self.queries))
        by = str(getattr(context.get("dag_run"), "run_id", ""))
        found = look(job, time.time_ns(), by)
        for due in found.runs:
            self.log.info("runs: %s, %s: %s", name(due), due.state, "; ".join(due.reasons))
        for left in found.waits:
            self.log.info("waits: %s: %s", name(left.due), left.why)
        for left in found.stuck:
            self.log.warning("%s: %s: %s", "stays" if left.failed else "cannot start", name(left.due), left.why)
        news = [left for left in found.stuck if left.news]
        failed = [left for left in found.stuck if left.failed]
        old = [left for left in found.stuck if not left.news and not left.failed]

        def example(some: list[Left]) -> str:
            return f"{name(some[0].due)}: {some[0].why}" if some else ""

        summary = {
            "waits": sum(left.due.intervals for left in found.waits),
            "waiting": example([*found.waits[:1]]),
            "stuck": sum(left.due.intervals for left in old),
            "failed": sum(left.due.intervals for left in failed),
            "failure": example(failed),
            "untold": sum(left.due.intervals for left in news[MOST_TOLD:]),
            "more": max(0, len(found.runs) - MOST),
            "days": spoken_duration(job.config.schedule.look_back),
            "example": example(old),
            "lacks": "; ".join(each.text for each in of_notify(job.config.notify, has_connection)),
        }
        context["ti"].xcom_push(FOUND, summary)
        work = [(due, "") for due in found.runs[:MOST]] + [(left.due, left.why) for left in news[:MOST_TOLD]]
        edition = job.edition
        tasks = [
            {"start": format_instant(due.start), "end": format_instant(due.end), "why": why, "edition": edition}
            for due, why in sorted(work, key=lambda each: each[0].start)
        ]
        context["ti"].xcom_push(BaseXCom.XCOM_RETURN_KEY, tasks)
        keep_told(lake_path(self.lake), self.query_set, news[:MOST_TOLD], by)
        return tasks


class KeepInterval(PublishInterval):
    """Runs an interval that a look has found through all stages, in one process, and publishes it.

    It fails with the reason where the interval cannot start, and leaves an interval `held` of which a person must
    approve the warnings.

    Args:
        end: its end.
        why: why it cannot start; empty if it can.
        edition: of the queries and settings by which the look has found it; after an edit it is left to the next look.
    """

    all_stages = True

    def __init__(self, *, start: str, end: str, why: str = "", edition: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start, self.end, self.why, self.edition = start, end, why, edition

    def execute(self, context: Context) -> dict[str, Any]:
        context["map_index_label"] = self.start  # type: ignore[typeddict-unknown-key]
        with telling(context):
            if self.why:
                raise GapError(f"cannot start: {self.why}")
            outcome = super().execute(context)
            if outcome["state"] == WAITING:
                raise AirflowSkipException(outcome["reason"])
        context["map_index_label"] = f"{self.start} {outcome['state']}"  # type: ignore[typeddict-unknown-key]
        return outcome

    def _bounds(self, context: Context) -> tuple[int, int]:
        return parse_instant(self.start), parse_instant(self.end)

    def _mode(self) -> list[str]:
        return ["--ask", "--edition", self.edition]
