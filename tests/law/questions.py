"""Queries of the law, each twice: as GSQL, and as SQL over the admitted packets `p`, written by hand.

Random here is what the queries of `tests.plan.batch_questions` have not: links united by their names, the aggregation
of a join in one statement, states as they are shipped, and what may stand beside windows of rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

SECOND = "1000000000"
IP = "src IS NOT NULL"


@dataclass(frozen=True)
class Question:
    """One query."""

    name: str
    text: str
    sql: str
    family: str = ""


PREDICATES = {
    "": "TRUE",
    "WHERE len > 41": "len > 41",
    "WHERE caplen = len": "caplen = len",
    "WHERE len > 60": "len > 60",
    "WHERE srcPort = 80 OR destPort = 80": "sport = 80 OR dport = 80",
    "WHERE NOT (srcPort = 53)": "NOT (sport = 53)",
    "WHERE SYN AND NOT ACK": "(flags & 2) <> 0 AND (flags & 16) = 0",
    "WHERE len % 5 < 3 AND srcIP <> '10.0.0.1'": "len % 5 < 3 AND src <> '10.0.0.1'",
    "WHERE 100 / (len - 42) > 2": "CASE WHEN len = 42 THEN FALSE ELSE 100 // (len - 42) > 2 END",
    "WHERE len < 0": "FALSE",
    "WHERE interface <> 'main1'": "link <> 'main1'",
    "WHERE srcPort IN [53, 80] OR destIP IN ['10.0.0.2', '10.0.0.3']": (
        "sport IN (53, 80) OR dest IN ('10.0.0.2', '10.0.0.3')"
    ),
    "WHERE len NOT BETWEEN 50 AND 70": "len NOT BETWEEN 50 AND 70",
    "WHERE srcPort IS NULL OR SYN >= ACK": "sport IS NULL OR ((flags & 2) <> 0) >= ((flags & 16) <> 0)",
    "WHERE CASE WHEN len = 42 THEN FALSE ELSE 100 / (len - 42) > 2 END": (
        "CASE WHEN len = 42 THEN FALSE ELSE trunc(100 / (len - 42)) > 2 END"
    ),
}


@st.composite
def windows(draw: st.DrawFn) -> Question:
    """Tumbling windows over united links, as the papers write them."""
    links = draw(st.sampled_from([("main1",), ("main1", "control"), ("main1", "main2", "control")]))
    length = draw(st.sampled_from((1, 7, 60)))
    where, condition = draw(st.sampled_from(list(PREDICATES.items())))
    united = " UNION ".join(links)
    text = (
        f"DEFINE{{query_name 'q';}} SELECT window_start, window_end, destPort, count(*), max(len) "
        f"FROM {united} [RANGE {length} sec, SLIDE {length} sec, WA ts] {where} GROUP BY destPort"
    )
    names = ", ".join(f"'{link}'" for link in links)
    start = f"ts // {SECOND} // {length} * {length}"
    sql = (
        f"SELECT {start} AS a, {start} + {length} AS b, dport, count(*), max(len) FROM p "
        f"WHERE link IN ({names}) AND {IP} AND ({condition}) GROUP BY ALL"
    )
    return Question("q", text, sql)


@st.composite
def joined_groups(draw: st.DrawFn) -> Question:
    """A band join and its aggregation in one statement (002, Q3 and Q7)."""
    below, above = draw(st.sampled_from([(0, 3), (2, 2), (-1, 4)]))
    left = draw(st.booleans())
    key, key_sql = draw(st.sampled_from([("A.time/5 AS t", "A.t // 5"), ("A.time", "A.t")]))
    shown = key.rpartition(" AS ")[2] if " AS " in key else key
    window, window_sql = draw(st.sampled_from([("", ""), ("[RANGE 10, SLIDE 10, WA A.time]", ", A.t // 10")]))
    text = (
        f"DEFINE{{query_name 'q';}} SELECT {shown} AS s, B.destPort, count(*), count(B.len), sum(B.len) {window} "
        f"{'LEFT_OUTER_JOIN' if left else 'INNER_JOIN'} FROM main1.TCP A, [main2, control] .DataProtocol B "
        f"WHERE A.time - {below} <= B.time AND B.time <= A.time + {above} AND A.destPort = B.destPort AND A.len > 54 "
        f"GROUP BY {key}, B.destPort"
    ).replace("] .", "].")
    side = f"SELECT ts // {SECOND} AS t, * FROM p WHERE"
    sql = (
        f"SELECT s, port, count(*), count(lb), sum(lb)::BIGINT FROM (SELECT {key_sql} AS s, "
        "B.dport AS port, B.len AS lb, A.t "
        f"FROM ({side} link = 'main1' AND flags IS NOT NULL AND len > 54) A {'LEFT JOIN' if left else 'JOIN'} "
        f"({side} link IN ('main2', 'control') AND {IP}) B ON A.t - {below} <= B.t AND B.t <= A.t + {above} "
        f"AND A.dport IS NOT DISTINCT FROM B.dport) A GROUP BY s, port{window_sql}"
    )
    return Question("q", text, sql)


SOURCES = st.sampled_from(("main1", "[main1, control]", "[pair]"))


@st.composite
def carried(draw: st.DrawFn) -> Question:
    """CLOSING_WHEN and the sampling operator, which SQL has not."""
    source = draw(SOURCES)
    text = draw(
        st.sampled_from(
            (
                "SELECT tb, srcIP, sum(len), running_sum(len), moving_sum(len, 3), FIRST(destPort), count_diff(len) "
                "FROM {0}.TCP GROUP BY time/10 AS tb, srcIP CLOSING_WHEN count(*) = 0 OR or_aggr(FIN)",
                "SELECT tb, srcIP, destIP, UMAX(sum(len), ssthreshold()) AS bytes, packet_count() AS offered "
                "FROM {0}.TCP WHERE ssample(len, 2) = TRUE GROUP BY time/20 AS tb, srcIP, destIP SUPERGROUP tb, srcIP "
                "HAVING ssfinal_clean(sum(len)) = TRUE CLEANING_WHEN ssdo_clean() = TRUE "
                "CLEANING_BY ssclean_with(sum(len)) = TRUE",
                "SELECT tb, srcIP, count(*) AS packets FROM {0}.DataProtocol GROUP BY time/60 AS tb, srcIP "
                "CLEANING_WHEN local_count(4) = TRUE "
                "CLEANING_BY count(*) + FIRST(current_bucket()) > current_bucket()",
            )
        )
    )
    return Question("q", f"DEFINE{{query_name 'q';}} {text.format(source)}", "")


MEMBERS = {"TCP": "flags IS NOT NULL", "UDP": "protocol = 17", "DataProtocol": "src IS NOT NULL"}


@st.composite
def branches(draw: st.DrawFn) -> Question:
    """The first and last packets of several branches, of which some read the same link or even the same packets."""
    read = draw(
        st.lists(
            st.tuples(st.sampled_from(("main1", "main2")), st.sampled_from(list(MEMBERS))),
            min_size=2,
            max_size=3,
            unique=True,
        )
    )
    where, condition = draw(st.sampled_from(list(PREDICATES.items())))
    source = " UNION ".join(f"{link}.{protocol}" for link, protocol in read)
    text = f"SELECT tb, FIRST(destPort), LAST(len), FIRST(srcIP), count(*) FROM {source} {where} GROUP BY time/10 AS tb"
    if draw(st.booleans()):
        return Question("q", f"{_Q}{text} CLOSING_WHEN count(*) > 3", "")
    packets = " UNION ALL ".join(
        f"SELECT *, {number} AS branch FROM p WHERE link = '{link}' AND {MEMBERS[protocol]}"
        for number, (link, protocol) in enumerate(read)
    )
    order = "ORDER BY ts, link, position, branch"
    sql = (
        f"SELECT ts // {SECOND} // 10 AS tb, first(dport {order}) FILTER (dport IS NOT NULL), last(len {order}), "
        f"first(src {order}), count(*) FROM ({packets}) WHERE {condition} GROUP BY tb"
    )
    return Question("q", f"{_Q}{text}", sql)


_INNER = "DEFINE{query_name 'inner'; visibility 'internal';} "
_OTHER = "DEFINE{query_name 'other'; visibility 'internal';} "
_Q = "DEFINE{query_name 'q';} "
_TWO = (
    f"{_INNER}SELECT wid, count(*) AS n FROM SOURCE.TCP WINDOW;\n"
    f"{_OTHER}SELECT wid, sum(len) AS n FROM main2.DataProtocol WINDOW;\n{_Q}"
)
_TIMED = (
    f"{_INNER}SELECT tb, wid, count(*) AS n, max(len) AS m FROM SOURCE.TCP WINDOW GROUP BY time/10 AS tb;\n"
    f"{_OTHER}SELECT tb, count(*) AS k, sum(len) AS n, min(len) AS m FROM SOURCE.DataProtocol GROUP BY time/10 AS tb;\n"
    f"{_Q}"
)
WITH_ROWS = (
    f"{_Q}SELECT tb, wid, destPort, count(*), FIRST(len) FROM SOURCE.TCP WINDOW GROUP BY time/10 AS tb, destPort",
    f"{_Q}SELECT wid, srcIP, destPort, count(*), LAST(len) FROM SOURCE.DataProtocol WINDOW "
    "GROUP BY CUBE(srcIP, destPort)",
    f"{_Q}SELECT wid, srcIP, sum(len), running_sum(len) FROM SOURCE.TCP WINDOW GROUP BY srcIP "
    "CLOSING_WHEN count(*) = 0",
    f"{_Q}SELECT wid, srcIP, sum(len) FROM SOURCE.TCP WINDOW WHERE ssample(len, 2) = TRUE GROUP BY srcIP "
    "SUPERGROUP srcIP HAVING ssfinal_clean(sum(len)) = TRUE CLEANING_WHEN ssdo_clean() = TRUE "
    "CLEANING_BY ssclean_with(sum(len)) = TRUE",
    f"{_INNER}SELECT wid, srcIP, count(*) AS n, sum(len) AS s FROM SOURCE.TCP WINDOW GROUP BY srcIP;\n"
    f"{_Q}SELECT w, srcIP, count(*), sum(s), avg(n) FROM inner WHERE n > 1 GROUP BY wid/3 AS w, srcIP",
    f"{_TWO}MERGE x.wid : y.wid FROM inner x, other y",
    f"{_TWO}SELECT x.wid, x.n, y.n AS m OUTER_JOIN FROM inner x, other y WHERE x.wid = y.wid",
    f"{_TWO}SELECT x.wid, x.n, y.n AS m LEFT_OUTER_JOIN FROM inner x, other y "
    "WHERE x.wid - 1 <= y.wid AND y.wid <= x.wid + 2",
    f"{_TIMED}SELECT x.tb, x.wid, x.n, y.k, y.n AS s OUTER_JOIN FROM inner x, other y WHERE x.tb = y.tb",
    f"{_TIMED}SELECT x.tb, x.wid, y.k, x.m INNER_JOIN FROM inner x, other y "
    "WHERE x.tb = y.tb AND x.n < y.n AND x.m > 55",
    f"{_TIMED}MERGE x.tb : y.tb FROM inner x, other y",
    f"{_Q}SELECT wid, destPort, sum(len) AS s FROM SOURCE.TCP WINDOW GROUP BY destPort ORDER BY s DESC LIMIT 2",
    f"{_TIMED}SELECT x.tb, x.wid, x.n FROM inner x ORDER BY n DESC LIMIT 2 PER tb",
)
"""Queries that count rows, and do something else as well: with an epoch of the clock, above, or beside."""


@st.composite
def with_rows(draw: st.DrawFn) -> Question:
    """Windows of rows with whatever may stand beside and above them, all of it by arrival."""
    source = draw(SOURCES)
    reach, slide = draw(st.sampled_from(((5, 2), (4, 4), (3, 5), (20, 10), (1, 1))))
    more = draw(st.sampled_from(("", ", PARTITION BY srcIP", ", WHERE len > 60")))
    window = f"[RANGE {reach} ROWS, SLIDE {slide} ROWS{more}]"
    text = draw(st.sampled_from(WITH_ROWS)).replace("SOURCE", source).replace("WINDOW", window)
    return Question("q", text, "")


ORDERS = {
    "n DESC": "n DESC NULLS LAST",
    "s, n DESC": "s NULLS LAST, n DESC NULLS LAST",
    "max(srcPort) DESC NULLS FIRST": "m DESC NULLS FIRST",
    "max(srcPort) NULLS LAST, 2 DESC": "m NULLS LAST, dport DESC NULLS LAST",
    "sum(len) % 7": "s % 7 NULLS LAST",
}


@st.composite
def top_groups(draw: st.DrawFn) -> Question:
    """The first groups of an epoch, as LIMIT or QUALIFY; sometimes of an hour, and counted by another query above."""
    links, length = draw(st.sampled_from(list(LINKS_OF))), draw(st.sampled_from((2, 10, 60)))
    where, condition = draw(st.sampled_from(list(PREDICATES.items())[:4]))
    order, order_sql = draw(st.sampled_from(list(ORDERS.items())))
    count, ties, qualify = draw(st.integers(1, 3)), draw(st.booleans()), draw(st.booleans())
    per, per_sql = draw(st.sampled_from((("", "tb"), ("tb/3", "tb // 3"), ("tb, link", "tb, link"))))
    first = f"ORDER BY {order} LIMIT {count}{' WITH TIES' * ties}{f' PER {per}' * bool(per)}"
    if qualify:
        over = f"OVER (PARTITION BY {per or 'tb'} ORDER BY {order})"
        first = f"QUALIFY {'rank' if ties else 'row_number'}() {over} <= {count}"
    text = (
        f"SELECT tb, destPort, sum(len) AS s, count(*) AS n FROM {links}.TCP {where} "
        f"GROUP BY time/{length} AS tb, destPort, interface AS link {first}"
    )
    canonical = "" if ties else ", " + ", ".join(f"{name} NULLS FIRST" for name in ("tb", "dport", "s", "n", "link"))
    groups = (
        f"SELECT ts // {SECOND} // {length} AS tb, dport, link, sum(len)::BIGINT AS s, count(*) AS n, max(sport) AS m "
        f"FROM p WHERE link IN ({LINKS_OF[links]}) AND flags IS NOT NULL AND ({condition}) GROUP BY ALL"
    )
    place = f"{'rank' if ties else 'row_number'}() OVER (PARTITION BY {per_sql} ORDER BY {order_sql}{canonical})"
    sql = f"SELECT tb, dport, s, n FROM (SELECT *, {place} AS place FROM ({groups})) WHERE place <= {count}"
    if per != "tb/3" and draw(st.booleans()):
        return Question("q", f"{_INNER}{text};\n{_Q}SELECT tb, count(*), sum(n) FROM inner GROUP BY tb", _above(sql))
    return Question("q", f"{_Q}{text}", sql)


def _above(sql: str) -> str:
    return f"SELECT tb, count(*), sum(n)::BIGINT FROM ({sql}) GROUP BY tb"


LINKS_OF = {"main1": "'main1'", "[main1, control]": "'main1', 'control'", "[pair]": "'main1', 'main2'"}


@st.composite
def top_packets(draw: st.DrawFn) -> Question:
    """The first packets of an epoch: of those that are tied, the first by time, link and place."""
    links, length = draw(st.sampled_from(list(LINKS_OF))), draw(st.sampled_from((2, 10, 60)))
    where, condition = draw(st.sampled_from(list(PREDICATES.items())[:4]))
    order, order_sql = draw(st.sampled_from((("len DESC", "len DESC"), ("destPort, caplen", "dport, caplen"))))
    per, per_sql = draw(st.sampled_from((("", ""), (", interface", ", link"), (", srcIP", ", src"))))
    count = draw(st.integers(1, 3))
    text = f"SELECT time, len, destPort FROM {links}.TCP {where} ORDER BY {order} LIMIT {count} PER time/{length}{per}"
    place = (
        f"row_number() OVER (PARTITION BY ts // {SECOND} // {length}{per_sql} ORDER BY {order_sql}, ts, link, position)"
    )
    sql = (
        f"SELECT ts // {SECOND}, len, dport FROM (SELECT *, {place} AS place FROM p "
        f"WHERE link IN ({LINKS_OF[links]}) AND flags IS NOT NULL AND ({condition})) WHERE place <= {count}"
    )
    return Question("q", f"{_Q}{text}", sql)


def tops() -> st.SearchStrategy[Question]:
    """The first rows of an epoch."""
    return top_groups() | top_packets()


_PARTITIONS = {"": "", "srcIP": "src", "srcIP, destPort": "src, dport", "destPort, interface": "dport, link"}
_PARTITIONS["len % 3"] = "len % 3"
_FEW = list(PREDICATES.items())[:4]
_ROWS = "ROWS UNBOUNDED PRECEDING"
_BEFORE = {
    "lag(len)": ("lag(len)", _ROWS),
    "timestamp - lag(timestamp)": ("ts - lag(ts)", _ROWS),
    "lag(destPort, 2, 7)": ("lag(dport, 2, 7)", _ROWS),
    "lag(srcIP, 3)": ("lag(src, 3)", _ROWS),
    "row_number()": ("row_number()", _ROWS),
    "first_value(srcPort)": ("first_value(sport)", _ROWS),
    "count(srcPort)": ("count(sport)", ""),
    "count(*)": ("count(*)", _ROWS),
    "sum(len)": ("sum(len)::BIGINT", ""),
    "sum(srcPort)": ("sum(sport)::BIGINT", _ROWS),
    "sum(len * 0.5)": ("sum(len * 0.5::DOUBLE)", _ROWS),
    "avg(destPort)": ("avg(dport)", ""),
    "min(destPort)": ("min(dport)", ""),
    "max(srcIP)": ("max(src)", _ROWS),
}
"""Function of GSQL -> the same of SQL, and the frame of both."""


@st.composite
def befores(draw: st.DrawFn) -> Question:
    """Functions of a packet and those before it; sometimes counted by another query, or of groups."""
    links, (where, condition) = draw(st.sampled_from(list(LINKS_OF))), draw(st.sampled_from(_FEW))
    partition, partition_sql = draw(st.sampled_from(list(_PARTITIONS.items())))
    chosen = draw(st.lists(st.sampled_from(list(_BEFORE)), min_size=1, max_size=4, unique=True))
    divided, divided_sql = (f"PARTITION BY {by} " * bool(by) for by in (partition, partition_sql))
    items, columns = [], []
    for written in chosen:
        sql, frame = _BEFORE[written]
        over = f"OVER ({divided}ORDER BY timestamp{f' {frame}' * (frame != '' and not _unframed(written))})"
        over_sql = f"OVER ({divided_sql}ORDER BY ts{', link, position ' + frame if frame else ''})"
        items.append(_over(written, over))
        columns.append(_over(sql, over_sql))
    rows = f"p WHERE link IN ({LINKS_OF[links]}) AND flags IS NOT NULL AND ({condition})"
    shown, shown_sql = (", ".join(f"{each} AS w{at}" for at, each in enumerate(every)) for every in (items, columns))
    text, sql = f"SELECT timestamp, {shown} FROM {links}.TCP {where}", f"SELECT ts, {shown_sql} FROM {rows}"
    if draw(st.booleans()):
        above = f"SELECT tb, count(*), count(w0) FROM inner GROUP BY timestamp/{60 * int(SECOND)} AS tb"
        sql = f"SELECT ts // {60 * int(SECOND)}, count(*), count(w0) FROM ({sql}) GROUP BY 1"
        return Question("q", f"{_INNER}{text};\n{_Q}{above}", sql)
    return Question("q", f"{_Q}{text}", sql)


def _unframed(written: str) -> bool:
    return written.startswith(("lag", "row_number", "first", "timestamp"))


def _over(written: str, over: str) -> str:
    """A function with OVER, in front of a cast where it has one."""
    call, cast, kind = written.partition("::BIGINT")
    return f"({call} {over}){cast}{kind}"


@st.composite
def sessions(draw: st.DrawFn) -> Question:
    """Sessions of packets, of which a gap begins the next; sometimes their sizes, up to each packet."""
    links, (where, condition) = draw(st.sampled_from(list(LINKS_OF))), draw(st.sampled_from(_FEW))
    partition, partition_sql = draw(st.sampled_from(list(_PARTITIONS.items())))
    gap = draw(st.sampled_from((1, 5, 30, 120)))
    divided, divided_sql = (f"PARTITION BY {by}" * bool(by) for by in (partition, partition_sql))
    text = f"SELECT timestamp, session(timestamp, {gap} s) OVER ({divided}) AS begun FROM {links}.TCP {where}"
    order = f"{divided_sql} ORDER BY ts, link, position"
    far = f"CASE WHEN coalesce(ts - lag(ts) OVER ({order}) > {gap * int(SECOND)}, TRUE) THEN ts END AS start"
    rows = f"p WHERE link IN ({LINKS_OF[links]}) AND flags IS NOT NULL AND ({condition})"
    sql = f"SELECT ts, max(start) OVER ({order} {_ROWS}) FROM (SELECT *, {far} FROM {rows})"
    return Question("q", f"{_Q}{text}", sql)


_ENDS = {
    "srcIP": "src",
    "srcIP, destPort": "src, dport",
    "destPort, interface": "dport, link",
}


@st.composite
def cut_sessions(draw: st.DrawFn) -> Question:
    """Sessions that are cut at a length, and their sizes: groups by a begin."""
    links, (where, condition) = draw(st.sampled_from(list(LINKS_OF))), draw(st.sampled_from(_FEW))
    partition, partition_sql = draw(st.sampled_from(list(_ENDS.items())))
    gap, most = draw(st.sampled_from((1, 5, 60))), draw(st.sampled_from((2, 30, 200)))
    text = (
        f"SELECT timestamp, srcIP, destPort, interface, len, session(timestamp, {gap} s, {most} s) "
        f"OVER (PARTITION BY {partition}) AS begun FROM {links}.TCP {where}"
    )
    same = " AND ".join(f"s.{name.strip()} IS NOT DISTINCT FROM r.{name.strip()}" for name in partition_sql.split(","))
    sql = (
        "WITH RECURSIVE r AS MATERIALIZED (SELECT *, row_number() OVER "
        f"(PARTITION BY {partition_sql} ORDER BY ts, link, position) AS n FROM p "
        f"WHERE link IN ({LINKS_OF[links]}) AND flags IS NOT NULL AND ({condition})), "
        "s AS (SELECT *, ts AS begun FROM r WHERE n = 1 UNION ALL SELECT r.*, "
        f"CASE WHEN r.ts - s.ts > {gap * int(SECOND)} OR r.ts - s.begun >= {most * int(SECOND)} "
        f"THEN r.ts ELSE s.begun END FROM s JOIN r ON r.n = s.n + 1 AND {same}) "
    )
    if draw(st.booleans()):
        return Question("q", f"{_Q}{text}", f"{sql} SELECT ts, src, dport, link, len, begun FROM s")
    above = f"SELECT begun, {partition}, count(*), sum(len), max(timestamp) FROM inner GROUP BY begun, {partition}"
    sql += f"SELECT begun, {partition_sql}, count(*), sum(len)::BIGINT, max(ts) FROM s GROUP BY begun, {partition_sql}"
    return Question("q", f"{_INNER}{text};\n{_Q}{above}", sql)


@st.composite
def segments(draw: st.DrawFn) -> Question:
    """What is unusual about segments of TCP, beside those of both directions before them."""
    links, (where, condition) = draw(st.sampled_from(list(LINKS_OF))), draw(st.sampled_from(_FEW))
    by, by_sql = draw(st.sampled_from((("", ""), (", interface", ", link"))))
    gap = draw(st.sampled_from((1, 30, 3600)))
    given = f"(srcPort < destPort, sequence_number, ack_number, window, flags, payload_length, {gap} s)"
    over = (
        "OVER (PARTITION BY IF(srcPort < destPort, srcPort, destPort), IF(srcPort < destPort, destPort, srcPort)"
        f"{by} ORDER BY timestamp)"
    )
    text = (
        f"SELECT timestamp, tcp_analysis{given} {over} AS bits, tcp_round_trip{given} {over} AS trip, "
        f"tcp_began{given} {over} AS began FROM {links}.TCP {where}"
    )
    row = "ts || ',' || (sport < dport)::INT || ',' || " + " || ',' || ".join(
        ("sequence_number", "ack_number", '"window"', "flags", "payload_length")
    )
    of = f"least(sport, dport), greatest(sport, dport){by_sql}"
    sql = (
        "SELECT unnest(times) AS ts, unnest(string_split(said, ';')) AS said "
        "FROM (SELECT list(ts ORDER BY ts, link, position) AS times, "
        f"segments(string_agg({row}, ';' ORDER BY ts, link, position), {gap * int(SECOND)}) AS said FROM p "
        f"WHERE link IN ({LINKS_OF[links]}) AND flags IS NOT NULL AND ({condition}) GROUP BY {of})"
    )
    bits, trip, began = (f"nullif(split_part(said, ',', {number}), '')::BIGINT" for number in (1, 2, 3))
    sql = f"SELECT ts, {bits}, {trip}, {began} FROM ({sql})"
    if draw(st.booleans()):
        above = "SELECT tb, count(*), sum(bits), min(trip), max(began) FROM inner GROUP BY timestamp/60000000000 AS tb"
        sql = (
            "SELECT ts // 60000000000, count(*), sum(bits)::BIGINT, min(trip), max(began) "
            f"FROM ({sql}) s(ts, bits, trip, began) GROUP BY 1"
        )
        return Question("q", f"{_INNER}{text};\n{_Q}{above}", sql)
    return Question("q", f"{_Q}{text}", sql)


@st.composite
def befores_of_groups(draw: st.DrawFn) -> Question:
    """The group before, in the epoch before, and what all groups so far add up to."""
    links, length = draw(st.sampled_from(list(LINKS_OF))), draw(st.sampled_from((2, 10, 60)))
    where, condition = draw(st.sampled_from(list(PREDICATES.items())[:4]))
    text = (
        "SELECT tb, destPort, count(*) - lag(count(*)) OVER (PARTITION BY destPort ORDER BY tb) AS d, "
        "sum(sum(len)) OVER (PARTITION BY destPort ORDER BY tb) AS s "
        f"FROM {links}.TCP {where} GROUP BY time/{length} AS tb, destPort"
    )
    groups = (
        f"SELECT ts // {SECOND} // {length} AS tb, dport, count(*) AS n, sum(len) AS s FROM p "
        f"WHERE link IN ({LINKS_OF[links]}) AND flags IS NOT NULL AND ({condition}) GROUP BY ALL"
    )
    over = "OVER (PARTITION BY dport ORDER BY tb)"
    return Question("q", f"{_Q}{text}", f"SELECT tb, dport, n - lag(n) {over}, (sum(s) {over})::BIGINT FROM ({groups})")


def rows_before() -> st.SearchStrategy[Question]:
    """Functions of a row and those before it."""
    return befores() | sessions() | cut_sessions() | segments() | befores_of_groups()


@st.composite
def fills(draw: st.DrawFn) -> Question:
    """Groups of epochs without rows, for some values or none; sometimes the largest group of an hour above."""
    links, length = draw(st.sampled_from(list(LINKS_OF))), draw(st.sampled_from((1, 7, 60)))
    where, condition = draw(st.sampled_from(list(PREDICATES.items())))
    values = draw(st.sampled_from(((), ("80",), ("53", "80", "4444"))))
    having, having_sql = draw(
        st.sampled_from((("", "TRUE"), ("HAVING count(*) < 2", "n < 2"), ("HAVING sum(len) > 0", "s > 0")))
    )
    key, key_sql = (", destPort", ", dport") if values else ("", "")
    listed = f" (destPort IN ({', '.join(values)}))" if values else ""
    text = (
        f"SELECT tb{key}, count(*) AS n, sum(len) AS s, coalesce(max(len), 0) AS m FROM {links}.TCP {where} "
        f"GROUP BY time/{length} AS tb{key} FILL{listed} {having}"
    )
    unit = length * int(SECOND)
    of = f"FROM told WHERE link IN ({LINKS_OF[links]}) AND"
    slots = (
        f"SELECT tb{key_sql} FROM (SELECT unnest(generate_series((SELECT min(a) {of} kind = 'life') // {unit}, "
        f"((SELECT max(b) {of} kind = 'life') - 1) // {unit})) AS tb) "
        + (f", (SELECT unnest([{', '.join(values)}]) AS dport) " if values else "")
        + f"WHERE EXISTS (SELECT * {of} kind = 'life' AND a < (tb + 1) * {unit} AND b > tb * {unit}) "
        f"AND NOT EXISTS (SELECT * {of} kind = 'gap' AND a < (tb + 1) * {unit} AND b > tb * {unit})"
    )
    groups = (
        f"SELECT ts // {unit} AS tb{key_sql}, count(*) AS n, sum(len)::BIGINT AS s, max(len) AS m FROM p "
        f"WHERE link IN ({LINKS_OF[links]}) AND flags IS NOT NULL AND ({condition}) GROUP BY ALL"
    )
    joined = "USING (tb, dport)" if values else "USING (tb)"
    sql = (
        f"SELECT tb{key_sql}, coalesce(n, 0) AS n, s, coalesce(m, 0) AS m FROM ({slots}) FULL JOIN ({groups}) {joined}"
    )
    sql = f"SELECT * FROM ({sql}) WHERE {having_sql}"
    if draw(st.booleans()):
        above = f"SELECT h, count(*), sum(n), max(m) FROM inner GROUP BY tb/{max(60 // length, 2)} AS h"
        sql = f"SELECT tb // {max(60 // length, 2)}, count(*), sum(n)::BIGINT, max(m) FROM ({sql}) GROUP BY 1"
        return Question("q", f"{_INNER}{text};\n{_Q}{above}", sql)
    return Question("q", f"{_Q}{text}", sql)


FAMILIES = (windows, joined_groups, carried, with_rows, branches, tops, rows_before, fills)
