"""Gives hints for syntax errors: habits from other languages, typing slips, and the form of each clause.

Beside `mistakes`. Each rule looks at the error and returns a hint or an empty text; the first hint wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from lark import Token

from lowwater.gsql.mistakes_expected import CLAUSES, END, EXPRESSION
from lowwater.gsql.words import WINDOW_FORM, WINDOW_WORDS, is_keyword

_FIRST_WORDS = {"SELECT", "MERGE", "WATCHLIST", "_PROTOCOL", "_DEFINE", "_PARAM", "SEMICOLON"}
_VALUE_ENDS = {"NAME", "RPAR", "RSQB", "INT", "FLOAT", "STRING", "TRUE", "FALSE", "NULL", "IP", "IPV6", "HEX", "END"}
_VALUE_ENDS |= {"UNIT", "PARAMETER", "DEFINED", "PROPERTY", "STAR"}
_OPENS = {"LPAR": "RPAR", "LSQB": "RSQB", "_WINDOW": "RSQB", "LBRACE": "RBRACE", "CASE": "END"}
_CLOSES = {"RPAR": ("LPAR",), "RSQB": ("LSQB", "_WINDOW"), "RBRACE": ("LBRACE",), "END": ("CASE",)}
_CONDITIONS = ("_WHERE", "_HAVING", "_CLEANING_WHEN", "_CLEANING_BY", "_CLOSING_WHEN")
_ADDRESS = "write an address as `IP_VAL'192.0.2.1'` or `IPV6_VAL'2001:db8::1'`"
_CASE = "`CASE WHEN a = 1 THEN 2 ELSE 3 END`, or `CASE a WHEN 1 THEN 2 ELSE 3 END`"
_ORDER = "the order is FROM, WHERE, GROUP BY, SUPERGROUP, HAVING, CLEANING_WHEN, CLEANING_BY, CLOSING_WHEN, each once"
_FOREIGN_OPERATORS = {
    "==": "write `=`",
    "=>": "write `>=`",
    "=<": "write `<=`",
    "<=>": "write `=`; a comparison with NULL is `IS NULL`",
    "&&": "write AND",
    "||": "write OR; strings are not joined",
    "**": "write `pow(a, b)`",
    "/*": "comments run from `--` or `//` to the end of the line",
    "::": "convert with a function: `INT(a)`, `FLOAT(a)`",
}
_BLOCKS = {
    "_DEFINE": "an entry of DEFINE is `name 'value';`",
    "_PARAM": "an entry of PARAM is `name type;`, or with a default value `name type = 5;`",
    "_PROTOCOL": "a field of a PROTOCOL is `type name access_function (increasing);`, the attributes may be left out",
    "WATCHLIST": "write `WATCHLIST FIELDS { type name (key); }`",
}
_FORMS = {
    "": "a query is `SELECT a, b AS c FROM source WHERE condition`, or `MERGE a.t : b.t FROM a, b`",
    "SELECT": "the form is `SELECT a, b AS c FROM source`",
    "FROM": "a source is `PROTOCOL`, `link.PROTOCOL`, `[link, link].PROTOCOL`, `query` or `library/query`",
    "MERGE": "the form is `MERGE a.t : b.t SLACK 5 FROM a, b`, with one column for each source",
    "_GROUP": "the form is `GROUP BY column, expression AS name`",
    "_SUPERGROUP": "the form is `SUPERGROUP a, b`, of names that are grouped by",
    "JOIN": "the form is `SELECT A.a INNER_JOIN FROM r A, s B WHERE A.t = B.t`",
    "FILTER_JOIN": "the form is `FILTER_JOIN(time, 5) FROM R r, S s`: a column of r and a range",
}


def clause_before(tokens: Sequence[Token], at: int) -> str:
    """Returns the terminal that begins the clause of a token; empty before the first clause."""
    starts = {*_FIRST_WORDS, *CLAUSES, "FROM", "JOIN", "FILTER_JOIN"}
    terminal = next((token.type for token in reversed(tokens[:at]) if token.type in starts), "")
    return "" if terminal == "SEMICOLON" else terminal


@dataclass
class ErrorContext:
    """The token that does not fit, and the tokens around it.

    Attributes:
        tokens: all tokens of the statement.
        at: the index of the token that does not fit.
        accepted: the terminals that the parser accepts there.
    """

    tokens: Sequence[Token]
    at: int
    accepted: set[str]

    @cached_property
    def clause(self) -> str:
        """The terminal that begins the clause of the token."""
        return clause_before(self.tokens, self.at)

    @cached_property
    def open(self) -> int:
        """The index of the innermost open bracket or CASE; -1 for none."""
        stack: list[int] = []
        for index, token in enumerate(self.tokens[: self.at]):
            if token.type in _OPENS:
                stack.append(index)
            elif stack and self.tokens[stack[-1]].type in _CLOSES.get(token.type, ()):
                stack.pop()
        return stack[-1] if stack else -1

    @property
    def opened(self) -> str:
        """The type of the innermost open bracket; empty for none."""
        return self.kind(self.open) if self.open >= 0 else ""

    def kind(self, index: int) -> str:
        """The type of a token; empty outside the text."""
        return str(self.tokens[index].type) if 0 <= index < len(self.tokens) else ""

    def text(self, index: int) -> str:
        """The text of a token; empty outside the text."""
        return str(self.tokens[index].value) if 0 <= index < len(self.tokens) else ""

    def glued(self) -> bool:
        """Whether no blank stands before the token."""
        return self.at > 0 and self.tokens[self.at].start_pos == self.tokens[self.at - 1].end_pos


def hint_for(error: ErrorContext) -> str:
    """Returns the first hint that fits the error."""
    return next(hint for rule in _RULES if (hint := rule(error)))


def _operator_of_others(error: ErrorContext) -> str:
    here, before, after = error.text(error.at), error.text(error.at - 1), error.text(error.at + 1)
    if here + after in ("/*", "::"):
        return _FOREIGN_OPERATORS[here + after]
    if error.glued() and before + here in _FOREIGN_OPERATORS:
        return _FOREIGN_OPERATORS[before + here]
    if here == "+" and "MINUS" in error.accepted:
        return "GSQL has no unary `+`: leave it out"
    return ""


def _address(error: ErrorContext) -> str:
    names = [error.text(index).upper() for index in (error.at - 1, error.at)]
    if any(name.startswith(("IP", "IPV4_VAL", "IPV6")) and name.endswith("VAL") for name in names):
        return _ADDRESS
    return _ADDRESS if error.kind(error.at) == error.kind(error.at - 1) == "FLOAT" and error.glued() else ""


def _glued_word(error: ErrorContext) -> str:
    here, before = error.text(error.at), error.text(error.at - 1)
    if not error.glued():
        return ""
    if before == "0" and here[:1] in "xX":
        return "write a hexadecimal number as HEX'ff'"
    if error.kind(error.at - 1) == "INT" and error.kind(error.at) == "NAME":
        return "a name begins with a letter or `_`; put a blank after a number"
    if error.kind(error.at - 1) == "STRING" and before.endswith("\\'"):
        return "in a string a backslash is an ordinary character: write `''` for a quote inside it"
    return ""


def _case(error: ErrorContext) -> str:
    if error.opened != "CASE":
        return ""
    place = error.tokens[error.open]
    return f"the CASE at {place.line}:{place.column} needs the form {_CASE}"


def _window(error: ErrorContext) -> str:
    bracket = error.kind(error.at) == "LSQB" and error.clause in ("FROM", "SELECT")
    words = error.clause == "FROM" and error.text(error.at - 1).upper() in WINDOW_WORDS
    return WINDOW_FORM if error.opened == "_WINDOW" or bracket or words else ""


def _comparison(error: ErrorContext) -> str:
    here, before = error.text(error.at).upper(), error.kind(error.at - 1)
    if "AND" in error.accepted and "OR" not in error.accepted:
        return "write `BETWEEN low AND high`"
    if before == "IN":
        return "write the values in brackets: `IN [1, 2]`"
    if error.kind(error.at - 2) == "IN" and before in ("LSQB", "LPAR"):
        return "list at least one value: `IN [1, 2]`"
    if here == "IS" or before == "IS" or (here == "NULL" and before == "NOT"):
        return "write `IS NULL` or `IS NOT NULL`; other values are compared with `=`"
    if before == "NOT" and {"IN", "BETWEEN"} <= error.accepted:
        return "after a value write `NOT IN`, `NOT BETWEEN` or `NOT LIKE`; NOT before it turns a condition round"
    return ""


def _block(error: ErrorContext) -> str:
    if error.opened != "LBRACE" and error.clause not in ("_DEFINE", "_PARAM", "_PROTOCOL", "WATCHLIST"):
        return ""
    if error.kind(error.at) in ("SELECT", "MERGE", END) and error.opened == "LBRACE":
        return _unclosed(error)
    return _BLOCKS.get(error.clause, "")


def _unclosed(error: ErrorContext) -> str:
    bracket = error.tokens[error.open]
    closing = {"RPAR": ")", "RSQB": "]", "RBRACE": "}"}[_OPENS[error.opened]]
    return f"the `{bracket.value}` at {bracket.line}:{bracket.column} is not closed: write `{closing}`"


def _brackets(error: ErrorContext) -> str:
    here = error.kind(error.at)
    ends = here in CLAUSES or here in (END, "SEMICOLON", "FROM", "SELECT", "RPAR", "RSQB")
    if error.opened in ("LPAR", "LSQB") and ends and (here == END or _OPENS[error.opened] in error.accepted):
        return _unclosed(error)
    if here in ("RPAR", "RSQB", "RBRACE") and error.open < 0:
        return f"no bracket is open here: leave out the `{error.text(error.at)}`"
    return ""


def _comma(error: ErrorContext) -> str:
    here, before = error.kind(error.at), error.kind(error.at - 1)
    if before == "COMMA" and (here in CLAUSES or here in ("FROM", "COMMA", "RPAR", "RSQB", END, "SEMICOLON")):
        return "a `,` stands between two items: leave it out or write one more"
    if here == "COMMA" and error.open < 0 and error.clause in _CONDITIONS:
        return "join conditions with AND"
    if here == "COMMA" and before in ("LPAR", "LSQB"):
        return "a `,` stands between two items: leave it out or write one more"
    if here == "COMMA" and error.kind(error.open + 1) == "DISTINCT":
        return "DISTINCT takes one expression: `count(DISTINCT a)`"
    return ""


def _missing_comma(error: ErrorContext) -> str:
    here, name = error.kind(error.at), error.text(error.at)
    starts = here in EXPRESSION - {"MINUS", "NOT"}
    if not starts or error.kind(error.at - 1) not in _VALUE_ENDS:
        return ""
    if error.opened in ("LPAR", "LSQB"):
        return "put `,` between two arguments" if "COMMA" in error.accepted else ""
    if error.clause not in ("SELECT", "_GROUP"):
        return ""
    if here == "NAME" and error.kind(error.at + 1) not in ("LPAR", "DOT", "LSQB"):
        return f"write `AS {name}` to name the item before it, or `,` to begin another"
    if here == "LPAR" and error.kind(error.at - 2) == "DOT":
        return "put `,` between two items; a function has no qualifier"
    return "put `,` between two items"


def _keyword(error: ErrorContext) -> str:
    here, name = error.kind(error.at), error.text(error.at)
    before = error.kind(error.at - 1)
    if before == "STAR" and here == "_AS":
        return "`*` stands for all columns and takes no name"
    if before == "_AS":
        quoted = f'"{name}"' if is_keyword(name) else '"from"'
        return f"a name stands after AS; a keyword as a name stands between double quotes: {quoted}"
    if here == "_AS" and error.opened == "LPAR":
        return "convert with a function: `INT(a)`, `UINT(a)`, `FLOAT(a)`; items are named outside of calls"
    if name.upper() == "QUERY":
        return "write `Query name:` before the SELECT"
    if "SEMICOLON" in error.accepted and here in ("SELECT", "MERGE", "WATCHLIST", "_DEFINE", "_PARAM", "QUERY"):
        return "put `;` between two queries"
    if here in CLAUSES and "SEMICOLON" in error.accepted:
        return _ORDER
    return ""


def _union(error: ErrorContext) -> str:
    words = {error.text(index).upper() for index in (error.at - 2, error.at - 1, error.at)}
    if {"UNION", "ALL"} <= words | {error.text(error.at - 3).upper()}:
        return "UNION keeps all rows and takes no ALL: `FROM A UNION B AS m`; two queries are joined with MERGE"
    return "UNION joins sources, `FROM A UNION B AS m`; two queries are joined with MERGE" if "UNION" in words else ""


def _source(error: ErrorContext) -> str:
    if error.clause != "FROM":
        return ""
    if error.kind(error.at - 1) == "STRING" or error.kind(error.at - 3) == "STRING":
        return "links have names of their own, whatever host they are on: write `link.PROTOCOL`"
    if error.kind(error.at) == "SLASH":
        return "a query of a library is `library/query`"
    if error.text(error.at - 1).upper() in ("LEFT", "RIGHT", "FULL", "INNER", "OUTER"):
        return "the joins are JOIN, LEFT JOIN, RIGHT JOIN and FULL JOIN, between two sources"
    return ""


def _group(error: ErrorContext) -> str:
    if error.kind(error.at - 1) in ("GROUPING", "GROUPING_SETS"):
        return "write `CUBE(a, b)`, `ROLLUP(a, b)` or `GROUPING_SETS((a, b), (a), ())`"
    return ""


def _start(error: ErrorContext) -> str:
    if "SELECT" not in error.accepted:
        return ""
    word = error.text(error.at).upper()
    if word in ("INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "ALTER"):
        return "GSQL only reads: write a SELECT or a MERGE, results go to the table of the query"
    if error.kind(error.at + 1) == "COLON":
        return "write `Query name:`, or make it a comment: `-- name`"
    return ""


def _form(error: ErrorContext) -> str:
    if error.clause in _CONDITIONS:
        return f"the form is `{CLAUSES[error.clause]} a = 1 AND f(b) > 2`"
    return _FORMS.get(error.clause, _FORMS[""])


_RULES = (
    _operator_of_others,
    _address,
    _glued_word,
    _case,
    _block,
    _window,
    _comparison,
    _brackets,
    _comma,
    _union,
    _keyword,
    _missing_comma,
    _source,
    _group,
    _start,
    _form,
)
