"""Progress by other attributes than the clock (T8, I4): an attribute of its own, numbers of rows, skews of values."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pyarrow as pa
import pytest

from experiments.architectures import Experiment
from lowwater.plan.context import Links
from lowwater.plan.operators import Node
from lowwater.plan.properties import read_from
from lowwater.plan.queryset import plan_texts
from lowwater.plan.temporal import END_OF_TIME
from lowwater.reference.clock import Disorder
from lowwater.reference.engine import ReferenceResult, evaluate
from tests.breadth import some
from tests.plan.batch_worlds import SECOND
from tests.reference.streams import Link, record

PROTOCOL = """PROTOCOL P {
    uint time get_csv_uint_pos1 (increasing); uint seq get_csv_uint_pos2 (increasing);
    uint v get_csv_uint_pos3; uint down get_csv_uint_pos4 (decreasing);
}
"""
SLACK = {"P.seq": 7, "P.down": 4}
LINKS = ("a", "b")
Record = tuple[int, str, dict[str, int]]
"""Arrival, link, columns."""


def plan(query: str) -> Node:
    links = Links(LINKS, {}, kinds=dict.fromkeys(LINKS, "csv"))
    return plan_texts([("q.gsql", f"{PROTOCOL}DEFINE {{ query_name 'q'; }} {query}")], links).queries[0].logical


def drawn(seed: int) -> list[Record]:
    """Records in order of arrival; seq rises and falls back by up to 12, down the other way."""
    chance, found = random.Random(seed), []
    for link in LINKS:
        clock, seq = 0, 100
        for _ in range(60):
            clock += chance.choice((0, 1, 2, 9))
            seq += chance.randrange(4)
            late = chance.choice((0, 0, 3, 7, 8, 12))
            columns = {"seq": seq - late, "down": 500 - seq + late, "v": chance.randrange(2)}
            found.append((clock * SECOND, link, columns | {"timestamp": clock * SECOND, "time": clock}))
    return sorted(found, key=lambda each: each[:2])


def replay(
    node: Node, records: list[Record], cuts: tuple[int, ...] = (), experiment: Experiment | None = None
) -> list[ReferenceResult]:
    found: list[ReferenceResult] = []
    for start, end in pairwise((0, *cuts, END_OF_TIME)):
        batches = {
            link: [pa.RecordBatch.from_pylist([_stored(r) | {"arrival": a} for a, name, r in records if name == link])]
            for link in LINKS
        }
        disorder = dict.fromkeys(LINKS, Disorder(0, SLACK))
        state, over = found[-1].state if found else None, max(a for a, _, _ in records) + 1
        read = read_from(node, start)
        found.append(
            evaluate(node, batches, disorder, start, end, read, SECOND, state=state, over=over, experiment=experiment)
        )
    return found


def _stored(record: dict[str, int]) -> dict[str, int]:
    return {name if name == "timestamp" else f"int:{name}": value for name, value in record.items()}


def admitted(records: list[Record], sign: int, column: str, slack: int) -> tuple[list[Record], list[tuple[int, int]]]:
    """The records that are not late in an attribute; after each arrival, what all links promise of it."""
    highest: dict[str, int] = {}
    found = []
    for each in records:
        value = sign * each[2][column]
        highest[each[1]] = max(value, highest.get(each[1], value))
        promise = min(highest.values()) - slack if len(highest) == len(LINKS) else -1000
        found.append((each, promise, highest[each[1]] - value <= slack))
    return [each for each, _, good in found if good], [(each[0], promise) for each, promise, _ in found]


def last(promises: list[tuple[int, int]], value: int) -> int:
    """The arrival of the record after which no record has the value or a lower one."""
    return next((arrival for arrival, promise in promises if promise > value), promises[-1][0])


@pytest.mark.slow
@pytest.mark.parametrize("seed", some(range(8), 3))
@pytest.mark.parametrize("cuts", [(), (70 * SECOND,), (30 * SECOND + 1, 31 * SECOND, 150 * SECOND)])
@pytest.mark.parametrize(("column", "sign"), [("seq", 1), ("down", -1)])
def test_groups_of_an_attribute_close_by_the_largest_value_seen(
    seed: int, cuts: tuple[int, ...], column: str, sign: int
) -> None:
    records = drawn(seed)
    node = plan(f"SELECT sb, v, count(*) AS n FROM [a, b].P GROUP BY {column}/10 AS sb, v")
    kept, promises = admitted(records, sign, column, SLACK[f"P.{column}"])
    counts = Counter((each[2][column] // 10, each[2]["v"]) for each in kept)
    ends = {key: key[0] * 10 + 9 if sign > 0 else -key[0] * 10 for key in counts}
    expected = Counter((*key, n, last(promises, ends[key])) for key, n in counts.items())
    found = replay(node, records, cuts)
    assert Counter((*row, at) for each in found for row, at in zip(each.rows, each.lasts, strict=True)) == expected
    assert all(start <= at for each, start in zip(found, (0, *cuts), strict=True) for at in each.lasts)


@pytest.mark.slow
@pytest.mark.parametrize("cuts", [(), (40 * SECOND,), (30 * SECOND + 1, 31 * SECOND, 150 * SECOND)])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT A.seq, B.v AS vb LEFT_OUTER_JOIN FROM a.P A, b.P B WHERE A.seq = B.seq AND A.v = B.v",
        "SELECT A.seq, B.seq AS sb OUTER_JOIN FROM a.P A, b.P B "
        "WHERE A.seq - 1 <= B.seq AND B.seq <= A.seq + 2 AND A.v = B.v",
        "SELECT r.seq, r.v FILTER_JOIN(seq, 2) FROM a.P r, a.P s WHERE r.v = s.v AND s.time/2*2 = s.time",
        "SELECT sb, v, count(*), running_sum(seq) FROM a.P GROUP BY seq/10 AS sb, v CLOSING_WHEN count(*) = 0",
        "SELECT sb, tb, count(*) FROM [a, b].P GROUP BY seq/10 AS sb, time/30 AS tb",
    ],
)
def test_intervals_of_other_attributes_follow_one_another(query: str, cuts: tuple[int, ...]) -> None:
    seen = 0
    for seed in range(6):
        records, node = drawn(seed), plan(query)
        (whole,) = replay(node, records)
        found = replay(node, records, cuts)
        assert Counter((row, at) for each in found for row, at in zip(each.rows, each.lasts, strict=True)) == Counter(
            zip(whole.rows, whole.lasts, strict=True)
        )
        seen += len(whole.rows)
    assert seen


def test_windows_of_rows_end_with_the_arrival_of_their_last_row() -> None:
    text = "SELECT wid, count(*) AS n FROM [a, b].TCP [RANGE 4 ROWS, SLIDE 2 ROWS]"
    node = plan_texts([("q.gsql", text)], Links(LINKS)).queries[0].logical
    tcp = {"protocol": 6, "flags": 2}
    # The third record of `a` is late, the second is no TCP: both have a number.
    links = {
        "a": Link(SECOND, [record(0, 5 * SECOND, **tcp), record(1, 9 * SECOND), record(2, 7 * SECOND, **tcp)]),
        "b": Link(0, [record(0, 6 * SECOND, **tcp), record(1, 9 * SECOND, **tcp), record(2, 12 * SECOND, **tcp)]),
    }
    packets = {name: link.batches() for name, link in links.items()}
    found = evaluate(node, packets, {"a": SECOND, "b": 0}, 0, END_OF_TIME, read_from(node, 0), SECOND)
    # In order of arrival: a5 b6 a9 a9(late) b9 b12; the window that begins with the fourth waits until the end.
    assert list(zip(found.rows, found.lasts, strict=True)) == [
        ((-1, 2), 6 * SECOND), ((0, 2), 9 * SECOND), ((1, 2), 12 * SECOND), ((2, 2), 12 * SECOND),
    ]  # fmt: skip
