"""Sets files of the folders of the links aside for ever, with a reason that stays visible (SEMANTICS T9)."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from lowwater.config import Config
from lowwater.errors import ConfigError
from lowwater.lake.ingestion.looking import look
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.places import key_of, location
from lowwater.lake.ledgers.seen import (
    ASIDE,
    EMPTY,
    GONE,
    GROWING,
    READ,
    REFUSED,
    SeenFile,
    changing,
    put_seen,
    read_seen,
)
from lowwater.storage.captures import capture_path

SHOWN = 5
"""Most files that a message names."""


def set_aside(lake: Lake, config: Config, names: Sequence[str], reason: str, person: str) -> list[SeenFile]:
    """Sets files aside: no ingest takes them by a pattern, and no interval lacks them any more.

    Args:
        lake: the lake.
        config: settings of the lake.
        names: paths of files, names of files that are not read, or patterns of either; also of files that are gone.
        reason: why, in the words of the person.
        person: who decided it.

    Returns:
        The files.

    Raises:
        ConfigError: a name fits no file, or only files that are in the lake.
    """
    look(lake, config)
    with changing(lake):
        rows = [
            replace(row, state=ASIDE, reason=reason, person=person, unread=False)
            for row in _chosen(lake, names, lambda row: not _is_read(row), "is in the lake, and read")
        ]
        put_seen(lake, rows)
    return rows


def undo(lake: Lake, config: Config, names: Sequence[str]) -> list[SeenFile]:
    """Takes back that files were set aside; arguments as of `set_aside`. The next look judges them anew.

    Raises:
        ConfigError: a name fits no file that is set aside.
    """
    look(lake, config)
    with changing(lake):
        rows = _chosen(lake, names, lambda row: row.state == ASIDE, "is not set aside")
        # Gone, unless the look finds it: a file that is there is judged as one that was never seen.
        put_seen(lake, (replace(row, state=GONE, person=None, unread=True) for row in rows))
    look(lake, config)
    with changing(lake):  # those in no folder of a link, which no look finds
        after = read_seen(lake)
        left = [after[row.path] for row in rows if after[row.path].state == GONE and _is_there(lake, row)]
        put_seen(lake, (replace(row, state=REFUSED, reason=f"it was set aside: {row.reason}") for row in left))
    return rows


def _is_there(lake: Lake, row: SeenFile) -> bool:
    try:
        capture_path(location(lake, row.path)).stat()
    except OSError:
        return False
    return True


def _is_read(row: SeenFile) -> bool:
    return row.state in (READ, GROWING) and not row.unread


def _chosen(lake: Lake, names: Iterable[str], fits: Callable[[SeenFile], bool], why: str) -> list[SeenFile]:
    rows = read_seen(lake)
    chosen: dict[str, SeenFile] = {}
    for name in names:
        found = _found(lake, name)
        if not found:
            known = sorted(row.name for row in rows.values() if row.unread)[:SHOWN]
            raise ConfigError(
                f"{name}: no file of this name was seen in the folders of the links",
                f"not read are {', '.join(known)}" if known else "`lowwater status` names the files that are not read",
            )
        of_kind = [row for row in found if fits(row)]
        if not of_kind:
            raise ConfigError(
                f"{name}: {'every such file' if len(found) > 1 else 'the file'} {why}",
                "`lowwater status` lists the files that are not read, and those that are set aside",
            )
        chosen |= {row.path: row for row in of_kind}
    return list(chosen.values())


def _found(lake: Lake, name: str) -> list[SeenFile]:
    """Returns the files of the ledger that a path, a name or a pattern of either names."""
    rows = read_seen(lake)
    if (row := rows.get(key_of(lake, name))) is not None:
        return [row]
    if not glob.has_magic(name):
        return [row for row in rows.values() if row.name == name and row.state != EMPTY] or [
            row for row in rows.values() if row.name == name
        ]
    pattern = os.path.abspath(name) if "/" in name and "://" not in name else name
    return [row for row in rows.values() if fnmatchcase(location(lake, row.path) if "/" in name else row.name, pattern)]
