"""Flows and their outer join on real and generated captures: Spark gives the rows of tshark's fields in DuckDB."""

from __future__ import annotations

import csv
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from lowwater_generator import GeneratedCapture

from lowwater.config import Config, Link
from lowwater.plan.context import Links
from lowwater.plan.queryset import plan_files
from lowwater.replay.progress import Progress
from lowwater.replay.run_command import RunRequest, run
from tests.replay.support import LINKS, QUERIES, SETS

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is absent: apt install tshark"),
]
NODES = "traffic/DSPJ2021+benchmark-data__20210929-11-experiment-baseline-with-latency-6__node_*.pcap"
SKEW = 1_000_000_000
FIELDS = ["frame.number", "frame.time_epoch", "ip.src", "ip.dst", "ipv6.src", "ipv6.dst", "ip.proto", "ipv6.nxt"]
FIELDS += ["tcp.srcport", "tcp.dstport", "udp.srcport", "udp.dstport"]
# An ICMP error quotes the packet that it is about, and tshark shows that one's ports too: only TCP and UDP have ports.
PACKETS = f"""
CREATE TABLE packets AS
WITH records AS (
    SELECT link, part::BIGINT AS part, "frame.number"::BIGINT AS number,
        split_part("frame.time_epoch", '.', 1)::BIGINT * 1000000000
            + rpad(split_part("frame.time_epoch", '.', 2), 9, '0')::BIGINT AS ts,
        coalesce("ip.proto", "ipv6.nxt")::INT AS protocol,
        coalesce("ip.src", "ipv6.src") AS src, coalesce("ip.dst", "ipv6.dst") AS dest,
        coalesce("tcp.srcport", "udp.srcport")::INT AS sport, coalesce("tcp.dstport", "udp.dstport")::INT AS dport
    FROM fields
), arrivals AS (
    SELECT *, max(ts) OVER (PARTITION BY link ORDER BY part, number) AS arrival FROM records
)
SELECT link, ts // 10000000000 AS tb, protocol, src, dest,
    CASE WHEN protocol IN (6, 17) THEN sport END AS sport, CASE WHEN protocol IN (6, 17) THEN dport END AS dport
FROM arrivals WHERE arrival - ts <= {SKEW} AND src IS NOT NULL
"""
FLOWS = "SELECT tb, protocol, src, dest, sport, dport, count(*) AS cnt FROM packets WHERE link IN ({}) GROUP BY ALL"
FULL_FLOW = """
SELECT coalesce(a.tb, b.tb), coalesce(a.protocol, b.protocol), coalesce(a.src, b.src), coalesce(a.dest, b.dest),
    coalesce(a.sport, b.sport), coalesce(a.dport, b.dport), a.cnt, b.cnt
FROM ({left}) a FULL OUTER JOIN ({right}) b ON a.tb = b.tb AND a.protocol = b.protocol AND a.src = b.src
    AND a.dest = b.dest AND a.sport IS NOT DISTINCT FROM b.sport AND a.dport IS NOT DISTINCT FROM b.dport
"""
Captures = list[tuple[str, Path]]
Sets = dict[str, tuple[str, ...]]


def tshark_rows(path: Path) -> Iterator[list[str]]:
    """The fields of each whole record; tshark ends with code 2 where a capture is cut, and has told the rest."""
    options = [part for name in FIELDS for part in ("-e", name)]
    command = ["tshark", "-n", "-r", str(path), "-o", "ip.defragment:FALSE", "-T", "fields", "-E", "separator=|"]
    done = subprocess.run([*command, "-E", "occurrence=f", *options], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 or "cut short" in done.stderr, done.stderr
    return csv.reader(done.stdout.splitlines(), delimiter="|")


def oracle(captures: Captures, folder: Path) -> duckdb.DuckDBPyConnection:
    """A DuckDB with the admitted packets of the captures as table `packets`."""
    path = folder / "fields.csv"
    with path.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["link", "part", *FIELDS])
        for part, (link, capture) in enumerate(captures):
            writer.writerows([link, part, *row] for row in tshark_rows(capture))
    connection = duckdb.connect()
    connection.execute("CREATE TABLE fields AS SELECT * FROM read_csv(?, header=true, all_varchar=true)", [str(path)])
    connection.execute(PACKETS)
    return connection


def sql_rows(connection: duckdb.DuckDBPyConnection, query: str) -> Counter[tuple[str, ...]]:
    return Counter(tuple("" if v is None else str(v) for v in row) for row in connection.execute(query).fetchall())


def links_in(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def rows_of_run(
    runner: Runner, name: str, captures: Captures, sets: Sets, folder: Path
) -> tuple[Counter[tuple[str, ...]], dict[str, Any]]:
    """The rows of a query file over captures, and the summary."""
    known = tuple(sorted({link for link, _ in captures}))
    config = Config(links={link: Link() for link in known}, sets=sets)
    plan = plan_files([QUERIES / f"{name}.gsql"], Links(known, sets))
    summary = run(RunRequest(plan, config, captures, folder), Progress(quiet=True), runner)
    with (folder / f"{name}.csv").open(newline="") as file:
        rows = csv.reader(file)
        next(rows)
        return Counter(tuple(row) for row in rows), summary


def compare(runner: Runner, captures: Captures, sets: Sets, folder: Path) -> dict[str, Any]:
    """Both queries on both sides; gives the summary of the flows."""
    known = sorted({link for link, _ in captures})
    with oracle(captures, folder) as connection:
        flows, summary = rows_of_run(runner, "flows", captures, sets, folder / "flows")
        expected = sql_rows(connection, FLOWS.format(links_in(known)))
        assert len(expected) > 100
        assert flows == expected
        left, right = FLOWS.format(links_in(sets["main0_and_control"])), FLOWS.format("'main2'")
        joined, _ = rows_of_run(runner, "full_flow", captures, sets, folder / "join")
        expected = sql_rows(connection, FULL_FLOW.format(left=left, right=right))
        assert len(expected) > 100
        assert joined == expected
    return summary


@pytest.mark.nightly
@pytest.mark.captures
def test_six_nodes(runner: Runner, captures_dir: Path, tmp_path: Path) -> None:
    files = sorted(captures_dir.glob(NODES))
    assert len(files) == 6
    names = ("node1", "main2", "node3", "node4", "node5", "node6")
    sets: Sets = {"main0_and_control": ("node1", "node3")}
    summary = compare(runner, list(zip(names, files, strict=True)), sets, tmp_path)
    assert all(link["read"] == link["sane"] > 0 for link in summary["links"].values())


def test_generated_captures(runner: Runner, captures: list[GeneratedCapture], tmp_path: Path) -> None:
    chosen = [(each.link, each.path) for each in captures if each.packets]
    summary = compare(runner, chosen, SETS, tmp_path)
    for link in LINKS:
        mine = [each for each in captures if each.link == link]
        counts = summary["links"][link]
        assert counts["violating"] == sum(each.violations for each in mine)
        assert counts["sane"] == sum(each.packets for each in mine) - counts["violating"]
        assert counts["malformed"] == sum(each.cut for each in mine)
