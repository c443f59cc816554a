"""Keeps away libraries that Great Expectations imports but an audit never uses.

It runs before the import of Great Expectations. The libraries of its databases and of Spark's machine learning have 300
modules, those of statistics and plots 590; together they cost every process that audits more than a second.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import FrameType, ModuleType

UNUSED = frozenset({"altair", "jsonschema", "scipy.stats"})
"""Loaded at the first access to an attribute."""

OPTIONAL = frozenset({
    "azure", "boto3", "botocore", "databricks", "google", "psycopg2", "pyathena", "pyodbc", "pyspark", "snowflake",
    "sqlalchemy", "sqlalchemy_bigquery", "sqlalchemy_redshift", "trino",
})  # fmt: skip
"""Packages without which Great Expectations works too: an audit has only data frames of pandas."""


class _Lazy(MetaPathFinder):
    """Finds the modules of `UNUSED` as Python does, but loads them late; hides `OPTIONAL` from Great Expectations.

    Any other module of the process imports `OPTIONAL` as usual.
    """

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] in OPTIONAL and _importer() == "great_expectations":
            raise ModuleNotFoundError(f"an audit does not use {name}", name=name)
        if name not in UNUSED:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


def _importer() -> str:
    """The package of the module whose import statement runs."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return "" if frame is None else str(frame.f_globals.get("__name__", "")).partition(".")[0]


def load_lazily() -> None:
    """Makes this process load `UNUSED` at their first use, and Great Expectations without `OPTIONAL`.

    Further calls have no effect.
    """
    if not any(isinstance(finder, _Lazy) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Lazy())
