"""Merges the results of the passes over the chunks of a link.

After `low.run`, for a link that was divided (SEMANTICS P2). Rows follow each other, and accounts add up.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lowwater.low.runtime.statistics import merge_work
from lowwater.low.settings import MINUTES, VIOLATIONS, LftaStatistics, LinkResult

_KEYS = ("lfta", "minute")


def merge_results(results: Sequence[LinkResult]) -> LinkResult:
    """Returns the result of a link from the results of its chunks, in order; at least one."""
    first = results[0]
    if len(results) == 1:
        return first
    return LinkResult(
        first.link,
        sum(result.sane for result in results),
        sum(result.violating for result in results),
        tuple(map(_total, zip(*(result.statistics for result in results), strict=True))),
        _minutes([part.lfta for part in first.statistics], pa.concat_tables([result.minutes for result in results])),
        pa.concat_tables([VIOLATIONS.empty_table(), *(result.violations for result in results)]),
        merge_work([result.work for result in results]),
        sum(result.duplicates for result in results),
    )


def _total(parts: Sequence[LftaStatistics]) -> LftaStatistics:
    return LftaStatistics(
        parts[0].lfta,
        sum(part.rows_out for part in parts),
        sum(part.punctuations for part in parts),
        sum(part.ejections for part in parts),
        sum(part.collisions for part in parts),
    )


def _minutes(lftas: Sequence[str], rows: pa.Table) -> pa.Table:
    """Returns one row for each LFTA and minute, in the order of the LFTAs."""
    counts = [name for name in MINUTES.names if name not in _KEYS]
    sums = rows.group_by(list(_KEYS), use_threads=False).aggregate([(name, "sum") for name in counts])
    sums = sums.rename_columns([name.removesuffix("_sum") for name in sums.column_names]).select(MINUTES.names)
    parts = [sums.filter(pc.equal(sums.column("lfta"), name)).sort_by("minute") for name in dict.fromkeys(lftas)]
    return pa.concat_tables([part.cast(MINUTES) for part in parts])
