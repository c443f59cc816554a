"""The eight aggregates that every engine has of its own.

A family of the shipped catalog: declared for the types they take, without Python. The low level computes `sub`, the
high level `sup` over its results; avg has neither, because the planner writes it as a sum and a count. Those with a
`fold` are nothing else, so that this is all that any engine knows of them; the other five have code of their own in
`low.code.aggregation`, `high.slices.group` and `stream.aggregates`.
"""

from __future__ import annotations

from operator import and_, or_, xor

import numpy as np

from lowwater.catalog.builtin.base import EVERY
from lowwater.catalog.expr import Type
from lowwater.catalog.functions import AggregateFunction, Fold

FOLDS = {
    "and_aggr": Fold("&", and_, np.bitwise_and, neutral=-1),
    "or_aggr": Fold("|", or_, np.bitwise_or, neutral=0),
    "xor_aggr": Fold("^", xor, np.bitwise_xor, neutral=0),
}


def _split(name: str, parameters: tuple[Type, ...], returns: Type, sup: str) -> AggregateFunction:
    taken, fold = len(parameters), FOLDS.get(name)
    return AggregateFunction(name, parameters, returns, taken=taken, lfta=True, sub=name, sup=sup, fold=fold)


AGGREGATES: tuple[AggregateFunction, ...] = (
    _split("count", (), Type.INT, "sum"),
    *(_split("count", (kind,), Type.INT, "sum") for kind in EVERY),
    _split("sum", (Type.INT,), Type.INT, "sum"),
    _split("sum", (Type.FLOAT,), Type.FLOAT, "sum"),
    _split("sum", (Type.BOOL,), Type.INT, "sum"),
    *(_split(name, (kind,), kind, name) for name in ("min", "max") for kind in EVERY),
    *(AggregateFunction("avg", (kind,), Type.FLOAT, lfta=True) for kind in (Type.INT, Type.FLOAT)),
    *(_split(name, (kind,), kind, name) for name in FOLDS for kind in (Type.INT, Type.BOOL)),
)
