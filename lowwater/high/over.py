"""Functions of a row and those before it over Arrow columns (SEMANTICS O11), slice by slice and interval by interval.

Rows are sorted by partition and, within it, in canonical order. What was before a slice is a few rows of each
partition, which stand before the others: of a sum, say, the last of them has what all of them add up to.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.catalog import expr as ex, schemas, state_json, tcp
from lowwater.columns.files import Bounds, digests
from lowwater.columns.values import Frame, Numbers, changes, codes, concat_frames, group_end, normal, ranks, sortable
from lowwater.high.operators import StateHandover, order_of
from lowwater.machine_code import cached_njit
from lowwater.plan import operators as ops, temporal
from lowwater.stream.over import overflow

INT64 = pa.int64()
_HALF = 32
"""Sums of integers are kept as two numbers, of the upper bits and of so many lower bits."""


class OverChain:
    """One operator over the slices of an interval. Rows of a slice are complete, so none waits for the next."""

    def __init__(self, node: ops.Over, carry: StateHandover) -> None:
        self._node, self._carry = node, carry
        self._begin = carry.begun.get(node.query, carry.start)
        self._leaves = carry.leaves.get(node.query, carry.end)
        self._taken: list[Frame] = []
        self._kept = _empty(node)
        self._left: Frame | None = None
        if carry.earlier is not None:
            self._kept = carry.earlier.of(node.query, lambda text: _read(node, text))

    def take(self, frame: Frame) -> int:
        """Takes rows of the slice; returns their number. Those before the interval are in the earlier state, those
        after it not complete yet."""
        lasts = frame[schemas.LAST].to_numpy(zero_copy_only=False)
        frame = frame.where(pa.array((lasts >= self._begin) & (lasts < self._carry.end)))
        if frame.rows:
            self._taken.append(frame)
        return frame.rows

    def advance(self, promise: int) -> Iterator[Frame]:
        """Yields the rows of the slice that a promise (ns) ends, with the columns of the functions.

        Raises:
            ValueOverflowError: a sum does not fit 64 bits (SEMANTICS O3).
        """
        taken, self._taken = self._taken, []
        frames = [concat_frames(taken)] if taken else []
        if self._left is None and promise >= self._leaves:
            frames = yield from self._until_left(frames)
        yield from map(self._given, frames)
        self._forget(min(promise, self._carry.end))

    def _until_left(self, frames: list[Frame]) -> Generator[Frame, None, list[Frame]]:
        """Yields the rows before the instant of the state for the interval after, and keeps it; returns the others."""
        later = []
        for frame in frames:
            lasts = frame[schemas.LAST].to_numpy(zero_copy_only=False)
            if (first := frame.where(pa.array(lasts < self._leaves))).rows:
                yield self._given(first)
            later.append(frame.where(pa.array(lasts >= self._leaves)))
        self._forget(self._leaves)
        self._left = self._kept
        return [frame for frame in later if frame.rows]

    def state(self) -> bytes:
        """The state for the interval after."""
        return _written(self._node, self._kept if self._left is None else self._left)

    @property
    def held(self) -> int:
        """The number of rows of all partitions that are kept."""
        return self._kept.rows

    def _given(self, frame: Frame) -> Frame:
        """The rows in canonical order, with the columns of the functions."""
        keys = [frame[schemas.LAST], *(frame[name] for name in order_of(frame) if name != schemas.LAST)]
        frame = frame.take(np.lexsort([*reversed([sortable(column) for column in keys])]))
        node, kept = self._node, self._kept
        names = [column.name for column in node.partition]
        partition = {name: pa.concat_arrays([kept[name], normal(frame[name])]) for name in names}
        rows = _Rows.of([*partition.values()], kept.rows, frame.rows)
        times = rows.sorted(kept[ORDER], frame[node.order.name].fill_null(0))
        rows.times = times.to_numpy(zero_copy_only=False)
        columns, state = {}, {name: column.take(pa.array(rows.order)) for name, column in partition.items()}
        state[ORDER] = times
        for function in node.functions:
            columns[function.name], parts = _FUNCTIONS[function.function](node, function, rows, kept, frame)
            state |= {_part(function, name): column for name, column in parts.items()}
        self._kept = Frame(state, len(rows.order)).take(rows.latest(node.depth))
        places = pa.array(rows.places)
        added = {name: column.take(places) for name, column in columns.items()}
        return Frame(frame.columns | added, frame.rows)

    def _forget(self, promise: int) -> None:
        """Drops what no later row can need: ended sessions, and partitions whose time has passed."""
        least = self._node.forgets(promise)
        if least is not None and self._kept.rows:
            self._kept = self._kept.where(pc.greater_equal(self._kept[ORDER], least))
        progress = ops.temporals(self._node.input.fields)
        timed = [column.name for column in self._node.partition if column.name in progress]
        if timed and self._kept.rows and promise < temporal.END_OF_TIME:
            fields = [field for field in self._node.input.fields if field.name in timed]
            ends = group_end(fields, [self._kept[each.name] for each in fields], self._kept.rows)
            self._kept = self._kept.where(pa.array(ends >= promise))


ORDER = "#order"
"""Column of what is kept with the value of ORDER BY; no field has the name."""


def _part(function: ops.RowFunction, name: str) -> str:
    """The column of what is kept of a function."""
    return f"#{function.name}.{name}"


@dataclass
class _Rows:
    """Kept rows and rows of a slice, sorted by partition. Places are those after sorting.

    Attributes:
        order: number of each row before sorting: the kept ones, then those of the slice.
        new: whether a row is of the slice.
        begins: place of the first row of the partition of each row.
        places: place of each row of the slice.
        times: value of ORDER BY of each row.
        segments: arguments of functions of TCP -> what they have found, for the next of them.
    """

    order: Numbers
    new: npt.NDArray[np.bool_]
    begins: Numbers
    places: Numbers
    times: Numbers = field(default_factory=lambda: np.zeros(0, np.int64))
    segments: dict[tuple[object, ...], tuple[npt.NDArray[Any], ...]] = field(default_factory=dict)

    @staticmethod
    def of(partition: Sequence[pa.Array], kept: int, rows: int) -> _Rows:
        numbers, _ = codes(partition, kept + rows)
        order = np.argsort(numbers, kind="stable")
        at = np.arange(kept + rows)
        begins = np.maximum.accumulate(np.where(changes([numbers[order]]), at, 0))
        places = np.empty(kept + rows, np.int64)
        places[order] = at
        return _Rows(order, order >= kept, begins, places[kept:])

    def sorted(self, kept: pa.Array, mine: pa.Array) -> pa.Array:
        """A column of the kept rows and of the rows of the slice, sorted."""
        return pa.concat_arrays([kept, mine]).take(pa.array(self.order))

    @property
    def ends(self) -> npt.NDArray[np.bool_]:
        """Marks the last row of each partition."""
        return np.append(self.begins[1:] != self.begins[:-1], True)

    def latest(self, depth: int) -> Numbers:
        """The places of the last rows of each partition."""
        at = np.arange(len(self.begins))
        lasts = at[self.ends]
        end = lasts[np.searchsorted(lasts, at)]
        return np.flatnonzero(end - at < depth)

    def up_to(self, numbers: Numbers) -> Numbers:
        """The sums of each row and those before it in its partition."""
        sums = np.cumsum(numbers)
        totals: Numbers = sums - (sums - numbers)[self.begins]
        return totals

    def with_peers(self, column: pa.Array, function: ops.RowFunction) -> pa.Array:
        """The value of the last peer of each row, for a function that takes them."""
        if not function.peers:
            return column
        ends = np.flatnonzero(np.append(changes([self.begins, self.times])[1:], True))
        return column.take(pa.array(ends[np.searchsorted(ends, np.arange(len(self.begins)))]))

    def kept_at_end(self, column: pa.Array, neutral: int | None) -> pa.Array:
        """What is kept of a total: the value in the last row of each partition."""
        return pc.if_else(pa.array(self.ends), column, pa.scalar(neutral, column.type))


Given = tuple[pa.Array, dict[str, pa.Array]]
"""Values of a function in sorted rows, and the columns of which the last rows are kept."""


def _lag(node: ops.Over, function: ops.RowFunction, rows: _Rows, kept: Frame, frame: Frame) -> Given:
    assert function.argument is not None
    values = rows.sorted(kept[_part(function, "value")], frame[function.argument.name])
    at = np.arange(len(rows.order)) - function.reach
    there = at >= rows.begins
    found = values.take(pa.array(at, mask=~there))
    if function.default is not None:
        missing = rows.sorted(pa.nulls(kept.rows, values.type), frame[function.default.name])
        found = pc.if_else(pa.array(there), found, missing)
    return found, {"value": values}


def _first_value(node: ops.Over, function: ops.RowFunction, rows: _Rows, kept: Frame, frame: Frame) -> Given:
    assert function.argument is not None
    values = rows.sorted(kept[_part(function, "value")], frame[function.argument.name])
    found = values.take(pa.array(rows.begins))
    return found, {"value": found}


def _session(node: ops.Over, function: ops.RowFunction, rows: _Rows, kept: Frame, frame: Frame) -> Given:
    mine = frame[node.order.name].fill_null(0)
    begun = rows.sorted(kept[_part(function, "begin")], mine).to_numpy(zero_copy_only=False)
    starts = (rows.begins == np.arange(len(begun))) | (np.diff(rows.times, prepend=0) > function.reach)
    found = pa.array(_begins(rows.times, rows.new, starts, begun, function.most))
    return found, {"begin": found}


@cached_njit()
def _begins(
    times: Numbers, new: npt.NDArray[np.bool_], starts: npt.NDArray[np.bool_], begun: Numbers, most: int
) -> Numbers:
    """The begins of sessions of sorted rows. `new`: other rows bring theirs, in `begun`. `most`: length at which one is
    cut; 0 for none."""
    found = begun.copy()
    for at in range(len(times)):
        if new[at] and not starts[at]:
            found[at] = times[at] if most and times[at] - found[at - 1] >= most else found[at - 1]
    return found


def _segments(node: ops.Over, function: ops.RowFunction, rows: _Rows, kept: Frame, frame: Frame) -> Given:
    assert function.argument is not None
    key = function.argument, function.more, function.reach
    columns = [frame[column.name] for column in (function.argument, *function.more)]
    if key not in rows.segments:
        whole = [rows.sorted(pa.nulls(kept.rows, column.type), column).cast(INT64) for column in columns]
        valid = np.logical_and.reduce([column.is_valid().to_numpy(zero_copy_only=False) for column in whole])
        forward, *others = (column.fill_null(0).to_numpy(zero_copy_only=False) for column in whole)
        earlier = kept[_part(function, "state")]
        there = pc.list_value_length(earlier).to_numpy(zero_copy_only=False) > 0
        places = np.where(there, np.cumsum(there) - 1, -2)
        before = np.where(rows.new, -1, np.append(places, -1)[np.minimum(rows.order, kept.rows)])
        saved = earlier.flatten().to_numpy(zero_copy_only=False).reshape(-1, tcp.STATE)
        rows.segments[key] = tcp.segments(
            before, saved, rows.begins, function.reach, rows.times, valid, forward != 0, np.column_stack(others)
        )  # fmt: skip
        rows.segments[key] += (valid,)
    bits, trips, began, states, valid = rows.segments[key]
    ends = pa.array(np.append(0, np.cumsum(rows.ends * tcp.STATE)), pa.int32())
    parts = {"state": pa.ListArray.from_arrays(ends, pa.array(states.ravel()))}
    if function.function == "tcp_round_trip":
        return pa.array(trips, mask=trips < 0), parts
    return pa.array(bits if function.function == "tcp_analysis" else began, mask=~valid), parts


def _count(node: ops.Over, function: ops.RowFunction, rows: _Rows, kept: Frame, frame: Frame) -> Given:
    counts = _counted(function, rows, kept, frame)
    return rows.with_peers(counts, function), {"count": rows.kept_at_end(counts, 0)}


def _counted(function: ops.RowFunction, rows: _Rows, kept: Frame, frame: Frame) -> pa.Array:
    """The number of rows with a value up to each row."""
    ones = pa.repeat(pa.scalar(1, INT64), frame.rows)
    mine = ones if function.argument is None else frame[function.argument.name].is_valid().cast(INT64)
    counts = rows.sorted(kept[_part(function, "count")], mine).to_numpy(zero_copy_only=False)
    return pa.array(rows.up_to(counts))


def _sum(node: ops.Over, function: ops.RowFunction, rows: _Rows, kept: Frame, frame: Frame) -> Given:
    assert function.argument is not None
    counts = _counted(function, rows, kept, frame)
    values = frame[function.argument.name]
    if values.type == pa.float64():
        totals, parts = _float_totals(function, rows, kept, values)
    else:
        totals, parts = _whole_totals(node, function, rows, kept, values)
    if function.function == "avg":
        totals = pc.divide(totals, pc.max_element_wise(counts, 1).cast(pa.float64()))
    none = pa.scalar(None, totals.type)
    found = rows.with_peers(pc.if_else(pc.equal(counts, 0), none, totals), function)
    return found, parts | {"count": rows.kept_at_end(counts, 0)}


def _whole_totals(node: ops.Over, function: ops.RowFunction, rows: _Rows, kept: Frame, values: pa.Array) -> Given:
    whole = values.fill_null(0).to_numpy(zero_copy_only=False)
    halves = {"upper": whole >> _HALF, "lower": whole & ((1 << _HALF) - 1)}
    sums = {
        name: rows.up_to(rows.sorted(kept[_part(function, name)], pa.array(half)).to_numpy(zero_copy_only=False))
        for name, half in halves.items()
    }
    upper, lower = sums["upper"] + (sums["lower"] >> _HALF), sums["lower"] & ((1 << _HALF) - 1)
    parts = {"upper": rows.kept_at_end(pa.array(upper), 0), "lower": rows.kept_at_end(pa.array(lower), 0)}
    if function.function == "avg":
        return pa.array(upper * 2.0**_HALF + lower), parts
    if ((upper >= 1 << (_HALF - 1)) | (upper < -(1 << (_HALF - 1))))[rows.new].any():
        raise overflow(node)
    return pa.array((upper << _HALF) | lower), parts


def _float_totals(function: ops.RowFunction, rows: _Rows, kept: Frame, values: pa.Array) -> Given:
    # One cumulative sum of all partitions would lose the digits of small ones behind large ones.
    numbers = rows.sorted(kept[_part(function, "total")], values.fill_null(0.0)).to_numpy(zero_copy_only=False)
    totals, ends = np.empty(len(numbers)), np.flatnonzero(rows.ends) + 1
    for first, end in zip(rows.begins[ends - 1], ends, strict=True):
        np.cumsum(numbers[first:end], out=totals[first:end])
    found = pa.array(totals)
    shown = pc.if_else(pc.is_nan(found), pa.scalar(None, pa.float64()), found)
    return shown, {"total": pc.if_else(pa.array(rows.ends), found, pa.scalar(0.0))}


def _best(node: ops.Over, function: ops.RowFunction, rows: _Rows, kept: Frame, frame: Frame) -> Given:
    """The least or the largest value: the running maximum of ranks, which begins anew with each partition."""
    assert function.argument is not None
    values = rows.sorted(kept[_part(function, "value")], normal(frame[function.argument.name]))
    places = ranks(values, descending=function.function == "min", nulls_first=True) + 1
    width = int(places.max(initial=0)) + 1
    best = np.maximum.accumulate(rows.begins * width + places) - rows.begins * width
    example = np.zeros(width, np.int64)
    example[places] = np.arange(len(places))
    found = values.take(pa.array(example[best], mask=best == 0))
    return rows.with_peers(found, function), {"value": rows.kept_at_end(found, None)}


_FUNCTIONS = {
    "lag": _lag,
    "first_value": _first_value,
    "session": _session,
    "tcp_analysis": _segments,
    "tcp_began": _segments,
    "tcp_round_trip": _segments,
    "row_number": _count,
    "count": _count,
    "sum": _sum,
    "avg": _sum,
    "min": _best,
    "max": _best,
}
"""Function -> what computes it in sorted rows."""


def _kept_types(node: ops.Over) -> dict[str, pa.DataType]:
    """The columns of what is kept."""
    types = {column.name: schemas.STREAM_TYPES[column.type] for column in node.partition} | {ORDER: INT64}
    for function in node.functions:
        argument = function.argument
        kind = INT64 if argument is None else schemas.STREAM_TYPES[argument.type]
        totals = ("total",) if kind == pa.float64() else ("upper", "lower")
        parts = {
            "lag": ("value",),
            "first_value": ("value",),
            "session": ("begin",),
            "tcp_analysis": ("state",),
            "tcp_began": ("state",),
            "tcp_round_trip": ("state",),
            "row_number": ("count",),
            "count": ("count",),
            "sum": (*totals, "count"),
            "avg": (*totals, "count"),
            "min": ("value",),
            "max": ("value",),
        }[function.function]
        whole = {"begin", "count", "upper", "lower"}
        of = dict.fromkeys(whole, INT64) | {"state": pa.list_(INT64)}
        types |= {_part(function, name): of.get(name, kind) for name in parts}
    return types


def _empty(node: ops.Over) -> Frame:
    return Frame({name: pa.array([], kind) for name, kind in _kept_types(node).items()}, 0)


def _written(node: ops.Over, kept: Frame) -> bytes:
    """What is kept as text, in an order that does not depend on that of the rows."""
    keys = [ranks(kept[column.name], nulls_first=True) for column in node.partition]
    if keys:
        kept = kept.take(np.lexsort([*reversed(keys)]))
    return state_json.write_state({name: kept[name].to_pylist() for name in _kept_types(node)}).encode()


def _read(node: ops.Over, text: bytes) -> Frame:
    saved = state_json.read_state(text)
    columns = {name: pa.array(saved[name], kind) for name, kind in _kept_types(node).items()}
    return Frame(columns, len(columns[ORDER]))


# What is kept, in shares of the partitions.


def divided(node: ops.Over, keys: Sequence[ex.Expr], shares: int, text: bytes) -> list[bytes]:
    """Divides what is kept. `keys`: expressions over the partition, by which rows are divided."""
    kept = _read(node, text)
    begins = [Bounds.of(share, shares).first for share in range(shares)]
    chosen = np.searchsorted(begins, digests(kept, keys), side="right") - 1
    return [_written(node, kept.where(pa.array(chosen == share))) for share in range(shares)]


def merged(node: ops.Over, texts: Sequence[bytes]) -> bytes:
    """Merges what shares keep."""
    return _written(node, concat_frames([_read(node, text) for text in texts]))
