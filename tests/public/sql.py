"""Statements of GSQL as SQL for DuckDB, where SQL can say them: selections, groups, joins, merges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lowwater.catalog.values import Type
from lowwater.gsql import nodes as syntax
from tests.public.records import sortable

MACROS = """
SET integer_division = true; SET ieee_floating_point_ops = false;
CREATE MACRO umax(a, b) AS CASE WHEN a IS NULL OR b IS NULL THEN NULL WHEN a < b THEN b ELSE a END;
CREATE MACRO umin(a, b) AS CASE WHEN a IS NULL OR b IS NULL THEN NULL WHEN a < b THEN a ELSE b END;
CREATE MACRO as_integer(x) AS CAST(trunc(x) AS BIGINT);
CREATE MACRO root(x) AS CASE WHEN x < 0 THEN NULL ELSE sqrt(x) END;
CREATE MACRO rank_of(x, phi) AS list_sort(list(x) FILTER (x IS NOT NULL))[CAST(ceil(phi * count(x)) AS BIGINT)];
CREATE MACRO swapped(x) AS ((x & 255) << 24) | ((x & 65280) << 8) | ((x >> 8) & 65280) | ((x >> 24) & 255);
"""
JOINS = {
    "INNER_JOIN": "JOIN",
    "OUTER_JOIN": "FULL JOIN",
    "LEFT_OUTER_JOIN": "LEFT JOIN",
    "RIGHT_OUTER_JOIN": "RIGHT JOIN",
}
_CALLS = {
    **dict.fromkeys(("int", "uint", "llong", "ullong"), "as_integer({})"),
    **dict.fromkeys(("umax", "llmax", "ullmax", "lmax"), "umax({})"),
    **dict.fromkeys(("umin", "llmin", "ullmin", "lmin"), "umin({})"),
    **{"float": "CAST({} AS DOUBLE)", "non_temporal": "({})", "sqrt": "root({})", "endian_swap_ui": "swapped({})"},
    **{"quantile_of": "rank_of({})", "median_of": "rank_of({}, 0.5)", "avg": "avg({})"},
    **{"sum": "sum({})", "count": "count({})", "min": "min({})", "max": "max({})"},
}
_FLAGS = {"eq": "=", "geq": ">=", "leq": "<=", "ge": ">", "le": "<"}
_BITS = {"and_aggr": "bit_and", "or_aggr": "bit_or", "xor_aggr": "bit_xor"}
_TRUTHS = {"and_aggr": "bool_and", "or_aggr": "bool_or"}
Types = Mapping[str, Type]


@dataclass(frozen=True)
class Scope:
    """What the names of a statement mean."""

    sources: Mapping[str, Types]
    groups: Mapping[str, syntax.Expression]
    params: Mapping[str, int]

    def side(self, name: syntax.Name) -> str:
        """The range variable of a column."""
        if name.qualifier in self.sources:
            return name.qualifier
        return next((each for each, columns in self.sources.items() if name.name in columns), "")

    def type_of(self, expression: syntax.Expression) -> Type | None:
        """The type of a plain column; None for anything else."""
        if not isinstance(expression, syntax.Name):
            return None
        defined = self.groups.get(expression.name) if not expression.qualifier else None
        if defined is not None and defined != expression:
            return self.type_of(defined)
        return self.sources.get(self.side(expression), {}).get(expression.name)


def query(
    statement: syntax.Statement, tables: Mapping[str, str], types: Mapping[str, Types], params: Mapping[str, int]
) -> str:
    """The SQL of a statement."""
    if isinstance(statement, syntax.Merge):
        return " UNION ALL ".join(f"SELECT * FROM {tables[table_of(each)]}" for each in statement.sources)
    assert isinstance(statement, syntax.Select)
    names = [source.alias or f"_t{at}" for at, source in enumerate(statement.sources)]
    sources = dict(zip(names, map(table_of, statement.sources), strict=True))
    groups = {
        group.alias or _plain(group.expression): group.expression
        for group in statement.group_by
        if isinstance(group, syntax.SelectItem)
    }
    plain = Scope({name: types[source] for name, source in sources.items()}, {}, params)
    conjuncts = _conjuncts(statement.where)
    scope = Scope(plain.sources, groups, params)
    items = ", ".join(text(item.expression, scope) for item in statement.items)
    source = _from(statement.join, {name: tables[each] for name, each in sources.items()}, conjuncts, plain)
    grouped = ", ".join(text(each, plain) for each in groups.values())
    having = f" HAVING {text(statement.having, scope)}" if statement.having else ""
    return f"SELECT {items} FROM {source}{f' GROUP BY {grouped}' if grouped else ''}{having}"


def stateful(statement: syntax.Statement) -> str:
    """What of a statement SQL has no words for; empty where it has."""
    if not isinstance(statement, syntax.Select):
        return ""
    clauses = ("window", "supergroup", "cleaning_when", "closing_when", "filter_range")
    words = [name.upper() for name in clauses if getattr(statement, name)]
    words += [group.kind for group in statement.group_by if isinstance(group, syntax.Grouping)]
    words += [source.name for source in statement.sources if source.window or source.union]
    words += [call.name for each in syntax.expressions_of(statement) for call in _calls(each) if not _sayable(call)]
    return ", ".join(dict.fromkeys(words))


def _calls(expression: syntax.Expression) -> list[syntax.Call]:
    own = [expression] if isinstance(expression, syntax.Call) else []
    return own + [call for child in syntax.children(expression) for call in _calls(child)]


def _sayable(call: syntax.Call) -> bool:
    name = call.name.lower()
    return not call.over and not call.brackets and (call.star or name in {**_CALLS, **_FLAGS, **_BITS})


def table_of(source: syntax.SourceRef) -> str:
    """The name of a source: a query, or a protocol with its links."""
    return f"{'_'.join(source.links)}.{source.name}" if source.links else source.name


def _plain(expression: syntax.Expression) -> str:
    assert isinstance(expression, syntax.Name)
    return expression.name


def _conjuncts(where: syntax.Expression | None) -> list[syntax.Expression]:
    if isinstance(where, syntax.BinaryOp) and where.op == "AND":
        return [*_conjuncts(where.left), *_conjuncts(where.right)]
    return [] if where is None else [where]


def _names(expression: syntax.Expression) -> list[syntax.Name]:
    own = [expression] if isinstance(expression, syntax.Name) else []
    return own + [name for child in syntax.children(expression) for name in _names(child)]


def _from(join: str, tables: Mapping[str, str], conjuncts: Sequence[syntax.Expression], scope: Scope) -> str:
    """FROM and WHERE; a condition on one side of a join selects its records before they join."""
    own: dict[str, list[str]] = {name: [] for name in tables}
    both = []
    for each in conjuncts:
        sides = {scope.side(name) for name in _names(each)}
        if len(sides) == 1 or not join:
            own[next(iter(tables)) if not sides else sides.pop()].append(text(each, scope))
        else:
            both.append(_matched(each, scope))
    if not join:
        name, table = next(iter(tables.items()))
        return f"{table} AS {name}{f' WHERE {_all(own[name])}' if own[name] else ''}"
    parts = [f"(SELECT * FROM {table} AS {name} WHERE {_all(own[name])}) AS {name}" for name, table in tables.items()]
    return f"{parts[0]} {JOINS[join]} {parts[1]} ON {_all(both)}"


def _matched(condition: syntax.Expression, scope: Scope) -> str:
    """A condition on both sides; NULL equals NULL between two columns (V1)."""
    if isinstance(condition, syntax.BinaryOp) and condition.op == "=":
        left, right = condition.left, condition.right
        if isinstance(left, syntax.Name) and isinstance(right, syntax.Name):
            return f"{text(left, scope)} IS NOT DISTINCT FROM {text(right, scope)}"
    return text(condition, scope)


def _all(conditions: Sequence[str]) -> str:
    return " AND ".join(f"({each})" for each in conditions) or "TRUE"


def text(expression: syntax.Expression, scope: Scope) -> str:
    """The SQL of an expression."""
    match expression:
        case syntax.Literal(kind, value):
            return _literal(kind, value)
        case syntax.Parameter(name):
            return f"{scope.params[name]}::BIGINT"
        case syntax.Name():
            return _column(expression, scope)
        case syntax.UnaryOp(op, operand):
            return f"({'NOT ' if op in ('NOT', '!') else op}({text(operand, scope)}))"
        case syntax.BinaryOp(op, left, right):
            return f"({text(left, scope)} {op} {text(right, scope)})"
        case syntax.InList(operand, values, negated):
            listed = ", ".join(text(value, scope) for value in values)
            return f"({text(operand, scope)} {'NOT ' if negated else ''}IN ({listed}))"
        case syntax.IsNull(operand, negated):
            return f"({text(operand, scope)} IS {'NOT ' if negated else ''}NULL)"
        case syntax.Call():
            return _call(expression, scope)
    raise NotImplementedError(type(expression).__name__)


def _literal(kind: str, value: object) -> str:
    if kind == "string":
        return "'" + str(value).replace("'", "''") + "'"
    if kind == "ip":
        return f"'{sortable(str(value))}'"
    return {"float": f"{value}::DOUBLE", "int": f"{value}::BIGINT", "bool": str(value).upper(), "null": "NULL"}[kind]


def _column(name: syntax.Name, scope: Scope) -> str:
    defined = scope.groups.get(name.name) if not name.qualifier else None
    if defined is not None and defined != name:
        return text(defined, Scope(scope.sources, {}, scope.params))
    return f'{scope.side(name)}."{name.name}"'


def _call(call: syntax.Call, scope: Scope) -> str:
    name = call.name.lower()
    if call.star:
        return "count(*)"
    arguments = [text(each, scope) for each in call.arguments]
    if name in _FLAGS:
        return f"CAST({arguments[0]} {_FLAGS[name]} {arguments[1]} AS BIGINT)"
    truth = bool(call.arguments) and scope.type_of(call.arguments[0]) is Type.BOOL
    if name in _BITS:
        if truth and name not in _TRUTHS:
            return f"(bit_xor({arguments[0]}::INT) = 1)"
        return f"{(_TRUTHS if truth else _BITS)[name]}({arguments[0]})"
    if truth and name == "sum":
        arguments[0] += "::INT"
    return _CALLS[name].format(", ".join(([" DISTINCT "] if call.distinct else []) + arguments))
