"""Random queries, most of them twice: as GSQL, and as SQL over the packets `p`, written by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from tests.plan.batch_pools import (
    AGGREGATES,
    EPOCHS,
    FROM,
    KEYS,
    MOMENTS,
    PROTOCOLS,
    SAFE,
    SELECTED,
    UNSAFE,
    WHOLE,
    Pair,
)


@dataclass(frozen=True)
class Question:
    """A query set whose output is `q`; `sql` its rows over the packets, empty where SQL has no such thing."""

    text: str
    sql: str = ""


def pick(pairs: Sequence[Pair]) -> st.SearchStrategy[Pair]:
    """One of some texts with its SQL."""
    return st.sampled_from(pairs)


@st.composite
def conditions(draw: st.DrawFn, safe: bool = False) -> Pair:
    """A condition of one to three parts."""
    pool = SAFE if safe else (*SAFE, *UNSAFE)
    parts = draw(st.lists(pick(pool), min_size=0, max_size=3))
    gsql, sql = " AND ".join(f"({a})" for a, _ in parts), " AND ".join(f"({b})" for _, b in parts)
    return f"WHERE {gsql}" if parts else "", sql or "TRUE"


@st.composite
def sources(draw: st.DrawFn) -> Pair:
    """FROM and the packets that it reads; the wide protocols more often."""
    source, where = draw(st.sampled_from(list(FROM.items())))
    protocol, member = draw(st.sampled_from([*PROTOCOLS.items(), *list(PROTOCOLS.items())[:3]]))
    return f"{source}.{protocol}", f"p WHERE {where} AND {member}"


@st.composite
def selections(draw: st.DrawFn) -> Question:
    """Selections with functions of all costs."""
    source, rows = draw(sources())
    where, condition = draw(conditions())
    items = draw(st.lists(pick(SELECTED), min_size=1, max_size=4, unique=True))
    text = f"SELECT time, {', '.join(a for a, _ in items)} FROM {source} {where}"
    return Question(text, f"SELECT time, {', '.join(b for _, b in items)} FROM {rows} AND {condition}")


@st.composite
def distincts(draw: st.DrawFn) -> Question:
    """SELECT DISTINCT with an epoch."""
    source, rows = draw(sources())
    where, condition = draw(conditions())
    (epoch, epoch_sql), items = (
        draw(pick((*EPOCHS, *MOMENTS))),
        draw(st.lists(pick(SELECTED), min_size=1, max_size=2, unique=True)),
    )
    text = f"SELECT DISTINCT {epoch} AS tb, {', '.join(a for a, _ in items)} FROM {source} {where}"
    return Question(text, f"SELECT DISTINCT {epoch_sql}, {', '.join(b for _, b in items)} FROM {rows} AND {condition}")


@st.composite
def measures(draw: st.DrawFn) -> list[Pair]:
    """Some aggregates; in every second question all of them merge (O2)."""
    pool = draw(st.sampled_from((AGGREGATES, AGGREGATES + WHOLE)))
    return [AGGREGATES[0], *draw(st.lists(pick(pool[1:]), max_size=4, unique=True))]


HAVING: tuple[Pair, ...] = (
    ("", "TRUE"),
    ("HAVING count(*) > 1", "m0 > 1"),
    ("HAVING k0 IS NOT NULL", "k0 IS NOT NULL"),
    ("HAVING count(*) > 1 AND tb % 2 = 0 AND k0 = k0", "m0 > 1 AND tb % 2 = 0 AND k0 = k0"),
    ("HAVING count(*) + tb % 3 > 2 OR k0 IS NULL", "m0 + tb % 3 > 2 OR k0 IS NULL"),
)


@st.composite
def aggregations(draw: st.DrawFn) -> Question:
    """Aggregations by an epoch and other variables, with HAVING over both."""
    source, rows = draw(sources())
    where, condition = draw(conditions(safe=draw(st.booleans())))
    moments = draw(st.integers(0, 3)) == 0
    epoch, epoch_sql = draw(pick(MOMENTS if moments else EPOCHS))
    keys = draw(st.lists(pick(draw(st.sampled_from((KEYS[:4], KEYS)))), min_size=1, max_size=2, unique=True))
    havings = [pair for pair in HAVING if not (moments and "tb %" in pair[0])]  # instants have no remainder
    found, (having, having_sql) = draw(measures()), draw(pick(havings))
    text, sql = _grouped(source, where, (epoch, epoch_sql), keys, found, f"{rows} AND {condition}")
    return Question(f"{text} {having}", f"SELECT * FROM ({sql}) WHERE {having_sql}")


def _grouped(source: str, where: str, epoch: Pair, keys: Sequence[Pair], found: Sequence[Pair], rows: str) -> Pair:
    names = [f"k{n}" for n in range(len(keys))]
    text = f"SELECT tb, {', '.join([*names, *(a for a, _ in found)])} FROM {source} {where} GROUP BY {epoch[0]} AS tb, "
    text += ", ".join(f"{a} AS {n}" for n, (a, _) in zip(names, keys, strict=True))
    columns = [f"{epoch[1]} AS tb", *(f"{b} AS {n}" for n, (_, b) in zip(names, keys, strict=True))]
    columns += [f"{b} AS m{n}" for n, (_, b) in enumerate(found)]
    numbers = ", ".join(str(n + 1) for n in range(1 + len(names)))
    return text, f"SELECT {', '.join(columns)} FROM {rows} GROUP BY {numbers}"


SHAPES: tuple[Pair, ...] = (
    ("CUBE(a, b)", "CUBE(a, b)"),
    ("ROLLUP(a, b)", "ROLLUP(a, b)"),
    ("GROUPING_SETS((a, b), (b), ())", "GROUPING SETS ((a, b), (b), ())"),
    ("a, ROLLUP(b)", "a, ROLLUP(b)"),
    ("CUBE(a), ROLLUP(b)", "CUBE(a), ROLLUP(b)"),
)


@st.composite
def cubes(draw: st.DrawFn) -> Question:
    """CUBE and its kin; what a set leaves out is NULL, beside the NULL of the packets."""
    source, rows = draw(sources())
    where, condition = draw(conditions(safe=draw(st.booleans())))
    (epoch, epoch_sql), (shape, shape_sql) = draw(pick(EPOCHS)), draw(pick(SHAPES))
    keys = draw(st.lists(pick(KEYS), min_size=2, max_size=2, unique=True))
    found, (having, having_sql) = draw(measures()), draw(pick([h for h in HAVING if "k0" not in h[0]]))
    named = shape
    for name, (key, _) in zip("ab", keys, strict=True):
        # The first mention defines the variable.
        before, mark, after = named.partition(name) if name == "a" else _partition_b(named)
        named = f"{before}{key} AS {mark}{after}"
    text = f"SELECT tb, a, b, {', '.join(m for m, _ in found)} FROM {source} {where} GROUP BY {epoch} AS tb, {named}"
    inner = f"SELECT *, {epoch_sql} AS tb, {keys[0][1]} AS a, {keys[1][1]} AS b FROM {rows} AND {condition}"
    columns = ", ".join(f"{b} AS m{n}" for n, (_, b) in enumerate(found))
    sql = f"SELECT tb, a, b, {columns} FROM ({inner}) GROUP BY tb, {shape_sql}"
    return Question(f"{text} {having}", f"SELECT * FROM ({sql}) WHERE {having_sql}")


def _partition_b(text: str) -> tuple[str, str, str]:
    # After the definition of `a`, the first `b` that stands alone.
    at = next(
        n for n, c in enumerate(text) if c == "b" and text[n - 1] in " (" and text[n + 1 : n + 2] in (")", ",", "")
    )
    return text[:at], "b", text[at + 1 :]


SHADOWS = ("time", "len", "srcPort", "srcIP", "caplen")
"""Names of variables that are columns too."""

SHADOWED: tuple[Pair, ...] = (
    ("len + 1", "len + 1"), ("len", "len"), ("srcPort", "srcPort"), ("srcIP", "srcIP"), ("caplen / 10", "caplen // 10"),
    ("time % 7", "time % 7"),
)  # fmt: skip


@st.composite
def shadowed(draw: st.DrawFn) -> Question:
    """Variables with the names of columns: DISTINCT, groups and grouping sets."""
    source, rows = draw(sources())
    where, condition = draw(conditions(safe=draw(st.booleans())))
    epoch, epoch_sql = draw(pick(EPOCHS))
    keys = [(epoch, epoch_sql), *draw(st.lists(pick(SHADOWED), min_size=2, max_size=2))]
    names = draw(st.lists(st.sampled_from((*SHADOWS, "x", "y")), min_size=3, max_size=3, unique=True))
    aliased = [gsql if gsql == name else f"{gsql} AS {name}" for (gsql, _), name in zip(keys, names, strict=True)]
    inner = ", ".join(f"{sql} AS c{n}" for n, (_, sql) in enumerate(keys))
    inner = f"SELECT *, {inner} FROM {rows} AND {condition}"
    if draw(st.booleans()):
        text = f"SELECT DISTINCT {', '.join(aliased)} FROM {source} {where}"
        return Question(text, f"SELECT DISTINCT c0, c1, c2 FROM ({inner})")
    shape, shape_sql = draw(
        pick((("{}, {}", "c1, c2"), ("CUBE({}, {})", "CUBE(c1, c2)"), ("ROLLUP({}), {}", "ROLLUP(c1), c2"),
              ("GROUPING_SETS(({}), ({}), ())", "GROUPING SETS ((c1), (c2), ())"))),
    )  # fmt: skip
    # An expression may stand for the only variable that has it; a bare name is first the variable of that name.
    texts = [gsql for gsql, _ in keys]
    items = [
        gsql if texts.count(gsql) == 1 and gsql not in names and draw(st.booleans()) else name
        for gsql, name in zip(texts, names, strict=True)
    ]
    filters = (
        ("", ""),
        (f"HAVING {names[1]} = {names[1]}", "HAVING c1 = c1"),
        (f"HAVING {names[2]} IS NULL", "HAVING c2 IS NULL"),
    )
    found, (having, kept) = draw(measures()), draw(st.sampled_from(filters))
    text = f"SELECT {', '.join([*items, *(a for a, _ in found)])} FROM {source} {where} "
    text += f"GROUP BY {aliased[0]}, {shape.format(*aliased[1:])} {having}"
    columns = ", ".join(["c0", "c1", "c2", *(f"{b} AS m{n}" for n, (_, b) in enumerate(found))])
    return Question(text, f"SELECT {columns} FROM ({inner}) GROUP BY c0, {shape_sql} {kept}")


ATTRIBUTES: tuple[tuple[str, str, int], ...] = (("time", "time", 1), ("timestamp_ms", "timestamp // 1000000", 1000))
REACHES = ((6, 2), (5, 2), (2, 5), (7, 3), (4, 4), (3, 1), (1, 3), (9, 6))


@st.composite
def windows(draw: st.DrawFn) -> Question:
    """Sliding windows whose RANGE is a multiple of SLIDE, is not, or leaves gaps."""
    source, rows = draw(sources())
    where, condition = draw(conditions(safe=draw(st.booleans())))
    attribute, column, unit = draw(st.sampled_from(ATTRIBUTES))
    reach, slide = draw(st.sampled_from(REACHES))
    written = draw(
        st.sampled_from((f"RANGE {reach * unit}, SLIDE {slide * unit}", f"SLIDE {slide} s, RANGE {reach} s"))
    )
    keys = draw(st.lists(pick(draw(st.sampled_from((KEYS[:4], KEYS)))), min_size=1, max_size=2, unique=True))
    found = draw(measures())
    having, having_sql = draw(
        pick((HAVING[0], HAVING[1], ("HAVING wid % 2 = 0 AND k0 IS NOT NULL", "w % 2 = 0 AND k0 IS NOT NULL")))
    )
    # The attribute of the window is the column, whatever a variable is called.
    names = draw(st.sampled_from((["k0", "k1"], ["time", "len"], ["srcPort", attribute])))[: len(keys)]
    having = having.replace("k0", names[0])
    text = f"SELECT wid, window_start, {', '.join([*names, *(a for a, _ in found)])} FROM {source} "
    text += f"[{written}, WA {attribute}] {where} GROUP BY "
    text += ", ".join(f"{a} AS {n}" for n, (a, _) in zip(names, keys, strict=True))
    r, s = reach * unit, slide * unit
    tagged = _tagged(column, r, s, f"{rows} AND {condition}")
    sql = _windowed(tagged, s, keys, found)
    return Question(f"{text} {having}", f"SELECT * FROM ({sql}) WHERE {having_sql}")


def _tagged(column: str, reach: int, slide: int, rows: str) -> str:
    """Packets with the numbers of their windows; values are positive, so that // rounds down."""
    first, last = f"({column} - {reach} + {slide * 1000}) // {slide} - 999", f"{column} // {slide}"
    return f"(SELECT *, unnest(generate_series({first}, {last})) AS w FROM {rows})"


def _windowed(tagged: str, slide: int, keys: Sequence[Pair], found: Sequence[Pair]) -> str:
    columns = [f"{b} AS k{n}" for n, (_, b) in enumerate(keys)] + [f"{b} AS m{n}" for n, (_, b) in enumerate(found)]
    groups = ", ".join(["w", *(str(n + 3) for n in range(len(keys)))])
    return f"SELECT w, w * {slide} AS start, {', '.join(columns)} FROM {tagged} GROUP BY {groups}"


@st.composite
def row_windows(draw: st.DrawFn) -> Question:
    """Windows of rows: all records of the links are numbered, late ones too."""
    source, rows = draw(sources())
    where, condition = draw(conditions())
    reach, slide = draw(st.sampled_from(((5, 2), (4, 4), (3, 5), (20, 20), (10, 3))))
    key, partitioned = draw(pick(KEYS[:4])), draw(st.booleans())
    found = draw(measures())
    partition = ", PARTITION BY srcIP" if partitioned else ""
    counted, taken = draw(conditions())
    partition += f", {counted}" if counted else ""
    shown = "srcIP, " if partitioned else ""
    text = f"SELECT wid, {shown}k0, {', '.join(a for a, _ in found)} FROM {source} "
    text += f"[RANGE {reach} ROWS, SLIDE {slide} ROWS{partition}] {where} GROUP BY {key[0]} AS k0"
    links = next(sql for name, sql in FROM.items() if source.startswith(f"{name}."))
    if partitioned or counted:
        over = f"{'PARTITION BY srcIP ' if partitioned else ''}ORDER BY arrival, link, position"
        numbered = f"(SELECT *, row_number() OVER ({over}) - 1 AS n FROM {rows} AND ({taken}))"
    else:
        every = f"SELECT *, row_number() OVER (ORDER BY arrival, link, position) - 1 AS n FROM records WHERE {links}"
        numbered = f"(SELECT * FROM ({every}) {rows[1:]} AND admitted)"
    tagged = _tagged("n", reach, slide, f"{numbered} WHERE {condition}")
    columns = ", ".join(f"{b} AS m{n}" for n, (_, b) in enumerate(found))
    groups = "w, srcIP, k0" if partitioned else "w, k0"
    return Question(text, f"SELECT w, {shown}{key[1]} AS k0, {columns} FROM {tagged} GROUP BY {groups}")


@st.composite
def runnings(draw: st.DrawFn) -> Question:
    """CLOSING_WHEN with aggregates that are emptied and others that go on; SQL has none."""
    source, _ = draw(sources())
    where, _ = draw(conditions())
    key, _ = draw(pick(KEYS))
    measured = draw(
        st.lists(st.sampled_from((*(a for a, _ in AGGREGATES + WHOLE[:5]), *RUNNING)), max_size=4, unique=True)
    )
    closing = draw(
        st.sampled_from(("count(*) = 0", "or_aggr(FIN) = TRUE OR count(*) = 0", "k0 IS NULL OR count(*) > 2"))
    )
    having = draw(st.sampled_from(("", "HAVING count(*) > 0 AND tb % 2 = 0")))
    text = f"SELECT {', '.join(['tb', 'k0', 'count(*)', *measured])} FROM {source} {where} "
    return Question(f"{text} GROUP BY time/10 AS tb, {key} AS k0 {having} CLOSING_WHEN {closing}")


RUNNING = ("running_sum(len)", "moving_sum(len, 2)", "running_array_aggr(ttl)", "count_diff(len)")


@st.composite
def samplings(draw: st.DrawFn) -> Question:
    """The sampling operator: stateful functions between the conjuncts of WHERE; SQL has none."""
    source, _ = draw(sources())
    parts = draw(st.lists(st.sampled_from([a for a, _ in SAFE + UNSAFE]), max_size=3))
    parts.insert(draw(st.integers(0, len(parts))), "ssample(len, 5) = TRUE")
    key = draw(st.sampled_from([a for a, _ in KEYS]))
    group = draw(st.sampled_from(("", "SUPERGROUP k0")))
    having = draw(st.sampled_from(("", "HAVING ssfinal_clean(sum(len)) = TRUE")))
    cleaning = "CLEANING_WHEN ssdo_clean() = TRUE OR count$(*) > 7 CLEANING_BY ssclean_with(sum(len)) = TRUE"
    where = " AND ".join(f"({part})" for part in parts)
    items = "tb, k0, k1, sum(len), UMAX(sum(len), ssthreshold()), LAST(ttl), sum$(srcPort)"
    text = f"SELECT {items} FROM {source} WHERE {where} "
    return Question(f"{text} GROUP BY time/10 AS tb, {key} AS k0, destPort AS k1 {group} {having} {cleaning}")


FAMILIES: dict[str, Callable[[], st.SearchStrategy[Question]]] = {
    "selections": selections, "distincts": distincts, "aggregations": aggregations, "cubes": cubes,
    "shadowed": shadowed, "windows": windows, "row_windows": row_windows, "runnings": runnings, "samplings": samplings,
}  # fmt: skip
