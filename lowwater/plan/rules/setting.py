"""What the rules may know of a query besides its plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lowwater.catalog.builtin import CATALOG
from lowwater.catalog.functions import Catalog, Cost
from lowwater.plan.operators import Node

DEFAULT_SLOTS = 1 << 14
"""Groups that an LFTA's table holds unless the query says `aggregate_slots`."""


@dataclass(frozen=True)
class Setting:
    """Of a query set.

    Attributes:
        slots: query -> size of its group tables, a power of two, where it is not the default.
        thresholds: query -> cost from which on a function is not LFTA-safe, where it is not the default.
        selections: queries that ask for a selection LFTA (`select_lfta`).
        private: queries that nobody sees and only one other reads: their plan is that of their reader.
        several: queries with more than one source of packets, whose LFTAs are told apart by their range variables.
        catalog: where the sub- and superaggregates are.
        ordered: queries whose rows depend on the order of what they read.
        arrival: whether the query that is planned is evaluated by arrival, with LFTAs to suit.
        arriving: the queries that are so by themselves; of others such an LFTA has a name of its own.
    """

    slots: Mapping[str, int] = field(default_factory=dict)
    thresholds: Mapping[str, int] = field(default_factory=dict)
    selections: frozenset[str] = frozenset()
    private: frozenset[str] = frozenset()
    several: frozenset[str] = frozenset()
    catalog: Catalog = CATALOG
    ordered: frozenset[str] = frozenset()
    arrival: bool = False
    arriving: frozenset[str] = frozenset()

    def threshold(self, query: str) -> int:
        """The cost from which on a function is not LFTA-safe."""
        return self.thresholds.get(query, Cost.HIGH)

    def size(self, query: str) -> int:
        """Slots of a query's group tables."""
        return self.slots.get(query, DEFAULT_SLOTS)

    def one(self, above: Node, below: Node) -> bool:
        """Whether two operators may be rewritten together: of one query, or the lower one's query is private.

        The rows of a query have an order of their own, by all of its columns (O1), so one that sees it keeps its input.
        """
        if above.query == below.query:
            return True
        return below.query in self.private and above.query not in self.ordered


Rule = Callable[[Node, Setting], Node | None]
