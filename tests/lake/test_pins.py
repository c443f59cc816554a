"""Readers at the pinned versions see an interval of a query set wholly or not at all, whoever dies meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable

from lowwater.config import Retention
from lowwater.instants import HOUR
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.maintain import maintain
from lowwater.lake.results.pins import Pins, pinned, pins_file
from tests.docs.book import ROOT
from tests.lake.pinning import HOURS, QUERIES, put
from tests.lake.support import BASE

Seen = dict[str, dict[int, set[int]]]


def marks(lake: Lake, versions: Mapping[str, int | None]) -> Seen:
    """Query -> hour -> numbers in its rows, at these versions; None is the newest."""
    seen: Seen = {}
    for query, version in versions.items():
        table = DeltaTable(str(lake.table(query)), version=version).to_pyarrow_table(columns=["_last", "n"])
        hours: dict[int, set[int]] = {}
        for last, number in zip(table["_last"].to_pylist(), table["n"].to_pylist(), strict=True):
            hours.setdefault((last - BASE) // HOUR, set()).add(number)
        seen[query] = hours
    return seen


def whole(seen: Seen) -> bool:
    """Whether the tables have the same publications."""
    return all(hours == seen[QUERIES[0]] for hours in seen.values())


def pins_of(lake: Lake) -> Pins:
    pins = pinned(lake, "set")
    assert pins is not None
    return pins


def child(lake: Lake, mark: int, deaths: float) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.lake.pinning", str(lake.root), str(mark), str(deaths)]
    return subprocess.Popen(command, cwd=ROOT)


@pytest.mark.slow
def test_an_interval_that_died_half_published_holds_the_pins(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "lake")
    put(lake, 0, 1)
    before = pins_of(lake)
    code = "import sys; from pathlib import Path; from lowwater.lake.layout import open_lake; "
    code += "from tests.lake.pinning import put; put(open_lake(Path(sys.argv[1])), 1, 2, dies_after=2)"
    assert subprocess.run([sys.executable, "-c", code, str(lake.root)], cwd=ROOT, check=False).returncode == -9
    half = pins_of(lake)
    assert (half.tables, half.unfinished) == (before.tables, ((BASE + HOUR, BASE + 2 * HOUR),))
    assert not whole(marks(lake, dict.fromkeys(QUERIES, None)))
    put(lake, 2, 3)
    assert pins_of(lake).tables == before.tables, "the newest versions have a half interval"
    assert marks(lake, before.tables) == {query: {0: {1}} for query in QUERIES}
    steps = maintain(lake, Retention(versions="1h"), clock=lambda: 1 << 62)
    assert not [step for step in steps if step.what == "removed files" and step.where.startswith("tables/")]
    put(lake, 1, 4)
    assert marks(lake, pins_of(lake).tables) == {query: {0: {1}, 1: {4}, 2: {3}} for query in QUERIES}
    assert not pins_of(lake).unfinished


@pytest.mark.slow
def test_the_file_is_read_without_lowwater(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "lake")
    put(lake, 0, 7)
    file = str(pins_file(lake, "set"))
    assert json.loads(Path(file).read_text())["tables"] == dict(pins_of(lake).tables)
    with duckdb.connect() as connection:
        versions = connection.execute(f"SELECT tables FROM read_json('{file}')").fetchall()[0][0]
    assert versions == pins_of(lake).tables


@pytest.mark.nightly
@pytest.mark.slow
def test_readers_that_poll_while_publishers_die_see_whole_intervals(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "lake")
    put(lake, 0, 1)
    reads, newest_halves, distinct, died = 0, 0, set[str](), 0
    for life in range(6):
        deaths = 0.0 if life == 5 else 0.35
        with child(lake, 1_000 * (life + 1), deaths) as process:
            while process.poll() is None:
                seen = marks(lake, pins_of(lake).tables)
                assert whole(seen), f"an interval is there in part: {seen}"
                newest_halves += not whole(marks(lake, dict.fromkeys(QUERIES, None)))
                reads += 1
                distinct.add(json.dumps(dict(pins_of(lake).tables)))
        died += process.returncode == -9
    last = pins_of(lake)
    assert died and newest_halves and len(distinct) > 3 and reads > 20, (died, newest_halves, distinct, reads)
    assert not last.unfinished
    assert last.tables == {query: DeltaTable(str(lake.table(query))).version() for query in QUERIES}
    assert all(set(hours) == set(range(HOURS)) for hours in marks(lake, last.tables).values())
