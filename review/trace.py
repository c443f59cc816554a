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
from lowwater.lake.streams import stream_files
from lowwater.quality.verdicts import Key
from lowwater.replay.interval import lfta_folder

from .board import Snapshot

SAMPLES = 60
"""Moments of an interval at which lags are read."""


@dataclass(frozen=True)
class Lag:
    """The lag of one node.

    Attributes:
        level: link, LFTA or query.
        name: of the node; `on` the link of an LFTA.
        typical: median lag over the interval, ns; `most` the largest.
        series: lag at SAMPLES moments, ns; -1 before its first promise.
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
    moments = np.linspace(start, end, SAMPLES + 1)[1:].astype(np.int64)
    found: list[Lag] = []
    for link in job.plan.links:
        skew = known.config.link(link).skew
        found.append(Lag("link", link, "", skew, skew, (skew,) * SAMPLES, 0))
    for lfta in job.plan.lftas:
        files = stream_files(known.lake.lfta(name, lfta_folder(lfta)), start, end)
        for link, path in zip(sorted(lfta.links), files, strict=False):
            before = known.config.link(link).skew
            found += _lag("LFTA", lfta.name, link, [path], moments, before)
    for query in job.plan.queries:
        below = [each.typical for each in found if each.level == "LFTA" and each.name in {x.name for x in query.lftas}]
        files = stream_files(known.lake.stream(query.name), start, end)
        found += _lag("query", query.name, "", files, moments, max(below, default=0))
    return found if any(each.level != "link" for each in found) else []


def _lag(level: str, name: str, on: str, files: Sequence[Path], moments: NDArray[np.int64], before: int) -> list[Lag]:
    ticks, promises = _promises(files)
    if not len(ticks):
        return []
    at = np.searchsorted(ticks, moments, side="right") - 1
    lags = np.where(at < 0, -1, np.maximum(0, moments - promises[np.maximum(at, 0)]))
    known = lags[lags >= 0]
    typical, most = (int(np.median(known)), int(known.max())) if len(known) else (0, 0)
    return [Lag(level, name, on, typical, most, tuple(lags.tolist()), before)]


def _promises(files: Sequence[Path]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The punctuation of a node by tick: (ticks, the largest promise by then); a lull counts at both its ends."""
    ticks, promises = [], []
    for path in files:
        rows = pq.read_table(path, columns=["_kind", "_tick", "_until", "_last"], filters=[("_kind", "=", PUNCTUATION)])
        tick, until, last = (_numbers(rows, name) for name in ("_tick", "_until", "_last"))
        ticks += [tick, until]
        promises += [last, last + (until - tick)]
    if not ticks:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    every, promised = np.concatenate(ticks), np.concatenate(promises)
    order = np.lexsort((promised, every))
    return every[order], np.maximum.accumulate(promised[order])


def _numbers(rows: pa.Table, name: str) -> NDArray[np.int64]:
    found: NDArray[np.int64] = rows.column(name).to_numpy()
    return found
