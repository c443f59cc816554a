"""Holds the catalog of built-in functions, aggregates and stateful functions.

The scope resolves calls with `CATALOG`; `catalog.user_functions` adds those of users to it.
"""

from lowwater.catalog import native
from lowwater.catalog.builtin.aggregates import AVERAGES, DISTINCT, EXTREMES, HEAVY, ORDERED, QUANTILES, RUNNING
from lowwater.catalog.builtin.numbers import CALENDAR, FLOWS, NUMBERS
from lowwater.catalog.builtin.strings import ADDRESSES, REGEXES, STRINGS
from lowwater.catalog.builtin.supergroups import STATES
from lowwater.catalog.functions import Catalog

CATALOG = Catalog(
    functions=(
        *NUMBERS,
        *CALENDAR,
        *STRINGS,
        *REGEXES,
        *ADDRESSES,
        *FLOWS,
    ),
    aggregates=(
        *native.AGGREGATES,
        *AVERAGES,
        *DISTINCT,
        *QUANTILES,
        *EXTREMES,
        *ORDERED,
        *RUNNING,
        *HEAVY,
    ),
    states=STATES,
)
