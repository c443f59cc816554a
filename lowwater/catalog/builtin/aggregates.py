"""The eight aggregates that every engine has of its own.

A family of the shipped catalog: declared for the types they take, without Python. The low level computes `sub`, the
high level `sup` over its results; avg has neither, because the planner writes it as a sum and a count.
"""

from __future__ import annotations

from lowwater.catalog.builtin.base import EVERY
from lowwater.catalog.expr import Type
from lowwater.catalog.functions import AggregateFunction

_BITS = ("and_aggr", "or_aggr", "xor_aggr")


def _split(name: str, parameters: tuple[Type, ...], returns: Type, sup: str) -> AggregateFunction:
    return AggregateFunction(name, parameters, returns, taken=len(parameters), lfta=True, sub=name, sup=sup)


AGGREGATES: tuple[AggregateFunction, ...] = (
    _split("count", (), Type.INT, "sum"),
    *(_split("count", (kind,), Type.INT, "sum") for kind in EVERY),
    _split("sum", (Type.INT,), Type.INT, "sum"),
    _split("sum", (Type.FLOAT,), Type.FLOAT, "sum"),
    _split("sum", (Type.BOOL,), Type.INT, "sum"),
    *(_split(name, (kind,), kind, name) for name in ("min", "max") for kind in EVERY),
    *(AggregateFunction("avg", (kind,), Type.FLOAT, lfta=True) for kind in (Type.INT, Type.FLOAT)),
    *(_split(name, (kind,), kind, name) for name in _BITS for kind in (Type.INT, Type.BOOL)),
)
