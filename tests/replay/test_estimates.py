"""Rows over links that shed load carry their rate (O5): which queries are refused, and the rows against SQL."""

from __future__ import annotations

import csv
import math
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from lowwater.config import Config, Link
from lowwater.errors import QueryError
from lowwater.instants import SECOND
from lowwater.plan.context import Links
from lowwater.plan.queryset import Plan, plan_texts
from lowwater.replay.checks import estimate_notes, require_marked
from tests.capturemaker import pcap_bytes
from tests.database import database
from tests.replay.support import lowwater
from tests.replay.test_sampling import ENGINES, _admitted, _chance, packets

CONFIG = Config(links={"a": Link(sampling=True, shed=5), "b": Link()})
PAIR = "FROM a.TCP A, b.TCP B WHERE A.time = B.time"
INNER = "DEFINE { query_name 'x'; } SELECT time, len, sampling_rate AS r FROM a.TCP;\nDEFINE { query_name 'y'; } "
FILTER = "SELECT S.time, S.srcIP%s FILTER_JOIN(time, 5) FROM a.TCP S, a.TCP P WHERE S.srcIP = P.srcIP"


SQL = """
WITH rated AS (
    SELECT *, least(1.0::DOUBLE, {budget}::DOUBLE / count(*) OVER (PARTITION BY stamp // {second})) AS rate FROM udp
)
SELECT stamp // (5 * {second}::BIGINT) AS tb, count(*), sum(1 / rate), min(rate)
FROM rated WHERE chance < rate GROUP BY tb ORDER BY tb
"""


def plan(text: str) -> Plan:
    return plan_texts([("q.gsql", text)], Links(("a", "b")))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT time, sampling_rate FROM a.TCP",
        "SELECT time, 1.0/sampling_rate AS weight FROM [a, b].TCP",
        "SELECT tb, sum(len/sampling_rate) AS bytes FROM a.TCP GROUP BY time/60 AS tb",
        "SELECT tb, count(*) AS n FROM b.TCP GROUP BY time/60 AS tb",
        f"SELECT A.time, A.sampling_rate AS r, B.len {PAIR}",
        f"SELECT A.time, A.sampling_rate * B.sampling_rate AS r {PAIR}".replace("b.TCP", "a.TCP"),
        INNER + "SELECT tb, min(r) AS r FROM x GROUP BY time/60 AS tb",
        "SELECT tb, wid, min(sampling_rate) AS r FROM a.TCP [RANGE 16 ROWS, SLIDE 8 ROWS] GROUP BY time/5 AS tb",
        "SELECT tb, rate FROM a.TCP GROUP BY time/60 AS tb, sampling_rate AS rate",
        FILTER % ", S.sampling_rate AS r",
    ],
)
def test_rows_that_carry_the_rate_are_taken(text: str) -> None:
    require_marked(plan(text), CONFIG)
    assert estimate_notes(plan(text), CONFIG) == ()


@pytest.mark.parametrize(
    ("text", "query", "source", "hint"),
    [
        ("SELECT time FROM a.TCP", "q", "TCP", "add sampling_rate AS rate to SELECT,"),
        ("SELECT time FROM a.TCP WHERE sampling_rate < 1.0", "q", "TCP", "add sampling_rate AS rate to SELECT,"),
        ("SELECT tb, count(*) AS n FROM [a, b].TCP GROUP BY time/60 AS tb", "q", "TCP", "min(sampling_rate) AS rate"),
        (
            "SELECT tb, count(*) AS n FROM a.TCP GROUP BY time/60 AS tb HAVING min(sampling_rate) < 1.0",
            "q",
            "TCP",
            "min(sampling_rate) AS rate",
        ),
        (f"SELECT A.time, B.len {PAIR}", "q", "A", "add A.sampling_rate AS rate to"),
        (f"SELECT A.time, A.sampling_rate AS r {PAIR}".replace("b.TCP", "a.TCP"), "q", "B", "B.sampling_rate"),
        (
            INNER + "SELECT tb, sum(len) AS n FROM x GROUP BY time/60 AS tb",
            "y",
            "TCP of query x",
            "of query x, and hand",
        ),
        (FILTER % "", "q", "S", "add S.sampling_rate AS rate"),
    ],
)
def test_rows_without_a_mark_are_refused(text: str, query: str, source: str, hint: str) -> None:
    (note,) = estimate_notes(plan(text), CONFIG)
    assert note.query == query and note.place != (0, 0) and note.text.startswith(f"link a sheds load ({source})")
    assert hint in note.text
    with pytest.raises(QueryError, match="no column of the rows comes from sampling_rate"):
        require_marked(plan(text), CONFIG)
    accepted = Config(links={"a": Link(sampling=True, shed=5, unmarked_estimates=True)})
    require_marked(plan(text), accepted)
    (note,) = estimate_notes(plan(text), accepted)
    assert "unmarked_estimates" not in note.text


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_estimates_and_rates_are_those_of_sql(tmp_path: Path, engine: str) -> None:
    """DuckDB computes the rate of each second and takes packets by their random numbers; intervals change nothing."""
    records, budget = packets(11), 7
    capture, query, links = tmp_path / "a.pcap", tmp_path / "q.gsql", tmp_path / "links.toml"
    capture.write_bytes(pcap_bytes(records, nanoseconds=True))
    query.write_text(
        "DEFINE { query_name 'load'; } SELECT tb, count(*) AS taken, sum(1.0/sampling_rate) AS packets, "
        "min(sampling_rate) AS rate FROM a.UDP GROUP BY time/5 AS tb"
    )
    links.write_text(f"[links.a]\nsampling = true\nshed = {budget}\n")
    udp = [(stamp, _chance(0, stamp, frame)) for _, stamp, frame in _admitted(records) if frame[23] == 17]
    table = pa.table({"stamp": [stamp for stamp, _ in udp], "chance": [chance for _, chance in udp]})
    with closing(database()) as connection:
        connection.register("udp", table)
        wanted = connection.execute(SQL.format(second=SECOND, budget=budget)).fetchall()
    assert any(rate < 1 for *_, rate in wanted) and sum(taken for _, taken, *_ in wanted) < len(udp)
    for interval in ("1h", "3s") if engine == "reference" else ("9s",):
        out = tmp_path / interval
        said = lowwater(
            *("run", query, "--capture", f"a={capture}", "--out", out, "--engine", engine),
            *("--links", links, "--interval", interval, "--skew", "a=1s"),
        )
        assert said.code == 0, said.err
        with (out / "load.csv").open() as file:
            rows = sorted(csv.DictReader(file), key=lambda row: int(row["tb"]))
        assert [(int(row["tb"]), int(row["taken"]), float(row["rate"])) for row in rows] == [
            (tb, taken, rate) for tb, taken, _, rate in wanted
        ]
        estimates = zip(rows, wanted, strict=True)
        assert all(math.isclose(float(row["packets"]), estimate) for row, (_, _, estimate, _) in estimates)
