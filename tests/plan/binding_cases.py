"""Texts that parse and have no meaning; `python -m tests.plan.binding_cases` writes the golden of each error."""

from __future__ import annotations

from pathlib import Path

from lowwater.errors import QueryError
from lowwater.plan.context import Context, Links
from lowwater.plan.queryset import plan_texts

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "errors"
LINKS = Links(
    ("control", "main1", "main2", "web"),
    {"backbone": ("main1", "main2")},
    {"main1": {"site": "berlin"}, "main2": {"site": "oslo"}},
    {"web": "csv"},
)
LOG = "PROTOCOL LOG { uint t get_csv_uint_pos1 (increasing); string who get_csv_string_pos2; }\n"
W = "DEFINE { query_name 'w'; filename 'queries/w.csv'; refresh_interval '60'; }\n"

CASES = {
    "column": "SELECT tb, count(*)\nFROM TCP\nGROUP BY time/10 AS tb, scrIP",
    "ambiguous": "SELECT time FROM main1.TCP A JOIN main2.TCP B WHERE A.time = B.time",
    "source": "SELECT X.len FROM main1.TCP A",
    "link": "SELECT len FROM man1.TCP",
    "set": "SELECT len FROM [backbon].TCP",
    "protocol": "SELECT len FROM main1.TPC",
    "protocol_unknown": "SELECT len FROM main1.PKT",
    "link_kind": "SELECT len FROM web.TCP",
    "record_kind": LOG + "SELECT who FROM main1.LOG",
    "host": "SELECT len FROM server.main1.TCP",
    "library": "SELECT len FROM lib/query",
    "union_twice": "SELECT count(*) FROM main1 UNION main1 [RANGE 1 min, WA ts]",
    "union_columns": "Query a: SELECT time, len FROM main1.TCP;\nQuery b: SELECT time FROM main2.TCP;\n"
    "Query c: SELECT time FROM a UNION b AS M",
    "anti_without_on": "SELECT A.time FROM main1.TCP A ANTI JOIN main2.TCP B WHERE A.time = B.time",
    "asof_open": "SELECT A.time FROM main1.TCP A ASOF JOIN main2.TCP B ON A.timestamp <= B.timestamp",
    "asof_equality": "SELECT A.time FROM main1.TCP A ASOF JOIN main2.TCP B ON A.time = B.time",
    "asof_using": "SELECT A.time FROM main1.TCP A ASOF JOIN main2.TCP B USING (srcIP, time)",
    "asof_without_on": "SELECT A.time FROM main1.TCP A ASOF JOIN main2.TCP B "
    "WHERE A.time <= B.time AND B.time <= A.time + 5",
    "semi_without_on": "SELECT A.time FROM main1.TCP A SEMI JOIN main2.TCP B WHERE A.time = B.time",
    "anti_right_side": "SELECT A.time, B.len FROM main1.TCP A ANTI JOIN main2.TCP B ON A.time = B.time",
    "fill_open": "SELECT tb, srcIP, count(*) FROM TCP GROUP BY time/60 AS tb, srcIP FILL",
    "fill_list": "SELECT tb, count(*) FROM TCP GROUP BY time/60 AS tb FILL (tb IN (1, 2))",
    "fill_name": "SELECT tb, destPort, count(*) FROM TCP GROUP BY time/60 AS tb, destPort FILL (destPrt IN (80))",
    "fill_condition": "SELECT tb, destPort, count(*) FROM TCP GROUP BY time/60 AS tb, destPort FILL (destPort > 80)",
    "fill_value": "SELECT tb, destPort, count(*) FROM TCP GROUP BY time/60 AS tb, destPort FILL (destPort IN (tb))",
    "fill_cube": "SELECT tb, destPort, count(*) FROM TCP GROUP BY time/60 AS tb, CUBE(destPort) FILL",
    "fill_two": "SELECT tb, h, count(*) FROM TCP GROUP BY time/60 AS tb, time/3600 AS h FILL",
    "over_lead": "SELECT time, lead(len) OVER (PARTITION BY srcIP ORDER BY timestamp) AS next FROM TCP",
    "over_unknown": "SELECT time, lagg(len) OVER (ORDER BY timestamp) FROM TCP",
    "over_arguments": "SELECT time, lag() OVER (ORDER BY timestamp) FROM TCP",
    "over_unordered": "SELECT time, lag(len) OVER (PARTITION BY srcIP) FROM TCP",
    "over_no_time": "SELECT time, lag(len) OVER (PARTITION BY srcIP ORDER BY len) FROM TCP",
    "over_coarse": "SELECT time, sum(len) OVER (PARTITION BY srcIP ORDER BY time) FROM TCP",
    "over_two": "SELECT time, lag(len) OVER (PARTITION BY srcIP ORDER BY timestamp), "
    "lag(len) OVER (PARTITION BY destIP ORDER BY timestamp) FROM TCP",
    "over_where": "SELECT time FROM TCP WHERE lag(len) OVER (ORDER BY timestamp) > 60",
    "over_far": "SELECT time, lag(len, 5000) OVER (ORDER BY timestamp) FROM TCP",
    "over_session": "SELECT time, session(time, 5 s) OVER (ORDER BY timestamp) FROM TCP",
    "over_gap": "SELECT time, session(timestamp, 0) OVER (ORDER BY timestamp) FROM TCP",
    "over_session_order": "Query a: SELECT len, session(timestamp, 5, 60) OVER (PARTITION BY srcIP) AS t FROM TCP;\n"
    "Query b: SELECT t, lag(len) OVER (ORDER BY t) FROM a",
    "over_segments": "SELECT time, tcp_analysis(srcPort, sequence_number, ack_number, window, flags, len, 1 h) "
    "OVER (PARTITION BY srcIP ORDER BY timestamp) FROM TCP",
    "over_segments_order": "SELECT time, tcp_analysis(SYN, sequence_number, ack_number, window, flags, len, 1 h) "
    "OVER (PARTITION BY srcIP ORDER BY time) FROM TCP",
    "over_segments_few": "SELECT time, tcp_round_trip(SYN, 1 h) OVER (PARTITION BY srcIP ORDER BY timestamp) FROM TCP",
    "over_type": "SELECT time, sum(srcIP) OVER (ORDER BY timestamp) FROM TCP",
    "over_nested": "SELECT time, lag(lag(len) OVER (ORDER BY timestamp)) OVER (ORDER BY timestamp) FROM TCP",
    "over_joined": "SELECT lag(A.len) OVER (ORDER BY A.time) FROM main1.TCP A JOIN main2.TCP B ON A.time = B.time",
    "over_join": "Query a: SELECT A.time AS t, A.len FROM main1.TCP A JOIN main2.TCP B ON A.time = B.time;\n"
    "Query b: SELECT t, lag(len) OVER (ORDER BY t) FROM a",
    "over_closing": "SELECT lag(count(*)) OVER (ORDER BY tb) FROM TCP GROUP BY time/60 AS tb CLOSING_WHEN count(*) = 0",
    "fill_gigascope": "DEFINE { dialect 'gigascope'; } SELECT tb, count(*) FROM TCP GROUP BY time/60 AS tb FILL",
    "over_gigascope": "DEFINE { dialect 'gigascope'; } SELECT time, lag(len) OVER (ORDER BY timestamp) FROM TCP",
    "top_endless": "SELECT time, len FROM TCP ORDER BY len DESC LIMIT 10",
    "top_of_query": "Query a: SELECT tb, count(*) AS n FROM TCP GROUP BY time/60 AS tb;\n"
    "Query b: SELECT tb, n FROM a ORDER BY n LIMIT 10",
    "top_per": "SELECT tb, srcIP, count(*) AS n FROM TCP GROUP BY time/60 AS tb, srcIP ORDER BY n LIMIT 10 PER srcIP",
    "top_number": "SELECT tb, count(*) AS n FROM TCP GROUP BY time/60 AS tb ORDER BY 3 DESC LIMIT 10",
    "top_star": "SELECT * FROM TCP ORDER BY 3 DESC LIMIT 10 PER time/60",
    "top_column": "SELECT tb, count(*) AS n FROM TCP GROUP BY time/60 AS tb ORDER BY len DESC LIMIT 10",
    "top_distinct": "SELECT DISTINCT time/60 AS tb, srcIP FROM TCP ORDER BY len DESC LIMIT 10",
    "top_partitions": "SELECT wid, srcIP, count(*) AS n FROM TCP [RANGE 100 ROWS, PARTITION BY srcIP] "
    "ORDER BY n DESC LIMIT 10",
    "function": "SELECT str_lne(srcIP) FROM TCP",
    "function_types": "SELECT sqrt(srcIP) FROM TCP",
    "function_constant": "SELECT str_regex_match(TCP_data, TCP_data) FROM TCP",
    "function_regex": "SELECT str_extract_regex(TCP_data, '(a') FROM TCP",
    "aggregate_in_where": "SELECT time FROM TCP WHERE count(*) > 1",
    "aggregate_types": "SELECT tb, sum(srcIP) FROM TCP GROUP BY time/10 AS tb",
    "aggregate_star": "SELECT tb, sum(*) FROM TCP GROUP BY time/10 AS tb",
    "aggregate_nested": "SELECT tb, sum(max(len)) FROM TCP GROUP BY time/10 AS tb",
    "distinct_aggregate": "SELECT tb, sum(DISTINCT len) FROM TCP GROUP BY time/10 AS tb",
    "not_an_aggregate": "SELECT tb, sun$(len) FROM TCP GROUP BY time/10 AS tb",
    "types": "SELECT srcIP + 1 FROM TCP",
    "address": "SELECT len FROM TCP WHERE srcIP IN ['10.0.0.1', 'ten']",
    "address_mac": "SELECT len FROM TCP WHERE srcMAC = '02-00-00-00-00-01'",
    "address_prefix": "SELECT len FROM TCP WHERE srcIP = '10.0.0.0/8'",
    "address_like": "SELECT len FROM TCP WHERE srcIP LIKE '10.0.%'",
    "instant": "SELECT len FROM TCP WHERE time > '2026-01-01T00:10:00Z'",
    "flag": "SELECT len FROM TCP WHERE SYN = 0",
    "flag_number": "SELECT len FROM TCP WHERE SYN = 7",
    "flag_true": "SELECT len FROM TCP WHERE SYN = true",
    "flags": "SELECT len FROM TCP WHERE flags & 2",
    "function_of_sql": "SELECT strftime(time) FROM TCP",
    "time_no_width": "SELECT time_bucket(10, timestamp) AS tb FROM TCP",
    "time_month": "SELECT time_bucket(INTERVAL '1 month', timestamp) AS tb FROM TCP",
    "time_word": "SELECT date_trunc('hours', timestamp) AS hour FROM TCP",
    "time_part": "SELECT extract(hours FROM timestamp) AS hour FROM TCP",
    "time_no_unit": "SELECT CAST(len AS TIMESTAMP) AS t FROM TCP",
    "time_and_number": "SELECT CAST(timestamp AS TIMESTAMP) + 5 AS t FROM TCP",
    "time_divided": "SELECT CAST(timestamp AS TIMESTAMP)/60 AS tb FROM TCP",
    "time_and_clock": "SELECT len FROM TCP WHERE CAST(timestamp AS TIMESTAMP) > time",
    "time_and_text": "SELECT len FROM TCP WHERE CAST(timestamp AS TIMESTAMP) > 'noon'",
    "time_literal": "SELECT len FROM TCP WHERE CAST(timestamp AS TIMESTAMP) > TIMESTAMP 'noon'",
    "address_not_like": "SELECT len FROM TCP WHERE srcIP NOT LIKE '192.168.%'",
    "address_like_one": "SELECT len FROM TCP WHERE srcIP LIKE '192.168.1.7'",
    "address_like_some": "SELECT len FROM TCP WHERE srcIP LIKE '10.1%'",
    "address_short": "SELECT len FROM TCP WHERE srcIP <> '192.168.1'",
    "coalesce_of_one": "SELECT coalesce(len) FROM TCP",
    "coalesce_types": "SELECT coalesce(len, srcIP) FROM TCP",
    "abs_of_address": "SELECT abs(srcIP) FROM TCP",
    "mod_of_float": "SELECT mod(len, 1.5) FROM TCP",
    "concat_of_conditions": "SELECT len FROM TCP WHERE SYN || ACK",
    "protocol_name": "SELECT len FROM IPV4 WHERE protocol = 'tpc'",
    "alias_of_alias": "SELECT len + 1 AS a, a + 1 AS b, b + 1 AS c FROM TCP",
    "item_too_large": f"SELECT {' + '.join(['len'] * 150)} AS a FROM TCP WHERE {' AND '.join(['a > 1'] * 300)}",
    "function_unknown": "SELECT zzz(len) FROM TCP",
    "set_bare": "SELECT len FROM backbone.TCP",
    "join_unnamed": "SELECT len FROM main1.TCP, main2.TCP WHERE time = time",
    "condition": "SELECT len FROM TCP WHERE len",
    "case_types": "SELECT CASE WHEN SYN THEN 1 ELSE 'no' END FROM TCP",
    "star_inside": "SELECT count(*) + * FROM TCP",
    "parameter": "PARAM { n uint; }\nSELECT len FROM TCP WHERE len > $m",
    "parameter_type": "PARAM { n number; }\nSELECT len FROM TCP WHERE len > $n",
    "parameter_default": "PARAM { n uint = 'x'; }\nSELECT len FROM TCP WHERE len > $n",
    "define_value": "DEFINE { query_name 'a'; site 'x'; }\nSELECT #siet FROM TCP",
    "property": "SELECT @town FROM main1.TCP",
    "property_over_query": "Query a: SELECT time FROM main1.TCP;\nQuery b: SELECT @site FROM a",
    "group_variable": "SELECT tb, len FROM TCP GROUP BY time/10 AS tb",
    "group_twice": "SELECT tb FROM TCP GROUP BY time/10 AS tb, len AS TB",
    "group_missing": "SELECT srcIP, count(*) FROM TCP",
    "group_missing_qualified": "SELECT TCP.srcIP, sum(TCP.len) FROM main1.TCP",
    "group_missing_join": "SELECT A.srcIP, count(*) FROM main1.TCP A, main2.TCP B WHERE A.time = B.time",
    "group_star": "SELECT * FROM TCP GROUP BY time/60 AS tb",
    "group_all_wrong": "SELECT tb, cont(*) AS n, lenn FROM TCP WHERE tiem > 4"
    " GROUP BY time/60 AS tb, srcIp HAVING n > x",
    "where_all": "SELECT foo FROM TCP WHERE dport = 80 AND proto IN [6, x] AND len BETWEEN low AND sqrt(hihg)",
    "epoch_zero": "SELECT tb, count(*) FROM TCP GROUP BY time/0 AS tb",
    "epoch_float": "PARAM { f float; }\nSELECT tb, count(*) FROM TCP GROUP BY time/$f AS tb",
    "epoch_unsigned": "PARAM { n uint = -5; }\nSELECT tb, count(*) FROM TCP GROUP BY time/$n AS tb",
    "epoch_timeless": "PROTOCOL X { uint t get_csv_uint_pos1; }\nSELECT tb, count(*) FROM web.X GROUP BY t/60 AS tb",
    "epoch_query_timeless": "Query a: SELECT len FROM TCP;\nQuery b: SELECT len, count(*) FROM a GROUP BY len",
    "epoch_join_timeless": "Query j: SELECT A.time, A.len FROM main1.TCP A LEFT JOIN main2.TCP B"
    " WHERE A.timestamp <= B.timestamp AND B.timestamp <= A.timestamp + 2 s;\n"
    "Query q: SELECT tb, count(*) FROM j GROUP BY time/60 AS tb",
    "epoch_outer_timeless": "Query j: SELECT A.time, A.len FROM main1.TCP A FULL JOIN main2.TCP B"
    " WHERE A.time <= B.time AND B.time <= A.time + 2;\n"
    "Query q: SELECT tb, count(*) FROM j GROUP BY time/60 AS tb",
    "endless": "SELECT srcIP, count(*) FROM TCP GROUP BY srcIP",
    "endless_distinct": "SELECT DISTINCT srcIP FROM TCP",
    "endless_cube": "SELECT tb, count(*) FROM TCP GROUP BY CUBE(time/10 AS tb, srcIP)",
    "distinct_of_group": "SELECT DISTINCT tb, count(*) FROM TCP GROUP BY time/10 AS tb",
    "running_without_closing": "SELECT tb, running_sum(len) FROM TCP GROUP BY time/10 AS tb",
    "closing_cube": "SELECT tb, count(*) FROM TCP GROUP BY time/10 AS tb, CUBE(srcIP) CLOSING_WHEN count(*) = 0",
    "cleaning_alone": "SELECT tb, count(*) FROM TCP GROUP BY time/10 AS tb CLEANING_WHEN count(*) > 1",
    "cleaning_and_closing": "SELECT tb, count(*) FROM TCP GROUP BY time/10 AS tb CLEANING_WHEN count$(*) > 1"
    " CLEANING_BY count(*) > 1 CLOSING_WHEN count(*) = 0",
    "supergroup_unused": "SELECT tb, count(*) FROM TCP GROUP BY time/10 AS tb, srcIP SUPERGROUP tb, srcIP",
    "supergroup_name": "SELECT tb, count(*) FROM TCP GROUP BY time/10 AS tb SUPERGROUP tb, srcIP HAVING count$(*) > 1",
    "state_in_selection": "SELECT len FROM TCP WHERE ssample(len, 100) = TRUE",
    "window_attribute": "SELECT count(*) FROM main1.TCP [RANGE 5 min, WA len]",
    "window_unit": "SELECT count(*) FROM main1.TCP [RANGE 5 mins_, WA time]",
    "window_fraction": "SELECT count(*) FROM main1.TCP [RANGE 100 ms, WA time]",
    "window_unknown_unit": LOG + "SELECT count(*) FROM web.LOG [RANGE 5 min, WA t]",
    "window_partition": "SELECT count(*) FROM main1.TCP [RANGE 5 min, WA time, PARTITION BY srcIP]",
    "window_where": "SELECT count(*) FROM main1.TCP [RANGE 5 min, WA time, WHERE len > 60]",
    "window_where_type": "SELECT count(*) FROM main1.TCP [RANGE 10 ROWS, WHERE len + 1]",
    "window_rows_of_query": "Query a: SELECT time FROM main1.TCP;\nQuery b: SELECT count(*) FROM a [RANGE 10 ROWS]",
    "window_rows_wa": "SELECT count(*) FROM main1.TCP [RANGE 10 ROWS, WA time]",
    "window_rows_slide": "SELECT count(*) FROM main1.TCP [RANGE 10 ROWS, SLIDE 5]",
    "window_one_side": "SELECT * FROM main1 A [RANGE 5 min, WA ts], main2 B WHERE A.srcIP = B.destIP",
    "window_join_slide": "SELECT * FROM main1 A [RANGE 5 min, SLIDE 1 min, WA ts], main2 B [RANGE 5 min, WA ts]",
    "join_endless": "SELECT A.time FROM main1.TCP A JOIN main2.TCP B WHERE A.len = B.len",
    "join_alias": "SELECT A.time FROM main1.TCP A JOIN main2.TCP A WHERE A.time = A.time",
    "join_direction": "SELECT A.time FROM main1.TCP A JOIN main2.TCP B WHERE A.time = -B.time",
    "join_param": "PARAM { n uint; }\nSELECT A.time FROM main1.TCP A JOIN main2.TCP B\n"
    "WHERE A.time <= B.time AND B.time <= A.time + $n",
    "join_scale": "SELECT A.time FROM main1.TCP A, main2.TCP B WHERE B.timestamp BETWEEN A.time AND A.time + 3",
    "join_half_band": "SELECT A.time FROM main1.TCP A JOIN main2.TCP B WHERE A.time <= B.time",
    "having_alone": "SELECT time FROM TCP HAVING time > 4",
    "brackets": "SELECT sqrt[len] FROM TCP",
    "aggregate_brackets": "SELECT tb, count[len] FROM TCP GROUP BY time/60 AS tb",
    "aggregate_constant": "SELECT tb, heavy_hitters(len, FLOAT(len)) FROM TCP GROUP BY time/60 AS tb",
    "merge_window": "MERGE a.time : b.time FROM main1.TCP [RANGE 5 min, WA time] a, main2.TCP b",
    "lookup_group": "SELECT R.time FILTER_JOIN(time, 5) FROM main1.TCP R, main1.TCP S"
    " WHERE R.srcIP = S.srcIP HAVING len > 1",
    "lookup_distinct": "SELECT DISTINCT R.time FILTER_JOIN(time, 5) FROM main1.TCP R, main1.TCP S WHERE R.len = S.len",
    "protocol_mixed": "PROTOCOL a (TCP) { uint rtt get_csv_uint_pos9; }\nSELECT rtt FROM main1.a",
    "protocol_packet_type": "PROTOCOL a { uint s get_srcIP; }\nSELECT s FROM main1.a",
    "protocol_packet_word": "PROTOCOL a { uint t get_time (incresing); }\nSELECT t FROM main1.a",
    "protocol_position": "PROTOCOL a { uint t get_csv_uint_pos0; }\nSELECT t FROM main1.a",
    "protocol_time_type": "PROTOCOL a { float t get_csv_iso_to_timestamp_pos1; }\nSELECT t FROM web.a",
    "protocol_access": "PROTOCOL a { uint t get_csv_ip_pos1 (increasing); }\nSELECT t FROM web.a",
    "protocol_clocks": "PROTOCOL a { uint t get_csv_uint_pos1 (increasing, clock);"
    " uint u get_csv_uint_pos2 (increasing, clock); }\nSELECT t FROM main1.a",
    "watch_twice": W + "WATCHLIST FIELDS { IP a (key); IP a; }",
    "filter_qualifier": "SELECT R.time FILTER_JOIN(S.time, 5) FROM main1.TCP R, main1.TCP S WHERE R.srcIP = S.srcIP",
    "filter_query": "Query a: SELECT time, srcIP FROM main1.TCP;\n"
    "Query b: SELECT R.time FILTER_JOIN(time, 5) FROM main1.TCP R, a S WHERE R.srcIP = S.srcIP",
    "filter_links": "SELECT R.time FILTER_JOIN(time, 5) FROM main1.TCP R, main2.TCP S WHERE R.srcIP = S.srcIP",
    "filter_keyless": "SELECT R.time FILTER_JOIN(time, 5) FROM main1.TCP R, main1.TCP S WHERE R.len > 5",
    "filter_column": "SELECT R.time FILTER_JOIN(len, 5) FROM main1.TCP R, main1.TCP S WHERE R.srcIP = S.srcIP",
    "filter_range": "SELECT R.time FILTER_JOIN(time, 0) FROM main1.TCP R, main1.TCP S WHERE R.srcIP = S.srcIP",
    "filter_right": "SELECT S.time FILTER_JOIN(time, 5) FROM main1.TCP R, main1.TCP S WHERE R.srcIP = S.srcIP",
    "filter_inequality": "SELECT R.time FILTER_JOIN(time, 5) FROM main1.TCP R, main1.TCP S"
    " WHERE R.srcIP = S.srcIP AND R.len < S.len",
    "watch_file": "DEFINE { query_name 'w'; refresh_interval '60'; }\nWATCHLIST FIELDS { IP a (key); }",
    "watch_interval": "DEFINE { query_name 'w'; filename 'queries/w.csv'; }\nWATCHLIST FIELDS { IP a (key); }",
    "watch_keyless": W + "WATCHLIST FIELDS { IP a; }",
    "watch_type": W + "WATCHLIST FIELDS { address a (key); }",
    "watch_read": W + "WATCHLIST FIELDS { IP a (key); };\nQuery q: SELECT a FROM w",
    "watch_name": "SELECT p.len WATCHLIST_JOIN FROM main1.TCP p, w x WHERE p.srcIP = x.a",
    "watch_key": W + "WATCHLIST FIELDS { IP a (key); };\n"
    "Query q: SELECT p.len WATCHLIST_JOIN FROM main1.TCP p, w x WHERE p.len = 5",
    "watch_key_type": W + "WATCHLIST FIELDS { uint a (key); };\n"
    "Query q: SELECT p.len WATCHLIST_JOIN FROM main1.TCP p, w x WHERE p.len*0.5 = x.a",
    "merge_temporal": "MERGE a.len : b.len FROM main1.TCP a, main2.TCP b",
    "merge_position": "Query x: SELECT time, len FROM main1.TCP;\nQuery y: SELECT len, time FROM main2.TCP;\n"
    "Query z: MERGE a.time : b.time FROM x a, y b",
    "merge_types": "Query x: SELECT time, len FROM main1.TCP;\nQuery y: SELECT time, srcIP FROM main2.TCP;\n"
    "Query z: MERGE a.time : b.time FROM x a, y b",
    "merge_slack": "MERGE a.time : b.time SLACK len FROM main1.TCP a, main2.TCP b",
    "define_no_temporal": "DEFINE { query_name 'a'; no_temporal_aggr '1'; }\n"
    "SELECT srcIP, count(*) FROM TCP GROUP BY srcIP",
    "define_lfta": "DEFINE { query_name 'a'; lfta_aggregation '1'; }\nSELECT tb FROM TCP GROUP BY time/9 AS tb",
    "define_slots": "DEFINE { query_name 'a'; aggregate_slots 'many'; }\nSELECT tb FROM TCP GROUP BY time/9 AS tb",
    "define_cost": "DEFINE { query_name 'a'; lfta_cost 'CHEAP'; }\nSELECT len FROM TCP",
    "define_dialect": "DEFINE { query_name 'a'; dialect 'sql'; }\nSELECT len FROM TCP",
    "define_keys": "DEFINE { query_name 'a'; keys 'lenn'; }\nSELECT len FROM TCP",
    "protocol_parent": "PROTOCOL a (b) { uint t get_csv_uint_pos1; }\nSELECT t FROM main1.a",
    "protocol_cycle": "PROTOCOL a (b) { uint t get_csv_uint_pos1; }\nPROTOCOL b (a) { uint u get_csv_uint_pos2; }\n"
    "SELECT t FROM main1.a",
    "protocol_type": "PROTOCOL a { number t get_csv_uint_pos1; }\nSELECT t FROM main1.a",
    "protocol_attribute": "PROTOCOL a { uint t get_csv_uint_pos1 (rising); }\nSELECT t FROM main1.a",
    "protocol_unit": "PROTOCOL a { uint t get_csv_uint_pos1 (increasing, unit 'week'); }\nSELECT t FROM main1.a",
    "protocol_float_clock": "PROTOCOL a { float t get_csv_float_pos1 (increasing); }\nSELECT t FROM main1.a",
    "cycle": "Query a: SELECT len FROM b;\nQuery b: SELECT len FROM a",
    "name_path": "DEFINE { query_name '../x'; }\nSELECT len FROM TCP",
    "name_twice": "Query a: SELECT len FROM TCP;\nQuery A: SELECT len FROM TCP",
    "name_missing": "SELECT len FROM TCP;\nSELECT len FROM TCP",
    "several": "Query a: SELECT lenn, tmie FROM TCP;\nQuery b: SELECT lenn FROM a;\n"
    "Query c: SELECT tb FROM TCP GROUP BY tiem/10 AS tb",
}


def failure(text: str) -> QueryError:
    """The error that a text gives."""
    try:
        plan_texts([("queries/q.gsql", text)], LINKS, context=Context())
    except QueryError as error:
        return error
    raise AssertionError(f"bound: {text}")


def errors() -> dict[str, str]:
    """Golden name -> the error, with its class."""
    found = {f"plan_{name}": failure(text) for name, text in CASES.items()}
    return {name: f"{type(error).__name__}\n{error}\n" for name, error in found.items()}


def write() -> None:
    """Rewrites the goldens."""
    for path in GOLDEN.glob("plan_*.txt"):
        path.unlink()
    for name, text in errors().items():
        (GOLDEN / f"{name}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
