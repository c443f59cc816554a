"""Says what is wrong with a text that does not parse: found, expected, the likely meant keyword, the refused construct.

Called by `parser` once, at the first token that does not fit; nothing here runs for a text that is right. What is
refused is in `mistakes_refused`, what was expected in `mistakes_expected`, what helps in `mistakes_hints`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches

from lark import Token
from lark.parsers.lalr_interactive_parser import InteractiveParser

from lowwater.errors import QueryError
from lowwater.gsql.literals import fault, place_of
from lowwater.gsql.mistakes_expected import message
from lowwater.gsql.mistakes_hints import Scene, clause_before, hint_for
from lowwater.gsql.mistakes_refused import refused_here
from lowwater.gsql.words import KEYWORDS, UPPER_ONLY, WINDOW_WORDS

Reader = Callable[[Sequence[Token]], InteractiveParser]

_SOFT = {word: word for word in ("BETWEEN", "LIKE", "CASE", "WHEN", "THEN", "ELSE", "END", "DISTINCT")}
_WORDS = KEYWORDS | UPPER_ONLY | WINDOW_WORDS | _SOFT | {"UNION": "_UNION", "JOIN": "SQL_JOIN"}

_NEAR = 0.7


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
    refused = refused_here(tokens, at, accepted, clause_before(tokens, at))
    if refused:
        return refused
    position, word = _misspelt(tokens, at, state)
    if word:
        shown = {"GROUP": "GROUP BY", "PARTITION": "PARTITION BY"}.get(word, word)
        hint = f"did you mean {shown}?"
        if tokens[position].value.upper() == word:
            hint += " Keywords are written UPPER, lower or Cap_Each_Word." if word in KEYWORDS else " It is upper case."
        return fault(message(tokens[position], _accepted(state(position))), hint, place_of(tokens[position]))
    return fault(message(tokens[at], accepted), hint_for(Scene(tokens, at, accepted)), place_of(tokens[at]))


def _accepted(parser: InteractiveParser) -> set[str]:
    accepted: set[str] = parser.accepts()  # type: ignore[no-untyped-call]
    return accepted


def _misspelt(tokens: Sequence[Token], at: int, state: Callable[[int], InteractiveParser]) -> tuple[int, str]:
    """The keyword with which the text goes on, in place of the name at or just before the token that does not fit."""
    for position in (at - 1, at):
        if position < 0 or tokens[position].type != "NAME":
            continue
        for word in _near(tokens, position):
            parser = state(position)
            if _WORDS[word] not in _accepted(parser):
                continue
            parser.feed_token(Token(_WORDS[word], word))
            # The word between is a part of the misspelt keyword: CLEANIN BY.
            follows = at + 1 if position == at and tokens[at + 1].type == "_BY" and word.endswith("_BY") else at
            if position == at or tokens[follows].type in _accepted(parser):
                return position, word
    return at, ""


def _near(tokens: Sequence[Token], position: int) -> list[str]:
    written = str(tokens[position].value).upper()
    if written == "JOIN" or (position and tokens[position - 1].type == "DOT"):
        return []
    following = str(tokens[position + 1].value).upper() if position + 1 < len(tokens) else ""
    joined = get_close_matches(f"{written}_{following}", KEYWORDS, n=1, cutoff=0.85)
    return joined + get_close_matches(written, _WORDS, n=3, cutoff=_NEAR)
