"""The rows of each output query over an interval, checked: schema, ownership, promises, unique keys, own suites."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lowwater import config, errors, instants, processes
from lowwater.capture.digests import row_digests
from lowwater.catalog import expr as ex, schemas
from lowwater.columns.files import only_rows
from lowwater.lake.tables import quote
from lowwater.limits import EXAMPLE_ROWS, KEY_DIGESTS
from lowwater.plan import operators as ops, properties, temporal
from lowwater.quality import judge, suites
from lowwater.quality.modules import Modules

BATCH = 65536

EARLIEST, LATEST = -temporal.INT64_MAX - 1, temporal.INT64_MAX
"""Stand for an instant that is NULL. No engine writes NULL, so a row with one breaks the rules."""

Instants = NDArray[np.int64]


@dataclass
class BrokenRows:
    """The rows that break a rule."""

    total: int = 0  # number of rows that break the rule
    # the first of them, at most EXAMPLE_ROWS, as published, with the control columns
    rows: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class StreamCheck:
    """The result of the checks of a stream over an interval."""

    rows: int  # data rows
    columns: str  # faults of the schema of the files; empty without any
    open_ns: int  # time from the highest promise to the end of the interval, ns; 0 if the stream is closed (T6)
    not_owned: BrokenRows  # rows whose last instant is not in the interval (I1)
    below_promise: BrokenRows  # rows that come after a punctuation that excludes them (P1)


def check_stream(
    files: Sequence[Path], fields: Sequence[ops.Field], start: int, end: int, whole: bool = False
) -> StreamCheck:
    """Checks the files of a stream, in order, over [start, end), ns; its rows only if the control columns exist.
    `whole` reads every other column too, of files that have changed since they were written."""
    try:
        columns, readable = _schema_faults(files, properties.result_schema(fields))
        for path in files if whole else ():
            with pq.ParquetFile(path) as file:
                for _ in file.iter_batches(BATCH):
                    pass
        if readable:
            return _check_rows(files, start, end, columns)
    except (OSError, pa.ArrowException) as error:
        columns = f"a file cannot be read: {str(error).splitlines()[0]}"
    return StreamCheck(0, columns, 0, BrokenRows(), BrokenRows())


def _check_rows(files: Sequence[Path], start: int, end: int, columns: str) -> StreamCheck:
    ticks, promises = _promises(files)
    rows, totals = 0, [0, 0]
    places: tuple[list[int], list[int]] = [], []
    for first, batch, alone in _batches(files):
        is_row = np.ones(batch.num_rows, np.bool_)
        if not alone:
            kinds = batch.column("_kind")
            is_row = pc.fill_null(pc.equal(kinds, schemas.ROW), False).to_numpy(zero_copy_only=False)
        last, tick = _instants(batch.column("_last"), EARLIEST), _instants(batch.column("_tick"), LATEST)
        rows += int(is_row.sum())
        not_owned = is_row & ((last < start) | (last >= end))
        # Rows of a tick precede its punctuation (P5), so only earlier ticks count.
        below = is_row & (last < promises[np.maximum(np.searchsorted(ticks, tick) - 1, 0)])
        for rule, marks in enumerate((not_owned, below)):
            totals[rule] += int(marks.sum())
            places[rule].extend((first + np.flatnonzero(marks)[: EXAMPLE_ROWS - len(places[rule])]).tolist())
    broken = [BrokenRows(total, list(rows_at(files, at))) for total, at in zip(totals, places, strict=True)]
    return StreamCheck(rows, columns, max(0, end - (int(promises[-1]) if len(promises) > 1 else start)), *broken)


def _promises(files: Sequence[Path]) -> tuple[Instants, Instants]:
    """The ticks of the promises, ascending, and the highest promise up to each, ns; at first there is none."""
    ticks, bounds = [np.array([EARLIEST])], [np.array([EARLIEST])]
    for _, batch, _ in _batches(files, promises=True):
        promises = batch.filter(pc.equal(batch.column("_kind"), schemas.PUNCTUATION))
        ticks.append(_instants(promises.column("_tick"), LATEST))
        bounds.append(_instants(promises.column("_last"), EARLIEST))
    all_ticks = np.concatenate(ticks)
    order = np.argsort(all_ticks, kind="stable")
    return all_ticks[order], np.maximum.accumulate(np.concatenate(bounds)[order])


def _schema_faults(files: Sequence[Path], planned: pa.Schema) -> tuple[str, bool]:
    """The schema faults of the first file that has any, and whether all files have the control columns."""
    faults, readable = "", True
    for path in files:
        schema = pq.read_schema(path)
        faults = faults or _differences(path.name, schema, planned)
        readable = readable and not _differences(path.name, schema, schemas.CONTROL, others=True)
    return faults, readable


def _differences(file: str, schema: pa.Schema, planned: pa.Schema, others: bool = False) -> str:
    parts = [f"column {name} is missing" for name in planned.names if name not in schema.names]
    for field_ in planned:
        if field_.name in schema.names and schema.field(field_.name).type != field_.type:
            parts.append(f"column {field_.name} is {schema.field(field_.name).type}, not {field_.type}")
    if not others:
        parts += [f"column {name} is not in the plan" for name in schema.names if name not in planned.names]
    return f"{file}: {'; '.join(parts)}" if parts else ""


def _batches(files: Sequence[Path], promises: bool = False) -> Iterator[tuple[int, pa.RecordBatch, bool]]:
    """Yields the number of the batch's first row in the stream, its control columns, and whether it has data rows alone
    and so no column `_kind`. `promises`: only the batches that may have promises."""
    first = 0
    for path in files:
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                alone = only_rows(file, group)
                names = ["_tick", "_last", *([] if alone else ["_kind"])]
                for batch in () if alone and promises else file.iter_batches(BATCH, [group], names):
                    yield first, batch, alone
                    first += batch.num_rows


def _instants(values: pa.Array, missing: int) -> Instants:
    filled: Instants = pc.fill_null(values, missing).to_numpy()
    return filled


def rows_at(files: Sequence[Path], places: Sequence[int], kind: str | None = None) -> Iterator[dict[str, Any]]:
    """Reads the rows with some numbers, ascending, among the rows of the files, or among those of a kind."""
    wanted, first = np.array(places, np.int64), 0
    for path in files if len(wanted) else ():
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(BATCH):
                batch = batch if kind is None else batch.filter(pc.equal(batch.column("_kind"), kind))
                here = wanted[(wanted >= first) & (wanted < first + batch.num_rows)] - first
                first += batch.num_rows
                yield from batch.take(pa.array(here, pa.int64())).to_pylist()


# Uniqueness of keys, by a 64-bit digest of each: rows with different digests have different keys. Where this leaves a
# doubt, `shared_keys` finds the rows that share a key, which takes longer.


def distinct_keys(files: Sequence[Path], fields: Sequence[ops.Field], key: Sequence[str]) -> bool:
    """Whether all rows of a stream certainly have different keys; NULL equals NULL. False is also "unknown": two
    digests are equal, the key has a float (digests know two zeros), a file cannot be read or is not as planned, or it
    has more rows than KEY_DIGESTS."""
    if any(field.type is ex.Type.FLOAT for field in fields if field.name in key):
        return False
    try:
        if _schema_faults(files, properties.result_schema(fields))[0]:
            return False
        if sum(pq.read_metadata(path).num_rows for path in files) > KEY_DIGESTS:
            return False
        parts = [row_digests(keys.columns, keys.num_rows) for keys in _key_columns(files, key)]
        whole = np.concatenate([np.empty(0, np.uint64), *parts])
        whole.sort()
        return not np.any(whole[1:] == whole[:-1])
    except (OSError, pa.ArrowException):
        return False  # `shared_keys` says what is wrong with a file


def _key_columns(files: Sequence[Path], key: Sequence[str]) -> Iterator[pa.RecordBatch]:
    for path in files:
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                alone = only_rows(file, group)
                for batch in file.iter_batches(row_groups=[group], columns=[*key, *([] if alone else ["_kind"])]):
                    rows = batch if alone else batch.filter(pc.equal(batch.column("_kind"), schemas.ROW))
                    yield rows.select(list(key))


MEGABYTES = 256
"""Memory in which shared keys are looked for; what takes more is on the disk meanwhile."""


def shared_keys(
    files: Sequence[Path], fields: Sequence[ops.Field], key: Sequence[str], most: int, folder: Path
) -> tuple[int, BrokenRows]:
    """Finds the rows of a stream, of at least one file, that share their unique key; NULL equals NULL. Returns the
    number of such keys, that of their rows, and the first `most` rows by key; LakeError if a file cannot be read."""
    import duckdb

    paths, names = ", ".join(quote(str(path)) for path in files), [f'"{name}"' for name in key]
    same = " AND ".join(f"mine.{name} IS NOT DISTINCT FROM shared.{name}" for name in names)
    order = ", ".join(f"mine.{name} NULLS FIRST" for name in (*names, schemas.LAST))
    schema = pa.schema([*properties.published_schema(fields), *schemas.CONTROL])
    columns = ", ".join(f'mine."{name}"' for name in schema.names)
    try:
        with duckdb.connect(config={"memory_limit": f"{MEGABYTES}MiB", "temp_directory": str(folder)}) as database:
            database.execute(f"CREATE VIEW mine AS FROM read_parquet([{paths}]) WHERE _kind = '{schemas.ROW}'")
            database.execute(
                f"CREATE TEMP TABLE shared AS SELECT {', '.join(names)}, count(*) AS _rows FROM mine "
                "GROUP BY ALL HAVING _rows > 1"
            )
            ((keys, total),) = database.sql("SELECT count(*), coalesce(sum(_rows), 0)::BIGINT FROM shared").fetchall()
            found = database.sql(f"SELECT {columns} FROM mine SEMI JOIN shared ON {same} ORDER BY {order} LIMIT {most}")
            return keys, BrokenRows(total, found.to_arrow_table().cast(schema).to_pylist())
    except (OSError, duckdb.Error, pa.ArrowException) as error:
        raise errors.LakeError(f"a stream cannot be read: {error}", "run the high stage again") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class WrittenStream:
    """What the high stage recorded about the stream that it wrote."""

    rows: int  # data rows
    fingerprint: str  # the fingerprint of its files


@dataclass(frozen=True)
class QueryMeasures:
    """The measures of one output query over an interval."""

    query: str  # name of the query
    links: Sequence[str]  # links that the query reads
    key: Sequence[str] | None  # columns of the unique key; None without one
    written: WrittenStream  # the record of the high stage
    fingerprint: str  # fingerprint of the files now; empty where a file cannot be read
    stream: StreamCheck  # result of the checks that hold for every stream
    shared: BrokenRows  # rows whose key is not unique
    keys: int  # number of keys with several rows
    damage: str = ""  # why the table does not have what was published of the interval before; empty if it has

    @property
    def broken(self) -> Mapping[str, BrokenRows]:
        rules = {"not_owned": self.stream.not_owned, "below_promise": self.stream.below_promise}
        return {**rules, "duplicate_keys": self.shared}

    def measures(self) -> dict[str, Any]:
        return {
            "rows": self.stream.rows,
            "made": self.written.rows,
            # Other rows are other files, which is said once.
            "changed": int(self.fingerprint != self.written.fingerprint and self.stream.rows == self.written.rows),
            "not_owned": self.stream.not_owned.total,
            "below_promise": self.stream.below_promise.total,
            "duplicate_keys": self.keys,
            "keys": ", ".join(self.key) if self.key else "none",
            "open_ns": self.stream.open_ns,
            "columns": self.stream.columns,
            "damage": self.damage,
            "example": next((row_text(value.rows[0]) for value in self.broken.values() if value.rows), ""),
        }


def row_text(row: Mapping[str, Any]) -> str:
    """A row as one line of text.

    Example:
        >>> row_text({"tb": 7, "srcIP": None, "_last": 70})
        'tb=7, srcIP=NULL, _last=70'
    """
    return ", ".join(f"{name}={'NULL' if value is None else value}" for name, value in row.items())


# The judgement of the rows of a query by the suite that people wrote for it.

NOTHING = "nothing is asked of its rows"
"""Name of the result of a query without a suite, so that its page says so."""


@dataclass
class RuleResult:
    """The result of one expectation over the rows of a query."""

    rule: suites.CustomExpectation | None  # the expectation; None for a query without a suite
    kept: bool = True  # whether it holds, as Great Expectations says
    values: int = 0  # rows that have a value; for an expectation about all rows together, their number
    # rows that break the expectation, with the first as examples
    broken: BrokenRows = field(default_factory=BrokenRows)
    observed: str = ""  # what was observed of all rows together, or why nothing could be; empty for single rows

    @property
    def name(self) -> str:
        return self.rule.name if self.rule else NOTHING

    @property
    def allowed(self) -> int:
        # The small term makes up for the rounding of 1 - 0.9: nine of ten values are a share of 0.9.
        return math.floor(self.values * (1 - self.rule.mostly) + 1e-6) if self.rule else 0

    def measures(self) -> dict[str, Any]:
        severity = self.rule.severity if self.rule else "warning"
        allowed = f", {self.allowed:,} allowed" if self.allowed else ""
        found = f"broken by {self.broken.total:,} of {self.values:,}{allowed}"
        if self.observed:
            found = self.observed if self.observed.startswith("not judged") else f"observed {self.observed}"
        return {
            "rule": self.name,
            "severity": severity,
            "warned": int(severity == "warning" and not self.kept),
            "refused": int(severity == "critical" and not self.kept),
            "found": found,
            "why": self.rule.description if self.rule else "",
            "values": self.values,
            "broken": self.broken.total,
            "allowed": self.allowed,
            "kept": self.kept,
            "observed": self.observed,
            "example": row_text(self.broken.rows[0]) if self.broken.rows else "",
        }


def check_rows(
    files: Sequence[Sequence[Path]],
    schema: pa.Schema,
    suite: Sequence[suites.CustomExpectation],
    limits: config.SuiteLimits,
    ask: Callable[[dict[str, Any]], processes.Answers] | None = None,
    modules: Modules | None = None,
) -> list[list[RuleResult]]:
    """Judges the rows of a stream over intervals, each of which has files of its own; returns the results of each.
    `modules` are those that the suite may name expectations of."""
    if not suite or not files:
        return [[RuleResult(None)] for _ in files]
    request = {
        "do": "judge",
        "files": [[str(path) for path in mine] for mine in files],
        "schema": schema.serialize().to_pybytes().hex(),
        "entries": [each.entry() for each in suite],
        "megabytes": limits.megabytes,
        "seconds": limits.time / instants.SECOND * len(files),
    }
    answers: list[dict[int, dict[str, Any]]] = [{} for _ in files]
    why = ""
    try:
        for answer in ask(request) if ask else judge.request(request, modules):
            answers[answer["interval"]][answer["number"]] = answer
    except processes.EndedError as error:
        if len(files) > 1:  # which interval it is of is known once each is asked by itself
            return [found for mine in files for found in check_rows([mine], schema, suite, limits, ask, modules)]
        late = f"the suite took longer than [suites] time = {instants.format_duration(limits.time)}"
        why = late if error.alarm else f"the process that judges rows ended: {error}"
    return [_results(mine, schema, suite, found, why) for mine, found in zip(files, answers, strict=True)]


def _results(
    files: Sequence[Path],
    schema: pa.Schema,
    suite: Sequence[suites.CustomExpectation],
    answers: Mapping[int, Mapping[str, Any]],
    why: str,
) -> list[RuleResult]:
    """The results of an interval, of the answers about it by expectation, and why others are lacking."""
    positions = sorted({place for answer in answers.values() for place in answer["places"]})
    found = ({name: row[name] for name in schema.names} for row in rows_at(files, positions, schemas.ROW))
    rows = dict(zip(positions, found, strict=True))
    results = []
    for number, rule in enumerate(suite):
        answer = answers.get(number) or {
            "success": False, "values": 0, "broken": 1, "observed": f"not judged: {why}", "places": [], "rows": [],
        }  # fmt: skip
        broken = BrokenRows(answer["broken"], [rows[place] for place in answer["places"]] or answer["rows"])
        results.append(RuleResult(rule, answer["success"], answer["values"], broken, answer["observed"]))
    return results
