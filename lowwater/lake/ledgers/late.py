"""Records that were refused as late (SEMANTICS T2), by their own time: their captures tell them without a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lowwater.catalog.time import Skews, is_late, link_skews
from lowwater.config import Config
from lowwater.instants import HOUR
from lowwater.lake.ledgers.captures import Capture, Captures, life_of
from lowwater.lake.open_tables import ValuesByState
from lowwater.lake.packets import PacketFiles, stored_records
from lowwater.plan.temporal import END_OF_TIME


class LateRecords(NamedTuple):
    """The late records of a capture, in order of their own time."""

    capture: Capture
    stamps: NDArray[np.int64]  # ns
    arrivals: NDArray[np.int64]  # ns

    def between(self, start: int, end: int) -> NDArray[np.int64]:
        """Their timestamps in [start, end), ns."""
        return self.stamps[slice(*np.searchsorted(self.stamps, (start, end)).tolist())]


class Refused(NamedTuple):
    """The late records of a link whose own time lies in [start, end), ns: an hour, or the part of it that an interval
    has."""

    start: int
    end: int
    late: tuple[tuple[Capture, int], ...]  # how many of each capture
    clock: int  # largest clock of the link at the arrival of one, ns

    @property
    def total(self) -> int:
        return sum(count for _, count in self.late)


_READ = ValuesByState(4096)
"""Late records of captures that this process has read."""


@dataclass(frozen=True)
class Doubtful:
    """The captures of a link that may have late records, by the ledger: one is older than the clock by more than the
    skew.

    Attributes:
        places: their indices among the captures of the link.
        smallest, largest: timestamps of each, ns.
    """

    files: PacketFiles
    link: str
    config: Config
    captures: Captures
    places: NDArray[np.int64]
    smallest: NDArray[np.int64]
    largest: NDArray[np.int64]

    @staticmethod
    def of(files: PacketFiles, link: str, captures: Sequence[Capture], config: Config) -> Doubtful:
        """Finds them. Of captures before the horizon no process knows them, whatever it has read before (S11)."""
        ordered, settings = Captures.of(captures), config.link(link)
        clocks = np.array(ordered.clocks, np.int64)
        smallest, largest, lag = (ordered.numbers(name, -1) for name in ("smallest", "largest", "lag"))
        late = (lag > settings.shortest_skew) | (clocks - smallest > settings.shortest_skew)
        places = np.flatnonzero(late & (smallest >= 0) & (largest >= files.horizons.get(link, 0)))
        return Doubtful(files, link, config, ordered, places, smallest[places], largest[places])

    def late(self, start: int = 0, end: int = END_OF_TIME, known: Sequence[tuple[int, int]] = ()) -> list[LateRecords]:
        """Reads the late records within the life of the link, of the captures with records of [start, end), ns, which
        do not all lie in one of the `known` ranges, ns, disjoint and in order.
        Raises LakeError if a file cannot be read."""
        chosen = (self.smallest < end) & (self.largest >= start)
        if known:
            begins, ends = np.array(known, np.int64).T
            place = np.searchsorted(begins, self.smallest, side="right") - 1
            chosen &= (place < 0) | (self.largest >= ends[place])
        found, settings = [], self.config.link(self.link)
        life, skews = life_of(settings), _skews(self.config, self.link)
        for at in self.places[chosen].tolist():
            capture, clock = self.captures[at], self.captures.clocks[at]
            state = capture.packets, clock, life, str(settings.group_skew), settings.skew, settings.turns
            read = partial(_of_capture, self.files, capture, clock, life, skews)
            times = _READ.get((capture.attempt, self.link), state, read)
            if len(times[0]):
                found.append(LateRecords(capture, *times))
        return found


def _skews(config: Config, link: str) -> Skews:
    """The skews of a link; of other records than packets the longest, since their fields are of a protocol."""
    settings = config.link(link)
    fields = settings.kind != "pcap" and settings.group_skew is not None
    return Skews(settings.longest_skew) if fields else link_skews(config, link)


def _of_capture(
    files: PacketFiles, capture: Capture, clock: int, life: tuple[int, int], skews: Skews
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    stamps, arrivals = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for row in files.in_force(capture):
        if max(row["max.arrival"], clock) - row["min.timestamp"] <= skews.shortest:
            continue
        names = [*dict.fromkeys(("timestamp", "arrival", *skews.columns))]
        table = stored_records(capture.link, row, names)
        if not table.num_rows:
            continue
        (batch,) = table.combine_chunks().to_batches()
        own, arrived = batch.column("timestamp").to_numpy(), np.maximum(batch.column("arrival").to_numpy(), clock)
        late = is_late(arrived, own, skews.of(batch)) & (own >= life[0]) & (own < life[1])
        stamps.append(own[late])
        arrivals.append(arrived[late])
    own, arrived = np.concatenate(stamps), np.concatenate(arrivals)
    order = np.argsort(own, kind="stable")
    return own[order], arrived[order]


def refused_hours(late: Sequence[LateRecords], start: int, end: int) -> Iterator[Refused]:
    """Yields the hours of [start, end), ns, of which records of a link were refused, by their own time."""
    for hour in sorted({hour for each in late for hour in np.unique(each.between(start, end) // HOUR).tolist()}):
        begin, until = max(hour * HOUR, start), min((hour + 1) * HOUR, end)
        counts, clock = [], 0
        for each in late:
            first, last = np.searchsorted(each.stamps, (begin, until)).tolist()
            if first < last:
                counts.append((each.capture, last - first))
                clock = max(clock, int(each.arrivals[first:last].max()))
        yield Refused(begin, until, tuple(counts), clock)


def records_within(files: PacketFiles, link: str, captures: Sequence[Capture], start: int, end: int) -> int:
    """Counts the records of a link whose own time lies in [start, end), ns; only files that cross a bound are read.
    Raises LakeError if a file cannot be read."""
    return sum(_within(files, link, captures, start, end))


def _within(files: PacketFiles, link: str, captures: Sequence[Capture], start: int, end: int) -> Iterator[int]:
    ordered = Captures.of(captures)
    for at in ordered.meeting(start, end):
        for row in files.in_force(ordered[at]):
            least, most = row["min.timestamp"], row["max.timestamp"]
            if start <= least and most < end:
                yield row["num_records"]
            elif least < end and most >= start:
                stamps = stored_records(link, row, ["timestamp"]).column("timestamp").to_numpy()
                yield int(np.count_nonzero((stamps >= start) & (stamps < end)))
