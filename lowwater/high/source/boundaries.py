"""Boundaries of slices: the instants at which rows are divided into shares.

Chosen by the driver before a query starts. Rows do not depend on them (replay invariance); latency and memory do.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from itertools import accumulate


def choose_boundaries(rows: Mapping[int, int], closing: int, step: int, most: int) -> list[int]:
    """Multiples of a step that divide the rows into shares about as large, the closing one in place of the last.

    No share is without rows. Each ends at the step that is nearest to its end, so it has no more than a share and what
    one step brings, also where rows come in bursts: memory follows the rows of a slice.

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
    """
    steps: Counter[int] = Counter()
    for instant, count in rows.items():
        steps[min(-(-instant // step) * step, closing)] += count
    instants = sorted(steps)
    until = [*accumulate(steps[instant] for instant in instants)]
    ends = {_nearest(until, steps.total() * share / most) for share in range(1, most)} if instants else set()
    return [*(instants[end] for end in sorted(ends) if end < len(instants) - 1), closing]


def _nearest(values: list[int], target: float) -> int:
    """The place of the value of a sorted list that is nearest to a wanted one."""
    at = min(bisect_left(values, target), len(values) - 1)
    return at - 1 if at and target - values[at - 1] <= values[at] - target else at
