"""Functions of the calendar of a time zone.

A family of the built-in catalog; `catalog.localdays` computes the values and, for the planner, their inverse.
"""

from __future__ import annotations

from lowwater.catalog.expr import Type
from lowwater.catalog.functions import Cost, Function
from lowwater.catalog.limits import ZONE
from lowwater.catalog.localdays import of_instant, of_instants

LOCAL_DAY = Function(
    "local_day",
    (Type.INT, Type.STRING),
    Type.INT,
    of_instant,
    Cost.LOW,
    lfta=True,
    constant=(1,),
    step="day",
    batch=of_instants,
    limits=((1, ZONE),),
)
FUNCTIONS: tuple[Function, ...] = (LOCAL_DAY,)
