"""Evaluates one part of a query, a slice of its time x a share of its keys: reads rows of LFTAs and writes files of
result rows. `query_runs` describes the parts, and a runner calls `evaluate_part`. Where a state goes on from slice to
slice, a part has all slices of its share.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from itertools import groupby
from operator import or_
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lowwater.catalog import expr as ex, schemas
from lowwater.catalog.time import Reported
from lowwater.columns.files import Bounds, Chunk, HourFiles, Share, digests, file_columns, file_schema
from lowwater.columns.values import Frame, in_blocks
from lowwater.errors import error_of_query
from lowwater.high.evaluate import Counts, Evaluation, Points
from lowwater.high.operators import ChainedOperator, StateHandover, state_file
from lowwater.high.timeline import Timeline, TimeSlice
from lowwater.plan import operators as ops, properties, shares, temporal
from lowwater.storage import paths

if TYPE_CHECKING:
    from lowwater.high.arrival import ArrivalChain
    from lowwater.high.over import OverChain

FOOTERS = 16
"""Footers of files that a part keeps: with row groups by share they are large, and long to read."""

Footer = Callable[[str], pq.FileMetaData]


@dataclass(frozen=True)
class StoredLeaf:
    """The stored rows of one leaf of a plan.

    Attributes:
        chunks: (number of the link, row group).
        placed: whether its rows get the canonical order (PLACE).
        number: column with the number of the record on its link; empty for none.
    """

    fields: Sequence[ops.Field]
    chunks: Sequence[tuple[int, Chunk]]
    placed: bool = False
    number: str = ""

    def narrowed(self, name: str, slices: Sequence[TimeSlice], share: Share | None) -> StoredLeaf:
        """Returns what a part reads of the rows of this leaf, so that its description is short."""
        first, end = slices[0].reads[name], slices[-1].end
        chunks = [each for each in self.chunks if each[1].low < end and each[1].high >= first]
        if share is not None and name in share.keys:
            bounds, by = share.bounds, shares.texts(share.keys[name])
            chunks = [each for each in chunks if bounds.meets(each[1].known(by))]
        return replace(self, chunks=chunks)


@dataclass(frozen=True)
class Part:
    """The description of a part: plain values, which can be sent to another process.

    Attributes:
        slices: one, or all in order for a plan with a state.
        stored: name of a leaf -> its stored rows.
        lists: (file, columns) of a watch list -> its rows.
        folder, name: of the result files, and the prefix of their names.
        owned: rows with `_last` (ns) in [first, second) are written.
        timeline: promises of the query; they give waiting rows their ticks.
        step: time between ticks, ns, if rows wait for no promise and have their own ticks; otherwise None.
        published: whether rows are written in published types instead of stream types.
        carry: place of the interval in the chain, for a plan with a state; None for independent slices.
        share: of the rows of its leaves that it reads; None for all rows.
        divided: what divides the rows of its files, for a reader by shares.
        reported: what is known of the links, for groups without rows.
    """

    node: ops.Node
    slices: Sequence[TimeSlice]
    stored: Mapping[str, StoredLeaf]
    lists: Mapping[tuple[str, tuple[ops.Field, ...]], pa.Table]
    folder: PurePath
    name: str
    owned: tuple[int, int]
    timeline: Timeline
    step: int | None
    published: bool
    carry: StateHandover | None = None
    share: Share | None = None
    divided: tuple[ex.Expr, ...] = ()
    reported: Mapping[str, Reported] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The query and the name."""
        return f"{self.node.query} {self.name}"

    @property
    def weight(self) -> int:
        """The rows of the files that it reads."""
        return sum(chunk.size for leaf in self.stored.values() for _, chunk in leaf.chunks)

    @property
    def span(self) -> tuple[int, int]:
        """Rows with `_last` (ns) in [first, second) are counted; with a state every row comes out once."""
        return (
            (self.slices[0].start, self.slices[-1].end)
            if self.carry is None
            else (-temporal.END_OF_TIME, temporal.INT64_MAX)
        )


@dataclass
class PartOutcome:
    """The result of a part.

    Attributes:
        files: path -> number of rows.
        read: number of LFTA rows.
        most: largest number of rows that a slice read, with the rows and groups that it left to the next.
        notes: query of an operator with a state -> what it has noted (`EpochOperator.notes`).
        states: `state_file` of such an operator -> its state, for the interval after.
    """

    files: dict[str, int] = field(default_factory=dict)
    read: int = 0
    most: int = 0
    points: Points = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)
    states: dict[str, bytes] = field(default_factory=dict)


Chains = Mapping[str, "ArrivalChain | ChainedOperator | OverChain"]
"""Query -> its operator whose state outlives a slice, or its whole plan by arrival."""


def _chains(part: Part) -> Chains:
    if part.carry is None:
        return {}
    # Who only describes parts does not load numba.
    from lowwater.high.arrival import ArrivalChain
    from lowwater.high.over import OverChain

    if properties.by_arrival(part.node):
        return {part.node.query: ArrivalChain(part.node, part.carry)}
    chained: dict[str, ChainedOperator | OverChain] = {}
    for each in ops.walk(part.node):
        if isinstance(each, ops.Running | ops.Sampling):
            chained[each.query] = ChainedOperator(each, part.carry)
        elif isinstance(each, ops.Over):
            chained[each.query] = OverChain(each, part.carry)
    return chained


def evaluate_part(part: Part, most: int = 0) -> PartOutcome:
    """Evaluates a part and writes its rows. `most`: rows that an operator keeps in memory before it writes files; 0 for
    the usual number.
    Raises OSError if a file cannot be read or written, and LowwaterError, that of the query, for all else."""
    try:
        return _evaluated(part, most)
    except OSError:
        raise
    except Exception as error:
        raise error_of_query(part.node.query, error) from error


def _evaluated(part: Part, most: int) -> PartOutcome:
    outcome, chains, schema = PartOutcome(), _chains(part), file_schema(part.node.fields, part.published)
    spill = paths.draft(part.folder / f"{part.name}.spill")
    first, end = max(part.owned[0], part.span[0]), min(part.owned[1], part.span[1])
    try:
        footer = lru_cache(FOOTERS)(_footer)  # a file is read by slice after slice
        with HourFiles(part.folder, part.name, schema, part.divided) as out:
            for slice_ in part.slices:
                before, counts = outcome.read, Counts(part.span)
                for frame in _frames(part, slice_, chains, counts, spill, most, outcome, footer):
                    lasts = frame[schemas.LAST]
                    frame = frame.where(pc.and_(pc.greater_equal(lasts, first), pc.less(lasts, end)))
                    if frame.rows:
                        out.write(_dated(part, frame, schema))
                held = sum(chain.held for chain in chains.values())
                outcome.most = max(outcome.most, outcome.read - before + held)
                outcome.points = added(outcome.points, counts.points)
    finally:
        shutil.rmtree(spill, ignore_errors=True)
    outcome.files = {str(path): rows for path, rows in out.files.items()}
    for query, chain in chains.items():
        if isinstance(chain, ChainedOperator):
            outcome.notes[query] = chain.operator.notes()
        if part.carry is not None and part.carry.left:
            outcome.states[state_file(query)] = chain.state()
    return outcome


def added(points: Points, more: Points) -> Points:
    """Adds counts of the operators of a plan to those so far, if there are any."""
    for (_, _, counts), (_, _, others) in zip(points, more, strict=bool(points)):
        counts.update(others)
    return points or more


def _footer(file: str) -> pq.FileMetaData:
    with pq.ParquetFile(paths.local(paths.lake_path(file))) as opened:
        return opened.metadata


def _frames(
    part: Part,
    slice_: TimeSlice,
    chains: Chains,
    counts: Counts,
    spill: Path,
    most: int,
    outcome: PartOutcome,
    footer: Footer,
) -> Iterator[Frame]:
    """Yields the result rows of a slice, and counts the rows that it reads."""

    def leaf(name: str) -> Callable[[], Iterator[Frame]]:
        def frames() -> Iterator[Frame]:
            for frame in in_blocks(_rows(part, slice_, name, footer)):
                outcome.read += frame.rows
                yield frame

        return frames

    leaves = {name: leaf(name) for name in part.stored}
    if properties.by_arrival(part.node):
        whole = cast("ArrivalChain", chains[part.node.query])
        read, emitted = counts.point("rows", part.node, "rows_in"), counts.point("by arrival", part.node, "rows_out")
        for name, blocks in leaves.items():
            for frame in blocks():
                read["rows_in"] += whole.take(name, frame)
        made = whole.advance(slice_.end)
        emitted["rows_out"] += made.rows
        yield made
        return
    lists = {name: Frame.of(table) for name, table in part.lists.items()}
    operators = cast("Mapping[str, ChainedOperator | OverChain]", chains)
    yield from Evaluation(leaves, lists, counts, spill, slice_.end, operators, most, part.reported).rows(part.node)


def _rows(part: Part, slice_: TimeSlice, name: str, footer: Footer) -> Iterator[Frame]:
    stored = part.stored[name].narrowed(name, [slice_], part.share)
    names = [f.name for f in stored.fields] + [schemas.LAST] + ([schemas.TICK] if part.step is not None else [])
    first, end = slice_.reads[name], slice_.end
    for file, chunks in groupby(_of_share(part.share, name, stored.chunks), key=lambda each: each[1].file):
        with pq.ParquetFile(paths.local(paths.lake_path(file)), metadata=footer(file)) as opened:
            for link, chunk, rows, bounds in chunks:
                place = link if stored.placed else None
                frame = Frame.of(chunk.ending(opened, names, first, end, place, stored.number, rows))
                if bounds is not None and part.share is not None:
                    frame = frame.where(bounds.chosen(digests(frame, part.share.keys[name])))
                yield frame


def _of_share(
    share: Share | None, name: str, chunks: Sequence[tuple[int, Chunk]]
) -> Iterator[tuple[int, Chunk, slice, Bounds | None]]:
    """Yields the chunks that have rows of a share, with their rows to read and the digests to choose among these."""
    everything = slice(None)
    if share is None:
        yield from ((link, chunk, everything, None) for link, chunk in chunks)
    elif name in share.keys:
        bounds, by = share.bounds, shares.texts(share.keys[name])
        for link, chunk in chunks:
            yield link, chunk, everything, None if bounds.holds(chunk.known(by)) else bounds
    else:
        total, before = sum(chunk.size for _, chunk in chunks), 0
        first, end = (total * number // share.shares for number in (share.number, share.number + 1))
        for link, chunk in chunks:
            rows = slice(max(first - before, 0), min(end - before, chunk.size))
            before += chunk.size
            if rows.start < rows.stop:
                yield link, chunk, rows, None


def _dated(part: Part, frame: Frame, schema: pa.Schema) -> pa.Table:
    if part.step is None:
        # A row that came with a record may have been final before its own last instant.
        finals = frame[schemas.TICK if schemas.TICK in frame.columns else schemas.LAST]
        ticks = part.timeline.ticks(finals.to_numpy(zero_copy_only=False))
    else:
        ticks = -(-frame[schemas.TICK].to_numpy(zero_copy_only=False) // part.step) * part.step
    control = {
        schemas.LAST: frame[schemas.LAST],
        "_kind": pa.repeat(pa.scalar(schemas.ROW), frame.rows),
        schemas.TICK: pa.array(np.minimum(ticks, part.timeline.closing)),
        "_period": pa.repeat(pa.scalar(0, pa.int64()), frame.rows),
    }
    control["_until"] = control[schemas.TICK]
    fields = part.node.fields
    values = pa.table([frame[f.name] for f in fields], schema=properties.value_schema(fields))
    columns = file_columns(values, fields, part.published)
    return pa.Table.from_arrays([*columns, *(control[name] for name in schemas.CONTROL.names)], schema=schema)


# Shares of a slice with few rows each leave one file an hour.

FEW_ROWS = 1 << 13
"""Rows of a file on average, below which the shares of a slice are put into one."""


@dataclass(frozen=True)
class SliceFiles:
    """The files of the shares of a slice, with their rows; `part`: that of the first share."""

    part: Part
    files: Mapping[str, int]

    @property
    def few(self) -> bool:
        """Whether they are to be gathered."""
        several = self.part.share is not None and len(self.files) > 1
        return several and self.weight < len(self.files) * FEW_ROWS

    @property
    def label(self) -> str:
        return f"{self.part.label} gathered"

    @property
    def weight(self) -> int:
        return sum(self.files.values())


def slice_files(parts: Sequence[Part], outcomes: Sequence[PartOutcome]) -> list[SliceFiles]:
    """Returns the files of each slice of a stage, in order, of its parts and their outcomes."""
    slices = []
    for _, members in groupby(zip(parts, outcomes, strict=True), key=lambda member: member[0].slices[0].start):
        (part, first), *others = members
        slices.append(SliceFiles(part, reduce(or_, (other.files for _, other in others), first.files)))
    return slices


def gather(shares: SliceFiles) -> dict[str, int]:
    """Puts files of shares into one an hour, in order, and returns these with their rows; the others stay.
    Raises OSError if one cannot be read or written."""
    part = shares.part
    schema = file_schema(part.node.fields, part.published)
    with HourFiles(part.folder, f"{part.name}-shares", schema, part.divided) as out:
        for file in shares.files:
            out.write(pq.read_table(paths.local(paths.lake_path(file)), schema=schema))
    return {str(path): rows for path, rows in out.files.items()}
