"""The commits of a table as its log has them: which files each added and removed, and when the store wrote it.

Above `tables`. What is old is judged by the store's own times: no clock of a machine that writes plays a part
(docs/adr/0152). A commit that removes a file which was gone already has doubled rows: another program joined files
beside others, and Delta let both commit (docs/adr/0151).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any
from urllib.parse import unquote

from lowwater.documents import json_value
from lowwater.errors import LakeError
from lowwater.lake.tables import lake_errors
from lowwater.storage import paths
from lowwater.storage.containment import require_names

MENDED = "lowwater.mended"
"""Key of what a commit says that took doubled rows out: the versions that had doubled them, JSON."""

LOG = "_delta_log"

MEND = "run `lowwater maintain` with --mend: it takes out what is there twice, as the log of the table says"


@dataclass(frozen=True)
class Change:
    """A commit.

    Attributes:
        version: number of the commit.
        at: when its entry was written, ns since the epoch by the clock of its store.
        added: path of each file that it added -> its add action.
        removed: paths of the files that it removed.
        rows: whether it changed rows, and not only their files.
        info: what it says of itself.
    """

    version: int
    at: int
    added: dict[str, dict[str, Any]]
    removed: tuple[str, ...]
    rows: bool
    info: dict[str, Any]

    @property
    def writer(self) -> str:
        """The program that made it, in words."""
        return str(self.info.get("engineInfo") or self.info.get("clientVersion") or "a program that gives no name")


def changes(path: PurePath, since: int = 0) -> list[Change]:
    """Reads the commits whose entries were written at an instant or later, in order.

    Args:
        path: directory of the table.
        since: the instant, ns since the epoch by the clock of the store.

    Raises:
        LakeError: the log cannot be read, or names a file outside of the table.
    """
    with lake_errors(f"{path}: its log cannot be read"):
        found = sorted((entry.path, entry.at) for entry in paths.listed(path / LOG) if _is_commit(entry.path))
        chosen = [(file, at) for file, at in found if at >= since]
        contents = paths.read_all([file for file, _ in chosen])
    return [_change(file, at, data) for (file, at), data in zip(chosen, contents, strict=True)]


def _is_commit(file: PurePath) -> bool:
    return file.suffix == ".json" and file.stem.isdigit() and file.parent.name == LOG


def _change(file: PurePath, at: int, data: bytes) -> Change:
    added: dict[str, dict[str, Any]] = {}
    removed: list[str] = []
    rows, info, named = False, {}, list[str]()
    try:
        for line in data.splitlines():
            action = json_value(line) if line.strip() else {}
            if "add" in action:
                added[unquote(action["add"]["path"])] = action["add"]
                named.append(action["add"]["path"])
                rows = rows or bool(action["add"].get("dataChange"))
            elif "remove" in action:
                removed.append(unquote(action["remove"]["path"]))
                named.append(action["remove"]["path"])
                rows = rows or bool(action["remove"].get("dataChange"))
            elif "commitInfo" in action:
                info = action["commitInfo"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        hint = "check that the lake can be read and is whole"
        raise LakeError(f"{file}: is no commit of a Delta table", hint) from error
    require_names(file.parent.parent, named)
    return Change(int(file.stem), at, added, tuple(removed), rows, info)


@dataclass(frozen=True)
class Doubled:
    """What doubled rows of a table, and what takes them out.

    Attributes:
        causes: commits that removed files which were gone already.
        void: files whose rows are there in others.
        lacking: files that are to come back: only void ones have their rows.
        unclear: a commit that changed rows on top of doubled ones; None if the log alone says what is right.
    """

    causes: tuple[Change, ...]
    void: frozenset[str]
    lacking: dict[str, dict[str, Any]]
    unclear: Change | None

    def words(self, verb: str = "holds") -> str:
        """Describes it; `verb` is what the table does with the rows."""
        named = ", ".join(f"version {each.version} by {each.writer}" for each in self.causes)
        return f"{verb} rows twice since {named}, which joined files that another commit had joined already"


def doubled(commits: Iterable[Change]) -> Doubled | None:
    """Finds what doubled rows, in commits in order; None if nothing did.

    A commit that only joins, and removes a file that is gone, or joins files of such a commit, counts as not made.
    """
    gone: set[str] = set()
    void: set[str] = set()
    known: dict[str, dict[str, Any]] = {}
    lacking: dict[str, dict[str, Any]] = {}
    causes: list[Change] = []
    unclear: Change | None = None
    for each in commits:
        if MENDED in each.info:
            void, lacking, causes, unclear = set(), {}, [], None
        stale = [name for name in each.removed if name in gone]
        fruit = [name for name in each.removed if name in void]
        if (stale or fruit) and MENDED not in each.info:
            if each.rows:
                unclear = unclear or (each if fruit else None)
            else:
                causes += [each] if stale else []
                lacking |= {name: known.get(name, {}) for name in each.removed if name not in gone and name not in void}
                void |= each.added.keys()
        known |= each.added
        gone |= set(each.removed)
        gone -= each.added.keys()
    return Doubled(tuple(causes), frozenset(void), lacking, unclear) if causes else None


def mended_note(found: Doubled) -> dict[str, str]:
    """What the commit says that takes doubled rows out."""
    return {MENDED: json.dumps([each.version for each in found.causes])}
