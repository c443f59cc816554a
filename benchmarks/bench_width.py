"""How wide an epoch is: the seconds of its parts, and how busy a cluster of many cores would be with them.

`python -m benchmarks.bench_width [--rows N] [--cores N] [--threads]`. The parts of one hour in 64 shares are evaluated
one after another; the simulation gives each to the first core that is free, stage after stage. `--threads` also runs
the hour on one thread and on two.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.parts import Measured, Step, simulated
from lowwater.catalog.schemas import PUNCTUATION, ROW, STREAM_TYPES
from lowwater.catalog.values import Type
from lowwater.columns.files import StreamWriter
from lowwater.high.process import InProcess
from lowwater.high.query_runs import HighLevel, HighSettings
from lowwater.plan.context import Links
from lowwater.plan.operators import Lfta
from lowwater.plan.properties import stream_schema
from lowwater.plan.queryset import Plan, plan_texts
from lowwater.plan.shares import low_shares, undivided_spans

HOUR = 3_600_000_000_000
START = 490_000 * HOUR
BATCH = 1 << 19
_KEYS = "srcIP, destIP, srcPort, destPort, protocol"
_FLOWS = (
    "DEFINE {{ query_name '{0}'; visibility '{2}'; }} "
    f"SELECT tb, {_KEYS}, count(*) AS n, sum(len) AS l FROM {{1}}.DataProtocol GROUP BY time/3600 AS tb, {_KEYS};\n"
)
_PAIR = _FLOWS.format("a", "main1", "internal") + _FLOWS.format("b", "main2", "internal")
_EQUAL = " AND ".join(f"A.{name} = B.{name}" for name in _KEYS.split(", "))
QUERIES = {
    "groups": _FLOWS.format("q", "main1", "external"),
    "chain": _FLOWS.format("f", "main1", "internal")
    + "DEFINE { query_name 'q'; } SELECT tb, srcIP, sum(n) AS n FROM f GROUP BY tb, srcIP;",
    "join": _PAIR
    + "DEFINE { query_name 'q'; } SELECT A.tb, A.srcIP, A.n, B.n AS m OUTER_JOIN FROM a A, b B "
    + f"WHERE A.tb = B.tb AND {_EQUAL};",
    "band": _PAIR
    + "DEFINE { query_name 'q'; } SELECT A.tb, B.tb AS t, A.srcIP, A.n, B.n AS m INNER_JOIN FROM a A, b B "
    + f"WHERE A.tb - 1 <= B.tb AND B.tb <= A.tb + 1 AND {_EQUAL};",
    "cube": "DEFINE { query_name 'q'; } SELECT tb, srcIP, destPort, count(*) AS n, avg(len) AS l "
    "FROM main1.DataProtocol GROUP BY time/3600 AS tb, CUBE(srcIP, destPort);",
    "closing": f"DEFINE {{ query_name 'q'; }} SELECT tb, {_KEYS}, count(*) AS n, sum(len) AS l "
    f"FROM main1.DataProtocol GROUP BY time/3600 AS tb, {_KEYS} CLOSING_WHEN count(*) >= 1000;",
    "total": "DEFINE { query_name 'q'; } SELECT tb, sum(n) AS n, max(l) AS l FROM f GROUP BY tb;"
    + _FLOWS.format("f", "main1", "internal"),
}


def addresses(numbers: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
    """IPv4 addresses in the form of streams."""
    data = np.empty((len(numbers), 5), np.uint8)
    data[:, 0] = 4
    data[:, 1:] = (numbers.astype(">u4")).view(np.uint8).reshape(-1, 4)
    offsets = pa.py_buffer(np.arange(0, 5 * len(numbers) + 1, 5, dtype=np.int32))
    return pa.Array.from_buffers(pa.binary(), len(numbers), [None, offsets, pa.py_buffer(data)])


def batches(lfta: Lfta, rows: int, seed: int) -> Iterator[pa.RecordBatch]:
    """Rows of an LFTA in one hour, as collisions and the end of the hour let them go: four fifths are flows of their
    own, and hosts have a heavy tail."""
    random = np.random.default_rng(seed)
    schema = stream_schema(lfta.fields)
    end = START + HOUR
    for begin in range(0, rows, BATCH):
        size = min(BATCH, rows - begin)
        flow = random.integers(0, 4 * rows, size)
        spread = flow * np.int64(0x9E3779B97F4A7C15 - (1 << 64)) >> np.int64(24)
        values = {
            "srcIP": addresses(np.abs(spread) % 100_003 + 0x0A000000),
            "destIP": addresses(np.abs(spread // 7) % 50_021 + 0x0B000000),
            "srcPort": pa.array(flow % 60_000),
            "destPort": pa.array(np.minimum(random.zipf(1.3, size), 1000)),
            "protocol": pa.array(np.where(flow % 5, 6, 17)),
        }
        columns = []
        for field in lfta.fields:
            if field.temporal is not None:
                columns.append(pa.repeat(pa.scalar(field.temporal.promise(START)), size))
            else:
                number = pa.array(random.integers(1, 1500, size))
                columns.append(values.get(field.name, number).cast(STREAM_TYPES[Type(field.type)]))
        tick = pa.repeat(pa.scalar(end, pa.int64()), size)
        control = [pa.repeat(pa.scalar(end - 1), size), pa.repeat(pa.scalar(ROW), size), tick, tick]
        yield pa.record_batch([*columns, *control, pa.repeat(pa.scalar(0, pa.int64()), size)], schema=schema)
    said = [field.temporal.promise(end) if field.temporal else None for field in lfta.fields]
    mark = [*said, end, PUNCTUATION, end, end, 0]
    yield pa.record_batch(
        [pa.array([value], field.type) for value, field in zip(mark, schema, strict=True)], schema=schema
    )


def written(plan: Plan, folder: Path, rows: int) -> dict[tuple[str, str], list[str]]:
    """The streams of all LFTAs, four files each, as the low stage leaves them."""
    plans = [query.high for query in plan.queries]
    keys, spans = low_shares(plans), undivided_spans(plans)
    files: dict[tuple[str, str], list[str]] = {}
    for seed, lfta in enumerate(plan.lftas):
        for at in range(4):
            shares = keys.get(lfta.name, ())
            sink = StreamWriter(
                folder / lfta.name / f"{at}.parquet", stream_schema(lfta.fields), shares, spans[lfta.name]
            )
            for batch in batches(lfta, rows // 4, 10 * seed + at):
                sink.write(batch)
            sink.close()
            files.setdefault((lfta.name, lfta.links[0]), []).append(str(sink.path))
    return files


def main() -> None:
    """Prints a line for each query."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of LFTAs, of all sides of a join together")
    parser.add_argument("--shares", type=int, default=64, help="of the hour")
    parser.add_argument("--cores", type=int, default=64, help="of the simulation")
    parser.add_argument("--times", type=int, default=3, help="evaluations of each part, of which the shortest counts")
    parser.add_argument("--query", choices=list(QUERIES), action="append")
    parser.add_argument("--threads", action="store_true", help="also seconds of the clock on one thread and on two")
    options = parser.parse_args()
    for name in options.query or QUERIES:
        plan = plan_texts([("q.gsql", QUERIES[name])], Links(("main1", "main2")))
        queries = {query.name: query.high for query in plan.queries if query.name == "q"}
        with tempfile.TemporaryDirectory() as folder:
            begin = time.process_time()
            files = written(plan, Path(folder), options.rows // len(plan.lftas))
            written_in = time.process_time() - begin
            runner = Measured(options.times)
            shares, bounds = HighSettings(shares=options.shares), (START, START + HOUR)
            (result,) = runner.run(HighLevel(queries, files, *bounds, Path(folder) / "one", shares)).values()
            steps = [Step(each.seconds, [at - 1] if at else []) for at, each in enumerate(runner.rounds)]
            span, busy = simulated(steps, options.cores)
            print(f"{name}: {options.rows:,} rows, written in {written_in:.1f} s, {result.rows:,} rows out")
            for each in runner.rounds:
                seconds, read = each.seconds, each.rows
                mean, rows = sum(seconds) / len(seconds), sum(read) / len(read)
                print(
                    f"  {len(seconds)} parts, {sum(seconds):.1f} s: mean {mean:.3f}, longest {max(seconds):.3f}, "
                    f"longest/mean {max(seconds) / mean:.2f}, of rows {max(read) / rows:.2f}"
                )
            print(f"  {options.cores} cores: {span:.2f} s, {busy:.0%} busy")
            if options.threads:
                spent = []
                for threads in (1, 2):
                    clock = time.monotonic()
                    InProcess(threads).run(HighLevel(queries, files, *bounds, Path(folder) / f"of{threads}"))
                    spent.append(time.monotonic() - clock)
                one, two = spent
                print(f"  1 thread {one:.1f} s, 2 threads {two:.1f} s: {one / two:.2f} times as fast")


if __name__ == "__main__":
    main()
