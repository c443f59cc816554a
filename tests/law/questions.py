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


FAMILIES = (windows, joined_groups, carried, with_rows, branches, tops)
