"""Operators of slices that take rows one by one: epochs and samples from slice to slice and interval to interval."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings, strategies as st

from lowwater.catalog.schemas import LAST, STREAM_TYPES
from lowwater.columns.files import PLACE
from lowwater.columns.values import Frame
from lowwater.errors import LowwaterError
from lowwater.high.operators import ChainedOperator, StateHandover, StoredState, grouped_in_python, state_file
from lowwater.plan.operators import Aggregation, Field, Group, Node, Running, Sampling, walk
from lowwater.plan.queryset import plan_texts
from lowwater.plan.temporal import END_OF_TIME
from tests.breadth import examples
from tests.plan.batch import Batch
from tests.plan.batch_pools import CONTEXT, KNOWN, LINKS
from tests.plan.batch_questions import FAMILIES, Question
from tests.plan.batch_rows import World, rounded
from tests.plan.batch_values import compiled, condition
from tests.plan.batch_worlds import BASE, SECOND, world
from tests.reference.feeds import arriving, owned_rows, whole

Rows = Counter[tuple[Any, ...]]
Input = tuple[tuple[Any, ...], int, int]
"""A row of an operator's input: its fields, `_last`, its rank in canonical order."""


def aggregation(question: Question) -> Aggregation | None:
    """The aggregation of a question that takes its rows one by one."""
    plan = plan_texts([("q.gsql", question.text)], KNOWN, 1, CONTEXT).queries[-1].high
    found = [node for node in walk(plan) if isinstance(node, Running) or (isinstance(node, Group) and node.in_python)]
    return found[0] if found and found[0].query == "q" else None  # type: ignore[return-value]


def inputs(node: Aggregation, made: World) -> list[Input]:
    """What an aggregation reads, in canonical order; a Running only what it admits."""
    keep = (lambda values: True) if isinstance(node, Sampling) else condition(node.predicate)
    rows = [row for row in Batch(made).ordered(node) if keep(row.values)]
    names = [f.name for f in node.input.fields]
    return [(tuple(row.values[name] for name in names), row.last, at) for at, row in enumerate(rows)]


def frame_of(fields: Sequence[Field], rows: Sequence[Input]) -> Frame:
    columns = {f.name: pa.array([row[0][at] for row in rows], STREAM_TYPES[f.type]) for at, f in enumerate(fields)}
    columns |= {name: pa.array([row[at] for row in rows], pa.int64()) for at, name in ((1, LAST), (2, PLACE))}
    return Frame(columns, len(rows))


def rows_of(frame: Frame, names: Sequence[str]) -> list[tuple[Any, ...]]:
    return list(zip(*(frame[name].to_pylist() for name in (*names, LAST)), strict=True))


def played(
    node: Running | Sampling, carry: StateHandover, rows: Sequence[Input], chance: Random
) -> tuple[list[tuple[Any, ...]], StoredState]:
    """What an operator makes of rows that come in disorder, with the promises that this allows: fields, `_last`; and
    what it leaves."""
    chain, names = ChainedOperator(node, carry), [f.name for f in node.fields]
    out: list[tuple[Any, ...]] = []
    rest = sorted(rows, key=lambda row: row[1] + chance.randrange(8 * SECOND))
    while rest:
        size = chance.randint(1, 30)
        now, rest = rest[:size], rest[size:]
        assert chain.take(frame_of(node.input.fields, now)) == len(now)
        out += rows_of(chain.advance(min((row[1] for row in rest), default=0))[0], names)
    out += rows_of(chain.advance(END_OF_TIME)[0], names)
    return out, StoredState({state_file(node.query): chain.state()})


def grouped(node: Group, rows: list[Input], chance: Random) -> Rows:
    """HAVING and the select items over the groups, of blocks of rows in disorder, with their last instants."""
    chance.shuffle(rows)
    cuts = sorted(chance.randint(0, len(rows)) for _ in range(3))
    edges = zip([0, *cuts], [*cuts, len(rows)], strict=True)
    blocks = [frame_of(node.input.fields, rows[begin:end]) for begin, end in edges]
    names = [*(key.name for key in node.keys), *(a.name for a in node.aggregates)]
    having, items = condition(node.having), [compiled(item.expr) for item in node.items]
    found: Rows = Counter()
    with TemporaryDirectory() as folder:
        for frame in grouped_in_python(node, blocks, (-END_OF_TIME, END_OF_TIME), Path(folder) / "spill"):
            for *values, last in rows_of(frame, names):
                env = dict(zip(names, values, strict=True))
                if having(env):
                    found[tuple(rounded(value) for value in (*(item(env) for item in items), last))] += 1
    return found


def expected(node: Node, made: World) -> Rows:
    rows = Batch(made).rows(node)
    names = [f.name for f in node.fields]
    return Counter(tuple(rounded(v) for v in (*(row.values[name] for name in names), row.last)) for row in rows)


def counted(found: Sequence[tuple[Any, ...]]) -> Rows:
    return Counter(tuple(rounded(value) for value in row) for row in found)


def ended(found: Sequence[tuple[Any, ...]]) -> Rows:
    """Rows of an operator, `_last` first, as `owned_rows` gives those of the reference engine."""
    return Counter((last, *(rounded(value) for value in values)) for *values, last in found)


@pytest.mark.slow
@pytest.mark.parametrize("most", [7, 1 << 22])
@pytest.mark.parametrize("family", ["aggregations", "windows", "cubes", "runnings"])
@pytest.mark.hypothesis
def test_groups_are_those_of_the_batch_evaluation(family: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lowwater.columns.values.ROWS_IN_MEMORY", most)

    @given(FAMILIES[family](), st.integers(0, 1 << 20))
    def check(question: Question, seed: int) -> None:
        node = aggregation(question)
        assume(node is not None)
        made = world(seed, LINKS, catalog=CONTEXT.catalog)
        rows, chance = inputs(node, made), Random(seed)
        if isinstance(node, Running):
            found = counted(played(node, StateHandover(latest=made.latest), rows, chance)[0])
        else:
            assert isinstance(node, Group)
            found = grouped(node, rows, chance)
        assert found == expected(node, made)

    check()


@pytest.mark.slow
@pytest.mark.hypothesis
def test_a_state_goes_from_interval_to_interval() -> None:
    seen = 0

    @settings(max_examples=examples(40))
    @given(FAMILIES["runnings"](), st.integers(0, 1 << 20), st.sampled_from((3, 10, 17, 200)))
    def check(question: Question, seed: int, length: int) -> None:
        nonlocal seen
        node = aggregation(question)
        assert isinstance(node, Running)
        made = world(seed, LINKS, catalog=CONTEXT.catalog)
        stamps = [packet.timestamp for packets in made.links.values() for packet in packets]
        size = length * SECOND
        numbers = range(min(stamps) // size, max(stamps) // size + 60)
        found = _by_intervals(node, inputs(node, made), numbers, size, made.latest, Random(seed))
        assert counted(found) == expected(node, made)
        seen += len(found)

    check()
    assert seen


def _by_intervals(
    node: Running | Sampling, rows: Sequence[Input], numbers: range, size: int, latest: int, chance: Random
) -> list[tuple[Any, ...]]:
    """Rows of intervals of `size` ns that follow one another, each with the state that the one before left."""
    found: list[tuple[Any, ...]] = []
    held = None
    for number in numbers:
        carry = StateHandover(number * size, (number + 1) * size, latest, 0, held)
        given, held = played(node, carry, [row for row in rows if row[1] // size == number], chance)
        found += given
    return found


@pytest.mark.slow
@pytest.mark.hypothesis
def test_the_sampling_operator_is_that_of_the_reference_engine_whole_and_in_intervals() -> None:
    seen = 0

    @given(FAMILIES["samplings"](), st.integers(0, 1 << 20), st.sampled_from((3, 10, 17, 200)))
    def check(question: Question, seed: int, length: int) -> None:
        nonlocal seen
        plan = plan_texts([("q.gsql", question.text)], KNOWN, 1, CONTEXT).queries[-1]
        made = arriving(world(seed, LINKS, catalog=CONTEXT.catalog))
        node = next(each for each in walk(plan.high) if isinstance(each, Sampling))
        rows = inputs(node, made)
        wanted = owned_rows(whole(plan.logical, made))
        assert ended(played(node, StateHandover(), rows, Random(seed))[0]) == wanted
        size = length * SECOND
        numbers = range(BASE // size, made.latest // size + 60)
        found = _by_intervals(node, rows, numbers, size, made.latest, Random(seed))
        assert ended(found) == wanted
        seen += len(found)

    check()
    assert seen


GROWING = "SELECT tb, running_sum(len) FROM main1.ETH GROUP BY time AS tb CLOSING_WHEN count(*) > 1000000"


def growing() -> Running:
    node = aggregation(Question(GROWING))
    assert isinstance(node, Running)
    return node


def second(node: Running) -> tuple[Any, ...]:
    """A row of second 5."""
    return tuple(5 if f.temporal else 60 for f in node.input.fields)


def test_groups_that_nothing_closes_are_an_error() -> None:
    made = replace(world(3, ("main1",)), end=0)
    carry = StateHandover(latest=made.latest + 1002 * SECOND)
    with pytest.raises(LowwaterError, match="groups stay open over more than 1,000 epochs without rows"):
        played(growing(), carry, inputs(growing(), made), Random(1))


def test_a_state_is_text_and_a_pickle_is_not_loaded_as_one() -> None:
    node = growing()
    row = second(node)
    chain = ChainedOperator(node, StateHandover(0, 6 * SECOND))
    chain.take(frame_of(node.input.fields, [(row, 5 * SECOND, 0)]))
    chain.advance(END_OF_TIME)
    assert json.loads(chain.state()), "text that any reader of JSON reads"
    for content, text in ((chain.state(), True), (pickle.dumps([1], 0), False)):  # protocol 0 is text
        carry = StateHandover(6 * SECOND, 9 * SECOND, earlier=StoredState({state_file(node.query): content}, "s/q"))
        if text:
            assert ChainedOperator(node, carry).held == 1
        else:
            with pytest.raises(LowwaterError, match=r"s/q/\w+\.state: a state cannot be read") as caught:
                ChainedOperator(node, carry)
            assert caught.value.hint == "remove the folder s/q, and `lowwater backfill` makes it again"
