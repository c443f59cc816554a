"""Removal of what dead attempts and replaced captures left of a link.

Runs under the lock of an ingest, after it has read or changed the ledger: no reader uses files outside of the ledger.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import suppress
from pathlib import PurePath

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from lowwater.errors import LakeError
from lowwater.lake.layout import MALFORMED, Lake
from lowwater.lake.tables import commit, live_files, quote, read_rows, safe_name, swap_files
from lowwater.storage import paths
from lowwater.storage.object_paths import ObjectPath


def clean(lake: Lake, link: str, attempts: Collection[str]) -> None:
    """Removes what other attempts left of a link and its interfaces: committed files and rows, and files on disk.

    Args:
        lake: the lake.
        link: the link, without an interface.
        attempts: attempts in the ledger.

    Raises:
        LakeError: if the lake cannot be written.
    """
    # A link that had other records before may have left files in both tables.
    for table in (lake.packets, lake.records(link)):
        _clean_table(lake, table, safe_name(link), attempts)
    _clean_malformed(lake, link, attempts)


class Tidiness:
    """Whether nothing is left of dead attempts of a link: in a store, where to look takes a list of all its files.

    Args:
        lake: the lake.
        link: the link, without an interface.

    Attributes:
        stored: whether that is noted.
    """

    def __init__(self, lake: Lake, link: str) -> None:
        self._note = lake.source / "_ingests" / safe_name(link)
        self.stored = isinstance(self._note, ObjectPath)

    def is_known(self) -> bool:
        """Whether the last ingest ended well, so that there is nothing to clean."""
        with suppress(FileNotFoundError):
            return self.stored and paths.read(self._note) == _TIDY
        return False

    def begin(self) -> None:
        """Notes that files may be left from now on."""
        if self.stored:
            paths.write(self._note, b"at work")

    def end(self) -> None:
        """Notes that none are left."""
        if self.stored:
            paths.write(self._note, _TIDY)


_TIDY = b"nothing is left"
_OWN = re.compile("[0-9a-f]{12}")
"""Names of attempts. Another program that joins files names them otherwise, and may have left no other copy of rows."""


def _clean_table(lake: Lake, table: PurePath, name: str, attempts: Collection[str]) -> None:
    own = f"link={name}"
    folders = [path for path in paths.folders(table) if path.name == own or path.name.startswith(f"{own}@")]
    stored = (path for folder in folders for path in paths.matching(folder, "hour=*/*.parquet"))
    ended = ((path, _attempt(path.name)) for path in stored)
    on_disk = [path for path, attempt in ended if _OWN.fullmatch(attempt) and attempt not in attempts]
    if on_disk:  # a file stays on disk until its commit is undone, so no commit is missed
        dead = {path.relative_to(table).as_posix() for path in on_disk}
        swap_files(
            table, [], lambda version: [row for row in live_files(version) if row["path"] in dead], fence=lake.fence
        )
    try:
        for path in on_disk:
            paths.remove(path)
    except OSError as error:
        raise LakeError(f"{path}: cannot be removed: {error.strerror}", "check that the lake is writable") from error


def _clean_malformed(lake: Lake, link: str, attempts: Collection[str]) -> None:
    attempt_names = pa.array(sorted(attempts), pa.string())
    of_link = (pads.field("link") == link) | pc.starts_with(pads.field("link"), f"{link}/")
    stray = read_rows(lake.malformed, MALFORMED, of_link & ~pads.field("attempt").isin(attempt_names))
    if stray.num_rows:
        links = ", ".join(quote(value) for value in pc.unique(stray.column("link")).to_pylist())
        dead = ", ".join(quote(value) for value in pc.unique(stray.column("attempt")).to_pylist())
        commit(
            lake.malformed,
            lambda table, options: table.delete(f"link IN ({links}) AND attempt IN ({dead})", **options),
            lake.fence,
        )


def _attempt(name: str) -> str:
    return PurePath(name).stem.rpartition("-")[2]
