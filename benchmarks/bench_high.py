"""Rows per second and peak state of the high level, beside the same queries by hand in PySpark and DuckDB.

Run `python -m benchmarks.bench_high [--rows N] [--query NAME] [--json FILE]`. Every engine reads the same parquet
files, the rows that the low level would leave, and writes its result as parquet. PySpark runs a query as a batch, and
as a stream in as many micro-batches as the replay has; DuckDB runs it once. `fixed` is the high stage over a thousand
rows, `marginal` the rate between a quarter of the rows and all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.peers.session import session
from lowwater.catalog.expr import Type
from lowwater.catalog.schemas import PUNCTUATION, ROW
from lowwater.high.process import InProcess
from lowwater.high.query_runs import HighLevel, HighResult, HighSettings
from lowwater.plan.context import Links
from lowwater.plan.operators import Lfta
from lowwater.plan.properties import stream_schema
from lowwater.plan.queryset import Plan, plan_texts

SECOND = 1_000_000_000
START = 1_767_225_600
SPAN = 3600
END = START + SPAN + 100
"""Second that the streams promise in the end; windows of joins have ended."""
ROOT = Path(__file__).resolve().parents[1]
SETS = {"main0_and_control": ("control", "main0"), "all": ("control", "main0", "main1")}
KNOWN = Links(SETS["all"], SETS)
FLOWS = 20_000
MOST_ROWS = 2_000_000
"""Rows of a micro-batch of a stream by hand."""
MERGE, EACH, PORTS, SLIDING, OUTER = "merge", "a group a row", "ports", "sliding", "outer join"
BAND, OUTER_BAND = "band join", "outer band join"
FLOW = "protocol, srcIP, destIP, srcPort, destPort"


@dataclass(frozen=True)
class Subject:
    """A query in all its forms.

    Attributes:
        text: in GSQL.
        sql: for DuckDB and Spark over views that are named as the LFTAs; `_et` is the event time of a stream.
        streamed: the same as PySpark streams it, where SQL alone does not say the watermark's column.
        most: rows that it is given: by hand a band takes time by the square of the rows of a key.
        flows: of equal weight, so many that nearly each row is a group of its own; 0 for a heavy tail of few.
    """

    text: str
    sql: str
    streamed: str
    most: int = 1 << 62
    flows: int = 0


def _sum(window: str) -> str:
    return f"SELECT {window} tb, {FLOW}, sum(agg0) AS cnt FROM {{}} GROUP BY {window} tb, {FLOW}"


_PANES = "unnest(generate_series(_pane - 5, _pane))"
_SIDES = "(" + _sum("{0}").replace("{}", "flow1") + ") A {1} (" + _sum("{0}").replace("{}", "flow2") + ") B"
_MEET = " AND ".join(f"A.{name} = B.{name}" for name in FLOW.split(", "))
_OUTER = f"SELECT A.*, B.cnt AS other FROM {_SIDES} ON A.tb = B.tb AND {_MEET}"


def _band(name: str, keyword: str, join: str) -> Subject:
    """A band of a second to either side."""
    text = (
        f"DEFINE{{query_name '{name}';}} SELECT A.time AS ta, B.time AS tb, A.srcIP, A.srcPort {keyword} "
        "FROM main0.TCP A, main1.TCP B WHERE A.time - 1 <= B.time AND B.time <= A.time + 1 "
        "AND A.srcIP = B.destIP AND A.srcPort = B.destPort"
    )
    sql = (
        f'SELECT A.time AS ta, B.time AS tb, A.srcIP, A.srcPort FROM "{name}.A" A {join} "{name}.B" B '
        "ON A.srcIP = B.destIP AND A.srcPort = B.destPort AND "
    )
    batch = "B.time BETWEEN A.time - 1 AND A.time + 1"
    streamed = "B._et BETWEEN A._et - interval 1 second AND A._et + interval 1 second"
    return Subject(text, sql + batch, sql + streamed, 100_000)


SUBJECTS = {
    MERGE: Subject(
        (ROOT / "queries" / "seeds" / "000-7.1.gsql").read_text(encoding="utf-8"),
        _sum("").format("flows"),
        _sum("window(_et, '10 seconds'),").format("flows"),
    ),
    EACH: Subject(
        (ROOT / "queries" / "flows.gsql").read_text(encoding="utf-8"),
        _sum("").format("flows"),
        _sum("window(_et, '10 seconds'),").format("flows"),
        flows=2_000_000,
    ),
    PORTS: Subject(
        "DEFINE{query_name 'p';} SELECT tb, destPort, count(*) AS n FROM [all].DataProtocol "
        "GROUP BY time/10 AS tb, destPort",
        "SELECT tb, destPort, sum(agg0) AS n FROM p GROUP BY tb, destPort",
        "SELECT window(_et, '10 seconds') AS tb, destPort, sum(agg0) AS n FROM p "
        "GROUP BY window(_et, '10 seconds'), destPort",
    ),
    SLIDING: Subject(
        "DEFINE{query_name 's';} SELECT wid, destPort, count(*) AS n FROM [all].DataProtocol "
        "[RANGE 60 s, SLIDE 10 s, WA time] GROUP BY destPort",
        f"SELECT w, destPort, sum(agg0) AS n FROM (SELECT {_PANES} AS w, destPort, agg0 FROM s) GROUP BY w, destPort",
        "SELECT window(_et, '60 seconds', '10 seconds') AS w, destPort, sum(agg0) AS n FROM s "
        "GROUP BY window(_et, '60 seconds', '10 seconds'), destPort",
    ),
    OUTER: Subject(
        (ROOT / "queries" / "seeds" / "000-7.2.gsql").read_text(encoding="utf-8"),
        _OUTER.format("", "FULL JOIN"),
        _OUTER.format("window(_et, '10 seconds') AS w,", "FULL JOIN").replace(
            "GROUP BY window(_et, '10 seconds') AS w,", "GROUP BY window(_et, '10 seconds'),"
        )
        + " AND A.w = B.w",
    ),
    BAND: _band("b", "INNER_JOIN", "JOIN"),
    OUTER_BAND: _band("c", "OUTER_JOIN", "FULL JOIN"),
}


def write_lfta(folder: Path, lfta: Lfta, link: str, rows: int, seed: int, flows: int = 0) -> Path:
    """The stream of an LFTA on a link over an hour: rows of flows (see `Subject`), every ten seconds a promise."""
    random = np.random.default_rng(seed)
    seconds = START + np.sort(random.integers(0, SPAN, rows))
    flow = random.integers(0, flows, rows) if flows else np.minimum(random.zipf(1.2, rows), FLOWS)
    columns: dict[str, pa.Array] = {}
    last = np.full(rows, np.iinfo(np.int64).max)
    distinct, at = np.unique(seconds, return_inverse=True)
    for field in lfta.fields:
        if field.temporal is not None:
            values = [field.temporal.promise(int(second) * SECOND) for second in distinct]
            assert all(value is not None for value in values)
            columns[field.name] = pa.array(np.array(values, np.int64)[at])
            last = np.minimum(last, np.array([field.temporal.last(value) for value in values], np.int64)[at])
        elif field.type is Type.IP:
            names = pa.array(
                [b"\x04\x0a" + number.to_bytes(3, "big") for number in range((flows or FLOWS) + 1)], pa.binary()
            )
            columns[field.name] = names.take(pa.array(flow))
        else:
            columns[field.name] = pa.array(flow % 1000)
    ticks = (last // SECOND // 10 + 1) * 10 * SECOND
    order = np.argsort(ticks, kind="stable")
    control = {
        "_last": last,
        "_kind": np.full(rows, ROW),
        "_tick": ticks,
        "_until": ticks,
        "_period": np.zeros(rows, int),
    }
    schema = stream_schema(lfta.fields)
    data = pa.table({**columns, **{name: pa.array(value) for name, value in control.items()}}).cast(schema).take(order)
    marks = [
        {"_last": tick, "_kind": PUNCTUATION, "_tick": tick, "_until": tick, "_period": 0}
        | {field.name: field.temporal.promise(tick) for field in lfta.fields if field.temporal}
        for tick in range(START * SECOND, (END + 10) * SECOND, 10 * SECOND)
    ]
    both = pa.concat_tables([data, pa.Table.from_pylist(marks, schema)])
    file = folder / f"{lfta.name}-{link}.parquet"
    # Rows of a tick come before its promise.
    placed = np.lexsort((np.arange(both.num_rows), both["_tick"].to_numpy()))
    pq.write_table(both.take(placed), file, row_group_size=131_072)
    return file


def in_lowwater(
    plan: Plan, files: dict[tuple[str, str], list[str]], folder: Path, settings: HighSettings
) -> tuple[float, HighResult]:
    """Seconds of the high stage, and its result."""
    queries = {query.name: query.high for query in plan.queries}
    begin = time.monotonic()
    (result,) = InProcess().run(HighLevel(queries, files, 0, END * SECOND, folder, settings)).values()
    if not isinstance(result, HighResult):
        raise result
    return time.monotonic() - begin, result


def _by_name(sql: str) -> str:
    """The text with the names of the views that Spark has of LFTAs of joins."""
    return re.sub(r'"(\w)\.(\w)"', r"\1_\2", sql)


def in_spark(spark: Any, sql: str, views: dict[str, Any], folder: Path) -> float:
    """Seconds of a batch query of PySpark."""
    begin = time.monotonic()
    for name, frame in views.items():
        frame.createOrReplaceTempView(name.replace(".", "_"))
    text = sql.replace(_PANES, "explode(sequence(_pane - 5, _pane))")
    spark.sql(_by_name(text)).write.parquet(str(folder / "batch"))
    return time.monotonic() - begin


def in_stream(spark: Any, sql: str, views: dict[str, Any], folder: Path) -> tuple[float, int] | None:
    """Seconds of the same query as a stream of PySpark, and its peak state in rows; None if Spark gives it up."""
    begin = time.monotonic()
    for name, frame in views.items():
        timed = frame.selectExpr("*", "timestamp_micros(_last div 1000) AS _et").withWatermark("_et", "20 seconds")
        timed.createOrReplaceTempView(name.replace(".", "_"))
    frame = spark.sql(_by_name(sql))
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.option("path", str(folder / "stream")).trigger(availableNow=True).start()
    while query.isActive:
        time.sleep(0.01)
    if query.exception() is not None:
        return None
    progress = [json.loads(each.json) for each in query.recentProgress]
    return time.monotonic() - begin, max(sum(s["numRowsTotal"] for s in each["stateOperators"]) for each in progress)


def in_duckdb(sql: str, views: dict[str, list[str]], folder: Path) -> float:
    """Seconds of DuckDB."""
    begin = time.monotonic()
    with duckdb.connect(config={"threads": os.cpu_count() or 1}) as connection:
        for name, files in views.items():
            listed = ", ".join(f"'{file}'" for file in files)
            connection.execute(
                f"CREATE VIEW \"{name}\" AS SELECT * FROM read_parquet([{listed}]) WHERE _kind = '{ROW}'"
            )
        connection.execute(f"COPY ({sql}) TO '{folder / 'duckdb.parquet'}'")
    return time.monotonic() - begin


def measure(spark: Any, name: str, rows: int, folder: Path, settings: HighSettings) -> dict[str, Any]:
    """One query on every engine, over `rows` rows in all."""
    subject = SUBJECTS[name]
    plan = plan_texts([(f"{name}.gsql", subject.text)], KNOWN)
    instances = [(lfta, link) for lfta in plan.lftas for link in lfta.links]
    share = rows // len(instances)
    (folder / "few").mkdir()
    files = {
        (lfta.name, link): [str(write_lfta(folder, lfta, link, share, seed, subject.flows))]
        for seed, (lfta, link) in enumerate(instances)
    }
    by_lfta = {
        lfta.name: [file for (owner, _), each in files.items() if owner == lfta.name for file in each]
        for lfta in plan.lftas
    }
    few = {
        (lfta.name, link): [str(write_lfta(folder / "few", lfta, link, share // 4, seed, subject.flows))]
        for seed, (lfta, link) in enumerate(instances)
    }
    few_s, _ = in_lowwater(plan, few, folder / "few" / "lowwater", settings)
    seconds, result = in_lowwater(plan, files, folder / "lowwater", settings)
    chosen = {"spark.sql.shuffle.partitions": "2", "spark.sql.adaptive.enabled": "false"}
    own = spark.newSession()
    for key, value in chosen.items():
        own.conf.set(key, value)
    batch = {each: own.read.parquet(*paths).where(f"_kind = '{ROW}'") for each, paths in by_lfta.items()}
    batch_s = in_spark(own, subject.sql, batch, folder)
    streams = {}
    for each, paths in by_lfta.items():
        batches = max(1, -(-share * len(instances) // MOST_ROWS))
        parts = split_by_time(paths, folder / "parts" / each, batches)
        reader = own.readStream.schema(batch[each].schema).option("maxFilesPerTrigger", 1)
        streams[each] = reader.parquet(str(parts)).where(f"_kind = '{ROW}'")
    streamed = in_stream(session, subject.streamed, streams, folder)
    stream_s, stream_state = streamed or (None, None)
    duckdb_s = in_duckdb(subject.sql, by_lfta, folder)
    rate = share * len(instances) / seconds
    return {
        "query": name,
        "rows": share * len(instances),
        "rows_out": result.rows,
        "rows_per_s": round(rate),
        "marginal_rows_per_s": round(0.75 * share * len(instances) / max(seconds - few_s, 1e-3)),
        "batches": result.batches,
        "peak_state": result.state_rows,
        "seconds": round(seconds, 2),
        "pyspark_batch_s": round(batch_s, 2),
        "pyspark_stream_s": None if stream_s is None else round(stream_s, 2),
        "pyspark_stream_state": stream_state,
        "duckdb_s": round(duckdb_s, 2),
        "beside_batch": round(batch_s / seconds, 2),
        "beside_stream": None if stream_s is None else round(stream_s / seconds, 2),
        "beside_duckdb": round(duckdb_s / seconds, 2),
    }


def split_by_time(files: list[str], folder: Path, count: int) -> Path:
    """The rows of some files in as many files, one after another in time."""
    table = pa.concat_tables([pq.ParquetFile(file).read() for file in files]).sort_by("_tick")
    folder.mkdir(parents=True)
    size = -(-table.num_rows // count)
    for number in range(count):
        pq.write_table(table.slice(number * size, size), folder / f"{number:03d}.parquet")
    return folder


def main() -> None:
    """Prints a line a query."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000, help="that every query reads")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    parser.add_argument("--query", action="append", choices=sorted(SUBJECTS), help="default: all")
    options = parser.parse_args()
    begin = time.monotonic()
    scratch = Path(tempfile.mkdtemp(prefix="lowwater-bench-"))
    spark = session("lowwater bench", scratch, 2)
    figures: dict[str, Any] = {"machine": f"{platform.machine()}, {os.cpu_count()} cores", "runs": []}
    figures["session_s"] = round(time.monotonic() - begin, 2)
    print(f"session {figures['session_s']} s")
    for name in (MERGE, *(options.query or SUBJECTS)):
        rows = min(options.rows, SUBJECTS[name].most) if figures["runs"] else 1000
        folder = Path(tempfile.mkdtemp(prefix="lowwater-bench-"))
        try:
            found = measure(spark, name, rows, folder, HighSettings())
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        figures["runs"].append(found)
        print(", ".join(f"{key} {value}" for key, value in found.items()), flush=True)
    figures["fixed_s"] = figures["runs"][0]["seconds"]
    spark.stop()
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
