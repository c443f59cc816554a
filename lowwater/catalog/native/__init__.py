"""Native aggregates: those that each engine computes of its own, one module for each family.

Beside `builtin`, whose aggregates are four functions of Python. A family states all that engines know of its aggregates
(`functions.Native`): plans carry names, and whoever reads a plan looks the facts up here.
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

NATIVE: dict[str, Native] = {one.name: one.native for one in AGGREGATES if one.native is not None}
"""Each native aggregate by its name."""


def type_of(name: str, argument: Type) -> Type:
    """The type of a native aggregate over one argument."""
    return next(one.returns for one in AGGREGATES if one.name == name and one.parameters == (argument,))
