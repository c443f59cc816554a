"""What is stored behind each leaf of a plan, and the lockstep in which its sources replay it.

Runs on the driver, before a Spark query: between the files of `lfta/` (or of a part) and the replay source.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lowwater.catalog.streams import CONTROL, ROW
from lowwater.errors import LowwaterError
from lowwater.high.boundaries import choose_boundaries
from lowwater.high.clock import EventClock
from lowwater.high.source import LINK_BITS, Chunk, Reel, lay_out
from lowwater.plan.nodes import Field
from lowwater.plan.temporal import END_OF_TIME


@dataclass(frozen=True)
class Promise:
    """A stored punctuation: `last` (ns) at tick `first`, rising with the ticks of its period up to `until` (T4)."""

    first: int
    until: int
    period: int
    last: int

    def at(self, instant: int) -> int:
        """What it promises at an instant (ns) that is not before `first`."""
        if self.period == 0:
            return self.last
        passed = min(instant, self.until) - self.first
        return self.last + passed // self.period * self.period


@dataclass
class Feed:
    """The stored stream behind one source: one LFTA on one link, or one part of a cut plan.

    Attributes:
        chunks: row groups with data rows.
        promises: punctuation rows.
        rows: how many data rows; `stored` with the punctuation rows.
        first, last: least and greatest `_last` (ns) of the data rows; meaningless without any.
        ticks: instants (ns) of data rows, each once.
        latest: instant (ns) of the last emission; below every instant where there is none.
    """

    chunks: list[Chunk] = field(default_factory=list)
    promises: list[Promise] = field(default_factory=list)
    rows: int = 0
    stored: int = 0
    first: int = END_OF_TIME
    last: int = -END_OF_TIME
    ticks: set[int] = field(default_factory=set)
    latest: int = -END_OF_TIME

    @classmethod
    def scan(cls, files: Iterable[str]) -> Feed:
        """Reads the control columns of the files.

        Raises:
            LowwaterError: if a file cannot be read.
        """
        feed = cls()
        for file in files:
            try:
                with pq.ParquetFile(file) as stored:
                    for group in range(stored.num_row_groups):
                        feed._take(file, group, stored)
            except (OSError, ValueError, KeyError) as error:
                raise LowwaterError(
                    f"cannot read the stored stream {file}: {error}", "run the low stage again"
                ) from error
        return feed

    def _take(self, file: str, group: int, stored: pq.ParquetFile) -> None:
        table = stored.read_row_group(group, columns=CONTROL.names)
        if table.num_rows:
            self.latest = max(self.latest, pc.max(table["_tick"]).as_py())
        is_row = pc.equal(table["_kind"], ROW)
        marks = table.filter(pc.invert(is_row))
        columns = [marks[name].to_pylist() for name in ("_tick", "_until", "_period", "_last")]
        self.promises += [Promise(*values) for values in zip(*columns, strict=True)]
        rows = table.filter(is_row)
        if rows.num_rows:
            self.ticks.update(pc.unique(rows["_tick"]).to_pylist())
            tick, last = (rows[name].to_numpy() for name in ("_tick", "_last"))
            self.chunks.append(Chunk(file, group, int(tick.min()), int(tick.max()), self.stored))
            self.rows += rows.num_rows
            self.first, self.last = min(self.first, int(last.min())), max(self.last, int(last.max()))
        self.stored += table.num_rows

    def promised(self, boundaries: Sequence[int]) -> list[int]:
        """The highest promise (ns) of any punctuation up to each boundary; below every instant where there is none."""
        found = np.full(len(boundaries), -END_OF_TIME, np.int64)
        for promise in self.promises:
            for at in range(int(np.searchsorted(boundaries, promise.first)), len(boundaries)):
                found[at] = max(int(found[at]), promise.at(boundaries[at]))
                if promise.period == 0 or boundaries[at] >= promise.until:
                    found[at:] = np.maximum(found[at:], found[at])
                    break
        return [int(value) for value in found]


@dataclass(frozen=True)
class Replay:
    """How the sources of one Spark query advance: its clock and the boundaries (ns) that all of them share."""

    clock: EventClock
    boundaries: tuple[int, ...]

    @classmethod
    def over(cls, feeds: Sequence[Feed], end: int, step: int, most: int, start: int | None = None) -> Replay:
        """The replay of a query that reads these feeds.

        Args:
            feeds: at least one has rows, or there is a start.
            end: end of the interval, ns; the replay closes there, or at the last emission if that is later or `end` is
                the end of time.
            step: the replay tick, ns.
            most: greatest number of boundaries.
            start: `_last` (ns) of the first row that may come out of a state that was handed over.
        """
        known = [] if start is None else [start]
        lasts = [*known, *(last for feed in feeds if feed.rows for last in (feed.first, feed.last))]
        clock = EventClock.over(min(lasts), max(lasts))
        ticks = {tick for feed in feeds for tick in feed.ticks}
        closing = max(end if end < END_OF_TIME else -END_OF_TIME, *(feed.latest for feed in feeds))
        return cls(clock, tuple(choose_boundaries(ticks, closing, step, most)))

    def lay_out(self, feeds: Sequence[Feed], fields: Sequence[Field], folder: Path, links: Sequence[int] = ()) -> Reel:
        """Lays feeds of the same fields out as one source, which promises what all of them do (SEMANTICS P3).

        At the closing boundary it promises the end of time.

        Args:
            feeds: of an LFTA one a link.
            fields: of their rows.
            folder: for the files.
            links: number of the link of each feed (`order.links_of`), where rows bring their place; else empty.
        """
        together = zip(*(feed.promised(self.boundaries) for feed in feeds), strict=True)
        promises = [*(min(each) for each in together)][:-1]
        marks = [self.clock.promise_ms(promise) for promise in (*promises, END_OF_TIME)]
        pairs = zip(links or [0] * len(feeds), feeds, strict=True)
        chunks = [replace(each, place=each.place + (link << LINK_BITS)) for link, feed in pairs for each in feed.chunks]
        return lay_out(folder, fields, chunks, self.boundaries, marks, self.clock, bool(links))
