"""Query texts that cost much if a part of Lowwater is careless."""

from __future__ import annotations

LONGEST = 12_000


def _filled(start: str, part: str, end: str = "", join: str = "") -> str:
    """As many parts as there is room for; `{}` is the number of a part."""
    room = LONGEST - len(start) - len(end)
    parts: list[str] = []
    while room > len(part) + len(join) + 6:
        parts.append(part.replace("{}", str(len(parts))))
        room -= len(parts[-1]) + len(join)
    return start + join.join(parts) + end


def _nested(begin: str, inner: str, end: str, head: str = "SELECT time, ", tail: str = " AS x FROM main1.TCP;") -> str:
    depth = (LONGEST - len(head) - len(inner) - len(tail)) // (len(begin) + len(end))
    return head + begin * depth + inner + end * depth + tail


def _chain(first: str, then: str) -> str:
    """Internal queries, each of which reads the one before."""
    texts = [first]
    while sum(map(len, texts)) + 60 * len(texts) < LONGEST - 400:
        texts.append(then.replace("{}", f"q{len(texts) - 1}"))
    hidden = [f"DEFINE {{ query_name 'q{at}'; visibility 'internal'; }} {text};" for at, text in enumerate(texts)]
    return "\n".join(hidden) + f"\nDEFINE {{ query_name 'last'; }} SELECT time FROM q{len(texts) - 1};"


SELECT, TCP = "SELECT time FROM main1.TCP WHERE ", " FROM main1.TCP;"
KEY = "SELECT time, len AS x FROM main1.TCP"
TEXTS = {
    "parentheses": _nested("(", "len", ")"),
    "parentheses that stay open": "SELECT time, " + "(" * (LONGEST - 20),
    "minus": _nested("- ", "len", ""),
    "complement": _nested("~", "len", ""),
    "not": SELECT + "NOT " * 2900 + "len > 3;",
    "cases": _nested("CASE WHEN len > 1 THEN ", "len", " ELSE 0 END"),
    "functions": _nested("UMIN(len, ", "len", ")"),
    "sums": _filled("SELECT time, len", " + len", " AS x" + TCP),
    "powers": _filled("SELECT time, 2", " * 99999999", " AS x" + TCP),
    "ands": _filled(SELECT + "len > 0", " AND len > {}", ";"),
    "ors": _filled(SELECT + "len > 0", " OR len = {}", ";"),
    "ands of ors": _filled(SELECT + "len > 0", " AND (len = {} OR len = 1)", ";"),
    "ors of ands": _filled(SELECT + "len > 0", " OR (len = {} AND len > 1)", ";"),
    "members": _filled(SELECT + "len IN [", "{}", "];", ", "),
    "columns": _filled("SELECT time, ", "len AS c{}", TCP, ", "),
    "the same column": _filled("SELECT time, ", "len AS c", TCP, ", "),
    "keys": _filled("SELECT tb, count(*) AS n FROM main1.TCP GROUP BY time/60 AS tb, ", "len AS k{}", ";", ", "),
    "aggregates": _filled("SELECT tb, ", "sum(len+{}) AS s{}", " FROM main1.TCP GROUP BY time/60 AS tb;", ", "),
    "queries": _filled("", "DEFINE { query_name 'q{}'; } SELECT time FROM main1.TCP;\n"),
    "nameless queries": _filled("", KEY + ";\n"),
    "semicolons": ";" * LONGEST,
    "commas": "SELECT " + "," * (LONGEST - 20) + TCP,
    "defines": _filled("DEFINE { query_name 'q'; ", "real 'x{}'; ", "} " + KEY + ";"),
    "parameters": _filled("DEFINE { query_name 'q'; } PARAM { ", "p{} int; ", "} " + KEY + ";"),
    "comments": _filled("", "-- a comment {}\n", KEY + ";"),
    "a comment that stays open": "/* " * 3900,
    "a text that stays open": SELECT + "'" + "x" * 11_000,
    "quotes": SELECT + "'" * 11_000,
    "a long name": "SELECT " + "a" * 11_000 + TCP,
    "a long number": "SELECT time, " + "9" * 11_000 + " AS x" + TCP,
    "a long float": "SELECT time, 1." + "9" * 11_000 + "e999999999 AS x" + TCP,
    "huge numbers": SELECT + "len > 18446744073709551616 OR len < -9223372036854775809 OR len = 0xFFFFFFFFFFFFFFFFFF;",
    "a huge window": "SELECT tb, count(*) AS n FROM main1.TCP GROUP BY time/99999999999999999999 AS tb;",
    "no window": "SELECT tb, count(*) AS n FROM main1.TCP GROUP BY time/0 AS tb;",
    "signs": _filled("SELECT ", "\u202e\u2066\ufeff\u0301\U0001f642", TCP),
    "marks": "SELECT a" + "\u0301" * 9000 + TCP,
    "nulls": "SELECT \0" * 1400,
    "surrogates": "SELECT '\ud800' AS x" + TCP,
    "digits of others": "SELECT time, ١٢ AS x" + TCP,
    "a regex that goes back": SELECT + "str_regex_match('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!', '(a+)+$');",
    "a large regex": SELECT + "str_regex_match('x', '" + "(a{1,99}){1,99}" * 500 + "');",
    "a deep regex": SELECT + "str_regex_match('x', '" + "(" * 5000 + ")" * 5000 + "');",
    "sets": SELECT.replace("main1.TCP", "[" * 9000),
    "unions": _filled(
        f"DEFINE {{ query_name 'a'; visibility 'internal'; }} {KEY};\nMERGE a.time", " : a.time", " FROM a, a;"
    ),
    "joins": _filled(
        f"DEFINE {{ query_name 'a'; visibility 'internal'; }} {KEY};\nSELECT a.time FROM a", " JOIN a", ";"
    ),
    "a chain of sums": _chain(KEY, "SELECT time, x+x AS x FROM {}"),
    "a chain of cases": _chain(KEY, "SELECT time, CASE WHEN x>x THEN x ELSE x END AS x FROM {}"),
    "a chain of filters": _chain(KEY, "SELECT time, x*x AS x FROM {} WHERE x+x > x*x AND x > 0"),
    "a chain of functions": _chain(KEY, "SELECT time, UMIN(x, UMAX(x, x)) AS x FROM {}"),
    "a chain of times": _chain("SELECT time AS time, len AS x FROM main1.TCP", "SELECT time+time AS time, x FROM {}"),
    "a chain of groups": _chain(KEY, "SELECT time, x+x AS x FROM {} GROUP BY time, x"),
    "a chain of aggregates": _chain(KEY, "SELECT time, sum(x+x) AS x FROM {} GROUP BY time"),
    "a chain of joins": _chain(KEY, "SELECT a.time, a.x+b.x AS x FROM {} a, {} b WHERE a.time = b.time"),
    "a chain of merges": _chain(KEY, "MERGE a.time : b.time FROM {} a, {} b"),
    "a chain of columns": _chain(KEY, "SELECT time, x+x AS x, x*x AS y, x AS z FROM {} WHERE x > 1"),
    "itself": "DEFINE { query_name 'a'; } SELECT time FROM a;",
    "a circle": "DEFINE { query_name 'a'; } SELECT time FROM b;\nDEFINE { query_name 'b'; } SELECT time FROM a;",
}
