"""Builds the syntax tree of a query file while lark's parser reduces grammar rules.

Called by `parser`: one method per rule of `grammar.lark`. Errors carry only a line and a column here; `parser` adds the
file name and the text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import reduce
from ipaddress import IPv4Address, IPv6Address, ip_network
from itertools import pairwise
from typing import Any

from lark import Token, Transformer, v_args

from lowwater import errors, limits, link_names
from lowwater.gsql import nodes as syntax, words
from lowwater.gsql.printer import print_expression
from lowwater.instants import parse_moment

# Literals, and errors with a place

_LARGEST = 2**63 - 1


def place_of(token: Token) -> syntax.Place:
    """Returns the place at which a token begins."""
    return syntax.Place(token.line or 0, token.column or 0)


def fault(message: str, hint: str, place: syntax.Place) -> errors.QueryError:
    """Returns a QueryError with a place. `parser.parse` adds the file name and the text."""
    return errors.QueryError(message, hint, line=place.line, column=place.column)


def refusal(construct: str, hint: str, place: syntax.Place) -> errors.UnsupportedError:
    """Returns an UnsupportedError that names a construct. `parser.parse` adds the file name and the text. `construct`:
    the construct, as it ends the sentence "Lowwater does not run ..."."""
    return errors.UnsupportedError(f"Lowwater does not run {construct}", hint, line=place.line, column=place.column)


def unquoted(token: Token) -> str:
    """Returns the text between the quotes of a token."""
    text = str(token.value)
    return text[text.index("'") + 1 : -1].replace("''", "'")


def integer(token: Token, digits: str, base: int) -> syntax.Literal:
    """Returns an integer literal. Raises QueryError if the number does not fit 64 bits. `base`: the base of the digits,
    10 or 16."""
    # `int` refuses thousands of digits, so the length is checked first.
    digits = digits.lstrip("0") or "0"
    if len(digits) > 19 or (value := int(digits, base)) > _LARGEST:
        raise fault(
            f"the number {digits[:24]}{'...' if len(digits) > 24 else ''} does not fit a 64-bit integer",
            f"write {_LARGEST} at most",
            place_of(token),
        )
    return syntax.Literal("int", value, place_of(token))


def hexadecimal(token: Token) -> syntax.Literal:
    """Returns the integer literal of HEX'ff'."""
    digits = unquoted(token)
    if not digits or digits.strip("0123456789abcdefABCDEF"):
        raise fault(f"`{token.value}` holds no hexadecimal number", "write it as HEX'ff'", place_of(token))
    return integer(token, digits, 16)


def real(token: Token) -> syntax.Literal:
    """Returns a float literal. Raises QueryError if the number is larger than a float."""
    value = float(token.value)
    if math.isinf(value):
        raise fault(f"the number {token.value[:24]} is too large", "write 1.7e308 at most", place_of(token))
    return syntax.Literal("float", value, place_of(token))


def number_of(token: Token) -> int | float:
    """Returns the value of a number before a unit; the token is an INT or a FLOAT.
    Raises QueryError if the number does not fit 64 bits."""
    literal = integer(token, token.value.rstrip("UL"), 10) if token.type == "INT" else real(token)
    assert isinstance(literal.value, int | float)
    return literal.value


def address(token: Token) -> syntax.Literal:
    """Returns the literal of IP_VAL'...' or IPV6_VAL'...'.
    Raises QueryError if the text is not an address of this family."""
    text = unquoted(token)
    version, example = (4, "IP_VAL'192.0.2.1'") if token.type == "IP" else (6, "IPV6_VAL'2001:db8::1'")
    try:
        if "%" in text:
            raise ValueError("zone")
        IPv4Address(text) if version == 4 else IPv6Address(text)
    except ValueError:
        raise fault(f"`{text}` is not an IPv{version} address", f"write it as {example}", place_of(token)) from None
    return syntax.Literal("ip", text, place_of(token))


_LENGTHS = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)")


def interval(token: Token) -> syntax.Expression:
    """Returns the duration of INTERVAL '1 hour 30 minutes', INTERVAL '5' MINUTE or INTERVAL 5 MINUTE.
    Raises QueryError if the text is no length of time."""
    text = re.sub(r"(?i)^interval|'", " ", str(token.value)).strip()
    found = _LENGTHS.findall(text)
    units = {unit.lower() for _, unit in found}
    if not found or re.sub(r"[\s,]|and", "", _LENGTHS.sub("", text)) or not units <= {*words.UNITS, *_WEEKS}:
        uneven = bool(units & {"month", "months", "mon", "mons", "year", "years", "quarter", "quarters"})
        hint = "months have no length: date_trunc('month', t) cuts by them" if uneven else "write INTERVAL '10 minutes'"
        raise fault(f"`{token.value}` is no length of time", hint, place_of(token))
    lengths: list[syntax.Expression] = []
    for number, unit in found:
        times, name = (7, "days") if unit.lower() in _WEEKS else (1, unit.lower())
        value = float(number) if "." in number else integer(token, number, 10).value
        assert isinstance(value, int | float)
        lengths.append(syntax.Duration(value * times, name, place_of(token)))
    return reduce(lambda left, right: syntax.BinaryOp("+", left, right, place_of(token)), lengths)


_WEEKS = ("week", "weeks")


def moment(token: Token) -> syntax.Literal:
    """Returns the literal of TIMESTAMP '...'. Raises QueryError if the text is no instant in ISO 8601."""
    try:
        return syntax.Literal("timestamp", parse_moment(unquoted(token)), place_of(token))
    except ValueError:
        hint = "write it as TIMESTAMP '2026-01-31T13:00:00Z'"
        raise fault(f"`{unquoted(token)}` is no instant in microseconds", hint, place_of(token)) from None


# Expressions: the lower half of the grammar


CASTS = {
    **dict.fromkeys(("int", "integer", "bigint", "smallint", "long"), "LLONG"),
    **dict.fromkeys(("float", "double", "real", "numeric", "decimal"), "FLOAT"),
    **dict.fromkeys(("timestamp", "timestamptz", "datetime"), "to_timestamp"),
}
"""Type of SQL in lower case -> the function that converts to it."""

AGGREGATES = {"any_value": "FIRST", "bool_or": "or_aggr", "bool_and": "and_aggr", "mean": "avg"}
"""Aggregate of SQL in lower case -> its name here, where both take one argument."""


def named_here(call: syntax.Call) -> syntax.Call:
    """Returns the call of an aggregate that SQL calls otherwise by its name here."""
    name = call.name.lower()
    if name in AGGREGATES and len(call.arguments) == 1:
        return replace(call, name=AGGREGATES[name])
    if name == "string_agg" and len(call.arguments) == 2:
        return replace(call, name="CAT_aggr", arguments=call.arguments[::-1])
    return call


ORDERED = {"percentile_cont": "quantile_cont", "percentile_disc": "quantile_of"}
"""Aggregate with WITHIN GROUP in lower case -> its name here, with the value first."""


def within_group(call: syntax.Call, orders: Sequence[syntax.Order] | None) -> syntax.Call:
    """Returns the call of an aggregate with WITHIN GROUP by its name here."""
    name = call.name.lower()
    if orders is None:
        if name not in ORDERED:
            return call
        value = print_expression(call.arguments[0]) if len(call.arguments) > 1 else "x"
        hint = f"write {name}(0.95) WITHIN GROUP (ORDER BY {value})"
        raise fault(f"{name} needs WITHIN GROUP", hint, call.place)
    if name not in ORDERED:
        hint = "percentile_cont and percentile_disc take it; string_agg joins in the order of time"
        raise refusal(f"{call.name} with WITHIN GROUP", hint, call.place)
    if len(call.arguments) != 1 or len(orders) != 1:
        hint = f"write {name}(0.95) WITHIN GROUP (ORDER BY x)"
        raise fault(f"{name} takes one fraction, and one expression of ORDER BY", hint, call.place)
    (order,) = orders
    if order.descending:
        value = print_expression(order.expression)
        hint = f"count from the other end: 0.05 for 0.95, and ORDER BY {value}"
        raise refusal("WITHIN GROUP in descending order", hint, order.place)
    return replace(call, name=ORDERED[name], arguments=(order.expression, *call.arguments))


def filtered(call: syntax.Call, only: syntax.Expression | None) -> syntax.Call:
    """Returns an aggregate of the rows for which a condition is true: all of them ignore NULL, and count(x) too."""
    if only is None:
        return call
    first, *more = call.arguments or (syntax.Literal("int", 1, call.place),)
    at = 1 if call.name == "CAT_aggr" else 0
    values = [first, *more]
    values[at] = syntax.Case(((only, values[at]),), place=call.place)
    return replace(call, arguments=tuple(values), star=False)


FRAMES = {
    f"{word} {frame}": word == "ROWS"
    for word in ("ROWS", "RANGE")
    for frame in ("UNBOUNDED PRECEDING", "BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW")
}
"""Frame of OVER -> whether it ends with the row itself, and not with those that are equal in order."""


def _of_frame(frame: str, partition: Sequence[syntax.Expression]) -> str:
    """The window that a frame of OVER is."""
    by = f", PARTITION BY {', '.join(map(print_expression, partition))}" if partition else ""
    rows = re.match(r"ROWS (?:BETWEEN )?(\d+) PRECEDING(?: AND CURRENT ROW)?$", frame)
    if rows:
        return f"write a window behind the source: [RANGE {int(rows[1]) + 1} ROWS, SLIDE 1 ROWS{by}]"
    time = re.match(r"RANGE (?:BETWEEN )?INTERVAL '([^']+)' PRECEDING(?: AND CURRENT ROW)?$", frame)
    if time:
        return f"write a window behind the source, which moves in steps: [RANGE {time[1].lower()}, SLIDE 1 s, WA time]"
    if "FOLLOWING" in frame:
        return "what comes after a row is unknown: write ROWS UNBOUNDED PRECEDING for the rows so far, or group them"
    return "write ROWS UNBOUNDED PRECEDING for all rows so far, or a window: [RANGE 5 min, SLIDE 1 min, WA time]"


def over_rows(call: syntax.Call, only: syntax.Expression | None, over: syntax.Over | None) -> syntax.Expression:
    """Returns a call with FILTER and OVER, where it has them."""
    called = filtered(call, only)
    return called if over is None else replace(over, call=called, place=call.place)


def checked_name(token: Token) -> str:
    """Returns the text of a name token. A quoted name may be any word, keywords included.

    Raises:
        QueryError: the name holds other characters than letters, digits and `_`. Names become columns of tables.
    """
    name = str(token.value)
    if not (name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit()):
        hint = (
            "letters, digits and _, no digit first: names become columns of tables; strings stand between single quotes"
        )
        raise fault(f'the quoted name "{name}" cannot be used', hint, place_of(token))
    return name


def link_name(token: Token) -> str:
    """Returns the text of a link name. In quotes it may hold `.`, `-`, and a `/` before the name of an interface.
    Raises QueryError if the name holds any other character."""
    name = str(token.value)
    if not link_names.is_link_name(name):
        raise fault(f'"{name[:40]}" is not a valid name of a link', link_names.FORM, place_of(token))
    return name


@v_args(inline=True)
class ExpressionBuilder(Transformer[Token, syntax.QueryFile]):
    """Callbacks of the rules of expressions.

    Args:
        functions: names of functions that follow the case rule of keywords, in lower case: so the tree has them.
    """

    def __init__(self, functions: Iterable[str] = ()) -> None:
        super().__init__()
        self._spelled = words.spelled(functions)

    def _function(self, written: str) -> str:
        return self._spelled.get(written, written)

    def binary(self, left: syntax.Expression, op: Token, right: syntax.Expression) -> syntax.BinaryOp:
        return syntax.BinaryOp("<>" if op.value == "!=" else op.value, left, right, syntax.begin(left))

    def logical(self, *parts: Any) -> syntax.Expression:
        return syntax.chain(parts[1].value, parts[::2])

    def unary(self, op: Token, operand: syntax.Expression) -> syntax.UnaryOp:
        return syntax.UnaryOp(op.value, operand, place_of(op))

    def in_list(self, operand: syntax.Expression, negated: Token | None, *rest: Any) -> syntax.InList:
        return syntax.InList(operand, rest[-1], negated is not None, syntax.begin(operand))

    def between(self, operand: syntax.Expression, negated: Token | None, *rest: Any) -> syntax.Between:
        low, high = (part for part in rest if isinstance(part, syntax.Expression))
        return syntax.Between(operand, low, high, negated is not None, syntax.begin(operand))

    def like(self, operand: syntax.Expression, negated: Token | None, *rest: Any) -> syntax.Like:
        word, pattern = rest
        if word.value == "ILIKE":
            if not (isinstance(pattern, syntax.Literal) and isinstance(pattern.value, str)):
                raise fault("the pattern of ILIKE is no string", "write it as 'get %'", syntax.begin(pattern))
            operand = syntax.Call("lower", (operand,), place=syntax.begin(operand))
            pattern = replace(pattern, value=pattern.value.lower())
        return syntax.Like(operand, pattern, negated is not None, syntax.begin(operand))

    def is_null(self, operand: syntax.Expression, _is: Token, negated: Token | None, _null: Token) -> syntax.IsNull:
        return syntax.IsNull(operand, negated is not None, syntax.begin(operand))

    def case(self, keyword: Token, *parts: Any) -> syntax.Case:
        branches = tuple(part for part in parts if isinstance(part, tuple))
        operand = parts[0] if isinstance(parts[0], syntax.Expression) else None
        otherwise = next((part for part in parts[1:] if isinstance(part, syntax.Expression)), None)
        return syntax.Case(branches, operand, otherwise, place_of(keyword))

    def when(self, _when: Token, condition: syntax.Expression, _then: Token, value: syntax.Expression) -> Any:
        return condition, value

    def call(
        self,
        name: Token,
        arguments: tuple[syntax.Expression, ...] | None,
        within: tuple[syntax.Order, ...] | None = None,
        only: syntax.Expression | None = None,
        over: syntax.Over | None = None,
    ) -> syntax.Expression:
        written = syntax.Call(self._function(checked_name(name)), arguments or (), place=place_of(name))
        return over_rows(named_here(within_group(written, within)), only, over)

    def call_star(
        self, name: Token, _star: Token, only: syntax.Expression | None = None, over: syntax.Over | None = None
    ) -> syntax.Expression:
        return over_rows(syntax.Call(self._function(checked_name(name)), star=True, place=place_of(name)), only, over)

    def over(self, *parts: Any) -> syntax.Over:
        *_, per, orders, frame = parts
        if orders is not None and (len(orders) > 1 or orders[0].descending or orders[0].nulls_first):
            hint = "write one column of time: ORDER BY timestamp; LIMIT 10 PER tb keeps the first rows of each epoch"
            raise refusal("OVER in another order than that of time", hint, orders[-1].place)
        if frame is not None and frame.value not in FRAMES:
            raise refusal(f"OVER with the frame {frame.value}", _of_frame(str(frame.value), per or ()), place_of(frame))
        rows = frame is not None and FRAMES[frame.value]
        return syntax.Over(syntax.Call(""), per or (), orders[0].expression if orders else None, rows)

    def call_distinct(
        self, name: Token, _distinct: Token, argument: syntax.Expression, only: syntax.Expression | None = None
    ) -> syntax.Call:
        call = syntax.Call(self._function(checked_name(name)), (argument,), distinct=True, place=place_of(name))
        return filtered(call, only)

    def within(self, orders: tuple[syntax.Order, ...]) -> tuple[syntax.Order, ...]:
        return orders

    def filter(self, condition: syntax.Expression) -> syntax.Expression:
        return condition

    def cast(self, keyword: Token, operand: syntax.Expression, kind: Token) -> syntax.Call:
        name = CASTS.get(str(kind.value).lower())
        if name is None:
            hint = "cast to BIGINT, DOUBLE or TIMESTAMP; to_llong(x) reads a text, and numbers become no texts"
            if str(kind.value).lower() == "date":
                hint = f"write date_trunc('day', {print_expression(operand)})"
            raise fault(f"CAST knows no type {kind.value}", hint, place_of(kind))
        return syntax.Call(name, (operand,), place=place_of(keyword))

    def distinct_from(self, left: syntax.Expression, words: Token, right: syntax.Expression) -> syntax.Expression:
        differ = syntax.Call("is_distinct_from", (left, right), place=syntax.begin(left))
        return syntax.UnaryOp("NOT", differ, syntax.begin(left)) if "NOT" in words.value else differ

    def contained(self, operand: syntax.Expression, op: Token, net: syntax.Expression) -> syntax.Between:
        text = str(net.value) if isinstance(net, syntax.Literal) and net.kind in ("string", "ip") else ""
        try:
            network = ip_network(text, strict=False)
        except ValueError:
            hint = "write a network as a string: srcIP <<= '10.0.0.0/8'"
            raise fault("the right side of <<= is no network", hint, syntax.begin(net)) from None
        low, high = (syntax.Literal("string", str(end), syntax.begin(net)) for end in (network[0], network[-1]))
        return syntax.Between(operand, low, high, place=syntax.begin(operand))

    def concat(self, left: syntax.Expression, op: Token, right: syntax.Expression) -> syntax.Call:
        return syntax.Call("concat", (left, right), place=syntax.begin(left))

    def super_call(self, name: Token, arguments: tuple[syntax.Expression, ...] | None) -> syntax.Call:
        return syntax.Call(self._function(name.value[:-1]), arguments or (), over=True, place=place_of(name))

    def super_star(self, name: Token, _star: Token) -> syntax.Call:
        return syntax.Call(self._function(name.value[:-1]), star=True, over=True, place=place_of(name))

    def predicate(self, name: Token, arguments: tuple[syntax.Expression, ...] | None) -> syntax.Call:
        return syntax.Call(checked_name(name), arguments or (), brackets=True, place=place_of(name))

    def arguments(self, *arguments: syntax.Expression) -> tuple[syntax.Expression, ...]:
        return arguments

    def column(self, *parts: Token) -> syntax.Name:
        *qualifier, name = parts
        if len(qualifier) > 2:
            raise fault("a column name has at most three parts", "write `alias.column`", place_of(parts[0]))
        return syntax.Name(checked_name(name), ".".join(checked_name(token) for token in qualifier), place_of(parts[0]))

    def parameter(self, token: Token) -> syntax.Parameter:
        return syntax.Parameter(token.value[1:], place_of(token))

    def defined(self, token: Token) -> syntax.Defined:
        return syntax.Defined(token.value[1:], place_of(token))

    def property(self, token: Token) -> syntax.Property:
        return syntax.Property(token.value[1:], place_of(token))

    def integer(self, token: Token) -> syntax.Literal:
        return integer(token, token.value.rstrip("UL"), 10)

    def hexadecimal(self, token: Token) -> syntax.Literal:
        return hexadecimal(token)

    def float(self, token: Token) -> syntax.Literal:
        return real(token)

    def extract(self, _word: Token, part: Token, _of: Token, operand: syntax.Expression) -> syntax.Call:
        name = syntax.Literal("string", str(part.value).lower(), place_of(part))
        return syntax.Call("date_part", (name, operand), place=place_of(_word))

    def interval(self, token: Token) -> syntax.Expression:
        return interval(token)

    def moment(self, token: Token) -> syntax.Literal:
        return moment(token)

    def duration(self, number: Token, unit: Token) -> syntax.Duration:
        return syntax.Duration(number_of(number), str(unit.value), place_of(number))

    def string(self, token: Token) -> syntax.Literal:
        return syntax.Literal("string", unquoted(token), place_of(token))

    def true(self, token: Token) -> syntax.Literal:
        return syntax.Literal("bool", True, place_of(token))

    def false(self, token: Token) -> syntax.Literal:
        return syntax.Literal("bool", False, place_of(token))

    def null(self, token: Token) -> syntax.Literal:
        return syntax.Literal("null", None, place_of(token))

    def ip(self, token: Token) -> syntax.Literal:
        return address(token)


# Sources, windows and declarations: the middle of the grammar

Part = tuple[str, Any]
Sources = tuple[tuple[syntax.SourceRef, ...], tuple[Token | None, ...], syntax.Expression | tuple[syntax.Name, ...]]
"""All sources, the SQL join keyword before each but the first, None where a comma stands, and what ON or USING says."""


@v_args(inline=True)
class SourceBuilder(ExpressionBuilder):
    """Makes nodes of sources, windows and column declarations, one method per grammar rule. Holds no state."""

    def sources(self, *parts: Any) -> Sources:
        met = [part for part in parts if isinstance(part, syntax.Expression | tuple)]
        parts = tuple(part for part in parts if isinstance(part, syntax.SourceRef | Token))
        pairs = pairwise(parts)
        joins = (
            before if isinstance(before, Token) else None
            for before, part in pairs
            if isinstance(part, syntax.SourceRef)
        )
        return tuple(part for part in parts if isinstance(part, syntax.SourceRef)), tuple(joins), met[0] if met else ()

    def on(self, expression: syntax.Expression) -> syntax.Expression:
        return expression

    def using(self, *names: Token) -> tuple[syntax.Name, ...]:
        return tuple(syntax.Name(checked_name(name), "", place_of(name)) for name in names)

    def source(self, refs: tuple[syntax.SourceRef, ...], *parts: Any) -> syntax.SourceRef:
        alias = next((part for part in parts if isinstance(part, Token)), None)
        window = next((part for part in parts if isinstance(part, syntax.Window)), None)
        first, *others = refs
        return replace(
            first, alias=checked_name(alias) if alias is not None else "", window=window, union=tuple(others)
        )

    def union(self, first: syntax.SourceRef, *rest: Any) -> tuple[syntax.SourceRef, ...]:
        pairs = zip(rest[::2], rest[1::2], strict=True)
        return first, *(replace(ref, distinct=word.value == "UNION") for word, ref in pairs)

    def plain_source(self, *names: Token) -> syntax.SourceRef:
        if len(names) > 3:
            raise fault("a source has at most three parts", "write `link.PROTOCOL`", place_of(names[0]))
        *path, last = names
        host = checked_name(path[0]) if len(path) == 2 else ""
        links = tuple(link_name(token) for token in path[-1:])
        name = checked_name(last) if links else link_name(last)
        return syntax.SourceRef(name, links, host=host, place=place_of(names[0]))

    def host_source(self, host: Token, link: Token, name: Token) -> syntax.SourceRef:
        return syntax.SourceRef(checked_name(name), (link_name(link),), host=unquoted(host), place=place_of(host))

    def bracketed_source(self, *parts: Any) -> syntax.SourceRef:
        links, name = (part for part in parts if isinstance(part, tuple) or part.type == "NAME")
        texts = tuple(link_name(token) for token in links)
        return syntax.SourceRef(checked_name(name), texts, True, place=place_of(links[0]))

    def library_source(self, library: Token, _slash: Token, name: Token) -> syntax.SourceRef:
        return syntax.SourceRef(checked_name(name), library=checked_name(library), place=place_of(library))

    def names(self, *names: Token) -> tuple[Token, ...]:
        return names

    def alias(self, name: Token) -> Token:
        return name

    def window(self, *parts: Part | Token) -> syntax.Window:
        parts_by_kind: dict[str, Any] = {}
        partition: list[syntax.Name] = []
        for part in parts:
            if not isinstance(part, tuple):
                continue
            kind, value = part
            if kind == "PARTITION" or (kind == "" and partition):
                partition.append(value)
            elif kind == "" or kind in parts_by_kind:
                what = f"a second {kind}" if kind else f"the part `{value.name}`, which begins with no keyword"
                raise fault(f"the window holds {what}", words.WINDOW_FORM, value.place)
            else:
                parts_by_kind[kind] = value
        first = next(value for part in parts if isinstance(part, tuple) for value in part[1:])
        if "RANGE" not in parts_by_kind:
            raise fault("the window has no RANGE: how far it reaches", words.WINDOW_FORM, first.place)
        return syntax.Window(
            parts_by_kind.get("RANGE"),
            parts_by_kind.get("SLIDE"),
            parts_by_kind.get("WA"),
            tuple(partition),
            parts_by_kind.get("WHERE"),
            first.place,
        )

    def part(self, keyword: Token, *value: Any) -> Part:
        return str(keyword.type), value[-1]

    def counted(self, condition: syntax.Expression) -> Part:
        return "WHERE", condition

    def more_partition(self, column: syntax.Name) -> Part:
        return "", column

    def extent(self, number: Token, unit: Token | None) -> syntax.Extent:
        return syntax.Extent(number_of(number), checked_name(unit) if unit is not None else "", place_of(number))

    def protocol(self, *parts: Any) -> syntax.ProtocolDecl:
        name = next(part for part in parts if isinstance(part, Token) and part.type == "NAME")
        parents = next((part for part in parts if isinstance(part, list)), [])
        columns = tuple(part for part in parts if isinstance(part, syntax.FieldDecl))
        names = tuple(name for name in parents if isinstance(name, str))
        schema = next((number for number in parents if isinstance(number, int)), 0)
        return syntax.ProtocolDecl(checked_name(name), names, columns, schema, place_of(name))

    def parents(self, *names: str | int) -> list[str | int]:
        return [name for name in names if not isinstance(name, Token)]

    def parent(self, name: Token, number: Token | None) -> str | int:
        # `schema_id 12` selects one record type of an interface that has several; a link has one schema here.
        return int(number_of(number)) if number is not None and name.value == "schema_id" else checked_name(name)

    def protocol_field(self, kind: Token, name: Token, access: Token, *rest: Any) -> syntax.FieldDecl:
        attributes = next((part for part in rest if isinstance(part, tuple)), ())
        return syntax.FieldDecl(
            checked_name(kind), checked_name(name), checked_name(access), attributes, place_of(kind)
        )

    def watchlist(self, *parts: Any) -> syntax.Watchlist:
        keyword = parts[0]
        columns = tuple(part for part in parts if isinstance(part, syntax.FieldDecl))
        return syntax.Watchlist(columns, place=place_of(keyword))

    def watch_field(self, kind: Token, name: Token, access: Token | None, attributes: Any) -> syntax.FieldDecl:
        access_name = checked_name(access) if access is not None else ""
        return syntax.FieldDecl(checked_name(kind), checked_name(name), access_name, attributes or (), place_of(kind))

    def attributes(self, *pairs: Any) -> tuple[tuple[str, str], ...]:
        return tuple(pair for pair in pairs if isinstance(pair, tuple))

    def attribute(self, word: Token, value: Token | None) -> tuple[str, str]:
        text = "" if value is None else unquoted(value) if value.type == "STRING" else str(value.value)
        return checked_name(word), text

    def unpack(self, *names: Token) -> None:
        """Drops the unpacking functions of a field: they name C code, and Lowwater has its own reader."""
        return None


Entry = tuple[str, str, syntax.Place]
Clause = tuple[str, Any]


@v_args(inline=True)
class TreeBuilder(SourceBuilder):
    """Makes syntax tree nodes, one method per grammar rule. An instance serves every parse with the
    same function names."""

    def start(self, *parts: syntax.Statement | syntax.ProtocolDecl | Token | None) -> syntax.QueryFile:
        return syntax.QueryFile(
            tuple(part for part in parts if isinstance(part, syntax.Statement)),
            tuple(part for part in parts if isinstance(part, syntax.ProtocolDecl)),
        )

    def statement(self, *parts: Any) -> syntax.Statement:
        *prologue, body = parts
        entries: list[Entry] = []
        params: list[syntax.ParamDecl] = []
        for kind, items in prologue:
            (entries if kind == "define" else params).extend(items)
        _check_unique((key, place) for key, _, place in entries)
        _check_unique((param.name, param.place) for param in params)
        defines = tuple((key, value) for key, value, _ in entries)
        assert isinstance(body, syntax.Select | syntax.Merge | syntax.Watchlist)
        return replace(body, defines=defines, params=tuple(params))

    def define(self, *entries: Any) -> Clause:
        return "define", [entry for entry in entries if isinstance(entry, tuple)]

    def entry(self, key: Token, value: Token) -> Entry:
        text = unquoted(value) if value.type == "STRING" else str(value.value)
        return checked_name(key), text, place_of(key)

    def header(self, _query: Token, name: Token) -> Clause:
        return "define", [("query_name", name.value, place_of(name))]

    def param(self, *params: Any) -> Clause:
        return "param", [param for param in params if isinstance(param, syntax.ParamDecl)]

    def declared(
        self, name: Token, kind: Token, _equal: Any, minus: Token | None, default: syntax.Literal | None
    ) -> syntax.ParamDecl:
        if default is not None and minus is not None:
            if default.kind not in ("int", "float") or default.value is None:
                raise fault(f"the default of ${name} is no number", "write `PARAM { n int = -5; }`", default.place)
            default = replace(default, value=-float(default.value) if default.kind == "float" else -int(default.value))
        return syntax.ParamDecl(checked_name(name), checked_name(kind), default, place_of(name))

    def exists(self, keyword: Token, select: syntax.Select) -> syntax.Exists:
        return syntax.Exists(select, place_of(keyword))

    def select(self, keyword: Token, *parts: Any) -> syntax.Select:
        distinct, items, window, join, _from, sources, where, group_by, *ends = parts
        supergroup, having, cleaning_when, cleaning_by, closing_when, top = ends
        refs, kind, filter_range = _join_clause(join, sources, place_of(_from))
        met = sources[2]
        group_by, fill = group_by or ((), None)
        group_by = tuple(_meant(group, items) if isinstance(group, syntax.SelectItem) else group for group in group_by)
        _check_names(group for group in group_by if isinstance(group, syntax.SelectItem))
        select = syntax.Select(
            items,
            refs,
            kind,
            where,
            met if isinstance(met, syntax.Expression) else None,
            met if isinstance(met, tuple) else (),
            any(sources[1]),
            group_by,
            fill,
            having,
            distinct=distinct is not None,
            window=window,
            filter_range=filter_range,
            supergroup=supergroup or (),
            cleaning_when=cleaning_when,
            cleaning_by=cleaning_by,
            closing_when=closing_when,
            top=top,
            place=place_of(keyword),
        )
        return _without_exists(select)

    def items(self, *items: syntax.SelectItem) -> tuple[syntax.SelectItem, ...]:
        return items

    def item(self, expression: syntax.Expression, alias: Token | None) -> syntax.SelectItem:
        return syntax.SelectItem(expression, checked_name(alias) if alias is not None else "", syntax.begin(expression))

    def star(self, *tokens: Token) -> syntax.SelectItem:
        qualifier = checked_name(tokens[0]) if len(tokens) > 1 else ""
        return syntax.SelectItem(syntax.Star(qualifier, place_of(tokens[0])), "", place_of(tokens[0]))

    def join(self, keyword: Token, *filter_range: Any) -> tuple[Token, Any]:
        return keyword, filter_range or None

    def where(self, expression: syntax.Expression) -> syntax.Expression:
        return expression

    having = slack = cleaning_when = cleaning_by = closing_when = where

    def group_by(
        self, groups: tuple[syntax.SelectItem | syntax.Grouping, ...], fill: syntax.Fill | None
    ) -> tuple[tuple[syntax.SelectItem | syntax.Grouping, ...], syntax.Fill | None]:
        return groups, fill

    def fill(self, keyword: Token, values: tuple[syntax.Expression, ...] | None = None) -> syntax.Fill:
        return syntax.Fill(values or (), place_of(keyword))

    def groups(self, *groups: syntax.SelectItem | syntax.Grouping) -> tuple[syntax.SelectItem | syntax.Grouping, ...]:
        return groups

    def group(self, item: syntax.SelectItem) -> syntax.SelectItem:
        return item

    def grouping(self, keyword: Token, items: tuple[syntax.SelectItem, ...]) -> syntax.Grouping:
        _check_names(items)
        return syntax.Grouping(str(keyword.value), items, place=place_of(keyword))

    def grouping_sets(self, keyword: Token, *sets: tuple[syntax.SelectItem, ...]) -> syntax.Grouping:
        items: dict[str, syntax.SelectItem] = {}
        names = []
        for members in sets:
            _check_names(members)
            for item in members:
                first = items.setdefault(syntax.item_name(item), item)
                if item.expression not in (first.expression, syntax.Name(syntax.item_name(item))):
                    raise fault(
                        f"`{syntax.item_name(item)}` means two things here", "give one of them another name", item.place
                    )
            names.append(tuple(syntax.item_name(item) for item in members))
        return syntax.Grouping("GROUPING_SETS", tuple(items.values()), tuple(names), place_of(keyword))

    def set(self, items: tuple[syntax.SelectItem, ...] | None) -> tuple[syntax.SelectItem, ...]:
        return items or ()

    def supergroup(self, *names: syntax.Name) -> tuple[syntax.Name, ...]:
        return names

    def top(self, orders: tuple[syntax.Order, ...], number: Token, ties: Token | None, per: Any = None) -> syntax.Top:
        return syntax.Top(orders, _rows(number), ties is not None, per or (), orders[0].place)

    def qualify(self, function: Token, *parts: Any) -> syntax.Top:
        *_, per, orders, comparison, number = parts
        name, ties = str(function.value).lower(), str(function.value).lower() == "rank"
        if name not in ("row_number", "rank"):
            hint = "write row_number(), or rank() for all rows that are equal"
            raise fault(f"QUALIFY knows no {function.value}", hint, place_of(function))
        if per is None:
            message = f"{name}() OVER without PARTITION BY counts the rows of all time, which does not end"
            raise fault(message, "add the epoch: PARTITION BY tb", place_of(function))
        count = int(number_of(number)) - (comparison.value == "<")
        if comparison.value not in ("<=", "<") and not (comparison.value == "=" and count == 1):
            hint = f"write {name}() OVER (...) <= 10"
            raise fault(f"QUALIFY keeps the first rows, and not those {comparison} {number}", hint, place_of(number))
        return syntax.Top(orders, _positive(count, number), ties, per, place_of(function))

    def per(self, *expressions: syntax.Expression) -> tuple[syntax.Expression, ...]:
        return expressions

    def orders(self, *orders: syntax.Order) -> tuple[syntax.Order, ...]:
        return orders

    def order(self, expression: syntax.Expression, direction: Token | None, nulls: Token | None) -> syntax.Order:
        descending = direction is not None and direction.value == "DESC"
        first = nulls is not None and nulls.value == "NULLS FIRST"
        return syntax.Order(expression, descending, first, syntax.begin(expression))

    def merge(self, keyword: Token, *parts: Any) -> syntax.Merge:
        columns: list[syntax.Name]
        *columns, slack, _from, (sources, joins, _) = parts
        if any(joins):
            raise fault(
                "MERGE lists its sources with commas", "write `MERGE A.t : B.t FROM a A, b B`", place_of(keyword)
            )
        if len(columns) != len(sources):
            raise fault(
                f"MERGE names {len(columns)} columns but FROM lists {len(sources)} sources",
                "write one column for each source: `MERGE A.t : B.t FROM a A, b B`",
                place_of(keyword),
            )
        for column in columns:
            if not column.qualifier:
                raise fault(
                    f"MERGE needs to know the source of `{column.name}`", f"write `source.{column.name}`", column.place
                )
        return syntax.Merge(tuple(columns), sources, slack, place=place_of(keyword))


def _rows(number: Token) -> int:
    return _positive(int(number_of(number)), number)


def _positive(count: int, number: Token) -> int:
    if not 1 <= count <= limits.TOP_ROWS:
        hint = f"write a number from 1 to {limits.TOP_ROWS:,}"
        raise fault(f"LIMIT {number}: no such number of rows is kept", hint, place_of(number))
    return count


def _check_unique(entries: Iterable[tuple[str, syntax.Place]]) -> None:
    keys: set[str] = set()
    for key, place in entries:
        if key in keys:
            raise fault(f"`{key}` is defined twice for one query", "keep one of the two", place)
        keys.add(key)


def _join_clause(join: Any, sources: Sources, place: syntax.Place) -> tuple[tuple[syntax.SourceRef, ...], str, Any]:
    """Returns the sources, the keyword of their join, and the arguments of FILTER_JOIN. `join`: the join before FROM,
    as (keyword, arguments of FILTER_JOIN); None where the query writes none there."""
    refs, keywords, _ = sources
    keyword, filter_range = join or (next((token for token in keywords if token), None), None)
    if join and any(keywords):
        raise fault(
            "two ways of writing a join in one query", "write the join before FROM or between the sources", place
        )
    kind = keyword.value if keyword is not None else "INNER_JOIN" if len(refs) > 1 else ""
    if kind and len(refs) != 2:
        raise fault(
            f"{kind} takes exactly two sources, not {len(refs)}",
            "join two at a time: name the first join as a query and join that with the next source"
            if len(refs) > 2
            else f"write `{kind} FROM a A, b B WHERE A.t = B.t`",
            place_of(keyword) if keyword is not None else place,
        )
    return refs, kind, filter_range


_EXISTS = "SELECT A.time FROM a A WHERE {} (SELECT * FROM b B WHERE B.k = A.k AND B.time = A.time)"


def _without_exists(select: syntax.Select) -> syntax.Select:
    """Writes EXISTS and NOT EXISTS, which are conjuncts of WHERE, as SEMI JOIN and ANTI JOIN. A name without a source
    is one of the inner query there, as in SQL."""
    parts = syntax.conjuncts(select.where)
    inner = [found for part in parts if isinstance(found := _negated(part)[0], syntax.Exists)]
    stack = [each for each in syntax.expressions_of(select) if each is not select.where]
    stack += [part for part in parts if _negated(part)[0] not in inner]
    while stack:
        if isinstance(part := stack.pop(), syntax.Exists):
            hint = f"write it as one of the conditions that AND joins: {_EXISTS.format('EXISTS')}"
            raise refusal("EXISTS but as a condition of WHERE", hint, part.place)
        stack += syntax.children(part)
    if not inner:
        return select
    (written,) = [part for part in parts if _negated(part)[0] is inner[0]]
    words = "NOT EXISTS" if _negated(written)[1] else "EXISTS"
    (source, *more), plain = inner[0].select.sources, _plain(inner[0].select)
    if len(inner) > 1 or select.join or more or not plain or inner[0].select.where is None:
        raise refusal(f"this {words}", f"write one, of one source each: {_EXISTS.format(words)}", inner[0].place)
    own = source.alias or source.name

    def qualified(part: syntax.Expression) -> syntax.Expression:
        bare = isinstance(part, syntax.Name) and not part.qualifier
        return replace(part, qualifier=own) if bare else part  # type: ignore[call-arg]

    rest = [part for part in parts if part is not written]
    return replace(
        select,
        sources=(*select.sources, source),
        join="ANTI_JOIN" if _negated(written)[1] else "SEMI_JOIN",
        where=syntax.chain("AND", rest) if rest else None,
        on=syntax.mapped(inner[0].select.where, qualified),
        between=True,
    )


def _negated(part: syntax.Expression) -> tuple[syntax.Expression, bool]:
    """Returns what a condition asks, and whether it asks for the opposite."""
    negated = isinstance(part, syntax.UnaryOp) and part.op == "NOT"
    return (part.operand, True) if negated else (part, False)  # type: ignore[attr-defined]


def _plain(select: syntax.Select) -> bool:
    """Whether a query has FROM and WHERE only."""
    bare = syntax.Select(select.items, select.sources, where=select.where)
    return select == bare and select.sources[0].window is None


def _meant(group: syntax.SelectItem, items: tuple[syntax.SelectItem, ...]) -> syntax.SelectItem:
    """Returns a variable of GROUP BY with the name that the same select item has; a number is that item."""
    written = group.expression
    if group.alias or isinstance(written, syntax.Name):
        return group
    if isinstance(written, syntax.Literal) and written.kind == "int":
        at = int(written.value or 0)
        if not 1 <= at <= len(items) or any(isinstance(item.expression, syntax.Star) for item in items[:at]):
            raise fault(f"no select item has the number {at}", f"write a number from 1 to {len(items)}", group.place)
        return replace(items[at - 1], place=group.place)
    same = next((item for item in items if item.alias and item.expression == written), None)
    return group if same is None else replace(group, alias=same.alias)


def _check_names(items: Iterable[syntax.SelectItem]) -> None:
    for item in items:
        if isinstance(item.expression, syntax.Star):
            raise fault("`*` cannot be grouped by", "name the columns", item.place)
        if not item.alias and not isinstance(item.expression, syntax.Name):
            call = item.expression.name.upper() if isinstance(item.expression, syntax.Call) else ""
            near = get_close_matches(call, ("CUBE", "ROLLUP", "GROUPING_SETS"), n=1)
            hint = f"did you mean {near[0]}?" if near else f"write {print_expression(item.expression)} AS tb"
            raise fault("a computed GROUP BY item needs a name", hint, item.place)
