"""Prints both levels of a query as GSQL, as the papers do: `Query x_low: ...` and `Query x_high: ...`.

Stands between `describe` and the syntax of the language. GSQL cannot write every operator into the statement of its
reader. Such an operator gets its own statement: `<query>_1`, `<query>_2` and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lowwater.catalog.expr import Binary, Column, Const, Expr, Type
from lowwater.catalog.records import field_name
from lowwater.gsql import nodes as gsql
from lowwater.gsql.printer import print_statement
from lowwater.plan.explain import syntax
from lowwater.plan.explain.spell import params_of, spelled, spelled_item
from lowwater.plan.operators import (
    ANY_LINK,
    Aggregate,
    Aggregation,
    Bucket,
    Expand,
    FilterJoin,
    Group,
    Item,
    Join,
    Lfta,
    LftaInput,
    Map,
    Node,
    Running,
    Sampling,
    Union,
    WatchJoin,
)


def low_name(lfta: Lfta) -> str:
    """Returns the name of an LFTA's statement."""
    return f"{lfta.name.replace('.', '_')}_low"


def low_text(lfta: Lfta) -> str:
    """Returns an LFTA as a GSQL statement."""
    keys = [spelled_item(key, lfta.kind) for key in lfta.keys]
    where = spelled(lfta.predicate, lfta.kind) if lfta.predicate is not None else None
    links = () if lfta.links == (ANY_LINK,) else lfta.links
    source = gsql.SourceRef(lfta.protocol, links, bracketed=len(links) > 1)
    partials = [
        Aggregate(p.name, p.function, spelled(p.argument, lfta.kind) if p.argument is not None else None, p.type)
        for p in lfta.partials
    ]
    if lfta.aggregates:
        chosen = syntax.select_items([Item(key.name, Column(key.expr.type, key.name)) for key in keys])
        chosen += tuple(gsql.SelectItem(syntax.aggregate_call(partial), partial.name) for partial in partials)
    else:
        chosen = syntax.select_items(keys)
    groups = syntax.select_items(keys) if lfta.aggregates else ()
    read = params_of(lfta.predicate, *(key.expr for key in keys), *(partial.argument for partial in partials))
    select = gsql.Select(chosen, (source,), where=syntax.condition(where), group_by=groups, params=_params(read))
    return _headed(low_name(lfta), select)


def _headed(name: str, statement: gsql.Statement) -> str:
    return f"Query {name}:\n{print_statement(statement)}"


def _params(read: Mapping[str, Expr]) -> tuple[gsql.ParamDecl, ...]:
    chosen = [(name, param) for name, param in read.items() if not name.startswith("@")]
    return tuple(gsql.ParamDecl(name, syntax.PARAM_TYPES.get(param.type, "string")) for name, param in chosen)


@dataclass
class HighText:
    """Builder of the high level of one query as GSQL.

    Attributes:
        query: name of the query.
        streams: id of an operator -> the stream by which its readers name it.
        statements: (name, statement) pairs, inputs before their readers.
    """

    query: str
    streams: Mapping[int, str]
    statements: list[tuple[str, gsql.Statement]] = field(default_factory=list)
    _done: dict[int, str] = field(default_factory=dict)

    def text(self, root: Node) -> str:
        """Returns the statements as text; empty if an LFTA alone computes the query."""
        if isinstance(root, LftaInput):
            return ""
        self._whole(root)
        return ";\n\n".join(_headed(name, statement) for name, statement in self.statements)

    def _whole(self, root: Node) -> None:
        # A statement follows the statements that it reads. Chains of queries are long, so a stack replaces recursion.
        stack: list[tuple[Node, Node | None]] = [(root, None)]
        while stack:
            node, reader = stack[-1]
            waiting = [below for below in _read(node) if self._name(below) is None]
            if waiting:
                stack += [(below, node) for below in reversed(waiting)]
                continue
            stack.pop()
            if id(node) in self._done:
                continue
            name = self._fresh(node, reader)
            self.statements.append((name, self._statement(node)))
            self._done[id(node)] = name

    def _name(self, node: Node) -> str | None:
        if isinstance(node, LftaInput):
            return self.streams.get(id(node)) or low_name(node.lfta)
        return self._done.get(id(node)) or self.streams.get(id(node))

    def _fresh(self, node: Node, reader: Node | None) -> str:
        """Returns the query's own name for its last operator, and a numbered name for the operators before it."""
        taken = {*self.streams.values(), *(name for name, _ in self.statements)}
        own = f"{node.query}_high"
        if reader is None or (reader.query != node.query and own not in taken):
            return own if reader is not None else f"{self.query}_high"
        at = 1
        while f"{node.query}_{at}" in taken:
            at += 1
        return f"{node.query}_{at}"

    def _statement(self, node: Node) -> gsql.Statement:
        statement = self._bare(node)
        params = _params(params_of(*(expr for operator in (node, *_folded(node)) for expr in operator.exprs())))
        return replace(statement, params=params) if params else statement

    def _bare(self, node: Node) -> gsql.Select | gsql.Merge:
        if type(node) not in STATEMENTS:
            raise TypeError(f"EXPLAIN has no text for {type(node).__name__}")
        return STATEMENTS[type(node)](self, node)

    def _map(self, node: Map) -> gsql.Select:
        items = syntax.select_items(node.items)
        return gsql.Select(items, (self._source(node.input),), where=syntax.condition(node.predicate))

    def _all_rows(self, node: Bucket | Expand) -> gsql.Select:
        """Returns a statement for tagged rows whose reader is no aggregation."""
        return gsql.Select((gsql.SelectItem(gsql.Star()),), (self._source(node.input),))

    def _filter_join(self, node: FilterJoin) -> gsql.Select:
        where = syntax.both(*(syntax.equality(left, right) for left, right in node.keys))
        select = gsql.Select(syntax.select_items(node.items), self._sides(node), "FILTER_JOIN", where)
        time = node.left_time.name.rpartition(".")[2] if isinstance(node.left_time, Column) else "time"
        return replace(select, filter_range=(gsql.Name(time), gsql.Literal("int", node.range)))

    def _watch_join(self, node: WatchJoin) -> gsql.Select:
        keys = [syntax.equality(key, Column(key.type, name)) for key, name in node.keys]
        sources = (
            replace(self._source(node.input), alias=node.alias),
            gsql.SourceRef(node.watchlist, alias=node.watch_alias),
        )
        where = syntax.both(*keys, syntax.condition(node.residual))
        return gsql.Select(syntax.select_items(node.items), sources, "WATCHLIST_JOIN", where)

    def _source(self, node: Node) -> gsql.SourceRef:
        """Returns the source that FROM names: a stream, or the union of several streams."""
        name = self._name(node)
        if name is not None:
            return gsql.SourceRef(name)
        first, *rest = (self._source(branch) for branch in node.inputs())
        return replace(first, union=tuple(rest))

    def _sides(self, node: Join | FilterJoin) -> tuple[gsql.SourceRef, ...]:
        pairs = ((node.left, node.left_alias), (node.right, node.right_alias))
        return tuple(replace(self._source(side), alias=alias) for side, alias in pairs)

    def _join(self, node: Join) -> gsql.Select:
        equalities = [syntax.equality(left, right) for left, right in node.equalities]
        where = syntax.both(syntax.band(node.window), *equalities, syntax.condition(node.residual))
        return gsql.Select(syntax.select_items(node.items), self._sides(node), node.kind.value, where)

    def _union(self, node: Union) -> gsql.Select | gsql.Merge:
        position = next((at for at, f in enumerate(node.fields) if f.temporal), None)
        sources = [self._source(branch) for branch in node.branches]
        names = [source.name for source in sources]
        aliased = [replace(s, alias=f"b{at}" if names.count(s.name) > 1 else "") for at, s in enumerate(sources)]
        if position is None:
            first, *rest = sources
            return gsql.Select((gsql.SelectItem(gsql.Star()),), (replace(first, union=tuple(rest)),))
        columns = [
            gsql.Name(field_name(branch.fields[position].name), source.alias or source.name)
            for branch, source in zip(node.branches, aliased, strict=True)
        ]
        return gsql.Merge(tuple(columns), tuple(aliased))

    def _aggregation(self, node: Aggregation) -> gsql.Select:
        names: dict[str, gsql.Expression] = {a.name: syntax.aggregate_call(a) for a in node.aggregates}
        below, window, keys = node.input, None, list(node.keys)
        groups: tuple[gsql.SelectItem | gsql.Grouping, ...] = ()
        if isinstance(below, Bucket):
            window, source = _window(below), self._source(below.input)
            number = next((key.name for key in keys if key.expr == Column(Type.INT, below.name)), below.name)
            names[number] = gsql.Name("wid")
            partition = {item.name for item in below.partition}
            keys = [key for key in keys if key.name != number and key.name not in partition]
        elif isinstance(below, Expand):
            source = self._source(below.input)
            groups = _grouping(below, keys)
            keys = [key for key in keys if key.name != below.name and key.name not in below.keys]
        else:
            source = self._source(below)
        select = gsql.Select(
            syntax.select_items(node.items, names),
            (source,),
            where=syntax.condition(node.predicate),
            group_by=(*syntax.select_items(keys), *groups),
            having=syntax.condition(node.having, names=names),
            window=window,
        )
        if isinstance(node, Running):
            return replace(select, closing_when=syntax.expression(node.closing, names))
        return _sampling(node, names, select) if isinstance(node, Sampling) else select


STATEMENTS: dict[type[Node], Callable[[HighText, Any], gsql.Select | gsql.Merge]] = {
    Map: HighText._map,
    Group: HighText._aggregation,
    Running: HighText._aggregation,
    Sampling: HighText._aggregation,
    Union: HighText._union,
    Join: HighText._join,
    FilterJoin: HighText._filter_join,
    WatchJoin: HighText._watch_join,
    Bucket: HighText._all_rows,
    Expand: HighText._all_rows,
}
"""Operator -> the method that writes its statement."""


def _sampling(node: Sampling, names: dict[str, gsql.Expression], select: gsql.Select) -> gsql.Select:
    names = {**names, **{a.name: syntax.aggregate_call(a, over=True) for a in node.supers}}
    return replace(
        select,
        items=syntax.select_items(node.items, names),
        having=syntax.condition(node.having, names=names),
        supergroup=tuple(gsql.Name(name) for name in node.supergroup),
        cleaning_when=syntax.condition(node.cleaning_when, names=names),
        cleaning_by=syntax.condition(node.cleaning_by, names=names),
    )


def _folded(node: Node) -> list[Node]:
    """Returns the inputs that the statement of their reader includes."""
    if isinstance(node, Aggregation) and isinstance(node.input, Bucket | Expand):
        return [node.input]
    return []


def _read(node: Node) -> list[Node]:
    """Returns the operators that need a name before the statement of an operator."""
    below = [child for operator in (_folded(node) or [node]) for child in operator.inputs()]
    # FROM includes a UNION, unless the UNION is the whole statement.
    return [
        child for operator in below for child in (operator.branches if isinstance(operator, Union) else (operator,))
    ]


def _window(bucket: Bucket) -> gsql.Window:
    if bucket.rows:
        unit = "ROWS"
        partition = tuple(gsql.Name(field_name(item.name)) for item in bucket.partition)
        reach, slide = gsql.Extent(bucket.range, unit), gsql.Extent(bucket.slide, unit)
        return gsql.Window(reach, slide, None, partition, syntax.condition(bucket.counted))
    column, scale = bucket.attribute, 1
    if isinstance(column, Binary) and column.op == "*" and isinstance(column.right, Const):
        scale, column = int(column.right.value or 1), column.left
    name = column.name if isinstance(column, Column) else "_attribute"
    # A window over panes slides over the number of the pane, so RANGE and SLIDE are numbers of panes.
    extents = (gsql.Extent(bucket.range // scale), gsql.Extent(bucket.slide // scale))
    return gsql.Window(*extents, gsql.Name(name))


def _grouping(expand: Expand, keys: Sequence[Item]) -> tuple[gsql.Grouping, ...]:
    """Returns the grouping sets by the shortest keyword that expresses them."""
    chosen = [tuple(name for name in names if name in expand.keys) for names in expand.sets]
    order = max(chosen, key=len)
    names = (*order, *(name for name in expand.keys if name not in order))
    exprs = {key.name: key for key in keys}
    items = syntax.select_items([exprs[name] for name in names])
    rollup = [names[:count] for count in range(len(names), -1, -1)]
    if chosen == rollup and len(names) > 1:
        return (gsql.Grouping("ROLLUP", items),)
    # As binary numbers with one bit per name, the sets of CUBE count down to 0.
    bits = [sum(1 << at for at, name in enumerate(reversed(names)) if name in some) for some in chosen]
    if bits == list(range((1 << len(names)) - 1, -1, -1)):
        return (gsql.Grouping("CUBE", items),)
    return (gsql.Grouping("GROUPING_SETS", items, tuple(chosen)),)
