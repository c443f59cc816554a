"""Defines the native aggregate `count`, which counts rows or values that are not NULL.

A family of `lowwater.catalog.native`.
"""

from __future__ import annotations

from typing import Any

from lowwater.catalog.functions import AggregateFunction, Columns, Native, PartialColumn
from lowwater.catalog.native.arrow import as_it_is, present
from lowwater.catalog.native.folds import ADD
from lowwater.catalog.types import Type


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

AGGREGATES: tuple[AggregateFunction, ...] = (
    COUNT.of((), Type.INT),
    *(COUNT.of((kind,), Type.INT) for kind in Type),
)
