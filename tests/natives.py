"""What native aggregates mean, written without the package: an entry here for each of `lowwater.catalog.native`."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import and_, or_, xor
from typing import Any

FOLDS: dict[str, Callable[[list[Any]], Any]] = {
    "count": len,
    "sum": sum,
    "min": min,
    "max": max,
    "avg": lambda values: float(sum(values)) / len(values),
    "and_aggr": lambda values: reduce(and_, values),
    "or_aggr": lambda values: reduce(or_, values),
    "xor_aggr": lambda values: reduce(xor, values),
}
"""Name -> the value over all arguments of a group that are not NULL; of no argument only count has a value."""

PAIRS: tuple[tuple[str, str], ...] = (
    ("count(*)", "count(*)"),
    ("count(srcPort)", "count(sport)"),
    ("sum(len)", "sum(len)::BIGINT"),
    ("sum(srcPort)", "sum(sport)::BIGINT"),
    ("sum(SYN)", "sum(((flags & 2) <> 0)::INT)::BIGINT"),
    ("min(srcPort)", "min(sport)"),
    ("max(len)", "max(len)"),
    ("avg(srcPort)", "avg(sport)"),
    ("and_aggr(len)", "bit_and(len)"),
    ("and_aggr(ACK)", "bool_and((flags & 16) <> 0)"),
    ("or_aggr(srcPort)", "bit_or(sport)"),
    ("or_aggr(SYN)", "bool_or((flags & 2) <> 0)"),
    ("xor_aggr(srcPort)", "bit_xor(sport)"),
)
"""Expressions over TCP packets -> the same in DuckDB's SQL over the packets of `tests/law/test_natives.py`."""
