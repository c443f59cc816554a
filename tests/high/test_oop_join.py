"""The OOP-Join of Spark without Spark: random arrivals of two inputs, each with promises of its own."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.catalog.expr import Type
from lowwater.high.oop_join import JoinMachine
from lowwater.plan.joining import oop_join
from lowwater.plan.nodes import Join, JoinKind
from lowwater.plan.temporal import END_OF_TIME, Step
from tests.high.plans import join, join_rows
from tests.high.streams import FLOWS, SECOND, Row, binary, column, epoch, flows, leaf, number, order

NAMES = [f.name for f in FLOWS]
SIDES = tuple(tuple(f"{alias}.{name}" for name in NAMES) for alias in "lr")
NOTHING = (None,) * len(NAMES)
SPAN = 300


def machine(node: Join, promises: dict[int, tuple[int, int]]) -> JoinMachine:
    kinds = (Type.INT,) * (len(node.equalities) + node.window.equality)
    return JoinMachine(node, kinds, (SIDES[0], SIDES[1]), promises)


def row_in(node: Join, port: int, row: Row) -> tuple[Any, ...]:
    """A row as Spark gives it to the machine."""
    values, last = row
    keys = [values[NAMES.index("k")]] * len(node.equalities) + [values[0]] * node.window.equality
    columns = (*NOTHING, *values) if port else (*values, *NOTHING)
    return (0, None, last, port, values[0], *keys, *columns)


def played(
    node: Join, sides: Sequence[Sequence[Row]], chance: Random, individually: bool = True, lag: int = 0
) -> tuple[list[tuple[Any, ...]], int]:
    """What the machine gives over some micro-batches, and the most rows that it kept; the right input lags (s)."""
    delays = [[row[1] + chance.randrange(40 * SECOND) for row in rows] for rows in sides]
    boundaries = sorted(chance.randrange((SPAN + lag) * SECOND) for _ in range(chance.randint(1, 8)))
    batches: list[list[tuple[Any, ...]]] = []
    own: list[tuple[int, int]] = []
    before = -1
    for boundary in (*boundaries, END_OF_TIME):
        batch, promised = [], []
        for port, (rows, arrivals) in enumerate(zip(sides, delays, strict=True)):
            late = lag * SECOND if port else 0
            pairs = [(row, at + late) for row, at in zip(rows, arrivals, strict=True)]
            batch += [row_in(node, port, row) for row, at in pairs if before < at <= boundary]
            promised.append(min((row[1] for row, at in pairs if at > boundary), default=END_OF_TIME))
        chance.shuffle(batch)
        batches.append(batch)
        own.append((promised[0], promised[1]))
        before = boundary
    found: dict[int, tuple[int, int]] = {}
    for left, right in own:
        found.setdefault(min(left, right), (left, right))
    made = machine(node, found if individually else {})
    state, out, most, shown = made.begin(), [], 0, -1
    # As on Spark, the promise of a micro-batch is seen by the next one, after its rows.
    for batch, promise in zip([*batches, []], [-1, *(min(each) for each in own)], strict=True):
        made.take(state, batch)
        state = pickle.loads(pickle.dumps(state))
        if promise > shown:
            shown = promise
            out += made.advance(state, promise)
        most = max(most, sum(len(rows) for kept in state[0].values() for rows in kept))
    assert state == ({}, [])
    return out, most


def rows_out(node: Join, found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows of a machine as `join_rows` has them."""
    window, size, rows = node.window, len(NAMES), []
    for row in found:
        (a, b), (a_value, a_last, b_value, b_last) = (row[:size], row[size : 2 * size]), row[2 * size :]
        (a_tb, a_k, _, a_x), (b_tb, b_k, _, b_x) = a, b
        if a_last is None:
            a_tb, a_k, last = b_tb if window.equality else None, b_k, window.last_right(b_value)
        elif b_last is None:
            b_tb, b_k, last = a_tb if window.equality else None, a_k, window.last_left(a_value)
        else:
            last = max(a_last, b_last)
        rows.append((a_tb, b_tb, a_k, b_k, a_x, b_x, last))
    return sorted(rows, key=order)


@pytest.mark.parametrize("kind", list(JoinKind))
@given(seed=st.integers(0, 1 << 30), below=st.integers(-2, 4), above=st.integers(-1, 5), lag=st.sampled_from([0, 90]))
def test_pairs_and_unmatched_rows_are_those_of_nested_loops(
    kind: JoinKind, seed: int, below: int, above: int, lag: int
) -> None:
    if below + above < 0:
        below, above = -above, -below
    left, right = flows(40, SPAN, seed), flows(40, SPAN, seed + 1)
    residual = binary("<>", binary("+", column("l.x"), column("r.x")), number(3)) if seed % 2 else None
    node = join(kind, leaf("l", FLOWS), leaf("r", FLOWS), below=below, above=above, residual=residual)

    def meets(a: dict[str, Any], b: dict[str, Any]) -> bool:
        fits = residual is None or (a["x"] is not None and b["x"] is not None and a["x"] + b["x"] != 3)
        return bool(a["k"] == b["k"] and a["tb"] - below <= b["tb"] <= a["tb"] + above and fits)

    found, _ = played(node, (left, right), Random(seed), individually=seed % 3 > 0, lag=lag)
    assert rows_out(node, found) == sorted(join_rows(left, right, node, NAMES, meets), key=order)


@given(seed=st.integers(0, 1 << 30))
def test_a_band_on_a_decreasing_attribute(seed: int) -> None:
    falling = epoch(10).then(Step("neg"))
    sides = [[((-tb, *rest), last) for (tb, *rest), last in flows(40, SPAN, seed + port)] for port in (0, 1)]
    fields = (replace(FLOWS[0], temporal=falling), *FLOWS[1:])
    node = join(JoinKind.OUTER, leaf("l", fields), leaf("r", fields), below=3, above=1, times=(falling, falling))

    def meets(a: dict[str, Any], b: dict[str, Any]) -> bool:
        return bool(a["k"] == b["k"] and a["tb"] - 3 <= b["tb"] <= a["tb"] + 1)

    found, _ = played(node, sides, Random(seed))
    assert rows_out(node, found) == sorted(join_rows(sides[0], sides[1], node, NAMES, meets), key=order)


@pytest.mark.slow
def test_each_side_is_purged_by_the_promise_of_the_other() -> None:
    """Where the right input lags, its rows go by what the left one promised, not by what both did."""
    sides = flows(400, SPAN, 1), flows(400, SPAN, 2)
    node = join(JoinKind.OUTER, leaf("l", FLOWS), leaf("r", FLOWS), below=3, above=3)
    own = [played(node, sides, Random(seed), lag=150) for seed in range(20)]
    joint = [played(node, sides, Random(seed), individually=False, lag=150) for seed in range(20)]
    assert [rows_out(node, found) for found, _ in own] == [rows_out(node, found) for found, _ in joint]
    assert all(mine <= theirs for (_, mine), (_, theirs) in zip(own, joint, strict=True))
    assert any(mine < theirs for (_, mine), (_, theirs) in zip(own, joint, strict=True))


def test_which_joins_are_oop_joins() -> None:
    chosen = {
        (kind.value, band): bool(oop_join(join(kind, leaf("l", FLOWS), leaf("r", FLOWS), band, band)))
        for kind in JoinKind
        for band in (0, 1)
    }
    assert [name for name, is_oop in chosen.items() if is_oop] == [(JoinKind.OUTER.value, 1)]
