"""Bound sources of a statement, and the names of its output columns.

Shared by `binder` and the other modules of `clauses`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from lowwater.catalog.expr import Column, Expr, columns_of, show
from lowwater.catalog.native import NATIVE
from lowwater.catalog.protocols import ALIASES, LINK, SECOND, Attribute, Protocol
from lowwater.catalog.records import field_name
from lowwater.gsql import nodes as syntax
from lowwater.plan.bind.expressions.durations import units_of
from lowwater.plan.bind.expressions.scope import Scope
from lowwater.plan.fields import UniqueNames, make_fields, temporals
from lowwater.plan.operators import Bucket, Field, Item, Join, Map, Node, Source
from lowwater.plan.temporal import CLOCK, Step, Temporal
from lowwater.plan.text import Text, place_of


@dataclass(frozen=True)
class BoundSource:
    """One source of a statement: its stream, and the columns that expressions may name.

    Attributes:
        alias: range variable.
        node: the stream.
        columns: column name -> expression over the rows of the stream.
        window: the window after the source; None if there is none.
        units: temporal column -> ns per unit, for columns not derived from the clock; None if the unit is unknown.
        assumed: whether the source counts as a link only because nothing else has its name.
        hidden: columns that `*` omits.
    """

    alias: str
    node: Node
    columns: Mapping[str, Expr]
    window: syntax.Window | None = None
    units: Mapping[str, int | None] = field(default_factory=dict)
    assumed: bool = False
    hidden: frozenset[str] = frozenset()

    @property
    def links(self) -> tuple[str, ...]:
        """The links that the source reads; empty for the stream of a query."""
        return self.node.links if isinstance(self.node, Source) else ()

    def shown(self) -> list[str]:
        """Returns the columns that `*` stands for."""
        return [name for name in self.whole() if name not in self.hidden]

    def whole(self) -> list[str]:
        """Returns all columns, without the aliases of packet columns."""
        # A declared protocol does not name the link, so two such protocols have equal columns only without it.
        unnamed = self.hidden & {LINK}
        return [name for name in self.columns if self.canonical(name) == name and name not in unnamed]

    def canonical(self, name: str) -> str:
        """Returns the first name of a packet column that has several names; any other name unchanged."""
        other = ALIASES.get(name, name)
        same = isinstance(self.node, Source) and other in self.columns and self.columns[other] == self.columns[name]
        return other if same else name

    def time_units(self) -> dict[str, Fraction]:
        """Maps each temporal column of the stream to its unit in ns; without columns of unknown unit."""
        return units_of(self.node.fields, self.units)

    def stream(self, query: str, predicate: Expr | None = None, names: Sequence[str] | None = None) -> Node:
        """Builds the stream of the source with a filter and a projection. The rows of a query are only filtered.

        Args:
            query: name of the query that reads the source.
            predicate: condition over the rows of the source; None keeps all rows.
            names: columns of packets to keep; None keeps those that `*` stands for.
        """
        if not isinstance(self.node, Source):
            if predicate is None:
                return self.node
            keep = [Item(f.name, Column(f.type, f.name)) for f in self.node.fields]
            return make_map(query, self.node, predicate, keep)
        chosen = self.shown() if names is None else names
        return make_map(query, self.node, predicate, [Item(n, self.columns[n]) for n in chosen])


def source_fields(protocol: Protocol) -> tuple[Field, ...]:
    """Returns the stored columns of a protocol, with the progress of its temporal attributes (SEMANTICS T8)."""
    times = {attribute.name: _progress(protocol, attribute) for attribute in protocol.attributes}
    declared = protocol.declared
    return tuple(Field(n, t, times.get(n), declared.get(n, "")) for n, t in protocol.stored.items())


def _progress(protocol: Protocol, attribute: Attribute) -> Temporal:
    time = CLOCK if attribute.clock else Temporal(((),), f"{protocol.name}.{field_name(attribute.name)}")
    if attribute.clock and attribute.unit != 1:
        time = time.then(Step("div", attribute.unit or SECOND))
    return time.then(Step("neg")) if attribute.decreasing else time


def timeless(node: Node) -> str:
    """Hint for a stream without a temporal column."""
    if isinstance(node, Source):
        return "declare one in its PROTOCOL: uint time get_csv_uint_pos1 (increasing);"
    if isinstance(node, Join):
        return _timeless_join(node)
    return "select one, such as time, in the query that is read"


def _timeless_join(join: Join) -> str:
    sides = zip((join.window.left, join.window.right), join.window.present(join.kind), strict=True)
    if not (temporal := [side for side, present in sides if present]):
        return f"match by an equality of times in {join.query}: an {join.kind} by a band has no temporal column"
    names = " or ".join(show(side) for side in temporal)
    return f"select {names} in {join.query}: only what a join matches by is temporal in its rows"


def make_map(query: str, source: Node, predicate: Expr | None, items: Sequence[Item]) -> Map:
    """Builds the selection and projection of a stream.

    Args:
        query: name of the query.
        source: the stream.
        predicate: condition over its rows; None keeps all rows.
        items: named expressions over its rows, in the order of the output.
    """
    fields = make_fields(items, temporals(source.fields))
    return Map(query, fields, narrow(source, predicate, *(item.expr for item in items)), predicate, tuple(items))


def narrow(node: Node, *exprs: Expr | None) -> Node:
    """Removes unused columns from a packet source, also below a Bucket. Returns any other stream unchanged."""
    if isinstance(node, Bucket):
        below = narrow(node.input, *exprs, node.attribute, *(item.expr for item in node.partition), node.counted)
        names = {f.name for f in below.fields}
        input_width = len(node.input.fields)
        fields = tuple(f for at, f in enumerate(node.fields) if at >= input_width or f.name in names)
        return replace(node, input=below, fields=fields)
    if not isinstance(node, Source):
        return node
    used = set(columns_of(*exprs))
    return replace(node, fields=tuple(f for f in node.fields if f.name in used))


def name_items(written: Sequence[syntax.SelectItem], bound: Sequence[Expr], text: Text) -> list[Item]:
    """Names the select items: by their alias, else by the rules of GSQL.

    A name that is taken, in any case, gets 1, 2, ... appended.
    """
    items: list[Item] = []
    names = UniqueNames()
    for position, (item, expr) in enumerate(zip(written, bound, strict=True)):
        name = item.alias or default_name(item.expression, position)
        if name.startswith("_"):
            raise text.error(place_of(item), f"{name}: names that begin with _ are Lowwater's own")
        items.append(Item(names.unique(name), expr))
    return items


def default_name(node: syntax.Expression, position: int) -> str:
    """Returns the name of a select item without an alias (shared rules of GSQL, section 2)."""
    if isinstance(node, syntax.Name):
        return node.name
    if isinstance(node, syntax.Literal):
        return "Literal"
    if isinstance(node, syntax.Parameter):
        return f"Param_{node.name}"
    if isinstance(node, syntax.Property):
        return f"Iparam_{node.name}"
    if isinstance(node, syntax.Call):
        if node.star:
            return "Cnt"
        argument = node.arguments[0] if node.arguments else None
        name = node.name.upper() if node.name in NATIVE else node.name
        return f"{name}_{argument.name if isinstance(argument, syntax.Name) else 'SE'}"
    return f"Field{position}"


def expand_stars(
    items: Sequence[syntax.SelectItem], sources: Sequence[BoundSource], text: Text
) -> list[syntax.SelectItem]:
    """Replaces `*` and `alias.*` by the columns that they stand for, in the order of the source.

    Raises:
        QueryError: `alias.*` names no source.
    """
    expanded: list[syntax.SelectItem] = []
    for item in items:
        star = item.expression
        if not isinstance(star, syntax.Star):
            expanded.append(item)
            continue
        chosen = [source for source in sources if star.qualifier in ("", source.alias)]
        if not chosen:
            raise text.error(star.place, f"no source is called {star.qualifier}")
        for source in chosen:
            names = (syntax.Name(name, source.alias, star.place) for name in source.shown())
            expanded += [syntax.SelectItem(name, "", star.place) for name in names]
    return expanded


def binder(scope: Scope, item: syntax.SelectItem) -> Callable[[], Expr]:
    """Returns a step that binds one select item, for `attempt_all`."""
    return lambda: scope.bind(item.expression)
