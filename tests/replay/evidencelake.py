"""Lakes whose published rows have evidence: captures are ingested, the reference engine computes the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from lowwater.instants import HOUR, SECOND
from lowwater.lake.layout import open_lake, table_schema
from lowwater.lake.ledgers.runs import ReplayRow, record_replays
from lowwater.lake.tables import append_rows, create
from lowwater.low import Policy
from lowwater.replay.job import Job
from lowwater.replay.row_files import published_rows
from lowwater.replay.stages.engines import reference_stage
from tests.replay.support import lowwater


def published_lake(
    folder: Path, texts: Mapping[str, str], settings: str, captures: Sequence[tuple[str, Path]]
) -> tuple[Path, Path]:
    """Makes a lake in `folder` with the rows of a query set `q`; returns it, and the folder of queries."""
    root, queries = folder / "lake", folder / "queries"
    open_lake(root)
    queries.mkdir()
    (root / "lowwater.toml").write_text(f"{settings}\n[query_sets.q]\n", encoding="utf-8")
    named = (
        text if "query_name" in text else f"DEFINE {{ query_name '{name}'; }}\n{text}" for name, text in texts.items()
    )
    (queries / "q.gsql").write_text(";\n".join(named) + ";\n", encoding="utf-8")
    for link in dict.fromkeys(link for link, _ in captures):
        said = lowwater("ingest", "--lake", root, "--link", link, *(path for name, path in captures if name == link))
        assert said.code == 0, said
    publish(root, queries)
    return root, queries


def publish(root: Path, queries: Path) -> None:
    """Publishes all rows of the set, as one interval."""
    lake, job = open_lake(root), Job.open(root, "q", queries)
    ledger = job.captures()
    known = [each for captures in ledger.values() for each in captures if each.smallest is not None]
    start = min((each.smallest or 0 for each in known), default=0) // HOUR * HOUR
    end = (max((each.largest or 0 for each in known), default=0) // HOUR + 2) * HOUR
    found = reference_stage(job.inputs(start, end, ledger), SECOND, Policy.PERIODIC)
    for query in job.plan.queries:
        fields, rows = query.logical.fields, found.rows[query.name]
        lasts = rows.column("_last").to_pylist()
        table = published_rows(rows, fields, instants=True)
        table = table.append_column("_hour", pa.array([last // HOUR for last in lasts], pa.int64()))
        table = table.append_column("_last", pa.array(lasts, pa.int64()))
        schema = table_schema(fields)
        create(lake.table(query.name), schema, ["_hour"], "q")
        if rows.num_rows:
            append_rows(lake.table(query.name), table.select(schema.names).cast(schema))
        record_replays(lake, [ReplayRow("q", query.name, start, end, "publish", "done", end, rows=rows.num_rows)])
