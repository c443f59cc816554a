"""Builds the syntax tree while lark's parser reduces rules.

The inner half of `parser`: one method per rule of `grammar.lark`. Errors leave here with line and column only;
`parser` adds the file and its text.
"""

from __future__ import annotations

import math
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from lark import Token, Transformer, v_args

from lowwater.errors import QueryError, UnsupportedError
from lowwater.gsql.nodes import (
    BinaryOp,
    Call,
    Expression,
    Literal,
    Merge,
    Name,
    Parameter,
    Place,
    QueryFile,
    Select,
    SelectItem,
    SourceRef,
    Statement,
    UnaryOp,
)
from lowwater.gsql.words import SQL, function_name

_LARGEST = 2**63 - 1

Entry = tuple[str, str, Place]
Defines = tuple[tuple[str, str], ...]


def place_of(token: Token) -> Place:
    """Where a token begins."""
    return Place(token.line or 0, token.column or 0)


def fault(message: str, hint: str, place: Place) -> QueryError:
    """A QueryError at a place; `parser.parse` adds the file and its text."""
    return QueryError(message, hint, line=place.line, column=place.column)


def refusal(construct: str, hint: str, place: Place) -> UnsupportedError:
    """An UnsupportedError that names the construct; `parser.parse` adds the file and its text."""
    return UnsupportedError(f"Lowwater does not run {construct} yet", hint, line=place.line, column=place.column)


def _integer(digits: str, base: int, place: Place) -> Literal:
    # Python refuses to read thousands of digits: the length is checked first.
    digits = digits.lstrip("0") or "0"
    if len(digits) > 19 or (value := int(digits, base)) > _LARGEST:
        raise fault(
            f"the number {digits[:24]}{'...' if len(digits) > 24 else ''} does not fit a 64-bit integer",
            f"the largest is {_LARGEST}",
            place,
        )
    return Literal("int", value, place)


def _unquoted(token: Token) -> str:
    text = str(token.value)
    return text[text.index("'") + 1 : -1].replace("''", "'")


@v_args(inline=True)
class TreeBuilder(Transformer[Token, QueryFile]):
    """Callbacks of the grammar's rules. Holds no state, so one instance serves every parse."""

    def start(self, *statements: Statement) -> QueryFile:
        return QueryFile(statements)

    def statement(self, define: tuple[Entry, ...] | None, header: Entry | None, body: Select | Merge) -> Statement:
        entries = (define or ()) + ((header,) if header else ())
        seen: set[str] = set()
        for key, _, place in entries:
            if key in seen:
                raise fault(f"`{key}` is defined twice for one query", "keep one of the two", place)
            seen.add(key)
        defines = tuple((key, value) for key, value, _ in entries)
        if isinstance(body, Select):
            return Select(
                body.items, body.sources, body.join, body.where, body.group_by, body.having, defines, body.place
            )
        return Merge(body.columns, body.sources, body.slack, defines, body.place)

    def define(self, *entries: Entry | None) -> tuple[Entry, ...]:
        return tuple(entry for entry in entries if entry)

    def entry(self, key: Token, value: Token) -> Entry:
        return key.value, _unquoted(value) if value.type == "STRING" else value.value, place_of(key)

    def header(self, _query: Token, name: Token) -> Entry:
        return "query_name", name.value, place_of(name)

    def select(
        self,
        keyword: Token,
        items: tuple[SelectItem, ...],
        join: Token | None,
        from_: Token,
        sources: tuple[SourceRef, ...],
        where: Expression | None,
        group_by: tuple[SelectItem, ...] | None,
        having: Expression | None,
    ) -> Select:
        if join is None and len(sources) > 1:
            raise fault(
                f"FROM lists {len(sources)} sources without saying how to join them",
                "put INNER_JOIN, OUTER_JOIN, LEFT_OUTER_JOIN or RIGHT_OUTER_JOIN before FROM, "
                "or write MERGE to unite the streams",
                place_of(from_),
            )
        if join is not None and len(sources) != 2:
            raise fault(
                f"{join.value} takes exactly two sources, not {len(sources)}",
                "join two at a time: name the first join as a query and join that with the next source"
                if len(sources) > 2
                else f"write `{join.value} FROM a A, b B WHERE A.t = B.t`",
                place_of(join),
            )
        kind = join.value if join is not None else ""
        return Select(items, sources, kind, where, group_by or (), having, place=place_of(keyword))

    def items(self, *items: SelectItem) -> tuple[SelectItem, ...]:
        return items

    def item(self, expression: Expression, alias: Token | None) -> SelectItem:
        return SelectItem(expression, alias.value if alias else "", _begin(expression))

    def where(self, expression: Expression) -> Expression:
        return expression

    having = slack = where

    def group_by(self, items: tuple[SelectItem, ...]) -> tuple[SelectItem, ...]:
        for item in items:
            if not item.alias and not isinstance(item.expression, Name):
                raise fault("a computed GROUP BY item needs a name", "write `expression AS name`", item.place)
        return items

    def merge(self, keyword: Token, *parts: Any) -> Merge:
        columns: list[Name]
        *columns, slack, _from, sources = parts
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
        return Merge(tuple(columns), sources, slack, place=place_of(keyword))

    def sources(self, *sources: SourceRef) -> tuple[SourceRef, ...]:
        return sources

    def plain_source(self, *parts: Token | None) -> SourceRef:
        *names, alias = parts
        path = [token for token in names if token is not None]
        if len(path) > 2:
            raise refusal("a host before the link", "write `link.PROTOCOL`", place_of(path[0]))
        links = tuple(token.value for token in path[:-1])
        return SourceRef(path[-1].value, links, False, alias.value if alias else "", place_of(path[0]))

    def bracketed_source(self, links: tuple[Token, ...], name: Token, alias: Token | None) -> SourceRef:
        texts = tuple(token.value for token in links)
        return SourceRef(name.value, texts, True, alias.value if alias else "", place_of(links[0]))

    def names(self, *names: Token) -> tuple[Token, ...]:
        return names

    def alias(self, name: Token) -> Token:
        return name

    def binary(self, left: Expression, op: Token, right: Expression) -> BinaryOp:
        return BinaryOp("<>" if op.value == "!=" else op.value, left, right, _begin(left))

    def unary(self, op: Token, operand: Expression) -> UnaryOp:
        return UnaryOp(op.value, operand, place_of(op))

    def call(self, name: Token, arguments: tuple[Expression, ...] | None) -> Call:
        if name.value.upper() == "DISTINCT":
            raise refusal(*SQL["DISTINCT"], place_of(name))
        return Call(function_name(name.value), arguments or (), place=place_of(name))

    def call_star(self, name: Token, _star: Token) -> Call:
        return Call(function_name(name.value), star=True, place=place_of(name))

    def arguments(self, *arguments: Expression) -> tuple[Expression, ...]:
        return arguments

    def column(self, *parts: Token) -> Name:
        *qualifier, name = parts
        if len(qualifier) > 2:
            raise fault("a column name has at most three parts", "write `alias.column`", place_of(parts[0]))
        return Name(name.value, ".".join(token.value for token in qualifier), place_of(parts[0]))

    def parameter(self, token: Token) -> Parameter:
        return Parameter(token.value[1:], place_of(token))

    def integer(self, token: Token) -> Literal:
        return _integer(token.value.rstrip("UL"), 10, place_of(token))

    def hexadecimal(self, token: Token) -> Literal:
        digits = _unquoted(token)
        if not digits or digits.strip("0123456789abcdefABCDEF"):
            raise fault(f"`{token.value}` holds no hexadecimal number", "write it as HEX'ff'", place_of(token))
        return _integer(digits, 16, place_of(token))

    def float(self, token: Token) -> Literal:
        value = float(token.value)
        if math.isinf(value):
            raise fault(f"the number {token.value[:24]} is too large", "the largest is about 1.8e308", place_of(token))
        return Literal("float", value, place_of(token))

    def string(self, token: Token) -> Literal:
        return Literal("string", _unquoted(token), place_of(token))

    def true(self, token: Token) -> Literal:
        return Literal("bool", True, place_of(token))

    def false(self, token: Token) -> Literal:
        return Literal("bool", False, place_of(token))

    def ip(self, token: Token) -> Literal:
        text = _unquoted(token)
        version, example = (4, "IP_VAL'192.0.2.1'") if token.type == "IP" else (6, "IPV6_VAL'2001:db8::1'")
        try:
            if "%" in text:
                raise ValueError("zone")
            IPv4Address(text) if version == 4 else IPv6Address(text)
        except ValueError:
            raise fault(f"`{text}` is not an IPv{version} address", f"write it as {example}", place_of(token)) from None
        return Literal("ip", text, place_of(token))


def _begin(expression: Expression) -> Place:
    # Every concrete expression has a place; the empty base class has none.
    place: Place = expression.place  # type: ignore[attr-defined]
    return place
