"""Takes over what an older version published, by the plans of the query sets: maintenance and Airflow call it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePath

from lowwater.errors import LowwaterError
from lowwater.lake.maintain import UpkeepStep
from lowwater.lake.results.publish import fill_instants
from lowwater.lake.tables import check_owner
from lowwater.replay.schedule.link_queries import jobs


def take_over(
    root: PurePath, queries: Path, dry_run: bool = False, tell: Callable[[str, LowwaterError], None] | None = None
) -> list[UpkeepStep]:
    """Gives published tables of older versions the columns of instants that new tables have.

    Args:
        root: the lake.
        queries: folder of query sets.
        dry_run: whether to report what is due, and change nothing.
        tell: called with each query set that cannot be planned and the error; its tables stay as they are.

    Raises:
        LakeError: the lake cannot be read or written.
    """
    steps = []
    for job in jobs(root, queries, tell or (lambda name, error: None)):
        for query in job.plan.queries:
            path = job.lake.table(query.name)
            check_owner(path, job.query_set)
            files, size = fill_instants(job.lake, query.name, query.high.fields, dry_run)
            if files:
                steps.append(UpkeepStep("filled instants", path.relative_to(job.lake.root).as_posix(), files, size))
    return steps
