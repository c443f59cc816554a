"""State does not grow with the length of the interval, where rate, keys and the ticks of the replay are the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lowwater.high.query_runs import HighSettings
from lowwater.plan.context import Links
from lowwater.plan.operators import LftaInput, walk
from lowwater.plan.queryset import plan_texts
from lowwater.plan.temporal import CLOCK
from tests.breadth import each_push
from tests.high.streams import SECOND, Row, read_stream, run_high, write_stream

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

pytestmark = pytest.mark.slow

HOUR = 3600 * SECOND
BAND = "FROM main1.TCP A, main2.TCP B WHERE A.time <= B.time AND B.time <= A.time + 90 AND A.destPort = B.destPort"
QUERIES = {
    "sliding": "SELECT wid, destPort, count(*) FROM main1.TCP [RANGE 90 s, SLIDE 30 s, WA time] GROUP BY destPort",
    "first": "SELECT tb, destPort, FIRST(len) FROM main1.TCP GROUP BY time/60 AS tb, destPort",
    "closing": "SELECT tb, destPort, sum(len) FROM main1.TCP GROUP BY time/60 AS tb, destPort CLOSING_WHEN sum(len)>9",
    "band": f"SELECT A.time, B.time AS later INNER_JOIN {BAND}",
    "outer band": f"SELECT A.time, B.time AS later OUTER_JOIN {BAND}",
    "filter": "SELECT S.time FILTER_JOIN(time, 90) FROM main1.TCP S, main1.TCP F WHERE S.destPort = F.destPort",
    "rows": "SELECT wid, count(*) FROM main1.TCP [RANGE 9 ROWS, SLIDE 3 ROWS]",
}
"""One query for each operator that keeps rows, groups or windows."""


def regular(below: LftaInput, until: int) -> list[Row]:
    """A row of an LFTA every ten seconds, its attributes of the clock by their instants, all else in turn."""
    times = [CLOCK if f.name == "_timestamp" else f.temporal for f in below.lfta.stored]
    rows = []
    for number, instant in enumerate(range(0, until, 10 * SECOND)):
        values = [time.promise(instant) if time and not time.origin else number % 5 for time in times]
        ends = [time.last(value) for time, value in zip(times, values, strict=True) if time and not time.origin]
        rows.append((tuple(values), min(ends, default=instant)))
    return rows


@pytest.mark.parametrize("name", ["filter", "band", "first"])
def test_rows_do_not_depend_on_how_many_are_kept_in_memory(
    name: str, runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_texts([("q.gsql", QUERIES[name])], Links(("main1", "main2")), 1).queries[0].high
    inputs = {}
    for below in (each for each in walk(plan) if isinstance(each, LftaInput)):
        for at, link in enumerate(below.lfta.links):
            rows = [row for number, row in enumerate(regular(below, HOUR)) if number % (2 + at) == 0]
            file = tmp_path / f"{below.lfta.name}{link}.parquet"
            inputs[below.lfta.name, link] = write_stream(file, below.lfta.stored, rows, HOUR)
    found = []
    for most in (1 << 22, 9):
        monkeypatch.setattr("lowwater.columns.values.ROWS_IN_MEMORY", most)
        result = run_high(runner, {"q": plan}, inputs, 0, HOUR, tmp_path / str(most), HighSettings(tick=HOUR // 2))["q"]
        found.append((read_stream(result.files)[0], result.operators))
    assert found[0] == found[1] and found[0][0]


@pytest.mark.parametrize("name", each_push(QUERIES, 2))
def test_peak_state_of_every_operator_is_that_of_an_hour(name: str, runner: Runner, tmp_path: Path) -> None:
    plan = plan_texts([("q.gsql", QUERIES[name])], Links(("main1", "main2")), 1).queries[0].high
    leaves = {each.lfta.name: each for each in walk(plan) if isinstance(each, LftaInput)}
    peaks = []
    for hours in (1, 4):
        inputs = {
            (below.lfta.name, link): write_stream(
                tmp_path / f"{hours}{lfta}{link}.parquet", below.lfta.stored, regular(below, hours * HOUR), hours * HOUR
            )
            for lfta, below in leaves.items()
            for link in below.lfta.links
        }
        settings = HighSettings(tick=HOUR // 2, slice_rows=180, shares=1)  # five keys make uneven shares
        result = run_high(runner, {"q": plan}, inputs, 0, hours * HOUR, tmp_path / str(hours), settings)["q"]
        assert result.batches >= 2 * hours and result.rows > 0
        peaks.append(result.state_rows)
    assert 0 < peaks[1] <= 1.1 * peaks[0], peaks
