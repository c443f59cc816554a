"""Refuses constructs that Lowwater knows by name and does not run, and characters that begin no token.

Beside `mistakes`, which asks this module first: a text with ORDER BY gets a message about ORDER BY, not about an
unexpected name.
"""

from __future__ import annotations

from collections.abc import Sequence

from lark import Token

from lowwater.errors import QueryError
from lowwater.gsql.literals import fault, place_of, refusal
from lowwater.gsql.mistakes_expected import CLAUSES
from lowwater.gsql.words import BLOCKS, DECLARATIONS, SQL, TOKENS

_BLOCK_HINTS = {
    "PRED": "put functions and predicates into a file of their own: --functions FILE",
    "STREAM": "write a PROTOCOL block for records, or a query",
    "TABLE": "write a PROTOCOL block for records, a WATCHLIST for a table",
    "UNPACK_FCNS": "leave it out: records are unpacked in one pass",
    "OPERATOR_VIEW": "declare a user-defined aggregate in Python: --functions FILE",
    "FTA": "keep the query in it, and write a PROTOCOL block for its STREAM",
}
_STRINGS = "write strings between straight single quotes: 'text'"
_CHARACTERS = {
    **dict.fromkeys("`‘’“”", _STRINGS),  # noqa: RUF001
    "$": "a value of PARAM is `$name`, a superaggregate `sum$(x)`",
    "@": "a property of the link is `@name`",
    "#": "a value of DEFINE is `#name`; a comment begins with `--` or `//`",
    "^": "write `pow(a, b)` for a power, `(a | b) - (a & b)` for an exclusive or",
    "?": "a value that is given at run time is `$name`, declared in PARAM",
    "\\": "in a string a backslash is an ordinary character; elsewhere leave it out",
}
_LOOK_AHEAD = 12
_NESTED = "name the inner query with DEFINE and read it by name"
_NESTED_VALUE = "name the inner query with DEFINE and join with it: `FROM a A JOIN b B WHERE A.t = B.t`"
_NESTED_IN = "join the two streams, or write FILTER_JOIN for packets of one link; IN takes a list of values"
Construct = tuple[str, str, int] | None
"""A construct that Lowwater does not run: its name, a hint, and the index of its token."""


def refused_token(token: Token) -> QueryError | None:
    """Returns the error of a token that no query may hold (TIMEVAL, a strange character), else None."""
    if token.type in TOKENS:
        name, hint = TOKENS[token.type]
        return refusal(name, hint, place_of(token))
    if token.type == "UNCLOSED" and token.value[0] == "'":
        message, hint = "the string is not closed on its line", "end it with `'`; write `''` for a quote inside it"
        return fault(message, hint, place_of(token))
    if token.type == "UNCLOSED":
        message = "the quoted name is not closed on its line"
        return fault(message, 'end it with `"`; strings stand between single quotes', place_of(token))
    if token.type == "STRANGE":
        hint = _CHARACTERS.get(token.value, "leave it out, or put it into a string: 'text'")
        return fault(f"the character {token.value!r} has no meaning in GSQL", hint, place_of(token))
    return None


def refused_construct(tokens: Sequence[Token], at: int, accepted: set[str], clause: str) -> QueryError | None:
    """Returns the error of a construct that Lowwater does not run, if one stands at a token; else None.

    Args:
        tokens: all tokens of the statement.
        at: the index of the token that does not fit.
        accepted: the terminals that the parser accepts there.
        clause: the terminal that begins the clause of the token; empty before the first clause.
    """
    construct = _block(tokens, at, accepted) or _sql_word(tokens, at, clause) or _nested(tokens, at, clause)
    if construct:
        name, hint, position = construct
        return refusal(name, hint, place_of(tokens[position]))
    return None


def _block(tokens: Sequence[Token], at: int, accepted: set[str]) -> Construct:
    if "SELECT" not in accepted or tokens[at].type == "$END":
        return None
    word = str(tokens[at].value)
    if word in BLOCKS:
        return f"{word} blocks", _BLOCK_HINTS[word], at
    for token in tokens[at : at + _LOOK_AHEAD]:
        if token.type == "SEMICOLON":
            break
        if token.type == "NAME" and token.value in DECLARATIONS:
            name = f"{token.value} definitions in a query file"
            return name, "put them into a file of their own: --functions FILE", at
    return None


def _sql_word(tokens: Sequence[Token], at: int, clause: str) -> Construct:
    # The parser takes a word after a source as its alias, so the error comes at the next token.
    # It takes TOP as a column, so the error comes at the number behind it.
    top = clause == "SELECT" and tokens[at].type == "INT"
    for position in (at, at - 1) if clause == "FROM" or top else (at,):
        word = str(tokens[position].value).upper()
        if tokens[position].type == "NAME" and word in SQL:
            construct, hint = SQL[word]
            return construct, hint, position
    return None


def _nested(tokens: Sequence[Token], at: int, clause: str) -> Construct:
    inner = at if tokens[at].type != "LPAR" else at + 1
    if inner >= len(tokens) or tokens[inner].type not in ("SELECT", "MERGE") or tokens[inner - 1].type != "LPAR":
        return None
    before = tokens[inner - 2] if inner > 1 else None
    if before is not None and str(before.value).upper() == "EXISTS":
        return "EXISTS", SQL["EXISTS"][1], inner - 2
    hint = _NESTED_VALUE if clause == "SELECT" or clause in CLAUSES else _NESTED
    if before is not None and before.type == "IN":
        hint = _NESTED_IN
    return f"a nested {tokens[inner].type}", hint, inner
