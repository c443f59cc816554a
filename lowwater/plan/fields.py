"""Columns and named expressions, the parts of every operator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lowwater.catalog.expr import Expr, Type
from lowwater.plan.temporal import Temporal, infer

Place = tuple[int, int]
"""Line and column of the text, for the message of an engine that cannot run an operator."""

ROWS = "rows"
"""Origin of temporal attributes that count rows instead of time."""


@dataclass(frozen=True)
class Field:
    """A column of a stream.

    Attributes:
        name: the name of the column.
        type: the type of its values.
        temporal: its progress; None for a column without progress.
        declared: the type in GSQL, if the query asks for the semantics of the old compilers; else empty.
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
    """Returns the expressions of items."""
    return tuple([item.expr for item in items])


def written(*exprs: Expr | None) -> tuple[Expr, ...]:
    """Returns the expressions that are not None."""
    return tuple([expr for expr in exprs if expr is not None])


def temporal_names(fields: Sequence[Field]) -> tuple[str, ...]:
    """Returns the names of the temporal columns."""
    return tuple([field.name for field in fields if field.temporal])


def temporals(fields: Sequence[Field]) -> dict[str, Temporal]:
    """Column name -> temporal property, for the columns that make progress."""
    return {field.name: field.temporal for field in fields if field.temporal}


def make_fields(items: Sequence[Item], columns: Mapping[str, Temporal]) -> tuple[Field, ...]:
    """The output fields of items over input columns, by the temporal properties of these columns."""
    return tuple([Field(item.name, item.expr.type, infer(item.expr, dict(columns))) for item in items])


def clocks(fields: Sequence[Field]) -> list[Temporal]:
    """Returns the temporal properties of the columns that are functions of the packet clock."""
    return [field.temporal for field in fields if field.temporal and not field.temporal.origin]


def off_clock(fields: Sequence[Field]) -> str:
    """Returns the origin of the temporal columns if none is a function of the packet clock; else an empty text."""
    return one_origin([field.temporal.origin for field in fields if field.temporal])


def one_origin(origins: Sequence[str]) -> str:
    """Returns the first origin if no attribute has the packet clock, an empty origin; else an empty text."""
    return origins[0] if origins and all(origins) else ""


@dataclass
class UniqueNames:
    """Names of columns that differ in any case: a name that is taken gets 1, 2, ... appended.

    Attributes:
        taken: names in use, in lower case.
    """

    taken: set[str] = field(default_factory=set)
    # Of a name that thousands of columns ask for, each number is tried once.
    _tried: dict[str, int] = field(default_factory=dict)

    def unique(self, name: str) -> str:
        """Returns the name, or the first one with a number that is free, and takes it."""
        free, count = name, self._tried.get(name, 0)
        while free.lower() in self.taken:
            count += 1
            free = f"{name}{count}"
        self._tried[name] = count
        self.taken.add(free.lower())
        return free
