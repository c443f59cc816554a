"""The log of a published table as a queue: which commit published which interval, and what others did to the rows.

Between `publish`, which writes a note into its commit, and `subscription`, which follows the log. Maintenance joins
files and changes no rows; its commits have no note. `table_state` adds the commits up.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import PurePath
from types import MappingProxyType
from typing import Any

from lowwater.documents import json_value
from lowwater.errors import LakeError
from lowwater.instants import HOUR, SECOND, format_instant
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.runs import FAILED, PUBLISH, read_replays
from lowwater.lake.open_tables import entry
from lowwater.limits import SEARCHED_COMMITS
from lowwater.plan.operators import Field
from lowwater.plan.temporal import END_OF_TIME

NOTE = "lowwater.published"
"""Key of the note in the information about a commit."""

LOST = "lowwater.lost"
"""Key of what a commit of maintenance says: files that are gone, as JSON of begin, end and text."""


INTERVAL = "lowwater.interval:"
"""Begins the names under which Delta keeps the number of the newest publication of each interval, also in its
checkpoints, and whoever writes them."""

ALWAYS = -(1 << 62), END_OF_TIME

_HOUR_OF = re.compile(r"(?:^|/)_hour=(-?[0-9]+)/")

Range = tuple[int, int]


@dataclass(frozen=True)
class Act:
    """A publication of an interval into all tables of a query set.

    Attributes:
        id: names the act; 24 bits.
        tables: number of the tables of the set.
    """

    id: int
    tables: int

    @staticmethod
    def begin(tables: int) -> Act:
        """Names a new act."""
        return Act(random.getrandbits(24), min(tables, 255))

    def number(self, version: int) -> int:
        """The number of the commit of the act that becomes a version of a table; later ones are larger."""
        return version << 32 | self.tables << 24 | self.id


def act_of(number: int) -> Act:
    """Returns the act of a number.

    Example:
        >>> act_of(Act(5, 2).number(7)), version_of(Act(5, 2).number(7))
        (Act(id=5, tables=2), 7)
    """
    return Act(number & 0xFFFFFF, number >> 24 & 0xFF)


def version_of(number: int) -> int:
    """Returns the version of the table that a number is of."""
    return number >> 32


@dataclass(frozen=True)
class Damage:
    """Rows of a published table that another program changed.

    Attributes:
        start: begin of the range, ns since the epoch.
        end: end of the range, ns since the epoch, exclusive.
        why: which commit did it: version, time, operation and program.
    """

    start: int
    end: int
    why: str


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
        damage: rows that others had changed before, and that no publication has replaced.
        recent: interval -> number of its newest publication, of those after the version `since`.
        since: version of the checkpoint that has the other numbers; -1 without one, None in notes without numbers.
    """

    start: int
    end: int
    restated: bool
    late: bool
    ranges: tuple[Range, ...]
    promise: Mapping[str, int]
    damage: tuple[Damage, ...] = ()
    recent: Mapping[Range, int] = field(default_factory=dict)
    since: int | None = None

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
                **({"damage": [[each.start, each.end, each.why] for each in self.damage]} if self.damage else {}),
                **({} if self.since is None else {"since": self.since}),
                **({"recent": [[*bounds, number] for bounds, number in self.recent.items()]} if self.recent else {}),
            },
            separators=(",", ":"),
        )

    @staticmethod
    def parse(text: str) -> Publication:
        """Reads a note."""
        values = json_value(text)
        ranges = tuple((int(first), int(last)) for first, last in values["ranges"])
        promise = {str(name): int(bound) for name, bound in values["promise"].items()}
        since = values.get("since")
        return Publication(
            int(values["start"]),
            int(values["end"]),
            bool(values["restated"]),
            bool(values["late"]),
            ranges,
            promise,
            tuple(Damage(int(first), int(last), str(why)) for first, last, why in values.get("damage", ())),
            {(int(first), int(last)): int(number) for first, last, number in values.get("recent", ())},
            None if since is None else int(since),
        )


@dataclass(frozen=True)
class LogEntry:
    """A commit of a published table.

    Attributes:
        version: number of the commit.
        publication: the note; None if it published nothing.
        added: files with rows of it, relative to the table.
        changes: whether rows came or went, other than into other files.
        digest: digest of the entry: another history has another one at the same version.
        ranges: hours in which rows came or went, ns since the epoch.
        numbers: interval -> number of its publication that the commit says.
        at: when it was made, by the clock of its writer, ns since the epoch.
        told: what the commit says of itself: its operation, and the notes of whoever made it.
    """

    version: int
    publication: Publication | None
    added: tuple[str, ...]
    changes: bool
    digest: str = ""
    ranges: tuple[Range, ...] = ()
    numbers: Mapping[Range, int] = field(default_factory=dict)
    at: int = 0
    told: Mapping[str, Any] = field(default_factory=dict)

    @property
    def damage(self) -> tuple[Damage, ...]:
        """What the commit did to rows, or says of them, if it published nothing."""
        if LOST in self.told:
            lost = json_value(self.told[LOST])
            return tuple(Damage(int(start), int(end), str(why)) for start, end, why in lost)
        if self.publication is not None or not self.changes:
            return ()
        why = f"version {self.version} of the table changed its rows: {self._described()}"
        return tuple(Damage(start, end, why) for start, end in self.ranges)

    def _described(self) -> str:
        """Says when the commit was made, what it did, and which program made it."""
        at = format_instant(self.at // SECOND * SECOND) if self.at else "at an unknown time"
        program = self.told.get("engineInfo") or self.told.get("clientVersion") or "a program without a name"
        return " ".join(f"{at}, {self.told.get('operation') or 'an unknown operation'} by {program}".split())[:200]


def next_publication(
    before: Publication | None,
    earlier: Sequence[Range],
    fields: Iterable[Field],
    start: int,
    end: int,
    damage: Iterable[Damage] = (),
    recent: Mapping[Range, int] = MappingProxyType({}),
    since: int | None = None,
) -> Publication:
    """Makes the note of a publication.

    Args:
        before: note of the publication before; None without one.
        earlier: what is published without a note, ns; used without a note.
        start: first instant of the interval, ns since the epoch.
        end: end of the interval, ns since the epoch, exclusive.
        damage: rows that others have changed; those of the interval are replaced.

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
        tuple(left for each in damage for left in _without(each, start, end)),
        dict(recent),
        since,
    )


def _without(damage: Damage, start: int, end: int) -> Iterator[Damage]:
    for first, last in ((damage.start, min(damage.end, start)), (max(damage.start, end), damage.end)):
        if first < last:
            yield Damage(first, last, damage.why)


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


def last_note(path: PurePath, version: int, most: int = SEARCHED_COMMITS) -> Publication | None:
    """Returns the newest note of a table up to a version; None if the last commits have none.

    Args:
        most: most commits to look at.
    """
    for at in range(version, max(-1, version - most), -1):
        found = read_entry(path, at)
        if found is None:
            return None
        if found.publication is not None:
            return found.publication
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
    try:
        data = entry(path, version)
        actions = [json_value(line) for line in data.splitlines() if line.strip()]
        return _entry(version, actions, digest_of(data))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = getattr(error, "strerror", None) or "it is no commit of a Delta table"
        file = path / "_delta_log" / f"{version:020d}.json"
        raise LakeError(f"{file}: cannot be read: {reason}", "check that the lake can be read and is whole") from None


def digest_of(entry: bytes) -> str:
    """Returns the digest of an entry of a log, hex."""
    return sha256(entry).hexdigest()[:16]


def commit_digest(path: PurePath, version: int) -> str:
    """Returns the digest of a commit of a table; empty if its entry is not, or no longer, in the log.

    Raises:
        LakeError: it cannot be read.
    """
    try:
        return digest_of(entry(path, version))
    except FileNotFoundError:
        return ""
    except OSError as error:
        file = path / "_delta_log" / f"{version:020d}.json"
        raise LakeError(f"{file}: cannot be read: {error.strerror}", "check that the lake can be read") from None


def interval_key(start: int, end: int) -> str:
    """Returns the name under which Delta keeps the number of an interval, ns."""
    return f"{INTERVAL}{start}..{end}"


def interval_numbers(transactions: Iterable[tuple[str, int]]) -> dict[Range, int]:
    """Returns the numbers of intervals among the names and numbers that Delta keeps.

    Example:
        >>> interval_numbers([(interval_key(-10, 10), 5), ("another program", 7)])
        {(-10, 10): 5}
    """
    numbers = {}
    for name, number in transactions:
        if name.startswith(INTERVAL):
            start, _, end = name.removeprefix(INTERVAL).partition("..")
            numbers[int(start), int(end)] = int(number)
    return numbers


def _entry(version: int, actions: Sequence[Mapping[str, Any]], digest: str) -> LogEntry:
    publication, added, changes = None, [], False
    told: dict[str, Any] = {}
    hours: set[int | None] = set()
    transactions = []
    for action in actions:
        told |= action.get("commitInfo", {})
        if "txn" in action:
            transactions.append((str(action["txn"]["appId"]), int(action["txn"]["version"])))
        for kind in ("add", "remove"):
            if action.get(kind, {}).get("dataChange"):
                changes = True
                found = _HOUR_OF.search(str(action[kind]["path"]))
                hours.add(int(found[1]) if found else None)
                if kind == "add":
                    added.append(str(action[kind]["path"]))
    ranges = (
        (ALWAYS,) if None in hours else joined((hour * HOUR, (hour + 1) * HOUR) for hour in hours if hour is not None)
    )
    if NOTE in told:
        publication = Publication.parse(told[NOTE])
    at = int(told.get("timestamp", 0)) * 1_000_000
    return LogEntry(
        version, publication, tuple(added), changes, digest, ranges, interval_numbers(transactions), at, told
    )
