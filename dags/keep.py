"""DAGs of a schedule that takes care of itself: `lowwater_ingest`, and `keep_<query set>` for each query set.

Settings come from LOWWATER_LAKE, LOWWATER_QUERIES and the `lowwater.toml` in the lake.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, AssetOrTimeSchedule, DeltaTriggerTimetable, get_parsing_context

from lowwater_airflow.alerts import failed
from lowwater_airflow.assets import named
from lowwater_airflow.checks import about
from lowwater_airflow.keeping import TITLE, IngestNew, KeepInterval, LookAtSet, RefusedFile, tell_of_failed
from lowwater_airflow.operators import PACKETS, published
from lowwater_airflow.retries import RETRYING
from lowwater_airflow.settings import POOL, Settings

INGEST = """\
Ingests every file that is new, or has changed, in the folders of the links, whichever hour it is of: late files, and
what came while Airflow was down or the DAG was paused. A file that is refused is a red task of `refused`, once. What is
new is an event of the asset `packets`, by which the DAGs `keep_...` look at once.
"""

ABOUT = """\
The clock of this DAG says when to look, not what to look at. **look** asks the lake which intervals of the last days
(`[schedule] look_back`) are missing, failed, stale, damaged or provisional and can run now. **interval** runs them,
oldest first: those that follow one another, and have few packets, in one task, which its range names, and which fails
where one of them does; the others are published, and **tell** adds their events. The note of the run says what became
of each. An interval that is over and cannot start is a red
task with the reason, in the look that finds it first; later looks count it in the note of the run. Nothing is lost when
runs are missed or fail: the next look finds what is left.

Older intervals: `airflow backfill create --dag-id backfill_{query_set} --from-date ... --to-date ...`, or `lowwater
backfill`. Both agree with this DAG, and may run beside it.
"""


FIRST = 10
"""Priority in the pool of what finds work, before the intervals that wait for a slot."""


def keep_dag(settings: Settings, query_set: str) -> DAG:
    """Builds the DAG that keeps one query set right."""
    common: dict[str, Any] = {"lake": settings.lake, "queries": settings.queries, "query_set": query_set}
    with DAG(
        f"keep_{query_set}",
        description=f"Query set {query_set}: looks, and runs what is due",
        doc_md=about(ABOUT.format(query_set=query_set)),
        schedule=AssetOrTimeSchedule(timetable=_clock(settings), assets=[PACKETS]),
        **_common(settings),
    ) as dag:
        found = LookAtSet(
            task_id="look", pool=POOL, priority_weight=FIRST, doc_json=named(settings, query_set), **common
        )
        intervals = KeepInterval.partial(
            task_id="interval",
            pool=POOL,
            outlets=[*published(query_set)],
            map_index_template=TITLE,
            max_active_tis_per_dagrun=1 if settings.chained(query_set) else None,
            **common,
        ).expand_kwargs(found.output)
        tell_of_failed(intervals, common)
    return dag


def ingest_dag(settings: Settings) -> DAG:
    """Builds the DAG that ingests what is new."""
    with DAG(
        "lowwater_ingest",
        description="New and changed captures of all links into packets/",
        doc_md=about(INGEST),
        schedule=_clock(settings),
        **_common(settings),
    ) as dag:
        common: dict[str, Any] = {"lake": settings.lake, "queries": settings.queries}
        refused = IngestNew(task_id="ingest", pool=POOL, priority_weight=FIRST, **common).output
        RefusedFile.partial(
            task_id="refused", outlets=[PACKETS], map_index_template=TITLE, lake=settings.lake
        ).expand_kwargs(refused)
    return dag


def _clock(settings: Settings) -> Any:
    return DeltaTriggerTimetable(settings.every)


def _common(settings: Settings) -> dict[str, Any]:
    """What all of these DAGs have: one look at a time, and none is caught up."""
    return {
        "start_date": settings.start,
        "catchup": False,
        "max_active_runs": 1,
        "default_args": RETRYING,
        "on_failure_callback": failed,
        "tags": ["lowwater"],
    }


_settings = Settings.load()
_parsed_dag = get_parsing_context().dag_id  # a task needs its own DAG only
if _settings.looks:
    if _parsed_dag in (None, "lowwater_ingest"):
        lowwater_ingest = ingest_dag(_settings)
    for _name in _settings.query_sets():
        if _parsed_dag in (None, f"keep_{_name}"):
            globals()[f"keep_{_name}"] = keep_dag(_settings, _name)
