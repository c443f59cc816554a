"""Names the tokens that the parser expected, for the message of a syntax error.

Beside `mistakes`. The parser accepts many terminals; the ones that do not help a reader are left out.
"""

from __future__ import annotations

from lark import Token

END = "$END"
EXPRESSION = {"INT", "FLOAT", "STRING", "TRUE", "FALSE", "NULL", "IP", "IPV6", "HEX", "NAME", "PARAMETER", "DEFINED"}
EXPRESSION |= {"PROPERTY", "SUPERAGGREGATE", "CASE", "LPAR", "MINUS", "TILDE", "BANG", "NOT"}
_LITERALS = {"INT", "FLOAT", "STRING", "TRUE", "FALSE", "NULL", "IP", "IPV6", "HEX"}
OPERATORS = {"OR", "AND", "COMPARISON", "EQUAL", "IN", "BETWEEN", "LIKE", "IS", "NOT", "BAR", "AMPERSAND", "SHIFT"}
OPERATORS |= {"PLUS", "MINUS", "STAR", "SLASH", "PERCENT", "UNIT"}
CLAUSES = {
    "_WHERE": "WHERE",
    "_GROUP": "GROUP BY",
    "_HAVING": "HAVING",
    "_SUPERGROUP": "SUPERGROUP",
    "_CLEANING_WHEN": "CLEANING_WHEN",
    "_CLEANING_BY": "CLEANING_BY",
    "_CLOSING_WHEN": "CLOSING_WHEN",
}
_MOST_CLAUSES = 3
TERMINAL_NAMES = {
    "SELECT": "SELECT",
    "MERGE": "MERGE",
    "_DEFINE": "DEFINE",
    "_PARAM": "PARAM",
    "_PROTOCOL": "PROTOCOL",
    "WATCHLIST": "WATCHLIST",
    "QUERY": "`Query name:`",
    "_FIELDS": "FIELDS",
    "DISTINCT": "DISTINCT",
    "FROM": "FROM",
    "JOIN": "a join keyword such as INNER_JOIN",
    "FILTER_JOIN": "FILTER_JOIN",
    "SQL_JOIN": "JOIN",
    "_UNION": "UNION",
    "_AS": "AS",
    "_BY": "BY",
    "_SLACK": "SLACK",
    "GROUPING": "CUBE, ROLLUP",
    "GROUPING_SETS": "GROUPING_SETS",
    "_WINDOW": "a window such as [RANGE 5 min, SLIDE 1 min, WA time]",
    "RANGE": "RANGE",
    "SLIDE": "SLIDE",
    "WA": "WA",
    "PARTITION": "PARTITION BY",
    "IN": "IN",
    "BETWEEN": "BETWEEN",
    "LIKE": "LIKE",
    "IS": "IS",
    "NOT": "NOT",
    "AND": "AND",
    "WHEN": "WHEN",
    "THEN": "THEN",
    "ELSE": "ELSE",
    "END": "END",
    "NULL": "NULL",
    "NAME": "a name",
    "STRING": "a string",
    "INT": "a number",
    "EQUAL": "`=`",
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
    "SLASH": "`/`",
    "STAR": "`*`",
    END: "the end of the text",
}


def message(token: Token, accepted: set[str]) -> str:
    """Returns the message `found X, expected A, B or C`.

    Args:
        token: the token that does not fit.
        accepted: the terminals that the parser accepts there.
    """
    unexpected = "the text ends here" if token.type == END else f"found `{short(token)}`"
    names = expected(accepted)
    return f"{unexpected}, expected {' or '.join([', '.join(names[:-1]), names[-1]] if names[1:] else names)}"


def short(token: Token) -> str:
    """Returns the text of a token for a message, at most 40 characters."""
    text = str(token.value)
    return text if len(text) <= 40 else text[:37] + "..."


def expected(accepted: set[str]) -> list[str]:
    """Names the terminals in words for the reader, the likeliest first. Terminals that give no help are left out."""
    remaining = set(accepted)
    groups = []
    if "SELECT" in remaining:
        remaining -= {"SEMICOLON", END, "QUERY"}
    elif {"LPAR", "INT", "MINUS"} <= remaining:
        groups.append("an expression")
        remaining -= EXPRESSION | {"DISTINCT", "GROUPING", "GROUPING_SETS"}
    elif "SHIFT" in remaining:
        groups.append("an operator")
        # The parser accepts AND but not OR only between BETWEEN and its AND.
        missing = {"AND"} if "AND" in remaining and "OR" not in remaining else set()
        remaining = (remaining - OPERATORS - {"LPAR", "DOT", "LSQB"}) | missing
    elif remaining >= _LITERALS:
        groups.append("a literal")
        remaining -= _LITERALS
    if "FROM" in remaining:
        remaining -= {"JOIN", "FILTER_JOIN", "_WINDOW"}
    if len(remaining) > 1:
        remaining -= {"DOT", "SLASH", "_WINDOW"}
    return _clause_names(remaining) + [name for kind, name in TERMINAL_NAMES.items() if kind in remaining] + groups


def _clause_names(terminals: set[str]) -> list[str]:
    names = [name for kind, name in CLAUSES.items() if kind in terminals]
    return [*names[: _MOST_CLAUSES - 1], "a later clause"] if len(names) > _MOST_CLAUSES else names
