"""Random joins of packets and of the streams of `batch_chains`: windowed, filtering, and with a watch list."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from tests.plan.batch_chains import (
    COLUMNS,
    PACKET_SQL,
    ZERO,
    Stream,
    aggregation,
    chains,
    filled,
    filters,
    output,
    selection,
    statement,
)
from tests.plan.batch_questions import Question, conditions, pick, sources

KINDS = {
    "INNER_JOIN": "JOIN", "LEFT_OUTER_JOIN": "LEFT JOIN", "RIGHT_OUTER_JOIN": "RIGHT JOIN", "OUTER_JOIN": "FULL JOIN",
}  # fmt: skip


def _side(draw: st.DrawFn, name: str, epoch: int) -> Stream:
    """One side of a join; the columns t of both are of one scale."""
    if epoch < 0:
        return selection(draw, name, "-")
    kind = draw(st.sampled_from(("packets", "packets", "selection", "group"))) if epoch == 1 else "group"
    if kind == "packets":
        source, rows = draw(sources())
        return Stream("", source, f"(SELECT {PACKET_SQL} FROM {rows})", True)
    return selection(draw, name) if kind == "selection" else aggregation(draw, name, epoch)


@st.composite
def joins(draw: st.DrawFn) -> Question:
    """Joins of packets and streams by an equality, a band or windows, filtered on both sides, sometimes grouped."""
    kind, kind_sql = draw(st.sampled_from(list(KINDS.items())))
    # -1 is a decreasing attribute.
    epoch = draw(st.sampled_from((1, 1, 3, -1)))
    left, right = _side(draw, "l", epoch), _side(draw, "r", epoch)
    a, b = ({name: f"{alias}.{side.column(name)}" for name in COLUMNS} for alias, side in (("A", left), ("B", right)))
    # Numbers of epochs are nowhere near twice one another, and the ends of their windows decades away.
    shapes = ("equality", "band", *(["window"] if epoch > 0 else []), *(["scaled"] if epoch == 1 else []))
    shape = draw(st.sampled_from(shapes))
    below, above = draw(st.sampled_from(((0, 3), (2, 2), (-1, 4), (5, 0)))) if shape == "band" else (2, 4)
    meets = {
        "equality": [f"{a['t']}/2 = {b['t']}/2" if draw(st.booleans()) else f"{a['t']} = {b['t']}"],
        "band": [f"{a['t']} - {below} <= {b['t']}", f"{b['t']} <= {a['t']} + {above}"],
        "window": [],
        "scaled": [f"({a['t']} - {ZERO}) * 2 = {b['t']} - {ZERO} + 3"],
    }[shape]
    halves = shape == "equality" and "/2" in meets[0]
    window_sql = {
        "equality": "A.t // 2 = B.t // 2" if halves else "A.t = B.t",
        "scaled": f"(A.t - {ZERO}) * 2 = B.t - {ZERO} + 3",
    }.get(shape, f"B.t BETWEEN A.t - {below} AND A.t + {above}")
    (mine, mine_sql), (theirs, theirs_sql) = draw(filters(1)), draw(filters(1))
    conjuncts = [*meets, f"{a['k']} = {b['k']}"]
    conjuncts += [
        filled(each, f"{alias}.", side) for each, alias, side in ((mine, "A", left), (theirs, "B", right)) if each
    ]
    residual = draw(st.booleans())
    conjuncts += [f"{a['v']} + 5 > {b['v']}"] if residual else []
    windows = (
        (f" [RANGE {above}, WA {left.column('t')}]", f" [RANGE {below}, WA {right.column('t')}]")
        if shape == "window"
        else ("", "")
    )
    sources_text = f"{left.source}{windows[0]} A, {right.source}{windows[1]} B WHERE {' AND '.join(conjuncts)}"
    sides = [f"(SELECT * FROM {s.sql} WHERE {filled(c)})" for s, c in ((left, mine_sql), (right, theirs_sql))]
    tied = shape == "equality" and not halves
    # What an equality ties together is NULL on the side that is missing; the first of both that is not has a value.
    first = "CASE WHEN {a} IS NOT NULL THEN {a} ELSE {b} END"
    whole, whole_sql = (first.format(a=x, b=y) for x, y in ((a["t"], b["t"]), ("A.t", "B.t")))
    key, key_sql = (first.format(a=x, b=y) for x, y in ((a["k"], b["k"]), ("A.k", "B.k")))
    on = f"{window_sql} AND A.k IS NOT DISTINCT FROM B.k" + (" AND A.v + 5 > B.v" if residual else "")
    joined_sql = f"FROM {sides[0]} A {kind_sql} {sides[1]} B ON {on}"
    if kind == "LEFT_OUTER_JOIN" and draw(st.booleans()):
        text = f"SELECT A.{left.column('t')} AS t, {a['k']} AS k, {a['v']} AS v FROM {left.source}{windows[0]} A "
        own = conjuncts.pop(len(meets) + 1) if mine else "TRUE"
        text += f"ANTI JOIN {right.source}{windows[1]} B ON {' AND '.join(conjuncts)} WHERE {own}"
        sql = f"SELECT t, k, v FROM {sides[0]} A WHERE NOT EXISTS (SELECT 1 FROM {sides[1]} B WHERE {on})"
        return output(Stream(left.text + right.text, "", ""), text, sql)
    columns = (
        f"A.t AS ta, B.t AS tb, {key_sql} AS k, A.k AS ka, B.k AS kb, A.v AS va, B.v AS vb, B.s AS s, A.t // 2 AS h"
    )
    rows = f"SELECT {columns} {joined_sql}"
    before = Stream(left.text + right.text, "", "")
    items = (
        f"{a['t']} AS ta, {b['t']} AS tb, {key} AS k, {a['k']} AS ka, {b['k']} AS kb, {a['v']} AS va, {b['v']} AS vb"
    )
    items += f", {b['s']} AS s, {a['t']}/2 AS h"
    # What makes progress: the side that no row lacks, and of an equality the first of both sides that is not missing.
    timed = [(whole, whole_sql)] if tied else []
    timed += [(a["t"], "A.t")] if kind in ("INNER_JOIN", "LEFT_OUTER_JOIN") else []
    timed += [(b["t"], "B.t")] if kind in ("INNER_JOIN", "RIGHT_OUTER_JOIN") else []
    if timed and shape != "scaled" and not halves:
        time, time_sql = draw(st.sampled_from(timed))
        k, k_sql = draw(st.sampled_from(((key, key_sql), (a["k"], "A.k"), (b["k"], "B.k"))))
        if draw(st.booleans()):
            grouped = f"SELECT e, {k} AS k, count(*), sum({b['v']}), max({b['s']}) {kind} FROM {sources_text}"
            grouped = grouped.replace(f"{k} AS k", "k") + f" GROUP BY ({time})/5 AS e, {k} AS k"
            sql = f"SELECT {time_sql} // 5 AS e, {k_sql} AS k, count(*), sum(B.v)::BIGINT, max(B.s) {joined_sql}"
            return output(before, grouped, f"{sql} GROUP BY 1, 2")
        if draw(st.booleans()):
            joined = statement(draw, "j", f"SELECT {time} AS e, {items} {kind} FROM {sources_text}")
            keep = draw(st.sampled_from(("k <> '10.0.0.2' AND s IS NULL", "kb IS NULL", "ka IS NULL", "tb IS NULL")))
            text = f"SELECT e/5 AS e, k, ka, kb, vb FROM j WHERE {keep}"
            sql = f"SELECT e // 5, k, ka, kb, vb FROM (SELECT {time_sql} AS e, {columns} {joined_sql}) WHERE {keep}"
            return output(Stream(before.text + joined, "", ""), text, sql)
    return output(before, f"SELECT {items} {kind} FROM {sources_text}", rows)


@st.composite
def filter_joins(draw: st.DrawFn) -> Question:
    """FILTER_JOIN of packets of the same links."""
    source, rows = draw(sources())
    protocol = draw(st.sampled_from(("TCP", "DataProtocol")))
    member = {"TCP": "protocol = 6 AND flags IS NOT NULL", "DataProtocol": "ipversion IS NOT NULL"}[protocol]
    other, links = f"{source.rsplit('.', 1)[0]}.{protocol}", rows.split(" AND ", 1)[0]
    reach, (t, unit) = draw(st.sampled_from((1, 3, 30))), draw(st.sampled_from((("time", 1), ("timestamp_ms", 1000))))
    (mine, mine_sql), (theirs, theirs_sql) = draw(filters(1)), draw(filters(1))
    packets = Stream("", "", "", True)
    parts = ["r.srcIP = s.destIP", *(["r.srcPort = s.destPort"] if draw(st.booleans()) else [])]
    conjuncts = parts + [filled(each, alias, packets) for each, alias in ((mine, "r."), (theirs, "s.")) if each]
    text = f"SELECT r.time, r.timestamp_ms/3 AS f, r.srcIP, r.len FILTER_JOIN({t}, {reach * unit}) "
    text += f"FROM {source} r, {other} s WHERE {' AND '.join(conjuncts)}"
    sql_columns = "*, time AS t, srcIP AS k, srcPort AS v, payload AS s"
    left = f"(SELECT * FROM (SELECT {sql_columns} FROM {rows}) WHERE {filled(mine_sql)})"
    right = f"(SELECT * FROM (SELECT {sql_columns} FROM {links} AND {member}) WHERE {filled(theirs_sql)})"
    keys = " AND ".join(
        f"r.{own} IS NOT DISTINCT FROM s.{its}"
        for own, its in (("srcIP", "destIP"), ("srcPort", "destPort"))[: len(parts)]
    )
    at = "time" if unit == 1 else "timestamp // 1000000"
    near = f"s.link = r.link AND s.{at} <= r.{at} AND r.{at} <= s.{at} + {reach * unit}"
    return Question(
        f"DEFINE{{query_name 'q';}} {text}",
        f"SELECT time, timestamp // 1000000 // 3, srcIP, len FROM {left} r "
        f"WHERE EXISTS (SELECT 1 FROM {right} s WHERE {keys} AND {near})",
    )


WATCH = (
    "DEFINE{query_name 'watch'; filename 'w.csv'; refresh_interval '60';} "
    "WATCHLIST FIELDS { IP address (key); uint id; string name; };\n"
)


@st.composite
def watch_joins(draw: st.DrawFn) -> Question:
    """WATCHLIST_JOIN, with conjuncts on either side and on both."""
    source, rows = draw(sources())
    where, condition = draw(conditions())
    both, both_sql = draw(
        pick((("", "TRUE"), ("p.len > w.id * 20", "p.len > w.id * 20"), ("w.name <> 'n2'", "w.name <> 'n2'")))
    )
    own = [where.removeprefix("WHERE ")] if where else []
    text = f"SELECT p.time, p.srcIP, w.name, p.len + w.id WATCHLIST_JOIN FROM {source} p, watch w WHERE "
    text += " AND ".join(["p.srcIP = w.address", *own, *([both] if both else [])])
    sql = f"SELECT p.time, p.srcIP, w.name, p.len + w.id FROM (SELECT * FROM {rows} AND {condition}) p "
    sql += f"JOIN w ON p.srcIP = w.address WHERE {both_sql}"
    return Question(f"{WATCH}DEFINE{{query_name 'q';}} {text}", sql)


CHAINS: dict[str, Callable[[], st.SearchStrategy[Question]]] = {
    "chains": chains, "joins": joins, "filter_joins": filter_joins, "watch_joins": watch_joins,
}  # fmt: skip
