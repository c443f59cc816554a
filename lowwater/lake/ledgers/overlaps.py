"""Captures of a link that overlap others by more than its skew (SEMANTICS T1): which of them are read.

Computed from all captures whenever the ledger is read, by the settings of the moment, and never stored: so neither the
order of ingest decides, nor a setting that has changed since.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lowwater.lake.ledgers.edges import Edges
from lowwater.plan.temporal import END_OF_TIME

T = TypeVar("T")
Range = tuple[int, int]


class Spans(Generic[T]):
    """Ranges of time with a thing each, and those of them that meet a range. Ranges of about one length lie in one
    list, in order, so that a long range among short ones does not make the short ones be looked through."""

    def __init__(self) -> None:
        self._by_size: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
        self._things: dict[str, T] = {}

    def add(self, name: str, thing: T, begin: int, end: int) -> None:
        """Adds a thing by its name; an empty range meets nothing."""
        if begin < end:
            insort(self._by_size[(end - begin).bit_length()], (begin, end, name))
            self._things[name] = thing

    def meeting(self, begin: int, end: int) -> Iterator[T]:
        """Yields the things whose ranges share an instant with [begin, end)."""
        for size, ranges in self._by_size.items():
            first = bisect_right(ranges, (begin - (1 << size),))
            for start, stop, name in ranges[first : bisect_left(ranges, (end,))]:
                if start < end and stop > begin:
                    yield self._things[name]


@dataclass(frozen=True)
class Rules:
    """What of the settings of a link decides which of its captures, and of their records, are read, ns.

    Attributes:
        overlap: how far captures may overlap by their records; `declared`: by what people declared of both, since a
            recorder that is started again within the last second of a file names both files by it.
        jump: max_jump (T3).
        turns: where the first two are others: (instant, overlap, declared), in order.
    """

    overlap: int
    declared: int
    jump: int
    turns: tuple[tuple[int, int, int], ...] = ()

    def at(self, instant: int) -> tuple[int, int]:
        """Returns `overlap` and `declared` of files that overlap from an instant on, ns."""
        later = ((overlap, declared) for since, overlap, declared in reversed(self.turns) if since <= instant)
        return next(later, (self.overlap, self.declared))

    @property
    def least(self) -> int:
        """What all files may overlap by, ns."""
        return min(self.overlap, self.declared, *(min(overlap, declared) for _, overlap, declared in self.turns))


ANY = Rules(0, 0, END_OF_TIME)
"""Where no captures may overlap by these, they do not by any."""


@dataclass(frozen=True)
class Overlap:
    """That a capture is not read, since another one is of its time.

    Attributes:
        attempt: of the capture. other: of that which is read.
        length: by how much they overlap, ns; `declared`: by what people declared of both.
        records, others: the time of the records of both, first and largest, ns, within what is declared.
    """

    attempt: str
    other: str
    length: int
    records: Range
    others: Range
    declared: bool = False


@dataclass(frozen=True)
class _File:
    """The rows of one attempt: a file, with the links that it covers."""

    attempt: str
    records: (
        Range  # first and largest timestamp within what is declared, without ends that its own records do not judge
    )
    declared: Range | None  # what it covers, where people or its name said so; an end from a rotation says nothing
    links: frozenset[str]

    @property
    def hull(self) -> Range:
        begin, last = self.records
        low, high = self.declared or (begin, last + 1)
        return min(begin, low), max(last + 1, high)


def first_and_largest(first: int, largest: int, packets: int, edges: str | None, jump: int) -> Range:
    """Returns the first and the largest timestamp of a capture, ns, but for those at its ends that its own records do
    not judge (T3). `jump`: max_jump, ns."""
    if edges is None:
        return first, largest
    found = Edges.parse(edges).now(jump, first)
    # Of a few records that are minutes apart most lead the first one: an end has at most as many as lie before it.
    leads = [level for level in found.levels if level.kept and level.least - level.largest > found.jump]
    ends = [level.largest for level in leads if 2 * level.kept >= packets]
    return max(first, found.begin), min(ends, default=largest)


def overlapping(rows: pa.Table, rules: Rules) -> list[Overlap]:
    """Finds the captures that are not read: of those that overlap by more than the rules allow, the first in
    the order of T1 is. `rows`: those of the ledger of a link and its interfaces, in this order."""
    if not may_overlap(rows, rules):
        return []
    found: list[Overlap] = []
    standing: dict[str, Spans[_File]] = defaultdict(Spans)
    for file in _files(rows, rules.jump):
        near = {other.attempt: other for link in file.links for other in standing[link].meeting(*file.hull)}
        overlaps = [overlap for other in near.values() if (overlap := _between(file, other, rules)) is not None]
        if overlaps:
            found.append(max(overlaps, key=lambda each: (each.length, each.other)))
            continue
        for link in file.links:
            standing[link].add(file.attempt, file, *file.hull)
    return found


def _between(file: _File, other: _File, rules: Rules) -> Overlap | None:
    begin = max(file.records[0], other.records[0])
    length = min(file.records[1], other.records[1]) - begin
    if length > rules.at(begin)[0]:
        return Overlap(file.attempt, other.attempt, length, file.records, other.records)
    if file.declared and other.declared:
        begin = max(file.declared[0], other.declared[0])
        length = min(file.declared[1], other.declared[1]) - begin
        if length > rules.at(begin)[1]:
            return Overlap(file.attempt, other.attempt, length, file.records, other.records, declared=True)
    return None


def may_overlap(rows: pa.Table, rules: Rules = ANY) -> bool:
    """Whether the records, or what is declared, of any two files overlap by more than the rules of their link allow:
    as nearly no link has it, told from columns alone."""
    if rows.num_rows < 2:
        return False
    files = rows.column("attempt").combine_chunks().dictionary_encode().indices.to_numpy()
    first, largest = _ranges(rows, rules.jump)
    declares, tolerated = _is_declared(rows), rules.least
    covers = (np.where(declares, rows.column(name).to_numpy(), -1) for name in ("covers_from", "covers_to"))
    return any(
        _clash(files, begins, ends, has, tolerated)
        for begins, ends, has in ((first, largest, largest >= 0), (*covers, declares))
    )


def _clash(
    files: NDArray[np.int64], begins: NDArray[np.int64], ends: NDArray[np.int64], has: NDArray[np.bool_], tolerated: int
) -> bool:
    number = int(files.max()) + 1
    low, high = np.full(number, END_OF_TIME, np.int64), np.full(number, -1, np.int64)
    np.minimum.at(low, files[has], begins[has])
    np.maximum.at(high, files[has], ends[has])
    low, high = low[high >= 0], high[high >= 0]
    order = np.argsort(low, kind="stable")
    reached = np.maximum.accumulate(high[order])
    return bool((reached[:-1] - low[order][1:] > tolerated).any())


def _ranges(rows: pa.Table, jump: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the records of each row as (first, largest), ns, within what is declared of it; -1 without a record."""
    first, largest, begin, end = (
        pc.fill_null(rows.column(name), null).to_numpy().copy()
        for name, null in (("first", -1), ("largest", -1), ("declared_from", 0), ("declared_to", END_OF_TIME))
    )
    if "edges" in rows.column_names:
        for at in np.flatnonzero(pc.is_valid(rows.column("edges"))).tolist():
            if first[at] >= 0 and largest[at] >= 0:
                packets, edges = rows.column("packets")[at].as_py(), rows.column("edges")[at].as_py()
                first[at], largest[at] = first_and_largest(int(first[at]), int(largest[at]), packets, edges, jump)
    having = (first >= 0) & (largest >= 0)
    first, largest = np.maximum(first, begin), np.minimum(largest, end)
    without = ~having | (first > largest)
    return np.where(without, END_OF_TIME, first), np.where(without, -1, largest)


def _is_declared(rows: pa.Table) -> NDArray[np.bool_]:
    """Whether people, or a name with an end, say what a row covers, as `Capture.is_declared`."""
    declares, by_hand = pc.is_valid(rows.column("declared_from")), pc.fill_null(rows.column("by_hand"), False)
    said: NDArray[np.bool_] = pc.and_(declares, pc.coalesce(pc.invert(rows.column("rotated")), by_hand)).to_numpy()
    return said


def _files(rows: pa.Table, jump: int) -> Iterator[_File]:
    """Yields the files of some rows, each where its first row stands."""
    first, largest = _ranges(rows, jump)
    declares = _is_declared(rows)
    names = ("attempt", "link", "source", "covers_from", "covers_to")
    columns = {name: rows.column(name).to_pylist() for name in names}
    by_attempt: dict[str, list[int]] = defaultdict(list)
    for at, attempt in enumerate(columns["attempt"]):
        by_attempt[attempt].append(at)
    for attempt, places in by_attempt.items():
        row: Mapping[str, Any] = {name: values[places[0]] for name, values in columns.items()}
        links = {columns["link"][at] for at in places}
        yield _File(
            attempt,
            (min(int(first[at]) for at in places), max(int(largest[at]) for at in places)),
            (row["covers_from"], row["covers_to"]) if declares[places[0]] else None,
            frozenset({*links, row["source"]}),
        )
