"""What the passes over the chunks of a link say together.

After `low.run`, where a link was divided (SEMANTICS P2): the rows follow each other, the accounts add up.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lowwater.low.runtime.statistics import merge_work
from lowwater.low.settings import MINUTES, VIOLATIONS, LftaStatistics, LinkResult

_KEYS = ("lfta", "minute")


def merged(results: Sequence[LinkResult]) -> LinkResult:
    """The result of a link from those of its chunks, in their order; at least one."""
    first = results[0]
    if len(results) == 1:
        return first
    return LinkResult(
        first.link,
        sum(each.sane for each in results),
        sum(each.violating for each in results),
        tuple(map(_total, zip(*(each.statistics for each in results), strict=True))),
        _minutes([each.lfta for each in first.statistics], pa.concat_tables([each.minutes for each in results])),
        pa.concat_tables([VIOLATIONS.empty_table(), *(each.violations for each in results)]),
        merge_work([each.work for each in results]),
    )


def _total(parts: Sequence[LftaStatistics]) -> LftaStatistics:
    return LftaStatistics(
        parts[0].lfta,
        sum(each.rows_out for each in parts),
        sum(each.punctuations for each in parts),
        sum(each.ejections for each in parts),
        sum(each.collisions for each in parts),
    )


def _minutes(lftas: Sequence[str], rows: pa.Table) -> pa.Table:
    """One row an LFTA and minute, in the order of the LFTAs."""
    counts = [name for name in MINUTES.names if name not in _KEYS]
    sums = rows.group_by(list(_KEYS), use_threads=False).aggregate([(name, "sum") for name in counts])
    sums = sums.rename_columns([name.removesuffix("_sum") for name in sums.column_names]).select(MINUTES.names)
    parts = [sums.filter(pc.equal(sums.column("lfta"), name)).sort_by("minute") for name in dict.fromkeys(lftas)]
    return pa.concat_tables([part.cast(MINUTES) for part in parts])
