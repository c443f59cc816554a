"""DAG `capture_ingest`: the captures of an interval into the lake, in one task, for backfills of a range.

Settings come from LOWWATER_LAKE and the `lowwater.toml` in it.
"""

from __future__ import annotations

from airflow.sdk import DAG

from lowwater_airflow.checks import about
from lowwater_airflow.keeping import TITLE, RefusedFile
from lowwater_airflow.operators import PACKETS, IngestCaptures
from lowwater_airflow.retries import RETRYING
from lowwater_airflow.settings import POOL, Settings

ABOUT = """\
Finds the captures of the interval by each link's pattern in `lowwater.toml` and ingests them. A file that the lake has
already is not read again. A file that is refused is a red task of `refused`. A link without a file
is named in the log of `ingest`; the runs that need it wait for it. Backfill: `airflow backfill create --dag-id
capture_ingest --from-date ... --to-date ...`
"""

settings = Settings.load()

if settings.has_runs():
    with DAG(
        "capture_ingest",
        description="Hourly captures into packets/",
        doc_md=about(ABOUT),
        schedule=settings.intervals(),
        start_date=settings.start,
        end_date=settings.end(),
        catchup=False,
        max_active_runs=4,
        default_args=RETRYING,
        tags=["lowwater"],
    ) as dag:
        refused = IngestCaptures(task_id="ingest", pool=POOL, lake=settings.lake).output  # it takes a core
        RefusedFile.partial(
            task_id="refused", outlets=[PACKETS], map_index_template=TITLE, lake=settings.lake
        ).expand_kwargs(refused)
