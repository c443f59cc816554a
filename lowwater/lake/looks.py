"""What the last look of a schedule at a query set has left: until when time has passed, and which intervals were told.

`replay.schedule.looks` writes it. So hours in which no link delivered exist for everybody who asks the lake, without a
clock of their own: status, plan and pages say the same until the next look.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import PurePath
from urllib.parse import quote

from lowwater.documents import json_value
from lowwater.errors import LakeError
from lowwater.limits import STATE_BYTES
from lowwater.storage import paths

FOLDER = "_looks"


@dataclass(frozen=True)
class Told:
    """Intervals [start, end), ns, of which somebody was told that they cannot start, and why.

    `by` names the look that told it, where one that is tried again tells it again.
    """

    start: int
    end: int
    why: str
    by: str = ""


@dataclass(frozen=True)
class LastLook:
    """The last look at a query set.

    Attributes:
        at: when, ns since the epoch; 0 if nobody has ever looked.
        told: what cannot start, as it was told.
    """

    at: int = 0
    told: tuple[Told, ...] = ()


def last_look(root: PurePath, query_set: str) -> LastLook:
    """Reads what the last look at a query set has left. What is not there, or nobody can read, was never told."""
    path = _path(root, query_set)
    if not paths.may_hold(root, FOLDER):
        return LastLook()
    try:
        values = json_value(paths.read(path, STATE_BYTES))
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
    """Keeps a look, in the place of the one before.

    Raises:
        LakeError: it cannot be written.
    """
    path = _path(root, query_set)
    told = [{"from": t.start, "to": t.end, "why": t.why} | ({"by": t.by} if t.by else {}) for t in look.told]
    values = {"at": look.at, "cannot_start": told}
    try:
        paths.write(path, json.dumps(values, indent=1).encode())
    except OSError as error:
        raise LakeError(f"{path}: cannot be written: {error.strerror}", "check that the lake is writable") from error


def _path(root: PurePath, query_set: str) -> PurePath:
    return root / FOLDER / f"{quote(query_set, safe='').replace('.', '%2E')}.json"
