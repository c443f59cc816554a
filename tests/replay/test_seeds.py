"""The queries of the papers over packets, on both engines, beside SQL that is written from the papers' words."""

from __future__ import annotations

import csv
import ipaddress
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import dpkt
import pyarrow as pa
import pytest

from lowwater.config import Config, Link
from lowwater.replay.checks import require_lowered
from lowwater.replay.progress import Progress
from lowwater.replay.run_command import RunRequest, run
from tests.breadth import each_push, some
from tests.capturemaker import ACK, FIN, SYN, icmp, pcap_bytes, tcp, udp
from tests.database import database
from tests.plan.batch_worlds import insert
from tests.replay.drawings import packets_of
from tests.replay.golden import BEGIN, GOLDEN, SEED_SETS, seed_plan, seed_text, seeds
from tests.replay.seed_drawings import DRAWINGS

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

LINKS = ["A", "B", "C", "Control", "D", "M", "M1", "M2", "Main1", "Main2", "PKT1", "PKT2", "S0", "S1", "control"]
LINKS += ["interface1", "interface2", "main0", "main1", "main2"]
HOSTS = [f"10.0.0.{n}" for n in range(1, 3)]

FLOW = "srcIP, destIP, srcPort, destPort"
TURNED = (
    "a.srcIP = b.destIP AND a.destIP = b.srcIP AND a.srcPort IS NOT DISTINCT FROM b.destPort "
    "AND a.destPort IS NOT DISTINCT FROM b.srcPort"
)
FLOWS = f"SELECT time // 10, protocol, {FLOW}, count(*) FROM p WHERE link IN ({{links}}) GROUP BY ALL ORDER BY ALL"
BESIDE = (
    "SELECT coalesce(a.tb, b.tb), coalesce(a.protocol, b.protocol), coalesce(a.srcIP, b.srcIP), "
    "coalesce(a.destIP, b.destIP), coalesce(a.srcPort, b.srcPort), coalesce(a.destPort, b.destPort), "
    "coalesce(a.cnt, 0), coalesce(b.cnt, 0) "
    f"FROM (SELECT time // 10 AS tb, protocol, {FLOW}, count(*) AS cnt FROM p WHERE link IN ('main0', 'control') "
    f"GROUP BY ALL) a FULL JOIN (SELECT time // 10 AS tb, protocol, {FLOW}, count(*) AS cnt FROM p "
    "WHERE link = 'main1' GROUP BY ALL) b ON a.tb = b.tb AND a.protocol = b.protocol AND a.srcIP = b.srcIP AND "
    "a.destIP = b.destIP AND a.srcPort IS NOT DISTINCT FROM b.srcPort AND a.destPort IS NOT DISTINCT FROM b.destPort"
)
EVERY = ", ".join(f"'{link}'" for link in LINKS)
PACKET = "{0}.link, {0}.time, {0}.protocol, {0}.srcIP, {0}.destIP, {0}.srcPort, {0}.destPort, {0}.seq, {0}.len"
SQL = {
    "000-3.1": "SELECT time // 60, srcIP, count(*) FROM p WHERE protocol = 6 GROUP BY ALL",
    "000-7.1": FLOWS.format(links=EVERY),
    "000-7.2": BESIDE,
    "001-aggregation": "SELECT time // 60, srcIP, count(*) FROM p WHERE protocol = 6 GROUP BY ALL",
    "001-join": BESIDE,
    "001-merge": FLOWS.format(links=EVERY),
    "001-overhead": FLOWS.format(links=EVERY),
    "002-q1": "SELECT count(*) FROM p WHERE link IN ('Control', 'Main1', 'Main2') GROUP BY time // 60",
    "002-q2": (
        f"SELECT {PACKET.format('a')}, {PACKET.format('b')} FROM p a JOIN p b ON a.link = 'Main1' AND b.link = 'Main2' "
        "AND a.srcIP = b.destIP AND a.time - 120 <= b.time AND b.time <= a.time + 180"
    ),
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
    "004-merge": (f"SELECT {PACKET.format('p')} FROM p WHERE link IN ('interface1', 'interface2') AND protocol = 6"),
}
"""File of the seeds -> its rows over the packets `p`; a NULL port equals a NULL port where columns are compared."""


UNTOLD = ("004-hostcounts", "004-hostcounts-split", "004-hostnames", "004-hostnames-split")
"""Seeds without SQL: they read payloads; `test_strings` has their rows."""

TOLD = ("interface", "time", "protocol", "srcIP", "destIP", "srcPort", "destPort", "sequence_number", "len")
COLUMNS = {"002-q2": (*TOLD, *(f"{name}1" for name in TOLD)), "004-merge": TOLD}
"""Of the seeds that select every column, those that `p` has."""


class World:
    """Random packets of few hosts on every link that the seeds name, in order of time."""

    def __init__(self, seed: int, folder: Path) -> None:
        drawn = random.Random(seed)
        self.rows: list[tuple[object, ...]] = []
        self.captures: list[tuple[str, Path]] = []
        for link in LINKS:
            stamps = sorted(drawn.randrange(130 * 10**9) for _ in range(drawn.randrange(25, 40)))
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


PACKETS = pa.schema(
    [("link", pa.string()), ("time", pa.int64()), ("protocol", pa.int32()), ("srcIP", pa.string())]
    + [("destIP", pa.string())]
    + [(name, pa.int32()) for name in ("srcPort", "destPort", "flags", "seq", "len")]
)


def sql(query: str, rows: Sequence[tuple[object, ...]]) -> Counter[tuple[str, ...]]:
    """The rows of a query over packets, as `run` would write them."""
    with database() as connection:
        insert(connection, "p", PACKETS, rows)
        found = connection.execute(query).fetchall()
    return Counter(tuple("" if value is None else str(value) for value in row) for row in found)


def admitted(drawing: str) -> list[tuple[object, ...]]:
    """The packets of a drawing that are no later than the skew of a second, as rows for SQL; ARP is no DataProtocol."""
    clocks: dict[str, int] = {}
    rows: list[tuple[object, ...]] = []
    for link, stamp, frame in packets_of(drawing, BEGIN):
        clocks[link] = max(stamp, clocks.get(link, 0))
        packet = dpkt.ethernet.Ethernet(frame).data
        if clocks[link] - stamp > 10**9 or isinstance(packet, dpkt.arp.ARP):
            continue
        above = packet.data
        ports = (above.sport, above.dport) if isinstance(above, dpkt.tcp.TCP | dpkt.udp.UDP) else (None, None)
        tcp_only = (above.flags, above.seq) if isinstance(above, dpkt.tcp.TCP) else (None, None)
        ends = (str(ipaddress.ip_address(end)) for end in (packet.src, packet.dst))
        rows.append((link, stamp // 10**9, packet.p, *ends, *ports, *tcp_only, len(frame)))
    return rows


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(5, tmp_path_factory.mktemp("world"))


def rows_of(
    name: str, world: World, out: Path, engine: str, runner: Runner | None = None, interval: int | None = None
) -> Counter[tuple[str, ...]]:
    """The rows of the last output query of a seed."""
    chosen = seed_plan(name, LINKS)
    links = {link: Link() for link in LINKS}
    captures = [(link, path) for link, path in world.captures if link in chosen.links]
    request = RunRequest(chosen, Config(links=links, sets=SEED_SETS), captures, out, engine=engine, interval=interval)
    run(request, Progress(quiet=True), runner)
    with (out / f"{chosen.queries[-1].name}.csv").open(newline="") as file:
        return told(name, file)


def told(name: str, lines: Iterable[str]) -> Counter[tuple[str, ...]]:
    """The rows of a file of a seed, of its columns those that SQL has."""
    header, *rows = csv.reader(lines)
    places = [header.index(column) for column in COLUMNS.get(name, header)]
    return Counter(tuple(row[at] for at in places) for row in rows)


def golden(name: str) -> str:
    return (GOLDEN / "seeds" / f"{name}.txt").read_text(encoding="utf-8")


def test_every_seed_has_its_golden_and_its_rows_elsewhere() -> None:
    for name in seeds():
        require_lowered(seed_plan(name, LINKS))
    assert sorted(path.stem for path in (GOLDEN / "seeds").iterdir()) == seeds() == sorted(DRAWINGS)
    assert sorted({*SQL, *UNTOLD, "004-running"}) == seeds()


@pytest.mark.slow
@pytest.mark.parametrize("name", seeds())
def test_rows_of_the_reference_engine_are_the_golden_and_those_of_sql(name: str) -> None:
    assert seed_text(name, "reference") == golden(name)
    if name in SQL:
        found = told(name, golden(name).rpartition("rows of ")[2].splitlines()[2:-2])
        assert found and found == sql(SQL[name], admitted(DRAWINGS[name]))


@pytest.mark.slow
def test_rows_of_the_process_are_the_goldens(runner: Runner) -> None:
    made = {name: seed_text(name, "process", runner) for name in seeds()}
    assert made == {name: golden(name) for name in seeds()}


@pytest.mark.slow
@pytest.mark.parametrize("name", some(list(SQL), 4))
def test_rows_of_random_packets_are_those_of_sql(name: str, world: World, tmp_path: Path) -> None:
    expected = sql(SQL[name], world.rows)
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
    "engine", [pytest.param("reference", marks=pytest.mark.slow), pytest.param("process", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("interval", each_push([None, 25 * 10**9], 2))
def test_running_aggregates_go_on_from_minute_to_minute(
    world: World, tmp_path: Path, interval: int | None, engine: str, request: pytest.FixtureRequest
) -> None:
    session = request.getfixturevalue("runner") if engine == "process" else None
    rows = rows_of("004-running", world, tmp_path / "out", engine, session, interval)
    assert rows == running_duplicates(world)
