"""Checks over time: what is kept of an interval, what is usual, how far an interval is from it, and proposed limits."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from lowwater.catalog.schemas import READABLE
from lowwater.catalog.values import pack_ip, words_from_ip
from lowwater.cli.commands.audits import _toml
from lowwater.config import Config, History, Link
from lowwater.instants import HOUR, SECOND, format_instant
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.runs import LinkLateness, read_lateness, read_metrics, record_lateness, record_metrics
from lowwater.lake.tables import open_table
from lowwater.quality import links as profile
from lowwater.quality.history import (
    LINK,
    QUERY,
    IntervalHistory,
    covered_by,
    history_start,
    interval_history,
    limit_proposals,
    link_items,
    link_row,
    metric_table,
    propose,
    query_items,
)
from lowwater.quality.lateness import LatenessCounts
from lowwater.quality.links import LinkProfile, SenderCounts

BASE = 500_000 * HOUR
SETTINGS = History(intervals=4, least=3)
TALK = {"10.0.0.1": 0.6, "10.0.0.2": 0.4}


def batch(rows: list[tuple[int, int, str | None]]) -> pa.RecordBatch:
    """Records of (arrival, timestamp, source)."""
    words = [(None, None, None) if source is None else words_from_ip(pack_ip(source)) for *_, source in rows]
    return pa.RecordBatch.from_pydict(
        {
            "capture": ["c"] * len(rows),
            "position": range(len(rows)),
            "arrival": pa.array([each[0] for each in rows], pa.int64()),
            "timestamp": pa.array([each[1] for each in rows], pa.int64()),
            **{
                name: pa.array([each[at] for each in words], READABLE.field(name).type)
                for at, name in enumerate(profile.SOURCE)
            },
            "len": pa.array([60 + each[0] % 7 for each in rows], pa.int32()),
        }
    )


RECORDS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 9), st.sampled_from([None, "10.0.0.1", "10.0.0.2", "::1"])),
    max_size=30,
)


@given(RECORDS, st.integers(1, 5))
def test_a_profile_is_that_of_the_records_that_arrive_inside(
    found: list[tuple[int, int, str | None]], cut: int
) -> None:
    rows = [(arrival, arrival - late, source) for arrival, late, source in sorted(found, key=lambda each: each[0])]
    made = LinkProfile(10, 30, 4)
    for at in range(0, len(rows), cut):
        made.add(batch(rows[at : at + cut]))
    mine = [each for each in rows if 10 <= each[0] < 30]
    sources = [source for *_, source in mine if source]
    assert made.watch.lags.records == len(mine)
    assert made.bytes == (sum(60 + arrival % 7 for arrival, *_ in mine) if mine else None)
    assert made.watch.refused == sum(arrival - stamp > 4 for arrival, stamp, _ in mine)
    assert made.silence == max(np.diff([10, *(each[0] for each in mine), 30]))
    assert dict(made.talkers) == {name: sources.count(name) / len(sources) for name in set(sources)}
    assert [share for _, share in made.talkers] == sorted((share for _, share in made.talkers), reverse=True)


@given(st.lists(st.lists(st.tuples(st.sampled_from([4, 6]), *2 * [st.integers(-3, 3)]), max_size=60), max_size=5))
def test_sources_are_counted_as_by_a_dictionary(batches: list[list[tuple[int, int, int]]]) -> None:
    counted, expected = SenderCounts(1000), Counter[tuple[int, int, int]]()
    for rows in batches:
        counted.add(pa.table(list(np.array(rows, np.int64).reshape(-1, 3).T), names=profile.SOURCE))
        expected.update(rows)
    ordered = sorted(expected.items(), key=lambda each: (-each[1], each[0]))
    assert (len(counted), counted.busiest(1000)) == (len(expected), ordered)
    assert counted.busiest(2) == ordered[:2]


def test_sources_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile, "PROFILE_SOURCES", 10)
    made = LinkProfile(0, 1000, 0)
    for at in range(50):
        made.add(batch([(at, at, "10.0.0.1"), (at, at, f"10.0.1.{at}"), (at, at, f"10.0.2.{at}")]))
        assert len(made._sources) <= 10
    assert made.talkers[0] == ("10.0.0.1", 1 / 3)


def items(volume: int = 10_000, **changed: Any) -> Any:
    """The measures of a link."""
    values = {"violating": 0.001, "malformed": 0.0, "lateness": SECOND // 2, "silence": 2 * SECOND} | changed
    mixed = {"link_types": values.pop("link_types", {"EN10MB": 1.0}), "talkers": values.pop("talkers", TALK)}
    return {"volume": {"": volume}, **{name: {"": value} for name, value in values.items()}, **mixed}


def judged(now: Any, before: list[Any]) -> dict[str, Any]:
    return link_row(now, before, SETTINGS, SECOND)


def drifts(row: dict[str, Any]) -> dict[str, float]:
    return {name.removesuffix("_drift"): value for name, value in row.items() if name.endswith("_drift") and value}


@pytest.mark.parametrize(
    ("now", "drift"),
    [(items(), {}), (items(2500), {"volume": 0.75}), (items(40_000), {"volume": 0.75}), (items(0), {"volume": 1.0}),
     (items(violating=0.201), {"violating": 0.2}), (items(violating=0.0), {}),
     (items(lateness=3 * SECOND // 4), {"lateness": 0.25}), (items(lateness=9 * SECOND), {"lateness": 1.0}),
     (items(lateness=0), {}), (items(silence=20 * SECOND), {"silence": 0.9}), (items(silence=SECOND), {}),
     (items(link_types={"RAW": 0.25, "EN10MB": 0.75}), {"link_types": 0.25}),
     (items(talkers={"10.0.0.9": 1.0}), {"talkers": 1.0}),
     (items(talkers={"10.0.0.1": 0.6, "10.0.0.9": 0.2}), {"talkers": 0.4}),
     (items(50, talkers={"10.0.0.9": 1.0}, lateness=9 * SECOND), {"volume": 0.995}),
     (items(9000, lateness=9 * SECOND), {"volume": 0.1})],
)  # fmt: skip
def test_how_far_a_link_is_from_usual(now: Any, drift: dict[str, float]) -> None:
    row = judged(now, [items(11_000), items(10_000), items(9000)])
    assert drifts(row) == pytest.approx(drift)
    assert row["past"] == 3
    assert judged(now, []) == judged(now, []) | {"past": 0, "new_link_types": "", "changed_talkers": ""}
    assert drifts(judged(now, [])) == {}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return open_lake(tmp_path / "lake")


def record(lake: Lake, hour: int, volume: int, rows: int = 7, length: int = HOUR) -> None:
    kept = [(LINK, "a", items(volume)), (QUERY, "q", query_items(rows))]
    begin = BASE + hour * HOUR
    record_metrics(lake, "s", {(begin, begin + length): metric_table(kept, 1)}, again=True)


def test_what_is_usual_are_the_last_intervals_before_of_the_same_length(lake: Lake) -> None:
    for hour in (3, 1, 2, 0, 5, 6):
        record(lake, hour, 100 * hour)
    record(lake, 2, 222)
    record(lake, 4, 999, length=HOUR // 2)
    known = interval_history(SETTINGS, read_metrics(lake, "s"), HOUR)

    def volumes(found: IntervalHistory, hour: int) -> list[float]:
        return [each["volume"][""] for each in found.before(LINK, "a", BASE + hour * HOUR)]

    assert volumes(known, 5) == [0, 100, 222, 300]
    assert volumes(known, 6) == [100, 222, 300, 500]
    assert volumes(known, 2) == [] and volumes(known, 3) == [0, 100, 222]
    assert known.before(QUERY, "q", BASE + 5 * HOUR)[0] == {"covered": {"": 1.0}, "volume": {"": 7.0}}
    assert known.before(LINK, "other", BASE + 5 * HOUR) == []
    seasonal = interval_history(History(least=1, season="2h"), read_metrics(lake, "s"), HOUR)  # type: ignore[arg-type]
    assert volumes(seasonal, 6) == [0, 222] and volumes(seasonal, 5) == [100, 300]
    assert history_start(SETTINGS, BASE, HOUR) == BASE - 4 * 5 * HOUR, "what is not covered does not count"
    assert read_metrics(lake, "s", BASE + HOUR, BASE + 2 * HOUR).num_rows == read_metrics(lake, "s").num_rows / 7


def test_lateness_is_added_once_and_the_newest_counts(lake: Lake) -> None:
    late, early = LinkProfile(BASE, BASE + HOUR, SECOND), LinkProfile(BASE, BASE + HOUR, SECOND)
    late.add(batch([(BASE + 9 * SECOND, BASE, "10.0.0.1"), (BASE + 9 * SECOND, BASE + 9 * SECOND, None)]))
    for now, made in enumerate((early, late, late)):
        ends = made.watch.refused, made.watch.lags.largest, made.watch.busiest
        lags = made.watch.lags.counted()
        record_lateness(lake, [LinkLateness("a", BASE, BASE + HOUR, SECOND, *ends, *lags, now)])
    (found,) = read_lateness(lake, "a")
    assert (found.measured_at, found.refused, found.largest, found.busiest) == (1, 1, 9 * SECOND, 2)
    kept = LatenessCounts.of(found.bounds, found.counts, found.largest)
    assert (kept.records, kept.late, kept.lost(8 * SECOND), kept.lost(9 * SECOND)) == (2, 1, 1, 0)
    table = open_table(lake.lateness)
    assert table is not None and table.version() == 2
    assert read_lateness(lake, "b") == []
    ends, lags = (early.watch.refused, early.watch.lags.largest, early.watch.busiest), early.watch.lags.counted()
    record_lateness(lake, [LinkLateness("a", BASE, BASE + HOUR, SECOND, *ends, *lags, 0)])
    (found,) = read_lateness(lake, "a")
    assert (found.measured_at, found.refused) == (2, 0), "it is of a machine whose clock is behind"


def test_the_intervals_of_a_time_are_judged_as_one_by_one(lake: Lake) -> None:
    for hour in range(9):
        record(lake, hour, 100 * (hour % 4) + 1)
    for settings in (SETTINGS, History(intervals=2, least=1, season="2h")):  # type: ignore[arg-type]
        known, config = interval_history(settings, read_metrics(lake, "s"), HOUR), Config(links={"a": Link()})
        judged = [*known.judged(config, LINK, "a", BASE + 3 * HOUR)]
        assert [start for start, *_ in judged] == [BASE + hour * HOUR for hour in range(3, 9)]
        for start, items, row in judged:
            assert row == link_row(items, known.before(LINK, "a", start), settings, config.link("a").skew)


@pytest.mark.slow
def test_limits_fit_what_was_seen(lake: Lake) -> None:
    for hour in range(12):
        record(lake, hour, 1000 + 100 * (hour % 2), rows=5 if hour == 11 else 100)
    config = Config(links={"a": Link()}, history=SETTINGS)
    found = {
        (each.section, each.key): each
        for each in limit_proposals(config, [interval_history(SETTINGS, read_metrics(lake), HOUR)])
    }
    volume = found["history", "volume"]
    assert (volume.judged, volume.most, volume.now, volume.warned) == (18, 0.95, 0.8, 1)
    assert (volume.limit, volume.beyond) == (1.0, 0)
    assert found["history", "talkers"].limit == 0.0
    assert found["links.a.thresholds", "violating"].limit == pytest.approx(0.0013)
    assert set(found) == {
        *(("history", name) for name in ("volume", "violating", "lateness", "silence", "link_types", "talkers")),
        *(("links.a.thresholds", name) for name in ("violating", "malformed")),
    }


@pytest.mark.slow
def test_proposed_lines_keep_the_critical_limits_in_force(lake: Lake) -> None:
    for hour in range(12):
        record(lake, hour, 1000 + 100 * (hour % 2), rows=5 if hour == 11 else 100)
    history = {"intervals": 4, "least": 3, "volume": {"warning": 0.8, "critical": 0.99}}
    limits = {"violating": {"warning": 0.01, "critical": 0.02}}
    config = Config.model_validate({"links": {"a": {"thresholds": limits}}, "history": history})
    known = interval_history(config.history, read_metrics(lake), HOUR)
    text = _toml(limit_proposals(config, [known]))
    assert "violating = { warning = 0.0013, critical = 0.02 }" in text
    assert "malformed = { warning = 0, critical = 0.1 }" in text, "the default is in force too"
    assert "volume = { warning = 1, critical = 1 }  # critical was 0.99" in text, "none is below the warning"
    told = tomllib.loads("\n".join(text))
    assert Config.model_validate({"links": {"a": {}}, **told}).limits("a").violating.critical == 0.02


@given(st.lists(st.floats(0, 1), min_size=1, max_size=300).map(sorted))
def test_a_proposed_limit_lets_few_intervals_beyond(values: list[float]) -> None:
    limit = propose(values)
    assert 0 <= limit <= 1
    assert sum(value > limit for value in values) <= len(values) // 100


def measured(lake: Lake, hour: int, read: int, covered: float) -> dict[str, Any]:
    """Stores the measures of a link in an hour of which so much is covered, and returns the row that is judged."""
    made = LinkProfile(BASE, BASE + HOUR, SECOND)
    gap = round((1 - covered) * HOUR)
    row = {
        "read": read, "violating_share": 0.0, "malformed_share": 0.0, "copies": None, "gap_ns": 0, "excluded_ns": gap,
    }  # fmt: skip
    items = link_items(row, made, {"ethernet": read}, covered)
    begin = BASE + hour * HOUR
    known = interval_history(SETTINGS, read_metrics(lake, "s", 0, begin), HOUR)
    record_metrics(lake, "s", {(begin, begin + HOUR): metric_table([(LINK, "a", items)], 1)}, again=False)
    return link_row(items, known.before(LINK, "a", begin), SETTINGS, SECOND)


@pytest.mark.slow
def test_hours_that_nothing_covers_teach_nothing(lake: Lake) -> None:
    """What is not covered is not zero: twelve hours without a capture, then good ones, of which none is unusual."""
    for hour in range(12):
        row = measured(lake, hour, 0, 0)
        assert row["volume"] is None and not any(value for name, value in row.items() if name.endswith("_drift"))
    stored = read_metrics(lake, "s")
    assert set(stored.column("measure").to_pylist()) == {"covered", "gap"}
    for hour in range(12, 16):
        row = measured(lake, hour, 1000, 1)
        assert row["past"] == max(0, hour - 12 if hour - 12 >= 3 else 0) and row["volume_drift"] == 0
    partly = measured(lake, 16, 100, 0.1)
    assert partly["volume"] == 100 and partly["volume_drift"] == 0, "a tenth of the hour has a tenth of the records"
    quiet = measured(lake, 17, 100, 1)
    assert quiet["past"] == 4 and quiet["usual_volume"] == 1000 and quiet["volume_drift"] == pytest.approx(0.9)


def test_a_link_that_has_ended_takes_no_interval_out_of_the_history_of_a_query() -> None:
    lives = {"a": {}, "over": {"until": format_instant(BASE)}, "later": {"since": format_instant(BASE + HOUR)}}
    config = Config.model_validate({"links": lives | {"b": {}}})

    def covered(*ended: str) -> float:
        return covered_by({"a": 0.9} | dict.fromkeys(ended, 0.0), config, BASE, BASE + HOUR)

    assert (covered(), covered("over"), covered("over", "later"), covered("b")) == (0.9, 0.9, 0.9, 0)
    assert covered_by({"over": 0.0}, config, BASE, BASE + HOUR) == 0
    assert covered_by({"a": 1.0, "over": 0.5}, config, BASE - 1, BASE + HOUR) == 0.5, "it lives in a part of it"
