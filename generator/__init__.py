"""Synthetic captures; the same seed gives the same bytes.

They are input for `ingest`, so that tests, demo, tutorial and benchmarks need no real traffic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .writer import GeneratedCapture, generate, write_story

__all__ = ["GeneratedCapture", "generate", "write_story"]


def __getattr__(name: str) -> Any:
    """Imports the generator when somebody asks for it: `lowwater --help` imports the command beside it."""
    if name in __all__:
        from . import writer

        return getattr(writer, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
