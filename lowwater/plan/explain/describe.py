"""Describes a plan once, for all forms of EXPLAIN, with both levels of a query as GSQL.

Reads the same plan objects as the engines. A query that is published, or that has several readers, has its own
description, and its readers name its stream. A query with one reader is described in the place where it is read. No
function here recurses over operators or visits a shared operator twice, since chains of queries may be long.

The GSQL is that of the papers: `Query x_low: ...` and `Query x_high: ...`. GSQL cannot write every operator into the
statement of its reader. Such an operator gets its own statement: `<query>_1`, `<query>_2` and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from lowwater.catalog import expr as ex, periods, protocols
from lowwater.catalog.builtin.numbers import DATE_TRUNC, LOCAL_DAY
from lowwater.catalog.native import type_of
from lowwater.catalog.records import field_name
from lowwater.catalog.values import format_ip, format_mac
from lowwater.gsql import nodes as gsql, words
from lowwater.gsql.printer import print_expression, print_fill, print_statement, print_top
from lowwater.plan import buckets, operators as ops, queryset, rules, temporal
from lowwater.plan.bind.over import FRAMED
from lowwater.plan.explain import model
from lowwater.plan.properties import Prefilter, by_arrival, carried_state, needed_granularity, read_from, unsafe
from lowwater.plan.shares import all_stages, fragment_plan, low_shares, shown

# Expressions in GSQL: bound ones become syntax trees again, which the printer of the language prints.

Names = Mapping[str, gsql.Expression]
"""Column -> its replacement: an aggregate, or the name of a window's number."""

PARAM_TYPES = {ex.Type.INT: "int", ex.Type.FLOAT: "float", ex.Type.BOOL: "bool", ex.Type.IP: "ip"}
"""Type -> its name in GSQL; a type without an entry is `string`."""


def expression(expr: ex.Expr, names: Names | None = None) -> gsql.Expression:
    """Returns the syntax tree of a bound expression. `names`: column -> its replacement."""
    names = names or {}
    if isinstance(expr, ex.Const):
        return _constant(expr)
    if isinstance(expr, ex.Column):
        if expr.name in names:
            return names[expr.name]
        qualifier, _, name = expr.name.rpartition(".")
        return gsql.Name(field_name(name), qualifier)
    if isinstance(expr, ex.Param):
        return gsql.Property(expr.name[1:]) if expr.name.startswith("@") else gsql.Parameter(expr.name)
    if isinstance(expr, ex.Unary):
        return _unary(expr, names)
    if isinstance(expr, ex.Binary) and (word := buckets.written(expr)) is not None:
        return _of_time(*word, names)
    if isinstance(expr, ex.Binary):
        left, right = expression(expr.left, names), expression(expr.right, names)
        if expr.type is ex.Type.INSTANT and isinstance(expr.right, ex.Const) and type(expr.right.value) is int:
            right = _duration(expr.right.value)
        if expr.op == "/" and expr.type is ex.Type.FLOAT and expr.left.type is expr.right.type is ex.Type.INT:
            left = gsql.Call("FLOAT", (left,))  # GSQL truncates the quotient of integers
        return gsql.BinaryOp(expr.op, left, right)
    return _wide(expr, names)


def _of_time(word: str, cut: int | str, time: ex.Expr, names: Names) -> gsql.Expression:
    """Returns the call of a word of time, of which the plan has the arithmetic."""
    arguments = (expression(time, names),)
    if isinstance(cut, int):
        return gsql.Call(word, (_duration(cut), *arguments))
    return gsql.Call(word, (gsql.Literal("string", cut), *arguments) if cut else arguments)


def _duration(length: int) -> gsql.Duration:
    """Returns a length in us, in the largest unit of which it is a whole number."""
    units = {unit: size // 1000 for unit, size in words.UNITS.items() if unit in ("us", "ms", "s", "min", "h", "d")}
    unit = max((unit for unit, size in units.items() if length % size == 0), key=units.__getitem__) if length else "s"
    return gsql.Duration(length // units[unit], unit)


def _unary(expr: ex.Unary, names: Names) -> gsql.Expression:
    if expr.op == ex.SUMMED:
        return expression(expr.operand, names)
    if expr.op == "IS NULL":
        return gsql.IsNull(expression(expr.operand, names))
    inner = expr.operand
    if expr.op == "NOT" and isinstance(inner, ex.Unary) and inner.op == "IS NULL":
        return gsql.IsNull(expression(inner.operand, names), negated=True)
    return gsql.UnaryOp(expr.op, expression(inner, names))


def _wide(expr: ex.Expr, names: Names) -> gsql.Expression:
    if isinstance(expr, ex.Call | ex.StateCall):
        arguments = tuple(expression(argument, names) for argument in expr.arguments)
        if expr.function.name == "like" and len(arguments) == 2:
            return gsql.Like(*arguments)
        brackets = isinstance(expr, ex.Call) and expr.function.predicate
        return gsql.Call(expr.function.name, arguments, brackets=brackets)
    if isinstance(expr, ex.OneOf):
        values = tuple(_constant(ex.Const(expr.kind, value)) for value in expr.values)
        return gsql.InList(expression(expr.operand, names), values)
    if isinstance(expr, ex.Case):
        branches = tuple((expression(when, names), expression(then, names)) for when, then in expr.branches)
        empty = isinstance(expr.otherwise, ex.Const) and expr.otherwise.value is None
        return gsql.Case(branches, None, None if empty else expression(expr.otherwise, names))
    raise TypeError(type(expr).__name__)


def _constant(expr: ex.Const) -> gsql.Expression:
    value = expr.value
    if value is None:
        return gsql.Literal("null", None)
    if isinstance(value, bool):
        return gsql.Literal("bool", value)
    if isinstance(value, bytes):
        return gsql.Literal("ip", format_ip(value))
    if expr.type is ex.Type.INSTANT:
        return gsql.Literal("timestamp", value)
    if expr.type is ex.Type.MAC:
        return gsql.Literal("string", format_mac(int(value)))
    if isinstance(value, str):
        return gsql.Literal("string", value)
    kind = "float" if isinstance(value, float) else "int"
    return gsql.UnaryOp("-", gsql.Literal(kind, -value)) if value < 0 else gsql.Literal(kind, value)


def select_items(items: Sequence[ops.Item], names: Names | None = None) -> tuple[gsql.SelectItem, ...]:
    """Returns the items of a select list; a column that keeps its name has no AS."""
    select = []
    for item in items:
        value = expression(item.expr, names)
        same = isinstance(value, gsql.Name) and value.name == item.name
        select.append(gsql.SelectItem(value, "" if same else item.name))
    return tuple(select)


def aggregate_call(aggregate: ops.Aggregate, over: bool = False) -> gsql.Call:
    """Returns the call of an aggregate, or of a superaggregate (`over`)."""
    if aggregate.argument is None and aggregate.native is not None:
        return gsql.Call(aggregate.function, star=True, over=over)
    arguments = [aggregate.argument] if aggregate.argument is not None else []
    call = gsql.Call(aggregate.function, tuple(expression(e) for e in (*arguments, *aggregate.more)), over=over)
    native, argument = aggregate.native, aggregate.argument
    own = native is None or argument is None or type_of(native.name, argument.type) is aggregate.type
    return call if own else gsql.Call("FLOAT", (call,))


def first_rows(node: ops.Top) -> gsql.Top:
    """Returns ORDER BY and LIMIT of an operator, with the columns of each epoch after PER."""
    order = tuple(gsql.Order(expression(part.expr), part.descending, part.nulls_first) for part in node.order)
    return gsql.Top(order, node.count, node.ties, tuple(expression(key.expr) for key in node.keys))


def fill_clause(node: ops.Fill) -> gsql.Fill:
    """Returns FILL with the values of each key that is no epoch."""
    names = [key.name for key in node.key_fields if not key.temporal]
    lists = zip(names, node.listed, strict=True)
    return gsql.Fill(tuple(gsql.InList(gsql.Name(name), tuple(map(expression, values))) for name, values in lists))


def row_functions(node: ops.Over) -> tuple[gsql.SelectItem, ...]:
    """Returns the functions of the rows before, each as the item that adds its column."""
    items = []
    for each in node.functions:
        columns = [column for column in (each.argument, each.default, *each.more) if column is not None]
        numbers: list[gsql.Expression] = [gsql.Literal("int", number) for number in (each.reach, each.most) if number]
        first = len(columns) if each.function.startswith("tcp_") else 1
        written = [*map(expression, columns[:first]), *numbers, *map(expression, columns[first:])]
        star = each.function == "count" and not written
        call = gsql.Call(each.function, tuple(written), star=star)
        framed = each.function in FRAMED and not each.peers
        over = gsql.Over(call, tuple(map(expression, node.partition)), expression(node.order), framed)
        items.append(gsql.SelectItem(over, each.name))
    return tuple(items)


def band(window: ops.Window) -> gsql.Expression:
    """Returns the condition of a match window."""
    left, right = expression(window.left), expression(window.right)
    if window.equality:
        return gsql.BinaryOp("=", left, right)
    low = gsql.BinaryOp("<=", _plus(left, -window.below), right)
    return gsql.BinaryOp("AND", low, gsql.BinaryOp("<=", right, _plus(left, window.above)))


def _plus(expr: gsql.Expression, by: int) -> gsql.Expression:
    if not by:
        return expr
    return gsql.BinaryOp("-" if by < 0 else "+", expr, gsql.Literal("int", abs(by)))


def both(*conditions: gsql.Expression | None) -> gsql.Expression | None:
    """Returns the conjunction of some conditions; None if all are None."""
    present = [condition for condition in conditions if condition is not None]
    return gsql.chain("AND", present) if present else None


def equality(left: ex.Expr, right: ex.Expr) -> gsql.Expression:
    """Returns the condition `left = right`."""
    return gsql.BinaryOp("=", expression(left), expression(right))


def condition(*parts: ex.Expr | None, names: Names | None = None) -> gsql.Expression | None:
    """Returns the conjunction of some predicates; None if all are None."""
    whole = ex.conjunction([part for part in parts if part is not None])
    return expression(whole, names) if whole is not None else None


# Expressions of users. LFTAs read stored packet columns, but users know the columns of the protocol. So EXPLAIN prints
# a stored expression as a protocol column (`timestamp/1000000000` is `time`).

_COLUMNS: dict[ex.Expr, ex.Column] = {}
for _name, _expr in protocols.PROTOCOLS["ETH"].columns.items():
    if not isinstance(_expr, ex.Column):
        _COLUMNS.setdefault(_expr, ex.Column(_expr.type, _name))


def spelled(expr: ex.Expr, records: str) -> ex.Expr:
    """Returns an expression over stored columns as an expression over protocol columns. `records`: the kind of the
    records; only `pcap` has stored columns that differ from the protocol's."""
    if records != "pcap":
        return expr
    column = _COLUMNS.get(expr)
    return column or ex.with_children(expr, [spelled(child, records) for child in expr.children()])


def spelled_item(item: ops.Item, records: str) -> ops.Item:
    """Returns an item of an LFTA over protocol columns; an item with an alias of a column becomes that alias."""
    expr = spelled(item.expr, records)
    second = records == "pcap" and isinstance(expr, ex.Column) and protocols.ALIASES.get(item.name) == expr.name
    return ops.Item(item.name, ex.Column(expr.type, item.name) if second else expr)


def low(expr: ex.Expr | None, records: str) -> str:
    """Returns an expression of the low level as text; empty for None."""
    return high(spelled(expr, records)) if expr is not None else ""


def high(expr: ex.Expr | None) -> str:
    """Returns an expression of the high level as text; empty for None."""
    return print_expression(expression(expr)) if expr is not None else ""


def params_of(*exprs: ex.Expr | None) -> dict[str, ex.Param]:
    """Returns name -> parameter, for the parameters without a value in some expressions."""
    return {
        node.name: node for expr in exprs if expr is not None for node in ex.walk(expr) if isinstance(node, ex.Param)
    }


def steps(time: temporal.Temporal) -> tuple[str, ...]:
    """Returns each component of a value as GSQL over `clock` (ns) or over the origin, such as `(clock - 5)/10*60`."""
    start: ex.Expr = ex.Column(ex.Type.INT, time.origin or "clock")
    return tuple(high(reduce(_step, component, start)) for component in time.components)


def _step(value: ex.Expr, step: temporal.Step) -> ex.Expr:
    if step.op == "neg":
        return ex.Unary(ex.Type.INT, "-", value)
    if step.op == "day":
        zone = ex.Param(ex.Type.STRING, step.param) if step.param else ex.Const(ex.Type.STRING, step.zone)
        return ex.Call(ex.Type.INT, LOCAL_DAY, (value, zone))
    if step.op == "period":
        name = next(name for name, months in periods.MONTHS.items() if months == step.by)
        return ex.Call(ex.Type.INSTANT, DATE_TRUNC, (ex.Const(ex.Type.STRING, name), value))
    op = {"add": "-" if step.by < 0 else "+", "mul": "*", "div": "/"}[step.op]
    constant = ex.Param(ex.Type.INT, step.param) if step.param else ex.Const(ex.Type.INT, abs(step.by))
    return ex.Binary(ex.Type.INT, op, value, constant)


def low_name(lfta: ops.Lfta) -> str:
    """Returns the name of an LFTA's statement."""
    return f"{lfta.name.replace('.', '_')}_low"


def low_text(lfta: ops.Lfta) -> str:
    """Returns an LFTA as a GSQL statement."""
    keys = [spelled_item(key, lfta.kind) for key in lfta.keys]
    where = spelled(lfta.predicate, lfta.kind) if lfta.predicate is not None else None
    links = () if lfta.links == (ops.ANY_LINK,) else lfta.links
    source = gsql.SourceRef(lfta.protocol, links, bracketed=len(links) > 1)
    partials = [_aggregate_of(partial, lfta) for partial in lfta.partials]
    if lfta.aggregates:
        chosen = select_items([ops.Item(key.name, ex.Column(key.expr.type, key.name)) for key in keys])
        chosen += tuple(gsql.SelectItem(aggregate_call(partial), partial.name) for partial in partials)
    else:
        chosen = select_items(keys)
    groups = select_items(keys) if lfta.aggregates else ()
    read = params_of(lfta.predicate, *(key.expr for key in keys), *(partial.argument for partial in partials))
    select = gsql.Select(chosen, (source,), where=condition(where), group_by=groups, params=_params(read))
    return _headed(low_name(lfta), select)


def _aggregate_of(partial: ops.Partial, lfta: ops.Lfta) -> ops.Aggregate:
    argument = spelled(partial.argument, lfta.kind) if partial.argument is not None else None
    return ops.Aggregate(partial.name, partial.function, argument, partial.type)


def _headed(name: str, statement: gsql.Statement) -> str:
    return f"Query {name}:\n{print_statement(statement)}"


def _params(read: Mapping[str, ex.Expr]) -> tuple[gsql.ParamDecl, ...]:
    chosen = [(name, param) for name, param in read.items() if not name.startswith("@")]
    return tuple(gsql.ParamDecl(name, PARAM_TYPES.get(param.type, "string")) for name, param in chosen)


@dataclass
class HighText:
    """Builder of the high level of one query as GSQL."""

    query: str
    streams: Mapping[int, str]  # id of an operator -> the stream by which its readers name it
    # (name, statement) pairs, inputs before their readers
    statements: list[tuple[str, gsql.Statement]] = field(default_factory=list)
    _done: dict[int, str] = field(default_factory=dict)

    def text(self, root: ops.Node) -> str:
        """Returns the statements as text; empty if an LFTA alone computes the query."""
        if isinstance(root, ops.LftaInput):
            return ""
        self._whole(root)
        return ";\n\n".join(_headed(name, statement) for name, statement in self.statements)

    def _whole(self, root: ops.Node) -> None:
        # A statement follows the statements that it reads. Chains of queries are long, so a stack replaces recursion.
        stack: list[tuple[ops.Node, ops.Node | None]] = [(root, None)]
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

    def _name(self, node: ops.Node) -> str | None:
        if isinstance(node, ops.LftaInput):
            return self.streams.get(id(node)) or low_name(node.lfta)
        return self._done.get(id(node)) or self.streams.get(id(node))

    def _fresh(self, node: ops.Node, reader: ops.Node | None) -> str:
        """Returns the query's own name for its last operator, and a numbered name for the operators before it."""
        taken = {*self.streams.values(), *(name for name, _ in self.statements)}
        own = f"{node.query}_high"
        if reader is None or (reader.query != node.query and own not in taken):
            return own if reader is not None else f"{self.query}_high"
        at = 1
        while f"{node.query}_{at}" in taken:
            at += 1
        return f"{node.query}_{at}"

    def _statement(self, node: ops.Node) -> gsql.Statement:
        statement = self._bare(node)
        params = _params(params_of(*(expr for operator in (node, *_folded(node)) for expr in operator.exprs())))
        return replace(statement, params=params) if params else statement

    def _bare(self, node: ops.Node) -> gsql.Select | gsql.Merge:
        if type(node) not in STATEMENTS:
            raise TypeError(f"EXPLAIN has no text for {type(node).__name__}")
        return STATEMENTS[type(node)](self, node)

    def _map(self, node: ops.Map) -> gsql.Select:
        items = select_items(node.items)
        return gsql.Select(items, (self._source(node.input),), where=condition(node.predicate))

    def _all_rows(self, node: ops.Bucket | ops.Expand) -> gsql.Select:
        """Returns a statement for tagged rows whose reader is no aggregation."""
        return gsql.Select((gsql.SelectItem(gsql.Star()),), (self._source(node.input),))

    def _top(self, node: ops.Top) -> gsql.Select:
        return gsql.Select(select_items(node.items), (self._source(node.input),), top=first_rows(node))

    def _fill(self, node: ops.Fill) -> gsql.Select:
        return replace(self._aggregation(node.input), fill=fill_clause(node))  # type: ignore[arg-type]

    def _over(self, node: ops.Over) -> gsql.Select:
        return gsql.Select((gsql.SelectItem(gsql.Star()), *row_functions(node)), (self._source(node.input),))

    def _filter_join(self, node: ops.FilterJoin) -> gsql.Select:
        where = both(*(equality(left, right) for left, right in node.keys))
        select = gsql.Select(select_items(node.items), self._sides(node), "FILTER_JOIN", where)
        time = node.left_time.name.rpartition(".")[2] if isinstance(node.left_time, ex.Column) else "time"
        return replace(select, filter_range=(gsql.Name(time), gsql.Literal("int", node.range)))

    def _watch_join(self, node: ops.WatchJoin) -> gsql.Select:
        keys = [equality(key, ex.Column(key.type, name)) for key, name in node.keys]
        sources = (
            replace(self._source(node.input), alias=node.alias),
            gsql.SourceRef(node.watchlist, alias=node.watch_alias),
        )
        where = both(*keys, condition(node.residual))
        return gsql.Select(select_items(node.items), sources, "WATCHLIST_JOIN", where)

    def _source(self, node: ops.Node) -> gsql.SourceRef:
        """Returns the source that FROM names: a stream, or the union of several streams."""
        name = self._name(node)
        if name is not None:
            return gsql.SourceRef(name)
        first, *rest = (self._source(branch) for branch in node.inputs())
        return replace(first, union=tuple(rest))

    def _sides(self, node: ops.Join | ops.FilterJoin) -> tuple[gsql.SourceRef, ...]:
        return tuple(replace(self._source(side), alias=alias) for alias, side in node.sides)

    def _join(self, node: ops.Join) -> gsql.Select:
        equalities = [equality(left, right) for left, right in node.equalities]
        where = both(band(node.window), *equalities, condition(node.residual))
        # In WHERE a condition on one side would filter its rows, where this one only decides which of them match.
        sides = [{name.split(".", 1)[0] for name in ex.columns_of(part)} for part in ex.conjuncts(node.residual)]
        on = node.kind is not ops.JoinKind.INNER and any(len(aliases) == 1 for aliases in sides)
        on = on or node.kind.once
        select = gsql.Select(select_items(node.items), self._sides(node), node.kind.value, where)
        return replace(select, where=None, on=where, between=True) if on else select

    def _union(self, node: ops.Union) -> gsql.Select | gsql.Merge:
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

    def _aggregation(self, node: ops.Aggregation) -> gsql.Select:
        names: dict[str, gsql.Expression] = {a.name: aggregate_call(a) for a in node.aggregates}
        below, window, keys = node.input, None, list(node.keys)
        groups: tuple[gsql.SelectItem | gsql.Grouping, ...] = ()
        if isinstance(below, ops.Bucket):
            window, source = _window(below), self._source(below.input)
            number = next((key.name for key in keys if key.expr == ex.Column(ex.Type.INT, below.name)), below.name)
            names[number] = gsql.Name("wid")
            partition = {item.name for item in below.partition}
            keys = [key for key in keys if key.name != number and key.name not in partition]
        elif isinstance(below, ops.Expand):
            source = self._source(below.input)
            groups = _grouping(below, keys)
            keys = [key for key in keys if key.name != below.name and key.name not in below.keys]
        else:
            source = self._source(below)
        select = gsql.Select(
            select_items(node.items, names),
            (source,),
            where=condition(node.predicate),
            group_by=(*select_items(keys), *groups),
            having=condition(node.having, names=names),
            window=window,
        )
        if isinstance(node, ops.Running):
            return replace(select, closing_when=expression(node.closing, names))
        return _sampling_statement(node, names, select) if isinstance(node, ops.Sampling) else select


STATEMENTS: dict[type[ops.Node], Callable[[HighText, Any], gsql.Select | gsql.Merge]] = {
    ops.Map: HighText._map,
    ops.Group: HighText._aggregation,
    ops.Running: HighText._aggregation,
    ops.Sampling: HighText._aggregation,
    ops.Top: HighText._top,
    ops.Over: HighText._over,
    ops.Fill: HighText._fill,
    ops.Union: HighText._union,
    ops.Join: HighText._join,
    ops.FilterJoin: HighText._filter_join,
    ops.WatchJoin: HighText._watch_join,
    ops.Bucket: HighText._all_rows,
    ops.Expand: HighText._all_rows,
}
"""Operator -> the method that writes its statement."""


def _sampling_statement(node: ops.Sampling, names: dict[str, gsql.Expression], select: gsql.Select) -> gsql.Select:
    names = {**names, **{a.name: aggregate_call(a, over=True) for a in node.supers}}
    return replace(
        select,
        items=select_items(node.items, names),
        having=condition(node.having, names=names),
        supergroup=tuple(gsql.Name(name) for name in node.supergroup),
        cleaning_when=condition(node.cleaning_when, names=names),
        cleaning_by=condition(node.cleaning_by, names=names),
    )


def _folded(node: ops.Node) -> list[ops.Node]:
    """Returns the inputs that the statement of their reader includes."""
    if isinstance(node, ops.Fill):
        return [node.input, *_folded(node.input)]
    if isinstance(node, ops.Aggregation) and isinstance(node.input, ops.Bucket | ops.Expand):
        return [node.input]
    return []


def _read(node: ops.Node) -> list[ops.Node]:
    """Returns the operators that need a name before the statement of an operator."""
    below = [*[node, *_folded(node)][-1].inputs()]
    # FROM includes a UNION, unless the UNION is the whole statement.
    return [
        child for operator in below for child in (operator.branches if isinstance(operator, ops.Union) else (operator,))
    ]


def _window(bucket: ops.Bucket) -> gsql.Window:
    if bucket.rows:
        unit = "ROWS"
        partition = tuple(gsql.Name(field_name(item.name)) for item in bucket.partition)
        reach, slide = gsql.Extent(bucket.range, unit), gsql.Extent(bucket.slide, unit)
        return gsql.Window(reach, slide, None, partition, condition(bucket.counted))
    column, scale = bucket.attribute, 1
    if isinstance(column, ex.Binary) and column.op == "*" and isinstance(column.right, ex.Const):
        scale, column = int(column.right.value or 1), column.left
    name = column.name if isinstance(column, ex.Column) else "_attribute"
    # A window over panes slides over the number of the pane, so RANGE and SLIDE are numbers of panes.
    extents = (gsql.Extent(bucket.range // scale), gsql.Extent(bucket.slide // scale))
    return gsql.Window(*extents, gsql.Name(name))


def _grouping(expand: ops.Expand, keys: Sequence[ops.Item]) -> tuple[gsql.Grouping, ...]:
    """Returns the grouping sets by the shortest keyword that expresses them."""
    chosen = [tuple(name for name in names if name in expand.keys) for names in expand.sets]
    order = max(chosen, key=len)
    names = (*order, *(name for name in expand.keys if name not in order))
    exprs = {key.name: key for key in keys}
    items = select_items([exprs[name] for name in names])
    rollup = [names[:count] for count in range(len(names), -1, -1)]
    if chosen == rollup and len(names) > 1:
        return (gsql.Grouping("ROLLUP", items),)
    # As binary numbers with one bit per name, the sets of CUBE count down to 0.
    bits = [sum(1 << at for at, name in enumerate(reversed(names)) if name in some) for some in chosen]
    if bits == list(range((1 << len(names)) - 1, -1, -1)):
        return (gsql.Grouping("CUBE", items),)
    return (gsql.Grouping("GROUPING_SETS", items, tuple(chosen)),)


# The description of a plan: of each operator of the high level, of the low level, of the queries.


def describe_operator(
    node: ops.Node, reader: ops.Node | None, inputs: Sequence[int], setting: rules.Setting
) -> model.OperatorInfo:
    """Returns the description of an operator. `reader`: the operator that reads it; None for the output of a query."""
    chosen = _physical(node, setting.arrival)
    plain = model.OperatorInfo(
        node.label,
        node.query,
        chosen.operator,
        chosen.reason,
        tuple(inputs),
        columns_info(node.fields),
        punctuation_info(node.punctuation(reader)),
    )
    return replace(plain, **_details(node), high=stays_high(node, setting))


def _physical(node: ops.Node, by_arrival: bool) -> ops.Physical:
    """Returns how the high level runs an operator; a query by arrival runs all operators in one place."""
    if not by_arrival or isinstance(node, ops.LftaInput):
        return node.physical()
    what = "windows number rows" if isinstance(node, ops.Bucket) and node.rows else "the query reads rows"
    return ops.Physical("slices in order", f"{what} in order of arrival, so one process runs the whole query")


def stream_of(query: str, node: ops.Node) -> model.OperatorInfo:
    """Returns the description of a stream: the rows of a query with its own description."""
    promise = punctuation_info(node.punctuation(None))
    reason = "it has its own description; the evaluation of each output above recomputes it"
    return model.OperatorInfo("stream", query, "stream", reason, (), columns_info(node.fields), promise, reads=query)


def columns_info(fields: Sequence[ops.Field]) -> tuple[model.ColumnInfo, ...]:
    """Returns the columns with their temporal properties."""
    return tuple(model.ColumnInfo(field_name(f.name), f.type.value, _progress(f)) for f in fields)


def _progress(field: ops.Field) -> model.Progress | None:
    time = field.temporal
    if time is None:
        return None
    return model.Progress("increasing" if time.increasing else "decreasing", steps(time), time.origin)


def punctuation_info(promise: ops.Punctuation) -> model.PunctuationInfo:
    """Returns the description of a punctuation."""
    return model.PunctuationInfo(promise.columns, promise.joint, promise.reason, promise.groupwise)


def stays_high(node: ops.Node, setting: rules.Setting) -> str:
    """Returns why an LFTA does not run an operator directly above a selection LFTA, or runs only a part of it; empty
    for every other operator."""
    below = node.inputs()[0] if node.inputs() else None
    if isinstance(node, ops.Map) and isinstance(below, ops.LftaInput) and not below.lfta.aggregates:
        exprs = [*ex.conjuncts(node.predicate), *(item.expr for item in node.items)]
        reasons = (unsafe(expr, setting.threshold(node.query)) for expr in exprs)
        return "; ".join(dict.fromkeys(reason for reason in reasons if reason))
    if isinstance(node, ops.Over) and isinstance(below, ops.LftaInput):
        return "OVER needs the rows before each row, in canonical order of all links"
    if not isinstance(node, ops.Aggregation):
        return ""
    while isinstance(below, ops.Bucket | ops.Expand) or (isinstance(below, ops.Map) and below is not node.input):
        below = below.inputs()[0]
    if not isinstance(below, ops.LftaInput) or below.lfta.aggregates or below.query != node.query:
        return ""
    if isinstance(node, ops.Running):
        return "CLOSING_WHEN carries a group from epoch to epoch, and a table that evicts groups cannot"
    if isinstance(node, ops.Sampling):
        return "sampling reads the rows of a supergroup in canonical order in one process"
    if isinstance(node.input, ops.Bucket) and node.input.rows:
        return "windows count the rows of all links together, in order of arrival"
    return rules.whole_reason(node, node.keys, setting)


def _details(node: ops.Node) -> dict[str, Any]:
    """Returns attribute of OperatorInfo -> value, for the attributes of one kind of operator.
    Raises TypeError: DETAILS has no entry for an operator with expressions."""
    if type(node) in DETAILS:
        return DETAILS[type(node)](node)
    if node.exprs():
        raise TypeError(f"EXPLAIN does not know {type(node).__name__}")
    return {}


def _bucket(node: ops.Bucket) -> dict[str, Any]:
    names = tuple(item.name for item in node.partition)
    return {"window": model.Sliding(high(node.attribute), node.range, node.slide, node.rows, names, high(node.counted))}


def _join(node: ops.Join) -> dict[str, Any]:
    return {"aliases": (node.left_alias, node.right_alias), "match": _match(node), "items": _named(node.items)}


def _filter_join(node: ops.FilterJoin) -> dict[str, Any]:
    keys = " AND ".join(f"{high(left)} = {high(right)}" for left, right in node.keys)
    time = f"{high(node.right_time)} <= {high(node.left_time)} <= {high(node.right_time)} + {node.range}"
    some = f"some {node.right_alias} with {keys} and {time} ({node.algorithm})"
    return {"aliases": (node.left_alias, node.right_alias), "lookup": some, "items": _named(node.items)}


def _watch_join(node: ops.WatchJoin) -> dict[str, Any]:
    equalities = [f"{high(key)} = {name}" for key, name in node.keys]
    rows = " AND ".join([*equalities, *(high(part) for part in ex.conjuncts(node.residual))])
    where = f"{rows}; rows of {node.file}, an input of the run by its hash"
    aliases = (node.alias, node.watch_alias)
    return {"aliases": aliases, "lookup": where, "items": _named(node.items), "reads": node.watchlist}


def _over(node: ops.Over) -> tuple[str, ...]:
    return tuple(f"{print_expression(item.expression)} AS {item.alias}" for item in row_functions(node))


def _aggregation(node: ops.Aggregation) -> dict[str, Any]:
    return {
        "predicate": high(node.predicate),
        "keys": _named(node.keys),
        "aggregates": _aggregates(node.aggregates),
        "having": high(node.having),
        "items": _named(node.items),
    }


def _sampling(node: ops.Sampling) -> dict[str, Any]:
    return {
        **_aggregation(node),
        "supergroup": node.supergroup,
        "supers": _aggregates(node.supers, over=True),
        "cleaning_when": high(node.cleaning_when),
        "cleaning_by": high(node.cleaning_by),
        "states": tuple(f"{state.name} of {state.state}" for state in node.states),
    }


def _named(items: Sequence[ops.Item]) -> tuple[model.Named, ...]:
    return tuple(model.Named(item.name, high(item.expr)) for item in items)


def _aggregates(aggregates: Sequence[ops.Aggregate], over: bool = False) -> tuple[model.Named, ...]:
    return tuple(model.Named(a.name, print_expression(aggregate_call(a, over))) for a in aggregates)


def _match(node: ops.Join) -> model.Match:
    window = node.window
    left, right = _promises(window)
    return model.Match(
        "equality" if window.equality else "band",
        print_expression(band(window)),
        left,
        right,
        tuple(f"{high(a)} = {high(b)}" for a, b in node.equalities),
        high(node.residual),
    )


def _promises(window: ops.Window) -> tuple[str, str]:
    """Returns the promises of both sides' attributes as text, from the promises of both sides (P4)."""
    rising = window.left_time.increasing
    least, ahead, behind = ("min", window.above, window.below) if rising else ("max", window.below, window.above)
    left, right = high(window.left), high(window.right)
    sign = -1 if rising else 1
    if window.mutual:
        left = _shifted(left, -window.rivals)
    return f"{least}({left}, {_shifted(right, sign * ahead)})", f"{least}({right}, {_shifted(left, sign * behind)})"


def _shifted(text: str, by: int) -> str:
    return f"{text} {'-' if by < 0 else '+'} {abs(by)}" if by else text


DETAILS: dict[type[ops.Node], Callable[[Any], dict[str, Any]]] = {
    ops.LftaInput: lambda node: {"reads": node.lfta.name, "links": node.lfta.links},
    ops.Map: lambda node: {"predicate": high(node.predicate), "items": _named(node.items)},
    ops.Group: _aggregation,
    ops.Running: lambda node: {**_aggregation(node), "closing": high(node.closing)},
    ops.Sampling: _sampling,
    ops.Top: lambda node: {"first": print_top(first_rows(node)), "items": _named(node.items)},
    ops.Over: lambda node: {"over": _over(node)},
    ops.Fill: lambda node: {"keys": _named(node.keys), "fill": print_fill(fill_clause(node)).strip()},
    ops.Bucket: _bucket,
    ops.Expand: lambda node: {"sets": node.sets},
    ops.Join: _join,
    ops.FilterJoin: _filter_join,
    ops.WatchJoin: _watch_join,
}
"""Operator -> its details; an operator without expressions needs no entry."""


def describe_lftas(plan: queryset.Plan) -> tuple[model.LftaInfo, ...]:
    """Returns the description of every LFTA of the outputs, in order of first use."""
    highs = [query.high for query in plan.queries]
    granularities, shares = needed_granularity(*highs), low_shares(highs)
    return tuple(
        _low_lfta(lfta, *granularities[lfta.name], plan.prefilters, shares.get(lfta.name, ((),))[0])
        for lfta in plan.lftas
    )


def _low_lfta(
    lfta: ops.Lfta, granularity: int, asked_by: str, prefilters: Sequence[Prefilter], shares: Sequence[ex.Expr]
) -> model.LftaInfo:
    return model.LftaInfo(
        lfta.name,
        "aggregation" if lfta.aggregates else "selection",
        lfta.links,
        lfta.protocol,
        lfta.kind,
        low_text(lfta),
        columns_info(lfta.fields),
        punctuation_info(lfta.punctuation),
        granularity,
        asked_by,
        member=low(lfta.member, lfta.kind),
        predicate=low(lfta.predicate, lfta.kind),
        keys=tuple(model.Named(key.name, low(key.expr, lfta.kind)) for key in lfta.keys),
        partials=_aggregates([_aggregate_of(partial, lfta) for partial in lfta.partials]),
        slots=lfta.slots if lfta.aggregates else 0,
        flush="when punctuation closes the epoch; a collision evicts the old group as a partial row"
        if lfta.aggregates
        else "",
        signatures=_signatures(lfta, prefilters),
        sample=f"{lfta.sample.rate!r}, seed {lfta.sample.seed}" if lfta.sample else "",
        arrival=_arrival(lfta),
        shares=tuple(map(high, shares)),
        clock=_clock(lfta),
    )


def _clock(lfta: ops.Lfta) -> str:
    if lfta.kind == "pcap":
        return "packet time"
    return field_name(lfta.layout.clock) if lfta.layout and lfta.layout.clock else "the records' clock"


def _arrival(lfta: ops.Lfta) -> str:
    if not lfta.arrival:
        return ""
    if lfta.whole:
        return "an interval takes the records that arrive in it; every record is a row, since all of them make progress"
    rows = "; a rejected record is a row of NULL, because windows count every record" if lfta.numbered else ""
    return f"an interval takes the records that arrive in it{rows}"


def _signatures(lfta: ops.Lfta, prefilters: Sequence[Prefilter]) -> tuple[model.SignatureInfo, ...]:
    return tuple(
        model.SignatureInfo(prefilter.links, signature.bits, f"{signature.mask:#x}", low(signature.rest, lfta.kind))
        for prefilter in prefilters
        for signature in prefilter.signatures
        if signature.lfta == lfta.name
    )


def describe_prefilters(plan: queryset.Plan) -> tuple[model.PrefilterInfo, ...]:
    """Returns the description of every prefilter, with the number of LFTAs that share a bit."""
    records = {lfta.name: lfta.kind for lfta in plan.lftas}
    return tuple(
        model.PrefilterInfo(
            prefilter.links,
            tuple(signature.lfta for signature in prefilter.signatures),
            tuple(
                model.BitInfo(low(bit, records[prefilter.signatures[0].lfta]), count)
                for bit, count in zip(prefilter.bits, prefilter.shared, strict=True)
            ),
        )
        for prefilter in plan.prefilters
    )


HOUR = 3_600_000_000_000
SAMPLE = 495_000 * HOUR
"""Start (ns) of a sample interval, on an hour of 2026: a read range is a function of the interval."""

DEEPEST = 8
"""Largest depth of queries described in place; a deeper query has its own description."""


def describe(plan: queryset.Plan) -> model.Description:
    """Returns the contents of EXPLAIN for a plan."""
    borders = _Borders.of(plan)
    queries = tuple(_query(query, plan, borders, plan.setting) for query in (*plan.queries, *plan.internal))
    return model.Description(model.VERSION, queries, describe_lftas(plan), describe_prefilters(plan))


def own_text(query: queryset.QueryPlan) -> str:
    """Returns the canonical text of a query without the queries that it reads."""
    return query.text.split("\n\n")[-1]


@dataclass
class _Borders:
    """Decides which queries have a description of their own, and where the others are described."""

    # id of the last operator -> its query, for the queries with a description of their own
    own: dict[int, str] = field(default_factory=dict)
    within: dict[str, str] = field(default_factory=dict)  # query -> the query that describes it in place
    unread: set[str] = field(default_factory=set)  # queries that no output reads

    @staticmethod
    def of(plan: queryset.Plan) -> _Borders:
        borders = _Borders({id(query.high): query.name for query in plan.queries})
        nodes = list(ops.walk(*(query.high for query in plan.queries)))
        readers: dict[int, int] = {}
        for node in nodes:
            for below in node.inputs():
                readers[id(below)] = readers.get(id(below), 0) + 1
        hidden = {id(query.high): query.name for query in plan.internal}
        borders.own |= {key: name for key, name in hidden.items() if readers.get(key, 0) > 1}
        seen = borders._places(nodes, hidden)
        for query in plan.internal:
            if query.name not in borders.own.values() and query.name not in borders.within:
                borders._merged(query, plan, seen)
        return borders

    def _places(self, nodes: Sequence[ops.Node], hidden: Mapping[int, str]) -> dict[str, str]:
        """Returns query of an operator -> the query that describes the operator; visits readers first."""
        homes: dict[int, tuple[str, int]] = {}
        seen: dict[str, str] = {}
        for node in reversed(nodes):
            key = id(node)
            if key in self.own:
                homes[key] = (self.own[key], 0)
            home, depth = homes[key]
            seen.setdefault(node.query, home)
            if key in hidden and key not in self.own:
                if depth > DEEPEST:
                    self.own[key] = hidden[key]
                    home, depth = hidden[key], 0
                else:
                    self.within[hidden[key]] = home
            for below in node.inputs():
                homes.setdefault(id(below), (home, depth + (below.query != node.query)))
        return seen

    def _merged(self, query: queryset.QueryPlan, plan: queryset.Plan, seen: Mapping[str, str]) -> None:
        """Places a query whose last operator the rules merged with its reader."""
        text = own_text(query)
        readers = (other.name for other in plan.queries if text in other.text.split("\n\n")[:-1])
        home = seen.get(query.name) or next(readers, "")
        if home:
            self.within[query.name] = home
        else:
            self.unread.add(query.name)


def _query(
    query: queryset.QueryPlan, plan: queryset.Plan, borders: _Borders, setting: rules.Setting
) -> model.QueryInfo:
    output = query in plan.queries
    notes = tuple(str(note) for note in plan.notes if note.query == query.name)
    if query.name in borders.unread:
        notes += ("no output query reads it, so it is not run",)
    within = borders.within.get(query.name, "")
    if within or query.name in borders.unread:
        return model.QueryInfo(query.name, query.file, output, own_text(query), within, notes)
    nodes = list(ops.walk(query.high))
    params = params_of(*(expr for node in nodes for expr in node.exprs()))
    operators = _operators(query, borders, replace(setting, arrival=by_arrival(query.high)))
    streams = {key: f"{name}_high" for key, name in borders.own.items() if key != id(query.high)}
    return model.QueryInfo(
        query.name,
        query.file,
        output,
        own_text(query),
        notes=notes,
        parameters=tuple(f"{high(param)} {param.type.value}" for param in params.values()),
        operators=operators,
        cut=_cut(query.high, operators, query.name),
        lftas=tuple(lfta.name for lfta in query.lftas),
        high=HighText(query.name, streams).text(query.high),
        again=tuple(dict.fromkeys(op.reads for op in operators if op.kind == "stream")) if output else (),
        parts=_parts(query.high) if output else (),
        shares=_shares(query.high) if output else (),
        state=tuple(carried_state(query.high)) if output else (),
        reads=_reads(query) if output else (),
    )


def _operators(query: queryset.QueryPlan, borders: _Borders, setting: rules.Setting) -> tuple[model.OperatorInfo, ...]:
    """Returns the operators, readers first, down to the streams of queries with descriptions of their own."""
    order: dict[int, tuple[ops.Node, ops.Node | None]] = {}
    stack: list[tuple[ops.Node, ops.Node | None]] = [(query.high, None)]
    while stack:
        node, reader = stack.pop()
        if id(node) in order:
            continue
        order[id(node)] = (node, reader)
        if reader is None or id(node) not in borders.own:
            stack += [(below, node) for below in reversed(node.inputs())]
    at = {key: position for position, key in enumerate(order)}
    operators = []
    for key, (node, reader) in order.items():
        if reader is not None and key in borders.own:
            operators.append(stream_of(borders.own[key], node))
        else:
            inputs = [at[id(below)] for below in node.inputs()]
            operators.append(describe_operator(node, reader, inputs, setting))
    return tuple(operators)


def _cut(high: ops.Node, operators: Sequence[model.OperatorInfo], name: str) -> str:
    """Returns a summary of the work below and above the cut between the levels."""
    if isinstance(high, ops.LftaInput):
        return f"none: LFTA {high.lfta.name} does the whole query"
    leaves = [op for op in operators if op.kind == "lfta"]
    if not leaves:
        return f"none: {name} reads the streams of queries only"
    kinds = {node.lfta.name: node.lfta.aggregates for node in ops.walk(high) if isinstance(node, ops.LftaInput)}
    sums = [leaf.reads for leaf in leaves if kinds[leaf.reads]]
    rows = [leaf.reads for leaf in leaves if not kinds[leaf.reads]]
    parts = [f"sub-aggregates in LFTA {', '.join(sums)}"] if sums else []
    parts += [f"selection in LFTA {', '.join(rows)}"] if rows else []
    above = list(dict.fromkeys(op.kind for op in operators if op.kind not in ("lfta", "stream")))
    return f"{' and '.join(parts)}; {', '.join(above)} above"


def _parts(high: ops.Node) -> tuple[model.CutInfo, ...]:
    parts, _ = fragment_plan(high)
    return tuple(model.CutInfo(part.node.label, part.node.query, part.reader.label, part.why) for part in parts)


def _shares(high: ops.Node) -> tuple[model.SharesInfo, ...]:
    stages = all_stages(high)
    return tuple(model.SharesInfo(tuple(map(shown, stage.keys)), stage.why, stage.anywhere) for stage in stages)


def _reads(query: queryset.QueryPlan) -> tuple[model.ReadRange, ...]:
    starts = read_from(query.high, SAMPLE)
    return tuple(model.ReadRange(name, SAMPLE - start if start else None) for name, start in starts.items())
