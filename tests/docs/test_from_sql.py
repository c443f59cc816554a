"""Each pair of docs/language/from-sql.md: the SQL in DuckDB and the query here give the same rows."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime

import duckdb
import pytest

from tests.docs.book import ROOT, Block, plan, result

PAGE = ROOT / "docs" / "language" / "from-sql.md"
COLUMNS = {"time": "BIGINT", "len": "BIGINT", "srcIP": "VARCHAR", "destIP": "VARCHAR", "srcPort": "BIGINT"}
COLUMNS |= {"destPort": "BIGINT"}
FLAGS = ("SYN", "ACK")
Rows = Counter[tuple[str, ...]]


def pairs() -> Iterator[tuple[str, str]]:
    """The texts of the table, line by line, without their marks."""
    table = PAGE.read_text(encoding="utf-8").split("<!-- pairs -->")[1].split("<!-- end -->")[0]
    for line in table.strip().splitlines()[2:]:
        sql, query = line.strip("| ").split(" | ")
        yield "\n".join(re.findall("`([^`]+)`", sql)), "\n".join(re.findall("`([^`]+)`", query))


def last_rows(text: str) -> list[dict[str, str]]:
    """The rows of the only query of a text that is published."""
    block = Block(PAGE, 0, ("gsql", "run"), text)
    published = [query.name for query in plan(block).queries]
    assert len(published) == 1
    return list(csv.DictReader(io.StringIO(result(block))))


@pytest.fixture(scope="module")
def tables() -> Iterator[duckdb.DuckDBPyConnection]:
    """The packets of the world as tables."""
    with duckdb.connect() as database:
        for name in ("TCP", "UDP"):
            flags = FLAGS if name == "TCP" else ()
            written = ", ".join([*COLUMNS, *(f"CASE WHEN {flag} THEN 1 ELSE 0 END AS {flag}" for flag in flags)])
            kinds = COLUMNS | dict.fromkeys(flags, "BOOLEAN")
            database.execute(f"CREATE TABLE {name} ({', '.join(' '.join(kind) for kind in kinds.items())})")
            for row in last_rows(f"SELECT {written} FROM {name}"):
                database.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(kinds))})", list(row.values()))
        yield database


@pytest.mark.slow
@pytest.mark.parametrize(("sql", "query"), list(pairs()))
def test_both_sides_give_the_same_rows(sql: str, query: str, tables: duckdb.DuckDBPyConnection) -> None:
    found = tables.execute(sql)
    names = [column[0] for column in found.description or ()]
    expected: Rows = Counter(tuple(_text(value) for value in row) for row in found.fetchall())
    rows: Rows = Counter(tuple(_text(row[name]) for name in names) for row in last_rows(query))
    assert expected and rows == expected


def _text(value: object) -> str:
    """Numbers by their value, whatever type a side gives them; instants in ISO 8601."""
    if isinstance(value, datetime):
        return f"{value.isoformat()}Z"
    try:
        return f"{float(str(value)):.9g}"
    except ValueError:
        return str(value)
