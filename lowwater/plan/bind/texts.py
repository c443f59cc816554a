"""Loads query files: parses them, names their statements and adds the queries of libraries.

Between the parser and the binder, called by `queries`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lowwater.catalog.native import NATIVE
from lowwater.catalog.reserved_names import MAX_QUERY_NAME, RESERVED
from lowwater.errors import QueryError, raise_all
from lowwater.gsql import nodes as syntax
from lowwater.gsql.parser import parse
from lowwater.plan.bind.protocols import Declared
from lowwater.plan.text import Text, place_of

Named = tuple[syntax.Statement, Text]


@dataclass
class Texts:
    """The contents of the query files.

    Attributes:
        statements: query name -> (statement, file that holds it), in the order of the files, libraries last.
        protocols: the PROTOCOL blocks of the files.
        library: names of the queries that come from libraries.
    """

    statements: dict[str, Named] = field(default_factory=dict)
    protocols: list[Declared] = field(default_factory=list)
    library: frozenset[str] = frozenset()


def read_texts(texts: Iterable[tuple[str, str]], folders: Sequence[Path]) -> Texts:
    """Parses query files, names their statements and adds the library queries that they read.

    Args:
        texts: pairs of file name and GSQL text.
        folders: the folders to search for query libraries.

    Raises:
        QueryError: a syntax error, a missing or duplicate query name, or a missing library.
    """
    contents = Texts()
    errors: list[QueryError] = []
    for file, source in texts:
        try:
            _add(contents, file, source, "")
        except QueryError as error:
            errors.append(error)
    raise_all(errors)
    _add_libraries(contents, folders)
    return contents


def _add(contents: Texts, file: str, source: str, library: str) -> None:
    parsed = parse(source, file, tuple(NATIVE))
    text = Text(file, source)
    contents.protocols += [(protocol, file, source) for protocol in parsed.protocols]
    errors: list[QueryError] = []
    for number, statement in enumerate(parsed.statements):
        try:
            name = _name(statement, number, text)
            if library:
                # The binder looks `library/query` up under this name.
                name = f"{library}_{name}"
            _refuse_taken(name, contents.statements, statement, text)
        except QueryError as error:
            errors.append(error)
        else:
            contents.statements[name] = (statement, text)
    raise_all(errors)


def _name(statement: syntax.Statement, number: int, text: Text) -> str:
    defines: tuple[tuple[str, str], ...] = getattr(statement, "defines", ())
    name = dict(defines).get("query_name", "")
    if not name and "query_name" in dict(defines):
        hint = "give a name of letters, digits and _, or leave query_name out"
        raise text.error(place_of(statement), "query_name is empty", hint)
    if not name and number == 0:
        name = Path(text.file).name.split(".", 1)[0].replace("-", "_") or "default_query"
        name = f"q{name}" if name[0].isdigit() else name
    if not name:
        raise text.error(
            place_of(statement), "a second query of one file needs a name", "write DEFINE { query_name 'x'; } before it"
        )
    # The name becomes a folder of the lake and a file of `run`, so it must be one path component.
    if not (name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit()):
        message = f"query name {name!r}: only letters, digits and _ can be used, a letter first"
        raise text.error(place_of(statement), message)
    if name.startswith("_"):
        raise text.error(place_of(statement), f"query name {name}: names that begin with _ are Lowwater's own")
    if len(name) > MAX_QUERY_NAME:
        message = (
            f"query name {name[:20]}...: it has {len(name)} characters, and {MAX_QUERY_NAME} at most are a file name"
        )
        raise text.error(place_of(statement), message, "shorten it")
    if name.lower() in RESERVED:
        lower = name.lower()
        message = (
            f"no query can be called {name}: `lowwater run` writes a file {lower}, {RESERVED[lower]}, beside its rows"
        )
        raise text.error(place_of(statement), message, f"give it another name: DEFINE {{ query_name '{name}_of'; }}")
    return name


def _refuse_taken(name: str, statements: Mapping[str, Named], statement: syntax.Statement, text: Text) -> None:
    """Raises an error if the name is taken. The check ignores case, since some file systems do."""
    if name in statements:
        raise text.error(place_of(statement), f"two queries are called {name}", "give one of them another query_name")
    other = next((query for query in statements if query.lower() == name.lower()), None)
    if other is not None:
        message = f"the names of the queries {other} and {name} differ in case only"
        hint = (
            "give one of them another query_name: where a file system folds case, both would be one table and one file"
        )
        raise text.error(place_of(statement), message, hint)


def _add_libraries(contents: Texts, folders: Sequence[Path]) -> None:
    """Adds every library query that the statements read, also through other library queries."""
    added: dict[str, None] = {}
    pending = list(contents.statements.values())
    while pending:
        statement, text = pending.pop(0)
        for ref in _library_refs(statement):
            name = f"{ref.library}_{ref.name}"
            if name in contents.statements:
                continue
            before = set(contents.statements)
            path = _library_file(ref, folders, text)
            _add(contents, str(path), path.read_text(encoding="utf-8"), ref.library)
            if name not in contents.statements:
                raise text.error(ref.place, f"{path} holds no query called {ref.name}")
            new = [key for key in contents.statements if key not in before]
            added.update(dict.fromkeys(new))
            pending += [contents.statements[key] for key in new]
    contents.library = frozenset(added)


def _library_refs(statement: syntax.Statement) -> list[syntax.SourceRef]:
    sources: tuple[syntax.SourceRef, ...] = getattr(statement, "sources", ())
    return [ref for source in sources for ref in (source, *source.union) if ref.library]


def _library_file(ref: syntax.SourceRef, folders: Sequence[Path], text: Text) -> Path:
    # The parser accepts only letters, digits and _ in both names, so the path stays inside the folder.
    relative = Path(ref.library) / f"{ref.name}.gsql"
    roots = [folder.resolve() for folder in folders]
    above = [parent / "qlib" for root in roots for parent in (root, *root.parents)]
    places = [place / relative for place in dict.fromkeys((*folders, *above))]
    for path in places:
        if path.is_file():
            return path
    hint = f"a library is a folder beside the query file, or in a folder qlib there or above: qlib/{relative}"
    raise text.error(ref.place, f"there is no query {ref.name} in library {ref.library}", hint)
