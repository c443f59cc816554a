"""Binds aggregations: GROUP BY with its variants, aggregates and superaggregates, HAVING, CLOSING and CLEANING.

Called by `queries` for every SELECT that aggregates. An aggregation becomes one of three operators: Running for
CLOSING_WHEN, Sampling for CLEANING_WHEN, superaggregates and stateful functions, else Group. CUBE, ROLLUP and
GROUPING_SETS put an Expand below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import product
from math import prod

from lowwater.catalog import functions
from lowwater.catalog.expr import Binary, Column, Const, Expr, Param, Type
from lowwater.errors import QueryError, full, raise_all
from lowwater.gsql import nodes as syntax
from lowwater.gsql.printer import print_expression, print_operand
from lowwater.limits import GROUPING_SETS
from lowwater.plan import operators as ops
from lowwater.plan.bind import durations, sources
from lowwater.plan.bind.expressions import Scope, bind_aggregate
from lowwater.plan.bind.fill import filled
from lowwater.plan.bind.over import RowWindows
from lowwater.plan.temporal import infer
from lowwater.plan.text import attempt_all, place_of, spot

SET = "_set"
"""Name of the column with the number of the grouping set."""


@dataclass
class _Parts:
    """Collects the aggregates and states that the clauses over groups use."""

    taken: set[str]  # names in use, in lower case; a new aggregate gets another name
    # (aggregate without a name, whether it is of supergroups) -> its column
    columns: dict[tuple[ops.Aggregate, bool], Column] = field(default_factory=dict)
    aggregates: list[ops.Aggregate] = field(default_factory=list)
    supers: list[ops.Aggregate] = field(default_factory=list)
    states: list[functions.StateFunction] = field(default_factory=list)

    def column(self, aggregate: ops.Aggregate, over: bool) -> Column:
        """Returns the column of an aggregate; equal ones have one. Superaggregates (`over`) are listed separately."""
        if (aggregate, over) not in self.columns:
            aggregates, prefix = (self.supers, "super") if over else (self.aggregates, "agg")
            number = len(aggregates)
            while f"{prefix}{number}" in self.taken:
                number += 1
            self.taken.add(f"{prefix}{number}")
            aggregates.append(replace(aggregate, name=f"{prefix}{number}"))
            self.columns[aggregate, over] = Column(aggregate.type, f"{prefix}{number}")
        return self.columns[aggregate, over]

    def state(self, function: functions.StateFunction) -> None:
        if function not in self.states:
            self.states.append(function)


def bind_group(query: str, statement: syntax.Select, rows: Scope, source: sources.BoundSource) -> ops.Node:
    """Binds an aggregation over one stream, below functions of OVER where it has any. Raises QueryError if a clause has
    an error, or the groups would never close. `source`: the stream and its window, if FROM gives one."""
    text = rows.text
    parts = _Parts(set())
    written = {item.alias: item.expression for item in statement.items if item.alias}
    named = {
        name: f"name it where it is grouped: GROUP BY {print_expression(item)} AS {name}"
        for name, item in written.items()
    }
    computed = {
        name: f"{name} is the name of a select item: write {print_operand(item)}" for name, item in written.items()
    }
    rows = replace(rows, where="WHERE or GROUP BY", on_state=parts.state, aliases=computed)
    unnamed = rows
    rows = replace(rows, named={name: partial(unnamed.bind, item) for name, item in written.items()})
    try:
        (node, keys, visible), predicate = _over_rows(query, statement, rows, replace(rows, aliases=named), source)
    except QueryError as error:
        raise_all([error, *_further(statement, rows, source)])
        raise
    parts.taken |= {key.name.lower() for key in keys}
    results = replace(_results(rows, keys, visible, parts), aliases=computed, rows=unnamed)
    sets = {name for _, names in _in_sets(statement, keys) for name in names}
    over = {
        item.alias: partial(_over_group, item, results, keys, unnamed, sets) for item in statement.items if item.alias
    }
    results = replace(results, named=over)
    windows = RowWindows(query, text)
    items, clauses = _over_groups(statement, results, keys, rows, windows)
    node, keys, predicate, aggregates = _expanded(query, statement, rows, node, keys, predicate, parts.aggregates)
    key_fields = ops.make_fields(keys, ops.temporals(node.fields))
    if not any(key_field.temporal for key_field in key_fields):
        raise sources.endless(statement, _key_items(statement), rows, node, keys)
    exprs = (*(key.expr for key in keys), *(e for a in aggregates for e in a.arguments))
    read = sources.narrow(node, predicate, *exprs, *(e for a in parts.supers for e in a.arguments))

    def made(items: Sequence[ops.Item], having: Expr | None) -> ops.Aggregation:
        made_fields = tuple(_field(item, key_fields) for item in items)
        over_rows = (query, made_fields, read, tuple(keys), key_fields, predicate, tuple(aggregates))
        return _operator(ops.Group(*over_rows, having, tuple(items)), statement, clauses, parts, rows)

    having, fill = clauses.get("having"), statement.fill
    if fill is not None:
        return windows.applied(items, partial(filled, fill, made, results, having))
    return windows.applied(items, partial(made, having=having))


def _operator(
    group: ops.Group, statement: syntax.Select, clauses: dict[str, Expr], parts: _Parts, rows: Scope
) -> ops.Aggregation:
    """Returns the aggregation that the clauses ask for, with the parts of a plain one."""
    plain = {part.name: getattr(group, part.name) for part in fields(group)}
    if statement.cleaning_when is not None or statement.cleaning_by is not None or parts.states or parts.supers:
        _check_sampling(statement, rows)
        return ops.Sampling(
            **plain,
            supergroup=_supergroup(statement, group.keys, group.key_fields, rows),
            supers=tuple(parts.supers),
            cleaning_when=clauses.get("cleaning_when"),
            cleaning_by=clauses.get("cleaning_by"),
            states=tuple(parts.states),
            place=spot(statement),
        )
    _check_running(statement, group.aggregates, rows)
    if (closing := clauses.get("closing_when")) is not None:
        if group.having is not None and _alternatives(group.having) <= _alternatives(closing):
            rows.names.notes[spot(statement.having)] = (
                "HAVING asks for what ends a group, so a group that is open where the data end has no row"
            )
        return ops.Running(**plain, closing=closing, place=spot(statement.closing_when))
    if statement.supergroup:
        hint = "select a superaggregate, such as sum$(len), or leave SUPERGROUP out"
        raise rows.text.error(statement.supergroup[0].place, "nothing uses the SUPERGROUP", hint)
    return group


def _alternatives(condition: Expr) -> set[Expr]:
    """The parts of a condition at its top-level ORs."""
    if isinstance(condition, Binary) and condition.op == "OR":
        return _alternatives(condition.left) | _alternatives(condition.right)
    return {condition}


def _over_rows(
    query: str, statement: syntax.Select, rows: Scope, grouped: Scope, source: sources.BoundSource
) -> tuple[tuple[ops.Node, list[ops.Item], dict[str, Expr]], Expr | None]:
    """Binds GROUP BY and WHERE. Reports the errors of both together."""
    groupings: list[tuple[ops.Node, list[ops.Item], dict[str, Expr]]] = []
    predicate: list[Expr] = []

    def where() -> None:
        if statement.where is not None:
            predicate.append(rows.predicate(statement.where, "WHERE"))

    attempt_all([lambda: groupings.append(_grouped(query, statement, grouped, source)), where])
    return groupings[0], next(iter(predicate), None)


def _further(statement: syntax.Select, rows: Scope, source: sources.BoundSource) -> list[QueryError]:
    """Finds errors in the select items and HAVING after GROUP BY has failed. Its variables then have unknown types."""

    def on_aggregate(call: syntax.Call, overloads: Sequence[functions.AggregateFunction]) -> Expr:
        return Column(bind_aggregate(call, overloads, replace(rows, where="another aggregate")).type, "")

    window = statement.window or source.window
    windowed = {"window_start", "window_end", "wid"} if window is not None else set()
    # NULL takes the type of the other operand, so an unknown variable causes no further error.
    names = [*(_name(item) for item in _key_items(statement)), *windowed]
    unknown: dict[str, Expr] = {name: Const(Type.STRING, None) for name in names}
    scope = replace(rows, keys=unknown, on_aggregate=on_aggregate)
    errors: list[QueryError] = []
    written = [item.expression for item in statement.items if not isinstance(item.expression, syntax.Star)]
    for expression in (*written, *([statement.having] if statement.having is not None else [])):
        try:
            scope.bind(expression)
        except QueryError as error:
            errors.append(error)
            if full(errors):
                break
    return errors


def _grouped(
    query: str, statement: syntax.Select, rows: Scope, source: sources.BoundSource
) -> tuple[ops.Node, list[ops.Item], dict[str, Expr]]:
    """Binds GROUP BY and the window. Returns the input, the group-by variables and the window columns by name."""
    written = _key_items(statement)
    keys = _told_apart(written, attempt_all([partial(_key, item, rows) for item in written]), rows)
    for item, key in zip(written, keys, strict=True):
        _note_brief(item, key, rows)
    names = [key.name.lower() for key in keys]
    window = statement.window or source.window
    if window is None:
        return source.node, keys, {}
    windowed = sources.bind_window(query, window, source, rows)
    extra = [item for item in windowed.partition if item.name.lower() not in names]
    return windowed.node, [*keys, *extra, windowed.number], windowed.visible


def _note_brief(item: syntax.SelectItem, key: ops.Item, rows: Scope) -> None:
    """Notes an epoch below a millisecond whose length is a plain number."""
    for part in _divisions(item.expression):
        length = part.right.value if isinstance(part.right, syntax.Literal) else None
        if isinstance(length, int) and not isinstance(length, bool):
            unit = durations.unit_in(rows.bind(part.left), rows.units)
            if note := durations.brief(length, unit, print_expression(part.left)):
                rows.names.notes[spot(item)] = f"an epoch of {key.name} is very short: {note}"


def _divisions(node: syntax.Expression) -> list[syntax.BinaryOp]:
    own = [node] if isinstance(node, syntax.BinaryOp) and node.op == "/" else []
    return [*own, *(part for child in syntax.children(node) for part in _divisions(child))]


def _told_apart(written: Sequence[syntax.SelectItem], keys: Sequence[ops.Item], rows: Scope) -> list[ops.Item]:
    """Gives group-by variables unique names: a column of a second source with the same name gets 1, 2, ..."""
    items: list[ops.Item] = []
    for item, key in zip(written, keys, strict=True):
        taken = {other.name.lower() for other in items}
        name, count = key.name, 0
        while name.lower() in taken:
            if item.alias or key.expr in [other.expr for other in items]:
                hint = "give one of them another name: expression AS name"
                raise rows.text.error(place_of(item), f"two group-by variables are called {key.name}", hint)
            count += 1
            name = f"{key.name}{count}"
        items.append(ops.Item(name, key.expr))
    return items


def _key_items(statement: syntax.Select) -> list[syntax.SelectItem]:
    items: dict[tuple[str, int, int], syntax.SelectItem] = {}
    for group in statement.group_by:
        for item in group.items if isinstance(group, syntax.Grouping) else (group,):
            items[_written(item)] = item
    return list(items.values())


def _written(item: syntax.SelectItem) -> tuple[str, int, int]:
    """Returns what tells the variables of GROUP BY apart: the name as written, and the place."""
    return (_name(item), *spot(item))


def _in_sets(statement: syntax.Select, keys: Sequence[ops.Item]) -> list[tuple[syntax.Grouping, list[str]]]:
    """Returns the grouping sets of GROUP BY, each with the names that its variables have got."""
    names = {_written(item): key.name for item, key in zip(_key_items(statement), keys, strict=False)}
    groupings = [group for group in statement.group_by if isinstance(group, syntax.Grouping)]
    return [(group, [names[_written(item)] for item in group.items]) for group in groupings]


def _name(item: syntax.SelectItem) -> str:
    return item.alias or (item.expression.name if isinstance(item.expression, syntax.Name) else "")


def _key(item: syntax.SelectItem, rows: Scope) -> ops.Item:
    name = _name(item)
    if name.startswith("_"):
        raise rows.text.error(place_of(item), f"{name}: names that begin with _ are Lowwater's own")
    return ops.Item(name, rows.bind(item.expression))


def _results(rows: Scope, keys: Sequence[ops.Item], visible: dict[str, Expr], parts: _Parts) -> Scope:
    """Builds the scope of the select items and clauses over groups."""

    units = {key.name: unit for key in keys if (unit := durations.unit_in(key.expr, rows.units)) is not None}

    def on_aggregate(call: syntax.Call, overloads: Sequence[functions.AggregateFunction]) -> Expr:
        aggregate = bind_aggregate(call, overloads, replace(rows, where="another aggregate"))
        column = parts.column(aggregate, call.over)
        native = aggregate.native
        if native is not None and native.picks and aggregate.argument is not None:
            unit = durations.unit_in(aggregate.argument, rows.units)
            units.update({} if unit is None else {column.name: unit})
        return column

    shown = {key.name: Column(key.expr.type, key.name) for key in keys}
    names = {**visible, **shown}
    return Scope(rows.text, {}, names, on_aggregate, "this clause", rows.names, on_state=parts.state, units=units)


def _over_groups(
    statement: syntax.Select, results: Scope, keys: Sequence[ops.Item], rows: Scope, windows: RowWindows
) -> tuple[list[ops.Item], dict[str, Expr]]:
    """Binds the select items and the clauses over groups that there are. Reports the errors of all together."""
    sets = {name for _, names in _in_sets(statement, keys) for name in names}
    clauses = ("having", "cleaning_when", "cleaning_by", "closing_when")
    written = {name: node for name in clauses if (node := getattr(statement, name)) is not None}
    items_scope = replace(results, on_over=windows.bind)
    steps = [partial(_over_group, item, items_scope, keys, rows, sets) for item in statement.items]
    bound = attempt_all([*steps, *(partial(results.predicate, node, name.upper()) for name, node in written.items())])
    items = sources.name_items(statement.items, bound[: len(steps)], rows.text)
    return items, dict(zip(written, bound[len(steps) :], strict=True))


def _over_group(item: syntax.SelectItem, results: Scope, keys: Sequence[ops.Item], rows: Scope, sets: set[str]) -> Expr:
    """Binds a select item over groups. A bare name of a group-by variable is that variable. Another expression that
    repeats one of GROUP BY, whose names are columns, is that variable. In all others the names are variables."""
    written = item.expression
    if isinstance(written, syntax.Star):
        hint = "select group-by variables and aggregates one by one"
        raise rows.text.error(written.place, "`*` does not stand for the columns of groups", hint)
    plain = isinstance(written, syntax.Literal | syntax.Parameter | syntax.Defined)
    if plain or (isinstance(written, syntax.Name) and not written.qualifier and written.name in results.keys):
        return results.bind(written)
    if (key := _repeated(written, keys, rows, sets)) is None:
        return results.bind(written)
    variable = Column(key.expr.type, key.name)
    shadowed = [name for name in _names(written) if name in results.keys]
    if shadowed and not isinstance(written, syntax.Name):
        names = " and ".join(dict.fromkeys(shadowed))
        said = f"{print_expression(written)} is the variable {key.name}, since it repeats its expression"
        rows.names.notes[spot(written)] = f"{said}: {names} in it is the column, not the variable"
    return variable


def _repeated(written: syntax.Expression, keys: Sequence[ops.Item], rows: Scope, sets: set[str]) -> ops.Item | None:
    """Returns the group-by variable whose expression an item repeats; None if there is none."""
    try:
        raw = rows.bind(written)
    except QueryError:  # the binding over groups reports the error
        return None
    same = [key for key in keys if key.expr == raw]
    if len(same) > 1 and isinstance(written, syntax.Name):
        same = [key for key in same if key.name == written.name] or same
    if len(same) > 1 and any(key.name in sets for key in same):
        names = " and ".join(key.name for key in same)
        message = f"{print_expression(written)} is the expression of {names}, which differ in their grouping sets"
        raise rows.text.error(place_of(written), message, f"write the name of one: {same[0].name}")
    return same[0] if same else None


def _names(node: syntax.Expression) -> list[str]:
    """Returns the names without a range variable in an expression."""
    if isinstance(node, syntax.Name):
        return [] if node.qualifier else [node.name]
    return [name for child in syntax.children(node) for name in _names(child)]


def _field(item: ops.Item, key_fields: Sequence[ops.Field]) -> ops.Field:
    return ops.Field(item.name, item.expr.type, infer(item.expr, ops.temporals(key_fields)))


def _expanded(
    query: str,
    statement: syntax.Select,
    rows: Scope,
    node: ops.Node,
    keys: list[ops.Item],
    predicate: Expr | None,
    aggregates: list[ops.Aggregate],
) -> tuple[ops.Node, list[ops.Item], Expr | None, list[ops.Aggregate]]:
    """Adds an Expand for CUBE, ROLLUP and GROUPING_SETS: a Map computes keys and arguments, Expand copies each row.
    Returns the new input, group-by variables, predicate and aggregates; unchanged if the statement has no grouping
    sets."""
    groupings = _in_sets(statement, keys)
    if not groupings:
        return node, keys, predicate, aggregates
    first = groupings[0][0]
    count = prod(_count(group) for group, _ in groupings)
    if count > GROUPING_SETS:
        message = f"the query has {count:,} groupings, and there may be {GROUPING_SETS:,}"
        raise rows.text.error(first.place, message, "write GROUPING_SETS of those you need")
    inside = {name for _, names in groupings for name in names}
    plain = tuple(key.name for key in keys if key.name not in inside)
    sets = [tuple(n for part in parts for n in part) for parts in product(*(_sets(*pair) for pair in groupings))]
    unique = tuple(dict.fromkeys((*plain, *dict.fromkeys(chosen)) for chosen in sets))
    arguments: dict[Expr, ops.Item] = {}

    def carried(expr: Expr) -> Expr:
        if isinstance(expr, Const | Param):
            return expr
        item = arguments.setdefault(expr, ops.Item(f"_argument{len(arguments)}", expr))
        return Column(expr.type, item.name)

    moved = [aggregate.over(carried) for aggregate in aggregates]
    before = sources.make_map(query, node, predicate, [*keys, *arguments.values()])
    fields = tuple(replace(f, temporal=None) if f.name in inside else f for f in before.fields)
    grouped = (*fields, ops.Field(SET, Type.INT))
    expanded = ops.Expand(query, grouped, before, tuple(sorted(inside)), unique, SET, spot(first))
    columns = [ops.Item(key.name, Column(key.expr.type, key.name)) for key in keys]
    return expanded, [*columns, ops.Item(SET, Column(Type.INT, SET))], None, moved


def _count(group: syntax.Grouping) -> int:
    counts = {"ROLLUP": len(group.items) + 1, "CUBE": 1 << len(group.items)}
    return counts.get(group.kind, len(group.sets))


def _sets(group: syntax.Grouping, names: Sequence[str]) -> list[tuple[str, ...]]:
    if group.kind == "ROLLUP":
        return [tuple(names[:count]) for count in range(len(names), -1, -1)]
    if group.kind == "CUBE":
        masks = range((1 << len(names)) - 1, -1, -1)
        return [tuple(n for at, n in enumerate(names) if mask >> (len(names) - 1 - at) & 1) for mask in masks]
    named = dict(zip(map(_name, group.items), names, strict=True))
    return [tuple(named[name] for name in chosen) for chosen in group.sets]


def _supergroup(
    statement: syntax.Select, keys: Sequence[ops.Item], key_fields: Sequence[ops.Field], rows: Scope
) -> tuple[str, ...]:
    """Returns the variables of SUPERGROUP. Without the clause, all groups of an epoch are one supergroup."""
    temporal = tuple(f.name for f in key_fields if f.temporal)
    if not statement.supergroup:
        return temporal
    variables = {key.name for key in keys}
    for name in statement.supergroup:
        if name.name not in variables:
            hint = f"name group-by variables: {', '.join(sorted(variables))}"
            raise rows.text.error(name.place, f"{name.name} of SUPERGROUP is no group-by variable", hint)
    chosen = tuple(dict.fromkeys(name.name for name in statement.supergroup))
    return (*(name for name in temporal if name not in chosen), *chosen)


def _check_sampling(statement: syntax.Select, rows: Scope) -> None:
    if (statement.cleaning_when is None) != (statement.cleaning_by is None):
        raise rows.text.error(statement.place, "CLEANING_WHEN and CLEANING_BY go together", "write both or neither")
    if statement.closing_when is not None:
        raise rows.text.error(place_of(statement.closing_when), "CLOSING_WHEN does not go with CLEANING_WHEN")
    if any(isinstance(group, syntax.Grouping) for group in statement.group_by):
        hint = "write one query for each grouping"
        raise rows.text.error(statement.place, "CUBE and its kin do not go with supergroups", hint)


def _check_running(statement: syntax.Select, aggregates: Sequence[ops.Aggregate], rows: Scope) -> None:
    running = [a for a in aggregates if a.udaf is not None and a.udaf.running]
    if statement.closing_when is None and running:
        name = running[0].function
        hint = "add CLOSING_WHEN count(*) = 0, for example"
        raise rows.text.error(statement.place, f"{name} keeps its state between epochs: it needs CLOSING_WHEN", hint)
    if statement.closing_when is not None and any(isinstance(g, syntax.Grouping) for g in statement.group_by):
        raise rows.text.error(place_of(statement.closing_when), "CLOSING_WHEN does not go with CUBE and its kin")
