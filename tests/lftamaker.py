"""Small LFTAs and packet batches for the tests of the low level."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pyarrow as pa

from lowwater.catalog.expr import COMPARISON, LOGICAL, Binary, Column, Const, Expr, Type, Unary
from lowwater.catalog.protocols import PROTOCOLS
from lowwater.catalog.schemas import READABLE, TYPES
from lowwater.low import Bounds, LinkResult, LowSettings, merge_results, needed_columns, run_link
from lowwater.plan.operators import Field, Item, Lfta, Partial
from lowwater.plan.temporal import CLOCK, infer

SECOND = 1_000_000_000
Row = dict[str, Any]


def col(name: str) -> Expr:
    return PROTOCOLS["ETH"].columns[name] if name in PROTOCOLS["ETH"].columns else Column(TYPES[name], name)


def lit(value: int | float | bool | str | bytes | None, type_: Type | None = None) -> Const:
    if type_ is None:
        kinds = {bool: Type.BOOL, int: Type.INT, float: Type.FLOAT, bytes: Type.IP, str: Type.STRING}
        type_ = kinds[type(value)]
    return Const(type_, value)


def op(left: Expr, name: str, right: Expr) -> Binary:
    if name in COMPARISON or name in LOGICAL:
        return Binary(Type.BOOL, name, left, right)
    return Binary(Type.FLOAT if Type.FLOAT in (left.type, right.type) else Type.INT, name, left, right)


def negate(expr: Expr) -> Unary:
    return Unary(Type.BOOL, "NOT", expr)


def make(
    name: str,
    keys: dict[str, Expr],
    partials: Iterable[Partial] = (),
    *,
    predicate: Expr | None = None,
    protocol: str = "ETH",
    slots: int = 16,
) -> Lfta:
    """An LFTA; it aggregates if there are partials."""
    partials = tuple(partials)
    fields = [Field(key, expr.type, infer(expr, {"timestamp": CLOCK})) for key, expr in keys.items()]
    fields += [Field(part.name, part.type) for part in partials]
    items = tuple(Item(key, expr) for key, expr in keys.items())
    member = PROTOCOLS[protocol].member
    return Lfta(name, ("L",), protocol, member, predicate, items, partials, bool(partials), slots, tuple(fields))


def count(name: str = "cnt") -> Partial:
    return Partial(name, "count", None, Type.INT)


def partial(function: str, expr: Expr, name: str | None = None) -> Partial:
    return Partial(name or function, function, expr, expr.type)


def records(packets: Sequence[Row]) -> pa.RecordBatch:
    """Packets in order of the link, `arrival` worked out: the clock moves by sane records only."""
    rows, clock = [], 0
    for position, packet in enumerate(packets):
        clock = max(clock, packet["timestamp"])
        base = {"capture": "c" * 8, "position": position, "arrival": clock, "len": 60, "caplen": 60}
        rows.append({name: (base | packet).get(name) for name in READABLE.names})
    return pa.RecordBatch.from_pylist(rows, schema=READABLE)


def run(
    lftas: Sequence[Lfta],
    batch: pa.RecordBatch,
    settings: LowSettings,
    start: int = 0,
    end: int = 1 << 62,
    read_from: int | None = None,
    batch_rows: int = 7,
    grain: int = 1,
    cuts: Sequence[int] = (),
) -> tuple[dict[str, list[Row]], LinkResult]:
    """The streams of the LFTAs as lists of rows in the order of ticks, fed in batches of the columns that they need."""
    streams: dict[str, list[Row]] = {lfta.name: [] for lfta in lftas}
    lowest = start if read_from is None else read_from
    bounds = Bounds({lfta.name: lowest for lfta in lftas}, start, end, {lfta.name: grain for lfta in lftas})
    needed = batch.select(needed_columns(lftas))
    arrivals = needed.column("arrival").to_pylist()
    places = sorted({cut for cut in cuts if 0 < cut < len(needed) and arrivals[cut - 1] < end})
    results = []
    for first, last in pairwise([0, *places, len(needed)]):
        chunk = needed.slice(first, last - first)
        batches = [chunk.slice(at, batch_rows) for at in range(0, len(chunk), batch_rows)]
        clocks = {"entered": arrivals[first - 1]} if first else {}
        mine = replace(bounds, **clocks, left=arrivals[last - 1] if last < len(needed) else None)
        found: list[tuple[str, pa.RecordBatch]] = []
        results.append(run_link(lftas, "L", batches, mine, settings, lambda *out, to=found: to.append(out)))
        for lfta in lftas:
            streams[lfta.name] += by_tick([row for name, out in found if name == lfta.name for row in out.to_pylist()])
    return streams, merge_results(results)


def by_tick(stream: list[Row]) -> list[Row]:
    """The rows of a stream in their order, of which the rows of a tick precede its punctuation (SEMANTICS P5)."""
    return sorted(stream, key=lambda row: (row["_tick"], row["_kind"] != "row"))


def data(stream: list[Row]) -> list[Row]:
    return [row for row in stream if row["_kind"] == "row"]


def promises(stream: list[Row]) -> list[Row]:
    return [row for row in stream if row["_kind"] == "punctuation"]
