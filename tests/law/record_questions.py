"""Random questions about links of records, as GSQL and as SQL; progress by the clock, `seq`, `down` or the arrival."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.law.questions import Question
from tests.plan.batch_join_questions import KINDS

SOURCES = {"a": "link = 'a'", "b": "link = 'b'", "[a, b]": "TRUE"}
VIEWS = {"at_ms": "p", "seq": "s", "down": "d", "seen_ms": "records"}
"""Attribute by which a query makes progress -> the records that it admits."""

STEPS = {"at_ms": (1000, 10_000), "seen_ms": (2000, 10_000), "seq": (4, 20), "down": (5, 20)}
PREDICATES = {
    "": "TRUE",
    "WHERE up": "up",
    "WHERE port > 53 OR rtt < 0.5": "port > 53 OR rtt < 0.5",
    "WHERE host IS NULL OR NOT up": "host IS NULL OR NOT up",
    "WHERE port IN [53, 80]": "port IN (53, 80)",
    "WHERE 100 / (port - 53) > 1": "CASE WHEN port = 53 THEN FALSE ELSE trunc(100 / (port - 53)) > 1 END",
    "WHERE host LIKE 'a%' OR src <> '10.0.0.1'": "host LIKE 'a%' OR src <> '10.0.0.1'",
    "WHERE CASE WHEN up THEN rtt > 0.3 ELSE port = 80 END": "CASE WHEN up THEN rtt > 0.3 ELSE port = 80 END",
}
MEASURES = "count(*) AS n, count(rtt), sum(port), min(rtt), max(host), avg(port), sum(rtt), min(src)"
MEASURES_SQL = "count(*) AS n, count(rtt), sum(port)::BIGINT, min(rtt), max(host), avg(port), sum(rtt), min(src)"


def question(random: Random, name: str, rare: bool) -> Question:
    """A question of any family; the query sets of a case have several, so its queries have names of their own."""
    family = random.choice(RARE if rare else FAMILIES)
    text, sql = family(random, name)
    return Question(name, text, sql, f"records.{family.__name__.strip('_')}")


def _drawn(random: Random) -> tuple[str, str, str, str]:
    """A source and its predicate in GSQL, and in SQL."""
    source, links = random.choice(list(SOURCES.items()))
    where, condition = random.choice(list(PREDICATES.items()))
    return source, where, links, condition


def _attribute(random: Random) -> tuple[str, int]:
    attribute = random.choice(("at_ms", "seq", "seq", "down", "seen_ms"))
    return attribute, random.choice(STEPS[attribute])


def _define(name: str, text: str) -> str:
    return f"DEFINE {{ query_name '{name}'; }} {text}"


def _internal(name: str, text: str) -> str:
    return f"DEFINE {{ query_name '{name}'; visibility 'internal'; }} {text};\n"


def _selections(random: Random, name: str) -> tuple[str, str]:
    source, where, links, condition = _drawn(random)
    items = "at_ms, seq, port*2 - 1 AS x, host, CASE WHEN up THEN rtt ELSE 0.5 END AS c, rtt*2.0 AS r, src, seen_ms"
    return (
        _define(name, f"SELECT {items} FROM {source}.LOG {where}"),
        f"SELECT {items} FROM p WHERE {links} AND ({condition})",
    )


def _distinct(random: Random, name: str) -> tuple[str, str]:
    source, where, links, condition = _drawn(random)
    attribute, step = _attribute(random)
    return (
        _define(name, f"SELECT DISTINCT {attribute}/{step} AS t, host FROM {source}.LOG {where}"),
        f"SELECT DISTINCT {attribute} // {step}, host FROM {VIEWS[attribute]} WHERE {links} AND ({condition})",
    )


def _groups(random: Random, name: str) -> tuple[str, str]:
    source, where, links, condition = _drawn(random)
    attribute, step = _attribute(random)
    keys, having = random.choice((", host, up", ", src", "", ", port")), random.choice(("", "count(*) > 1"))
    text = f"SELECT tb{keys}, {MEASURES} FROM {source}.LOG {where} GROUP BY {attribute}/{step} AS tb{keys}"
    sql = (
        f"SELECT {attribute} // {step} AS tb{keys}, {MEASURES_SQL} FROM {VIEWS[attribute]} "
        f"WHERE {links} AND ({condition}) GROUP BY tb{keys}"
    )
    return _define(name, f"{text} {having and f'HAVING {having}'}"), f"{sql} {having and f'HAVING {having}'}"


def _two_attributes(random: Random, name: str) -> tuple[str, str]:
    """Beside the clock another attribute is a value, in which nothing is late; two others are both promised."""
    source, where, links, condition = _drawn(random)
    first, second = random.choice((("at_ms", "seq"), ("at_ms", "down"), ("seq", "down"), ("at_ms", "seen_ms")))
    text = f"SELECT x, y, count(*) AS n, sum(port) FROM {source}.LOG {where} GROUP BY {first}/5 AS x, {second}/7 AS y"
    view = "p" if first == "at_ms" else "(SELECT * FROM records WHERE in_seq AND in_down)"
    sql = (
        f"SELECT {first} // 5 AS x, {second} // 7 AS y, count(*), sum(port)::BIGINT FROM {view} "
        f"WHERE {links} AND ({condition}) GROUP BY x, y"
    )
    return _define(name, text), sql


def _cubes(random: Random, name: str) -> tuple[str, str]:
    source, where, links, condition = _drawn(random)
    attribute, step = _attribute(random)
    shape = random.choice(("CUBE(host, up)", "ROLLUP(host, port)", "src, CUBE(up)"))
    shown = "host, up" if "host, up" in shape else "host, port" if "port" in shape else "src, up"
    text = f"SELECT tb, {shown}, {MEASURES} FROM {source}.LOG {where} GROUP BY {attribute}/{step} AS tb, {shape}"
    # SQL takes the plain columns of aggregates that are grouped beside them, so these have other names.
    sql = (
        f"SELECT tb, {shown}, {MEASURES_SQL.replace('max(host)', 'max(h)').replace('min(src)', 'min(i)')} "
        f"FROM (SELECT *, host AS h, src AS i, port AS o, {attribute} // {step} AS tb FROM {VIEWS[attribute]} "
        f"WHERE {links} AND ({condition})) GROUP BY tb, {shape}"
    ).replace("(port)", "(o)")
    return _define(name, text), sql


def _windows(random: Random, name: str) -> tuple[str, str]:
    source, where, links, condition = _drawn(random)
    attribute = random.choice(("at_ms", "seq", "seen_ms"))
    scale = 1 if attribute == "seq" else 500
    reach, slide = (number * scale for number in random.choice(((12, 4), (10, 4), (7, 3), (5, 5), (2, 5))))
    unit = "" if attribute == "seq" or slide > 2000 or (reach, slide) == (3500, 1500) else " ms"
    window = f"[RANGE {reach}{unit}, SLIDE {slide}{unit}, WA {attribute}]"
    text = f"SELECT wid, host, {MEASURES} FROM {source}.LOG {window} {where}"
    numbers = f"generate_series(({attribute} - {reach} + {slide * 100}) // {slide} - 99, {attribute} // {slide})"
    sql = (
        f"SELECT w, host, {MEASURES_SQL} FROM (SELECT *, unnest({numbers}) AS w FROM {VIEWS[attribute]} "
        f"WHERE {links} AND ({condition})) GROUP BY w, host"
    )
    return _define(name, f"{text} GROUP BY host"), sql


def _rows(random: Random, name: str) -> tuple[str, str]:
    """Windows of rows, sometimes with an attribute of its own among the groups."""
    source, where, links, condition = _drawn(random)
    reach, slide = random.choice(((5, 2), (4, 4), (3, 5), (20, 10)))
    key, view = random.choice((("port", "admitted"), ("seq/20", "admitted AND in_seq")))
    text = (
        f"SELECT wid, x, {MEASURES} FROM {source}.LOG [RANGE {reach} ROWS, SLIDE {slide} ROWS] {where} "
        f"GROUP BY {key} AS x"
    )
    numbered = f"SELECT *, row_number() OVER (ORDER BY arrival, link, position) - 1 AS n FROM records WHERE {links}"
    tagged = f"SELECT *, unnest(generate_series((n - {reach} + {slide * 100}) // {slide} - 99, n // {slide})) AS w"
    sql = (
        f"SELECT w, {key.replace('/', '//')} AS x, {MEASURES_SQL} FROM ({tagged} FROM ({numbered}) "
        f"WHERE {view} AND ({condition})) GROUP BY w, x"
    )
    return _define(name, text), sql


def _joins(random: Random, name: str) -> tuple[str, str]:
    """Joins by an equality of an attribute (bare, or scaled) or a band of it; sometimes grouped above."""
    kind, kind_sql = random.choice(list(KINDS.items()))
    attribute = random.choice(("at_ms", "seq", "seq", "down", "seen_ms"))
    scale, unit = (1, 1) if attribute in ("seq", "down") else (1000, 1000)
    below, above = random.choice(((0, 3), (2, 2), (4, 0)))
    form = random.choice(("equal", "scaled", "band", "band"))
    x, y = f"A.{attribute}", f"B.{attribute}"
    if form == "equal":
        window, window_sql = f"{x} = {y}", f"{x} = {y}"
    elif form == "scaled":
        window, window_sql = f"{x}/{3 * scale} = {y}/{3 * scale}", f"{x} // {3 * scale} = {y} // {3 * scale}"
    else:
        window = f"{x} - {below * unit} <= {y} AND {y} <= {x} + {above * unit}"
        window_sql = window
    residual, residual_sql = random.choice((("", ""), ("AND A.port <= B.port", "AND A.port <= B.port")))
    filtered, filtered_sql = random.choice((("", "TRUE"), ("AND A.up", "up")))
    items = f"{x} AS ta, {y} AS tb, A.port AS pa, B.port AS pb, A.host AS ha, B.host AS hb, A.rtt AS ra"
    text = f"SELECT {items} {kind} FROM a.LOG A, b.LOG B WHERE {window} AND A.host = B.host {residual} {filtered}"
    view = VIEWS[attribute]
    sql = (
        f"SELECT {x} AS ta, {y} AS tb, A.port AS pa, B.port AS pb, A.host AS ha, B.host AS hb, A.rtt AS ra "
        f"FROM (SELECT * FROM {view} WHERE link = 'a' AND {filtered_sql}) A {kind_sql} "
        f"(SELECT * FROM {view} WHERE link = 'b') B "
        f"ON {window_sql} AND A.host IS NOT DISTINCT FROM B.host {residual_sql}"
    )
    grouped = random.random() < 0.5  # by a time that no row lacks: another one tells no progress
    if form == "equal" and grouped and not kind_sql.startswith(("RIGHT", "FULL")):
        text = _internal(f"{name}j", text) + _define(
            name, f"SELECT t, ha, count(*) AS n, sum(pa), sum(pb), max(hb) FROM {name}j GROUP BY ta/20 AS t, ha"
        )
        measures = "count(*), sum(pa)::BIGINT, sum(pb)::BIGINT, max(hb)"
        return text, f"SELECT ta // 20 AS t, ha, {measures} FROM ({sql}) GROUP BY t, ha"
    return _define(name, text), sql


def _look_ups(random: Random, name: str) -> tuple[str, str]:
    source, _, links, _ = _drawn(random)
    attribute = random.choice(("at_ms", "seq"))
    reach = random.choice((1, 3, 20)) * (500 if attribute == "at_ms" else 1)
    text = (
        f"SELECT r.{attribute}, r.host, r.port FILTER_JOIN({attribute}, {reach}) FROM {source}.LOG r, {source}.LOG s "
        "WHERE r.port = s.port AND s.up AND r.port > 0"
    )
    view = VIEWS[attribute]
    sql = (
        f"SELECT {attribute}, host, port FROM {view} r WHERE {links} AND port > 0 AND EXISTS (SELECT 1 FROM {view} s "
        f"WHERE s.link = r.link AND s.port = r.port AND s.up AND s.{attribute} <= r.{attribute} "
        f"AND r.{attribute} <= s.{attribute} + {reach})"
    )
    return _define(name, text), sql


def _merges(random: Random, name: str) -> tuple[str, str]:
    """A merge of two selections by an attribute, with groups above."""
    attribute, step = _attribute(random)
    where, condition = random.choice(list(PREDICATES.items()))
    sides = "".join(
        _internal(f"{name}{link}", f"SELECT {attribute}, host, port FROM {link}.LOG {where}") for link in ("a", "b")
    )
    merged = f"MERGE x.{attribute} : y.{attribute} FROM {name}a x, {name}b y"
    if random.random() < 0.3:
        return sides + _define(name, merged), f"SELECT {attribute}, host, port FROM p WHERE {condition}"
    text = f"SELECT t, host, count(*) AS n, sum(port) FROM {name}m GROUP BY {attribute}/{step} AS t, host"
    sql = (
        f"SELECT {attribute} // {step} AS t, host, count(*), sum(port)::BIGINT FROM {VIEWS[attribute]} "
        f"WHERE {condition} GROUP BY t, host"
    )
    return sides + _internal(f"{name}m", merged) + _define(name, text), sql


def _with_packets(random: Random, name: str) -> tuple[str, str]:
    """Packets beside the records of a log, by the clock."""
    kind, kind_sql = random.choice(list(KINDS.items()))
    step = random.choice((1, 1000, 5000))
    below, above = random.choice(((0, 2000), (1500, 500)))
    window, window_sql = random.choice(
        (
            (f"k.timestamp_ms/{step} = l.at_ms/{step}", f"k.ts // 1000000 // {step} = l.at_ms // {step}"),
            (
                f"k.timestamp_ms - {below} <= l.at_ms AND l.at_ms <= k.timestamp_ms + {above}",
                f"l.at_ms BETWEEN k.ts // 1000000 - {below} AND k.ts // 1000000 + {above}",
            ),
        )
    )
    text = f"SELECT k.timestamp AS t, k.len, l.at_ms AS u, l.host {kind} FROM main.TCP k, a.LOG l WHERE {window}"
    sql = (
        f"SELECT k.ts, k.len, l.at_ms, l.host FROM k {kind_sql} (SELECT * FROM p WHERE link = 'a') l "
        f"ON {window_sql} AND k.dport = l.port"
    )
    return _define(name, f"{text} AND k.destPort = l.port"), sql


def _merged_packets(random: Random, name: str) -> tuple[str, str]:
    """A merge of packets and records by their clocks, with groups above."""
    where, condition = random.choice(list(PREDICATES.items()))
    step, links = random.choice((1000, 10_000)), random.choice(("a", "b"))
    text = (
        _internal(f"{name}k", "SELECT timestamp_ms AS t, destPort AS port FROM main.TCP")
        + _internal(f"{name}l", f"SELECT at_ms AS t, port FROM {links}.LOG {where}")
        + _internal(f"{name}m", f"MERGE x.t : y.t FROM {name}k x, {name}l y")
        + _define(name, f"SELECT tb, port, count(*) AS n, min(t) FROM {name}m GROUP BY t/{step} AS tb, port")
    )
    packets = "SELECT ts // 1000000 AS t, dport AS port FROM k"
    records = f"SELECT at_ms AS t, port FROM p WHERE link = '{links}' AND ({condition})"
    return text, f"SELECT t // {step} AS tb, port, count(*), min(t) FROM ({packets} UNION ALL {records}) GROUP BY ALL"


def _carried(random: Random, name: str) -> tuple[str, str]:
    """CLOSING_WHEN and the sampling operator, which SQL has not."""
    source, where, _, _ = _drawn(random)
    attribute, step = _attribute(random)
    text = random.choice(
        (
            f"SELECT tb, host, count(*) AS n, sum(port), running_sum(port), FIRST(port), LAST(rtt) FROM {source}.LOG "
            f"{where} GROUP BY {attribute}/{step} AS tb, host CLOSING_WHEN count(*) = 0",
            f"SELECT tb, src, host, UMAX(sum(port), ssthreshold()) AS bytes FROM {source}.LOG "
            f"WHERE port > 0 AND ssample(port, 2) = TRUE GROUP BY {attribute}/{step} AS tb, src, host "
            "SUPERGROUP tb, src HAVING ssfinal_clean(sum(port)) = TRUE CLEANING_WHEN ssdo_clean() = TRUE "
            "CLEANING_BY ssclean_with(sum(port)) = TRUE",
        )
    )
    return _define(name, text), ""


FAMILIES: tuple[Callable[[Random, str], tuple[str, str]], ...] = (
    _selections,
    _distinct,
    _groups,
    _groups,
    _two_attributes,
    _cubes,
    _windows,
    _rows,
    _joins,
    _joins,
    _joins,
    _look_ups,
    _merges,
    _with_packets,
    _carried,
)
RARE = (_merged_packets, _with_packets, _windows)
"""Families of which a few cases more are drawn."""
