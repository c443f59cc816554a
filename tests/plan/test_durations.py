"""Durations beside columns of time: the integers that they become, what has no unit, and bands that hardly reach."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from lowwater.errors import QueryError
from lowwater.gsql.parser import parse
from lowwater.gsql.printer import print_file
from lowwater.gsql.words import UNITS
from lowwater.plan.context import Context, Links
from lowwater.plan.queryset import Plan, plan_texts

LINKS = Links(("main1", "main2", "web"), kinds={"web": "csv"})
JOIN = "SELECT A.time FROM main1.TCP A, main2.TCP B WHERE "
LOG = (
    "PROTOCOL log { ullong at get_csv_ullong_pos1 (increasing, unit 'ms'); uint n get_csv_uint_pos2 (increasing);"
    " uint us get_csv_uint_pos3; }\n"
)
BELOW = (
    "DEFINE { query_name 'below'; visibility 'internal'; } SELECT time/60 AS minute, timestamp_ms AS ms FROM TCP;\n"
    "DEFINE { query_name 'q'; } "
)


def plan(text: str) -> Plan:
    return plan_texts([("q.gsql", text)], LINKS, None, Context())


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        (
            JOIN + "A.timestamp <= B.timestamp AND B.timestamp <= A.timestamp + 5 s",
            JOIN + "A.timestamp <= B.timestamp AND B.timestamp <= A.timestamp + 5000000000",
        ),
        (
            JOIN + "B.timestamp_us - A.timestamp_us BETWEEN 0 s AND 2.5ms",
            JOIN + "B.timestamp_us - A.timestamp_us BETWEEN 0 AND 2500",
        ),
        (JOIN + "B.time BETWEEN A.time - 1 min AND A.time", JOIN + "B.time BETWEEN A.time - 60 AND A.time"),
        (JOIN + "A.time = B.time + 1 h", JOIN + "A.time = B.time + 3600"),
        (JOIN + "5 s >= B.time - A.time AND B.time >= A.time", JOIN + "5 >= B.time - A.time AND B.time >= A.time"),
        (
            JOIN + "B.time - A.time >= -2 s AND B.time - A.time <= 1 min + 30 sec",
            JOIN + "B.time - A.time >= -2 AND B.time - A.time <= 90",
        ),
        (
            "SELECT time FROM TCP WHERE timestamp % 1 s < 20 MS",
            "SELECT time FROM TCP WHERE timestamp % 1000000000 < 20000000",
        ),
        (
            "SELECT tb, count(*) FROM TCP GROUP BY time/1 min AS tb HAVING max(timestamp) - min(timestamp) > 0.1 s",
            "SELECT tb, count(*) FROM TCP GROUP BY time/60 AS tb HAVING max(timestamp) - min(timestamp) > 100000000",
        ),
        (
            "SELECT tb + 2 min, count(*) FROM TCP GROUP BY time/60 AS tb",
            "SELECT tb + 2, count(*) FROM TCP GROUP BY time/60 AS tb",
        ),
        (
            "SELECT R.time FILTER_JOIN(timestamp_ms, 5 s) FROM TCP R, TCP S WHERE R.srcIP = S.srcIP",
            "SELECT R.time FILTER_JOIN(timestamp_ms, 5000) FROM TCP R, TCP S WHERE R.srcIP = S.srcIP",
        ),
        (BELOW + "SELECT minute + 3 min, ms - 1 s FROM below", BELOW + "SELECT minute + 3, ms - 1000 FROM below"),
        (LOG + "SELECT at FROM web.log WHERE at % 1 min < 2 s", LOG + "SELECT at FROM web.log WHERE at % 60000 < 2000"),
        (
            "SELECT time FROM TCP WHERE time % 1 d IN [0 s, 12 h] AND (time - 1 h)/2 > 5 min",
            "SELECT time FROM TCP WHERE time % 86400 IN [0, 43200] AND (time - 3600)/2 > 150",
        ),
        (
            "SELECT count(*) AS n, B.srcIP INNER_JOIN FROM main1.TCP A, main2.TCP B WHERE A.time = B.time "
            "GROUP BY A.time/10 s AS tb, B.srcIP",
            "SELECT count(*) AS n, B.srcIP INNER_JOIN FROM main1.TCP A, main2.TCP B WHERE A.time = B.time "
            "GROUP BY A.time/10 AS tb, B.srcIP",
        ),
        (
            "MERGE a.time : b.time SLACK 2 s FROM main1.TCP a, main2.TCP b",
            "MERGE a.time : b.time SLACK 2 FROM main1.TCP a, main2.TCP b",
        ),
    ],
)
def test_a_duration_is_an_integer_of_the_unit_beside_it(written: str, plain: str) -> None:
    # The places of what stands behind a duration differ, and mean nothing to a run.
    found, expected = (plan(text).queries[0] for text in (written, plain))
    assert found.high == expected.high and found.logical == expected.logical


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [(JOIN + "A.time <= B.time AND B.time <= A.time + 20 ms", 91,
      "20 ms is no whole number of seconds, in which A.time"),
     ("SELECT tb FROM TCP GROUP BY time/60 AS tb HAVING tb > 90 s", 55, "90 s is no whole number of minutes"),
     ("SELECT len + 5 s FROM TCP", 14, "5 s stands beside len, whose unit is not known"),
     ("SELECT time FROM TCP WHERE len > 1 ms", 34, "1 ms stands beside len, whose unit is not known"),
     ("SELECT 5 s FROM TCP", 8, "5 s stands beside no time"),
     ("SELECT time*5 s FROM TCP", 13, "5 s stands beside no time"),
     ("SELECT 5 s/time FROM TCP", 8, "5 s stands beside no time"),
     ("SELECT time FROM TCP WHERE 5 s < 6 s", 28, "5 s stands beside no time"),
     ("SELECT UMAX(time, 5 s) FROM TCP", 19, "5 s stands beside no time"),
     ("SELECT time + 1e16 d FROM TCP", 15, "does not fit a 64-bit integer"),
     (LOG.strip() + " SELECT n + 5 s FROM web.log", len(LOG) + 12, "5 s stands beside n, whose unit is not known")],
)  # fmt: skip
def test_what_has_no_unit_or_no_whole_number_of_it_is_an_error_at_its_place(
    text: str, column: int, message: str
) -> None:
    with pytest.raises(QueryError) as found:
        plan(text)
    assert message in found.value.message and found.value.hint
    assert (found.value.line, found.value.column) == (1, column)


def test_units_are_names_where_no_number_stands_before_them() -> None:
    text = "SELECT time AS s, len AS min, min(len) AS m FROM main1.TCP s GROUP BY time, len"
    assert print_file(parse(text)) == print_file(parse(print_file(parse(text))))
    below = "DEFINE { query_name 'b'; visibility 'internal'; } SELECT time AS s, len AS min FROM TCP;\n"
    below += "DEFINE { query_name 'q'; } "
    (query,) = plan(below + "SELECT s.s, s.min - 5 AS d FROM b s WHERE s.s > 5").queries
    assert [f.name for f in query.high.fields] == ["s", "d"]
    with pytest.raises(QueryError, match="LIMIT"):
        plan("SELECT time FROM TCP WHERE len > 5 LIMIT 5")


@given(st.sampled_from(sorted(UNITS)), st.decimals(0, 10**6, places=3), st.sampled_from((1, 1_000, 1_000_000, 10**9)))
def test_random_durations_are_exact(unit: str, number: object, own: int) -> None:
    column = {1: "timestamp", 1_000: "timestamp_us", 1_000_000: "timestamp_ms", 10**9: "time"}[own]
    value = Fraction(str(number)) * UNITS[unit] / own
    text = f"SELECT {column} + {{}} AS x FROM TCP"
    if value.denominator != 1 or value >= 1 << 63:
        with pytest.raises(QueryError, match=r"no whole number|does not fit"):
            plan(text.format(f"{number}{unit}"))
    else:
        assert plan(text.format(f"{number}{unit}")).queries[0].high == plan(text.format(int(value))).queries[0].high


@pytest.mark.parametrize(
    ("text", "place", "reach"),
    [(JOIN + "A.timestamp <= B.timestamp AND B.timestamp <= A.timestamp + 5", (1, 51), "5 nanoseconds"),
     (JOIN + "B.timestamp BETWEEN A.timestamp - 999999 AND A.timestamp", (1, 51), "999999 nanoseconds"),
     (JOIN + "B.timestamp_us - A.timestamp_us BETWEEN 0 AND 20", (1, 51), "20 microseconds"),
     ("SELECT A.time FROM main1.TCP A [RANGE 3, WA timestamp], main2.TCP B [RANGE 5, WA timestamp]", (1, 1),
      "5 nanoseconds"),
     ("SELECT R.time FILTER_JOIN(timestamp, 5) FROM TCP R, TCP S WHERE R.srcIP = S.srcIP", (1, 38), "5 nanoseconds")],
)  # fmt: skip
def test_a_band_that_hardly_reaches_is_noted(text: str, place: tuple[int, int], reach: str) -> None:
    (note,) = plan(text).notes
    assert note.place == place and f"is {reach}, less than a millisecond" in note.text
    assert "write the unit with the number" in note.text
