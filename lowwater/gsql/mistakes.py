"""Explains a syntax error: the unexpected token, the expected ones, a keyword that was meant, a refused construct.

`parser` calls this module once, at the first token that does not fit; a correct text never comes here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from itertools import pairwise

from lark import Token
from lark.parsers.lalr_interactive_parser import InteractiveParser

from lowwater.errors import QueryError
from lowwater.gsql import words
from lowwater.gsql.build import fault, place_of, refusal

# Names the tokens that the parser expected, for the message of a syntax error. The parser accepts many terminals; the
# ones that do not help a reader are left out.

END = "$END"
EXPRESSION = {"INT", "FLOAT", "STRING", "TRUE", "FALSE", "NULL", "IP", "IPV6", "HEX", "NAME", "PARAMETER", "DEFINED"}
EXPRESSION |= {"PROPERTY", "SUPERAGGREGATE", "EXISTS", "CASE", "LPAR", "MINUS", "TILDE", "BANG", "NOT"}
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
    "_ORDER": "ORDER BY",
    "_QUALIFY": "QUALIFY",
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
    "_ON": "ON",
    "_USING": "USING",
    "UNION": "UNION",
    "_AS": "AS",
    "_BY": "BY",
    "_LIMIT": "LIMIT",
    "WITH_TIES": "WITH TIES",
    "_PER": "PER",
    "DIRECTION": "DESC",
    "NULLS": "NULLS FIRST",
    "_OVER": "OVER",
    "FILL": "FILL",
    "FRAME": "ROWS UNBOUNDED PRECEDING",
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
    """Returns the message `found X, expected A, B or C`."""
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


# Refuses constructs that Lowwater knows by name and does not run, and characters that begin no token. Beside
# `mistakes`, which asks this module first: a text with ORDER BY gets a message about ORDER BY, not about an
# unexpected name.

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
    **dict.fromkeys("‘’“”", _STRINGS),  # noqa: RUF001
    "`": f"a name needs no quotes, or double ones; {_STRINGS}",
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
_NESTED_IN = "IN takes a list: ask with EXISTS, as in EXISTS (SELECT * FROM b B WHERE B.k = A.k AND B.time = A.time)"
_LATERAL = "a join pairs the rows, FROM a A JOIN b B ON A.k = B.k AND A.time = B.time; ASOF JOIN takes the nearest"
Construct = tuple[str, str, int] | None
"""A construct that Lowwater does not run: its name, a hint, and the index of its token."""


def refused_token(token: Token) -> QueryError | None:
    """Returns the error of a token that no query may hold (TIMEVAL, a strange character), else None."""
    if token.type in words.TOKENS:
        name, hint = words.TOKENS[token.type]
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
    """Returns the error of a construct that Lowwater does not run, if one stands at a token; else None. `clause`: the
    terminal that begins the clause of the token; empty before the first clause."""
    construct = (
        _block(tokens, at, accepted)
        or _order_alone(tokens, at, accepted)
        or _sql_word(tokens, at, clause)
        or _nested(tokens, at, clause)
    )
    if construct:
        name, hint, position = construct
        return refusal(name, hint, place_of(tokens[position]))
    return None


def _block(tokens: Sequence[Token], at: int, accepted: set[str]) -> Construct:
    if "SELECT" not in accepted or tokens[at].type == "$END":
        return None
    word = str(tokens[at].value)
    if word in words.BLOCKS:
        return f"{word} blocks", _BLOCK_HINTS[word], at
    for token in tokens[at : at + _LOOK_AHEAD]:
        if token.type == "SEMICOLON":
            break
        if token.type == "NAME" and token.value in words.DECLARATIONS:
            name = f"{token.value} definitions in a query file"
            return name, "put them into a file of their own: --functions FILE", at
    return None


def _order_alone(tokens: Sequence[Token], at: int, accepted: set[str]) -> Construct:
    if "_LIMIT" not in accepted or tokens[at].type not in (END, "SEMICOLON"):
        return None
    order = max(index for index, token in enumerate(tokens[:at]) if token.type == "_ORDER")
    hint = "ORDER BY a DESC LIMIT 10 keeps the first rows of each epoch; sort when you read"
    return "ORDER BY without LIMIT", hint, order


def _sql_word(tokens: Sequence[Token], at: int, clause: str) -> Construct:
    # The parser takes a word after a source as its alias, so the error comes at the next token.
    # It takes TOP as a column, so the error comes at the number behind it.
    top = clause == "SELECT" and tokens[at].type == "INT"
    for position in (at, at - 1) if clause == "FROM" or top else (at,):
        word = str(tokens[position].value).upper()
        if tokens[position].type == "NAME" and word in words.SQL:
            construct, hint = words.SQL[word]
            after = str(tokens[position + 1].value).upper() if position + 1 < len(tokens) else ""
            construct, hint = _OTHERS.get((word, after), (construct, hint))
            return construct, hint, position
    return None


_SAMPLE = "write DEFINE { sample '0.1'; } before SELECT: it takes the same packets in each run"
_OTHERS = {
    ("LIMIT", "ALL"): ("LIMIT ALL", "leave ORDER BY and LIMIT out: a table has all rows; sort when you read"),
    ("USING", "SAMPLE"): ("USING SAMPLE", _SAMPLE),
}
"""Two words of SQL -> what is refused, and what to write, in place of that of the first alone."""


def _nested(tokens: Sequence[Token], at: int, clause: str) -> Construct:
    inner = at if tokens[at].type != "LPAR" else at + 1
    if inner >= len(tokens) or tokens[inner].type not in ("SELECT", "MERGE") or tokens[inner - 1].type != "LPAR":
        return None
    before = tokens[inner - 2] if inner > 1 else None
    hint = _NESTED_VALUE if clause == "SELECT" or clause in CLAUSES else _NESTED
    if before is not None and before.type == "IN":
        hint = _exists(tokens, inner) or _NESTED_IN
    elif before is not None and str(before.value).upper() == "LATERAL":
        hint = _LATERAL
    return f"a nested {tokens[inner].type}", hint, inner


def _text(tokens: Sequence[Token]) -> str:
    """Returns tokens as they were written, with one blank where there were some."""
    parts = list[str]()
    for before, token in pairwise([None, *tokens]):
        apart = before is not None and before.end_pos != token.start_pos  # type: ignore[union-attr]
        parts.append(f"{' ' * apart}{token.value}")  # type: ignore[union-attr]
    return "".join(parts)


def _is_name(tokens: Sequence[Token]) -> bool:
    """Whether tokens are a column, with its source or without."""
    return [token.type for token in tokens] in (["NAME"], ["NAME", "DOT", "NAME"])


def _ended(tokens: Sequence[Token], begin: int, kinds: Collection[str]) -> int:
    """The position of the first token of some types outside of parentheses, or of the one that closes those around."""
    depth = 0
    for at in range(begin, len(tokens)):
        depth += (tokens[at].type == "LPAR") - (tokens[at].type == "RPAR")
        if depth < 0 or (not depth and tokens[at].type in kinds):
            return at
    return len(tokens)


def _exists(tokens: Sequence[Token], select: int) -> str:
    """Writes `x [NOT] IN (SELECT ...)` as EXISTS. Empty where it is not plain.

    Args:
        select: the position of the inner SELECT.
    """
    outer = next((at for at in range(select, -1, -1) if tokens[at].type == "FROM"), 0)
    condition = _ended(tokens, outer, ("_WHERE",))
    before = tokens[condition + 1 : select - 2]
    negated = bool(before) and before[-1].type == "NOT"
    before = before[: len(before) - negated]
    starts = [at for at, token in enumerate(before) if token.type in ("AND", "OR", "NOT", "LPAR")]
    operand = before[starts[-1] + 1 if starts else 0 :]
    source = _ended(tokens, select, ("FROM",))
    where = _ended(tokens, source, ("_WHERE",))
    end = _ended(tokens, select, ())
    item, inner, own = tokens[select + 1 : source], tokens[source + 1 : where], tokens[outer + 1 : condition]
    plain = {token.type for token in (*inner, *own)} <= {"NAME", "DOT", "LSQB", "RSQB", "COMMA", "_AS"}
    if not (outer and inner and plain and _is_name(operand) and _is_name(item)):
        return ""
    named = len(inner) > 1 and inner[-2].type in ("NAME", "_AS")
    name, whole = str(own[-1].value), _text(inner)
    alias = str(inner[-1].value) if named else "B" if name != "B" else "C"
    condition_of = tokens[where + 1 : end]
    more = f" AND {_text(condition_of)}" if condition_of else ""
    left = _text(operand) if len(operand) > 1 else f"{name}.{operand[0].value}"
    banded = any(str(token.value).startswith("time") for token in condition_of)
    band = "" if banded else f" AND {alias}.time BETWEEN {name}.time - 60 AND {name}.time"
    return (
        f"write {'NOT ' * negated}EXISTS (SELECT * FROM {whole}{'' if named else f' {alias}'} WHERE {alias}."
        f"{item[-1].value} = {left}{band}{more}){'' if banded else ', of a minute before'}"
    )


# Gives hints for syntax errors: habits from other languages, typing slips, and the form of each clause. Each rule
# looks at the error and returns a hint or an empty text; the first hint wins.

_FIRST_WORDS = {"SELECT", "MERGE", "WATCHLIST", "_PROTOCOL", "_DEFINE", "_PARAM", "SEMICOLON"}
_VALUE_ENDS = {"NAME", "RPAR", "RSQB", "INT", "FLOAT", "STRING", "TRUE", "FALSE", "NULL", "IP", "IPV6", "HEX", "END"}
_VALUE_ENDS |= {"UNIT", "PARAMETER", "DEFINED", "PROPERTY", "STAR"}
_OPENS = {"LPAR": "RPAR", "LSQB": "RSQB", "_WINDOW": "RSQB", "LBRACE": "RBRACE", "CASE": "END"}
_CLOSES = {"RPAR": ("LPAR",), "RSQB": ("LSQB", "_WINDOW"), "RBRACE": ("LBRACE",), "END": ("CASE",)}
_CONDITIONS = ("_WHERE", "_HAVING", "_CLEANING_WHEN", "_CLEANING_BY", "_CLOSING_WHEN")
_ADDRESS = "write an address as `IP_VAL'192.0.2.1'` or `IPV6_VAL'2001:db8::1'`"
_CASE = "`CASE WHEN a = 1 THEN 2 ELSE 3 END`, or `CASE a WHEN 1 THEN 2 ELSE 3 END`"
_ORDER = (
    "the order is FROM, WHERE, GROUP BY, SUPERGROUP, HAVING, CLEANING_WHEN, CLEANING_BY, CLOSING_WHEN, ORDER BY, "
    "each once"
)
_FOREIGN_OPERATORS = {
    "==": "write `=`",
    "=>": "write `>=`",
    "=<": "write `<=`",
    "<=>": "write `=`; a comparison with NULL is `IS NULL`",
    "&&": "write AND",
    "**": "write `pow(a, b)`",
    "/*": "comments run from `--` or `//` to the end of the line",
}
_SERIES = ("RANGE", "GENERATE_SERIES", "UNNEST")
_OF_SQL = "`lowwater sql` has it, over a capture or a lake"
_FOREIGN_WORDS = {
    ("VALUES", "("): "a list of values stands in IN (80, 443), or in a watch list: WATCHLIST FIELDS { ... }",
    ("PIVOT", ""): "write a column for each value: sum(len) FILTER (WHERE destPort = 80) AS http",
    ("UNPIVOT", ""): "write a query for each column, and read them together: FROM a UNION ALL b",
    ("TABLESAMPLE", ""): _SAMPLE,
    **{(word, "("): "name the columns: `*` stands for all of them" for word in ("EXCLUDE", "EXCEPT", "REPLACE")},
    ("XOR", ""): "of conditions write (a) <> (b), of numbers (a | b) - (a & b)",
    ("IGNORE", "NULLS"): "leave it out, and read a query with WHERE x IS NOT NULL",
    ("RIGHT", "ANTI_JOIN"): "turn the two sources round: FROM b B ANTI JOIN a A ON A.k = B.k AND A.time = B.time",
    ("RIGHT", "SEMI_JOIN"): "turn the two sources round: FROM b B SEMI JOIN a A ON A.k = B.k AND A.time = B.time",
    ("MATCH_RECOGNIZE", ""): "a session ends after a silence, session(timestamp, 5 min) OVER; a group CLOSING_WHEN",
    **{(word, "("): f"epochs without rows come by FILL: GROUP BY time/60 AS tb FILL; {_OF_SQL}" for word in _SERIES},
    **dict.fromkeys((("SHOW", ""), ("DESCRIBE", ""), ("SUMMARIZE", "")), _OF_SQL),
    ("SET", ""): "a value that is given at run time stands in PARAM { x int = 5; }, and is $x",
    ("INTO", ""): "results go to the table of the query: DEFINE { query_name 'x'; }",
    ("AT", "TIME"): "an instant is of UTC; local_day(time, 'Europe/Berlin') is the day there",
    ("EXPLAIN", "SELECT"): "`lowwater explain FILE` shows the plan of a query file",
}
"""A word of SQL and the one behind it, empty for any -> what to write."""
_CASTS = {
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPTZ", "DATETIME"), "write CAST({} AS TIMESTAMP)"),
    "DATE": "write date_trunc('day', {})",
    **dict.fromkeys(("VARCHAR", "TEXT", "STRING", "CHAR"), "select {} as it is: a number becomes no text"),
    **dict.fromkeys(("DOUBLE", "FLOAT", "REAL", "NUMERIC", "DECIMAL"), "write CAST({} AS DOUBLE)"),
    **dict.fromkeys(("INT", "INTEGER", "BIGINT", "HUGEINT", "UBIGINT"), "write CAST({} AS BIGINT)"),
}
"""Type behind `::` -> what to write, of the value before it."""
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
    "_ORDER": "ORDER BY goes with LIMIT, and keeps the first rows of each epoch: ORDER BY count(*) DESC LIMIT 10",
    "_QUALIFY": "the form is `QUALIFY row_number() OVER (PARTITION BY tb ORDER BY count(*) DESC) <= 10`",
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
    """The token that does not fit, and the tokens around it."""

    tokens: Sequence[Token]
    at: int
    accepted: set[str]

    @cached_property
    def clause(self) -> str:
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

    def column(self, index: int) -> str:
        """The column that ends at a token, with its source."""
        first = index - 2 * (self.kind(index - 1) == "DOT")
        return "".join(self.text(at) for at in range(first, index + 1))

    def regex(self, column: int, pattern: int, negated: bool, before: str = "", behind: str = "") -> str:
        """What stands here for a comparison with a regular expression."""
        text = self.text(pattern)[1:-1]
        return f"write {'NOT ' * negated}str_regex_match[{self.column(column)}, '{before}{text}{behind}']"

    def glued(self) -> bool:
        """Whether no blank stands before the token."""
        return self.at > 0 and self.tokens[self.at].start_pos == self.tokens[self.at - 1].end_pos


def hint_for(error: ErrorContext) -> str:
    """Returns the first hint that fits the error."""
    return next(hint for rule in _RULES if (hint := rule(error)))


def _operator_of_others(error: ErrorContext) -> str:
    here, before, after = error.text(error.at), error.text(error.at - 1), error.text(error.at + 1)
    if here + after == "::":
        cast = _CASTS.get(error.text(error.at + 2).upper(), "write CAST({} AS BIGINT), or to DOUBLE or TIMESTAMP")
        return cast.format(before if error.kind(error.at - 1) == "NAME" else "a")
    if here + after == "/*":
        return _FOREIGN_OPERATORS[here + after]
    at = next((at for at in (error.at - 1, error.at, error.at + 1) if error.text(at) == "~"), -1)
    if at >= 0 and (error.text(at - 1) == "!" or error.kind(at - 1) in _VALUE_ENDS):
        negated = error.text(at - 1) == "!"
        folded = error.text(at + 1) == "*"
        operand, pattern = at - 1 - negated, at + 1 + folded
        if error.kind(operand) == "NAME" and error.kind(pattern) == "STRING":
            return error.regex(operand, pattern, negated, "(?i)" * folded)
    if error.glued() and before + here in _FOREIGN_OPERATORS:
        return _FOREIGN_OPERATORS[before + here]
    if here == "+" and "MINUS" in error.accepted:
        return "GSQL has no unary `+`: leave it out"
    return ""


_REGEXES = {"REGEXP": ("", ""), "RLIKE": ("", ""), "SIMILAR": ("^(", ")$")}
"""Word that compares with a regular expression -> what stands around the expression."""


def _operator_word(error: ErrorContext) -> str:
    """Of operators that are words elsewhere, made of what stands beside them."""
    for at in (error.at - 1, error.at):
        word, negated = error.text(at).upper(), error.kind(at - 1) == "NOT"
        operand = at - 1 - negated
        pattern = at + 1 + (word == "SIMILAR")
        if error.kind(at) != "NAME" or error.kind(operand) not in _VALUE_ENDS:
            continue
        if word in _REGEXES and error.kind(pattern) == "STRING":
            return error.regex(operand, pattern, negated, *_REGEXES[word])
        if word == "GLOB" and error.kind(pattern) == "STRING":
            text = error.text(pattern).replace("*", "%").replace("?", "_")
            return f"write {error.column(operand)} {'NOT ' * negated}LIKE {text}"
        if word == "ESCAPE" and error.kind(operand) == error.kind(pattern) == "STRING":
            text = error.text(operand).replace(error.text(pattern)[1:-1], "\\")
            return f"a backslash makes the next character an ordinary one: write LIKE {text}"
        if word in ("ISNULL", "NOTNULL"):
            return f"write {error.column(operand)} IS {'NOT ' * (word == 'NOTNULL')}NULL"
        if word == "DATE" and error.kind(at + 1) == "STRING":
            return f"write TIMESTAMP {error.text(at + 1)}"
    if error.text(error.at - 1).upper() == "DATE" and error.kind(error.at) == "STRING":
        return f"write TIMESTAMP {error.text(error.at)}"
    return ""


def _of_calls(error: ErrorContext) -> str:
    """Of calls that SQL writes with words between their arguments."""
    name = error.text(error.open - 1).upper() if error.opened == "LPAR" else ""
    if name == "SUBSTRING":
        column = _text(error.tokens[error.open + 1 : error.at])
        number, length = error.text(error.at + 1), error.text(error.at + 3)
        return f"write substr({column}, {number or 1}, {length if length.isdecimal() else 10})"
    if name in ("TRIM", "OVERLAY"):
        return f"{_OF_SQL}; for a query declare it in Python: --functions FILE"
    if name == "POSITION":
        return "write str_exists_substr[a, 'text'] for whether a text has another one"
    if name == "CAST" and error.kind(error.at) == "LPAR":
        return _CASTS.get(error.text(error.at - 1).upper(), "").format(error.text(error.open + 1))
    if name in ("STRING_AGG", "GROUP_CONCAT", "ARRAY_AGG", "FIRST", "LAST") and error.kind(error.at) == "_ORDER":
        return "leave ORDER BY out: values come in the order of time; arg_max(x, y) and arg_min(x, y) know another one"
    if error.text(error.at).upper() == "OVER" and error.kind(error.at - 1) == "RPAR":
        return f"{_OF_SQL}; of groups there is count(DISTINCT x)"
    return ""


def _word_of_others(error: ErrorContext) -> str:
    for at in range(error.at - 2, error.at + 2):
        word, after = error.text(at).upper(), error.text(at + 1).upper()
        if error.kind(at) == "NAME" and (hint := _FOREIGN_WORDS.get((word, after)) or _FOREIGN_WORDS.get((word, ""))):
            return hint
    first = next((at for at in range(error.at) if error.kind(at) == "DISTINCT"), -1)
    if first >= 0 and error.text(first + 1).upper() == "ON" and error.kind(first + 2) == "LPAR":
        return (
            "DISTINCT ON is QUALIFY row_number() OVER (PARTITION BY time/60, srcIP ORDER BY timestamp) = 1,"
            " of each epoch, behind the other clauses"
        )
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
    if bracket and error.clause == "SELECT" and error.kind(error.at - 1) in ("SELECT", "COMMA"):
        return "a column has one value: select the columns one by one, without brackets"
    windowed = error.clause == "FROM" and error.text(error.at - 1).upper() in words.WINDOW_WORDS
    return words.WINDOW_FORM if error.opened == "_WINDOW" or bracket or windowed else ""


def _comparison(error: ErrorContext) -> str:
    here, before = error.text(error.at).upper(), error.kind(error.at - 1)
    if error.text(error.at - 1).upper() == "SYMMETRIC" and error.kind(error.at + 1) == "AND":
        low, high = error.text(error.at), error.text(error.at + 2)
        return f"write BETWEEN least({low}, {high}) AND greatest({low}, {high})"
    if "AND" in error.accepted and "OR" not in error.accepted:
        return "write `BETWEEN low AND high`"
    if before == "IN":
        return "write the values in brackets: `IN [1, 2]`"
    if error.kind(error.at - 2) == "IN" and before in ("LSQB", "LPAR"):
        return "list at least one value: `IN [1, 2]`"
    at = next((at for at in (error.at, error.at - 1, error.at - 2) if error.text(at).upper() == "IS"), -1)
    if at > 0 and error.kind(at - 1) in _VALUE_ENDS:
        negated = error.text(at + 1).upper() == "NOT"
        asked, column = error.text(at + 1 + negated).upper(), error.column(at - 1)
        if asked in ("TRUE", "FALSE"):
            bare = column if asked == "TRUE" else f"NOT {column}"
            whole = f"NOT coalesce({column}, FALSE)" if asked == "TRUE" else f"coalesce({column}, TRUE)"
            return f"write {whole if negated else bare}"
        if asked == "UNKNOWN":
            return f"write {column} IS {'NOT ' * negated}NULL"
    if here == "IS" or before == "IS" or (here == "NULL" and before == "NOT"):
        return "write `IS NULL` or `IS NOT NULL`; other values are compared with `=`"
    if before == "NOT" and {"IN", "BETWEEN"} <= error.accepted:
        return "after a value write `NOT IN`, `NOT BETWEEN` or `NOT LIKE`; NOT before it turns a condition round"
    return ""


def _mistakes_hints_block(error: ErrorContext) -> str:
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
    if here == "COMMA" and error.opened == "LPAR" and error.clause in _CONDITIONS and not _of_call(error):
        return "a comparison has one value on each side: a = 1 AND b = 2, joined by OR for several"
    if here == "COMMA" and error.kind(error.open + 1) == "DISTINCT":
        return "DISTINCT takes one expression: `count(DISTINCT a)`"
    return ""


def _of_call(error: ErrorContext) -> bool:
    """Whether the innermost open bracket has the arguments of a call, or the values of IN."""
    return error.kind(error.open - 1) in {"NAME", "IN", "SUPERAGGREGATE"}


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
        usable = "".join(letter if letter.isalnum() else "_" for letter in name)
        return f"write `AS {usable}` to name the item before it, or `,` to begin another"
    if here == "LPAR" and error.kind(error.at - 2) == "DOT":
        return "put `,` between two items; a function has no qualifier"
    return "put `,` between two items"


def _keyword(error: ErrorContext) -> str:
    here, name = error.kind(error.at), error.text(error.at)
    before = error.kind(error.at - 1)
    if before == "STAR" and here == "_AS":
        return "`*` stands for all columns and takes no name"
    if before == "_AS" and here == "STRING":
        usable = "".join(letter if letter.isalnum() else "_" for letter in name[1:-1])
        return f"write AS {usable}: a name stands without quotes"
    if before == "_AS":
        quoted = f'"{name}"' if words.is_keyword(name) else '"from"'
        return f"a name stands after AS; a keyword as a name stands between double quotes: {quoted}"
    if here == "_AS" and error.opened == "LPAR" and error.text(error.open - 1).upper() in ("TRY_CAST", "SAFE_CAST"):
        return "write CAST(a AS BIGINT), which is NULL where it does not fit; to_llong(a) reads a text"
    if here == "_AS" and error.opened == "LPAR":
        return "convert with a function: `INT(a)`, `UINT(a)`, `FLOAT(a)`; items are named outside of calls"
    if name.upper() == "QUERY":
        return "write `Query name:` before the SELECT"
    if "SEMICOLON" in error.accepted and here in ("SELECT", "MERGE", "WATCHLIST", "_DEFINE", "_PARAM", "QUERY"):
        return "put `;` between two queries"
    if here in CLAUSES and "SEMICOLON" in error.accepted:
        return _ORDER
    return ""


_SETS = {"UNION": "UNION ALL b", "EXCEPT": "ANTI JOIN b", "MINUS": "ANTI JOIN b", "INTERSECT": "SEMI JOIN b"}
"""Word between two queries -> what stands behind the first of them in FROM."""
_LONGEST = 200


def _sets(error: ErrorContext) -> str:
    """Of two queries with UNION, EXCEPT or INTERSECT between them: the statement that reads both."""
    at = next((at for at in range(error.at, error.at - 3, -1) if error.text(at).upper().split(" ")[0] in _SETS), -1)
    if at < 0:
        return ""
    every = error.text(at).upper().endswith("ALL") or error.text(at + 1).upper() == "ALL"
    second = at + 1 + (error.text(at + 1).upper() == "ALL")
    word = error.text(at).upper().split(" ")[0]
    if error.kind(second) != "SELECT":
        return "UNION ALL joins sources: FROM A UNION ALL B AS m" if word == "UNION" else ""
    begin = next((place for place in range(at, -1, -1) if error.kind(place) == "SELECT"), at)
    end = _ended(error.tokens, second, ("SEMICOLON", END))
    items = error.tokens[begin + 1 : _ended(error.tokens, begin, ("FROM",))]
    plain = [token.type for token in items] == (["NAME", "COMMA"] * len(items))[: len(items)]
    one, other = _text(error.tokens[begin:at]), _text(error.tokens[second:end])
    if len(one) + len(other) > _LONGEST:
        one, other, plain = "SELECT ...", "SELECT ...", False
    columns = _text(items) if plain else "time, ..."
    using = "" if word == "UNION" else f" USING ({columns})"
    distinct = "" if every and word == "UNION" else "DISTINCT "
    timed = word == "UNION" or not plain or any(str(token.value).startswith(("time", "tb")) for token in items)
    more = "" if timed else ", and select time in both: which rows meet is known by their times"
    return f"write WITH a AS ({one}), b AS ({other}) SELECT {distinct}* FROM a {_SETS[word]}{using}{more}"


def _of_name(text: str) -> bool:
    """Whether the text of a token may be a part of the name of a link."""
    return text.rstrip(".").replace("-", "a").replace("_", "a").isalnum()  # `2.` of `my-2.TCP` is a number


def _source(error: ErrorContext) -> str:
    if error.clause != "FROM":
        return ""
    if error.kind(error.at) == "MINUS" and error.kind(error.at - 1) == "NAME" and error.glued():
        start = end = error.at
        while error.tokens[start].start_pos == error.tokens[start - 1].end_pos and _of_name(error.text(start - 1)):
            start -= 1
        while (
            not error.text(end).endswith(".")
            and error.tokens[end].end_pos == error.tokens[end + 1].start_pos
            and _of_name(error.text(end + 1))
        ):
            end += 1
        name = "".join(error.text(at) for at in range(start, end + 1))
        return f'a name with `-` is written in double quotes: `"{name.rstrip(".")}"`'
    named = error.kind(error.at - 1) == "STRING" and "." in error.text(error.at - 1)
    if named or (error.kind(error.at) == "LPAR" and error.text(error.at - 1).lower().startswith(("read_", "scan_"))):
        return (
            "a query reads links, not files: FROM link.PROTOCOL, and "
            "`lowwater run QUERY --capture link=FILE --out FOLDER`"
        )
    if error.kind(error.at - 1) == "STRING" or error.kind(error.at - 3) == "STRING":
        return "links have names of their own, whatever host they are on: write `link.PROTOCOL`"
    if error.kind(error.at) == "SLASH":
        return "a query of a library is `library/query`"
    if error.text(error.at - 1).upper() in ("LEFT", "RIGHT", "FULL", "INNER", "OUTER", "ASOF", "ONCE", "SEMI", "ANTI"):
        return (
            "the joins are JOIN, LEFT JOIN, RIGHT JOIN, FULL JOIN, SEMI JOIN, ANTI JOIN, ASOF JOIN, ASOF LEFT JOIN,"
            " ASOF ONCE JOIN and ASOF ONCE LEFT JOIN, between two sources"
        )
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
    if word == "FROM":
        return f"SELECT stands before FROM: SELECT * {_text(error.tokens[error.at : error.at + 2])}"
    if error.kind(error.at + 1) == "COLON":
        return "write `Query name:`, or make it a comment: `-- name`"
    return ""


def _form(error: ErrorContext) -> str:
    if error.clause in _CONDITIONS:
        return f"the form is `{CLAUSES[error.clause]} a = 1 AND f(b) > 2`"
    return _FORMS.get(error.clause, _FORMS[""])


_RULES = (
    _operator_of_others,
    _operator_word,
    _of_calls,
    _sets,
    _word_of_others,
    _address,
    _glued_word,
    _case,
    _mistakes_hints_block,
    _window,
    _comparison,
    _brackets,
    _comma,
    _keyword,
    _missing_comma,
    _source,
    _group,
    _start,
    _form,
)


ParserAfter = Callable[[Sequence[Token]], InteractiveParser]

_CONTEXT_KEYWORDS = {word: word for word in ("BETWEEN", "LIKE", "CASE", "WHEN", "THEN", "ELSE", "END", "DISTINCT")}
_WORDS = (
    words.KEYWORDS | words.UPPER_ONLY | words.WINDOW_WORDS | _CONTEXT_KEYWORDS | {"UNION": "UNION", "JOIN": "SQL_JOIN"}
)

_MIN_SIMILARITY = 0.7


def syntax_error(tokens: Sequence[Token], at: int, parser_after: ParserAfter) -> QueryError:
    """Returns the error for `tokens[at]`, the first token that does not fit.

    Args:
        tokens: all tokens, the last of type `$END`.
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
                if near_keyword in words.KEYWORDS
                else " It is upper case."
            )
        return fault(message(tokens[position], _accepted(state(position))), hint, place_of(tokens[position]))
    return fault(message(tokens[at], accepted), hint_for(ErrorContext(tokens, at, accepted)), place_of(tokens[at]))


def _accepted(parser: InteractiveParser) -> set[str]:
    accepted: set[str] = parser.accepts()  # type: ignore[no-untyped-call]
    return accepted


def _misspelt(tokens: Sequence[Token], at: int, state: Callable[[int], InteractiveParser]) -> tuple[int, str]:
    """Finds a keyword that lets the parse go on, in place of the name at or just before the token that does not fit.
    Returns the index of the misspelt name, and the keyword; the keyword is empty if none helps."""
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
    if word_here in ("JOIN", "XOR") or (position and tokens[position - 1].type == "DOT"):
        return []
    following = str(tokens[position + 1].value).upper() if position + 1 < len(tokens) else ""
    joined = get_close_matches(f"{word_here}_{following}", words.KEYWORDS, n=1, cutoff=0.85)
    return joined + get_close_matches(word_here, _WORDS, n=3, cutoff=_MIN_SIMILARITY)
