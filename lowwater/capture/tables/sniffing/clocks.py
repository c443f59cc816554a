"""The clock of the records of a sample: the time that runs behind the least.

Below `tables`. The skew of the link bounds the disorder of its clock, so the smallest one keeps the most records for
the least waiting.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lowwater.instants import HOUR

NEARLY = 0.999
"""Share of the records whose lateness is compared."""

_DAY = 24 * HOUR

FALLING = 0.9
"""Share of the steps that go back in a column that falls."""


@dataclass(frozen=True)
class Disorder:
    """How far the instants of a column run behind the largest one before them.

    Attributes:
        absent: number of records without an instant.
        largest: largest lateness, ns.
        nearly: lateness that the share NEARLY of the records does not exceed, ns.
        falls: whether the column goes back at nearly every step.
        constant: whether all instants are equal, of two at least.
        days: whether all instants are midnights, of two at least.
    """

    absent: int
    largest: int
    nearly: int
    falls: bool
    constant: bool
    days: bool = False


def disorder(stamps: NDArray[np.int64], absent: int = 0) -> Disorder:
    """Measures the disorder of instants.

    Args:
        stamps: instants in the order of the file, ns; -1 for none.
        absent: number of further records without an instant.
    """
    told = stamps[stamps >= 0]
    if not len(told):
        return Disorder(len(stamps) + absent, 0, 0, False, True)
    late = np.maximum.accumulate(told) - told
    steps = np.diff(told)
    moved = np.count_nonzero(steps)
    return Disorder(
        absent=len(stamps) - len(told) + absent,
        largest=int(late.max()),
        nearly=int(np.sort(late)[int(np.ceil(NEARLY * len(late))) - 1]),
        falls=bool(moved > 1 and np.count_nonzero(steps < 0) >= FALLING * moved),
        constant=len(told) > 1 and not moved,
        days=len(told) > 1 and not np.any(told % _DAY),
    )
