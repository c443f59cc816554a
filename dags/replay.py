"""DAGs `replay_<query set>`, one for each query set: one task for an interval, or several where something holds it; and
`backfill_<query set>`, where one task runs a day of intervals.

Settings come from LOWWATER_LAKE, LOWWATER_QUERIES and the `lowwater.toml` in the lake.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import (
    DAG,
    AsyncCallback,
    DeadlineAlert,
    DeadlineReference,
    Param,
    chain,
    get_parsing_context,
)

from lowwater.lake.query_sets import KINDS
from lowwater_airflow.alerts import failed, late
from lowwater_airflow.assets import named
from lowwater_airflow.checks import about
from lowwater_airflow.keeping import TITLE, BackfillBatch, tell_of_failed
from lowwater_airflow.operators import PublishInterval, ReplayStages, published
from lowwater_airflow.retries import RETRYING
from lowwater_airflow.sensor import LinksReported, RunInterval
from lowwater_airflow.settings import POOL, Settings
from lowwater_airflow.timetables import DaysWhenAsked

ABOUT = """\
{tasks}
The note of a run says which interval it is of, and what became of it: done, incomplete, provisional, held, skipped.

Backfill: `airflow backfill create --dag-id replay_{query_set} --from-date ... --to-date ...`, in any order, or "Run
backfill" in the form of Trigger; `lowwater plan` says before what is due, and why. Airflow leaves
out an interval that had a run before, unless it is told otherwise: after a change add `--reprocess-behavior completed
--dag-run-conf '{{"only": ["stale"]}}'`; in the form choose *All Runs*, and tick *Override parameters on existing runs*
if *Only* is to hold for them.
"""
ONE = """\
**interval**: low level, high level, audit and publication, in one process; a critical audit stops the interval before
its rows become visible in `tables/`. The task waits, without a slot, until the links of the query set have reported to
the end of the interval; a link that has not is named, with since when.
"""
SEVERAL = """\
**wait** until the links of the query set have reported to the end of the interval; a link that has not is named, with
since when. Then the stages, in one process (**evaluate**) or one each (**low**, **high**, **audit**); a critical audit
stops the interval here, and its rows stay in `streams/`. **approve**, where the settings ask for it, waits for a person
if the audit warns. **publish**: the interval's rows, and only those, become visible in `tables/`.
"""
DAYS = """\
**interval**: a day (UTC) of intervals of {query_set}, in one process, from packets to published tables; what is done,
and has the inputs of before, is left alone. The task fails where an interval cannot start, or where one failed: the
others are published, and **tell** adds their events. The note of a run says what became of each interval.

`airflow backfill create --dag-id backfill_{query_set} --from-date ... --to-date ...`, in any order; a run is a whole
day. After a change, or where it failed, add `--reprocess-behavior completed`: what is due is run, nothing else. One
interval by itself is for `replay_{query_set}`.
"""
IN_ORDER = """
This query set hands state over: its intervals run in order. Each waits for the run of the one before, where that is at
work, and fails where that is not published. So a backfill of it begins with the oldest interval.
"""
PARAMS = {
    "only": Param(
        None,
        type=["array", "null"],
        items={"type": "string", "enum": list(KINDS)},
        examples=list(KINDS),
        title="Only",
        description="Skip an interval unless it is in one of these states; none chosen: run every interval. "
        "No runs matching? They had a run before: choose All Runs and Override parameters on existing runs.",
    ),
    "patience": Param(
        None,
        type=["null", "string"],
        pattern=r"^\d+(\.\d+)? ?(s|min|h)$",
        title="Patience",
        description='How long to wait for links that have not reported, as "0s" or "15 min"; else as in the settings.',
    ),
}
BOUNDS = {
    name: Param(
        None,
        type=["null", "string"],
        format="date-time",
        title=title,
        description=f"{words}, with its offset, as 2026-01-01T06:00:00Z; none: the whole day.",
    )
    for name, title, words in (
        ("from", "From", "No interval before this instant"),
        ("to", "To", "None from this instant on"),
    )
}
"""What a run of a day may be limited to."""


def replay_dag(settings: Settings, query_set: str) -> DAG:
    """Builds the DAG of one query set."""
    common: dict[str, Any] = {"lake": settings.lake, "queries": settings.queries, "query_set": query_set}
    chained = settings.chained(query_set)
    deadline = settings.deadline(query_set)
    stages, approval = settings.stages(query_set), settings.approval(query_set)
    one = stages == (None,) and not approval
    with DAG(
        f"replay_{query_set}",
        description=f"Query set {query_set}: packets/ to tables/",
        doc_md=about(ABOUT.format(query_set=query_set, tasks=ONE if one else SEVERAL) + (IN_ORDER if chained else "")),
        schedule=settings.intervals(query_set),
        start_date=settings.start,
        end_date=settings.end(query_set),
        catchup=False,
        max_active_runs=1 if chained else 16,
        default_args=RETRYING,
        params=PARAMS,
        deadline=DeadlineAlert(
            name=f"replay_{query_set}",
            reference=DeadlineReference.DAGRUN_QUEUED_AT,
            interval=deadline,
            callback=AsyncCallback(late),
        )
        if deadline
        else None,
        on_failure_callback=failed,
        tags=["lowwater"],
    ) as dag:
        patience = settings.patience.total_seconds()
        tables = named(settings, query_set)
        if one:
            RunInterval(task_id="interval", patience=patience, pool=POOL, doc_json=tables, **common)
            return dag
        wait = LinksReported(task_id="wait", patience=patience, **common)
        work: list[Any] = [
            ReplayStages(task_id=stage or "evaluate", stage=stage, pool=POOL, **common) for stage in stages
        ]
        if approval:
            # Imported only here: every parse of the file pays for its imports.
            from lowwater_airflow.approval import ApproveWarnings

            work.append(ApproveWarnings(task_id="approve", audited_by=work[-1].task_id, **common))
        publish = PublishInterval(task_id="publish", pool=POOL, doc_json=tables, **common)
        chain(wait, *work, publish)
    return dag


def days_dag(settings: Settings, query_set: str) -> DAG:
    """Builds the DAG that runs days of intervals of a query set."""
    common: dict[str, Any] = {"lake": settings.lake, "queries": settings.queries, "query_set": query_set}
    chained = settings.chained(query_set)
    with DAG(
        f"backfill_{query_set}",
        description=f"Query set {query_set}: days of intervals, packets/ to tables/",
        doc_md=about(DAYS.format(query_set=query_set) + (IN_ORDER if chained else "")),
        schedule=DaysWhenAsked("0 0 * * *", timezone="UTC"),
        start_date=settings.start.replace(hour=0, minute=0, second=0, microsecond=0),
        end_date=settings.end(query_set),
        catchup=False,
        max_active_runs=1 if chained else 16,
        default_args=RETRYING,
        params={"only": PARAMS["only"], **BOUNDS},
        on_failure_callback=failed,
        tags=["lowwater"],
    ) as dag:
        intervals = BackfillBatch.partial(
            task_id="interval", pool=POOL, outlets=[*published(query_set)], map_index_template=TITLE, **common
        ).expand_kwargs([{}])
        tell_of_failed(intervals, {**common, "doc_json": named(settings, query_set)})
    return dag


_settings = Settings.load()
_parsed_dag = get_parsing_context().dag_id  # a task needs its own DAG only
for _name in _settings.query_sets():
    if _parsed_dag in (None, f"replay_{_name}") and _settings.has_runs(_name):
        globals()[f"replay_{_name}"] = replay_dag(_settings, _name)
    if _parsed_dag in (None, f"backfill_{_name}") and _settings.has_days(_name):
        globals()[f"backfill_{_name}"] = days_dag(_settings, _name)
