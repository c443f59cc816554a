"""The low level: LFTA kernels, heartbeats and accounting over the packets of one link.

After `capture`, before `high`. It reads batches of packets, and gives rows and punctuation of every LFTA. What runs
kernels is imported at its first use, as in `capture`: settings and plans need none.
"""

from typing import TYPE_CHECKING, Any

from lowwater.low.settings import (
    VIOLATIONS,
    Bounds,
    Flush,
    LftaStatistics,
    LinkResult,
    LowSettings,
    Policy,
    needed_columns,
)

if TYPE_CHECKING:
    from lowwater.low.run import compiles, run_link
    from lowwater.low.runtime.statistics import merge_results

__all__ = [
    "VIOLATIONS",
    "Bounds",
    "Flush",
    "LftaStatistics",
    "LinkResult",
    "LowSettings",
    "Policy",
    "compiles",
    "merge_results",
    "needed_columns",
    "run_link",
]


def __getattr__(name: str) -> Any:
    if name in ("compiles", "run_link"):
        from lowwater.low import run

        return getattr(run, name)
    if name == "merge_results":
        from lowwater.low.runtime.statistics import merge_results

        return merge_results
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
