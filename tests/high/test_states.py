"""States in shares: rows, counts and states of plans with a state do not depend on the number of shares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowwater.catalog.expr import Column, Type
from lowwater.catalog.schemas import STREAM_TYPES
from lowwater.columns.files import Bounds, digests
from lowwater.columns.values import Frame
from lowwater.errors import LowwaterError
from lowwater.high.handover import SharedState
from lowwater.high.operators import StateHandover
from lowwater.high.process import InProcess
from lowwater.high.query_runs import HighSettings, run_high
from lowwater.plan.context import Links
from lowwater.plan.operators import Field, Lfta, Node, lftas_of
from lowwater.plan.queryset import plan_texts
from lowwater.plan.shares import Stage, low_shares, stages_of
from lowwater.plan.temporal import END_OF_TIME
from tests.breadth import examples
from tests.high.streams import SECOND, Row, order, read_stream, write_stream
from tests.high.test_shares import divided

_OF = "FROM main1.TCP GROUP BY time/10 AS tb, srcIP, srcPort/2 AS k"
_SAMPLE = (
    "SELECT tb, srcIP, k, sum(len), UMAX(sum(len), ssthreshold()), LAST(len) {} SUPERGROUP {} "
    "HAVING ssfinal_clean(sum(len)) = TRUE CLEANING_WHEN ssdo_clean() = TRUE CLEANING_BY ssclean_with(sum(len)) = TRUE"
)
_WHERE = _OF.replace("GROUP", "WHERE len > 40 AND ssample(len, 3) = TRUE GROUP")
QUERIES = {
    "idle": f"SELECT tb, srcIP, k, count(*), running_sum(len), FIRST(len), LAST(len) {_OF} CLOSING_WHEN count(*) = 0",
    "open": f"SELECT tb, srcIP, k, count(*), sum(len) {_OF} HAVING count(*) > 0 CLOSING_WHEN sum(len) > 250",
    "two": f"SELECT tb, h, srcIP, max(len) {_OF}, time/20 AS h CLOSING_WHEN count(*) = 0 OR max(len) > 90",
    "far": f"SELECT tb, srcIP, count(*) {_OF.replace('main1', '[main1, main2]')} CLOSING_WHEN count(*) > 3",
    "sampled": _SAMPLE.format(_WHERE, "srcIP"),
    "apart": _SAMPLE.format(_WHERE, "k, srcIP"),
    "above": f"SELECT tb, srcIP, k, count(*) AS n {_OF} CLOSING_WHEN count(*) = 0; DEFINE {{ query_name 'q'; }} "
    "SELECT tb, srcIP, sum(n) FROM f GROUP BY tb/3 AS tb, srcIP",
}
LENGTH = 40 * SECOND
INTERVALS = 6


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
            "len": chance.randint(30, 120),
        }
        made.append((tuple(f.temporal.promise(at) if f.temporal else drawn[f.name] for f in lfta.stored), at))
    return sorted(made, key=lambda row: row[1])


def chained(
    node: Node, rows: dict[tuple[str, str], list[Row]], folder: Path, shares: Sequence[int], latest: int, by_low: bool
) -> tuple[list[Any], Counter[Any], list[dict[str, str]]]:
    """Rows, counts and states of intervals that follow one another, each with a number of shares."""
    found: list[Any] = []
    counts: Counter[Any] = Counter()
    states: list[dict[str, str]] = []
    held = None
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
        carry = StateHandover(start, end, latest, earlier=held, left=here / "left")
        chosen = HighSettings(tick=10 * SECOND, slice_rows=7, shares=width)
        result = run_high(InProcess(2), {"q": node}, files, start, end, here / "work", chosen, {"q": carry})["q"]
        found += read_stream(result.files)[0]
        assert result.rows == len(read_stream(result.files)[0])
        for point in result.operators:
            counts.update({(point.kind, point.query, at): value for at, value in point.counts.items()})
        states.append({file.name: file.read_text() for file in (here / "left").iterdir()})
        held = here / "left"
    return sorted(found, key=order), +counts, states


@pytest.mark.parametrize("name", [each for each in QUERIES if each != "above"])
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
    widths = [chance.choice((1, 2, 3, 5, 64)) for _ in range(INTERVALS)]
    assert chained(node, rows, tmp_path_factory.mktemp("many"), widths, latest, False) == wanted
    # Files by share number their rows otherwise, which only waiting rows keep: the epochs end with the intervals here.
    assert chained(node, rows, tmp_path_factory.mktemp("low"), widths, latest, True) == wanted
    assert wanted[0]
