"""Holds the native aggregates, which every engine implements itself; one module per family.

Beside `builtin`, whose aggregates are four Python functions. A family states the facts of its aggregates
(`functions.Native`). A plan holds only the name of an aggregate; an engine looks up the facts here.
"""

from __future__ import annotations

from lowwater.catalog.functions import AggregateFunction, Native
from lowwater.catalog.native import bits, counts, extremes, sums
from lowwater.catalog.types import Type

AGGREGATES: tuple[AggregateFunction, ...] = (
    *counts.AGGREGATES,
    *sums.AGGREGATES,
    *extremes.AGGREGATES,
    *bits.AGGREGATES,
)

NATIVE: dict[str, Native] = {entry.name: entry.native for entry in AGGREGATES if entry.native is not None}
"""The native aggregates by name."""


def type_of(name: str, argument: Type) -> Type:
    """Returns the type of the value of a native aggregate.

    Args:
        name: the name of the aggregate, in lower case.
        argument: the type of its only argument.
    """
    return next(entry.returns for entry in AGGREGATES if entry.name == name and entry.parameters == (argument,))
