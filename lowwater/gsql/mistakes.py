"""Explains a syntax error: the unexpected token, the expected ones, a keyword that was meant, a refused construct.

`parser` calls this module once, at the first token that does not fit; a correct text never comes here.
`mistakes_refused` knows constructs that Lowwater does not run, `mistakes_expected` names the expected tokens, and
`mistakes_hints` gives advice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches

from lark import Token
from lark.parsers.lalr_interactive_parser import InteractiveParser

from lowwater.errors import QueryError
from lowwater.gsql.literals import fault, place_of
from lowwater.gsql.mistakes_expected import message
from lowwater.gsql.mistakes_hints import ErrorContext, clause_before, hint_for
from lowwater.gsql.mistakes_refused import refused_construct
from lowwater.gsql.words import KEYWORDS, UPPER_ONLY, WINDOW_WORDS

ParserAfter = Callable[[Sequence[Token]], InteractiveParser]

_CONTEXT_KEYWORDS = {word: word for word in ("BETWEEN", "LIKE", "CASE", "WHEN", "THEN", "ELSE", "END", "DISTINCT")}
_WORDS = KEYWORDS | UPPER_ONLY | WINDOW_WORDS | _CONTEXT_KEYWORDS | {"UNION": "_UNION", "JOIN": "SQL_JOIN"}

_MIN_SIMILARITY = 0.7


def syntax_error(tokens: Sequence[Token], at: int, parser_after: ParserAfter) -> QueryError:
    """Returns the error for `tokens[at]`, the first token that does not fit.

    Args:
        tokens: all tokens, the last of type `$END`.
        at: the index of the token that does not fit.
        parser_after: returns the state of the parser after a prefix of the tokens, which must fit the grammar.

    Returns:
        An UnsupportedError if a construct that Lowwater does not run stands here, else a QueryError.
    """
    start = max(at - 1, 0)
    before = parser_after(tokens[:start])

    def state(position: int) -> InteractiveParser:
        # Parsing the prefix costs as much as the whole parse: it runs once, to the earliest position that is needed.
        parser: InteractiveParser = before.copy(deepcopy_values=False)  # type: ignore[no-untyped-call]
        for token in tokens[start:position]:
            parser.feed_token(token)
        return parser

    accepted = _accepted(state(at))
    unsupported = refused_construct(tokens, at, accepted, clause_before(tokens, at))
    if unsupported:
        return unsupported
    position, near_keyword = _misspelt(tokens, at, state)
    if near_keyword:
        keyword = {"GROUP": "GROUP BY", "PARTITION": "PARTITION BY"}.get(near_keyword, near_keyword)
        hint = f"did you mean {keyword}?"
        if tokens[position].value.upper() == near_keyword:
            hint += (
                " Keywords are written UPPER, lower or Cap_Each_Word."
                if near_keyword in KEYWORDS
                else " It is upper case."
            )
        return fault(message(tokens[position], _accepted(state(position))), hint, place_of(tokens[position]))
    return fault(message(tokens[at], accepted), hint_for(ErrorContext(tokens, at, accepted)), place_of(tokens[at]))


def _accepted(parser: InteractiveParser) -> set[str]:
    accepted: set[str] = parser.accepts()  # type: ignore[no-untyped-call]
    return accepted


def _misspelt(tokens: Sequence[Token], at: int, state: Callable[[int], InteractiveParser]) -> tuple[int, str]:
    """Finds a keyword that lets the parse go on, in place of the name at or just before the token that does not fit.

    Args:
        tokens: all tokens.
        at: the index of the token that does not fit.
        state: returns the state of the parser before the token of an index.

    Returns:
        The index of the misspelt name, and the keyword; the keyword is empty if none helps.
    """
    for position in (at - 1, at):
        if position < 0 or tokens[position].type != "NAME":
            continue
        for word in _similar_keywords(tokens, position):
            parser = state(position)
            if _WORDS[word] not in _accepted(parser):
                continue
            parser.feed_token(Token(_WORDS[word], word))
            # The next word is a part of the misspelt keyword: CLEANIN BY.
            follows = at + 1 if position == at and tokens[at + 1].type == "_BY" and word.endswith("_BY") else at
            if position == at or tokens[follows].type in _accepted(parser):
                return position, word
    return at, ""


def _similar_keywords(tokens: Sequence[Token], position: int) -> list[str]:
    word_here = str(tokens[position].value).upper()
    if word_here == "JOIN" or (position and tokens[position - 1].type == "DOT"):
        return []
    following = str(tokens[position + 1].value).upper() if position + 1 < len(tokens) else ""
    joined = get_close_matches(f"{word_here}_{following}", KEYWORDS, n=1, cutoff=0.85)
    return joined + get_close_matches(word_here, _WORDS, n=3, cutoff=_MIN_SIMILARITY)
