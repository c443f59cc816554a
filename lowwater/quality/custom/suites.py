"""Reads custom suites: the expectations that users write about the rows of a query.

A suite is the file `expectations/<query set>/<query>.json` in the folder of the lake, in the JSON format of Great
Expectations. It is checked against the columns of the query before a run starts; `row_checks` applies it at the audit.
Only the expectations of a fixed list are allowed, and they compare values: a suite never runs code.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import PurePath
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from lowwater.catalog.expr import Type
from lowwater.errors import ConfigError
from lowwater.lake.tables import safe_name
from lowwater.plan.operators import Field
from lowwater.plan.text import nearest
from lowwater.storage import paths

FOLDER = "expectations"
LARGEST_SUITE = 1 << 20
"""Largest suite, bytes."""
INT64 = 1 << 63

SEVERITIES = ("critical", "warning")
SUITE_KEYS = {"name", "id", "expectations", "meta", "notes"}
ENTRY_KEYS = {"type", "kwargs", "id", "meta", "severity", "description", "notes"}
NUMBERS = (Type.INT, Type.FLOAT)
TEXTS = (Type.STRING, Type.IP, Type.MAC)
"""Types that are published as texts."""
BOUNDS = ("min_value", "max_value")
STRICT = ("strict_min", "strict_max")


@dataclass(frozen=True)
class ExpectationKind:
    """The arguments of a kind of expectation.

    Attributes:
        columns: arguments that name a column.
        needed: further arguments that must be present.
        others: optional arguments beside `mostly`.
        takes: types that its columns may have; empty for all.
        rows: whether it is about single rows, so that `mostly` is allowed and rows that break it are kept.
    """

    columns: tuple[str, ...] = ("column",)
    needed: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    takes: tuple[Type, ...] = ()
    rows: bool = True


PAIR = ("column_A", "column_B")
KINDS: dict[str, ExpectationKind] = {
    "expect_column_values_to_not_be_null": ExpectationKind(),
    "expect_column_values_to_be_null": ExpectationKind(),
    "expect_column_values_to_be_between": ExpectationKind(others=(*BOUNDS, *STRICT), takes=NUMBERS),
    "expect_column_values_to_be_in_set": ExpectationKind(needed=("value_set",)),
    "expect_column_values_to_not_be_in_set": ExpectationKind(needed=("value_set",)),
    "expect_column_values_to_match_regex": ExpectationKind(needed=("regex",), takes=TEXTS),
    "expect_column_values_to_not_match_regex": ExpectationKind(needed=("regex",), takes=TEXTS),
    "expect_column_value_lengths_to_be_between": ExpectationKind(others=BOUNDS, takes=TEXTS),
    "expect_column_pair_values_to_be_equal": ExpectationKind(PAIR),
    "expect_column_pair_values_a_to_be_greater_than_b": ExpectationKind(PAIR, others=("or_equal",), takes=NUMBERS),
    "expect_table_row_count_to_be_between": ExpectationKind((), others=BOUNDS, rows=False),
}
"""The expectations of Great Expectations that a suite may use. Those with SQL or Python are left out: a suite never
runs code."""


@dataclass(frozen=True)
class CustomExpectation:
    """One expectation of a suite.

    Attributes:
        type: a key of KINDS.
        kwargs: arguments of the expectation that are not null.
        severity: warning or critical.
        description: description by the author, may be empty.
    """

    type: str
    kwargs: Mapping[str, Any]
    severity: str
    description: str = ""

    @property
    def name(self) -> str:
        """The expectation in words, unique in its suite.

        Example:
            >>> kwargs = {"column": "port", "min_value": 1}
            >>> CustomExpectation("expect_column_values_to_be_between", kwargs, "warning").name
            'port values to be between: min_value 1'
        """
        columns = " and ".join(str(self.kwargs[column]) for column in KINDS[self.type].columns)
        words = self.type.removeprefix("expect_").removeprefix("column_").removeprefix("pair_").replace("_", " ")
        arguments = [
            f"{key} {json.dumps(value)}" for key, value in self.kwargs.items() if key not in KINDS[self.type].columns
        ]
        return f"{columns} {words}".strip() + (f": {', '.join(arguments)}" if arguments else "")

    @property
    def mostly(self) -> float:
        """The least share of values that must keep the expectation."""
        return float(self.kwargs.get("mostly", 1.0))


Suites = Mapping[str, Sequence[CustomExpectation]]
"""Query -> expectations about its rows."""


def suite_file(root: PurePath, query_set: str, query: str) -> PurePath:
    """The path of the suite of a query."""
    return root / FOLDER / safe_name(query_set) / f"{safe_name(query)}.json"


def read_suites(root: PurePath, query_set: str, queries: Mapping[str, Sequence[Field]]) -> Suites:
    """Reads the suites of a query set; a query without a file has an empty suite.

    Args:
        root: folder of the lake.
        query_set: name of the query set.
        queries: output query -> fields of its rows.

    Raises:
        ConfigError: a file belongs to no query or cannot be read, or an expectation or a column is unknown.
    """
    folder = root / FOLDER / safe_name(query_set)
    query_names = {safe_name(query): query for query in queries}
    suites = paths.children(folder) if paths.may_hold(root, FOLDER) else []
    for path in suites:
        if path.suffix != ".json" or path.stem not in query_names:
            hint = f"name it QUERY.json, as the query. {nearest(path.stem, query_names)}".strip()
            raise ConfigError(f"{path}: {query_set} has no output query of this name", hint)
    files = {name: suite_file(root, query_set, name) for name in queries}
    return {name: _read(files[name], name, fields) if files[name] in suites else () for name, fields in queries.items()}


def suite_digest(suite: Sequence[CustomExpectation]) -> str:
    """The digest of a suite; empty for an empty suite."""
    entries = sorted(
        json.dumps([expectation.type, dict(expectation.kwargs), expectation.severity], sort_keys=True)
        for expectation in suite
    )
    return sha256("\n".join(entries).encode()).hexdigest() if entries else ""


def starting_suite(query: str, fields: Sequence[Field]) -> str:
    """Writes a first suite: rows exist and every column has values, all as warnings."""
    entries: list[tuple[str, dict[str, Any]]] = [("expect_table_row_count_to_be_between", {"min_value": 1})]
    entries += [("expect_column_values_to_not_be_null", {"column": field.name, "mostly": 0.99}) for field in fields]
    expectations = [{"type": kind, "kwargs": kwargs, "severity": "warning"} for kind, kwargs in entries]
    return json.dumps({"name": query, "expectations": expectations}, indent=2) + "\n"


def _read(path: PurePath, query: str, fields: Sequence[Field]) -> tuple[CustomExpectation, ...]:
    try:
        data = paths.read(path, LARGEST_SUITE + 1)
        if len(data) > LARGEST_SUITE:
            raise ConfigError(
                f"{path}: the suite is larger than {LARGEST_SUITE:,} bytes", "leave out what is not needed"
            )
        suite = json.loads(data.decode(), parse_constant=_no_number)
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}", "write a suite of Great Expectations as JSON") from error
    entries = suite.get("expectations") if isinstance(suite, dict) else None
    if not isinstance(entries, list) or set(suite) - SUITE_KEYS:
        raise ConfigError(
            f"{path}: is not a suite of expectations", f"write an object of {', '.join(sorted(SUITE_KEYS))}"
        )
    if suite.get("name") != query:
        raise ConfigError(f"{path}: its name is {suite.get('name')!r}", f"write {query!r}, as the query")
    expectations = [_EntryReader(path, number, fields).read(entry) for number, entry in enumerate(entries, 1)]
    names = [expectation.name for expectation in expectations]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ConfigError(f"{path}: {twice[0]!r} is written twice", "leave one of them out")
    return tuple(expectations)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


class _EntryReader:
    """Reads one expectation of a suite; every error names the file, the number and the type."""

    def __init__(self, path: PurePath, number: int, fields: Sequence[Field]) -> None:
        self._where = f"{path}: expectation {number}"
        self._types = {field.name: field.type for field in fields}

    def read(self, entry: Any) -> CustomExpectation:
        if not isinstance(entry, dict) or not isinstance(entry.get("type"), str) or set(entry) - ENTRY_KEYS:
            raise ConfigError(
                f"{self._where} must be an object with a type and no unknown keys",
                f"write an object of {', '.join(sorted(ENTRY_KEYS))}",
            )
        name = entry["type"]
        self._where += f" ({name})"
        kind = KINDS.get(name)
        if kind is None:
            raise ConfigError(f"{self._where} is not known", nearest(name, set(KINDS)))
        kwargs, severity, description = (
            entry.get("kwargs", {}),
            entry.get("severity", "critical"),
            entry.get("description"),
        )
        if severity not in SEVERITIES:
            raise ConfigError(f"{self._where}: severity {severity!r}", "write warning or critical")
        if not isinstance(kwargs, dict) or not isinstance(description, str | None):
            hint = 'write "kwargs": {"column": "NAME", ...} and "description": "TEXT"'
            raise ConfigError(f"{self._where}: kwargs must be an object and description a text", hint)
        allowed = {*kind.columns, *kind.needed, *kind.others, *(("mostly",) if kind.rows else ())}
        arguments = {key: value for key, value in kwargs.items() if value is not None}
        if wrong := sorted(set(arguments) - allowed):
            raise ConfigError(f"{self._where} takes no {wrong[0]}", f"it takes {', '.join(sorted(allowed))}")
        if lacking := [key for key in (*kind.columns, *kind.needed) if key not in arguments]:
            raise ConfigError(f"{self._where} lacks {', '.join(lacking)}", "write it into its kwargs")
        kinds = [self._column(str(arguments[key]), kind) for key in kind.columns]
        for key, value in arguments.items():
            if key not in kind.columns and not _CHECKS[key](value, kinds):
                raise ConfigError(f"{self._where}: {key} cannot be {_abbreviated(value)}", _HINTS[key])
        if len(set(kinds)) > 1 and not set(kinds) <= set(NUMBERS):
            hint = "name two columns of numbers, or of one type"
            raise ConfigError(f"{self._where}: its columns are of the types {' and '.join(kinds)}", hint)
        if kind.others[:2] == BOUNDS and not set(BOUNDS) & set(arguments):
            raise ConfigError(f"{self._where} has no bound", "write min_value, max_value or both")
        return CustomExpectation(name, arguments, severity, description or "")

    def _column(self, name: str, kind: ExpectationKind) -> Type:
        type_ = self._types.get(name)
        if type_ is None:
            raise ConfigError(f"{self._where}: the query has no column {name!r}", nearest(name, set(self._types)))
        if kind.takes and type_ not in kind.takes:
            raise ConfigError(f"{self._where}: column {name} is {type_}", f"name one of type {' or '.join(kind.takes)}")
        return type_


def _abbreviated(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _is_number(value: Any, kinds: Sequence[Type] = ()) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -INT64 <= value < INT64 if isinstance(value, int) else math.isfinite(value)


def _is_flag(value: Any, kinds: Sequence[Type]) -> bool:
    return isinstance(value, bool)


def _is_share(value: Any, kinds: Sequence[Type]) -> bool:
    return _is_number(value) and 0 <= value <= 1


def _is_regex(value: Any, kinds: Sequence[Type]) -> bool:
    if not isinstance(value, str):
        return False
    try:
        pc.match_substring_regex(pa.array([""]), value)
    except pa.ArrowInvalid:
        return False
    return True


def _is_set(value: Any, kinds: Sequence[Type]) -> bool:
    return isinstance(value, list) and all(_fits(item, kinds[0]) for item in value)


def _fits(value: Any, kind: Type) -> bool:
    if kind in TEXTS:
        return isinstance(value, str)
    if kind is Type.BOOL:
        return isinstance(value, bool)
    return _is_number(value) and (kind is Type.FLOAT or (float(value).is_integer() and -INT64 <= value < INT64))


_CHECKS: dict[str, Callable[[Any, Sequence[Type]], bool]] = {
    **dict.fromkeys(BOUNDS, _is_number),
    **dict.fromkeys((*STRICT, "or_equal"), _is_flag),
    "mostly": _is_share,
    "regex": _is_regex,
    "value_set": _is_set,
}
_HINTS = {
    **dict.fromkeys(BOUNDS, "write a number of 64 bits"),
    **dict.fromkeys((*STRICT, "or_equal"), "write true or false"),
    "mostly": "write a share from 0 to 1",
    "regex": "write a regular expression of RE2: no look-around, no back references",
    "value_set": "write a list of values of the column's type",
}
