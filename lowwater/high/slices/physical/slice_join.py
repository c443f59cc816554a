"""Windowed joins over the rows of a slice: pairs with equal keys, or with values within a band, block by block.

Both inputs are in memory; pairs are built and passed on one block at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lowwater.catalog.expr import Column, Expr, columns_of
from lowwater.catalog.streams import LAST, STREAM_TYPES
from lowwater.high.slices import row_blocks
from lowwater.high.slices.canonical_order import link_of
from lowwater.high.slices.instants import last, window_end
from lowwater.high.slices.keys import Numbers, codes
from lowwater.high.slices.row_blocks import repeated
from lowwater.high.slices.values import Frame
from lowwater.high.source.row_groups import PLACE
from lowwater.plan.operators import Field, FilterJoin, Join, WatchJoin
from lowwater.plan.temporal import INT64_MAX


@dataclass(frozen=True)
class _Ranges:
    """The right rows that match each left row: `order[begins:begins + counts]`."""

    order: Numbers
    begins: Numbers
    counts: Numbers

    def blocks(self) -> Iterator[tuple[Numbers, Numbers]]:
        """Yields positions of the left and right rows of pairs, a block at a time."""
        for left, times in repeated(self.counts):
            yield left, self.order[self.begins[left] + times]


def by_keys(left: Sequence[pa.Array], right: Sequence[pa.Array], rows: tuple[int, int]) -> _Ranges:
    """Finds the right rows with the keys of each left row; NULL equals NULL."""
    both = [pa.concat_arrays([a, b]) for a, b in zip(left, right, strict=True)]
    numbers, size = codes(both, sum(rows))
    ours, theirs = numbers[: rows[0]], numbers[rows[0] :]
    if size > 2 * (sum(rows) + 1):  # no table of all numbers, which may be few among many
        distinct, dense = np.unique(numbers, return_inverse=True)
        ours, theirs, size = dense[: rows[0]], dense[rows[0] :], len(distinct)
    counts = np.bincount(theirs, minlength=size)
    begins = np.cumsum(counts) - counts
    return _Ranges(np.argsort(theirs, kind="stable"), begins[ours], counts[ours])


def by_band(
    left: Sequence[pa.Array], right: Sequence[pa.Array], low: Numbers, high: Numbers, values: Numbers
) -> _Ranges:
    """Finds the right rows with the keys of each left row and a value within its bounds, both included.

    Args:
        left: key columns of the n left rows.
        right: key columns of the m right rows, in the order and of the types of `left`.
        low: smallest matching value of each left row; shape (n).
        high: largest matching value of each left row; shape (n).
        values: value of each right row; shape (m).
    """
    both = [pa.concat_arrays([a, b]) for a, b in zip(left, right, strict=True)]
    numbers, _ = codes(both, len(low) + len(values))
    _, dense = np.unique(numbers, return_inverse=True)
    ours, theirs = dense[: len(low)].astype(np.int64), dense[len(low) :].astype(np.int64)
    distinct = np.unique(values)
    width = len(distinct) + 1
    places = theirs * width + np.searchsorted(distinct, values)
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    begins = np.searchsorted(ordered, ours * width + np.searchsorted(distinct, low, side="left"), side="left")
    ends = np.searchsorted(ordered, ours * width + np.searchsorted(distinct, high, side="right"), side="left")
    return _Ranges(order, begins, np.maximum(ends - begins, 0))


def join_rows(node: Join, left: Frame, right: Frame) -> Iterator[tuple[Frame, str]]:
    """Yields pairs, then the unmatched rows of outer sides, in blocks (SEMANTICS P4, V1).

    Yields:
        Columns of both sides that the items read, with `_last`; and the unmatched side, empty for pairs.
    """
    ours, theirs = (
        with_alias(left, node.left.fields, node.left_alias),
        with_alias(right, node.right.fields, node.right_alias),
    )
    values = ours.of_expr(node.window.left), theirs.of_expr(node.window.right)
    met = np.zeros(ours.rows, np.bool_), np.zeros(theirs.rows, np.bool_)
    needed = columns_of(*(item.expr for item in node.items))
    residual_columns = columns_of(node.residual)
    lasts = [_numbers(frame[LAST]) for frame in (ours, theirs)]
    for a, b in _ranges(node, ours, theirs, values).blocks():
        if node.residual is not None:
            chosen = _pairs(ours, theirs, a, b, residual_columns).of_expr(node.residual).fill_null(False)
            selected = chosen.to_numpy(zero_copy_only=False)
            a, b = a[selected], b[selected]
        met[0][a], met[1][b] = True, True
        ends = np.maximum(lasts[0][a], lasts[1][b])
        yield _dated(_pairs(ours, theirs, a, b, needed), ends), ""
    window = [(node.window.left, node.window.right)] if node.window.equality else []
    ties = [*window, *node.equalities]
    sides = (
        (node.kind.keeps_left, "left", ours, theirs, [(b, a) for a, b in ties]),
        (node.kind.keeps_right, "right", theirs, ours, ties),
    )
    fields = {f"{alias}.{f.name}": f for alias, below in _inputs(node) for f in below}
    for at, (keeps, side, frame, other, pairs) in enumerate(sides):
        alone = np.flatnonzero(~met[at]) if keeps else np.zeros(0, np.int64)
        for begin in range(0, len(alone), row_blocks.BLOCK):
            rows = alone[begin : begin + row_blocks.BLOCK]
            present = frame.take(rows)
            columns = dict(present.columns) | _tied(pairs, present, other, needed, fields)
            ends = _ends(node, values[at], rows, at == 0, lasts[at][rows])
            yield _dated(Frame({name: columns[name] for name in needed}, len(rows)), ends), side


def has_keys(node: Join) -> bool:
    """Whether the join has an equality."""
    return node.window.equality or bool(node.equalities)


def join_keys(node: Join, frame: Frame, left: bool) -> list[pa.Array]:
    """The values of the equalities for the rows of one input."""
    at, (alias, fields) = (0, _inputs(node)[0]) if left else (1, _inputs(node)[1])
    pairs = [(node.window.left, node.window.right)] if node.window.equality else []
    inputs = with_alias(frame, fields, alias)
    return [inputs.of_expr(pair[at]) for pair in (*pairs, *node.equalities)]


def _inputs(node: Join) -> tuple[tuple[str, tuple[Field, ...]], tuple[str, tuple[Field, ...]]]:
    return (node.left_alias, node.left.fields), (node.right_alias, node.right.fields)


def _ranges(node: Join, left: Frame, right: Frame, values: tuple[pa.Array, pa.Array]) -> _Ranges:
    ours, theirs = ([frame.of_expr(pair[at]) for pair in node.equalities] for at, frame in enumerate((left, right)))
    window = node.window
    if window.equality:
        return by_keys([values[0], *ours], [values[1], *theirs], (left.rows, right.rows))
    value = _numbers(values[0])
    ranges = by_band(ours, theirs, _moved(value, -window.below), _moved(value, window.above), _numbers(values[1]))
    return ranges


def _moved(values: Numbers, by: int) -> Numbers:
    """Adds a constant to values, limited to 64 bits."""
    if by >= 0:
        return np.where(values > INT64_MAX - by, INT64_MAX, values + min(by, INT64_MAX))
    return np.where(values < -INT64_MAX - by, -INT64_MAX, values + max(by, -INT64_MAX))


def _ends(node: Join, values: pa.Array, rows: Numbers, left: bool, row_ends: Numbers) -> Numbers:
    chosen = values.take(pa.array(rows))
    has_value = chosen.is_valid().to_numpy(zero_copy_only=False)
    return np.where(has_value, window_end(node.window, _numbers(chosen), left), row_ends)


def _tied(
    pairs: Sequence[tuple[Expr, Expr]],
    present: Frame,
    missing: Frame,
    needed: Sequence[str],
    fields: Mapping[str, Field],
) -> dict[str, pa.Array]:
    """The columns of the missing side: an equality fills in the value of the present side (V1), the rest is NULL."""
    tied: dict[str, Expr] = {}
    for missing_expr, other in pairs:
        if isinstance(missing_expr, Column):
            tied.setdefault(missing_expr.name, other)
    columns = {}
    for name in needed:
        if name in missing.columns:
            kind = STREAM_TYPES[fields[name].type]
            columns[name] = present.of_expr(tied[name]) if name in tied else pa.nulls(present.rows, kind)
    return columns


def _pairs(left: Frame, right: Frame, a: Numbers, b: Numbers, names: Sequence[str]) -> Frame:
    ours, theirs = pa.array(a), pa.array(b)
    columns = {name: left[name].take(ours) if name in left.columns else right[name].take(theirs) for name in names}
    return Frame(columns, len(a))


def _dated(frame: Frame, ends: Numbers) -> Frame:
    return Frame(frame.columns | {LAST: pa.array(ends)}, frame.rows)


def _numbers(column: pa.Array) -> Numbers:
    numbers: Numbers = column.fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


def with_alias(frame: Frame, fields: Sequence[Field], alias: str) -> Frame:
    """Prefixes the fields of rows with an alias; other columns keep their names."""
    field_names = {f.name for f in fields}
    columns = {(f"{alias}.{name}" if name in field_names else name): column for name, column in frame.columns.items()}
    return Frame(columns, frame.rows)


def filter_join_rows(node: FilterJoin, left: Frame, right: Frame) -> Frame:
    """The left rows that pass, with their `_last` (SEMANTICS O6); both inputs have the column PLACE."""
    ours, theirs = (
        with_alias(left, node.left.fields, node.left_alias),
        with_alias(right, node.right.fields, node.right_alias),
    )
    keys = [
        [link_of(frame[PLACE]), *(frame.of_expr(pair[at]) for pair in node.keys)]
        for at, frame in enumerate((ours, theirs))
    ]
    values = _numbers(ours.of_expr(node.left_time))
    right_values = _numbers(theirs.of_expr(node.right_time))
    ranges = by_band(keys[0], keys[1], _moved(values, -node.range), values, right_values)
    time = node.time
    ends = last(time, values if time.increasing else _moved(values, -node.range))
    return _dated(ours, ends).where(pa.array(ranges.counts > 0))


def watchlist_rows(node: WatchJoin, frame: Frame, listed: Frame) -> Iterator[Frame]:
    """Joins rows with the rows of a watch list that have their keys and fulfil the residual condition."""
    ours = with_alias(frame, node.input.fields, node.alias)
    keys = [ours.of_expr(expr) for expr, _ in node.keys], [listed[name] for _, name in node.keys]
    for a, b in by_keys(*keys, (ours.rows, listed.rows)).blocks():
        pairs = Frame(ours.take(a).columns | listed.take(b).columns, len(a))
        yield pairs.filtered(node.residual)
