"""The pages as files: a folder to attach to a mail or to keep.

Beside `app`, which serves the same pages. The Data Docs are copied beside them.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from lowwater.errors import LakeError
from lowwater.lake.tables import lake_errors

from .board import Board
from .pages import HERE, addresses, render


def write_site(board: Board, folder: Path) -> int:
    """Writes every page of a lake below a folder, which is made; what lies there under the same names is replaced.

    Returns:
        How many pages.

    Raises:
        LakeError: a ledger cannot be read, or the folder not be written.
    """
    known, count = board.now(), 0
    if folder.resolve() == known.lake.root or known.lake.root in folder.resolve().parents:
        raise LakeError(f"{folder}: is inside the lake", "give --html a folder outside of it")
    with lake_errors(f"{folder}: the pages cannot be written"):
        for address in addresses(known):
            page = render(known, address)
            assert page is not None, address
            path = folder / address
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(page, encoding="utf-8")
            count += 1
        shutil.copytree(HERE / "assets", folder / "assets", dirs_exist_ok=True)
        if known.lake.reports.is_dir():
            _copy_files(known.lake.reports, folder / "docs")
    return count


def _copy_files(source: Path, target: Path) -> None:
    """Copies the regular files below a folder; what a link leads to may lie outside of the lake, so links stay."""
    for at, _, names in os.walk(source):
        into = target / Path(at).relative_to(source)
        into.mkdir(parents=True, exist_ok=True)
        for name in names:
            if stat.S_ISREG(os.lstat(os.path.join(at, name)).st_mode):
                shutil.copyfile(os.path.join(at, name), into / name, follow_symlinks=False)
