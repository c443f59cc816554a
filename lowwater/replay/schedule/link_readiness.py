"""Checks whether an interval may start: links that have not reported yet, and gaps that will not close (SEMANTICS T5,
T6).

The sensor of Airflow asks repeatedly; the run itself checks once more with `IntervalInputs.require`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lowwater.errors import GapError
from lowwater.lake.ledgers.captures import NEVER, Capture, Captures
from lowwater.lake.ledgers.coverage import Gap, gap_error, gap_texts
from lowwater.replay.job import Job


@dataclass(frozen=True)
class LinkReadiness:
    """The readiness of the links of an interval.

    Attributes:
        missing: one line for each gap that captures may still close.
        failure: error of a gap that no run can pass: its link has policy `fail`, and either the capture of that time is
            cut, or the patience is over.
    """

    missing: tuple[str, ...]
    failure: GapError | None

    @property
    def ready(self) -> bool:
        """Whether the interval may start."""
        return not self.missing and self.failure is None


def link_readiness(job: Job, start: int, end: int, patient: bool) -> LinkReadiness:
    """Checks which links have reported to the end of an interval.

    A gap inside the declared coverage of a cut capture does not close by itself: policy `fail` fails at once, policy
    `publish` starts at once. Any other gap may only mean that the capture is not ingested yet, or was still growing.

    Args:
        job: the query set.
        start: first instant of the interval, ns since the epoch.
        end: end of the interval, ns since the epoch, exclusive.
        patient: whether captures may still come; otherwise only links of policy `wait` are waited for.
    """
    captures = job.captures()
    missing: list[Gap] = []
    inputs = job.inputs(start, end, captures)
    for gap in inputs.gaps():
        policy = job.config.link(gap.link).policy
        mine = captures.get(gap.link, ())
        definite = not patient or _was_covered(gap, mine)
        if policy == "fail" and definite:
            return LinkReadiness((), gap_error(gap, start, end, mine, inputs.why_needed(gap)))
        if policy == "wait" or not definite:
            missing.append(gap)
    return LinkReadiness(tuple(gap_texts(missing, captures, inputs.why_needed)), None)


def _was_covered(gap: Gap, captures: Sequence[Capture]) -> bool:
    """Whether a capture was declared to cover the gap, and ended before it."""
    ordered = Captures.of(captures)
    begins, ends = ordered.numbers("declared_from", NEVER[0]), ordered.numbers("declared_to", NEVER[1])
    return bool(np.any((begins <= gap.since) & (ends >= gap.until) & (ordered.numbers("growing") == 0)))
