"""The ledger `captures`: captures of every link, in the order of SEMANTICS T1; and those that several links have."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lowwater import documents, errors, instants, limits, link_names
from lowwater.capture.content import retention
from lowwater.capture.headers.undecoded import Share, Undecoded
from lowwater.capture.records.drops import NO_DROPS, DeclaredDrops
from lowwater.capture.records.facts import Hole
from lowwater.catalog.protocols import RECORD_KINDS
from lowwater.catalog.time import joined_coverage
from lowwater.config import Config, Link, load_config
from lowwater.lake import open_tables, tables
from lowwater.lake.files.patterns import last_unit
from lowwater.lake.layout import CONTENTS, MALFORMED, Lake
from lowwater.lake.ledgers import overlaps, statements
from lowwater.lake.ledgers.claims import PLACED, SEEN, Claims, claims, places
from lowwater.lake.ledgers.drops import Lost, lost_of
from lowwater.lake.ledgers.edges import Edges, judged, of_one_file
from lowwater.lake.ledgers.places import Whereabouts
from lowwater.lake.upkeep import MEND
from lowwater.plan.temporal import END_OF_TIME
from lowwater.revisions import Seen, changes_of, last_version

if TYPE_CHECKING:
    from deltalake import DeltaTable


_SHOWN_TYPES = 6


def life_of(link: Link) -> tuple[int, int]:
    """Returns the life of a link, [since, until), ns (T5)."""
    return link.since or 0, END_OF_TIME if link.until is None else link.until


SHOWN = 3
"""Most things that a sentence names."""


def few(names: Sequence[str], most: int = SHOWN) -> str:
    """Names the first of some things, in one line, and says how many more there are."""
    return ", ".join(map(in_line, names[:most])) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def in_line(name: str) -> str:
    """A name whose line breaks tear no line.

    Example:
        >>> print(in_line("a" + chr(10) + "b"))
        a\\nb
    """
    return name.replace("\n", "\\n")


def left_out_words(counts: Mapping[str, int]) -> str:
    """Returns the records of other types as a text; empty if there are none.

    Example:
        >>> left_out_words({"alert": 3, "flow": 1200})
        'records of other types are left out: flow 1,200, alert 3'
    """
    types = sorted(counts, key=lambda name: (-counts[name], name))
    words = [f"{name} {counts[name]:,}" for name in types[:_SHOWN_TYPES]]
    if len(types) > _SHOWN_TYPES:
        words.append(f"{len(types) - _SHOWN_TYPES} more types {sum(counts[name] for name in types[_SHOWN_TYPES:]):,}")
    return f"records of other types are left out: {', '.join(words)}" if words else ""


@dataclass(frozen=True, slots=True)
class Capture:
    """A content of a link where it was seen, with what is derived of it (`claims`); see `layout.CONTENTS` and
    `layout.SIGHTINGS` for the facts. Instants are ns since the epoch.

    Attributes:
        capture: identity of its records (T5), hex.
        path: where its file lies now, as far as it is known; `place`: its path in the ledger.
        bytes, sha256: of the file that lies there.
        covers_from, covers_to: what it covers (T5); equal where it covers nothing.
        declared_from, declared_to: what people, or its name, say that it covers; `by_hand`: a person; `rotated`: the
            end is made up from a rotation.
        growing: it was still being written.
    """

    link: str
    capture: str
    path: str
    bytes: int
    format: str
    link_type: str
    packets: int
    undecoded: int
    malformed: int
    first: int | None
    last: int | None
    smallest: int | None
    largest: int | None
    median: int | None
    covers_from: int
    covers_to: int
    declared_from: int | None
    declared_to: int | None
    ended_cleanly: bool
    largest_ahead: int | None
    smallest_jump: int | None
    decoder_version: int
    ingested_at: int
    attempt: str
    interface: str | None = None
    interfaces: int | None = None
    growing: bool | None = None
    compression: str | None = None
    record_bytes: int | None = None
    overhead: int | None = None
    unpacked: int | None = None
    skipped: int | None = None
    kept: str | None = None
    key: str | None = None
    by_hand: bool | None = None
    left_out: str | None = None
    source: str | None = None
    lull: int | None = None
    file_first: int | None = None
    file_largest: int | None = None
    rotated: bool | None = None
    sha256: str | None = None
    head: str | None = None
    absent: str | None = None
    place: str | None = None
    name: str | None = None
    leading: int | None = None
    drops: str | None = None
    holes: str | None = None
    lag: int | None = None
    edges: str | None = None  # in force: the end of it that leads what follows; else as the ledger keeps them
    undecoded_types: str | None = None
    parts: str | None = None
    erased: int | None = None

    @property
    def damage(self) -> list[Hole]:
        """Its damaged stretches, in the order of the file."""
        rows = documents.stored_numbers(self.holes or "[]")
        return [
            Hole(offset or 0, length or 0, before, after, records or 0, pause or 0)
            for offset, length, before, after, records, pause in rows
        ]

    def decoded_as(self, version: int) -> int:
        """The last version up to one by which it may be decoded to other packets or records: with both they are the
        same."""
        return last_version(version, self.format in RECORD_KINDS, self._seen)

    def decoding(self, version: int) -> str:
        """What a version reads otherwise of it than the one that decoded it; empty where nothing tells."""
        return changes_of(self.decoder_version, version, self.format in RECORD_KINDS, self._seen())

    def _seen(self) -> Seen:
        types = None if self.undecoded_types is None else Undecoded.stored(self.undecoded_types).types
        return Seen(self.format, self.link_type, types, retention.contents_of(self.kept))

    @property
    def file_digest(self) -> str:
        return self.sha256 or self.capture

    @property
    def left_out_counts(self) -> dict[str, int]:
        """In the log of a tool, the number of the records of each other type."""
        counts: dict[str, int] = documents.stored_object(self.left_out or "{}")
        return counts

    @property
    def absent_fields(self) -> list[str]:
        """Fields of the protocol that the file lacks, where it has columns that no field reads."""
        fields: list[str] = documents.stored_pair(self.absent or "[[], []]")[0]
        return fields

    @property
    def unknown_columns(self) -> list[str]:
        """Columns of the file that no field reads, where it lacks fields."""
        columns: list[str] = documents.stored_pair(self.absent or "[[], []]")[1]
        return columns

    @property
    def declared_drops(self) -> DeclaredDrops:
        """What the file says of records that were lost."""
        return DeclaredDrops.of_object(documents.stored_object(self.drops)) if self.drops else NO_DROPS

    @property
    def strays(self) -> int:
        """Number of records at its end that lead what follows, where it is in force."""
        return 0 if self.edges is None else len(Edges.parse(self.edges).records)

    @property
    def declared(self) -> tuple[int, int] | None:
        """Declared coverage [from, to), ns; None without a declaration."""
        if self.declared_from is None or self.declared_to is None:
            return None
        return self.declared_from, self.declared_to

    @property
    def is_declared(self) -> bool:
        """Whether a person declared its coverage, by `--covers` or a line of `covers`: a rotation makes up its end. An
        older ledger tells only the first."""
        return self.declared is not None and bool(self.by_hand if self.rotated is None else not self.rotated)

    def admits(self, link: Link) -> bool:
        """Whether the current max_jump flags the same records as at ingest (T3)."""
        ahead = self.largest_ahead or 0
        return ahead <= link.jump and (self.smallest_jump is None or link.jump < self.smallest_jump)


@dataclass(frozen=True, slots=True)
class Unread:
    """A capture that the ledger has and nobody reads, since it overlaps one that is read (T1)."""

    capture: Capture
    other: Capture
    overlap: overlaps.Overlap

    @property
    def words(self) -> str:
        """Says why it is not read."""
        by = "what is declared of it overlaps that" if self.overlap.declared else "its records overlap those"
        other, length = self.other.path.rpartition("/")[2], instants.spoken_duration(self.overlap.length)
        return f"{by} of {in_line(other)} by {length}, more than the skew of the link"


NAMES = tuple(field.name for field in fields(Capture))


class Captures(Sequence[Capture]):
    """Captures of a link in the order of T1; caches what many intervals ask, since a year has thousands of captures.

    The ledger is kept by column, a tenth of the memory of objects. Pages ask for columns and for some captures; whoever
    walks through all of them makes the objects, which then stay.
    """

    # the other files of the link, which do not declare this interface of it: they cover it too (T5). A row of another
    # interface stands for each
    beside: Sequence[Capture] = ()
    unread: Sequence[Unread] = ()  # those of its time that overlap others, and are not read

    def __init__(self, rows: Iterable[Capture] = ()) -> None:
        self._rows: tuple[Capture, ...] | None = tuple(rows)
        self._columns: Mapping[str, Any] = {}
        self._size = len(self._rows)
        self._made: dict[int, Capture] = {}
        self._joined: dict[int, list[tuple[int, int]]] = {}
        self._beyond: dict[tuple[int, int], NDArray[np.int64]] = {}
        self._charged: dict[int, NDArray[np.int64]] = {}

    @staticmethod
    def of_ledger(rows: pa.Table, jump: int) -> Captures:
        """Takes the rows of a link as the ledger has them, in any order, with what is in force of them (T3, T5).
        `jump`: max_jump of the link, ns."""
        captures = Captures()
        captures._rows, captures._size = None, rows.num_rows
        captures._columns = _packed(in_force(judged(_ordered(rows), jump)))
        return captures

    @staticmethod
    def of(captures: Sequence[Capture]) -> Captures:
        """Wraps captures; returns the same object if it is one already."""
        return captures if isinstance(captures, Captures) else Captures(captures)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Capture]:
        if self._rows is None:
            pool: dict[int, int] = {}  # the instants of a capture are often equal
            columns = (_values(self._columns[name], self._size, pool) for name in NAMES)
            self._rows = tuple(Capture(*values) for values in zip(*columns, strict=True))
        return iter(self._rows)

    @overload
    def __getitem__(self, at: int) -> Capture: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Capture, ...]: ...
    def __getitem__(self, at: int | slice) -> Capture | tuple[Capture, ...]:
        if self._rows is not None:
            return self._rows[at]
        if isinstance(at, slice):
            return tuple(self[index] for index in range(*at.indices(self._size)))
        index = range(self._size)[at]
        if index not in self._made:
            if len(self._made) >= limits.CAPTURE_OBJECTS:
                self._made.clear()
            columns = (self._columns[name] for name in NAMES)
            self._made[index] = Capture(
                *(each[index].as_py() if isinstance(each, pa.Array) else each for each in columns)
            )
        return self._made[index]

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, Captures | tuple) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def values(self, name: str) -> list[Any]:
        """Returns a column; None for NULL."""
        if self._rows is not None and not self._columns:
            return [getattr(capture, name) for capture in self._rows]
        return _values(self._columns[name], self._size, {})

    def numbers(self, name: str, null: int = 0) -> NDArray[np.int64]:
        """Returns a column of whole numbers, or of truth values as 0 and 1, with a number for NULL."""
        if not self._columns:
            return np.array([null if value is None else value for value in self.values(name)], np.int64)
        column = self._columns[name]
        if not isinstance(column, pa.Array):
            return np.full(self._size, null if column is None else column, np.int64)
        numbers: NDArray[np.int64] = column.cast(pa.int64()).fill_null(null).to_numpy()
        return numbers

    @cached_property
    def clocks(self) -> list[int]:
        """Clock of the link before every capture (T7): the largest timestamp of earlier captures, ns; 0 without one."""
        before = np.concatenate([np.zeros(1, np.int64), self.numbers("largest")[:-1]])
        clocks: list[int] = np.maximum.accumulate(before)[: self._size].tolist()
        return clocks

    @cached_property
    def lost(self) -> list[Lost]:
        """Records that these captures say were lost (A1), in order of time."""
        declaring = [at for at, drops in enumerate(self.values("drops")) if drops]
        return lost_of(
            (each.path.rpartition("/")[2], each.capture, each.declared_drops, each.covers_from, each.covers_to)
            for each in (self[at] for at in declaring)
        )

    def damage_from(self, at: int) -> int:
        """Arrival of a malformed row before the first sane record of a capture, ns: the clock before the capture, or
        its beginning; 0 without any."""
        capture = self[at]
        return self.clocks[at] or (capture.covers_from if capture.first is None else capture.first)

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """Covered ranges [from, to), ns, in order, joined where they touch."""
        return self.joined(0)

    def joined(self, tolerance: int) -> list[tuple[int, int]]:
        """Covered ranges, joined over pauses of at most `tolerance`, ns, but not after a cut or growing capture."""
        if tolerance not in self._joined:
            begins, ends, whole = self._pieces
            order = np.lexsort((ends, begins))
            well = (whole[order] > 0).tolist()
            self._joined[tolerance] = joined_coverage(begins[order].tolist(), ends[order].tolist(), well, tolerance)
        return self._joined[tolerance]

    @cached_property
    def begin(self) -> int | None:
        """Begin of the earliest coverage, ns; None without a capture."""
        return int(self._covered[0].min()) if self._size else None

    @cached_property
    def begins_well(self) -> bool:
        """Whether no damage lies before the first record of the capture with the earliest coverage."""
        first = min((since for _, _, (since, _) in self.holes), default=None)
        return first is None or self.begin is None or first > self.begin

    @cached_property
    def end(self) -> int | None:
        """End of the latest coverage, ns; None without a capture."""
        return int(self._covered[1].max()) if self._size else None

    @cached_property
    def ends_well(self) -> bool:
        """Whether the capture with the latest coverage is whole."""
        return bool(np.any((self._covered[2] > 0) & (self._covered[1] == (self.end or 0))))

    def beyond(self, start: int, end: int) -> NDArray[np.int64]:
        """Returns the captures with records before `start`, or at or after `end`, ns: shape (3, n), the index of each,
        and the first and the last arrival that a record of it may have, ns."""
        if (start, end) not in self._beyond:
            smallest, largest = self._records
            places = np.flatnonzero((largest >= 0) & ((smallest < start) | (largest >= end)))
            clocks = np.array(self.clocks, np.int64)[places]
            arrivals = (np.maximum(stamps[places], clocks) for stamps in (self.numbers("first"), largest))
            self._beyond[start, end] = np.vstack([places, *arrivals])
        return self._beyond[start, end]

    @cached_property
    def files(self) -> dict[str, str]:
        """Names of the files, by the short form of their digest."""
        named = zip(self.values("capture"), self.values("path"), strict=True)
        return {short(digest): path.rpartition("/")[2] for digest, path in named}

    def names_of(self, wanted: Collection[str], by: str = "capture") -> dict[str, str]:
        """Names of the files of some captures, by their digest or another column."""
        if not wanted:
            return {}
        named = zip(self.values(by), self.values("path"), strict=True)
        return {key: path.rpartition("/")[2] for key, path in named if key in wanted}

    def meeting(self, start: int, end: int) -> list[int]:
        """Returns the indices of captures whose records meet [start, end), ns."""
        first, last = self._near(start, end)
        smallest, largest = self._records[:, first:last]
        return [first + at for at in _places((smallest < end) & (largest >= start))]

    def _near(self, start: int, end: int) -> tuple[int, int]:
        """The captures of which records may meet [start, end), ns, as a range of indices: what an interval of a year
        costs then does not grow with the year."""
        first = int(np.searchsorted(self._reached[0], start))
        return first, max(first, int(np.searchsorted(self._reached[1], end)))

    @cached_property
    def _reached(self) -> NDArray[np.int64]:
        """The largest timestamp up to each capture, and the smallest from each one on: both rise."""
        smallest, largest = self._records
        return np.vstack([np.maximum.accumulate(largest), np.minimum.accumulate(smallest[::-1])[::-1]])

    def charged(self, start: int, end: int, skew: int) -> list[int]:
        """Returns the indices of captures without records of [start, end), ns, but with such that count there (A1): all
        are older than the clock at their arrival, and some are so by more than the skew, or malformed; or malformed
        ones come before the first sane one."""
        if skew not in self._charged:  # they are few, and each interval of a year asks
            (smallest, largest), clocks = self._records, np.array(self.clocks, np.int64)
            late, whole = (largest >= 0) & (clocks - smallest > skew), self.numbers("growing") == 0
            damaged, leading = (whole & (self.numbers(name) > 0) for name in ("malformed", "leading"))
            arrive = np.where((largest < 0) & (clocks == 0), self._coverage[0], clocks)
            older, later = (late | damaged) & (largest < arrive), leading & (arrive > 0) & (smallest > arrive)
            places = np.flatnonzero(older | later)
            self._charged[skew] = np.vstack([places, *(each[places] for each in (smallest, largest, arrive))])
        places, smallest, largest, arrive = self._charged[skew]
        apart = (largest < start) | (smallest >= end)
        found: list[int] = places[apart & (arrive >= start) & (arrive < end)].tolist()
        return found

    def arriving(self, read_from: int, start: int, end: int) -> list[int]:
        """Returns the indices of captures with records of [read_from, end), ns, or that may arrive in [start, end)."""
        (smallest, largest), clocks = self._records, np.array(self.clocks, np.int64)
        some = smallest < NEVER[0]
        read = (smallest < end) & (largest >= read_from)
        arrive = (clocks < end) & (np.maximum(largest, clocks) >= start)
        return _places(some & (read | arrive))

    def covering(self, start: int, end: int) -> list[int]:
        """Returns the indices of captures whose coverage, or records, meet [start, end), ns."""
        (covers_from, covers_to), (smallest, largest) = self._coverage, self._records
        covers = (covers_from < end) & (covers_to > start)
        return _places(covers | ((smallest < end) & (largest >= start)))

    def newest(self, number: int) -> list[int]:
        """Returns the indices of so many captures whose coverage begins last."""
        places: list[int] = np.argsort(self._coverage[0], kind="stable")[-number:].tolist()
        return places

    def ending(self, at: int) -> list[Capture]:
        """Returns the captures, also those beside them, whose coverage ends at an instant, ns."""
        own = [self[index] for index in _places(self._coverage[1] == at)]
        return [*own, *(Captures.of(self.beside).ending(at) if self.beside else ())]

    def damaged(self) -> NDArray[np.int64]:
        """Returns where the coverage of captures begins (ns) that are cut, or have malformed records."""
        broken = (self.numbers("malformed") > 0) | (self.numbers("ended_cleanly") == 0)
        begins: NDArray[np.int64] = self._coverage[0][broken]
        return begins

    @cached_property
    def holes(self) -> list[tuple[int, Hole, tuple[int, int]]]:
        """The damaged stretches of these captures: index of the capture, stretch, and the time [since, until), ns, in
        which it lies."""
        found = []
        for at, stored in enumerate(self.values("holes")):
            if stored:
                covers = int(self._coverage[0][at]), int(self._coverage[1][at])
                found += [(at, hole, hole.span(covers)) for hole in self[at].damage]
        return found

    def holes_in(self, start: int, end: int) -> list[tuple[Capture, Hole, tuple[int, int]]]:
        """Returns the damaged stretches, also of captures beside these, that lie in [start, end), ns, or meet it."""
        own = [(self[at], hole, span) for at, hole, span in self.holes if span[0] < end and span[1] > start]
        return [*own, *(Captures.of(self.beside).holes_in(start, end) if self.beside else ())]

    @cached_property
    def _pieces(self) -> NDArray[np.int64]:
        """As `_covered`, without the time of damage: a piece before damage does not end well."""
        if not any(hole.is_gap for _, hole, _ in self.holes):
            own = self._covered[:, : self._size]
        else:
            by_capture = tables.grouped((at, span) for at, hole, span in self.holes if hole.is_gap)
            rows = []
            for at, (begin, end, whole) in enumerate(self._covered[:, : self._size].T.tolist()):
                for since, until in sorted(by_capture.get(at, ())):
                    if since < end and until > begin:
                        rows.append((begin, since, 0))
                        begin = max(begin, until)
                rows.append((begin, end, whole))
            own = np.array(rows, np.int64).T
        return np.hstack([own, Captures.of(self.beside)._pieces]) if self.beside else own

    @cached_property
    def _coverage(self) -> NDArray[np.int64]:
        return np.vstack([self.numbers("covers_from"), self.numbers("covers_to")])

    @cached_property
    def _covered(self) -> NDArray[np.int64]:
        """Begin and end of the coverage of these captures and of those beside them, and whether each ends well."""
        well = (self.numbers("ended_cleanly") > 0) & (self.numbers("growing") == 0)
        own = np.vstack([self._coverage, well])
        return np.hstack([own, Captures.of(self.beside)._covered]) if self.beside else own

    @cached_property
    def _records(self) -> NDArray[np.int64]:
        smallest, largest = self.numbers("smallest", NEVER[0]), self.numbers("largest", NEVER[1])
        without = (smallest == NEVER[0]) | (largest == NEVER[1])
        return np.vstack([np.where(without, NEVER[0], smallest), np.where(without, NEVER[1], largest)])


def _places(chosen: NDArray[np.bool_]) -> list[int]:
    places: list[int] = np.flatnonzero(chosen).tolist()
    return places


def _ordered(rows: pa.Table) -> pa.Table:
    """Returns captures of a link in the order of T1: declared start, else median; then median; then identity."""
    median = pc.coalesce(rows.column("median"), rows.column("covers_from"))
    keyed = rows.append_column("start", pc.coalesce(rows.column("declared_from"), median))
    keyed = keyed.append_column("middle", median)
    keys = [(name, "ascending") for name in ("start", "middle", "capture", "covers_from")]
    places = pc.sort_indices(keyed, sort_keys=keys)
    return rows if np.array_equal(places, np.arange(len(places))) else rows.take(places)


def in_force(rows: pa.Table) -> pa.Table:
    """Returns the captures of a link, which are in the order of T1, with the coverage that is in force (T5).

    A rotation says when a file should end, not that the recorder recorded until then. So a file whose coverage is made
    up from a rotation ends at its last record if another one begins inside of it. Files of one instant in their names
    follow one another in the order of their records, and all but the first begin at their first record."""
    if rows.num_rows < 2:
        return rows
    of = {name: rows.column(name) for name in rows.column_names}
    by_hand, declares = pc.fill_null(of["by_hand"], False), pc.is_valid(of["declared_from"])
    rotated = pc.and_(declares, pc.coalesce(of["rotated"], pc.invert(by_hand))).to_numpy()  # older ledgers do not say
    first = pc.fill_null(pc.coalesce(of["file_first"], of["first"]), -1).to_numpy()
    largest = pc.fill_null(pc.coalesce(of["file_largest"], of["largest"]), -1).to_numpy()
    begins, ends = of["covers_from"].to_numpy(), of["covers_to"].to_numpy()
    held = np.flatnonzero(declares.to_numpy() | (first >= 0))  # others are of no time
    again = np.zeros(len(begins), bool)
    again[held[1:]] = rotated[held[1:]] & (begins[held[1:]] == begins[held[:-1]]) & (first[held[1:]] >= 0)
    begins = np.where(again, np.clip(first, begins, ends), begins)
    ordered = np.append(np.unique(begins), np.iinfo(np.int64).max)
    following = ordered[np.searchsorted(ordered, begins, side="right")]
    ends = np.where(rotated & (following < ends - NAMED_TO), np.clip(largest, begins, ends), ends)
    for name, values in (("covers_from", begins), ("covers_to", ends)):
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, rows.schema.field(at), pa.array(values, pa.int64()))
    return rows


NAMED_TO = instants.SECOND
"""Names of files tell their begin to a second: one that begins so little before the end of another follows it."""
NEVER = int(np.iinfo(np.int64).max), -1
"""Smallest and largest instant of a capture without a sane record, where captures of a range are looked for."""


def _packed(rows: pa.Table) -> dict[str, Any]:
    """Packs columns: one value stands for a column of equal ones, and equal columns are one."""
    packed: dict[str, Any] = {}
    for name in rows.column_names:
        column = rows.column(name).combine_chunks()
        column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
        if _has_one_value(column):
            packed[name] = column[0].as_py()
            continue
        same = (other for other in packed.values() if isinstance(other, pa.Array) and other.equals(column))
        packed[name] = next(same, column)
    return packed


def _has_one_value(column: pa.Array) -> bool:
    size, nulls = len(column), int(column.null_count)
    if not size or nulls:
        return 0 < size == nulls
    same: bool = column[0] == column[-1] and pc.all(pc.equal(column, column[0])).as_py()
    return same


def short(digest: str) -> str:
    """Returns enough hex digits of a digest to tell two versions of a thing apart."""
    return digest[:16]


def read_captures(lake: Lake, links: Iterable[str], config: Config | None = None) -> dict[str, Captures]:
    """Reads the captures of some links, by link, in the order of T1; empty for a link without captures. A link is read
    again only if files of it have come or gone. `config`: settings by which captures overlap; None for the lake's."""
    with tables.lake_errors(f"{lake.contents}: the table cannot be read"):
        asked, known = sorted(set(links)), open_tables.cached_value(lake.contents, "content files", files_by_link)
        families = tables.grouped(
            (link_names.family_of(link), (link, name)) for link, files in known.items() for name in files
        )
        if config is None and known:
            config = load_config(lake.root)
        read = {
            name: _family_captures(lake, name, families.get(name, []), config)
            for name in set(map(link_names.family_of, asked))
        }
        return {link: read[link_names.family_of(link)].get(link, Captures()) for link in asked}


def files_by_link(table: DeltaTable | None) -> dict[str, tuple[str, ...]]:
    """Names the files of each link of a table that is divided by links."""
    if table is None:
        return {}
    files = tables.files_of(table)
    if not files.num_rows:
        return {}
    links, names = (files.column(name).to_pylist() for name in ("partition.link", "path"))
    return {link: tuple(sorted(own)) for link, own in tables.grouped(zip(links, names, strict=True)).items()}


_CONTENTS, _PLACES, _CLAIMS, _READ = (open_tables.ValuesByState(512) for _ in range(4))
"""Facts, views and captures of links of all lakes of the process."""


def family_claims(lake: Lake, family: str, config: Config | None = None) -> Claims:
    """Returns the view of all contents of a link and its interfaces, by the settings of the moment."""
    with tables.lake_errors(f"{lake.contents}: the table cannot be read"):
        known = open_tables.cached_value(lake.contents, "content files", files_by_link)
        files = [
            (link, name) for link, of_link in known.items() if link_names.family_of(link) == family for name in of_link
        ]
        return _family_claims(lake, family, files, config or load_config(lake.root))


def _family_claims(lake: Lake, family: str, files: Sequence[tuple[str, str]], config: Config) -> Claims:
    """Derives the view of a link and its interfaces, where something of it has changed; `files` are (link, file of the
    table)."""

    def contents() -> pa.Table:
        parts = [(name, pc.field("link") == link) for link, name in files]
        rows = tables.files_dataset(lake.contents, parts, CONTENTS).to_table()
        entries = pc.binary_join_element_wise(rows.column("link"), rows.column("attempt"), "\n")
        if twice := rows.num_rows - len(pc.unique(entries)):
            raise errors.LakeError(f"{lake.contents}: {twice:,} contents of link {family!r} are there twice", MEND)
        return rows.combine_chunks()

    key, names = (lake.contents, family), tuple(name for _, name in files)  # which are unique
    rows = _CONTENTS.get(key, names, contents)
    placed = _PLACES.get(key, (names, open_tables.identity(lake.sightings)), lambda: _placed(lake, rows))
    said = [each for each in statements.declared(lake) if link_names.family_of(each.link) == family]
    settings = config.past_link(family)
    ended = family in config.ended or family not in config.links
    asides = statements.asides(lake)
    state = names, placed.seen, said, asides, settings, ended
    where = Whereabouts(lake, settings)
    return _CLAIMS.get(key, state, lambda: claims(rows, placed.rows, said, asides, settings, where, ended))


class _Placed(NamedTuple):
    rows: pa.Table  # of `places`
    seen: pa.Table  # what differs where they do: each sighting has its instant


def _placed(lake: Lake, rows: pa.Table) -> _Placed:
    placed = open_tables.cached_value(
        lake.sightings,
        "places",
        lambda table: (
            PLACED.empty_table() if table is None else places(tables.read_rows(lake.sightings, SEEN).sort_by("seen_at"))
        ),
    )
    own = placed.filter(pc.is_in(placed.column("attempt"), rows.column("attempt").combine_chunks())).combine_chunks()
    return _Placed(own, own.select(["seen_at", "lies"]))


def _family_captures(
    lake: Lake, family: str, files: Sequence[tuple[str, str]], config: Config | None
) -> dict[str, Captures]:
    """Reads the captures of a link and its interfaces, by link; `files` are (link, file of the table)."""
    if not files or config is None:
        return {}
    view = _family_claims(lake, family, files, config)
    # What a link with a section has too was moved there, with its folder: the link that has ended was another name.
    elsewhere = (
        _contents_of(lake, config.links.keys() - config.ended.keys(), config)
        if family in config.ended
        else frozenset[str]()
    )
    rules = _rules(config, family)

    def read() -> dict[str, Captures]:
        rows = view.captures
        if elsewhere:
            rows = rows.filter(pa.array([each not in elsewhere for each in _contents(rows)], pa.bool_()))
        return captures_of(rows, rules)

    return _READ.get((lake.contents, family), (view, rules, elsewhere), read)


def moved_to(lake: Lake, config: Config) -> dict[str, tuple[str, ...]]:
    """Finds the links with a section that have captures of a link that has ended: name of that -> theirs, in order."""
    if not config.ended:
        return {}
    own = {name: _contents_of(lake, [name], config) for name in config.links}
    live = sorted(config.links.keys() - config.ended.keys())
    moved = {name: tuple(other for other in live if own[name] & own[other]) for name in config.ended}
    return {name: others for name, others in moved.items() if others}


def _contents_of(lake: Lake, links: Collection[str], config: Config) -> frozenset[str]:
    """Returns what all files of some links and their interfaces have, as `_contents`."""
    return frozenset().union(*(_contents(family_claims(lake, family, config).rows) for family in links))


def _contents(rows: pa.Table) -> list[str]:
    """Returns of each row what its file has: the identity of its records, and of a file without any, as which all such
    files are, the begin of its coverage, too."""
    names = ("attempt", "capture", "packets", "covers_from")
    of_rows = [*zip(*(rows.column(name).to_pylist() for name in names), strict=True)]
    having = {attempt for attempt, _, packets, _ in of_rows if packets}
    return [capture if attempt in having else f"{capture} {begin}" for attempt, capture, _, begin in of_rows]


def _rules(config: Config, family: str) -> overlaps.Rules:
    """Returns the rules of a link; by default settings where it has none any more."""
    settings = config.past_link(family)
    # One that has ended has no folders any more, and its files have the names that it gave them.
    patterns = config.ended[family].captures if family in config.ended else settings.patterns
    unit = last_unit(patterns)
    (_, skew), *turns = ((each.since, each.settings.longest_skew) for each in settings.pieces())
    later = tuple((since, own, max(own, unit)) for since, own in turns) if settings.turns else ()
    return overlaps.Rules(skew, max(skew, unit), settings.jump, later)


def captures_of(rows: pa.Table, rules: overlaps.Rules) -> dict[str, Captures]:
    """Divides the rows of a link and its interfaces by link; of those that overlap one is read, the others are
    `unread`."""
    found = {each.attempt: each for each in overlaps.overlapping(_ordered(rows), rules)}
    if not found:
        return by_interface(rows, rules.jump)
    left = pc.is_in(rows.column("attempt"), pa.array(list(found), pa.string()))
    captures = by_interface(rows.filter(pc.invert(left)), rules.jump)
    named = {attempt for overlap in found.values() for attempt in (overlap.attempt, overlap.other)}
    both = rows.filter(pc.is_in(rows.column("attempt"), pa.array(list(named), pa.string()))).to_pylist()
    by_attempt = tables.grouped((row["attempt"], Capture(**row)) for row in both)
    for overlap in found.values():
        other = by_attempt[overlap.other][0]
        for capture in by_attempt[overlap.attempt]:
            own = captures.setdefault(capture.link, Captures())
            own.unread = [*own.unread, Unread(capture, other, overlap)]
    return captures


def by_interface(rows: pa.Table, jump: int) -> dict[str, Captures]:
    """Divides the rows of a link and its interfaces by link, each with the files beside it (T5).

    Args:
        jump: max_jump of the link, ns.
    """
    names = pc.unique(rows.column("link")).to_pylist()
    if len(names) > 1 and "edges" in rows.column_names and rows.column("edges").null_count < rows.num_rows:
        parts = [judged(_ordered(rows.filter(pc.equal(rows.column("link"), name))), jump) for name in names]
        rows = of_one_file(pa.concat_tables(parts))  # an end that is out of force covers no interface
    links = rows.column("link")
    captures = {name: Captures.of_ledger(rows.filter(pc.equal(links, name)), jump) for name in names}
    if len(captures) < 2:
        return captures
    files: dict[str, dict[str, int]] = {}
    sources, attempts = rows.column("source").to_pylist(), rows.column("attempt").to_pylist()
    for at, (source, attempt) in enumerate(zip(sources, attempts, strict=True)):
        files.setdefault(source, {}).setdefault(attempt, at)
    for own in captures.values():
        declaring = set(own.values("attempt"))
        beside = [
            at
            for of_source in files.values()
            if not declaring.isdisjoint(of_source)
            for attempt, at in of_source.items()
            if attempt not in declaring
        ]
        if beside:
            own.beside = Captures.of_ledger(rows.take(pa.array(beside)), jump)
    return captures


def _values(column: Any, size: int, pool: dict[int, int]) -> list[Any]:
    """Returns the values of a packed column, as `column_values`."""
    if not isinstance(column, pa.Array):
        return [column] * size
    return tables.column_values(column, pool)


def ingested_links(lake: Lake) -> list[str]:
    """Names of the links with captures."""
    with tables.lake_errors(f"{lake.contents}: the table cannot be read"):
        return sorted(open_tables.cached_value(lake.contents, "content files", files_by_link))


def of_family(link: str) -> pc.Expression:
    """Returns the condition that a row is of a link or of one of its interfaces."""
    return (pc.field("link") == link) | pc.starts_with(pc.field("link"), f"{link}/")


def attempts_of(lake: Lake) -> frozenset[str]:
    """Returns all attempts of the table."""
    schema = pa.schema([CONTENTS.field("attempt")])
    return open_tables.cached_value(
        lake.contents,
        "attempts",
        lambda table: frozenset(tables.read_rows(lake.contents, schema).column("attempt").unique().to_pylist()),
    )


def interface_links(links: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Finds links that stand for their interfaces (T1): links below them are in `links`, and perhaps they themselves.

    Example:
        >>> interface_links(["a/eth0", "a/eth1", "b", "b/eth0", "c"])
        {'a': ('a/eth0', 'a/eth1'), 'b': ('b', 'b/eth0')}
    """
    families = tables.grouped((link_names.family_of(link), link) for link in sorted(set(links)))
    return {family: tuple(members) for family, members in families.items() if members != [family]}


def standing_for(name: str, links: Sequence[str]) -> list[str]:
    """Returns the links that a name stands for: the link, and those of its interfaces; none without captures.

    Example:
        >>> standing_for("a", ["a/eth0", "a/eth1", "b"]), standing_for("c", ["b"])
        (['a/eth0', 'a/eth1'], [])
    """
    return [link for link in links if link == name or link.startswith(f"{name}/")]


_ORPHANS = "lowwater.orphans"
"""Property of the ledger: attempts whose packets are kept, though the rows that named them were lost."""


def keep_orphans(lake: Lake, lost: Collection[str]) -> None:
    """Notes the packets that only lost files of the ledger name: the next ingest would take them for what a dead one
    left, and their captures may be gone."""
    from lowwater.lake.packets import PacketFiles

    table = tables.open_table(lake.contents)
    assert table is not None
    left = [(row["path"], None) for row in tables.live_files(table) if row["path"] not in lost]
    rows = tables.files_dataset(lake.contents, left, CONTENTS).to_table(["attempt"])
    attempts = {*PacketFiles.of(lake).attempts} - {*rows.column("attempt").to_pylist()} | orphans(lake)
    tables.with_properties(lake.contents, table, {_ORPHANS: json.dumps(sorted(attempts))}, lake.fence)


def orphans(lake: Lake) -> set[str]:
    """Returns the attempts that `keep_orphans` noted."""
    table = tables.open_table(lake.contents)
    properties = {} if table is None else table.metadata().configuration
    return set(documents.stored_texts(properties.get(_ORPHANS) or "[]"))


def malformed_rows(damage: pa.Table, links: Sequence[str], identity: str, attempt: str) -> pa.Table:
    """Returns the malformed rows of a capture (schema `ingestion.tasks.DAMAGE` or `capture.tables.reader.DAMAGE`) as
    the lake has them, under the links of their interfaces."""
    size = damage.num_rows
    constants = {
        "link": pa.array(links, pa.string()).take(damage.column("interface")),
        "capture": pa.repeat(pa.scalar(identity), size),
        "attempt": pa.repeat(pa.scalar(attempt), size),
    }
    if "line" not in damage.schema.names:
        constants["line"] = pa.nulls(size, pa.int64())
    columns = [constants[name] if name in constants else damage.column(name) for name in MALFORMED.names]
    return pa.Table.from_arrays(columns, schema=MALFORMED)


def malformed_between(lake: Lake, link: str, captures: Sequence[Capture], start: int, end: int) -> pa.Table:
    """Reads the malformed rows of a link that arrive in [start, end), ns (A1), by capture and offset."""
    begins: dict[str, tuple[int, int]] = {}
    strays = [MALFORMED.empty_table()]
    ordered = Captures.of(captures)
    for at in np.flatnonzero(ordered.numbers("malformed")).tolist():
        capture, before, first = ordered[at], ordered.clocks[at], ordered.damage_from(at)
        if first < end and max(first, capture.largest or 0) >= start:
            begins[capture.attempt] = before, first
            if capture.edges is not None:
                strays.append(_strays(capture, capture.edges))
    if not begins:
        return MALFORMED.empty_table()
    of_captures = pc.field("attempt").isin(pa.array(list(begins), pa.string()))
    rows = tables.read_rows(lake.malformed, MALFORMED, (pc.field("link") == link) & of_captures).sort_by("offset")
    rows = pa.concat_tables([rows, *strays])
    kept = [MALFORMED.empty_table()]
    for attempt, (before, first) in begins.items():
        capture_rows = rows.filter(pc.equal(rows.column("attempt"), attempt))
        clock = pc.coalesce(capture_rows.column("arrival"), pa.scalar(first, pa.int64()))
        clock = pc.max_element_wise(clock, pa.scalar(before, pa.int64()))
        kept.append(capture_rows.filter(pc.and_(pc.greater_equal(clock, start), pc.less(clock, end))))
    return pa.concat_tables(kept)


def _strays(capture: Capture, text: str) -> pa.Table:
    """Returns malformed rows of the records at the end of a capture that lead what follows (T3); their offset, which
    is unknown, is -1."""
    _, (level,), strays, _ = Edges.parse(text)
    arrival = level.largest if level.kept else None
    own = {"link": capture.link, "capture": capture.capture, "attempt": capture.attempt, "arrival": arrival}
    rows = [{**own, "position": at, "offset": -1, "length": 0, "reason": "time-jump", "line": None} for at, _ in strays]
    return pa.Table.from_pylist(rows, MALFORMED)


def stray_end_lines(lake: Lake) -> list[str]:
    """Describes records at the ends of captures that lead what follows (T3): a line for each such capture."""
    lines = []
    for link, captures in read_captures(lake, ingested_links(lake)).items():
        for at, text in enumerate(captures.values("edges")):
            if text is not None:
                stamps = [stamp for _, stamp in Edges.parse(text).records]
                many = "last record is" if len(stamps) == 1 else f"last {len(stamps)} records are"
                lines.append(
                    f"link {link!r}: {captures[at].path.rpartition('/')[2]}: the {many} of "
                    f"{instants.format_instant(stamps[0])}, ahead of the records before and of what follows: malformed "
                    "(time-jump), in no row, and moves no clock"
                )
    return lines


# Captures that several links have: a query over these links counts each of their packets several times. Copies of
# single packets are found by `lake.packets`.


class SharedCapture(NamedTuple):
    """Two captures of different links with the same records, or where `whole` is false with the same first ones."""

    one: Capture
    other: Capture
    whole: bool

    @property
    def most(self) -> int:
        """How many packets they share at most."""
        return min(self.one.packets, self.other.packets)

    def turned(self) -> SharedCapture:
        return SharedCapture(self.other, self.one, self.whole)

    def words(self) -> str:
        """Describes it, without the links."""
        one, other = (capture.path.rpartition("/")[2] for capture in (self.one, self.other))
        return f"{one} is {other}" if self.whole else f"{one} begins with the packets of {other}"


def shared_captures(captures: Mapping[str, Captures]) -> dict[tuple[str, str], list[SharedCapture]]:
    """Finds the captures of links whose records another link has too, or whose first records it has: two links, in
    order of their names -> what they share. The interfaces of one file are no copies of each other."""
    places: dict[tuple[object, ...], list[tuple[str, int]]] = defaultdict(list)
    digests = {link: _digests(rows) for link, rows in sorted(captures.items())}
    met = Counter(digest for of_link in digests.values() for of_row in of_link for digest in of_row)
    for link, of_link in digests.items():
        for at in (at for at, of_row in enumerate(of_link) if any(met[digest] > 1 for digest in of_row)):
            row = captures[link][at]
            if row.packets:
                for digest in {row.capture, row.file_digest}:
                    places[digest, row.packets, row.first, row.last].append((link, at))
                if row.head:
                    places[row.head, row.first].append((link, at))
    pairs: dict[tuple[str, str], dict[tuple[int, int], SharedCapture]] = defaultdict(dict)
    for key, found in places.items():
        for (one, at), (other, there) in combinations(found, 2):
            shared = SharedCapture(captures[one][at], captures[other][there], len(key) > 2)
            if one == other or shared.one.attempt == shared.other.attempt:
                continue
            if shared.whole or (at, there) not in pairs[one, other]:
                pairs[one, other][at, there] = shared
    return {links: [shared for _, shared in sorted(by_place.items())] for links, by_place in sorted(pairs.items())}


def _digests(rows: Captures) -> list[set[str]]:
    """Returns the digests of each capture by which others are compared; a lake of before has that of the file alone."""
    columns = (rows.values(name) for name in ("capture", "sha256", "head"))
    return [{digest for digest in digests if digest} for digests in zip(*columns, strict=True)]


def meeting(captures: Mapping[str, Sequence[Capture]], start: int, end: int) -> dict[str, Captures]:
    """Returns of each link the captures whose records meet [start, end), ns."""
    ordered = {link: Captures.of(rows) for link, rows in captures.items()}
    return {link: Captures(rows[at] for at in rows.meeting(start, end)) for link, rows in ordered.items()}


def shared_words(link: str, captures: Mapping[str, Sequence[Capture]], start: int, end: int) -> tuple[str, int]:
    """Describes what a link shares with other links in [start, end), ns; and how many packets of captures at most."""
    texts: list[str] = []
    own: dict[str, int] = {}
    for links, pairs in shared_captures(meeting(captures, start, end)).items():
        if link in links:
            for pair in pairs:
                mine = pair if links[0] == link else pair.turned()
                own[mine.one.attempt] = max(mine.most, own.get(mine.one.attempt, 0))
                texts.append(f"{mine.words()} of link {mine.other.link!r}")
    return _abbreviated(texts), sum(own.values())


def shared_lines(lake: Lake) -> list[str]:
    """Describes shared captures: a line for each two links that have some."""
    lines = []
    for (first, second), pairs in shared_captures(read_captures(lake, ingested_links(lake))).items():
        files, count = _abbreviated([pair.words() for pair in pairs]), sum(pair.most for pair in pairs)
        most = "" if all(pair.whole for pair in pairs) else "up to "
        lines.append(
            f"links {first!r} and {second!r} have the same packets, {most}{count:,}: {files}: a query that reads both "
            "counts each twice"
        )
    return lines


def undecoded_share(rows: Iterable[Capture]) -> Share:
    """Returns what of the packets of captures may carry IP and is not decoded, of those of which the ledger tells."""
    total, packets = Undecoded(), 0
    for row in rows:
        if row.undecoded_types:
            total.merge(Undecoded.stored(row.undecoded_types))
            packets += row.packets
    return Share.of(total.types, packets, total.wire)


def undecoded_lines(lake: Lake) -> list[str]:
    """Says of each link what is not decoded of its packets, if it is more than a few."""
    shares = {link: undecoded_share(rows) for link, rows in read_captures(lake, ingested_links(lake)).items()}
    return [f"link {link!r}: {share.words}" for link, share in shares.items() if share.words]


def shared_notes(lake: Lake, rows: Iterable[Capture]) -> dict[str, str]:
    """Describes what new captures share with those of other links: attempt -> text."""
    digests = {digest for row in rows if row.packets for digest in (row.capture, row.file_digest, row.head) if digest}
    if not digests:
        return {}
    by_link: dict[str, list[Capture]] = defaultdict(list)
    for link, captures in read_captures(lake, ingested_links(lake)).items():
        columns = (captures.values(name) for name in ("capture", "sha256", "head"))
        shared = (at for at, own in enumerate(zip(*columns, strict=True)) if not digests.isdisjoint(own))
        by_link[link] = [captures[at] for at in shared]
    notes: dict[str, list[str]] = defaultdict(list)
    for pairs in shared_captures({link: Captures(of_link) for link, of_link in by_link.items()}).values():
        for pair in pairs:
            for mine in (pair, pair.turned()):
                same = f"the same {mine.most:,} packets" if mine.whole else "a file that begins with the same packets"
                notes[mine.one.attempt].append(f"link {mine.other.link!r} has {same}, {mine.other.path}")
    return {attempt: _abbreviated(list(dict.fromkeys(texts))) for attempt, texts in notes.items()}


def _abbreviated(texts: Sequence[str]) -> str:
    return "; ".join([*texts[:SHOWN], *([f"and {len(texts) - SHOWN:,} more"] if len(texts) > SHOWN else [])])
