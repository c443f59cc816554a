"""What the pandas engine of Great Expectations lacks, as metrics that are registered with it.

SQL runs on DuckDB, and LIKE on Arrow. A few of GX's own metrics fail on columns that Arrow backs, where a row has one
value of several or values have an order; here they give what they give on numpy's columns. Importing this module
registers them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.execution_engine import PandasExecutionEngine
from great_expectations.expectations import registry
from great_expectations.expectations.metrics.map_metric_provider import (
    ColumnMapMetricProvider,
    ColumnPairMapMetricProvider,
    MulticolumnMapMetricProvider,
    column_condition_partial,
    column_pair_condition_partial,
    multicolumn_condition_partial,
)
from great_expectations.expectations.metrics.metric_provider import metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider

if TYPE_CHECKING:
    import duckdb

MOST_ROWS = 1000
"""Most rows of an answer of SQL that are kept."""


@dataclass(frozen=True)
class Relation:
    """Files of rows that SQL reads in place of the frame, so that they are never in memory at once."""

    files: Sequence[str]  # parquet files
    select: str  # what is read of them, as SQL
    megabytes: int  # memory that DuckDB may take


RELATION: ContextVar[Relation | None] = ContextVar("RELATION", default=None)
_QUERY = "unexpected_rows_query"

# GX warns of each metric that is replaced, which is what is meant here.
_LOGGER = logging.getLogger(registry.__name__)
_LEVEL = _LOGGER.level
_LOGGER.setLevel(logging.ERROR)


class UnexpectedRows(TableMetricProvider):
    """Rows that SQL finds, at most MOST_ROWS."""

    metric_name = f"{_QUERY}.table"
    value_keys = (_QUERY,)

    @metric_value(engine=PandasExecutionEngine)
    def _pandas(cls, execution_engine: Any, metric_domain_kwargs: Any, metric_value_kwargs: Any, **_: Any) -> Any:
        query = _query(metric_value_kwargs)
        with _batch(execution_engine, metric_domain_kwargs) as database:
            return database.sql(f"SELECT * FROM ({query}\n) LIMIT {MOST_ROWS}").to_arrow_table().to_pylist()


class UnexpectedRowCount(TableMetricProvider):
    """The number of rows that SQL finds."""

    metric_name = f"{_QUERY}.row_count"
    value_keys = (_QUERY,)

    @metric_value(engine=PandasExecutionEngine)
    def _pandas(cls, execution_engine: Any, metric_domain_kwargs: Any, metric_value_kwargs: Any, **_: Any) -> Any:
        query = _query(metric_value_kwargs)
        with _batch(execution_engine, metric_domain_kwargs) as database:
            (row,) = database.sql(f"SELECT count(*) FROM ({query}\n)").fetchall()
            return row[0]


def _query(values: Any) -> str:
    return str(values[_QUERY]).format(batch="batch")


@contextmanager
def _batch(engine: PandasExecutionEngine, domain: dict[str, Any]) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database with nothing but the table `batch`."""
    import duckdb

    relation = RELATION.get()
    with duckdb.connect(":memory:") as database:
        if relation is None:
            frame, _, _ = engine.get_compute_domain(domain, MetricDomainTypes.TABLE)
            database.register("batch", pa.Table.from_pandas(frame, preserve_index=False))
        else:
            database.execute(f"SET memory_limit = '{relation.megabytes}MiB'")
            database.execute(f"SET allowed_paths = {list(relation.files)!r}")
            database.execute(f"CREATE VIEW batch AS {relation.select}")
        database.execute("SET enable_external_access = false")
        database.execute("SET lock_configuration = true")
        yield database


def _texts(column: pd.Series[Any]) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(column, pa.string())])


def _likes(column: pd.Series[Any], patterns: Sequence[str], every: bool, escape: str | None) -> Any:
    """Whether values are like all patterns, or one of them."""
    if not patterns:
        raise ValueError("At least one like_pattern must be supplied in the like_pattern_list.")
    texts = _texts(column.astype(str))
    likes = [pc.match_like(texts, _escaped(pattern, escape)) for pattern in patterns]
    combined = likes[0]
    for like in likes[1:]:
        combined = (pc.and_ if every else pc.or_)(combined, like)
    return pd.Series(combined.to_numpy(), index=column.index)


def _escaped(pattern: str, escape: str | None) -> str:
    """A pattern for Arrow, where a backslash escapes."""
    if escape == "\\":
        return pattern
    plain = pattern.replace("\\", "\\\\")
    if not escape:
        return plain
    parts = plain.split(escape * 2)
    return escape.join(part.replace(escape, "\\") for part in parts)


class MatchLike(ColumnMapMetricProvider):
    """Values that are like a pattern of SQL."""

    condition_metric_name = "column_values.match_like_pattern"
    condition_value_keys = ("like_pattern", "escape")

    @column_condition_partial(engine=PandasExecutionEngine)
    def _pandas(cls, column: Any, like_pattern: str, escape: str | None = None, **_: Any) -> Any:
        return _likes(column, [like_pattern], True, escape)


class NotMatchLike(ColumnMapMetricProvider):
    """Values that are not like a pattern of SQL."""

    condition_metric_name = "column_values.not_match_like_pattern"
    condition_value_keys = ("like_pattern", "escape")

    @column_condition_partial(engine=PandasExecutionEngine)
    def _pandas(cls, column: Any, like_pattern: str, escape: str | None = None, **_: Any) -> Any:
        return ~_likes(column, [like_pattern], True, escape)


class MatchLikeList(ColumnMapMetricProvider):
    """Values that are like one of some patterns of SQL, or like all."""

    condition_metric_name = "column_values.match_like_pattern_list"
    condition_value_keys = ("like_pattern_list", "match_on", "escape")

    @column_condition_partial(engine=PandasExecutionEngine)
    def _pandas(
        cls, column: Any, like_pattern_list: list[str], match_on: str | None, escape: str | None = None, **_: Any
    ) -> Any:
        return _likes(column, like_pattern_list, match_on == "all", escape)


class NotMatchLikeList(ColumnMapMetricProvider):
    """Values that are like none of some patterns of SQL."""

    condition_metric_name = "column_values.not_match_like_pattern_list"
    condition_value_keys = ("like_pattern_list", "escape")

    @column_condition_partial(engine=PandasExecutionEngine)
    def _pandas(cls, column: Any, like_pattern_list: list[str], escape: str | None = None, **_: Any) -> Any:
        return ~_likes(column, like_pattern_list, False, escape)


def _in_order(column: pd.Series[Any], compare: Any) -> Any:
    """Whether each value and the one before compare; the first value has none before."""
    values = pa.array(column)  # not by `diff`: where pyarrow was used before pandas was imported, it knows no pandas.NA
    holds = compare(values[1:], values[:-1]).to_numpy(zero_copy_only=False)
    return pd.Series([True, *holds][: len(column)], index=column.index, dtype=bool)


class Increasing(ColumnMapMetricProvider):
    """Values that are not below the one before."""

    condition_metric_name = "column_values.increasing"
    condition_value_keys = ("strictly",)

    @column_condition_partial(engine=PandasExecutionEngine)
    def _pandas(cls, column: Any, **kwargs: Any) -> Any:
        return _in_order(column, pc.greater if kwargs.get("strictly") else pc.greater_equal)


class Decreasing(ColumnMapMetricProvider):
    """Values that are not above the one before."""

    condition_metric_name = "column_values.decreasing"
    condition_value_keys = ("strictly",)

    @column_condition_partial(engine=PandasExecutionEngine)
    def _pandas(cls, column: Any, **kwargs: Any) -> Any:
        return _in_order(column, pc.less if kwargs.get("strictly") else pc.less_equal)


def _sure(holds: pd.Series[Any]) -> Any:
    """What is unknown does not hold."""
    return holds.fillna(False).astype(bool)


class PairGreater(ColumnPairMapMetricProvider):
    """Rows whose first value is greater than the second."""

    condition_metric_name = "column_pair_values.a_greater_than_b"
    condition_domain_keys = (
        "batch_id",
        "table",
        "column_A",
        "column_B",
        "row_condition",
        "condition_parser",
        "ignore_row_if",
    )
    condition_value_keys = ("or_equal",)

    @column_pair_condition_partial(engine=PandasExecutionEngine)  # type: ignore[untyped-decorator]
    def _pandas(cls, column_A: Any, column_B: Any, **kwargs: Any) -> Any:
        return _sure(column_A >= column_B if kwargs.get("or_equal") else column_A > column_B)


class PairEqual(ColumnPairMapMetricProvider):
    """Rows with two equal values."""

    condition_metric_name = "column_pair_values.equal"
    condition_domain_keys = PairGreater.condition_domain_keys
    condition_value_keys = ()

    @column_pair_condition_partial(engine=PandasExecutionEngine)  # type: ignore[untyped-decorator]
    def _pandas(cls, column_A: Any, column_B: Any, **_: Any) -> Any:
        return _sure(column_A == column_B)


class PairInSet(ColumnPairMapMetricProvider):
    """Rows whose two values are a pair of a set."""

    condition_metric_name = "column_pair_values.in_set"
    condition_domain_keys = ("batch_id", "table", "column_A", "column_B", "ignore_row_if")
    condition_value_keys = ("value_pairs_set",)

    @column_pair_condition_partial(engine=PandasExecutionEngine)  # type: ignore[untyped-decorator]
    def _pandas(cls, column_A: Any, column_B: Any, **kwargs: Any) -> Any:
        pairs = {(left, right) for left, right in kwargs["value_pairs_set"]}
        lists = (pa.array(column).to_pylist() for column in (column_A, column_B))
        return pd.Series([pair in pairs for pair in zip(*lists, strict=True)], index=column_A.index, dtype=bool)


class MulticolumnSum(MulticolumnMapMetricProvider):
    """Rows whose values have a sum."""

    condition_metric_name = "multicolumn_sum.equal"
    condition_domain_keys = ("batch_id", "table", "column_list", "row_condition", "condition_parser", "ignore_row_if")
    condition_value_keys = ("sum_total",)

    @multicolumn_condition_partial(engine=PandasExecutionEngine)  # type: ignore[untyped-decorator]
    def _pandas(cls, column_list: Any, **kwargs: Any) -> Any:
        total = sum(column_list.iloc[:, at] for at in range(1, column_list.shape[1])) + column_list.iloc[:, 0]
        return _sure(total == kwargs["sum_total"])


_LOGGER.setLevel(_LEVEL)
