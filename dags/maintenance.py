"""DAGs `lowwater_maintain`: upkeep of the lake, as often as `[schedule] maintain` says; and each day `lowwater_verify`,
which compares a share of all bytes with their digests, and `lowwater_digest`.

Settings come from LOWWATER_LAKE and the `lowwater.toml` in it.
"""

from __future__ import annotations

from airflow.sdk import DAG

from lowwater_airflow.alerts import TellDigest
from lowwater_airflow.operators import MaintainLake, VerifyLake
from lowwater_airflow.retries import RETRYING
from lowwater_airflow.settings import Settings

ABOUT = """\
Joins the files of published hours that are settled, and removes what nobody needs any more: files that no version of a
table names, rows between the stages after `[retention] streams`, staging of dead runs. Published tables of older
versions get the columns of instants. It may run beside all others.
"""

VERIFY = """\
Compares existence and size of all files with the logs, and the bytes of a share of them with their digests: after
`[schedule] verify` days all have been read. It fails where something is damaged; its log says what that costs, and what
makes it again. It may run beside all others.
"""

DIGEST = """\
Counts what each query set published in the last day, and lists what is due and why. It goes to the webhook and the mail
addresses of `[notify]`, and to the log of the task. `digest = "never"` there ends it.
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
    MaintainLake(task_id="maintain", lake=settings.lake)

with DAG(
    "lowwater_verify",
    description="A share of all bytes is compared with their digests",
    doc_md=VERIFY,
    schedule="@daily" if settings.config.schedule.verify else None,
    start_date=settings.start,
    catchup=False,
    max_active_runs=1,
    default_args=RETRYING,
    tags=["lowwater"],
) as verification:
    VerifyLake(task_id="verify", lake=settings.lake, days=max(1, settings.config.schedule.verify))

with DAG(
    "lowwater_digest",
    description="What was published in the last day, and what is due",
    doc_md=DIGEST,
    schedule="@daily" if settings.config.notify.digest == "daily" else None,
    start_date=settings.start,
    catchup=False,
    max_active_runs=1,
    default_args=RETRYING,
    tags=["lowwater"],
) as digest:
    TellDigest(task_id="tell", lake=settings.lake, queries=settings.queries)
