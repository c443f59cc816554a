"""The application of docs/streams.md: killed at any moment, its table in PostgreSQL is the published one."""

from __future__ import annotations

import importlib.util
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lowwater.catalog.expr import Type
from lowwater.catalog.schemas import PUNCTUATION, ROW
from lowwater.instants import HOUR, SECOND
from lowwater.lake.layout import Lake, open_lake, result_schema
from lowwater.lake.open_tables import existing
from lowwater.lake.tables import open_table
from lowwater.plan.operators import Field
from tests.breadth import some
from tests.lake.support import BASE, publish_rows
from tests.postgres import postgres_server
from tests.replay.support import ROOT, wait

FIELDS = (Field("tb", Type.INT), Field("srcIP", Type.IP), Field("cnt", Type.INT))
KILLS, SECONDS = some(range(12), 3), 300
"""Every other one waits for a change that is taken over; all twelve in `make fuzz`."""
pytestmark = pytest.mark.slow


def put(lake: Lake, hour: int, seed: int) -> None:
    """Publishes an hour of some hundred rows, which depend on the seed."""
    start, draw = BASE + hour * HOUR, random.Random(seed)
    rows: list[dict[str, Any]] = []
    for _ in range(draw.randrange(400)):
        last = start + draw.randrange(HOUR)
        rows.append({"tb": last // (60 * SECOND), "srcIP": f"10.0.0.{draw.randrange(9)}", "cnt": draw.randrange(99)})
        rows[-1] |= {"_last": last, "_kind": ROW, "_tick": last, "_until": last, "_period": 0}
    rows.append({"_last": start + HOUR, "_kind": PUNCTUATION, "_tick": start, "_until": start, "_period": 0})
    table = pa.Table.from_pylist(rows, schema=result_schema(FIELDS).remove(len(FIELDS) + 5))
    publish_rows(lake, start, start + HOUR, table, str(seed), query="flows", fields=FIELDS)


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    if importlib.util.find_spec("psycopg2") is None:
        pytest.skip("no psycopg2 here: pip install --no-deps -r docker/requirements.txt")
    with postgres_server("lowwater", "secret", "sink") as port:
        yield f"host=127.0.0.1 port={port} dbname=sink user=lowwater password=secret"


def example(folder: Path) -> Path:
    """The program of the document."""
    text = (ROOT / "docs" / "streams.md").read_text(encoding="utf-8")
    (program,) = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "psycopg2" in block]
    path = folder / "sink.py"
    path.write_text(program, encoding="utf-8")
    return path


def query(database: str, text: str) -> list[tuple[Any, ...]]:
    import psycopg2

    connection = psycopg2.connect(database)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(text)
            return list(cursor.fetchall())
    except psycopg2.errors.UndefinedTable:
        return []
    finally:
        connection.close()


def position(database: str) -> list[tuple[Any, ...]]:
    return query(database, "SELECT position FROM positions")


@contextmanager
def running(program: Path, lake: Lake, database: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, program, str(lake.root), database], cwd=ROOT, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.hypothesis
def test_killed_at_any_moment_the_tables_are_equal(database: str, tmp_path: Path) -> None:
    lake, program, draw = open_lake(tmp_path / "lake"), example(tmp_path), random.Random(7)
    put(lake, 0, 1)
    dead = 0
    for kill in KILLS:
        with running(program, lake, database) as process:
            before = position(database)
            put(lake, draw.randrange(4), 100 + kill)  # often an hour that was published before
            put(lake, draw.randrange(4), 200 + kill)
            if kill % 2:  # at work on the change after this one
                assert wait(lambda before=before: position(database) != before, SECONDS, 0.05)  # type: ignore[misc]
            time.sleep(draw.uniform(0, 0.1 if kill % 2 else 1.5))
            process.send_signal(signal.SIGKILL)
            dead += process.wait() == -signal.SIGKILL
    assert dead == len(KILLS)

    def published() -> Counter[tuple[Any, ...]]:
        table = existing(lake.table("flows"))
        rows = table.to_pyarrow_table(columns=["tb", "srcIP", "cnt", "_last"]).to_pylist()
        return Counter(tuple(row.values()) for row in rows)

    with running(program, lake, database):
        assert wait(
            lambda: Counter(query(database, 'SELECT tb, "srcIP", cnt, _last FROM flows')) == published(), SECONDS
        )
    versions = query(database, "SELECT position::json->>'version' FROM positions")
    newest = open_table(lake.table("flows"))
    assert newest is not None and versions == [(str(newest.version()),)]
