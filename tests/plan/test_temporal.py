"""Temporal attributes: `promise`, `last` and `first` against their definitions, by enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from lowwater.catalog.expr import Binary, Column, Const, Expr, Type, Unary
from lowwater.catalog.localdays import local_days
from lowwater.columns import values as instants
from lowwater.plan.context import Links
from lowwater.plan.queryset import plan_texts
from lowwater.plan.temporal import CLOCK, Step, Temporal, granularity, grid, infer

T = Column(Type.INT, "t")
STEPS = st.one_of(
    st.builds(Step, st.just("add"), st.integers(-40, 40)),
    st.builds(Step, st.just("mul"), st.integers(1, 7)),
    st.builds(Step, st.just("div"), st.integers(1, 9)),
    st.just(Step("neg")),
)
SPAN = range(0, 400)


def _value(steps: tuple[Step, ...], instant: int) -> int:
    for step in steps:
        instant = step(instant)
    return instant


@pytest.mark.slow
@given(st.lists(STEPS, max_size=4))
def test_last_and_first_are_the_adjoints_of_the_value(steps: list[Step]) -> None:
    temporal = Temporal(((),)).then(*steps)
    (component,) = temporal.components
    values = {instant: _value(tuple(steps), instant) for instant in SPAN}
    for value in set(values.values()):
        # `last` is the largest instant whose value has not passed this one: only then can a row of it no longer change.
        past = [t for t, v in values.items() if (v > value if temporal.increasing else v < value)]
        same = [t for t, v in values.items() if v == value]
        if past:
            assert temporal.last(value) == min(past) - 1
        if min(same) > 0:
            assert temporal.first(value) == min(same)
    assert all(temporal.promise(t) == v for t, v in values.items())
    assert _value(component, 17) == values[17]


@given(st.lists(STEPS, max_size=3), st.lists(STEPS, max_size=3), st.integers(0, 399), st.integers(0, 399))
def test_a_promise_excludes_exactly_what_last_says(a: list[Step], b: list[Step], instant: int, other: int) -> None:
    first, second = CLOCK.then(*a), CLOCK.then(*b)
    if first.increasing != second.increasing:
        return
    both = first.joined(second)
    value = both.promise(other)
    below = value < both.promise(instant) if both.increasing else value > both.promise(instant)
    # No later row has the value, once every later packet is at or after `instant`, iff its last instant is before.
    assert below == (both.last(value) < instant)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/Sao_Paulo", "Pacific/Apia", "America/St_Johns"])
@pytest.mark.parametrize("more", [(), (Step("add", 3), Step("div", 7)), (Step("neg"),)])
def test_local_days_end_where_the_next_begins(zone: str, more: tuple[Step, ...]) -> None:
    days = CLOCK.then(Step("div", 10**9), Step("day", zone=zone), *more)
    for instant in range(1_262_304_000 * 10**9, 1_325_376_000 * 10**9, 613_777 * 10**9 + 1):  # 2010 and 2011
        value = days.promise(instant)
        first, last = days.first(value), days.last(value)
        assert first <= instant <= last
        assert days.promise(first) == value == days.promise(last)
        assert days.promise(first - 1) != value != days.promise(last + 1)
    assert all(days.first(days.promise(at)) % grid([days]) == 0 for at in (10**18, 2 * 10**18))
    values = np.array([days.promise(day * 86_400 * 10**9) for day in range(14_000, 16_000)])
    assert instants.last(days, values).tolist() == [days.last(value) for value in values.tolist()]
    assert instants.first(days, values).tolist() == [days.first(value) for value in values.tolist()]
    assert days.fits() and granularity([days]) == 1800 * 10**9 * (2 if "Johns" not in zone else 1)


def test_days_of_a_zone_are_an_input() -> None:
    query = "SELECT day, count(*) AS n FROM main1.TCP GROUP BY local_day(time, {}) AS day"
    (berlin,) = plan_texts([("q.gsql", query.format("'Europe/Berlin'"))], Links()).queries
    assert f"days of Europe/Berlin {local_days('Europe/Berlin').digest}" in berlin.text
    (unknown,) = plan_texts([("q.gsql", "PARAM { z string; } " + query.format("$z"))], Links()).queries
    assert "days of" not in unknown.text and unknown.logical.fields[0].temporal
    (never,) = plan_texts([("q.gsql", "SELECT time, local_day(time, NULL) AS day FROM main1.TCP")], Links()).queries
    assert never.logical.fields[1].temporal is None


def _binary(op: str, left: Expr, right: Expr) -> Binary:
    return Binary(Type.INT, op, left, right)


def _number(value: int) -> Const:
    return Const(Type.INT, value)


@pytest.mark.parametrize(
    ("expr", "steps"),
    [(_binary("/", T, _number(60)), (Step("div", 60),)), (_binary("-", T, _number(5)), (Step("add", -5),)),
     (_binary("-", _number(5), T), (Step("neg"), Step("add", 5))),
     (_binary("*", _number(-2), _binary("/", T, _number(3))), (Step("div", 3), Step("mul", 2), Step("neg"))),
     (_binary("/", T, _number(-3)), (Step("div", 3), Step("neg"))), (Unary(Type.INT, "-", T), (Step("neg"),)),
     (_binary("+", _binary("+", T, _number(1)), _number(-1)), ())],
)  # fmt: skip
def test_inference_through_arithmetic_with_constants(expr: Expr, steps: tuple[Step, ...]) -> None:
    found = infer(expr, {"t": CLOCK})
    assert found == Temporal((steps,))
    values = [found.promise(t) for t in range(0, 50)]
    assert values == sorted(values, reverse=not found.increasing)
