"""The queries that other projects published, from checkouts beside this one, made ready to run over CSV links."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from lowwater.catalog.protocols import Protocol
from lowwater.errors import QueryError
from lowwater.gsql.nodes import FieldDecl, Merge, ProtocolDecl, Select, SourceRef, Statement
from lowwater.gsql.parser import parse
from lowwater.gsql.printer import print_statement
from lowwater.plan.bind.names import declare
from lowwater.plan.context import Context, Links
from lowwater.plan.queryset import plan_texts

ARRIVED = "arrived_ms"
"""The clock that a protocol without one gets."""

NOWHERE = ("get_system_time", "get_schemaId")
PARAMS = {"window": 60_000}


@dataclass(frozen=True)
class Recorded:
    """What the original system wrote for a query over a file of records."""

    query: str
    records: Path
    rows: Path


@dataclass(frozen=True)
class QuerySet:
    """Queries that are planned together."""

    repository: str
    name: str
    statements: dict[str, Statement]
    protocols: str
    links: dict[str, str]
    sets: dict[str, tuple[str, ...]]
    recorded: tuple[Recorded, ...] = field(default=())

    @cached_property
    def declared(self) -> dict[str, Protocol]:
        """The protocols by name."""
        blocks = parse(self.protocols, "protocols").protocols
        return declare((block, "protocols", self.protocols) for block in blocks)

    @property
    def known(self) -> Links:
        """The links, as plans know them."""
        return Links(tuple(self.links), sets=self.sets, kinds=dict.fromkeys(self.links, "csv"))

    def texts(self, outputs: Sequence[str], dialect: str = "lowwater") -> list[tuple[str, str]]:
        """The files of some queries and of all that they read, which are then hidden."""
        texts = [("protocols.gsql", self.protocols)]
        for name in self.closure(outputs):
            hidden = [] if name in outputs else [("visibility", "internal")]
            texts.append((f"{name.replace('/', '_')}.gsql", self._text(name, [*hidden, ("dialect", dialect)])))
        return texts

    def closure(self, outputs: Sequence[str]) -> list[str]:
        """Queries and all that they read, those that are read first."""
        ordered: dict[str, None] = {}

        def add(name: str) -> None:
            for below in reads(self.statements[name]):
                if below in self.statements and below not in ordered:
                    add(below)
            ordered[name] = None

        for name in outputs:
            add(name)
        return list(ordered)

    def _text(self, name: str, more: Sequence[tuple[str, str]]) -> str:
        statement = self.statements[name]
        assert isinstance(statement, Select | Merge)
        defines = (("query_name", name), *_kept(statement), *more)
        return print_statement(replace(statement, defines=defines))


def reads(statement: Statement) -> tuple[str, ...]:
    """The names in FROM that are no protocols of a link."""
    assert isinstance(statement, Select | Merge)
    return tuple(source.name for source in statement.sources if not source.links)


def _kept(statement: Select | Merge) -> list[tuple[str, str]]:
    return [(name, value) for name, value in statement.defines if name not in ("query_name", "visibility", "dialect")]


def adapted(blocks: Sequence[ProtocolDecl]) -> str:
    """PROTOCOL blocks that read CSV by position, each with a clock."""
    named, lines = {block.name: block for block in blocks}, []
    declared = declare((block, "schema", "") for block in blocks)
    for block in blocks:
        columns = _columns(block, named)
        if all(column.access in NOWHERE for column in columns):
            continue
        written, last = [], 0
        for column in columns:
            access = column.access
            if access not in NOWHERE:
                position = re.search(r"_pos([0-9]+)$", access)
                last = int(position[1]) if position else last + 1
                access = f"get_csv_{column.type.lower().replace('ushort', 'uint')}_pos{last}"
            words = ", ".join(" ".join(word).strip() for word in column.attributes)
            written.append(f"    {column.type} {column.name} {access}{words and f' ({words})'};")
        layout = declared[block.name].layout
        if layout is None or layout.refused:
            written.insert(0, f"    ullong {ARRIVED} get_csv_ullong_pos{last + 1} (increasing, clock);")
        schema = f" (schema_id {block.schema})" if block.schema else ""
        lines += [f"PROTOCOL {block.name}{schema} {{", *written, "}"]
    return "\n".join(lines) + "\n"


def _columns(block: ProtocolDecl, named: dict[str, ProtocolDecl]) -> list[FieldDecl]:
    own = [*block.columns]
    for parent in sorted(block.parents):
        own += [column for column in _columns(named[parent], named) if column.name not in {each.name for each in own}]
    return own


def _linked(statement: Statement, links: dict[str, str], sets: dict[str, tuple[str, ...]], apart: bool) -> Statement:
    """A statement over our links: a set of two for each interface set, and one for each schema of an interface."""
    assert isinstance(statement, Select | Merge)

    def linked(source: SourceRef) -> SourceRef:
        if source.library:
            return replace(source, name=f"{source.library}_{source.name}", library="")
        if not source.links:
            return source
        if not source.bracketed:
            link = source.name if apart else source.links[0]
            links[link] = source.name
            return replace(source, links=(link,))
        for name in source.links:
            sets[name] = (f"{name}0", f"{name}1")
            links.update(dict.fromkeys(sets[name], source.name))
        return source

    return replace(statement, sources=tuple(linked(source) for source in statement.sources))


def query_set(
    repository: str,
    name: str,
    texts: Sequence[tuple[str, str]],
    schema: str,
    recorded: Sequence[Recorded] = (),
    apart: bool = False,
) -> QuerySet:
    """Makes a set of the files of queries."""
    links: dict[str, str] = {}
    sets: dict[str, tuple[str, ...]] = {}
    statements = {}
    for plain, text in texts:
        for statement in parse(text, plain).statements:
            assert isinstance(statement, Select | Merge)
            own = dict(statement.defines).get("query_name", plain)
            statements[own] = _linked(statement, links, sets, apart)
    protocols = adapted(parse(schema, "schema").protocols)
    return QuerySet(repository, name, statements, protocols, links, sets, tuple(recorded))


def planned(queries: QuerySet) -> tuple[list[str], dict[str, str]]:
    """The queries that plan, and why the others do not."""
    why: dict[str, str] = {}
    for name in queries.statements:
        try:
            plan_texts(queries.texts([name]), queries.known, None, Context(params=PARAMS))
        except (QueryError, KeyError) as error:
            why[name] = str(error).splitlines()[0]
    return [name for name in queries.statements if name not in why], why


def found(folder: Path) -> Iterator[QuerySet]:
    """The sets of queries in a folder with checkouts of the repositories."""
    if (folder / "com-gs-lite").is_dir():
        yield from _gs_lite(folder / "com-gs-lite")
    if (folder / "tigon").is_dir():
        yield from _tigon(folder / "tigon")
    if (folder / "ric-app-mc").is_dir():
        root = folder / "ric-app-mc/mc-core/mc"
        schema = (root / "cfg/packet_schema.txt").read_text()
        yield query_set("ric-app-mc", "queries", _files(root / "queries"), schema, apart=True)


def _files(folder: Path) -> list[tuple[str, str]]:
    return [(path.stem, path.read_text()) for path in sorted(folder.glob("*.gsql"))]


def _gs_lite(root: Path) -> Iterator[QuerySet]:
    schema = (root / "cfg/packet_schema.txt").read_text()
    library = [(f"CSVEXAMPLELIB_{name}", text) for name, text in _files(root / "qlib/CSVEXAMPLELIB")]
    for name in ("CSVEXAMPLE", "GDATEXAMPLE", "PIPE"):
        more = library if name == "CSVEXAMPLE" else []
        yield query_set("com-gs-lite", name, [*_files(root / "demo" / name), *more], schema)


def _tigon(root: Path) -> Iterator[QuerySet]:
    schema, examples = (root / "tigon-sql/cfg/packet_schema.txt").read_text(), root / "tigon-examples/tigon-sql"
    library = [(f"CSVEXAMPLELIB_{name}", text) for name, text in _files(root / "tigon-sql/qlib/CSVEXAMPLELIB")]
    yield query_set("tigon", "CSVEXAMPLE", [*_files(examples / "CSVEXAMPLE"), *library], schema)
    yield query_set("tigon", "GDATEXAMPLE", _files(examples / "GDATEXAMPLE"), schema)
    yield from (_piped(path) for path in sorted((examples / "PIPE").glob("example?")))
    for tests in sorted((root / "tigon-sql/src/test/scripts").glob("Test*")):
        schema = (tests / "packet_schema_test.txt").read_text()
        for folder in sorted(path for path in tests.iterdir() if path.is_dir()):
            yield query_set("tigon", f"{tests.name}/{folder.name}", _files(folder), schema, _recorded(folder))


def _piped(path: Path) -> QuerySet:
    """The schema and the query of a command line, from which the example's script makes files."""
    first, second = re.findall(r'"([^"]*)"', path.read_text())[:2]
    protocol, *fields = first.split(";")
    columns = [f"{each} get_csv_{each.split()[0].lower()}_pos{at};" for at, each in enumerate(fields, 1)]
    arrival = "uint systemTime get_system_time (increasing);"
    text = second.replace(";", " ").replace(f"from {protocol}", f"from CSV0.{protocol}")
    schema = f"PROTOCOL {protocol} {{ {' '.join([*columns, arrival])} }}"
    return query_set("tigon", f"PIPE/{path.name}", [("output", text)], schema)


def _recorded(folder: Path) -> Iterator[Recorded]:
    records = folder / "Input.txt"
    for path in sorted(folder.glob("Expected*.txt")):
        query = path.stem.removeprefix("Expected").removeprefix("_")
        named = {"": "complex", "type_bool": "type_bool_1"}
        yield Recorded(named.get(query, query), records, path)
    if not any(folder.glob("Expected*.txt")):
        # The tests of types compare what was selected with what was fed.
        yield from (Recorded(query.stem, records, records) for query in sorted(folder.glob("*.gsql")))
