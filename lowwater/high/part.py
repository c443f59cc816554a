"""Evaluates one part of a query, a slice of its time x a share of its keys: reads rows of LFTAs and writes files of
result rows. `query_runs` describes the parts, and a runner evaluates them.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lowwater.catalog.expr import Expr
from lowwater.catalog.schemas import CONTROL, LAST, ROW, TICK
from lowwater.columns.files import Bounds, Chunk, HourFiles, Share, digests, file_columns, file_schema
from lowwater.columns.values import Frame, in_blocks
from lowwater.errors import LowwaterError, error_of_query
from lowwater.high.arrival import ArrivalChain, by_arrival
from lowwater.high.evaluate import Counts, Evaluation, owned
from lowwater.high.operators import ChainedOperator, StateHandover
from lowwater.high.timeline import Timeline, TimeSlice
from lowwater.plan.operators import Field, Node, Running, Sampling, walk
from lowwater.plan.properties import by_arrival as reads_by_arrival
from lowwater.plan.properties import value_schema
from lowwater.plan.shares import texts
from lowwater.plan.temporal import END_OF_TIME, INT64_MAX
from lowwater.storage import paths
from lowwater.storage.paths import lake_path, local


@dataclass(frozen=True)
class StoredLeaf:
    """The stored rows of one leaf of a plan.

    Attributes:
        chunks: (number of the link, row group).
        placed: whether to add the canonical order (PLACE) to its rows.
        number: column with the number of the record on its link; empty for none.
    """

    fields: Sequence[Field]
    chunks: Sequence[tuple[int, Chunk]]
    placed: bool = False
    number: str = ""

    def narrowed(self, name: str, slice_: TimeSlice, share: Share | None) -> StoredLeaf:
        """Returns what a part reads of the rows of this leaf, so that its description is short."""
        first, end = slice_.reads[name], slice_.end
        chunks = [each for each in self.chunks if each[1].low < end and each[1].high >= first]
        if share is not None and name in share.keys:
            bounds, by = share.bounds, texts(share.keys[name])
            chunks = [each for each in chunks if bounds.meets(each[1].known(by))]
        return replace(self, chunks=chunks)


@dataclass(frozen=True)
class Part:
    """The description of a part: plain values, which can be sent to another process.

    Attributes:
        stored: name of a leaf -> its stored rows.
        lists: (file, columns) of a watch list -> its rows.
        folder: folder for the result files: of this machine, or of the lake for tasks on other machines.
        name: prefix of their names.
        owned: rows with `_last` (ns) in [first, second) are written.
        timeline: promises of the query; they give waiting rows their ticks.
        step: time between ticks, ns, if rows wait for no promise and have their own ticks; otherwise None.
        published: whether rows are written in published types instead of stream types.
        carry: place of the interval in the chain, for a plan with a state; None for independent slices.
        share: the share of the rows of its leaves that it reads; None for all rows.
        divided: what divides the rows of its files, for a reader by shares.
        most: rows that an operator keeps in memory before it writes files; 0 for the usual number. The runner sets it.
    """

    node: Node
    slice_: TimeSlice
    stored: Mapping[str, StoredLeaf]
    lists: Mapping[tuple[str, tuple[Field, ...]], pa.Table]
    folder: PurePath
    name: str
    owned: tuple[int, int]
    timeline: Timeline
    step: int | None
    published: bool
    carry: StateHandover | None = None
    share: Share | None = None
    divided: tuple[Expr, ...] = ()
    most: int = 0

    @property
    def span(self) -> tuple[int, int]:
        """Rows with `_last` (ns) in [first, second) are counted; with a state every row comes out once."""
        return (self.slice_.start, self.slice_.end) if self.carry is None else (-END_OF_TIME, INT64_MAX)


@dataclass
class PartOutcome:
    """The result of a part.

    Attributes:
        files: path -> number of rows.
        read: number of LFTA rows read.
        held: number of rows and groups that go on to the next slice.
        points: counts of the operators, see `Counts.points`.
        notes: query of an operator with a state -> what it has noted so far (`EpochOperator.notes`).
    """

    files: dict[str, int] = field(default_factory=dict)
    read: int = 0
    held: int = 0
    points: list[tuple[str, str, Counter[str]]] = field(default_factory=list)
    notes: Mapping[str, Any] = field(default_factory=dict)
    error: LowwaterError | None = None


class ChainState:
    """The operators with a state of the plan of a part, or of a share of it, from slice to slice.

    Raises:
        LowwaterError: the state that the interval before left cannot be read.
    """

    def __init__(self, task: Part) -> None:
        carry, node = task.carry or StateHandover(), task.node
        self.arrivals = ArrivalChain(node, carry) if reads_by_arrival(node) else None
        hosted = () if self.arrivals else walk(node)
        self.operators = {
            operator.query: ChainedOperator(operator, carry)
            for operator in hosted
            if isinstance(operator, Running | Sampling)
        }

    @property
    def held(self) -> int:
        """The number of stored rows and groups."""
        return sum(chain.held for chain in (self.arrivals, *self.operators.values()) if chain is not None)


def evaluate_part(task: Part, chains: ChainState | None = None, again: bool = False) -> PartOutcome:
    """Evaluates a part and writes its rows; an error is returned, so that other queries go on.

    Args:
        chains: state after the earlier parts; None for independent parts.
        again: whether the runner tries a part again that cannot read or write a file: then that is an OSError.
    """
    try:
        return _evaluated(task, chains)
    except Exception as error:
        if again and isinstance(error, OSError):
            raise
        return PartOutcome(error=error_of_query(task.node.query, error))


def evaluate_chain(tasks: Sequence[Part]) -> list[PartOutcome]:
    """Evaluates parts of a share of a plan with a state in order; stops at the first error."""
    outcomes: list[PartOutcome] = []
    try:
        chains = ChainState(tasks[0])
    except Exception as error:  # noqa: BLE001 - whatever a query does is its own failure
        return [PartOutcome(error=error_of_query(tasks[0].node.query, error)) for _ in tasks]
    for task in tasks:
        failed = outcomes[-1].error if outcomes else None
        outcomes.append(PartOutcome(error=failed) if failed else evaluate_part(task, chains))
    return outcomes


def _evaluated(task: Part, chains: ChainState | None) -> PartOutcome:
    outcome = PartOutcome()
    counts = Counts(task.span)
    spill = paths.draft(task.folder / f"{task.name}.spill")
    first, end = max(task.owned[0], task.span[0]), min(task.owned[1], task.span[1])
    schema = file_schema(task.node.fields, task.published)
    try:
        with HourFiles(task.folder, task.name, schema, task.divided) as out:
            for frame in _frames(task, chains, counts, spill, outcome):
                frame = owned(frame, first, end)
                if frame.rows:
                    out.write(_dated(task, frame, schema))
    finally:
        shutil.rmtree(spill, ignore_errors=True)
    outcome.files = {str(path): rows for path, rows in out.files.items()}
    outcome.points = counts.points
    if chains is not None:
        outcome.held = chains.held
        outcome.notes = {query: operator.notes for query, operator in chains.operators.items()}
    return outcome


def _frames(
    task: Part, chains: ChainState | None, counts: Counts, spill: Path, outcome: PartOutcome
) -> Iterator[Frame]:
    """Yields the result rows of the plan, and counts the rows it reads."""

    def leaf(name: str) -> Callable[[], Iterator[Frame]]:
        def frames() -> Iterator[Frame]:
            for frame in in_blocks(_rows(task, name)):
                outcome.read += frame.rows
                yield frame

        return frames

    leaves = {name: leaf(name) for name in task.stored}
    if chains is not None and chains.arrivals is not None:
        yield by_arrival(task.node, chains.arrivals, leaves, counts, task.slice_.end)
        return
    lists = {name: Frame.of(table) for name, table in task.lists.items()}
    operators = chains.operators if chains else {}
    yield from Evaluation(leaves, lists, counts, spill, task.slice_.end, operators, task.most).rows(task.node)


def _rows(task: Part, name: str) -> Iterator[Frame]:
    stored, slice_ = task.stored[name], task.slice_
    names = [f.name for f in stored.fields] + [LAST] + ([TICK] if task.step is not None else [])
    first, end = slice_.reads[name], slice_.end
    wanted = _of_share(task.share, name, stored.narrowed(name, slice_, task.share).chunks)
    for file, chunks in groupby(wanted, key=lambda each: each[1].file):
        with pq.ParquetFile(local(lake_path(file))) as opened:
            for link, chunk, rows, bounds in chunks:
                place = link if stored.placed else None
                frame = Frame.of(chunk.ending(opened, names, first, end, place, stored.number, rows))
                if bounds is not None and task.share is not None:
                    frame = frame.where(bounds.chosen(digests(frame, task.share.keys[name])))
                yield frame


def _of_share(
    share: Share | None, name: str, chunks: Sequence[tuple[int, Chunk]]
) -> Iterator[tuple[int, Chunk, slice, Bounds | None]]:
    """Yields the chunks that have rows of a share, with their rows to read and the digests to choose among these."""
    everything = slice(None)
    if share is None:
        yield from ((link, chunk, everything, None) for link, chunk in chunks)
    elif name in share.keys:
        bounds, by = share.bounds, texts(share.keys[name])
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


def _dated(task: Part, frame: Frame, schema: pa.Schema) -> pa.Table:
    if task.step is None:
        # A row that came with a record may have been final before its own last instant.
        finals = frame[TICK if TICK in frame.columns else LAST]
        ticks = task.timeline.ticks(finals.to_numpy(zero_copy_only=False))
    else:
        ticks = -(-frame[TICK].to_numpy(zero_copy_only=False) // task.step) * task.step
    control = {
        LAST: frame[LAST],
        "_kind": pa.repeat(pa.scalar(ROW), frame.rows),
        TICK: pa.array(np.minimum(ticks, task.timeline.closing)),
        "_period": pa.repeat(pa.scalar(0, pa.int64()), frame.rows),
    }
    control["_until"] = control[TICK]
    fields = task.node.fields
    values = pa.table([frame[f.name] for f in fields], schema=value_schema(fields))
    columns = file_columns(values, fields, task.published)
    return pa.Table.from_arrays([*columns, *(control[name] for name in CONTROL.names)], schema=schema)
