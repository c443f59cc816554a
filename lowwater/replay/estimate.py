"""How much work an interval is: its packets by the ledger of captures, its seconds by those of earlier runs.

Beside `due`, which shows it before anything runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from lowwater.lake.ledger import Capture, Captures
from lowwater.lake.records import FAILED, Replay
from lowwater.replay.job import IntervalInputs, Job

NEWEST = 200
"""How many of the newest runs are judged by."""


@dataclass(frozen=True)
class Estimate:
    """Seconds of a run as a part that every run has and one for each packet.

    Attributes:
        fixed: seconds of a run without packets; None where no earlier run tells.
        each: seconds a packet.
    """

    fixed: float | None = None
    each: float = 0.0

    def seconds(self, packets: int) -> float | None:
        """Seconds of a run over so many packets."""
        return None if self.fixed is None else round(self.fixed + self.each * packets, 1)

    @staticmethod
    def packets(inputs: IntervalInputs) -> int:
        """About how many packets a run reads: of each capture the share of its time that the run reads."""
        found = 0.0
        for link, start in inputs.link_starts(inputs.plan.queries).items():
            captures = Captures.of(inputs.captures.get(link, ()))
            found += sum(_share(captures[at], start, inputs.end) for at in captures.meeting(start, inputs.end))
        return round(found)


def _share(capture: Capture, start: int, end: int) -> float:
    assert capture.smallest is not None and capture.largest is not None  # it meets the range
    span = capture.largest - capture.smallest + 1
    return capture.packets * (min(end, capture.largest + 1) - max(start, capture.smallest)) / span


def estimate(job: Job, captures: Mapping[str, Sequence[Capture]], replays: Iterable[Replay]) -> Estimate:
    """The line of least squares through the newest runs of a query set; their median where they are too alike.

    Args:
        job: the query set.
        captures: the ledger of its links.
        replays: its rows, oldest first.
    """
    seconds: dict[tuple[int, int], dict[str, float]] = {}
    for row in replays:
        if row.state != FAILED:
            spent = seconds.setdefault((row.interval_start, row.interval_end), {})
            spent[row.stage] = float(json.loads(row.timings).get(row.stage, spent.get(row.stage, 0.0)))
    newest = list(seconds.items())[-NEWEST:]
    runs = [
        (Estimate.packets(job.inputs(*interval, captures)), sum(spent.values()))
        for interval, spent in newest
        if sum(spent.values())
    ]
    return _line(runs)


def _line(runs: Sequence[tuple[int, float]]) -> Estimate:
    if not runs:
        return Estimate()
    typical = median(spent for _, spent in runs)
    mean = sum(packets for packets, _ in runs) / len(runs)
    spread = sum((packets - mean) ** 2 for packets, _ in runs)
    if spread <= (mean / 10) ** 2 * len(runs):  # a tenth about the mean says nothing of what a packet costs
        return Estimate(typical)
    average = sum(spent for _, spent in runs) / len(runs)
    slope = sum((packets - mean) * (spent - average) for packets, spent in runs) / spread
    fixed = average - slope * mean
    return Estimate(typical) if slope <= 0 or fixed < 0 else Estimate(fixed, slope)
