"""DAG `lowwater_maintain`: upkeep of the lake, as often as `[schedule] maintain` says.

Settings come from LOWWATER_LAKE and the `lowwater.toml` in it.
"""

from __future__ import annotations

from airflow.sdk import DAG

from lowwater_airflow.operators import MaintainLake
from lowwater_airflow.retries import RETRYING
from lowwater_airflow.settings import Settings

ABOUT = """\
Joins the files of published hours that are settled, and removes what nobody needs any more: files that no version of a
table names, rows between the stages after `[retention] streams`, staging of dead runs. Published tables of older
versions get the columns of instants. It may run beside all others.
"""

settings = Settings.load()

with DAG(
    "lowwater_maintain",
    description="Compaction, vacuum, retention, staging of dead runs",
    doc_md=ABOUT,
    schedule=settings.maintenance,
    start_date=settings.start,
    catchup=False,
    max_active_runs=1,
    default_args=RETRYING,
    tags=["lowwater"],
) as dag:
    MaintainLake(task_id="maintain", lake=settings.lake, queries=settings.queries)
