"""`lowwater init` into a lake in an object store: settings and protocols are written there; ingest reads by them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowwater.config import load_config
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.storage import paths
from lowwater.storage.object_paths import ObjectPath
from tests.capture.logmaker import pair
from tests.replay.support import lowwater


@pytest.mark.slow
def test_init_into_an_object_store(root: ObjectPath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # gets the file of the PROTOCOL block
    folder = tmp_path / "in"
    folder.mkdir()
    files = pair()[1]
    for name in ("wire.pcap", "conn.log"):
        (folder / name).write_bytes(files[name])
    rows = "".join(f"{1767225600 + at}, {at * 3 % 7}\n" for at in range(30))
    (folder / "load.csv").write_text(f"time,busy\n{rows.replace(' ', '')}")
    (tmp_path / "one.gsql").write_text("SELECT time, busy FROM load.LOAD")
    said = lowwater("init", folder, "--lake", root, "--query", tmp_path / "one.gsql")
    assert said.code == 0, said
    assert f"wrote {root}/lowwater.toml" in said.out
    config = load_config(root)
    assert set(config.links) == {"conn", "load", "wire"} and set(config.query_sets) == {"one"}
    assert paths.exists(root / "lowwater.toml") and (tmp_path / "load.schema").exists()
    again = lowwater("init", folder, "--lake", root)
    assert again.code == 1 and "already exists" in again.err
    done = lowwater("ingest", "--lake", root)
    assert done.code == 0, done
    found = read_captures(open_lake(root), config.links)
    assert all(row.packets > 0 for link in config.links for row in found[link])
    assert sum(row.packets for row in found["load"]) == 30
