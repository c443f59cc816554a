"""Backups of lakes in stores, and in stores: from each to each, and who takes a lease over there afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowwater.lake.layout import open_lake
from lowwater.storage import paths
from lowwater.storage.object_paths import ObjectPath
from tests.cli.hostile import clean
from tests.lake.pinning import put


def names(root: Path | ObjectPath) -> set[str]:
    left_out = ("_locks", "_work", "_logs", "_ledgers", "backup.json")
    found = (path.relative_to(root).as_posix() for path in paths.files_below(root))
    return {name for name in found if not name.startswith(left_out) and not name.endswith("_last_checkpoint")}


@pytest.mark.slow
def test_a_lake_goes_through_stores_and_folders(root: ObjectPath, tmp_path: Path) -> None:
    lake, place = open_lake(root / "lake"), root / "backups"
    for number in range(3):
        put(lake, number, number)
    clean("backup", "--lake", root / "lake", "--to", place)
    assert " 0 files, 0 kB, copied" in clean("backup", "--lake", root / "lake", "--to", place).out
    assert "all as written" in clean("restore", "--from", place, "--dry-run").out
    clean("restore", "--from", place, "--lake", root / "other")
    clean("restore", "--from", place, "--lake", tmp_path / "lake")
    assert names(root / "lake") == names(root / "other") == names(tmp_path / "lake")
    # The counts of leases are left behind, and tables refuse numbers below those that they have.
    put(open_lake(root / "other"), 3, 7)
    put(open_lake(tmp_path / "lake"), 3, 7)
    clean("backup", "--lake", tmp_path / "lake", "--to", tmp_path / "backups", "--keep", "1")
    clean("restore", "--from", tmp_path / "backups", "--lake", root / "third")
    put(open_lake(root / "third"), 4, 8)
    for each in (root / "third", tmp_path / "lake"):
        clean("verify", "--lake", each, "--data")
