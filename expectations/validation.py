"""Runs the suites of the audit on the measures of an interval, in the process that has Great Expectations.

`lowwater.quality` measures, and the replay decides by the results whether to publish.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from lowwater.errors import LawError

from .entries import SuiteFile, read_suite
from .findings import SUITES, Finding, Validation

Ask = Callable[[dict[str, Any]], Iterator[dict[str, Any]]]
"""Answers a request of the worker."""


def validate(frames: Mapping[str, pa.Table], run: str, ask: Ask) -> tuple[Validation, ...]:
    """Validates the measures of an interval.

    Returns:
        One validation for each suite, in the order of `SUITES`.

    Raises:
        LawError: a frame is missing, has no rows, or lacks a column or value; or an expectation raised an error.
    """
    files = {name: read_suite(name) for name in SUITES}
    for name, file in files.items():
        _check(file, frames.get(name), run)
    hexes = {name: _hex(frames[name].select(_read(file))) for name, file in files.items()}
    answers = {each["id"]: each for each in ask({"do": "validate", "frames": hexes})}
    time = datetime.now(UTC).isoformat()
    return tuple(_validation(file, frames[name], answers, run, time) for name, file in files.items())


def _read(file: SuiteFile) -> list[str]:
    """The columns that decide."""
    return sorted({name for entry in file.expectations for name in entry.columns()})


def _hex(table: pa.Table) -> str:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return str(sink.getvalue().to_pybytes().hex())


def _check(file: SuiteFile, frame: pa.Table | None, run: str) -> None:
    """Refuses a frame without rows or with missing values, because an audit of an empty frame would pass."""
    if frame is None or not frame.num_rows:
        raise LawError(f"{run}: nothing was measured for the suite {file.name}", "its frame is missing or has no rows")
    needed = {name for entry in file.expectations for name in (*entry.columns(), *entry.meta["shows"])}
    if missing := sorted((needed | {"interval", "captures", *file.meta["subjects"]}) - set(frame.column_names)):
        raise LawError(f"{run}: the measures {file.name} lack the columns {', '.join(missing)}")
    if missing := [name for name in _read(file) if frame.column(name).null_count]:
        raise LawError(f"{run}: the measures {file.name} lack values in the columns {', '.join(missing)}")


def _validation(
    file: SuiteFile, frame: pa.Table, answers: Mapping[str, Mapping[str, Any]], run: str, time: str
) -> Validation:
    rows = frame.to_pylist()
    findings = []
    for entry in file.expectations:
        answer = answers[entry.id]
        if answer["error"]:  # GX reports an exception of an expectation as a failure
            rule = f"{entry.meta['rule']} of the suite {file.name}"
            raise LawError(f"{run}: {rule} could not be evaluated: {answer['error']}")
        broken = tuple(answer["rows"])
        findings.append(
            Finding(
                suite=file.name,
                expectation=entry.id,
                kind=entry.meta["rule"],
                severity=entry.severity,
                success=answer["success"],
                evaluated=len(rows),
                unexpected=len(broken),
                rows=broken,
                messages=tuple(file.message(entry, rows[at]) for at in broken),
                title=entry.meta["title"],
            )
        )
    return Validation(file.name, tuple(findings), rows, run, time)
