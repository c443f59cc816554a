"""Temporary folders: those of a killed process go, those of a living one stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from lowwater.tempfolders import make_folder, remove_folder

CHILD = (
    "import time; from lowwater.tempfolders import make_folder; print(make_folder('lw-'), flush=True); time.sleep(60)"
)


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
