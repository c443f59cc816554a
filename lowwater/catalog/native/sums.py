"""Defines the native aggregates `sum` and `avg`.

A family of `lowwater.catalog.native`. A sum of integers is exact: Arrow sums their upper and their lower 32 bits in two
columns. A sum of integers that is a float, as the left part of `avg`, need not fit 64 bits. A float sum of NaN becomes
NULL (V2).
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lowwater.catalog.functions import AggregateFunction, Columns, Native, PartialColumn, Parts
from lowwater.catalog.native.arrow import as_it_is, present
from lowwater.catalog.native.folds import ADD
from lowwater.catalog.types import Type

_HALF = 32
_LOW = (1 << _HALF) - 1
_HIGHEST = (1 << (_HALF - 1)) - 1


def _sum(number: int, value: Any) -> Any:
    return None if value != value else value


def _average(number: int, value: Any) -> Any:
    return _sum(number, value / number) if number else None


def _upper(values: pa.Array) -> pa.Array:
    return pc.shift_right(values, _HALF)


def _lower(values: pa.Array) -> pa.Array:
    return pc.bit_wise_and(values, _LOW)


def _carried(upper: pa.Array, lower: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Carries the overflow of the lower half into the upper half. Returns both halves."""
    return pc.add(upper, _upper(lower)), _lower(lower)


def _integer(upper: pa.Array, lower: pa.Array) -> pa.Array:
    upper, lower = _carried(upper, lower)
    return pc.bit_wise_or(pc.shift_left(upper, _HALF), lower)


def _beyond(upper: pa.Array, lower: pa.Array) -> pa.Array:
    upper, _ = _carried(upper, lower)
    return pc.or_(pc.less(upper, -_HIGHEST - 1), pc.greater(upper, _HIGHEST)).fill_null(False)


def _float(value: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_nan(value), pa.scalar(None, pa.float64()), value)


def _float_average(value: pa.Array, number: pa.Array) -> pa.Array:
    return pc.divide(_float(value), _divisor(number))


def _total(upper: pa.Array, lower: pa.Array) -> pa.Array:
    upper, lower = _carried(upper, lower)
    return pc.add(pc.multiply(upper.cast(pa.float64()), float(_LOW + 1)), lower.cast(pa.float64()))


def _integer_average(upper: pa.Array, lower: pa.Array, number: pa.Array) -> pa.Array:
    return pc.divide(_total(upper, lower), _divisor(number))


def _divisor(number: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(number, 0), pa.scalar(None, pa.float64()), number.cast(pa.float64()))


_FLOATS = (PartialColumn("", as_it_is, ADD),)
_INTEGERS = (PartialColumn("", _upper, ADD), PartialColumn("#low", _lower, ADD))
_NUMBER = PartialColumn("#n", present, ADD)


def _sum_columns(argument: Type | None, value: Type) -> Columns:
    if argument is Type.FLOAT:
        return Columns(_FLOATS, _float)
    return Columns(_INTEGERS, _total) if value is Type.FLOAT else Columns(_INTEGERS, _integer, _beyond)


def _average_columns(argument: Type | None, value: Type) -> Columns:
    if argument is Type.FLOAT:
        return Columns((*_FLOATS, _NUMBER), _float_average)
    return Columns((*_INTEGERS, _NUMBER), _integer_average)


SUM = Native(
    name="sum",
    fold=ADD,
    result=_sum,
    columns=_sum_columns,
    superaggregate="sum",
    parts=None,
    distinct="",
)
AVG = Native(
    name="avg",
    fold=ADD,
    result=_average,
    columns=_average_columns,
    superaggregate="",
    parts=Parts("sum", "/", "count"),
    distinct="",
)

AGGREGATES: tuple[AggregateFunction, ...] = (
    SUM.of((Type.INT,), Type.INT),
    SUM.of((Type.FLOAT,), Type.FLOAT),
    SUM.of((Type.BOOL,), Type.INT),
    AVG.of((Type.INT,), Type.FLOAT),
    AVG.of((Type.FLOAT,), Type.FLOAT),
)
