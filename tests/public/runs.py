"""Public queries on the engines, beside one another, beside DuckDB, and beside what the original system wrote."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from lowwater.capture.tables.reader import TableOptions
from lowwater.catalog.protocols import Protocol
from lowwater.catalog.types import Type
from lowwater.catalog.values import format_ip
from lowwater.config import Config, Link
from lowwater.gsql.nodes import Expression, Literal, children, expressions_of
from lowwater.gsql.parser import parse
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.ingestion.record_options import text_options
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.captures import Captures, read_captures
from lowwater.plan.bind.protocols import declare
from lowwater.plan.context import Context
from lowwater.plan.operators import Node
from lowwater.plan.queryset import Plan, plan_texts
from lowwater.replay.checks.capabilities import require_lowered
from lowwater.replay.command.run_command import RunRequest, RunResults, run_intervals
from lowwater.replay.progress import Progress
from lowwater.replay.sessions import Sessions
from tests.law.compare import REFERENCE, SPARK, Rows
from tests.law.compare import value as plain
from tests.public import sql
from tests.public.records import (
    SECOND,
    SKEW,
    Record,
    records_of,
    sortable,
    table_of,
    with_nulls,
    write_csv,
)
from tests.public.sources import ARRIVED, PARAMS, QuerySet, Recorded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOGETHER = 24
"""Queries that are planned and run as one set."""


@dataclass
class Outcome:
    """What became of the queries of a set.

    Attributes:
        queries: how many there are.
        planned: names of those that plan, `unplanned` why the others do not.
        ran: those that both engines ran, with equal rows.
        rows: how many rows they had.
        empty: those without a row.
        beside_sql: those whose rows were DuckDB's too; `no_sql` why the others have no SQL.
        lines: recorded lines, and those that were equal; `files` the same of recorded files.
        different: what was not equal, or failed.
    """

    queries: int
    planned: list[str]
    unplanned: dict[str, str]
    ran: list[str] = field(default_factory=list)
    rows: int = 0
    empty: list[str] = field(default_factory=list)
    beside_sql: list[str] = field(default_factory=list)
    no_sql: dict[str, str] = field(default_factory=dict)
    lines: tuple[int, int] = (0, 0)
    files: tuple[int, int] = (0, 0)
    different: list[str] = field(default_factory=list)


def protocols_of(queries: QuerySet) -> dict[str, Protocol]:
    """The declared protocols of a set."""
    blocks = parse(queries.protocols, "protocols").protocols
    return declare((block, "protocols", queries.protocols) for block in blocks)


def drawn(queries: QuerySet, seed: int, count: int) -> dict[str, list[Record]]:
    """Records of every link; fields that are not `required`, and of no attribute, are sometimes NULL."""
    protocols, records, named = protocols_of(queries), {}, literals_of(queries)
    required = {
        block.name: {each.name for each in block.columns if "required" in dict(each.attributes)}
        for block in parse(queries.protocols, "protocols").protocols
    }
    for link, name in queries.links.items():
        protocol, random = protocols[name], Random(f"{seed} {link}")
        assert protocol.layout is not None
        fixed = required[name] | {each.name.partition(":")[2] for each in protocol.attributes}
        free = [each.name for each in protocol.layout.fields if each.name not in fixed]
        records[link] = with_nulls(records_of(protocol, random, count, named), free, random)
    return records


def literals_of(queries: QuerySet) -> dict[str, list[Any]]:
    """The integers and texts that a set names, so that its conditions hold for some records."""
    found: dict[str, list[Any]] = {"int": [], "string": []}

    def add(expression: Expression) -> None:
        if isinstance(expression, Literal) and expression.kind in found:
            found[expression.kind].append(expression.value)
        for child in children(expression):
            add(child)

    for statement in queries.statements.values():
        for expression in expressions_of(statement):
            add(expression)
    return {kind: sorted(set(values)) for kind, values in found.items()}


def config_of(queries: QuerySet) -> Config:
    """The settings of the links."""
    own = {"kind": "csv", "separator": "|", "skew": SKEW, "max_jump": 10**15}
    return Config(links={name: Link().model_copy(update=own) for name in queries.links}, sets=queries.sets)


@contextmanager
def lake_of(
    queries: QuerySet, records: Mapping[str, Sequence[Record]]
) -> Iterator[tuple[Lake, dict[str, Captures], Path]]:
    """A lake with records of some links, its ledger, and a folder."""
    config, protocols = config_of(queries), protocols_of(queries)
    with tempfile.TemporaryDirectory(prefix="lowwater-public-") as folder:
        lake = open_lake(Path(folder) / "lake")
        for link, rows in records.items():
            protocol, path = protocols[queries.links[link]], Path(folder) / f"{link}.csv"
            write_csv(path, protocol, rows)
            assert protocol.layout is not None
            options = TableOptions("csv", protocol.layout, text_options(config.link(link)))
            ingest(lake, link, [path], config, records=options)
        captures = read_captures(lake, tuple(queries.links))
        assert not sum(each.malformed for each in (one for every in captures.values() for one in every))
        yield lake, captures, Path(folder)


def plan_of(queries: QuerySet, outputs: Sequence[str], dialect: str = "lowwater") -> Plan:
    """The plan of some queries of a set."""
    return plan_texts(queries.texts(outputs, dialect), queries.known, None, Context(params=PARAMS))


def evaluated(
    plan: Plan,
    config: Config,
    made: tuple[Lake, dict[str, Captures], Path],
    engine: str,
    spark: SparkSession | None = None,
    interval: int | None = None,
) -> RunResults:
    """What an engine makes of a plan.

    Args:
        plan: of some queries.
        config: settings of the links.
        made: a lake, its ledger and a folder.
        engine: reference or spark.
        spark: the session of the latter.
        interval: length of the intervals, ns; None for one.
    """
    lake, captures, folder = made
    require_lowered(plan, engine)
    request = RunRequest(plan, config, [], folder / "out", engine=engine, interval=interval, low={"compiled": False})
    progress = Progress(quiet=True)
    sessions = None if spark is None else Sessions("public queries", progress, spark)
    gathered = run_intervals(request, lake, captures, folder, progress, sessions)
    for link in plan.links:
        assert gathered.accounts.links[link].violating == 0, link
    return gathered


def rows_of(gathered: RunResults, query: str) -> Rows:
    """The rows of a query; addresses as sortable texts."""
    rows: Rows = Counter()
    for table in gathered.rows[query]:
        names = [name for name in table.column_names if name not in ("_last", "_tick")]
        columns = [table.column(name).to_pylist() for name in names]
        rows.update(tuple(_cell(each) for each in row) for row in zip(*columns, strict=True))
    return rows


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


class Oracle:
    """DuckDB over the records of a set, with a table for every query.

    Attributes:
        why: query -> what of it SQL cannot say. Its readers are computed over the rows that the engine gave for it.
    """

    def __init__(self, queries: QuerySet, records: Mapping[str, Sequence[Record]]) -> None:
        self._queries, self._connection = queries, duckdb.connect()
        self._connection.execute(sql.MACROS)
        self._tables: dict[str, str] = {}
        self._types: dict[str, dict[str, Type]] = {}
        self.why: dict[str, str] = {}
        protocols = protocols_of(queries)
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
        """Adds a query whose sources are there already; of one that SQL cannot say the rows that an engine gave.

        Args:
            name: of the query.
            node: its plan, for the names and types of its columns.
            given: rows of the engine.
        """
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


def checked(
    queries: QuerySet, planned: Sequence[str], why: Mapping[str, str], spark: SparkSession | None, seed: int = 0
) -> Outcome:
    """Runs all queries of a set that plan over random records, on both engines where there is a session.

    Args:
        queries: the set.
        planned: names of its queries that plan.
        why: the others, and why they do not.
        spark: a session; None for the reference engine alone.
        seed: of the records.
    """
    outcome = Outcome(len(queries.statements), list(planned), dict(why))
    if not planned:
        return outcome
    used = drawn(queries, seed, 90)
    with lake_of(queries, used) as made:
        oracle = Oracle(queries, used)
        for at in range(0, len(planned), TOGETHER):
            _compare(queries, planned[at : at + TOGETHER], made, oracle, spark, outcome)
        outcome.no_sql = oracle.why
    _compare_recorded(queries, planned, spark, outcome)
    return outcome


def _compare(
    queries: QuerySet,
    names: Sequence[str],
    made: tuple[Lake, dict[str, Captures], Path],
    oracle: Oracle,
    spark: SparkSession | None,
    outcome: Outcome,
) -> None:
    closure = queries.closure(names)
    shown = [name for name in closure if name in names or sql.stateful(queries.statements[name])]
    plan, config = plan_of(queries, shown), config_of(queries)
    ours = evaluated(plan, config, made, REFERENCE, interval=60 * SECOND)
    others = evaluated(plan, config, made, SPARK, spark) if spark is not None else ours
    by_name = {each.name: each for each in (*plan.queries, *plan.internal)}
    for name in closure:
        oracle.add(name, by_name[name].logical, ours.rows.get(name, []))
    for name in names:
        rows, theirs = rows_of(ours, name), rows_of(others, name)
        if rows != theirs:
            outcome.different.append(f"{name}: Spark {theirs - rows}, reference {rows - theirs}")
            continue
        outcome.ran.append(name)
        outcome.rows += rows.total()
        outcome.empty += [] if rows else [name]
        if name not in oracle.why:
            expected = oracle.rows(name)
            if rows == expected:
                outcome.beside_sql.append(name)
            else:
                outcome.different.append(f"{name}: DuckDB {expected - rows}, engines {rows - expected}")


def _compare_recorded(queries: QuerySet, planned: Sequence[str], spark: SparkSession | None, outcome: Outcome) -> None:
    """Holds the rows of recorded inputs, in the dialect of the original system, against recorded outputs."""
    for each in queries.recorded:
        lines = Counter(_normal(line) for line in _recorded_lines(each))
        ours = Counter(_lines(queries, each, spark)) if each.query in planned else Counter()
        equal = (lines & ours).total()
        outcome.lines = outcome.lines[0] + lines.total(), outcome.lines[1] + equal
        outcome.files = outcome.files[0] + 1, outcome.files[1] + (lines == ours)
        if lines != ours:
            outcome.different.append(f"{each.query} recorded: missing {lines - ours}, extra {ours - lines}")


def _recorded_lines(recorded: Recorded) -> list[str]:
    """The lines of an output without its first value, the second of the recording, as its own test compares them."""
    lines = recorded.rows.read_text().splitlines()
    return lines if recorded.rows == recorded.records else [line.partition("|")[2] for line in lines]


def _lines(queries: QuerySet, recorded: Recorded, spark: SparkSession | None) -> Iterator[str]:
    """What we write for a query over the recorded input, all of whose records arrive within a second."""
    link = next(iter(queries.links))
    protocol = protocols_of(queries)[queries.links[link]]
    assert protocol.layout is not None
    fields = sorted((each.position or 0, each) for each in protocol.layout.fields)
    inside = [each for _, each in fields if each.name not in (ARRIVED, "timestamp")]
    records: list[Record] = []
    for number, line in enumerate(recorded.records.read_text().splitlines()):
        values: Record = dict(zip((each.name for each in inside), line.split("|"), strict=True))
        records.append({**values, ARRIVED: 1_767_225_600_000 + number, "timestamp": 1})
    with lake_of(queries, {link: records}) as made:
        plan = plan_of(queries, [recorded.query], "gigascope")
        engine = REFERENCE if spark is None else SPARK
        for table in evaluated(plan, config_of(queries), made, engine, spark).rows[recorded.query]:
            for row in table.drop_columns(
                [name for name in ("_last", "_tick") if name in table.column_names]
            ).to_pylist():
                yield _normal(
                    "|".join(_written(each, kind) for each, kind in zip(row.values(), table.schema.types)).partition(
                        "|"
                    )[2]
                )


def _written(value: Any, kind: pa.DataType) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return f"{value:.6f}"
    return format_ip(value) if isinstance(value, bytes) else str(value)


def _normal(line: str) -> str:
    """A line whose addresses of IPv6 are written in one way."""
    from ipaddress import ip_address

    return "|".join(ip_address(part).compressed if part.count(":") > 1 else part for part in line.split("|"))
