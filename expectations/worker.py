"""The process that has Great Expectations: it judges measures and rows, and ends where a suite takes too long.

Reads a request as a line of JSON, and answers with lines of JSON and an empty line; until its input ends.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from importlib.util import LazyLoader, find_spec, module_from_spec
from types import ModuleType
from typing import Any

import pyarrow as pa

from .entries import read_suite

Answers = Iterator[dict[str, Any]]
UNUSED = (
    "azure", "boto3", "botocore", "databricks", "google", "psycopg2", "pyathena", "pyodbc", "pyspark", "snowflake",
    "sqlalchemy", "sqlalchemy_bigquery", "sqlalchemy_redshift", "trino",
)  # fmt: skip
"""Packages without which Great Expectations works; this process has only frames of pandas."""


def spare_imports() -> None:
    """Keeps this process from importing what it does not use, which is a second of 2.5: `UNUSED`, altair (charts, which
    only pages of Great Expectations have), and the statistics of scipy before an expectation asks for them."""
    sys.modules |= dict.fromkeys(UNUSED)  # type: ignore[arg-type] # None: an import says that there is no such module
    sys.modules["altair"] = ModuleType("altair")
    spec = find_spec("scipy.stats")
    assert spec is not None and spec.loader is not None
    spec.loader = LazyLoader(spec.loader)
    stats = sys.modules[spec.name] = sys.modules["scipy"].__dict__["stats"] = module_from_spec(spec)
    spec.loader.exec_module(stats)


def answers(request: dict[str, Any]) -> Answers:
    """Answers a request: `validate` (the suites of the audit), `judge` (a suite that people wrote)."""
    if request["do"] == "validate":
        for name, frame in request["frames"].items():
            yield from _validated(name, pa.ipc.open_stream(bytes.fromhex(frame)).read_all())
        return
    from .written import judge

    schema = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(request["schema"])))
    for judged in judge(request["files"], schema, request["entries"], request["megabytes"]):
        yield asdict(judged)


def _validated(name: str, table: pa.Table) -> Answers:
    """What GX says of each expectation of a suite; the rows that break it are asked for only where there are any."""
    from .engine import raised, validate_frame

    frame, suite = table.to_pandas(), _suite(name)
    results = validate_frame(frame, suite, "BOOLEAN_ONLY").results
    for expectation, result in zip(suite.expectations, results, strict=True):
        rows, error = [], raised(result.exception_info)
        if not result.success and not error:
            (found,) = validate_frame(frame, _one(expectation.configuration), "COMPLETE").results
            rows = found.result["unexpected_index_list"]
        yield {"id": expectation.id, "success": bool(result.success), "rows": rows, "error": error}


@cache
def _suite(name: str) -> Any:
    return _built(name, [entry.configuration() for entry in read_suite(name).expectations])


def _one(configuration: Any) -> Any:
    return _built("one", [configuration])


def _built(name: str, configurations: list[Any]) -> Any:
    """A suite. Raises ValueError where GX has dropped an expectation, which GX itself only logs."""
    from great_expectations.core import ExpectationSuite

    from . import law

    assert law
    suite = ExpectationSuite(name=name, expectations=configurations)
    if len(suite.expectations) < len(configurations):
        raise ValueError(f"the suite {name} has expectations that Great Expectations does not know")
    return suite


def main() -> None:
    """Answers requests."""
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what GX prints is no answer
    spare_imports()
    _suite("links")  # what is slow to load, before the first request
    for line in sys.stdin:
        request = json.loads(line)
        # The alarm ends the process, whatever code of C it is in, and also where nobody reads the answers.
        signal.setitimer(signal.ITIMER_REAL, request.get("seconds", 0))
        for answer in answers(request):
            print(json.dumps(answer, default=str), file=lines, flush=True)
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(file=lines, flush=True)


if __name__ == "__main__":
    main()
