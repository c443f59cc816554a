"""Holds the native aggregates, which every engine implements itself.

Beside `builtin`, whose aggregates are four Python functions. A family states the facts of its aggregates
(`functions.Native`). A plan holds only the name of an aggregate; an engine looks up the facts here.
"""

from __future__ import annotations

import math
from functools import partial
from operator import add, and_, or_, xor
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.catalog.functions import AggregateFunction, Columns, Fold, Native, PartialColumn, Parts
from lowwater.catalog.values import Type

# Columns of partial aggregates


def as_it_is(values: pa.Array) -> pa.Array:
    """Returns the values unchanged."""
    return values


def present(values: pa.Array) -> pa.Array:
    """Returns 1 for every value and 0 for every NULL."""
    return values.is_valid().cast(pa.int64())


def integers(values: pa.Array) -> pa.Array:
    """Returns booleans as 0 and 1, and integers unchanged."""
    return values.cast(pa.int64())


# Folds: the merge of two values, in the form of every engine


def _least(a: Any, b: Any) -> Any:
    # NaN is greater than all numbers, but every comparison with NaN is false.
    return b if a != a or b < a else a


def _greatest(a: Any, b: Any) -> Any:
    return b if b != b or b > a else a


ADD = Fold("+", add, "sum", neutral=0, sums=True)
LEAST = Fold("<", _least, "min", neutral=None, sums=False)
GREATEST = Fold(">", _greatest, "max", neutral=None, sums=False)
AND = Fold("&", and_, np.bitwise_and, neutral=-1, sums=False)
OR = Fold("|", or_, np.bitwise_or, neutral=0, sums=False)
XOR = Fold("^", xor, np.bitwise_xor, neutral=0, sums=False)


# count


def _number(number: int, value: Any) -> int:
    return number


def _columns(argument: Type | None, value: Type) -> Columns:
    return Columns((PartialColumn("", None if argument is None else present, ADD),), value=as_it_is)


COUNT = Native(
    name="count",
    fold=None,
    result=_number,
    columns=_columns,
    superaggregate="sum",
    parts=None,
    distinct="count_distinct",
)

COUNTS: tuple[AggregateFunction, ...] = (
    COUNT.of((), Type.INT),
    *(COUNT.of((kind,), Type.INT) for kind in Type),
)


# sum and avg. A sum of integers is exact: Arrow sums their upper and their lower 32 bits in two columns. A sum of
# integers that is a float, as the left part of `avg`, need not fit 64 bits. A float sum of NaN becomes NULL (V2).

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

SUMS: tuple[AggregateFunction, ...] = (
    SUM.of((Type.INT,), Type.INT),
    SUM.of((Type.FLOAT,), Type.FLOAT),
    SUM.of((Type.BOOL,), Type.INT),
    AVG.of((Type.INT,), Type.FLOAT),
    AVG.of((Type.FLOAT,), Type.FLOAT),
)


# min and max. NaN is greater than all numbers, but `min` and `max` of Arrow ignore NaN. Two more partial aggregates of
# floats therefore record whether a group has a NaN and whether it has a number. 0.0 and -0.0 are equal, and which of
# them a fold keeps depends on the order of the rows: both give 0.0.


def _folded(number: int, value: Any) -> Any:
    return value


def _extreme_value(number: int, value: Any) -> Any:
    return value + 0.0 if isinstance(value, float) else value


def _is_nan(values: pa.Array) -> pa.Array:
    return pc.is_nan(values).cast(pa.int64())


def _is_number(values: pa.Array) -> pa.Array:
    return pc.invert(pc.is_nan(values)).cast(pa.int64())


def _least_float(value: pa.Array, has_nan: pa.Array, has_number: pa.Array) -> pa.Array:
    return _nan_where(pc.equal(has_number, 0), pc.add(value, 0.0))


def _greatest_float(value: pa.Array, has_nan: pa.Array, has_number: pa.Array) -> pa.Array:
    return _nan_where(pc.equal(has_nan, 1), pc.add(value, 0.0))


def _nan_where(test: pa.Array, value: pa.Array) -> pa.Array:
    return pc.if_else(test.fill_null(False), pa.scalar(math.nan, pa.float64()), value)


def _extremes_columns(fold: Fold, argument: Type | None, value: Type) -> Columns:
    extreme = PartialColumn("", as_it_is, fold)
    if argument is not Type.FLOAT:
        return Columns((extreme,), value=as_it_is)
    flags = PartialColumn("#nan", _is_nan, GREATEST), PartialColumn("#number", _is_number, GREATEST)
    return Columns((extreme, *flags), value=_least_float if fold is LEAST else _greatest_float)


def _extreme(name: str, fold: Fold) -> tuple[AggregateFunction, ...]:
    native = Native(
        name=name,
        fold=fold,
        result=_extreme_value,
        columns=partial(_extremes_columns, fold),
        superaggregate=name,
        parts=None,
        distinct=name,
    )
    return tuple(native.of((kind,), kind) for kind in Type)


EXTREMES: tuple[AggregateFunction, ...] = (*_extreme("min", LEAST), *_extreme("max", GREATEST))


# Bitwise aggregates. The engines represent booleans as the integers 0 and 1.


def _booleans(values: pa.Array) -> pa.Array:
    return values.cast(pa.bool_())


def _bits_columns(fold: Fold, argument: Type | None, value: Type) -> Columns:
    return Columns((PartialColumn("", integers, fold),), value=_booleans if argument is Type.BOOL else as_it_is)


def _over(name: str, fold: Fold, *kinds: Type) -> tuple[AggregateFunction, ...]:
    native = Native(
        name=name,
        fold=fold,
        result=_folded,
        columns=partial(_bits_columns, fold),
        superaggregate=name,
        parts=None,
        distinct="",
    )
    return tuple(native.of((kind,), kind) for kind in kinds)


BITS: tuple[AggregateFunction, ...] = (
    *_over("and_aggr", AND, Type.INT, Type.BOOL),
    *_over("or_aggr", OR, Type.INT, Type.BOOL),
    *_over("xor_aggr", XOR, Type.INT, Type.BOOL),
)


AGGREGATES: tuple[AggregateFunction, ...] = (
    *COUNTS,
    *SUMS,
    *EXTREMES,
    *BITS,
)

NATIVE: dict[str, Native] = {entry.name: entry.native for entry in AGGREGATES if entry.native is not None}
"""The native aggregates by name."""


def type_of(name: str, argument: Type) -> Type:
    """Returns the type of the value of a native aggregate."""
    return next(entry.returns for entry in AGGREGATES if entry.name == name and entry.parameters == (argument,))
