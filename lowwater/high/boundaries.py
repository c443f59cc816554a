"""Micro-batch boundaries: the instants of virtual time at which the replay pauses and lets Spark close rows.

Chosen by the driver before a query starts. Rows do not depend on them (replay invariance); latency and state do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping


def choose_boundaries(rows: Mapping[int, int], closing: int, step: int, most: int) -> list[int]:
    """Multiples of a step that divide the rows into shares about as large, the closing one in place of the last.

    No micro-batch is without rows: each takes a third of a second, however few they are. Each has the share of its
    rows that `most` leaves it, and at most what one step brings besides: state follows the rows of a micro-batch, also
    where they come in bursts.

    Args:
        rows: how many there are by their instants (ns).
        closing: last instant (ns) of the replay.
        step: ns between boundaries, the replay tick.
        most: how many there may be, at least 1.

    Returns:
        Increasing instants (ns) of which the last is `closing`.

    Example:
        >>> choose_boundaries({3: 1, 4: 1, 11: 1, 38: 1}, closing=50, step=10, most=8)
        [10, 20, 50]
        >>> choose_boundaries({3: 1, 4: 1, 11: 1, 38: 1}, closing=50, step=10, most=2)
        [10, 50]
        >>> choose_boundaries({3: 1, 11: 9, 21: 1, 31: 1}, closing=50, step=10, most=3)
        [20, 50]
    """
    steps: Counter[int] = Counter()
    for instant, count in rows.items():
        steps[min(-(-instant // step) * step, closing)] += count
    found, held = [], 0
    for instant in sorted(steps):
        held += steps[instant]
        if held * most >= steps.total():
            found.append(instant)
            held = 0
    return [*(found if held else found[:-1]), closing]
