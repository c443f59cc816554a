"""Hints of texts that do not parse: for every golden of the parser the text that its hint asks for."""

from __future__ import annotations

from lowwater.gsql.parser import MAX_BYTES
from tests.gsql.gsql_cases import REFUSED, SYNTAX
from tests.hints.desk import Case, Desk, Site
from tests.hints.texts import Text, case, cases
from tests.replay.support import Said

LEN = "SELECT len FROM TCP"
WHERE = f"{LEN} WHERE {{}}"
GROUPED = "SELECT tb, count(*) AS n FROM TCP GROUP BY time/60 AS tb{}"
LARGEST = GROUPED.format(" HAVING count(*) > 100")
JOIN = "SELECT A.len FROM main1.TCP A {} main2.TCP B WHERE A.time = B.time"
BEFORE = "SELECT A.len {} FROM main1.TCP A, main2.TCP B WHERE A.time = B.time"
TWO_JOINS = (
    "Query ab: SELECT A.time AS time, A.len AS len FROM main1.TCP A JOIN main2.TCP B WHERE A.time = B.time;\n"
    "Query abc: SELECT X.len FROM ab X JOIN control.TCP C WHERE X.time = C.time"
)
FILTERED = "SELECT R.len FILTER_JOIN(time, 5) FROM main1.TCP R, main1.TCP S WHERE R.srcIP = S.srcIP"
MERGED = "MERGE A.time : B.time FROM main1.TCP A, main2.TCP B"
NAMED = "DEFINE { query_name 'x'; } SELECT time, len FROM TCP;\nQuery y: "
WATCHED = (
    "DEFINE { query_name 'w'; filename 'queries/w.csv'; refresh_interval '60'; }\nWATCHLIST FIELDS { IP a (key); };\n"
    "Query q: SELECT p.len WATCHLIST_JOIN FROM main1.TCP p, w x WHERE p.srcIP = x.a"
)
RECORDS = "PROTOCOL s { uint a get_csv_uint_pos1 (increasing); }\nSELECT a FROM web.s"
CASE = "SELECT CASE WHEN len = 1 THEN 2 ELSE 3 END AS x FROM TCP"
CASE_OF = "SELECT CASE len WHEN 1 THEN 2 ELSE 3 END AS x FROM TCP"
WINDOW = "SELECT count(*) FROM TCP [RANGE 5 min, SLIDE 1 min, WA time]"
ROWS = "SELECT count(*) FROM TCP [RANGE 100 ROWS, SLIDE 10 ROWS, PARTITION BY srcIP]"
LEAST = "PARAM {{ {} }} SELECT len FROM TCP WHERE len > $x"
NOTE = f"-- {'n' * MAX_BYTES}\n"
PYTHON = """
class total:
    def initialize(self): return 0
    def iterate(self, state, value): return state + value
    def output(self, state): return state
    def destroy(self, state): pass

def f(text, number): return number
def p(number, text): return True
"""


def _declared(text: str, declaration: str) -> Text:
    """A text with a declaration in a file of its own."""
    return Text(
        text, {"mine.py": PYTHON, "mine.fun": f"MODULE 'mine.py';\n{declaration}\n"}, ("--functions", "mine.fun")
    )


def _files(desk: Desk, *texts: str) -> Said:
    """What `check` says of several files."""
    return desk.run("check", *(desk.write(f"{number}.gsql", text) for number, text in enumerate(texts)))


def _levels(open_: str, value: str, close: str = "") -> str:
    return open_ * 150 + value + close * 150


OWN = {
    "timeval": WHERE.format("time > 12"),
    "order_by": LARGEST,
    "order_by_source": LEN,
    "limit": LARGEST,
    "top": LARGEST,
    "on": JOIN.format("JOIN"),
    "using": JOIN.format("JOIN"),
    "cross_join": JOIN.format("JOIN"),
    "natural_join": JOIN.format("JOIN") + " AND A.len = B.len",
    "with": f"{NAMED}SELECT len FROM x",
    "over": WINDOW,
    "exists": FILTERED,
    "nested": f"{NAMED}SELECT len FROM x",
    "nested_value": f"{NAMED}SELECT A.len FROM main1.TCP A JOIN x X WHERE A.time = X.time AND A.len = X.len",
    "nested_in": FILTERED,
    "nested_merge": f"DEFINE {{ query_name 'm'; }} {MERGED};\nQuery y: SELECT len FROM m",
    "stream": RECORDS,
    "table": WATCHED,
    "fta": RECORDS,
    "unpack_fcns": LEN,
    "operator_view": _declared("SELECT tb, total(len) FROM TCP GROUP BY time/60 AS tb", "int UDAF total int (int);"),
    "fun": _declared("SELECT f('a', len) FROM TCP", "uint FUN [LFTA_LEGAL, COST LOW] f(string, uint);"),
    "pred": _declared(f"{LEN} WHERE p[len, 'a']", "PRED [LFTA_LEGAL] p[uint, string];"),
    "udaf": _declared("SELECT tb, total(len) FROM TCP GROUP BY time/60 AS tb", "int UDAF total fstring8 (uint);"),
}
RIGHT: dict[str, str | Text] = {
    "empty": LEN,
    "only_comments": LEN,
    "only_semicolon": LEN,
    "selet": "SELECT time, protocol\nFROM TCP",
    "ffrom": "SELECT tb, srcIP, count(*)\nFROM TCP\nGROUP BY time/10 AS tb, srcIP",
    "gropu": "SELECT tb, count(*)\nFROM TCP\nGROUP BY time/10 as tb",
    "wher": "SELECT len FROM TCP\n\tWHERE len = 1",
    "havin": GROUPED.format(" HAVING count(*) > 1"),
    "inner_joim": BEFORE.format("INNER_JOIN"),
    "keyword_case": "Select len From TCP where len > 1",
    "slack_case": "MERGE a.time : b.time SLACK 5 FROM main1.TCP a, main2.TCP b",
    "join_of_three": TWO_JOINS,
    "join_of_one": BEFORE.format("OUTER_JOIN"),
    "merge_of_one": MERGED.replace(" FROM", " SLACK 5 FROM"),
    "merge_counts": "MERGE A.time : B.time : C.time FROM main1.TCP A, main2.TCP B, control.TCP C",
    "merge_unqualified": MERGED,
    "computed_group": GROUPED.format(""),
    "no_as": "SELECT len AS b FROM TCP",
    "double_equals": WHERE.format("len = 1"),
    "unary_plus": LEN,
    "block_comment": "SELECT len -- all\nFROM TCP // all",
    "open_string": WHERE.format("TCP_data = 'GET'''"),
    "curly_quotes": WHERE.format("TCP_data = 'GET'"),
    "strange_character": "SELECT pow(len, 2) AS p, (len | ttl) - (len & ttl) AS x FROM TCP",
    "open_parenthesis": WHERE.format("(len = 1)"),
    "close_parenthesis": LEN,
    "ends_early": "SELECT len,\nttl AS c FROM TCP",
    "no_from": "SELECT len FROM TCP WHERE SYN",
    "missing_item": "SELECT len, time, ttl FROM TCP",
    "clause_order": "SELECT len FROM TCP WHERE len = 1 GROUP BY time/60 AS tb, len HAVING count(*) > 1",
    "no_semicolon": f"{LEN};\nQuery b: SELECT ttl FROM TCP",
    "keyword_as_name": 'SELECT len AS "FROM" FROM TCP',
    "open_define": "DEFINE { query_name 'x' }\nSELECT len FROM TCP",
    "define_twice": f"DEFINE {{ query_name 'x'; }} {LEN}",
    "header_and_define": f"Query y: {LEN}",
    "header_colon": f"Query y: {LEN}",
    "integer_range": WHERE.format("timestamp < 9223372036854775807"),
    "integer_huge": WHERE.format("timestamp < 9223372036854775807"),
    "float_range": WHERE.format("FLOAT(len) < 1.7e308"),
    "hex_digits": WHERE.format("flags = HEX'ff'"),
    "ip_digits": WHERE.format("srcIP = IP_VAL'192.0.2.1'"),
    "ip_version": WHERE.format("srcIP = IP_VAL'192.0.2.1'"),
    "ip_zone": WHERE.format("srcIP = IPV6_VAL'2001:db8::1'"),
    "four_parts": "SELECT A.len FROM main1.TCP A",
    "deep_parentheses": f"Query x: SELECT {_levels('(', 'len', ')')} AS a FROM TCP;\n"
    f"Query y: SELECT {_levels('(', 'a', ')')} AS b FROM x",
    "long_chain": WHERE.format(f"({'len + ' * 150}ttl) + ({'len + ' * 150}ttl) > 1"),
    "deep_not": f"Query x: SELECT len, {_levels('NOT ', 'SYN')} AS a FROM TCP;\n"
    f"Query y: SELECT len FROM x WHERE {_levels('NOT ', 'a')}",
    "cleanin_by": GROUPED.format(" CLEANING_WHEN count$(*) > 1 CLEANING_BY count(*) > 1"),
    "closing_wen": GROUPED.format(" CLOSING_WHEN count(*) = 0"),
    "supergrop": "SELECT tb, len, count$(*) FROM TCP GROUP BY time/60 AS tb, len SUPERGROUP tb",
    "cub": GROUPED.format(", CUBE(srcIP, destIP)"),
    "grouping_set": GROUPED.format(", GROUPING_SETS((srcIP), (destIP))"),
    "rollup_without_brackets": GROUPED.format(", ROLLUP(srcIP, destIP)"),
    "filterjoin": FILTERED,
    "watchlst": WATCHED,
    "protocl": "PROTOCOL X { uint a get_len; } SELECT a FROM main1.X",
    "pram": LEAST.format("x uint = 1;"),
    "distinc": "SELECT DISTINCT time, len FROM TCP",
    "betwen": WHERE.format("len BETWEEN 1 AND 2"),
    "lik": WHERE.format("TCP_data LIKE 'x%'"),
    "wen": CASE,
    "els": CASE,
    "slyde": WINDOW,
    "case_open": CASE,
    "case_open_item": CASE,
    "case_no_when": CASE_OF,
    "case_no_then": CASE,
    "case_else_first": CASE,
    "window_no_range": WINDOW,
    "window_twice": WINDOW,
    "window_part": WINDOW,
    "window_no_number": WINDOW,
    "window_param": "SELECT count(*) FROM TCP [RANGE 5 min]",
    "window_no_word": "SELECT count(*) FROM TCP [RANGE 5 min]",
    "window_no_comma": WINDOW,
    "window_no_by": ROWS,
    "window_open": WINDOW,
    "window_no_bracket": WINDOW,
    "window_huge": WINDOW,
    "between_no_and": WHERE.format("len BETWEEN 1 AND 2"),
    "between_or": WHERE.format("len BETWEEN 1 AND 2"),
    "between_ends": WHERE.format("len BETWEEN 1 AND 2"),
    "in_empty": WHERE.format("len IN [1, 2]"),
    "in_empty_round": WHERE.format("len NOT IN [1, 2]"),
    "in_no_brackets": WHERE.format("len IN [1, 2]"),
    "in_no_comma": WHERE.format("len IN [1, 2]"),
    "is_value": WHERE.format("len = 5 AND ttl IS NOT NULL AND vlan_id IS NULL"),
    "not_null": WHERE.format("len IS NOT NULL"),
    "not_value": WHERE.format("len NOT IN [5] AND len NOT BETWEEN 1 AND 2 AND TCP_data NOT LIKE 'a' AND NOT len = 7"),
    "where_comma": WHERE.format("len = 1 AND ttl = 2"),
    "where_twice": WHERE.format("len = 1 AND ttl = 2"),
    "c_and": WHERE.format("SYN AND ACK"),
    "c_or": WHERE.format("SYN OR ACK"),
    "arrow": WHERE.format("len >= ttl"),
    "power": "SELECT pow(len, 2) AS x FROM TCP",
    "two_joins": JOIN.format("JOIN"),
    "join_chain": TWO_JOINS,
    "left_without_join": JOIN.format("LEFT JOIN"),
    "merge_join": MERGED,
    "merge_comma": MERGED.replace(" FROM", " SLACK 5 FROM"),
    "filter_join_no_range": FILTERED,
    "union_all_links": "SELECT m.len FROM main1.TCP UNION main2.TCP AS m",
    "union_select": "Query a: SELECT time, len FROM main1.TCP;\nQuery b: SELECT time, len FROM main2.TCP;\n"
    "Query c: MERGE a.time : b.time FROM a, b",
    "union_all": "Query a: SELECT time, len FROM main1.TCP;\nQuery b: SELECT time, len FROM main2.TCP;\n"
    "Query c: MERGE a.time : b.time FROM a, b",
    "host_no_link": "SELECT len FROM main1.TCP",
    "library_path": Text("SELECT len FROM lib/q", {"queries/qlib/lib/q.gsql": LEN}),
    "four_part_source": "SELECT len FROM main1.TCP",
    "links_no_protocol": "SELECT len FROM [main1, main2].TCP",
    "quoted_blank": 'SELECT "len" FROM TCP',
    "quoted_empty": 'SELECT len AS "a_b" FROM TCP',
    "quoted_digit": Text('SELECT len FROM "a-1.b/x".TCP', links='[links."a-1.b/x"]'),
    "quoted_open": 'SELECT "len" FROM TCP',
    "quoted_function": 'SELECT "pow"(len, 2) AS x FROM TCP',
    "quoted_define": f'DEFINE {{ "a_b" 1; }} {LEN}',
    "back_quotes": WHERE.format("str_regex_match[TCP_data, '[Hh]ost']"),
    "ipv4_val": WHERE.format("srcIP = IP_VAL'192.0.2.1'"),
    "bare_address": WHERE.format("srcIP = IP_VAL'192.0.2.1'"),
    "hex_c": WHERE.format("flags = HEX'ff'"),
    "digit_first": "SELECT len AS a1, 1 AS b FROM TCP",
    "backslash_quote": WHERE.format("TCP_data = 'it''s'"),
    "bare_dollar": "SELECT tb, ttl, sum$(len) FROM TCP GROUP BY time/60 AS tb, ttl SUPERGROUP tb",
    "bare_at": "SELECT @site AS s FROM main1.TCP",
    "bare_hash": "DEFINE { query_name 'x'; site 'y'; } SELECT #site AS s FROM TCP -- # is DEFINE's",
    "calls_no_comma": "SELECT pow(len, 1) AS a,\n  pow(len, 2) AS b FROM TCP",
    "column_no_comma": "SELECT S.len, S.ttl,\n  (S.len - S.ttl) AS d FROM main1.TCP S",
    "arguments_no_comma": "SELECT pow(len, ttl) AS a FROM TCP",
    "comma_last": "SELECT len, ttl FROM TCP",
    "comma_last_argument": "SELECT sqrt(FLOAT(len)) AS a FROM TCP",
    "star_name": "SELECT * FROM TCP",
    "star_grouped": GROUPED.format(", srcIP"),
    "distinct_two": "SELECT tb, count(DISTINCT len) FROM TCP GROUP BY time/60 AS tb",
    "cast": "SELECT INT(len), UINT(ttl), FLOAT(len) FROM TCP",
    "sets_two_meanings": GROUPED.format(", GROUPING_SETS((len AS a), (ttl AS b))"),
    "param_twice": LEAST.format("x uint = 1;"),
    "param_blocks_twice": LEAST.format("x uint = 1;"),
    "param_no_semicolon": Text(LEAST.format("x uint;"), options=("--param", "x=5")),
    "param_expression": LEAST.format("x int = 5;"),
    "param_open": LEAST.format("x uint = 1;\n"),
    "define_equals": f"DEFINE {{ query_name 'x'; }} {LEN}",
    "define_no_semicolon": f"DEFINE {{ a 'x'; b 'y'; }} {LEN}",
    "protocol_no_access": "PROTOCOL X { uint a get_time (increasing); } SELECT a FROM main1.X",
    "watchlist_no_fields": WATCHED,
    "label": f"Query query:\n{LEN}",
    "insert": MERGED,
    "unexpected_bracket": "SELECT len, ttl AS c FROM TCP",
    "several": "SELECT len FROM TCP;\nQuery b: SELECT ttl FROM TCP",
    "several_strange": "SELECT pow(len, ttl) AS p, (len | ttl) - (len & ttl) AS x FROM TCP",
    "too_many": ";\n".join(f"Query q{number}: SELECT len AS a{number} FROM TCP" for number in range(30)),
}
MORE = [
    case("gsql_null_equal", WHERE.format("len <=> 1"), "IS NULL`", WHERE.format("len = 1 OR len IS NULL")),
    case("gsql_cast_of_postgres", "SELECT len::int FROM TCP", "convert with a", "SELECT INT(len), FLOAT(ttl) FROM TCP"),
    case("gsql_prose", "the flows of TCP", "a query is `SELECT a, b AS c FROM source", f"{LEN} WHERE ttl > 1"),
    case("gsql_group_of_nothing", f"{LEN} GROUP BY", "the form is `GROUP BY column", GROUPED.format(", len")),
    case(
        "gsql_supergroup_of_a_number",
        GROUPED.format(" SUPERGROUP 5"),
        "the form is `SUPERGROUP a, b`, of names",
        "SELECT tb, len, count$(*) FROM TCP GROUP BY time/60 AS tb, len SUPERGROUP tb",
    ),
    case(
        "gsql_join_of_nothing",
        "SELECT len INNER_JOIN WHERE",
        "the form is `SELECT A.a INNER",
        BEFORE.format("INNER_JOIN"),
    ),
    case(
        "gsql_where_of_nothing",
        f"{LEN} WHERE",
        "the form is `WHERE a = 1 AND",
        WHERE.format("len = 1 AND sqrt(ttl) > 2"),
    ),
    case(
        "gsql_section_sign", "SELECT len § 2 FROM TCP", "leave it out, or put it into", "SELECT len, '§' AS s FROM TCP"
    ),
    Case(
        "gsql_large_text",
        lambda desk: _files(desk, f"Query a: {LEN};\n{NOTE}Query b: {LEN}"),
        "split it into several files",
        lambda desk: _files(desk, f"Query a: {LEN};\n{NOTE[: MAX_BYTES // 2]}", f"Query b: {LEN}"),
    ),
]
CASES: list[Case] = [
    *MORE,
    *cases({name: text for name, (text, _) in REFUSED.items()}, OWN, "gsql_refused_"),
    *cases(SYNTAX, RIGHT, "gsql_"),
]

LEFT: dict[Site, str] = {}
"""Where hints are made that no test can follow, each with the reason."""
