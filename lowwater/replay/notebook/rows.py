"""Rows of a lake in the form that a program asks for: Arrow batches, one table, pandas, polars, or a DuckDB relation.

`lake` and `packet_rows` say which rows. They are read when they are asked for, each time anew. The packages of
frames are no part of the light core, so a method that needs an absent one names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lowwater.errors import AbsentExtraError

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars

INSTANT = pa.timestamp("ns", "UTC")
"""Type of columns that are instants."""

_PANDAS_RELEASES = "pandas<3"
"""What the extra `quality` asks for, too."""


@dataclass(frozen=True)
class Rows:
    """Rows of a lake, not read yet. Arrow-aware libraries take the object as it is: `polars.DataFrame(rows)`.

    Attributes:
        name: what the rows are of: a query, a link or a ledger.
        schema: columns and types. Instants are timestamps of UTC in nanoseconds, addresses are texts.
        version: version of the Delta table; None for packets and records.
        notes: ranges of time without rows or with rows that may change, as sentences.
    """

    name: str
    schema: pa.Schema
    version: int | None
    notes: tuple[str, ...]
    _read: Callable[[], Iterator[pa.RecordBatch]] = field(repr=False, compare=False)

    def __repr__(self) -> str:
        at = "" if self.version is None else f" at version {self.version}"
        return f"<Rows of {self.name}{at}: {', '.join(self.schema.names)}>"

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows in Arrow batches, in bounded memory: of a table by time, of a link in the order of packets.

        Raises:
            LakeError: the lake cannot be read.
        """
        return self._read()

    def reader(self) -> pa.RecordBatchReader:
        """Returns a reader over `batches`, for libraries that take one."""
        return pa.RecordBatchReader.from_batches(self.schema, self._read())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.reader().__arrow_c_stream__(requested_schema)

    def count(self) -> int:
        """Counts the rows; reads them."""
        return sum(batch.num_rows for batch in self._read())

    def arrow(self) -> pa.Table:
        """Returns all rows as an Arrow table."""
        return pa.Table.from_batches(self._read(), self.schema)

    def pandas(self) -> pandas.DataFrame:
        """Returns all rows as a pandas frame. Integers and booleans with NULL have pandas' nullable types.

        Raises:
            AbsentExtraError: pandas is not installed.
        """
        _require("pandas", _PANDAS_RELEASES)
        import pandas

        table = self.arrow()
        frame: pandas.DataFrame = table.to_pandas()
        for column, kind in zip(table.columns, table.schema, strict=True):  # NULL would make floats of integers
            if column.null_count and (nullable := _nullable(kind.type)):
                frame[kind.name] = pandas.Series(nullable.__from_arrow__(column), index=frame.index)
        return frame

    def polars(self) -> polars.DataFrame:
        """Returns all rows as a polars frame.

        Raises:
            AbsentExtraError: polars is not installed.
        """
        _require("polars", "polars")
        import polars

        frame = polars.from_arrow(self.arrow())
        assert isinstance(frame, polars.DataFrame)
        return frame

    def duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Returns a DuckDB relation that streams the rows each time it is evaluated; instants are TIMESTAMP_NS in UTC.

        Args:
            connection: connection of the relation; None for DuckDB's own.

        Raises:
            AbsentExtraError: DuckDB is not installed.
        """
        _require("duckdb", "duckdb")
        import duckdb

        source = _WithoutZones(self)
        return (connection or duckdb).from_arrow(source)


@dataclass(frozen=True)
class _WithoutZones:
    """Rows as DuckDB takes them: its timestamps with a zone have microseconds only, those without have nanoseconds."""

    rows: Rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        plain = [each.with_type(pa.timestamp("ns")) if each.type == INSTANT else each for each in self.rows.schema]
        schema = pa.schema(plain)
        batches = (batch.cast(schema) for batch in self.rows.batches())
        return pa.RecordBatchReader.from_batches(schema, batches).__arrow_c_stream__(requested_schema)


def _nullable(kind: pa.DataType) -> Any:
    """Returns pandas' type of integers or booleans with NULL; None for other types."""
    import pandas

    if pa.types.is_boolean(kind):
        return pandas.BooleanDtype()
    return pandas.Int64Dtype() if pa.types.is_signed_integer(kind) else None


def _require(package: str, named: str) -> None:
    if find_spec(package) is None:
        quoted = f"'{named}'" if named != package else named
        raise AbsentExtraError(
            f"rows as a frame of {package} need a package that is not installed: {package}",
            f"pip install {quoted}; `arrow` and `batches` need nothing more",
        )
