"""When a scheduled interval may start: what is waited for, what fails at once, what is left out (SEMANTICS T5, T6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowwater.instants import HOUR
from lowwater.replay.job import Job
from lowwater.replay.schedule.links import LinkReadiness, link_readiness
from tests.replay.support import END, QUERIES, START, write_settings

pytestmark = pytest.mark.slow


def seen(lake: Path, policy: str, start: int, patient: bool = True) -> LinkReadiness:
    """What the sensor sees with a policy of control; main1 and main2 have policy `fail`."""
    write_settings(lake, policy=policy)
    return link_readiness(Job.open(lake, "demo", QUERIES), start, start + HOUR, patient)


@pytest.mark.parametrize("policy", ["fail", "wait", "exclude"])
def test_an_interval_whose_links_have_reported_is_ready(lake: Path, policy: str) -> None:
    assert seen(lake, policy, START).ready
    assert seen(lake, policy, START, patient=False).ready


def test_a_capture_that_has_not_come_is_waited_for(lake: Path) -> None:
    """After the last hour each link covers one minute more; whether the rest comes is not known yet."""
    waits = seen(lake, "exclude", END)
    assert not waits.ready and waits.failure is None
    assert len(waits.missing) == 1 and "3 links (" in waits.missing[0], "they lack the same, so it is said once"
    assert all(f"'{link}'" in waits.missing[0] for link in ("control", "main1", "main2"))
    failed = seen(lake, "exclude", END, patient=False)
    assert failed.failure is not None and failed.failure.link == "main1", "control is excluded by now"
    assert failed.failure.since == END + HOUR // 60
    assert "2026-01-01T03:01:00Z" in failed.failure.message
