"""Cases and goldens of the GSQL tests.

`python -m tests.gsql.gsql_cases` rewrites `tests/golden/gsql/canonical/*.gsql` and `tests/golden/errors/gsql_*.txt`;
the reviewer reads the difference.
"""

from __future__ import annotations

from pathlib import Path

from lowwater.errors import QueryError
from lowwater.gsql.parser import parse
from lowwater.gsql.printer import print_file

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
QUERIES = sorted((GOLDEN / "gsql").glob("*.gsql"))

_A = "SELECT a FROM R"

# Name -> (text, the words that the refusal must hold).
REFUSED = {
    "closing_when": (f"{_A} GROUP BY t, a\nClosing_When count(*) = 0", "CLOSING_WHEN"),
    "closing_when_blank": (f"{_A} GROUP BY t, a CLOSING WHEN count(*) = 0", "CLOSING_WHEN"),
    "cleaning_when": (f"{_A} GROUP BY t, a cleaning_when x", "CLEANING_WHEN"),
    "cleaning_when_blank": (f"{_A} CLEANING WHEN x", "CLEANING_WHEN"),
    "cleaning_by": (f"{_A} GROUP BY t, a CLEANING_BY x", "CLEANING_BY"),
    "supergroup": (f"{_A} GROUP BY t, a SUPERGROUP t, a", "SUPERGROUP"),
    "cube": (f"{_A} GROUP BY t, CUBE(a, b)", "CUBE"),
    "rollup": (f"{_A} GROUP BY t, Rollup(a, b)", "ROLLUP"),
    "grouping_sets": (f"{_A} GROUP BY t, GROUPING_SETS((a), (b))", "GROUPING_SETS"),
    "filter_join": ("SELECT r.a FILTER_JOIN(t, 5) FROM R r, S s WHERE r.a = s.a", "FILTER_JOIN"),
    "watchlist": ("DEFINE{query_name 'w'; filename 'f.csv';}\nWATCHLIST FIELDS { uint a (key); }", "WATCHLIST"),
    "watchlist_join": ("SELECT p.a WATCHLIST_JOIN FROM P p, w w WHERE p.a = w.a", "WATCHLIST_JOIN"),
    "param_block": (f"PARAM {{ limit uint; }}\n{_A}", "PARAM blocks"),
    "param_after_define": (f"DEFINE {{ query_name q; }} PARAM {{ limit uint; }} {_A}", "PARAM blocks"),
    "parameter": (f"{_A} WHERE a > $limit", "query parameter `$limit`"),
    "define_value": (f"{_A} WHERE a > #limit", "DEFINE value `#limit`"),
    "property": (f"{_A} WHERE a = @Host", "interface property `@Host`"),
    "predicate": (f"{_A} WHERE str_match_start[TCP_data, 'GET']", "predicate `str_match_start[...]`"),
    "predicate_empty": (f"{_A} WHERE b = 1 AND p[]", "predicate `p[...]`"),
    "in_list": (f"{_A} WHERE a IN [1, 2]", "IN"),
    "not_in": (f"{_A} WHERE a NOT IN [1, 2]", "IN"),
    "window": ("SELECT count(*) FROM Main1 [RANGE 1 minute, SLIDE 1 minute, WA ts]", "windows"),
    "window_join": ("SELECT a FROM Main1 [WA ts, RANGE 3 min], Main2 [WA ts, RANGE 2 min]", "windows"),
    "window_aggregate": ("SELECT count(*) [RANGE 5 min, SLIDE 1 min, WA ts] FROM R", "windows"),
    "union": ("SELECT count(*) FROM Control union Main1", "UNION"),
    "union_select": (f"{_A} GROUP BY a UNION {_A}", "UNION"),
    "union_all": (f"{_A} UNION ALL {_A}", "UNION"),
    "distinct": ("SELECT DISTINCT a FROM R", "DISTINCT"),
    "distinct_call": ("SELECT distinct(a), b FROM R", "DISTINCT"),
    "distinct_count": ("SELECT count(DISTINCT a) FROM R", "DISTINCT"),
    "star": ("SELECT *\nFROM R", "SELECT *"),
    "star_qualified": ("SELECT a, R.* FROM R", "SELECT *"),
    "star_later": ("SELECT a, * FROM R", "SELECT *"),
    "case": ("SELECT CASE WHEN a = 1 THEN 2 ELSE 3 END FROM R", "CASE"),
    "case_value": ("SELECT a + case b when 1 then 2 end FROM R", "CASE"),
    "between": (f"{_A} WHERE a BETWEEN 1 AND 2", "BETWEEN"),
    "not_between": (f"{_A} WHERE a NOT BETWEEN 1 AND 2", "BETWEEN"),
    "like": (f"{_A} WHERE a LIKE 'x%'", "LIKE"),
    "is_null": (f"{_A} WHERE a IS NULL", "IS NULL"),
    "is_not_null": (f"{_A} WHERE a IS NOT NULL", "IS NULL"),
    "timeval": (f"{_A} WHERE t > TIMEVAL'12.5'", "TIMEVAL"),
    "join": ("SELECT a FROM PKT1 JOIN PKT2 WHERE PKT1.time = PKT2.time", "JOIN after FROM"),
    "join_alias": ("SELECT a FROM PKT1 p JOIN PKT2 q WHERE p.time = q.time", "JOIN after FROM"),
    "left_outer_join": ("SELECT a FROM PKT1 LEFT OUTER JOIN PKT2", "JOIN after FROM"),
    "order_by": (f"{_A} GROUP BY a ORDER BY a", "ORDER BY"),
    "limit": (f"{_A} LIMIT 5", "LIMIT"),
    "nested": ("SELECT a FROM (SELECT b FROM R)", "nested SELECT"),
    "nested_value": (f"{_A} WHERE a = (SELECT b FROM R)", "nested SELECT"),
    "protocol": ("PROTOCOL TCP (IPV4) { uint a get_a (increasing); }", "PROTOCOL blocks"),
    "stream": ("STREAM s { uint a (increasing); }", "STREAM blocks"),
    "unpack_fcns": ("UNPACK_FCNS { a b 1; }", "UNPACK_FCNS blocks"),
    "operator_view": ("OPERATOR_VIEW v { OPERATOR(file 'x') }", "OPERATOR_VIEW blocks"),
    "fun": ("uint [LFTA_LEGAL, COST LOW] FUN f(string, uint);", "FUN definitions"),
    "pred": ("PRED [LFTA_LEGAL] p[uint, string];", "PRED blocks"),
    "udaf": (f"{_A};\nfloat(increasing) UDAF [RUNNING] u fstring8 (uint);", "UDAF definitions"),
    "superaggregate": (f"{_A} GROUP BY t, a HAVING sum$(b) > 1", "superaggregate `sum$`"),
    "host": ("SELECT a FROM host.main1.TCP", "host before the link"),
    "host_quoted": ("SELECT a FROM 'host.org'.main1.TCP", "host before the link"),
    "library": ("SELECT a FROM lib/query q", "query of a library"),
}

SYNTAX = {
    "empty": "",
    "only_comments": "-- nothing\n\n",
    "selet": "SELET tb, protocol\nFROM DataProtocol",
    "ffrom": "SELECT tb,protocol,srcIP,destIP,\nsrcPort, destPort, count(*)\nFFROM DataProtocol\nGROUP BY time/10 tb",
    "gropu": "SELECT tb, count(*)\nFROM DataProtocol\nGROPU BY time/10 as tb",
    "wher": "SELECT a FROM R\n\tWHER a = 1",
    "havin": "SELECT a FROM R GROUP BY a HAVIN count(*) > 1",
    "inner_joim": "SELECT a INNER_JOIM FROM R r, S s",
    "keyword_case": "sELECT a FROM R",
    "slack_case": "MERGE a.t : b.t slack 5 FROM a, b",
    "no_join_keyword": "SELECT A.x\nFROM r A, s B\nWHERE A.t = B.t",
    "join_of_three": "SELECT a INNER_JOIN FROM r, s, t",
    "join_of_one": "SELECT a OUTER_JOIN FROM r",
    "merge_of_one": "MERGE a.t FROM a",
    "merge_counts": "MERGE a.t : b.t FROM a, b, c",
    "merge_unqualified": "MERGE a.t : t FROM a, b",
    "computed_group": "SELECT a FROM R GROUP BY time/10",
    "no_as": "SELECT a b FROM R",
    "double_equals": "SELECT a FROM R WHERE a == 1",
    "unary_plus": "SELECT +a FROM R",
    "block_comment": "SELECT a /* all */ FROM R",
    "open_string": "SELECT a FROM R\nWHERE b = 'GET",
    "double_quotes": 'SELECT a FROM R WHERE b = "GET"',
    "curly_quotes": "SELECT a FROM R WHERE b = ‘GET’",  # noqa: RUF001
    "strange_character": "SELECT a ^ b FROM R",
    "open_parenthesis": "SELECT a FROM R WHERE (b = 1",
    "close_parenthesis": "SELECT a) FROM R",
    "ends_early": "SELECT a,\nb\n",
    "no_from": "SELECT a WHERE b",
    "missing_item": "SELECT a,, b FROM R",
    "clause_order": "SELECT a FROM R GROUP BY a WHERE b = 1",
    "no_semicolon": "SELECT a FROM R\nSELECT b FROM R",
    "keyword_as_name": "SELECT a AS from FROM R",
    "open_define": "DEFINE { query_name 'x'\nSELECT a FROM R",
    "define_twice": "DEFINE { query_name 'x'; query_name 'y'; } SELECT a FROM R",
    "header_and_define": "DEFINE { query_name 'x'; }\nQuery y: SELECT a FROM R",
    "header_colon": "Query y SELECT a FROM R",
    "integer_range": "SELECT 9223372036854775808 FROM R",
    "integer_huge": "SELECT " + "9" * 60 + "\nFROM R",
    "float_range": "SELECT 1e999 FROM R",
    "hex_digits": "SELECT HEX'fg' FROM R",
    "ip_digits": "SELECT a FROM R WHERE ip = IP_VAL'1.2.3.256'",
    "ip_version": "SELECT a FROM R WHERE ip = IP_VAL'::1'",
    "ip_zone": "SELECT a FROM R WHERE ip = IPV6_VAL'fe80::1%eth0'",
    "four_parts": "SELECT a.b.c.d FROM R",
    "deep_parentheses": "SELECT\n" + "(" * 201 + "a" + ")" * 201 + "\nFROM R",
    "deep_chain": "SELECT a FROM R WHERE\n" + "a = 1 OR\n" * 300 + "b",
}


def failure(text: str) -> QueryError:
    """The error that a text gives.

    Raises:
        AssertionError: the text parses.
    """
    try:
        parse(text, "queries/q.gsql")
    except QueryError as error:
        return error
    raise AssertionError(f"parsed: {text[:200]!r}")


def errors() -> dict[str, str]:
    """Golden name -> text of the error, with its class."""
    texts = {f"gsql_refused_{name}": text for name, (text, _) in REFUSED.items()}
    texts |= {f"gsql_{name}": text for name, text in SYNTAX.items()}
    found = {name: failure(text) for name, text in texts.items()}
    return {name: f"{type(error).__name__}\n{error}\n" for name, error in found.items()}


def write() -> None:
    """Rewrites the goldens."""
    for path in [*(GOLDEN / "errors").glob("gsql_*.txt"), *(GOLDEN / "gsql" / "canonical").glob("*.gsql")]:
        path.unlink()
    (GOLDEN / "errors").mkdir(parents=True, exist_ok=True)
    (GOLDEN / "gsql" / "canonical").mkdir(exist_ok=True)
    for name, text in errors().items():
        (GOLDEN / "errors" / f"{name}.txt").write_text(text, encoding="utf-8")
    for path in QUERIES:
        canonical = print_file(parse(path.read_text(encoding="utf-8"), path.name))
        (GOLDEN / "gsql" / "canonical" / path.name).write_text(canonical, encoding="utf-8")


if __name__ == "__main__":
    write()
