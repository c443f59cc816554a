"""Files that any command writes, with their temporary ones and caches, are for the user and the group at most, or less
by the umask."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.breadth import each_push
from tests.hostile.test_baits import driven, every_command
from tests.lake.support import capture

pytestmark = pytest.mark.slow
QUERY = "DEFINE { query_name 'n'; } SELECT tb, count(*) AS n FROM main1.ETH GROUP BY time/60 AS tb"


@pytest.mark.parametrize("umask", each_push([0o000, 0o077], 2))
def test_no_command_writes_a_file_for_others(umask: int, tmp_path: Path) -> None:
    folder, written = tmp_path / "given", tmp_path / "written"
    for hour in range(2):
        capture(folder / f"main1_2026010{hour + 1}.pcap", range(60 * hour, 60 * hour + 60))
    (folder / "n.gsql").write_text(QUERY)
    names = ("TMPDIR", "XDG_CACHE_HOME", "HOME", "LOWWATER_CACHE", "NUMBA_CACHE_DIR")
    places = {name: written / name for name in names}
    for place in places.values():
        place.mkdir(parents=True, mode=0o700)
    commands = every_command(folder, written)
    given = {*tmp_path.rglob("*"), *(written / "captures").rglob("*")}
    driven(folder, *commands, umask=umask, **{name: str(place) for name, place in places.items()})
    made = [path for path in tmp_path.rglob("*") if path not in given and not path.is_symlink()]
    kinds = {path.relative_to(written).parts[0] for path in made}
    assert kinds >= {"lake", "out", "site", "generated", "some.pcap", "LOWWATER_CACHE"} and len(made) > 100, kinds
    modes = {path: os.lstat(path).st_mode for path in made}
    wide = {str(path): oct(mode) for path, mode in modes.items() if stat.S_IMODE(mode) & (0o027 | umask)}
    assert wide == {}
