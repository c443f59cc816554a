"""The standing query that `lowwater sql` offers for a statement: its rows are those of the statement; and what it does
not offer."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from lowwater_generator import generate

from lowwater.instants import HOUR
from lowwater.replay.look import printable
from lowwater.replay.sql import CaptureFiles, Statement
from lowwater.replay.standing import standing_query
from tests.replay.support import START, lowwater

pytestmark = pytest.mark.slow
MINUTES = "time_bucket(INTERVAL '10 minutes', timestamp)"

OFFERED = [
    f"SELECT {MINUTES} AS tb, srcIP, sum(len) AS bytes FROM main1.TCP GROUP BY tb, srcIP ORDER BY bytes DESC, 1;",
    f"select {MINUTES} as tb, count(*) as n from main1 group by all having n > 3 order by n",
    f"SELECT {MINUTES} AS tb, link, count(*) AS n -- of each link\nFROM TCP /* both */ GROUP BY ALL",
    "SELECT time // 60 AS minute, sum(len) / count(*) AS mean, 100 * sum(SYN) / count(*) AS share\n"
    "FROM TCP GROUP BY ALL",
    "SELECT date_trunc('hour', timestamp) AS hour, extract(minute FROM timestamp) AS m, count(*) AS n\n"
    "FROM UDP GROUP BY ALL",
    "SELECT time, srcIP, destPort FROM main2.TCP WHERE SYN AND NOT ACK AND destPort IN (80, 443, 22)",
    "SELECT time, len % 7 AS rest FROM main1.UDP WHERE len BETWEEN 60 AND 200",
    f"SELECT {MINUTES} AS tb, count(DISTINCT srcIP) AS hosts, avg(len) AS mean, stddev_samp(len) AS spread,\n"
    "percentile_cont(0.95) WITHIN GROUP (ORDER BY len) AS p95, count(*) FILTER (WHERE srcPort < 1024) AS low,\n"
    "coalesce(max(vlan_id), -1) AS vlan FROM DataProtocol GROUP BY tb",
    "SELECT time // 600 AS tb, destPort, count(*) AS n FROM TCP GROUP BY tb, destPort\n"
    "QUALIFY row_number() OVER (PARTITION BY tb ORDER BY n DESC, destPort) <= 2",
    "SELECT DISTINCT time // 60 AS minute, srcIP FROM main1.DNS WHERE dns_response = 0",
    "SELECT time, CASE WHEN srcPort < destPort THEN 'up' ELSE 'down' END AS way, nullif(destPort, 53) AS port FROM UDP",
]

NOT_OFFERED = [
    "SELECT srcIP, sum(len) AS bytes FROM main1 GROUP BY ALL",  # a total without end
    "SELECT time, srcIP FROM TCP ORDER BY len DESC LIMIT 10",  # the first rows of all
    f"SELECT {MINUTES} AS tb, min(srcIP) AS least FROM TCP GROUP BY ALL",  # texts have another order than addresses
    "SELECT time FROM TCP WHERE srcIP < destIP",
    "SELECT * FROM main1.TCP",  # times are instants there
    "SELECT timestamp, len FROM TCP",
    "SELECT time, lower(srcIP) AS a FROM TCP",
    "SELECT time FROM TCP WHERE srcIP LIKE '10.%'",
    "SELECT time_bucket(INTERVAL '7 minutes', timestamp) AS tb, count(*) AS n FROM TCP GROUP BY ALL",  # from 2000-01-03
    f"SELECT {MINUTES} AS tb, any_value(srcIP) AS one FROM TCP GROUP BY ALL",
    "SELECT a.time FROM main1.TCP a JOIN main2.TCP b ON a.time = b.time AND a.vlan_id = b.vlan_id",  # NULL = NULL there
    "SELECT time, n FROM (SELECT time, count(*) AS n FROM TCP GROUP BY time)",
    "SELECT count(*) FROM captures",
    "SHOW TABLES",
    "FROM TCP",
    "SELECT 1",
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, Path]]:
    made = generate(tmp_path_factory.mktemp("captures"), START, 1, ["main1", "main2"], rate=2, seed=9)
    return [(each.link, each.path) for each in made if each.start < START + HOUR]


@pytest.mark.parametrize("text", OFFERED)
def test_rows_of_the_offered_query_are_those_of_the_statement(
    text: str, files: list[tuple[str, Path]], tmp_path: Path
) -> None:
    source = CaptureFiles(files)
    with Statement(source, text) as asked:
        names = asked.schema.names
        wanted = [tuple(row.values()) for batch in asked.batches() for row in printable(batch).to_pylist()]
        kept = standing_query(text, asked.schema, source.context())
    assert kept and wanted
    (tmp_path / "kept.gsql").write_text(kept, encoding="utf-8")
    given = [part for link, path in files for part in ("--capture", f"{link}={path}", "--skew", f"{link}=1h")]
    said = lowwater("run", tmp_path / "kept.gsql", *given, "--out", tmp_path / "out", "--format", "parquet")
    assert said.code == 0, (kept, said)
    rows = pq.read_table(tmp_path / "out" / "kept.parquet").select(names)
    found = [tuple(row.values()) for batch in rows.to_batches() for row in printable(batch).to_pylist()]
    assert Counter(map(_rounded, found)) == Counter(map(_rounded, wanted))


def _rounded(row: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(f"{value:.9g}" if isinstance(value, float) and math.isfinite(value) else value for value in row)


@pytest.mark.parametrize("text", NOT_OFFERED)
def test_nothing_is_offered_where_rows_may_differ(text: str, files: list[tuple[str, Path]]) -> None:
    source = CaptureFiles(files)
    with Statement(source, text) as asked:
        assert standing_query(text, asked.schema, source.context()) == ""


def test_the_command_offers_it_behind_a_table_only(files: list[tuple[str, Path]], tmp_path: Path) -> None:
    given = [part for link, path in files for part in ("--capture", f"{link}={path}")]
    said = lowwater("sql", OFFERED[0], *given)
    _, _, kept = said.err.partition("a standing query of GSQL keeps these rows, interval by interval:\n")
    assert said.code == 0 and kept.startswith("DEFINE { query_name 'kept'; }\nSELECT ")
    (tmp_path / "kept.gsql").write_text(kept, encoding="utf-8")
    assert lowwater("check", tmp_path / "kept.gsql").out.endswith("1 file, no error\n")
    assert "standing" not in lowwater("sql", OFFERED[0], *given, "--format", "csv").err
    assert "standing" not in lowwater("sql", NOT_OFFERED[0], *given).err
