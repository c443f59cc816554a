"""The words of GSQL: keywords with their case rule, and the constructs that are known but not run yet.

Between lark's lexer and its parser, at the top of the pipeline: names that are keywords are retyped here.
"""

from __future__ import annotations

from collections.abc import Iterator

from lark import Token
from lark.lark import PostLex

AGGREGATES = ("count", "sum", "min", "max", "avg", "and_aggr", "or_aggr", "xor_aggr")
JOINS = ("INNER_JOIN", "OUTER_JOIN", "LEFT_OUTER_JOIN", "RIGHT_OUTER_JOIN")

# Keyword -> terminal of the grammar.
KEYWORDS = {
    "SELECT": "SELECT",
    "FROM": "FROM",
    "WHERE": "_WHERE",
    "GROUP": "_GROUP",
    "BY": "_BY",
    "HAVING": "_HAVING",
    "AS": "_AS",
    "MERGE": "MERGE",
    "AND": "AND",
    "OR": "OR",
    "NOT": "NOT",
    **dict.fromkeys(JOINS, "JOIN"),
}
UPPER_ONLY = {"DEFINE": "_DEFINE", "SLACK": "_SLACK", "TRUE": "TRUE", "FALSE": "FALSE"}

# Reserved words of constructs that are not run yet -> what to do instead.
_CLEANING = "write HAVING, which filters the groups when they close"
_GROUPINGS = "write one query for each grouping"
RESERVED = {
    "CLOSING_WHEN": "group by an epoch such as `time/60 AS tb`, so that groups close with it",
    "CLEANING_WHEN": _CLEANING,
    "CLEANING_BY": _CLEANING,
    "SUPERGROUP": "group by the columns of the supergroup in a query of its own",
    "CUBE": _GROUPINGS,
    "ROLLUP": _GROUPINGS,
    "GROUPING_SETS": _GROUPINGS,
    "FILTER_JOIN": "write INNER_JOIN of the two sources",
    "WATCHLIST": "write the watched values into WHERE, joined by OR",
    "WATCHLIST_JOIN": "write the watched values into WHERE, joined by OR",
    "IN": "write `x = 1 OR x = 2`",
}

# Tokens of constructs that are not run yet -> name and what to do instead.
TOKENS = {
    "PARAMETER": ("the query parameter", "write the value itself"),
    "DEFINED": ("the DEFINE value", "write the value itself"),
    "PROPERTY": ("the interface property", "name the link in FROM, or select the column `interface`"),
    "SUPERAGGREGATE": ("the superaggregate", "compute it in a second query over this one"),
    "TIMEVAL": ("TIMEVAL", "write the time as an integer in the unit of the column"),
}

# Words of SQL that are plain names to the lexer: refused where they stand in the way of a parse.
_JOIN_HINT = "write INNER_JOIN before FROM: `INNER_JOIN FROM a A, b B WHERE A.t = B.t`"
SQL = {
    "UNION": ("UNION", "write `MERGE A.t : B.t FROM a A, b B`"),
    "DISTINCT": ("DISTINCT", "write the columns into GROUP BY"),
    "CASE": ("CASE", "write one query for each case"),
    "BETWEEN": ("BETWEEN", "write `x >= low AND x <= high`"),
    "LIKE": ("LIKE", "compare the whole string with `=`"),
    "IS": ("IS NULL", "`x = x` holds where x is not missing; to find what is missing there is no way yet"),
    "JOIN": ("JOIN after FROM", _JOIN_HINT),
    **dict.fromkeys(("INNER", "LEFT", "RIGHT", "FULL", "OUTER", "CROSS", "NATURAL"), ("JOIN after FROM", _JOIN_HINT)),
    "ORDER": ("ORDER BY", "published rows are already in a fixed order: leave it out"),
    "LIMIT": ("LIMIT", "filter with WHERE or HAVING"),
    "WINDOW": ("WINDOW", "group by an epoch such as `time/60 AS tb`"),
}
# Two words where GSQL has one: the manual prints them so.
PAIRS = {("CLOSING", "WHEN"): "CLOSING_WHEN", ("CLEANING", "WHEN"): "CLEANING_WHEN", ("CLEANING", "BY"): "CLEANING_BY"}
PAIRS |= {
    ("GROUPING", "SETS"): "GROUPING_SETS",
    ("FILTER", "JOIN"): "FILTER_JOIN",
    ("WATCHLIST", "JOIN"): "WATCHLIST_JOIN",
}

# Blocks that define things, by their first word or (after a result type) by one of their first words.
BLOCKS = ("PARAM", "PROTOCOL", "STREAM", "TABLE", "FTA", "UNPACK_FCNS", "OPERATOR_VIEW", "PRED")
DECLARATIONS = ("FUN", "PRED", "UDAF", "EXTR", "SFUN", "STATE")
WINDOW_WORDS = ("RANGE", "SLIDE", "ROWS", "WA", "WATTR", "PARTITION", "NOW", "UNBOUNDED")


def spellings(word: str) -> tuple[str, str, str]:
    """The three ways in which a keyword may be written; any other case makes a name.

    Example:
        >>> spellings("INNER_JOIN")
        ('INNER_JOIN', 'Inner_Join', 'inner_join')
    """
    return word.upper(), "_".join(part.capitalize() for part in word.split("_")), word.lower()


# Written form -> (terminal, canonical spelling).
_BY_SPELLING = {written: (kind, word) for word, kind in KEYWORDS.items() for written in spellings(word)}
_BY_SPELLING |= {written: ("RESERVED", word) for word in RESERVED for written in spellings(word)}
_BY_SPELLING |= {word: (kind, word) for word, kind in UPPER_ONLY.items()}
_AGGREGATE_BY_SPELLING = {written: word for word in AGGREGATES for written in spellings(word)}


def is_keyword(name: str) -> bool:
    """Whether the text, written exactly so, is a keyword and so cannot be a name."""
    return name in _BY_SPELLING


def function_name(written: str) -> str:
    """The built-in aggregates in lower case, since they follow the case rule of keywords; other names as written."""
    return _AGGREGATE_BY_SPELLING.get(written, written)


class Keywords(PostLex):
    """Retypes the names that are keywords."""

    # lark drops terminals that no rule uses; these are made only to be refused by name.
    always_accept = tuple(TOKENS)

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        for token in stream:
            if token.type == "NAME" and token.value in _BY_SPELLING:
                kind, word = _BY_SPELLING[token.value]
                yield token.update(type=kind, value=word)
            else:
                yield token
