"""From query files to a plan: the door of the planner.

Parses, binds and splits the queries of a set. The result is what every engine, EXPLAIN and the digest of inputs read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lowwater.errors import LowwaterError
from lowwater.gsql import nodes as syntax
from lowwater.gsql.parser import parse
from lowwater.gsql.printer import print_statement
from lowwater.plan.binder import Binder, Links
from lowwater.plan.nodes import Lfta, Node, Source
from lowwater.plan.scope import Text, nearest, place_of
from lowwater.plan.split import DEFAULT_SLOTS, lftas_of, split


@dataclass(frozen=True)
class QueryPlan:
    """One output query.

    Attributes:
        name: of the query and its table.
        text: canonical text of the query and of all that it reads, for the digest of inputs (S1).
        logical: plan before the split; the reference engine runs it.
        high: plan after the split; its leaves are the LFTAs.
    """

    name: str
    text: str
    logical: Node
    high: Node

    @property
    def lftas(self) -> list[Lfta]:
        return lftas_of(self.high)

    @property
    def links(self) -> list[str]:
        return sorted({link for lfta in self.lftas for link in lfta.links})


@dataclass(frozen=True)
class Plan:
    """The output queries of a query set, in the order of their text."""

    queries: tuple[QueryPlan, ...]

    @property
    def lftas(self) -> list[Lfta]:
        return list({lfta.name: lfta for query in self.queries for lfta in query.lftas}.values())

    @property
    def links(self) -> list[str]:
        return sorted({link for query in self.queries for link in query.links})

    def only(self, name: str) -> Plan:
        """The plan of one of its queries.

        Raises:
            LowwaterError: no output query has this name.
        """
        chosen = tuple(query for query in self.queries if query.name == name)
        if not chosen:
            names = [query.name for query in self.queries]
            raise LowwaterError(f"no output query is called {name}", nearest(name, names))
        return Plan(chosen)


def plan_files(paths: Sequence[Path], links: Links, slots: int | None = None) -> Plan:
    """Plans the queries of some files as one query set.

    Args:
        paths: `.gsql` files, UTF-8.
        links: what FROM may name.
        slots: size of every group table, over what the queries say; for tests of the law.

    Raises:
        LowwaterError: a file cannot be read.
        QueryError: a text has no meaning.
    """
    texts = []
    for path in paths:
        try:
            texts.append((str(path), path.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise LowwaterError(f"query file {path} cannot be read: {reason}") from None
    return plan_texts(texts, links, slots)


def plan_texts(texts: Iterable[tuple[str, str]], links: Links, slots: int | None = None) -> Plan:
    """Plans query texts, each with the name of its file."""
    statements = _named([(file, source, parse(source, file)) for file, source in texts])
    binder = Binder(links, statements)
    sizes = {name: slots or _slots(statement, text) for name, (statement, text) in statements.items()}
    queries = []
    for name, (statement, _) in statements.items():
        logical = binder.query(name)
        if _define(statement, "visibility").lower() == "internal":
            continue
        read = _read_queries(logical, name)
        canonical = "\n\n".join(print_statement(statements[query][0]) for query in read)
        queries.append(QueryPlan(name, canonical, logical, split(logical, sizes)))
    if not queries:
        raise LowwaterError("the query files hold no output query", "remove a visibility 'internal'")
    return Plan(tuple(queries))


def _named(files: list[tuple[str, str, syntax.QueryFile]]) -> dict[str, tuple[syntax.Statement, Text]]:
    named: dict[str, tuple[syntax.Statement, Text]] = {}
    for file, source, parsed in files:
        text = Text(file, source)
        for number, statement in enumerate(parsed.statements):
            name = _define(statement, "query_name")
            if not name and number == 0:
                name = Path(file).name.split(".", 1)[0] or "default_query"
            if not name:
                raise text.error(
                    place_of(statement), "a second query of one file needs a name", "DEFINE{query_name 'x';}"
                )
            _check_name(name, statement, text)
            if name.lower() in {known.lower() for known in named}:
                raise text.error(place_of(statement), f"two queries are called {name}")
            named[name] = (statement, text)
    return named


def _check_name(name: str, statement: syntax.Statement, text: Text) -> None:
    # The name becomes a folder of the lake and a file of `run`: letters, digits and _ keep it one path component.
    if not (name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit()):
        message = f"query name {name!r}: only letters, digits and _ can be used, a letter first"
        raise text.error(place_of(statement), message)
    if name.startswith("_"):
        raise text.error(place_of(statement), f"query name {name}: names that begin with _ are Lowwater's own")


def _define(statement: syntax.Statement, key: str) -> str:
    defines: tuple[tuple[str, str], ...] = getattr(statement, "defines", ())
    return next((value for name, value in defines if name == key), "")


def _slots(statement: syntax.Statement, text: Text) -> int:
    written = _define(statement, "aggregate_slots")
    if not written:
        return DEFAULT_SLOTS
    if not written.isdigit() or not 1 <= int(written) <= 1 << 24:
        raise text.error(place_of(statement), f"aggregate_slots {written!r} is not a number from 1 to {1 << 24}")
    return 1 << (int(written) - 1).bit_length()


def _read_queries(node: Node, name: str) -> list[str]:
    """The query and all that it reads, itself last."""
    found: dict[str, None] = {}

    def visit(part: Node) -> None:
        for child in part.inputs():
            visit(child)
        found[part.query] = None

    visit(node)
    found.pop(name, None)
    return [*found, name]


def source_links(plan: Node) -> dict[str, tuple[str, ...]]:
    """Links of every source of a logical plan, by `query.alias`."""
    if isinstance(plan, Source):
        return {f"{plan.query}.{plan.alias}": plan.links}
    found: dict[str, tuple[str, ...]] = {}
    for child in plan.inputs():
        found.update(source_links(child))
    return found
