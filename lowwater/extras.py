"""What is installed: optional packages by extra, and the files beside the package."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lowwater.errors import AbsentExtraError

# Extras. The light core imports none of these packages; a command that needs them asks `require` first.

EXTRAS = {
    "spark": ("pyspark",),
    "sql": ("duckdb",),
    "quality": ("great_expectations", "pandas", "duckdb"),
    "serve": ("duckdb", "fastapi", "uvicorn"),
    "editor": ("pygls",),
    "s3": ("obstore",),
    "metrics": ("prometheus_client", "opentelemetry"),
    "airflow": ("airflow",),
}
"""Extra -> import names of its packages. pyproject.toml lists the packages themselves; `all` has every extra."""


def extra_of(module: str) -> str | None:
    """Returns the extra that installs a module; None for a module of no extra.

    Example:
        >>> extra_of("pyspark.sql"), extra_of("numpy")
        ('spark', None)
    """
    package = module.partition(".")[0]
    return next((extra for extra, packages in EXTRAS.items() if package in packages), None)


def absent(extra: str) -> list[str]:
    """Returns the packages of an extra that are not installed; imports none."""
    return [package for package in EXTRAS[extra] if find_spec(package) is None]


def require(task: str, *extras: str, instead: str = "") -> None:
    """Checks that extras are installed, before anything that needs them has begun.
    Raises AbsentExtraError if a package of an extra is not installed; the message names all that are needed.

    Args:
        task: what needs the extras, as the message names it: `lowwater backfill`.
        extras: names of extras, keys of `EXTRAS`.
        instead: what does without them, for the hint: `add --spark none`.
    """
    packages = {extra: absent(extra) for extra in extras}
    missing = [extra for extra in extras if packages[extra]]
    if missing:
        raise absent_error(task, [package for extra in missing for package in packages[extra]], missing, instead)


def absent_error(task: str, packages: list[str], extras: list[str], instead: str = "") -> AbsentExtraError:
    """Makes the error for packages that are not installed."""
    plural = "packages that are" if len(packages) > 1 else "a package that is"
    return AbsentExtraError(
        f"{task} needs {plural} not installed: {', '.join(packages)}",
        f"pip install 'lowwater[{','.join(extras)}]'" + (f", or {instead}" if instead else ""),
    )


# Folders beside the package. A checkout has them beside the package; a wheel brings them in `lowwater/share`.

PACKAGE = Path(__file__).resolve().parent
SHARED = ("dags", "spark_apps", "queries", "examples", "docs")
"""Folders of a checkout that a wheel brings; pyproject.toml maps each."""


def checkout() -> Path | None:
    """Returns the folder of the checkout from which the package is imported; None for an installed package."""
    root = PACKAGE.parent
    return root if (root / "pyproject.toml").is_file() and (root / "dags").is_dir() else None


def shared(name: str) -> Path:
    """Returns one of the folders `SHARED`.

    Example:
        >>> (shared("queries") / "flows.gsql").is_file()
        True
    """
    if name not in SHARED:
        raise ValueError(f"{name!r} is none of {', '.join(SHARED)}")
    return (checkout() or PACKAGE / "share") / name


def hide_pandas() -> None:
    """Has Arrow find no pandas in this process: it looks once, at its first list, and the import takes a sixth of a
    second. Where a library asks Arrow for rows of pandas, it looks again."""
    if "pandas" not in sys.modules:
        import pyarrow as pa

        sys.meta_path.insert(0, _NoPandas)
        pa.array([0])
        sys.meta_path.remove(_NoPandas)


class _NoPandas(MetaPathFinder):
    """Where Python looks for modules while there shall be no pandas."""

    @staticmethod
    def find_spec(name: str, *_: Any) -> None:
        if name == "pandas":
            raise ImportError("not now")
