"""The first sentence of the overview: all good, or what is wrong, of whom, since when and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from lowwater_review import Ledgers
from lowwater_review.verdict import overview_verdict

from lowwater.instants import HOUR
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.runs import ReplayRow, record_replays
from tests.replay.support import lowwater
from tests.review.ledgers import START, make


@pytest.mark.slow
def test_the_sentence_says_what_is_wrong_since_when_and_what_to_do(tmp_path: Path) -> None:
    snapshot = Ledgers(*make(tmp_path, 6, frozenset({2, 4}), frozenset())).now()
    part = snapshot.part(START, START + 6 * HOUR)
    bad = overview_verdict(snapshot, part.intervals, part.audits)
    assert bad is not None and bad.state == "failed"
    assert bad.sentence == "2 intervals of query set q failed, since 1 Jan 2025, 02:00 UTC. 1 more is not done."
    assert bad.command.endswith("--interval 2025-01-01T02:00:00Z") and bad.address.startswith(
        "interval/q/2025-01-01T02"
    )
    one = overview_verdict(snapshot, part.intervals[:4], part.audits)
    assert one is not None and one.sentence == "1 interval of query set q failed: that of 1 Jan 2025, 02:00 UTC."
    good = overview_verdict(snapshot, part.intervals[:2], part.audits)
    assert good is not None and good.state == "done" and not good.command
    assert good.sentence == "All good since 1 Jan 2025, 00:00 UTC: 2 intervals of 1 query set published."
    assert overview_verdict(snapshot, [], {}) is None


@pytest.mark.slow
def test_a_run_that_failed_elsewhere_is_not_explained_by_the_audit_before_it(tmp_path: Path) -> None:
    """Counterexample: an audit had failed, and the next run of the hour failed in another stage: the pages and `report`
    told what the old audit had found."""
    root, queries = make(tmp_path, 4, frozenset({2}), frozenset())
    start, end = START + 2 * HOUR, START + 3 * HOUR
    why = "query flows: the sum of a group does not fit 64 bits"
    record_replays(open_lake(root), [ReplayRow("q", "", start, end, "high", "failed", end + HOUR, reason=why)])
    snapshot = Ledgers(root, queries).now()
    part = snapshot.part(START, START + 4 * HOUR)
    assert [(each.state, each.reason) for each in part.intervals if each.start == start] == [("failed", f"high: {why}")]
    said = overview_verdict(snapshot, part.intervals, part.audits)
    assert said is not None and said.reason == f"high: {why}"
    told = lowwater("report", "--lake", root, "--queries", queries, "--interval", "2025-01-01T02:00Z")
    assert f"  failed: high: {why}" in told.out.splitlines()
