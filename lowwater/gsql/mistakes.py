"""Says what is wrong with a text that does not parse: found, expected, the likely meant keyword, the refused construct.

Called by `parser` once, at the first token that does not fit; nothing here runs for a text that is right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches

from lark import Token
from lark.parsers.lalr_interactive_parser import InteractiveParser

from lowwater.errors import QueryError
from lowwater.gsql.build import fault, place_of, refusal
from lowwater.gsql.words import (
    BLOCKS,
    DECLARATIONS,
    KEYWORDS,
    PAIRS,
    RESERVED,
    SQL,
    TOKENS,
    UPPER_ONLY,
    WINDOW_WORDS,
)

Reader = Callable[[Sequence[Token]], InteractiveParser]

_END = "$END"
_WORDS = KEYWORDS | UPPER_ONLY
_STARTS_EXPRESSION = {"INT", "FLOAT", "STRING", "TRUE", "FALSE", "IP", "IPV6", "HEX", "NAME", "PARAMETER"}
_STARTS_EXPRESSION |= {"LPAR", "MINUS", "TILDE", "BANG", "NOT"}
_OPERATORS = {"OR", "AND", "COMPARISON", "BAR", "AMPERSAND", "SHIFT", "PLUS", "MINUS", "STAR", "SLASH", "PERCENT"}
_SHOWN = {
    "_DEFINE": "DEFINE",
    "SELECT": "SELECT",
    "MERGE": "MERGE",
    "JOIN": "a join keyword such as INNER_JOIN",
    "FROM": "FROM",
    "_WHERE": "WHERE",
    "_GROUP": "GROUP BY",
    "_BY": "BY",
    "_HAVING": "HAVING",
    "_AS": "AS",
    "_SLACK": "SLACK",
    "NAME": "a name",
    "STRING": "a string",
    "INT": "a number",
    "COMMA": "`,`",
    "COLON": "`:`",
    "SEMICOLON": "`;`",
    "LPAR": "`(`",
    "RPAR": "`)`",
    "LSQB": "`[`",
    "RSQB": "`]`",
    "LBRACE": "`{`",
    "RBRACE": "`}`",
    "DOT": "`.`",
    "STAR": "`*`",
    _END: "the end of the text",
}


def refused_token(token: Token) -> QueryError | None:
    """The refusal of a reserved word or a token (`$p`, `@p`, `#d`, `sum$`, TIMEVAL) that is not run yet, else None."""
    if token.type == "RESERVED":
        return refusal(token.value, RESERVED[token.value], place_of(token))
    if token.type in TOKENS:
        name, hint = TOKENS[token.type]
        shown = name if token.type == "TIMEVAL" else f"{name} `{token.value}`"
        return refusal(shown, hint, place_of(token))
    return None


def bad_character(char: str, line: int, column: int) -> QueryError:
    """The error for a character that begins no token."""
    hint = ""
    message = f"the character {char!r} has no meaning in GSQL"
    if char == "'":
        message, hint = "the string is not closed on its line", "end it with `'`; write `''` for a quote inside it"
    elif char in '"`‘’“”':  # noqa: RUF001
        hint = "write strings between straight single quotes: 'text'"
    return QueryError(message, hint, line=line, column=column)


def explain(tokens: Sequence[Token], at: int, read: Reader) -> QueryError:
    """The error for the token `tokens[at]`, the first that does not fit (the last token is the end of the text).

    Args:
        tokens: all tokens, the last of type `$END`.
        at: index of the token that does not fit.
        read: reads a prefix of the tokens that is known to fit, giving the parser after it.

    Returns:
        An UnsupportedError if a known construct stands here, else a QueryError.
    """
    start = max(at - 1, 0)
    before = read(tokens[:start])

    def state(position: int) -> InteractiveParser:
        # Reading costs as much as the whole parse, so it is done once, up to the earliest position asked for.
        parser: InteractiveParser = before.copy(deepcopy_values=False)  # type: ignore[no-untyped-call]
        for token in tokens[start:position]:
            parser.feed_token(token)
        return parser

    accepted = _accepted(state(at))
    refused = _refused_here(tokens, at, accepted)
    if refused:
        return refused
    position, word = _misspelt(tokens, at, state)
    if word:
        shown = "GROUP BY" if word == "GROUP" else word
        hint = f"did you mean {shown}?"
        if tokens[position].value.upper() == word:
            hint += " Keywords are written UPPER, lower or Cap_Each_Word." if word in KEYWORDS else " It is upper case."
        return fault(_message(tokens[position], _accepted(state(position))), hint, place_of(tokens[position]))
    if len(tokens) == 1:
        return fault("the text holds no query", "write a SELECT or a MERGE", place_of(tokens[0]))
    return fault(_message(tokens[at], accepted), _habit(tokens, at, accepted), place_of(tokens[at]))


def _accepted(parser: InteractiveParser) -> set[str]:
    accepted: set[str] = parser.accepts()  # type: ignore[no-untyped-call]
    return accepted


def _message(token: Token, accepted: set[str]) -> str:
    found = "the text ends here" if token.type == _END else f"found `{_short(token.value)}`"
    names = _expected(accepted)
    return f"{found}, expected {' or '.join([', '.join(names[:-1]), names[-1]] if names[1:] else names)}"


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."


def _expected(accepted: set[str]) -> list[str]:
    left = set(accepted)
    groups = []
    if {"LPAR", "INT", "MINUS"} <= left:
        groups.append("an expression")
        left -= _STARTS_EXPRESSION
    elif "SLASH" in left:
        groups.append("an operator")
        # A name may also go on as a call or a qualifier: true, but no help.
        left -= _OPERATORS | {"LPAR", "DOT"}
    return [shown for kind, shown in _SHOWN.items() if kind in left] + groups


def _word(tokens: Sequence[Token], at: int) -> str:
    return tokens[at].value.upper() if 0 <= at < len(tokens) else ""


def _refused_here(tokens: Sequence[Token], at: int, accepted: set[str]) -> QueryError | None:
    for check in (_block, _pair, _sql_word, _star, _bracket, _nested, _foreign_source):
        found = check(tokens, at, accepted)
        if found:
            construct, hint, position = found
            return refusal(construct, hint, place_of(tokens[position]))
    return None


Found = tuple[str, str, int] | None


def _block(tokens: Sequence[Token], at: int, accepted: set[str]) -> Found:
    if "SELECT" not in accepted or tokens[at].type == _END:
        return None
    word = _word(tokens, at)
    if word in BLOCKS and tokens[at].value == word:
        hint = "write the values into the query" if word == "PARAM" else "use the built-in protocols and functions"
        return f"{word} blocks", hint, at
    for token in tokens[at : at + 12]:
        if token.type == "SEMICOLON":
            break
        if token.value in DECLARATIONS:
            return f"{token.value} definitions", "use the built-in functions", at
    return None


def _pair(tokens: Sequence[Token], at: int, accepted: set[str]) -> Found:
    for first in (at, at - 1):
        word = PAIRS.get((_word(tokens, first), _word(tokens, first + 1)))
        if word:
            return word, RESERVED[word], first
    return None


def _sql_word(tokens: Sequence[Token], at: int, accepted: set[str]) -> Found:
    positions = [at, at - 1, at + 1] if tokens[at].type == "NOT" else [at, at - 1]
    for position in positions:
        if 0 <= position < len(tokens) and tokens[position].type == "RESERVED":
            word = tokens[position].value
            return word, RESERVED[word], position
        if 0 <= position < len(tokens) and tokens[position].type == "NAME" and _word(tokens, position) in SQL:
            construct, hint = SQL[_word(tokens, position)]
            return construct, hint, position
    return None


def _star(tokens: Sequence[Token], at: int, accepted: set[str]) -> Found:
    if tokens[at].type != "STAR" or at == 0 or tokens[at - 1].type not in ("SELECT", "COMMA", "DOT"):
        return None
    if tokens[at + 1].type in ("COMMA", "FROM", "JOIN") or tokens[at - 1].type == "SELECT":
        return "SELECT *", "name the columns", at
    return None


def _clause(tokens: Sequence[Token], at: int) -> str:
    clauses = ("SELECT", "FROM", "_WHERE", "_GROUP", "_HAVING", "MERGE", "SEMICOLON")
    return next((token.type for token in reversed(tokens[:at]) if token.type in clauses), "")


def _bracket(tokens: Sequence[Token], at: int, accepted: set[str]) -> Found:
    if tokens[at].type != "LSQB" or at == 0:
        return None
    before = tokens[at - 1]
    if _clause(tokens, at) == "FROM" or before.type == "RPAR" or _word(tokens, at + 1) in WINDOW_WORDS:
        return "windows (`[RANGE ...]`)", "group by an epoch such as `time/60 AS tb`", at
    if before.type == "NAME":
        return f"the predicate `{before.value}[...]`", "write a comparison", at - 1
    return None


def _nested(tokens: Sequence[Token], at: int, accepted: set[str]) -> Found:
    if tokens[at].type in ("SELECT", "MERGE") and at and _word(tokens, at - 1) == "(":
        return f"a nested {tokens[at].type}", "name the inner query with DEFINE and read it by name", at
    if tokens[at].type == "LPAR" and _word(tokens, at + 1) in ("SELECT", "MERGE"):
        return f"a nested {_word(tokens, at + 1)}", "name the inner query with DEFINE and read it by name", at + 1
    return None


def _foreign_source(tokens: Sequence[Token], at: int, accepted: set[str]) -> Found:
    if _clause(tokens, at) != "FROM":
        return None
    if tokens[at].type == "STRING" and tokens[at - 1].type in ("FROM", "COMMA"):
        return "a host before the link", "write `link.PROTOCOL`", at
    if tokens[at].type == "SLASH":
        return "a query of a library (`library/query`)", "put the query into this file and read it by name", at
    return None


def _misspelt(tokens: Sequence[Token], at: int, state: Callable[[int], InteractiveParser]) -> tuple[int, str]:
    """The keyword with which the text goes on, in place of the name at or just before the token that does not fit."""
    for position in (at - 1, at):
        if position < 0 or tokens[position].type != "NAME":
            continue
        for word in get_close_matches(tokens[position].value.upper(), _WORDS, n=3, cutoff=0.7):
            parser = state(position)
            if _WORDS[word] not in _accepted(parser):
                continue
            parser.feed_token(Token(_WORDS[word], word))
            if position == at or tokens[at].type in _accepted(parser):
                return position, word
    return at, ""


def _habit(tokens: Sequence[Token], at: int, accepted: set[str]) -> str:
    token, before = tokens[at], tokens[at - 1] if at else tokens[at]
    pair = before.value + token.value
    if pair == "==":
        return "write `=`"
    if "/*" in (pair, token.value + _word(tokens, at + 1)):
        return "comments run from `--` or `//` to the end of the line"
    if token.type == "NAME" and before.type in ("NAME", "RPAR", "INT") and _clause(tokens, at) in ("SELECT", "_GROUP"):
        return f"write `AS {token.value}` to name the item before it, or `,` to begin another"
    if token.value.upper() == "QUERY":
        return "write `Query name:` before the SELECT"
    if "SEMICOLON" in accepted and token.type in ("SELECT", "MERGE", "_DEFINE", "QUERY"):
        return "put `;` between two queries"
    if token.type == "PLUS":
        return "GSQL has no unary `+`"
    return ""
