"""Random joins over joins, and joins that a function of both sides decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from hypothesis import strategies as st

from tests.law.questions import IP, SECOND, Question
from tests.plan.batch_join_questions import KINDS as WITH_PAIRS

SHAPES = ("left", "right", "both", "itself", "three")
"""Of chains: which inputs of the last join are joins; `itself` is a join with itself, `three` one over one over one."""

ANTI, SEMI, ASOF, ASOF_LEFT = "ANTI_JOIN", "SEMI_JOIN", "ASOF_JOIN", "ASOF_LEFT_JOIN"
MUTUAL, MUTUAL_LEFT = "ASOF_ONCE_JOIN", "ASOF_ONCE_LEFT_JOIN"
NEAREST = {
    ASOF: "ASOF JOIN", ASOF_LEFT: "ASOF LEFT JOIN", MUTUAL: "ASOF ONCE JOIN", MUTUAL_LEFT: "ASOF ONCE LEFT JOIN"
}  # fmt: skip
KINDS = {**WITH_PAIRS, ANTI: "ANTI JOIN"}
ONCE = {SEMI: "SEMI JOIN", **NEAREST}
ALL = {**KINDS, **ONCE}
MISSING = {"LEFT_OUTER_JOIN": "B", "RIGHT_OUTER_JOIN": "A", "OUTER_JOIN": "AB"}
"""Kind -> the sides that may be missing."""
OUTER = tuple(kind for kind in KINDS if kind != "INNER_JOIN")
SOURCES = {
    "main1.TCP": "link = 'main1' AND flags IS NOT NULL",
    "main2.DataProtocol": f"link = 'main2' AND {IP}",
    "control.DataProtocol": f"link = 'control' AND {IP}",
    "[main2, control].DataProtocol": f"link IN ('main2', 'control') AND {IP}",
}
BANDS = ((0, 3), (2, 2), (-1, 4), (5, 0))
"""Of `A.t - under <= B.t <= A.t + over`. Of ASOF: the first from it on, the nearest, the first later, the last."""
OWN = {name: name for name in "tpnm"}
PACKET = {"t": "time", "p": "destPort", "n": "len", "m": "ttl"}


def _strict(name: str, x: str, y: str) -> str:
    """A call in SQL that is NULL where an argument is."""
    return f"({name}({x}, {y}) + 0 * ({x} + {y}))"


FUNCTIONS = {
    "UMAX({a[n]}, {b[n]}) > 66": f"{_strict('greatest', 'A.n', 'B.n')} > 66",
    "{a[n]} + UMIN({b[n]}, {a[m]}) > 100": f"A.n + {_strict('least', 'B.n', 'A.m')} > 100",
    "UMAX({b[m]}, {a[n]}) % 3 <> 1": f"{_strict('greatest', 'B.m', 'A.n')} % 3 <> 1",
    "EQ({a[n]}, {b[n]}) = 0": "A.n <> B.n",
}
"""Residuals with a function of both sides."""

PLAIN = {"": "", "{a[n]} <> {b[n]} + 7": "A.n <> B.n + 7"}
FILTERS = ("", "", "", "{n} > 54", "{m} > 1")


@dataclass(frozen=True)
class Stream:
    """What a join reads."""

    text: str
    source: str
    sql: str
    names: Mapping[str, str] = field(default_factory=OWN.copy)
    join: bool = False


@dataclass(frozen=True)
class Joined:
    """FROM and WHERE of a join, as GSQL and as SQL."""

    text: str
    sql: str
    timed: tuple[str, str] | None


@dataclass
class Grammar:
    """Draws one question."""

    random: Random
    unit: int = 1
    drawn: list[tuple[str, str, bool]] = field(default_factory=list)
    count: int = 0
    kinds: Mapping[str, str] = field(default_factory=KINDS.copy)

    def chain(self, shape: str, kind: str = "") -> Question:
        """A join, of a kind or of any, of which at least one input is a join."""
        self.unit = self.random.choice((1, 1, 2))
        below, leaf = self.below, self.leaf
        first = below(below(leaf(), leaf()) if shape == "three" else leaf(), leaf())
        if shape == "itself":
            return self.output(first, replace(first, text=""), kind)
        sides = [first, below(leaf(), leaf()) if shape == "both" else leaf()]
        left, right = sides[::-1] if shape == "right" else sides
        return self.output(left, right, kind)

    def across(self, kind: str) -> Question:
        """One join of a kind, which a function of both sides decides."""
        return self.output(self.leaf(), self.leaf(), kind, across=True)

    def leaf(self) -> Stream:
        """Packets, or groups of them."""
        source, member = self.random.choice(list(SOURCES.items()))
        if self.unit == 1 and self.random.random() < 0.7:
            columns = (
                f"ts // {SECOND} AS t, dport AS p, len AS n, ttl AS m, ts AS o1, link AS o2, position AS o3, 0 AS o4"
            )
            return Stream("", source, f"(SELECT {columns} FROM p WHERE {member})", PACKET)
        text = f"SELECT t, destPort AS p, max(len) AS n, count(*) AS m FROM {source} GROUP BY time/{self.unit} AS t"
        epoch = f"ts // {SECOND} // {self.unit} AS t"
        sql = f"SELECT {epoch}, dport AS p, max(len) AS n, count(*) AS m FROM p WHERE {member}"
        return self.named(f"{text}, destPort", f"({sql} GROUP BY ALL)")

    def below(self, left: Stream, right: Stream) -> Stream:
        """A join that another one reads, so it has a time in every row."""
        kind = self.random.choice(list(self.kinds))
        made = self.join(left, right, kind, above=True)
        assert made.timed is not None
        time, time_sql = made.timed
        side = self.random.choice(_readable(kind))
        port = (left if side == "A" else right).names["p"]
        alone = _readable(kind) == "A"
        last, of = ("A", left.names["m"]) if alone else ("B", right.names["n"])
        columns = f"{time} AS t, {side}.{port} AS p, A.{left.names['n']} AS n, {last}.{of} AS m"
        rows = f"{time_sql} AS t, {side}.p AS p, A.n AS n, {last}.{'m' if alone else 'n'} AS m"
        named = self.named(f"SELECT {columns} {made.text}", f"(SELECT {rows} {made.sql})", left.text + right.text)
        return replace(named, join=True)

    def output(self, left: Stream, right: Stream, kind: str = "", across: bool = False) -> Question:
        """The last join, or groups of its rows."""
        kind = kind or self.random.choice(list(self.kinds))
        made = self.join(left, right, kind, across)
        names = {side: stream.names for side, stream in zip("AB", (left, right), strict=True)}
        read, last = _readable(kind), _readable(kind)[-1]
        rows = ", ".join(f"{side}.{name}" for name in "tpnm" for side in read)
        items = ", ".join(f"{side}.{names[side][name]} AS {side.lower()}{name}" for name in "tpnm" for side in read)
        text, sql = f"SELECT {items} {made.text}", f"SELECT {rows} {made.sql}"
        if made.timed and self.random.random() < 0.3:
            time, time_sql = made.timed
            side = self.random.choice(read)
            port, n, m = names[side]["p"], names["A"]["n"], names[last]["m"]
            text = f"SELECT e, {side}.{port} AS p, count(*), sum(A.{n}), max({last}.{m}) {made.text}"
            text += f" GROUP BY ({time})/3 AS e, {side}.{port}"
            sql = f"SELECT ({time_sql}) // 3, {side}.p, count(*), sum(A.n)::BIGINT, max({last}.m) {made.sql}"
            sql += " GROUP BY 1, 2"
        return Question("q", f"{left.text}{right.text}DEFINE{{query_name 'q';}} {text}", sql, "law.joined")

    def join(self, left: Stream, right: Stream, kind: str, across: bool = False, above: bool = False) -> Joined:
        """A join of two streams; where one is above it, it has a time."""
        random, a, b = self.random, _columns("A", left), _columns("B", right)
        keeps_left = kind in ("OUTER_JOIN", "LEFT_OUTER_JOIN", ANTI, SEMI, ASOF_LEFT, MUTUAL_LEFT)
        keeps_right = kind in ("OUTER_JOIN", "RIGHT_OUTER_JOIN")
        band, shift = random.random() < 0.5, random.choice(("", "", " + 2"))
        # What makes progress is what stands in the window, of a side that no row lacks.
        timed = [] if keeps_right else [(a["t"], "A.t")]
        under, over = 0, 0
        if (band and not (above and kind == "OUTER_JOIN")) or kind in NEAREST:
            band, (under, over) = True, random.choice(BANDS)
            met = [f"{a['t']} - {under} <= {b['t']}", f"{b['t']} <= {a['t']} + {over}"]
            on = [f"A.t - {under} <= B.t AND B.t <= A.t + {over}"]
            timed += [] if keeps_left else [(b["t"], "B.t")]
        else:
            band, met, on = False, [f"{a['t']} = {b['t']}{shift}"], [f"A.t = B.t{shift}"]
            timed += [] if keeps_left else [(b["t"] + shift, "B.t" + shift)]
            first = "CASE WHEN {0} IS NOT NULL THEN {0} ELSE {1} END"
            if _readable(kind) != "A":
                timed.append((first.format(a["t"], b["t"] + shift), first.format("A.t", "B.t" + shift)))
        port = random.choice(("=", "=", "+ 0 =", ""))
        if port or above:
            met.append(f"{a['p']} {port or '='} {b['p']}")
            on.append("A.p = B.p" if port == "+ 0 =" else "A.p IS NOT DISTINCT FROM B.p")
        across = across or random.random() < 0.4
        residual, sql = random.choice(list((FUNCTIONS if across else PLAIN).items()))
        met += [residual.format(a=a, b=b)] if residual else []
        on += [sql] if sql else []
        kept = [random.choice((*FILTERS, "{m} IS NULL") if stream.join else FILTERS) for stream in (left, right)]
        later = ""
        if by_on := kind in (ANTI, *ONCE) or random.random() < 0.5:
            # SQL's own form: what stands behind ON decides matching, also of one side, and WHERE asks the joined rows.
            sides, where, asked = [left.sql, right.sql], [], []
            for keep, alias, names in zip(kept, "AB", (a, b), strict=True):
                own = {name: f"{alias}.{name}" for name in OWN}
                decides = alias not in _readable(kind) or random.random() < 0.5
                text, own_sql = (met, on) if decides else (where, asked)
                text += [keep.format(**names)] if keep else []
                own_sql += [keep.format(**own)] if keep else []
            missing, missing_sql = random.choice(
                (
                    ("", ""),
                    ("", ""),
                    *(
                        (f"{names[name]} IS NULL", f"{alias}.{name} IS NULL")
                        for alias, names in zip(_readable(kind), (a, b), strict=False)
                        for name in "tpn"
                    ),
                )
            )
            where += [missing] if missing else []
            asked += [missing_sql] if missing_sql else []
        else:
            where, asked = [], []
            # SQL's keyword without ON: what is of a side that may be missing is asked of the joined rows.
            bare = len(self.kinds) > len(KINDS) and kind in MISSING and random.random() < 0.5
            later = MISSING[kind] if bare else ""
            met += [keep.format(**names) for keep, names in zip(kept, (a, b), strict=True) if keep]
            sides = [
                f"(SELECT * FROM {stream.sql} WHERE {keep.format(**OWN) if keep and alias not in later else 'TRUE'})"
                for stream, keep, alias in zip((left, right), kept, "AB", strict=True)
            ]
            asked = [
                keep.format(**{name: f"{alias}.{name}" for name in OWN})
                for keep, alias in zip(kept, "AB", strict=True)
                if keep and alias in later
            ]
        self.drawn.append((kind, "band" if band else "equality", across))
        behind = f" WHERE {' AND '.join(where)}" if where else ""
        between = f"FROM {left.source} A {ALL[kind]} {right.source} B ON {' AND '.join(met)}{behind}"
        rows = f"FROM {sides[0]} A {ALL[kind]} {sides[1]} B ON {' AND '.join(on)}"
        if kind in NEAREST:
            rows = _nearest(sides, " AND ".join(on), kind, under, over)
        if not by_on and later:
            between = f"FROM {left.source} A {ALL[kind]} {right.source} B WHERE {' AND '.join(met)}"
        return Joined(
            between if by_on or later else f"{kind} FROM {left.source} A, {right.source} B WHERE {' AND '.join(met)}",
            f"{rows} WHERE {' AND '.join(asked)}" if asked else rows,
            random.choice(timed) if timed else None,
        )

    def named(self, text: str, sql: str, before: str = "") -> Stream:
        """A query that others read; hidden or not, which decides whether filters may go into it."""
        self.count += 1
        hidden = self.random.choice(("visibility 'internal';", "visibility 'internal';", ""))
        ordered = f"(SELECT *, t AS o1, p AS o2, n AS o3, m AS o4 FROM {sql})"
        return Stream(f"{before}DEFINE{{query_name 's{self.count}'; {hidden}}} {text};\n", f"s{self.count}", ordered)


def _nearest(sides: Sequence[str], on: str, kind: str, under: int, over: int) -> str:
    """The rows of ASOF in SQL: of all that meet a row, the first by distance, value and canonical order; with ONCE only
    the pairs in which each is the first of the other (O9)."""

    def first(of: str, other: str, latest: bool) -> str:
        canonical = ", ".join(f"{other}.o{at} {'DESC NULLS LAST' if latest else 'NULLS FIRST'}" for at in range(1, 5))
        order = f"abs(B.t - A.t), {other}.t, {canonical}, {other}.id"
        return f"row_number() OVER (PARTITION BY {of}.id ORDER BY {order}) = 1"

    a, b = [f"(SELECT *, row_number() OVER () AS id FROM {side})" for side in sides]
    keeps = kind in (ASOF_LEFT, MUTUAL_LEFT)
    mutual = first("B", "A", under <= 0 < over) if kind in (MUTUAL, MUTUAL_LEFT) else "TRUE"
    pairs = f"SELECT A, B, {mutual} AS mutual FROM {a} A {'LEFT JOIN' if keeps else 'JOIN'} {b} B ON {on}"
    chosen = f"{pairs} QUALIFY {first('A', 'B', over <= 0 < under)}"
    if keeps:
        return f"FROM (SELECT A, CASE WHEN mutual THEN B END AS B FROM ({chosen}))"
    return f"FROM (SELECT A, B FROM ({chosen}) WHERE mutual)"


def _readable(kind: str) -> str:
    """The sides whose columns WHERE and SELECT may read."""
    return "A" if kind in (ANTI, SEMI) else "AB"


def _columns(alias: str, stream: Stream) -> dict[str, str]:
    return {name: f"{alias}.{own}" for name, own in stream.names.items()}


def joined() -> st.SearchStrategy[Question]:
    """One join of any kind, or joins over joins."""

    def question(number: int) -> Question:
        random = Random(number)
        grammar = Grammar(random, kinds=ALL)
        kind = random.choice(("", *ALL))
        return grammar.output(grammar.leaf(), grammar.leaf(), kind) if kind else grammar.chain(random.choice(SHAPES))

    return st.integers(0, 1 << 30).map(question)
