"""Tells keywords from names in the tokens of a GSQL text.

Between the lexer and the parser of lark, at the top of the pipeline: changes the type of a name that is a keyword. GSQL
reserves few words. A word of SQL (`left`, `end`, `range` ...) is a keyword only in a position for that keyword, so that
a column may have its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction

from lark import Token
from lark.lark import PostLex

# Units of time

SECOND = 1_000_000_000
UNITS = {
    **dict.fromkeys(("ns", "nanosecond", "nanoseconds"), 1),
    **dict.fromkeys(("us", "microsecond", "microseconds"), 1_000),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 1_000_000),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), SECOND),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60 * SECOND),
    **dict.fromkeys(("h", "hour", "hours"), 3600 * SECOND),
    **dict.fromkeys(("d", "day", "days"), 86400 * SECOND),
}
"""Name of a unit, in lower case -> its length, ns."""


def nanoseconds(value: int | float, unit: str) -> Fraction:
    """Returns a duration in ns, exactly: 0.1 is a tenth, not the nearest float.

    Example:
        >>> nanoseconds(0.1, "US")
        Fraction(100, 1)
    """
    return Fraction(repr(value)) * UNITS[unit.lower()]


def unit_name(length: Fraction | int) -> str:
    """Returns the plural name of the unit of this length; empty if no unit has it.

    Args:
        length: the length of the unit, ns.

    Example:
        >>> unit_name(1_000)
        'microseconds'
    """
    return max((name for name, unit in UNITS.items() if unit == length), key=len, default="")


JOINS = ("INNER_JOIN", "OUTER_JOIN", "LEFT_OUTER_JOIN", "RIGHT_OUTER_JOIN", "WATCHLIST_JOIN")

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
    "IN": "IN",
    "SUPERGROUP": "_SUPERGROUP",
    "CLEANING_WHEN": "_CLEANING_WHEN",
    "CLEANING_BY": "_CLEANING_BY",
    "CLOSING_WHEN": "_CLOSING_WHEN",
    "CUBE": "GROUPING",
    "ROLLUP": "GROUPING",
    "GROUPING_SETS": "GROUPING_SETS",
    "WATCHLIST": "WATCHLIST",
    "FILTER_JOIN": "FILTER_JOIN",
    **dict.fromkeys(JOINS, "JOIN"),
}
UPPER_ONLY = {
    "DEFINE": "_DEFINE",
    "PARAM": "_PARAM",
    "PROTOCOL": "_PROTOCOL",
    "FIELDS": "_FIELDS",
    "SLACK": "_SLACK",
    "TRUE": "TRUE",
    "FALSE": "FALSE",
}

_NO_CROSS = "a join needs a temporal predicate: `FROM a A JOIN b B WHERE A.t = B.t`"
# Tokens of unsupported constructs -> name and remedy.
TOKENS = {
    "TIMEVAL": ("TIMEVAL", "write the time as an integer in the unit of the column"),
    "CROSS": ("CROSS JOIN", _NO_CROSS),
    "NATURAL": ("NATURAL JOIN", "name the columns: `FROM a A JOIN b B USING (time, srcIP)`"),
}

# Words of SQL without a meaning in GSQL -> name and remedy, for the message of a parse error.
SQL = {
    "ORDER": ("ORDER without BY", "write it last: ORDER BY count(*) DESC LIMIT 10"),
    "LIMIT": ("LIMIT without ORDER BY", "say which rows of an epoch come first: ORDER BY count(*) DESC LIMIT 10"),
    "TOP": ("TOP", "write it behind the other clauses: ORDER BY count(*) DESC LIMIT 10"),
    "FETCH": ("FETCH FIRST", "write LIMIT 10, or LIMIT 10 WITH TIES"),
    "OFFSET": ("OFFSET", "leave it out, and keep more rows: LIMIT 20"),
    "QUALIFY": ("this QUALIFY", "write QUALIFY row_number() OVER (PARTITION BY tb ORDER BY count(*) DESC) <= 10"),
    "ON": ("ON", "write it behind a join between the sources: `FROM a A JOIN b B ON A.t = B.t`"),
    "USING": ("USING", "write it behind a join between the sources: `FROM a A JOIN b B USING (t)`"),
    "WITH": ("WITH here", "write it before the SELECT that reads it: WITH a AS (SELECT ...) SELECT ... FROM a"),
    "OVER": ("this OVER", "write the window itself: sum(len) OVER (PARTITION BY srcIP ORDER BY timestamp)"),
}
# Two words for one keyword: the manual prints some keywords in two words.
PAIRS = {
    ("CLOSING", "WHEN"): "CLOSING_WHEN",
    ("CLEANING", "WHEN"): "CLEANING_WHEN",
    ("CLEANING", "BY"): "CLEANING_BY",
    ("GROUPING", "SETS"): "GROUPING_SETS",
    ("FILTER", "JOIN"): "FILTER_JOIN",
    ("WATCHLIST", "JOIN"): "WATCHLIST_JOIN",
}

# First words of definition blocks, and words after a result type that mark a declaration.
BLOCKS = ("STREAM", "TABLE", "FTA", "UNPACK_FCNS", "OPERATOR_VIEW", "PRED")
DECLARATIONS = ("FUN", "PRED", "UDAF", "EXTR", "SFUN", "STATE")
WINDOW_WORDS = {"RANGE": "RANGE", "SLIDE": "SLIDE", "WA": "WA", "WATTR": "WA", "PARTITION": "PARTITION"}
WINDOW_FORM = (
    "a window is `[RANGE 5 min, SLIDE 1 min, WA time]`, or `[RANGE 100 ROWS, SLIDE 10 ROWS, PARTITION BY a, WHERE c]`; "
    "only RANGE is needed"
)
"""The hint of an error in a window."""


def spellings(word: str) -> tuple[str, str, str]:
    """Returns the three spellings of a keyword. A word in any other case is a name.

    Example:
        >>> spellings("INNER_JOIN")
        ('INNER_JOIN', 'Inner_Join', 'inner_join')
    """
    return word.upper(), "_".join(part.capitalize() for part in word.split("_")), word.lower()


# Written form -> (terminal, canonical spelling).
_BY_SPELLING = {spelling: (kind, word) for word, kind in KEYWORDS.items() for spelling in spellings(word)}
_BY_SPELLING |= {word: (kind, word) for word, kind in UPPER_ONLY.items()}
_SOFT = {*WINDOW_WORDS, "DISTINCT", "UNION", "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "OUTER", "BETWEEN", "LIKE"}
_SOFT |= {"ILIKE", "IS", "NULL", "CASE", "WHEN", "THEN", "ELSE", "END", "ANTI", "SEMI", "ASOF", "CROSS", "NATURAL"}
_CONDITIONS = {"ON", "USING", "EXISTS", "CAST", "EXTRACT", "FILTER", "FILL"}
"""Words that no position takes from a name: they need no quotes."""
FIRST_ROWS: tuple[str, ...] = ("ORDER BY", "ASC", "DESC", "NULLS FIRST", "NULLS LAST", "LIMIT", "WITH TIES", "PER")
FIRST_ROWS += ("QUALIFY", "OVER", "PARTITION BY", "ROWS UNBOUNDED PRECEDING", "FILL", "WITHIN GROUP")
"""Keywords of the first rows of an epoch, of OVER, WITHIN GROUP and FILL. No position takes them from a name either."""
_FRAMES = ("ROWS", "RANGE", "GROUPS")
_TOP = {word.split()[0] for word in FIRST_ROWS} | {*_FRAMES}
_JOINING = {"JOIN", "INNER", "LEFT", "RIGHT", "FULL", "ANTI", "SEMI", "ASOF", "CROSS", "NATURAL"}
JOINS_OF_WORDS = {
    ("ANTI", "JOIN"): "ANTI_JOIN",
    ("LEFT", "ANTI", "JOIN"): "ANTI_JOIN",
    ("SEMI", "JOIN"): "SEMI_JOIN",
    ("LEFT", "SEMI", "JOIN"): "SEMI_JOIN",
    ("ASOF", "JOIN"): "ASOF_JOIN",
    ("ASOF", "INNER", "JOIN"): "ASOF_JOIN",
    ("ASOF", "LEFT", "JOIN"): "ASOF_LEFT_JOIN",
    ("ASOF", "LEFT", "OUTER", "JOIN"): "ASOF_LEFT_JOIN",
    ("ASOF", "ONCE", "JOIN"): "ASOF_ONCE_JOIN",
    ("ASOF", "ONCE", "LEFT", "JOIN"): "ASOF_ONCE_LEFT_JOIN",
}
"""Joins that stand between the sources only."""


def is_keyword(name: str) -> bool:
    """Whether this spelling is a keyword or may be one, so that a name with this spelling needs quotes."""
    return name in _BY_SPELLING or name.upper() in _SOFT


def spelled(names: Iterable[str]) -> dict[str, str]:
    """Returns the spellings of names that follow the case rule of keywords, as spelling -> name.

    Example:
        >>> spelled(["or_aggr"])
        {'OR_AGGR': 'or_aggr', 'Or_Aggr': 'or_aggr', 'or_aggr': 'or_aggr'}
    """
    return {spelling: name for name in names for spelling in spellings(name)}


class Keywords(PostLex):
    """The filter between lexer and parser: changes the type of a name that is a keyword."""

    # lark drops terminals that no rule uses. Messages name these terminals, or this filter changes their type.
    always_accept = ("TIMEVAL", "QUOTED", "UNCLOSED", "STRANGE")

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        yield from _Reading(list(stream)).tokens()


_VALUE_ENDS = {"NAME", "RPAR", "RSQB", "INT", "FLOAT", "STRING", "TRUE", "FALSE", "NULL", "IP", "IPV6", "HEX", "END"}
_VALUE_ENDS |= {"UNIT", "PARAMETER", "DEFINED", "PROPERTY", "MOMENT", "INTERVAL"}
_CLAUSES = {"FROM", "SELECT", "_WHERE", "_GROUP", "_SUPERGROUP", "_HAVING", "SEMICOLON", "_CLOSING_WHEN", "MERGE"}
_CLAUSES |= {"_CLEANING_WHEN", "_CLEANING_BY", "_ON", "_ORDER", "_LIMIT", "_QUALIFY"}


_VALUE_BEGINS = {"NAME", "LPAR", "MINUS", "TILDE", "BANG", "SUPERAGGREGATE", "INT", "FLOAT", "STRING", "IP", "IPV6"}
_VALUE_BEGINS |= {"HEX", "PARAMETER", "DEFINED", "PROPERTY", "MOMENT", "INTERVAL"}
_BEHIND_SOURCE = {"WHERE", "GROUP", "HAVING", "SUPERGROUP", "ON", "USING", "UNION", *_JOINING}
"""Words that may follow a source with its name, in upper case."""


class _Reading:
    """One pass over the tokens of a text, with the context that tells a keyword from a name.

    Attributes:
        at: the position of the current token in `given`.
        done: the tokens with their final types.
        clause: the type of the latest token that starts a clause.
        joined: whether FROM has a join between its sources, so that ON or USING may follow.
        window: whether the current token is inside a window, before its WHERE.
        counted: the number of brackets open inside a window after its WHERE, the window's own included; 0 elsewhere.
        inner: of each inner query that is open, its parentheses, and the clause and the join around it.
        over: the number of parentheses open inside OVER or WITHIN GROUP, its own included; 0 elsewhere.
    """

    def __init__(self, given: Sequence[Token]) -> None:
        self.given = given
        self.at = 0
        self.done: list[Token] = []
        self.clause = ""
        self.joined = False
        self.cases = 0
        self.window = False
        self.counted = 0
        self.over: list[int] = []  # open parentheses of each OVER, which may contain others
        self.inner: list[tuple[int, str, bool]] = []
        self._outer = ""
        self._around: list[str] = []  # the clause in which each OVER stands

    def tokens(self) -> list[Token]:
        while self.at < len(self.given):
            token = self._next(self.given[self.at])
            self.at += 1
            if token.type in _CLAUSES:
                self.clause, self.cases, self.joined = token.type, 0, False
            if token.type == "SQL_JOIN":
                self.clause, self.joined = "FROM", True
            self.done.append(token)
        return self.done

    @property
    def before(self) -> str:
        return self.done[-1].type if self.done else ""

    def word(self, ahead: int) -> str:
        position = self.at + ahead
        fits = position < len(self.given) and self.given[position].type == "NAME"
        return self.given[position].value.upper() if fits else ""

    def kind(self, ahead: int) -> str:
        position = self.at + ahead
        kind = self.given[position].type if position < len(self.given) else ""
        return "NAME" if kind == "QUOTED" else kind

    def opens_window(self, ahead: int) -> bool:
        inside = self.word(ahead + 1) in WINDOW_WORDS and self.kind(ahead + 2) in ("INT", "FLOAT", "NAME", "PARAMETER")
        return inside and self.kind(ahead) == "LSQB"

    def source_follows(self) -> bool:
        after = self.kind(1)
        return after in ("NAME", "STRING") or (after == "LSQB" and not self.opens_window(1))

    def _next(self, token: Token) -> Token:
        if token.type == "LSQB" and self.counted:
            self.counted += 1
            return token
        if token.type == "LSQB":
            self.window, self._outer = self.opens_window(0), self.clause
            return token.update(type="_WINDOW") if self.window else token
        if token.type == "RSQB":
            self.window = False
            if self.counted == 1:
                self.clause = self._outer
            self.counted = max(self.counted - 1, 0)
        if token.type == "LPAR" and self.word(1) == "SELECT":
            self.inner.append((1, self.clause, self.joined))
        elif token.type in ("LPAR", "RPAR") and self.inner:
            depth, clause, joined = self.inner.pop()
            depth += 1 if token.type == "LPAR" else -1
            if depth:
                self.inner.append((depth, clause, joined))
            else:
                self.clause, self.joined = clause, joined
        if self.before in ("_OVER", "_WITHIN"):
            self.over.append(1)
        elif token.type in ("LPAR", "RPAR") and self.over:
            self.over[-1] += 1 if token.type == "LPAR" else -1
            if not self.over[-1]:
                self.over.pop()
                self.clause = self._around.pop()
        if token.type == "QUOTED":
            return token.update(type="NAME", value=token.value[1:-1].replace('""', '"'))
        if token.type != "NAME" or self.before == "DOT":
            return token
        if self.before in ("INT", "FLOAT") and not self.window and token.value.lower() in UNITS:
            return token.update(type="UNIT")
        pair = PAIRS.get((token.value.upper(), self.word(1)))
        if pair and self._pair_fits(pair):
            return self._merged(token, KEYWORDS[pair], pair, 1)
        if token.value in _BY_SPELLING:
            kind, word = _BY_SPELLING[token.value]
            if kind == "_WHERE" and [each.type for each in self.done[-2:]] == ["_FILTER", "LPAR"]:
                return token.update(type="_FILTER_WHERE", value=word)
            if kind == "FROM" and [each.type for each in self.done[-3:-1]] == ["EXTRACT", "LPAR"]:
                return token.update(type="OF", value=word)
            if kind == "_WHERE" and self.window:
                self.window, self.counted = False, 1
            return token.update(type=kind, value=word)
        if token.value.upper() in _TOP and self.before != "_AS" and (top := self._in_top(token, token.value.upper())):
            return top
        if token.value.upper() in _SOFT | _CONDITIONS and self.before != "_AS":
            return self._soft(token, token.value.upper())
        return token

    def _pair_fits(self, pair: str) -> bool:
        """Whether the position allows the keyword of two words. The words may also be a name and a keyword of SQL."""
        if pair == "GROUPING_SETS":
            return self.kind(2) == "LPAR"
        ended = self.before in _VALUE_ENDS or self.before == "STAR"
        return ended and (self.clause == "SELECT" if pair.endswith("JOIN") else self.clause not in ("", "SELECT"))

    def _soft(self, token: Token, word: str) -> Token:
        """Changes the type of a word of SQL if the position allows its keyword."""
        if self.window and word in WINDOW_WORDS:
            follows = ("INT", "FLOAT", "PARAMETER") if word in ("RANGE", "SLIDE") else ("NAME",)
            opens = self.before in ("_WINDOW", "COMMA") and self.kind(1) in follows
            return token.update(type=WINDOW_WORDS[word]) if opens else token
        if self.clause == "FROM" and self.before in ("NAME", "RSQB"):
            return self._in_from(token, word)
        if self.clause == "_ON" and word in _JOINING and self.before in _VALUE_ENDS:
            return self._in_from(token, word)
        if word == "IS" and self.before in _VALUE_ENDS:
            for number, words in ((2, ("DISTINCT", "FROM")), (3, ("NOT", "DISTINCT", "FROM"))):
                if tuple(self.word(at) for at in range(1, number + 1)) == words:
                    return self._merged(token, "DISTINCT_FROM", " ".join(("IS", *words)), number)
        rule = _RULES.get(word)
        if rule is None or not rule(self):
            return token
        if word in ("FILTER", "ILIKE"):
            return token.update(type="_FILTER" if word == "FILTER" else "LIKE", value=word)
        self.cases += (word == "CASE") - (word == "END")
        return token.update(type=word, value=word)

    def _in_from(self, token: Token, word: str) -> Token:
        named = self.word(2) in _BEHIND_SOURCE | {"AS"}  # whether ALL is the name of a source
        if word == "UNION" and self.word(1) == "ALL" and self.kind(2) in ("NAME", "STRING", "LSQB") and not named:
            return self._merged(token, "UNION", "UNION ALL", 1)
        if word == "UNION" and self.source_follows() and self.word(1) != "AS":
            return token.update(type="UNION", value=word)
        if word == "ON" and self.joined and self._condition_follows():
            return token.update(type="_ON", value=word)
        if word == "USING" and self.joined and self.kind(1) == "LPAR":
            return token.update(type="_USING", value=word)
        if word in ("CROSS", "NATURAL") and self.word(1) == "JOIN":
            return token.update(type=word)
        for words, join in JOINS_OF_WORDS.items():
            if (word, *(self.word(at) for at in range(1, len(words)))) == words:
                return self._merged(token, "SQL_JOIN", join, len(words) - 1)
        if word == "JOIN" and self.source_follows() and self.word(1) != "AS":
            return token.update(type="SQL_JOIN", value="INNER_JOIN")
        if word == "INNER" and self.word(1) == "JOIN":
            return self._merged(token, "SQL_JOIN", "INNER_JOIN", 1)
        if word in ("LEFT", "RIGHT", "FULL"):
            name = "OUTER_JOIN" if word == "FULL" else f"{word}_OUTER_JOIN"
            if self.word(1) == "JOIN":
                return self._merged(token, "SQL_JOIN", name, 1)
            if (self.word(1), self.word(2)) == ("OUTER", "JOIN"):
                return self._merged(token, "SQL_JOIN", name, 2)
        return token

    def _in_top(self, token: Token, word: str) -> Token | None:
        """The keyword that a word is in ORDER BY, LIMIT or QUALIFY, at the end of a SELECT; else None."""
        if self.clause in ("", "SEMICOLON"):
            return None  # a declaration
        ended = self.before in _VALUE_ENDS or self.before == "STAR"
        follows = self.word(1)
        if word == "ORDER" and follows == "BY" and (ended or self.before == "LPAR"):
            return self._merged(token, "_ORDER", "ORDER BY", 1)
        if word == "QUALIFY" and ended and follows and self.kind(2) == "LPAR":
            return token.update(type="_QUALIFY", value=word)
        if word == "OVER" and self.before == "RPAR" and self.kind(1) == "LPAR":
            self._around.append(self.clause)
            return token.update(type="_OVER", value=word)
        if word == "WITHIN" and self.before == "RPAR" and follows == "GROUP" and self.kind(2) == "LPAR":
            self._around.append(self.clause)
            return self._merged(token, "_WITHIN", "WITHIN GROUP", 1)
        if self.over[-1:] == [1] and word == "PARTITION" and self.before == "LPAR" and follows == "BY":
            return token.update(type="PARTITION", value=word)
        if self.over[-1:] == [1] and word in _FRAMES and (ended or self.before in ("DIRECTION", "NULLS", "LPAR")):
            return self._frame(token)
        if self.clause == "_ORDER" and word == "LIMIT" and self.kind(1) == "INT":
            return token.update(type="_LIMIT", value=word)
        if self.clause == "_ORDER" and word in ("ASC", "DESC") and ended:
            return token.update(type="DIRECTION", value=word)
        if self.clause == "_ORDER" and word == "NULLS" and follows in ("FIRST", "LAST"):
            return self._merged(token, "NULLS", f"NULLS {follows}", 1)
        if self.clause == "_LIMIT" and word == "WITH" and follows == "TIES":
            return self._merged(token, "WITH_TIES", "WITH TIES", 1)
        if self.clause == "_LIMIT" and word == "PER" and self.before in ("INT", "WITH_TIES"):
            return token.update(type="_PER", value=word)
        return None

    def _frame(self, token: Token) -> Token | None:
        """The frame of OVER as one token, if the word begins one."""
        begins = self.word(1) in ("BETWEEN", "UNBOUNDED", "CURRENT") or self.kind(1) in ("INT", "FLOAT")
        end = next((at for at in range(self.at, len(self.given)) if self.given[at].type == "RPAR"), 0)
        if not begins or not end:
            return None
        words = " ".join(str(each.value).upper() for each in self.given[self.at : end])
        return self._merged(token, "FRAME", words, end - self.at - 1)

    def _condition_follows(self) -> bool:
        """Whether what stands behind the word ON begins a condition; else ON is the name of the source before it."""
        word, after = self.word(1), self.kind(1)
        return word not in _BEHIND_SOURCE and after in _VALUE_BEGINS

    def _merged(self, token: Token, kind: str, word: str, more: int) -> Token:
        self.at += more
        return _spanning(token, self.given[self.at], kind, word)


def _spanning(first: Token, last: Token, kind: str, word: str) -> Token:
    token = Token.new_borrow_pos(kind, word, first)
    token.end_line, token.end_column, token.end_pos = last.end_line, last.end_column, last.end_pos
    return token


def _after_value(reading: _Reading) -> bool:
    return reading.before in _VALUE_ENDS or reading.before == "NOT"


def _in_case(reading: _Reading) -> bool:
    return reading.cases > 0 and reading.before in _VALUE_ENDS


_RULES: dict[str, Callable[[_Reading], bool]] = {
    "CAST": lambda reading: reading.kind(1) == "LPAR",
    "EXTRACT": lambda reading: reading.kind(1) == "LPAR" and reading.word(3) == "FROM",
    "FILTER": lambda reading: reading.before == "RPAR" and reading.kind(1) == "LPAR" and reading.word(2) == "WHERE",
    "EXISTS": lambda reading: reading.kind(1) == "LPAR" and reading.word(2) == "SELECT",
    "FILL": lambda reading: reading.clause == "_GROUP" and (reading.before in _VALUE_ENDS or reading.before == "RPAR"),
    "BETWEEN": _after_value,
    "LIKE": _after_value,
    "ILIKE": _after_value,
    "IS": lambda reading: reading.before in _VALUE_ENDS and reading.word(1) in ("NULL", "NOT"),
    "NULL": lambda reading: (
        reading.kind(1) not in ("DOT", "LPAR") and (reading.kind(1) != "LSQB" or reading.opens_window(1))
    ),
    "DISTINCT": lambda reading: (
        reading.before in ("SELECT", "LPAR") and reading.kind(1) not in ("RPAR", "COMMA", "DOT")
    ),
    "CASE": lambda reading: reading.kind(1) not in ("RPAR", "COMMA", "DOT", "") and reading.before not in _VALUE_ENDS,
    "WHEN": lambda reading: reading.cases > 0 and (reading.before in _VALUE_ENDS or reading.before == "CASE"),
    "THEN": _in_case,
    "ELSE": _in_case,
    "END": _in_case,
}
