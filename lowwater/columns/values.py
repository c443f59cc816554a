"""Values of expressions over Arrow columns (SEMANTICS V1, V2), and the instants of temporal attributes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc as ipc

from lowwater.catalog import calls, expr as ex, periods, schemas
from lowwater.limits import ROW_BLOCK_ROWS, ROWS_IN_MEMORY
from lowwater.plan.operators import Field, Window
from lowwater.plan.temporal import END_OF_TIME, INT64_MAX, Component, Temporal
from lowwater.stream.values import operation

# The instants at which values of temporal attributes begin and end: the vector form of `Temporal.first` and
# `Temporal.last`.

Integers = npt.NDArray[np.int64]

LATEST = END_OF_TIME - 1
"""The last instant at which a row can still change."""


def last(temporal: Temporal, values: Integers) -> Integers:
    """The last instants (ns) of rows with these values.

    Example:
        >>> from lowwater.plan.temporal import Step
        >>> last(Temporal(((Step("div", 10),),)), np.array([0, 2, -1])).tolist()
        [9, 29, -10]
    """
    if not len(values):
        return values
    lows, highs = int(values.min()), int(values.max())
    if all(_fits(steps, value, temporal.increasing) for steps in temporal.components for value in (lows, highs)):
        ends = [_bound(steps, values, temporal.increasing) for steps in temporal.components]
        instants: Integers = np.minimum(np.maximum.reduce(ends), LATEST)
        return instants
    return map_distinct(temporal.last, values)


def first(temporal: Temporal, values: Integers) -> Integers:
    """The first instants (ns) of values of a temporal attribute with one component.

    Example:
        >>> from lowwater.plan.temporal import Step
        >>> first(Temporal(((Step("div", 10),),)), np.array([0, 2, 3])).tolist()
        [-9, 20, 30]
    """
    if not len(values):
        return values
    (steps,), at_most = temporal.components, not temporal.increasing
    if all(_fits(steps, bound, at_most) for bound in (int(values.min()), int(values.max()))):
        return _bound(steps, values, at_most)
    return map_distinct(temporal.first, values)


def map_distinct(function: Callable[[int], int], values: Integers) -> Integers:
    """Maps a Python function over the distinct values of a column, limited to 64 bits."""
    distinct, places = np.unique(values, return_inverse=True)
    results = [max(-INT64_MAX, min(function(value), INT64_MAX)) for value in distinct.tolist()]
    return np.array(results, np.int64)[places]


def group_end(fields: Sequence[Field], keys: Sequence[pa.Array], rows: int) -> Integers:
    """The last instant of each group (ns); a group without a temporal value ends with the replay."""
    ends = np.full(rows, LATEST, np.int64)
    for field, key in zip(fields, keys, strict=True):
        if field.temporal and not field.temporal.origin:
            has_value = key.is_valid().to_numpy(zero_copy_only=False)
            instants = last(field.temporal, key.fill_null(0).to_numpy(zero_copy_only=False))
            ends = np.where(has_value, np.minimum(ends, instants), ends)
    return ends


def window_end(window: Window, values: Integers, left: bool) -> Integers:
    """`Window.last_left` or `Window.last_right` of each value."""
    end = window.last_left if left else window.last_right
    time, other = (window.left_time, window.right_time) if left else (window.right_time, window.left_time)
    rising = window.left_time.increasing
    reach = (window.above if rising else -window.below) if left else (window.below if rising else -window.above)
    ends = [(time, 0), (other, reach), *([(time, window.rivals)] if left and window.mutual else [])]
    if len(values) and max(*(abs(by) for _, by in ends), -int(values.min()), int(values.max())) < 1 << 61:
        instants: Integers = np.maximum.reduce([last(time, values + by) for time, by in ends])
        return instants
    return map_distinct(end, values)


def _fits(steps: Component, value: int, at_most: bool) -> bool:
    """Whether every step of a value fits 64 bits."""
    for step in reversed(steps):
        if step.op == "neg":
            value, at_most = -value, not at_most
        else:
            value = step.largest(value) if at_most else step.smallest(value)
        if max(abs(value), abs(step.by)) > INT64_MAX >> 1:
            return False
    return True


def _bound(steps: Component, values: Integers, at_most: bool) -> Integers:
    """The bound of values carried through the steps, as in `plan.temporal`."""
    for step in reversed(steps):
        if step.op == "neg":
            values, at_most = -values, not at_most
        elif step.op == "add":
            values = values - step.by
        elif step.op == "mul":
            values = values // step.by if at_most else -(-values // step.by)
        elif step.op == "day":
            values = step.days.lasts(values) if at_most else step.days.firsts(values)
        elif step.op == "period":
            values = periods.last(values, step.by) if at_most else periods.first(values, step.by)
        elif at_most:
            values = values * step.by + np.where(values >= 0, step.by - 1, 0)
        else:
            values = values * step.by - np.where(values <= 0, step.by - 1, 0)
    return values


# Arrow computes what it has kernels for. Other operations use the functions of the reference engine, once for each
# distinct combination of operands.

Resolve = Callable[[str], pa.Array]

_COMPARE = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_CHECKED = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}
_FLOATS = {"+": pc.add, "-": pc.subtract, "*": pc.multiply, "/": pc.divide}
_WHOLE = (ex.Type.INT, ex.Type.MAC, ex.Type.INSTANT)


class Frame:
    """Rows as columns of equal length.

    Args:
        columns: name -> column.
    """

    def __init__(self, columns: Mapping[str, pa.Array], rows: int) -> None:
        self.columns = dict(columns)
        self.rows = rows

    @staticmethod
    def of(table: pa.Table) -> Frame:
        return Frame({name: one_array(table[name]) for name in table.column_names}, table.num_rows)

    def __getitem__(self, name: str) -> pa.Array:
        return self.columns[name]

    def take(self, places: npt.NDArray[np.int64]) -> Frame:
        chosen = pa.array(places)
        return Frame({name: column.take(chosen) for name, column in self.columns.items()}, len(places))

    def where(self, test: pa.Array) -> Frame:
        if test.true_count == self.rows:
            return self
        return Frame({name: column.filter(test) for name, column in self.columns.items()}, test.true_count)

    def filtered(self, predicate: ex.Expr | None) -> Frame:
        return self if predicate is None else self.where(self.of_expr(predicate).fill_null(False))

    def of_expr(self, expr: ex.Expr) -> pa.Array:
        """The values of an expression over the columns."""
        return evaluate(expr, self.columns.__getitem__, self.rows)

    def renamed(self, names: Mapping[str, str]) -> Frame:
        return Frame({new: self.columns[old] for old, new in names.items()}, self.rows)


def concat_frames(frames: list[Frame]) -> Frame:
    """Concatenates frames with the same columns."""
    if len(frames) == 1:
        return frames[0]
    names = frames[0].columns
    columns = {name: pa.concat_arrays([frame[name] for frame in frames]) for name in names}
    return Frame(columns, sum(frame.rows for frame in frames))


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """A column of a table as one array."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def evaluate(expr: ex.Expr, column: Resolve, rows: int) -> pa.Array:
    """Evaluates an expression for every row, in stream types. Raises LowwaterError if the Python of a user fails."""
    if isinstance(expr, ex.Column):
        return column(expr.name)
    if isinstance(expr, ex.Const):
        return constant(expr, rows)
    if isinstance(expr, ex.Case):
        return _case(expr, column, rows)
    parts = [evaluate(child, column, rows) for child in expr.children()]
    if isinstance(expr, ex.Unary):
        return _unary(expr, parts[0], rows)
    if isinstance(expr, ex.Binary):
        return _binary(expr, parts[0], parts[1], rows)
    if isinstance(expr, ex.OneOf) and expr.kind is not ex.Type.FLOAT:
        contained = pc.is_in(parts[0], pa.array(list(expr.values), parts[0].type))
        return pc.if_else(parts[0].is_valid(), contained, pa.scalar(None, pa.bool_()))
    return _slowly(expr, parts, rows)


def constant(expr: ex.Const, rows: int) -> pa.Array:
    """The same value in every row."""
    value = float(expr.value) if expr.type is ex.Type.FLOAT and isinstance(expr.value, int) else expr.value
    return pa.repeat(pa.scalar(value, schemas.STREAM_TYPES[expr.type]), rows)


def _slowly(expr: ex.Expr, parts: list[pa.Array], rows: int) -> pa.Array:
    """Evaluates with the functions of the reference engine, which has one for every operator."""
    coded = [calls.DictionaryColumn.of(part) for part in parts]
    if isinstance(expr, ex.Call):
        return calls.call_function(expr.function, coded, rows).array(expr.type)
    return calls.apply_python(operation(expr), coded, rows).array(expr.type)


def _case(expr: ex.Case, column: Resolve, rows: int) -> pa.Array:
    result = evaluate(expr.otherwise, column, rows)
    for when, then in reversed(expr.branches):
        test = evaluate(when, column, rows).fill_null(False)
        result = pc.if_else(test, evaluate(then, column, rows), result)
    return result


def _unary(expr: ex.Unary, operand: pa.Array, rows: int) -> pa.Array:
    if expr.op == "IS NULL":
        return operand.is_null()
    if expr.op == "NOT":
        return pc.invert(operand)
    if expr.op == "~":
        return pc.bit_wise_not(operand)
    if expr.op == ex.SUMMED:
        nan = pa.scalar(math.nan, pa.float64())
        return pc.if_else(pc.less_equal(pc.abs(operand), pa.scalar(ex.SUMMABLE)), operand, nan)
    return pc.negate(operand) if expr.type is ex.Type.FLOAT else _slowly(expr, [operand], rows)


def _binary(expr: ex.Binary, left: pa.Array, right: pa.Array, rows: int) -> pa.Array:
    op = expr.op
    if op in ex.LOGICAL:
        return pc.and_kleene(left, right) if op == "AND" else pc.or_kleene(left, right)
    if op in ex.COMPARISON:
        if {expr.left.type, expr.right.type} == {ex.Type.INT, ex.Type.FLOAT}:
            left, right = _floats(left), _floats(right)
        return _COMPARE[op](left, right)
    if expr.type is ex.Type.FLOAT and op in _FLOATS:
        return _float(op, _floats(left), _floats(right))
    if expr.type in _WHOLE and op in _CHECKED:
        try:
            return _CHECKED[op](left, right)
        except pa.ArrowInvalid:  # some value does not fit
            return _slowly(expr, [left, right], rows)
    if expr.type in _WHOLE and op in ("/", "%"):
        return _divided(op, left, right)
    if expr.type in _WHOLE and op in ("&", "|"):
        return pc.bit_wise_and(left, right) if op == "&" else pc.bit_wise_or(left, right)
    return _slowly(expr, [left, right], rows)


def _floats(values: pa.Array) -> pa.Array:
    # Not every integer is a float exactly; Python converts the same way.
    return values if values.type == pa.float64() else values.cast(pa.float64(), safe=False)


def _float(op: str, left: pa.Array, right: pa.Array) -> pa.Array:
    result = _FLOATS[op](left, right)
    return pc.if_else(pc.is_finite(result), result, pa.scalar(None, pa.float64()))


def _divided(op: str, left: pa.Array, right: pa.Array) -> pa.Array:
    """Quotient toward zero, or its remainder; NULL for division by zero, since Arrow's kernels skip NULL."""
    none = pa.scalar(None, pa.int64())
    divisor = pc.if_else(pc.equal(right, 0), none, right)
    negated = pc.fill_null(pc.equal(divisor, -1), False)
    # The smallest integer divided by -1 overflows; its remainder is 0.
    quotient = pc.divide(left, pc.if_else(negated, pa.scalar(1, pa.int64()), divisor))
    if op == "%":
        remainder = pc.subtract(left, pc.multiply(quotient, divisor))
        return pc.if_else(negated, pc.multiply(left, 0), remainder)
    least = pc.equal(left, -(1 << 63))
    return pc.if_else(negated, pc.if_else(least, none, pc.negate(left)), quotient)


# Equal keys have equal numbers, and NULL equals NULL.

# Rows that do not fit: blocks, keys as one number a row, and files by key for what exceeds the memory of a task.

Numbers = npt.NDArray[np.int64]


def codes(columns: Sequence[pa.Array], rows: int) -> tuple[Numbers, int]:
    """Encodes the key of each row as a number; also returns an upper limit of the numbers. `columns`: key columns of
    equal length; empty if all rows are equal."""
    numbers, size = np.zeros(rows, np.int64), 1
    for column in columns:
        coded = normal(column).dictionary_encode()
        indices = coded.indices.fill_null(-1) if coded.indices.null_count else coded.indices
        places = indices.to_numpy(zero_copy_only=False).astype(np.int64) + 1
        numbers, size = numbers * (len(coded.dictionary) + 1) + places, size * (len(coded.dictionary) + 1)
        if size > 1 << 31:  # the next column may have as many values again
            again = pa.array(numbers).dictionary_encode()
            numbers, size = again.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(again.dictionary)
    return numbers, size


def moved(values: Numbers, by: int) -> Numbers:
    """Adds a constant to values, limited to 64 bits."""
    if by >= 0:
        return np.where(values > INT64_MAX - by, INT64_MAX, values + min(by, INT64_MAX))
    return np.where(values < -INT64_MAX - by, -INT64_MAX, values + max(by, -INT64_MAX))


def normal(column: pa.Array) -> pa.Array:
    """Makes equal values of a column equal in bits: one zero, one NaN."""
    if column.type != pa.float64():
        return column
    values = column.fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0
    return pa.array(np.where(np.isnan(values), np.nan, values), mask=column.is_null().to_numpy(zero_copy_only=False))


def ranks(column: pa.Array, descending: bool = False, nulls_first: bool = False) -> Numbers:
    """Numbers the values of a column in their order, equal values alike; NaN is above all numbers.

    Example:
        >>> ranks(pa.array([7, None, 3, 7])).tolist(), ranks(pa.array([7, None, 3, 7]), True, True).tolist()
        ([1, 2, 0, 1], [0, -1, 1, 0])
    """
    coded = normal(column).dictionary_encode()
    size = len(coded.dictionary)
    places = np.empty(size + 1, np.int64)
    places[pc.sort_indices(coded.dictionary).to_numpy()] = np.arange(size)
    if descending:
        places[:size] = size - 1 - places[:size]
    places[size] = -1 if nulls_first else size
    found: Numbers = places[coded.indices.fill_null(size).to_numpy(zero_copy_only=False)]
    return found


def sortable(column: pa.Array) -> Numbers:
    """Numbers with the order of a column, NULL first: faster than ranks where it has integers, which need not follow
    one another."""
    if column.type == pa.int64() and not column.null_count:
        numbers: Numbers = column.to_numpy(zero_copy_only=False)
        return numbers
    return ranks(column, nulls_first=True)


def changes(columns: Sequence[Numbers]) -> npt.NDArray[np.bool_]:
    """Marks the rows that differ from the row before in any column, and the first row."""
    changed: npt.NDArray[np.bool_] = np.zeros(len(columns[0]), np.bool_)
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    changed[:1] = True
    return changed


# An operator may make many rows from one.


def repeated(counts: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
    """Repeats each row as often as its count, a block at a time.

    Example:
        >>> [(places.tolist(), times.tolist()) for places, times in repeated(np.array([2, 0, 1]))]
        [([0, 0, 2], [0, 1, 0])]
    """
    upto = np.cumsum(counts)
    at = 0
    while at < len(upto):
        before = int(upto[at - 1]) if at else 0
        until = max(at + 1, int(np.searchsorted(upto, before + ROW_BLOCK_ROWS, side="right")))
        row_counts = counts[at:until]
        places = np.repeat(np.arange(at, until), row_counts)
        yield places, np.arange(len(places)) - np.repeat(np.cumsum(row_counts) - row_counts, row_counts)
        at = until


def in_blocks(blocks: Iterable[Frame]) -> Iterator[Frame]:
    """Regroups rows into blocks of about ROW_BLOCK_ROWS rows."""
    waiting: list[Frame] = []
    for frame in blocks:
        if frame.rows:
            waiting.append(frame)
        if sum(block.rows for block in waiting) >= ROW_BLOCK_ROWS:
            yield concat_frames(waiting)
            waiting = []
    if waiting:
        yield concat_frames(waiting)


# All rows of a key are in one partition, so each partition is processed alone.

PARTS = 32


class Spill:
    """Rows in files, one file for each partition.

    Args:
        folder: folder for the files, created here; the caller removes it.
        nothing: frame for an empty partition; None leaves empty partitions out.
    """

    def __init__(self, folder: Path, nothing: Frame | None = None) -> None:
        folder.mkdir(parents=True)
        self._folder, self._nothing = folder, nothing
        self._files = ExitStack()
        self._writers: dict[int, ipc.RecordBatchFileWriter] = {}

    def add(self, frame: Frame, keys: Sequence[pa.Array]) -> None:
        from lowwater.capture.digests import row_digests

        parts = row_digests([normal(key) for key in keys], frame.rows) % np.uint64(PARTS)
        order = np.argsort(parts, kind="stable")
        edges = np.searchsorted(parts[order], np.arange(PARTS + 1, dtype=np.uint64))
        for part in range(PARTS):
            rows = order[edges[part] : edges[part + 1]]
            if len(rows):
                batch = pa.record_batch(frame.take(rows).columns)
                self._writer(part, batch.schema).write_batch(batch)

    def _writer(self, part: int, schema: pa.Schema) -> ipc.RecordBatchFileWriter:
        if part not in self._writers:
            options = ipc.IpcWriteOptions(compression="lz4")
            writer = ipc.new_file(str(self._folder / f"{part}.arrow"), schema, options=options)
            self._writers[part] = self._files.enter_context(writer)
        return self._writers[part]

    def parts(self) -> Iterator[Frame]:
        self._files.close()
        for part in range(PARTS):
            if part in self._writers:
                with pa.OSFile(str(self._folder / f"{part}.arrow")) as source:
                    table = ipc.open_file(source).read_all()
                yield Frame.of(table)
            elif self._nothing is not None:
                yield self._nothing


def divided(
    folder: Path,
    inputs: Sequence[Iterable[Frame]],
    keys: Callable[[Frame, int], Sequence[pa.Array]],
    most: int = 0,
    nothing: Sequence[Frame | None] = (None,),
) -> Iterator[tuple[Frame, ...]]:
    """Yields the rows of inputs, a frame of each, so that all rows with the same key are together.

    Up to `most` rows are together. More go to files by the hash of their key.

    Args:
        folder: folder for files, created only for many rows; the caller removes it.
        keys: (frame, number of its input) -> its keys.
        most: number of rows; 0 for ROWS_IN_MEMORY.
        nothing: frame of each input where it has no rows; None for a single input leaves that out.
    """
    most = most or ROWS_IN_MEMORY
    held: list[list[Frame]] = [[] for _ in inputs]
    spills: list[Spill] = []
    for at, frames in enumerate(inputs):
        for frame in frames:
            held[at].append(frame)
            if not spills and sum(each.rows for waiting in held for each in waiting) > most:
                spills = [Spill(folder / str(number), none) for number, none in enumerate(nothing)]
            for number, spill in enumerate(spills):
                for each in held[number]:
                    spill.add(each, keys(each, number))
                held[number].clear()
    if spills:
        yield from zip(*(spill.parts() for spill in spills), strict=True)
        return
    found = []
    for waiting, none in zip(held, nothing, strict=True):
        filled = [frame for frame in waiting if frame.rows] or waiting[:1]
        together = concat_frames(filled) if filled else none
        found += [] if together is None else [together]
    if found:
        yield tuple(found)
