"""Binds expressions: names, types, operators, CASE and aggregates, and the hints of what is wrong in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from ipaddress import ip_network

from lowwater import config, instants, limits
from lowwater.catalog import expr as ex
from lowwater.catalog.functions import SHIFT, AggregateFunction, Function, StateFunction
from lowwater.catalog.native import NATIVE
from lowwater.catalog.value_names import PROTOCOL_NUMBERS
from lowwater.catalog.values import pack_ip, parse_mac
from lowwater.errors import QueryError, nearest
from lowwater.gsql import nodes as syntax
from lowwater.gsql.printer import print_expression
from lowwater.instants import parse_moment
from lowwater.plan.bind import sugar, times
from lowwater.plan.bind.durations import Units, alone, counted, in_seconds, length_of, named, takes, unit_in
from lowwater.plan.bind.names import Names
from lowwater.plan.operators import Aggregate
from lowwater.plan.text import Text, attempt_all, place_of, spot

# Hints

_NO_NOW = "a query has no now: its rows follow from its packets; `--from` and `--to` choose hours where rows are read"
_BETWEEN = "subtract the times: ({2:B.timestamp} - {1:A.timestamp})/1 {0-:s}"
FUNCTIONS = {
    "var": "write var_samp({0:x}) or var_pop({0:x})",
    "ln": "write log({0:x})",
    "exp": "write pow(2.718281828459045, {0:x})",
    "median": "write quantile_cont({0:x}, 0.5)",
    "quantile_disc": "write quantile_of({0:x}, {1:0.95})",
    **dict.fromkeys(
        ("quantile", "approx_quantile", "percentile"), "write quantile_of({0:x}, {1:0.95}), which is exact"
    ),
    **dict.fromkeys(("count_if", "countif"), "write count(*) FILTER (WHERE {0:x > 1})"),
    **dict.fromkeys(
        ("listagg", "group_concat", "list", "array_agg", "json_agg"),
        "write string_agg({0:x}, {1:','}) of a text; `lowwater sql` lists numbers, too",
    ),
    "array": "a column has one value: select the columns one by one",
    **dict.fromkeys(("max_by", "argmax"), "write arg_max({0:x}, {1:y})"),
    **dict.fromkeys(("min_by", "argmin"), "write arg_min({0:x}, {1:y})"),
    "date_bin": "write time_bucket(INTERVAL {0:'10 minutes'}, {1:timestamp})",
    "tumble": "write time_bucket({1:INTERVAL '10 minutes'}, {0:timestamp})",
    "bin": "write time_bucket(INTERVAL '10 minutes', {0:timestamp})",
    **dict.fromkeys(("datetime", "from_unixtime", "epoch_ms", "make_timestamp"), "write CAST(timestamp AS TIMESTAMP)"),
    **dict.fromkeys(
        ("strftime", "date_format", "to_char"), "an instant prints as ISO 8601: CAST(timestamp AS TIMESTAMP)"
    ),
    **dict.fromkeys(("date", "to_date", "todate"), "write date_trunc('day', {0:timestamp})"),
    **dict.fromkeys(("date_add", "dateadd", "timestampadd"), "add a length of time: timestamp + INTERVAL '1 day'"),
    **dict.fromkeys(("date_sub", "datesub"), "subtract a length of time: timestamp - INTERVAL '1 day'"),
    **dict.fromkeys(("epoch", "unix_timestamp"), "write time, which counts the seconds since 1970"),
    **dict.fromkeys(("datediff", "date_diff", "timestampdiff"), _BETWEEN),
    "age": "subtract the times: ({0:B.timestamp} - {1:A.timestamp})/1 s",
    **dict.fromkeys(("now", "today", "getdate", "current_date", "current_timestamp", "current_time"), _NO_NOW),
    **dict.fromkeys(("substring", "mid"), "write substr({0:x}, {1:1}, {2:10})"),
    "left": "write str_truncate({0:x}, {1:10})",
    "right": "write str_suffix({0:x}, {1:10})",
    **dict.fromkeys(("contains", "strpos", "instr", "charindex"), "write str_exists_substr[{0:x}, {1:'text'}]"),
    "locate": "write str_exists_substr[{1:x}, {0:'text'}]",
    **dict.fromkeys(("starts_with", "startswith"), "write str_match_start[{0:x}, {1:'text'}]"),
    **dict.fromkeys(("ends_with", "endswith", "suffix"), "write {0:x} LIKE '%{1-:text}'"),
    **dict.fromkeys(("regexp_matches", "regexp_like"), "write str_regex_match[{0:x}, {1:'pattern'}]"),
    "regexp_full_match": "write str_regex_match[{0:x}, '^({1-:pattern})$']",
    "regexp_extract": "write str_extract_regex({0:x}, {1:'pattern'})",
    **dict.fromkeys(("power", "pow10", "exponent"), "write pow({0:x}, {1:2})"),
    "isnull": "write {0:x} IS NULL, or coalesce({0:x}, {1:0}) for a value in its place",
    "iif": "write IF({0:x > 5}, {1:1}, {2:0})",
    "decode": "write CASE {0:x} WHEN {1:5} THEN {2:1} ELSE {3:0} END",
    **dict.fromkeys(("convert", "try_convert"), "write CAST({1:x} AS BIGINT), or to DOUBLE or TIMESTAMP"),
    **dict.fromkeys(("any", "all", "some"), "write IN (80, 443), or max(x) of the rows in a query of its own"),
    "grouping": "a column that a grouping set does not group by is NULL in its rows",
    **dict.fromkeys(("inet_ntoa", "host", "text"), "an address prints as text: write {0:srcIP} itself"),
    "inet_aton": "write an address as a text: srcIP = '10.0.0.1'",
    "family": "write ipversion, which is 4 or 6",
    **dict.fromkeys(
        ("network", "set_masklen", "netmask"),
        "write {0:srcIP} & IP_VAL'255.255.255.0' for the network; {0:srcIP} <<= '10.0.0.0/8' asks for one",
    ),
    **dict.fromkeys(("dayofweek", "weekday"), "write extract(dow FROM {0:timestamp})"),
    "columns": "name the columns: `*` stands for all of them",
    **{
        part: f"write extract({part} FROM {{0:timestamp}})"
        for part in ("year", "month", "day", "hour", "minute", "second")
    },
}
"""Function of another system in lower case -> GSQL to write instead, with arguments by their number, or what stands for
one that is not there."""
_ARGUMENT = re.compile(r"\{(\d)(-?):([^}]*)\}")
"""An argument in a hint; `-` leaves the quotes out."""


_OF_DUCKDB = {
    "acos", "array_length", "ascii", "asin", "atan2", "bar", "bin", "bit_count", "cbrt", "chr", "concat_ws", "corr",
    "covar_pop", "covar_samp", "cume_dist", "degrees", "dense_rank", "entropy", "factorial", "format", "gcd",
    "generate_series", "hash", "hex", "histogram", "json_extract", "kurtosis", "lcm", "levenshtein", "lpad", "ltrim",
    "md5", "mode", "ntile", "percent_rank", "pi", "printf", "product", "radians", "random", "range", "regexp_replace",
    "regr_slope", "repeat", "replace", "reverse", "rpad", "rtrim", "sha256", "sign", "skewness", "split_part",
    "string_split", "to_hex", "translate", "trim", "unnest", "uuid",
}  # fmt: skip
"""Functions of DuckDB, and so of `lowwater sql`, that a query has under no name."""


def told(hint: str, node: syntax.Call) -> str:
    """Returns a hint with the arguments of a call."""
    given = [print_expression(each) for each in node.arguments]

    def put(found: re.Match[str]) -> str:
        text = given[int(found[1])] if int(found[1]) < len(given) else found[3]
        return text.strip("'") if found[2] else text

    return _ARGUMENT.sub(put, hint)


def of_function(node: syntax.Call, names: set[str]) -> str:
    """Hint for a call of an unknown function, with its arguments."""
    name = node.name
    if name.lower() in FUNCTIONS:
        return told(FUNCTIONS[name.lower()], node)
    if name.lower() in _OF_DUCKDB:
        return "`lowwater sql` has it, over a capture or a lake; for a query declare it in Python: --functions FILE"
    close = nearest(name, names)
    return f"{close} Otherwise declare it: --functions FILE" if close else "declare it: --functions FILE"


def of_name(name: str) -> str:
    """Hint for a keyword of SQL that was parsed as a column; empty if there is none."""
    if name.lower() in ("current_date", "current_timestamp", "current_time"):
        return _NO_NOW
    if name.lower() == "all":
        return "name the items of the order, such as ORDER BY bytes DESC, srcIP"
    return f"write {name.upper()}" if name.lower() in ("true", "false") else ""


def of_address(text: str, kind: ex.Type, other: str, negated: bool) -> str:
    """Hint for a string that is not an address, or no instant. `other`: what it is compared with."""
    if kind is ex.Type.INSTANT:
        return "write an instant as '2026-01-31T13:00:00Z'"
    if kind is ex.Type.MAC:
        return "write an address as '02:00:00:00:00:01'"
    network = _prefix(text) if "/" in text else _network(text)
    if network:
        return f"write {_of_network(other, network, negated)}"
    return "an address has four numbers from 0 to 255, or the form of IPv6"


def _prefix(text: str) -> str:
    """Returns a prefix such as 10.0.0.0/8 as its network; empty if the text is no prefix."""
    try:
        return str(ip_network(text, strict=False))
    except ValueError:
        return ""


def of_types(op: str, node: syntax.Expression, operands: tuple[ex.Expr, ...], units: Sequence[Fraction | None]) -> str:
    """Hint for an operator that does not apply to the types of its operands; empty if there is none. `units`: unit of
    every operand in ns; None if unknown."""
    if isinstance(node, syntax.Between) and None not in (units[0], operands[0]):
        texts = [isinstance(each, syntax.Literal) and each.kind == "string" for each in (node.low, node.high)]
        cast = replace(node, operand=syntax.Call("CAST", (node.operand,)))
        if all(texts) and operands[0].type is ex.Type.INT:
            operand, _, bounds = print_expression(cast).partition(")")
            return f"compare instants: {operand} AS TIMESTAMP){bounds}"
    if not isinstance(node, syntax.BinaryOp):
        return ""
    left, right = operands
    if ex.Type.INSTANT in (left.type, right.type) and ex.Type.INT in (left.type, right.type):
        at = 0 if left.type is ex.Type.INSTANT else 1
        moment, written = (print_expression(each) for each in ((node.left, node.right)[:: 1 - 2 * at]))
        if op in ("/", "%", "*"):
            return f"cut a time by time_bucket(INTERVAL '10 minutes', {moment})"
        if op in ex.COMPARISON and units[1 - at] is not None:
            return f"make both instants: CAST({written} AS TIMESTAMP)"
        return "write an instant as '2026-01-31T13:00:00Z', a duration with its unit, such as 5 s"
    if op == "<<" and left.type is ex.Type.IP and isinstance(right, ex.Const) and _prefix(str(right.value)):
        return f"write {_of_network(print_expression(node.left), _prefix(str(right.value)), False)}"
    if op in ex.LOGICAL and left.type is ex.Type.BOOL and isinstance(node.left, syntax.BinaryOp):
        asked = print_expression(replace(node.left, right=node.right))
        return f"write the comparison in full: {asked}" if right.type is not ex.Type.BOOL else ""
    if op in ("=", "<>") and {left.type, right.type} == {ex.Type.BOOL, ex.Type.INT}:
        condition, number = (node.left, right) if left.type is ex.Type.BOOL else (node.right, left)
        return _of_condition(condition, op, number)
    for side, other in ((left, right), (right, left)):
        if isinstance(side, ex.Const) and isinstance(side.value, str) and sugar.is_protocol(other):
            return nearest(side.value.lower(), PROTOCOL_NUMBERS) or "write the number of the protocol"
    for side, name, unit in ((left, node.right, units[1]), (right, node.left, units[0])):
        if isinstance(side, ex.Const) and isinstance(side.value, str) and unit is not None:
            return _of_instant(side.value, op if side is right else "", name, unit)
        if isinstance(side, ex.Const) and isinstance(side.value, str) and re.fullmatch(r"-?\d+(\.\d+)?", side.value):
            return f"write the number without quotes: {side.value}"
    return ""


def _of_condition(condition: syntax.Expression, op: str, number: ex.Expr) -> str:
    text = print_expression(condition)
    if isinstance(number, ex.Const) and number.value in (0, 1):
        return f"{text} is a condition: write {text if (number.value == 1) == (op == '=') else f'NOT {text}'}"
    return f"{text} is a condition: it stands without a comparison"


def _of_instant(text: str, op: str, other: syntax.Expression, unit: Fraction) -> str:
    try:
        instant = instants.parse_instant(text)
    except ValueError:
        return ""
    number, column = instant // unit, print_expression(other)
    return f"write {f'{column} {op} {number}' if op else number}, the {named(unit)} since 1970 that {column} counts"


def of_like(operand: ex.Expr, node: syntax.Like) -> str:
    """Hint for LIKE over an address, with the network that the pattern means, or over another value that is no text."""
    text = str(node.pattern.value) if isinstance(node.pattern, syntax.Literal) else ""
    written = print_expression(node.operand)
    if operand.type is ex.Type.MAC:
        return f"an address is no string: compare it with whole ones, as in {written} = '02:00:00:00:00:01'"
    if operand.type is not ex.Type.IP:
        return f"compare numbers, such as {written} BETWEEN 1000 AND 1999; for their digits ask `lowwater sql`"
    network = _network(text.removesuffix("%").removesuffix(".")) if text.endswith(".%") else ""
    if not network and "%" not in text and "_" not in text and _is_address(text):
        return f"an address is no string: write {written} {'<>' if node.negated else '='} '{text}'"
    if not network:
        return "an address is no string: name the networks that you mean, each behind <<="
    return f"an address is no string: write {_of_network(written, network, node.negated)}"


def _of_network(operand: str, network: str, negated: bool) -> str:
    return f"{'NOT ' * negated}{operand} <<= '{network}'"


def _network(text: str) -> str:
    """Returns the network of the first one to three numbers of an IPv4 address; empty if the text is not that."""
    numbers = text.split(".")
    known = len(numbers) < 4 and all(number.isdecimal() and int(number) < 256 for number in numbers)
    return f"{'.'.join([*numbers, '0', '0', '0'][:4])}/{8 * len(numbers)}" if known else ""


def _is_address(text: str) -> bool:
    try:
        return bool(pack_ip(text))
    except ValueError:
        return False


def of_condition(node: syntax.Expression, bound: ex.Expr) -> str:
    """Hint for a number in place of a condition; empty for any other type."""
    text = print_expression(node)
    simple = isinstance(node, syntax.Name | syntax.Call)
    return f"write {text if simple else f'({text})'} <> 0" if bound.type is ex.Type.INT else ""


# Binds operators, CASE and aggregates of expressions, and the hints for what does not fit.

# Overload resolution


Overload = Function | AggregateFunction | StateFunction


def written(overloads: Sequence[Overload], brackets: bool) -> Sequence[Overload]:
    """Selects the overloads that are called with brackets, or without. Returns the matching overloads; all overloads if
    none matches, since the manual mixes both spellings."""
    fitting = [each for each in overloads if not isinstance(each, Function) or each.predicate is brackets]
    return fitting or overloads


def choose(overloads: Sequence[Overload], arguments: Sequence[ex.Expr]) -> tuple[Overload, list[ex.Expr]] | None:
    """Selects the first overload whose parameters take the arguments: exact types first, then with integers converted
    to floats, booleans to integers, and NULL to any type. Returns the overload and the converted arguments; None if no
    overload takes them."""
    for exact in (True, False):
        for overload in overloads:
            if len(overload.parameters) != len(arguments):
                continue
            converted = [fitted(a, kind, exact) for a, kind in zip(arguments, overload.parameters, strict=True)]
            if all(argument is not None for argument in converted):
                return overload, [argument for argument in converted if argument is not None]
    return None


def require_limits(
    entry: Overload, arguments: Sequence[ex.Expr], nodes: Sequence[syntax.Expression], text: Text
) -> None:
    """Checks the constant arguments of a call against the limits of the catalog.
    Raises QueryError if an argument is outside of its limit."""
    for position, limit in entry.limits:
        argument = arguments[position]
        if not isinstance(argument, ex.Const) or limit.admits(argument.value):
            continue
        value = f"{argument.value:g}" if isinstance(argument.value, float) else repr(argument.value)
        written = f"${argument.param} = {value}" if argument.param else value
        message = f"argument {position + 1} of {entry.name} is {written}, and must be {limit.says}"
        raise text.error(place_of(nodes[position]), message, limit.advice(argument.value))


def fitted(argument: ex.Expr, kind: ex.Type, exact: bool) -> ex.Expr | None:
    """Converts an argument to the type of a parameter. Returns the argument of type `kind`; None if the parameter does
    not take the argument."""
    if argument.type is kind:
        return argument
    if exact:
        return None
    if isinstance(argument, ex.Const) and argument.value is None:
        return ex.Const(kind, None)
    if argument.type is ex.Type.INT and kind is ex.Type.FLOAT:
        if isinstance(argument, ex.Const) and isinstance(argument.value, int):
            return ex.Const(kind, float(argument.value), argument.param)
        return ex.Binary(ex.Type.FLOAT, "*", argument, ex.Const(ex.Type.FLOAT, 1.0))
    return number_of(argument) if argument.type is ex.Type.BOOL and kind is ex.Type.INT else None


# Types of operators. The rules are those of SQL (SEMANTICS V1, V2). `dialect` rewrites plans for the rules of
# Gigascope.

NUMERIC = (ex.Type.INT, ex.Type.FLOAT)

SHORT = 16
"""Most values of an IN list that become equalities. A kernel compares a few values faster than it searches a set."""


def unary(op: str, operand: ex.Expr) -> ex.Expr | None:
    """Binds a unary operator; None if it does not apply to the type."""
    if op == "!":
        op = "NOT" if operand.type is ex.Type.BOOL else "~"
    if op == "NOT" and operand.type is ex.Type.BOOL:
        return ex.Unary(ex.Type.BOOL, "NOT", operand)
    if op == "-" and operand.type in NUMERIC:
        if isinstance(operand, ex.Const) and isinstance(operand.value, int | float):
            return ex.Const(operand.type, -operand.value, operand.param and f"-{operand.param}")
        return ex.Unary(operand.type, "-", operand)
    if op == "~" and operand.type is ex.Type.INT:
        return ex.Unary(ex.Type.INT, "~", operand)
    return None


def binary(op: str, left: ex.Expr, right: ex.Expr) -> ex.Expr | None:
    """Binds a binary operator; None if it does not apply to the types.
    Raises ValueError if a string compared with an address or an instant is none; the message is the string."""
    if op in ex.COMPARISON:
        left, right = addressed(left, right), addressed(right, left)
    left, right = typed(left, right.type), typed(right, left.type)
    if op in ex.LOGICAL:
        return ex.Binary(ex.Type.BOOL, op, left, right) if left.type is right.type is ex.Type.BOOL else None
    if op in ex.COMPARISON:
        numbers = left.type in NUMERIC and right.type in NUMERIC
        return ex.Binary(ex.Type.BOOL, op, left, right) if numbers or left.type is right.type else None
    if op in ex.ARITHMETIC:
        if left.type is ex.Type.INT and right.type is ex.Type.INT:
            return ex.Binary(ex.Type.INT, op, left, right)
        if ex.Type.INSTANT in (left.type, right.type):
            return _moved(op, left, right)
        numbers = left.type in NUMERIC and right.type in NUMERIC and op != "%"
        return ex.Binary(ex.Type.FLOAT, op, left, right) if numbers else None
    return _bits(op, left, right) if op in ex.BITWISE else None


def _moved(op: str, left: ex.Expr, right: ex.Expr) -> ex.Expr | None:
    """An instant and a length in us is an instant, and the difference of two is a length."""
    types = (left.type, op, right.type)
    moment, number = ex.Type.INSTANT, ex.Type.INT
    if types in ((moment, "+", number), (moment, "-", number), (number, "+", moment)):
        return ex.Binary(moment, op, left, right)
    return ex.Binary(number, op, left, right) if types == (moment, "-", moment) else None


def _bits(op: str, left: ex.Expr, right: ex.Expr) -> ex.Expr | None:
    if left.type is ex.Type.INT and right.type is ex.Type.INT:
        return ex.Binary(ex.Type.INT, op, left, right)
    if op in ("&", "|"):
        if left.type is right.type is ex.Type.BOOL:
            return ex.Binary(ex.Type.BOOL, "AND" if op == "&" else "OR", left, right)
        if left.type is right.type is ex.Type.IP:
            return ex.Binary(ex.Type.IP, op, left, right)
    return None


def addressed(side: ex.Expr, other: ex.Expr) -> ex.Expr:
    """Parses a string that is compared with an address or an instant. Returns any other operand unchanged.
    Raises ValueError if the string is none; the message is the string."""
    if not (isinstance(side, ex.Const) and isinstance(side.value, str) and other.type in _TEXTS):
        return side
    try:
        return ex.Const(other.type, _TEXTS[other.type](side.value), side.param)
    except ValueError:
        raise ValueError(side.value) from None


_TEXTS: dict[ex.Type, Callable[[str], int | bytes]] = {
    ex.Type.IP: pack_ip,
    ex.Type.MAC: parse_mac,
    ex.Type.INSTANT: parse_moment,
}
"""Type whose values queries write as strings -> its parser."""


def typed(expr: ex.Expr, kind: ex.Type) -> ex.Expr:
    """Gives NULL the type of the other operand. Returns any other operand unchanged."""
    return ex.Const(kind, None) if isinstance(expr, ex.Const) and expr.value is None else expr


def number_of(condition: ex.Expr) -> ex.Expr:
    """Converts a condition to a number: 1 if true, 0 if false, NULL if NULL."""
    one, zero, null = (ex.Const(ex.Type.INT, value) for value in (1, 0, None))
    return ex.Case(ex.Type.INT, ((condition, one), (ex.Unary(ex.Type.BOOL, "NOT", condition), zero)), null)


def any_of(operand: ex.Expr, equals: Sequence[ex.Expr]) -> ex.Expr:
    """Builds `operand IN [values]`: an OR of equalities for a short list, a set of constants for a long list. A NULL in
    the list stays an equality, which is never true and turns false into NULL; a parameter too, since no plan shows its
    value."""
    if len(equals) <= SHORT:
        return ex.joined("OR", equals)
    kinds: dict[ex.Type, dict[int | float | bool | str | bytes, None]] = {}
    others = []
    for equal in equals:
        assert isinstance(equal, ex.Binary)
        value = equal.right
        if equal.left == operand and isinstance(value, ex.Const) and value.value is not None and not value.param:
            kind = ex.Type.FLOAT if ex.Type.FLOAT in (operand.type, value.type) else value.type
            kinds.setdefault(kind, {})[float(value.value) if kind is ex.Type.FLOAT else value.value] = None
        else:
            others.append(equal)
    parts: list[ex.Expr] = [ex.OneOf(ex.Type.BOOL, operand, kind, tuple(values)) for kind, values in kinds.items()]
    parts += others
    return ex.joined("OR", parts)


def negate(condition: ex.Expr, negated: bool) -> ex.Expr:
    """Returns the condition, or its negation if `negated`."""
    return ex.Unary(ex.Type.BOOL, "NOT", condition) if negated else condition


# Names and types of expressions

LITERALS = {
    "int": ex.Type.INT,
    "float": ex.Type.FLOAT,
    "string": ex.Type.STRING,
    "bool": ex.Type.BOOL,
    "null": ex.Type.STRING,
    "timestamp": ex.Type.INSTANT,
}


@dataclass
class Scope:
    """Names that expressions of one statement may use."""

    text: Text
    sources: Mapping[str, Mapping[str, ex.Expr]]  # range variable -> column name -> expression over the input row
    # group-by variable -> expression; a group-by variable hides a column of its name
    keys: Mapping[str, ex.Expr] = field(default_factory=dict)
    # binds an aggregate call to a column; None if the clause allows no aggregates
    on_aggregate: Callable[[syntax.Call, Sequence[AggregateFunction]], ex.Expr] | None = None
    where: str = "here"  # the clause, for the message about a misplaced aggregate
    names: Names = field(default_factory=Names)
    # binds a function over the rows before to a column; None if the clause allows none
    on_over: Callable[[syntax.Over, Scope], ex.Expr] | None = None
    on_state: Callable[[StateFunction], None] | None = None  # for every stateful function; None if none is allowed
    aliases: Mapping[str, str] = field(default_factory=dict)  # name of a select item -> hint for a clause that uses it
    rows: Scope | None = None  # for a scope over groups, the scope of the input rows, for messages
    merged: Mapping[str, ex.Expr] = field(default_factory=dict)  # column of USING -> its value, without a qualifier
    # over joined rows: what the join matches by, or CASE with the value of an equality -> the column that has it
    whole: Mapping[ex.Expr, ex.Expr] = field(default_factory=dict)
    units: Units = field(default_factory=dict)
    # name of a select item -> its value, where no column has the name; those that were asked for, and their nodes
    named: Mapping[str, Callable[[], ex.Expr]] = field(default_factory=dict)
    known: dict[str, ex.Expr] = field(default_factory=dict)
    spent: list[int] = field(default_factory=lambda: [0])

    def bind(self, node: syntax.Expression) -> ex.Expr:
        """Binds one expression.
        Raises QueryError if a name is unknown or ambiguous, or an operator does not apply to its types."""
        if isinstance(node, syntax.Literal):
            return self._literal(node)
        if isinstance(node, syntax.Name):
            return self._name(node)
        if isinstance(node, syntax.UnaryOp):
            return self._fitting(node, node.op, unary(node.op, operand := self.bind(node.operand)), operand)
        if isinstance(node, syntax.BinaryOp):
            left, right = self._operands(node)
            return self._known(self._operation(node, node.op, left, right))
        if isinstance(node, syntax.Call):
            return self._call(node)
        if isinstance(node, syntax.Over):
            if self.on_over is None:
                hint = "name a query with OVER in its select items, and read that column in another query"
                joined = "write OVER into a query that one side of the join reads"
                message = "OVER stands in select items of one source"
                raise self.text.error(node.place, message, joined if len(self.sources) > 1 else hint)
            return self.on_over(node, self)
        if isinstance(node, syntax.Parameter):
            return self._parameter(node)
        if isinstance(node, syntax.Defined):
            return self._defined(node)
        if isinstance(node, syntax.Property):
            return self._property(node)
        if isinstance(node, syntax.Duration):
            raise alone(node, self.text)
        return self._wide(node)

    def _known(self, bound: ex.Expr) -> ex.Expr:
        return self.whole.get(bound, bound) if self.whole else bound

    def all(self, *nodes: syntax.Expression) -> list[ex.Expr]:
        """Binds several expressions. Reports the errors of all together."""
        return attempt_all([partial(self.bind, node) for node in nodes])

    def predicate(self, node: syntax.Expression, clause: str) -> ex.Expr:
        bound = typed(self.bind(node), ex.Type.BOOL)
        if bound.type is not ex.Type.BOOL:
            message = f"{clause} needs a condition, this is of type {bound.type}"
            raise self.text.error(place_of(node), message, of_condition(node, bound))
        return bound

    def _operands(self, node: syntax.BinaryOp) -> list[ex.Expr]:
        sides = (node.left, node.right)
        for at, side in enumerate(sides):
            if length_of(side) is not None and not takes(node.op, at):
                raise alone(side, self.text)
        return self._together(*sides)

    def _together(self, *nodes: syntax.Expression) -> list[ex.Expr]:
        """Binds expressions of one unit. A duration takes the unit of the first other expression that has one."""
        lengths = [length_of(node) is not None for node in nodes]
        if not any(lengths):
            return self.all(*nodes)
        others = [node for node, length in zip(nodes, lengths, strict=True) if not length]
        if not others:
            raise alone(nodes[0], self.text)
        bound = dict(zip(others, self.all(*others), strict=True))
        units = {node: unit_in(expr, self.units) for node, expr in bound.items()}
        beside = next((node for node, unit in units.items() if unit is not None), others[0])
        return [
            counted(node, beside, units[beside], self.text) if length else bound[node]
            for node, length in zip(nodes, lengths, strict=True)
        ]

    def constant(
        self, node: syntax.Expression, what: str, beside: tuple[syntax.Expression, Fraction | None] | None = None
    ) -> int | float:
        """Evaluates a constant expression to a number. Raises QueryError if the expression is no constant number, or a
        parameter without a value. `beside`: (expression, unit in ns) that gives a duration its unit; None if a duration
        is an error."""
        bound = counted(node, *beside, self.text) if beside and length_of(node) is not None else self.bind(node)
        if isinstance(bound, ex.Param):
            hint = f"give --param {bound.name}=VALUE"
            raise self.text.error(place_of(node), f"{what} needs the value of ${bound.name}", hint)
        if not (isinstance(bound, ex.Const) and isinstance(bound.value, int | float)) or isinstance(bound.value, bool):
            raise self.text.error(place_of(node), f"{what} needs a constant number")
        return bound.value

    def _literal(self, node: syntax.Literal) -> ex.Expr:
        if node.kind == "ip":
            return ex.Const(ex.Type.IP, pack_ip(str(node.value)))
        return ex.Const(LITERALS[node.kind], node.value)

    def _name(self, node: syntax.Name) -> ex.Expr:
        if not node.qualifier:
            if node.name in self.keys:
                return self.keys[node.name]
            if node.name in self.merged:
                return _placed(self.merged[node.name], node)
            aliases = [alias for alias, columns in self.sources.items() if node.name in columns]
            if len(aliases) > 1:
                choices = " or ".join(f"{alias}.{node.name}" for alias in aliases)
                raise self.text.error(node.place, f"column {node.name} is ambiguous", f"write {choices}")
            if aliases:
                return _placed(self.sources[aliases[0]][node.name], node)
            if node.name in self.named:
                return self._of_item(node)
            raise self._unknown(node, {name for columns in self.sources.values() for name in columns} | set(self.keys))
        alias = node.qualifier if node.qualifier in self.sources else node.qualifier.split(".")[-1]
        if alias not in self.sources and (known := self._of_tshark(node)) is not None:
            return self._name(known)
        if alias not in self.sources:
            if not self.sources and node.name in self.keys:
                return self.keys[node.name]
            if self.rows is not None:
                raise self._unknown(node, set(self.keys))
            hint = sugar.of_tshark(f"{node.qualifier}.{node.name}") or nearest(node.qualifier, self.sources)
            raise self.text.error(node.place, f"no source is called {node.qualifier}", hint)
        columns = self.sources[alias]
        if node.name not in columns:
            raise self._unknown(node, set(columns))
        return _placed(columns[node.name], node)

    def _of_item(self, node: syntax.Name) -> ex.Expr:
        """Returns the value of a select item. What names stand for is bounded: each reference has all of it."""
        bound = self.known[node.name] = self.known.get(node.name) or self.named[node.name]()
        self.spent[0] += bound.size
        if self.spent[0] > limits.EXPRESSION_NODES * 10:
            self.spent[0] = -self.spent[0] * 100  # said once
            hint = f"compute {node.name} in a query of its own, and read that"
            raise self.text.error(node.place, f"what {node.name} stands for is too large, as often as it stands", hint)
        return bound

    def _of_tshark(self, node: syntax.Name) -> syntax.Name | None:
        """Returns the column that has a field of tshark, such as `ip.src`, also behind a range variable."""
        first, _, rest = node.qualifier.partition(".")
        owner, name = (
            (first, f"{rest}.{node.name}") if rest and first in self.sources else ("", f"{node.qualifier}.{node.name}")
        )
        column = sugar.TSHARK.get(name.lower())
        return None if column is None else replace(node, name=column, qualifier=owner)

    def _unknown(self, node: syntax.Name, candidates: set[str]) -> QueryError:
        if self.rows is not None:
            return self._ungrouped(node, self.rows)
        if not node.qualifier and node.name in self.aliases:
            return self.text.error(node.place, f"unknown column {node.name}", self.aliases[node.name])
        assumed = [alias for alias in self.names.assumed if alias in self.sources]
        if assumed:
            what = f"nothing is called {assumed[0]}, so it is read as a link of packets"
            message = f"unknown column {node.name}; {what}"
            hint = f"name the file of {assumed[0]} too if it is a query, give --schema FILE if it is a PROTOCOL"
            return self.text.error(node.place, message, hint)
        hint = of_name(node.name) or nearest(node.name, candidates)
        hint = hint or f"`SELECT *` has the columns; a text stands between single quotes: '{node.name}'"
        return self.text.error(node.place, f"unknown column {node.name}", hint)

    def _ungrouped(self, node: syntax.Name, rows: Scope) -> QueryError:
        """Builds the error of a name over groups that is no group-by variable and stands outside any aggregate."""
        message = f"{node.name} is no group-by variable of this query"
        close = nearest(node.name, self.keys)
        if not node.qualifier and node.name in self.aliases:
            return self.text.error(node.place, message, self.aliases[node.name])
        try:
            rows.bind(node)
        except QueryError as error:
            # A name close to a variable is a misspelling of it. Any other name is an unknown column.
            return self.text.error(node.place, message, close) if close.startswith("did") else error
        written = print_expression(node)
        if close.startswith("did"):
            hint = close
        elif self.keys:
            hint = f"add {written} to GROUP BY, or select an aggregate of it, such as max({written})"
        else:
            clock = next((f"{alias}." for alias in rows.sources if len(rows.sources) > 1), "")
            epoch = node.name in ("time", "timestamp") and not node.qualifier
            hint = "add GROUP BY ALL: of each value of the items without an aggregate"
            hint = hint if epoch else f"add GROUP BY {clock}time/60 AS tb, {written}"
        return self.text.error(node.place, message, hint)

    def _operation(
        self, node: syntax.Expression, op: str, left: ex.Expr, right: ex.Expr, beside: syntax.Expression | None = None
    ) -> ex.Expr:
        """Binds an operator. `beside`: the left operand as written, where `node` is only the right one."""
        if op in ("=", "<>"):
            left, right = sugar.protocol_number(left, right), sugar.protocol_number(right, left)
        try:
            bound = binary(op, left, right) if self._is_length(node, left, right) else None
            return self._fitting(node, op, bound, left, right)
        except ValueError as error:
            kind, other = (left.type, "left") if left.type in _TEXTS else (right.type, "right")
            operand = beside or getattr(node, other, None) or getattr(node, "operand", None)
            shown = print_expression(operand) if operand is not None else "it"
            hint = of_address(str(error), kind, shown, op == "<>")
            what = "no instant" if kind is ex.Type.INSTANT else "no address"
            raise self.text.error(place_of(node), f"{str(error)!r} is {what}", hint) from None

    def _is_length(self, node: syntax.Expression, left: ex.Expr, right: ex.Expr) -> bool:
        """Whether a number beside an instant is a length of time: a duration, or the difference of two instants."""
        if not isinstance(node, syntax.BinaryOp) or node.op not in ("+", "-"):
            return True
        if (left.type, right.type) == (ex.Type.INSTANT, ex.Type.INT):
            number, written = right, node.right
        elif (left.type, right.type) == (ex.Type.INT, ex.Type.INSTANT):
            number, written = left, node.left
        else:
            return True
        return length_of(written) is not None or unit_in(number, self.units) == 1000

    def _fitting(self, node: syntax.Expression, op: str, bound: ex.Expr | None, *operands: ex.Expr) -> ex.Expr:
        if bound is None:
            types = " and ".join(operand.type for operand in operands)
            plural = "types" if len(operands) > 1 else "type"
            hint = of_types(op, node, operands, [unit_in(operand, self.units) for operand in operands])
            raise self.text.error(place_of(node), f"{op} does not apply to {plural} {types}", hint)
        if op in ex.COMPARISON and isinstance(node, syntax.BinaryOp):
            self._note_null(node)
        if op in ("<<", ">>") and isinstance(operands[1], ex.Const) and not SHIFT.admits(operands[1].value):
            said = f"{print_expression(node)} is NULL in every row: the width of a shift is {SHIFT.says}"
            self.names.notes[spot(node)] = said
        if op == "/" and self._cuts(bound, *operands):
            assert isinstance(node, syntax.BinaryOp)
            ratio = replace(node, left=syntax.Call("FLOAT", (node.left,)))
            said = f"{print_expression(node)} is a whole number, cut off at the point"
            self.names.notes[spot(node)] = f"{said}: for the ratio write {print_expression(ratio)}"
        if op in ("/", "%") and isinstance(operands[1], ex.Const) and operands[1].value == 0 and not operands[1].param:
            self.names.notes[spot(node)] = f"{print_expression(node)} is NULL in every row: it divides by 0"
        return bound

    def _cuts(self, bound: ex.Expr, divided: ex.Expr, divisor: ex.Expr) -> bool:
        """Whether a division of whole numbers by what is no constant cuts the ratio that SQL would give. What is
        multiplied by a constant before, as per cent, is meant to be whole, and nothing is cut off 0."""
        own = self.names.defines.get("dialect", self.names.context.dialect) != "gigascope"
        scaled = isinstance(divided, ex.Binary) and divided.op == "*"
        scaled = scaled and any(isinstance(side, ex.Const) for side in divided.children())
        scaled = scaled or (isinstance(divided, ex.Const) and divided.value == 0)
        return own and bound.type is ex.Type.INT and not isinstance(divisor, ex.Const | ex.Param) and not scaled

    def _note_null(self, node: syntax.BinaryOp) -> None:
        for value, other in ((node.left, node.right), (node.right, node.left)):
            if value == syntax.Literal("null", None):
                test = f"{print_expression(other)} IS {'NOT ' if node.op == '<>' else ''}NULL"
                self.names.notes[spot(node)] = f"{print_expression(node)} is never true: write {test}"

    def _wide(self, node: syntax.Expression) -> ex.Expr:
        """Binds the constructs of SQL that GSQL lacks: IS NULL, IN, BETWEEN, LIKE and CASE."""
        if isinstance(node, syntax.IsNull):
            return negate(ex.Unary(ex.Type.BOOL, "IS NULL", self.bind(node.operand)), node.negated)
        if isinstance(node, syntax.InList):
            if len(node.values) > limits.IN_VALUES:
                hint = "keep the values in a watch list and join it (docs/language/joins.md)"
                said = f"IN takes at most {limits.IN_VALUES:,} values, not {len(node.values):,}"
                raise self.text.error(place_of(node), said, hint)
            operand, *values = self._together(node.operand, *node.values)
            pairs = zip(node.values, values, strict=True)
            equals = [self._operation(written, "=", operand, value, node.operand) for written, value in pairs]
            return negate(any_of(operand, equals), node.negated)
        if isinstance(node, syntax.Between):
            operand, low, high = self._together(node.operand, node.low, node.high)
            above, below = self._operation(node, ">=", operand, low), self._operation(node, "<=", operand, high)
            return negate(ex.Binary(ex.Type.BOOL, "AND", above, below), node.negated)
        if isinstance(node, syntax.Like):
            lower = isinstance(node.operand, syntax.Call) and node.operand.name == "lower"  # ILIKE is LIKE of it
            bare = syntax.children(node.operand)[0] if lower else node.operand
            operand = self.bind(bare)
            if operand.type is not ex.Type.STRING and (hint := of_like(operand, replace(node, operand=bare))):
                raise self.text.error(place_of(node), f"LIKE compares strings, not {operand.type}", hint)
            arguments = self.all(node.operand, node.pattern)
            overloads = self.names.context.catalog.named("like")
            return negate(self._function("like", node, arguments, overloads), node.negated)
        if isinstance(node, syntax.Case):
            return self._case(node)
        if isinstance(node, syntax.Star):
            raise self.text.error(node.place, "`*` stands for all columns and can only be a select item")
        raise TypeError(type(node).__name__)

    def _case(self, node: syntax.Case) -> ex.Expr:
        operand = self.bind(node.operand) if node.operand is not None else None
        branches = []
        for when, then in node.branches:
            met = self.predicate(when, "WHEN") if operand is None else None
            branches.append((met or self._operation(when, "=", operand or self.bind(when), self.bind(when)), then))
        values = [self.bind(then) for _, then in branches]
        values.append(self.bind(node.otherwise) if node.otherwise is not None else ex.Const(ex.Type.STRING, None))
        whens = [when for when, _ in branches]
        *thens, otherwise = self.of_one_type(values, "CASE", node.place)
        return self._known(ex.Case(otherwise.type, tuple(zip(whens, thens, strict=True)), otherwise))

    def of_one_type(self, values: Sequence[ex.Expr], what: str, place: syntax.Place) -> list[ex.Expr]:
        """Returns values of one type: integers become floats beside floats, NULL has the type of the others."""
        types = {value.type for value in values if not (isinstance(value, ex.Const) and value.value is None)}
        kind = ex.Type.FLOAT if types == set(NUMERIC) else min(types, default=ex.Type.STRING)
        if len(types) > 1 and kind is not ex.Type.FLOAT:
            raise self.text.error(place, f"{what} has values of the types {' and '.join(sorted(types))}")
        return [fitted(value, kind, False) or value for value in values]

    def _word(self, node: syntax.Call, word: sugar.Word) -> ex.Expr:
        """Binds a word of SQL that is made of what there is."""
        if not word.least <= len(node.arguments) <= word.most:
            number = f"{word.least}" if word.least == word.most else f"{word.least} to {word.most:,}"
            said = f"{node.name} takes {number} argument{'s' * (word.most > 1)}, not {len(node.arguments)}"
            raise self.text.error(node.place, said)
        bound = self._together(*node.arguments) if len(node.arguments) > 1 else self.all(*node.arguments)
        if all(value.type is not ex.Type.STRING for value in bound[:1]):
            bound = [self._addressed(value, bound[0]) for value in bound]
        values = self.of_one_type(bound, node.name, node.place)
        allowed = NUMERIC[:1] if node.name.lower() == "mod" else NUMERIC
        if word.numbers and any(value.type not in allowed for value in values):
            kind = "whole numbers" if len(allowed) == 1 else "numbers"
            raise self.text.error(node.place, f"{node.name} takes {kind}, not {values[0].type}")
        made = word.make(values)
        if made.size > limits.EXPRESSION_NODES:
            hint = "compute a part of it in a query of its own"
            raise self.text.error(node.place, f"{node.name} is too large: it has its arguments several times", hint)
        return self._known(made)

    def _addressed(self, value: ex.Expr, other: ex.Expr) -> ex.Expr:
        try:
            return addressed(value, other)
        except ValueError:
            return value

    def _parameter(self, node: syntax.Parameter) -> ex.Expr:
        if node.name not in self.names.params:
            hint = nearest(node.name, self.names.params) or f"write PARAM {{ {node.name} uint; }} before SELECT"
            raise self.text.error(node.place, f"the parameter ${node.name} is not declared", hint)
        kind, value = self.names.params[node.name]
        if value is None:
            return ex.Param(kind, node.name, spot(node))
        return ex.Const(kind, pack_ip(str(value)) if kind is ex.Type.IP else value, node.name)

    def _defined(self, node: syntax.Defined) -> ex.Expr:
        if node.name not in self.names.defines:
            hint = nearest(node.name, self.names.defines)
            raise self.text.error(node.place, f"#{node.name}: DEFINE has no entry {node.name}", hint)
        return ex.Const(ex.Type.STRING, self.names.defines[node.name])

    def _property(self, node: syntax.Property) -> ex.Expr:
        """Binds a property of the links: a constant if all links agree, else a CASE on the link of the row."""
        links = self.names.context.links
        if not self.names.links:
            message = f"@{node.name}: only a query that reads links has their properties"
            raise self.text.error(node.place, message, "select it in the query that reads the links")
        if links.names is None and not links.properties:
            return ex.Param(ex.Type.STRING, f"@{node.name}")
        values = {}
        for link in self.names.links:
            properties = {word.lower(): value for word, value in links.of(links.properties, link, {}).items()}
            properties |= {"interface": link, "name": link}
            if node.name.lower() not in properties:
                hint = f'write {node.name} = "..." under {config.section_of(link, "properties")}'
                raise self.text.error(node.place, f"@{node.name}: link {link} has no such property", hint)
            values[link] = ex.Const(ex.Type.STRING, properties[node.name.lower()])
        if len(set(values.values())) == 1:
            return next(iter(values.values()))
        interface = ex.Column(ex.Type.STRING, "interface")
        branches = tuple(
            (ex.Binary(ex.Type.BOOL, "=", interface, ex.Const(ex.Type.STRING, link)), v) for link, v in values.items()
        )
        return ex.Case(ex.Type.STRING, branches, ex.Const(ex.Type.STRING, None))

    def _call(self, node: syntax.Call) -> ex.Expr:
        overloads = self.names.context.catalog.named(node.name)
        aggregates = [overload for overload in overloads if isinstance(overload, AggregateFunction)]
        if aggregates:
            if self.on_aggregate is None:
                hint = "HAVING behind GROUP BY asks of groups" if self.where == "WHERE or GROUP BY" else ""
                raise self.text.error(node.place, f"{node.name}: an aggregate cannot stand in {self.where}", hint)
            return self.on_aggregate(node, aggregates)
        if node.star or node.distinct or node.over:
            kind = "a superaggregate" if node.over else "an aggregate"
            raise self.text.error(node.place, f"{node.name} is not {kind}", nearest(node.name, NATIVE))
        own = any(overload.origin != "built-in" for overload in overloads)
        if not own and (moment := node.name.lower()) in times.WORDS:
            time, cut = times.parts(moment, node, self.text)
            return self._known(times.bind(moment, node, cut, self.bind(time), self.units, self.text))
        if not overloads and (word := sugar.WORDS.get(node.name.lower())) is not None:
            return self._word(node, word)
        if not overloads:
            hint = of_function(node, set(self.names.context.catalog.names()))
            raise self.text.error(node.place, f"no function is called {node.name}", hint)
        return self._function(node.name, node, self.all(*node.arguments), overloads)

    def overload(
        self, name: str, node: syntax.Expression, arguments: Sequence[ex.Expr], overloads: Sequence[Overload]
    ) -> tuple[Overload, list[ex.Expr]]:
        """Selects the overload that takes the arguments of a call. Returns it, and the arguments as it takes them."""
        chosen = choose(written(overloads, isinstance(node, syntax.Call) and node.brackets), arguments)
        if chosen is None:
            accepted = " or ".join(dict.fromkeys(f"({', '.join(function.parameters)})" for function in overloads))
            types = ", ".join(argument.type for argument in arguments)
            raise self.text.error(
                place_of(node), f"{name} takes {accepted}, not ({types})", _of_text(overloads, arguments)
            )
        require_limits(*chosen, syntax.children(node), self.text)
        return chosen

    def _function(
        self, name: str, node: syntax.Expression, arguments: list[ex.Expr], overloads: Sequence[Overload]
    ) -> ex.Expr:
        brackets = isinstance(node, syntax.Call) and node.brackets
        if any(isinstance(each, Function) and each.step == "day" for each in overloads):
            time = arguments[0] if arguments else None
            if time is not None and time.type is ex.Type.INSTANT:
                arguments = [in_seconds(time, self.units, syntax.children(node)[0], self.text), *arguments[1:]]
        function, fitted = self.overload(name, node, arguments, overloads)
        if isinstance(function, StateFunction):
            if self.on_state is None:
                hint = "write it into a query with GROUP BY, CLEANING_WHEN and CLEANING_BY"
                message = f"{name}: Lowwater does not run a stateful function in {self.where}"
                raise self.text.unsupported(place_of(node), message, hint)
            self.on_state(function)
            return ex.StateCall(function.returns, function, tuple(fitted), spot(node))
        assert isinstance(function, Function)
        if function.step == "day":
            fitted[0] = in_seconds(fitted[0], self.units, syntax.children(node)[0], self.text)
        for position in function.constant:
            self._check_constant(node, function, position, fitted[position])
        if brackets and not function.predicate:
            raise self.text.error(place_of(node), f"{name} is no predicate", f"write {name}(...)")
        bound = ex.Call(function.returns, function, tuple(fitted), spot(node))
        # The manual calls some predicates as functions that return 1 or 0.
        return number_of(bound) if function.predicate and isinstance(node, syntax.Call) and not brackets else bound

    def _check_constant(self, node: syntax.Expression, function: Function, position: int, argument: ex.Expr) -> None:
        if not isinstance(argument, ex.Const | ex.Param):
            raise self.text.error(place_of(node), f"argument {position + 1} of {function.name} must be a constant")
        if position in function.files and isinstance(argument, ex.Const) and isinstance(argument.value, str):
            self.text.require_inside(argument.value, place_of(node), self.names.context.folders)
        if function.check is None or not isinstance(argument, ex.Const) or argument.value is None:
            return
        try:
            function.check(argument.value)
        except ValueError as error:
            raise self.text.error(place_of(node), f"argument {position + 1} of {function.name}: {error}") from None


def _placed(expr: ex.Expr, node: syntax.Name) -> ex.Expr:
    """Sets the place of a name on the columns that the name reads."""
    return ex.rewrite(expr, lambda part: replace(part, place=spot(node)) if isinstance(part, ex.Column) else part)


# Aggregate calls


def bind_aggregate(call: syntax.Call, overloads: Sequence[AggregateFunction], rows: Scope) -> Aggregate:
    """Binds an aggregate call. Returns the aggregate with an empty name; the caller names its column. Raises QueryError
    if no aggregate of this name takes the arguments. `overloads`: the aggregates of this name, at least one."""
    name = overloads[0].name
    native = NATIVE.get(name)
    counts = native is not None and native.fold is None
    if call.star and not counts:
        raise rows.text.error(call.place, f"{call.name}(*) means nothing", "write count(*): only count counts rows")
    if call.brackets:
        raise rows.text.error(call.place, f"{call.name} is an aggregate, written {call.name}(...)")
    if call.star or (counts and not call.arguments):
        return Aggregate("", name, None, ex.Type.INT, place=spot(call))
    arguments = [rows.bind(argument) for argument in call.arguments]
    if call.distinct:
        distinct = native.distinct if native is not None else ""
        if not distinct:
            hint = "write count(DISTINCT x): only values are counted so"
            raise rows.text.error(call.place, f"{name}(DISTINCT ...) is not known", hint)
        overloads = rows.names.context.catalog.aggregates_named(distinct)
        native = NATIVE.get(overloads[0].name)
    sums = native is not None and native.sums
    if sums and len(arguments) == 1 and arguments[0].type is ex.Type.BOOL:
        arguments = [number_of(arguments[0])]
    function, fitted = rows.overload(call.name, call, arguments, overloads)
    assert isinstance(function, AggregateFunction)
    for position in sorted({*range(function.taken, len(fitted)), *function.constant}):
        if not isinstance(fitted[position], ex.Const | ex.Param):
            raise rows.text.error(call.place, f"argument {position + 1} of {call.name} must be a constant")
    if function.native is None:
        argument = fitted[0] if fitted else None
        return Aggregate("", function.name, argument, function.returns, tuple(fitted[1:]), function, spot(call))
    (argument,) = fitted
    if argument.type is ex.Type.FLOAT and function.native.sums:
        argument = ex.Unary(ex.Type.FLOAT, ex.SUMMED, argument)
    return Aggregate("", function.name, argument, function.returns, place=spot(call))


def _of_text(overloads: Sequence[Overload], arguments: Sequence[ex.Expr]) -> str:
    """The hint for a function of numbers that gets a text, such as a 64-bit number of JSON by protobuf; else empty."""
    if overloads[0].name == "concat" and any(argument.type is ex.Type.BOOL for argument in arguments):
        return "conditions are joined by OR: write a OR b"
    if overloads[0].name == "concat" and any(argument.type in NUMERIC for argument in arguments):
        return "a number becomes no text: select the columns one by one, or ask `lowwater sql`"
    numbers = any(kind in ("int", "float") for function in overloads for kind in function.parameters)
    text = next((argument for argument in arguments if argument.type == "string"), None)
    if text is None or not numbers:
        return ""
    return "convert a text first: to_llong(...) reads it as a whole number"
