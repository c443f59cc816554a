"""Aggregation by epochs over the rows of a slice, block by block.

One operator of a slice. An integer sum is exact: its upper and lower 32 bits are summed apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.catalog.expr import Type
from lowwater.catalog.functions import Fold
from lowwater.catalog.streams import LAST
from lowwater.high.slices.instants import group_end
from lowwater.high.slices.keys import codes, normal
from lowwater.high.slices.spill import divided
from lowwater.high.slices.values import Frame
from lowwater.plan.operators import Aggregate, Group
from lowwater.stream.aggregates import overflow

ROWS = "_rows"
"""Column with how many rows a group has."""
_LOW = (1 << 32) - 1


@dataclass(frozen=True)
class _State:
    """A column of partial results.

    Attributes:
        name: the name of the column.
        of: what a block of argument values gives to it, one a row; None for one a row.
        merge: how values of a group become one: sum, min or max, which Arrow has, or a fold.
    """

    name: str
    of: Callable[[pa.Array], pa.Array] | None
    merge: str | Fold


def grouped(node: Group, blocks: Iterable[Frame], slice_: tuple[int, int], folder: Path) -> Iterator[Frame]:
    """The groups: keys, aggregates, `_last`, and how many rows each has.

    Args:
        node: the operator.
        blocks: the blocks of the rows that its predicate admits.
        slice_: groups with `_last` (ns) in [first, second) are whole.
        folder: for files where the groups are too many for memory; the caller removes it.

    Raises:
        ValueOverflowError: the sum of a whole group does not fit 64 bits (SEMANTICS O3).
    """
    states = {a.name: _states(a) for a in node.aggregates}
    flat = [state for each in states.values() for state in each] + [_State(ROWS, None, "sum")]
    names = [item.name for item in node.keys]
    made: list[Frame] = []

    def parts() -> Iterator[Frame]:
        for frame in blocks:
            made[:] = [_part(node, frame, states)]
            yield made[0]

    for found in divided(folder, parts(), names):
        whole = found is made[0]  # the only part: each key stands in it once
        yield _finished(node, found if whole else _merged(found, names, flat), slice_)


def _finished(node: Group, found: Frame, slice_: tuple[int, int]) -> Frame:
    names = [item.name for item in node.keys]
    ends = group_end(node.key_fields, [found[name] for name in names], found.rows)
    columns = {name: found[name] for name in names} | {LAST: pa.array(ends), ROWS: found[ROWS]}
    inside = (ends >= slice_[0]) & (ends < slice_[1])
    for aggregate in node.aggregates:
        columns[aggregate.name] = _result(node, aggregate, found, inside)
    return Frame(columns, found.rows)


def _part(node: Group, frame: Frame, states: dict[str, list[_State]]) -> Frame:
    columns = {item.name: normal(frame.of_expr(item.expr)) for item in node.keys}
    names, flat = list(columns), [_State(ROWS, None, "sum")]
    columns[ROWS] = pa.repeat(pa.scalar(1, pa.int64()), frame.rows)
    for aggregate in node.aggregates:
        given = None if aggregate.argument is None else frame.of_expr(aggregate.argument)
        for state in states[aggregate.name]:
            columns[state.name] = columns[ROWS] if state.of is None else state.of(given)
            flat.append(state)
    return _merged(Frame(columns, frame.rows), names, flat)


def _merged(frame: Frame, names: Sequence[str], states: Sequence[_State]) -> Frame:
    """One row for each key."""
    if any(isinstance(state.merge, Fold) for state in states):
        return _by_sorting(frame, names, states)
    # Names of columns are the query's, and one of them may be another's with `_sum` behind it: they go by their places.
    given = [frame[name] for name in (*names, *(state.name for state in states))]
    table = pa.table(given, names=[str(at) for at in range(len(given))])
    keys = [str(at) for at in range(len(names))]
    asked = [(str(len(names) + at), state.merge) for at, state in enumerate(states)]
    found = Frame.of(table.group_by(keys, use_threads=False).aggregate(asked))
    columns = {name: found[key] for name, key in zip(names, keys, strict=True)}
    columns |= {state.name: found[f"{at}_{merge}"] for state, (at, merge) in zip(states, asked, strict=True)}
    return Frame(columns, found.rows)


def _by_sorting(frame: Frame, names: Sequence[str], states: Sequence[_State]) -> Frame:
    """The same by sorting rows by their key, for what Arrow has no aggregate for."""
    numbers, _ = codes([frame[name] for name in names], frame.rows)
    order = np.argsort(numbers, kind="stable")
    begins = np.flatnonzero(np.diff(numbers[order], prepend=-1))
    first = frame.take(order[begins])
    columns = {name: first[name] for name in names}
    owner = pa.array(np.repeat(np.arange(len(begins)), np.diff([*begins, frame.rows])))
    for state in states:
        values = frame[state.name].take(pa.array(order))
        if isinstance(state.merge, Fold):
            columns[state.name] = _reduced(values, begins, state.merge)
        else:
            table = pa.table({"key": owner, "value": values}).group_by("key", use_threads=False)
            columns[state.name] = Frame.of(table.aggregate([("value", state.merge)]).sort_by("key"))[
                f"value_{state.merge}"
            ]
    return Frame(columns, len(begins))


def _reduced(values: pa.Array, begins: npt.NDArray[np.int64], fold: Fold) -> pa.Array:
    given = values.is_valid().to_numpy(zero_copy_only=False)
    if not len(given):
        return values
    found = fold.ufunc.reduceat(values.fill_null(fold.neutral).to_numpy(zero_copy_only=False), begins)
    return pa.array(found, mask=~np.logical_or.reduceat(given, begins))


def _states(aggregate: Aggregate) -> list[_State]:
    name, function = aggregate.name, aggregate.function
    real = aggregate.argument is not None and aggregate.argument.type is Type.FLOAT
    if function == "count":
        return [_State(name, None if aggregate.argument is None else _counted, "sum")]
    if (fold := _fold(aggregate)) is not None:
        return [_State(name, _bits, fold)]
    if function in ("min", "max"):
        own = [_State(name, lambda values: values, function)]
        return [*own, _State(f"{name}#nan", _nan, "max"), _State(f"{name}#real", _real, "max")] if real else own
    if real:
        sums = [_State(name, lambda values: values, "sum")]
    else:
        sums = [_State(name, lambda values: pc.shift_right(values, 32), "sum")]
        sums.append(_State(f"{name}#low", lambda values: pc.bit_wise_and(values, _LOW), "sum"))
    return [*sums, _State(f"{name}#n", _counted, "sum")] if function == "avg" else sums


def _fold(aggregate: Aggregate) -> Fold | None:
    return aggregate.udaf.fold if aggregate.udaf is not None else None


def _counted(values: pa.Array) -> pa.Array:
    return values.is_valid().cast(pa.int64())


def _bits(values: pa.Array) -> pa.Array:
    return values.cast(pa.int64())


def _nan(values: pa.Array) -> pa.Array:
    return pc.is_nan(values).cast(pa.int64())


def _real(values: pa.Array) -> pa.Array:
    return pc.invert(pc.is_nan(values)).cast(pa.int64())


def _result(node: Group, aggregate: Aggregate, found: Frame, inside: npt.NDArray[np.bool_]) -> pa.Array:
    name, function = aggregate.name, aggregate.function
    value = found[name]
    if function == "count":
        return value
    if _fold(aggregate) is not None:
        return value.cast(pa.bool_()) if aggregate.type is Type.BOOL else value
    real = aggregate.argument is not None and aggregate.argument.type is Type.FLOAT
    if function in ("min", "max"):
        return _best(function, found, name) if real else value
    if real:
        none = pa.scalar(None, pa.float64())
        value = pc.if_else(pc.is_nan(value), none, value)  # a sum that is NaN has no value (V2)
        return pc.divide(value, _divisor(found[f"{name}#n"])) if function == "avg" else value
    low = found[f"{name}#low"]
    high = pc.add(value, pc.shift_right(low, 32))
    low = pc.bit_wise_and(low, _LOW)
    if function == "avg":
        total = pc.add(pc.multiply(high.cast(pa.float64()), float(_LOW + 1)), low.cast(pa.float64()))
        return pc.divide(total, _divisor(found[f"{name}#n"]))
    beyond = pc.or_(pc.less(high, -(1 << 31)), pc.greater(high, (1 << 31) - 1)).fill_null(False)
    if (beyond.to_numpy(zero_copy_only=False) & inside).any():
        raise overflow(node.query, aggregate, node.items)
    return pc.bit_wise_or(pc.shift_left(high, 32), low)


def _divisor(counts: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(counts, 0), pa.scalar(None, pa.float64()), counts.cast(pa.float64()))


def _best(function: str, found: Frame, name: str) -> pa.Array:
    """The least or greatest float, NaN above all numbers: Arrow passes NaN over."""
    nan = pa.scalar(math.nan, pa.float64())
    decided = pc.equal(found[f"{name}#nan"], 1) if function == "max" else pc.equal(found[f"{name}#real"], 0)
    return pc.if_else(decided.fill_null(False), nan, found[name])
