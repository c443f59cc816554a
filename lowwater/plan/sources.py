"""The sources of a statement, and the naming of its output.

Shared by `binder` and `joins`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lowwater.catalog.expr import Column, Expr, columns_of
from lowwater.catalog.protocols import ALIASES
from lowwater.gsql import nodes as syntax
from lowwater.plan.nodes import Field, Item, Map, Node, Source
from lowwater.plan.scope import Text, place_of
from lowwater.plan.temporal import Temporal, infer


@dataclass(frozen=True)
class BoundSource:
    """One source of a statement: its stream, and what its column names read of the stream's rows."""

    alias: str
    node: Node
    columns: Mapping[str, Expr]

    def stream(self, query: str, predicate: Expr | None = None, names: Sequence[str] | None = None) -> Node:
        """The source as a stream of named columns: packets are projected, a query's rows only filtered."""
        if not isinstance(self.node, Source):
            if predicate is None:
                return self.node
            keep = [Item(f.name, Column(f.type, f.name)) for f in self.node.fields]
            return make_map(query, self.node, predicate, keep)
        chosen = [n for n in self.columns if n not in ALIASES] if names is None else names
        return make_map(query, self.node, predicate, [Item(n, self.columns[n]) for n in chosen])


def temporals(fields: Sequence[Field]) -> dict[str, Temporal]:
    """Column name -> temporal property, of those that have one."""
    return {f.name: f.temporal for f in fields if f.temporal}


def make_fields(items: Sequence[Item], columns: Mapping[str, Temporal]) -> tuple[Field, ...]:
    """The output fields of items over input columns."""
    return tuple(Field(item.name, item.expr.type, infer(item.expr, dict(columns))) for item in items)


def make_map(query: str, source: Node, predicate: Expr | None, items: Sequence[Item]) -> Map:
    """A selection and projection of a stream."""
    fields = make_fields(items, temporals(source.fields))
    return Map(query, fields, narrow(source, predicate, *(item.expr for item in items)), predicate, tuple(items))


def narrow(node: Node, *exprs: Expr | None) -> Node:
    """A source of packets with only the columns that its one reader uses; any other stream as it is."""
    if not isinstance(node, Source):
        return node
    used = set(columns_of(*exprs))
    return replace(node, fields=tuple(f for f in node.fields if f.name in used))


def name_items(written: Sequence[syntax.SelectItem], bound: Sequence[Expr], text: Text) -> list[Item]:
    """Names the select items: as written, else by the rules of GSQL; clashes (in any case) get 1, 2, ..."""
    items: list[Item] = []
    taken: set[str] = set()
    for position, (item, expr) in enumerate(zip(written, bound, strict=True)):
        name = item.alias or _default_name(item.expression, position)
        if name.startswith("_"):
            raise text.error(place_of(item), f"{name}: names that begin with _ are Lowwater's own")
        unique, count = name, 0
        while unique.lower() in taken:
            count += 1
            unique = f"{name}{count}"
        taken.add(unique.lower())
        items.append(Item(unique, expr))
    return items


def _default_name(node: syntax.Expression, position: int) -> str:
    if isinstance(node, syntax.Name):
        return node.name
    if isinstance(node, syntax.Literal):
        return "Literal"
    if isinstance(node, syntax.Call):
        if node.star:
            return "Cnt"
        argument = node.arguments[0] if node.arguments else None
        return f"{node.name.upper()}_{argument.name if isinstance(argument, syntax.Name) else 'SE'}"
    return f"Field{position}"
