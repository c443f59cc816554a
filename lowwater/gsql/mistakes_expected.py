"""What could have stood in place of a token that does not fit, in words.

Beside `mistakes`: the terminals that the parser would take are many, so what says nothing to a reader is left out.
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
_MANY = 3
SHOWN = {
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
    """`found X, expected A, B or C`.

    Args:
        token: the one that does not fit.
        accepted: the terminals that would.
    """
    found = "the text ends here" if token.type == END else f"found `{short(token)}`"
    names = expected(accepted)
    return f"{found}, expected {' or '.join([', '.join(names[:-1]), names[-1]] if names[1:] else names)}"


def short(token: Token) -> str:
    """The text of a token for a message."""
    text = str(token.value)
    return text if len(text) <= 40 else text[:37] + "..."


def expected(accepted: set[str]) -> list[str]:
    """What the terminals mean to a reader, the likeliest first; what is left out is true but no help."""
    left = set(accepted)
    groups = []
    if "SELECT" in left:
        left -= {"SEMICOLON", END, "QUERY"}
    elif {"LPAR", "INT", "MINUS"} <= left:
        groups.append("an expression")
        left -= EXPRESSION | {"DISTINCT", "GROUPING", "GROUPING_SETS"}
    elif "SHIFT" in left:
        groups.append("an operator")
        # Only between BETWEEN and its AND is AND taken where OR is not.
        missing = {"AND"} if "AND" in left and "OR" not in left else set()
        left = (left - OPERATORS - {"LPAR", "DOT", "LSQB"}) | missing
    elif left >= _LITERALS:
        groups.append("a literal")
        left -= _LITERALS
    if "FROM" in left:
        left -= {"JOIN", "FILTER_JOIN", "_WINDOW"}
    if len(left) > 1:
        left -= {"DOT", "SLASH", "_WINDOW"}
    return _clauses(left) + [shown for kind, shown in SHOWN.items() if kind in left] + groups


def _clauses(left: set[str]) -> list[str]:
    found = [name for kind, name in CLAUSES.items() if kind in left]
    return [*found[: _MANY - 1], "a later clause"] if len(found) > _MANY else found
