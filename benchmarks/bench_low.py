"""Packets per second of the low level beside DuckDB and polars on the same rows in memory.

Run `python benchmarks/bench_low.py [--packets N] [--json FILE]`; prints a table, and writes it with `--json`. The low
level reduces: what a table of fixed size ejects is merged above; the others aggregate fully. So the rate of the
aggregation is given for several numbers of flows: of 1,000 the groups of a bucket fit into the table, of 1,000,000 most
collide. A selection copies its rows out, so its rate is given for several shares of packets that it keeps. polars is
measured where it is installed.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from lowwater.catalog.expr import Binary, Column, Const, Expr, Type
from lowwater.catalog.protocols import PROTOCOLS
from lowwater.catalog.schemas import TYPES
from lowwater.low import Bounds, LowSettings, needed_columns, run_link
from lowwater.plan.operators import Field, Item, Lfta, Partial
from lowwater.plan.temporal import CLOCK, END_OF_TIME, infer

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
SELECTED = ("timestamp", "srcIP", "destIP", "len")
SHARES = (0, 1, 10, 50, 75, 100)
"""Percent of the packets that a selection keeps."""
FLOWS = (1_000, 10_000, 100_000, 1_000_000)
"""Flows of the packets that an aggregation reads."""

PAPERS = "the papers: 760,000 to 800,000 packets/s of OOP-Gigascope at 260,000 groups (002, Figure 9), in 2008"
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


def flow_query(flows: int) -> Lfta:
    """Five-tuple in buckets of 10 s, packets and bytes."""
    bucket = Binary(Type.INT, "/", PROTOCOLS["ETH"].columns["time"], Const(Type.INT, 10))
    keys: dict[str, Expr] = {"tb": bucket, **{name: Column(TYPES[name], name) for name in FLOW}}
    length = Column(Type.INT, "len")
    parts = (Partial("cnt", "count", None, Type.INT), Partial("bytes", "sum", length, Type.INT))
    return _lfta(f"flows {flows:,}", keys, parts, None)


def selection_query(percent: int) -> Lfta:
    """Time, addresses and length of the packets below a length; the limit is a parameter, so they share a kernel."""
    limit = Const(Type.INT, 60 + 1440 * percent // 100, "limit")
    few = Binary(Type.BOOL, "<", Column(Type.INT, "len"), limit)
    return _lfta(f"selection {percent}%", {name: Column(TYPES[name], name) for name in SELECTED}, (), few)


def _best(work: Callable[[], object], repeat: int) -> tuple[float, float]:
    """Least seconds of the clock, and of all threads' processor time: the second is fair on a shared machine."""
    times = []
    for _ in range(repeat):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
    return min(wall for wall, _ in times), min(cpu for _, cpu in times)


def measure(count: int, rate: int, flows: int, repeat: int) -> list[dict[str, object]]:
    """Figures of each case: packets per second of the clock and of processor time, rows and bytes out, ejections."""
    figures = []
    for number in FLOWS:
        figures += _measured(packets(count, rate, number), [flow_query(number)], repeat)
    return figures + _measured(packets(count, rate, flows), [selection_query(percent) for percent in SHARES], repeat)


def _measured(table: pa.Table, queries: list[Lfta], repeat: int) -> list[dict[str, object]]:
    count, figures = len(table), list[dict[str, object]]()
    for query in queries:
        name = query.name
        batches = table.select(needed_columns([query])).to_batches()
        written: list[int] = []
        settings, bounds = LowSettings(skew=SECOND), Bounds({query.name: 0}, 0, END_OF_TIME)

        def write(_: str, batch: pa.RecordBatch, written: list[int] = written) -> None:
            written.append(batch.nbytes)

        statistics = run_link([query], "L", batches, bounds, settings, write).statistics[0]  # compiles
        ours = partial(run_link, [query], "L", batches, bounds, settings, lambda _, __: None)
        row: dict[str, object] = {"case": name, "packets": count}
        for peer, work in {"lowwater": ours, **_duckdb(table, name), **_polars(table, name)}.items():
            work()
            wall, cpu = _best(work, repeat)
            row |= {f"{peer}/s": round(count / wall), f"{peer}/cpu s": round(count / cpu)}
        rows = {"rows out": statistics.rows_out, "MB out": sum(written) >> 20, "ejections": statistics.ejections}
        figures.append(row | rows)
    return figures


def _limit(name: str) -> int:
    return 60 + 1440 * int(name.split()[1].rstrip("%")) // 100


WORDS = ("ipversion", "srcIP_hi", "srcIP_lo", "destIP_hi", "destIP_lo")


def _duckdb(table: pa.Table, name: str) -> dict[str, Callable[[], object]]:
    duck = duckdb.connect()
    duck.register("packets", table)
    words = ", ".join(WORDS)
    text = (
        f"SELECT timestamp // {10 * SECOND}, {words}, srcPort, destPort, protocol, count(*), sum(len) "
        "FROM packets WHERE ipversion >= 0 GROUP BY ALL"
        if name.startswith("flows")
        else f"SELECT timestamp, {words}, len FROM packets WHERE ipversion >= 0 AND len < {_limit(name)}"
    )
    return {"duckdb": lambda: duck.sql(text).to_arrow_table()}


def _polars(table: pa.Table, name: str) -> dict[str, Callable[[], object]]:
    try:
        polars: Any = import_module("polars")
    except ImportError:
        return {}
    rows, col = polars.from_arrow(table.drop_columns(["capture"])), polars.col
    known = rows.lazy().filter(col("ipversion") >= 0)
    if name.startswith("flows"):
        keys = [(col("timestamp") // (10 * SECOND)).alias("tb"), *WORDS, "srcPort", "destPort", "protocol"]
        plan = known.group_by(keys).agg(polars.len(), col("len").cast(polars.Int64).sum().alias("bytes"))
    else:
        plan = known.filter(col("len") < _limit(name)).select("timestamp", *WORDS, "len")
    return {"polars": plan.collect}


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packets", type=int, default=4_000_000)
    parser.add_argument("--rate", type=int, default=100_000, help="packets per second of link time")
    parser.add_argument("--flows", type=int, default=100_000, help="of the packets that selections read")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    figures = measure(given.packets, given.rate, given.flows, given.repeat)
    print("".join(f"{name:>16}" for name in figures[0]))
    for row in figures:
        print("".join(f"{value:>16,}" if isinstance(value, int) else f"{value:>16}" for value in row.values()))
    print(PAPERS)
    if given.json:
        machine = {"python": platform.python_version(), "machine": platform.machine(), "duckdb_threads": "default"}
        given.json.write_text(json.dumps({"machine": machine, "figures": figures}, indent=2) + "\n")


if __name__ == "__main__":
    main()
