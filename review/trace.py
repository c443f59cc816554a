"""Heartbeats through the operators of an interval: how far the promise of each node trails the clock.

From the punctuation in `lfta/` and `streams/`: at virtual time t the promise of a node is its largest so far, and its
lag is t minus it. The node where the lag grows is the one that holds the others up (000, section 6.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lowwater.catalog.streams import PUNCTUATION
from lowwater.lake.results.streams import stream_files, stream_parts
from lowwater.quality.verdicts import Key
from lowwater.replay.interval import lfta_folder

from .board import Snapshot

READ = pa.schema([(name, pa.int64()) for name in ("_tick", "_until", "_last")])
SAMPLES = 60
"""Moments of an interval at which lags are read."""


@dataclass(frozen=True)
class Lag:
    """The lag of one node.

    Attributes:
        level: link, LFTA or query.
        name: the name of the node; `on` the link of an LFTA.
        typical: median lag over the interval, ns; `most` the largest.
        series: lag at SAMPLES moments, ns.
        before: median lag of what it reads, ns: the bar of the node begins there.
    """

    level: str
    name: str
    on: str
    typical: int
    most: int
    series: tuple[int, ...]
    before: int


def trace(known: Snapshot, key: Key) -> list[Lag]:
    """The lags of the links, LFTAs and output queries of an interval, in the order of the flow; empty before a run."""
    name, start, end = key
    job = known.jobs.get(name)
    if job is None:
        return []
    # Irregular on purpose: ticks and epochs are regular.
    shares = (np.arange(SAMPLES) + (np.arange(SAMPLES) * 0.618034) % 1) / SAMPLES
    moments = start + (shares * (end - start)).astype(np.int64)
    found: list[Lag] = []
    for link in job.plan.links:
        skew = known.config.link(link).longest_skew
        found.append(Lag("link", link, "", skew, skew, (skew,) * SAMPLES, 0))
    for lfta in job.plan.lftas:
        parts = stream_parts(known.lake.lfta(name, lfta_folder(lfta)), start, end)
        for link, files in zip(sorted(lfta.links), parts, strict=False):
            before = known.config.link(link).longest_skew
            found += _lag("LFTA", lfta.name, link, files, moments, before, start)
    for query in job.plan.queries:
        below = [each.typical for each in found if each.level == "LFTA" and each.name in {x.name for x in query.lftas}]
        files = stream_files(known.lake.stream(query.name), start, end)
        found += _lag("query", query.name, "", files, moments, max(below, default=0), start)
    return found if any(each.level != "link" for each in found) else []


def _lag(
    level: str, name: str, on: str, files: Sequence[Path], moments: NDArray[np.int64], before: int, start: int
) -> list[Lag]:
    rows = _promises(files)
    if rows is None:
        return []
    ticks, untils, promises = rows
    at = np.searchsorted(ticks, moments, side="right") - 1
    # In a lull the promise rises with the clock; before the first one everything before the interval is promised.
    risen = np.minimum(moments, untils[np.maximum(at, 0)]) - ticks[np.maximum(at, 0)]
    promised = np.where(at < 0, start, promises[np.maximum(at, 0)] + np.maximum(risen, 0))
    lags = np.maximum(0, moments - promised)
    return [Lag(level, name, on, int(np.median(lags)), int(lags.max()), tuple(lags.tolist()), before)]


def _promises(files: Sequence[Path]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]] | None:
    """The punctuation of a node by tick: ticks, ends of lulls, the largest promise by then; None without any."""
    found = []
    for path in files:
        try:
            table = pq.read_table(path, columns=["_kind", *READ.names], filters=[("_kind", "=", PUNCTUATION)])
            found.append(table.select(READ.names).cast(READ))
        except (OSError, pa.ArrowException):
            return None  # what is wrong with the stream the audit says
    rows = pa.concat_tables([READ.empty_table(), *found]).sort_by([("_tick", "ascending"), ("_last", "ascending")])
    if not rows.num_rows:
        return None
    return _numbers(rows, "_tick"), _numbers(rows, "_until"), np.maximum.accumulate(_numbers(rows, "_last"))


def _numbers(rows: pa.Table, name: str) -> NDArray[np.int64]:
    found: NDArray[np.int64] = rows.column(name).to_numpy()
    return found
