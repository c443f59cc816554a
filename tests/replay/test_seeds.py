"""The queries of the papers over packets, on both engines, beside SQL that is written from the papers' words."""

from __future__ import annotations

import csv
import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from lowwater.catalog.declared import load_functions
from lowwater.config import Config, Link
from lowwater.gsql.declarations import parse_declarations
from lowwater.plan.context import Context, Links
from lowwater.plan.queryset import Plan, plan_files
from lowwater.replay.lowered import require_lowered
from lowwater.replay.progress import Progress
from lowwater.replay.scratch import Request, run
from tests.capturemaker import ACK, FIN, SYN, icmp, pcap_bytes, tcp, udp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
SEEDS = ROOT / "queries" / "seeds"
SETS = {"main0_and_control": ("main0", "control")}
LINKS = ["A", "B", "C", "Control", "D", "M", "M1", "M2", "Main1", "Main2", "PKT1", "PKT2", "S0", "S1", "control"]
LINKS += ["interface1", "interface2", "main0", "main1", "main2"]
BEGIN = 1_000_000
HOSTS = [f"10.0.0.{n}" for n in range(1, 3)]

FLOW = "srcIP, destIP, srcPort, destPort"
TURNED = (
    "a.srcIP = b.destIP AND a.destIP = b.srcIP AND a.srcPort IS NOT DISTINCT FROM b.destPort "
    "AND a.destPort IS NOT DISTINCT FROM b.srcPort"
)
FLOWS = f"SELECT time // 10, protocol, {FLOW}, count(*) FROM p WHERE link IN ({{links}}) GROUP BY ALL ORDER BY ALL"
BESIDE = (
    "SELECT coalesce(a.tb, b.tb), coalesce(a.protocol, b.protocol), coalesce(a.srcIP, b.srcIP), "
    "coalesce(a.destIP, b.destIP), coalesce(a.srcPort, b.srcPort), coalesce(a.destPort, b.destPort), a.cnt, b.cnt "
    f"FROM (SELECT time // 10 AS tb, protocol, {FLOW}, count(*) AS cnt FROM p WHERE link IN ('main0', 'control') "
    f"GROUP BY ALL) a FULL JOIN (SELECT time // 10 AS tb, protocol, {FLOW}, count(*) AS cnt FROM p "
    "WHERE link = 'main1' GROUP BY ALL) b ON a.tb = b.tb AND a.protocol = b.protocol AND a.srcIP = b.srcIP AND "
    "a.destIP = b.destIP AND a.srcPort IS NOT DISTINCT FROM b.srcPort AND a.destPort IS NOT DISTINCT FROM b.destPort"
)
EVERY = ", ".join(f"'{link}'" for link in LINKS)
SQL = {
    "000-3.1": "SELECT time // 60, srcIP, count(*) FROM p WHERE protocol = 6 GROUP BY ALL",
    "000-7.1": FLOWS.format(links=EVERY),
    "000-7.2": BESIDE,
    "001-aggregation": "SELECT time // 60, srcIP, count(*) FROM p WHERE protocol = 6 GROUP BY ALL",
    "001-join": BESIDE,
    "001-merge": FLOWS.format(links=EVERY),
    "001-overhead": FLOWS.format(links=EVERY),
    "002-q1": "SELECT count(*) FROM p WHERE link IN ('Control', 'Main1', 'Main2') GROUP BY time // 60",
    "002-q3": (
        "SELECT a.time, b.time, count(*) FROM p a JOIN p b ON a.link = 'S0' AND b.link = 'S1' AND a.destIP = b.srcIP "
        "AND a.destPort = b.srcPort AND a.flags & 18 = 2 AND b.flags & 18 = 18 AND a.time < b.time "
        "AND b.time <= a.time + 120 GROUP BY ALL"
    ),
    "002-q4": "SELECT srcIP, destIP, count(*) FROM p WHERE link = 'M' GROUP BY time // 60, srcIP, destIP",
    "002-q5": "SELECT srcIP, destIP, count(*) FROM p WHERE link IN ('M1', 'M2') GROUP BY time // 60, srcIP, destIP",
    "002-q6": (
        "SELECT a.srcIP, a.destIP, a.time FROM p a JOIN p b ON a.link IN ('A', 'B') AND b.link IN ('C', 'D') "
        f"AND a.time // 10 = b.time // 10 AND {TURNED}"
    ),
    "002-q7": (
        "SELECT count(*) FROM p a JOIN p b ON a.link = 'M1' AND b.link = 'M2' AND a.time >= b.time - 1 "
        f"AND a.time <= b.time + 1 AND {TURNED} GROUP BY a.time // 60"
    ),
    "002-q8": (
        "SELECT a.srcIP, a.destIP, a.time FROM p a JOIN p b ON a.link = 'M1' AND b.link IN ('M2', 'C') "
        f"AND a.time = b.time AND {TURNED}"
    ),
    "002-q9": (
        "SELECT count(*) FROM (SELECT unnest(generate_series(time // 60 - 4, time // 60)) AS w FROM p "
        "WHERE link IN ('M1', 'M2', 'C')) GROUP BY w"
    ),
    "004-aggregation": "SELECT time // 60, srcIP, destIP, count(*) FROM p WHERE protocol = 6 GROUP BY ALL",
    "004-duplicates": (
        "SELECT time // 60, srcIP, destIP, count(*) - count(DISTINCT seq) FROM p WHERE protocol = 6 GROUP BY ALL"
    ),
    "004-join": (
        "SELECT a.time, a.srcIP, a.destIP, a.len + b.len FROM p a JOIN p b ON a.link = 'PKT1' AND b.link = 'PKT2' "
        "AND a.time = b.time AND a.srcIP = b.srcIP AND a.destIP = b.destIP"
    ),
}
"""File of the seeds -> its rows over the packets `p`; a NULL port equals a NULL port where columns are compared."""


BOTH = ("002-q2", "004-merge")
"""Seeds that select all columns: one engine is held against the other."""
OF_PAYLOADS = ("004-hostcounts", "004-hostcounts-split", "004-hostnames", "004-hostnames-split")
"""Seeds whose packets need a payload: `test_strings` has their rows."""
ON_SPARK = (*BOTH, "002-q1", "002-q3", "002-q7", "002-q8", "002-q9", "004-duplicates")
"""One seed of each shape; the others are like them, or like a query of `queries/`."""


class World:
    """Random packets of few hosts on every link that the seeds name, in order of time."""

    def __init__(self, seed: int, folder: Path) -> None:
        drawn = random.Random(seed)
        self.rows: list[tuple[object, ...]] = []
        self.captures: list[tuple[str, Path]] = []
        for link in LINKS:
            stamps = sorted(drawn.randrange(130 * 10**9) for _ in range(drawn.randrange(60, 90)))
            records = [(BEGIN * 10**9 + stamp, self._packet(drawn, link, BEGIN + stamp // 10**9)) for stamp in stamps]
            path = folder / f"{link}.pcap"
            path.write_bytes(pcap_bytes(records, nanoseconds=True))
            self.captures.append((link, path))

    def _packet(self, drawn: random.Random, link: str, time: int) -> bytes:
        source, dest = drawn.choice(HOSTS), drawn.choice(HOSTS)
        ports = (drawn.choice((80, 443)), drawn.choice((80, 443)))
        kind = drawn.choice(("tcp", "tcp", "tcp", "udp", "icmp"))
        flags = drawn.choice((SYN, SYN | ACK, ACK, FIN))
        seq = drawn.randrange(20)
        if kind == "tcp":
            frame, row = tcp(source, dest, *ports, flags, seq), (6, source, dest, *ports, flags, seq)
        elif kind == "udp":
            frame, row = udp(source, dest, *ports), (17, source, dest, *ports, None, None)
        else:
            frame, row = icmp(source, dest), (1, source, dest, None, None, None, None)
        self.rows.append((link, time, *row, len(frame)))
        return frame

    def sql(self, query: str) -> Counter[tuple[str, ...]]:
        """The rows of a query, as `run` would write them."""
        columns = "link VARCHAR, time BIGINT, protocol INT, srcIP VARCHAR, destIP VARCHAR, srcPort INT, destPort INT"
        with duckdb.connect() as connection:
            connection.execute(f"CREATE TABLE p ({columns}, flags INT, seq INT, len INT)")
            connection.executemany("INSERT INTO p VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", self.rows)
            found = connection.execute(query).fetchall()
        return Counter(tuple("" if value is None else str(value) for value in row) for row in found)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(5, tmp_path)


def plan(name: str) -> Plan:
    catalog = load_functions([ROOT / "examples" / "functions" / "duplicates.fun"], parse_declarations)
    context = Context(catalog=Context().catalog.extended(catalog))
    return plan_files([SEEDS / f"{name}.gsql"], Links(tuple(LINKS), SETS), context=context)


def seeds() -> list[str]:
    return sorted(path.stem for path in SEEDS.glob("*.gsql"))


def rows_of(
    name: str, world: World, out: Path, engine: str, spark: SparkSession | None = None, interval: int | None = None
) -> Counter[tuple[str, ...]]:
    """The rows of the last output query of a seed."""
    chosen = plan(name)
    links = {link: Link() for link in LINKS}
    captures = [(link, path) for link, path in world.captures if link in chosen.links]
    request = Request(chosen, Config(links=links, sets=SETS), captures, out, engine=engine, interval=interval)
    run(request, Progress(quiet=True), spark)
    with (out / f"{chosen.queries[-1].name}.csv").open(newline="") as file:
        return Counter(tuple(row) for row in list(csv.reader(file))[1:])


def test_every_seed_plans_and_runs() -> None:
    for name in seeds():
        require_lowered(plan(name))
        require_lowered(plan(name), "reference")
    assert {*SQL, *BOTH, *OF_PAYLOADS, "004-running"} == set(seeds())


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SQL))
def test_rows_of_the_reference_engine_are_those_of_sql(name: str, world: World, tmp_path: Path) -> None:
    expected = world.sql(SQL[name])
    assert expected
    assert rows_of(name, world, tmp_path / "out", "reference") == expected


def running_duplicates(world: World) -> Counter[tuple[str, ...]]:
    """The rows of 004-running: a connection remembers its numbers until a FIN or a minute without packets."""
    packets: dict[tuple[int, object, object], list[tuple[object, bool]]] = {}
    for _, time, protocol, source, dest, _, _, flags, seq, _ in world.rows:
        if protocol == 6:
            assert isinstance(time, int) and isinstance(flags, int)
            packets.setdefault((time // 60, source, dest), []).append((seq, bool(flags & FIN)))
    found: Counter[tuple[str, ...]] = Counter()
    seen: dict[tuple[object, object], set[object]] = {}
    for minute in range(BEGIN // 60, (BEGIN + 130) // 60 + 1):
        for pair in {*seen, *(key[1:] for key in packets if key[0] == minute)}:
            mine = packets.get((minute, *pair), [])
            before = seen.setdefault(pair, set())
            new = {seq for seq, _ in mine} - before
            found[(str(minute), str(pair[0]), str(pair[1]), str(len(mine) - len(new)))] += 1
            before |= new
            if not mine or any(fin for _, fin in mine):
                del seen[pair]
    return found


@pytest.mark.parametrize(
    "engine", [pytest.param("reference", marks=pytest.mark.slow), pytest.param("spark", marks=pytest.mark.spark)]
)
@pytest.mark.parametrize("interval", [None, 60 * 10**9, 25 * 10**9])
def test_running_aggregates_go_on_from_minute_to_minute(
    world: World, tmp_path: Path, interval: int | None, engine: str, request: pytest.FixtureRequest
) -> None:
    session = request.getfixturevalue("spark") if engine == "spark" else None
    rows = rows_of("004-running", world, tmp_path / "out", engine, session, interval)
    assert rows == running_duplicates(world)


@pytest.mark.spark
@pytest.mark.parametrize("name", ON_SPARK)
def test_spark_gives_the_rows_of_sql_or_of_the_other_engine(
    name: str, world: World, tmp_path: Path, spark: SparkSession
) -> None:
    found = rows_of(name, world, tmp_path / "spark", "spark", spark)
    expected = world.sql(SQL[name]) if name in SQL else rows_of(name, world, tmp_path / "reference", "reference")
    assert found == expected and found
