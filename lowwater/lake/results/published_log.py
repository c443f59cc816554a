"""The log of a published table as a queue: which commit published which interval.

Between `publish`, which writes a note into its commit, and `subscription`, which follows the log. Maintenance joins
files and changes no rows; its commits have no note.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from lowwater.documents import json_value
from lowwater.errors import LakeError
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.runs import FAILED, PUBLISH, read_replays
from lowwater.plan.operators import Field
from lowwater.storage import paths

NOTE = "lowwater.published"
"""Key of the note in the information about a commit."""

LOOKED_AT = 64
"""Most commits that are searched for the note of the publication before; the ledger knows it too, but later."""

Range = tuple[int, int]


@dataclass(frozen=True)
class Publication:
    """What a commit says about the interval that it published.

    Attributes:
        start: first instant of the interval, ns since the epoch.
        end: end of the interval, ns since the epoch, exclusive.
        restated: whether a part of it was published before.
        late: whether an interval after its begin was published before, so that a promise was made about it.
        ranges: everything that is published, in order, ns; ranges that touch are one.
        promise: temporal attribute -> bound of the rows that are still to come, if none is late.
    """

    start: int
    end: int
    restated: bool
    late: bool
    ranges: tuple[Range, ...]
    promise: Mapping[str, int]

    def text(self) -> str:
        """The note, as one line of JSON."""
        return json.dumps(
            {
                "start": self.start,
                "end": self.end,
                "restated": self.restated,
                "late": self.late,
                "ranges": self.ranges,
                "promise": dict(self.promise),
            },
            separators=(",", ":"),
        )

    @staticmethod
    def parse(text: str) -> Publication:
        """Reads a note."""
        values = json_value(text)
        ranges = tuple((int(first), int(last)) for first, last in values["ranges"])
        promise = {str(name): int(bound) for name, bound in values["promise"].items()}
        return Publication(
            int(values["start"]), int(values["end"]), bool(values["restated"]), bool(values["late"]), ranges, promise
        )


@dataclass(frozen=True)
class LogEntry:
    """A commit of a published table.

    Attributes:
        version: number of the commit.
        publication: the note; None if it published nothing.
        added: files with rows of it, relative to the table.
        changes: whether rows came or went, other than into other files.
        at: when it was made, by the clock of its writer, ns since the epoch.
        told: what the commit says of itself: its operation, and the notes of whoever made it.
    """

    version: int
    publication: Publication | None
    added: tuple[str, ...]
    changes: bool
    at: int = 0
    told: Mapping[str, Any] = field(default_factory=dict)


def next_publication(
    before: Publication | None, earlier: Sequence[Range], fields: Iterable[Field], start: int, end: int
) -> Publication:
    """Makes the note of a publication.

    Args:
        before: note of the publication before; None without one.
        earlier: what is published without a note, ns; used without a note.
        fields: fields of the query.
        start: first instant of the interval, ns since the epoch.
        end: end of the interval, ns since the epoch, exclusive.

    Example:
        >>> first = next_publication(None, (), (), 0, 10)
        >>> second = next_publication(first, (), (), 10, 20)
        >>> second.ranges, second.late, next_publication(second, (), (), 0, 10).restated
        (((0, 20),), False, True)
    """
    ranges = joined(before.ranges if before else earlier)
    furthest = max([end, *(last for _, last in ranges)])
    clocked = [(field.name, field.temporal) for field in fields if field.temporal and not field.temporal.origin]
    return Publication(
        start,
        end,
        any(first < end and start < last for first, last in ranges),
        any(start < last for _, last in ranges),
        joined([*ranges, (start, end)]),
        {name: temporal.promise(furthest) for name, temporal in clocked},
    )


def joined(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Joins ranges that overlap or touch.

    Example:
        >>> joined([(5, 7), (0, 2), (2, 3)])
        ((0, 3), (5, 7))
    """
    result: list[Range] = []
    for first, last in sorted(ranges):
        if result and first <= result[-1][1]:
            result[-1] = result[-1][0], max(last, result[-1][1])
        else:
            result.append((first, last))
    return tuple(result)


def last_note(path: PurePath, version: int, most: int = LOOKED_AT) -> Publication | None:
    """Returns the newest note of a table up to a version; None if the last commits have none.

    Args:
        path: folder of the table.
        version: the newest version to look at.
        most: most commits to look at.
    """
    for at in range(version, max(-1, version - most), -1):
        entry = read_entry(path, at)
        if entry is None:
            return None
        if entry.publication is not None:
            return entry.publication
    return None


def ledger_ranges(lake: Lake, query_set: str, query: str) -> tuple[Range, ...]:
    """Returns what the ledger says is published of a query, ns."""
    rows = [row for row in read_replays(lake, query_set) if row.query == query and row.stage == PUBLISH]
    return joined((row.interval_start, row.interval_end) for row in rows if row.state != FAILED)


def read_entry(path: PurePath, version: int) -> LogEntry | None:
    """Reads a commit of a table; None if its entry is not, or no longer, in the log.

    Raises:
        LakeError: it cannot be read.
    """
    file = path / "_delta_log" / f"{version:020d}.json"
    try:
        actions = [json_value(line) for line in paths.read(file).splitlines() if line.strip()]
        return _entry(version, actions)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = getattr(error, "strerror", None) or "it is no commit of a Delta table"
        raise LakeError(f"{file}: cannot be read: {reason}", "check that the lake can be read and is whole") from None


def _entry(version: int, actions: Sequence[Mapping[str, Any]]) -> LogEntry:
    publication, added, changes = None, [], False
    told: dict[str, Any] = {}
    for action in actions:
        told |= action.get("commitInfo", {})
        for kind in ("add", "remove"):
            if action.get(kind, {}).get("dataChange"):
                changes = True
                if kind == "add":
                    added.append(str(action[kind]["path"]))
    if NOTE in told:
        publication = Publication.parse(told[NOTE])
    return LogEntry(version, publication, tuple(added), changes, int(told.get("timestamp", 0)) * 1_000_000, told)
