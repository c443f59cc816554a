"""The execution model of on-demand timestamps (003): a query graph, its schedulers, a clock that counts their work.

Beside `reference.engine`, over the same operators. It gives the same rows, and says when each leaves, how long
operators wait idly and how much the buffers hold. Section numbers in this package are those of 003.
"""

from lowwater.reference.execution.costs import FREE, MEASURED, Costs
from lowwater.reference.execution.model import Execution, Setup, execute
from lowwater.reference.execution.schedules import DepthFirst, RoundRobin
from lowwater.reference.execution.sources import Punctuate, Stamps

__all__ = [
    "FREE",
    "MEASURED",
    "Costs",
    "DepthFirst",
    "Execution",
    "Punctuate",
    "RoundRobin",
    "Setup",
    "Stamps",
    "execute",
]
