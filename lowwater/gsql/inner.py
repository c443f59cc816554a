"""Inner queries of SQL: what stands behind WITH, and a SELECT in FROM, is a query with a name that the outer one reads.

Works on the tokens of a statement before they are parsed, so that an error keeps its place in the text. Called by
`parser`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lark import Token

from lowwater.gsql.build import fault, place_of, refusal

_QUERIES = ("SELECT", "MERGE")
_FORM = "write WITH a AS (SELECT ...) SELECT ... FROM a"
_CLAUSES = {"SELECT", "FROM", "SQL_JOIN", "_WHERE", "_GROUP", "_HAVING", "_SUPERGROUP", "_ON", "_ORDER", "_QUALIFY"}


class Part(NamedTuple):
    """The tokens of one query, with the end of them."""

    name: str  # empty for the statement itself
    tokens: list[Token]


def apart(tokens: Sequence[Token]) -> list[Part]:
    """Returns the inner queries of a statement, each behind those that it reads, and then the statement without them.
    Raises QueryError where a WITH or an inner query without a name is not understood."""
    begin = _begin(tokens)
    body, found = [*tokens[begin:]], list[Part]()
    if body and _is_with(body[0]):
        at = 0
        while not at or body[at].type == "COMMA":
            first, at = at + 1, at + 4
            if body[first].type == "NAME" and str(body[first].value).upper() == "RECURSIVE":
                raise refusal(
                    "WITH RECURSIVE", "name the steps one by one: each reads the one before", place_of(body[0])
                )
            kinds = [token.type for token in body[first : at + 1]]
            if kinds[:3] != ["NAME", "_AS", "LPAR"] or kinds[3:] not in (["SELECT"], ["MERGE"]):
                raise fault("WITH does not say which query a name is", _FORM, place_of(body[min(first, len(body) - 1)]))
            end = _closing(body, at - 1)
            if end is None:
                raise fault("the parenthesis behind WITH is not closed", _FORM, place_of(body[at - 1]))
            found += _named(str(body[first].value), body[at:end])
            at = end + 1
        body = body[at:]
    rest, inner = _without_inner(body)
    return [*found, *inner, Part("", [*tokens[:begin], *rest])]


def _begin(tokens: Sequence[Token]) -> int:
    """The position of the first token behind DEFINE, PARAM and the name of a statement."""
    braces = 0
    for at, token in enumerate(tokens):
        braces += (token.type == "LBRACE") - (token.type == "RBRACE")
        begins = not at or tokens[at - 1].type in ("RBRACE", "COLON")
        if not braces and (token.type in _QUERIES or (begins and _is_with(token))):
            return at
    return len(tokens)


def _is_with(token: Token) -> bool:
    return token.type == "NAME" and str(token.value).upper() == "WITH"


def _closing(tokens: Sequence[Token], opening: int) -> int | None:
    """The position of the parenthesis that closes another one; None if none does."""
    depth = 0
    for at in range(opening, len(tokens)):
        depth += (tokens[at].type == "LPAR") - (tokens[at].type == "RPAR")
        if not depth:
            return at
    return None


def _named(name: str, tokens: Sequence[Token]) -> list[Part]:
    last = tokens[-1]
    *inner, own = apart([*tokens, Token("$END", "", line=last.end_line, column=last.end_column)])
    return [*inner, Part(name, own.tokens)]


def _without_inner(tokens: Sequence[Token]) -> tuple[list[Token], list[Part]]:
    """Puts the name of each inner query of FROM in its place."""
    rest, found, at = list[Token](), list[Part](), 0
    while at < len(tokens):
        opens = tokens[at].type == "LPAR" and tokens[at + 1].type in _QUERIES and _is_source(rest)
        end = _closing(tokens, at) if opens else None
        if end is None:
            rest.append(tokens[at])
            at += 1
            continue
        after = end + 1 + (tokens[end + 1].type == "_AS")
        name = tokens[after]
        if name.type != "NAME":
            raise fault(
                "an inner query has no name", "write (SELECT ...) AS a, and a.x for a column", place_of(tokens[at])
            )
        found += _named(str(name.value), tokens[at + 1 : end])
        rest.append(name)
        at = after + 1
    return rest, found


def _is_source(before: Sequence[Token]) -> bool:
    """Whether a source stands behind some tokens."""
    if not before or before[-1].type not in ("FROM", "SQL_JOIN", "COMMA"):
        return False
    depth = 0
    for token in reversed(before):
        depth += (token.type == "RPAR") - (token.type == "LPAR")
        if not depth and token.type in _CLAUSES:
            return token.type in ("FROM", "SQL_JOIN")
    return False
