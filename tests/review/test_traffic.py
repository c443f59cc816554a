"""The traffic on the overview: each bar is a number of the ledger, as DuckDB reads it, and what is missing is no 0."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lowwater_review import Ledgers, render
from lowwater_review.calendar import months
from lowwater_review.traffic import TALL, Lane, timeline

from lowwater.instants import HOUR
from lowwater.lake.layout import METRICS
from lowwater.lake.open_tables import existing
from lowwater.lake.tables import read_rows, replace_rows
from lowwater.plan.readings import scaled
from tests.review.ledgers import LINKS, START, make

pytestmark = pytest.mark.slow
HOURS, FAILED, AWAY = 24, 5, (10, 11)
BARS = """SELECT subject, (interval_start - ?) // 3600000000000 AS hour, value * 1e9 / (interval_end - interval_start)
FROM metrics WHERE kind = 'link' AND measure = 'volume' ORDER BY ALL"""


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory: pytest.TempPathFactory) -> Ledgers:
    """Three links, one of them without captures and measures for two hours; one interval has failed."""
    absent = frozenset({*(("main1", hour) for hour in AWAY)})
    root, queries = make(tmp_path_factory.mktemp("traffic"), HOURS, frozenset({FAILED}), absent)
    lake = Ledgers(root, queries).now().lake
    of_main1 = pc.field("subject") == "main1"
    kept = read_rows(lake.metrics, METRICS, of_main1)
    hours = pc.divide(pc.subtract(kept.column("interval_start"), START), HOUR)
    replace_rows(lake.metrics, kept.filter(pc.invert(pc.is_in(hours, value_set=pa.array(AWAY)))), of_main1)
    return Ledgers(root, queries)


def hour_of(lane: Lane, x: float) -> int:
    """The hour at which a bar stands."""
    begin, step = lane.bars[0][0].x, (lane.bars[-1][0].x - lane.bars[0][0].x) / (HOURS - 1)
    return round((x - begin) / step)


def test_each_bar_is_the_number_of_the_ledger_at_its_time(ledgers: Ledgers) -> None:
    snapshot = ledgers.now()
    (part,) = months(snapshot)
    found = timeline(snapshot, part.start, part.end)
    assert found is not None and (found.start, found.end) == (START, START + HOURS * HOUR)
    lanes = {lane.name: lane for lane in found.lanes}
    assert list(lanes) == [*sorted(LINKS), "q"]
    metrics = existing(snapshot.lake.metrics).to_pyarrow_table()  # noqa: F841 - DuckDB reads it by its name
    with duckdb.connect() as database:
        wanted = database.execute(BARS, [START]).fetchall()
    drawn = []
    for link in sorted(LINKS):
        bars = [bar for bar, _ in lanes[link].bars]
        assert [hour_of(lanes[link], bar.x) for bar in bars] == list(range(HOURS)), "one axis, without a step"
        of_captures = {(each.covers_from - START) // HOUR: each.packets / 3600 for each in snapshot.captures[link]}
        audited = {at: value for name, at, value in wanted if name == link}
        most = max((of_captures | audited).values())
        for hour, bar in enumerate(bars):
            if bar.kind == "absent":
                assert (bar.height, "packets/s" in bar.text, hour in of_captures) == (TALL, False, False)
            elif bar.kind == "unmeasured":
                assert hour not in audited and bar.height == pytest.approx(TALL * of_captures[hour] / most, abs=0.06)
                assert f"about {scaled(of_captures[hour], 'packets/s')} by its captures, not measured" in bar.text
            else:
                drawn.append((link, hour))
                value = next(value for name, at, value in wanted if (name, at) == (link, hour))
                assert bar.height == pytest.approx(TALL * value / most, abs=0.06)
                assert scaled(value, "packets/s") in bar.text
    assert drawn == [(name, hour) for name, hour, _ in wanted]
    holes = {link: [bar.text for bar, _ in lanes[link].bars if bar.kind == "absent"] for link in LINKS}
    light = [sum(bar.kind == "unmeasured" for bar, _ in lanes[link].bars) for link in ("main1", "main2", "control")]
    assert light == [1, 1, 1], "of all links an hour never ran"
    assert [len(holes[link]) for link in ("main1", "main2", "control")] == [2, 0, 0]
    assert any("10:00 to 11:00" in text and text.endswith("not covered") for text in holes["main1"])


def test_the_states_stand_below_at_the_same_time_and_lead_to_their_intervals(ledgers: Ledgers) -> None:
    snapshot = ledgers.now()
    (part,) = months(snapshot)
    found = timeline(snapshot, part.start, part.end)
    assert found is not None
    states = found.lanes[-1]
    shown = {hour_of(states, bar.x): (bar.kind, address) for bar, address in states.bars}
    intervals = snapshot.part(part.start, part.end).intervals
    assert {(each.start - START) // HOUR: each.state for each in intervals} == {
        at: kind for at, (kind, _) in shown.items()
    }
    assert shown[FAILED][0] == "failed"
    page = render(snapshot, "index.html")
    assert page is not None
    for _, address in shown.values():
        assert f'href="{address}"' in page and render(snapshot, address) is not None
