"""Records at the ends of a capture that its own records cannot judge (SEMANTICS T3): what the ledger keeps of them, and
what the captures around say of them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lowwater.documents import stored_object
from lowwater.instants import HOUR
from lowwater.storage.paths import local

# Records that lead all others of their capture stand at its end: time goes on there, or it does not. Only the captures
# behind it tell, so what is decided is computed whenever the ledger is read, and never stored.

SIDE, USUAL = 16, 4  # as in `capture.records.sanity`, which loads a compiler
_AROUND = 2 * SIDE  # records before an end whose pauses count as usual; most records behind it that are counted
UNSURE = 24 * HOUR
"""A lead over which nothing covers the time as long as no capture follows, and nothing is declared."""


class Level(NamedTuple):
    """An end of a capture that leads all of its records before."""

    kept: int  # number of records before
    largest: int  # largest timestamp of those, ns; -1 without any
    last: int  # the last timestamp of those, ns; -1 without any
    least: int  # smallest timestamp of the end, ns


class Edges(NamedTuple):
    """What the ledger keeps of the ends of a capture."""

    jump: int  # max_jump of its link when it was ingested, ns
    levels: tuple[Level, ...]  # ends that lead by more, the longest first
    records: tuple[tuple[int, int], ...]  # position and timestamp (ns) of the last records
    begin: int  # first timestamp, ns, behind records at its begin that lie before all others by more; -1 without them

    @staticmethod
    def parse(text: str) -> Edges:
        facts = stored_object(text)
        levels = tuple(Level(*level) for level in facts["levels"])
        return Edges(facts["jump"], levels, tuple((at, stamp) for at, stamp in facts["records"]), facts["begin"])

    def now(self, jump: int, first: int) -> Edges:
        """Returns what is doubtful by the present max_jump, ns, of a capture whose first timestamp is given, ns."""
        longest = max(jump, self.jump)
        return self._replace(jump=longest, begin=self.begin if self.begin - first > longest else -1)

    def __str__(self) -> str:
        return json.dumps(self._asdict())


def edges_of(paths: Sequence[PurePath], packets: int, lull: int | None, jump: int) -> str | None:
    """Finds what is doubtful at the ends of a capture, as the ledger keeps it; None for nothing.

    Args:
        paths: the files of its records, in order.
        lull: longest time between two arrivals, ns.
        jump: max_jump of its link, ns.
    """
    if not packets or (packets > SIDE and (lull or 0) <= jump):
        return None
    ends = _stored(paths[::-1], lambda parts: pa.concat_tables(parts[::-1]))
    return doubtful_ends(_stored(paths, pa.concat_tables), ends, packets, jump)


def doubtful_ends(begins: pa.Table, ends: pa.Table, packets: int, jump: int) -> str | None:
    """Finds the same from the first and the last records, with at least as many of each as an end has."""
    ends = ends.slice(max(0, ends.num_rows - _AROUND - SIDE - 1))
    positions, arrivals, stamps = (ends.column(name).to_numpy() for name in ("position", "arrival", "timestamp"))
    begin = _begin(begins.column("timestamp").to_numpy(), packets, jump)
    levels = []
    for at in range(max(0, len(stamps) - SIDE), len(stamps)):
        kept, least = packets - (len(stamps) - at), int(stamps[at:].min())
        if not kept:
            levels.append(Level(0, -1, -1, least))
        elif at and least - int(arrivals[at - 1]) > max(jump, USUAL * _pause(arrivals[max(0, at - _AROUND) : at])):
            levels.append(Level(kept, int(arrivals[at - 1]), int(stamps[at - 1]), least))
    if not levels and begin < 0:
        return None
    records = zip(positions[-SIDE:].tolist(), stamps[-SIDE:].tolist(), strict=True)
    return str(Edges(jump, tuple(levels), tuple(records), begin))


def _stored(paths: Sequence[PurePath], joined: Any) -> pa.Table:
    """Reads the times of as many of the files as have the records of an end."""
    parts: list[pa.Table] = []
    for path in paths:
        parts.append(pq.read_table(local(path), columns=["position", "arrival", "timestamp"], partitioning=None))
        if sum(part.num_rows for part in parts) > _AROUND + SIDE:
            break
    return joined(parts)


def _begin(stamps: NDArray[np.int64], packets: int, jump: int) -> int:
    for at in range(min(SIDE, packets - SIDE - 1), 0, -1):
        behind = stamps[at : at + _AROUND]
        lead = int(behind.min()) - int(stamps[:at].max())
        if lead > max(jump, USUAL * _pause(np.maximum.accumulate(behind))):
            return int(behind[0])
    return -1


def _pause(clocks: NDArray[np.int64]) -> int:
    return int(np.diff(clocks).max(initial=0))


# What is in force: computed from all captures of a link.


def judged(rows: pa.Table, jump: int) -> pa.Table:
    """Returns the captures of a link, in the order of T1, without the records at their ends that lead what follows; of
    these `edges` is the one level, else NULL. `jump`: max_jump of the link, ns, where it is longer than that by which
    a capture was ingested."""
    if "edges" not in rows.column_names or rows.column("edges").null_count == rows.num_rows:
        return rows
    numbers = {name: pc.fill_null(rows.column(name), -1).to_numpy().copy() for name in _CHANGED}
    texts = rows.column("edges").to_pylist()
    chosen: list[str | None] = [None] * rows.num_rows
    first = numbers["first"].copy()
    for at, text in enumerate(texts):
        if text is not None and _IN_ORDER not in text:
            first[at] = max(Edges.parse(text).now(jump, int(first[at])).begin, int(first[at]))
    link = _Link(first, numbers["largest"].copy(), numbers["packets"].copy())
    declared = pc.fill_null(rows.column("declared_to"), -1).to_numpy()
    cut = pc.or_(pc.invert(rows.column("ended_cleanly")), pc.fill_null(rows.column("growing"), False)).to_pylist()
    for at in np.flatnonzero(pc.is_valid(rows.column("edges"))).tolist():
        if not link.may_lead(at, int(declared[at])) and _IN_ORDER in texts[at]:
            continue
        clock = max(int(numbers["largest"][:at].max(initial=-1)), -1)
        edges = Edges.parse(texts[at]).now(jump, int(numbers["first"][at]))
        level, followed = link.judge(at, edges, clock, int(declared[at]))
        whole = int(numbers["file_largest"][at])
        covers = [int(numbers[name][at]) for name in ("covers_from", "covers_to")]
        if level is not None:
            strays = edges.records[level.kept - int(numbers["packets"][at]) :]
            chosen[at] = str(Edges(edges.jump, (level,), strays, edges.begin))
            _cut(numbers, at, level)
            if cut[at] if declared[at] >= 0 else covers[1] == whole:
                numbers["covers_to"][at] = max(min(covers[1], level.largest), covers[0] if declared[at] >= 0 else 0)
            numbers["file_largest"][at] = max(level.largest, -1)
            if not level.kept and declared[at] < 0:
                numbers["covers_from"][at] = numbers["covers_to"][at] = covers[0]
        elif (
            not followed
            and declared[at] < 0
            and (far := [e for e in edges.levels if e.kept and e.least - e.largest > UNSURE])
        ):
            numbers["covers_to"][at] = far[0].largest
        if edges.begin >= 0 and covers[0] == numbers["file_first"][at] and declared[at] < 0:
            first = int(numbers["first"][at])
            if clock > first or edges.begin - first > UNSURE:
                numbers["covers_from"][at] = edges.begin
    for name, values in {**numbers, "edges": chosen}.items():
        place = rows.schema.get_field_index(name)
        field = rows.schema.field(place)
        column = pa.array(values, field.type, mask=None if isinstance(values, list) else _void(name, values))
        rows = rows.set_column(place, field, column)
    return rows


def of_one_file(rows: pa.Table) -> pa.Table:
    """Returns judged captures of a link and its interfaces, where a file that covers the time to its clock does so for
    all of them to the clock that is in force."""
    attempts, largest = rows.column("attempt").to_pylist(), rows.column("largest").to_pylist()
    before, covers = rows.column("file_largest").to_pylist(), rows.column("covers_to").to_pylist()
    clocks: dict[str, int] = {}
    for attempt, clock in zip(attempts, largest, strict=True):
        clocks[attempt] = max(clock if clock is not None else -1, clocks.get(attempt, -1))
    was: dict[str, int] = {}
    for attempt, clock in zip(attempts, before, strict=True):
        was[attempt] = max(clock if clock is not None else -1, was.get(attempt, -1))
    now = [clocks[attempt] if clocks[attempt] >= 0 else None for attempt in attempts]
    ends = [
        clocks[attempt] if end == was[attempt] and clocks[attempt] >= 0 else end
        for attempt, end in zip(attempts, covers, strict=True)
    ]
    for name, values in (("file_largest", now), ("covers_to", ends)):
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, rows.schema.field(place), pa.array(values, pa.int64()))
    return rows


_IN_ORDER = '"begin": -1'
"""In the text of most edges: no record at the begin lies before all others."""
_CHANGED = (
    "packets", "malformed", "first", "last", "smallest", "largest", "lull", "covers_from", "covers_to",
    "file_first", "file_largest",
)  # fmt: skip


def _void(name: str, values: NDArray[np.int64]) -> NDArray[np.bool_] | None:
    return None if name in ("packets", "malformed", "covers_from", "covers_to") else values < 0


def _cut(numbers: dict[str, NDArray[np.int64]], at: int, level: Level) -> None:
    """Takes the records of a level out of the facts of a capture."""
    strays = int(numbers["packets"][at]) - level.kept
    numbers["packets"][at], numbers["malformed"][at] = level.kept, numbers["malformed"][at] + strays
    numbers["largest"][at], numbers["last"][at] = level.largest, level.last
    numbers["lull"][at] = -1  # that of the others is unknown
    if not level.kept:
        numbers["first"][at] = numbers["smallest"][at] = -1


class _Link:
    """The captures of a link, as their files are, in order."""

    def __init__(self, first: NDArray[np.int64], largest: NDArray[np.int64], packets: NDArray[np.int64]) -> None:
        self._first, self._largest, self._packets = first, largest, packets
        having = np.where(packets > 0, first, np.iinfo(np.int64).max)
        self._later = np.append(np.minimum.accumulate(having[::-1])[::-1][1:], np.iinfo(np.int64).max)

    def may_lead(self, at: int, declared_to: int) -> bool:
        """Whether a later capture begins before the end of one, or its end is not of its declared time."""
        if self._later[at] == np.iinfo(np.int64).max:
            return declared_to < 0 or int(self._largest[at]) > declared_to
        return bool(self._largest[at] > self._later[at]) or 0 <= declared_to < int(self._largest[at])

    def judge(self, at: int, edges: Edges, clock: int, declared_to: int) -> tuple[Level | None, bool]:
        """Returns the longest end of a capture that leads what is before and behind it; and whether others follow."""
        followed = False
        for level in edges.levels:
            before = max(clock, level.largest)
            if before >= 0 and level.least - before <= edges.jump:
                continue  # its clock went on from there
            below, above = self._behind(at, before - edges.jump, level.least - edges.jump)
            followed = below + above > 0
            ahead = int(self._packets[at]) - level.kept + above
            if below + (min(below + above, _AROUND) if before >= 0 else 0) > ahead and below:
                return level, followed
            # Where no record before it is of the declared time, the name may be what is wrong.
            last = declared_to + edges.jump if declared_to >= 0 else -1
            if not above and 0 <= level.largest <= last < level.least:
                return level, followed
        return None, followed

    def _behind(self, at: int, low: int, bound: int) -> tuple[int, int]:
        """Counts records of the captures behind one, as many as a window has at most: below a bound, ns, and above it,
        or so low that the clock was put back."""
        below = above = 0
        for other in range(at + 1, len(self._packets)):
            count = min(int(self._packets[other]), _AROUND - below - above)
            if low <= self._first[other] < bound:
                below += count
            else:
                above += count
            if below + above == _AROUND:
                break
        return below, above
