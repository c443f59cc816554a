"""Estimates the work of an interval: packets from file statistics, seconds and bytes from earlier runs.

`due` shows the estimate before anything runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from lowwater.documents import stored_object
from lowwater.lake.ledgers.captures import Capture, Captures
from lowwater.lake.ledgers.runs import FAILED, ReplayRow
from lowwater.lake.packets import PacketFiles
from lowwater.replay.job import IntervalInputs, Job

NEWEST = 200
"""Number of newest runs that the estimate uses."""


@dataclass(frozen=True)
class Estimate:
    """The cost of a run: fixed seconds, seconds for each packet, and bytes stored between the stages.

    Attributes:
        fixed: seconds of a run without packets; None without earlier runs.
        per_packet: seconds for each packet.
        stored: bytes for each packet in `lfta/` and `streams/`; None without earlier runs.
    """

    fixed: float | None = None
    per_packet: float = 0.0
    stored: float | None = None

    def seconds(self, packets: int) -> float | None:
        """The estimated seconds of a run over a number of packets."""
        return None if self.fixed is None else round(self.fixed + self.per_packet * packets, 1)

    def bytes(self, packets: int) -> int | None:
        """The estimated bytes that a run stores between the stages; its temporary files need about as much."""
        return None if self.stored is None else round(self.stored * packets)


@dataclass(frozen=True)
class PacketEstimate:
    """The number of packets that a run reads, exact or estimated."""

    packets: int = 0
    exact: bool = True


def packet_estimate(files: PacketFiles, inputs: IntervalInputs) -> PacketEstimate:
    """Counts the packets that a run reads, from the statistics of the files.

    A file that is read whole counts exactly, as nearly all files do for intervals of hours. A file that is read in part
    counts by its share of time, and then the sum is an estimate.

    Args:
        files: packet files of the lake.
        inputs: the inputs of the interval.
    """
    packets, exact = 0.0, True
    for link, read_from in inputs.link_starts(inputs.plan.queries).items():
        settings = inputs.config.link(link)
        begin = max(read_from, settings.since or 0)
        end = inputs.end if settings.until is None else min(inputs.end, settings.until)
        captures = Captures.of(inputs.captures.get(link, ()))
        for at in captures.meeting(begin, end):
            for row in files.attempts.get(captures[at].attempt, ()):
                if row["partition.link"] != link:
                    continue
                share = _share(row["min.timestamp"], row["max.timestamp"], begin, end)
                packets += share * row["num_records"]
                late = share == 0 and row["min.arrival"] < inputs.end and row["max.arrival"] >= inputs.start
                exact = exact and share in (0, 1) and not late
    return PacketEstimate(round(packets), exact)


def _share(smallest: int, largest: int, start: int, end: int) -> float:
    """The share of the time from `smallest` to `largest`, ns, that lies in [start, end), 0 to 1."""
    span = largest - smallest + 1
    return max(0, min(end, largest + 1) - max(start, smallest)) / span


def estimate(job: Job, captures: Mapping[str, Sequence[Capture]], replays: Iterable[ReplayRow]) -> Estimate:
    """Fits a line of least squares through the newest runs; takes the median if their packet counts are too similar.

    Args:
        job: the query set.
        captures: link -> its captures.
        replays: rows of the ledger `replays`, oldest first.
    """
    seconds: dict[tuple[int, int], dict[str, float]] = {}
    sizes: dict[tuple[int, int], dict[tuple[str, str], int]] = {}
    for row in replays:
        if row.state != FAILED:
            if (size := stored_object(row.accounting).get("stored")) is not None:
                sizes.setdefault((row.interval_start, row.interval_end), {})[row.stage, row.query] = size
            spent = seconds.setdefault((row.interval_start, row.interval_end), {})
            spent[row.stage] = float(stored_object(row.timings).get(row.stage, spent.get(row.stage, 0.0)))
    newest, files = list(seconds.items())[-NEWEST:], PacketFiles.of(job.lake)
    runs, stored = [], []
    for interval, spent in newest:
        packets = packet_estimate(files, job.inputs(*interval, captures)).packets
        if sum(spent.values()):
            runs.append((packets, sum(spent.values())))
        if packets and interval in sizes:
            stored.append(sum(sizes[interval].values()) / packets)
    return replace(_fitted_line(runs), stored=median(stored) if stored else None)


def _fitted_line(runs: Sequence[tuple[int, float]]) -> Estimate:
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
