"""Sums of a published number over time, by the values of a key with the largest sums: the data of a plot.

Beside `exploring`, whose batches it reads once for the choice of the values and once for their sums.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lowwater.instants import SECOND
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
        approximate: whether the key had so many values that the choice of the largest is not exact.
    """

    start: int
    step: int
    curves: tuple[Curve, ...]
    approximate: bool = False


PARTS = 120
"""Most parts of time of a plot, and one."""
_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400)
LENGTHS = (*(10**power for power in range(9)), *(seconds * SECOND for seconds in _SECONDS))
"""Lengths of the parts of a plot, ns."""
MOST_KEYS = 100_000
"""Values of a key that are summed at a time; beyond that the smallest are forgotten."""
GROUPED = 1 << 19
"""Rows that are summed at a time."""
OTHERS = "all others"


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
    names = [name for name in (number, key) if name]
    for name in names:
        table.require(name)
    step = part_length(wish.end - wish.start, grain)
    begin = wish.start // step * step
    parts = -(-(wish.end - begin) // step)
    sums, approximate = _largest(table, wish, number, key) if key else ({}, False)
    tops = heapq.nlargest(most, sums, key=lambda name: (sums[name], repr(name)))
    values: dict[Any, list[float]] = {name: [0.0] * parts for name in [*tops, None if key else number]}
    others, seen_others = [0.0] * parts, False
    chosen = set(tops)
    for batch in _large(table, wish, names):
        at = pc.divide(pc.subtract(batch.column(LAST), begin), step)
        columns = {"at": at, "key": batch.column(key) if key else pa.nulls(batch.num_rows, pa.string())}
        columns["number"] = _numbers(batch, number)
        grouped = pa.table(columns).group_by(["at", "key"]).aggregate([("number", "sum")])
        for part, name, value in zip(
            *(grouped.column(at).to_pylist() for at in ("at", "key", "number_sum")), strict=True
        ):
            if key and name not in chosen:
                others[part] += value or 0.0
                seen_others = True
            else:
                values[name if key else number][part] += value or 0.0
    shown = [Curve("NULL" if name is None else str(name), tuple(values[name])) for name in (tops if key else [number])]
    more = [Curve(OTHERS, tuple(others))] if seen_others else []
    return Curves(begin, step, (*shown, *more), approximate)


def _large(table: ResultTable, wish: Wish, names: list[str]) -> Iterator[pa.Table]:
    """Yields the rows of a wish in tables of half a million: a file of an hour has few, and a group costs as much."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in table.batches(wish, names):
        held.append(batch)
        rows += batch.num_rows
        if rows >= GROUPED:
            yield pa.Table.from_batches(held)
            held, rows = [], 0
    if rows:
        yield pa.Table.from_batches(held)


def _numbers(batch: pa.Table, number: str) -> pa.Array | pa.ChunkedArray:
    if not number:
        return pa.repeat(pa.scalar(1.0), batch.num_rows)
    return batch.column(number).cast(pa.float64())


def _largest(table: ResultTable, wish: Wish, number: str, key: str) -> tuple[dict[Any, float], bool]:
    sums: dict[Any, float] = {}
    approximate = False
    for batch in _large(table, wish, [name for name in dict.fromkeys((number, key)) if name]):
        grouped = pa.table({"key": batch.column(key), "number": _numbers(batch, number)}).group_by("key")
        rows = grouped.aggregate([("number", "sum")])
        for name, value in zip(rows.column("key").to_pylist(), rows.column("number_sum").to_pylist(), strict=True):
            sums[name] = sums.get(name, 0.0) + (value or 0.0)
        if len(sums) > 2 * MOST_KEYS:
            approximate = True
            sums = dict(heapq.nlargest(MOST_KEYS, sums.items(), key=lambda item: item[1]))
    return sums, approximate
