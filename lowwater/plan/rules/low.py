"""Makes the low level of a query: LFTAs, and the expressions that read them.

Below the rules that split. A selection LFTA takes the LFTA-safe conjuncts, and of every other expression the largest
LFTA-safe parts as columns (004, Splitting Selection and Aggregation Queries).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

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
from lowwater.catalog.protocols import ALIASES
from lowwater.plan.fields import make_fields, temporals
from lowwater.plan.operators import Field, Item, Lfta, LftaInput, Partial, Source
from lowwater.plan.properties.cost import safe
from lowwater.plan.properties.state import ROW
from lowwater.plan.rules.setting import Setting

ONE = Item("_value", Const(Type.INT, 1))
TIMESTAMP = "_timestamp"
"""Column of a record's timestamp in an LFTA by arrival, behind the others; NULL where the record is not taken."""

BY_ARRIVAL = "_by_arrival"
"""Tells an LFTA by arrival from the other one of a query that is read both ways."""


@dataclass
class Selection:
    """A selection LFTA in the making.

    Attributes:
        source: the packets that it reads.
        threshold: cost from which on a function is not LFTA-safe.
        arrival: whether it is read by arrival.
        items: its columns so far.
    """

    source: Source
    threshold: int
    arrival: bool = False
    items: list[Item] = field(default_factory=list)

    @staticmethod
    def of(source: Source, query: str, setting: Setting) -> Selection:
        """An empty one."""
        return Selection(source, setting.threshold(query), setting.arrival)

    def column(self, expr: Expr, name: str) -> Column:
        """The LFTA's column of a safe expression, under the name given or its own."""
        for item in self.items:
            if item.expr == expr:
                return Column(expr.type, item.name, place_of(expr))
        name = name or (self._own_name(expr.name) if isinstance(expr, Column) else "_value")
        taken = {item.name.lower() for item in self.items}
        unique, count = name, 0
        while unique.lower() in taken:
            count += 1
            unique = f"{name}{count}"
        self.items.append(Item(unique, expr))
        return Column(expr.type, unique, place_of(expr))

    def _own_name(self, name: str) -> str:
        # The payload has the name that queries over its protocol give to it.
        data = f"{self.source.protocol}_data"
        return data if ALIASES.get(data) == name else name

    def over(self, expr: Expr, name: str = "") -> Expr:
        """The expression over the LFTA's columns: safe parts, as large as they are, are computed below."""
        if isinstance(expr, Const | Param):
            return expr
        if safe(expr, self.threshold):
            return self.column(expr, name)
        return with_children(expr, [self.over(child) for child in expr.children()])

    def predicate(self, predicate: Expr | None) -> tuple[Expr | None, Expr | None]:
        """The conjuncts that go low, and the others over the LFTA's columns."""
        parts = conjuncts(predicate)
        low = conjunction([part for part in parts if safe(part, self.threshold)])
        high = conjunction([self.over(part) for part in parts if not safe(part, self.threshold)])
        return low, high

    def leaf(self, query: str, name: str, low: Expr | None, numbered: bool = False) -> LftaInput:
        """The finished LFTA as a leaf of the high level.

        Args:
            query: name of the query that reads the leaf.
            name: name of the LFTA.
            low: predicate over packets; None for all of them.
            numbered: whether each record is counted, so that it has a row.
        """
        if self.arrival:
            return self._by_arrival(query, name, low, numbered)
        if not self.items:
            # A stream has at least one column: the clock, as far as the source has one.
            clock = next((f for f in self.source.fields if f.temporal), None)
            self.items.append(Item(clock.name, Column(clock.type, clock.name)) if clock else ONE)
        fields = make_fields(self.items, temporals(self.source.fields))
        lfta = make_lfta(self.source, name, low, tuple(self.items), (), 1, fields)
        return LftaInput(query, fields, lfta)

    def _by_arrival(self, query: str, name: str, low: Expr | None, numbered: bool) -> LftaInput:
        """The LFTA by arrival: its promises say nothing of the columns, but the timestamp tells the order of rows."""
        self.items.append(Item(TIMESTAMP, Column(Type.INT, "timestamp")))
        fields = make_fields(self.items, temporals(self.source.fields))
        plain = tuple(replace(field, temporal=None) for field in fields)
        lfta = make_lfta(self.source, name, low, tuple(self.items), (), 1, plain)
        counted = tuple(field for field in self.source.fields if field.name == ROW)
        return LftaInput(query, fields + counted, replace(lfta, arrival=True, numbered=numbered))


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
    """An LFTA over the packets of a source.

    Args:
        source: the packets, whose links, protocol and sample are those of the LFTA.
        name: name of the LFTA.
        predicate: condition over packet columns; None for all packets.
        keys: group-by variables, or the columns of a selection.
        partials: sub-aggregates; none of a selection.
        slots: size of its group table, a power of two.
        fields: output columns: the keys, then the partials.
        aggregates: whether it groups.
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
        place=source.place,
    )


def lfta_name(query: str, source: Source, setting: Setting) -> str:
    """The name of an LFTA: its query, with the source where the query has several."""
    own = f"{query}.{BY_ARRIVAL}" if setting.arrival and query not in setting.arriving else query
    if query not in setting.several:
        return own
    return f"{own}.{source.alias}" if source.query == query else f"{own}.{source.query}.{source.alias}"
