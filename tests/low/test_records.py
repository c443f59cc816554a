"""Kernels over the columns of records that are no packets: floats, booleans, texts and addresses, compiled or not."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lowwater.capture.tables.options import TableOptions
from lowwater.capture.tables.reader import RecordReader
from lowwater.lake.packets import CAPTURE
from lowwater.low import Bounds, LowSettings, needed_columns, run_link
from lowwater.plan.context import Links
from lowwater.plan.queryset import Plan, plan_texts
from lowwater.plan.temporal import END_OF_TIME
from tests.capture.tablemaker import BY_POSITION, as_csv, flows, layout, write

SECOND = 1_000_000_000
QUERIES = """
DEFINE { query_name 'groups'; }
SELECT tb, up, src, host, count(*) AS n, sum(bytes) AS s, sum(rtt) AS f, min(rtt) AS lo, max(up) AS any
FROM flows.FLOW WHERE rtt > -1.0 OR up GROUP BY time/10 AS tb, up, src, host;
DEFINE { query_name 'rows'; }
SELECT time, rtt*2.0 AS d, NOT up AS down, rtt IS NULL AS none, bytes, src, host FROM flows.FLOW
WHERE up = TRUE OR rtt < 0.75
"""


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_texts([("q.gsql", BY_POSITION + QUERIES)], Links(("flows",), kinds={"flows": "csv"}))


def ran(plan: Plan, path: Path, compiled: bool, chunk: int) -> dict[str, pa.Table]:
    """The stream of every LFTA."""
    lftas = plan.lftas
    columns = needed_columns(lftas)
    reader = RecordReader(path, TableOptions("csv", layout(BY_POSITION)), 61 * SECOND, "")
    capture = pa.field("capture", CAPTURE, nullable=False)
    batches = []
    for batch in reader:
        zeros = pa.array([0] * batch.num_rows, pa.int32())
        named = batch.add_column(0, capture, pa.DictionaryArray.from_arrays(zeros, pa.array(["c"])))
        batches.append(named.select(columns))
    settings = LowSettings(3 * SECOND, compiled=compiled, few=0, chunk_rows=chunk)
    bounds = Bounds({lfta.name: 0 for lfta in lftas}, 0, END_OF_TIME)
    found: dict[str, list[pa.RecordBatch]] = {lfta.name: [] for lfta in lftas}
    run_link(lftas, "flows", batches, bounds, settings, lambda name, batch: found[name].append(batch))
    return {name: pa.Table.from_batches(parts) for name, parts in found.items()}


@pytest.mark.slow
def test_compiled_kernels_give_the_streams_of_plain_ones(plan: Plan, tmp_path: Path) -> None:
    path = write(tmp_path / "file", as_csv(flows(3, 500, 3)))
    plain, compiled = (ran(plan, path, compiled, 65_536) for compiled in (False, True))
    for name, table in plain.items():
        assert table.num_rows > 100
        assert compiled[name].equals(table), name


@pytest.mark.slow
def test_chunks_change_no_row(plan: Plan, tmp_path: Path) -> None:
    path = write(tmp_path / "file", as_csv(flows(4, 300, 3)))
    whole, parts = (ran(plan, path, False, chunk)["rows"] for chunk in (65_536, 7))
    kept = [name for name in whole.schema.names if not name.startswith("_")]
    parts, whole = (
        table.filter(pc.equal(table["_kind"], "row")).select(kept).combine_chunks() for table in (parts, whole)
    )
    assert parts.equals(whole)
