"""Libraries that Great Expectations imports and an audit never uses: they are loaded at their first use.

Below everything that imports Great Expectations. SciPy's statistics and Altair are 590 modules and a second of each
process that audits.
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
    """Finds what is UNUSED as Python does, and loads it when an attribute is asked for."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in UNUSED:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


def load_lazily() -> None:
    """From now on this process loads what is UNUSED at its first use; several calls are as good as one."""
    if not any(isinstance(finder, _Lazy) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Lazy())
