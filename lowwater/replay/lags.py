"""Lag of every node of a plan over an interval: how far its promise (watermark) trails the clock.

It reads the punctuation in `lfta/` and `streams/`. At virtual time t the promise of a node is its largest so far, and
its lag is t minus the promise. The node where the lag grows delays the others (000, section 6.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lowwater.catalog.streams import PUNCTUATION
from lowwater.lake.results.streams import stream_files, stream_parts
from lowwater.replay.interval import lfta_folder
from lowwater.replay.job import Job
from lowwater.storage.paths import local

READ = pa.schema([(name, pa.int64()) for name in ("_tick", "_until", "_last")])
SAMPLES = 60
"""Number of instants of an interval at which the lag is sampled."""


@dataclass(frozen=True)
class Lag:
    """The lag of one node.

    Attributes:
        level: `link`, `LFTA` or `query`.
        name: name of the node.
        on: link of an LFTA; empty for other nodes.
        typical: median lag over the interval, ns.
        most: largest lag over the interval, ns.
        series: lag at `SAMPLES` instants, ns.
        before: median lag of the node's inputs, ns, where its bar begins.
    """

    level: str
    name: str
    on: str
    typical: int
    most: int
    series: tuple[int, ...]
    before: int


def interval_lags(job: Job, start: int, end: int) -> list[Lag]:
    """Measures the lags of links, LFTAs and output queries over [start, end), in the direction of flow.

    Args:
        job: the query set.
        start: first instant of the interval, ns since the epoch.
        end: end of the interval, ns since the epoch, exclusive.

    Returns:
        The lags; none before a run.
    """
    # Samples at irregular times, because ticks and epochs are regular and would bias the lag.
    shares = (np.arange(SAMPLES) + (np.arange(SAMPLES) * 0.618034) % 1) / SAMPLES
    moments = start + (shares * (end - start)).astype(np.int64)
    lags: list[Lag] = []
    for link in job.plan.links:
        skew = job.config.link(link).longest_skew
        lags.append(Lag("link", link, "", skew, skew, (skew,) * SAMPLES, 0))
    for lfta in job.plan.lftas:
        parts = stream_parts(job.lake.lfta(job.query_set, lfta_folder(lfta)), start, end)
        for link, files in zip(sorted(lfta.links), parts, strict=False):
            before = job.config.link(link).longest_skew
            lags += _lag("LFTA", lfta.name, link, files, moments, before, start)
    for query in job.plan.queries:
        below = [lag.typical for lag in lags if lag.level == "LFTA" and lag.name in {lfta.name for lfta in query.lftas}]
        files = stream_files(job.lake.stream(query.name), start, end)
        lags += _lag("query", query.name, "", files, moments, max(below, default=0), start)
    return lags if any(lag.level != "link" for lag in lags) else []


def _lag(
    level: str, name: str, on: str, files: Sequence[PurePath], moments: NDArray[np.int64], before: int, start: int
) -> list[Lag]:
    rows = _promises(files)
    if rows is None:
        return []
    ticks, untils, promises = rows
    at = np.searchsorted(ticks, moments, side="right") - 1
    # Without traffic the promise rises with the clock. Before the first promise it is the start of the interval.
    risen = np.minimum(moments, untils[np.maximum(at, 0)]) - ticks[np.maximum(at, 0)]
    promised = np.where(at < 0, start, promises[np.maximum(at, 0)] + np.maximum(risen, 0))
    lags = np.maximum(0, moments - promised)
    return [Lag(level, name, on, int(np.median(lags)), int(lags.max()), tuple(lags.tolist()), before)]


def _promises(files: Sequence[PurePath]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]] | None:
    """Reads the punctuation of a node by tick, all ns; None without punctuation or with a damaged file.

    Returns:
        Ticks, ends of the lulls after them, and the largest promise so far.
    """
    tables = []
    for path in files:
        try:
            table = pq.read_table(local(path), columns=["_kind", *READ.names], filters=[("_kind", "=", PUNCTUATION)])
            tables.append(table.select(READ.names).cast(READ))
        except (OSError, pa.ArrowException):
            return None  # the audit reports the damaged stream
    rows = pa.concat_tables([READ.empty_table(), *tables]).sort_by([("_tick", "ascending"), ("_last", "ascending")])
    if not rows.num_rows:
        return None
    return _numbers(rows, "_tick"), _numbers(rows, "_until"), np.maximum.accumulate(_numbers(rows, "_last"))


def _numbers(rows: pa.Table, name: str) -> NDArray[np.int64]:
    values: NDArray[np.int64] = rows.column(name).to_numpy()
    return values
