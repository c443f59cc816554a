"""Temporary folders: those of a killed process go, those of a living one stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from lowwater import caches
from lowwater.caches import make_folder, remove_folder

CHILD = "import time; from lowwater.caches import make_folder; print(make_folder('lw-'), flush=True); time.sleep(60)"


def test_the_folder_of_a_killed_process_is_removed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD], stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    assert child.stdout is not None
    theirs = Path(child.stdout.readline().strip())
    other = make_folder("lw-")
    assert theirs.is_dir() and other.is_dir(), "the folder of a living process stays"
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    mine = make_folder("lw-")
    assert not theirs.exists()
    assert other.is_dir() and mine.is_dir()
    for folder in (mine, other):
        remove_folder(folder)
        remove_folder(folder)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("kind", "stays"), [("ours", False), ("new", True), ("theirs", True), ("link", True)])
def test_a_folder_without_a_lock_goes_once_it_is_old_and_ours(
    kind: str, stays: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner died before it had the lock, or halfway through the removal."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(caches, "MAKING", 3600.0 if kind == "new" else -1.0)
    if kind == "theirs" and os.geteuid() != 0:
        pytest.skip("only root gives folders away")
    folder, outside = tmp_path / "lw-old", tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("")
    if kind == "link":
        folder.symlink_to(outside)
    else:
        (folder / "blockmgr").mkdir(parents=True)
        os.utime(folder, (0, 0))
    if kind == "theirs":
        os.chown(folder, 12345, 12345)
    remove_folder(make_folder("lw-"))
    assert os.path.lexists(folder) == stays
    assert (outside / "kept").exists()


STRANGE = """
import os, sys
from pathlib import Path
base, kind = Path(sys.argv[1]), sys.argv[2]
folder = base / "lw-x"
outside = base / "outside"
outside.mkdir()
(outside / "kept").write_text("")
(outside / "owner.lock").write_text("")
if kind == "folder":
    folder.symlink_to(outside)
else:
    folder.mkdir()
    lock = folder / "owner.lock"
    {"fifo": lambda: os.mkfifo(lock), "link": lambda: lock.symlink_to(outside / "kept"),
     "directory": lambda: lock.mkdir(), "socket": lambda: os.mknod(lock, 0o140600),
     "foreign": lambda: (lock.write_text(""), os.chown(lock, 12345, 12345))}[kind]()
from lowwater.caches import make_folder
made = make_folder("lw-")
print(made.is_dir() and os.path.lexists(folder) and (outside / "kept").exists())
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fifo", "link", "directory", "socket", "folder", "foreign"])
def test_a_lock_that_is_no_file_of_ours_blocks_nobody_and_stays(tmp_path: Path, kind: str) -> None:
    if kind == "foreign" and os.geteuid() != 0:
        pytest.skip("only root gives files away")
    done = subprocess.run(
        [sys.executable, "-c", STRANGE, str(tmp_path), kind],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout == "True\n", done.stderr
