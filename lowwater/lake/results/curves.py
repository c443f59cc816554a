"""Sums of a published number over time, by the values of a key with the largest sums: the data of a plot.

Beside `exploring`, whose rows, or the sums of whole files (`sums`), are added up in one pass.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lowwater.errors import LakeError
from lowwater.instants import HOUR, SECOND
from lowwater.lake.results.exploring import LAST, ResultTable, Wish


@dataclass(frozen=True)
class Curve:
    """A series of a plot: its name, and a value for each part of time."""

    name: str
    values: tuple[float, ...]


@dataclass(frozen=True)
class Curves:
    """A number over time, by the largest values of a key.

    Attributes:
        start: first instant, ns.
        step: length of a part of time, ns.
        curves: the series, largest first; the last is the sum of all others, where there are others.
        approximate: whether the key had so many values that the choice of the largest, and their sums, are not exact.
        absent: parts of time, by their number, in which nothing is known -> why; their values are 0 and mean nothing.
    """

    start: int
    step: int
    curves: tuple[Curve, ...]
    approximate: bool = False
    absent: Mapping[int, str] = field(default_factory=dict)


PARTS = 120
"""Most parts of time of a plot, and one."""
_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400)
LENGTHS = (*(10**power for power in range(9)), *(seconds * SECOND for seconds in _SECONDS))
"""Lengths of the parts of a plot, ns."""
HELD = 1 << 19
"""Most sums (a value in a part of time) that are held; beyond that the smallest values are added up as others."""
GROUPED = 1 << 16
"""Rows that are summed at a time: a file of an hour has few, and a group costs as much."""
OTHERS = "all others"
LARGEST = 1e300
"""Largest sum that is drawn."""
ODD = "no finite sum"


def part_length(span: int, grain: int = 1) -> int:
    """Returns the length of the parts (ns) into which a plot divides a span (ns): a usual one, at least `grain`.

    Example:
        >>> part_length(86_400 * SECOND) // SECOND, part_length(3600 * SECOND, 60 * SECOND) // SECOND
        (900, 60)
    """
    least = max(1, grain, -(-span // PARTS))
    usual = next((length for length in LENGTHS if length >= least), -(-least // LENGTHS[-1]) * LENGTHS[-1])
    return usual if usual % grain == 0 else -(-least // grain) * grain


def curves(table: ResultTable, wish: Wish, number: str, key: str, most: int = 6, grain: int = 1) -> Curves:
    """Sums a number over time, for the values of a key with the largest sums.

    Args:
        table: the table.
        wish: the rows.
        number: column to sum; empty to count rows.
        key: column whose values become series; empty for one series.
        most: most series beside the sum of all others.
        grain: shortest useful part of time, ns, such as the length of a query's epochs.

    Raises:
        LakeError: a filter or a column is wrong, or the table cannot be read.
    """
    if key:
        table.require(key)
    kind = table.require(number) if number else pa.int64()
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise LakeError(f"query {table.query}: values of column {number!r} cannot be added", f"its type is {kind}")
    step = part_length(wish.end - wish.start, grain)
    begin = wish.start // step * step
    sums = _Sums(-(-(wish.end - begin) // step))
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch, is_rest in table.amounts(wish, number, key, by_hour=step % HOUR == 0):
        at = pc.divide(pc.subtract(batch.column(LAST), begin), step)
        if is_rest:
            sums.add_rest(at, batch.column("amount"))
            continue
        held.append(pa.record_batch({"at": at, "value": batch.column("value"), "amount": batch.column("amount")}))
        rows += batch.num_rows
        if rows >= GROUPED:
            sums.add(pa.Table.from_batches(held))
            held, rows = [], 0
    if held:
        sums.add(pa.Table.from_batches(held))
    named, others = sums.largest(most) if key else ([(number, sums.total())], None)
    found = [("NULL" if name is None else str(name), values) for name, values in named]
    found += [(OTHERS, others)] if others is not None else []
    # NaN, infinite, or so large that a plot of it cannot be computed
    odd = np.any([~(np.abs(values) <= LARGEST) for _, values in found], axis=0) if found else np.zeros(0, bool)
    series = tuple(Curve(name, tuple(np.where(odd, 0.0, values).tolist())) for name, values in found)
    return Curves(begin, step, series, sums.approximate and bool(key), dict.fromkeys(np.flatnonzero(odd).tolist(), ODD))


class _Sums:
    """Adds up amounts by part of time and value, in bounded memory.

    Args:
        parts: number of parts of time.

    Attributes:
        approximate: whether values were added up as others before all amounts were known.
    """

    def __init__(self, parts: int) -> None:
        self.approximate = False
        self._parts = parts
        self._groups: list[pa.Table] = []
        self._held = 0
        self._others = np.zeros(parts)

    def add(self, rows: pa.Table) -> None:
        """Adds amounts; columns `at` (part of time), `value` and `amount`."""
        self._groups.append(_grouped(rows))
        self._held += self._groups[-1].num_rows
        if self._held > min(HELD, GROUPED + 2 * self._groups[0].num_rows):
            self._join()

    def add_rest(self, at: pa.Array, amounts: pa.Array) -> None:
        """Adds amounts of values that are not known by name."""
        np.add.at(self._others, at.to_numpy(zero_copy_only=False), amounts.to_numpy(zero_copy_only=False))
        self.approximate = True

    def total(self) -> NDArray[np.float64]:
        """Returns the sums of all values."""
        return self._others + sum((_by_part(group, self._parts) for group in self._groups), np.zeros(self._parts))

    def largest(self, most: int) -> tuple[list[tuple[Any, NDArray[np.float64]]], NDArray[np.float64] | None]:
        """Returns the largest values with their sums, the largest first, and those of all others; None without any."""
        if not self._groups:
            return [], self._others if self.approximate else None
        rows = _grouped(pa.concat_tables(self._groups))
        totals = _totals(rows)
        names = dict(zip(totals.column("value").to_pylist(), totals.column("amount_sum").to_pylist(), strict=True))
        tops = heapq.nlargest(most, names, key=lambda name: (names[name], repr(name)))
        values = rows.column("value")
        shown = [
            (name, _by_part(rows.filter(pc.is_null(values) if name is None else pc.equal(values, name)), self._parts))
            for name in tops
        ]
        if len(names) <= most and not self.approximate:
            return shown, None
        everything = self._others + _by_part(rows, self._parts)
        return shown, everything - sum((each for _, each in shown), np.zeros(self._parts))

    def _join(self) -> None:
        """Joins what is held; values beyond half of what may be held become others, the smallest ones first."""
        rows = _grouped(pa.concat_tables(self._groups))
        if rows.num_rows > HELD // 2:
            totals = _totals(rows).sort_by([("amount_sum", "descending")])
            kept = pc.less_equal(pc.cumulative_sum(totals.column("amount_count")), HELD // 2)
            names = totals.filter(kept).column("value")
            chosen = pc.is_in(rows.column("value"), value_set=names.combine_chunks())
            self._others += _by_part(rows.filter(pc.invert(chosen)), self._parts)
            rows, self.approximate = rows.filter(chosen), True
        self._groups, self._held = [rows], rows.num_rows


def _grouped(rows: pa.Table) -> pa.Table:
    grouped = rows.group_by(["at", "value"]).aggregate([("amount", "sum")])
    return grouped.rename_columns([name.removesuffix("_sum") for name in grouped.column_names])


def _totals(rows: pa.Table) -> pa.Table:
    """Returns the sum of each value, and in how many parts of time it is."""
    return rows.group_by("value").aggregate([("amount", "sum"), ("amount", "count")])


def _by_part(rows: pa.Table, parts: int) -> NDArray[np.float64]:
    sums: NDArray[Any] = np.bincount(rows.column("at").to_numpy(), rows.column("amount").to_numpy(), parts)
    return sums
