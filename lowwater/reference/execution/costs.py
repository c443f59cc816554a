"""What the virtual clock counts for each piece of work.

Below the schedulers. Latency and idle-waiting are then properties of the model, the same on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Costs:
    """Time for pieces of work, ns.

    Attributes:
        row: an execution step that takes a tuple.
        punctuation: an execution step that takes a punctuation, and the making of an ETS.
        backtrack: the rule Backtrack, once, to a predecessor.
    """

    row: int
    punctuation: int
    backtrack: int


MEASURED = Costs(row=6_200, punctuation=3_600, backtrack=1_200)
"""Processor time of this package's own Python on an AMD EPYC, Python 3.11: the least of seven runs of 20,000 pieces.

`python -m experiments.x_costs` measures them: the mean step of Figure 4's selections and union, a Backtrack from there.
"""

FREE = Costs(0, 0, 0)
"""No time passes but that between the records."""
