"""Builds expression nodes while lark's parser reduces grammar rules.

The base of `build_sources`: one method per rule in the lower half of `grammar.lark`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lark import Token, Transformer, v_args

from lowwater.gsql import literals
from lowwater.gsql.literals import fault, place_of, unquoted
from lowwater.gsql.nodes import (
    Between,
    BinaryOp,
    Call,
    Case,
    Defined,
    Duration,
    Expression,
    InList,
    IsNull,
    Like,
    Literal,
    Name,
    Parameter,
    Property,
    QueryFile,
    UnaryOp,
    begin,
    chain,
)
from lowwater.gsql.words import spelled
from lowwater.link_names import FORM, is_link_name


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

    Raises:
        QueryError: the name holds any other character.
    """
    name = str(token.value)
    if not is_link_name(name):
        raise fault(f'"{name[:40]}" is not a valid name of a link', FORM, place_of(token))
    return name


@v_args(inline=True)
class ExpressionBuilder(Transformer[Token, QueryFile]):
    """Callbacks of the rules of expressions.

    Args:
        functions: names of functions that follow the case rule of keywords, in lower case: so the tree has them.
    """

    def __init__(self, functions: Iterable[str] = ()) -> None:
        super().__init__()
        self._spelled = spelled(functions)

    def _function(self, written: str) -> str:
        return self._spelled.get(written, written)

    def binary(self, left: Expression, op: Token, right: Expression) -> BinaryOp:
        return BinaryOp("<>" if op.value == "!=" else op.value, left, right, begin(left))

    def logical(self, *parts: Any) -> Expression:
        return chain(parts[1].value, parts[::2])

    def unary(self, op: Token, operand: Expression) -> UnaryOp:
        return UnaryOp(op.value, operand, place_of(op))

    def in_list(self, operand: Expression, negated: Token | None, *rest: Any) -> InList:
        return InList(operand, rest[-1], negated is not None, begin(operand))

    def between(self, operand: Expression, negated: Token | None, *rest: Any) -> Between:
        low, high = (part for part in rest if isinstance(part, Expression))
        return Between(operand, low, high, negated is not None, begin(operand))

    def like(self, operand: Expression, negated: Token | None, *rest: Any) -> Like:
        return Like(operand, rest[-1], negated is not None, begin(operand))

    def is_null(self, operand: Expression, _is: Token, negated: Token | None, _null: Token) -> IsNull:
        return IsNull(operand, negated is not None, begin(operand))

    def case(self, keyword: Token, *parts: Any) -> Case:
        branches = tuple(part for part in parts if isinstance(part, tuple))
        operand = parts[0] if isinstance(parts[0], Expression) else None
        otherwise = next((part for part in parts[1:] if isinstance(part, Expression)), None)
        return Case(branches, operand, otherwise, place_of(keyword))

    def when(self, _when: Token, condition: Expression, _then: Token, value: Expression) -> Any:
        return condition, value

    def call(self, name: Token, arguments: tuple[Expression, ...] | None) -> Call:
        return Call(self._function(checked_name(name)), arguments or (), place=place_of(name))

    def call_star(self, name: Token, _star: Token) -> Call:
        return Call(self._function(checked_name(name)), star=True, place=place_of(name))

    def call_distinct(self, name: Token, _distinct: Token, argument: Expression) -> Call:
        return Call(self._function(checked_name(name)), (argument,), distinct=True, place=place_of(name))

    def super_call(self, name: Token, arguments: tuple[Expression, ...] | None) -> Call:
        return Call(self._function(name.value[:-1]), arguments or (), over=True, place=place_of(name))

    def super_star(self, name: Token, _star: Token) -> Call:
        return Call(self._function(name.value[:-1]), star=True, over=True, place=place_of(name))

    def predicate(self, name: Token, arguments: tuple[Expression, ...] | None) -> Call:
        return Call(checked_name(name), arguments or (), brackets=True, place=place_of(name))

    def arguments(self, *arguments: Expression) -> tuple[Expression, ...]:
        return arguments

    def column(self, *parts: Token) -> Name:
        *qualifier, name = parts
        if len(qualifier) > 2:
            raise fault("a column name has at most three parts", "write `alias.column`", place_of(parts[0]))
        return Name(checked_name(name), ".".join(checked_name(token) for token in qualifier), place_of(parts[0]))

    def parameter(self, token: Token) -> Parameter:
        return Parameter(token.value[1:], place_of(token))

    def defined(self, token: Token) -> Defined:
        return Defined(token.value[1:], place_of(token))

    def property(self, token: Token) -> Property:
        return Property(token.value[1:], place_of(token))

    def integer(self, token: Token) -> Literal:
        return literals.integer(token, token.value.rstrip("UL"), 10)

    def hexadecimal(self, token: Token) -> Literal:
        return literals.hexadecimal(token)

    def float(self, token: Token) -> Literal:
        return literals.real(token)

    def duration(self, number: Token, unit: Token) -> Duration:
        return Duration(literals.number_of(number), str(unit.value), place_of(number))

    def string(self, token: Token) -> Literal:
        return Literal("string", unquoted(token), place_of(token))

    def true(self, token: Token) -> Literal:
        return Literal("bool", True, place_of(token))

    def false(self, token: Token) -> Literal:
        return Literal("bool", False, place_of(token))

    def null(self, token: Token) -> Literal:
        return Literal("null", None, place_of(token))

    def ip(self, token: Token) -> Literal:
        return literals.address(token)
