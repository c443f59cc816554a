"""One DuckDB of the test process: to open another takes more work than most questions to it."""

from __future__ import annotations

from functools import cache

import duckdb


@cache
def _opened() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def database() -> duckdb.DuckDBPyConnection:
    """A connection of its own. Its temporary tables and views, and what is registered with it, go when it is closed."""
    return _opened().cursor()
