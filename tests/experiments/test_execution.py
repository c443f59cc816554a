"""The execution model (003): the rows of the reference engine under any schedule and policy, and its laws."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.execution import (
    FREE,
    DepthFirst,
    Execution,
    Punctuate,
    RoundRobin,
    Schedule,
    Setup,
    Source,
    Stamps,
    System,
    build,
    execute,
)
from experiments.execution import Node as Operator
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


@given(SEEDS, st.sampled_from(IN_TIME), st.booleans(), st.sampled_from((DepthFirst, RoundRobin)))
def test_on_demand_no_operator_waits_while_its_row_could_leave(
    number: int, stamps: Stamps, free: bool, schedule: type[Schedule]
) -> None:
    drawn = case(number)
    given_ = Setup(stamps, Punctuate.ON_DEMAND, costs=FREE) if free else Setup(stamps, Punctuate.ON_DEMAND)
    _, watch = watched(replace(drawn, setup=given_), schedule())
    assert watch.waits == []


def test_the_watch_sees_an_operator_that_waits_in_vain() -> None:
    none = replace(UNION, setup=Setup(punctuate=Punctuate.NONE))
    assert watched(none, DepthFirst())[1].waits
    with_ets = watched(replace(none, setup=Setup()), DepthFirst())[1]
    assert with_ets.looks and not with_ets.waits


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
UNION = small(TWO, {"main1": [100, 110, 120], "main2": [90, 130]}, ON_DEMAND)


def left(found: Execution) -> list[int]:
    """When each row left, in units of time."""
    return [at // UNIT for at in found.left]


def test_simultaneous_tuples_leave_together() -> None:
    """Section 4.1: without the registers the tuples of one input would wait when those of the other are gone."""
    found = run(TWO, {"main1": [100, 110, 110, 110, 300], "main2": [100, 110, 300]}, NONE)
    assert left(found) == [100] * 2 + [110] * 4 + [300] * 2


def test_a_tuple_that_comes_when_its_simultaneous_ones_are_gone_does_not_wait() -> None:
    seen = run(TWO, {"main1": [100, 110], "main2": [110, 110, 110, 400]}, NONE)
    assert left(seen)[:5] == [110] * 5


def test_a_tuple_waits_for_the_other_input_without_punctuation_and_never_on_demand() -> None:
    stamps = {"main1": [100, 110, 120], "main2": [90, 130]}
    waiting, enabled = run(TWO, stamps, NONE), run(TWO, stamps, ON_DEMAND)
    assert left(waiting) == [100, 130, 130, 130, 130]
    assert left(enabled) == [90, 100, 110, 120, 130]
    # That of 90 asks main1; those of 100 to 120 ask main2; that of 130 asks main1.
    assert enabled.made == {"main1": 2, "main2": 3}
    assert set(waiting.idle) == {"q/Union/4"} and waiting.idle["q/Union/4"] == 1.0 and enabled.idle["q/Union/4"] == 0


def test_periodic_punctuation_lets_tuples_go_at_its_instants() -> None:
    given_ = Setup(punctuate=Punctuate.PERIODIC, periods={"main2": 15 * UNIT}, costs=FREE)
    found = run(TWO, {"main1": [100, 110, 120], "main2": [90, 150]}, given_)
    # From 90 on: 105, 120, 135, 150. That of 120 goes with the punctuation of its instant; the last ones at the end.
    assert left(found) == [100, 105, 120, 120, 150]
    assert found.made == {"main1": 0, "main2": 5}
    timed = run(TWO, {"main1": [100, 110, 120], "main2": [90, 150]}, replace(given_, timer=40 * UNIT))
    assert left(timed) == [100, 120, 120, 120, 150]
    # Those of 90, 105 and 120 are made at 120; the tick after that is behind the end.
    assert timed.made == {"main1": 0, "main2": 3}


JOINED = (
    NAMED.format("a", "main1")
    + NAMED.format("b", "main2")
    + NAMED.format("c", "control")
    + "DEFINE{query_name 'j'; visibility 'internal';} SELECT A.t AS t, A.n AS n INNER_JOIN FROM a A, b B "
    "WHERE A.t = B.t AND A.n = B.n + 1000;\n"
    "DEFINE{query_name 'q';} MERGE j.t : c.t FROM j, c"
)


def test_a_join_that_makes_no_row_makes_a_punctuation() -> None:
    """Section 4.2: for the IWP operators above."""
    found = run(JOINED, {"main1": [100, 120], "main2": [100, 110, 120], "control": [105, 130]}, NONE)
    # Those of 100 to 110 match nothing; what the join says of 110 lets that of 105 go when main1 is at 120.
    assert left(found) == [120, 130]
    assert found.passed > 0


def test_punctuation_passes_operators_and_ends_in_the_sink() -> None:
    found = run(JOINED, {"main1": [], "main2": [], "control": [105, 130, 145]}, ON_DEMAND)
    assert left(found) == [105, 130, 145] and len(found.rows) == 3
    # All three inputs of the join and the union are asked down to the sources, for each tuple.
    assert found.made == {"control": 0, "main1": 3, "main2": 3}


@pytest.mark.parametrize("schedule", [DepthFirst, RoundRobin, lambda: AnyOrder(Random(1))])
def test_the_clock_does_not_matter_for_rows_and_only_late_tuples_wait_for_it(schedule: type[Schedule]) -> None:
    stamps = {"main1": [100, 110, 120], "main2": [90, 130]}
    found = run(TWO, stamps, Setup(schedule=schedule))
    # Three steps for a tuple of either link, and a timestamp on demand beside it: microseconds.
    assert all(10_000 < latency < 60_000 for latency in found.latencies)


def test_latent_tuples_never_wait() -> None:
    latent = Setup(Stamps.LATENT, Punctuate.NONE, costs=FREE)
    found = run(TWO, {"main1": [100, 110, 120], "main2": [90, 130]}, latent)
    assert left(found) == [90, 100, 110, 120, 130] and not any(found.made.values())
    assert set(found.idle.values()) == {0.0}


def test_external_timestamps_on_demand_are_t_and_tau_less_delta() -> None:
    """Section 5 (ii): a link that may be 5 s late promises what lies 5 s behind its last tuple and the time since."""
    given_ = Setup(Stamps.EXTERNAL, Punctuate.ON_DEMAND, costs=FREE)
    drawn = replace(small(TWO, {"main1": [1000], "main2": [900]}, given_), skews=dict.fromkeys(LINKS, 50 * UNIT))
    packets = dict(drawn.packets)
    packets["control"] = links_of({"control": [900, 2000]})["control"]
    text = TWO.replace("FROM a, b", "FROM a, b, c").replace("a.t : b.t", "a.t : b.t : c.t")
    plan = planned(NAMED.format("c", "control") + text)
    found = check(replace(drawn, plan=plan, packets=packets))
    # A tuple of 1,000 enters when none before it may come on its own link, 50 units later; the other link, which has
    # said 900 at 900, promises 1,000 at that instant too.
    assert left(found)[:3] == [950, 950, 1050]


def test_depth_first_sends_each_tuple_on_and_turns_do_not() -> None:
    """Section 3.1: Forward before Encore before Backtrack, on the path of Figure 2."""
    path = planned("SELECT time AS t, len FROM main1.ETH WHERE len > 10")
    packets = links_of({"main1": [100, 100]})

    class Traced(Schedule):
        def __init__(self, of: Schedule) -> None:
            self.of, self.steps = of, list[str]()

        def next(self, system: System) -> Operator | None:
            found = self.of.next(system)
            if found is not None and found.inputs[0].tuples:
                self.steps.append(found.name.split("/")[1])
            return found

    traces = {}
    for kind in (DepthFirst, RoundRobin):
        trace = Traced(kind())
        execute(path, packets, dict.fromkeys(LINKS, 0), replace(NONE, schedule=lambda trace=trace: trace))
        traces[kind] = trace.steps
    assert traces[DepthFirst] == ["Source", "Map", "Source", "Map"]
    assert sorted(traces[RoundRobin]) == sorted(traces[DepthFirst])


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


@settings(max_examples=examples(25))
@given(SEEDS, st.sampled_from(IN_TIME))
def test_on_demand_makes_no_more_punctuation_than_one_at_every_instant(number: int, stamps: Stamps) -> None:
    """Of any query: a period of the least distance between two records, on every link."""
    drawn = replace(case(number), setup=Setup(stamps, Punctuate.ON_DEMAND, costs=FREE))
    found, watch = watched(drawn, DepthFirst())
    sources = dict.fromkeys(found.made, 0)
    for source in build(drawn.plan, drawn.skews, stamps).sources:
        sources[source.link] += 1
    # An instant at which anything comes is one at which the schedule looks for work, and then finds none.
    assert all(found.made[link] <= count * watch.looks for link, count in sources.items())


def earliest(found: Execution) -> dict[tuple[object, int], int]:
    """When each row left; equal ones are numbered in that order."""
    seen: dict[tuple[object, int], int] = {}
    for row, at in sorted(zip(found.rows, found.left, strict=True), key=repr):
        number = sum(known == row for known, _ in seen)
        seen[row, number] = at
    return seen


def test_the_buffers_are_counted() -> None:
    found = run(TWO, {"main1": [100, 110, 120], "main2": [90, 130]}, NONE)
    # Three of main1 wait for main2, and then one of main2 comes.
    assert (found.queued.tuples, found.queued.punctuations) == (0, 0)
    assert found.queued.peak >= found.queued.most_tuples == 4


@pytest.mark.parametrize(
    ("text", "stamps", "names"),
    [
        ("SELECT wid, count(*) FROM main1.ETH [RANGE 2 ROWS]", Stamps.INTERNAL, "windows of rows"),
        ("SELECT tb, count(*) FROM main1.ETH GROUP BY time/3 AS tb", Stamps.LATENT, "Group over latent timestamps"),
        (
            "SELECT A.len INNER_JOIN FROM main1.ETH A, main2.ETH B WHERE A.time = B.time",
            Stamps.LATENT,
            "Join over latent timestamps",
        ),
    ],
)
def test_what_the_model_does_not_run_is_refused_by_name(text: str, stamps: Stamps, names: str) -> None:
    with pytest.raises(ConfigError, match=names):
        execute(planned(text), links_of({}), dict.fromkeys(LINKS, 0), Setup(stamps, Punctuate.NONE))


def test_setups_that_mean_nothing_are_refused() -> None:
    with pytest.raises(ConfigError, match="latent timestamps have no punctuation"):
        Setup(Stamps.LATENT, Punctuate.ON_DEMAND)
    with pytest.raises(ConfigError, match="punctuation is on-demand, its periods are"):
        Setup(periods={"main1": 1})
    with pytest.raises(ConfigError, match="punctuation is periodic, its periods are"):
        Setup(punctuate=Punctuate.PERIODIC)
    with pytest.raises(ConfigError, match="its periods are"):
        Setup(punctuate=Punctuate.PERIODIC, periods={"main1": 0})
