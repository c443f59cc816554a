"""`pyarrow.dataset` as `pads`, imported without pandas.

Arrow imports pandas where it is installed, once, when it converts its first list. No command but an audit uses pandas,
and its import takes a fifth of a second, so the first list is converted here as if pandas were not installed. Whoever
converts to pandas later gets it all the same.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from typing import Any

import pyarrow as pa


class _NoPandas(MetaPathFinder):
    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("no pandas while Arrow looks for it", name=fullname)


if "pandas" not in sys.modules:
    _finder = _NoPandas()
    sys.meta_path.insert(0, _finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(_finder)

import pyarrow.dataset as pads  # noqa: E402  # only now

__all__ = ["pads"]
