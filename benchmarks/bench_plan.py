"""Seconds to parse and plan a set of 150 queries that read one another, beside DuckDB's parser and planner.

Run it from the repository: `python benchmarks/bench_plan.py [--queries N] [--json FILE]`. The queries are a chain of
filters, aggregations and projections; DuckDB has the same chain as views and explains the last. `joined` is a set in
which every third query joins two others, which a planner that inlines its queries cannot plan at all.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

from lowwater.plan.context import Links
from lowwater.plan.explain import explain
from lowwater.plan.queryset import Plan, plan_texts

PACKETS = "CREATE TABLE packets (time BIGINT, srcIP VARCHAR, destIP VARCHAR, len BIGINT)"


def chain(count: int, joined: bool) -> list[tuple[str, str]]:
    """The queries as GSQL and as the SQL of DuckDB's views."""
    columns = "tb, srcIP, destIP, sum(c) AS c, max(s) AS s"
    group = "GROUP BY tb, srcIP, destIP"
    first = "SELECT tb, srcIP, destIP, count(*) AS c, sum(len) AS s FROM"
    gsql = f"{first} TCP GROUP BY time/10 AS tb, srcIP, destIP"
    sql = f"{first} (SELECT *, time//10 AS tb FROM packets) {group}"
    queries = [(gsql, sql)]
    for at in range(1, count):
        below = f"q{at - 1}"
        if joined and at % 3 == 0:
            text = (
                "SELECT A.tb, A.srcIP, A.destIP, A.c + B.c AS c, B.s AS s "
                f"INNER_JOIN FROM {below} A, q{max(0, at - 2)} B WHERE A.tb = B.tb AND A.srcIP = B.srcIP"
            )
        elif at % 2:
            text = f"SELECT {columns} FROM {below} WHERE c > {at} {group} HAVING count(*) < 10000"
        else:
            text = f"SELECT tb, srcIP, destIP, c, s + 1 AS s FROM {below} WHERE srcIP <> '10.0.0.{at}'"
        queries.append((text, text))
    return queries


def plan(queries: list[tuple[str, str]]) -> Plan:
    """Parses and plans the GSQL."""
    text = ";\n".join(f"DEFINE {{ query_name 'q{at}'; }}\n{gsql}" for at, (gsql, _) in enumerate(queries))
    return plan_texts([("chain.gsql", text)], Links())


def duck(queries: list[tuple[str, str]]) -> int:
    """Makes the views and explains the last."""
    with duckdb.connect() as connection:
        connection.execute(PACKETS)
        for at, (_, sql) in enumerate(queries):
            connection.execute(f"CREATE VIEW q{at} AS {sql}")
        return len(connection.execute(f"EXPLAIN SELECT * FROM q{len(queries) - 1}").fetchall())


def _seconds(work: Callable[[], object], repeat: int) -> float:
    best = float("inf")
    for _ in range(repeat):
        begin = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begin)
    return best


def measure(count: int, repeat: int) -> dict[str, Any]:
    """Seconds of each, the least of some runs; the parser's tables are loaded before."""
    simple, joined = chain(count, False), chain(count, True)
    begin = time.perf_counter()
    planned = plan(joined)
    first = time.perf_counter() - begin
    found = {
        "queries": count,
        "first plan of the process": first,
        "plan": _seconds(lambda: plan(simple), repeat),
        "plan, joined": _seconds(lambda: plan(joined), repeat),
        "explain, joined": _seconds(lambda: explain(planned), repeat),
        "duckdb": _seconds(lambda: duck(simple), repeat),
    }
    return {**found, "ratio to duckdb": found["plan"] / found["duckdb"]}


def main() -> None:
    """Prints the figures, and writes them as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=150)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = measure(options.queries, options.repeat)
    for name, value in found.items():
        print(f"{name:28} {value:.3f}" if isinstance(value, float) else f"{name:28} {value}")
    if options.json:
        options.json.write_text(json.dumps({"machine": platform.platform(), "results": found}, indent=2))


if __name__ == "__main__":
    main()
