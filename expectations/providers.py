"""What the pandas engine of Great Expectations lacks, as metrics that are registered with it.

SQL runs on DuckDB, and LIKE on Arrow. Regular expressions and lengths read Arrow's texts, of which GX makes objects
first: that took three times as long. A few of GX's own metrics fail on columns that Arrow backs, where a row has one
value of several or values have an order; here they give what they give on numpy's columns. Importing this module
registers them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np
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
    column_function_partial,
    column_pair_condition_partial,
    multicolumn_condition_partial,
)
from great_expectations.expectations.metrics.metric_provider import metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider

from lowwater.catalog.schemas import ROW
from lowwater.limits import EXAMPLE_ROWS

if TYPE_CHECKING:
    import duckdb


_READ: ContextVar[tuple[Sequence[str], pa.Schema, int] | None] = ContextVar("READ", default=None)
_QUERY = "unexpected_rows_query"

# GX warns of each metric that is replaced, which is what is meant here.
_LOGGER = logging.getLogger(registry.__name__)
_LEVEL = _LOGGER.level
_LOGGER.setLevel(logging.ERROR)


def _register_sql(name: str, answer: Callable[[duckdb.DuckDBPyConnection, str], Any]) -> None:

    @metric_value(engine=PandasExecutionEngine)
    def _pandas(cls: Any, execution_engine: Any, metric_domain_kwargs: Any, metric_value_kwargs: Any, **_: Any) -> Any:
        query = str(metric_value_kwargs[_QUERY]).format(batch="batch")
        frame, _, _ = execution_engine.get_compute_domain(metric_domain_kwargs, MetricDomainTypes.TABLE)
        with _batch(frame) as database:
            return answer(database, query)

    body = {"metric_name": f"{_QUERY}.{name}", "value_keys": (_QUERY,), "_pandas": _pandas, "__module__": __name__}
    type(f"Unexpected{name.title()}", (TableMetricProvider,), body)


@contextmanager
def reading(files: Sequence[str], schema: pa.Schema, megabytes: int) -> Iterator[None]:
    """Lets SQL read the rows of files of a stream in place of the frame, so that they are never in memory at once;
    DuckDB may take so much memory."""
    token = _READ.set((files, schema, megabytes) if files else None)
    try:
        yield
    finally:
        _READ.reset(token)


@contextmanager
def _batch(frame: pd.DataFrame) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database with nothing but the table `batch`."""
    import duckdb

    with duckdb.connect(":memory:") as database:
        if (read := _READ.get()) is None:
            rows = database.from_arrow(pa.Table.from_pandas(frame, preserve_index=False))
        else:
            files, schema, megabytes = read
            names = ", ".join('"' + name.replace('"', '""') + '"' for name in schema.names)
            database.execute(f"SET memory_limit = '{megabytes}MiB'")
            database.execute(f"SET allowed_paths = {list(files)!r}")
            rows = database.read_parquet([*files]).filter(f"_kind = '{ROW}'").project(names)
        rows.create_view("batch")
        database.execute("SET enable_external_access = false")
        database.execute("SET lock_configuration = true")
        yield database


def _texts(column: pd.Series[Any]) -> Any:
    """The values as texts, which they are if Arrow has them as texts."""
    values = pa.array(column)
    return values if pa.types.is_string(values.type) else pa.array(column.astype(str), pa.string())


def _like(column: pd.Series[Any], patterns: Sequence[str], every: bool, escape: str | None) -> Any:
    texts = _texts(column)
    return _of(column, [pc.match_like(texts, _escaped(each, escape)) for each in patterns], every)


def _found(column: pd.Series[Any], patterns: Sequence[str], every: bool) -> Any:
    """Whether all regular expressions of Python, or one of them, are found in values."""
    texts = _texts(column).to_pylist()
    return _of(column, [np.fromiter(map(re.compile(each).search, texts), bool) for each in patterns], every)


def _of(column: pd.Series[Any], holds: Sequence[Any], every: bool) -> Any:
    if not holds:
        raise ValueError("At least one pattern must be supplied.")
    combined = (np.logical_and if every else np.logical_or).reduce([np.asarray(each) for each in holds])
    return pd.Series(combined, index=column.index, dtype=bool)


class TextLengths(ColumnMapMetricProvider):
    """Characters of each value, from which GX computes its metrics of lengths."""

    function_metric_name = "column_values.value_length"

    @column_function_partial(engine=PandasExecutionEngine)  # type: ignore[untyped-decorator] # so is GX
    def _pandas_function(cls, column: Any, **_: Any) -> Any:
        return pd.Series(pc.utf8_length(_texts(column)).to_numpy(zero_copy_only=False), index=column.index)


def _escaped(pattern: str, escape: str | None) -> str:
    """A pattern for Arrow, where a backslash escapes."""
    if escape == "\\":
        return pattern
    plain = pattern.replace("\\", "\\\\")
    if not escape:
        return plain
    parts = plain.split(escape * 2)
    return escape.join(part.replace(escape, "\\") for part in parts)


_ROW = ("batch_id", "table", "column_A", "column_B", "row_condition", "condition_parser", "ignore_row_if")
_COLUMN = (ColumnMapMetricProvider, column_condition_partial, ())
_PAIR = (ColumnPairMapMetricProvider, column_pair_condition_partial, _ROW)
_SEVERAL = (MulticolumnMapMetricProvider, multicolumn_condition_partial, ("column_list", *_ROW[:2], *_ROW[4:]))


def _register(kind: Any, name: str, keys: tuple[str, ...], holds: Callable[..., Any]) -> None:
    """Registers whether rows hold, by their columns and the values of some arguments of the expectation."""
    base, partial, domain = kind

    def _pandas(cls: Any, *columns: Any, **kwargs: Any) -> Any:
        return holds(*columns, *(kwargs.get(key) for key in keys))

    body = {"condition_metric_name": name, "condition_value_keys": keys, "__module__": __name__}
    body |= {"_pandas": partial(engine=PandasExecutionEngine)(_pandas)}
    if domain:
        body["condition_domain_keys"] = domain
    type("".join(part.title() for part in name.split("_")), (base,), body)


def _in_order(column: pd.Series[Any], compare: Any) -> Any:
    """Whether each value and the one before compare; the first value has none before."""
    values = pa.array(column)  # not by `diff`: where pyarrow was used before pandas was imported, it knows no pandas.NA
    holds = compare(values[1:], values[:-1]).to_numpy(zero_copy_only=False)
    return pd.Series([True, *holds][: len(column)], index=column.index, dtype=bool)


def _sure(holds: pd.Series[Any]) -> Any:
    """What is unknown does not hold."""
    return holds.fillna(False).astype(bool)


def _in_pairs(left: Any, right: Any, pairs: Sequence[Any]) -> Any:
    known, lists = {(one, other) for one, other in pairs}, (pa.array(each).to_pylist() for each in (left, right))
    return pd.Series([pair in known for pair in zip(*lists, strict=True)], index=left.index, dtype=bool)


def _sums_to(columns: Any, total: Any) -> Any:
    return _sure(sum((columns.iloc[:, at] for at in range(1, columns.shape[1])), columns.iloc[:, 0]) == total)


_register_sql("table", lambda database, query: database.sql(query).limit(EXAMPLE_ROWS).to_arrow_table().to_pylist())
_register_sql("row_count", lambda database, query: database.sql(query).count("*").fetchall()[0][0])
# fmt: off
_register(_COLUMN, "column_values.match_like_pattern", ("like_pattern", "escape"),
          lambda column, pattern, escape: _like(column, [pattern], True, escape))
_register(_COLUMN, "column_values.not_match_like_pattern", ("like_pattern", "escape"),
          lambda column, pattern, escape: ~_like(column, [pattern], True, escape))
_register(_COLUMN, "column_values.match_like_pattern_list", ("like_pattern_list", "match_on", "escape"),
          lambda column, patterns, on, escape: _like(column, patterns, on == "all", escape))
_register(_COLUMN, "column_values.not_match_like_pattern_list", ("like_pattern_list", "escape"),
          lambda column, patterns, escape: ~_like(column, patterns, False, escape))
_register(_COLUMN, "column_values.match_regex", ("regex",), lambda column, each: _found(column, [each], True))
_register(_COLUMN, "column_values.not_match_regex", ("regex",), lambda column, each: ~_found(column, [each], True))
_register(_COLUMN, "column_values.match_regex_list", ("regex_list", "match_on"),
          lambda column, patterns, on: _found(column, patterns, on == "all"))
_register(_COLUMN, "column_values.not_match_regex_list", ("regex_list",),
          lambda column, patterns: ~_found(column, patterns, False))
_register(_COLUMN, "column_values.increasing", ("strictly",),
          lambda column, strictly: _in_order(column, pc.greater if strictly else pc.greater_equal))
_register(_COLUMN, "column_values.decreasing", ("strictly",),
          lambda column, strictly: _in_order(column, pc.less if strictly else pc.less_equal))
_register(_PAIR, "column_pair_values.a_greater_than_b", ("or_equal",),
          lambda left, right, equal: _sure(left >= right if equal else left > right))
_register(_PAIR, "column_pair_values.equal", (), lambda left, right: _sure(left == right))
_register(_PAIR, "column_pair_values.in_set", ("value_pairs_set",), _in_pairs)
_register(_SEVERAL, "multicolumn_sum.equal", ("sum_total",), _sums_to)
# fmt: on

_LOGGER.setLevel(_LEVEL)
