"""Trends against DuckDB: sums of days, and what is unusual by the definition of the drift; both are on the page."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lowwater_review import Ledgers, render
from lowwater_review.queries import cost_history, rows_history
from lowwater_review.trends import run_seconds, subjects, summaries, trend

from lowwater.instants import HOUR
from lowwater.lake.layout import METRICS, open_lake
from lowwater.lake.ledgers.runs import ReplayRow, record_replays
from lowwater.lake.open_tables import existing
from lowwater.lake.tables import read_rows, replace_rows
from tests.review.ledgers import LINKS, MISSING, SPIKE, START, make, volume

pytestmark = pytest.mark.slow
HOURS = 60
EARLIER, LEAST, LIMIT = 24, 6, 0.8
"""Defaults of `[history]`."""
BY_DAY = """SELECT (interval_start // 86400000000000) * 86400000000000 AS day, sum(value) FROM metrics
WHERE kind = 'link' AND subject = 'main1' AND measure = 'bytes' GROUP BY day ORDER BY day"""
DRIFTING = f"""
SELECT a.interval_start FROM metrics a, LATERAL (
  SELECT median(value) AS usual, count(*) AS n FROM (
    SELECT value FROM metrics b WHERE b.kind = 'link' AND b.subject = 'main1' AND b.measure = 'volume'
      AND b.interval_start < a.interval_start ORDER BY b.interval_start DESC LIMIT {EARLIER})) u
WHERE a.kind = 'link' AND a.subject = 'main1' AND a.measure = 'volume' AND u.n >= {LEAST}
  AND 1 - least(a.value, usual) / greatest(a.value, usual) > {LIMIT} ORDER BY 1"""


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory: pytest.TempPathFactory) -> Ledgers:
    return Ledgers(*make(tmp_path_factory.mktemp("trends"), HOURS))


def test_days_and_what_is_unusual_are_those_of_duckdb(ledgers: Ledgers) -> None:
    snapshot = ledgers.now()
    table = existing(snapshot.lake.metrics)
    metrics = table.to_pyarrow_table()  # noqa: F841 - DuckDB reads it by its name
    found = trend(snapshot, "link", "main1", "q")
    series = {each.measure.name: each for each in found.series}
    assert list(series) == ["volume", "bytes", "violating", "malformed", "lateness", "silence", "coverage"]
    with duckdb.connect() as database:
        days = database.execute(BY_DAY).fetchall()
        strange = database.execute(DRIFTING).fetchall()
    assert [(point.start, point.value) for point in series["bytes"].weeks] == days
    assert [start for start, *_ in reversed(found.unusual)] == [start for (start,) in strange] == [START + SPIKE * HOUR]
    assert found.unusual[0][2] == "volume"
    (marked,) = [point for point in series["volume"].days if point.unusual]
    assert (marked.start, marked.value) == (START + SPIKE * HOUR, volume(SPIKE))
    assert min(point.value for point in series["coverage"].weeks) == 0.75
    assert [(each.start, each.end, each.why) for each in found.holes] == [
        (START + MISSING * HOUR, START + (MISSING + 1) * HOUR, "not audited")
    ]
    assert [point.start for point in series["volume"].days] == [START + at * HOUR for at in range(HOURS)], "one axis"
    assert found.judged == HOURS - 2 - LEAST, "an hour was not run, of one a quarter is not covered"


def test_an_outage_is_a_hole_with_its_cause_and_not_left_out(tmp_path: Path) -> None:
    """Counterexample: only what was audited was drawn, so that 09:00 stood beside 11:00."""
    away = frozenset({("main1", 10), ("main1", 11)})
    snapshot = Ledgers(*make(tmp_path, 20, absent=away)).now()
    of_main1 = pc.field("subject") == "main1"
    kept = read_rows(snapshot.lake.metrics, METRICS, of_main1)
    hours = pc.divide(pc.subtract(kept.column("interval_start"), START), HOUR)
    kept = kept.filter(pc.invert(pc.is_in(hours, value_set=pa.array([10, 11]))))
    replace_rows(snapshot.lake.metrics, kept, of_main1)
    found = trend(Ledgers(snapshot.lake.root, tmp_path / "queries").now(), "link", "main1", "q")
    hole = next(each for each in found.holes if each.start == START + 10 * HOUR)
    assert (hole.end, hole.why.partition(":")[0]) == (START + 12 * HOUR, "not covered")
    points = next(each for each in found.series if each.measure.name == "volume").days
    assert [point.start for point in points] == [START + at * HOUR for at in range(20)]
    assert [point.value for point in points[10:12]] == [None, None]


def test_the_index_has_what_is_unusual_first_and_pages_say_it_in_words(ledgers: Ledgers) -> None:
    snapshot = ledgers.now()
    assert {(kind, name) for kind, name, _ in subjects(snapshot)} == {
        *(("link", name) for name in LINKS),
        ("query", "flows"),
    }
    assert [line.unusual for line in summaries(snapshot)] == [1, 1, 1, 0]
    page = render(snapshot, "trends/link/q/main1.html")
    assert page is not None
    assert "Packets. 59 intervals: 100 to 1,000, the last 104, 1 unusual, 1 not measured; 3 days" in page
    assert page.count('class="bar s-unusual"') == 2, "of packets, by interval and by day"
    assert '<a href="../../../interval/q/2025-01-01T200000Z_2025-01-01T210000Z.html">' in page
    query = render(snapshot, "trends/query/q/flows.html")
    assert query is not None and "Rows. " in query and "Cost of the query set. " in query
    assert render(snapshot, "trends/link/q/nobody.html") is None


def test_an_hour_and_a_day_of_one_begin_are_two(tmp_path: Path) -> None:
    """Counterexample: a set had hours, then days. The first hour of a day had the rows and the seconds of that day."""
    root, queries = make(tmp_path, 30)
    seconds = json.dumps({"low": 99.0})
    day = ReplayRow("q", "flows", START, START + 24 * HOUR, "publish", "done", START, rows=5000, timings=seconds)
    record_replays(open_lake(root), [day])
    snapshot = Ledgers(root, queries).now()
    spent = run_seconds(snapshot, "q")
    assert (spent[START, START + HOUR], spent[START, START + 24 * HOUR]) == (6.75, 99.0)
    for plot, own in ((rows_history(snapshot, "q", "flows"), "5,000"), (cost_history(snapshot, "q"), "99")):
        assert plot is not None
        first = [bar.text for bar in plot.bars if bar.text.startswith("1 Jan 00:00")]
        assert len(first) == 2 and own in first[1] and "24h" in first[1] and own not in first[0], first
    points = next(each for each in trend(snapshot, "query", "flows", "q").series if each.measure.name == "seconds").days
    assert points[0].value == 6.75
