"""Random queries with the constructs that only some engines run, most of them twice: as GSQL, and as SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import strategies as st

from tests.law.questions import PREDICATES, SECOND, Question

FROM = {"main1": ("main1",), "[main1, control]": ("control", "main1"), "[pair]": ("main1", "main2")}
MEASURES = "count(*) AS n, sum(len), min(len), max(destPort)"
MEASURES_SQL = "count(*) AS n, sum(len)::BIGINT, min(len), max(dport)"


def _from(draw: st.DrawFn) -> tuple[str, str]:
    source, links = draw(st.sampled_from(list(FROM.items())))
    return source, f"link IN ({', '.join(repr(link) for link in links)})"


@st.composite
def sliding(draw: st.DrawFn) -> Question:
    """Sliding windows of several lengths, also with gaps between them."""
    source, links = _from(draw)
    where, condition = draw(st.sampled_from(list(PREDICATES.items())))
    reach, slide = draw(st.sampled_from(((60, 20), (50, 20), (7, 3), (5, 5), (2, 5))))
    window = f"[RANGE {reach} s, SLIDE {slide} s, WA time]"
    text = f"SELECT wid, srcIP, {MEASURES}, count(DISTINCT destIP) FROM {source}.DataProtocol {window} {where}"
    numbers = f"generate_series((ts // {SECOND} - {reach} + {slide * 100}) // {slide} - 99, ts // {SECOND} // {slide})"
    sql = (
        f"SELECT w, src, {MEASURES_SQL}, count(DISTINCT dest) FROM (SELECT *, unnest({numbers}) AS w FROM p "
        f"WHERE {links} AND src IS NOT NULL AND ({condition})) GROUP BY ALL"
    )
    return Question("q", f"DEFINE{{query_name 'q';}} {text} GROUP BY srcIP", sql)


@st.composite
def rows(draw: st.DrawFn) -> Question:
    """Windows of rows: of all records, of those of each source address, of those that a condition takes."""
    source, links = _from(draw)
    reach, slide = draw(st.sampled_from(((5, 2), (4, 4), (3, 5), (20, 10))))
    window = f"[RANGE {reach} ROWS, SLIDE {slide} ROWS]"
    text = f"SELECT wid, destPort, {MEASURES} FROM {source}.TCP {window} WHERE len > 55 GROUP BY destPort"
    numbered = f"SELECT *, row_number() OVER (ORDER BY arrival, link, position) - 1 AS n FROM records WHERE {links}"
    if draw(st.booleans()):
        text = text.replace("SLIDE", "PARTITION BY srcIP, SLIDE").replace("SELECT wid", "SELECT wid, srcIP")
        numbered = (
            "SELECT *, row_number() OVER (PARTITION BY src ORDER BY arrival, link, position) - 1 AS n FROM records "
            f"WHERE {links} AND admitted AND flags IS NOT NULL"
        )
    elif draw(st.booleans()):
        where, condition = draw(st.sampled_from([(where, sql) for where, sql in PREDICATES.items() if where]))
        text = text.replace("ROWS]", f"ROWS, {where}]")
        numbered = numbered.replace(links, f"{links} AND admitted AND flags IS NOT NULL AND ({condition})")
    keys = "w, src, dport" if "PARTITION" in text else "w, dport"
    tagged = f"SELECT *, unnest(generate_series((n - {reach} + {slide * 100}) // {slide} - 99, n // {slide})) AS w"
    sql = (
        f"SELECT {keys}, {MEASURES_SQL} FROM ({tagged} FROM ({numbered}) "
        f"WHERE admitted AND flags IS NOT NULL AND len > 55) GROUP BY {keys}"
    )
    return Question("q", f"DEFINE{{query_name 'q';}} {text}", sql)


@st.composite
def sets(draw: st.DrawFn) -> Question:
    """CUBE, ROLLUP and GROUPING_SETS."""
    source, links = _from(draw)
    where, condition = draw(st.sampled_from(list(PREDICATES.items())))
    shape = draw(st.sampled_from(("CUBE(srcIP, destPort)", "ROLLUP(srcIP, destPort)", "srcIP, CUBE(destPort)")))
    text = f"SELECT tb, srcIP, destPort, {MEASURES} FROM {source}.DataProtocol {where} GROUP BY time/10 AS tb, {shape}"
    sql = (
        f"SELECT tb, srcIP, destPort, {MEASURES_SQL} FROM (SELECT *, ts // {SECOND} // 10 AS tb FROM p "
        f"WHERE {links} AND src IS NOT NULL AND ({condition})) "
        f"GROUP BY tb, {shape}"
    )
    return Question("q", f"DEFINE{{query_name 'q';}} {text}", sql)


@st.composite
def lookups(draw: st.DrawFn) -> Question:
    """FILTER_JOIN and WATCHLIST_JOIN."""
    source, links = _from(draw)
    if draw(st.booleans()):
        text = (
            "DEFINE{query_name 'watch'; filename 'w.csv'; refresh_interval '60';} "
            "WATCHLIST FIELDS { IP address (key); uint id; string name; };\n"
            "DEFINE{query_name 'q';} SELECT p.time, p.srcIP, w.name, p.len + w.id AS x "
            f"WATCHLIST_JOIN FROM {source}.DataProtocol p, watch w WHERE p.srcIP = w.address AND p.len > w.id * 10"
        )
        sql = (
            f"SELECT ts // {SECOND}, src, w.name, len + w.id FROM p JOIN w ON src = address AND len > w.id * 10 "
            f"WHERE {links}"
        )
        return Question("q", text, sql)
    reach, t, unit = draw(st.sampled_from(((1, "time", 10**9), (30, "time", 10**9), (2500, "timestamp_ms", 10**6))))
    text = (
        f"DEFINE{{query_name 'q';}} SELECT r.time, r.srcIP, r.len FILTER_JOIN({t}, {reach}) "
        f"FROM {source}.TCP r, {source}.DataProtocol s WHERE r.srcIP = s.destIP AND s.len > 42"
    )
    sql = (
        f"SELECT ts // {SECOND}, src, len FROM p r WHERE {links} AND flags IS NOT NULL AND EXISTS (SELECT 1 FROM p s "
        f"WHERE s.link = r.link AND s.dest = r.src AND s.len > 42 AND s.ts // {unit} <= r.ts // {unit} "
        f"AND r.ts // {unit} <= s.ts // {unit} + {reach})"
    )
    return Question("q", text, sql)


@st.composite
def carried(draw: st.DrawFn) -> Question:
    """CLOSING_WHEN and the sampling operator, which SQL has not."""
    source, _ = _from(draw)
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
)
"""Queries that count rows, and do something else as well: with an epoch of the clock, above, or beside."""


@st.composite
def with_rows(draw: st.DrawFn) -> Question:
    """Windows of rows with whatever may stand beside and above them, all of it by arrival."""
    source, _ = _from(draw)
    reach, slide = draw(st.sampled_from(((5, 2), (4, 4), (3, 5), (20, 10), (1, 1))))
    more = draw(st.sampled_from(("", ", PARTITION BY srcIP", ", WHERE len > 60")))
    window = f"[RANGE {reach} ROWS, SLIDE {slide} ROWS{more}]"
    text = draw(st.sampled_from(WITH_ROWS)).replace("SOURCE", source).replace("WINDOW", window)
    return Question("q", text, "")


FAMILIES: Sequence[Callable[[], st.SearchStrategy[Question]]] = (
    sliding,
    rows,
    sets,
    lookups,
    carried,
    with_rows,
    branches,
)
