"""Columns and named expressions: what every operator is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lowwater.catalog.expr import Expr, Type
from lowwater.plan.temporal import Temporal, infer

Place = tuple[int, int]
"""Line and column of the text, for the message of an engine that does not run an operator."""

ROWS = "rows"
"""Origin of attributes that count rows."""


@dataclass(frozen=True)
class Field:
    """A column of a stream.

    Attributes:
        temporal: None where it makes no progress.
        declared: GSQL's own type, where the old compilers' value semantics are asked for.
    """

    name: str
    type: Type
    temporal: Temporal | None = None
    declared: str = ""


@dataclass(frozen=True)
class Item:
    """A named expression: a select item or a group-by variable."""

    name: str
    expr: Expr


def exprs_of(items: Iterable[Item]) -> tuple[Expr, ...]:
    """The expressions of items."""
    return tuple([item.expr for item in items])


def written(*exprs: Expr | None) -> tuple[Expr, ...]:
    """The expressions that are there."""
    return tuple([expr for expr in exprs if expr is not None])


def temporal_names(fields: Sequence[Field]) -> tuple[str, ...]:
    """The names of the columns that make progress."""
    return tuple([field.name for field in fields if field.temporal])


def temporals(fields: Sequence[Field]) -> dict[str, Temporal]:
    """Column name -> temporal property, for the columns that make progress."""
    return {field.name: field.temporal for field in fields if field.temporal}


def make_fields(items: Sequence[Item], columns: Mapping[str, Temporal]) -> tuple[Field, ...]:
    """The output fields of items over input columns, by the temporal properties of these columns."""
    return tuple([Field(item.name, item.expr.type, infer(item.expr, dict(columns))) for item in items])


def clocks(fields: Sequence[Field]) -> list[Temporal]:
    """The temporal properties of the columns that are functions of the clock."""
    return [field.temporal for field in fields if field.temporal and not field.temporal.origin]


def off_clock(fields: Sequence[Field]) -> str:
    """The origin of the temporal columns where none is a function of the clock; else empty."""
    return one_origin([field.temporal.origin for field in fields if field.temporal])


def one_origin(origins: Sequence[str]) -> str:
    """The first of the origins of some attributes, where none is the clock, which is the empty one; else empty."""
    return origins[0] if origins and all(origins) else ""
