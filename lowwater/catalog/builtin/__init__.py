"""Holds the catalog of built-in functions, aggregates and stateful functions.

Beside the expressions. The scope resolves calls with `CATALOG`; `declared` adds user-defined functions to it.
"""

from __future__ import annotations

from lowwater.catalog import native
from lowwater.catalog.builtin import (
    addresses,
    averages,
    calendar,
    distinct,
    flows,
    heavy,
    numbers,
    ordered,
    quantiles,
    regexes,
    running,
    sampling,
    strings,
)
from lowwater.catalog.functions import Catalog

CATALOG = Catalog(
    functions=(
        *numbers.FUNCTIONS,
        *calendar.FUNCTIONS,
        *strings.FUNCTIONS,
        *regexes.FUNCTIONS,
        *addresses.FUNCTIONS,
        *flows.FUNCTIONS,
    ),
    aggregates=(
        *native.AGGREGATES,
        *averages.AGGREGATES,
        *distinct.AGGREGATES,
        *quantiles.AGGREGATES,
        *ordered.AGGREGATES,
        *running.AGGREGATES,
        *heavy.AGGREGATES,
    ),
    states=sampling.STATES,
)
