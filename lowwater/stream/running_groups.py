"""Running aggregation: groups that outlive their epoch, until CLOSING_WHEN holds (SEMANTICS O4, 004).

Built on `epochs`; the high level runs the same operator (`high.slices.physical.chained_operators`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lowwater.errors import LowwaterError
from lowwater.plan.operators import Running
from lowwater.stream.aggregates import Accumulator, Aggregates, kept_values, results_of
from lowwater.stream.epochs import Epoch, EpochOperator, EpochRow
from lowwater.stream.operators import Life, Row, StreamOperator, compile_items, evaluate, names_of
from lowwater.stream.packet_source import Filter
from lowwater.stream.values import Faults, Values, compile_predicate

MOST_IDLE = 1_000
"""Number of successive epochs without rows through which groups may stay open."""


class RunningOperator(EpochOperator):
    """Emits, at the end of each epoch, the groups for which HAVING holds; drops those for which CLOSING_WHEN holds.

    A group that stays begins the next epoch with empty plain aggregates. While groups are open, epochs without rows
    count as well, up to the end of the links.
    """

    def __init__(self, node: Running, below: StreamOperator, life: Life) -> None:
        super().__init__(node, life)
        names, results = names_of(node.input.fields), results_of(node)
        self._query = node.query
        self._filter = Filter(node.predicate, names, below)
        self._aggregates = Aggregates(node.query, node.aggregates, names, node.items, in_order=True)
        self._having = compile_predicate(node.having, results, Faults())
        self._closing = compile_predicate(node.closing, results, Faults())
        self._items = compile_items(node.items, results)
        self._groups: dict[Values, list[Accumulator]] = {}
        self._before: Epoch | None = None
        self._idle = 0

    def row(self, port: int, row: Row) -> None:
        """Keeps a row until its epoch has ended."""
        if self._filter.passes(row.values):
            self.wait(row)

    def next_epoch(self) -> Epoch | None:
        """The earliest epoch with rows, or the epoch after the last one while groups are open and the links go on."""
        earliest = super().next_epoch()
        if not self._groups or self._before is None:
            return earliest
        over = self.ending if self.origin else self.last(self._before) + 1 >= self.life.over
        if earliest is None and over:
            return None
        following = self.after(self._before)
        return following if earliest is None or self.last(following) < self.last(earliest) else earliest

    def work(self, epoch: Epoch, last: int, rows: list[EpochRow]) -> Iterator[Row]:
        """Adds the rows of the epoch and yields its groups.

        Raises:
            LowwaterError: groups stayed open over too many epochs without rows.
        """
        for order, key, values in rows:
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = self._aggregates.fresh()
            self._aggregates.add(group, self._aggregates.arguments(values), order)
        self._before, self._idle = epoch, 0 if rows else self._idle + 1
        if self._idle > MOST_IDLE:
            raise LowwaterError(
                f"query {self._query}: groups stay open over more than {MOST_IDLE:,} epochs without rows",
                "close them: CLOSING_WHEN count(*) = 0, or `OR count(*) = 0` behind the condition",
            )
        self.counts.update(rows_in=len(rows), groups=len(self._groups))
        self.before_release()
        for key, group in list(self._groups.items()):
            results = (*self.named(epoch, key), *self._aggregates.results(group))
            if self._having(results):
                yield Row(evaluate(self._items, results), last)
            if self._closing(results):
                del self._groups[key]
            else:
                for accumulator in group:
                    accumulator.next_epoch()

    def state_rows(self) -> Iterator[Values]:
        """The waiting rows, and the groups."""
        yield from super().state_rows()
        for key, group in self._groups.items():
            yield (*key, *kept_values(group))

    def saved_state(self) -> Any:
        """The waiting rows, the last epoch, the number of idle epochs before it, and the groups."""
        groups = [(key, [accumulator.state for accumulator in group]) for key, group in self._groups.items()]
        return [self.waiting, self._before, self._idle, groups]

    def load_state(self, saved: Any) -> None:
        """Restores the state of the interval before."""
        self.waiting, self._before, self._idle, groups = saved
        for key, states in groups:
            group = self._groups[key] = self._aggregates.fresh()
            for accumulator, state in zip(group, states, strict=True):
                accumulator.state = state
