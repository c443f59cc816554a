"""Who may read and change a lake: its user and group, whatever the umask of the user allows beyond that."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lowwater.lake import open_tables
from lowwater.lake.layout import open_lake
from lowwater.storage import paths
from lowwater.storage.failures import MAY
from lowwater.storage.paths import private
from tests.lake.life import Life, as_user
from tests.lake.support import capture
from tests.replay.support import lowwater


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield int(request.param)
    os.umask(before)


@pytest.mark.slow
def test_nobody_else_reads_a_lake(tmp_path: Path, umask: int) -> None:
    lake, query = tmp_path / "lake", tmp_path / "q.gsql"
    capture(tmp_path / "captures" / "main1.pcap", range(20))
    query.write_text("SELECT tb, count(*) FROM main1.ETH GROUP BY time/60 AS tb")
    for command in (
        ["init", tmp_path / "captures", "--lake", lake, "--query", query],
        ["ingest", "--lake", lake],
        ["maintain", "--lake", lake],
    ):
        said = lowwater(*command)
        assert said.code == 0, said
    made = [lake, *lake.rglob("*")]
    assert len(made) > 20
    widest = {path: path.stat().st_mode & 0o777 for path in made}
    assert {path: oct(mode) for path, mode in widest.items() if mode & (0o027 | umask)} == {}
    assert os.umask(umask) == umask, "the umask of the process is as it was"


def test_a_stricter_umask_stays() -> None:
    before = os.umask(0o177)
    with private():
        assert os.umask(0o177) == 0o177
    os.umask(before)


@pytest.mark.slow
def test_a_lake_made_by_python_is_private_too(tmp_path: Path, umask: int) -> None:
    lake = open_lake(tmp_path / "lake")
    paths.write(lake.root / "lowwater.toml", b"")
    made = [tmp_path / "lake", *(tmp_path / "lake").rglob("*")]
    assert len(made) > 20
    assert {path: oct(path.stat().st_mode) for path in made if path.stat().st_mode & (0o027 | umask)} == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is another user")
def test_who_lacks_a_right_is_told_how_to_get_it() -> None:
    with tempfile.TemporaryDirectory(prefix="lake-") as folder:
        top = Path(folder)
        top.chmod(0o711)
        lake = open_lake(top / "lake")
        (lake.root / "lowwater.toml").write_text("[links.a]\n")
        for mode, command in ((0o750, "status"), (0o755, "maintain")):
            Life.give(lake.root, 0, mode)
            with as_user(2001, 2001):
                said = lowwater(command, "--lake", lake.root)
            assert said.code == 1 and MAY in said.err, (command, said)
        Life.give(lake.root, 3000, 0o2770)
        for user in (2001, 2002):  # members of a group may work in a lake that is given to it
            open_tables._OPEN.tables.clear()
            with as_user(user, 3000):
                assert lowwater("maintain", "--lake", lake.root).code == 0
        made = [path for path in lake.root.rglob("*") if path.stat().st_uid]
        assert made and [path for path in made if path.stat().st_mode & 0o027 != 0o020] == []
        lake.replays.chmod(0o700)
        open_tables.forget(lake.replays)
        with as_user(2001, 3000):
            said = lowwater("status", "--lake", lake.root)
        assert said.code == 1 and MAY in said.err and str(lake.replays) in said.err, said
