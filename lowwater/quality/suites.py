"""The suites that people write for the rows of a query: read, checked against its columns, and as constraints."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from pathlib import PurePath
from typing import Any, NoReturn

import pyarrow as pa

from lowwater import caches, extras
from lowwater.errors import ConfigError, nearest
from lowwater.lake.tables import quote, safe_name
from lowwater.limits import SUITE_BYTES
from lowwater.plan.operators import Field
from lowwater.quality import judge
from lowwater.quality.modules import Modules
from lowwater.storage import paths

# Suites of people. A suite is the file `expectations/<query set>/<query>.json` in the folder of the lake, in the JSON
# format of Great Expectations. It is checked against the columns of the query before a run starts; `check_rows` applies
# it at the audit.

FOLDER = "expectations"
SEVERITIES = ("critical", "warning", "info")
SUITE_KEYS = {"name", "id", "expectations", "meta", "notes", "suite_parameters"}
ENTRY_KEYS = {"type", "kwargs", "id", "meta", "severity", "description", "notes", "rendered_content"}
NAMING = ("column", "column_A", "column_B", "column_list")
"""Arguments that name columns."""

ASKS_FOR_COLUMNS = "expect_column_to_exist"
"""The expectation whose column may be absent."""

CODE = ("unexpected_rows_query", "regex", "regex_list", "json_schema", "row_condition")
"""Arguments that hold code of their author: SQL, regular expressions, conditions."""


@dataclass(frozen=True)
class CustomExpectation:
    """One expectation of a suite."""

    type: str  # an expectation of Great Expectations, such as `expect_column_values_to_be_between`
    kwargs: Mapping[str, Any]  # arguments of the expectation that are not null
    severity: str  # info, warning or critical
    description: str = ""  # description by the author, may be empty

    @property
    def name(self) -> str:
        """The expectation in words, unique in its suite.

        Example:
            >>> kwargs = {"column": "port", "min_value": 1}
            >>> CustomExpectation("expect_column_values_to_be_between", kwargs, "warning").name
            'port values to be between: min_value 1'
        """
        columns = " and ".join(named_columns(self.kwargs))
        words = self.type.removeprefix("expect_").removeprefix("column_").removeprefix("pair_").replace("_", " ")
        arguments = [f"{key} {json.dumps(value)}" for key, value in self.kwargs.items() if key not in NAMING]
        return f"{columns} {words}".strip() + (f": {', '.join(arguments)}" if arguments else "")

    @property
    def mostly(self) -> float:
        return float(self.kwargs.get("mostly", 1.0))

    def entry(self) -> dict[str, Any]:
        return {"type": self.type, "kwargs": dict(self.kwargs), "severity": self.severity}


Suites = Mapping[str, Sequence[CustomExpectation]]
"""Query -> expectations about its rows; `LATE` -> those about late records."""

LATE = "@skew_violations"
"""Name, beside those of queries, of the suite of a query set about the late records of its links."""


def suite_file(root: PurePath, query_set: str, query: str) -> PurePath:
    """The path of the suite of a query, or of late records."""
    return root / FOLDER / safe_name(query_set) / f"{_stem(query)}.json"


def _stem(query: str) -> str:
    return query if query == LATE else safe_name(query)


def read_suites(root: PurePath, query_set: str, queries: Mapping[str, pa.Schema], code: bool = True) -> Suites:
    """Reads the suites of a query set; a query without a file has an empty suite. Nothing of them runs: `require_able`.
    Raises ConfigError if a file belongs to no query or cannot be read, or a column is unknown."""
    folder = root / FOLDER / safe_name(query_set)
    query_names = {_stem(query): query for query in queries}
    suites = paths.children(folder) if paths.may_hold(root, FOLDER) else []
    for path in suites:
        if path.suffix != ".json" or (path.stem not in query_names and not _asks_nothing(path)):
            hint = f"name it QUERY.json, as the query. {nearest(path.stem, query_names)}".strip()
            raise ConfigError(f"{path}: {query_set} has no output query of this name", hint)
    files = {name: suite_file(root, query_set, name) for name in queries}
    return {
        name: _read(files[name], (name, gx_name(query_set, name)), schema, code) if files[name] in suites else ()
        for name, schema in queries.items()
    }


def _asks_nothing(path: PurePath) -> bool:
    """Whether a file is a suite without expectations: `lowwater gx` writes one for each table that the query set ever
    published."""
    with suppress(OSError, ValueError, RecursionError):
        suite = json.loads(paths.read(path, SUITE_BYTES + 1))
        return isinstance(suite, dict) and suite.get("expectations") == []
    return False


def gx_name(query_set: str, query: str) -> str:
    """The name of a suite by which a context of Great Expectations finds its file.

    Example:
        >>> gx_name("flows", "volume")
        'flows.volume'
    """
    return f"{safe_name(query_set)}.{_stem(query)}"


def suite_digest(suite: Sequence[CustomExpectation], modules: Modules | None = None) -> str:
    """The digest of a suite, and of the modules whose expectations it may have; empty for an empty suite."""
    entries = sorted(
        json.dumps([expectation.type, dict(expectation.kwargs), expectation.severity], sort_keys=True)
        for expectation in suite
    )
    if modules is not None and entries:
        entries.append(modules.digest)
    return sha256("\n".join(entries).encode()).hexdigest() if entries else ""


_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
_BETWEEN = (("min_value", "strict_min", ">"), ("max_value", "strict_max", "<"))


def checks_of(suite: Sequence[CustomExpectation], schema: pa.Schema) -> dict[str, str]:
    """CHECK constraints for a published table, name -> SQL: what a critical expectation asks of each single row, of
    columns of whole numbers and texts, with names that Spark and Delta's other writers quote alike."""
    checks = {}
    for each in suite:
        columns = named_columns(each.kwargs)
        types = [schema.field(name).type for name in columns if name in schema.names and _PLAIN.fullmatch(name)]
        plain = [pa.types.is_integer(kind) or pa.types.is_string(kind) for kind in types]
        known = plain and len(plain) == len(columns) and all(plain)
        whole = each.severity == "critical" and each.mostly == 1 and "row_condition" not in each.kwargs
        if whole and known and (sql := _check_of(each, columns)):
            checks[f"lowwater_{sha256(sql.encode()).hexdigest()[:12]}"] = sql
    return checks


def _check_of(each: CustomExpectation, columns: Sequence[str]) -> str:
    """What an expectation asks of a row, as SQL; empty if it asks nothing of a single row, or cannot be said so."""
    first, kwargs = columns[0], each.kwargs
    match each.type.removeprefix("expect_column_"):
        case "values_to_not_be_null":
            return f"{first} IS NOT NULL"
        case "values_to_be_between":
            bounds = [
                f"{first} {sign}{'' if kwargs.get(strict) else '='} {_literal(kwargs[key])}"
                for key, strict, sign in _BETWEEN
                if key in kwargs
            ]
            return f"{first} IS NULL OR ({' AND '.join(bounds)})"
        case "values_to_be_in_set" | "values_to_not_be_in_set" as kind if kwargs.get("value_set"):
            values = ", ".join(map(_literal, kwargs["value_set"]))
            if "\\" in values or "''" in values:
                return ""  # Spark reads them otherwise
            return f"{first} IS NULL OR {first} {'NOT ' * ('not' in kind)}IN ({values})"
    return ""


def _literal(value: Any) -> str:
    return quote(value) if isinstance(value, str) else repr(value)


def starting_suite(query_set: str, query: str, fields: Sequence[Field]) -> str:
    """Writes a first suite: rows exist and every column has values, all as warnings."""
    entries: list[tuple[str, dict[str, Any]]] = [("expect_table_row_count_to_be_between", {"min_value": 1})]
    entries += [("expect_column_values_to_not_be_null", {"column": field.name, "mostly": 0.99}) for field in fields]
    expectations = [{"type": kind, "kwargs": kwargs, "severity": "warning"} for kind, kwargs in entries]
    return json.dumps({"name": gx_name(query_set, query), "expectations": expectations}, indent=2) + "\n"


def _read(path: PurePath, names: tuple[str, str], schema: pa.Schema, code: bool) -> tuple[CustomExpectation, ...]:
    try:
        data = paths.read(path, SUITE_BYTES + 1)
        if len(data) > SUITE_BYTES:
            raise ConfigError(f"{path}: the suite is larger than {SUITE_BYTES:,} bytes", "leave out what is not needed")
        suite = json.loads(data.decode(), parse_constant=_no_number)
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}", "write a suite of Great Expectations as JSON") from error
    entries = suite.get("expectations") if isinstance(suite, dict) else None
    if not isinstance(entries, list) or set(suite) - SUITE_KEYS:
        raise ConfigError(
            f"{path}: is not a suite of expectations", f"write an object of {', '.join(sorted(SUITE_KEYS))}"
        )
    if suite.get("name") not in names:
        raise ConfigError(f"{path}: its name is {suite.get('name')!r}", f"write {names[0]!r}, as the query")
    expectations = [
        _expectation(f"{path}: expectation {number}", entry, schema, code) for number, entry in enumerate(entries, 1)
    ]
    words = [expectation.name for expectation in expectations]
    if twice := [name for name in words if words.count(name) > 1]:
        raise ConfigError(f"{path}: {twice[0]!r} is written twice", "leave one of them out")
    return tuple(expectations)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def named_columns(kwargs: Mapping[str, Any]) -> list[str]:
    """The columns that arguments name.

    Example:
        >>> named_columns({"column_A": "a", "column_B": "b"}), named_columns({"column_list": ["c", "d"]})
        (['a', 'b'], ['c', 'd'])
    """
    values = [kwargs[key] for key in NAMING if kwargs.get(key)]
    return [str(name) for value in values for name in (value if isinstance(value, list) else [value])]


def _expectation(where: str, entry: Any, schema: pa.Schema, code: bool) -> CustomExpectation:
    """Reads one expectation of a suite; every error names the file, the number and the type."""
    if not isinstance(entry, dict) or not isinstance(entry.get("type"), str) or set(entry) - ENTRY_KEYS:
        raise ConfigError(
            f"{where} must be an object with a type and no unknown keys",
            f"write an object of {', '.join(sorted(ENTRY_KEYS))}",
        )
    where, kwargs = f"{where} ({entry['type']})", entry.get("kwargs", {})
    severity, description = entry.get("severity") or "critical", entry.get("description")
    if severity not in SEVERITIES:
        raise ConfigError(f"{where}: severity {severity!r}", "write info, warning or critical")
    if not isinstance(kwargs, dict) or not isinstance(description, str | None):
        hint = 'write "kwargs": {"column": "NAME", ...} and "description": "TEXT"'
        raise ConfigError(f"{where}: kwargs must be an object and description a text", hint)
    arguments = {key: value for key, value in kwargs.items() if value is not None}
    for name in named_columns(arguments) if entry["type"] != ASKS_FOR_COLUMNS else ():
        if name not in schema.names:
            raise ConfigError(f"{where}: the query has no column {name!r}", nearest(name, set(schema.names)))
    if not code and (holding := [key for key in CODE if key in arguments]):
        hint = 'leave it out, or let [suites] code = "allowed" in lowwater.toml'
        raise ConfigError(f"{where}: {holding[0]} is code, which the setting [suites] code forbids", hint)
    return CustomExpectation(entry["type"], arguments, severity, description or "")


def require_able(
    root: PurePath,
    query_set: str,
    suites: Suites,
    queries: Mapping[str, pa.Schema],
    modules: Modules | None = None,
) -> None:
    """Checks that Great Expectations can judge the suites of a query set over the columns of its queries, once for each
    version of all of them; with the expectations of people's modules.
    Raises ConfigError for what it cannot judge, and for a module that cannot be loaded."""
    if extras.absent("quality"):
        return  # without the packages no interval is audited
    for query, suite in suites.items():
        if suite:
            _check(suite_file(root, query_set, query), suite, queries[query], modules)


def _check(path: PurePath, suite: Sequence[CustomExpectation], schema: pa.Schema, modules: Modules | None) -> None:
    entries = [each.entry() for each in suite]
    known = [version("great-expectations"), version("lowwater"), str(schema), json.dumps(entries, sort_keys=True)]
    known += [modules.folder, modules.digest] if modules else []
    digest = sha256("\n".join(known).encode()).hexdigest()
    with suppress(ConfigError, OSError):  # a machine may have no place for notes to other processes
        if (caches.cache_folder() / "suites" / digest).exists():
            return
    request = {"do": "check", "path": str(path), "entries": entries, "schema": schema.serialize().to_pybytes().hex()}
    for answer in judge.ask(request, modules):
        raise ConfigError(answer["message"], answer["hint"])
    with suppress(ConfigError, OSError):
        note = caches.cache_folder() / "suites" / digest
        note.parent.mkdir(exist_ok=True)
        note.touch()
