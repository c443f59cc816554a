"""Hints of evidence of rows."""

from __future__ import annotations

import json
from typing import Any

from lowwater.lake.layout import open_lake, table_schema
from lowwater.lake.results.exploring import RowQuery, result_table
from lowwater.lake.tables import append_rows
from lowwater.replay.evidence import owner_of
from tests.hints.setup import Case, Setup
from tests.replay.evidencelake import published_lake
from tests.replay.support import Said

TEXTS = {
    "flows": "SELECT tb, srcIP, count(*) AS n FROM main1.TCP GROUP BY time/60 AS tb, srcIP",
    "middle": "SELECT tb, median_of(len) AS m, count(*) AS n FROM main1.TCP WHERE len > 60000 "
    "GROUP BY time/60 AS tb FILL",
}


def _rows(setup: Setup, query: str) -> list[dict[str, Any]]:
    """The published rows of a query, in a lake that is made at the first call."""
    if not (setup.folder / "made" / "lake").exists():
        (setup.folder / "made").mkdir()
        published_lake(setup.folder / "made", TEXTS, '[links.main1]\nskew = "1s"\n', [("main1", setup.capture)])
    table = result_table(open_lake(setup.folder / "made" / "lake"), query)
    return [row for batch in table.batches(RowQuery(0, 1 << 62), ["tb", "n"]) for row in batch.to_pylist()]


def _asked(setup: Setup, query: str, row: dict[str, Any]) -> Said:
    lake, out = setup.folder / "made" / "lake", setup.folder / "row.zip"
    out.unlink(missing_ok=True)
    given = "--row", json.dumps(row), "--lake", lake, "--queries", setup.folder / "made" / "queries"
    return setup.run("evidence", query, *given, "--out", out)


def _absent(setup: Setup) -> Said:
    _rows(setup, "flows")
    return _asked(setup, "flows", {"n": -1})


def _as_printed(setup: Setup) -> Said:
    lake = setup.folder / "made" / "lake"
    said = setup.run("rows", "flows", "--lake", lake, "--format", "json", "--limit", "1")
    return _asked(setup, "flows", json.loads(said.out.splitlines()[0]))


def _several(setup: Setup) -> Said:
    (first, *_) = _rows(setup, "flows")
    return _asked(setup, "flows", {"tb": first["tb"]})


def _changed(setup: Setup) -> Said:
    """A row that nobody has derived from the packets."""
    _rows(setup, "flows")
    lake, made = open_lake(setup.folder / "made" / "lake"), setup.folder / "made"
    _, plan = owner_of(made / "lake", made / "queries", "flows")
    schema = table_schema(plan.logical.fields)
    (rows,) = (result_table(lake, "flows").opened().to_pyarrow_table().slice(0, 1),)
    rows = rows.set_column(rows.column_names.index("n"), "n", [[987_654]])
    append_rows(lake.table("flows"), rows.select(schema.names).cast(schema))
    return _asked(setup, "flows", {"n": 987_654})


def _why(setup: Setup) -> Said:
    made = setup.folder / "made"
    return setup.run("why", "q", "2026-01-01T00:00:00Z", "--lake", made / "lake", "--queries", made / "queries")


def _empty(setup: Setup) -> Said:
    (first, *_) = [row for row in _rows(setup, "middle") if not row["n"]]
    return _asked(setup, "middle", {"tb": first["tb"]})


CASES: list[Case] = [
    Case("evidence of no row", _absent, "prints rows as they are written here",
         _as_printed),
    Case("evidence of several rows", _several, "give more columns of the row",
         _as_printed),
    Case("evidence of a row that packets do not give", _changed, "says what changed",
         _why),
    Case("evidence of an epoch without packets that SQL does not say", _empty, "has its accounts",
         _why),
]  # fmt: skip
