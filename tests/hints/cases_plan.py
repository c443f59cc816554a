"""Hints of texts that have no meaning: for every golden of the planner with a hint the text that the hint asks for."""

from __future__ import annotations

from lowwater.plan.context import Links
from lowwater.plan.explain import explain
from lowwater.plan.queryset import plan_files
from tests.hints.desk import Case, Desk, Site
from tests.hints.texts import LINKS, Text, case, cases
from tests.plan import binding_cases
from tests.plan.binding_cases import LOG, W
from tests.replay.support import Said

LEN = "SELECT len FROM TCP"
WHERE = f"{LEN} WHERE {{}}"
GROUPED = "SELECT tb, count(*) AS n FROM TCP{} GROUP BY time/60 AS tb{}"
JOINED = "SELECT A.time FROM main1.TCP A JOIN main2.TCP B WHERE {}"
CLEANED = " CLEANING_WHEN count$(*) > 1 CLEANING_BY count(*) > 1"
FILTERED = "SELECT R.time FILTER_JOIN({}) FROM main1.TCP R, main1.TCP S WHERE R.srcIP = S.srcIP"
WATCHED = (
    f"{W}WATCHLIST FIELDS {{ IP a (key); }};\n"
    "Query q: SELECT p.len WATCHLIST_JOIN FROM main1.TCP p, w x WHERE p.srcIP = x.a"
)
FIELD = "PROTOCOL a {{ {}; }}\nSELECT {} FROM {}.a"

RIGHT: dict[str, str | Text] = {
    "column": "SELECT tb, count(*)\nFROM TCP\nGROUP BY time/10 AS tb, srcIP",
    "ambiguous": JOINED.format("A.time = B.time"),
    "source": "SELECT A.len FROM main1.TCP A",
    "link": "SELECT len FROM main1.TCP",
    "set": "SELECT len FROM [backbone].TCP",
    "protocol": "SELECT len FROM main1.TCP",
    "protocol_unknown": "SELECT len FROM main1.ETH",
    "host": "SELECT len FROM main1.TCP",
    "library": Text("SELECT len FROM lib/query", {"queries/qlib/lib/query.gsql": LEN}),
    "function": "SELECT str_truncate(TCP_data, 5) FROM TCP",
    "aggregate_star": "SELECT tb, count(*) FROM TCP GROUP BY time/10 AS tb",
    "distinct_aggregate": "SELECT tb, count(DISTINCT len) FROM TCP GROUP BY time/10 AS tb",
    "not_an_aggregate": "SELECT tb, sum$(len) FROM TCP GROUP BY time/10 AS tb",
    "address": WHERE.format("srcIP IN ['10.0.0.1', IP_VAL'10.0.0.1']"),
    "address_mac": WHERE.format("srcMAC = '02:00:00:00:00:01'"),
    "address_prefix": WHERE.format("srcIP BETWEEN '10.0.0.0' AND '10.255.255.255'"),
    "address_like": WHERE.format("srcIP BETWEEN '10.0.0.0' AND '10.0.255.255'"),
    "instant": WHERE.format("time > 1767226200"),
    "flag": WHERE.format("NOT SYN"),
    "flag_number": WHERE.format("SYN"),
    "flag_true": WHERE.format("SYN = TRUE"),
    "flags": WHERE.format("(flags & 2) <> 0"),
    "function_of_sql": "SELECT CASE WHEN len IS NOT NULL THEN len ELSE 0 END AS x FROM TCP",
    "function_unknown": Text("SELECT zzz(len) FROM TCP", {"f.fun": "uint FUN zzz(uint);\n"}, ("--functions", "f.fun")),
    "set_bare": "SELECT len FROM [backbone].TCP",
    "join_unnamed": "SELECT A.len FROM main1.TCP A, main2.TCP B WHERE A.time = B.time",
    "condition": WHERE.format("len <> 0"),
    "star_inside": LEN,
    "parameter": Text("PARAM { n uint; }\nSELECT len FROM TCP WHERE len > $n", options=("--param", "n=5")),
    "parameter_default": Text(binding_cases.CASES["parameter_default"], options=("--param", "n=5")),
    "define_value": "DEFINE { query_name 'a'; site 'x'; }\nSELECT #site FROM TCP",
    "property": Text("SELECT @town FROM main1.TCP", links='[links.main1.properties]\ntown = "Berlin"'),
    "property_over_query": "Query a: SELECT time, @site AS site FROM main1.TCP;\nQuery b: SELECT site FROM a",
    "group_variable": "SELECT tb, max(len) FROM TCP GROUP BY time/10 AS tb",
    "group_twice": "SELECT tb FROM TCP GROUP BY time/10 AS tb, len AS bytes",
    "group_missing": "SELECT srcIP, count(*) FROM TCP GROUP BY time/60 AS tb, srcIP",
    "group_missing_qualified": "SELECT TCP.srcIP, sum(TCP.len) FROM main1.TCP GROUP BY time/60 AS tb, TCP.srcIP",
    "group_missing_join": "SELECT A.srcIP, count(*) FROM main1.TCP A, main2.TCP B WHERE A.time = B.time"
    " GROUP BY A.time/60 AS tb, A.srcIP",
    "group_alias": GROUPED.format("", ""),
    "group_star": GROUPED.format("", ""),
    "group_all_wrong": "SELECT tb, count(*) AS n, max(len) FROM TCP WHERE time > 4"
    " GROUP BY time/60 AS tb, srcIP HAVING count(*) > 5",
    "having_alias": GROUPED.format("", " HAVING count(*) > 5"),
    "where_alias": "SELECT len*2 AS d FROM TCP WHERE len*2 > 5",
    "where_all": "SELECT len FROM TCP WHERE dstPort = 80 AND protocol IN [6, 17] AND len BETWEEN 1 AND 2",
    "epoch_zero": GROUPED.format("", ""),
    "epoch_float": GROUPED.format("", ""),
    "epoch_unsigned": Text(binding_cases.CASES["epoch_unsigned"], options=("--param", "n=5")),
    "epoch_timeless": "PROTOCOL X { uint t get_csv_uint_pos1 (increasing); }\n"
    "SELECT tb, count(*) FROM web.X GROUP BY t/60 AS tb",
    "epoch_query_timeless": "Query a: SELECT time, len FROM TCP;\n"
    "Query b: SELECT len, count(*) FROM a GROUP BY time/60 AS tb, len",
    "epoch_join_timeless": "Query j: SELECT A.timestamp, A.len FROM main1.TCP A LEFT JOIN main2.TCP B"
    " WHERE A.timestamp <= B.timestamp AND B.timestamp <= A.timestamp + 2 s;\n"
    "Query q: SELECT tb, count(*) FROM j GROUP BY timestamp/1 min AS tb",
    "epoch_outer_timeless": "Query j: SELECT A.time, A.len FROM main1.TCP A FULL JOIN main2.TCP B"
    " WHERE A.time = B.time;\nQuery q: SELECT tb, count(*) FROM j GROUP BY time/60 AS tb",
    "endless": GROUPED.format("", ", srcIP"),
    "endless_distinct": "SELECT DISTINCT time/60 AS tb, srcIP FROM TCP",
    "endless_cube": GROUPED.format("", ", CUBE(srcIP)"),
    "distinct_of_group": f"Query g: {GROUPED.format('', '')};\nQuery d: SELECT DISTINCT tb, n FROM g",
    "running_without_closing": "SELECT tb, running_sum(len) FROM TCP GROUP BY time/10 AS tb CLOSING_WHEN count(*) = 0",
    "cleaning_alone": GROUPED.format("", CLEANED),
    "supergroup_unused": "SELECT tb, sum$(len) FROM TCP GROUP BY time/10 AS tb, srcIP SUPERGROUP tb, srcIP",
    "supergroup_name": GROUPED.format("", " SUPERGROUP tb HAVING count$(*) > 1"),
    "state_in_selection": "SELECT tb, count(*) FROM TCP WHERE ssample(len, 100) = TRUE GROUP BY time/60 AS tb"
    + CLEANED,
    "window_attribute": "SELECT count(*) FROM main1.TCP [RANGE 5 min, WA timestamp]",
    "window_unit": "SELECT count(*) FROM main1.TCP [RANGE 5 mins, WA time]",
    "window_unknown_unit": LOG.replace("(increasing)", "(increasing, unit 's')")
    + "SELECT count(*) FROM web.LOG [RANGE 5 min, WA t]",
    "window_where": "SELECT count(*) FROM main1.TCP [RANGE 5 min, WA time] WHERE len > 60",
    "window_where_type": "SELECT count(*) FROM main1.TCP [RANGE 10 ROWS, WHERE (len + 1) <> 0]",
    "window_partition": "SELECT srcIP, count(*) FROM main1.TCP [RANGE 5 min, WA time] GROUP BY srcIP",
    "window_rows_of_query": "SELECT count(*) FROM main1.TCP [RANGE 10 ROWS]",
    "window_rows_slide": "SELECT count(*) FROM main1.TCP [RANGE 100 ROWS, SLIDE 10 ROWS]",
    "window_one_side": "SELECT A.len FROM main1 A [RANGE 5 min, WA ts], main2 B [RANGE 5 min, WA ts]"
    " WHERE A.srcIP = B.destIP",
    "window_join_slide": "SELECT A.len FROM main1 A [RANGE 2 min, WA ts], main2 B [RANGE 2 min, WA ts]"
    " WHERE A.srcIP = B.destIP",
    "join_endless": JOINED.format("A.len = B.len AND A.time = B.time"),
    "join_alias": JOINED.format("A.time = B.time"),
    "join_direction": JOINED.format("A.time = B.time"),
    "join_param": Text(binding_cases.CASES["join_param"], options=("--param", "n=5")),
    "join_scale": JOINED.format("B.timestamp/1000000000 BETWEEN A.time AND A.time + 3"),
    "join_half_band": JOINED.format("A.time - 5 <= B.time AND B.time <= A.time + 5"),
    "having_alone": "SELECT time FROM TCP WHERE time > 4",
    "brackets": "SELECT sqrt(len) FROM TCP",
    "merge_window": "Query m: MERGE a.time : b.time FROM main1.TCP a, main2.TCP b;\n"
    "Query w: SELECT count(*) FROM m [RANGE 5 min, WA time]",
    "lookup_group": f"Query f: {FILTERED.format('time, 5')};\n"
    "Query g: SELECT tb, count(*) FROM f GROUP BY time/60 AS tb HAVING count(*) > 1",
    "lookup_distinct": f"Query f: {FILTERED.format('time, 5')};\nQuery g: SELECT DISTINCT time FROM f",
    "protocol_mixed": "PROTOCOL a (TCP) { uint rtt get_ttl; }\nSELECT rtt FROM main1.a",
    "protocol_packet_word": FIELD.format("uint t get_time (increasing)", "t", "main1"),
    "protocol_position": FIELD.format("uint t get_csv_uint_pos1", "t", "web"),
    "protocol_access": FIELD.format("ip t get_csv_ip_pos1", "t", "web"),
    "protocol_time_type": FIELD.format("llong t get_csv_iso_to_timestamp_pos1", "t", "web"),
    "filter_query": FILTERED.format("time, 5"),
    "filter_keyless": FILTERED.format("time, 5"),
    "filter_right": FILTERED.format("time, 5"),
    "filter_inequality": "SELECT R.time FROM main1.TCP R, main2.TCP S WHERE R.time = S.time AND R.len < S.len",
    "watch_file": WATCHED,
    "watch_interval": WATCHED,
    "watch_keyless": WATCHED,
    "watch_read": WATCHED,
    "watch_key": WATCHED,
    "define_no_temporal": GROUPED.format("", ", srcIP"),
    "define_lfta": GROUPED.format("", ""),
    "define_cost": "DEFINE { query_name 'a'; lfta_cost 'HIGH'; }\nSELECT len FROM TCP",
    "define_dialect": "DEFINE { query_name 'a'; dialect 'gigascope'; }\nSELECT len FROM TCP",
    "define_keys": "DEFINE { query_name 'a'; keys 'len'; }\nSELECT len FROM TCP",
    "protocol_type": FIELD.format("uint t get_csv_uint_pos1", "t", "web"),
    "protocol_attribute": FIELD.format("uint t get_csv_uint_pos1 (increasing)", "t", "web"),
    "protocol_unit": FIELD.format("uint t get_csv_uint_pos1 (increasing, unit 'ms')", "t", "web"),
    "name_twice": f"Query a: {LEN};\nQuery b: {LEN}",
    "name_missing": f"{LEN};\nDEFINE {{ query_name 'x'; }} {LEN}",
    "several": "Query a: SELECT len, time FROM TCP;\nQuery b: SELECT len FROM a;\n"
    "Query c: SELECT tb FROM TCP GROUP BY time/10 AS tb",
}


def _define(entry: str) -> str:
    return f"DEFINE {{ query_name 'q'; {entry}; }} {LEN}"


def _explained(desk: Desk, form: str) -> None:
    plan = plan_files([desk.query(LEN)], Links())
    assert explain(plan, form)


def _chosen(desk: Desk, name: str) -> Said:
    query, given = desk.query("SELECT len FROM main1.TCP", "sizes"), ("--capture", f"main1={desk.capture}")
    return desk.run("run", query, *given, "--out", desk.folder / "out", "--engine", "reference", "--query", name)


def _reads(path: str, links: str = LINKS) -> Text:
    """A query that reads a table of prefixes."""
    table = {"queries/t": "10.0.0.0/8 7\n", "tables/t": "10.0.0.0/8 7\n"}
    return Text(f"SELECT getlpmid(srcIP, '{path}') AS x FROM TCP", table, links=links)


DECREASING = "PROTOCOL a {{ uint t get_csv_uint_pos1 (decreasing); }}\n{}"
COUNTED = "SELECT count(*) AS n FROM {} [RANGE 10, SLIDE 5, WA {}]"
CLOCKS = "Query a: SELECT {} FROM TCP;\nQuery b: SELECT count(*) AS n FROM a"
FLOWS = "PROTOCOL flows { uint bytes get_len; }"
PAIR = "SELECT R.len {} FROM main1.TCP R, main1.TCP S WHERE R.srcIP = S.srcIP"
MORE = [
    # -- DEFINE
    case("plan_sample", _define("sample '2'"), "such as sample '0.01'", _define("sample '0.01'")),
    case(
        "plan_sample_seed",
        _define("sample '0.01'; sample_seed 'x'"),
        "such as '1'",
        _define("sample '0.01'; sample_seed '1'"),
    ),
    case(
        "plan_sample_of_records",
        LOG + "DEFINE { query_name 'q'; sample '0.1'; } SELECT who FROM web.LOG",
        "leave out DEFINE sample",
        LOG + "SELECT who FROM web.LOG",
    ),
    case("plan_algorithm", _define("algorithm 'tree'"), "write hash or bloom", _define("algorithm 'hash'")),
    case("plan_name_empty", f"DEFINE {{ query_name ''; }} {LEN}", "or leave query_name out", LEN),
    case("plan_name_long", f"Query {'q' * 300}: {LEN}", "shorten it", f"Query {'q' * 100}: {LEN}"),
    case(
        "plan_name_reserved",
        f"Query summary: {LEN}",
        "DEFINE { query_name 'summary_of'; }",
        f"DEFINE {{ query_name 'summary_of'; }} {LEN}",
    ),
    case(
        "plan_name_again", f"Query a: {LEN};\nQuery a: {LEN}", "another query_name", f"Query a: {LEN};\nQuery b: {LEN}"
    ),
    case(
        "plan_no_output",
        "DEFINE { query_name 'q'; visibility 'internal'; } SELECT len FROM TCP",
        "remove a visibility 'internal'",
        "DEFINE { query_name 'q'; } SELECT len FROM TCP",
    ),
    # -- parameters and constants
    case(
        "plan_parameter_of_none",
        WHERE.format("len > $m"),
        "write PARAM { m uint; } before SELECT",
        Text("PARAM { m uint; } " + WHERE.format("len > $m"), options=("--param", "m=5")),
    ),
    case(
        "plan_parameter_negative",
        "PARAM { n int = -'x'; } SELECT len FROM TCP",
        "PARAM { n int = -5; }",
        "PARAM { n int = -5; } SELECT len FROM TCP WHERE len > $n",
    ),
    case(
        "plan_range_parameter",
        f"PARAM {{ n uint; }} {PAIR.format('FILTER_JOIN(time, $n)')}",
        "give --param n=VALUE",
        Text(f"PARAM {{ n uint; }} {PAIR.format('FILTER_JOIN(time, $n)')}", options=("--param", "n=5")),
    ),
    # -- durations and instants
    case(
        "plan_duration_alone",
        "SELECT len, 5 s AS x FROM TCP",
        "such as timestamp + 5 s",
        "SELECT len, timestamp + 5 s AS x, 5 AS y FROM TCP",
    ),
    case("plan_duration_of_len", WHERE.format("len > 5 s"), "as a number in the unit of len", WHERE.format("len > 5")),
    case(
        "plan_local_day_of_hours",
        "SELECT len, local_day(time/3600, 'Europe/Berlin') AS day FROM TCP",
        "write the time itself, such as time",
        "SELECT len, local_day(time, 'Europe/Berlin') AS day FROM TCP",
    ),
    case(
        "plan_local_day_of_no_zone",
        "SELECT len, local_day(time, 'berlin') AS day FROM TCP",
        "did you mean 'Europe/Berlin'?",
        "SELECT len, local_day(time, 'Europe/Berlin') AS day FROM TCP",
    ),
    case(
        "plan_duration_fine",
        WHERE.format("time > 100 ms"),
        "timestamp_us and timestamp_ms",
        WHERE.format("timestamp_ms > 100 ms"),
    ),
    case(
        "plan_duration_long",
        WHERE.format("timestamp > 999999 days"),
        "write a shorter one",
        WHERE.format("timestamp > 9999 days"),
    ),
    case(
        "plan_instant_nanoseconds",
        WHERE.format("timestamp > '2026-01-01T00:10:00Z'"),
        "write timestamp > 1767226200000000000, the nanoseconds since 1970 that timestamp counts",
        WHERE.format("timestamp > 1767226200000000000"),
    ),
    case(
        "plan_instant_minutes",
        WHERE.format("time/60 > '2026-01-01T00:10:00Z'"),
        "write time/60 > 29453770, the minutes since 1970 that time/60 counts",
        WHERE.format("time/60 > 29453770"),
    ),
    # -- words of other systems
    case(
        "plan_abs",
        "SELECT abs(len) FROM TCP",
        "CASE WHEN a < 0 THEN -a ELSE a END",
        "SELECT CASE WHEN len < 0 THEN -len ELSE len END AS x FROM TCP",
    ),
    case(
        "plan_stddev",
        GROUPED.format("", "").replace("count(*)", "stddev(len)"),
        "select count(*), sum(x) and sum(x*x)",
        "SELECT tb, count(*), sum(len), sum(len*len) FROM TCP GROUP BY time/60 AS tb",
    ),
    case(
        "plan_date_trunc",
        "SELECT date_trunc(time) FROM TCP",
        "write time/60 for minutes",
        "SELECT time/60, time/3600 FROM TCP",
    ),
    case(
        "plan_in_long",
        WHERE.format(f"len IN [{', '.join(map(str, range(10_001)))}]"),
        "keep the values in a watch list",
        WATCHED,
    ),
    # -- sources
    case("plan_watch_misspelt", WATCHED.replace("p, w x", "p, v x"), "there are: w", WATCHED),
    case(
        "plan_source_assumed",
        Text("SELECT bytes FROM flows", links=""),
        "name the file of flows too if it is a query, give --schema FILE if it is a PROTOCOL",
        Text("SELECT bytes FROM flows", {"p.gsql": FLOWS}, ("--schema", "p.gsql"), ""),
    ),
    case(
        "plan_merge_names",
        "MERGE TCP.time : TCP.time FROM main1.TCP, main2.TCP",
        "give each a range variable",
        "MERGE a.time : b.time FROM main1.TCP a, main2.TCP b",
    ),
    case(
        "plan_links_twice",
        "SELECT len FROM [main1, main1].TCP",
        "name every link once",
        "SELECT len FROM [main1, main2].TCP",
    ),
    case(
        "plan_window_of_two_clocks",
        f"{CLOCKS.format('timestamp, timestamp_ms')} [RANGE 5 min]",
        "write WA timestamp",
        f"{CLOCKS.format('timestamp, timestamp_ms')} [RANGE 5 min, WA timestamp]",
    ),
    case(
        "plan_window_of_no_clock",
        f"{CLOCKS.format('len')} [RANGE 5 min]",
        "select one, such as time, in the query that is read",
        f"{CLOCKS.format('len, time')} [RANGE 5 min]",
    ),
    case(
        "plan_window_over_no_clock",
        f"{CLOCKS.format('len')} [RANGE 5 min, WA len]",
        "select one, such as time, in the query that is read",
        f"{CLOCKS.format('len, time')} [RANGE 5 min, WA time]",
    ),
    case(
        "plan_window_over_records",
        "PROTOCOL a { uint t get_csv_uint_pos1; }\nSELECT count(*) FROM web.a [RANGE 5, WA t]",
        "declare one in its PROTOCOL: uint time get_csv_uint_pos1 (increasing);",
        "PROTOCOL a { uint time get_csv_uint_pos1 (increasing); }\nSELECT count(*) FROM web.a [RANGE 5, WA time]",
    ),
    case(
        "plan_join_of_no_clock",
        f"Query c: {LEN};\nQuery j: SELECT C.len FROM main1.TCP A JOIN c C WHERE A.len = C.len",
        "C has no temporal column: select one, such as time",
        "Query c: SELECT time, len FROM TCP;\nQuery j: SELECT C.len FROM main1.TCP A JOIN c C WHERE A.time = C.time",
    ),
    case(
        "plan_filter_alias",
        "SELECT TCP.time FILTER_JOIN(time, 5) FROM main1.TCP, main1.TCP WHERE TCP.srcIP = TCP.srcIP",
        "write: FROM TCP R, TCP S",
        FILTERED.format("time, 5"),
    ),
    case(
        "plan_window_decreasing",
        DECREASING.format(COUNTED.format("web.a", "t")),
        "select its negative in a query that is read, such as -t AS u",
        DECREASING.format(f"Query n: SELECT -t AS u FROM web.a;\nQuery c: {COUNTED.format('n', 'u')}"),
    ),
    case(
        "plan_banded",
        FIELD.format("uint t get_csv_uint_pos1 (increasing, banded)", "t", "web"),
        "write banded 5",
        FIELD.format("uint t get_csv_uint_pos1 (increasing, banded 5)", "t", "web"),
    ),
    # -- groups
    case(
        "plan_groupings",
        GROUPED.format("", ", CUBE(" + ", ".join(f"len+{n} AS k{n}" for n in range(17)) + ")"),
        "write GROUPING_SETS of those you need",
        GROUPED.format("", ", GROUPING_SETS((len AS a), (ttl AS b), ())"),
    ),
    case(
        "plan_cube_supergroup",
        "SELECT tb, sum$(len) FROM TCP GROUP BY time/60 AS tb, CUBE(ttl)",
        "write one query for each grouping",
        "Query a: SELECT tb, sum$(len) FROM TCP GROUP BY time/60 AS tb, ttl SUPERGROUP tb;\n"
        "Query b: SELECT tb, sum$(len) FROM TCP GROUP BY time/60 AS tb",
    ),
    # -- files
    case("plan_file_elsewhere", _reads("tables/t"), "put it beside the query", _reads("queries/t")),
    case(
        "plan_file_of_a_folder",
        _reads("tables/t"),
        "folders = [...] under [files]",
        _reads("tables/t", f'{LINKS}\n[files]\nfolders = ["tables"]\n'),
    ),
    case(
        "plan_library_file",
        "SELECT len FROM lib/query",
        "a library is a folder beside the query file",
        Text("SELECT len FROM lib/query", {"queries/lib/query.gsql": LEN}),
    ),
    Case(
        "plan_form",
        lambda desk: _explained(desk, "yaml"),
        "there are:",
        lambda desk: _explained(desk, "json"),
    ),
    Case("plan_query", lambda desk: _chosen(desk, "size"), "did you mean sizes?", lambda desk: _chosen(desk, "sizes")),
]
CASES: list[Case] = [*cases(binding_cases.CASES, RIGHT, "plan_"), *MORE]

LEFT: dict[Site, str] = {}
"""Where hints are made that no test can follow, each with the reason."""
