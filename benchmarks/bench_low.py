"""Packets per second of the low level beside DuckDB on the same rows in memory.

Run `python benchmarks/bench_low.py [--packets N] [--json FILE]`; prints a table, and writes it with `--json`.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from lowwater.catalog.expr import Binary, Column, Const, Expr, Type
from lowwater.catalog.packets import TYPES
from lowwater.catalog.protocols import PROTOCOLS
from lowwater.low import Bounds, LowSettings, needed_columns, run_link
from lowwater.plan.nodes import Field, Item, Lfta, Partial
from lowwater.plan.temporal import CLOCK, END_OF_TIME, infer

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
FLOW = ("srcIP", "destIP", "srcPort", "destPort", "protocol")


def packets(count: int, rate: int, flows: int, seed: int = 1) -> pa.Table:
    """Packets of heavy-tailed flows at a steady rate, up to 10 ms out of order."""
    random = np.random.default_rng(seed)
    flow = np.minimum(random.zipf(1.2, count), flows)
    stamps = START + np.arange(count) * (SECOND // rate) + random.integers(0, SECOND // 100, count)
    names = {
        "capture": pa.repeat(pa.scalar("0" * 64), count).dictionary_encode(),
        "position": np.arange(count),
        "timestamp": stamps,
        "arrival": np.maximum.accumulate(stamps),
        "len": random.integers(60, 1500, count).astype(np.int32),
        "ipversion": np.full(count, 4, np.int32),
        "srcIP_hi": np.zeros(count, np.int64),
        "srcIP_lo": flow * 7919 % (1 << 24),
        "destIP_hi": np.zeros(count, np.int64),
        "destIP_lo": flow * 104729 % (1 << 24),
        "srcPort": (flow % 60000).astype(np.int32),
        "destPort": (flow % 1000).astype(np.int32),
        "protocol": np.where(flow % 5 == 0, 17, 6).astype(np.int32),
    }
    return pa.table(
        {name: column if isinstance(column, pa.Array) else pa.array(column) for name, column in names.items()}
    )


def _lfta(name: str, keys: dict[str, Expr], partials: tuple[Partial, ...], predicate: Expr | None) -> Lfta:
    fields = [Field(key, expr.type, infer(expr, {"timestamp": CLOCK})) for key, expr in keys.items()]
    fields += [Field(part.name, part.type) for part in partials]
    items = tuple(Item(key, expr) for key, expr in keys.items())
    member = PROTOCOLS["DataProtocol"].member
    return Lfta(
        name, ("L",), "DataProtocol", member, predicate, items, partials, bool(partials), 1 << 16, tuple(fields)
    )


def flow_query() -> Lfta:
    """Five-tuple in buckets of 10 s, packets and bytes."""
    bucket = Binary(Type.INT, "/", PROTOCOLS["ETH"].columns["time"], Const(Type.INT, 10))
    keys: dict[str, Expr] = {"tb": bucket, **{name: Column(TYPES[name], name) for name in FLOW}}
    length = Column(Type.INT, "len")
    parts = (Partial("cnt", "count", None, Type.INT), Partial("bytes", "sum", length, Type.INT))
    return _lfta("flows", keys, parts, None)


def selection_query() -> Lfta:
    """Time, addresses and length of packets to ports below 100."""
    few = Binary(Type.BOOL, "<", Column(Type.INT, "destPort"), Const(Type.INT, 100))
    names = ("timestamp", "srcIP", "destIP", "len")
    return _lfta("selection", {name: Column(TYPES[name], name) for name in names}, (), few)


def _best(work: Callable[[], object], repeat: int) -> tuple[float, float]:
    """Least seconds of the clock, and of all threads' processor time: the second is fair on a shared machine."""
    times = []
    for _ in range(repeat):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
    return min(wall for wall, _ in times), min(cpu for _, cpu in times)


def measure(count: int, rate: int, flows: int, repeat: int) -> list[dict[str, object]]:
    """Figures of each case: packets per second of ours and of DuckDB, rows out, ejections."""
    table = packets(count, rate, flows)
    batches = {name: table.select(needed_columns([query])).to_batches() for name, query in _cases().items()}
    duck = duckdb.connect()
    duck.register("packets", table)
    words = "ipversion, srcIP_hi, srcIP_lo, destIP_hi, destIP_lo"
    texts = {
        "flows": f"SELECT timestamp // {10 * SECOND}, {words}, srcPort, destPort, protocol, count(*), sum(len) "
        "FROM packets WHERE ipversion >= 0 GROUP BY ALL",
        "selection": f"SELECT timestamp, {words}, len FROM packets WHERE ipversion >= 0 AND destPort < 100",
    }
    figures: list[dict[str, object]] = []
    for name, query in _cases().items():
        settings = LowSettings(skew=SECOND)
        bounds = Bounds({query.name: 0}, 0, END_OF_TIME)

        ours = partial(run_link, [query], "L", batches[name], bounds, settings, _forget)
        statistics = ours().statistics[0]  # compiles
        wall, cpu = _best(ours, repeat)
        peer_wall, peer_cpu = _best(partial(_fetch, duck, texts[name]), repeat)
        figures.append(
            {
                "case": name,
                "packets": count,
                "lowwater_per_s": round(count / wall),
                "duckdb_per_s": round(count / peer_wall),
                "lowwater_per_cpu_s": round(count / cpu),
                "duckdb_per_cpu_s": round(count / peer_cpu),
                "rows_out": statistics.rows_out,
                "ejections": statistics.ejections,
            }
        )
    return figures


def _forget(lfta: str, batch: pa.RecordBatch) -> None:
    """The consumer costs nothing: what is measured is the low level."""


def _fetch(duck: duckdb.DuckDBPyConnection, text: str) -> pa.Table:
    return duck.sql(text).to_arrow_table()


def _cases() -> dict[str, Lfta]:
    return {query.name: query for query in (flow_query(), selection_query())}


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packets", type=int, default=4_000_000)
    parser.add_argument("--rate", type=int, default=100_000, help="packets per second of link time")
    parser.add_argument("--flows", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    figures = measure(given.packets, given.rate, given.flows, given.repeat)
    print("".join(f"{name:>20}" for name in figures[0]))
    for row in figures:
        print("".join(f"{value:>20,}" if isinstance(value, int) else f"{value:>20}" for value in row.values()))
    if given.json:
        machine = {"python": platform.python_version(), "machine": platform.machine(), "duckdb_threads": "default"}
        given.json.write_text(json.dumps({"machine": machine, "figures": figures}, indent=2) + "\n")


if __name__ == "__main__":
    main()
