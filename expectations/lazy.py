"""Defers the import of libraries that Great Expectations imports but an audit never uses.

It runs before the import of Great Expectations. SciPy's statistics and Altair have 590 modules, and cost every process
that audits a second.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType

UNUSED = frozenset({"altair", "scipy.stats"})


class _Lazy(MetaPathFinder):
    """Finds the modules of `UNUSED` as Python does, but loads them at the first access to an attribute."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in UNUSED:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


def load_lazily() -> None:
    """Makes this process load the modules of `UNUSED` at their first use. Further calls have no effect."""
    if not any(isinstance(finder, _Lazy) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Lazy())
