"""Random joins over joins, and joins that a function of both sides decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random

from tests.law.cases import Case
from tests.law.drawn import drawn
from tests.law.questions import IP, SECOND, Question
from tests.law.settings import choices
from tests.law.worlds import world
from tests.plan.batch_join_questions import KINDS

SHAPES = ("left", "right", "both", "itself", "three")
"""Of chains: which inputs of the last join are joins; `itself` is a join with itself, `three` one over one over one."""

OUTER = tuple(kind for kind in KINDS if kind != "INNER_JOIN")
SOURCES = {
    "main1.TCP": "link = 'main1' AND flags IS NOT NULL",
    "main2.DataProtocol": f"link = 'main2' AND {IP}",
    "control.DataProtocol": f"link = 'control' AND {IP}",
    "[main2, control].DataProtocol": f"link IN ('main2', 'control') AND {IP}",
}
BANDS = ((0, 3), (2, 2), (-1, 4), (5, 0))
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
    filled: Mapping[str, str]
    timed: tuple[str, str] | None

    def shown(self, column: str) -> str:
        """A column of a side in the SQL of the result."""
        return self.filled.get(column, column)


@dataclass
class Grammar:
    """Draws one question."""

    random: Random
    unit: int = 1
    drawn: list[tuple[str, str, bool]] = field(default_factory=list)
    count: int = 0

    def chain(self, shape: str) -> Question:
        """A join of which at least one input is a join."""
        self.unit = self.random.choice((1, 1, 2))
        below, leaf = self.below, self.leaf
        first = below(below(leaf(), leaf()) if shape == "three" else leaf(), leaf())
        if shape == "itself":
            return self.output(first, replace(first, text=""))
        sides = [first, below(leaf(), leaf()) if shape == "both" else leaf()]
        return self.output(*(sides[::-1] if shape == "right" else sides))

    def across(self, kind: str) -> Question:
        """One join of a kind, which a function of both sides decides."""
        return self.output(self.leaf(), self.leaf(), kind, across=True)

    def leaf(self) -> Stream:
        """Packets, or groups of them."""
        source, member = self.random.choice(list(SOURCES.items()))
        if self.unit == 1 and self.random.random() < 0.7:
            columns = f"ts // {SECOND} AS t, dport AS p, len AS n, ttl AS m, 1 AS present"
            return Stream("", source, f"(SELECT {columns} FROM p WHERE {member})", PACKET)
        text = f"SELECT t, destPort AS p, max(len) AS n, count(*) AS m FROM {source} GROUP BY time/{self.unit} AS t"
        epoch = f"ts // {SECOND} // {self.unit} AS t"
        sql = f"SELECT {epoch}, dport AS p, max(len) AS n, count(*) AS m, 1 AS present FROM p WHERE {member}"
        return self.named(f"{text}, destPort", f"({sql} GROUP BY ALL)")

    def below(self, left: Stream, right: Stream) -> Stream:
        """A join that another one reads, so it has a time in every row."""
        made = self.join(left, right, self.random.choice(list(KINDS)), above=True)
        assert made.timed is not None
        time, time_sql = made.timed
        columns = f"{time} AS t, B.{right.names['p']} AS p, A.{left.names['n']} AS n, B.{right.names['n']} AS m"
        rows = f"{time_sql} AS t, {made.shown('B.p')} AS p, A.n AS n, B.n AS m, 1 AS present"
        named = self.named(f"SELECT {columns} {made.text}", f"(SELECT {rows} {made.sql})", left.text + right.text)
        return replace(named, join=True)

    def output(self, left: Stream, right: Stream, kind: str = "", across: bool = False) -> Question:
        """The last join, or groups of its rows."""
        made = self.join(left, right, kind or self.random.choice(list(KINDS)), across)
        a, b = left.names, right.names
        rows = ", ".join(made.shown(f"{side}.{name}") for name in "tpnm" for side in "AB")
        items = ", ".join(f"A.{a[name]} AS a{name}, B.{b[name]} AS b{name}" for name in "tpnm")
        text, sql = f"SELECT {items} {made.text}", f"SELECT {rows} {made.sql}"
        if made.timed and self.random.random() < 0.3:
            time, time_sql = made.timed
            text = f"SELECT e, B.{b['p']} AS p, count(*), sum(A.{a['n']}), max(B.{b['m']}) {made.text}"
            text += f" GROUP BY ({time})/3 AS e, B.{b['p']}"
            sql = f"SELECT ({time_sql}) // 3, {made.shown('B.p')}, count(*), sum(A.n)::BIGINT, max(B.m) {made.sql}"
            sql += " GROUP BY 1, 2"
        return Question("q", f"{left.text}{right.text}DEFINE{{query_name 'q';}} {text}", sql, "law.joined")

    def join(self, left: Stream, right: Stream, kind: str, across: bool = False, above: bool = False) -> Joined:
        """A join of two streams; where one is above it, it has a time."""
        random, a, b = self.random, _columns("A", left), _columns("B", right)
        keeps_left, keeps_right = (kind in ("OUTER_JOIN", f"{side}_OUTER_JOIN") for side in ("LEFT", "RIGHT"))
        band, filled, shift = random.random() < 0.5, {}, random.choice(("", "", " + 2"))
        if band and not (above and kind == "OUTER_JOIN"):
            under, over = random.choice(BANDS)
            where = [f"{a['t']} - {under} <= {b['t']}", f"{b['t']} <= {a['t']} + {over}"]
            on = [f"A.t - {under} <= B.t AND B.t <= A.t + {over}"]
        else:
            band, where, on = False, [f"{a['t']} = {b['t']}{shift}"], [f"A.t = B.t{shift}"]
            # Only a bare column of an equality takes the other side's value.
            filled["A.t"] = f"CASE WHEN A.present IS NULL THEN B.t{shift} ELSE A.t END"
            filled |= {} if shift else {"B.t": "CASE WHEN B.present IS NULL THEN A.t ELSE B.t END"}
        timed = [(a["t"], filled.get("A.t", "A.t"))] if "A.t" in filled or not keeps_right else []
        # What makes progress is what stands in the window.
        more = "" if band else shift
        timed += [(b["t"] + more, filled.get("B.t", "B.t") + more)] if "B.t" in filled or not keeps_left else []
        port = random.choice(("=", "=", "+ 0 =", ""))
        if port or above:
            filled["B.p"] = "CASE WHEN B.present IS NULL THEN A.p ELSE B.p END"
            filled |= {"A.p": "CASE WHEN A.present IS NULL THEN B.p ELSE A.p END"} if port != "+ 0 =" else {}
            where.append(f"{a['p']} {port or '='} {b['p']}")
            on.append("A.p = B.p" if port == "+ 0 =" else "A.p IS NOT DISTINCT FROM B.p")
        across = across or random.random() < 0.4
        residual, sql = random.choice(list((FUNCTIONS if across else PLAIN).items()))
        where += [residual.format(a=a, b=b)] if residual else []
        on += [sql] if sql else []
        sides = []
        for stream, names in ((left, a), (right, b)):
            keep = random.choice((*FILTERS, "{m} IS NULL") if stream.join else FILTERS)
            where += [keep.format(**names)] if keep else []
            sides.append(f"(SELECT * FROM {stream.sql} WHERE {keep.format(**OWN) or 'TRUE'})")
        self.drawn.append((kind, "band" if band else "equality", across))
        return Joined(
            f"{kind} FROM {left.source} A, {right.source} B WHERE {' AND '.join(where)}",
            f"FROM {sides[0]} A {KINDS[kind]} {sides[1]} B ON {' AND '.join(on)}",
            filled,
            random.choice(timed) if timed else None,
        )

    def named(self, text: str, sql: str, before: str = "") -> Stream:
        """A query that others read; hidden or not, which decides whether filters may go into it."""
        self.count += 1
        hidden = self.random.choice(("visibility 'internal';", "visibility 'internal';", ""))
        return Stream(f"{before}DEFINE{{query_name 's{self.count}'; {hidden}}} {text};\n", f"s{self.count}", sql)


def _columns(alias: str, stream: Stream) -> dict[str, str]:
    return {name: f"{alias}.{own}" for name, own in stream.names.items()}


def case(seed: int, question: Question) -> Case:
    """A question over the world of a number, with settings of that number and no kills."""
    made = world(seed)
    stamps = [packet.stamp for packets in made.packets.values() for packet in packets]
    choice = drawn(choices(max(stamps, default=0) - min(stamps, default=0)), seed)
    return Case(made, (question,), replace(choice, kills=()))
