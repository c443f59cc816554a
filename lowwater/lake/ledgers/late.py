"""Records that were refused as late (SEMANTICS T2), by their own time: their captures tell them without a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lowwater.catalog.schemas import READABLE
from lowwater.catalog.time import Skews, is_late, link_skews
from lowwater.config import Config
from lowwater.lake.ledgers.captures import Capture, Captures, life_of
from lowwater.lake.packets import PacketFiles, readable
from lowwater.storage.paths import local


class LateRecords(NamedTuple):
    """The late records of a capture, in order of their own time."""

    capture: Capture
    stamps: NDArray[np.int64]  # ns
    arrivals: NDArray[np.int64]  # ns

    def between(self, start: int, end: int) -> NDArray[np.int64]:
        """Their timestamps in [start, end), ns."""
        return self.stamps[slice(*np.searchsorted(self.stamps, (start, end)).tolist())]


class OwnTime(NamedTuple):
    """The records of a link whose own time lies in a range."""

    records: int
    late: tuple[tuple[Capture, int], ...]  # how many of each capture were refused
    clock: int  # largest clock of the link at the arrival of a refused one, ns

    @property
    def refused(self) -> int:
        return sum(count for _, count in self.late)


_READ: dict[tuple[object, ...], tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
"""Late records of captures that this process has read, at most _MOST."""
_MOST = 4096


def late_records(files: PacketFiles, link: str, captures: Sequence[Capture], config: Config) -> list[LateRecords]:
    """Finds the late records of a link within its life. Only captures with a record that is older than the clock by
    more than the skew, by the ledger, are read.
    Raises LakeError if a file cannot be read."""
    ordered, settings = Captures.of(captures), config.link(link)
    clocks = np.array(ordered.clocks, np.int64)
    smallest, lag = ordered.numbers("smallest", -1), ordered.numbers("lag")
    doubtful = (smallest >= 0) & ((lag > settings.shortest_skew) | (clocks - smallest > settings.shortest_skew))
    found = []
    for at in np.flatnonzero(doubtful).tolist():
        capture, clock = ordered[at], int(clocks[at])
        key = (
            capture.attempt,
            link,
            capture.packets,
            clock,
            life_of(settings),
            str(settings.group_skew),
            settings.skew,
        )
        if (known := _READ.get(key)) is None:
            if len(_READ) >= _MOST:
                _READ.clear()
            known = _READ[key] = _of_capture(files, capture, clock, life_of(settings), _skews(config, link))
        if len(known[0]):
            found.append(LateRecords(capture, *known))
    return found


def _skews(config: Config, link: str) -> Skews:
    """The skews of a link; of other records than packets the longest, since their fields are of a protocol."""
    settings = config.link(link)
    return link_skews(config, link) if settings.kind == "pcap" else Skews(settings.longest_skew)


def _of_capture(
    files: PacketFiles, capture: Capture, clock: int, life: tuple[int, int], skews: Skews
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    stamps, arrivals = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for row in files.in_force(capture):
        if max(row["max.arrival"], clock) - row["min.timestamp"] <= min([skews.rest, *dict(skews.values).values()]):
            continue
        path = PacketFiles.path(row)
        with readable(capture.link, path), pq.ParquetFile(local(path)) as stored:
            names = dict.fromkeys(("timestamp", "arrival", *skews.columns))
            there = [name for name in names if name in stored.schema_arrow.names]
            table = stored.read(there).slice(0, row["num_records"])
            for name in names:
                if name not in there:  # columns without a value are not in a file
                    table = table.append_column(name, pa.nulls(table.num_rows, READABLE.field(name).type))
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


def own_time(
    files: PacketFiles, link: str, captures: Sequence[Capture], late: Sequence[LateRecords], start: int, end: int
) -> OwnTime:
    """Counts the records of a link whose own time lies in [start, end), ns, and those that were refused."""
    counts, clock = [], 0
    for each in late:
        first, last = np.searchsorted(each.stamps, (start, end)).tolist()
        if first < last:
            counts.append((each.capture, last - first))
            clock = max(clock, int(each.arrivals[first:last].max()))
    records = sum(_within(files, link, captures, start, end)) if counts else 0
    return OwnTime(records, tuple(counts), clock)


def _within(files: PacketFiles, link: str, captures: Sequence[Capture], start: int, end: int) -> Iterator[int]:
    ordered = Captures.of(captures)
    for at in ordered.meeting(start, end):
        for row in files.in_force(ordered[at]):
            least, most = row["min.timestamp"], row["max.timestamp"]
            if start <= least and most < end:
                yield row["num_records"]
            elif least < end and most >= start:
                path = PacketFiles.path(row)
                with readable(link, path):
                    column = pq.read_table(local(path), columns=["timestamp"], partitioning=None).column("timestamp")
                stamps = pa.chunked_array(column.chunks).slice(0, row["num_records"]).to_numpy()
                yield int(np.count_nonzero((stamps >= start) & (stamps < end)))
