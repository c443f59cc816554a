"""Random queries for the law, each twice: as GSQL, and as SQL over the admitted packets `p`, written by hand."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

SECOND = "1000000000"
IP = "src IS NOT NULL"
PROTOCOLS = {
    "DataProtocol": IP,
    "TCP": "flags IS NOT NULL",
    "UDP": "protocol = 17",
    "ICMP": "protocol IN (1, 58)",
    "IPV6": "contains(src, ':')",
    "ETH": "TRUE",
}
SOURCES = {
    "main1": "link = 'main1'",
    "[main1, control]": "link IN ('main1', 'control')",
    "[pair]": "link IN ('main1', 'main2')",
    "": "TRUE",
}
KINDS = {
    "INNER_JOIN": "JOIN",
    "LEFT_OUTER_JOIN": "LEFT JOIN",
    "RIGHT_OUTER_JOIN": "RIGHT JOIN",
    "OUTER_JOIN": "FULL JOIN",
}


@dataclass(frozen=True)
class Question:
    """One query."""

    name: str
    text: str
    sql: str
    family: str = ""


def _from(draw: st.DrawFn) -> tuple[str, str]:
    source, where = draw(st.sampled_from(list(SOURCES.items())))
    # The wide protocols more often, so that most questions have an answer.
    protocol, member = draw(st.sampled_from([*PROTOCOLS.items(), ("DataProtocol", IP), ("ETH", "TRUE")]))
    return (f"{source}.{protocol}" if source else protocol), f"{where} AND {member}"


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
def selections(draw: st.DrawFn, name: str = "q") -> Question:
    source, member = _from(draw)
    where, condition = draw(st.sampled_from(list(PREDICATES.items())))
    sql = (
        f"SELECT ts // {SECOND} AS time, src, dport, len * 2 - caplen AS x, link, (flags & 1) <> 0 AS fin, "
        "CASE sport WHEN 80 THEN len WHEN 53 THEN -1 END AS c, "
        "CASE WHEN sport IS NOT NULL THEN sport ELSE 0.5 END::DOUBLE AS d "
        f"FROM p WHERE {member} AND ({condition})"
    )
    items = (
        "time, srcIP, destPort, len * 2 - caplen AS x, interface, FIN, "
        "CASE srcPort WHEN 80 THEN len WHEN 53 THEN -1 END AS c, "
        "CASE WHEN srcPort IS NOT NULL THEN srcPort ELSE 0.5 END AS d"
    )
    return Question(name, f"DEFINE{{query_name '{name}';}} SELECT {items} FROM {source} {where}", sql)


@st.composite
def aggregations(draw: st.DrawFn, name: str = "q") -> Question:
    source, member = _from(draw)
    where, condition = draw(st.sampled_from(list(PREDICATES.items())))
    epoch, epoch_sql = draw(
        st.sampled_from(
            [
                ("time/10", f"ts // {SECOND} // 10"),
                ("(time - 1767225607)/7", f"trunc((ts // {SECOND} - 1767225607) / 7)::BIGINT"),
                ("timestamp_ms/2500*5 + 3", "ts // 1000000 // 2500 * 5 + 3"),
                ("-(time/4)", f"-(ts // {SECOND} // 4)"),
                ("timestamp", "ts"),
            ]
        )
    )
    having, having_sql = draw(
        st.sampled_from(
            [
                ("", "TRUE"),
                ("HAVING count(*) > 1", "n > 1"),
                ("HAVING max(len) - min(len) > 3", "b - a > 3"),
                ("HAVING count(srcPort) > 1 AND destPort <> 80", "k > 1 AND dport <> 80"),
            ]
        )
    )
    text = (
        f"DEFINE{{query_name '{name}';}} SELECT tb, srcIP, destPort, count(*) AS n, sum(len), min(len), max(len), "
        f"avg(srcPort), sum(len)/count(*) AS mean, min(destIP), count(srcPort) AS k, sum(SYN) "
        f"FROM {source} {where} "
        f"GROUP BY {epoch} AS tb, srcIP, destPort {having}"
    )
    sql = (
        f"SELECT tb, src, dport, n, s, a, b, f, s // n, d, k, y FROM (SELECT {epoch_sql} AS tb, src, dport, "
        "count(*) AS n, count(sport) AS k, sum(((flags & 2) <> 0)::INT)::BIGINT AS y, "
        "sum(len)::BIGINT AS s, min(len) AS a, max(len) AS b, avg(sport) AS f, "
        "min(dest) AS d "
        f"FROM p WHERE {member} AND ({condition}) GROUP BY ALL) WHERE {having_sql}"
    )
    return Question(name, text, sql)


def _flows(name: str, link: str, epoch: int) -> tuple[str, str]:
    text = (
        f"DEFINE{{query_name '{name}'; visibility 'internal';}} SELECT tb, srcIP, srcPort, count(*) AS c "
        f"FROM {link}.DataProtocol GROUP BY time/{epoch} AS tb, srcIP, srcPort;\n"
    )
    sql = (
        f"(SELECT ts // {SECOND} // {epoch} AS tb, src, sport, count(*) AS c FROM p "
        f"WHERE link = '{link}' AND {IP} GROUP BY ALL)"
    )
    return text, sql


@st.composite
def flow_joins(draw: st.DrawFn, name: str = "q") -> Question:
    """Joins of two aggregations on their epoch and keys that may be NULL; sometimes grouped again."""
    kind, kind_sql = draw(st.sampled_from(list(KINDS.items())))
    epoch = draw(st.sampled_from((5, 10)))
    (left, left_sql), (right, right_sql) = _flows(f"{name}a", "main1", epoch), _flows(f"{name}b", "main2", epoch)
    residual, residual_sql = draw(st.sampled_from([("", ""), ("AND A.c <= B.c", "AND A.c <= B.c")]))
    joined = (
        f"SELECT A.tb AS tb, A.srcIP AS src, B.srcPort AS sport, A.c AS ca, B.c AS cb {kind} FROM {name}a A, {name}b B "
        f"WHERE A.tb = B.tb AND A.srcIP = B.srcIP AND A.srcPort = B.srcPort {residual}"
    )
    sql = (
        "SELECT coalesce(A.tb, B.tb) AS tb, coalesce(A.src, B.src) AS src, "
        f"CASE WHEN B.tb IS NULL THEN A.sport ELSE B.sport END AS sport, A.c AS ca, B.c AS cb "
        f"FROM {left_sql} A {kind_sql} {right_sql} B ON A.tb = B.tb AND A.src IS NOT DISTINCT FROM B.src "
        f"AND A.sport IS NOT DISTINCT FROM B.sport {residual_sql}"
    )
    if draw(st.booleans()):
        text = (
            f"DEFINE{{query_name '{name}j'; visibility 'internal';}} {joined};\nDEFINE{{query_name '{name}';}} "
            f"SELECT t, src, count(*) AS n, sum(ca), sum(cb), max(sport) FROM {name}j GROUP BY tb/3 AS t, src"
        )
        sums = "count(*), sum(ca)::BIGINT, sum(cb)::BIGINT, max(sport)"
        sql = f"SELECT tb // 3 AS t, src, {sums} FROM ({sql}) GROUP BY t, src"
        return Question(name, left + right + text, sql)
    return Question(name, left + right + f"DEFINE{{query_name '{name}';}} {joined}", sql)


@st.composite
def packet_joins(draw: st.DrawFn, name: str = "q") -> Question:
    """Joins of packets: an equality of (shifted) seconds or a band, of every kind; a band sometimes grouped above."""
    kind, kind_sql = draw(st.sampled_from(list(KINDS.items())))
    below, above = draw(st.sampled_from([(0, 3), (2, 2), (-1, 4), (5, 0)]))
    equality = draw(st.booleans())
    shift = draw(st.sampled_from((0, 2)))
    if equality:
        # Only a bare column of an equality takes the other side's value (V1): B.time is none where it is shifted.
        right = f"B.time + {shift}" if shift else "B.time"
        window, window_sql = f"A.time = {right}", f"A.t = B.t + {shift}"
    else:
        window = f"A.time - {below} <= B.time AND B.time <= A.time + {above}"
        window_sql = f"A.t - {below} <= B.t AND B.t <= A.t + {above}"
    # NULL equals NULL between columns, not where a side is computed (V1).
    port, same_port = draw(
        st.sampled_from(
            [("A.destPort", "A.dport IS NOT DISTINCT FROM B.dport"), ("A.destPort + 0", "A.dport = B.dport")]
        )
    )
    joined = (
        f"SELECT A.time AS ta, B.time AS tb, A.len AS la, B.len AS lb, B.destPort AS port {kind} "
        f"FROM main1.TCP A, [main2, control].DataProtocol B "
        f"WHERE {window} AND {port} = B.destPort AND A.len > 54 AND A.len <> B.len + 7"
    )
    side = f"SELECT ts // {SECOND} AS t, * FROM p WHERE"
    tied = f"coalesce(A.t, B.t + {shift})" if equality else "A.t"
    other = "coalesce(B.t, A.t)" if equality and shift == 0 else "B.t"
    sql = (
        f"SELECT {tied} AS ta, {other} AS tb, A.len AS la, B.len AS lb, "
        "CASE WHEN B.t IS NULL THEN A.dport ELSE B.dport END AS port "
        f"FROM ({side} link = 'main1' AND flags IS NOT NULL AND len > 54) A {kind_sql} "
        f"({side} link IN ('main2', 'control') AND {IP}) B "
        f"ON {window_sql} AND {same_port} AND A.len <> B.len + 7"
    )
    if draw(st.booleans()) and (equality or kind in ("INNER_JOIN", "LEFT_OUTER_JOIN")):
        text = (
            f"DEFINE{{query_name '{name}j'; visibility 'internal';}} {joined};\nDEFINE{{query_name '{name}';}} "
            f"SELECT t, port, count(*) AS n, sum(lb) FROM {name}j GROUP BY ta/5 AS t, port"
        )
        sql = f"SELECT ta // 5 AS t, port, count(*), sum(lb)::BIGINT FROM ({sql}) GROUP BY t, port"
        return Question(name, text, sql)
    return Question(name, f"DEFINE{{query_name '{name}';}} {joined}", sql)


@st.composite
def merges(draw: st.DrawFn, name: str = "q") -> Question:
    """MERGE of two streams of one link and another, then an aggregation: a union of two branches of one link."""
    epoch = draw(st.sampled_from((1, 6)))
    second = draw(st.sampled_from(("main1", "control")))
    text = (
        f"DEFINE{{query_name '{name}a'; visibility 'internal';}} "
        "SELECT time, len, srcIP FROM main1.TCP WHERE len > 55;\n"
        f"DEFINE{{query_name '{name}b'; visibility 'internal';}} SELECT time, caplen, destIP FROM {second}.UDP;\n"
        f"DEFINE{{query_name '{name}m'; visibility 'internal';}} MERGE x.time : y.time FROM {name}a x, {name}b y;\n"
        f"DEFINE{{query_name '{name}';}} SELECT tb, srcIP, count(*) AS n, sum(len) FROM {name}m "
        f"GROUP BY time/{epoch} AS tb, srcIP"
    )
    sql = (
        f"SELECT ts // {SECOND} // {epoch} AS tb, a, count(*), sum(len)::BIGINT FROM ("
        "SELECT ts, len, src AS a FROM p WHERE link = 'main1' AND flags IS NOT NULL AND len > 55 UNION ALL "
        f"SELECT ts, caplen, dest FROM p WHERE link = '{second}' AND protocol = 17) GROUP BY tb, a"
    )
    return Question(name, text, sql)


@st.composite
def windows(draw: st.DrawFn, name: str = "q") -> Question:
    """Tumbling windows over united links, as the papers write them."""
    links = draw(st.sampled_from([("main1",), ("main1", "control"), ("main1", "main2", "control")]))
    length = draw(st.sampled_from((1, 7, 60)))
    where, condition = draw(st.sampled_from(list(PREDICATES.items())))
    united = " UNION ".join(links)
    text = (
        f"DEFINE{{query_name '{name}';}} SELECT window_start, window_end, destPort, count(*), max(len) "
        f"FROM {united} [RANGE {length} sec, SLIDE {length} sec, WA ts] {where} GROUP BY destPort"
    )
    names = ", ".join(f"'{link}'" for link in links)
    start = f"ts // {SECOND} // {length} * {length}"
    sql = (
        f"SELECT {start} AS a, {start} + {length} AS b, dport, count(*), max(len) FROM p "
        f"WHERE link IN ({names}) AND {IP} AND ({condition}) GROUP BY ALL"
    )
    return Question(name, text, sql)


@st.composite
def distincts(draw: st.DrawFn, name: str = "q") -> Question:
    """SELECT DISTINCT of packets, NULL equal to NULL."""
    source, member = _from(draw)
    where, condition = draw(st.sampled_from(list(PREDICATES.items())))
    text = f"DEFINE{{query_name '{name}';}} SELECT DISTINCT time/5 AS t, destPort, srcIP FROM {source} {where}"
    sql = f"SELECT DISTINCT ts // {SECOND} // 5 AS t, dport, src FROM p WHERE {member} AND ({condition})"
    return Question(name, text, sql)


@st.composite
def joined_groups(draw: st.DrawFn, name: str = "q") -> Question:
    """A band join and its aggregation in one statement (002, Q3 and Q7)."""
    below, above = draw(st.sampled_from([(0, 3), (2, 2), (-1, 4)]))
    left = draw(st.booleans())
    key, key_sql = draw(st.sampled_from([("A.time/5 AS t", "A.t // 5"), ("A.time", "A.t")]))
    shown = key.rpartition(" AS ")[2] if " AS " in key else key
    window, window_sql = draw(st.sampled_from([("", ""), ("[RANGE 10, SLIDE 10, WA A.time]", ", A.t // 10")]))
    text = (
        f"DEFINE{{query_name '{name}';}} SELECT {shown} AS s, B.destPort, count(*), count(B.len), sum(B.len) {window} "
        f"{'LEFT_OUTER_JOIN' if left else 'INNER_JOIN'} FROM main1.TCP A, [main2, control] .DataProtocol B "
        f"WHERE A.time - {below} <= B.time AND B.time <= A.time + {above} AND A.destPort = B.destPort AND A.len > 54 "
        f"GROUP BY {key}, B.destPort"
    ).replace("] .", "].")
    side = f"SELECT ts // {SECOND} AS t, * FROM p WHERE"
    sql = (
        f"SELECT s, port, count(*), count(lb), sum(lb)::BIGINT FROM (SELECT {key_sql} AS s, "
        "CASE WHEN B.t IS NULL THEN A.dport ELSE B.dport END AS port, B.len AS lb, A.t "
        f"FROM ({side} link = 'main1' AND flags IS NOT NULL AND len > 54) A {'LEFT JOIN' if left else 'JOIN'} "
        f"({side} link IN ('main2', 'control') AND {IP}) B ON A.t - {below} <= B.t AND B.t <= A.t + {above} "
        f"AND A.dport IS NOT DISTINCT FROM B.dport) A GROUP BY s, port{window_sql}"
    )
    return Question(name, text, sql)


FAMILIES = (selections, aggregations, merges, windows, distincts, flow_joins, packet_joins, joined_groups)


def questions(name: str = "q") -> st.SearchStrategy[Question]:
    """Any of them."""
    return st.one_of(*(family(name) for family in FAMILIES))
