"""Defines the native aggregates `min` and `max`.

A family of `lowwater.catalog.native`. NaN is greater than all numbers, but `min` and `max` of Arrow ignore NaN. Two
more partial aggregates of floats therefore record whether a group has a NaN and whether it has a number.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lowwater.catalog.functions import AggregateFunction, Columns, Fold, Native, PartialColumn
from lowwater.catalog.native.arrow import as_it_is
from lowwater.catalog.native.folds import GREATEST, LEAST
from lowwater.catalog.types import Type


def _folded(number: int, value: Any) -> Any:
    return value


def _is_nan(values: pa.Array) -> pa.Array:
    return pc.is_nan(values).cast(pa.int64())


def _is_number(values: pa.Array) -> pa.Array:
    return pc.invert(pc.is_nan(values)).cast(pa.int64())


def _least_float(value: pa.Array, has_nan: pa.Array, has_number: pa.Array) -> pa.Array:
    return _nan_where(pc.equal(has_number, 0), value)


def _greatest_float(value: pa.Array, has_nan: pa.Array, has_number: pa.Array) -> pa.Array:
    return _nan_where(pc.equal(has_nan, 1), value)


def _nan_where(test: pa.Array, value: pa.Array) -> pa.Array:
    return pc.if_else(test.fill_null(False), pa.scalar(math.nan, pa.float64()), value)


def _columns(fold: Fold, argument: Type | None, value: Type) -> Columns:
    extreme = PartialColumn("", as_it_is, fold)
    if argument is not Type.FLOAT:
        return Columns((extreme,), value=as_it_is)
    flags = PartialColumn("#nan", _is_nan, GREATEST), PartialColumn("#number", _is_number, GREATEST)
    return Columns((extreme, *flags), value=_least_float if fold is LEAST else _greatest_float)


def _extreme(name: str, fold: Fold) -> tuple[AggregateFunction, ...]:
    native = Native(
        name=name,
        fold=fold,
        result=_folded,
        columns=partial(_columns, fold),
        superaggregate=name,
        parts=None,
        distinct=name,
    )
    return tuple(native.of((kind,), kind) for kind in Type)


AGGREGATES: tuple[AggregateFunction, ...] = (*_extreme("min", LEAST), *_extreme("max", GREATEST))
