"""The pages of an interval and of a query show the first published rows, in the order of time, every value escaped."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from lowwater_review import Ledgers, render

from lowwater.catalog.expr import Type
from lowwater.catalog.schemas import ROW
from lowwater.instants import HOUR, SECOND
from lowwater.lake.layout import open_lake, result_schema
from lowwater.lake.results.streams import fingerprint, stream_files
from lowwater.lake.tables import interval_label
from lowwater.plan.operators import Field
from tests.lake.support import publish_interval, put_stream
from tests.review.ledgers import HOSTILE, START, make

FIELDS = (Field("tb", Type.INT), Field("srcIP", Type.IP), Field("name", Type.STRING))


@pytest.fixture
def ledgers(tmp_path: Path) -> Ledgers:
    """Three hours, of which the second has thirty published rows, the latest stored first."""
    root, queries = make(tmp_path, 3)
    lake, start = open_lake(root), START + HOUR
    shutil.rmtree(lake.table("flows"))
    rows = [
        {"tb": at, "srcIP": f"10.0.0.{at}", "name": HOSTILE, "_last": start + at * SECOND, "_kind": ROW}
        | {"_tick": start + HOUR, "_until": start + HOUR, "_period": 0, "interval": ""}
        for at in range(30, 0, -1)
    ]
    stream = pa.Table.from_pylist(rows, schema=result_schema(FIELDS)).drop_columns(["interval"])
    put_stream(lake.stream("flows"), FIELDS, start, start + HOUR, stream, "q")
    audited = fingerprint(stream_files(lake.stream("flows"), start, start + HOUR))
    publish_interval(lake, "q", "flows", FIELDS, start, start + HOUR, "digest", audited)
    return Ledgers(root, queries)


def page(ledgers: Ledgers, hour: int) -> str:
    start = START + hour * HOUR
    found = render(ledgers.now(), f"interval/q/{interval_label(start, start + HOUR)}.html")
    assert found is not None
    return found


@pytest.mark.slow
def test_an_interval_shows_its_first_rows(ledgers: Ledgers) -> None:
    text = page(ledgers, 1)
    rows = text.partition('aria-label="rows of flows"')[2].partition("</table>")[0]
    assert "The first 20 of 30 rows, by time" in rows
    assert [f"<td>10.0.0.{at}</td>" in rows for at in range(1, 31)] == [True] * 20 + [False] * 10
    assert rows.index("10.0.0.1<") < rows.index("10.0.0.2<") < rows.index("10.0.0.20<")
    assert HOSTILE not in text and "&lt;script&gt;" in rows
    assert "lowwater rows flows --lake DIR --from 2025-01-01T01:00:00Z --to 2025-01-01T02:00:00Z" in text
    assert "0 rows, by time" in page(ledgers, 0)


@pytest.mark.slow
def test_a_query_shows_the_first_rows_of_its_newest_interval(ledgers: Ledgers) -> None:
    text = render(ledgers.now(), "query/q/flows.html") or ""
    assert "1 Jan 2025, 02:00 to 03:00 UTC" in text and "0 rows, by time" in text
