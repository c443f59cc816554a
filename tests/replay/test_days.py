"""The quality of a lake over time, and the digest of a day, against ledgers whose outcomes are known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lowwater.instants import HOUR, SECOND
from lowwater.lake.layout import QUALITY, Lake, open_lake
from lowwater.lake.ledgers.runs import AUDIT, ReplayRow, record_quality, record_replays
from lowwater.quality.reports import IntervalAudit
from lowwater.replay.job import Job
from lowwater.replay.schedule.days import DayQuality, LinkDay, day_report, flapping, last_change, trust
from tests.review.ledgers import HOSTILE, START, make

RULES = ("steady", "unsteady", "since the change")


def audited(lake: Lake, number: int, release: str, queries: str, **broken: bool) -> None:
    """An audit of hour `number`, finished an hour later."""
    keys = ("query_set", "interval_start", "interval_end")
    told = {"suite": "links", "severity": "warning", "messages": "", "page": "", "kind": "k"}
    rows: list[dict[str, Any]] = [
        {**told, "expectation": rule, "title": rule, "success": rule not in broken, "evaluated": 1, "unexpected": 0,
         "audited_at": number}
        for rule in RULES
    ]  # fmt: skip
    schema = pa.schema([column for column in QUALITY if column.name not in keys])
    start, end = number * HOUR, (number + 1) * HOUR
    texts = {name: pa.array([], pa.string()) for name in ("suite", "expectation", "subject", "row")}
    none = pa.table(texts | {name: pa.array([], pa.int64()) for name in ("total", "kept_at")})
    record_quality(lake, "q", {(start, end): (pa.Table.from_pylist(rows, schema=schema), none)})
    settings = json.dumps({"release": release, "queries": queries})
    record_replays(lake, [ReplayRow("q", "flows", start, end, AUDIT, "done", end, settings=settings)])


@pytest.mark.slow
def test_what_flaps_and_what_a_change_made_worse(tmp_path: Path) -> None:
    lake = open_lake(tmp_path)
    for number in range(8):
        new = number >= 5
        broken = ({"unsteady": True} if number % 2 else {}) | ({"since the change": True} if new else {})
        audited(lake, number, "2" if new else "1", "b" if new else "a", **broken)
    (flap,) = flapping(lake, ["q"], 0, 100 * HOUR)
    assert (flap.query_set, flap.title, flap.changes, flap.audits, flap.failed) == ("q", "unsteady", 7, 8, 4)
    assert flapping(lake, ["another"], 0, 100 * HOUR) == []
    change = last_change(lake, "q")
    assert change is not None
    assert (change.at, change.what, change.better) == (6 * HOUR, "release 1 -> 2 and queries", ())
    assert change.worse == ("since the change", "unsteady"), "2 of 5 before, 2 of 3 after"
    assert last_change(lake, "another") is None


def test_a_word_says_what_an_interval_is_worth() -> None:
    passed = IntervalAudit("q", 0, HOUR, "passed", (), {})
    assert trust("done", "", passed) == ("trusted", "")
    assert trust("done", "", replace(passed, verdict="warned")) == ("doubtful", "done")
    for state, word in (("incomplete", "partial"), ("stale", "doubtful"), ("failed", "refused"), ("missing", "absent")):
        assert trust(state, "why", None) == (word, "why")


def test_a_day_is_five_lines() -> None:
    links = [LinkDay("a", 90 * SECOND, 0.02, None), LinkDay("b", 0, None, None)]
    assert DayQuality({"trusted": 23, "partial": 1}, "no capture", links, [], []).lines() == [
        "Intervals: 23 trusted, 1 partial; the first: no capture",
        "Lost traffic: a 1 min 30 s",
        "Late records: a 2% (a week before unknown)",
        "Rules that flap: none",
        "Changes: none",
    ]


@pytest.mark.slow
def test_the_digest_of_a_day_in_words(tmp_path: Path) -> None:
    """Of 30 hours the last 24 count; one failed. The hour that never ran is due, and the failed one."""
    job = Job.open(*(lambda root, queries: (root, "q", queries))(*make(tmp_path, 30, frozenset({25}), frozenset())))
    worth, lost, late, flaps, changes, published, due, *named = day_report(
        [job], {"broken": f"no such link\n{HOSTILE}"}, START + 30 * HOUR
    )
    assert worth.startswith("Intervals: 21 trusted, 1 partial, 1 refused, 1 absent; the first: never run")
    assert lost.startswith("Lost traffic: ") and late.startswith("Late records: ")
    assert (flaps, changes) == ("Rules that flap: none", "Changes: none")
    assert published == "q: 22 done, 1 failed"
    assert due == "q: 2 due (1 failed, 1 missing)"
    assert named[0].startswith("  1 Jan 2025, 07:00 UTC, missing: never run")
    assert named[1].startswith("  2 Jan 2025, 01:00 UTC, failed: audit: the audit failed")
    assert named[2:] == ["broken cannot be planned: no such link"]
    assert day_report([job], {}, START + 100 * HOUR)[5] == "q: nothing ran"


@pytest.mark.slow
def test_the_digest_tells_what_hours_have_come_to(tmp_path: Path) -> None:
    """Counterexample: each hour is provisional until the next file is there. A day of hours that were all done by its
    end was told as provisional, and one that failed for a moment as failed."""
    root, queries = make(tmp_path, 12, frozenset(), frozenset())
    job = Job.open(root, "q", queries)

    def row(hour: int, seconds: int, stage: str, state: str) -> ReplayRow:
        start, end = START + hour * HOUR, START + (hour + 1) * HOUR
        query = "" if state == "failed" else "flows"
        return ReplayRow("q", query, start, end, stage, state, end + seconds * SECOND, rows=7)

    earlier = [row(1, 1, "publish", "provisional"), row(2, 1, "low", "failed"), row(3, 1, "publish", "incomplete")]
    later = [row(4, 9, "publish", "rolled back"), row(5, 9, "low", "failed")]
    record_replays(job.lake, [*earlier, *later])
    assert day_report([job], {}, START + 13 * HOUR)[5] == "q: 9 done, 1 rolled back, 1 failed"
