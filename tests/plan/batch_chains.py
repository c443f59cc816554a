"""Random chains: streams of (t, k, v, s), and the queries that read them, filter them."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from tests.plan.batch_pools import HOST, Pair
from tests.plan.batch_questions import Question, conditions, pick, sources

COLUMNS = ("t", "k", "v", "s")
ZERO = 1_767_225_598
"""Seconds; times are about twice one another only from somewhere near the first packets."""

PACKET = {"t": "time", "k": "srcIP", "v": "srcPort", "s": "TCP_data"}
PACKET_SQL = "time AS t, srcIP AS k, srcPort AS v, payload AS s, 1 AS present"
HOST_SQL = f"CASE WHEN regexp_matches(payload, '{HOST}') THEN regexp_extract(payload, '{HOST}') END"

FILTERS: tuple[Pair, ...] = (
    ("{v} > 60", "{v} > 60"),
    ("{v} IS NULL OR {t} % 3 = 1", "{v} IS NULL OR {t} % 3 = 1"),
    ("{t} % 2 = 0", "{t} % 2 = 0"),
    ("{k} <> '10.0.0.1'", "{k} <> '10.0.0.1'"),
    ("{k} IS NULL OR {k} <> '10.0.0.9'", "{k} IS NULL OR {k} <> '10.0.0.9'"),
    ("{s} LIKE 'GET%'", "{s} LIKE 'GET%'"),
    (
        "CASE WHEN {s} IS NULL THEN {v} > 53 ELSE {t} % 5 > 0 END",
        "CASE WHEN {s} IS NULL THEN {v} > 53 ELSE {t} % 5 > 0 END",
    ),
    ("100 / ({v} - 53) < 9", "100 // ({v} - 53) < 9"),
)
ORDER = "t NULLS FIRST, k NULLS FIRST, v NULLS FIRST, s NULLS FIRST"
MEASURES: tuple[Pair, ...] = (
    ("count(*)", "count(*)"), ("sum({v})", "sum({v})::BIGINT"), ("count({s})", "count({s})"), ("max({k})", "max({k})"),
    ("avg({v})", "avg({v})"), ("count(DISTINCT {k})", "count(DISTINCT {k})"),
)  # fmt: skip
ORDERED: tuple[Pair, ...] = (
    ("FIRST(v)", f"first(v ORDER BY {ORDER}) FILTER (v IS NOT NULL)"),
    ("FIRST(s)", f"first(s ORDER BY {ORDER}) FILTER (s IS NOT NULL)"),
    ("LAST(k)", f"last(k ORDER BY {ORDER}) FILTER (k IS NOT NULL)"),
)


@dataclass(frozen=True)
class Stream:
    """Statements before it, what FROM says, and its rows in SQL; `packets` where FROM names packets."""

    text: str
    source: str
    sql: str
    packets: bool = False

    def column(self, name: str) -> str:
        """What a column of the stream is called."""
        return PACKET[name] if self.packets else name


@st.composite
def filters(draw: st.DrawFn, most: int = 2) -> Pair:
    """Conjuncts over t, k, v and s."""
    parts = draw(st.lists(pick(FILTERS), max_size=most))
    return " AND ".join(f"({a})" for a, _ in parts), " AND ".join(f"({b})" for _, b in parts) or "TRUE"


def filled(text: str, prefix: str = "", stream: Stream | None = None) -> str:
    """A condition over the columns of a stream."""
    return text.format(**{name: prefix + (stream.column(name) if stream else name) for name in COLUMNS})


def statement(draw: st.DrawFn, name: str, text: str) -> str:
    """A query that others read; hidden or not, which decides whether filters may go into it."""
    hidden = draw(st.sampled_from(("visibility 'internal';", "visibility 'internal';", "")))
    return f"DEFINE{{query_name '{name}'; {hidden}}} {text};\n"


def selection(draw: st.DrawFn, name: str, sign: str = "") -> Stream:
    source, rows = draw(sources())
    where, condition = draw(conditions())
    text = f"SELECT {sign}time AS t, srcIP AS k, srcPort AS v, TCP_data AS s FROM {source} {where}"
    return Stream(statement(draw, name, text), name, f"(SELECT {sign}{PACKET_SQL} FROM {rows} AND {condition})")


def aggregation(draw: st.DrawFn, name: str, epoch: int = 3) -> Stream:
    source, rows = draw(sources())
    where, condition = draw(conditions(safe=draw(st.booleans())))
    v, v_sql = draw(
        pick((("sum(len)", "sum(len)::BIGINT"), ("count(srcPort)", "count(srcPort)"), ("max(ttl)", "max(ttl)")))
    )
    s, s_sql = draw(pick((("interface", "link"), (f"str_extract_regex(TCP_data, '{HOST}')", HOST_SQL))))
    having = draw(st.sampled_from(("", "HAVING count(*) > 1", "HAVING tb % 2 = 0 OR k IS NULL")))
    condition_sql = {"": "TRUE", "HAVING count(*) > 1": "n > 1"}.get(having, "t % 2 = 0 OR k IS NULL")
    groups = f"time/{epoch} AS tb, srcIP AS k, {s} AS s"
    text = f"SELECT tb AS t, k, {v} AS v, s FROM {source} {where} GROUP BY {groups} {having}"
    columns = f"time // {epoch} AS t, srcIP AS k, {v_sql} AS v, {s_sql} AS s, count(*) AS n"
    grouped = f"SELECT {columns} FROM {rows} AND {condition} GROUP BY 1, 2, 4"
    sql = f"(SELECT t, k, v, s, 1 AS present FROM ({grouped}) WHERE {condition_sql})"
    return Stream(statement(draw, name, text), name, sql)


def merge(draw: st.DrawFn, name: str) -> Stream:
    parts = [selection(draw, f"{name}{side}") for side in "xy"]
    text = "".join(part.text for part in parts)
    names = [part.source for part in parts]
    merged = f"MERGE {names[0]}.t : {names[1]}.t FROM {names[0]}, {names[1]}"
    both = " UNION ALL ".join(f"SELECT * FROM {part.sql}" for part in parts)
    if draw(st.booleans()):
        return Stream(text, f"{names[0]} UNION {names[1]} AS {name}", f"({both})")
    return Stream(text + statement(draw, name, merged), name, f"({both})")


def filtered(draw: st.DrawFn, name: str) -> Stream:
    below = draw(st.sampled_from((selection, aggregation, merge)))(draw, f"{name}0")
    (condition, sql), shift = draw(filters()), draw(st.sampled_from((0, 2)))
    where = f"WHERE {filled(condition)}" if condition else ""
    text = f"SELECT t + {shift} AS t, k, v, s FROM {below.source} {where}"
    rows = f"(SELECT t + {shift} AS t, k, v, s, 1 AS present FROM {below.sql} WHERE {filled(sql)})"
    return Stream(below.text + statement(draw, name, text), name, rows)


STREAMS = (selection, aggregation, merge, filtered)


@st.composite
def chains(draw: st.DrawFn) -> Question:
    """A stream read by a selection, DISTINCT, an aggregation, CUBE or a sliding window."""
    stream = draw(st.sampled_from(STREAMS))(draw, "r")
    condition, sql = (filled(each) for each in draw(filters()))
    where = f"WHERE {condition}" if condition else ""
    rows = f"(SELECT * FROM {stream.sql} WHERE {sql})"
    kind = draw(st.sampled_from(("selection", "distinct", "group", "group", "cube", "window", "running")))
    if kind == "selection":
        items = "t, k, v * 2 AS w, CASE WHEN s LIKE 'GET%' THEN 1 ELSE 0 END AS g"
        return output(stream, f"SELECT {items} FROM {stream.source} {where}", f"SELECT {items} FROM {rows}")
    if kind == "running":
        text = f"SELECT tb, k, count(*), sum(v), count_diff(v), LAST(s) FROM {stream.source} {where}"
        return output(stream, f"{text} GROUP BY t/4 AS tb, k CLOSING_WHEN count(*) = 0 OR k IS NULL", "")
    if kind == "distinct":
        return output(
            stream,
            f"SELECT DISTINCT t/4 AS tb, k FROM {stream.source} {where}",
            f"SELECT DISTINCT t // 4, k FROM {rows}",
        )
    found = [
        (filled(a), filled(b)) for a, b in draw(st.lists(pick(MEASURES + ORDERED), min_size=1, max_size=3, unique=True))
    ]
    named, columns = ", ".join(a for a, _ in found), ", ".join(b for _, b in found)
    if kind == "cube":
        grouped = f"SELECT tb, k, s, {named} FROM {stream.source} {where} GROUP BY t/4 AS tb, CUBE(k, s)"
        # The order within a group is that of rows, not of what CUBE makes of them.
        kept = f"(SELECT *, t // 4 AS tb, k AS a, s AS b FROM {rows})"
        return output(stream, grouped, f"SELECT tb, a, b, {columns} FROM {kept} GROUP BY tb, CUBE(a, b)")
    if kind == "window":
        reach, slide = draw(st.sampled_from(((6, 2), (5, 2), (2, 5), (4, 4))))
        union, _, alias = stream.source.partition(" AS ")
        window = f"[RANGE {reach}, SLIDE {slide}, WA t]" + (f" AS {alias}" if alias else "")
        grouped = f"SELECT wid, k, {named} FROM {union} {window} {where} GROUP BY k"
        numbers = f"generate_series((t - {reach} + {slide * 1000}) // {slide} - 999, t // {slide})"
        return output(
            stream, grouped, f"SELECT w, k, {columns} FROM (SELECT *, unnest({numbers}) AS w FROM {rows}) GROUP BY w, k"
        )
    having, having_sql = draw(
        pick((("", "TRUE"), ("HAVING tb % 2 = 0", "tb % 2 = 0"),
              ("HAVING g IS NULL AND count(*) > 1", "g IS NULL AND n > 1"))),
    )  # fmt: skip
    grouped = f"SELECT tb, g, {named} FROM {stream.source} {where} GROUP BY t/4 AS tb, k AS g {having}"
    sql = f"SELECT t // 4 AS tb, k AS g, {columns}, count(*) AS n FROM {rows} GROUP BY 1, 2"
    return output(stream, grouped, f"SELECT * EXCLUDE (n) FROM ({sql}) WHERE {having_sql}")


def output(stream: Stream, text: str, sql: str) -> Question:
    return Question(f"{stream.text}DEFINE{{query_name 'q';}} {text}", sql)
