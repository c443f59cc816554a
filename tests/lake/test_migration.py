"""A lake of another format is refused in one line, and reading a lake writes nothing."""

from __future__ import annotations

import re
import shutil
import tarfile
from pathlib import Path

import pytest
from lowwater_review.ledgers import Ledgers

from lowwater.errors import LakeError
from lowwater.lake.layout import FORMAT, lake_to_read, open_lake
from tests.replay.support import lowwater


@pytest.fixture
def old(tmp_path: Path) -> Path:
    with tarfile.open(Path(__file__).with_name("lake-0.1.tar.xz")) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


READERS = (
    ("plan",), ("status",), ("report",), ("rows", "talkers"), ("history", "talkers"), ("streams",), ("metrics",),
    ("diff", "talkers", "--from", "previous"), ("tail", "talkers"), ("skew",), ("try",), ("expect", "--suggest"),
    ("export", "--link", "main1", "--out", "out.pcap", "--force"), ("check", "queries/talkers.gsql"),
    ("explain", "queries/talkers.gsql", "--with-stats"), ("why", "talkers", "2026-01-01"), ("log",),
    ("rollback", "talkers", "--dry-run", "--at", "2026-01-01", "--to", "previous", "--because", "why"),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["of 0.1", "of today", "that only has settings"])
def test_reading_a_lake_writes_nothing(old: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """No lock, no folder, no ledger, and no column that this version has and 0.1 had not: others may read it too."""
    lake = old / "lake"
    monkeypatch.chdir(old)
    if kind == "of today":
        shutil.rmtree(lake)
        open_lake(lake)
    elif kind == "that only has settings":
        shutil.rmtree(lake)
        lake.mkdir()
        (lake / "lowwater.toml").write_text("")

    def files() -> list[tuple[str, int, int]]:
        found = [(path, path.lstat()) for path in sorted(lake.rglob("*"))]
        return [(str(path), status.st_size, status.st_ctime_ns) for path, status in found]

    before = files()
    for command in READERS:
        said = lowwater(*command, "--lake", lake)
        assert said.code in (0, 1, 3) and not re.search("cannot be (written|locked|made)", said.err), (command, said)
        assert files() == before, command
        if kind == "of 0.1" and command[0] not in ("check",):
            assert said.code == 1 and said.err.count("\n") <= 2 and "is a lake of format 1" in said.err, (command, said)
            assert "lowwater upgrade" in said.err
    if kind == "of 0.1":
        with pytest.raises(LakeError, match="of format 1"):
            open_lake(lake)
        assert files() == before
    else:
        assert Ledgers(lake, Path("queries")).now() is not None and files() == before


def test_a_later_format_is_refused(tmp_path: Path) -> None:
    open_lake(tmp_path / "lake")
    (tmp_path / "lake" / "lowwater.toml").write_text("")
    (tmp_path / "lake" / FORMAT).rename(tmp_path / "lake" / "_format=3")
    for opened in (lake_to_read, open_lake):
        with pytest.raises(LakeError, match="of format 3, and this version of Lowwater reads format 2"):
            opened(tmp_path / "lake")
