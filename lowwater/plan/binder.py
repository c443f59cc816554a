"""Gives statements their meaning: syntax trees become the logical plan.

Second stage of the pipeline. One logical tree per query, other queries inlined where they are read, so that every
tree is whole; `split` makes two levels of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from lowwater.catalog.expr import Column, Expr, Type
from lowwater.catalog.packets import TYPES
from lowwater.catalog.protocols import ALIASES, PROTOCOLS
from lowwater.errors import QueryError
from lowwater.gsql import nodes as syntax
from lowwater.plan.joins import bind_join
from lowwater.plan.nodes import Aggregate, Field, Group, Item, Node, Source, Union
from lowwater.plan.scope import AGGREGATES, NUMERIC, Scope, Text, nearest, place_of
from lowwater.plan.sources import BoundSource, make_fields, make_map, name_items, narrow, temporals
from lowwater.plan.temporal import CLOCK, infer

ANY_LINK = "*"
"""Stands for every link where a plan is explained without knowing them."""


@dataclass(frozen=True)
class Links:
    """The links and sets that queries may name.

    Attributes:
        names: all links; None where they are not known (explain without captures): then any name is a link.
        sets: set name -> link names.
    """

    names: tuple[str, ...] | None = None
    sets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass
class Binder:
    """Binds the statements of one query set.

    Attributes:
        links: what FROM may name.
        statements: query name -> (statement, text it stands in).
    """

    links: Links
    statements: Mapping[str, tuple[syntax.Statement, Text]]
    bound: dict[str, Node] = field(default_factory=dict)
    _active: list[str] = field(default_factory=list)

    def query(self, name: str) -> Node:
        """The logical plan of a query.

        Raises:
            QueryError: anything in its text, or in a query that it reads, that has no meaning.
        """
        if name in self.bound:
            return self.bound[name]
        statement, text = self.statements[name]
        if name in self._active:
            cycle = " -> ".join([*self._active[self._active.index(name) :], name])
            raise text.error(place_of(statement), f"query {name} reads itself: {cycle}")
        self._active.append(name)
        try:
            if isinstance(statement, syntax.Select):
                node = self._select(name, statement, text)
            elif isinstance(statement, syntax.Merge):
                node = self._merge(name, statement, text)
            else:
                raise TypeError(type(statement).__name__)
        finally:
            self._active.pop()
        self.bound[name] = node
        return node

    def _select(self, name: str, statement: syntax.Select, text: Text) -> Node:
        if statement.join:
            sides = [self._source(name, ref, text) for ref in statement.sources]
            return bind_join(name, statement, text, sides)
        source = self._source(name, statement.sources[0], text)
        grouped = (
            statement.group_by or statement.having or any(_aggregates(item.expression) for item in statement.items)
        )
        if grouped:
            return _group(name, statement, text, source)
        scope = Scope(text, {source.alias: source.columns}, where="a query without GROUP BY")
        predicate = scope.predicate(statement.where, "WHERE") if statement.where else None
        items = name_items(statement.items, [scope.bind(item.expression) for item in statement.items], text)
        return make_map(name, source.node, predicate, items)

    def _merge(self, name: str, statement: syntax.Merge, text: Text) -> Node:
        sides = [self._source(name, ref, text) for ref in statement.sources]
        by_alias = {side.alias: side for side in sides}
        if len(by_alias) < len(sides):
            raise text.error(statement.place, "two sources of MERGE have one name", "give each a range variable")
        if len(statement.columns) != len(sides):
            raise text.error(statement.place, f"MERGE names {len(statement.columns)} columns for {len(sides)} sources")
        branches, position = [], -1
        for column, side in zip(statement.columns, sides, strict=True):
            if column.qualifier and column.qualifier != side.alias:
                raise text.error(column.place, f"the merge column of {side.alias} is called {column.qualifier}")
            Scope(text, {side.alias: side.columns}).bind(column)
            branch = side.stream(name)
            names = [f.name for f in branch.fields]
            wanted = ALIASES.get(column.name, column.name) if isinstance(side.node, Source) else column.name
            index = names.index(wanted)
            if branch.fields[index].temporal is None:
                raise text.error(column.place, f"{column.name} of {side.alias} is not temporal: it cannot be merged on")
            if position not in (-1, index):
                raise text.error(column.place, f"{column.name} stands at another position in {side.alias}")
            position = index
            branches.append(branch)
        _check_union(branches, statement, text)
        times = [branch.fields[position].temporal for branch in branches]
        first = times[0]
        assert first is not None
        if any(time is None or time.increasing != first.increasing for time in times):
            raise text.error(statement.place, "the merge columns progress in opposite directions")
        merged = first.joined(*(time for time in times[1:] if time))
        fields = tuple(
            Field(f.name, f.type, merged if i == position else None) for i, f in enumerate(branches[0].fields)
        )
        return Union(name, fields, tuple(branches))

    def _source(self, query: str, ref: syntax.SourceRef, text: Text) -> BoundSource:
        if not ref.links and not ref.bracketed and ref.name in self.statements:
            node = self.query(ref.name)
            columns: dict[str, Expr] = {f.name: Column(f.type, f.name) for f in node.fields}
            return BoundSource(ref.alias or ref.name, node, columns)
        if ref.name not in PROTOCOLS:
            kind = "protocol" if ref.links else "query or protocol"
            known = [*PROTOCOLS, *([] if ref.links else self.statements)]
            raise text.error(ref.place, f"no {kind} is called {ref.name}", nearest(ref.name, known))
        protocol = PROTOCOLS[ref.name]
        alias = ref.alias or ref.name
        fields = tuple(Field(n, t, CLOCK if n == "timestamp" else None) for n, t in TYPES.items())
        links = self._links(ref, text)
        node = Source(query, fields, alias, links, ref.name, protocol.member)
        return BoundSource(alias, node, protocol.columns)

    def _links(self, ref: syntax.SourceRef, text: Text) -> tuple[str, ...]:
        if not ref.links:
            if self.links.names is not None and not self.links.names:
                raise text.error(ref.place, f"{ref.name} reads all links, and there are none")
            return tuple(sorted(self.links.names or (ANY_LINK,)))
        found: set[str] = set()
        for name in ref.links:
            if ref.bracketed and name in self.links.sets:
                found.update(self.links.sets[name])
            elif self.links.names is None or name in self.links.names:
                found.add(name)
            else:
                known = [*self.links.names, *(self.links.sets if ref.bracketed else ())]
                kind = "link or set" if ref.bracketed else "link"
                raise text.error(ref.place, f"{kind} {name} has no capture", nearest(name, known))
        return tuple(sorted(found))


def _aggregates(node: syntax.Expression) -> bool:
    if isinstance(node, syntax.Call):
        return node.name.lower() in AGGREGATES
    if isinstance(node, syntax.UnaryOp):
        return _aggregates(node.operand)
    return isinstance(node, syntax.BinaryOp) and (_aggregates(node.left) or _aggregates(node.right))


def _group(query: str, statement: syntax.Select, text: Text, source: BoundSource) -> Group:
    sources = {source.alias: source.columns}
    rows = Scope(text, sources, where="WHERE or GROUP BY")
    predicate = rows.predicate(statement.where, "WHERE") if statement.where else None
    keys = _keys(statement, text, rows)
    key_fields = make_fields(keys, temporals(source.node.fields))
    if not any(f.temporal for f in key_fields):
        times = [n for n, e in source.columns.items() if n not in ALIASES and infer(e, temporals(source.node.fields))]
        shortest = min(times, key=len, default="")
        hint = f"add a temporal variable, such as {shortest}/60 AS tb" if times else "no column of it is temporal"
        raise text.error(place_of(statement), "GROUP BY has no temporal variable, so no group would ever close", hint)
    aggregates: list[Aggregate] = []
    results = _result_scope(text, rows, keys, aggregates)
    having = results.predicate(statement.having, "HAVING") if statement.having else None
    bound = [_over_groups(item, results, keys, rows) for item in statement.items]
    items = name_items(statement.items, bound, text)
    fields = make_fields(items, temporals(key_fields))
    read = narrow(source.node, predicate, *(key.expr for key in keys), *(each.argument for each in aggregates))
    return Group(query, fields, read, predicate, tuple(keys), key_fields, tuple(aggregates), having, tuple(items))


def _keys(statement: syntax.Select, text: Text, rows: Scope) -> list[Item]:
    keys: list[Item] = []
    for item in statement.group_by:
        if not item.alias and not isinstance(item.expression, syntax.Name):
            raise text.error(place_of(item), "a computed group-by variable needs a name", "write: expression AS name")
        name = item.alias or item.expression.name  # type: ignore[attr-defined]
        if name.startswith("_"):
            raise text.error(place_of(item), f"{name}: names that begin with _ are Lowwater's own")
        if any(key.name.lower() == name.lower() for key in keys):
            raise text.error(place_of(item), f"two group-by variables are called {name}")
        keys.append(Item(name, rows.bind(item.expression)))
    return keys


def _result_scope(text: Text, rows: Scope, keys: Sequence[Item], aggregates: list[Aggregate]) -> Scope:
    taken = {key.name.lower() for key in keys}

    def on_aggregate(call: syntax.Call) -> Expr:
        function = call.name.lower()
        argument = _argument(call, function, text, rows)
        result = _result_type(call, function, argument, text)
        for known in aggregates:
            if known.function == function and known.argument == argument:
                return Column(known.type, known.name)
        number = len(aggregates)
        while f"agg{number}" in taken:
            number += 1
        taken.add(f"agg{number}")
        aggregates.append(Aggregate(f"agg{number}", function, argument, result))
        return Column(result, f"agg{number}")

    visible = {key.name: Column(key.expr.type, key.name) for key in keys}
    return Scope(text, {}, visible, on_aggregate)


def _argument(call: syntax.Call, function: str, text: Text, rows: Scope) -> Expr | None:
    if function == "count":
        if not call.star:
            raise text.unsupported(call.place, "count(x) is not supported yet", "count(*) counts rows")
        return None
    if call.star or len(call.arguments) != 1:
        raise text.error(call.place, f"{call.name} takes one argument")
    return replace(rows, where="another aggregate").bind(call.arguments[0])


def _result_type(call: syntax.Call, function: str, argument: Expr | None, text: Text) -> Type:
    if argument is None:
        return Type.INT
    if function in ("sum", "avg") and argument.type not in NUMERIC:
        raise text.error(call.place, f"{call.name} needs numbers, this is of type {argument.type}")
    if argument.type is Type.STRING:
        raise text.unsupported(call.place, f"{call.name} of strings is not supported yet")
    return Type.FLOAT if function == "avg" else argument.type


def _over_groups(item: syntax.SelectItem, results: Scope, keys: Sequence[Item], rows: Scope) -> Expr:
    """Binds a select item over groups; an expression that repeats a group-by definition is that variable."""
    if not _aggregates(item.expression) and not isinstance(item.expression, syntax.Literal):
        try:
            raw = rows.bind(item.expression)
        except QueryError:  # not an expression over rows: bound over groups below, which reports what is wrong
            raw = None
        if raw is not None:
            for key in keys:
                if key.expr == raw:
                    return Column(raw.type, key.name)
    return results.bind(item.expression)


def _check_union(branches: Sequence[Node], statement: syntax.Merge, text: Text) -> None:
    first = branches[0].fields
    for branch in branches[1:]:
        if len(branch.fields) != len(first):
            message = f"the inputs of MERGE have {len(first)} and {len(branch.fields)} columns"
            raise text.error(statement.place, message)
        for a, b in zip(first, branch.fields, strict=True):
            if a.type is not b.type:
                raise text.error(statement.place, f"MERGE pairs {a.name} ({a.type}) with {b.name} ({b.type})")
