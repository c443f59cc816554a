"""What may run at the low level, and the setting of the planner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from lowwater.catalog.builtin import CATALOG
from lowwater.catalog.expr import (
    Column,
    Const,
    Expr,
    Param,
    Type,
    conjunction,
    conjuncts,
    place_of,
    with_children,
)
from lowwater.catalog.functions import Catalog, Cost
from lowwater.catalog.protocols import ALIASES
from lowwater.catalog.records import field_name
from lowwater.plan.fields import ROWS, UniqueNames, make_fields, temporals
from lowwater.plan.operators import Field, Item, Lfta, LftaInput, Node, Partial, Source
from lowwater.plan.properties.cost import safe
from lowwater.plan.properties.state import ROW, TIMESTAMP

# Facts of a query set that the rules read besides its plans.

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


# Makes the low level of a query: LFTAs, and the expressions that read their columns. The splitting rules call this
# module. A selection LFTA applies the LFTA-safe conjuncts. It stores the largest LFTA-safe parts of every other
# expression as columns (004, Splitting Selection and Aggregation Queries).

ONE = Item("_value", Const(Type.INT, 1))
BY_ARRIVAL = "_by_arrival"
"""Suffix of an LFTA by arrival, for a query that also has an LFTA by timestamp."""


@dataclass
class Selection:
    """Builder of a selection LFTA.

    Attributes:
        source: the packets that the LFTA reads.
        threshold: the least cost at which a function is not LFTA-safe.
        arrival: whether the LFTA reads by arrival.
        items: the columns so far.
    """

    source: Source
    threshold: int
    arrival: bool = False
    items: list[Item] = field(default_factory=list)
    _columns: dict[Expr, str] = field(default_factory=dict)
    _names: UniqueNames = field(default_factory=UniqueNames)

    @property
    def whole(self) -> bool:
        """Whether the LFTA passes every record on: by arrival, with an attribute that is no function of the clock."""
        return self.arrival and bool(self._own_progress)

    @property
    def _own_progress(self) -> list[Field]:
        """The columns of the source that make progress by themselves."""
        return [f for f in self.source.fields if f.temporal and f.temporal.origin not in ("", ROWS)]

    @staticmethod
    def of(source: Source, query: str, setting: Setting) -> Selection:
        """Returns a builder without columns."""
        return Selection(source, setting.threshold(query), setting.arrival)

    def column(self, expr: Expr, name: str) -> Column:
        """Returns the LFTA's column of a safe expression; adds the column if the LFTA has none.

        Args:
            expr: LFTA-safe expression over packet columns.
            name: name of a new column; empty for the name of the expression.
        """
        if expr not in self._columns:
            name = name or (self._own_name(expr.name) if isinstance(expr, Column) else "_value")
            self._columns[expr] = self._names.unique(name)
            self.items.append(Item(self._columns[expr], expr))
        return Column(expr.type, self._columns[expr], place_of(expr))

    def _own_name(self, name: str) -> str:
        # Queries name the payload by its protocol.
        data = f"{self.source.protocol}_data"
        return data if ALIASES.get(data) == name else field_name(name)

    def over(self, expr: Expr, name: str = "") -> Expr:
        """Returns the expression over the LFTA's columns; the LFTA computes the largest safe parts."""
        if isinstance(expr, Const | Param):
            return expr
        if safe(expr, self.threshold):
            return self.column(expr, name)
        return with_children(expr, [self.over(child) for child in expr.children()])

    def predicate(self, predicate: Expr | None) -> tuple[Expr | None, Expr | None]:
        """Returns the conjuncts of the low level, and the other conjuncts over the LFTA's columns."""
        parts = conjuncts(predicate)
        if self.whole:
            return None, conjunction([self.over(part) for part in parts])
        low = conjunction([part for part in parts if safe(part, self.threshold)])
        high = conjunction([self.over(part) for part in parts if not safe(part, self.threshold)])
        return low, high

    def leaf(self, query: str, name: str, low: Expr | None, numbered: bool = False) -> LftaInput:
        """Returns the finished LFTA as a leaf of the high level.

        Args:
            query: name of the query that reads the leaf.
            name: name of the LFTA.
            low: predicate over packets; None for all packets.
            numbered: whether the query counts every record, so that every record becomes a row.
        """
        if self.arrival:
            return self._by_arrival(query, name, low, numbered)
        if not self.items:
            # A stream needs at least one column: the clock if the source has a clock, else a constant.
            clock = next((f for f in self.source.fields if f.temporal), None)
            self.items.append(Item(clock.name, Column(clock.type, clock.name)) if clock else ONE)
        fields = make_fields(self.items, temporals(self.source.fields))
        lfta = make_lfta(self.source, name, low, tuple(self.items), (), 1, fields)
        return LftaInput(query, fields, lfta)

    def _by_arrival(self, query: str, name: str, low: Expr | None, numbered: bool) -> LftaInput:
        """Returns an LFTA by arrival: its columns make no progress, but its timestamps tell the order of rows."""
        for attribute in self._own_progress:
            self.column(Column(attribute.type, attribute.name), "")
        self.items.append(Item(TIMESTAMP, Column(Type.INT, "timestamp")))
        fields = make_fields(self.items, temporals(self.source.fields))
        plain = tuple(replace(field, temporal=None) for field in fields)
        lfta = make_lfta(self.source, name, low, tuple(self.items), (), 1, plain)
        counted = tuple(field for field in self.source.fields if field.name == ROW)
        return LftaInput(query, fields + counted, replace(lfta, arrival=True, numbered=numbered, whole=self.whole))


def make_lfta(
    source: Source,
    name: str,
    predicate: Expr | None,
    keys: tuple[Item, ...],
    partials: tuple[Partial, ...],
    slots: int,
    fields: tuple[Field, ...],
    aggregates: bool = False,
) -> Lfta:
    """Returns an LFTA over the packets of a source.

    Args:
        source: the packets; the LFTA takes its links, protocol and sampling.
        name: name of the LFTA.
        predicate: condition over packet columns; None for all packets.
        keys: group-by variables, or the columns of a selection.
        partials: partial aggregates; empty for a selection.
        slots: size of the group table, a power of two.
        fields: output columns: the keys, then the partial aggregates.
        aggregates: whether the LFTA groups rows.
    """
    return Lfta(
        name=name,
        links=source.links,
        protocol=source.protocol,
        member=source.member,
        predicate=predicate,
        keys=keys,
        partials=partials,
        aggregates=aggregates,
        slots=slots,
        fields=fields,
        kind=source.kind,
        group=source.group,
        sample=source.sample,
        layout=source.layout,
        place=source.place,
    )


def lfta_name(query: str, source: Source, setting: Setting) -> str:
    """Returns the name of an LFTA: its query, then the source if the query has several sources."""
    base = f"{query}.{BY_ARRIVAL}" if setting.arrival and query not in setting.arriving else query
    if query not in setting.several:
        return base
    return f"{base}.{source.alias}" if source.query == query else f"{base}.{source.query}.{source.alias}"
