"""Binds a query set: parses its files, binds every statement, and reads what the statements say of each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from lowwater.catalog.native import NATIVE
from lowwater.errors import QueryError, raise_all, sort_errors
from lowwater.gsql import nodes as syntax
from lowwater.gsql.parser import parse
from lowwater.limits import QUERY_NAME_CHARACTERS
from lowwater.plan.bind.binder import Binder, check_options, keys_of, options, slots_of, threshold_of
from lowwater.plan.bind.joins import declare_watch
from lowwater.plan.bind.names import Declared, declare
from lowwater.plan.context import Context
from lowwater.plan.dialect import gigascope
from lowwater.plan.operators import Node
from lowwater.plan.properties import StatedKeys
from lowwater.plan.text import BelowError, Note, Text, place_of

# Loads query files: parses them, names their statements and adds the queries of libraries. Between the parser and the
# binder, called by `queries`.

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
    if len(name) > QUERY_NAME_CHARACTERS:
        message = (
            f"query name {name[:20]}...: it has {len(name)} characters, at most {QUERY_NAME_CHARACTERS} are a file name"
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


# Names that Lowwater uses beside those of queries, in one place; no query may have one of them. The binder refuses
# these names, and `replay.run_command` writes files with them. A lake has no such conflict: `tables/`, `streams/`,
# `lfta/` and `state/` hold queries only, and the ledgers lie beside these folders.

VIOLATIONS = "skew_violations"
HEARTBEATS = "heartbeats"
MALFORMED = "malformed"
SUMMARY = "summary"

RESERVED = {
    VIOLATIONS: "the packets that were refused",
    HEARTBEATS: "what every node promised",
    MALFORMED: "the records that cannot be read",
    SUMMARY: "the counts of the run",
}
"""File names in the folder of `lowwater run`, of any format, and their content."""


# Binds a query set: turns query files into logical plans and reads the options of their DEFINE blocks. The entry of
# `bind`, called by `queryset`. The module rewrites a plan only for the `gigascope` dialect.

Statements = Mapping[str, Named]
SHOWN = 4
"""Queries at each end of a long circle that an error names."""


@dataclass(frozen=True)
class Bound:
    """The bound queries of a query set.

    Attributes:
        statements: query -> (statement, file that holds it), in the order of the files, libraries last.
        plans: query -> logical plan; each query comes before its readers.
        notes: remarks on the queries, in the order of the files.
        context: the functions, links and protocols that queries may name, with the declared protocols.
        hidden: queries without a table: those with `visibility 'internal'`, and those of libraries.
        private: hidden queries that exactly one source reads.
        selections: queries with `select_lfta`.
        slots: query -> number of slots of its group tables, for queries with `aggregate_slots`.
        thresholds: query -> cost from which a function is not LFTA-safe, for queries with `lfta_cost`.
        keys: query -> the unique key that its DEFINE states.
    """

    statements: Statements
    plans: Mapping[str, Node]
    notes: Sequence[Note]
    context: Context
    hidden: frozenset[str]
    private: frozenset[str]
    selections: frozenset[str]
    slots: Mapping[str, int]
    thresholds: Mapping[str, int]
    keys: Mapping[str, StatedKeys]


def bind_texts(texts: Iterable[tuple[str, str]], folders: Sequence[Path], context: Context, slots: int | None) -> Bound:
    """Parses and binds query files as one query set.

    Args:
        texts: pairs of file name and GSQL text.
        folders: the folders to search for query libraries (`library/query`).
        slots: the number of slots of every group table, instead of `aggregate_slots`; None keeps the options.

    Raises:
        QueryError: a file has an error.
        QueryErrors: the files have several errors.
    """
    read = read_texts(texts, folders)
    if read.protocols:
        context = replace(context, protocols=declare(read.protocols, context.protocols))
    plans, notes = _bind(read.statements, context)
    sizes, thresholds = _asked(read.statements, slots)
    chosen = {name: options(read.statements[name][0]) for name in plans}
    hidden = {name for name in plans if is_hidden(name, read)}
    readers = _readers(read.statements)
    return Bound(
        read.statements,
        plans,
        notes,
        context,
        frozenset(hidden),
        frozenset(name for name in hidden if len(readers.get(name, ())) == 1),
        frozenset(name for name in plans if "select_lfta" in chosen[name]),
        sizes,
        thresholds,
        {name: _keys(read.statements[name], plan) for name, plan in plans.items()},
    )


def is_hidden(name: str, read: Texts) -> bool:
    """Whether a query has no table."""
    return name in read.library or options(read.statements[name][0]).get("visibility", "").lower() == "internal"


def _keys(named: Named, plan: Node) -> StatedKeys:
    statement, text = named
    return keys_of(statement, [field.name for field in plan.fields], text)


def _bind(statements: Statements, context: Context) -> tuple[dict[str, Node], list[Note]]:
    """Binds all queries and reports the errors of all of them together.

    Returns:
        The logical plans, each query before its readers, and the notes in the order of the files.
    """
    binder = Binder(context, statements)
    errors: list[QueryError] = []
    notes: list[Note] = []

    def attempt(step: Callable[[], object]) -> bool:
        try:
            step()
        except BelowError:
            return False
        except QueryError as error:
            errors.append(error)
            return False
        return True

    for name, (statement, text) in statements.items():
        sound = attempt(partial(_note, notes, name, statement, text))
        if sound and isinstance(statement, syntax.Watchlist):
            sound = attempt(partial(declare_watch, name, statement, text, context.folders))
        if not sound:
            binder.failed.add(name)
    order, circles = _order(statements)
    for name in order:
        statement, text = statements[name]
        if isinstance(statement, syntax.Watchlist) or name in binder.failed:
            continue
        if name in circles:
            binder.failed.add(name)
            errors.append(text.error(place_of(statement), f"query {name} reads itself: {circles[name]}"))
        elif attempt(partial(binder.query, name)):
            dialect = options(statement).get("dialect", context.dialect)
            if dialect == "gigascope":
                binder.bound[name] = gigascope(binder.bound[name])
    raise_all(sort_errors(errors))
    bound = {name: binder.bound[name] for name in order if name in binder.bound}
    at = {name: number for number, name in enumerate(statements)}
    return bound, sorted((*notes, *binder.notes), key=lambda note: (at[note.query], note.place))


def _note(notes: list[Note], name: str, statement: syntax.Statement, text: Text) -> None:
    notes.extend(Note(name, note) for note in check_options(statement, text))


def _order(statements: Statements) -> tuple[list[str], dict[str, str]]:
    """Sorts the queries so that each comes before its readers. Iterates, since a long chain would exceed the stack.

    Returns:
        The queries in order, and query -> its circle in words, for at least one query of each circle.
    """
    order: dict[str, None] = {}
    circles: dict[str, str] = {}
    for root in statements:
        if root in order:
            continue
        stack = [(root, iter(_reads(statements[root][0])))]
        active = {root: 0}
        while stack:
            name, reading = stack[-1]
            for query in reading:
                if query in active:
                    if name not in circles:
                        circles[name] = _circle([name, *list(active)[active[query] :]])
                elif query in statements and query not in order:
                    active[query] = len(stack)
                    stack.append((query, iter(_reads(statements[query][0]))))
                    break
            else:
                order.setdefault(name)
                del active[name]
                stack.pop()
    return list(order), circles


def _circle(names: Sequence[str]) -> str:
    """The queries of a circle, of a long one the first and the last."""
    if (others := len(names) - 2 * SHOWN) > 1:
        names = [*names[:SHOWN], f"{others} others", *names[-SHOWN:]]
    return " -> ".join(names)


def _reads(statement: syntax.Statement) -> list[str]:
    refs = [ref for source in getattr(statement, "sources", ()) for ref in (source, *source.union)]
    named = [ref for ref in refs if not ref.links and not ref.bracketed]
    return [f"{ref.library}_{ref.name}" if ref.library else ref.name for ref in named]


def _readers(statements: Statements) -> dict[str, set[tuple[str, int]]]:
    """Maps each query to the sources that read it, as (reader, position of the source)."""
    readers: dict[str, set[tuple[str, int]]] = {}
    for name, (statement, _) in statements.items():
        for at, read in enumerate(_reads(statement)):
            readers.setdefault(read, set()).add((name, at))
    return readers


def _asked(statements: Statements, slots: int | None) -> tuple[dict[str, int], dict[str, int]]:
    """Reads `aggregate_slots` and `lfta_cost` of every query. Reports the errors of all queries together."""
    sizes: dict[str, int] = {}
    thresholds: dict[str, int] = {}
    errors: list[QueryError] = []
    for name, (statement, text) in statements.items():
        try:
            size, threshold = slots or slots_of(statement, text), threshold_of(statement, text)
        except QueryError as error:
            errors.append(error)
            continue
        sizes |= {name: size} if size else {}
        thresholds |= {name: threshold} if threshold is not None else {}
    raise_all(errors)
    return sizes, thresholds
