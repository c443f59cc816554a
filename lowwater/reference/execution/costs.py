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


MEASURED = Costs(row=5_000, punctuation=4_000, backtrack=1_000)
FREE = Costs(0, 0, 0)
"""No time passes but that between the records."""
