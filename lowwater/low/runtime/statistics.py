"""Statistics of a link's LFTAs for every minute of its clock: rows, collisions, groups, time, counts of conjuncts; and
the sums of what the passes over the chunks of a link give.

Beside the pass of `low.run`, which stops at the end of each minute. The numbers depend on tables, chunks and the
machine, so no result, account or digest contains them (SEMANTICS, the law). They serve tuning.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from time import thread_time_ns
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.catalog.expr import conjuncts, show
from lowwater.low.code.expressions import of_link
from lowwater.low.code.kernel import MINUTE, ConjunctCounts
from lowwater.low.settings import MINUTES, VIOLATIONS, WORK, LftaStatistics, LinkResult, LowSettings, Policy
from lowwater.plan.operators import Lfta

if TYPE_CHECKING:
    from lowwater.low.runtime.node import LftaNode

SHARED = -1
_TOTALS = ("rows_out", "punctuations", "ejections", "collisions")
_SUMS = ("records", *_TOTALS, "nanoseconds", "beat_nanoseconds")
_LARGEST = ("groups", "slots", "period")
_KEY = ("lfta", "minute", "shape")


def shape(lfta: Lfta) -> str:
    """Returns a short digest of what an LFTA computes.

    It does not depend on the size of the table and on the order of conjuncts.
    """
    parts = [lfta.protocol, str(lfta.aggregates), *sorted(show(part) for part in conjuncts(lfta.predicate))]
    parts += [f"{key.name}={show(key.expr)}" for key in lfta.keys]
    parts += [f"{p.function} {show(p.argument) if p.argument is not None else '*'}" for p in lfta.partials]
    return sha256("\n".join(parts).encode()).hexdigest()[:16]


class Meter:
    """The statistics of one pass.

    Args:
        drawn: the positions of the counts of each node's conjuncts.
        start: start of the interval, ns. Work before the first record counts for its minute.

    Attributes:
        turn: the first arrival of the next minute.
    """

    def __init__(
        self,
        nodes: Sequence[LftaNode],
        drawn: Sequence[Sequence[ConjunctCounts]],
        draws: npt.NDArray[np.int64],
        link: str,
        settings: LowSettings,
        start: int,
    ) -> None:
        self.turn = -1
        self._nodes, self._draws = nodes, draws
        self._conjuncts = [_counts_by_text(node.lfta, counts, link) for node, counts in zip(nodes, drawn, strict=True)]
        self._shapes = [shape(node.lfta) for node in nodes]
        self._period = settings.period if settings.policy is Policy.PERIODIC else None
        self._minute = start // MINUTE
        self._records = 0
        self._spent = [0] * (len(nodes) + 1)
        self._beating = [0] * len(nodes)
        self._most = [0] * len(nodes)
        self._before = [(0,) * len(_TOTALS)] * len(nodes)
        self._drawn = draws.copy()
        self._rows: list[dict[str, Any]] = []
        self._since = thread_time_ns()

    def lap(self, node: int = SHARED, beat: bool = False) -> None:
        """Charges the processor time of this thread since the last lap to a node, or to all nodes alike.

        Args:
            node: the number of the node; SHARED for all.
        """
        now = thread_time_ns()
        self._spent[node] += now - self._since
        if beat:
            self._beating[node] += now - self._since
        self._since = now

    def pause(self) -> None:
        """Charges the time since the last lap to no node: readers spent it."""
        self._since = thread_time_ns()

    def read(self, records: int) -> None:
        """Counts records that the kernel processed, and notes the sizes of the tables."""
        self._records += records
        for number, node in enumerate(self._nodes):
            self._most[number] = max(self._most[number], node.operator.alive)

    def settle(self, clock: int) -> None:
        """Ends the current minute and stores its numbers, and begins the minute of a clock (ns)."""
        shared, rest = divmod(self._spent[SHARED], max(1, len(self._nodes)))
        for number, node in enumerate(self._nodes):
            now = node.totals
            done = [after - before for after, before in zip(now, self._before[number], strict=True)]
            spent = self._spent[number] + shared + (rest if number == 0 else 0)
            if self._records or any(done):
                self._rows.append(self._row(number, node, done, spent))
            self._before[number], self._most[number] = now, node.operator.alive
        self._drawn[:] = self._draws
        self._records, self._spent = 0, [0] * len(self._spent)
        self._beating = [0] * len(self._beating)
        self._minute = clock // MINUTE
        self.turn = (self._minute + 1) * MINUTE

    def _row(self, number: int, node: LftaNode, done: Sequence[int], spent: int) -> dict[str, Any]:
        counted = (self._draws - self._drawn).tolist()
        conjunct_counts = self._conjuncts[number]
        return {
            "lfta": node.lfta.name,
            "minute": self._minute,
            "shape": self._shapes[number],
            "records": self._records,
            **dict(zip(_TOTALS, done, strict=True)),
            "groups": self._most[number] if node.lfta.aggregates else None,
            "slots": node.operator.slots or None,
            "nanoseconds": spent,
            "beat_nanoseconds": self._beating[number],
            "period": self._period,
            "conjuncts": [text for text, _ in conjunct_counts],
            "asked": [counted[place.asked] for _, place in conjunct_counts],
            "met": [counted[place.true] for _, place in conjunct_counts],
        }

    def table(self) -> pa.Table:
        """Returns all minutes in the schema WORK, by LFTA and minute."""
        return merge_work([pa.Table.from_pylist(self._rows, schema=WORK)])


def _counts_by_text(lfta: Lfta, drawn: Iterable[ConjunctCounts], link: str) -> list[tuple[str, ConjunctCounts]]:
    """Returns the conjuncts as texts of the query, with the positions of their counts."""
    counts_by_conjunct = {counts.conjunct: counts for counts in drawn}
    return [(show(part), counts_by_conjunct[of_link(part, link)]) for part in dict.fromkeys(conjuncts(lfta.predicate))]


def merge_work(tables: Iterable[pa.Table]) -> pa.Table:
    """Merges tables of WORK, one row for each LFTA and minute: sums of counts, and the maximum of groups and slots.

    Example:
        >>> merge_work([]).num_rows
        0
    """
    merged: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in (row for table in tables for row in table.to_pylist()):
        key = tuple(row[name] for name in _KEY)
        total = merged.setdefault(key, row)
        if total is not row:
            _add(total, row)
    order = sorted(merged, key=lambda key: key[:2])
    return pa.Table.from_pylist([merged[key] for key in order], schema=WORK)


def _add(total: dict[str, Any], row: dict[str, Any]) -> None:
    for name in _SUMS:
        total[name] += row[name]
    for name in _LARGEST:
        total[name] = max((source[name] for source in (total, row) if source[name] is not None), default=None)
    # Chunks and intervals may have the conjuncts in different orders.
    counts = {text: [0, 0] for text in (*total["conjuncts"], *row["conjuncts"])}
    for source in (total, row):
        for text, asked, met in zip(source["conjuncts"], source["asked"], source["met"], strict=True):
            counts[text][0] += asked
            counts[text][1] += met
    total |= {
        "conjuncts": list(counts),
        "asked": [evaluated for evaluated, _ in counts.values()],
        "met": [true for _, true in counts.values()],
    }


# Results of several chunks. Rows follow each other, and accounts add up.

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
