"""Writes the review pages as files, to archive them or attach them to a mail.

`app` serves the same pages. The Data Docs are copied into the same folder.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path, PurePosixPath

from lowwater.errors import LakeError
from lowwater.lake.tables import lake_errors
from lowwater.quality.reports import drawn, shared_files
from lowwater.storage.object_paths import ObjectPath
from lowwater.storage.paths import files_below, read

from .calendar import months
from .ledgers import Ledgers, Snapshot
from .pages import HERE, addresses, render, with_navigation


def write_site(ledgers: Ledgers, folder: Path) -> int:
    """Writes every page of a lake into a folder. Creates the folder, and replaces files of the same names. Returns
    number of pages.
    Raises LakeError if a ledger cannot be read, or the folder cannot be written."""
    snapshot, count = ledgers.now(), 0
    if folder.resolve() == snapshot.lake.root or snapshot.lake.root in folder.resolve().parents:
        raise LakeError(f"{folder}: is inside the lake", "give --html a folder outside of it")
    with lake_errors(f"{folder}: the pages cannot be written"):
        for address in addresses(snapshot):
            page = render(snapshot, address)
            assert page is not None, address
            path = folder / address
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(page, encoding="utf-8")
            count += 1
        _copy_files(HERE / "assets", folder / "assets")
        for script in (folder / "assets").glob("*.js"):  # of a page that only a server has
            script.unlink()
        _write_docs(snapshot, folder / "docs")
    return count


def _write_docs(snapshot: Snapshot, folder: Path) -> None:
    """Writes the Data Docs: pages that are files in the lake, what they share, and pages of other audits, month by
    month."""
    if isinstance(snapshot.lake.reports, ObjectPath):
        _write_objects(snapshot.lake.reports, folder)
    elif Path(snapshot.lake.reports).is_dir():
        _copy_files(Path(snapshot.lake.reports), folder)

    def lacks(address: str) -> bool:
        path = PurePosixPath(address)
        return not path.is_absolute() and ".." not in path.parts and not (folder / path).exists()

    for month in months(snapshot):
        for page in drawn(snapshot.lake, month.start, month.end, lacks):
            _write(folder / page.address, page.html.encode())
    for address, content in shared_files().items():
        if lacks(address):
            _write(folder / address, content)
    for path in folder.rglob("*.html"):
        address = f"docs/{path.relative_to(folder).as_posix()}"
        path.write_bytes(with_navigation(snapshot, path.read_bytes(), address, False))


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _write_objects(source: ObjectPath, target: Path) -> None:
    for path in files_below(source):
        into = target / path.relative_to(source).as_posix()
        if ".." not in into.parts:
            into.parent.mkdir(parents=True, exist_ok=True)
            into.write_bytes(read(path))


def _copy_files(source: Path, target: Path) -> None:
    """Copies the regular files of a folder tree, with the modes of what is new. Skips symbolic links, because they may
    point outside the lake."""
    for at, _, names in os.walk(source):
        into = target / Path(at).relative_to(source)
        into.mkdir(parents=True, exist_ok=True)
        for name in names:
            if stat.S_ISREG(os.lstat(os.path.join(at, name)).st_mode):
                shutil.copyfile(os.path.join(at, name), into / name, follow_symlinks=False)
