"""Runs over links of records give the rows that SQL gives for the same files: DuckDB reads them by itself."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.parquet as pq
import pytest

from lowwater.config import Config, Link
from lowwater.errors import UnsupportedError
from lowwater.plan.context import Context, Links
from lowwater.plan.queryset import Plan, plan_texts
from lowwater.replay.checks import require_lowered
from lowwater.replay.progress import Progress
from lowwater.replay.run_command import RunRequest, run
from tests.capture.tablemaker import BEGIN, BY_NAME, BY_POSITION, as_csv, as_json, as_parquet, flows, write
from tests.capturemaker import ethernet, ipv4, pcap_bytes, udp_header

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

SECOND = 1_000_000_000
TYPES = "{'time': 'BIGINT', 'src': 'VARCHAR', 'bytes': 'BIGINT', 'host': 'VARCHAR', 'rtt': 'DOUBLE', 'up': 'BOOLEAN'}"
READERS = {
    "csv": "read_csv('FILE', header=false, nullstr='', allow_quoted_nulls=false, columns=" + TYPES + ")",
    "json": "read_json('FILE', format='newline_delimited', columns=" + TYPES + ")",
    "parquet": "read_parquet('FILE')",
}
MAKERS = {"csv": as_csv, "json": as_json, "parquet": as_parquet}

QUERIES = {
    "select": (
        "SELECT time, src, bytes, host, rtt, up FROM flows.FLOW WHERE bytes > 7 AND NOT host = 'a'",
        "SELECT time, src, bytes, host, rtt, up FROM flows WHERE bytes > 7 AND NOT host = 'a'",
    ),
    "null": (
        "SELECT time, src FROM flows.FLOW WHERE host IS NULL AND up IS NOT NULL OR rtt < 0.25",
        "SELECT time, src FROM flows WHERE host IS NULL AND up IS NOT NULL OR rtt < 0.25",
    ),
    "group": (
        "SELECT tb, src, host, up, count(*) AS n, sum(bytes) AS s, min(rtt) AS lo, max(host) AS h FROM flows.FLOW "
        "GROUP BY time/10 AS tb, src, host, up",
        "SELECT time // 10, src, host, up, count(*), sum(bytes), min(rtt), max(host) FROM flows GROUP BY ALL",
    ),
    "having": (
        "SELECT tb, count(*) AS n, avg(bytes) AS m FROM flows.FLOW WHERE up GROUP BY time/7 AS tb HAVING count(*) > 2",
        "SELECT time // 7, count(*), avg(bytes) FROM flows WHERE up GROUP BY ALL HAVING count(*) > 2",
    ),
    "arithmetic": (
        "SELECT time, bytes*2 + 1 AS b, rtt*2.0 AS r, str_truncate(host, 1) AS l FROM flows.FLOW "
        "WHERE src <> IP_VAL'10.0.0.1'",
        "SELECT time, bytes*2 + 1, rtt*2.0, substr(host, 1, 1) FROM flows WHERE src <> '10.0.0.1'",
    ),
    "address": (
        "SELECT tb, src, count(*) AS n FROM flows.FLOW WHERE src >= IP_VAL'10.0.0.2' GROUP BY time/60 AS tb, src",
        "SELECT time // 60, src, count(*) FROM flows WHERE src IN ('10.0.0.2', '2001:db8::1') GROUP BY ALL",
    ),
    "join": (
        "SELECT a.time, a.host, b.bytes INNER_JOIN FROM flows.FLOW a, more.FLOW b "
        "WHERE a.time = b.time AND a.host = b.host",
        "SELECT a.time, a.host, b.bytes FROM flows a JOIN more b "
        "ON a.time = b.time AND a.host IS NOT DISTINCT FROM b.host",
    ),
    "outer": (
        "SELECT a.time, a.bytes, b.src LEFT_OUTER_JOIN FROM flows.FLOW a, more.FLOW b "
        "WHERE a.time = b.time AND a.bytes = b.bytes",
        "SELECT a.time, a.bytes, b.src FROM flows a LEFT JOIN more b "
        "ON a.time = b.time AND a.bytes IS NOT DISTINCT FROM b.bytes",
    ),
    "both": (
        "SELECT tb, count(*) AS n, sum(bytes) AS s FROM [flows, more].FLOW GROUP BY time/5 AS tb",
        "SELECT time // 5, count(*), sum(bytes) FROM (FROM flows UNION ALL FROM more) GROUP BY ALL",
    ),
}


def planned(text: str, names: tuple[str, ...], kinds: dict[str, str], protocol: str) -> Plan:
    return plan_texts([("test.gsql", f"{protocol}{text}")], Links(names, kinds=kinds), None, Context())


def ran(
    plan: Plan,
    files: dict[str, Path],
    links: dict[str, Link],
    out: Path,
    runner: Runner | None = None,
    interval: int | None = None,
) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of every query."""
    captures = list(files.items())
    engine = "reference" if runner is None else "process"
    request = RunRequest(plan, Config(links=links), captures, out, "parquet", engine=engine, interval=interval)
    run(request, Progress(quiet=True), runner)
    tables = {query.name: pq.read_table(out / f"{query.name}.parquet") for query in plan.queries}
    return {name: rows_of(table.to_pylist()) for name, table in tables.items()}


def rows_of(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in rows]


def same(got: Sequence[tuple[Any, ...]], expected: Sequence[tuple[Any, ...]]) -> None:
    """Compares two multisets of rows; floats to nine digits."""
    assert Counter(map(rounded, got)) == Counter(map(rounded, expected))


def rounded(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(float(f"{value:.9g}") if isinstance(value, float) else value for value in row)


class World:
    """Two files of one kind, the rows in them, and DuckDB over the same files."""

    def __init__(self, kind: str, seed: int, folder: Path, disorder: int = 0) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.kind = kind
        self.rows = {"flows": flows(seed, 240, disorder), "more": flows(seed + 1, 120, disorder)}
        self.files = {name: write(folder / f"{name}.{kind}", MAKERS[kind](rows)) for name, rows in self.rows.items()}
        self.sql = duckdb.connect()
        for name, path in self.files.items():
            self.sql.execute(f"CREATE TABLE {name} AS FROM {READERS[kind].replace('FILE', str(path))}")

    def links(self, skew: int) -> dict[str, Link]:
        return {name: Link(kind=self.kind, skew=f"{skew}s") for name in self.files}  # type: ignore[arg-type]

    def plan(self, queries: dict[str, tuple[str, str]]) -> Plan:
        texts = [f"DEFINE {{ query_name '{name}_rows'; }} {text}" for name, (text, _) in queries.items()]
        protocol = BY_POSITION if self.kind == "csv" else BY_NAME
        return planned(";\n".join(texts), tuple(self.files), dict.fromkeys(self.files, self.kind), protocol)

    def check(self, got: dict[str, list[tuple[Any, ...]]], queries: dict[str, tuple[str, str]]) -> None:
        for name, (_, sql) in queries.items():
            expected = self.sql.execute(sql).fetchall()
            assert expected, name
            same(got[f"{name}_rows"], expected)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("seed", range(2))
def test_the_reference_engine_gives_the_rows_of_sql(kind: str, seed: int, tmp_path: Path) -> None:
    world = World(kind, 10 * seed, tmp_path / "files", disorder=2 * seed)
    got = ran(world.plan(QUERIES), world.files, world.links(2 * seed), tmp_path / "out")
    world.check(got, QUERIES)


@pytest.mark.slow
def test_packets_and_records_join(tmp_path: Path) -> None:
    random = Random(9)
    packets, records = [], []
    for second in range(60):
        for _ in range(3):
            port = random.randint(1, 4)
            payload = ipv4("10.0.0.1", "10.0.0.2", 17, udp_header(port, 53, b"x" * random.randint(0, 9)))
            packets.append((BEGIN * SECOND + second * SECOND + len(packets), ethernet(payload)))
            if random.random() < 0.6:
                records.append({"time": BEGIN + second, "port": random.randint(1, 4), "name": f"n{len(records)}"})
    (tmp_path / "a.pcap").write_bytes(pcap_bytes(packets))
    (tmp_path / "log.json").write_text("".join(json.dumps(row) + "\n" for row in records), encoding="utf-8")
    protocol = (
        "PROTOCOL LOG { uint time get_csv_uint (increasing); uint port get_csv_uint; string name get_csv_string; }\n"
    )
    text = """
        DEFINE { query_name 'joined'; } SELECT p.time, p.srcPort, p.len, l.name
        LEFT_OUTER_JOIN FROM main.UDP p, log.LOG l WHERE p.time = l.time AND p.srcPort = l.port;
        DEFINE { query_name 'ports'; } SELECT time, srcPort AS port FROM main.UDP;
        DEFINE { query_name 'logged'; } SELECT time, port FROM log.LOG;
        DEFINE { query_name 'merged'; } MERGE p.time : l.time FROM ports p, logged l
    """
    plan = planned(text, ("main", "log"), {"log": "json"}, protocol)
    links = {"main": Link(), "log": Link(kind="json")}
    got = ran(plan, {"main": tmp_path / "a.pcap", "log": tmp_path / "log.json"}, links, tmp_path / "out")
    sql = duckdb.connect()
    sql.execute("CREATE TABLE p (time BIGINT, port BIGINT, len BIGINT)")
    ports = [(at // SECOND, int.from_bytes(frame[34:36], "big"), len(frame)) for at, frame in packets]
    sql.executemany("INSERT INTO p VALUES (?, ?, ?)", ports)
    log = READERS["json"].replace(TYPES, "{'time': 'BIGINT', 'port': 'BIGINT', 'name': 'VARCHAR'}")
    sql.execute(f"CREATE TABLE l AS FROM {log.replace('FILE', str(tmp_path / 'log.json'))}")
    same(got["joined"], sql.execute("SELECT p.*, l.name FROM p LEFT JOIN l USING (time, port)").fetchall())
    same(got["merged"], sql.execute("SELECT time, port FROM p UNION ALL SELECT time, port FROM l").fetchall())


INTERNAL = """PROTOCOL LOG (schema_id 12) {
    uint schema get_schemaId;
    uint asked_us get_csv_uint_pos2 (latent, increasing);
    uint time get_csv_uint_pos1 (increasing);
    ullong seen_ms get_system_time (increasing);
    uint noted get_csv_uint_pos1 (internal);
}
DEFINE { query_name 'test'; } SELECT time, seen_ms, noted, asked_us, schema FROM log.LOG
"""


@pytest.mark.slow
def test_internal_timestamps_are_arrivals(tmp_path: Path) -> None:
    """Arrivals go on from file to file."""
    times = [[5, 9, 7], [6, 8, 12, 11]]
    files = [
        write(tmp_path / f"{at}.csv", "".join(f"{BEGIN + each}\n" for each in part).encode())
        for at, part in enumerate(times)
    ]
    plan = plan_texts([("test.gsql", INTERNAL)], Links(("log",), kinds={"log": "csv"}))
    links = {"log": Link(kind="csv", skew="10s")}
    captures = [("log", path) for path in files]
    request = RunRequest(plan, Config(links=links), captures, tmp_path / "out", "parquet", engine="reference")
    run(request, Progress(quiet=True))
    clock, expected = 0, []
    for each in (each for part in times for each in part):
        clock = max(clock, BEGIN + each)
        expected.append((BEGIN + each, clock * 1000, clock, clock * 1_000_000, 12))
    same(rows_of(pq.read_table(tmp_path / "out" / "test.parquet").to_pylist()), expected)


PROGRESS = """PROTOCOL LOG {
    uint first get_csv_uint_pos1 (increasing, unit s, clock);
    uint last get_csv_uint_pos2 (increasing, unit s, banded 5);
    uint left get_csv_uint_pos3 (decreasing, banded 3);
    uint v get_csv_uint_pos4;
}
"""
OWN_PROGRESS = {
    "groups": "SELECT tb, v, count(*) AS n, sum(first) AS s FROM [a, b].LOG WHERE v > 0 GROUP BY last/20 AS tb, v",
    "falling": "SELECT lb, count(*) AS n FROM a.LOG GROUP BY left/7 AS lb",
    "both": "SELECT tb, mb, count(*) AS n FROM [a, b].LOG GROUP BY last/20 AS tb, first/30 AS mb",
    "windows": "SELECT wid, v, count(*) AS n FROM a.LOG [RANGE 20, SLIDE 10, WA last] GROUP BY v",
    "rows": "SELECT wid, tb, count(*) AS n FROM [a, b].LOG [RANGE 10 ROWS, SLIDE 5 ROWS] GROUP BY last/20 AS tb",
    "equal": "SELECT x.last, x.v, y.first LEFT_OUTER_JOIN FROM a.LOG x, b.LOG y WHERE x.last = y.last AND x.v = y.v",
    "band": "SELECT x.last, y.last AS other OUTER_JOIN FROM a.LOG x, b.LOG y "
    "WHERE x.last - 2 <= y.last AND y.last <= x.last + 1 AND x.v = y.v",
    "filter": "SELECT x.last, x.v FILTER_JOIN(last, 2) FROM a.LOG x, a.LOG y WHERE x.v = y.v AND y.first % 2 = 0",
    "running": "SELECT tb, v, count(*), running_sum(last) FROM a.LOG GROUP BY last/20 AS tb, v "
    "CLOSING_WHEN count(*) = 0",
    "merged": "SELECT tb, count(*) AS n FROM united GROUP BY last/20 AS tb",
}


def own_progress(seed: int, folder: Path) -> tuple[Plan, dict[str, Path], dict[str, Link]]:
    """Two links whose attributes run behind by more than they may, now and then, and have no value sometimes."""
    random, files = Random(seed), {}
    for name in ("a", "b"):
        lines, first, last = [], BEGIN, 1000
        for _ in range(150):
            first, last = first + random.choice((0, 1, 3)), last + random.choice((0, 1, 2, 9))
            late = random.choice((0, 0, 2, 5, 7))
            shown = random.choice((last - random.choice((0, 3, 5, 6, 40)), ""))
            lines.append(
                f"{first - late},{last - late if random.random() < 0.9 else shown},{5000 - last + late},{late}"
            )
        files[name] = write(folder / f"{name}.csv", "".join(f"{line}\n" for line in lines).encode())
    texts = [f"DEFINE {{ query_name '{name}'; }} {text}" for name, text in OWN_PROGRESS.items()]
    united = "DEFINE { query_name 'united'; visibility 'internal'; } SELECT last, v FROM a.LOG UNION b.LOG"
    plan = planned(";\n".join([united, *texts]), ("a", "b"), dict.fromkeys("ab", "csv"), PROGRESS)
    return plan, files, {name: Link(kind="csv", skew="5s") for name in files}


@pytest.mark.slow
@pytest.mark.parametrize("interval", [None, 40 * SECOND])
def test_the_process_makes_the_same_progress(interval: int | None, tmp_path: Path, runner: Runner) -> None:
    plan, files, links = own_progress(3, tmp_path)
    theirs = ran(plan, files, links, tmp_path / "reference")
    got = ran(plan, files, links, tmp_path / "out", runner, interval=interval)
    for name in OWN_PROGRESS:
        assert theirs[name], name
        same(got[name], theirs[name])


KEYED = """PROTOCOL LOG {
    llong t get_csv_llong_pos1 (increasing, unit s, clock);
    llong i get_csv_llong_pos2;
    float f get_csv_float_pos3;
}
DEFINE { query_name 'known'; filename 'LIST'; refresh_interval '60'; } WATCHLIST FIELDS { float k (key); uint n; };
PARAM { nan float = 'nan'; } DEFINE { query_name 'odd'; visibility 'internal'; }
SELECT t, i, CASE WHEN i = 4 THEN $nan ELSE f END AS f FROM a.LOG;
"""
LOOKED_UP: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "mixed": (
        "SELECT x.i FILTER_JOIN(t, 9) FROM a.LOG x, a.LOG y WHERE x.i = y.f",
        [(1,), (1 << 53,), ((1 << 53) + 1,)],
    ),
    "null": (
        "SELECT x.t - BEGIN AS s FILTER_JOIN(t, 9) FROM a.LOG x, a.LOG y WHERE x.f = y.f AND x.i IS NULL",
        [(2,), (3,)],
    ),
    "computed": (
        "SELECT x.t - BEGIN AS s FILTER_JOIN(t, 9) FROM a.LOG x, a.LOG y WHERE x.f = y.f*1.0 AND x.i IS NULL",
        [(3,)],
    ),
    "listed": ("SELECT x.i, w.n WATCHLIST_JOIN FROM a.LOG x, known w WHERE x.i = w.k", [(1, 5), (4, 6)]),
    "computed_list": (
        "SELECT x.t - BEGIN AS s, w.n WATCHLIST_JOIN FROM a.LOG x, known w WHERE x.f + 3.0 = w.k",
        [(0, 6), (3, 6)],
    ),
    "nan": ("SELECT x.i, y.i AS j FROM odd x JOIN odd y WHERE x.t = y.t AND x.f = y.f AND x.i = 4", [(4, 4)]),
}
"""Joins by keys: an integer beside a float is a float, NULL equals NULL between columns only, NaN equals NaN (V1)."""


def test_keys_of_joins_are_equal_as_their_values_are(tmp_path: Path, runner: Runner) -> None:
    lines = ("0,1,1.0", "1,4,9007199254740992.0", "2,,", "3,,1.0", f"4,{1 << 53},", f"5,{(1 << 53) + 1},")
    records = "".join(f"{BEGIN + int(line[0])}{line[1:]}\n" for line in lines)
    files = {"a": write(tmp_path / "a.csv", records.encode())}
    listed = write(tmp_path / "list.csv", b"1.0,5\n4.0,6\n,7\n")
    texts = [f"DEFINE {{ query_name '{name}'; }} {text}" for name, (text, _) in LOOKED_UP.items()]
    text = (KEYED + ";\n".join(texts)).replace("LIST'", f"{listed}'").replace("BEGIN", str(BEGIN))
    known = Links(("a",), kinds={"a": "csv"})
    plan = plan_texts([("test.gsql", text)], known, None, Context(folders=(tmp_path,)))
    marked = {query.name for query in plan.queries if dict(query.parts).keys() & {"a key that is looked up"}}
    assert marked == {"mixed", "computed", "listed", "computed_list"}, "what they published before is stale"
    for engine in (None, runner):
        got = ran(plan, files, {"a": Link(kind="csv")}, tmp_path / ("out" if engine else "reference"), engine)
        for name, (_, expected) in LOOKED_UP.items():
            same(got[name], expected)


@pytest.mark.parametrize(
    ("protocol", "reason"),
    [
        ("PROTOCOL LOG { uint a get_csv_uint_pos1; }", "no field of the record is its clock"),
        ("PROTOCOL LOG { uint a get_system_time (increasing, unit s); }", "no field of the record is its clock"),
        ("PROTOCOL LOG { uint a get_csv_uint_pos1 (decreasing, unit s); }", "its clock a is decreasing"),
        ("PROTOCOL LOG { uint a get_csv_uint_pos1 (increasing); }", "its clock a has no unit"),
    ],
)
def test_what_no_engine_reads_is_refused_with_the_reason(protocol: str, reason: str) -> None:
    plan = planned("SELECT a FROM log.LOG", ("log",), {"log": "csv"}, protocol)
    with pytest.raises(UnsupportedError, match=f"protocol LOG of csv records is not read: {reason}"):
        require_lowered(plan, "reference")
