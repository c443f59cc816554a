"""Cases and goldens of the GSQL tests."""

from __future__ import annotations

from pathlib import Path

from lowwater.errors import QueryError
from lowwater.gsql.parser import parse
from lowwater.gsql.printer import print_file

FUNCTIONS = ("count", "sum", "or_aggr")
"""What these texts write as keywords: the parser is told the names."""

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
QUERIES = sorted((GOLDEN / "gsql").glob("*.gsql"))

_A = "SELECT a FROM R"
_G = f"{_A} GROUP BY t, a"

# Name -> (text, the words that the refusal must hold).
REFUSED = {
    "timeval": (f"{_A} WHERE t > TIMEVAL'12.5'", "TIMEVAL"),
    "order_by": (f"{_G} ORDER BY a", "ORDER BY without LIMIT"),
    "order_by_source": (f"{_A} ORDER BY a DESC;", "ORDER BY without LIMIT"),
    "order_without_by": (f"{_A} GROUP BY a ORDER a LIMIT 5", "ORDER without BY"),
    "limit": (f"{_A} LIMIT 5", "LIMIT"),
    "top": ("SELECT TOP 10 a FROM R", "TOP"),
    "fetch": (f"{_G} ORDER BY a FETCH FIRST 10 ROWS ONLY", "FETCH FIRST"),
    "offset": (f"{_G} ORDER BY a LIMIT 10 OFFSET 20", "OFFSET"),
    "qualify": (f"{_G} QUALIFY n > 3", "this QUALIFY"),
    "on": ("SELECT a FROM R, S ON R.t = S.t", "ON"),
    "using": ("SELECT a INNER_JOIN FROM R, S using (t)", "USING"),
    "cross_join": ("SELECT a FROM R CROSS JOIN S", "CROSS JOIN"),
    "natural_join": ("SELECT a FROM R r natural join S", "NATURAL JOIN"),
    "with": ("WITH x AS (SELECT a FROM R) SELECT a FROM x", "WITH"),
    "over": ("SELECT sum(a) OVER b FROM R", "this OVER"),
    "exists": (f"{_A} WHERE a = 1 OR EXISTS (SELECT b FROM S WHERE S.t = R.t)", "EXISTS"),
    "exists_of_two": (f"{_A} WHERE NOT EXISTS (SELECT b FROM S JOIN T ON S.t = T.t)", "this NOT EXISTS"),
    "nested": ("SELECT a FROM (SELECT b FROM R)", "nested SELECT"),
    "nested_value": (f"{_A} WHERE a = (SELECT b FROM R)", "nested SELECT"),
    "nested_in": (f"{_A} WHERE a IN (SELECT b FROM R)", "nested SELECT"),
    "nested_merge": ("SELECT a FROM (MERGE a.t : b.t FROM a, b)", "nested MERGE"),
    "stream": ("STREAM s { uint a (increasing); }", "STREAM blocks"),
    "table": ("TABLE s { uint a; }", "TABLE blocks"),
    "fta": ("FTA { STREAM s { uint a; } SELECT a FROM R }", "FTA blocks"),
    "unpack_fcns": ("UNPACK_FCNS { a b 1; }", "UNPACK_FCNS blocks"),
    "operator_view": ("OPERATOR_VIEW v { OPERATOR(file 'x') }", "OPERATOR_VIEW blocks"),
    "fun": ("uint [LFTA_LEGAL, COST LOW] FUN f(string, uint);", "FUN definitions"),
    "pred": ("PRED [LFTA_LEGAL] p[uint, string];", "PRED blocks"),
    "udaf": (f"{_A};\nfloat(increasing) UDAF [RUNNING] u fstring8 (uint);", "UDAF definitions"),
}

SYNTAX = {
    "empty": "",
    "only_comments": "-- nothing\n\n",
    "only_semicolon": " ;\n",
    "selet": "SELET tb, protocol\nFROM DataProtocol",
    "ffrom": "SELECT tb,protocol,srcIP,destIP,\nsrcPort, destPort, count(*)\nFFROM DataProtocol\nGROUP BY time/10 tb",
    "gropu": "SELECT tb, count(*)\nFROM DataProtocol\nGROPU BY time/10 as tb",
    "wher": "SELECT a FROM R\n\tWHER a = 1",
    "havin": "SELECT a FROM R GROUP BY a HAVIN count(*) > 1",
    "inner_joim": "SELECT a INNER_JOIM FROM R r, S s",
    "keyword_case": "sELECT a FROM R",
    "slack_case": "MERGE a.t : b.t slack 5 FROM a, b",
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
    "long_chain": "SELECT a FROM R WHERE\n" + "a +\n" * 300 + "b",
    "deep_not": "SELECT a FROM R WHERE\n" + "NOT\n" * 300 + "b",
    "cleanin_by": _G + " CLEANIN BY x",
    "closing_wen": _G + " CLOSING_WEN count(*) = 0",
    "supergrop": _G + " SUPERGROP a",
    "cub": _G + ", CUB(b, c)",
    "grouping_set": _G + ", GROUPING_SET((b), (c))",
    "rollup_without_brackets": _G + ", ROLLUP b, c",
    "filterjoin": "SELECT r.a FILTERJOIN(t, 5) FROM R r, S s",
    "watchlst": "WATCHLST FIELDS { uint a (key); }",
    "protocl": "PROTOCL TCP { uint a get_a; }",
    "pram": "PRAM { x uint; } SELECT a FROM R",
    "distinc": "SELECT DISTINC a FROM R",
    "betwen": f"{_A} WHERE a BETWEN 1 AND 2",
    "lik": f"{_A} WHERE a LIK 'x'",
    "wen": "SELECT CASE WEN a = 1 THEN 2 END FROM R",
    "els": "SELECT CASE WHEN a THEN 1 ELS 2 END FROM R",
    "slyde": f"{_A} [RANGE 5 min, SLYDE 1 min]",
    "case_open": "SELECT a,\n  CASE WHEN a = 1 THEN 2 ELSE 3\nFROM R",
    "case_open_item": "SELECT CASE WHEN a = 1 THEN 2, b FROM R",
    "case_no_when": "SELECT CASE a = 1 THEN 2 END FROM R",
    "case_no_then": "SELECT CASE WHEN a = 1 ELSE 2 END FROM R",
    "case_else_first": "SELECT CASE ELSE 2 END FROM R",
    "window_no_range": f"{_A} [SLIDE 1 min, WA ts]",
    "window_twice": f"{_A} [RANGE 5 min, RANGE 1 min]",
    "window_part": f"{_A} [RANGE 5 min, ts]",
    "window_no_number": f"{_A} [RANGE min, WA ts]",
    "window_param": f"{_A} [RANGE $n]",
    "window_no_word": f"{_A} [5 min]",
    "window_no_comma": f"{_A} [RANGE 5 min SLIDE 1 min]",
    "window_no_by": f"{_A} [RANGE 5 min, PARTITION a]",
    "window_open": f"{_A} [RANGE 5 min, WA ts",
    "window_no_bracket": f"{_A} RANGE 5 min",
    "window_huge": f"{_A} [RANGE 1e999 min]",
    "between_no_and": f"{_A} WHERE a BETWEEN 1, 2",
    "between_or": f"{_A} WHERE a BETWEEN 1 OR 2",
    "between_ends": f"{_A} WHERE a BETWEEN 1",
    "in_empty": f"{_A} WHERE a IN []",
    "in_empty_round": f"{_A} WHERE a NOT IN ()",
    "in_no_brackets": f"{_A} WHERE a IN 1, 2",
    "in_no_comma": f"{_A} WHERE a IN [1 2]",
    "is_value": f"{_A} WHERE a IS 5",
    "not_null": f"{_A} WHERE a NOT NULL",
    "not_value": f"{_A} WHERE a NOT 5",
    "where_comma": f"{_A} WHERE a = 1, b = 2",
    "where_twice": f"{_A} WHERE a = 1 WHERE b = 2",
    "c_and": f"{_A} WHERE a && b",
    "arrow": f"{_A} WHERE a => b",
    "power": "SELECT a ** 2 FROM R",
    "two_joins": "SELECT a INNER_JOIN FROM R JOIN S WHERE R.t = S.t",
    "join_chain": "SELECT a FROM R JOIN S JOIN T",
    "left_without_join": "SELECT a FROM R LEFT S",
    "merge_join": "MERGE a.t : b.t FROM a JOIN b",
    "merge_comma": "MERGE a.t, b.t FROM a, b",
    "filter_join_no_range": "SELECT r.a FILTER_JOIN FROM R r, S s",
    "union_select": f"{_A} UNION {_A}",
    "union_all": f"{_A} UNION ALL {_A}",
    "host_no_link": "SELECT a FROM 'h'.TCP",
    "library_path": "SELECT a FROM lib/more/q",
    "four_part_source": "SELECT a FROM a.b.c.d",
    "links_no_protocol": "SELECT a FROM [x, y] TCP",
    "quoted_blank": 'SELECT "a b" FROM R',
    "quoted_empty": 'SELECT a AS "" FROM R',
    "quoted_digit": 'SELECT a FROM "1a"',
    "quoted_open": 'SELECT "a FROM R',
    "quoted_function": 'SELECT "a b"(x) FROM R',
    "quoted_define": 'DEFINE { "a b" 1; } SELECT a FROM R',
    "back_quotes": f"{_A} WHERE f(b, `[Hh]ost`)",
    "ipv4_val": f"{_A} WHERE ip = IPV4_VAL:'1.2.3.4'",
    "bare_address": f"{_A} WHERE ip = 1.2.3.4",
    "hex_c": "SELECT 0xff FROM R",
    "digit_first": "SELECT 1a FROM R",
    "backslash_quote": r"SELECT a FROM R WHERE b = 'it\'s'",
    "bare_dollar": "SELECT $1 FROM R",
    "bare_at": "SELECT @ FROM R",
    "bare_hash": "SELECT # FROM R",
    "calls_no_comma": "SELECT approx_hh(a, 1)\n  approx_hh(a, 2) FROM R",
    "column_no_comma": "SELECT S.a, S.b\n  (R.t - S.t) FROM R",
    "arguments_no_comma": "SELECT f(a b) FROM R",
    "comma_last": "SELECT a, FROM R",
    "comma_last_argument": "SELECT f(a,) FROM R",
    "star_name": "SELECT * AS a FROM R",
    "star_grouped": f"{_A} GROUP BY *",
    "distinct_two": "SELECT count(DISTINCT a, b) FROM R",
    "cast": "SELECT cast(a AS text) FROM R",
    "network": "SELECT a FROM R WHERE b <<= c",
    "group_number": "SELECT a FROM R GROUP BY 2",
    "sets_two_meanings": f"{_A} GROUP BY GROUPING_SETS((x AS a), (y AS a))",
    "param_twice": "PARAM { x uint; x int; } SELECT a FROM R",
    "param_blocks_twice": "PARAM { x uint; } PARAM { x uint; } SELECT a FROM R",
    "param_no_semicolon": "PARAM { x uint } SELECT a FROM R",
    "param_expression": "PARAM { x int = 5 + 1; } SELECT a FROM R",
    "param_open": "PARAM { x uint;\nSELECT a FROM R",
    "define_equals": "DEFINE { query_name = 'x' } SELECT a FROM R",
    "define_no_semicolon": "DEFINE { a 'x' b 'y' } SELECT a FROM R",
    "protocol_no_access": "PROTOCOL TCP { uint a; }",
    "watchlist_no_fields": "WATCHLIST { uint a (key); }",
    "label": "_query:\nSELECT a FROM R",
    "insert": "INSERT INTO x VALUES (1)",
    "unexpected_bracket": "SELECT f{a} FROM R",
    "limit_zero": f"{_G} ORDER BY a LIMIT 0",
    "limit_large": f"{_G} ORDER BY a LIMIT 100001",
    "limit_before_where": f"{_G} ORDER BY a LIMIT 10 WHERE a = 1",
    "qualify_of_all_time": f"{_G} QUALIFY row_number() OVER (ORDER BY a) <= 10",
    "qualify_ntile": f"{_G} QUALIFY ntile() OVER (PARTITION BY t ORDER BY a) <= 10",
    "over_order": "SELECT lag(a) OVER (ORDER BY b DESC) FROM R",
    "over_frame": "SELECT sum(a) OVER (ORDER BY t ROWS BETWEEN 5 PRECEDING AND CURRENT ROW) FROM R",
    "qualify_equal": f"{_G} QUALIFY row_number() OVER (PARTITION BY t ORDER BY a) = 3",
    "several": "SELECT a FROM R;\nSELECT FROM S;\nSELECT b FRM T;\nSELECT c FROM U ORDER BY c;\n"
    "SELECT 'd FROM V;\nSELECT e FROM W",
    "several_strange": "SELECT a ^ b FROM R;\nSELECT a ? b FROM R; \\",
    "too_many": ";\n".join(f"SELECT a{number} FRM R" for number in range(30)),
}


def failure(text: str) -> QueryError:
    """The error that a text gives."""
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
    found = errors()
    for path in [*(GOLDEN / "errors").glob("gsql_*.txt"), *(GOLDEN / "gsql" / "canonical").glob("*.gsql")]:
        path.unlink()
    (GOLDEN / "errors").mkdir(parents=True, exist_ok=True)
    (GOLDEN / "gsql" / "canonical").mkdir(exist_ok=True)
    for name, text in found.items():
        (GOLDEN / "errors" / f"{name}.txt").write_text(text, encoding="utf-8")
    for path in QUERIES:
        canonical = print_file(parse(path.read_text(encoding="utf-8"), path.name, FUNCTIONS))
        (GOLDEN / "gsql" / "canonical" / path.name).write_text(canonical, encoding="utf-8")


if __name__ == "__main__":
    write()
