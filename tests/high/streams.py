"""Hand-made LFTAs and their stored streams: small rows and legal punctuation, written as the low stage would."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from lowwater.catalog.expr import Binary, Column, Const, Expr, Type
from lowwater.catalog.schemas import CONTROL, PUNCTUATION, ROW, STREAM_TYPES
from lowwater.high.operators import StateHandover
from lowwater.high.query_runs import HighLevel, HighResult, HighSettings
from lowwater.plan.operators import Field, Item, Lfta, LftaInput, Node
from lowwater.plan.temporal import CLOCK, END_OF_TIME, Step, Temporal
from lowwater.replay.stages.engines import high_results

if TYPE_CHECKING:
    from lowwater.errors import LowwaterError
    from lowwater.high.runner import Runner

SECOND = 1_000_000_000
Row = tuple[tuple[Any, ...], int]
"""Values of the fields, and `_last`."""


def epoch(seconds: int) -> Temporal:
    """The temporal property of time/seconds."""
    return CLOCK.then(Step("div", seconds * SECOND))


def leaf(name: str, fields: Sequence[Field], links: tuple[str, ...] = ("main1",)) -> LftaInput:
    """The leaf of an LFTA with these output fields."""
    keys = tuple(Item(f.name, Column(f.type, f.name)) for f in fields)
    lfta = Lfta(name, links, "ETH", None, None, keys, (), False, 1, tuple(fields))
    return LftaInput(name, tuple(fields), lfta)


def column(name: str, kind: Type = Type.INT) -> Column:
    return Column(kind, name)


def number(value: int) -> Const:
    return Const(Type.INT, value)


def binary(op: str, left: Expr, right: Expr, kind: Type = Type.INT) -> Binary:
    return Binary(kind, op, left, right)


def write_stream(
    file: Path, fields: Sequence[Field], rows: Sequence[Row], until: int, period: int = SECOND
) -> list[str]:
    """Writes rows, and at every tick the highest promise that the rest allows."""
    emitted = [(-(-(last + 1) // period) * period, values, last) for values, last in rows]
    return write_emitted(file, fields, emitted, [*range(0, until + 1, period * 7), until])


def write_emitted(
    file: Path, fields: Sequence[Field], emitted: Sequence[tuple[int, tuple[Any, ...], int]], ticks: Iterable[int]
) -> list[str]:
    """Writes rows, each with the tick of its emission and its `_last`; promises at these ticks and at further ones."""
    by_tick: dict[int, list[tuple[tuple[Any, ...], int]]] = {tick: [] for tick in ticks}
    for tick, values, last in emitted:
        by_tick.setdefault(tick, []).append((values, last))
    lasts = [min((last for _, last in by_tick[tick]), default=END_OF_TIME) for tick in sorted(by_tick)]
    after = [*itertools.accumulate(reversed(lasts), min, initial=END_OF_TIME)][-2::-1]
    stored: list[tuple[Any, ...]] = []
    for tick, least in zip(sorted(by_tick), after, strict=True):
        stored += [(*values, last, ROW, tick, tick, 0) for values, last in by_tick[tick]]
        promise = min(tick, least)
        said = [f.temporal.promise(promise) if f.temporal else None for f in fields]
        stored.append((*said, promise, PUNCTUATION, tick, tick, 0))
    return write_rows(file, fields, stored)


def write_rows(file: Path, fields: Sequence[Field], stored: Sequence[tuple[Any, ...]]) -> list[str]:
    """Writes rows of fields and CONTROL as they are given; several row groups, so that chunks are exercised."""
    schema = pa.schema([pa.field(f.name, STREAM_TYPES[f.type]) for f in fields] + list(CONTROL))
    columns = [pa.array([row[i] for row in stored], field.type) for i, field in enumerate(schema)]
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), file, row_group_size=64)
    return [str(file)]


def read_stream(files: Sequence[str]) -> tuple[list[tuple[Any, ...]], list[dict[str, Any]]]:
    """The data rows (fields, then `_last`) sorted, and the punctuation rows in order."""
    rows: list[tuple[Any, ...]] = []
    marks: list[dict[str, Any]] = []
    for file in files:
        for record in pq.ParquetFile(file).read().to_pylist():
            if record["_kind"] == ROW:
                values = (value for name, value in record.items() if name not in CONTROL.names)
                rows.append((*values, record["_last"]))
            else:
                marks.append(record)
    return sorted(rows, key=order), marks


def order(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A sort key in which NULL comes first."""
    return tuple((value is not None, value) for value in row)


def check_law(files: Sequence[str]) -> None:
    """No row after a promise has `_last` below it, and promises rise (SEMANTICS P1)."""
    promise = -END_OF_TIME
    for file in files:
        for record in pq.ParquetFile(file).read().to_pylist():
            assert record["_last"] >= promise, (file, record, promise)
            if record["_kind"] == PUNCTUATION:
                assert record["_last"] > promise
                promise = record["_last"]


FLOWS = (Field("tb", Type.INT, epoch(10)), Field("k", Type.INT), Field("ip", Type.IP), Field("x", Type.INT))


def flows(count: int, seconds: int, seed: int, keys: int = 4) -> list[Row]:
    """Rows of FLOWS over so many seconds; keys, addresses and values are sometimes NULL."""
    chance = random.Random(seed)
    rows: list[Row] = []
    for _ in range(count):
        tb = chance.randrange(seconds) // 10
        key = chance.choice([None, *range(keys)])
        address = chance.choice([None, b"\x04\x0a\x00\x00\x01", b"\x06" + bytes(15) + b"\x01"])
        rows.append(((tb, key, address, chance.choice([None, *range(-3, 9)])), epoch(10).last(tb)))
    return rows


def run_high(
    runner: Runner,
    queries: Mapping[str, Node],
    inputs: Mapping[tuple[str, str], list[str]],
    start: int,
    end: int,
    folder: Path,
    settings: HighSettings | None = None,
    carries: Mapping[str, StateHandover] | None = None,
    failures: dict[str, LowwaterError] | None = None,
    published: bool = False,
) -> dict[str, HighResult]:
    """The results of a high level by itself; arguments as of `HighLevel` and `high_results`."""
    chosen = replace(settings or HighSettings(), most=runner.most)
    level = HighLevel(queries, inputs, start, end, folder, chosen, carries or {}, published)
    return high_results(runner.run(level), failures)
