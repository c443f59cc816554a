"""Queries of payloads and of the fields of DNS and HTTP: both engines beside SQL over the stored frames."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

from lowwater.catalog.values import format_ip
from lowwater.lake.layout import Lake
from lowwater.low import LowSettings, Policy
from lowwater.replay.checks import not_run
from lowwater.replay.run_command import rows_of_files
from lowwater.replay.stages.engines import high_level, low_level, low_stage, reference_stage
from tests.breadth import some
from tests.replay.keptmaker import SECOND, inputs, make_lake, oracle
from tests.replay.support import lowwater

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

ROOT = Path(__file__).resolve().parents[2]
TCP = "protocol = 6 AND flags IS NOT NULL"
DNS = "dns_id IS NOT NULL"
HTTP = "(http_method IS NOT NULL OR http_status IS NOT NULL)"
LOW = "DEFINE { lfta_cost 'TOP'; }"
QUERIES: dict[str, tuple[str, str]] = {
    "payloads": ("SELECT time, TCP_data FROM TCP", f"SELECT time, payload FROM p WHERE {TCP}"),
    "starts": (
        "SELECT time, srcIP FROM a.TCP WHERE str_match_start[TCP_data, 'GET']",
        f"SELECT time, src FROM p WHERE link = 'a' AND {TCP} AND starts_with(payload, 'GET')",
    ),
    "starts_low": (
        f"{LOW} SELECT time, srcIP FROM a.TCP WHERE destPort = 80 AND str_match_start[TCP_data, 'GET']",
        f"SELECT time, src FROM p WHERE link = 'a' AND {TCP} AND destPort = 80 AND starts_with(payload, 'GET')",
    ),
    "http_low": (
        f"{LOW} SELECT tb, count(*) AS n, sum(len) AS bytes FROM TCP "
        "WHERE str_regex_match[TCP_data, '^[A-Z]+ /[^ ]* HTTP/1'] GROUP BY time/10 AS tb",
        f"SELECT time // 10, count(*), sum(len) FROM p WHERE {TCP} "
        "AND regexp_matches(payload, '^[A-Z]+ /[^ ]* HTTP/1') GROUP BY ALL",
    ),
    "hosts": (
        "SELECT tb, host, count(*) AS n FROM TCP GROUP BY time/10 AS tb, "
        "str_extract_regex(TCP_data, 'Host: [a-z.]*') AS host",
        "SELECT time // 10 AS tb, CASE WHEN regexp_matches(payload, 'Host: [a-z.]*') THEN "
        f"regexp_extract(payload, 'Host: [a-z.]*') END AS host, count(*) FROM p WHERE {TCP} GROUP BY ALL",
    ),
    "cut": (
        "SELECT tb, head, count(*) AS n FROM DataProtocol GROUP BY time/10 AS tb, "
        "str_truncate(payload, len/20) AS head",
        "SELECT time // 10, left(payload, len // 20) AS head, count(*) FROM p WHERE ipversion IS NOT NULL GROUP BY ALL",
    ),
    "names": (
        "SELECT tb, dns_query, dns_type, count(*) AS n FROM DNS GROUP BY time/10 AS tb, dns_query, dns_type",
        f"SELECT time // 10, dns_query, dns_type, count(*) FROM p WHERE {DNS} GROUP BY ALL",
    ),
    "several": (
        "SELECT tb, http_host, count(*) AS n, max(http_uri) AS last, count(http_uri) AS c FROM HTTP "
        "GROUP BY time/10 AS tb, http_host HAVING count(*) > 1",
        f"SELECT time // 10, http_host, count(*), max(http_uri), count(http_uri) FROM p WHERE {HTTP} GROUP BY ALL "
        "HAVING count(*) > 1",
    ),
    "like": (
        "SELECT time, http_host FROM HTTP WHERE http_host LIKE '%.example%' OR http_host IN ['', 'example.net']",
        f"SELECT time, http_host FROM p WHERE {HTTP} "
        "AND (http_host LIKE '%.example%' OR http_host IN ('', 'example.net'))",
    ),
    "order": (
        "SELECT time, dns_query FROM [a, b].DNS WHERE dns_query >= 'b' AND dns_query <> 'example.net'",
        f"SELECT time, dns_query FROM p WHERE {DNS} AND dns_query >= 'b' AND dns_query <> 'example.net'",
    ),
    "choice": (
        "SELECT time, CASE WHEN dns_type = 1 THEN dns_query WHEN dns_type = 28 THEN 'six' ELSE NULL END AS q, "
        "dns_query IS NULL AS none FROM ETH",
        "SELECT time, CASE dns_type WHEN 1 THEN dns_query WHEN 28 THEN 'six' END, dns_query IS NULL FROM p",
    ),
    "numbers": (
        "SELECT time, UMAX(len, ttl) AS m, if_else(srcPort = 53, srcIP, destIP) AS ip, FLOAT(len)/2 AS half FROM a.UDP",
        "SELECT time, greatest(len, ttl), CASE WHEN srcPort = 53 THEN src ELSE dest END, len / 2 FROM p "
        "WHERE link = 'a' AND protocol = 17 AND srcPort IS NOT NULL",
    ),
    "united": (
        "SELECT time, payload FROM a.TCP UNION a.UDP",
        "SELECT time, payload FROM p WHERE link = 'a' AND protocol IN (6, 17) AND srcPort IS NOT NULL",
    ),
    "joined": (
        "SELECT A.time, A.http_host, B.dns_query FROM a.HTTP A JOIN b.DNS B "
        "WHERE A.time/10 = B.time/10 AND A.http_host = B.dns_query AND str_exists_substr[B.dns_query, 'example']",
        "SELECT A.time, A.http_host, B.dns_query FROM p A JOIN p B ON A.time // 10 = B.time // 10 "
        "AND A.http_host IS NOT DISTINCT "
        "FROM B.dns_query WHERE A.link = 'a' AND B.link = 'b' AND contains(B.dns_query, 'example') AND "
        "(A.http_method IS NOT NULL OR A.http_status IS NOT NULL) AND B.dns_id IS NOT NULL",
    ),
}
HEADER = "[Hh][Oo][Ss][Tt]:[0-9A-Z.: ]*"
FOUND = f"CASE WHEN regexp_matches(payload, '{HEADER}') THEN regexp_extract(payload, '{HEADER}') END"
GETS = f"FROM p WHERE ipversion = 4 AND \"offset\" = 0 AND {TCP} AND starts_with(payload, 'GET')"
COUNTS = f"SELECT time // 60 * 60, {FOUND} AS h, count(*) {GETS} GROUP BY ALL"
NAMES = f"SELECT time // 60 * 60, dest, destPort, {FOUND} {GETS}"
SEEDS = {"hostcounts": COUNTS, "hostcounts-split": COUNTS, "hostnames": NAMES, "hostnames-split": NAMES}
for seed, rows in SEEDS.items():
    query = seed.replace("-split", "_high")
    QUERIES[query] = ((ROOT / "queries" / "seeds" / f"004-{seed}.gsql").read_text(encoding="utf-8"), rows)
ADDRESS = (
    "CASE WHEN {0}_lo IS NOT NULL THEN concat_ws('.', ({0}_lo >> 24) & 255, ({0}_lo >> 16) & 255, ({0}_lo >> 8) & 255, "
    "{0}_lo & 255) END"
)
Rows = Counter[tuple[Any, ...]]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return make_lake(7, tmp_path_factory.mktemp("kept"))


def sql(connection: duckdb.DuckDBPyConnection, name: str) -> Rows:
    text = QUERIES[name][1]
    names = {"src": ADDRESS.format("srcIP"), "dest": ADDRESS.format("destIP")}
    addressed = f"WITH q AS (SELECT *, {names['src']} AS src, {names['dest']} AS dest FROM p) "
    return Counter(
        connection.execute(addressed + text.replace("FROM p", "FROM q").replace("JOIN p", "JOIN q")).fetchall()
    )


def shown(table: pa.Table) -> Rows:
    names = [name for name in table.schema.names if name[0] != "_"]
    rows = zip(*(table[name].to_pylist() for name in names), strict=True)
    return Counter(tuple(format_ip(v) if isinstance(v, bytes) else v for v in row) for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", some(QUERIES, 2))
def test_rows_of_the_reference_engine_are_those_of_sql(lake: Lake, name: str) -> None:
    asked = inputs(lake, {name: QUERIES[name][0]})
    assert not_run(asked.plan) == ()
    found = shown(reference_stage(asked, SECOND, Policy.PERIODIC).rows[name])
    with oracle(lake) as connection:
        assert found == sql(connection, name) and found


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_rows_of_the_process_are_those_of_sql(lake: Lake, tmp_path: Path, runner: Runner) -> None:
    asked = inputs(lake, {name: text for name, (text, _) in QUERIES.items()})
    low = low_stage(low_level(asked, LowSettings(0, chunk_rows=13, slots=4, compiled=False), tmp_path / "low"), runner)
    results = runner.run(high_level(asked, low.files, tmp_path / "high", {}))
    with oracle(lake) as connection:
        for query in asked.plan.queries:
            found = shown(rows_of_files(results[query.name].files, query.high.fields))
            assert found == sql(connection, query.name), query.name


@pytest.mark.slow
def test_run_keeps_what_its_queries_read_unless_the_link_is_anonymised(tmp_path: Path) -> None:
    make_lake(3, tmp_path)
    (tmp_path / "q.gsql").write_text("SELECT time, TCP_data, http_host FROM bare.TCP", encoding="utf-8")
    words = ("run", tmp_path / "q.gsql", "--capture", f"bare={tmp_path / 'bare.pcap'}", "--out", tmp_path / "out")
    assert lowwater(*words, "--engine", "reference").code == 0
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["notes"] == []
    assert "example.net" in (tmp_path / "out" / "q.csv").read_text()
    (tmp_path / "key").write_bytes(bytes(32))
    (tmp_path / "key").chmod(0o600)
    (tmp_path / "links.toml").write_text('[links.bare]\nanonymise = "key"\n', encoding="utf-8")
    said = lowwater(*words, "--engine", "reference", "--links", tmp_path / "links.toml")
    assert said.code == 0 and "link bare keeps no payload" in said.err
    notes = json.loads((tmp_path / "out" / "summary.json").read_text())["notes"]
    assert len(notes) == 2 and all("link bare hides addresses" in note for note in notes)
