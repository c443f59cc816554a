"""Rows that another program doubled are found in the log, and taken out by a command: one of each is left."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings, strategies as st

from lowwater.config import Retention
from lowwater.instants import HOUR
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.runs import ReplayRow, read_replays, record_replays
from lowwater.lake.maintain import DOUBLED, maintain
from lowwater.lake.tables import append_rows, create, replace_rows
from lowwater.lake.upkeep import changes, doubled, doubled_tables, join, mend
from tests.breadth import examples
from tests.replay.support import lowwater

SCHEMA = pa.schema([pa.field("_hour", pa.int64(), nullable=False), pa.field("value", pa.int64())])
SEVEN_DAYS = Retention(versions="7d")


def table(lake: Lake, count: int = 4) -> Path:
    path = Path(lake.table("q"))
    create(path, SCHEMA, ["_hour"], "set")
    for number in range(count):
        append_rows(path, pa.table({"_hour": [0], "value": [number]}, schema=SCHEMA))
    return path


def values(path: Path) -> list[int]:
    found: list[int] = sorted(DeltaTable(path).to_pyarrow_table()["value"].to_pylist())
    return found


def optimized(*tables: DeltaTable) -> None:
    """As a person's own OPTIMIZE: Delta lets each of them commit."""
    for each in tables:
        each.optimize.compact()


@pytest.mark.slow
def test_a_ledger_heals_too_also_when_rows_changed_since(lake: Lake) -> None:
    for when in range(4):
        record_replays(lake, [ReplayRow("s", "q", 0, HOUR, "publish", "done", when)])
    optimized(*[DeltaTable(lake.replays) for _ in range(3)])
    assert len(read_replays(lake)) == 12
    rows = DeltaTable(lake.replays).to_pyarrow_table()
    replace_rows(lake.replays, rows, None)
    assert [each.why for each in maintain(lake, SEVEN_DAYS) if each.what == DOUBLED]
    maintain(lake, SEVEN_DAYS, mend=True)
    assert [row.finished_at for row in read_replays(lake)] == [0, 1, 2, 3]
    assert not list(doubled_tables(lake))


@pytest.mark.slow
def test_the_command_says_what_mends(lake: Lake) -> None:
    path = table(lake)
    optimized(DeltaTable(path), DeltaTable(path, version=4))
    said = lowwater("maintain", "--lake", lake.root)
    assert said.code == 1 and "tables/q holds rows twice since version 6 by delta-rs" in said.err
    assert "`lowwater maintain` with --mend" in said.err
    assert lowwater("maintain", "--lake", lake.root, "--mend").code == 0
    assert values(path) == [0, 1, 2, 3] and lowwater("maintain", "--lake", lake.root).code == 0


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=examples(8))
def test_any_joins_beside_each_other_are_mended(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    lake = Lake(tmp_path_factory.mktemp("joins"))
    path = table(lake, 3)
    handles, count = [DeltaTable(path)], 3
    for _ in range(data.draw(st.integers(1, 6))):
        act = data.draw(st.sampled_from(["append", "join", "ours", "open"]))
        if act == "append":
            append_rows(path, pa.table({"_hour": [0], "value": [count]}, schema=SCHEMA))
            count += 1
        elif act == "join":
            optimized(data.draw(st.sampled_from(handles)))
        elif act == "ours":
            join(path, lambda row: True)
        else:
            handles.append(DeltaTable(path))
    found = doubled(changes(path))
    assert (found is not None) == (values(path) != list(range(count)))
    if found is not None:
        mend(lake, path, found)
    assert values(path) == list(range(count)) and doubled(changes(path)) is None
