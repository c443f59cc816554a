"""What is stored behind each leaf of a plan, and the lockstep in which its sources replay it.

Runs on the driver, before a Spark query: between the files of `lfta/` (or of a part) and the replay source.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lowwater.catalog.streams import CONTROL, ROW
from lowwater.errors import LowwaterError
from lowwater.high.boundaries import choose_boundaries
from lowwater.high.chunk import LINK_BITS, Chunk
from lowwater.high.clock import EventClock
from lowwater.high.slices.choice import GRAIN
from lowwater.high.source import Reel, lay_out
from lowwater.high.timeline import Instants, Promise, Timeline, grid
from lowwater.plan.nodes import Field
from lowwater.plan.temporal import END_OF_TIME


@dataclass
class Feed:
    """The stored stream behind one source: one LFTA on one link, or one part of a cut plan.

    Attributes:
        chunks: row groups with data rows.
        promises: punctuation rows.
        rows: how many data rows; `stored` with the punctuation rows.
        first, last: least and greatest `_last` (ns) of the data rows; meaningless without any.
        ticks: how many data rows there are by their instants (ns).
        ends: how many there are by the GRAIN of time in which their `_last` lies.
        latest: instant (ns) of the last emission; below every instant where there is none.
    """

    chunks: list[Chunk] = field(default_factory=list)
    promises: list[Promise] = field(default_factory=list)
    rows: int = 0
    stored: int = 0
    first: int = END_OF_TIME
    last: int = -END_OF_TIME
    ticks: Counter[int] = field(default_factory=Counter)
    ends: Counter[int] = field(default_factory=Counter)
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
            counted = pc.value_counts(rows["_tick"])
            self.ticks.update(dict(zip(*(part.to_pylist() for part in counted.flatten()), strict=True)))
            tick, last = (rows[name].to_numpy() for name in ("_tick", "_last"))
            ends, counts = np.unique(last // GRAIN, return_counts=True)
            self.ends.update(dict(zip(ends.tolist(), counts.tolist(), strict=True)))
            bounds = int(tick.min()), int(tick.max()), int(last.min()), int(last.max())
            self.chunks.append(Chunk(file, group, *bounds, self.stored))
            self.rows += rows.num_rows
            self.first, self.last = min(self.first, int(last.min())), max(self.last, int(last.max()))
        self.stored += table.num_rows

    def promised(self, instants: Instants) -> Instants:
        """The highest promise (ns) of any punctuation up to each instant; below every one where there is none."""
        found = np.full(len(instants), -END_OF_TIME, np.int64)
        for promise in self.promises:
            begin = int(np.searchsorted(instants, promise.first))
            # One instant more than its ticks has what it said last.
            part = slice(begin, int(np.searchsorted(instants, promise.until, side="right")) + 1)
            found[part] = np.maximum(found[part], promise.at(instants[part]))
        highest: Instants = np.maximum.accumulate(found)
        return highest


@dataclass(frozen=True)
class Replay:
    """How the sources of one Spark query advance.

    Attributes:
        clock: of the query.
        boundaries: instants (ns) between its micro-batches, which all sources share.
        instants: the ticks up to the closing boundary, and the boundaries, ns.
    """

    clock: EventClock
    boundaries: tuple[int, ...]
    instants: Instants

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
        ticks: Counter[int] = Counter()
        for feed in feeds:
            ticks.update(feed.ticks)
        closing = max(end if end < END_OF_TIME else -END_OF_TIME, *(feed.latest for feed in feeds))
        boundaries = tuple(choose_boundaries(ticks, closing, step, most))
        first = min([*ticks, *known], default=closing)  # before it there is nothing that a promise could let go
        return cls(clock, boundaries, np.union1d(grid(first, closing, step), boundaries))

    def promised(self, feeds: Sequence[Feed]) -> Instants:
        """What one source with these feeds promises at each instant: what all of them do (P3), at last all time."""
        together: Instants = np.min([feed.promised(self.instants) for feed in feeds], axis=0)
        together[-1] = END_OF_TIME
        return together

    def lay_out(
        self,
        feeds: Sequence[Feed],
        promised: Instants,
        fields: Sequence[Field],
        folder: Path,
        links: Sequence[int] = (),
        number: str = "",
        dated: bool = False,
    ) -> Reel:
        """Lays feeds of the same fields out as one source.

        Args:
            feeds: of an LFTA one a link.
            promised: what they promise, as `promised` has it.
            fields: of their rows.
            folder: for the files.
            links: number of the link of each feed (`order.links_of`), where rows bring their place; else empty.
            number: field with the number of a row's record in its link, by which places go; else by that of the row.
            dated: whether rows bring their tick.
        """
        at = np.searchsorted(self.instants, self.boundaries)
        pairs = zip(links or [0] * len(feeds), feeds, strict=True)
        chunks = [
            replace(each, place=(0 if number else each.place) + (link << LINK_BITS), number=number)
            for link, feed in pairs
            for each in feed.chunks
        ]
        return lay_out(folder, fields, chunks, self.boundaries, promised[at].tolist(), self.clock, bool(links), dated)

    def timeline(self, promised: Sequence[Instants]) -> Timeline:
        """What the output of the query promises: what each source does, since a row is final by that (I1, P4)."""
        return Timeline.of(self.instants, np.min(promised, axis=0))
