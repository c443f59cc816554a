"""What a published table has, by its own log, and where that differs from what the ledger `replays` says.

Everything that says what is published asks `damages`: status, plan, runs, streams, metrics and pages. A table and the
ledger may be restored alone, and other programs may write to a table, so neither is believed without the other
(SEMANTICS S9, docs/adr/0153). It reads the newest commits, the newest checkpoint and the list of files, however long
the history is.
"""

from __future__ import annotations

import itertools
import json
import random
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from io import BytesIO
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from lowwater import documents, instants, limits
from lowwater.errors import LakeError
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.intervals import Piece, merged, visible, without
from lowwater.lake.ledgers.runs import ReplayRow, interval_replays, read_replays
from lowwater.lake.open_tables import ValuesByState, cached_value, commit_file, entry, identity, log_folder
from lowwater.lake.tables import OWNER, files_of, grouped, lake_errors
from lowwater.plan.operators import Field
from lowwater.plan.temporal import END_OF_TIME
from lowwater.storage import paths

if TYPE_CHECKING:
    from deltalake import DeltaTable

# The log as a queue: which commit published which interval, and what others did to the rows. `publish` writes a note
# into its commit, and `subscription` follows the log. Maintenance joins files and changes no rows; its commits have no
# note.

NOTE = "lowwater.published"  # key of the note in the information about a commit
LOST = "lowwater.lost"  # key of what a commit of maintenance says: files that are gone, as JSON of begin, end and text


INTERVAL = "lowwater.interval:"
"""Begins the names under which Delta keeps the number of the newest publication of each interval, also in its
checkpoints, and whoever writes them."""

JOINED = "lowwater.joined"
"""Property of a table that was moved to another query set: its version at that time. Until then it was published
together with tables of the set that it has left."""

ALWAYS = -(1 << 62), END_OF_TIME

_HOUR_OF = re.compile(r"(?:^|/)_hour=(-?[0-9]+)/")

Range = tuple[int, int]


@dataclass(frozen=True)
class Act:
    """A publication of an interval into all tables of a query set."""

    id: int  # names the act; 24 bits
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
    """Rows of a published table that another program changed."""

    start: int
    end: int
    why: str  # which commit did it: version, time, operation and program


@dataclass(frozen=True)
class Publication:
    """What a commit says about the interval that it published."""

    start: int
    end: int
    restated: bool  # whether a part of it was published before
    late: bool  # whether an interval after its begin was published before, so that a promise was made about it
    ranges: tuple[Range, ...]  # everything that is published, in order, ns; ranges that touch are one
    promise: Mapping[str, int]  # temporal attribute -> bound of the rows that are still to come, if none is late
    damage: tuple[Damage, ...] = ()  # rows that others had changed before, and that no publication has replaced
    # interval -> number of its newest publication, of those after the version `since`
    recent: Mapping[Range, int] = field(default_factory=dict)
    # version of the checkpoint that has the other numbers; -1 without one, None in notes without numbers
    since: int | None = None

    def text(self) -> str:
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
        values = documents.json_value(text)
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
    """A commit of a published table."""

    version: int
    publication: Publication | None  # the note; None if it published nothing
    added: tuple[str, ...]  # files with rows of it, relative to the table
    changes: bool  # whether rows came or went, other than into other files
    digest: str = ""  # digest of the entry: another history has another one at the same version
    ranges: tuple[Range, ...] = ()  # hours in which rows came or went, ns since the epoch
    # interval -> number of its publication that the commit says
    numbers: Mapping[Range, int] = field(default_factory=dict)
    at: int = 0  # when it was made, by the clock of its writer, ns since the epoch
    # what the commit says of itself: its operation, and the notes of whoever made it
    told: Mapping[str, Any] = field(default_factory=dict)

    @property
    def damage(self) -> tuple[Damage, ...]:
        """What the commit did to rows, or says of them, if it published nothing."""
        if LOST in self.told:
            lost = documents.json_value(self.told[LOST])
            return tuple(Damage(int(start), int(end), str(why)) for start, end, why in lost)
        if self.publication is not None or not self.changes:
            return ()
        why = f"version {self.version} of the table changed its rows: {self._described()}"
        return tuple(Damage(start, end, why) for start, end in self.ranges)

    def _described(self) -> str:
        """Says when the commit was made, what it did, and which program made it."""
        at = instants.format_instant(self.at // instants.SECOND * instants.SECOND) if self.at else "at an unknown time"
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
    """Makes the note of a publication of [start, end), ns, after that of the publication `before`, or without one after
    what is published `earlier`. `damage`: rows that others have changed; those of the interval are replaced.

    Example:
        >>> first = next_publication(None, (), (), 0, 10)
        >>> second = next_publication(first, (), (), 10, 20)
        >>> second.ranges, second.late, next_publication(second, (), (), 0, 10).restated
        (((0, 20),), False, True)
    """
    ranges = merged(before.ranges if before else earlier)
    furthest = max([end, *(last for _, last in ranges)])
    clocked = [(field.name, field.temporal) for field in fields if field.temporal and not field.temporal.origin]
    return Publication(
        start,
        end,
        any(first < end and start < last for first, last in ranges),
        any(start < last for _, last in ranges),
        tuple(merged([*ranges, (start, end)])),
        {name: temporal.promise(furthest) for name, temporal in clocked},
        tuple(
            replace(each, start=first, end=last)
            for each in damage
            for first, last in without([(each.start, each.end)], [(start, end)])
        ),
        dict(recent),
        since,
    )


def last_note(path: PurePath, version: int) -> Publication | None:
    """Returns the newest note of a table up to a version; None if the last commits have none."""
    return _newest(path, version)[0]


def ledger_ranges(lake: Lake, query_set: str, query: str) -> tuple[Range, ...]:
    """Returns what the ledger says is published of a query, ns."""
    rows = (row for row in read_replays(lake, query_set) if row.query == query and row.is_published)
    return tuple(merged(row.interval for row in rows))


def read_entry(path: PurePath, version: int) -> LogEntry | None:
    """Reads a commit of a table; None if its entry is not, or no longer, in the log.
    Raises LakeError if it cannot be read."""
    try:
        data = entry(path, version)
        actions = [documents.json_value(line) for line in data.splitlines() if line.strip()]
        return _entry(version, actions, digest_of(data))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = getattr(error, "strerror", None) or "it is no commit of a Delta table"
        file = commit_file(path, version)
        raise LakeError(f"{file}: cannot be read: {reason}", "check that the lake can be read and is whole") from None


def digest_of(entry: bytes) -> str:
    """Returns the digest of an entry of a log, hex."""
    return sha256(entry).hexdigest()[:16]


def commit_digest(path: PurePath, version: int) -> str:
    """Returns the digest of a commit of a table; empty if its entry is not, or no longer, in the log.
    Raises LakeError if it cannot be read."""
    try:
        return digest_of(entry(path, version))
    except FileNotFoundError:
        return ""
    except OSError as error:
        file = commit_file(path, version)
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
        (ALWAYS,)
        if None in hours
        else tuple(merged((hour * instants.HOUR, (hour + 1) * instants.HOUR) for hour in hours if hour is not None))
    )
    if NOTE in told:
        publication = Publication.parse(told[NOTE])
    at = int(told.get("timestamp", 0)) * 1_000_000
    return LogEntry(
        version, publication, tuple(added), changes, digest, ranges, interval_numbers(transactions), at, told
    )


T = TypeVar("T")

# The commits added up, and beside the ledger.

_CHECKPOINT = re.compile(r"([0-9]{20})\.checkpoint(?:\.[^/]*)?\.parquet")
_CHECKPOINTS = ValuesByState(64)


@dataclass(frozen=True)
class HourFile:
    """A file of a published table, with rows of one hour."""

    name: str  # in the log
    rows: int
    least: int | None  # smallest and largest `_last`, ns; None where the log does not say them
    most: int | None

    def is_inside(self, start: int, end: int) -> bool:
        """Whether all rows lie in [start, end), ns, as far as the log says."""
        return self.least is not None and self.most is not None and start <= self.least and self.most < end

    def may_meet(self, hour: int, start: int, end: int) -> bool:
        """Whether it may have rows in [start, end), ns; of rows that are not of its hour, the hour counts."""
        least, most = hour * instants.HOUR, (hour + 1) * instants.HOUR - 1
        if self.least is not None and self.most is not None and self.is_inside(least, most + 1):
            least, most = self.least, self.most
        return least < end and start <= most


@dataclass(frozen=True)
class TableState:
    """A published table at its newest version."""

    path: PurePath
    owner: str
    version: int
    digest: str  # digest of the commit of this version; empty if its entry is gone
    note: Publication | None  # what its last publication said; None if the newest commits have no note
    numbers: Mapping[Range, int] | None  # interval -> number of its newest publication; None if they cannot be known
    checkpoint: int  # version of the checkpoint that has numbers; -1 without one
    damage: tuple[Damage, ...]  # rows that other programs have changed since they were published
    listed: pa.Table = field(repr=False)  # what the log says of its files
    joined: int = -1  # version up to which it was published by another query set; -1 for none

    @cached_property
    def pieces(self) -> Sequence[Piece]:
        """What is newest at each time."""
        return visible(self.numbers or {})

    @cached_property
    def files(self) -> Mapping[int, Sequence[HourFile]]:
        return by_hour(self.listed)

    @cached_property
    def names(self) -> Sequence[str]:
        names: list[str] = self.listed.column("path").to_pylist()
        return names

    @property
    def recent(self) -> dict[Range, int]:
        """The numbers that no checkpoint has."""
        return {
            bounds: number for bounds, number in (self.numbers or {}).items() if version_of(number) > self.checkpoint
        }

    def number(self, start: int, end: int) -> int | None:
        """The number of the publication that made all rows of [start, end), ns; None without one."""
        met = self.meeting(start, end)
        if not met or met[0].start > start or met[-1].end < end or len({piece.number for piece in met}) > 1:
            return None
        whole = all(one.end == other.start for one, other in itertools.pairwise(met))
        return met[0].number if whole else None

    def meeting(self, start: int, end: int) -> Sequence[Piece]:
        """The pieces that meet [start, end), ns."""
        first = bisect_right(self.pieces, start, key=lambda piece: piece.end)
        return self.pieces[first : bisect_left(self.pieces, end, key=lambda piece: piece.start)]

    def is_published(self, start: int, end: int) -> bool:
        """Whether a part of [start, end), ns, was published."""
        ranges = self.note.ranges if self.note else ()
        return bool(self.meeting(start, end)) or any(first < end and start < last for first, last in ranges)

    @property
    def strays(self) -> list[Damage]:
        """What other programs have put where nothing was published, and is still there."""
        others = [each for each in self.damage if not self.is_published(each.start, each.end)]
        return [each for each in others if self._has_rows(each)]

    def stands(self, damage: Damage) -> bool:
        """Whether something was published in the range of damage, or a row is there. Otherwise it is what is left of
        the hours of a commit, and no row lacks there or is too many."""
        return self.is_published(damage.start, damage.end) or self._has_rows(damage)

    def _has_rows(self, damage: Damage) -> bool:
        return any(
            file.may_meet(hour, damage.start, damage.end) for hour, files in self.files.items() for file in files
        )

    def lost(self) -> dict[int, str]:
        """Hour -> a file of it that is not on the disk as a whole; an object store is not asked for each file."""
        if not isinstance(self.path, Path):
            return {}
        sizes = self.listed.column("size_bytes").to_pylist()
        files = zip(self.names, sizes, strict=True)
        return _hours_of(name for name, size in files if not paths.has_size(self.path / unquote(name), size))

    def lost_objects(self) -> dict[int, str]:
        """The same of a table in an object store, which lists all objects of the table."""
        if isinstance(self.path, Path):
            return {}
        there = {file.path.relative_to(self.path).as_posix(): file.size for file in paths.listed(self.path)}
        files = zip(self.names, self.listed.column("size_bytes").to_pylist(), strict=True)
        return _hours_of(name for name, size in files if there.get(unquote(name)) != size)


def _hours_of(names: Iterable[str]) -> dict[int, str]:
    found = {name: re.search(r"_hour=(-?[0-9]+)/", name) for name in names}
    return {int(match[1]): name for name, match in found.items() if match}


def lost_text(name: str) -> str:
    """Says that a file of a table is gone, or is not as long as it was."""
    return f"a file of the table is gone or cut: {name}"


def table_state(path: PurePath) -> TableState | None:
    """Reads what a published table has; None without a table. Raises LakeError if the table cannot be read."""
    with lake_errors(f"{path}: the table cannot be read"):
        return cached_value(path, "state", lambda table: None if table is None else state_at(path, table))


def table_version(path: PurePath) -> object:
    """Returns what differs once something else can be said of a table: its version, its history, files that are gone,
    or why it cannot be read."""
    try:
        state = table_state(path)
        return identity(path), () if state is None else tuple(state.lost().items())
    except LakeError as error:
        return error.message


def state_at(path: PurePath, table: DeltaTable) -> TableState:
    """Reads what an open table has."""
    version = table.version()
    note, later = _newest(path, version)
    numbers, checkpoint = _numbers(path, note, later)
    # Before the first number or note nothing tells our commits from those of others: older versions wrote none.
    first = 0 if note else next((at for at, entry in enumerate(later) if entry.numbers), len(later))
    damage = [*(note.damage if note else ()), *(each for entry in later[first:] for each in entry.damage)]
    owner = table.metadata().configuration.get(OWNER) or ""
    digest = later[-1].digest if later else commit_digest(path, version)
    joined = int(table.metadata().configuration.get(JOINED) or -1)
    return TableState(path, owner, version, digest, note, numbers, checkpoint, tuple(damage), files_of(table), joined)


def _newest(path: PurePath, version: int) -> tuple[Publication | None, list[LogEntry]]:
    """Returns the newest note up to a version, and the commits after it, in order."""
    later: list[LogEntry] = []
    for at in range(version, max(-1, version - limits.SEARCHED_COMMITS), -1):
        entry = read_entry(path, at)
        if entry is None:
            break
        if entry.publication is not None:
            return entry.publication, later[::-1]
        later.append(entry)
    return None, later[::-1]


def _numbers(
    path: PurePath, note: Publication | None, later: Sequence[LogEntry]
) -> tuple[dict[Range, int] | None, int]:
    """Returns the numbers of all intervals, and the version of the checkpoint that has the others."""
    if note is not None and note.since is None:  # of an older version of Lowwater
        return {bounds: number for entry in later for bounds, number in entry.numbers.items()}, -1
    stored = _stored_numbers(log_folder(path), note.since if note is not None and note.since is not None else -1)
    if note is not None and note.since is not None and note.since >= 0 and (stored is None or stored[0] < note.since):
        return None, -1
    at, numbers = stored or (-1, {})
    known = {**numbers, **(note.recent if note else {})}
    for bounds, number in numbers.items():
        known[bounds] = max(number, known[bounds])
    for one in later:
        known |= one.numbers
    return known, at


def _stored_numbers(log: PurePath, wanted: int) -> tuple[int, dict[Range, int]] | None:
    """Returns the version of the newest checkpoint and the numbers that it has; None without one that can be read. One
    need only be there, and is only searched for, if a version is `wanted`; else that is -1."""
    try:
        last = documents.json_value(paths.read(log / "_last_checkpoint", limits.STATE_BYTES))
        if "parts" not in last and "v2Checkpoint" not in last:
            version = int(last["version"])
            return version, _of_checkpoint(log / f"{version:020d}.checkpoint.parquet")
    except FileNotFoundError:
        if wanted < 0:
            return None
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowInvalid):
        pass  # the checkpoint that it names may be gone or cut, and others may be there
    found: dict[int, list[PurePath]] = defaultdict(list)
    for file in paths.children(log):
        if match := _CHECKPOINT.fullmatch(file.name):
            found[int(match[1])].append(file)
    for version in sorted(found, reverse=True):
        try:
            numbers: dict[Range, int] = {}
            for file in found[version]:
                numbers |= _of_checkpoint(file)
            return version, numbers
        except (OSError, ValueError, pa.ArrowInvalid):
            continue
    return None


def _of_checkpoint(file: PurePath) -> dict[Range, int]:
    state = paths.state(file)
    if state is None:
        raise FileNotFoundError(2, "there is no such checkpoint")
    return _CHECKPOINTS.get(file, state, lambda: _read_checkpoint(file))


def _read_checkpoint(file: PurePath) -> dict[Range, int]:
    content = BytesIO(paths.read(file))
    if "txn" not in pq.read_schema(content).names:
        return {}
    rows = pq.read_table(content, columns=["txn"]).column("txn").drop_null().combine_chunks()
    if not len(rows):
        return {}
    names, numbers = rows.field("appId"), rows.field("version")
    return interval_numbers(zip(names.to_pylist(), numbers.to_pylist(), strict=True))


def by_hour(files: pa.Table) -> dict[int, list[HourFile]]:
    """Returns files of a table (`tables.files_of`) by hour, in order; none where the table is not divided by hours."""
    if "partition._hour" not in files.column_names:  # as of a table without a file
        return {}
    nothing = pa.nulls(files.num_rows, pa.int64())
    names = ("path", "num_records", "min._last", "max._last")
    columns = ((files.column(name) if name in files.column_names else nothing).to_pylist() for name in names)
    hours = files.column("partition._hour").cast(pa.int64()).to_pylist()
    found: dict[int, list[HourFile]] = {hour: [] for hour in sorted(set(hours))}
    for hour, *facts in zip(hours, *columns, strict=True):
        found[hour].append(HourFile(*facts))
    return found


def damages(lake: Lake, query: str, rows: Iterable[ReplayRow]) -> dict[Range, str]:
    """Says of which published intervals the table of a query does not have the rows that were published, and why:
    interval -> what differs. `rows`: those of the ledger `replays` that meet the intervals asked for, in any order."""
    published = sorted(
        (row for row in rows if row.query == query and row.is_published), key=lambda row: row.finished_at
    )
    newest = {row.interval: at for at, row in enumerate(published)}
    if not newest:
        return {}
    try:
        state = table_state(lake.table(query))
    except LakeError as error:
        return dict.fromkeys(newest, f"{error.message[:200]}: move its folder away, and it is made again")
    if state is None:
        return dict.fromkeys(newest, f"the table of {query} is not there")
    compared = _Compared(query, state, state.lost())
    pieces = visible(newest)
    found: dict[Range, str] = {}
    counted: dict[int, list[Range]] = defaultdict(list)
    for piece in pieces:
        row = published[piece.number]
        why: str | None = compared.differs(piece, row)
        if not why and (piece.start, piece.end) == row.interval and row.rows is not None:
            why = compared.miscounted(piece, row.rows)
            if why is None:  # the files of its hour do not tell it from its neighbours
                counted[piece.start // instants.HOUR].append(row.interval)
        if why:
            found.setdefault(row.interval, why)
    for hour, together in counted.items():
        if why := compared.miscounted_hour(hour, pieces, published):
            found |= {bounds: why for bounds in together if bounds not in found}
    return found


@dataclass(frozen=True)
class _Compared:
    """A table beside the ledger."""

    query: str
    state: TableState
    lost: Mapping[int, str]

    def differs(self, piece: Piece, row: ReplayRow) -> str:
        """Says what the log tells of a range that a row of the ledger published; empty if it has it."""
        for each in self.state.damage:
            if each.start < piece.end and piece.start < each.end:
                return each.why
        first, last = piece.start // instants.HOUR, -(-piece.end // instants.HOUR)
        for hour, name in self.lost.items():
            if first <= hour < last:
                return lost_text(name)
        if self.state.numbers is None or (row.publication is None and not self.state.meeting(piece.start, piece.end)):
            note = self.state.note  # of an older version
            known = note is None or any(first <= piece.start and piece.end <= last for first, last in note.ranges)
            return "" if known else self._absent()
        number = self.state.number(piece.start, piece.end)
        if number is not None and number == row.publication:
            return ""
        others = [version_of(each.number) for each in self.state.meeting(piece.start, piece.end)]
        if not others:
            return self._absent()
        if row.publication is not None and max(others) < version_of(row.publication):
            return f"{self._absent()}, and has what version {max(others)} published"
        return (
            f"the table has what its version {max(others)} published, and the ledger `replays` does not: one of them "
            "was restored, or a run ended between them"
        )

    def _absent(self) -> str:
        return f"the table, at version {self.state.version}, does not have what the ledger says was published"

    def miscounted(self, piece: Piece, rows: int) -> str | None:
        """Says that the files of a range have another number of rows; None if they do not tell."""
        total, inside = 0, True
        for hour in range(piece.start // instants.HOUR, -(-piece.end // instants.HOUR)):
            whole = piece.start <= hour * instants.HOUR and (hour + 1) * instants.HOUR <= piece.end
            for file in self.state.files.get(hour, ()):
                if whole or file.is_inside(piece.start, piece.end):
                    total += file.rows
                elif file.least is None or file.most is None or (file.least < piece.end and piece.start <= file.most):
                    inside = False
        return _miscount(total, rows) if inside else None

    def miscounted_hour(self, hour: int, pieces: Sequence[Piece], published: Sequence[ReplayRow]) -> str:
        """The same of an hour whose files have rows of several intervals."""
        total, expected = sum(file.rows for file in self.state.files.get(hour, ())), 0
        for piece in pieces:
            if piece.start < (hour + 1) * instants.HOUR and hour * instants.HOUR < piece.end:
                row = published[piece.number]
                within = hour * instants.HOUR <= piece.start and piece.end <= (hour + 1) * instants.HOUR
                if (piece.start, piece.end) != row.interval or row.rows is None or not within:
                    return ""
                expected += row.rows
        return _miscount(total, expected)


def _miscount(total: int, rows: int) -> str:
    if total == rows:
        return ""
    return f"the table has {total:,} row{'' if total == 1 else 's'} of it, {rows:,} were published"


def damage_of(lake: Lake, query_set: str, query: str, start: int, end: int) -> str:
    """Says why the table of a query does not have the published rows of [start, end), ns; empty if it has them."""
    return damages_of(lake, query_set, query, start, end).get((start, end), "")


def damages_of(lake: Lake, query_set: str, query: str, start: int, end: int) -> dict[Range, str]:
    """Says the same of every published interval that meets [start, end), ns: interval -> why."""
    return damages(lake, query, interval_replays(lake, query_set, start, end))


def all_damages(lake: Lake, rows: Iterable[ReplayRow]) -> dict[tuple[str, str, int, int], str]:
    """Says the same of all rows of the ledger: (query set, query, start, end) -> why. A table that another query set
    owns by now says nothing about the set that had it."""
    found = {}
    for (query_set, query), together in grouped(((row.query_set, row.query), row) for row in rows if row.query).items():
        if _owner(lake.table(query)) in ("", query_set):
            for bounds, why in damages(lake, query, together).items():
                found[query_set, query, *bounds] = why
    return found


def stray_lines(lake: Lake) -> list[str]:
    """Says which rows other programs have put into published tables where nothing is published."""
    lines = []
    for path in paths.folders(lake.root / "tables"):
        with suppress(LakeError):  # of a table that cannot be read the intervals are damaged
            state = table_state(path)
            for each in state.strays if state is not None else ():
                span = f"{instants.format_instant(each.start)} to {instants.format_instant(each.end)}"
                lines.append(
                    f"table {path.name} has rows of {span}, where nothing is published: {each.why}; remove them"
                )
    return lines


def _owner(path: PurePath) -> str:
    """Returns the query set that owns a table; empty without one, or if it cannot be read."""
    try:
        state = table_state(path)
    except LakeError:
        return ""
    return "" if state is None else state.owner


def unfinished(states: Sequence[TableState]) -> list[Range]:
    """Returns the ranges of which the tables of a set do not have the same publication, and those that are damaged."""
    ranges = [
        (each.start, each.end) for state in states for each in state.damage if state.is_published(each.start, each.end)
    ]
    acts = [{(piece.start, piece.end): piece.number & 0xFFFFFFFF for piece in state.pieces} for state in states]
    if all(each == acts[0] for each in acts[1:]):
        return ranges
    together: dict[tuple[Range, int], int] = defaultdict(int)
    for state, each in zip(states, acts, strict=True):
        joined = {(piece.start, piece.end) for piece in state.pieces if version_of(piece.number) <= state.joined}
        for item in each.items():
            together[item] += 0 if item[0] in joined else 1
    for (bounds, number), count in together.items():
        if 0 < count < min(len(states), act_of(number).tables):
            ranges.append(bounds)
    return ranges
