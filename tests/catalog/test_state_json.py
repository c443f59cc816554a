"""States as text: what is written comes back, equal states have one text, and nothing else has a form."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, strategies as st

from lowwater.catalog.builtin import CATALOG
from lowwater.catalog.state_json import read_state, write_state
from lowwater.catalog.values import Type
from lowwater.errors import LowwaterError

LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(), st.binary(), st.floats(allow_nan=False), st.fractions()
)
KEYS = st.one_of(LEAVES, st.tuples(LEAVES, LEAVES), st.frozensets(LEAVES))
STATES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner), st.tuples(inner, inner), st.sets(KEYS), st.dictionaries(KEYS, inner), st.just(bytearray(b"ab"))
    ),
)
SAMPLES: dict[Type, list[Any]] = {
    Type.INT: [3, -1, 3, 1 << 62], Type.FLOAT: [0.5, -0.0, math.inf, 3.0], Type.BOOL: [True, False, True],
    Type.STRING: ["a", "", "b,é", "a"], Type.IP: [b"\x04abcd", b"\x06" + bytes(16)], Type.MAC: [1, 2, 1],
    Type.INSTANT: [1, 0, -1, 1 << 52],
}  # fmt: skip
CONSTANT = {"quantile_of": 0.5, "heavy_hitters": 0.2, "moving_sum_exp": 0.5}


@pytest.mark.slow
@given(STATES)
def test_what_is_written_comes_back(state: Any) -> None:
    again = read_state(write_state(state))
    assert again == state and type(again) is type(state) and write_state(again) == write_state(state)


@given(st.sets(st.integers() | st.text()))
def test_equal_sets_have_one_text(values: set[Any]) -> None:
    forward, backward = set[Any](), set[Any]()
    for value in sorted(values, key=repr):
        forward.add(value)
    for value in sorted(values, key=repr, reverse=True):
        backward.add(value)
    assert write_state(forward) == write_state(backward)


@pytest.mark.parametrize(
    "aggregate",
    [each for each in CATALOG.aggregates if each.make],
    ids=lambda each: f"{each.name}-{each.parameters[0]}",
)
def test_every_shipped_aggregate_can_be_carried(aggregate: Any) -> None:
    made = aggregate.make()
    state = made.initialize()
    for values in zip(*(SAMPLES[kind] for kind in aggregate.parameters[: aggregate.taken]), strict=False):
        if aggregate.name in ("moving_sum", "moving_sum_exp"):
            values = (values[0], 3)
        if aggregate.name == "heavy_hitters":
            values = (values[0], 0.2)
        state = made.iterate(state, *values)
    again = read_state(write_state(state))
    extra = [CONSTANT.get(aggregate.name, 0.5)] * (len(aggregate.parameters) - aggregate.taken)
    assert made.output(again, *extra) == made.output(state, *extra)
    assert write_state(again) == write_state(state)


@pytest.mark.parametrize(
    "text", ["", "{", '{"eval":"1"}', '{"tuple":1}', '{"float":"x"}', '{"Sums":[1,2,3]}', "[" * 9999]
)
def test_a_text_that_is_no_state_is_an_error(text: str) -> None:
    with pytest.raises(LowwaterError, match="cannot be read"):
        read_state(text)
