"""Checks the rows of a query against its custom suite, in bounded memory.

Reads `streams/` and fills the frame `rows`; `custom.suites` reads the suite. An expectation means the same as in the
pandas engine of Great Expectations: NULL and NaN are no values, and `mostly` is a share of the values."""

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
from lowwater.quality.custom.suites import CustomExpectation
from lowwater.quality.outputs.stream_checks import BATCH, EXAMPLE_ROWS, BrokenRows

NOTHING = "nothing is asked of its rows"
"""Name of the result of a query without a suite, so that its page says so."""


@dataclass
class RuleResult:
    """The result of one expectation over the rows of a query.

    Attributes:
        rule: the expectation; None for a query without a suite.
        values: rows that have a value; for an expectation about the number of rows, that number.
        broken: rows that break the expectation, with the first as examples.
    """

    rule: CustomExpectation | None
    values: int = 0
    broken: BrokenRows = field(default_factory=BrokenRows)

    @property
    def name(self) -> str:
        """The expectation in words."""
        return self.rule.name if self.rule else NOTHING

    @property
    def allowed(self) -> int:
        """Number of values that may break the expectation."""
        # The small term makes up for the rounding of 1 - 0.9: nine of ten values are a share of 0.9.
        return math.floor(self.values * (1 - self.rule.mostly) + 1e-6) if self.rule else 0

    def measures(self) -> dict[str, Any]:
        """The columns of the frame `rows`."""
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


def check_rows(files: Sequence[Path], suite: Sequence[CustomExpectation]) -> list[RuleResult]:
    """Checks the rows of a stream over an interval, in one pass.

    Args:
        files: the files of the interval.
        suite: the expectations; an empty suite gives one result that says so.
    """
    results = [RuleResult(rule) for rule in suite]
    of_rows = [result for result in results if result.rule and result.rule.type in ROW_TESTS]
    rows = 0
    for path in files if results else ():
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(BATCH):
                batch = batch.filter(pc.equal(batch.column("_kind"), ROW))
                rows += batch.num_rows
                for of_row in of_rows:
                    _add(of_row, batch)
    for result in results:
        if result.rule and result.rule.type not in ROW_TESTS:
            result.values = rows
            # The expectation is about the number of rows, so no single row is an example.
            result.broken.total = 0 if _within(pa.array([rows]), result.rule.kwargs)[0].as_py() else 1
    return results or [RuleResult(None)]


def _add(judged: RuleResult, batch: pa.RecordBatch) -> None:
    assert judged.rule is not None
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    kwargs = judged.rule.kwargs
    valid, keeps = ROW_TESTS[judged.rule.type](columns, kwargs)
    breaks = pc.and_(valid, pc.invert(pc.fill_null(keeps, False)))
    judged.values += pc.sum(valid).as_py() or 0
    judged.broken.total += pc.sum(breaks).as_py() or 0
    room = EXAMPLE_ROWS - len(judged.broken.rows)
    if room > 0:
        judged.broken.rows += batch.filter(breaks).slice(0, room).to_pylist()


Columns = Mapping[str, pa.Array]
Kwargs = Mapping[str, Any]
Marks = tuple[pa.Array, pa.Array]
"""Rows with a value, and rows that keep the rule; NULL in the second array breaks it."""


def _is_value(values: pa.Array) -> pa.Array:
    return pc.invert(pc.is_null(values, nan_is_null=True))


def _not_null(columns: Columns, kwargs: Kwargs) -> Marks:
    valid = _is_value(columns[kwargs["column"]])
    return pc.or_(valid, True), valid


def _null(columns: Columns, kwargs: Kwargs) -> Marks:
    valid = _is_value(columns[kwargs["column"]])
    return pc.or_(valid, True), pc.invert(valid)


def _column_test(test: Callable[[pa.Array, Kwargs], pa.Array]) -> Callable[[Columns, Kwargs], Marks]:
    """Builds a test of the values of one column."""

    def marks(columns: Columns, kwargs: Kwargs) -> Marks:
        values = columns[kwargs["column"]]
        return _is_value(values), test(values, kwargs)

    return marks


def _pair_test(test: Callable[[pa.Array, pa.Array, Kwargs], pa.Array]) -> Callable[[Columns, Kwargs], Marks]:
    """Builds a test of two columns, for rows with a value in at least one."""

    def marks(columns: Columns, kwargs: Kwargs) -> Marks:
        left, right = columns[kwargs["column_A"]], columns[kwargs["column_B"]]
        return pc.or_(_is_value(left), _is_value(right)), test(left, right, kwargs)

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


ROW_TESTS: dict[str, Callable[[Columns, Kwargs], Marks]] = {
    "expect_column_values_to_not_be_null": _not_null,
    "expect_column_values_to_be_null": _null,
    "expect_column_values_to_be_between": _column_test(_within),
    "expect_column_values_to_be_in_set": _column_test(_in_set),
    "expect_column_values_to_not_be_in_set": _column_test(_not(_in_set)),
    "expect_column_values_to_match_regex": _column_test(_matches),
    "expect_column_values_to_not_match_regex": _column_test(_not(_matches)),
    "expect_column_value_lengths_to_be_between": _column_test(_lengths),
    "expect_column_pair_values_to_be_equal": _pair_test(lambda left, right, _: pc.equal(left, right)),
    "expect_column_pair_values_a_to_be_greater_than_b": _pair_test(_greater),
}
"""Tests of the expectations about single rows."""
