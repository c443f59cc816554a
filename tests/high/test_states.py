"""States in shares: rows, counts and states of plans with a state do not depend on the number of shares."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, settings, strategies as st

from lowwater.catalog.expr import Type
from lowwater.errors import LowwaterError
from lowwater.high import query_runs
from lowwater.high.operators import StateHandover, StoredState
from lowwater.high.part import Part, PartOutcome
from lowwater.high.process import InProcess
from lowwater.high.query_runs import FEW_SHARES, HighSettings
from lowwater.high.runner import Runner
from lowwater.plan.context import Links
from lowwater.plan.operators import Lfta, Node, lftas_of
from lowwater.plan.queryset import plan_texts
from lowwater.plan.shares import low_shares, stages_of
from tests.breadth import each_push, examples
from tests.high.streams import SECOND, Row, read_stream, run_high, write_stream
from tests.high.test_shares import divided

_OF = "FROM main1.TCP GROUP BY time/10 AS tb, srcIP, srcPort/2 AS k"
_SAMPLE = (
    "SELECT tb, srcIP, k, sum(len), UMAX(sum(len), ssthreshold()), LAST(len) {} SUPERGROUP {} "
    "HAVING ssfinal_clean(sum(len)) = TRUE CLEANING_WHEN ssdo_clean() = TRUE CLEANING_BY ssclean_with(sum(len)) = TRUE"
)
_WHERE = _OF.replace("GROUP", "WHERE len > 40 AND ssample(len, 3) = TRUE GROUP")
_BEFORE = "PARTITION BY srcIP, srcPort ORDER BY timestamp"
_ASKED = ("lag(len, 2)", "sum(len)", "min(len)", "count(len)", "avg(len)", "first_value(len)", "sum(len * 0.5)")
_FUNCTIONS = ", ".join(f"{each} OVER ({_BEFORE})" for each in _ASKED)
_GIVEN = "(len > 80, sequence_number, ack_number, window, flags, len, 20 s)"
_SEGMENTS = ", ".join(f"{each}{_GIVEN} OVER ({_BEFORE})" for each in ("tcp_analysis", "tcp_began", "tcp_round_trip"))
QUERIES = {
    "idle": f"SELECT tb, srcIP, k, count(*), running_sum(len), FIRST(len), LAST(len) {_OF} CLOSING_WHEN count(*) = 0",
    "open": f"SELECT tb, srcIP, k, count(*), sum(len) {_OF} HAVING count(*) > 0 CLOSING_WHEN sum(len) > 250",
    "typed": "SELECT tb, f, s, b, count(*), running_sum(len) FROM main1.TCP GROUP BY time/10 AS tb, len * 0.5 AS f, "
    "link AS s, len > 60 AS b CLOSING_WHEN count(*) = 0",
    "two": f"SELECT tb, h, srcIP, max(len) {_OF}, time/20 AS h CLOSING_WHEN count(*) = 0 OR max(len) > 90",
    "far": f"SELECT tb, srcIP, count(*) {_OF.replace('main1', '[main1, main2]')} CLOSING_WHEN count(*) > 3",
    "sampled": _SAMPLE.format(_WHERE, "srcIP"),
    "apart": _SAMPLE.format(_WHERE, "k, srcIP"),
    "before": f"SELECT timestamp, {_FUNCTIONS} FROM [main1, main2].TCP",
    "cut": "SELECT timestamp, session(timestamp, 5 s, 15 s) OVER (PARTITION BY srcIP) FROM main1.TCP",
    "segments": f"SELECT timestamp, {_SEGMENTS} FROM [main1, main2].TCP",
    "asleep": "SELECT timestamp, session(timestamp, 3 s) OVER (PARTITION BY srcIP) FROM main1.TCP",
    "above": f"SELECT tb, srcIP, k, count(*) AS n {_OF} CLOSING_WHEN count(*) = 0; DEFINE {{ query_name 'q'; }} "
    "SELECT tb, srcIP, sum(n) FROM f GROUP BY tb/3 AS tb, srcIP",
}
LENGTH = 40 * SECOND
INTERVALS = 4


def plan(name: str) -> Node:
    first = "f" if name == "above" else "q"
    text = f"DEFINE {{ query_name '{first}'; }} {QUERIES[name]};"
    return plan_texts([("q.gsql", text)], Links(("main1", "main2"))).queries[-1].high


def packets(lfta: Lfta, count: int, chance: Random) -> list[Row]:
    """Rows of a selection; an interval in three is empty. Keys are sometimes NULL."""
    empty = chance.randrange(INTERVALS)
    made = []
    for _ in range(count):
        at = chance.randrange(INTERVALS * LENGTH)
        at = at if at // LENGTH != empty else at % LENGTH
        drawn: dict[str, Any] = {
            "srcIP": chance.choice([None, *(bytes((4, 10, 0, 0, number)) for number in range(5))]),
            "k": chance.choice([None, *range(4)]),
            "f": chance.choice([None, -0.0, 0.0, math.nan, 1.5]),
            "s": chance.choice([None, "", "main1", "ü"]),
            "b": chance.choice([None, False, True]),
            "srcPort": chance.choice([None, *range(4)]),
            "len": chance.randint(30, 120),
            "sequence_number": chance.choice([None, 0, 7, 90, 180]),
            "ack_number": chance.choice([0, 7, 90, 180]),
            "window": chance.choice([0, 9]),
            "flags": chance.choice([2, 16, 18, 20]),
            "_value": chance.choice([None, 0.5, 40.25]),
        }
        if any(f.name == "_value" and f.type is Type.BOOL for f in lfta.stored):
            drawn["_value"] = chance.random() < 0.5
        made.append((tuple(f.temporal.promise(at) if f.temporal else drawn[f.name] for f in lfta.stored), at))
    return sorted(made, key=lambda row: row[1])


def chained(
    node: Node,
    rows: dict[tuple[str, str], list[Row]],
    folder: Path,
    shares: Sequence[int],
    latest: int,
    by_low: bool,
    runner: Runner | None = None,
) -> tuple[list[Any], Counter[Any], list[dict[str, bytes]]]:
    """Rows, counts and states of intervals that follow one another, each with a number of shares."""
    found: list[Any] = []
    counts: Counter[Any] = Counter()
    states: list[dict[str, bytes]] = []
    for number, width in enumerate(shares):
        start, end, here = number * LENGTH, (number + 1) * LENGTH, folder / str(number)
        files = {}
        for (lfta, link), each in rows.items():
            fields = next(every.stored for every in lftas_of(node) if every.name == lfta)
            mine = [row for row in each if start <= row[1] < end]
            files[lfta, link] = write_stream(here / f"{link}.parquet", fields, mine, end)
            if by_low and len(mine) > 8:
                keys = low_shares([node])[lfta][0]
                files[lfta, link] = divided(files[lfta, link][0], keys, here)
        carries = {"q": StateHandover(start, end, latest, 0, StoredState(states[-1]) if states else None, True)}
        chosen = HighSettings(tick=10 * SECOND, slice_rows=7, shares=width)
        result = run_high(runner or InProcess(2), {"q": node}, files, start, end, here / "work", chosen, carries)["q"]
        found += read_stream(result.files)[0]
        assert result.rows == len(read_stream(result.files)[0])
        for point in result.operators:
            counts.update({(point.kind, point.query, at): value for at, value in point.counts.items()})
        states.append(result.states)
    return sorted(map(repr, found)), +counts, states


@pytest.mark.slow
@pytest.mark.parametrize("name", each_push([each for each in QUERIES if each != "above"], 2))
@settings(max_examples=examples(2))
@given(seed=st.integers(0, 1 << 30))
def test_rows_counts_and_states_of_a_chain_do_not_depend_on_the_shares(
    name: str, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    node, chance = plan(name), Random(seed)
    count = chance.choice((12, 40, 150))
    rows = {(lfta.name, link): packets(lfta, count, chance) for lfta in lftas_of(node) for link in lfta.links}
    latest = max(row[1] for each in rows.values() for row in each)
    latest = latest if chance.random() < 0.5 else INTERVALS * LENGTH
    assert len(stages_of(node)[-1].keys) > 0
    wanted = chained(node, rows, tmp_path_factory.mktemp("one"), [1] * INTERVALS, latest, False)
    assume(wanted[0])  # some samples are empty
    widths = [chance.choice((1, 2, 3, 5, 64)) for _ in range(INTERVALS)]
    # Files by share number their rows otherwise, which only waiting rows keep: the epochs end with the intervals here.
    assert chained(node, rows, tmp_path_factory.mktemp("low"), widths, latest, True) == wanted


@pytest.mark.parametrize(("by_low", "width"), [(True, 64), (False, FEW_SHARES)])
def test_few_shares_read_all_of_what_nothing_divides(
    by_low: bool, width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that stay in order are not exchanged."""
    node, read, evaluate = plan("cut"), Counter[int](), query_runs.evaluate_part

    def noted(part: Part, most: int = 0) -> PartOutcome:
        outcome = evaluate(part, most)
        read[part.share.shares if part.share else 1] += outcome.read
        return outcome

    monkeypatch.setattr(query_runs, "evaluate_part", noted)
    (lfta,) = lftas_of(node)
    rows = [row for row in packets(lfta, 900, Random(1)) if row[1] < LENGTH]
    files = write_stream(tmp_path / "main1.parquet", lfta.stored, rows, LENGTH)
    if by_low:
        files = divided(files[0], low_shares([node])[lfta.name][0], tmp_path)[:1]
    inputs = {(lfta.name, "main1"): files}
    made = run_high(InProcess(1), {"q": node}, inputs, 0, LENGTH, tmp_path / "work", HighSettings(slice_rows=1))["q"]
    assert read == {width: made.rows} and made.rows > 50


@pytest.mark.spark
@pytest.mark.parametrize("name", each_push(["typed", "sampled"], 2))
def test_shares_of_a_chain_are_tasks_of_spark(name: str, on_spark: Runner, tmp_path: Path) -> None:
    node, chance = plan(name), Random(3)
    rows = {(lfta.name, link): packets(lfta, 200, chance) for lfta in lftas_of(node) for link in lfta.links}
    wanted = chained(node, rows, tmp_path / "one", [1] * INTERVALS, INTERVALS * LENGTH, False)
    widths = [1, 5, 16, 2]
    assert chained(node, rows, tmp_path / "many", widths, INTERVALS * LENGTH, True, on_spark) == wanted
    assert wanted[0]


PARTED = "SELECT tb, srcIP, count(*) FROM main1.TCP GROUP BY time AS tb, srcIP CLOSING_WHEN count(*) > 1"


@pytest.mark.slow
@pytest.mark.parametrize(("others", "fails"), [(range(0, 1900, 600), False), ([1], True)])
def test_idle_epochs_are_those_of_the_whole_query(others: Sequence[int], fails: bool, tmp_path: Path) -> None:
    """A group of one share waits over more than 1,000 epochs, in which other shares have rows, or have none."""
    node = plan_texts([("q.gsql", f"DEFINE {{ query_name 'q'; }} {PARTED};")], Links(("main1",))).queries[0].high
    (lfta,) = lftas_of(node)
    address = [bytes((4, 10, 0, 0, number)) for number in range(9)]
    rows = [((at, address[at % 600 % 8 + 1]), at * SECOND) for at in others]
    rows = [((0, address[0]), 0), *rows]
    found = []
    for shares in (1, 5, 64):
        halves: list[Any] = []
        for start, end in ((0, 700), (700, 2000)):
            here = tmp_path / f"{shares}-{start}"
            mine = [row for row in rows if start * SECOND <= row[1] < end * SECOND]
            files = write_stream(here / "q.parquet", lfta.stored, sorted(mine, key=lambda row: row[1]), end * SECOND)
            held = StoredState(halves[-1][1]) if halves else None
            carry = StateHandover(start * SECOND, end * SECOND, 1900 * SECOND, 0, held, True)
            chosen = HighSettings(slice_rows=2, shares=shares)
            failures: dict[str, LowwaterError] = {}
            made = run_high(
                InProcess(1), {"q": node}, {("q", "main1"): files}, carry.start, carry.end, here / "work", chosen,
                {"q": carry}, failures,
            )  # fmt: skip
            states = made["q"].states if made else {}
            given = [read_stream(result.files)[0] for result in made.values()]
            halves.append((given, states, str(failures.get("q"))))
            left = [path.name for path in (here / "work" / "q" / "rows").iterdir()]
            assert shares == 1 or start == 0 or not any("-00-" in name for name in left), "only the whole plan's rows"
        assert ("more than 1,000 epochs without rows" in halves[1][2]) == fails
        found.append(halves)
    assert found[0] == found[1] == found[2]


ALONE = {
    "no column of GROUP BY divides them": "SELECT tb, count(*) FROM main1.TCP GROUP BY time/10 AS tb "
    "CLOSING_WHEN count(*) = 0",
    "no column of SUPERGROUP divides them": _SAMPLE.format(_WHERE, "tb"),
    # A packet is in two windows at once: at the end of the links one share may have a later window than another.
    "its epochs follow from several columns or instants": "SELECT wid, srcIP, count(*) FROM main1.TCP "
    "[RANGE 20, SLIDE 10, WA time] GROUP BY srcIP CLOSING_WHEN count(*) = 0",
}


@pytest.mark.parametrize("why", list(ALONE))
def test_what_is_sequential_by_definition_says_so(why: str) -> None:
    text = f"DEFINE {{ query_name 'q'; }} {ALONE[why]};"
    node = plan_texts([("q.gsql", text)], Links(("main1", "main2"))).queries[-1].high
    (stage,) = stages_of(node)
    assert stage.keys == () and stage.why.endswith(f"takes its rows in order, with one state: {why}")
    assert low_shares([node]) == {}
