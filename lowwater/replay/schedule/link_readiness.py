"""Whether an interval may start: which of its links have not reported yet, and which never will (SEMANTICS T5, T6).

Asked by the scheduler's sensor, again and again; the run itself asks `IntervalInputs.require` once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowwater.errors import GapError
from lowwater.lake.ledgers.captures import Capture
from lowwater.lake.ledgers.coverage import Gap, gap_error, gap_texts
from lowwater.replay.job import Job


@dataclass(frozen=True)
class LinkReadiness:
    """What the links of an interval lack.

    Attributes:
        missing: why the interval cannot start yet, one line for gaps that captures may still close.
        failure: the error of a gap that lets no run start: its link has policy `fail`, and either the capture of that
            time is there and cut, or nobody waits any longer.
    """

    missing: tuple[str, ...]
    failure: GapError | None

    @property
    def ready(self) -> bool:
        """Whether the interval may start."""
        return not self.missing and self.failure is None


def link_readiness(job: Job, start: int, end: int, patient: bool) -> LinkReadiness:
    """Looks which links have reported to the end of an interval.

    A gap that a capture was to cover, but which is cut, will not close by itself: policy `fail` fails at once and
    `publish` starts at once. Any other gap may only mean that the capture has not been ingested yet, or was still
    growing.

    Args:
        job: the query set.
        start: the start of the interval, ns; `end` its end.
        patient: whether captures may still come; if not, only links of policy `wait` are waited for.
    """
    captures = job.captures()
    missing: list[Gap] = []
    for gap in job.inputs(start, end, captures).gaps():
        policy = job.config.link(gap.link).policy
        mine = captures.get(gap.link, ())
        definite = not patient or _was_covered(gap, mine)
        if policy == "fail" and definite:
            return LinkReadiness((), gap_error(gap, start, end, mine))
        if policy == "wait" or not definite:
            missing.append(gap)
    return LinkReadiness(tuple(gap_texts(missing, captures)), None)


def _was_covered(gap: Gap, captures: Sequence[Capture]) -> bool:
    """Whether a capture was declared to cover the gap, and broke off before."""
    return any(
        capture.declared is not None
        and capture.declared[0] <= gap.since
        and gap.until <= capture.declared[1]
        and not capture.growing
        for capture in captures
    )
