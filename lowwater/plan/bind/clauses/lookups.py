"""Binds lookup joins: FILTER_JOIN and WATCHLIST_JOIN.

Called by `binder`. Both joins run at the low level of Gigascope. The right side is a set of keys, and no row waits
for a match (SEMANTICS O6; shared rules of GSQL, section 2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from lowwater.catalog.expr import Binary, Column, Expr, Type, columns_of, conjunction, conjuncts, rewrite
from lowwater.errors import QueryError
from lowwater.gsql import nodes as syntax
from lowwater.plan.bind.clauses.sources import BoundSource, binder, expand_stars, name_items
from lowwater.plan.bind.expressions.durations import brief, has_duration, unit_in
from lowwater.plan.bind.expressions.scope import Scope
from lowwater.plan.bind.names import Names
from lowwater.plan.bind.protocols import type_of
from lowwater.plan.fields import temporals
from lowwater.plan.operators import ANY_LINK, Field, FilterJoin, Node, Source, WatchJoin
from lowwater.plan.temporal import Step, Temporal, infer
from lowwater.plan.text import Text, attempt_all, place_of, spot


@dataclass(frozen=True)
class Watch:
    """A declared watch list.

    Attributes:
        name: name of the watch list.
        file: path of the CSV file with its rows, an input of the run (S1).
        refresh: interval in seconds at which the original system read the file again.
        columns: columns in the order of the file.
        keys: names of the key columns.
    """

    name: str
    file: str
    refresh: int
    columns: tuple[Field, ...]
    keys: tuple[str, ...]


def declare_watch(name: str, statement: syntax.Watchlist, text: Text, folders: Sequence[Path]) -> Watch:
    """Reads the declaration of a watch list.

    Args:
        name: name of the watch list.
        statement: the parsed declaration.
        text: the file that holds the statement, for messages.
        folders: folders that may hold the file of the watch list, besides the folder of the query file.

    Raises:
        QueryError: no key, an unknown type, or no `filename` or `refresh_interval` in DEFINE.
    """
    defines = dict(statement.defines)
    place = statement.place
    if not defines.get("filename"):
        raise text.error(place, f"watch list {name} names no file", "write DEFINE { filename 'watch.csv'; } before it")
    text.require_inside(defines["filename"], place, folders)
    refresh = defines.get("refresh_interval", "")
    if not refresh.isdigit() or int(refresh) <= 0:
        hint = "write DEFINE { refresh_interval '60'; } before it, in seconds"
        raise text.error(place, f"the refresh_interval of {name} is no number above 0", hint)
    fields, keys = [], []
    for column in statement.columns:
        kind = type_of(column.type)
        if kind is None:
            raise text.error(column.place, f"{column.name} has the type {column.type}, which is none of ours")
        fields.append(Field(column.name, kind))
        if any(word.lower() == "key" for word, _ in column.attributes):
            keys.append(column.name)
    names = [field.name for field in fields]
    for column in statement.columns:
        if names.count(column.name) > 1:
            raise text.error(column.place, f"watch list {name} has two columns called {column.name}")
    if not keys:
        raise text.error(
            place, f"watch list {name} has no key", "write (key) behind a column of it, such as IP address (key);"
        )
    return Watch(name, defines["filename"], int(refresh), tuple(fields), tuple(keys))


def _scoped(source: BoundSource) -> dict[str, Expr]:
    return {name: Column(expr.type, f"{source.alias}.{name}") for name, expr in source.columns.items()}


def _units(*sources: BoundSource) -> dict[str, Fraction]:
    units = {
        f"{source.alias}.{name}": unit_in(expr, source.time_units())
        for source in sources
        for name, expr in source.columns.items()
    }
    return {column: unit for column, unit in units.items() if unit is not None}


def _equality(part: Expr) -> tuple[str, str] | None:
    """Returns the range variables of the two sides of an equality; None for any other predicate."""
    if not (isinstance(part, Binary) and part.op == "="):
        return None
    sides = [{name.split(".", 1)[0] for name in columns_of(side)} for side in (part.left, part.right)]
    return (min(sides[0]), min(sides[1])) if len(sides[0]) == len(sides[1]) == 1 else None


def _direct(source: BoundSource, kind: str, statement: syntax.Select, text: Text) -> Source:
    if not isinstance(source.node, Source):
        hint = f"name a protocol: {kind} runs where the packets are"
        raise text.error(statement.place, f"{kind} reads links, and {source.alias} is a query", hint)
    return source.node


def bind_filter_join(
    query: str, statement: syntax.Select, text: Text, sources: Sequence[BoundSource], names: Names
) -> FilterJoin:
    """Binds FILTER_JOIN(t, range).

    Args:
        query: name of the query.
        statement: the parsed statement.
        text: the file that holds the statement, for messages.
        sources: the source to filter, then the source that holds the keys.
        names: names of the statement other than columns.

    Raises:
        QueryError: a source is a query, the links differ, no equality, or a column of the right side in SELECT.
    """
    left, right = sources
    nodes = [_direct(source, "FILTER_JOIN", statement, text) for source in sources]
    if nodes[0].links != nodes[1].links:
        raise text.error(statement.place, "FILTER_JOIN has both sources on the same links")
    if left.alias == right.alias:
        raise text.error(statement.place, f"both sides are called {left.alias}", "write: FROM TCP R, TCP S")
    scope = Scope(
        text, {s.alias: _scoped(s) for s in sources}, where="FILTER_JOIN", names=names, units=_units(*sources)
    )
    assert statement.filter_range is not None
    column, extent = statement.filter_range
    if column.qualifier not in ("", left.alias):
        raise text.error(column.place, f"the attribute of FILTER_JOIN is one of {left.alias}, which it filters")
    times = [source.columns.get(column.name) for source in sources]
    if any(e is None or infer(e, temporals(n.fields)) is None for e, n in zip(times, nodes, strict=True)):
        raise text.error(column.place, f"{column.name} of FILTER_JOIN must be a temporal column of both sides")
    unit = scope.units.get(f"{left.alias}.{column.name}")
    reach = scope.constant(extent, "the range of FILTER_JOIN", (column, unit))
    if not isinstance(reach, int) or reach <= 0:
        raise text.error(place_of(extent), "the range of FILTER_JOIN is a whole number above 0")
    if not has_duration(extent) and (note := brief(reach, unit, f"{left.alias}.{column.name}")):
        names.notes[spot(extent)] = f"the range of FILTER_JOIN hardly reaches: {note}"
    parts = conjuncts(scope.predicate(statement.where, "WHERE")) if statement.where else []
    keys, filters = _keys(parts, left, right, text.error(place_of(statement.where), *_BY_KEY))
    if not keys:
        hint = f"add one to WHERE, such as {left.alias}.srcIP = {right.alias}.srcIP"
        raise text.error(statement.place, "FILTER_JOIN needs an equality between both sides", hint)
    if nodes[0].links == (ANY_LINK,) or len(nodes[0].links) > 1:
        # A row matches only keys of its own link (O6).
        keys.append((Column(Type.STRING, f"{left.alias}.interface"), Column(Type.STRING, f"{right.alias}.interface")))
    written = expand_stars(statement.items, [left], text)
    left_scope = replace(scope, sources={left.alias: _scoped(left)}, where="SELECT of FILTER_JOIN")
    bound = attempt_all([binder(left_scope, item) for item in written])
    items = name_items(written, bound, text)
    streams = [_stream(query, s, filters[s.alias], [*(e for k in keys for e in k), *bound], column) for s in sources]
    progress = _progress(left.alias, streams[0].fields, column.name, reach)
    fields = tuple(Field(item.name, item.expr.type, infer(item.expr, progress)) for item in items)
    algorithm = "hash" if names.defines.get("algorithm") == "hash" else "bloom"
    return FilterJoin(
        query,
        fields,
        streams[0],
        streams[1],
        left.alias,
        right.alias,
        tuple(keys),
        Column(Type.INT, f"{left.alias}.{column.name}"),
        Column(Type.INT, f"{right.alias}.{column.name}"),
        reach,
        tuple(items),
        algorithm,
        spot(statement),
    )


_BY_KEY = ("FILTER_JOIN relates its sides by equalities only", "write a join for other conditions")


def _progress(alias: str, fields: Sequence[Field], name: str, reach: int) -> dict[str, Temporal]:
    """Returns the progress of the left columns after FILTER_JOIN (P4).

    A row waits until its unit of t ends; if t decreases, it waits for the whole range. So only columns no finer than t
    progress.
    """
    base = next(f.temporal for f in fields if f.name == name)
    assert base is not None
    (chain,), progress = base.components, {}
    for f in fields:
        if f.temporal and f.temporal.origin == base.origin and f.temporal.components[0][: len(chain)] == chain:
            waiting = base.then(Step("add", 0 if base.increasing else reach))
            progress[f"{alias}.{f.name}"] = waiting.then(*f.temporal.components[0][len(chain) :])
    return progress


def _keys(
    parts: Sequence[Expr], left: BoundSource, right: BoundSource, otherwise: QueryError
) -> tuple[list[tuple[Expr, Expr]], dict[str, list[Expr]]]:
    keys: list[tuple[Expr, Expr]] = []
    filters: dict[str, list[Expr]] = {left.alias: [], right.alias: []}
    for part in parts:
        sides = _equality(part)
        aliases = {name.split(".", 1)[0] for name in columns_of(part)}
        if sides and set(sides) == {left.alias, right.alias} and isinstance(part, Binary):
            keys.append((part.left, part.right) if sides[0] == left.alias else (part.right, part.left))
        elif len(aliases) < 2:
            filters[min(aliases, default=left.alias)].append(part)
        else:
            # A lookup by key decides equalities only.
            raise otherwise
    return keys, filters


def _stream(
    query: str, source: BoundSource, filters: Sequence[Expr], read: Sequence[Expr], column: syntax.Name
) -> Node:
    prefix = f"{source.alias}."
    names = {name.removeprefix(prefix): None for name in columns_of(*read) if name.startswith(prefix)}
    names[column.name] = None
    return source.stream(query, conjunction([_before(part, source) for part in filters]), list(names))


def _before(part: Expr, source: BoundSource) -> Expr:
    def change(node: Expr) -> Expr:
        if isinstance(node, Column) and node.name.startswith(f"{source.alias}."):
            return source.columns[node.name.removeprefix(f"{source.alias}.")]
        return node

    return rewrite(part, change)


def bind_watch_join(
    query: str, statement: syntax.Select, text: Text, source: BoundSource, watch: Watch, alias: str, names: Names
) -> WatchJoin:
    """Binds WATCHLIST_JOIN FROM protocol p, list w.

    Args:
        query: name of the query.
        statement: the parsed statement.
        text: the file that holds the statement, for messages.
        source: the left source, packets of a protocol.
        watch: the watch list.
        alias: range variable of the watch list.
        names: names of the statement other than columns.

    Raises:
        QueryError: the left source is a query, or a key of the watch list has no equality.
    """
    _direct(source, "WATCHLIST_JOIN", statement, text)
    columns = {f.name: Column(f.type, f"{alias}.{f.name}") for f in watch.columns}
    scopes: dict[str, Mapping[str, Expr]] = {source.alias: _scoped(source), alias: columns}
    scope = Scope(text, scopes, where="WATCHLIST_JOIN", names=names, units=_units(source))
    parts = conjuncts(scope.predicate(statement.where, "WHERE")) if statement.where else []
    keys: dict[str, Expr] = {}
    filters: list[Expr] = []
    residual: list[Expr] = []
    for part in parts:
        sides = _equality(part)
        if sides and set(sides) == {source.alias, alias} and isinstance(part, Binary):
            mine, theirs = (part.left, part.right) if sides[0] == source.alias else (part.right, part.left)
            name = theirs.name.removeprefix(f"{alias}.") if isinstance(theirs, Column) else ""
            if name in watch.keys and name not in keys:
                keys[name] = mine
                continue
        left_only = {name.split(".", 1)[0] for name in columns_of(part)} <= {source.alias}
        (filters if left_only else residual).append(part)
    missing = [name for name in watch.keys if name not in keys]
    if missing:
        hint = f"add one to WHERE, such as {source.alias}.srcIP = {alias}.{missing[0]}"
        raise text.error(statement.place, f"no equality with the key {missing[0]} of watch list {watch.name}", hint)
    shown = BoundSource(alias, source.node, columns)
    written = expand_stars(statement.items, [source, shown], text)
    bound = attempt_all([binder(scope, item) for item in written])
    items = name_items(written, bound, text)
    names_read = columns_of(*bound, *keys.values(), *residual)
    prefix = f"{source.alias}."
    used = list(dict.fromkeys(name.removeprefix(prefix) for name in names_read if name.startswith(prefix)))
    stream = source.stream(query, conjunction([_before(part, source) for part in filters]), used)
    progress = {f"{source.alias}.{f.name}": f.temporal for f in stream.fields if f.temporal}
    fields = tuple(Field(item.name, item.expr.type, infer(item.expr, progress)) for item in items)
    columns_out = tuple(Field(f"{alias}.{f.name}", f.type) for f in watch.columns)
    key_pairs = tuple((keys[name], f"{alias}.{name}") for name in watch.keys)
    return WatchJoin(
        query,
        fields,
        stream,
        source.alias,
        watch.name,
        alias,
        watch.file,
        watch.refresh,
        columns_out,
        key_pairs,
        conjunction(residual),
        tuple(items),
        spot(statement),
    )
