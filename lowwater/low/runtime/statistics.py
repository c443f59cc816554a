"""What the LFTAs of a link did in each minute of its clock: rows, collisions, groups, time, conjuncts that were true.

Beside the pass of `low.run`, which stops where a minute ends. All of it depends on tables, chunks or the machine, so it
is in no result, no account and no digest (SEMANTICS, the law); operators tune by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from time import thread_time_ns
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.catalog.expr import conjuncts, show
from lowwater.low.code.conjunct_sampling import Drawn
from lowwater.low.code.kernel import MINUTE
from lowwater.low.code.partial_evaluation import of_link
from lowwater.low.runtime.node import Node
from lowwater.low.settings import WORK, LowSettings, Policy
from lowwater.plan.operators import Lfta

SHARED = -1
_TOTALS = ("rows_out", "punctuations", "ejections", "collisions")
_SUMS = ("records", *_TOTALS, "nanoseconds", "beat_nanoseconds")
_LARGEST = ("groups", "slots", "period")
_KEY = ("lfta", "minute", "shape")


def shape(lfta: Lfta) -> str:
    """What an LFTA computes, as a short digest: equal for the same node with another table or order of conjuncts."""
    parts = [lfta.protocol, str(lfta.aggregates), *sorted(show(part) for part in conjuncts(lfta.predicate))]
    parts += [f"{key.name}={show(key.expr)}" for key in lfta.keys]
    parts += [f"{p.function} {show(p.argument) if p.argument is not None else '*'}" for p in lfta.partials]
    return sha256("\n".join(parts).encode()).hexdigest()[:16]


class Meter:
    """The statistics of one pass.

    Args:
        nodes: the nodes of the link, in the order of the kernel.
        drawn: where the conjuncts of each are counted.
        draws: what the kernel counts into.
        link: its name.
        settings: the settings of the run.
        start: the start of the interval, ns; what is done before the first record is of its minute.

    Attributes:
        turn: the first arrival of another minute.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        drawn: Sequence[Sequence[Drawn]],
        draws: npt.NDArray[np.int64],
        link: str,
        settings: LowSettings,
        start: int,
    ) -> None:
        self.turn = -1
        self._nodes, self._draws = nodes, draws
        self._conjuncts = [_places(node.lfta, each, link) for node, each in zip(nodes, drawn, strict=True)]
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
        """Charges the processor time of this thread since the last lap to a node, or to all of them alike."""
        now = thread_time_ns()
        self._spent[node] += now - self._since
        if beat:
            self._beating[node] += now - self._since
        self._since = now

    def pause(self) -> None:
        """Charges the time since the last lap to nobody: it was the readers'."""
        self._since = thread_time_ns()

    def read(self, records: int) -> None:
        """Counts records that the kernel was called for, and looks at the tables."""
        self._records += records
        for number, node in enumerate(self._nodes):
            self._most[number] = max(self._most[number], node.operator.alive)

    def settle(self, clock: int) -> None:
        """Gives what was done to its minute, and begins that of a clock."""
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

    def _row(self, number: int, node: Node, done: Sequence[int], spent: int) -> dict[str, Any]:
        counted = (self._draws - self._drawn).tolist()
        found = self._conjuncts[number]
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
            "conjuncts": [text for text, _ in found],
            "asked": [counted[place.asked] for _, place in found],
            "met": [counted[place.true] for _, place in found],
        }

    def table(self) -> pa.Table:
        """All minutes in the schema WORK, by LFTA and minute."""
        return merge_work([pa.Table.from_pylist(self._rows, schema=WORK)])


def _places(lfta: Lfta, drawn: Iterable[Drawn], link: str) -> list[tuple[str, Drawn]]:
    """The conjuncts as the query has them, with their counts."""
    places = {each.conjunct: each for each in drawn}
    return [(show(part), places[of_link(part, link)]) for part in dict.fromkeys(conjuncts(lfta.predicate))]


def merge_work(tables: Iterable[pa.Table]) -> pa.Table:
    """Some tables of WORK as one, a row an LFTA and minute: sums, of groups the most that were in one table.

    Example:
        >>> merge_work([]).num_rows
        0
    """
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in (row for table in tables for row in table.to_pylist()):
        key = tuple(row[name] for name in _KEY)
        known = found.setdefault(key, row)
        if known is not row:
            _add(known, row)
    order = sorted(found, key=lambda key: key[:2])
    return pa.Table.from_pylist([found[key] for key in order], schema=WORK)


def _add(known: dict[str, Any], row: dict[str, Any]) -> None:
    for name in _SUMS:
        known[name] += row[name]
    for name in _LARGEST:
        known[name] = max((each[name] for each in (known, row) if each[name] is not None), default=None)
    # Chunks and intervals may have had the conjuncts in another order.
    counts = {text: [0, 0] for text in (*known["conjuncts"], *row["conjuncts"])}
    for each in (known, row):
        for text, asked, met in zip(each["conjuncts"], each["asked"], each["met"], strict=True):
            counts[text][0] += asked
            counts[text][1] += met
    known |= {
        "conjuncts": list(counts),
        "asked": [a for a, _ in counts.values()],
        "met": [m for _, m in counts.values()],
    }
