"""The low level: LFTA kernels, heartbeats and accounting over the packets of one link.

After `capture`, before `high`: packet batches in, rows and punctuation of every LFTA out.
"""

from lowwater.low.run import compiles, needed_columns, run_link
from lowwater.low.runtime.flush import Flush
from lowwater.low.runtime.merging import merged
from lowwater.low.settings import VIOLATIONS, Bounds, LftaStatistics, LinkResult, LowSettings, Policy

__all__ = [
    "VIOLATIONS",
    "Bounds",
    "Flush",
    "LftaStatistics",
    "LinkResult",
    "LowSettings",
    "Policy",
    "compiles",
    "merged",
    "needed_columns",
    "run_link",
]
