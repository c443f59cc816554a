"""What commands, DAG files and schedules ask of query sets without loading anything slow: names of states and of
causes, which sets are chained, and what the last look at a set has left.

`replay.schedule.looks` writes the last look. So hours in which no link delivered exist for everybody who asks the lake,
without a clock of their own: status, plan and pages say the same until the next look. Whoever plans a set marks whether
it is chained, that is, must run its intervals in order, since each hands its state to the next (SEMANTICS I4).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePath
from urllib.parse import quote

from lowwater import documents, limits
from lowwater.errors import LakeError
from lowwater.lake.words import DAMAGED, FAILED, INCOMPLETE, MISSING, PROVISIONAL, STALE
from lowwater.storage import objects, paths
from lowwater.storage.failures import hint_in_lake

KINDS = (MISSING, FAILED, STALE, DAMAGED, PROVISIONAL, INCOMPLETE)
"""Reasons for an interval to be due; one that is half published, or audited only, counts as missing. One that is
provisional or incomplete is due where it would be done, or less would be missing."""

UNREAD, OUTSIDE, ABSENT = "unread", "outside", "columns"
DAMAGE, DROPS, LATE = "damage", "drops", "late"
CAUSES = (ABSENT, DAMAGE, DROPS, LATE, OUTSIDE, UNREAD)
"""Why something is missing, in words of the command line: files that nobody reads; records that `since` or `until`
leaves out; columns that queries read and a file lacks, which only the plan knows (`replay.job`); damage inside of
files; records that the recorder itself has dropped; records that were refused as late."""

LOST = (DAMAGE, DROPS, LATE)
"""Causes that often nothing can mend: a person accepts them, or the interval stays `incomplete`."""

SKIPPED, UNREPORTED = "skipped", "unreported"
"""States of an interval that does not run: it is in no state that was asked for, or its links may still report."""


def store_chained(root: PurePath, query_set: str, chained: bool) -> None:
    """Stores whether the intervals of a query set must run in order.
    Raises LakeError if the marker cannot be written."""
    path = marker(root, query_set)
    if (paths.may_hold(root, path.parent.name) and paths.has_file(path)) == chained:
        return
    objects.look_again(root)
    with _writing(path):
        if chained:
            paths.write(path, b"")
        else:
            paths.remove(path)


def is_chained(root: PurePath, query_set: str) -> bool:
    """Whether the intervals of a query set run in order, according to its last plan; False if it was never planned."""
    return paths.has_file(marker(root, query_set))


def marker(root: PurePath, query_set: str) -> PurePath:
    """File that says that a query set is chained, by being there."""
    return root / "_chained" / _file_name(query_set)


FOLDER = "_looks"


@dataclass(frozen=True)
class Told:
    """Intervals [start, end), ns, of which somebody was told that they cannot start, and why."""

    start: int
    end: int
    why: str
    by: str = ""  # names the look that told it, where one that is tried again tells it again


@dataclass(frozen=True)
class LastLook:
    """The last look at a query set."""

    at: int = 0  # when, ns since the epoch; 0 if nobody has ever looked
    told: tuple[Told, ...] = ()  # what cannot start, as it was told


def last_look(root: PurePath, query_set: str) -> LastLook:
    """Reads what the last look at a query set has left. What is not there, or nobody can read, was never told."""
    path = look_file(root, query_set)
    if not paths.may_hold(root, FOLDER):
        return LastLook()
    try:
        values = documents.json_value(paths.read(path, limits.STATE_BYTES))
        told = tuple(
            Told(int(each["from"]), int(each["to"]), str(each["why"]), str(each.get("by", "")))
            for each in values["cannot_start"]
        )
        return LastLook(int(values["at"]), told)
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return LastLook()
    except OSError as error:
        raise LakeError(f"{path}: cannot be read: {error.strerror}", "check that the lake can be read") from None


def store_look(root: PurePath, query_set: str, look: LastLook) -> None:
    """Keeps a look, in the place of the one before. Raises LakeError if it cannot be written."""
    path = look_file(root, query_set)
    told = [{"from": t.start, "to": t.end, "why": t.why} | ({"by": t.by} if t.by else {}) for t in look.told]
    with _writing(path):
        paths.write(path, json.dumps({"at": look.at, "cannot_start": told}, indent=1).encode())


@contextmanager
def _writing(path: PurePath) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LakeError(f"{path}: cannot be written: {error.strerror}", hint_in_lake(error)) from error


def look_file(root: PurePath, query_set: str) -> PurePath:
    """File with the last look at a query set."""
    return root / FOLDER / f"{_file_name(query_set)}.json"


def _file_name(query_set: str) -> str:
    return quote(query_set, safe="").replace(".", "%2E")
