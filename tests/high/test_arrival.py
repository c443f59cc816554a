"""Windows of rows without Spark: the low level by arrival, in chunks, and the hosted query above it, in intervals."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from lowwater.catalog.schemas import ROW, TICK
from lowwater.columns.files import LINK_BITS
from lowwater.errors import LawError
from lowwater.high import arrival
from lowwater.high.arrival import ArrivalChain
from lowwater.high.operators import StateHandover, StoredState, links_of, state_file
from lowwater.low import Bounds, LowSettings, Policy, run_link
from lowwater.plan.operators import Lfta, lftas_of
from lowwater.plan.properties import read_from
from lowwater.plan.queryset import QueryPlan, plan_texts
from lowwater.plan.rules import NUMBER_COLUMN
from lowwater.plan.temporal import END_OF_TIME
from tests.breadth import examples
from tests.high.test_chains import Input, ended, frame_of, rows_of
from tests.law.questions import WITH_ROWS, with_rows
from tests.plan.batch_pools import CONTEXT, KNOWN, LINKS
from tests.plan.batch_questions import FAMILIES
from tests.plan.batch_rows import World
from tests.plan.batch_worlds import BASE, SECOND, SKEW, world
from tests.reference.feeds import arriving, batches, owned_rows, whole

INNER = "DEFINE {{ query_name '{}'; visibility 'internal'; }} "
ROWS = INNER.format("n") + "SELECT tb, wid, count(*) AS c FROM SOURCE.TCP WINDOW GROUP BY time/10 AS tb;\n"
BOTH = "FROM SOURCE.TCP UNION SOURCE.UDP GROUP BY time/10 AS tb"
TOP = "DEFINE { query_name 'q'; } SELECT x.tb, x.wid, x.c, y.* OUTER_JOIN FROM n x, l y WHERE x.tb = y.tb"
BRANCHED = tuple(
    ROWS + INNER.format("l") + select + ";\n" + TOP.replace("y.*", more)
    for select, more in (
        (f"SELECT tb, FIRST(len) AS f, LAST(destPort) AS d, count(*) AS m {BOTH}", "y.f, y.d, y.m"),
        (f"SELECT tb, srcIP, LAST(len) AS f {BOTH}, srcIP CLOSING_WHEN count(*) > 9", "y.f"),
    )
)
"""Queries with windows of rows in which an operator asks for the order of packets that come over two branches."""

COUNTS = (
    INNER.format("n")
    + "SELECT wid, srcIP, destPort/2 AS d, count(*) AS c FROM SOURCE.DataProtocol [RANGE 7 ROWS, WHERE len > 55] "
    + "GROUP BY srcIP, destPort/2 AS d;\n"
    + "DEFINE { query_name 'q'; } SELECT wid, count(*) AS links, sum(c) AS packets, max(c) AS most FROM n GROUP BY wid"
)
"""A query that only counts, so that Arrow counts equal rows."""

TEXTS = st.one_of(
    FAMILIES["row_windows"]().map(lambda question: question.text), with_rows().map(lambda question: question.text),
    st.builds(lambda text, source: text.replace("SOURCE", source).replace("WINDOW", "[RANGE 4 ROWS, SLIDE 4 ROWS]"),
              st.sampled_from((*BRANCHED, COUNTS)), st.sampled_from(("main1", "[pair]"))),
)  # fmt: skip
SETTINGS = st.builds(
    LowSettings, skew=st.just(SKEW), period=st.sampled_from((SECOND, 7 * SECOND)),
    policy=st.sampled_from([policy for policy in Policy if policy.per_link is policy]),
    chunk_rows=st.sampled_from((1, 5, 65_536)), compiled=st.just(False),
)  # fmt: skip
SEEDS = 12
"""Random worlds of a test in `make test`; `make fuzz` has more."""
Span = tuple[int, int]


def planned(text: str) -> QueryPlan:
    return plan_texts([("q.gsql", text)], KNOWN, 1, CONTEXT).queries[-1]


def low_rows(
    query: QueryPlan, made: World, span: Span, starts: dict[str, int], low: LowSettings, chance: Random
) -> list[tuple[str, Input]]:
    """What the low level gives of an interval, by name of the LFTA; no row precedes a promise made before it."""
    leaves = {lfta.name: lfta for lfta in lftas_of(query.high)}
    found, names = [], links_of(query.high)
    for link in query.links:
        lftas = [lfta for lfta in leaves.values() if link in lfta.links]
        for name, stream in low_streams(lftas, link, made, span, starts, low, chance).items():
            lfta, promised = leaves[name], -1
            for place, row in enumerate(stream):
                if row["_kind"] != ROW:
                    promised = max(promised, row["_last"])
                    continue
                assert row["_last"] >= promised and span[0] <= row["_last"] < span[1]
                at = row[NUMBER_COLUMN] if lfta.placed else place
                values = tuple(row[f.name] for f in lfta.stored)
                found.append((name, (values, row["_last"], (names.index(link) << LINK_BITS) + at)))
            assert promised == span[1]
    return found


def played(
    query: QueryPlan, carry: StateHandover, rows: list[tuple[str, Input]], chance: Random
) -> tuple[list[tuple[Any, ...]], StoredState]:
    """What a query makes of rows that come in disorder, with the promises that this allows: fields, tick, `_last`; and
    what it leaves."""
    chain, leaves = ArrivalChain(query.high, carry), {each.name: each for each in lftas_of(query.high)}
    names, out = [*(f.name for f in query.high.fields), TICK], []
    rest = sorted(rows, key=lambda row: row[1][1] + chance.randrange(8 * SECOND))
    while rest:
        size = chance.randint(1, 30)
        now, rest = rest[:size], rest[size:]
        for name, lfta in leaves.items():
            mine = [row for own, row in now if own == name]
            assert chain.take(name, frame_of(lfta.stored, mine)) == len(mine)
        out += rows_of(chain.advance(min((row[1][1] for row in rest), default=0)), names)
    out += rows_of(chain.advance(END_OF_TIME), names)
    return out, StoredState({state_file(query.high.query): chain.state()})


def low_streams(
    lftas: list[Lfta], link: str, made: World, span: Span, starts: dict[str, int], low: LowSettings, chance: Random
) -> dict[str, list[dict[str, Any]]]:
    """The streams of a link, which is read as a lake does, in two chunks."""
    start, end = span
    first = min(starts[lfta.name] for lfta in lftas)
    read = [p for p in made.links[link] if first <= p.timestamp < end or start <= p.arrival < end]
    inside = sum(p.arrival < end for p in read)
    cut = chance.randint(0, inside)
    streams: dict[str, list[dict[str, Any]]] = defaultdict(list)

    def write(name: str, batch: pa.RecordBatch) -> None:
        streams[name] += batch.to_pylist()

    clock = read[cut - 1].arrival if cut else -1
    for part, entered, left, before in ((read[:cut], -1, clock, 0), (read[cut:], clock, None, cut)):
        if cut or left is None:
            mine = {lfta.name: starts[lfta.name] for lfta in lftas}
            run_link(lftas, link, batches(part), Bounds(mine, start, end, {}, entered, left, before), low, write)
    return streams


def evaluated(
    query: QueryPlan, made: World, span: Span, low: LowSettings, chance: Random, carry: StateHandover, handed: bool
) -> tuple[list[tuple[Any, ...]], StoredState]:
    """The rows of an interval, those that no other one owns, and what it leaves."""
    starts = read_from(query.high, span[0], handed)
    rows = low_rows(query, made, (span[0] if handed else 0, span[1]), starts, low, chance)
    found, left = played(query, carry, rows, chance)
    assert all(final <= last for *_, final, last in found)
    return [(*values, last) for *values, _, last in found if last >= span[0]], left


@pytest.mark.slow
@pytest.mark.hypothesis
@pytest.mark.parametrize("number", range(len(WITH_ROWS + BRANCHED)))
def test_rows_are_those_of_the_reference_engine(number: int) -> None:
    seen = 0
    for seed in range(examples(SEEDS)):
        chance = Random(number << 20 | seed)
        reach, slide = chance.choice(((5, 2), (4, 4), (3, 5), (20, 10)))
        more = chance.choice(
            ("", ", PARTITION BY srcIP", ", WHERE len > 60", ", PARTITION BY srcIP, WHERE srcPort < 9")
        )
        window = f"[RANGE {reach} ROWS, SLIDE {slide} ROWS{more}]"
        source = chance.choice(("main1", "[pair]"))
        query = planned((WITH_ROWS + BRANCHED)[number].replace("SOURCE", source).replace("WINDOW", window))
        made = arriving(world(chance.randrange(1 << 20), LINKS, catalog=CONTEXT.catalog))
        low = LowSettings(SKEW, chunk_rows=chance.choice((1, 5, 65_536)), compiled=False)
        carry = StateHandover(0, END_OF_TIME, made.latest, SKEW)
        found, _ = evaluated(query, made, (0, END_OF_TIME), low, chance, carry, handed=False)
        assert ended(found) == owned_rows(whole(query.logical, made))
        seen += len(found)
    assert seen


@pytest.mark.slow
@pytest.mark.hypothesis
def test_intervals_are_the_whole_with_the_state_before_or_with_everything_before() -> None:
    seen = 0

    @settings(max_examples=examples(15))
    @given(TEXTS, st.integers(0, 1 << 20), SETTINGS, st.sampled_from((10, 17, 200)), st.booleans())
    def check(text: str, seed: int, low: LowSettings, length: int, handed: bool) -> None:
        nonlocal seen
        query, made = planned(text), arriving(world(seed, LINKS, catalog=CONTEXT.catalog))
        chance, size = Random(seed), length * SECOND
        found: list[tuple[Any, ...]] = []
        held: StoredState | None = None
        for number in range(BASE // size, (made.latest + 60 * SECOND) // size + 2):
            span = number * size, (number + 1) * size
            own = StateHandover(*span, made.latest, SKEW, held)
            carry = own if handed else StateHandover(0, span[1], made.latest, SKEW)
            rows, held = evaluated(query, made, span, low, chance, carry, handed)
            found += rows
        assert ended(found) == owned_rows(whole(query.logical, made))
        seen += len(found)

    check()
    assert seen


@pytest.mark.slow
@pytest.mark.hypothesis
@pytest.mark.parametrize("source", ["main1", "[pair]"])
def test_rows_that_are_counted_at_once_are_counted_as_one_by_one(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    query, seen = planned(COUNTS.replace("SOURCE", source)), 0
    for seed in range(examples(SEEDS)):
        made = arriving(world(seed, LINKS, catalog=CONTEXT.catalog))
        end, states = made.latest - 5 * SECOND, []
        for at_once in (True, False):
            if not at_once:
                monkeypatch.setattr(arrival, "window_counts", lambda *_: None)
            low = LowSettings(SKEW, chunk_rows=5, compiled=False)
            first = StateHandover(0, end, made.latest, SKEW)
            assert (ArrivalChain(query.high, first)._window_counts is not None) == at_once
            states.append(evaluated(query, made, (0, end), low, Random(seed), first, True))
            monkeypatch.undo()
        assert states[0] == states[1]
        carry = StateHandover(0, END_OF_TIME, made.latest, SKEW)
        found, _ = evaluated(query, made, (0, END_OF_TIME), low, Random(seed), carry, handed=False)
        assert ended(found) == owned_rows(whole(query.logical, made))
        seen += len(found)
    assert seen


def test_a_state_is_of_the_instant_at_which_it_was_left() -> None:
    query = planned("DEFINE{query_name 'q';} SELECT wid, count(*) FROM main1.TCP [RANGE 5 ROWS]")
    chain = ArrivalChain(query.high, StateHandover(0, 5 * SECOND))
    assert chain.advance(END_OF_TIME).rows == 0
    left = StoredState({state_file("q"): chain.state()})
    assert ArrivalChain(query.high, StateHandover(5 * SECOND, 9 * SECOND, earlier=left)).held == 0
    with pytest.raises(LawError, match="of query q is of 5000000000 ns, not of 6000000000 ns"):
        ArrivalChain(query.high, StateHandover(6 * SECOND, 9 * SECOND, earlier=left))
