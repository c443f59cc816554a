"""`maintain --verify`: what a log says of a file is what the file holds."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from lowwater.instants import HOUR
from lowwater.lake.layout import open_lake
from lowwater.lake.open_tables import _OPEN
from lowwater.lake.tables import append_rows, create
from lowwater.lake.verification import Asked, Damaged, verify
from tests.cli.hostile import clean

SCHEMA = pa.schema([("_hour", pa.int64()), ("_last", pa.int64()), ("x", pa.string())])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lake = open_lake(tmp_path_factory.mktemp("claims") / "lake")
    create(lake.table("flows"), SCHEMA, ["_hour"], "q")
    rows = {"_hour": [1] * 9, "_last": [HOUR + second for second in range(9)], "x": ["a"] * 9}
    append_rows(lake.table("flows"), pa.table(rows, SCHEMA))
    return Path(lake.root)


LIES = {
    "fewer rows": ({"numRecords": 8}, "the log says 8 rows, and it has 9"),
    "a bound above": ({"minValues": {"_last": HOUR + 3}}, "_last is in"),
    "a bound below": ({"maxValues": {"_last": HOUR + 3}}, "_last is in"),
    "turned bounds": ({"minValues": {"_last": HOUR + 9}, "maxValues": {"_last": HOUR}}, "_last is in"),
}


def damaged(root: Path) -> list[Damaged]:
    return verify(open_lake(root), Asked(data=True)).damaged


@pytest.mark.slow
@pytest.mark.parametrize("name", LIES)
def test_a_log_that_lies_is_named(name: str, made: Path, tmp_path: Path) -> None:
    change, said = LIES[name]
    root = shutil.copytree(made, tmp_path / "lake")
    entry = root / "tables" / "flows" / "_delta_log" / f"{1:020d}.json"
    actions = [json.loads(line) for line in entry.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            stats = json.loads(action["add"]["stats"])
            action["add"]["stats"] = json.dumps({**stats, **change})
            name_of_file = action["add"]["path"]
    entry.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    (found,) = damaged(root)
    assert said in found.what and name_of_file in found.where
    _OPEN.tables.clear()
    refused = clean("maintain", "--lake", root, "--verify", code=1)
    assert said in refused.out and "1 file is not as written" in refused.err


def test_a_file_of_another_hour_and_one_that_is_gone_are_named(made: Path, tmp_path: Path) -> None:
    root = shutil.copytree(made, tmp_path / "lake")
    entry = root / "tables" / "flows" / "_delta_log" / f"{1:020d}.json"
    honest = entry.read_text()
    entry.write_text(honest.replace('"partitionValues":{"_hour":"1"}', '"partitionValues":{"_hour":"7"}'))
    (found,) = damaged(root)
    assert "puts it into hour 7" in found.what
    entry.write_text(honest)
    _OPEN.tables.clear()
    next((root / "tables").rglob("*.parquet")).unlink()
    (found,) = damaged(root)
    assert found.what == "is gone"
