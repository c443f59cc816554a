"""The execution model (003): the rows of the reference engine under any schedule and policy, and its laws."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from experiments.execution import (
    FREE,
    DepthFirst,
    Execution,
    Node as Operator,
    Punctuate,
    RoundRobin,
    Schedule,
    Setup,
    Source,
    Stamps,
    System,
    execute,
)
from lowwater.errors import ConfigError
from tests.breadth import examples
from tests.experiments.executions import LINKS, SECOND, AnyOrder, Case, case, check, listed, planned, rows_of, setup
from tests.plan.batch_join_questions import CHAINS
from tests.plan.batch_plans import plans_of
from tests.plan.batch_pools import CONTEXT, KNOWN
from tests.plan.batch_questions import FAMILIES, Question
from tests.plan.batch_worlds import world
from tests.reference.feeds import arriving, batches
from tests.reference.streams import UNIT, Link, record

SEEDS = st.integers(0, 1 << 30)
IN_TIME = (Stamps.INTERNAL, Stamps.EXTERNAL)


@pytest.fixture(autouse=True)
def watch_list() -> Iterator[None]:
    with listed():
        yield


@pytest.mark.slow
@given(SEEDS)
def test_rows_are_those_of_the_reference_engine(number: int) -> None:
    check(case(number))


EVERY = {**FAMILIES, **CHAINS}


@pytest.mark.slow
@pytest.mark.parametrize("family", EVERY)
@pytest.mark.hypothesis
def test_rows_of_random_queries_are_those_of_the_reference_engine(family: str) -> None:
    seen: list[int] = []
    refused: list[str] = []

    @settings(max_examples=examples(10))
    @given(EVERY[family](), SEEDS, st.sampled_from(IN_TIME))
    def run(question: Question, number: int, stamps: Stamps) -> None:
        for plans in plans_of(question.text, KNOWN, CONTEXT):
            made = arriving(world(number % (1 << 20), plans.links, catalog=CONTEXT.catalog))
            packets = {link: batches(found) for link, found in made.links.items()}
            chance = Random(number)
            skews = {link: chance.choice((0, SECOND // 2, 9 * SECOND)) for link in made.links}
            try:
                seen.append(len(check(Case(family, plans.logical, packets, skews, setup(chance, stamps))).rows))
            except ConfigError as error:
                refused.append(error.message)

    run()
    assert any(seen) or all(text.startswith("the execution model does not run windows of rows") for text in refused)


class Watched(Schedule):
    """Another schedule; whenever that has nothing to do, looks at the operators that wait."""

    def __init__(self, of: Schedule) -> None:
        self._of, self.looks, self.waits = of, 0, list[str]()

    def next(self, system: System) -> Operator | None:
        found = self._of.next(system)
        if found is None:
            self.looks += 1
            now: int = system.now  # type: ignore[attr-defined]
            for node in system.graph.nodes:
                if node.idle_waiting and not any(holds_back(node, source, now) for source in below(node)):
                    self.waits.append(f"{node.name} at {now}")
        return found


def below(node: Operator) -> Iterator[Source]:
    """The sources that could fill the empty inputs of an operator."""
    for arc, before in zip(node.inputs, node.predecessors, strict=True):
        if not arc.messages:
            if isinstance(before, Source):
                yield before
            else:
                yield from below(before)


def holds_back(node: Operator, source: Source, now: int) -> bool:
    """Whether a source cannot promise yet what the first waiting tuple needs."""
    first = min(stamp for each in node.inputs if (stamp := each.first_tuple()) is not None)
    return source.enabling(now) < first


def watched(drawn: Case, inner: Schedule) -> tuple[Execution, Watched]:
    watch = Watched(inner)
    found = execute(drawn.plan, drawn.packets, drawn.skews, replace(drawn.setup, schedule=lambda: watch))
    return found, watch


@pytest.mark.slow
@given(SEEDS, st.sampled_from(IN_TIME), st.booleans(), st.sampled_from((DepthFirst, RoundRobin)))
def test_on_demand_no_operator_waits_while_its_row_could_leave(
    number: int, stamps: Stamps, free: bool, schedule: type[Schedule]
) -> None:
    drawn = case(number)
    given_ = Setup(stamps, Punctuate.ON_DEMAND, costs=FREE) if free else Setup(stamps, Punctuate.ON_DEMAND)
    _, watch = watched(replace(drawn, setup=given_), schedule())
    assert watch.waits == []


def links_of(stamps: Mapping[str, list[int]], **values: int) -> dict[str, list]:
    """Links of in-order packets at some units of time."""
    found = {}
    for name in LINKS:
        rows = [record(at, stamp * UNIT, protocol=6, **values) for at, stamp in enumerate(stamps.get(name, []))]
        found[name] = Link(0, rows).batches()
    return found


def small(text: str, stamps: Mapping[str, list[int]], given_: Setup) -> Case:
    return Case("small", planned(text), links_of(stamps), dict.fromkeys(LINKS, 0), given_)


def run(text: str, stamps: Mapping[str, list[int]], given_: Setup) -> Execution:
    return check(small(text, stamps, given_))


NAMED = "DEFINE{{query_name '{0}'; visibility 'internal';}} SELECT timestamp AS t, id AS n FROM {1}.ETH;\n"
TWO = NAMED.format("a", "main1") + NAMED.format("b", "main2") + "DEFINE{query_name 'q';} MERGE a.t : b.t FROM a, b"
NONE = Setup(punctuate=Punctuate.NONE, costs=FREE)
ON_DEMAND = Setup(costs=FREE)


def left(found: Execution) -> list[int]:
    """When each row left, in units of time."""
    return [at // UNIT for at in found.left]


def test_a_tuple_waits_for_the_other_input_without_punctuation_and_never_on_demand() -> None:
    stamps = {"main1": [100, 110, 120], "main2": [90, 130]}
    waiting, enabled = run(TWO, stamps, NONE), run(TWO, stamps, ON_DEMAND)
    assert left(waiting) == [100, 130, 130, 130, 130]
    assert left(enabled) == [90, 100, 110, 120, 130]
    # That of 90 asks main1; those of 100 to 120 ask main2; that of 130 asks main1.
    assert enabled.made == {"main1": 2, "main2": 3}
    assert set(waiting.idle) == {"q/Union/4"} and waiting.idle["q/Union/4"] == 1.0 and enabled.idle["q/Union/4"] == 0


@pytest.mark.parametrize("schedule", [DepthFirst, RoundRobin, lambda: AnyOrder(Random(1))])
def test_the_clock_does_not_matter_for_rows_and_only_late_tuples_wait_for_it(schedule: type[Schedule]) -> None:
    stamps = {"main1": [100, 110, 120], "main2": [90, 130]}
    found = run(TWO, stamps, Setup(schedule=schedule))
    # Three steps for a tuple of either link, and a timestamp on demand beside it: microseconds.
    assert all(10_000 < latency < 60_000 for latency in found.latencies)


@pytest.mark.slow
@settings(max_examples=examples(25))
@given(SEEDS)
def test_on_demand_makes_no_more_punctuation_than_periods_that_are_as_early(number: int) -> None:
    """Whatever period lets every row go as early on a grid of instants, it makes as many on each link or more."""
    chance = Random(number)
    stamps = {
        name: sorted(100 + chance.randrange(40) * chance.choice((1, 2, 5)) for _ in range(chance.randrange(1, 12)))
        for name in ("main1", "main2")
    }
    demanded = run(TWO, stamps, ON_DEMAND)
    for period in (60, 20, 10, 5, 2, 1):
        periods = {"main1": period * UNIT, "main2": period * UNIT}
        found = run(TWO, stamps, Setup(punctuate=Punctuate.PERIODIC, periods=periods, costs=FREE))
        assert rows_of(found) == rows_of(demanded)
        early = earliest(found)
        assert all(early[row] >= at for row, at in earliest(demanded).items())
        if early == earliest(demanded):
            assert all(demanded.made[link] <= found.made[link] for link in demanded.made)
    # At every instant of the grid: rows go as early, so that something was compared.
    assert early == earliest(demanded)


def earliest(found: Execution) -> dict[tuple[object, int], int]:
    """When each row left; equal ones are numbered in that order."""
    seen: dict[tuple[object, int], int] = {}
    for row, at in sorted(zip(found.rows, found.left, strict=True), key=repr):
        number = sum(known == row for known, _ in seen)
        seen[row, number] = at
    return seen
