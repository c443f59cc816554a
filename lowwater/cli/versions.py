"""Implements `lowwater --version`: the versions that a report of a problem needs, read without importing packages."""

from __future__ import annotations

import importlib.metadata
import platform

from lowwater import __version__
from lowwater.extras import EXTRAS, absent

PACKAGES = ("numba", "numpy", "pyarrow", "deltalake", "pyspark", "great-expectations", "apache-airflow")
"""Packages that rows, tables or the way of a run depend on."""


def versions() -> list[str]:
    """Returns the lines of `lowwater --version`."""
    packages = [f"{name} {installed}" for name in PACKAGES if (installed := version_of(name))]
    extras = [extra for extra in EXTRAS if not absent(extra)]
    return [
        f"lowwater {__version__}",
        f"{platform.python_implementation()} {platform.python_version()} on {platform.system()} {platform.machine()}",
        ", ".join(packages),
        f"extras: {', '.join(extras) or 'none'}",
    ]


def version_of(package: str) -> str | None:
    """Returns the version of an installed package; None without it.

    Example:
        >>> version_of("no-such-package")
    """
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
