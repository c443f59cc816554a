"""Asks the process that has Great Expectations: for the verdict on measures, and on the rows of a query by its suite.

It starts beside the stages, as its imports take seconds, and stays for the next interval. It can be ended: a regular
expression of Python cannot be interrupted, and SQL may take any memory. `lowwater_expectations.worker` is what it runs.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lowwater.catalog.streams import ROW
from lowwater.errors import LakeError
from lowwater.extras import require
from lowwater.instants import SECOND, format_duration
from lowwater.quality.custom.suites import CustomExpectation
from lowwater.quality.outputs.stream_checks import BATCH, EXAMPLE_ROWS, BrokenRows
from lowwater.sections import SuiteLimits

NOTHING = "nothing is asked of its rows"
"""Name of the result of a query without a suite, so that its page says so."""


@dataclass
class RuleResult:
    """The result of one expectation over the rows of a query.

    Attributes:
        rule: the expectation; None for a query without a suite.
        kept: whether it holds, as Great Expectations says.
        values: rows that have a value; for an expectation about all rows together, their number.
        broken: rows that break the expectation, with the first as examples.
        observed: what was observed of all rows together, or why nothing could be; empty for single rows.
    """

    rule: CustomExpectation | None
    kept: bool = True
    values: int = 0
    broken: BrokenRows = field(default_factory=BrokenRows)
    observed: str = ""

    @property
    def name(self) -> str:
        """The expectation in words."""
        return self.rule.name if self.rule else NOTHING

    @property
    def allowed(self) -> int:
        """Number of values that may break the expectation."""
        # The small term makes up for the rounding of 1 - 0.9: nine of ten values are a share of 0.9.
        return math.floor(self.values * (1 - self.rule.mostly) + 1e-6) if self.rule else 0

    def measures(self) -> dict[str, Any]:
        """The columns of the frame `rows`."""
        first = self.broken.rows[0] if self.broken.rows else {}
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
            "example": ", ".join(f"{name}={'NULL' if value is None else value}" for name, value in first.items()),
        }


NAMED = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH", "TMPDIR", "TZ", "VIRTUAL_ENV")
"""Variables of the environment that the process gets: none with a secret, since a suite may hold code."""

Answers = Iterator[dict[str, Any]]
Judge = Callable[[dict[str, Any]], Answers]


def check_rows(
    files: Sequence[Path],
    schema: pa.Schema,
    suite: Sequence[CustomExpectation],
    limits: SuiteLimits,
    ask: Judge | None = None,
) -> list[RuleResult]:
    """Judges the rows of a stream over an interval.

    Args:
        files: the files of the interval.
        schema: the columns of the published rows.
        suite: the expectations; an empty suite gives one result that says so.
        limits: time and memory that it may take.
        ask: answers a request; None for the process of this one.
    """
    if not suite:
        return [RuleResult(None)]
    request = {
        "do": "judge",
        "files": [str(path) for path in files],
        "schema": schema.serialize().to_pybytes().hex(),
        "entries": [each.entry() for each in suite],
        "megabytes": limits.megabytes,
        "seconds": limits.time / SECOND,
    }
    answers: dict[int, dict[str, Any]] = {}
    why = ""
    try:
        for answer in (ask or PROCESS.ask)(request):
            answers[answer["number"]] = answer
    except _EndedError as error:
        late = f"the suite took longer than [suites] time = {format_duration(limits.time)}"
        why = late if error.signal == signal.SIGALRM else f"the process that judges rows ended: {error}"
    positions = sorted({place for answer in answers.values() for place in answer["places"][:EXAMPLE_ROWS]})
    rows = dict(zip(positions, _rows_at(files, positions), strict=True))
    return [_result(each, answers.get(number), rows, why) for number, each in enumerate(suite)]


def begin() -> None:
    """Starts the process, so that it is ready when measures are there; it has much to import."""
    PROCESS.begin()


def ask(request: dict[str, Any]) -> Answers:
    """Asks the process for something that takes no long time.

    Raises:
        LakeError: the process ended before its answer.
    """
    try:
        yield from PROCESS.ask(request)
    except _EndedError as error:
        raise LakeError(
            f"the process with Great Expectations ended: {error}", "run the command again: nothing was published"
        ) from error


def _result(
    rule: CustomExpectation, answer: Mapping[str, Any] | None, rows: Mapping[int, dict[str, Any]], why: str
) -> RuleResult:
    if answer is None:
        return RuleResult(rule, False, 0, BrokenRows(1), f"not judged: {why}")
    broken = [rows[place] for place in answer["places"][:EXAMPLE_ROWS]] or answer["rows"][:EXAMPLE_ROWS]
    counted = BrokenRows(answer["broken"], broken)
    observed = f"not judged: {answer['error']}" if answer["error"] else answer["observed"]
    return RuleResult(rule, answer["success"], answer["values"], counted, observed)


def _rows_at(files: Sequence[Path], places: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Reads the rows with some numbers, ascending, among the rows of the files."""
    wanted, first = np.array(places, np.int64), 0
    for path in files if len(wanted) else ():
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(BATCH):
                batch = batch.filter(pc.equal(batch.column("_kind"), ROW))
                here = wanted[(wanted >= first) & (wanted < first + batch.num_rows)] - first
                first += batch.num_rows
                yield from batch.take(pa.array(here, pa.int64())).to_pylist()


class _EndedError(Exception):
    """The process has ended before its answer."""

    def __init__(self, code: int, said: str) -> None:
        super().__init__(said.strip().rpartition("\n")[2] or f"code {code}")
        self.signal = -code


class _Process:
    """The process that judges rows, of this one; threads take turns."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._child: subprocess.Popen[str] | None = None
        self._errors: Any = None

    def begin(self) -> None:
        with self._turn:
            self._started()

    def ask(self, request: dict[str, Any]) -> Answers:
        """Yields the answers to a request.

        Raises:
            _EndedError: the process ended, by its alarm or otherwise; the next request starts another one.
        """
        with self._turn:
            child = self._started()
            assert child.stdin is not None and child.stdout is not None
            with suppress(BrokenPipeError):
                child.stdin.write(json.dumps(request) + "\n")
                child.stdin.flush()
            for line in child.stdout:
                if line == "\n":
                    return
                yield json.loads(line)
            raise self._ended(child)

    def end(self) -> None:
        """Ends the process, with this one."""
        if self._child is not None:
            self._child.kill()
            self._ended(self._child)

    def _ended(self, child: subprocess.Popen[str]) -> _EndedError:
        code, self._child = child.wait(), None
        for pipe in (child.stdin, child.stdout):
            with suppress(BrokenPipeError):
                pipe.close()  # type: ignore[union-attr]
        with self._errors as errors:
            errors.seek(0)
            return _EndedError(code, errors.read())

    def _started(self) -> subprocess.Popen[str]:
        if self._child is None:
            require("an audit", "quality")
            # -P: nothing of the folder in which the command was started is imported.
            command = [sys.executable, "-P", "-m", "lowwater_expectations.worker"]
            self._errors = TemporaryFile("w+", errors="replace")  # noqa: SIM115 - it lives as long as the process
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._errors}
            passed = {name: os.environ[name] for name in NAMED if name in os.environ}
            self._child = subprocess.Popen(command, env=passed, encoding="utf-8", **pipes)
        return self._child


PROCESS = _Process()
"""The process of this one that has Great Expectations."""
atexit.register(PROCESS.end)
