"""The evidence of a row of a lake in an object store: it is made of the store, and derives the row without it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from lowwater.storage import paths
from lowwater.storage.object_paths import ObjectPath
from tests.capture.tsharkoracle import need_tshark
from tests.cli.hostile import clean
from tests.lake.damage import TO, prepare


@pytest.mark.slow
def test_a_row_of_a_lake_in_a_store_has_evidence_that_derives_it(root: ObjectPath, tmp_path: Path) -> None:
    need_tshark()
    folder = prepare(tmp_path)
    settings = (folder / "lake" / "lowwater.toml").read_text().replace('"../', f'"{folder}/')
    paths.write(root / "lowwater.toml", settings.encode())
    at = "--lake", str(root)
    clean("ingest", *at)
    clean("backfill", *at, "--to", TO)
    row = json.loads(clean("rows", "flows", *at, "--format", "json").out.splitlines()[0])
    row = {name: value for name, value in row.items() if not name.startswith("_")}
    archive, derived = tmp_path / "row.zip", tmp_path / "derived"
    said = clean("evidence", "flows", *at, "--row", json.dumps(row), "--out", archive)
    assert str(archive) in said.out
    with zipfile.ZipFile(archive) as file:
        file.extractall(derived)
    about = json.loads((derived / "evidence.json").read_text())
    assert about["derive"] == "duckdb"
    without = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [sys.executable, "check.py"], cwd=derived, capture_output=True, text=True, check=False,
        env={**without, "PATH": programs},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
