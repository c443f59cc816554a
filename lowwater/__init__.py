"""Lowwater replays packet captures through stream queries, exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lowwater.lake.results.subscription import subscribe

__version__ = "0.2.0"
__all__ = ["__version__", "subscribe"]


def __getattr__(name: str) -> Any:
    """Imports `subscribe` when somebody asks for it: `import lowwater` loads nothing."""
    if name == "subscribe":
        from lowwater.lake.results.subscription import subscribe

        return subscribe
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
