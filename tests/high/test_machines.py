"""Operators with Python state without Spark: rows in any order, promises, states pickled between any two calls."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowwater.catalog.expr import Column, Type
from lowwater.errors import LowwaterError, ValueOverflowError
from lowwater.high.accumulate import Accumulators, arguments
from lowwater.high.python_group import GroupMachine
from lowwater.high.running import Chain, RunningMachine
from lowwater.high.sampling import SamplingMachine
from lowwater.plan.cuts import in_python
from lowwater.plan.nodes import Aggregate, Aggregation, Group, Node, Running, Sampling
from lowwater.plan.ordering import order_dependent
from lowwater.plan.queryset import plan_texts
from lowwater.plan.temporal import END_OF_TIME
from lowwater.plan.tree import walk
from tests.plan.batch import Batch, last_of
from tests.plan.batch_pools import CONTEXT, KNOWN, LINKS
from tests.plan.batch_questions import FAMILIES, Question
from tests.plan.batch_rows import World, rounded
from tests.plan.batch_values import compiled, condition
from tests.plan.batch_worlds import BASE, SECOND, world
from tests.reference.feeds import arriving, owned_rows, whole

Rows = Counter[tuple[Any, ...]]


def aggregation(question: Question) -> Aggregation | None:
    """The aggregation of a question whose state is Python."""
    plan = plan_texts([("q.gsql", question.text)], KNOWN, 1, CONTEXT).queries[-1].high
    found = [node for node in walk(plan) if isinstance(node, Running) or (isinstance(node, Group) and in_python(node))]
    return found[0] if found and found[0].query == "q" else None  # type: ignore[return-value]


def machine_of(node: Aggregation, end: int, latest: int | None, held: Path | None, kept: Path | None) -> Any:
    accumulators = Accumulators(node.query, node.aggregates)
    kinds = tuple(key.expr.type for key in node.keys)
    if not isinstance(node, Running):
        return GroupMachine(accumulators, kinds, order_dependent(node), packets=True)
    names = (*(key.name for key in node.keys), *(a.name for a in node.aggregates))
    times = tuple(f.temporal for f in node.key_fields)
    return RunningMachine("q", accumulators, kinds, times, names, node.closing, end, latest, held, kept)


def machine_rows(node: Aggregation, made: World) -> list[tuple[Any, ...]]:
    """The input as the machine reads it, in canonical order."""
    keep, keys = condition(node.predicate), [compiled(key.expr) for key in node.keys]
    given = [compiled(expr) for aggregate in node.aggregates for expr in arguments(aggregate)]
    found = []
    for row in Batch(made).ordered(node):
        if keep(row.values):
            values = [key(row.values) for key in keys]
            end = last_of(node.key_fields, values)
            found.append(
                (0, None, row.last, dict(enumerate(row.order)), end, *values, *(each(row.values) for each in given))
            )
    return found


def played(machine: Any, rows: list[tuple[Any, ...]], chance: Random) -> list[tuple[Any, ...]]:
    """What a machine makes of rows that come in disorder, with the promises that this allows."""
    state, out = machine.begin(), []
    rest = sorted(rows, key=lambda row: row[2] + chance.randrange(8 * SECOND))
    while rest:
        size = chance.randint(1, 30)
        now, rest = rest[:size], rest[size:]
        machine.take(state, now)
        state = pickle.loads(pickle.dumps(state))
        out += machine.advance(state, min((row[2] for row in rest), default=0))
    return out + list(machine.advance(state, END_OF_TIME))


def shown(node: Aggregation, found: list[tuple[Any, ...]]) -> Rows:
    """HAVING and the select items over the groups of a machine, with their last instants."""
    names = [*(key.name for key in node.keys), *(a.name for a in node.aggregates)]
    having, items = condition(node.having), [compiled(item.expr) for item in node.items]
    rows: Rows = Counter()
    for *values, last, _ in found:
        env = dict(zip(names, values, strict=True))
        if having(env):
            rows[tuple(rounded(value) for value in (*(item(env) for item in items), last))] += 1
    return rows


def expected(node: Node, made: World) -> Rows:
    rows = Batch(made).rows(node)
    names = [f.name for f in node.fields]
    return Counter(tuple(rounded(v) for v in (*(row.values[name] for name in names), row.last)) for row in rows)


@pytest.mark.parametrize("family", ["aggregations", "windows", "cubes", "runnings"])
def test_groups_are_those_of_the_batch_evaluation(family: str) -> None:
    seen = 0

    @given(FAMILIES[family](), st.integers(0, 1 << 20))
    def check(question: Question, seed: int) -> None:
        nonlocal seen
        node = aggregation(question)
        if node is not None:
            made = world(seed, LINKS, catalog=CONTEXT.catalog)
            machine = machine_of(node, END_OF_TIME, made.latest, None, None)
            assert shown(node, played(machine, machine_rows(node, made), Random(seed))) == expected(node, made)
            seen += 1

    check()
    assert seen


@pytest.mark.slow
def test_a_state_goes_from_interval_to_interval(tmp_path: Path) -> None:
    seen = 0

    @settings(max_examples=40)
    @given(FAMILIES["runnings"](), st.integers(0, 1 << 20), st.sampled_from((3, 10, 17, 200)))
    def check(question: Question, seed: int, length: int) -> None:
        nonlocal seen
        node = aggregation(question)
        assert node is not None
        made = world(seed, LINKS, catalog=CONTEXT.catalog)
        rows, found, held = machine_rows(node, made), [], None
        stamps = [packet.timestamp for packets in made.links.values() for packet in packets]
        size = length * SECOND
        for number in range(min(stamps) // size, max(stamps) // size + 60):
            kept = tmp_path / f"{number}.state"
            machine = machine_of(node, (number + 1) * size, made.latest, held, kept)
            mine = [row for row in rows if number * size <= row[2] < (number + 1) * size]
            found += played(machine, mine, Random(seed))
            held = kept
        assert shown(node, found) == expected(node, made)
        seen += len(found)

    check()
    assert seen


def test_the_sampling_operator_is_that_of_the_reference_engine_whole_and_in_intervals(tmp_path: Path) -> None:
    seen = 0

    @given(FAMILIES["samplings"](), st.integers(0, 1 << 20), st.sampled_from((3, 10, 17, 200)))
    def check(question: Question, seed: int, length: int) -> None:
        nonlocal seen
        plan = plan_texts([("q.gsql", question.text)], KNOWN, 1, CONTEXT).queries[-1]
        made = arriving(world(seed, LINKS, catalog=CONTEXT.catalog))
        node = next(each for each in walk(plan.high) if isinstance(each, Sampling))
        names = [f.name for f in node.input.fields]
        rows = [
            (0, None, row.last, dict(enumerate(row.order)), *(row.values[name] for name in names))
            for row in Batch(made).ordered(node)
        ]
        wanted = owned_rows(whole(plan.logical, made))
        assert ended(played(SamplingMachine(node, END_OF_TIME, None, None), rows, Random(seed))) == wanted
        found, held, size = [], None, length * SECOND
        for number in range(BASE // size, made.latest // size + 60):
            kept = tmp_path / f"{number}.state"
            machine = SamplingMachine(node, (number + 1) * size, held, kept)
            found += played(machine, [row for row in rows if row[2] // size == number], Random(seed))
            held = kept
        assert ended(found) == wanted
        seen += len(found)

    check()
    assert seen


def ended(found: list[tuple[Any, ...]]) -> Rows:
    """Rows of a machine, `_last` first, as `owned_rows` gives those of the reference engine."""
    return Counter((last, *(rounded(value) for value in values)) for *values, last in found)


def test_groups_that_nothing_closes_are_an_error() -> None:
    text = "SELECT tb, running_sum(len) FROM main1.ETH GROUP BY time AS tb CLOSING_WHEN count(*) > 1000000"
    node = aggregation(Question(text))
    assert isinstance(node, Running)
    made = replace(world(3, ("main1",)), end=0)
    later = made.latest + 1002 * SECOND
    machine = machine_of(node, END_OF_TIME, later, None, None)
    with pytest.raises(LowwaterError, match="groups stay open over more than 1,000 epochs without rows"):
        played(machine, machine_rows(node, made), Random(1))


def test_the_state_of_closing_when_is_exact_text(tmp_path: Path) -> None:
    text = "SELECT tb, running_sum(len) FROM main1.ETH GROUP BY time AS tb CLOSING_WHEN count(*) > 1000000"
    node = aggregation(Question(text))
    assert isinstance(node, Running)
    values = [None, True, -0.0, float("inf"), float("-inf"), 0.1, 1 << 70, -(1 << 63), b"\x04\x0a\0\0\1", "\ud800é"]
    kept = [(*values, float("nan")), {3, 1}, {b"k": [1, 2.5]}]
    made = Chain({(5,): [(0, None, 7, (1, b"x"), *values)]}, {(b"\x04", "NaN", -0.0): kept}, (4,), 3)
    file = tmp_path / "one.state"
    machine_of(node, 100, None, None, file)._leave(made, file)
    assert json.loads(file.read_text()), "text that any reader of JSON reads"
    found = machine_of(node, 200, None, file, None).begin()
    assert repr(found) == repr(made) and isinstance(found, Chain)


def test_rows_that_wait_are_left_as_text_however_spark_gives_them(tmp_path: Path) -> None:
    node = aggregation(Question("SELECT tb, sum(len) FROM main1.ETH GROUP BY time AS tb CLOSING_WHEN count(*) = 0"))
    assert isinstance(node, Running)
    file = tmp_path / "one.state"
    machine, state = machine_of(node, 100, None, None, file), Chain()
    machine.take(state, [(0, datetime(1970, 1, 28, tzinfo=UTC), 7, {"_last": 7, "_place": b"x"}, None, 5, 60)])
    machine._leave(state, file)
    (waiting,) = machine_of(node, 200, None, file, None).begin().waiting.values()
    assert waiting == [(0, None, 7, (7, b"x"), None, 5, 60)]


def test_a_pickle_is_not_loaded_as_a_state(tmp_path: Path) -> None:
    text = "SELECT tb, running_sum(len) FROM main1.ETH GROUP BY time AS tb CLOSING_WHEN count(*) > 1000000"
    node = aggregation(Question(text))
    assert isinstance(node, Running)
    file = tmp_path / "one.state"
    file.write_bytes(pickle.dumps(Chain(), 0))  # protocol 0 is text
    with pytest.raises(LowwaterError, match="a state cannot be read"):
        machine_of(node, 200, None, file, None).begin()


def test_a_sum_that_does_not_fit_is_an_error() -> None:
    accumulators = Accumulators("q", [Aggregate("s", "sum", Column(Type.INT, "x"), Type.INT)])
    states = accumulators.begin()
    for _ in range(2):
        accumulators.add(states, [(1 << 63) - 1])
    with pytest.raises(ValueOverflowError, match="query q: the sum s does not fit 64 bits"):
        accumulators.results(states)
