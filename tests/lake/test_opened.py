"""Tables that a thread keeps open are what a reader of the whole log finds, whoever commits and whatever is removed."""

from __future__ import annotations

import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from lowwater.errors import LakeError
from lowwater.lake.open_tables import cached_value, forget, newest
from lowwater.lake.tables import append_rows, commit, create, open_table, read_rows, replace_rows

SCHEMA = pa.schema([pa.field("part", pa.string(), nullable=False), pa.field("value", pa.int64())])


def rows(part: str, *values: int) -> pa.Table:
    return pa.table({"part": [part] * len(values), "value": list(values)}, schema=SCHEMA)


def some_change(path: Path, draw: random.Random) -> None:
    part = draw.choice("ab")
    kind = draw.choice(["append", "append", "replace", "compact", "checkpoint"])
    if kind == "append":
        append_rows(path, rows(part, draw.randrange(100)))
    elif kind == "replace":
        replace_rows(path, rows(part, *(draw.randrange(100) for _ in range(3))), pc.field("part") == part)
    elif kind == "compact":
        commit(path, lambda table, _: table.optimize.compact())
    else:
        DeltaTable(str(path)).create_checkpoint()


def check(path: Path) -> None:
    fresh, kept = DeltaTable(str(path)), open_table(path)
    assert kept is not None
    assert kept.version() == fresh.version()
    assert sorted(kept.file_uris()) == sorted(fresh.file_uris())
    found = read_rows(path, SCHEMA).sort_by([("part", "ascending"), ("value", "ascending")])
    assert found == fresh.to_pyarrow_table().cast(SCHEMA).sort_by([("part", "ascending"), ("value", "ascending")])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_what_is_open_follows_the_commits_of_all_threads(tmp_path: Path, seed: int) -> None:
    draw, path = random.Random(seed), tmp_path / "table"
    create(path, SCHEMA, ["part"])
    with ThreadPoolExecutor(1) as other:
        for _ in range(40):
            if draw.random() < 0.5:
                some_change(path, draw)
            else:
                other.submit(some_change, path, draw).result()
            if draw.random() < 0.5:
                check(path)
                other.submit(check, path).result()
    check(path)


@pytest.mark.parametrize("again", [0, 1, 3])
def test_a_table_that_was_removed_and_made_again_is_another(tmp_path: Path, again: int) -> None:
    path = tmp_path / "table"
    create(path, SCHEMA, ["part"])
    append_rows(path, rows("a", 1))
    assert cached_value(path, "rows", lambda _: read_rows(path, SCHEMA).num_rows) == 1
    shutil.rmtree(path)
    assert newest(path) is None
    assert read_rows(path, SCHEMA).num_rows == 0
    with pytest.raises(LakeError):
        append_rows(path, rows("a", 1))
    create(path, SCHEMA, ["part"])
    for value in range(again):
        append_rows(path, rows("b", value))
    check(path)
    assert cached_value(path, "rows", lambda _: read_rows(path, SCHEMA).num_rows) == again


@pytest.mark.slow
def test_old_entries_of_a_log_are_removed_after_a_checkpoint(tmp_path: Path) -> None:
    """Not at other commits: each time Delta would list the whole log."""
    path = tmp_path / "table"
    create(path, SCHEMA, ["part"])
    DeltaTable(str(path)).alter.set_table_properties({"delta.logRetentionDuration": "interval 0 days"})
    append_rows(path, rows("a", 0))
    log = path / "_delta_log"
    text = (log / f"{2:020d}.json").read_text()
    for version in range(3, 99):
        (log / f"{version:020d}.json").write_text(text)
    forget(path)
    left = []
    for value in range(3):
        append_rows(path, rows("a", value))
        left.append(sorted(int(file.stem) for file in log.glob("*.json")))
    assert left == [[*range(100)], [99, 100], [99, 100, 101]]
    assert open_table(path) is not None
