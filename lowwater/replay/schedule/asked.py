"""Whether a run that somebody has asked for leaves its interval alone: it is in no state that was asked for, or its
links may still report."""

from __future__ import annotations

import time
from collections.abc import Sequence

from lowwater.lake.kinds import SKIPPED, UNREPORTED
from lowwater.replay.interval import Outcome
from lowwater.replay.job import Job
from lowwater.replay.schedule.due import DueSelection, due
from lowwater.replay.schedule.link_readiness import link_readiness


def left_alone(
    job: Job, start: int, end: int, deadline: float, only: Sequence[str], looked: bool = False
) -> Outcome | None:
    """The outcome of an interval that does not run; None if it may.

    Args:
        job: the query set.
        start: first instant of the interval, ns since the epoch.
        end: end of the interval, ns since the epoch, exclusive.
        deadline: wall clock time, s, after which only links of policy `wait` are waited for.
        only: states in which it runs; empty for every state.
        looked: whether whoever asks has seen that nobody is at work on the interval before it in its chain.

    Raises:
        ConfigError: it is no interval of the query set.
        GapError: a link of it will not report.
    """
    job.require_bounds(start, end)
    if job.chained and not looked:
        return Outcome(start, end, UNREPORTED, "its intervals run in order", {}, False)
    if unasked := not_asked_for(job, start, end, only):
        return Outcome(start, end, SKIPPED, unasked, {}, False)
    ready = link_readiness(job, start, end, time.time() < deadline)
    if ready.failure is not None:
        raise ready.failure
    if ready.missing:
        return Outcome(start, end, UNREPORTED, "; ".join(ready.missing), {}, False)
    return None


def not_asked_for(job: Job, start: int, end: int, only: Sequence[str]) -> str:
    """Says why an interval is skipped: it is in none of the states that were asked for; empty where it is in one."""
    if not only or due(job, DueSelection(start, end, tuple(only))):
        return ""
    return f"skipped: the interval is not {' or '.join(only)}"
