"""The low level: LFTA kernels, heartbeats and accounting over the packets of one link.

After `capture`, before `high`. It reads batches of packets, and gives rows and punctuation of every LFTA.
"""

from lowwater.low.run import compiles, needed_columns, run_link
from lowwater.low.runtime.node import merge_results
from lowwater.low.settings import VIOLATIONS, Bounds, Flush, LftaStatistics, LinkResult, LowSettings, Policy

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
