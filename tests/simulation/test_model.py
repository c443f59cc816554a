"""The model of delta-rs does what the real one does: the same calls on both, by several handles of old versions."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from lowwater.lake.tables import live_files
from tests.breadth import examples
from tests.simulation.delta import SimTable, Tables
from tests.simulation.lake import ROOT
from tests.simulation.world import Process, World

SCHEMA = pa.schema([pa.field("part", pa.string()), pa.field("_last", pa.int64())])


class Direct(World):
    """A world of one process, whose requests are done at once."""

    def request(self, what: str, act: Any, writes: bool = False) -> Any:
        return act()

    def me(self) -> Process:
        return Process(1)


def outcome(table: Any, actions: list[Any], options: dict[str, Any]) -> str:
    try:
        mode = "overwrite" if "partition_filters" in options else "append"
        table.create_write_transaction(actions, mode, table.schema(), **options)
    except CommitFailedError as error:
        return str(error)
    except DeltaError as error:
        return type(error).__name__
    return "done"


@pytest.mark.parametrize("seed", range(examples(10)))
def test_the_model_commits_what_delta_commits(tmp_path: Path, seed: int) -> None:
    draw, world = Random(seed), Direct(seed)
    tables, path = Tables(world), str(ROOT / "table")
    tables.make(path, ["part"])
    DeltaTable.create(str(tmp_path), SCHEMA, partition_by=["part"])
    handles: list[Any] = [(DeltaTable(str(tmp_path)), SimTable(tables, path))]
    for step in range(12):
        real, sim = draw.choice(handles)
        if draw.random() < 0.3:
            handles.append((DeltaTable(str(tmp_path)), SimTable(tables, path)))
        if draw.random() < 0.3:
            real.update_incremental()
            sim.update_incremental()
        files = sorted(row["path"] for row in live_files(real))
        assert files == sorted(sim.current.files)
        gone = draw.sample(files, draw.randrange(len(files) + 1))
        stats = json.dumps({"numRecords": step, "minValues": {"_last": step}, "maxValues": {"_last": 2 * step}})
        actions: list[Any] = [RemoveAction(name, False, 0, 1, {"part": name[5]}) for name in gone]
        part = draw.choice("ab")
        if whole := draw.random() < 0.3:
            actions = []
        actions.append(AddAction(f"part={part}/{step}.parquet", 1, {"part": part}, 0, True, stats))
        number = Transaction("lease", step)
        options: dict[str, Any] = {
            "commit_properties": CommitProperties(
                custom_metadata={"token": str(step)}, max_commit_retries=0, app_transactions=[number]
            )
        }
        if whole:
            options |= {"partition_filters": [("part", "in", [draw.choice("ab")])]}
        said = [outcome(table, actions, options) for table in (real, sim)]
        assert said[0] == said[1]
        assert real.version() == sim.version() and real.transaction_version("lease") == sim.transaction_version("lease")
    real, sim = DeltaTable(str(tmp_path)), SimTable(tables, path)
    names = ("path", "num_records", "partition.part", "min._last", "max._last")
    found = [sorted([row[name] for name in names] for row in live_files(table)) for table in (real, sim)]
    assert found[0] == found[1]
