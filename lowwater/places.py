"""Places of the files beside the package: DAGs, entry points for Spark, queries and examples.

Below every stage. A checkout has them beside the package; a wheel brings them in `lowwater/share`.
"""

from __future__ import annotations

from pathlib import Path

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
