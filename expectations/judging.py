"""Great Expectations, as audits use it: suites of measures, and the suites that people write for rows of a query.

Its pandas engine judges in memory, without a context, files and network. The rows are those that are published, as
columns of Arrow; SQL reads their files.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from io import StringIO
from itertools import accumulate, pairwise
from pathlib import PurePath
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
from great_expectations.compatibility import pydantic
from great_expectations.core import ExpectationSuite, ExpectationValidationResult
from great_expectations.execution_engine import PandasExecutionEngine
from great_expectations.expectations import core, expectation as gx_expectation
from great_expectations.expectations.expectation import (
    ColumnMapExpectation,
    ColumnPairMapExpectation,
    Expectation,
    MulticolumnMapExpectation,
    _mostly_success,
)
from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
from great_expectations.validator.validator import Validator

from lowwater.catalog.schemas import ROW
from lowwater.errors import ConfigError
from lowwater.limits import EXAMPLE_ROWS

from . import own, providers
from .audits import NAMING, read_suite


class _Validator(Validator):
    """It judges a frame in the metrics of GX's pandas engine, without a context: that would hash all rows, twice."""

    def _determine_progress_bars(self) -> bool:
        return False


def validate_frame(
    frame: pd.DataFrame, suite: ExpectationSuite, result_format: Any
) -> list[ExpectationValidationResult]:
    """Validates a frame; the results are in the order of the suite, whose expectations have ids."""
    engine = PandasExecutionEngine()
    engine.load_batch_data("rows", frame)
    asked = [expectation.configuration for expectation in suite.expectations]
    results = _Validator(engine).graph_validate(asked, {"result_format": result_format})
    order = [each.id for each in asked]
    return sorted(results, key=lambda each: order.index(each.expectation_config.id))  # type: ignore[union-attr]


def raised(exception_info: Any) -> str:
    """The first exception that an expectation raised, in a line; empty without one."""
    infos: Sequence[Any] = [exception_info] if "raised_exception" in exception_info else [*exception_info.values()]
    messages = [str(info["exception_message"]) for info in infos if info["raised_exception"]]
    return " ".join(messages[0].split()) if messages else ""


# It is asked for the name of an expectation some hundred times at each validation, an eighth of its time.
gx_expectation.camel_to_snake = cache(gx_expectation.camel_to_snake)

Entries = Sequence[Mapping[str, Any]]
"""Type, kwargs and severity of the expectations of a suite."""

UNABLE = ("expect_table_row_count_to_equal_other_table", "expect_query_results_to_match_comparison")
"""Expectations of GX that an audit cannot judge: they ask for another table than the rows of the query."""

OF_ALL_ROWS = frozenset({
    "expect_column_values_to_be_unique", "expect_column_values_to_be_increasing",
    "expect_column_values_to_be_decreasing", "expect_column_value_z_scores_to_be_less_than",
    "expect_column_values_to_not_be_outliers", "expect_compound_columns_to_be_unique",
})  # fmt: skip
"""Expectations of GX's maps that compare rows; the others look at each row by itself, so that rows come in shares."""

ABOUT_TABLE = frozenset({"table.columns", "table.column_count", "table.row_count"})
"""Metrics of GX about the names of columns and the number of rows only."""

OF_TYPES = frozenset({
    "expect_column_values_to_be_of_type", "expect_column_values_to_be_in_type_list", "expect_column_type_to_be",
})  # fmt: skip
"""Expectations of types, which are those of numpy and Python: GX compares no type of Arrow."""

SQL = "unexpected_rows_expectation"
BATCH = 65536

_NOT_TAKEN = {
    "id", "meta", "notes", "description", "severity", "rendered_content", "result_format", "catch_exceptions",
    "batch_id", "windows", "library_metadata",
}  # fmt: skip
_FORMAT = {"result_format": "SUMMARY", "partial_unexpected_count": EXAMPLE_ROWS}
_HINTS = {
    "mostly": "write a share from 0 to 1",
    "value_set": "write a list of values of the column's type",
    "regex": "write a regular expression as Python's re reads it",
}


@dataclass
class Judged:
    """What GX says of one expectation."""

    number: int  # its number in the suite, from 0
    success: bool  # GX's verdict
    values: int = 0  # rows that were looked at and have a value
    broken: int = 0  # rows that break it; 1 for an expectation of all rows together that does not hold
    # what GX observed, of an expectation of all rows together; of any, why it could not be judged
    observed: str = ""
    # the first rows that break it, as their numbers among the rows of the files
    places: list[int] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)  # the first rows that SQL found


@cache
def of_core() -> Mapping[str, type[Expectation]]:
    """The expectations of GX's core that a suite may have, by type."""
    known = _named(vars(core).values())
    return {kind: known[kind] for kind in sorted(known) if kind not in UNABLE}


def _named(values: Iterable[Any]) -> dict[str, type[Expectation]]:
    classes = [each for each in values if isinstance(each, type) and issubclass(each, Expectation)]
    return {str(each.expectation_type): each for each in classes if getattr(each, "expectation_type", "")}


def kinds() -> Mapping[str, type[Expectation]]:
    """The expectations that a suite may have, by type: of GX's core, and of modules that were loaded."""
    return {**of_core(), **own.KINDS}


def _of_rows(kind: str) -> bool:
    # Whether one of people compares rows nobody knows.
    maps = ColumnMapExpectation, ColumnPairMapExpectation, MulticolumnMapExpectation
    return kind in of_core() and issubclass(of_core()[kind], maps) and kind not in OF_ALL_ROWS


def is_sql(kind: str) -> bool:
    """Whether an expectation is SQL, by its author or by a class of people."""
    return issubclass(kinds()[kind], core.UnexpectedRowsExpectation)


def check_written(path: PurePath, entries: Entries, schema: pa.Schema) -> None:
    """Checks that GX can judge each expectation of a suite over rows of a schema; ConfigError where not."""
    places = [f"{path}: expectation {number} ({entry['type']})" for number, entry in enumerate(entries, 1)]
    for where, entry in zip(places, entries, strict=True):
        _require(where, entry, schema)
    for where, entry, result in zip(places, entries, _validated(_sample(schema), entries), strict=True):
        if why := raised(result.exception_info):
            raise ConfigError(f"{where} cannot be judged by Great Expectations: {_short(why)}", _remedy(entry))


def judge(files: Sequence[str], schema: pa.Schema, entries: Entries, megabytes: int) -> Iterator[Judged]:
    """Judges the rows of files by the expectations of a suite; yields them as they are known."""
    rows, room = _Rows(files, schema), megabytes << 20
    of_table: list[int] = []
    simple: list[int] = []
    slow: list[int] = []
    for at, entry in enumerate(entries):
        asked = set(getattr(of_core().get(entry["type"]), "metric_dependencies", ()))
        if asked and asked <= ABOUT_TABLE and not entry["kwargs"].get("row_condition"):
            of_table.append(at)
        elif entry["type"] in OF_TYPES:
            for judged in _whole(rows.typed(entry["kwargs"]["column"]), entries, [at], rows.count):
                # All values are of one type.
                yield Judged(at, judged.success, rows.count, int(not judged.success), judged.observed or '"str"')
        else:
            (slow if has_code(entry) else simple).append(at)
    if of_table:
        yield from _whole(rows.bare(), entries, of_table, rows.count)
    needs = {at: _needs(entries[at], schema) for at in simple + slow}
    together = [name for name in schema.names if any(name in needs[at] for at in simple)]
    if simple and (frame := rows.all_of(together, room)) is not None:
        yield from _whole(frame, entries, simple, rows.count)
        simple = []
    for at in simple + slow:
        if is_sql(entries[at]["type"]):
            with providers.reading(files, schema, megabytes):
                yield from _whole(rows.bare(), entries, [at], rows.count)
        elif (frame := rows.all_of(needs[at], room)) is not None:
            yield from _whole(frame, entries, [at], rows.count)
        elif _of_rows(entries[at]["type"]):
            yield _in_shares(rows.shares(needs[at], room), entries, at)
        else:
            columns = " and ".join(needs[at])
            why = f"it needs {columns} of {rows.count:,} rows at once, more than the setting [suites] memory allows"
            yield _not_judged(at, rows.count, why)


def judge_intervals(
    files: Sequence[Sequence[str]], schema: pa.Schema, entries: Entries, megabytes: int
) -> Iterator[tuple[int, Judged]]:
    """Judges the rows of intervals, each of which has files of its own, as `judge` does one after another; yields the
    number of an interval with what is known of it. Expectations that look at each row by itself are asked once, about
    the rows of all intervals."""
    done = set[int]()
    for interval, judged in _together(files, schema, entries, megabytes << 20) if len(files) > 1 else ():
        done.add(judged.number)
        yield interval, judged
    left = [at for at in range(len(entries)) if at not in done]
    for interval, mine in enumerate(files):
        for judged in judge(mine, schema, [entries[at] for at in left], megabytes) if left else ():
            yield interval, replace(judged, number=left[judged.number])


def _together(
    files: Sequence[Sequence[str]], schema: pa.Schema, entries: Entries, room: int
) -> Iterator[tuple[int, Judged]]:
    """What is known of all intervals by one question; none of an expectation of which each must be asked."""
    chosen = [at for at, entry in enumerate(entries) if _of_each_row(entry)]
    rows = _Rows([file for mine in files for file in mine], schema)
    bounds = [0, *accumulate(_Rows(mine, schema).count for mine in files)]
    simple = [at for at in chosen if not has_code(entries[at])]
    for numbers in filter(None, [simple, *([at] for at in chosen if at not in simple)]):
        columns = {entries[at]["kwargs"]["column"] for at in numbers}
        if (frame := rows.all_of([name for name in schema.names if name in columns], room)) is None:
            continue
        for at, result in zip(numbers, _validated(frame, [entries[at] for at in numbers]), strict=True):
            judged, entry = _judged(at, result, rows.count), entries[at]
            if judged.observed or judged.broken > len(judged.places):
                continue  # it cannot be judged, or it is not known which rows break it
            counts = "missing_count" in result.result
            missing = frame[entry["kwargs"]["column"]].isna().to_numpy() if counts else np.zeros(rows.count, bool)
            for interval, (begin, end) in enumerate(pairwise(bounds)):
                places = [place - begin for place in judged.places if begin <= place < end]
                values = end - begin - int(missing[begin:end].sum())
                yield interval, Judged(at, _holds(entry, values, len(places)), values, len(places), places=places)


def _of_each_row(entry: Mapping[str, Any]) -> bool:
    """Whether an expectation of GX looks at the value of each row by itself, and at all rows."""
    kind = of_core().get(entry["type"])
    return (
        kind is not None
        and issubclass(kind, ColumnMapExpectation)
        and entry["type"] not in OF_ALL_ROWS | OF_TYPES
        and not entry["kwargs"].get("row_condition")
    )


def _holds(entry: Mapping[str, Any], values: int, broken: int) -> bool:
    return not broken or bool(_mostly_success(values, broken, float(entry["kwargs"].get("mostly", 1.0))))


def has_code(entry: Mapping[str, Any]) -> bool:
    """Whether an expectation is SQL or code of people, or has a regular expression or a condition: it may take any
    time."""
    return (
        is_sql(entry["type"])
        or entry["type"] in own.KINDS
        or any(entry["kwargs"].get(key) for key in ("regex", "regex_list", "json_schema", "row_condition"))
    )


def _require(where: str, entry: Mapping[str, Any], schema: pa.Schema) -> None:
    kind, kwargs = entry["type"], entry["kwargs"]
    if kind in UNABLE:
        why = "it asks for another table than the rows of the query"
        raise ConfigError(
            f"{where} cannot be judged at an audit: {why}", "write it as SQL over {batch}, or leave it out"
        )
    found = kinds().get(kind)
    if found is None:
        from lowwater.errors import nearest

        near = nearest(kind, set(kinds()))
        hint = near or "a class of your own is in a module of the folder that [suites] modules names"
        raise ConfigError(f"{where} is not known to Great Expectations", hint)
    takes = sorted(set(found.__fields__) - _NOT_TAKEN)
    if wrong := sorted(set(kwargs) - set(takes)):
        raise ConfigError(f"{where} takes no {wrong[0]}", f"it takes {', '.join(takes)}")
    for key, value in kwargs.items():
        if isinstance(value, dict) and "$PARAMETER" in value:
            raise ConfigError(f"{where}: {key} is a parameter, and an audit gives none", "write its value")
        if not _possible(key, value, kwargs, schema):
            raise _impossible(where, key, value)
    try:
        with _quietly():
            ExpectationConfiguration(type=kind, kwargs=dict(kwargs), severity=entry["severity"]).to_domain_obj()
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0])
        if key in kwargs:
            raise _impossible(where, key, kwargs[key], f": {first['msg']}") from error
        lacking = first["msg"] if key == "__root__" else f"{key}: {first['msg']}"
        raise ConfigError(f"{where} is not complete: {lacking}", f"it takes {', '.join(takes)}") from error


def _impossible(where: str, key: str, value: Any, why: str = "") -> ConfigError:
    hint = _HINTS.get(key, "write another value")
    return ConfigError(f"{where}: {key} cannot be {_short(json.dumps(value))}{why}", hint)


def _possible(key: str, value: Any, kwargs: Mapping[str, Any], schema: pa.Schema) -> bool:
    """Whether a value of an argument can be meant; GX only says so of some."""
    try:
        if key in ("regex", "regex_list"):
            for pattern in value if key == "regex_list" else [value]:
                re.compile(pattern)
        if key == "value_set" and kwargs.get("column") in schema.names:
            pa.array(value, schema.field(kwargs["column"]).type)
    except (re.error, pa.ArrowException, TypeError, RecursionError, OverflowError):
        return False
    return True


def _remedy(entry: Mapping[str, Any]) -> str:
    if entry["type"] == SQL:
        return "write SQL of DuckDB that selects the rows that must not be, from {batch}"
    if entry["kwargs"].get("row_condition"):
        return 'write "row_condition": "NAME > 0" with "condition_parser": "pandas"'
    return "name columns, and give values, of a type that it takes"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 160 else f"{line[:157]}..."


def _sample(schema: pa.Schema) -> pd.DataFrame:
    """Three rows of a schema, by which it is known whether an expectation runs at all."""
    values = {True: pa.array([True, False, True]), False: pa.array([1, 2, 3], pa.int64())}
    columns = [values[pa.types.is_boolean(column.type)].cast(column.type) for column in schema]
    return _framed(pa.table(columns, schema.names), 0)


def _framed(table: pa.Table, first: int) -> pd.DataFrame:
    """A frame of Arrow's columns whose index numbers rows from `first`; NaN is no value."""
    for at, column in enumerate(table.columns):
        if pa.types.is_floating(column.type):
            table = table.set_column(at, table.schema.names[at], pc.if_else(pc.is_nan(column), None, column))
    frame: pd.DataFrame = table.to_pandas(types_mapper=pd.ArrowDtype)
    frame.index = pd.RangeIndex(first, first + table.num_rows)
    return frame


def _needs(entry: Mapping[str, Any], schema: pa.Schema) -> list[str]:
    """The columns that an expectation reads, at least one; one of people may read any."""
    if entry["type"] in own.KINDS:
        return [*schema.names]
    kwargs, named = entry["kwargs"], set[str]()
    for key in NAMING:
        value = kwargs.get(key) or []
        named |= {value} if isinstance(value, str) else set(value)
    condition = json.dumps(kwargs.get("row_condition") or "", ensure_ascii=False)
    return [name for name in schema.names if name in named or name in condition] or schema.names[-1:]


def _validated(frame: pd.DataFrame, entries: Entries) -> Any:
    numbered = [{**entry, "id": str(number)} for number, entry in enumerate(entries)]
    form = {**_FORMAT, "result_format": "COMPLETE"} if all(is_sql(entry["type"]) for entry in entries) else _FORMAT
    with _quietly():
        return validate_frame(frame, ExpectationSuite(name="rows", expectations=numbered), form)


@contextmanager
def _quietly() -> Iterator[None]:
    """GX prints what it thinks of SQL, and warns of conditions as texts, which its own documents show."""
    with redirect_stdout(StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _whole(frame: pd.DataFrame, entries: Entries, numbers: Sequence[int], count: int) -> Iterator[Judged]:
    results = _validated(frame, [entries[at] for at in numbers])
    for at, result in zip(numbers, results, strict=True):
        yield _judged(at, result, count)


def _not_judged(number: int, count: int, why: str) -> Judged:
    return Judged(number, False, count, 1, f"not judged: {why}")


def _judged(number: int, result: Any, count: int) -> Judged:
    values, success = result.result, bool(result.success)
    if why := raised(result.exception_info):
        return _not_judged(number, count, f"Great Expectations could not judge it: {_short(why)}")
    if "element_count" not in values:
        rows = (values.get("details") or {}).get("unexpected_rows", []) if isinstance(values, dict) else []
        observed = _short(json.dumps(values.get("observed_value"), default=str, ensure_ascii=False))
        return Judged(number, success, count, 0 if success else 1, observed, rows=rows)
    valued = values["element_count"] - values.get("missing_count", 0)
    return Judged(number, success, valued, values["unexpected_count"], places=values["partial_unexpected_index_list"])


def _in_shares(shares: Iterator[pd.DataFrame], entries: Entries, number: int) -> Judged:
    whole = Judged(number, True)
    for frame in shares:
        (part,) = _whole(frame, entries, [number], len(frame))
        if part.observed:  # it could not be judged
            return part
        whole.values += part.values
        whole.broken += part.broken
        whole.places += part.places[: EXAMPLE_ROWS - len(whole.places)]
    whole.success = _holds(entries[number], whole.values, whole.broken)
    return whole


_IS_ROW = pads.field("_kind") == ROW


class _Rows:
    """The rows of some files of a stream, in order, with the columns of the published rows."""

    def __init__(self, files: Sequence[str], schema: pa.Schema) -> None:
        stored = schema if "_kind" in schema.names else schema.append(pa.field("_kind", pa.string()))
        self._schema, self._dataset = schema, pads.dataset(files, stored, "parquet")
        self.count = self._dataset.count_rows(filter=_IS_ROW)

    def bare(self) -> pd.DataFrame:
        """All rows without values, which take no memory."""
        return _framed(pa.table({name: pa.nulls(self.count) for name in self._schema.names}), 0)

    def all_of(self, names: Sequence[str], room: int) -> pd.DataFrame | None:
        """These columns of all rows; None where GX cannot hold them within `room`, bytes."""
        frame = next(self.shares(names, room))
        return frame if len(frame) == self.count else None

    def typed(self, name: str) -> pd.DataFrame:
        """A column of the first rows with a value, as numpy has it. All of them are of one type."""
        values = (batch.column(0).drop_null() for batch in self._batches([name]))
        none = pa.array([], self._schema.field(name).type)
        frame: pd.DataFrame = pa.table({name: next(filter(len, values), none)}).to_pandas()
        return frame

    def shares(self, names: Sequence[str], room: int) -> Iterator[pd.DataFrame]:
        """All rows in shares, at least one, that GX can hold within `room`, bytes."""
        schema = pa.schema([self._schema.field(name) for name in names])
        first, held, spent = 0, list[pa.RecordBatch](), 0
        for batch in self._batches(names):
            cost = _cost(batch)
            if held and spent + cost > room:
                yield _framed(table := pa.Table.from_batches(held, schema), first)
                first, held, spent = first + table.num_rows, [], 0
            held, spent = [*held, batch], spent + cost
        yield _framed(pa.Table.from_batches(held, schema), first)

    def _batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        ahead = {"batch_size": BATCH, "batch_readahead": 1, "fragment_readahead": 1, "use_threads": False}
        batches = self._dataset.to_batches(columns=list(names), filter=_IS_ROW, **ahead)
        return (batch for batch in batches if batch.num_rows)


def _cost(batch: pa.RecordBatch) -> int:
    """Memory that GX takes for these rows at the most, about, as measured: masks and copies, and texts as objects."""
    texts = sum(pa.types.is_string(each.type) for each in batch.schema)
    cost: int = 5 * batch.nbytes + 100 * texts * batch.num_rows
    return cost


def answers(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Answers a request: `validate` (the suites of the audit), `judge` (a suite that people wrote, over the rows of
    intervals), `check` (whether it can be judged; the answer is an error or none). Modules of people that it names are
    loaded first."""
    if request["do"] == "validate":
        for name, frame in request["frames"].items():
            yield from _judged_measures(name, pa.ipc.open_stream(bytes.fromhex(frame)).read_all())
        return
    schema = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(request["schema"])))
    if request["do"] == "check":
        try:
            own.load(request.get("modules", ""))
            check_written(PurePath(request["path"]), request["entries"], schema)
        except ConfigError as error:
            yield {"message": error.message, "hint": error.hint}
        return
    own.load(request.get("modules", ""))
    about = request["files"], schema, request["entries"], request["megabytes"]
    for interval, judged in judge_intervals(*about):
        yield {"interval": interval, **asdict(judged)}


def _judged_measures(name: str, table: pa.Table) -> Iterator[dict[str, Any]]:
    """What GX says of each expectation of a suite; the rows that break it are asked for only where there are any."""
    frame, suite = table.to_pandas(), suite_of(name)
    results = validate_frame(frame, suite, "BOOLEAN_ONLY")
    for expectation, result in zip(suite.expectations, results, strict=True):
        rows, error = [], raised(result.exception_info)
        if not result.success and not error:
            (found,) = validate_frame(frame, built("one", [expectation.configuration]), "COMPLETE")
            rows = found.result["unexpected_index_list"]
        yield {"id": expectation.id, "success": bool(result.success), "rows": rows, "error": error}


@cache
def suite_of(name: str) -> ExpectationSuite:
    """A suite of the audit as GX has it."""
    entries = read_suite(name).expectations  # with notes and meta, GX takes half as long again
    asked = [{"id": each.id, "type": each.type, "kwargs": each.kwargs, "severity": each.severity} for each in entries]
    return built(name, asked)


def built(name: str, expectations: Sequence[Any]) -> ExpectationSuite:
    """A suite. Raises ValueError where GX has dropped an expectation, which GX itself only logs."""
    suite = ExpectationSuite(name=name, expectations=[*expectations])
    if len(suite.expectations) < len(expectations):
        raise ValueError(f"the suite {name} has expectations that Great Expectations does not know")
    return suite
