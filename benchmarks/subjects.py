"""The queries of `bench_end` in all their forms: GSQL for Lowwater, SQL over `packets` for the peers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KEY = ("protocol", "srcIP_hi", "srcIP_lo", "destIP_hi", "destIP_lo", "srcPort", "destPort")
COLUMNS = ("timestamp", "link", "ipversion", *KEY)
"""Columns of the lake's packets that the SQL reads. An address is two integers and the IP version."""

_FLOW = ", ".join(("ipversion", *KEY))
# NULL equals NULL, and a key that its own side misses is that of the other side: rule V1 of docs/semantics.md.
_KEYS = ", ".join(f"coalesce(A.{name}, B.{name}) AS {name}" for name in ("tb", "ipversion", *KEY))
_MEET = " AND ".join(f"A.{name} IS NOT DISTINCT FROM B.{name}" for name in ("tb", "ipversion", *KEY))


def _epoch(seconds: int) -> str:
    return f"CAST(floor(timestamp / {seconds}000000000) AS BIGINT)"


def _flows(link: str | None, seconds: int = 10) -> str:
    where = f" AND link = '{link}'" if link else ""
    tb = _epoch(seconds)
    return (
        f"SELECT {tb} AS tb, {_FLOW}, count(*) AS cnt FROM packets WHERE ipversion IS NOT NULL{where} "
        f"GROUP BY {tb}, {_FLOW}"
    )


@dataclass(frozen=True)
class Subject:
    """A query.

    Attributes:
        file: GSQL text.
        output: name of the output query whose rows are compared.
        count: SQL expression over the output: packets that its rows count.
        sql: the same query over a view `packets` (see `COLUMNS`) for DuckDB and Spark.
        epoch: seconds of a group; 0 for the join.
        keys: columns that the groups have beside the epoch, for engines that are called without SQL.
        links: that the query reads; empty for all.
    """

    file: Path
    output: str
    count: str
    sql: str
    epoch: int
    keys: tuple[str, ...] = ()
    links: tuple[str, ...] = ()


SUBJECTS = {
    "ports": Subject(
        ROOT / "benchmarks" / "queries" / "ports.gsql",
        "ports",
        "sum(cnt)",
        f"SELECT {_epoch(60)} AS tb, destPort, count(*) AS cnt FROM packets WHERE ipversion IS NOT NULL "
        f"GROUP BY {_epoch(60)}, destPort",
        60,
        ("destPort",),
    ),
    "flows": Subject(ROOT / "queries" / "flows.gsql", "flows", "sum(cnt)", _flows(None), 10, ("ipversion", *KEY)),
    "hourly": Subject(
        ROOT / "benchmarks" / "queries" / "hourly.gsql",
        "hourly",
        "sum(cnt)",
        _flows(None, 3600),
        3600,
        ("ipversion", *KEY),
    ),
    "outer": Subject(
        ROOT / "benchmarks" / "queries" / "outer.gsql",
        "full_flow",
        "sum(coalesce(cnt1, 0) + coalesce(cnt2, 0))",
        f"SELECT {_KEYS}, A.cnt AS cnt1, B.cnt AS cnt2 "
        f"FROM ({_flows('main1')}) A FULL JOIN ({_flows('main2')}) B ON {_MEET}",
        0,
        (),
        ("main1", "main2"),
    ),
}
