"""DuckDB over the records of a set, beside the engines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from lowwater.catalog.protocols import Protocol
from lowwater.catalog.values import Type, format_ip, pack_ip
from lowwater.plan.operators import Node
from lowwater.replay.run_command import RunResults
from tests.law.compare import Rows, rows_of as compared_rows, value as plain
from tests.plan.batch import evaluate
from tests.plan.batch_rows import Packet, World
from tests.public import sql
from tests.public.records import SECOND, Record, sortable, table_of
from tests.public.sources import PARAMS, QuerySet


def rows_of(gathered: RunResults, query: str) -> Rows:
    """The rows of a query; addresses as sortable texts."""
    return compared_rows(gathered, query, cell=_cell)


def _cell(value: Any) -> Any:
    return sortable(format_ip(value)) if isinstance(value, bytes) else plain(value)


def _with_texts(table: pa.Table, fields: Iterable[str]) -> pa.Table:
    """The columns of rows, with addresses as sortable texts."""
    columns = {}
    for name in fields:
        column = table.column(name)
        if pa.types.is_binary(column.type) or pa.types.is_fixed_size_binary(column.type):
            column = pa.array([_cell(each) for each in column.to_pylist()], pa.string())
        columns[name] = column
    return pa.table(columns)


def batch_world(queries: QuerySet, records: Mapping[str, Sequence[Record]]) -> World:
    """The records of a set as the batch evaluator reads them; none is late."""
    packets: dict[str, list[Packet]] = {}
    for link, rows in records.items():
        protocol = queries.declared[queries.links[link]]
        assert protocol.layout is not None
        internal = {each.name: each.unit or SECOND for each in protocol.attributes if each.stamp != "external"}
        packets[link] = [
            Packet(
                link,
                position,
                row["_arrival"],
                True,
                {"timestamp": row["_stamp"], "interface": link}
                | {field.stored: _stored(row[field.name], field.type) for field in protocol.layout.fields}
                | {name: row["_arrival"] // unit for name, unit in internal.items()},
            )
            for position, row in enumerate(rows)
        ]
    return World(packets)


def _stored(value: Any, kind: Type) -> Any:
    return pack_ip(value) if kind is Type.IP and value is not None else value


def batch_rows(node: Node, world: World) -> Rows:
    """The rows of a plan by the batch evaluator."""
    return Counter(tuple(_cell(row.values[field.name]) for field in node.fields) for row in evaluate(node, world))


class Oracle:
    """DuckDB over the records of a set, with a table for every query."""

    def __init__(self, queries: QuerySet, records: Mapping[str, Sequence[Record]]) -> None:
        self._queries, self._connection = queries, duckdb.connect()
        self._connection.execute(sql.MACROS)
        self._tables: dict[str, str] = {}
        self._types: dict[str, dict[str, Type]] = {}
        self.why: dict[str, str] = {}
        protocols = queries.declared
        for link, name in queries.links.items():
            self._connection.register(f"r_{link}", table_of(protocols[name], records.get(link, [])))
            self._add_source((link,), (link,), protocols[name])
        for name, links in queries.sets.items():
            self._add_source((name,), links, protocols[queries.links[links[0]]])

    def _add_source(self, named: tuple[str, ...], links: Sequence[str], protocol: Protocol) -> None:
        every = " UNION ALL ".join(f"SELECT * FROM r_{link}" for link in links)
        name = f"{'_'.join(named)}.{protocol.name}"
        self._tables[name] = f"({every})"
        self._types[name] = {column: expression.type for column, expression in protocol.columns.items()}

    def add(self, name: str, node: Node, given: Sequence[pa.Table]) -> None:
        """Adds a query whose sources are there already; of one that SQL cannot say the rows that an engine gave."""
        if f"q_{name}" in self._tables.values():
            return
        statement, fields = self._queries.statements[name], {each.name: each.type for each in node.fields}
        if why := sql.stateful(statement):
            self.why[name] = why
            self._connection.register(f"q_{name}", pa.concat_tables([_with_texts(table, fields) for table in given]))
        else:
            text, columns = sql.query(statement, self._tables, self._types, PARAMS), ", ".join(f'"{n}"' for n in fields)
            self._connection.execute(f"CREATE TABLE q_{name} AS FROM ({text}) AS q ({columns})")
        self._tables[name], self._types[name] = f"q_{name}", fields

    def rows(self, name: str) -> Rows:
        """The rows of a query."""
        table = self._connection.execute(f"FROM q_{name}").fetchall()
        return Counter(tuple(plain(each) for each in row) for row in table)
