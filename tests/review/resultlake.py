"""A lake with packets and published rows, without Spark: the reference engine computes the rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from lowwater_generator import generate

from lowwater.instants import HOUR, format_instant, parse_instant
from lowwater.lake.layout import open_lake, table_schema
from lowwater.lake.ledgers.runs import ReplayRow, record_replays
from lowwater.lake.tables import append_rows, create
from lowwater.replay.job import Job
from tests.replay.support import lowwater

START = parse_instant("2026-01-01T00:00:00Z")
QUERIES = {
    "flows": "SELECT tb, srcIP, destIP, count(*) AS cnt, sum(len) AS bytes FROM [links].IPV4 "
    "GROUP BY time/60 AS tb, srcIP, destIP",
    "ports": "SELECT minute, even, count(*) AS cnt FROM main1.UDP WHERE len > 60 "
    "GROUP BY time/60 AS minute, destPort % 2 AS even",
    "totals": "SELECT tb/5 AS five, count(*) AS flows, sum(cnt) AS packets FROM flows GROUP BY tb/5 AS five",
    "singles": "SELECT time, srcIP FROM main1.IPV4 WHERE len > 1200",
}


def make_results(folder: Path) -> tuple[Path, Path]:
    """Makes the lake: an hour of two links, published as one interval."""
    root, queries, until = folder / "lake", folder / "queries", START + HOUR
    open_lake(root)
    queries.mkdir()
    names = ("main1", "main2")
    bounds = f'since = "{format_instant(START)}"\nuntil = "{format_instant(until)}"\n'
    text = "".join(f'[links.{name}]\nskew = "1s"\n{bounds}\n' for name in names)
    (root / "lowwater.toml").write_text(f'{text}[sets]\nlinks = ["main1", "main2"]\n[query_sets.q]\n')
    (queries / "q.gsql").write_text(
        "".join(f"DEFINE {{ query_name '{name}'; }}\n{query};\n" for name, query in QUERIES.items())
    )
    captures = {}
    for made in generate(folder / "captures", START, 1, list(names), rate=2.0, seed=11):
        if made.start != START:
            continue
        captures[made.link] = made.path
        life = f"{format_instant(START)}/{format_instant(START + HOUR)}"
        said = lowwater("ingest", "--lake", root, "--link", made.link, "--covers", life, made.path)
        assert said.code == 0, said
    publish_run(folder, root, queries / "q.gsql", captures)
    return root, queries


def publish_run(folder: Path, root: Path, queries: Path, captures: dict[str, Path]) -> None:
    """Publishes the first hour of a query file over captures by link."""
    lake, job = open_lake(root), Job.open(root, "q", queries.parent)
    given = [word for name, path in captures.items() for word in ("--capture", f"{name}={path}")]
    run = ["run", queries, *given, "--links", root / "lowwater.toml", "--engine", "reference"]
    said = lowwater(*run, "--instants", "--format", "parquet", "--out", folder / "out")
    assert said.code == 0, said
    for query in job.plan.queries:
        schema = table_schema(query.logical.fields)
        rows = pq.read_table(next((folder / "out").rglob(f"{query.name}*.parquet")))
        assert rows.num_rows, query.name
        clock = next(field for field in query.logical.fields if field.temporal)
        assert clock.temporal is not None
        lasts = [clock.temporal.last(value) for value in rows.column(clock.name).to_pylist()]
        start = lasts[0] // HOUR * HOUR
        rows = rows.append_column("_hour", pa.array([start // HOUR] * rows.num_rows, pa.int64()))
        rows = rows.append_column("_last", pa.array(lasts, pa.int64()))
        create(lake.table(query.name), schema, ["_hour"], "q")
        append_rows(lake.table(query.name), rows.select(schema.names).cast(schema))
        end = start + HOUR
        record_replays(lake, [ReplayRow("q", query.name, start, end, "publish", "done", end, rows=rows.num_rows)])
