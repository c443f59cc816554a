"""DAGs `replay_<query set>`, one a file in the folder of query sets: wait, evaluate, publish, once an interval.

Settings come from LOWWATER_LAKE, LOWWATER_QUERIES and the `lowwater.toml` in the lake.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, CronDataIntervalTimetable, chain

from lowwater_airflow.operators import PublishInterval, ReplayStages
from lowwater_airflow.retries import RETRYING
from lowwater_airflow.sensor import LinksReported
from lowwater_airflow.settings import POOL, Settings, cron

ABOUT = """\
**wait** until the links of the query set have reported to the end of the interval; a link that has not is named, with
since when. **evaluate**: low level, high level on Spark, audit, in one process; a critical audit stops the interval
here, and its rows stay in `streams/`. **publish**: the interval's rows, and only those, become visible in `tables/`.
Backfill: `airflow backfill create --dag-id replay_{query_set} --from-date ... --to-date ...`, in any order.
"""


def replay_dag(settings: Settings, query_set: str) -> DAG:
    """The DAG of one query set."""
    common: dict[str, Any] = {"lake": settings.lake, "queries": settings.queries, "query_set": query_set}
    with DAG(
        f"replay_{query_set}",
        description=f"Query set {query_set}: packets/ to tables/",
        doc_md=ABOUT.format(query_set=query_set),
        schedule=CronDataIntervalTimetable(cron(settings.length(query_set)), timezone="UTC"),
        start_date=settings.start,
        end_date=settings.end(query_set),
        catchup=False,
        max_active_runs=16,
        default_args=RETRYING,
        tags=["lowwater"],
    ) as dag:
        wait = LinksReported(task_id="wait", patience=settings.patience.total_seconds(), **common)
        stages = settings.stages(query_set)
        work = [ReplayStages(task_id=each or "evaluate", stage=each, pool=POOL, **common) for each in stages]
        chain(wait, *work, PublishInterval(task_id="publish", **common))
    return dag


_settings = Settings.load()
for _name in _settings.query_sets():
    globals()[f"replay_{_name}"] = replay_dag(_settings, _name)
