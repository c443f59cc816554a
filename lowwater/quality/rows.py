"""The rows of a query held against the suite that people wrote for it, in bounded memory.

Between `streams/` and the frame `rows`; `written` read the suite. An expectation means what it means in Great
Expectations' pandas engine: NULL is no value, and so is NaN; `mostly` is of the values that are there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lowwater.catalog.streams import ROW
from lowwater.quality.streams import BATCH, KEPT, Broken
from lowwater.quality.written import Written

NOTHING = "nothing is asked of its rows"
"""Stands for the suite of a query that has none, so that a page says so."""


@dataclass
class Judged:
    """What the rows of a query came to under one expectation.

    Attributes:
        rule: the expectation; None for a query without a suite.
        values: that were judged: rows whose value is there; for the number of rows it is that number.
        broken: the rows that break it, the first of them kept.
    """

    rule: Written | None
    values: int = 0
    broken: Broken = field(default_factory=Broken)

    @property
    def name(self) -> str:
        """The expectation in words."""
        return self.rule.name if self.rule else NOTHING

    @property
    def allowed(self) -> int:
        """Most values that may break it."""
        # The small part undoes what 1 - 0.9 lacks: nine of ten values are 0.9 of them.
        return math.floor(self.values * (1 - self.rule.mostly) + 1e-6) if self.rule else 0

    def measures(self) -> dict[str, Any]:
        """The columns of the frame that are about the rows."""
        first = self.broken.rows[0] if self.broken.rows else {}
        return {
            "rule": self.name,
            "severity": self.rule.severity if self.rule else "warning",
            "why": self.rule.description if self.rule else "",
            "values": self.values,
            "broken": self.broken.total,
            "allowed": self.allowed,
            "example": ", ".join(f"{name}={'NULL' if value is None else value}" for name, value in first.items()),
        }


def judge(files: Sequence[Path], suite: Sequence[Written]) -> list[Judged]:
    """Judges the rows of a stream over an interval, in one pass.

    Args:
        files: the files of the interval.
        suite: what is expected; without anything there is one entry that says so.
    """
    found = [Judged(rule) for rule in suite]
    of_rows = [each for each in found if each.rule and each.rule.type in TESTS]
    rows = 0
    for path in files if found else ():
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(BATCH):
                batch = batch.filter(pc.equal(batch.column("_kind"), ROW))
                rows += batch.num_rows
                for each in of_rows:
                    _add(each, batch)
    for each in found:
        if each.rule and each.rule.type not in TESTS:
            each.values = rows
            # It is about all of them at once, so none is kept.
            each.broken.total = 0 if _within(pa.array([rows]), each.rule.kwargs)[0].as_py() else 1
    return found or [Judged(None)]


def _add(judged: Judged, batch: pa.RecordBatch) -> None:
    assert judged.rule is not None
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    kwargs = judged.rule.kwargs
    there, keeps = TESTS[judged.rule.type](columns, kwargs)
    breaks = pc.and_(there, pc.invert(pc.fill_null(keeps, False)))
    judged.values += pc.sum(there).as_py() or 0
    judged.broken.total += pc.sum(breaks).as_py() or 0
    room = KEPT - len(judged.broken.rows)
    if room > 0:
        judged.broken.rows += batch.filter(breaks).slice(0, room).to_pylist()


Columns = Mapping[str, pa.Array]
Kwargs = Mapping[str, Any]
Marks = tuple[pa.Array, pa.Array]
"""Which rows are judged, and which keep the rule; NULL in the second keeps nothing."""


def _there(values: pa.Array) -> pa.Array:
    return pc.invert(pc.is_null(values, nan_is_null=True))


def _not_null(columns: Columns, kwargs: Kwargs) -> Marks:
    there = _there(columns[kwargs["column"]])
    return pc.or_(there, True), there


def _null(columns: Columns, kwargs: Kwargs) -> Marks:
    there = _there(columns[kwargs["column"]])
    return pc.or_(there, True), pc.invert(there)


def _of_values(test: Callable[[pa.Array, Kwargs], pa.Array]) -> Callable[[Columns, Kwargs], Marks]:
    """A test of the values of one column that are there."""

    def marks(columns: Columns, kwargs: Kwargs) -> Marks:
        values = columns[kwargs["column"]]
        return _there(values), test(values, kwargs)

    return marks


def _of_pairs(test: Callable[[pa.Array, pa.Array, Kwargs], pa.Array]) -> Callable[[Columns, Kwargs], Marks]:
    """A test of two columns, of the rows in which one of the two is there."""

    def marks(columns: Columns, kwargs: Kwargs) -> Marks:
        left, right = columns[kwargs["column_A"]], columns[kwargs["column_B"]]
        return pc.or_(_there(left), _there(right)), test(left, right, kwargs)

    return marks


def _within(values: pa.Array, kwargs: Kwargs) -> pa.Array:
    keeps = pc.is_valid(values)
    if (least := kwargs.get("min_value")) is not None:
        keeps = pc.and_(keeps, (pc.greater if kwargs.get("strict_min") else pc.greater_equal)(values, least))
    if (most := kwargs.get("max_value")) is not None:
        keeps = pc.and_(keeps, (pc.less if kwargs.get("strict_max") else pc.less_equal)(values, most))
    return keeps


def _lengths(values: pa.Array, kwargs: Kwargs) -> pa.Array:
    return _within(pc.utf8_length(values), kwargs)


def _in_set(values: pa.Array, kwargs: Kwargs) -> pa.Array:
    kinds: dict[pa.DataType, Callable[[Any], Any]] = {pa.int64(): int, pa.float64(): float}
    return pc.is_in(
        values, pa.array(map(kinds.get(values.type, lambda value: value), kwargs["value_set"]), values.type)
    )


def _matches(values: pa.Array, kwargs: Kwargs) -> pa.Array:
    return pc.match_substring_regex(values, kwargs["regex"])


def _not(test: Callable[[pa.Array, Kwargs], pa.Array]) -> Callable[[pa.Array, Kwargs], pa.Array]:
    return lambda values, kwargs: pc.invert(test(values, kwargs))


def _greater(left: pa.Array, right: pa.Array, kwargs: Kwargs) -> pa.Array:
    return (pc.greater_equal if kwargs.get("or_equal") else pc.greater)(left, right)


TESTS: dict[str, Callable[[Columns, Kwargs], Marks]] = {
    "expect_column_values_to_not_be_null": _not_null,
    "expect_column_values_to_be_null": _null,
    "expect_column_values_to_be_between": _of_values(_within),
    "expect_column_values_to_be_in_set": _of_values(_in_set),
    "expect_column_values_to_not_be_in_set": _of_values(_not(_in_set)),
    "expect_column_values_to_match_regex": _of_values(_matches),
    "expect_column_values_to_not_match_regex": _of_values(_not(_matches)),
    "expect_column_value_lengths_to_be_between": _of_values(_lengths),
    "expect_column_pair_values_to_be_equal": _of_pairs(lambda left, right, _: pc.equal(left, right)),
    "expect_column_pair_values_a_to_be_greater_than_b": _of_pairs(_greater),
}
"""Those about single rows."""
