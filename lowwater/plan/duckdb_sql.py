"""A logical plan as one SELECT of DuckDB, for somebody who checks a row without this program (`lowwater evidence`).

It reads a table `packets` with a row for each packet: `link`, `number` (of the record in its capture), and columns of
`DECODED`, which tshark's fields give too. What SQL does not mean the same, or needs what is not in `packets`, is
refused: the reference engine then derives the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lowwater.catalog import expr as ex
from lowwater.errors import LowwaterError
from lowwater.plan import operators as ops

DECODED = (
    "timestamp", "len", "caplen", "ipversion", "srcIP", "destIP", "protocol", "srcPort", "destPort", "total_length",
    "ttl", "flags", "sequence_number", "ack_number", "window", "icmp_type", "icmp_code", "dns_id", "dns_query",
    "dns_type", "dns_response", "dns_rcode", "dns_answers",
)  # fmt: skip
"""Columns of packets that plans may read. An address is hexadecimal: its version, then its bytes, so that it sorts as
addresses do."""

_STAMP, _LINK, _NUMBER = '"#timestamp"', '"#link"', '"#number"'
_PLACE = (_STAMP, _LINK, _NUMBER)
"""Columns that carry the canonical order of packets (O1) through a plan."""

_KINDS = {
    ex.Type.INT: "BIGINT",
    ex.Type.INSTANT: "BIGINT",
    ex.Type.FLOAT: "DOUBLE",
    ex.Type.BOOL: "BOOLEAN",
    ex.Type.STRING: "VARCHAR",
    ex.Type.IP: "VARCHAR",
    ex.Type.MAC: "BIGINT",
}
_OPERATORS = {name: name for name in ("+", "-", "*", "%", "&", "|", "=", "<>", "<", "<=", ">", ">=", "AND", "OR")}
_CASTS = ("INT", "UINT", "LLONG", "ULLONG")
_AGGREGATES = {
    "count": "count({})",
    "count_distinct": "count(DISTINCT {})",
    "min": "min({})",
    "max": "max({})",
    "avg": "avg({})",
}
_JOINS = {
    ops.JoinKind.INNER: "JOIN",
    ops.JoinKind.LEFT: "LEFT JOIN",
    ops.JoinKind.RIGHT: "RIGHT JOIN",
    ops.JoinKind.OUTER: "FULL JOIN",
    ops.JoinKind.ASOF: "JOIN",
    ops.JoinKind.ASOF_LEFT: "LEFT JOIN",
    ops.JoinKind.ONCE: "JOIN",
    ops.JoinKind.ONCE_LEFT: "LEFT JOIN",
}


class NoSqlError(LowwaterError):
    """SQL over tshark's fields does not say what a plan says; the message is why."""


@dataclass(frozen=True)
class _Relation:
    """A SELECT, or the name of one, and the columns beside those of its node that carry the canonical order of packets;
    none if its rows are no packets."""

    text: str
    place: tuple[str, ...] = ()


@dataclass
class Rendering:
    """The SQL of a plan. `slots`: the keys of the groups that FILL has at least, which are known of coverage and not of
    packets."""

    slots: Callable[[ops.Fill], Iterable[tuple[Any, ...]]]
    columns: dict[str, None] = field(default_factory=dict)  # columns of DECODED that are read, in order
    _steps: list[str] = field(default_factory=list)  # of WITH
    _done: dict[int, _Relation] = field(default_factory=dict)

    def of(self, plan: ops.Node) -> str:
        """Returns the SELECT whose rows are those of a plan. Raises NoSqlError if SQL does not say the same."""
        names, last = ", ".join(_quoted(each.name) for each in plan.fields), self._relation(plan)
        steps = ",\n".join(self._steps)
        return f"WITH\n{steps}\nSELECT {names} FROM {last.text}"

    def _relation(self, node: ops.Node) -> _Relation:
        """Adds a step for a node, and returns its name as a relation; a node that others share is one step."""
        if id(node) not in self._done:
            if type(node) not in _NODES:
                raise NoSqlError(f"SQL has no {node.label}")
            made = _NODES[type(node)](self, node)
            name = f"step{len(self._steps) + 1}"
            self._steps.append(f"-- {node.query}: {node.label}\n{name} AS (\n  {made.text}\n)")
            self._done[id(node)] = _Relation(name, made.place)
        return self._done[id(node)]

    def source(self, node: ops.Source) -> _Relation:
        if node.kind != "pcap":
            raise NoSqlError(f"tshark reads no {node.kind} records")
        if node.sample is not None:
            raise NoSqlError("SQL does not sample packets as a query does")
        chosen = []
        for name in dict.fromkeys([*(each.name for each in node.fields), *ex.columns_of(node.member)]):
            if name in ("interface", "link"):
                chosen.append(f"link AS {_quoted(name)}")
            elif name in DECODED:
                self.columns[name] = None
                chosen.append(_quoted(name))
            else:
                raise NoSqlError(f"the column {name} is not read of tshark")
        links = ", ".join(map(_text, node.links))
        place = f"timestamp AS {_STAMP}, link AS {_LINK}, number AS {_NUMBER}"
        inner = f"SELECT {', '.join([*chosen, place])} FROM packets WHERE link IN ({links})"
        return _Relation(f"SELECT * FROM ({inner}){_where(node.member)}", _PLACE)

    def map(self, node: ops.Map) -> _Relation:
        below = self._relation(node.input)
        return _Relation(_select(node.items, below, node.predicate), below.place)

    def union(self, node: ops.Union) -> _Relation:
        parts = []
        for branch in node.branches:
            pairs = zip(branch.fields, node.fields, strict=True)
            names = ", ".join(f"{_quoted(own.name)} AS {_quoted(common.name)}" for own, common in pairs)
            parts.append(f"SELECT {names} FROM {self._relation(branch).text}")
        return _Relation("\nUNION ALL\n".join(parts))

    def bucket(self, node: ops.Bucket) -> _Relation:
        if node.rows:
            raise NoSqlError("SQL has no windows of rows")
        below = self._relation(node.input)
        value, slide = _sql(node.attribute), node.slide
        first = f"greatest(0, ({value} - {node.range}) // {slide} + 1)"
        windows = f"unnest(range({first}, {value} // {slide} + 1)) AS {_quoted(node.name)}"
        return _Relation(f"SELECT *, {windows} FROM {below.text}", below.place)

    def expand(self, node: ops.Expand) -> _Relation:
        below, parts = self._relation(node.input), []
        for number, kept in enumerate(node.sets):
            names = [each for each in node.fields if each.name != node.name]
            items = [
                _quoted(each.name)
                if each.name in kept or each.name not in node.keys
                else f"CAST(NULL AS {_kind(each.type)}) AS {_quoted(each.name)}"
                for each in names
            ]
            parts.append(f"SELECT {', '.join([*items, *below.place, f'{number} AS {_quoted(node.name)}'])}")
            parts[-1] += f" FROM {below.text}"
        return _Relation("\nUNION ALL\n".join(parts))

    def group(self, node: ops.Group) -> _Relation:
        below = self._relation(node.input)
        arguments = {each.name: each.argument for each in node.aggregates}
        inner = [f"{_sql(key.expr)} AS {_quoted(key.name)}" for key in node.keys]
        inner += [f"{_sql(of)} AS {_quoted('#' + name)}" for name, of in arguments.items() if of is not None]
        keys = [_quoted(key.name) for key in node.keys]
        outer = [*keys, *(f"{_aggregate(each)} AS {_quoted(each.name)}" for each in node.aggregates)]
        rows = f"SELECT {', '.join(inner)} FROM {below.text}{_where(node.predicate)}"
        grouped = f"SELECT {', '.join(outer)} FROM ({rows}) GROUP BY {', '.join(keys)}"
        return _Relation(_select(node.items, _Relation(f"({grouped})"), node.having))

    def fill(self, node: ops.Fill) -> _Relation:
        below = self._relation(node.input)
        nothing = [
            f"CAST(NULL AS {_kind(each.argument.type)}) AS {_quoted('#' + each.name)}"
            for each in node.aggregates
            if each.argument is not None
        ]
        names, keys = [_quoted(each.name) for each in node.fields], [_quoted(key.name) for key in node.key_fields]
        empty = [f"{_aggregate(each)} AS {_quoted(each.name)}" for each in node.aggregates]
        empty = [f"(SELECT {', '.join(empty)} FROM (SELECT {', '.join(nothing or ['0'])}) WHERE false)"] * bool(empty)
        slots = [
            ", ".join(_constant(ex.Const(key.type, value)) for key, value in zip(node.key_fields, slot, strict=True))
            for slot in self.slots(node)
        ]
        if not slots:
            return _Relation(f"SELECT {', '.join(names)} FROM {below.text}")
        covered = f"(VALUES ({'), ('.join(slots)})) AS slots({', '.join(keys)})"
        same = " AND ".join(f"there.{key} IS NOT DISTINCT FROM slots.{key}" for key in keys)
        lacking = f"SELECT {', '.join(names)} FROM {', '.join([covered, *empty])} WHERE NOT EXISTS "
        lacking += f"(SELECT 1 FROM {below.text} there WHERE {same})"
        return _Relation(f"SELECT {', '.join(names)} FROM {below.text}\nUNION ALL\n{lacking}")

    def top(self, node: ops.Top) -> _Relation:
        below = self._relation(node.input)
        order = [
            f"{_sql(each.expr)} {'DESC' if each.descending else 'ASC'} NULLS {'FIRST' if each.nulls_first else 'LAST'}"
            for each in node.order
        ]
        ties = () if node.ties else _canonical(node.input, below)
        keys = [_sql(key.expr) for key in node.keys]
        numbered = f"{'rank' if node.ties else 'row_number'}() OVER ({_partition(keys)}ORDER BY "
        numbered += f"{', '.join([*order, *ties])})"
        kept = f"SELECT * FROM {below.text} QUALIFY {numbered} <= {node.count}"
        return _Relation(_select(node.items, _Relation(f"({kept})", below.place), None), below.place)

    def over(self, node: ops.Over) -> _Relation:
        below = self._relation(node.input)
        partition = _partition([_sql(column) for column in node.partition])
        time = _sql(node.order)
        rows = f"({partition}ORDER BY {', '.join([time, *_canonical(node.input, below)])} ROWS UNBOUNDED PRECEDING)"
        plain = rows.replace(" ROWS UNBOUNDED PRECEDING)", ")")
        peers = f"({partition}ORDER BY {time})"
        made, begins = [], []
        for each in node.functions:
            name, argument = _quoted(each.name), "" if each.argument is None else _sql(each.argument)
            if each.function == "lag":
                default = "NULL" if each.default is None else _sql(each.default)
                found = f"lag({argument}, {each.reach}) OVER {plain}"
                made.append(f"CASE WHEN row_number() OVER {plain} > {each.reach} THEN {found} ELSE {default} END")
            elif each.function == "session":
                start = _quoted(f"#{each.name}")
                gap = f"coalesce({time} - lag({time}) OVER {plain} > {each.reach}, true)"
                begins.append(f"CASE WHEN {gap} THEN {time} END AS {start}")
                made.append(f"max({start}) OVER {rows}")
            else:
                of = each.argument is not None and each.argument.type
                if each.function not in ("avg", "count", "first_value", "max", "min", "row_number", "sum"):
                    raise NoSqlError(f"SQL has no {each.function} of rows before")
                value = f"{each.function}({argument or ('' if each.function == 'row_number' else '*')})"
                whole = f"{value} OVER {peers if each.peers else rows}"
                summed = each.function == "sum" and of is not ex.Type.FLOAT
                made.append(f"CAST({whole} AS BIGINT)" if summed else whole)
            made[-1] += f" AS {name}"
        inner = f"SELECT *{''.join(f', {each}' for each in begins)} FROM {below.text}"
        return _Relation(f"SELECT *, {', '.join(made)} FROM ({inner})", below.place)

    def join(self, node: ops.Join) -> _Relation:
        (first, left), (second, right) = node.sides
        window = node.window
        if window.left_time.origin:
            raise NoSqlError(f"the window of the join goes by {window.left_time.origin}")
        met = [f"{_sql(a)} IS NOT DISTINCT FROM {_sql(b)}" for a, b in node.equalities]
        near, far = _sql(window.left), _sql(window.right)
        met.append(
            f"{far} = {near}"
            if window.equality
            else f"{far} BETWEEN {near} - {window.below} AND {near} + {window.above}"
        )
        met += [f"({_sql(node.residual)})"] if node.residual is not None else []
        on = " AND ".join(met)
        mine, other = self._side(first, left), self._side(second, right)
        if not node.kind.pairs:
            word = "NOT EXISTS" if node.kind is ops.JoinKind.ANTI else "EXISTS"
            kept = f"SELECT * FROM {mine.text} WHERE {word} (SELECT 1 FROM {other.text} WHERE {on})"
            return _Relation(_select(node.items, _Relation(f"({kept})"), None))
        if not node.kind.nearest:
            joined = f"SELECT * FROM {mine.text} {_JOINS[node.kind]} {other.text} ON {on}"
            return _Relation(_select(node.items, _Relation(f"({joined})"), None))
        ranked = [f"abs({far} - {near})", far, *_canonical(right, other, second, node.latest)]
        numbered = f'SELECT *, row_number() OVER () AS "#left" FROM {mine.text}'
        first_of = f'QUALIFY row_number() OVER (PARTITION BY "#left" ORDER BY {", ".join(ranked)}) = 1'
        if not node.kind.mutual:
            joined = f"SELECT * FROM ({numbered}) {_JOINS[node.kind]} {other.text} ON {on} {first_of}"
            return _Relation(_select(node.items, _Relation(f"({joined})"), None))
        back = [ranked[0], near, *_canonical(left, mine, first, node.exchanged().latest)]
        both = f'row_number() OVER (PARTITION BY "#right" ORDER BY {", ".join(back)}) = 1 AS "#both"'
        others = f'SELECT *, row_number() OVER () AS "#right" FROM {other.text}'
        joined = f"SELECT *, {both} FROM ({numbered}) {_JOINS[node.kind]} ({others}) ON {on} {first_of}"
        names = [_quoted(f"{second}.{each.name}") for each in right.fields]
        replaced = ", ".join(f'CASE WHEN "#both" THEN {name} END AS {name}' for name in names)
        kept = f"SELECT * REPLACE ({replaced}) FROM ({joined})"
        if not node.kind.keeps_left:
            kept = f'SELECT * FROM ({joined}) WHERE "#both"'
        return _Relation(_select(node.items, _Relation(f"({kept})"), None))

    def _side(self, alias: str, node: ops.Node) -> _Relation:
        """The rows of one side of a join, whose columns have its alias before their names."""
        below = self._relation(node)
        names = [f"{_quoted(each.name)} AS {_quoted(f'{alias}.{each.name}')}" for each in node.fields]
        place = tuple(_prefixed(alias, each) for each in below.place)
        names += [f"{each} AS {named}" for each, named in zip(below.place, place, strict=True)]
        return _Relation(f"(SELECT {', '.join(names)} FROM {below.text})", place)


_NODES: Mapping[type[ops.Node], Callable[[Rendering, Any], _Relation]] = {
    ops.Source: Rendering.source,
    ops.Map: Rendering.map,
    ops.Union: Rendering.union,
    ops.Bucket: Rendering.bucket,
    ops.Expand: Rendering.expand,
    ops.Group: Rendering.group,
    ops.Fill: Rendering.fill,
    ops.Top: Rendering.top,
    ops.Over: Rendering.over,
    ops.Join: Rendering.join,
}


def _canonical(node: ops.Node, relation: _Relation, alias: str = "", last: bool = False) -> tuple[str, ...]:
    """The canonical order of rows (O1), or its reverse with `last`: that of packets, or a time and all columns."""
    order = "DESC NULLS LAST" if last else "ASC NULLS FIRST"
    if relation.place:
        return tuple(f"{each} {order}" for each in relation.place)
    if any(isinstance(below, ops.Source) for below in _unordered(node)):
        raise NoSqlError("SQL does not know the order of merged packets")
    columns = dict.fromkeys([*(each.name for each in node.fields if each.temporal)][:1])
    columns |= dict.fromkeys(each.name for each in node.fields)
    return tuple(f"{_quoted(f'{alias}.{name}' if alias else name)} {order}" for name in columns)


def _unordered(node: ops.Node) -> list[ops.Node]:
    """The sources whose packets pass a union or a grouping set on their way to a node, which keeps no order of them."""
    if isinstance(node, ops.Source):
        return [node]
    return [each for below in node.inputs() for each in _unordered(below)] if node.facts.passes else []


def _prefixed(alias: str, place: str) -> str:
    return _quoted(f"{alias}.{place.strip(chr(34))}")


def _partition(keys: Sequence[str]) -> str:
    return f"PARTITION BY {', '.join(keys)} " if keys else ""


def _select(items: Sequence[ops.Item], below: _Relation, predicate: ex.Expr | None) -> str:
    chosen = [f"{_sql(item.expr)} AS {_quoted(item.name)}" for item in items]
    return f"SELECT {', '.join([*chosen, *below.place])} FROM {below.text}{_where(predicate)}"


def _where(predicate: ex.Expr | None) -> str:
    return "" if predicate is None else f" WHERE {_sql(predicate)}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _aggregate(each: ops.Aggregate) -> str:
    argument = "*" if each.argument is None else _quoted(f"#{each.name}")
    if each.function == "sum" and each.argument is not None:
        whole = each.argument.type is not ex.Type.FLOAT
        argument = f"CAST({argument} AS BIGINT)" if each.argument.type is ex.Type.BOOL else argument
        return f"CAST(sum({argument}) AS BIGINT)" if whole else f"sum({argument})"
    if each.function not in _AGGREGATES or each.more:
        raise NoSqlError(f"SQL has no {each.function} that is the same")
    return _AGGREGATES[each.function].format(argument)


def _sql(expr: ex.Expr) -> str:
    """Returns an expression as SQL. Raises NoSqlError if SQL does not mean the same."""
    match expr:
        case ex.Const():
            return _constant(expr)
        case ex.Column():
            return _quoted(expr.name)
        case ex.Unary(op="IS NULL"):
            return f"({_sql(expr.operand)} IS NULL)"
        case ex.Unary(op="NOT"):
            return f"(NOT {_sql(expr.operand)})"
        case ex.Unary(op=ex.SUMMED):
            return _sql(expr.operand)
        case ex.Unary():
            return f"({expr.op}{_sql(expr.operand)})"
        case ex.Binary(op="/"):
            whole = expr.type is not ex.Type.FLOAT
            return f"({_sql(expr.left)} {'//' if whole else '/'} {_divisor(expr.right)})"
        case ex.Binary() if expr.op in _OPERATORS:
            right = _divisor(expr.right) if expr.op == "%" else _sql(expr.right)
            return f"({_sql(expr.left)} {_OPERATORS[expr.op]} {right})"
        case ex.Case():
            branches = "".join(f" WHEN {_sql(when)} THEN {_sql(then)}" for when, then in expr.branches)
            return f"CASE{branches} ELSE {_sql(expr.otherwise)} END"
        case ex.OneOf() if expr.kind is not ex.Type.FLOAT:
            values = ", ".join(_constant(ex.Const(expr.kind, value)) for value in expr.values)
            return f"({_sql(expr.operand)} IN ({values}))"
        case ex.Call():
            return _call(expr)
        case _:
            raise NoSqlError(f"SQL does not say {ex.show(expr)} the same")


def _divisor(expr: ex.Expr) -> str:
    """A division by zero gives NULL (V2)."""
    return _sql(expr) if isinstance(expr, ex.Const) and expr.value else f"nullif({_sql(expr)}, 0)"


def _call(call: ex.Call) -> str:
    name, arguments = call.function.name, [_sql(each) for each in call.arguments]
    kinds = [each.type for each in call.arguments]
    if name in _CASTS and kinds in ([ex.Type.INT], [ex.Type.INSTANT], [ex.Type.BOOL]):
        return f"CAST({arguments[0]} AS BIGINT)"
    if name == "FLOAT":
        return f"CAST({arguments[0]} AS DOUBLE)"
    if name == "non_temporal":
        return arguments[0]
    if name in ("lower", "upper", "length") and kinds == [ex.Type.STRING]:
        return f"{name}({arguments[0]})"
    raise NoSqlError(f"SQL has no {name} that is the same")


def _kind(type_: ex.Type) -> str:
    if type_ not in _KINDS:
        raise NoSqlError(f"SQL has no {type_}")
    return _KINDS[type_]


def _constant(const: ex.Const) -> str:
    kind, value = _kind(const.type), const.value
    if value is None:
        return f"CAST(NULL AS {kind})"
    if isinstance(value, bytes):
        return _text(value.hex())
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool):
        return str(value).lower()
    if kind == "BIGINT" and isinstance(value, int) and 0 <= value < 1 << 31:
        return str(value)
    return f"CAST({value!r} AS {kind})"
