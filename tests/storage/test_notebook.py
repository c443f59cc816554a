"""`from lowwater import Lake` over an object store: the rows of the same lake in a folder."""

from __future__ import annotations

from pathlib import Path, PurePath

import pyarrow as pa
import pytest
from lowwater_generator import generate

from lowwater import Lake
from lowwater.errors import LakeError
from lowwater.instants import HOUR, SECOND
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.runs import ReplayRow, record_replays
from lowwater.lake.tables import append_rows, create
from lowwater.storage.object_paths import ObjectPath
from tests.replay.support import START, lowwater

pytestmark = pytest.mark.slow


def fill(root: PurePath, capture: Path) -> Lake:
    """A lake with the packets of a capture and a published table of two versions."""
    lake = open_lake(root)
    said = lowwater("ingest", "--lake", root, "--link", "main1", capture)
    assert said.code == 0, said
    for number in range(2):
        at = START + number * 60 * SECOND
        rows = pa.table({"n": [number, number + 1], "_last": [at + 1, at], "_hour": [at // HOUR] * 2})
        create(lake.table("flows"), rows.schema, ["_hour"], "q")
        append_rows(lake.table("flows"), rows)
    record_replays(lake, [ReplayRow("q", "flows", START, START + HOUR, "publish", "done", START + HOUR, rows=4)])
    return Lake(str(root))


def test_rows_and_packets_are_those_of_a_folder(root: ObjectPath, tmp_path: Path) -> None:
    capture = generate(tmp_path / "captures", START, 1, ["main1"], rate=1.0, seed=3)[0].path
    far, near = fill(root, capture), fill(tmp_path / "lake", capture)
    assert far.tables == near.tables == ["flows"] and far.links == near.links == ["main1"]
    wanted = near.table("flows").arrow()
    assert wanted["n"].to_pylist() == [1, 0, 2, 1]
    assert far.table("flows").arrow() == wanted
    assert far.table("flows", version=1).arrow() == near.table("flows", version=1).arrow() == wanted.slice(0, 2)
    late = START + 60 * SECOND
    assert far.table("flows", start=late).duckdb().fetchall() == near.table("flows", start=late).duckdb().fetchall()
    columns = ["position", "timestamp", "srcIP", "len"]
    packets = far.packets("main1", end=START + 600 * SECOND, where="len > 60", columns=columns).polars()
    assert packets.height > 50
    assert packets.equals(near.packets("main1", end=START + 600 * SECOND, where="len > 60", columns=columns).polars())
    assert far.ledger("contents").arrow()["packets"] == near.ledger("contents").arrow()["packets"]


def test_an_address_without_a_lake_is_told(root: ObjectPath) -> None:
    with pytest.raises(LakeError, match="there is no lake"):
        Lake(f"{root}/none")
