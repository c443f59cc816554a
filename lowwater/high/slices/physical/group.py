"""Aggregates the rows of a slice by epochs, block by block.

One operator of a slice. `catalog.functions.Native` states the partial aggregates of an aggregate and their folds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.catalog.functions import Columns, Fold, PartialColumn
from lowwater.catalog.streams import LAST
from lowwater.high.slices.instants import group_end
from lowwater.high.slices.keys import codes, normal
from lowwater.high.slices.row_blocks import BLOCK
from lowwater.high.slices.spill import divided
from lowwater.high.slices.values import Frame, concat_frames
from lowwater.plan.operators import Aggregate, Group
from lowwater.plan.phases import ROWS, SubGroup, SuperGroup, columns_of
from lowwater.stream.aggregates import overflow


@dataclass(frozen=True)
class _State:
    """A column of partial aggregates of a block.

    Attributes:
        name: the name of the column.
        fold: the merge of two values of a group.
    """

    name: str
    fold: Fold


@dataclass(frozen=True)
class _Aggregate:
    """An aggregate of the operator, with its form in Arrow.

    Attributes:
        node: the aggregate.
        columns: its partial aggregates and its value.
    """

    node: Aggregate
    columns: Columns

    @property
    def states(self) -> list[_State]:
        return [_State(self.name_of(column), column.fold) for column in self.columns.partials]

    def name_of(self, column: PartialColumn) -> str:
        return self.node.name + column.suffix


def grouped(node: Group, blocks: Iterable[Frame], slice_: tuple[int, int], folder: Path) -> Iterator[Frame]:
    """Groups the rows of a slice. Yields keys, aggregates, `_last` and the number of rows of the groups.

    Args:
        node: the operator; the second of two phases takes rows of the first.
        blocks: the blocks of rows that pass its predicate.
        slice_: the interval [first, second) in ns; groups with `_last` in it are complete.
        folder: a folder for spill files if memory cannot hold the groups; the caller removes it.

    Raises:
        ValueOverflowError: the sum of a complete group exceeds 64 bits (SEMANTICS O3).
    """
    aggregates = _aggregates(node)
    states = _states(aggregates)
    names = [item.name for item in node.keys]
    latest: list[Frame] = []

    def parts() -> Iterator[Frame]:
        for frame in blocks:
            partials = frame if isinstance(node, SuperGroup) else _partials(node, frame, aggregates)
            latest[:] = [_merged(partials, names, states)]
            yield latest[0]

    for part in divided(folder, parts(), names):
        merged = part is latest[0]  # a single part holds every key once
        yield _finished(node, aggregates, part if merged else _merged(part, names, states), slice_)


def sub_grouped(node: SubGroup, blocks: Iterable[Frame]) -> Iterator[Frame]:
    """Yields the rows of the first of two phases: keys, partial aggregates and `_last`, one row a group and block.

    Args:
        node: the operator.
        blocks: the blocks of rows that pass its predicate.
    """
    aggregates = _aggregates(node)
    states, names = _states(aggregates), [item.name for item in node.keys]
    waiting: list[Frame] = []
    for frame in blocks:
        waiting.append(_merged(_partials(node, frame, aggregates), names, states))
        if sum(each.rows for each in waiting) > BLOCK:
            waiting = [_merged(concat_frames(waiting), names, states)]
            if waiting[0].rows > BLOCK // 2:  # the groups are too many to be held
                yield _ending(node, waiting.pop())
    if waiting:
        yield _ending(node, _merged(concat_frames(waiting), names, states))


def _aggregates(node: Group) -> list[_Aggregate]:
    return [_Aggregate(aggregate, columns_of(aggregate)) for aggregate in node.aggregates]


def _states(aggregates: Sequence[_Aggregate]) -> list[_State]:
    return [_State(ROWS.suffix, ROWS.fold), *(state for aggregate in aggregates for state in aggregate.states)]


def _ending(node: Group, groups: Frame) -> Frame:
    """Adds `_last` to groups."""
    ends = group_end(node.key_fields, [groups[item.name] for item in node.keys], groups.rows)
    return Frame(groups.columns | {LAST: pa.array(ends)}, groups.rows)


def _finished(node: Group, aggregates: Sequence[_Aggregate], groups: Frame, slice_: tuple[int, int]) -> Frame:
    names = [item.name for item in node.keys]
    ends = group_end(node.key_fields, [groups[name] for name in names], groups.rows)
    columns = {name: groups[name] for name in names} | {LAST: pa.array(ends), ROWS.suffix: groups[ROWS.suffix]}
    inside = (ends >= slice_[0]) & (ends < slice_[1])
    for aggregate in aggregates:
        columns[aggregate.node.name] = _value(node, aggregate, groups, inside)
    return Frame(columns, groups.rows)


def _partials(node: Group, frame: Frame, aggregates: Sequence[_Aggregate]) -> Frame:
    """Returns one row per input row: its keys and its partial aggregates."""
    columns = {item.name: normal(frame.of_expr(item.expr)) for item in node.keys}
    ones = columns[ROWS.suffix] = pa.repeat(pa.scalar(1, pa.int64()), frame.rows)
    for aggregate in aggregates:
        argument = aggregate.node.argument
        values = None if argument is None else frame.of_expr(argument)
        for column in aggregate.columns.partials:
            columns[aggregate.name_of(column)] = ones if column.of is None else column.of(values)
    return Frame(columns, frame.rows)


def _merged(frame: Frame, names: Sequence[str], states: Sequence[_State]) -> Frame:
    """Merges the partial aggregates of every key. Returns one row per key."""
    if not all(isinstance(state.fold.arrow, str) for state in states):
        return _by_sorting(frame, names, states)
    # Positions serve as names: a column of the query may have the name that Arrow gives a result, such as `a_sum`.
    inputs = [frame[name] for name in (*names, *(state.name for state in states))]
    table = pa.table(inputs, names=[str(at) for at in range(len(inputs))])
    keys = [str(at) for at in range(len(names))]
    aggregations = [(str(len(names) + at), state.fold.arrow) for at, state in enumerate(states)]
    merged = Frame.of(table.group_by(keys, use_threads=False).aggregate(aggregations))
    columns = {name: merged[key] for name, key in zip(names, keys, strict=True)}
    columns |= {state.name: merged[f"{at}_{merge}"] for state, (at, merge) in zip(states, aggregations, strict=True)}
    return Frame(columns, merged.rows)


def _by_sorting(frame: Frame, names: Sequence[str], states: Sequence[_State]) -> Frame:
    """Merges as `_merged` does, but sorts the rows by key, for folds without an aggregate in Arrow."""
    numbers, _ = codes([frame[name] for name in names], frame.rows)
    order = np.argsort(numbers, kind="stable")
    begins = np.flatnonzero(np.diff(numbers[order], prepend=-1))
    first = frame.take(order[begins])
    columns = {name: first[name] for name in names}
    owner = pa.array(np.repeat(np.arange(len(begins)), np.diff([*begins, frame.rows])))
    for state in states:
        values = frame[state.name].take(pa.array(order))
        if isinstance(state.fold.arrow, str):
            table = pa.table({"key": owner, "value": values}).group_by("key", use_threads=False)
            merged = Frame.of(table.aggregate([("value", state.fold.arrow)]).sort_by("key"))
            columns[state.name] = merged[f"value_{state.fold.arrow}"]
        else:
            columns[state.name] = _reduced(values, begins, state.fold.arrow, state.fold.neutral)
    return Frame(columns, len(begins))


def _reduced(values: pa.Array, begins: npt.NDArray[np.int64], fold: np.ufunc, neutral: int | None) -> pa.Array:
    present = values.is_valid().to_numpy(zero_copy_only=False)
    if not len(present):
        return values
    folded = fold.reduceat(values.fill_null(neutral).to_numpy(zero_copy_only=False), begins)
    return pa.array(folded, mask=~np.logical_or.reduceat(present, begins))


def _value(node: Group, aggregate: _Aggregate, groups: Frame, inside: npt.NDArray[np.bool_]) -> pa.Array:
    """Returns the value of an aggregate in every group. Only the value of an incomplete group may exceed 64 bits."""
    partials = [groups[aggregate.name_of(column)] for column in aggregate.columns.partials]
    if aggregate.columns.beyond is not None:
        beyond = aggregate.columns.beyond(*partials)
        if (beyond.to_numpy(zero_copy_only=False) & inside).any():
            raise overflow(node.query, aggregate.node, node.items)
    return aggregate.columns.value(*partials)
