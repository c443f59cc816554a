"""Public queries on the engines, beside one another, beside DuckDB, and beside what the original system wrote."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from lowwater.capture.tables.options import TableOptions
from lowwater.config import Config, Link
from lowwater.gsql.nodes import Expression, Literal, children, expressions_of
from lowwater.gsql.parser import parse
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.ingestion.record_options import text_options
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.captures import Captures, read_captures
from lowwater.plan.context import Context
from lowwater.plan.queryset import Plan, plan_texts
from lowwater.replay.checks import require_lowered
from lowwater.replay.progress import Progress
from lowwater.replay.run_command import RunRequest, RunResults, run_intervals
from tests.law.compare import PROCESS, REFERENCE
from tests.plan.batch_rows import World
from tests.public import sql
from tests.public.oracle import Oracle, batch_rows, batch_world, rows_of
from tests.public.records import SECOND, SKEW, Record, records_of, with_nulls, write_csv
from tests.public.sources import PARAMS, QuerySet

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

TOGETHER = 24
"""Queries that are planned and run as one set."""


@dataclass
class Outcome:
    """What became of the queries of a set."""

    queries: int
    planned: list[str]
    unplanned: dict[str, str]
    ran: list[str] = field(default_factory=list)
    rows: int = 0
    empty: list[str] = field(default_factory=list)
    beside_sql: list[str] = field(default_factory=list)
    beside_batch: list[str] = field(default_factory=list)
    no_sql: dict[str, str] = field(default_factory=dict)
    lines: tuple[int, int] = (0, 0)
    files: tuple[int, int] = (0, 0)
    different: list[str] = field(default_factory=list)


def drawn(queries: QuerySet, seed: int, count: int) -> dict[str, list[Record]]:
    """Records of every link; fields that are not `required`, and of no attribute, are sometimes NULL."""
    protocols, records, named = queries.declared, {}, literals_of(queries)
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
    config, protocols = config_of(queries), queries.declared
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
    runner: Runner | None = None,
    interval: int | None = None,
) -> RunResults:
    """What an engine makes of a plan."""
    lake, captures, folder = made
    require_lowered(plan, engine)
    request = RunRequest(plan, config, [], folder / "out", engine=engine, interval=interval, low={"compiled": False})
    progress = Progress(quiet=True)
    gathered = run_intervals(request, lake, captures, folder, progress, runner)
    for link in plan.links:
        assert gathered.accounts.links[link].violating == 0, link
    return gathered


def checked(
    queries: QuerySet, planned: Sequence[str], why: Mapping[str, str], runner: Runner | None, seed: int = 0
) -> Outcome:
    """Runs all queries of a set that plan over random records, on both engines where there is a session."""
    outcome = Outcome(len(queries.statements), list(planned), dict(why))
    if not planned:
        return outcome
    used = drawn(queries, seed, 90)
    with lake_of(queries, used) as made:
        oracle, world = Oracle(queries, used), batch_world(queries, used)
        for at in range(0, len(planned), TOGETHER):
            _compare(queries, planned[at : at + TOGETHER], made, oracle, world, runner, outcome)
        outcome.no_sql = oracle.why
    return outcome


def _of_links(world: World, links: Sequence[str]) -> World:
    """The records of some links alone: idle epochs end with the last of them."""
    return replace(world, links={link: world.links[link] for link in links})


def _compare(
    queries: QuerySet,
    names: Sequence[str],
    made: tuple[Lake, dict[str, Captures], Path],
    oracle: Oracle,
    world: World,
    runner: Runner | None,
    outcome: Outcome,
) -> None:
    closure = queries.closure(names)
    shown = [name for name in closure if name in names or sql.stateful(queries.statements[name])]
    plan, config = plan_of(queries, shown), config_of(queries)
    ours = evaluated(plan, config, made, REFERENCE, interval=60 * SECOND)
    others = evaluated(plan, config, made, PROCESS, runner) if runner is not None else ours
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
        known = name not in oracle.why
        expected = (
            oracle.rows(name) if known else batch_rows(by_name[name].logical, _of_links(world, by_name[name].links))
        )
        if rows == expected:
            (outcome.beside_sql if known else outcome.beside_batch).append(name)
        else:
            other = "DuckDB" if known else "batch evaluator"
            outcome.different.append(f"{name}: {other} {expected - rows}, engines {rows - expected}")
