"""Facts of a query set that the rules read besides its plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lowwater.catalog.builtin import CATALOG
from lowwater.catalog.functions import Catalog, Cost
from lowwater.plan.operators import Node

DEFAULT_SLOTS = 1 << 14
"""Slots of an LFTA's group table, for queries without `aggregate_slots`."""


@dataclass(frozen=True)
class Setting:
    """Facts of a query set.

    Attributes:
        slots: query -> size of its group tables, a power of two, for queries without the default.
        thresholds: query -> least cost at which a function is not LFTA-safe, for queries without the default.
        selections: queries that ask for a selection LFTA (`select_lfta`).
        private: unpublished queries with one reader; the rules may rewrite them together with their reader.
        several: queries with more than one packet source; the names of their LFTAs contain the range variable.
        catalog: the catalog with the sub- and superaggregates.
        ordered: queries whose rows depend on the order of their input.
        arrival: whether the planned query is evaluated by arrival, so that its LFTAs read by arrival.
        arriving: queries that make progress with records only, and so are always evaluated by arrival. In another
            query, an LFTA by arrival has a suffix in its name.
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
        """Returns the least cost at which a function is not LFTA-safe."""
        return self.thresholds.get(query, Cost.HIGH)

    def size(self, query: str) -> int:
        """Returns the slots of a query's group tables."""
        return self.slots.get(query, DEFAULT_SLOTS)

    def one(self, above: Node, below: Node) -> bool:
        """Returns whether rules may rewrite two operators together: of one query, or the lower one of a private query.

        The canonical order of a query's rows is by all of its columns (O1). An order-dependent reader keeps its input.
        """
        if above.query == below.query:
            return True
        return below.query in self.private and above.query not in self.ordered


Rule = Callable[[Node, Setting], Node | None]
