"""Reads the files that define names for queries: PROTOCOL blocks and declarations of functions.

Beside `queryset`, for the command line (`--schema`, `--functions`) and for the query sets of a lake.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path

from lowwater.catalog.user_functions import functions_digest, load_functions
from lowwater.gsql import nodes as syntax, parser
from lowwater.gsql.declarations import parse_declarations
from lowwater.plan.bind.names import Declared, declare
from lowwater.plan.context import Context, Links, Value
from lowwater.plan.text import Text, attempt_all, place_of


def make_context(
    links: Links,
    schemas: Sequence[Path] = (),
    functions: Sequence[Path] = (),
    params: Mapping[str, Value] | None = None,
    dialect: str = "lowwater",
    folders: Sequence[str | Path] = (),
    python: bool = True,
) -> Context:
    """Returns the context of a query set from files and values. `functions`: files of declarations in GSQL's own
    format, with MODULE lines for Python files, which are run unless `python` is false: then queries can be planned but
    not run. `dialect`: `lowwater` or `gigascope`.
    Raises LowwaterError if a file cannot be read, and QueryError if a definition is wrong; QueryErrors for several."""
    context = Context(links=links, params=params or {}, dialect=dialect, folders=tuple(map(Path, folders)))
    if schemas:
        blocks = chain.from_iterable(attempt_all([partial(_blocks, path) for path in schemas]))
        context = replace(context, protocols=declare(blocks, context.protocols))
    if functions:
        catalog = load_functions(functions, parse_declarations, python)
        digest = functions_digest(functions, parse_declarations)
        context = replace(context, catalog=context.catalog.extended(catalog), digests=(digest,))
    return context


def _blocks(path: Path) -> list[Declared]:
    source = parser.read_text(path, "schema file")
    return [(protocol, str(path), source) for protocol in _protocols(str(path), source)]


@lru_cache(maxsize=64)
def _protocols(path: str, source: str) -> tuple[syntax.ProtocolDecl, ...]:
    """Parses a schema file: a command asks for the protocol of a link several times, a watch at every look."""
    parsed = parser.parse(source, path)
    if parsed.statements:
        raise Text(path, source).error(place_of(parsed.statements[0]), "a schema file holds PROTOCOL blocks only")
    return parsed.protocols
