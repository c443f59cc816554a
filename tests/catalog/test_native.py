"""Native aggregates state their facts: both forms give the values of plain Python, and a forgotten fact is an error."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, strategies as st

from lowwater.catalog import meanings
from lowwater.catalog.functions import AggregateFunction, Columns, Fold, Native, PartialColumn, Parts
from lowwater.catalog.native import ADD, AGGREGATES, AND, NATIVE, as_it_is, type_of
from lowwater.catalog.schemas import STREAM_TYPES
from lowwater.catalog.values import Type
from lowwater.stream.aggregates import Folded
from tests import natives

VALUES: dict[Type, st.SearchStrategy[Any]] = {
    Type.INT: st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-3, 3),
    Type.FLOAT: st.floats(-1e9, 1e9) | st.just(math.nan),
    Type.BOOL: st.booleans(),
    Type.STRING: st.text("ab", max_size=2),
    Type.IP: st.binary(min_size=4, max_size=4),
    Type.MAC: st.integers(0, (1 << 48) - 1),
    Type.INSTANT: st.integers(-(1 << 52), 1 << 52),
}
OVER_ONE = [one for one in AGGREGATES if len(one.parameters) == 1]


def oracle(name: str, values: list[Any]) -> Any:
    """The value by `tests.natives`; NaN is above all numbers, and a sum that is NaN has no value."""
    if name == "count":
        return len(values)
    if not values:
        return None
    numbers = [value for value in values if value == value]
    if name in ("min", "max") and len(numbers) < len(values):
        return math.nan if name == "max" or not numbers else min(numbers)
    value = natives.FOLDS[name](values)
    return None if value != value else value


def in_arrow(columns: Columns, blocks: list[pa.Array]) -> tuple[Any, bool]:
    """The value of one group whose rows come in blocks, and whether 64 bits do not hold it."""
    merged = [_merged(column, [column.of(block) for block in blocks if column.of]) for column in columns.partials]
    beyond = columns.beyond is not None and columns.beyond(*merged)[0].as_py()
    return columns.value(*merged)[0].as_py(), beyond


def _merged(column: PartialColumn, blocks: list[pa.Array]) -> pa.Array:
    values, fold = pa.concat_arrays(blocks), column.fold.arrow
    if isinstance(fold, str):
        table = pa.table({"key": pa.repeat(pa.scalar(0), len(values)), "value": values})
        return table.group_by("key").aggregate([("value", fold)])[f"value_{fold}"].combine_chunks()
    filled = pc.fill_null(values, column.fold.neutral).to_numpy(zero_copy_only=False)
    known = values.null_count < len(values)
    return pa.array([int(fold.reduce(filled)) if known else None], pa.int64())


@pytest.mark.slow
@pytest.mark.parametrize("one", OVER_ONE, ids=lambda one: f"{one.name}-{one.parameters[0]}")
@given(data=st.data())
def test_both_forms_give_the_values_of_plain_python(one: AggregateFunction, data: st.DataObject) -> None:
    (kind,), native = one.parameters, NATIVE[one.name]
    values = data.draw(st.lists(st.none() | VALUES[kind], min_size=1, max_size=8))
    if kind is Type.BOOL and native.sums:
        values, kind = [None if value is None else int(value) for value in values], Type.INT
    given_values = [value for value in values if value is not None]
    wanted = oracle(one.name, given_values)
    accumulator = Folded(native)
    for value in given_values:
        accumulator.add((value,), ())
    cut = data.draw(st.integers(0, len(values)))
    blocks = [pa.array(part, STREAM_TYPES[kind]) for part in (values[:cut], values[cut:]) if part]
    found, beyond = in_arrow(native.columns(kind, one.returns), blocks)
    assert beyond == (isinstance(wanted, int) and not -(1 << 63) <= wanted < 1 << 63)
    for value in (accumulator.result(), *([] if beyond else [found])):
        if isinstance(wanted, float):
            assert value == pytest.approx(wanted, rel=1e-9, abs=1e-3, nan_ok=True)
        else:
            assert value == wanted and (wanted is None or type(value) is type(wanted))


@given(st.lists(VALUES[Type.INT], min_size=1, max_size=6), st.integers(0, 6))
def test_a_neutral_integer_changes_no_other(values: list[int], at: int) -> None:
    for fold in {native.fold for native in NATIVE.values() if native.fold is not None and not native.fold.picks}:
        assert fold.neutral is not None
        with_it = [*values[:at], fold.neutral, *values[at:]]
        assert reduce(fold.of, with_it) == reduce(fold.of, values)


def test_every_native_aggregate_is_told_in_the_tests() -> None:
    assert {*NATIVE} == {*natives.FOLDS} == {*meanings.NATIVES}
    assert {*NATIVE} <= {expression.split("(")[0] for expression, _ in natives.PAIRS}


def test_parts_and_superaggregates_are_native() -> None:
    for native in NATIVE.values():
        if native.parts is not None:
            assert all(NATIVE[name].superaggregate for name in (native.parts.left, native.parts.right))
        else:
            assert NATIVE[native.superaggregate].parts is None
    assert type_of("sum", Type.FLOAT) is Type.FLOAT and type_of("count", Type.IP) is Type.INT


def test_a_forgotten_fact_is_an_error() -> None:
    with pytest.raises(TypeError, match="'distinct'"):
        Native(name="product", fold=ADD, result=max, columns=_columns, superaggregate="product", parts=None)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="'sums'"):
        Fold("*", int.__mul__, "product", neutral=1)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="a fold by numpy states its neutral integer"):
        Fold("&", AND.of, AND.arrow, neutral=None, sums=False)
    for superaggregate, parts in (("", None), ("sum", Parts("sum", "/", "count"))):
        with pytest.raises(ValueError, match="a native aggregate has a superaggregate, or parts"):
            Native("mean", ADD, max, _columns, superaggregate, parts, distinct="")


def _columns(argument: Type | None, value: Type) -> Columns:
    return Columns((PartialColumn("", as_it_is, ADD),), value=as_it_is)
