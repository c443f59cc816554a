"""The process that has Great Expectations: it judges measures and rows, and ends where a suite takes too long."""

from __future__ import annotations

import gc
import sys
from importlib.util import LazyLoader, find_spec, module_from_spec
from types import ModuleType

from lowwater.processes import serve

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


def main() -> None:
    """Answers requests."""
    gc.disable()  # imports make many objects and next to no garbage: looking for it takes a tenth of their time
    spare_imports()
    from .judging import answers, suite_of

    suite_of("links")  # what is slow to load, before the first request
    gc.freeze()
    gc.enable()
    serve(answers)


if __name__ == "__main__":
    main()
