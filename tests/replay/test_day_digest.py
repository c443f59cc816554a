"""The digest of a day: what was published, what failed and what is due, from the ledgers."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowwater.instants import HOUR
from lowwater.replay.job import Job
from lowwater.replay.schedule.days import day_report
from tests.review.ledgers import HOSTILE, START, make

pytestmark = pytest.mark.slow


def test_a_day_in_words(tmp_path: Path) -> None:
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
