"""The operators of a slice over Arrow columns: groups, joins, and those whose state outlives a slice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lowwater import errors, limits
from lowwater.catalog import expr as ex, functions, schemas, state_json
from lowwater.columns.files import LINK_BITS, PLACE
from lowwater.columns.values import (
    Frame,
    Numbers,
    changes,
    codes,
    concat_frames,
    divided,
    group_end,
    last,
    moved,
    normal,
    ranks,
    repeated,
    sortable,
    window_end,
)
from lowwater.high import nearest
from lowwater.plan import operators as ops
from lowwater.plan.shares import ROWS, SubGroup, SuperGroup, partial_columns
from lowwater.plan.temporal import END_OF_TIME
from lowwater.stream.aggregates import Accumulator, Aggregates, overflow
from lowwater.stream.groups import RunningOperator, SamplingOperator
from lowwater.stream.operators import Life, Promise, Row, StreamOperator, order_key
from lowwater.stream.values import Value, Values

# The canonical order (SEMANTICS O1). Packets are ordered by (timestamp, PLACE). PLACE is the number of the link and
# the number of the row in the LFTA's stream of that link, which is in order of capture and position. Numbers of
# different LFTAs cannot be compared, so branches that read one link use the numbers of its records
# (`plan.rules`). Rows of queries are ordered by (temporal value, columns).

ORDER = "#"
"""Prefix of the columns that define the order of rows; no field has it."""
_OWN = (1 << LINK_BITS) - 1


def of_packets(node: ops.Node, query: str) -> bool:
    """Whether rows of an operator are packets in canonical order to a reader in this query."""
    if node.query != query:
        return False
    if node.facts.passes:
        return all(of_packets(below, query) for below in node.inputs())
    return isinstance(node, ops.LftaInput) and not node.lfta.aggregates


def links_of(node: ops.Node) -> list[str]:
    """The links that a query reads, sorted; PLACE contains their index."""
    return sorted({link for lfta in ops.lftas_of(node) for link in lfta.links})


def link_of(place: pa.Array) -> pa.Array:
    """The numbers of the links of packets."""
    return pc.shift_right(place, LINK_BITS)


def of_branch(place: pa.Array, number: int, branches: int) -> pa.Array:
    """The PLACE of packets of one branch of a union; a packet in several branches is ordered by the number of the
    branch."""
    link = pc.shift_left(link_of(place), LINK_BITS)
    return pc.add(link, pc.add(pc.multiply(pc.bit_wise_and(place, _OWN), branches), number))


def ordered_inputs(node: ops.Node) -> set[tuple[int, int]]:
    """The inputs, as (identity of the reader, number), where rows that an order-dependent operator reads stop being
    packets of another query: they are ordered by their columns from there on."""
    inputs = set()
    for operator in ops.walk(node):
        if operator.order_dependent:
            for number in chosen_from(operator):
                at, reader, below = number, operator, operator.inputs()[number]
                while below.query == operator.query and below.facts.passes and not isinstance(below, ops.Union):
                    reader, below, at = below, below.inputs()[0], 0
                if not of_packets(below, operator.query):
                    inputs.add((id(reader), at))
    return inputs


def chosen_from(node: ops.Node) -> range:
    """The numbers of the inputs of whose rows one is chosen by their order: of a join the right one, or both."""
    inputs = len(node.inputs())
    return range(0 if isinstance(node, ops.Join) and node.kind.mutual else inputs - 1, inputs)


def with_order(node: ops.Node, frame: Frame) -> Frame:
    """Adds columns that define the order of rows, independent of later changes of their fields."""
    columns = {name: column for name, column in frame.columns.items() if not name.startswith(ORDER)}
    temporal = [f.name for f in node.fields if f.temporal][:1]
    names = (*temporal, *(f.name for f in node.fields))
    return Frame(columns | {f"{ORDER}{at}": frame[name] for at, name in enumerate(names)}, frame.rows)


def order_of(frame: Frame) -> list[str]:
    """The columns that define the order of rows for an order-dependent reader."""
    return [name for name in frame.columns if name.startswith(ORDER)] or [schemas.LAST, PLACE]


def orders(frame: Frame) -> Iterator[tuple[Any, ...]]:
    """Yields sort keys of rows that compare in canonical order."""
    names = order_of(frame)
    rows = zip(*(frame[name].to_pylist() for name in names), strict=True)
    # Instants and places are never NULL.
    return rows if PLACE in names else (tuple([order_key(value) for value in row]) for row in rows)


def tuples(node: ops.Node, frame: Frame) -> Iterator[Values]:
    """Yields the fields of each row as a tuple of Python values."""
    columns = [frame[f.name].to_pylist() for f in node.fields]
    return zip(*columns, strict=True) if columns else iter([()] * frame.rows)


# State goes from one interval to the next (SEMANTICS I4) as a text of each operator that has one.


def state_file(query: str) -> str:
    """The name under which a lake keeps the state of a query's operator."""
    return f"{sha256(query.encode()).hexdigest()[:32]}.state"


@dataclass(frozen=True)
class StoredState:
    """What the operators of a query have left: `state_file` -> content, from a folder of a lake."""

    files: Mapping[str, bytes]
    folder: str = ""

    def of(self, query: str, read: Callable[[bytes], Any] = state_json.read_state) -> Any:
        """Returns the state of a query's operator, with `json.loads` its JSON. If it cannot be read, the hint of the
        error says how to make it again."""
        try:
            return read(self.files.get(state_file(query), b""))
        except (ValueError, errors.LowwaterError) as error:
            cause = error.message if isinstance(error, errors.LowwaterError) else str(error)
            raise errors.LowwaterError(
                f"{self.folder}/{state_file(query)}: {cause}",
                f"remove the folder {self.folder}, and `lowwater backfill` makes it again",
            ) from error


@dataclass(frozen=True)
class StateHandover:
    """The place of one interval [start, end), ns, in the chain of a query.

    Attributes:
        latest: largest timestamp of the links, ns, if nothing is known after it, so that idle time ends there; None
            where coverage reaches the end.
        late: largest time from a timestamp to its arrival, ns, for a query evaluated by arrival; otherwise 0.
        earlier: what the interval before has left; None for the first interval of a chain.
        left: whether the interval after takes up what this one leaves.
        begun, leaves: query of an OVER -> the instant (ns) of its state before, and of the one that it leaves, where
            these are not the start and the end: its readers need earlier rows again (`properties.states_of`).
        disorder: link -> (skew in ns, origin -> allowed disorder of that attribute in its unit), for links of records
            with attributes that are no functions of the clock.
    """

    start: int = 0
    end: int = END_OF_TIME
    latest: int | None = None
    late: int = 0
    earlier: StoredState | None = None
    left: bool = False
    begun: Mapping[str, int] = field(default_factory=dict)
    leaves: Mapping[str, int] = field(default_factory=dict)
    disorder: Mapping[str, tuple[int, Mapping[str, int]]] = field(default_factory=dict)


# Groups by epochs, block by block. `catalog.functions.Native` states the partial aggregates of an aggregate and their
# folds.

Partials = Sequence[tuple[ops.Aggregate, functions.Columns]]
"""Each aggregate of an operator, with its form in Arrow."""


def grouped(
    node: ops.Group, blocks: Iterable[Frame], slice_: tuple[int, int], folder: Path, most: int = 0
) -> Iterator[Frame]:
    """Groups rows of a slice, in the second of two phases those of the first; yields keys, aggregates, `_last` and the
    numbers of their rows.

    Args:
        slice_: groups with `_last` in [first, second), ns, are complete.
        folder, most: as of `evaluate.Evaluation`.

    Raises:
        ValueOverflowError: the sum of a complete group exceeds 64 bits (SEMANTICS O3).
    """
    names, aggregates, folds = _form(node)
    latest: list[Frame] = []

    def parts() -> Iterator[Frame]:
        for frame in blocks:
            partials = frame if isinstance(node, SuperGroup) else _partials(node, frame, aggregates)
            latest[:] = [_merged(partials, names, folds)]
            yield latest[0]

    for (part,) in divided(folder, [parts()], lambda frame, _: [frame[name] for name in names], most):
        merged = part is latest[0]  # a single part holds every key once
        yield _finished(node, aggregates, part if merged else _merged(part, names, folds), slice_)


def sub_grouped(node: SubGroup, blocks: Iterable[Frame]) -> Iterator[Frame]:
    """Yields the rows of the first of two phases: keys, partial aggregates and `_last`, one row a group and block."""
    names, aggregates, folds = _form(node)
    waiting: list[Frame] = []
    for frame in blocks:
        waiting.append(_merged(_partials(node, frame, aggregates), names, folds))
        if sum(each.rows for each in waiting) > limits.ROW_BLOCK_ROWS:
            waiting = [_merged(concat_frames(waiting), names, folds)]
            if waiting[0].rows > limits.ROW_BLOCK_ROWS // 2:  # the groups are too many to be held
                yield _ending(node, waiting.pop())
    if waiting:
        yield _ending(node, _merged(concat_frames(waiting), names, folds))


def _form(node: ops.Group) -> tuple[list[str], Partials, dict[str, functions.Fold]]:
    """Names of the keys, the aggregates, and name of a column of partial aggregates -> what merges its values."""
    aggregates, folds = [(each, partial_columns(each)) for each in node.aggregates], {ROWS.suffix: ROWS.fold}
    for aggregate, form in aggregates:
        folds |= {aggregate.name + column.suffix: column.fold for column in form.partials}
    return [item.name for item in node.keys], aggregates, folds


def _ending(node: ops.Group, groups: Frame) -> Frame:
    """Adds `_last` to groups."""
    ends = group_end(node.key_fields, [groups[item.name] for item in node.keys], groups.rows)
    return Frame(groups.columns | {schemas.LAST: pa.array(ends)}, groups.rows)


def _finished(node: ops.Group, aggregates: Partials, groups: Frame, slice_: tuple[int, int]) -> Frame:
    """Adds `_last` and the values. Only that of an incomplete group may exceed 64 bits."""
    groups = _ending(node, groups)
    ends = groups[schemas.LAST].to_numpy()
    inside = (ends >= slice_[0]) & (ends < slice_[1])
    columns = {name: groups[name] for name in (*(item.name for item in node.keys), schemas.LAST, ROWS.suffix)}
    for aggregate, form in aggregates:
        partials = [groups[aggregate.name + column.suffix] for column in form.partials]
        if form.beyond is not None and (form.beyond(*partials).to_numpy(zero_copy_only=False) & inside).any():
            raise overflow(node.query, aggregate, node.items)
        columns[aggregate.name] = form.value(*partials)
    return Frame(columns, groups.rows)


def _partials(node: ops.Group, frame: Frame, aggregates: Partials) -> Frame:
    """Returns one row per input row: its keys and its partial aggregates."""
    columns = {item.name: normal(frame.of_expr(item.expr)) for item in node.keys}
    ones = columns[ROWS.suffix] = pa.repeat(pa.scalar(1, pa.int64()), frame.rows)
    for aggregate, form in aggregates:
        values = None if aggregate.argument is None else frame.of_expr(aggregate.argument)
        for column in form.partials:
            columns[aggregate.name + column.suffix] = ones if column.of is None else column.of(values)
    return Frame(columns, frame.rows)


def _merged(frame: Frame, names: Sequence[str], folds: Mapping[str, functions.Fold]) -> Frame:
    """Merges the partial aggregates of every key. Returns one row per key."""
    if not all(isinstance(fold.arrow, str) for fold in folds.values()):
        return _by_sorting(frame, names, folds)
    # Positions serve as names: a column of the query may have the name that Arrow gives a result, such as `a_sum`.
    inputs = [frame[name] for name in (*names, *folds)]
    table = pa.table(inputs, names=[str(at) for at in range(len(inputs))])
    keys = [str(at) for at in range(len(names))]
    aggregations = [(str(len(names) + at), fold.arrow) for at, fold in enumerate(folds.values())]
    merged = Frame.of(table.group_by(keys, use_threads=False).aggregate(aggregations))
    columns = {name: merged[key] for name, key in zip(names, keys, strict=True)}
    columns |= {name: merged[f"{at}_{merge}"] for name, (at, merge) in zip(folds, aggregations, strict=True)}
    return Frame(columns, merged.rows)


def _by_sorting(frame: Frame, names: Sequence[str], folds: Mapping[str, functions.Fold]) -> Frame:
    """Merges as `_merged` does, but sorts the rows by key, for folds without an aggregate in Arrow."""
    numbers, _ = codes([frame[name] for name in names], frame.rows)
    order = np.argsort(numbers, kind="stable")
    begins = np.flatnonzero(np.diff(numbers[order], prepend=-1))
    first = frame.take(order[begins])
    columns = {name: first[name] for name in names}
    owner = pa.array(np.repeat(np.arange(len(begins)), np.diff([*begins, frame.rows])))
    for name, fold in folds.items():
        values = frame[name].take(pa.array(order))
        if isinstance(fold.arrow, str):
            table = pa.table({"key": owner, "value": values}).group_by("key", use_threads=False)
            merged = Frame.of(table.aggregate([("value", fold.arrow)]).sort_by("key"))
            columns[name] = merged[f"value_{fold.arrow}"]
        else:
            columns[name] = _reduced(values, begins, fold.arrow, fold.neutral)
    return Frame(columns, len(begins))


def _reduced(values: pa.Array, begins: npt.NDArray[np.int64], fold: np.ufunc, neutral: int | None) -> pa.Array:
    present = values.is_valid().to_numpy(zero_copy_only=False)
    if not len(present):
        return values
    folded = fold.reduceat(values.fill_null(neutral).to_numpy(zero_copy_only=False), begins)
    return pa.array(folded, mask=~np.logical_or.reduceat(present, begins))


def grouped_in_python(
    node: ops.Group, blocks: Iterable[Frame], slice_: tuple[int, int], folder: Path, most: int = 0
) -> Iterator[Frame]:
    """Groups as `grouped` does, row by row, with aggregates that Arrow does not have.

    Rows of a group before the slice may be missing. If its aggregates fail, no error is raised: the slice that owns the
    group raises it.

    Raises:
        ValueOverflowError: the sum of a complete group does not fit 64 bits (SEMANTICS O3).
        LowwaterError: the Python of a user fails.
    """
    aggregates = Aggregates(node.query, node.aggregates, [f.name for f in node.input.fields], node.items)
    names = [item.name for item in node.keys]
    rows = (_columns(node, frame) for frame in blocks)
    for (frame,) in divided(folder, [rows], lambda frame, _: [frame[name] for name in names], most):
        keys = [frame[name] for name in names]
        numbers, _ = codes(keys, frame.rows)
        _, first, places, sizes = np.unique(numbers, return_index=True, return_inverse=True, return_counts=True)
        found = _ending(node, Frame({name: frame[name] for name in names}, frame.rows).take(first))
        groups = [aggregates.fresh() for _ in range(found.rows)]
        argument_rows = [_arguments(aggregate, frame) for aggregate in node.aggregates]
        ranks = orders(frame) if node.order_dependent else repeat((), frame.rows)
        for place, order, *arguments in zip(places.tolist(), ranks, *argument_rows, strict=True):
            aggregates.add(groups[place], arguments, order)
        whole = [slice_[0] <= end < slice_[1] for end in found[schemas.LAST].to_pylist()]
        values = [_results(aggregates, group, is_whole) for group, is_whole in zip(groups, whole, strict=True)]
        columns = found.columns | {ROWS.suffix: pa.array(sizes)}
        for at, aggregate in enumerate(node.aggregates):
            columns[aggregate.name] = pa.array([value[at] for value in values], schemas.STREAM_TYPES[aggregate.type])
        yield Frame(columns, found.rows)


def _columns(node: ops.Group, frame: Frame) -> Frame:
    """The columns of keys and arguments, and of the order of rows if an aggregate depends on it."""
    columns = {item.name: normal(frame.of_expr(item.expr)) for item in node.keys}
    for aggregate in node.aggregates:
        for at, expr in enumerate(aggregate.taken):
            columns[f"{aggregate.name}#{at}"] = frame.of_expr(expr)
    if node.order_dependent:
        columns |= {name: frame[name] for name in order_of(frame)}
    return Frame(columns, frame.rows)


def _arguments(aggregate: ops.Aggregate, frame: Frame) -> Iterable[tuple[Value, ...]]:
    argument_columns = [frame[f"{aggregate.name}#{at}"].to_pylist() for at in range(len(aggregate.taken))]
    return zip(*argument_columns, strict=True) if argument_columns else repeat((), frame.rows)


def _results(aggregates: Aggregates, group: Sequence[Accumulator], is_whole: bool) -> Sequence[Value]:
    if is_whole:
        return list(aggregates.results(group))
    with suppress(errors.LowwaterError):
        return list(aggregates.results(group))
    return [None] * len(group)


# The first rows of each epoch.


def top_rows(node: ops.Top, blocks: Iterable[Frame], folder: Path, most: int = 0) -> Iterator[Frame]:
    """Yields the first rows of each of its keys, with `_last`. Each block leaves its first ones only, so what waits
    grows with the keys and not with the rows; `folder` and `most` as of `grouped`."""
    columns = [*ex.columns_of(*node.exprs())]

    def parts() -> Iterator[Frame]:
        waiting: list[Frame] = []
        for frame in blocks:
            ordered = [name for name in order_of(frame) if name not in columns] if node.order_dependent else []
            waiting.append(_first(node, Frame({name: frame[name] for name in (*columns, *ordered)}, frame.rows)))
            if sum(each.rows for each in waiting) > limits.ROW_BLOCK_ROWS:
                waiting = [_first(node, concat_frames(waiting))]
                if waiting[0].rows > limits.ROW_BLOCK_ROWS // 2:  # the keys are too many to be held
                    yield waiting.pop()
        if waiting:
            yield _first(node, concat_frames(waiting))

    for (part,) in divided(folder, [parts()], lambda frame, _: _keys(node, frame), most):
        found = _first(node, part)
        yield Frame(found.columns | {schemas.LAST: pa.array(top_ends(node, found))}, found.rows)


def top_ends(node: ops.Top, frame: Frame) -> Numbers:
    """The ends of the epochs of rows (ns)."""
    return group_end(node.key_fields, _keys(node, frame), frame.rows)


def _keys(node: ops.Top, frame: Frame) -> list[pa.Array]:
    return [frame.of_expr(item.expr) for item in node.keys]


def _first(node: ops.Top, frame: Frame) -> Frame:
    """The first rows of each of the keys among some."""
    parts, _ = codes(_keys(node, frame), frame.rows)
    order = [ranks(frame.of_expr(part.expr), part.descending, part.nulls_first) for part in node.order]
    places, of_ties = _places(parts, order)
    chosen = np.flatnonzero(of_ties < node.count)
    if not node.ties and (places[chosen] >= node.count).any():
        # Rows are tied at the border, so the canonical order of those that may stay decides (O1).
        canonical = [sortable(frame[name].take(pa.array(chosen))) for name in order_of(frame)]
        among, _ = _places(parts[chosen], [*(rank[chosen] for rank in order), *canonical])
        chosen = chosen[among < node.count]
    return frame.take(chosen)


def _places(parts: Numbers, ranks: Sequence[Numbers]) -> tuple[Numbers, Numbers]:
    """The place of each row within its part, from 0, and that of the first row which equals it in all ranks."""
    rows = len(parts)
    order = np.lexsort((*reversed(ranks), parts))
    begins = changes([parts[order]])
    tied = begins | changes([rank[order] for rank in ranks])
    numbers = np.arange(rows)
    place = numbers - np.maximum.accumulate(np.where(begins, numbers, 0))
    first = place[np.maximum.accumulate(np.where(tied, numbers, 0))]
    places, firsts = np.empty(rows, np.int64), np.empty(rows, np.int64)
    places[order], firsts[order] = place, first
    return places, firsts


# Pairs with equal keys, or with values within a band. Both inputs are in memory; pairs are built and passed on one
# block at a time.


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
    """Finds the right rows with the keys of each left row and a value from `low` to `high` of that row."""
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


def join_rows(node: ops.Join, left: Frame, right: Frame) -> Iterator[tuple[Frame, str]]:
    """Yields blocks of pairs, then of rows of one side (SEMANTICS P4, V1, O8, O9): columns of both sides that the items
    read, with `_last`; and the side, if its rows met nothing, else empty."""
    ours, theirs = _aliased(node, left, right)
    values = ours.of_expr(node.window.left), theirs.of_expr(node.window.right)
    met = np.zeros(ours.rows, np.bool_), np.zeros(theirs.rows, np.bool_)
    needed = ex.columns_of(*(item.expr for item in node.items))
    lasts = [_numbers(frame[schemas.LAST]) for frame in (ours, theirs)]

    def ended(at: int, rows: Numbers) -> Numbers:
        """The ends of the match windows of rows of a side."""
        value = values[at].take(pa.array(rows))
        ends = window_end(node.window, _numbers(value), at == 0)
        return np.where(value.is_valid().to_numpy(zero_copy_only=False), ends, lasts[at][rows])

    for a, b in _nearest(node, ours, theirs, values) if node.kind.nearest else _meeting(node, ours, theirs, values):
        met[0][a], met[1][b] = True, True
        if node.kind.pairs:
            ends = ended(0, a) if node.kind.nearest else np.maximum(lasts[0][a], lasts[1][b])
            yield _dated(_pairs(ours, theirs, a, b, needed), ends), ""
    semi = node.kind is ops.JoinKind.SEMI
    sides = (met[0] if semi else ~met[0], ours, theirs), (~met[1], theirs, ours)
    kept = node.kind.keeps_left or semi, node.kind.keeps_right
    kinds = {f"{alias}.{f.name}": schemas.STREAM_TYPES[f.type] for alias, below in _inputs(node) for f in below.fields}
    for at, (alone, frame, other) in enumerate(sides):
        missing = {name: kinds[name] for name in needed if name in other.columns}
        for rows in _in_runs(np.flatnonzero(alone) if kept[at] else np.zeros(0, np.int64)):
            present = frame.take(rows)
            columns = present.columns | {name: pa.nulls(len(rows), kind) for name, kind in missing.items()}
            found = _dated(Frame({name: columns[name] for name in needed}, len(rows)), ended(at, rows))
            yield found, "" if semi else ("left", "right")[at]


def _in_runs(rows: Numbers) -> Iterator[Numbers]:
    return (rows[begin : begin + limits.ROW_BLOCK_ROWS] for begin in range(0, len(rows), limits.ROW_BLOCK_ROWS))


def _meeting(
    node: ops.Join, ours: Frame, theirs: Frame, values: tuple[pa.Array, pa.Array]
) -> Iterator[tuple[Numbers, Numbers]]:
    """Yields positions of the left and right rows that meet; without pairs in the result maybe the left ones only."""
    ranges = _ranges(node, ours, theirs, values)
    if not node.kind.pairs and node.residual is None:
        yield np.flatnonzero(ranges.counts), np.zeros(0, np.int64)
        return
    columns = ex.columns_of(node.residual)
    for a, b in ranges.blocks():
        if node.residual is not None:
            chosen = _pairs(ours, theirs, a, b, columns).of_expr(node.residual).fill_null(False)
            selected = chosen.to_numpy(zero_copy_only=False)
            a, b = a[selected], b[selected]
        yield a, b


def _nearest(
    node: ops.Join, ours: Frame, theirs: Frame, values: tuple[pa.Array, pa.Array]
) -> Iterator[tuple[Numbers, Numbers]]:
    """Yields positions of left rows and of the nearest right row that meets each; of a mutual join only where the left
    row is the nearest one of that right row, too (SEMANTICS O9)."""
    frames, numbers = (ours, theirs), (_numbers(values[0]), _numbers(values[1]))
    if node.residual is None:
        both = (_joined_columns(node, ours, 0), _joined_columns(node, theirs, 1))
        keys, size = codes([pa.concat_arrays(pair) for pair in zip(*both, strict=True)], ours.rows + theirs.rows)
        if size > 2 * len(keys):  # few numbers among many
            dense = pa.array(keys).dictionary_encode()
            keys, size = dense.indices.to_numpy().astype(np.int64), len(dense.dictionary)
        of_sides = keys[: ours.rows], keys[ours.rows :]

    def nearest_of(join: ops.Join, at: int) -> Numbers:
        """The positions of the nearest rows of the other side, for each row of a side; -1 for none."""
        own, order = (numbers[at], numbers[1 - at]), partial(_canonical, frames[1 - at])
        if node.residual is None:
            return nearest.by_keys(join, (of_sides[at], of_sides[1 - at]), size, own, order)
        met = _meeting(node, ours, theirs, values)
        return nearest.of_pairs(join, met if at == 0 else ((b, a) for a, b in met), own, order)

    nearest_rows = nearest_of(node, 0)
    found = np.flatnonzero(nearest_rows >= 0)
    if node.kind.mutual:
        found = found[nearest_of(node.exchanged(), 1)[nearest_rows[found]] == found]
    return ((rows, nearest_rows[rows]) for rows in _in_runs(found))


def _canonical(frame: Frame, rows: Numbers) -> list[Numbers]:
    """The columns by which some rows compare in canonical order (SEMANTICS O1)."""
    return [sortable(frame[name].take(pa.array(rows))) for name in order_of(frame)]


def ties(node: ops.Join | ops.FilterJoin) -> list[tuple[ex.Expr, ex.Expr]]:
    """The equalities of a join, with that of its window."""
    return [*(node.keys if isinstance(node, ops.FilterJoin) else node.ties)]


def join_keys(node: ops.Join | ops.FilterJoin, frame: Frame, at: int) -> list[pa.Array]:
    """The values of the equalities for the rows of the left (0) or the right (1) input."""
    alias, below = _inputs(node)[at]
    inputs = with_alias(frame, below.fields, alias)
    return [inputs.of_expr(pair[at]) for pair in ties(node)]


def _inputs(node: ops.Join | ops.FilterJoin) -> tuple[tuple[str, ops.Node], tuple[str, ops.Node]]:
    return (node.left_alias, node.left), (node.right_alias, node.right)


def _aliased(node: ops.Join | ops.FilterJoin, *sides: Frame) -> list[Frame]:
    frames = zip(sides, _inputs(node), strict=True)
    return [with_alias(frame, below.fields, alias) for frame, (alias, below) in frames]


def _joined_columns(node: ops.Join, aliased: Frame, at: int) -> list[pa.Array]:
    return [aliased.of_expr(pair[at]) for pair in node.ties]


def _ranges(node: ops.Join, left: Frame, right: Frame, values: tuple[pa.Array, pa.Array]) -> _Ranges:
    ours, theirs = (_joined_columns(node, frame, at) for at, frame in enumerate((left, right)))
    window = node.window
    if window.equality:
        return by_keys(ours, theirs, (left.rows, right.rows))
    value = _numbers(values[0])
    return by_band(ours, theirs, moved(value, -window.below), moved(value, window.above), _numbers(values[1]))


def _pairs(left: Frame, right: Frame, a: Numbers, b: Numbers, names: Sequence[str]) -> Frame:
    ours, theirs = pa.array(a), pa.array(b)
    columns = {name: left[name].take(ours) if name in left.columns else right[name].take(theirs) for name in names}
    return Frame(columns, len(a))


def _dated(frame: Frame, ends: Numbers) -> Frame:
    return Frame(frame.columns | {schemas.LAST: pa.array(ends)}, frame.rows)


def _numbers(column: pa.Array) -> Numbers:
    numbers: Numbers = (column.fill_null(0) if column.null_count else column).to_numpy(zero_copy_only=False)
    return numbers


def with_alias(frame: Frame, fields: Sequence[ops.Field], alias: str) -> Frame:
    """Prefixes the fields of rows with an alias; other columns keep their names."""
    field_names = {f.name for f in fields}
    columns = {(f"{alias}.{name}" if name in field_names else name): column for name, column in frame.columns.items()}
    return Frame(columns, frame.rows)


def filter_join_rows(node: ops.FilterJoin, left: Frame, right: Frame) -> Frame:
    """The left rows that pass, with their `_last` (SEMANTICS O6); both inputs have the column PLACE."""
    ours, theirs = _aliased(node, left, right)
    keys = [
        [link_of(frame[PLACE]), *(frame.of_expr(pair[at]) for pair in node.keys)]
        for at, frame in enumerate((ours, theirs))
    ]
    values = _numbers(ours.of_expr(node.left_time))
    right_values = _numbers(theirs.of_expr(node.right_time))
    ranges = by_band(keys[0], keys[1], moved(values, -node.range), values, right_values)
    time = node.time
    ends = last(time, values if time.increasing else moved(values, -node.range))
    return _dated(ours, ends).where(pa.array(ranges.counts > 0))


def watchlist_rows(node: ops.WatchJoin, frame: Frame, listed: Frame) -> Iterator[Frame]:
    """Joins rows with the rows of a watch list that have their keys and fulfil the residual condition."""
    ours = with_alias(frame, node.input.fields, node.alias)
    keys = [ours.of_expr(expr) for expr, _ in node.keys], [listed[name] for _, name in node.keys]
    for a, b in by_keys(*keys, (ours.rows, listed.rows)).blocks():
        pairs = Frame(ours.take(a).columns | listed.take(b).columns, len(a))
        yield pairs.filtered(node.residual)


# Operators of `stream/` whose state outlives a slice: CLOSING_WHEN and the sampling operator (004; SEMANTICS O1, O4).


class ChainedOperator:
    """One operator over the slices of an interval. The input of a Running has already applied its predicate."""

    def __init__(self, node: ops.Running | ops.Sampling, carry: StateHandover) -> None:
        self._node, self._carry, self._given = node, carry, RowCollector()
        self.operator = operator_of(node, carry)
        self.operator.connect(self._given, 0)
        if carry.earlier is not None:
            self.operator.restore(carry.earlier.of(node.query))

    def take(self, frame: Frame) -> int:
        """Stores rows of the interval until their epoch has ended; returns their number. Those before it are in the
        earlier state, those after it not complete yet."""
        lasts = frame[schemas.LAST].to_numpy(zero_copy_only=False)
        frame = frame.where(pa.array((lasts >= self._carry.start) & (lasts < self._carry.end)))
        rows = zip(tuples(self._node.input, frame), frame[schemas.LAST].to_pylist(), orders(frame), strict=True)
        for values, latest, order in rows:
            self.operator.receive(0, Row(values, latest, order))
        return frame.rows

    def advance(self, promise: int) -> tuple[Frame, Counter[str]]:
        """Returns the rows of epochs that a promise (ns) ends, with counts.

        Raises:
            ValueOverflowError: the sum of a group does not fit 64 bits (SEMANTICS O3).
            LowwaterError: groups stay open over too many epochs without rows, or the Python of a user fails.
        """
        self.operator.receive(0, Promise(min(promise, self._carry.end)))
        rows, counts = self._given.rows, Counter(self.operator.counts)
        self._given.rows = []
        self.operator.counts.clear()
        return frame_of(self._node.fields, rows), counts

    def state(self) -> bytes:
        """The state for the interval after."""
        return state_json.write_state(self.operator.state()).encode()

    @property
    def held(self) -> int:
        """The number of stored rows and groups."""
        return self.operator.held


class RowCollector(StreamOperator):
    """Collects the output rows of an operator."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[Row] = []

    def row(self, port: int, row: Row) -> None:
        self.rows.append(row)


def frame_of(fields: Sequence[ops.Field], rows: Sequence[Row], **more: Sequence[Any]) -> Frame:
    """Converts rows to columns: fields, `_last`, and further integer columns by name."""
    values = list(zip(*(row.values for row in rows), strict=True)) if rows else [()] * len(fields)
    columns = {f.name: pa.array(value, schemas.STREAM_TYPES[f.type]) for f, value in zip(fields, values, strict=True)}
    columns[schemas.LAST] = pa.array([row.last for row in rows], pa.int64())
    columns |= {name: pa.array(numbers, pa.int64()) for name, numbers in more.items()}
    return Frame(columns, len(rows))


def operator_of(node: ops.Running | ops.Sampling, carry: StateHandover) -> RunningOperator | SamplingOperator:
    """Makes the operator of a plan, without a state yet; the input of a Running has already applied its predicate."""
    life = Life(END_OF_TIME if carry.latest is None else carry.latest + 1)
    below: ops.Node = ops.Cut(node.query, node.input.fields, "")
    if isinstance(node, ops.Running):
        return RunningOperator(replace(node, input=below, predicate=None), StreamOperator(), life)
    return SamplingOperator(replace(node, input=below), StreamOperator(), life)
