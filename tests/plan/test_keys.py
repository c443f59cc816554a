"""Unique keys: what follows from real query texts, and no two rows of the reference engine ever share one."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from lowwater.plan.context import Links
from lowwater.plan.properties import unique_key
from lowwater.plan.queryset import plan_files, plan_texts
from tests.law.cases import Case, named, whole
from tests.law.compare import REFERENCE, evaluated
from tests.law.questions import Question
from tests.law.settings import SECOND, Choice, choices
from tests.law.worlds import LINKS, SETS, world
from tests.plan.batch_pools import CONTEXT
from tests.plan.batch_questions import aggregations
from tests.replay.support import QUERIES, SETS as DEMO_SETS

FLOW = ("tb", "protocol", "srcIP", "destIP", "srcPort", "destPort")

GROUP = "GROUP BY time/10 AS tb, srcIP, srcPort"
KINDS = ("INNER_JOIN", "LEFT_OUTER_JOIN", "RIGHT_OUTER_JOIN", "OUTER_JOIN")


def key_of(text: str) -> tuple[str, ...] | None:
    (query,) = plan_texts([("q.gsql", text)], Links(LINKS, SETS), context=CONTEXT).queries
    assert unique_key(query.high) == unique_key(query.logical)
    return unique_key(query.logical)


def test_keys_of_the_example_queries() -> None:
    files = sorted(QUERIES.glob("*.gsql"))
    found = {}
    for file in files:
        for query in plan_files([file], Links(LINKS, DEMO_SETS)).queries:
            found[f"{file.stem}.{query.name}"] = unique_key(query.logical)
    assert found == {
        "demo.flows": FLOW,
        "conversations.conversations": None,
        "demo.full_flow": FLOW,
        "flows.flows": FLOW,
        "full_flow.full_flow": FLOW,
        "handshakes.handshakes": None,
    }


@pytest.mark.parametrize(
    ("items", "key"),
    [
        ("tb, srcIP, srcPort, count(*)", ("tb", "srcIP", "srcPort")),
        ("count(*), srcPort AS p, srcIP, tb AS t", ("p", "srcIP", "t")),
        ("tb, tb AS again, srcIP, srcPort", ("tb", "srcIP", "srcPort")),
        ("tb*60 + 5 AS t, srcIP, ~srcPort AS p", ("t", "srcIP", "p")),
        ("7 - tb AS t, srcIP, srcPort", ("t", "srcIP", "srcPort")),
        ("tb, srcIP, count(*)", None),
        ("tb/2 AS t, srcIP, srcPort", None),
        ("tb*0 AS t, srcIP, srcPort", None),
        ("tb, srcIP, srcPort + 1 AS p", None),  # beyond 64 bits it is NULL, as it is for no port at all
        ("tb, srcIP, srcPort & 255 AS p", None),
    ],
)
def test_a_group_is_told_by_what_it_is_grouped_by(items: str, key: tuple[str, ...] | None) -> None:
    assert key_of(f"SELECT {items} FROM TCP {GROUP} HAVING count(*) > 1") == key


def flows(name: str, link: str, group: str = GROUP) -> str:
    items = ", ".join(part.rpartition(" ")[2] for part in group.removeprefix("GROUP BY ").split(", "))
    define = f"DEFINE{{query_name '{name}'; visibility 'internal';}}"
    return f"{define} SELECT {items}, count(*) AS c FROM {link}.TCP {group};\n"


def join(kind: str, items: str, where: str, right: str = GROUP) -> tuple[str, ...] | None:
    text = f"DEFINE{{query_name 'q';}} SELECT {items} {kind} FROM f A, g B WHERE {where}"
    return key_of(flows("f", "main1") + flows("g", "main2", right) + text)


EQUAL = "A.tb = B.tb AND A.srcIP = B.srcIP AND A.srcPort = B.srcPort"


BETWEEN = dict(zip(KINDS, ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_a_join_is_told_by_the_keys_of_both_less_those_that_are_tied(kind: str) -> None:
    key = ("tb", "srcIP", "p")
    # Of a side that may be missing the columns are NULL, so they tell no row of the other side.
    of_left = key if kind in ("INNER_JOIN", "LEFT_OUTER_JOIN") else None
    of_right = key if kind in ("INNER_JOIN", "RIGHT_OUTER_JOIN") else None
    assert join(kind, "A.tb, A.srcIP, A.srcPort AS p, A.c, B.c", EQUAL) == of_left
    assert join(kind, "B.tb, B.srcIP, B.srcPort AS p, A.c, B.c", EQUAL) == of_right
    assert join(kind, "B.tb, A.srcIP, B.srcPort AS p, A.c", EQUAL) == (key if kind == "INNER_JOIN" else None)
    assert join(kind, "A.tb, A.srcIP, A.c, B.c", EQUAL) is None
    loose = "A.tb = B.tb AND A.srcIP = B.srcIP"
    assert join(kind, "A.tb, A.srcIP, A.srcPort, B.srcPort AS p", loose) == (
        # Two unmatched rows of the two sides may both have NULL ports; had they met, neither would be unmatched.
        ("tb", "srcIP", "srcPort", "p") if of_left else None
    )
    assert join(kind, "A.tb, A.srcIP, A.srcPort", loose) is None
    band = "A.tb <= B.tb AND B.tb <= A.tb + 2 AND A.srcIP = B.srcIP AND A.srcPort = B.srcPort"
    both = "A.tb, B.tb AS t, A.srcIP, A.srcPort, B.srcIP AS s, B.srcPort AS p"
    wanted = {"INNER_JOIN": 4, "LEFT_OUTER_JOIN": 4, "RIGHT_OUTER_JOIN": 4, "OUTER_JOIN": 6}[kind]
    found = join(kind, both, band)
    assert found is not None and len(found) == wanted
    assert join(kind, "A.tb, A.srcIP, A.srcPort", band) is None


@pytest.mark.parametrize("kind", KINDS)
def test_merged_columns_tell_the_rows_of_both_sides(kind: str) -> None:
    texts = flows("f", "main1") + flows("g", "main2")
    merged = f"DEFINE{{query_name 'q';}} SELECT tb, srcIP, srcPort, A.c FROM f A {BETWEEN[kind]} g B"
    assert key_of(f"{texts}{merged} USING (tb, srcIP, srcPort)") == ("tb", "srcIP", "srcPort")
    case = "CASE WHEN A.{0} IS NULL THEN B.{0} ELSE A.{0} END AS {0}"
    cases = ", ".join(case.format(name) for name in ("tb", "srcIP", "srcPort"))
    assert join(kind, f"{cases}, B.c", EQUAL) == ("tb", "srcIP", "srcPort")
    # Of rows that a further condition keeps from meeting, both have the same values.
    assert join(kind, f"{cases}, B.c", f"{EQUAL} AND A.c < B.c") == (
        None if kind == "OUTER_JOIN" else ("tb", "srcIP", "srcPort")
    )


COLUMNS = ("srcIP", "srcPort", "protocol")


@st.composite
def joined_flows(draw: st.DrawFn, name: str) -> Question:
    """A join of two aggregations with any keys, ties and conditions; it selects some of its columns."""
    sides = [draw(st.lists(st.sampled_from(COLUMNS), unique=True, max_size=2)) for _ in range(2)]
    text, epoch = "", draw(st.sampled_from((30, 600)))
    for alias, link, columns in zip("AB", ("main1", "[pair]"), sides, strict=True):
        group = ", ".join([f"time/{epoch} AS tb", *columns])
        text += flows(name + alias, link, f"GROUP BY {group}").replace("TCP", "DataProtocol")
    windows = ("A.tb = B.tb", "A.tb = B.tb + 1", "A.tb - 1 = B.tb", "A.tb <= B.tb AND B.tb <= A.tb + 1")
    types = {"srcIP": "ip", "srcPort": "int", "protocol": "int"}
    pairs = [(a, b) for a in sides[0] for b in sides[1] if types[a] == types[b]]
    ties = [f"A.{a} = B.{b}" for a, b in pairs if draw(st.booleans())]
    where = " AND ".join([draw(st.sampled_from(windows)), *ties, draw(st.sampled_from(("", "A.c < B.c")))])
    either = ["CASE WHEN A.{0} IS NOT NULL THEN A.{0} ELSE B.{1} END".format(*pair) for pair in (("tb", "tb"), *pairs)]
    every = [
        "A.tb",
        "B.tb",
        *either,
        *(f"{alias}.{c}" for alias, columns in zip("AB", sides, strict=True) for c in columns),
    ]
    chosen = [column for column in every if draw(st.integers(0, 3))] or ["A.c"]
    items = ", ".join(f"{column} AS x{i}" for i, column in enumerate(chosen))
    kind = draw(st.sampled_from(KINDS))
    text += f"DEFINE{{query_name '{name}';}} SELECT {items} {kind} FROM {name}A A, {name}B B WHERE "
    return Question(name, text + where.removesuffix(" AND "), "")


def grouped(name: str) -> st.SearchStrategy[Question]:
    """An aggregation."""
    return aggregations().map(lambda found: Question(name, named(found.text, name), found.sql))


@st.composite
def asked(draw: st.DrawFn) -> list[Question]:
    """A few questions that have a key."""
    found: list[Question] = []
    for number in range(4):
        name = f"q{number}"
        question = draw(joined_flows(name) if draw(st.integers(0, 3)) else grouped(name))
        if key_of(question.text) is not None:
            found.append(question)
    return found


@pytest.mark.slow
@settings(phases=(Phase.explicit, Phase.generate), suppress_health_check=list(HealthCheck))
@given(st.integers(0, 1 << 20), asked(), choices(100 * SECOND))
def test_no_two_rows_of_the_reference_engine_share_a_key(seed: int, questions: list[Question], choice: Choice) -> None:
    if not questions:
        return
    found = evaluated(whole(Case(world(seed), tuple(questions), choice)), REFERENCE)
    for question in questions:
        key = key_of(question.text)
        assert key is not None
        (table,) = found.rows[question.name]
        seen = Counter(zip(*(table.column(name).to_pylist() for name in key), strict=True))
        assert [row for row, count in seen.items() if count > 1] == [], question
