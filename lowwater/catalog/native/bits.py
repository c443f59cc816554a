"""Defines the native bitwise aggregates of integers and booleans: and_aggr, or_aggr, xor_aggr.

A family of `lowwater.catalog.native`. The engines represent booleans as the integers 0 and 1.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa

from lowwater.catalog.functions import AggregateFunction, Columns, Fold, Native, PartialColumn
from lowwater.catalog.native.arrow import as_it_is, integers
from lowwater.catalog.native.folds import AND, OR, XOR
from lowwater.catalog.types import Type


def _folded(number: int, value: Any) -> Any:
    return value


def _booleans(values: pa.Array) -> pa.Array:
    return values.cast(pa.bool_())


def _columns(fold: Fold, argument: Type | None, value: Type) -> Columns:
    return Columns((PartialColumn("", integers, fold),), value=_booleans if argument is Type.BOOL else as_it_is)


def _over(name: str, fold: Fold, *kinds: Type) -> tuple[AggregateFunction, ...]:
    native = Native(
        name=name,
        fold=fold,
        result=_folded,
        columns=partial(_columns, fold),
        superaggregate=name,
        parts=None,
        distinct="",
    )
    return tuple(native.of((kind,), kind) for kind in kinds)


AGGREGATES: tuple[AggregateFunction, ...] = (
    *_over("and_aggr", AND, Type.INT, Type.BOOL),
    *_over("or_aggr", OR, Type.INT, Type.BOOL),
    *_over("xor_aggr", XOR, Type.INT, Type.BOOL),
)
