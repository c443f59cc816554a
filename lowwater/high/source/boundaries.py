"""Chooses the boundaries of slices: instants that divide rows into equal shares.

The driver calls it before a query starts. Rows do not depend on boundaries (replay invariance); latency and memory do.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from itertools import accumulate


def choose_boundaries(rows: Mapping[int, int], closing: int, step: int, most: int) -> list[int]:
    """Chooses multiples of a step that divide the rows into about equal shares; the closing instant replaces the last
    one.

    No share is empty. A share ends at the step nearest to its exact end, so it exceeds the exact share by at most one
    step, also where rows come in bursts. So memory is bounded by the rows of a slice.

    Args:
        rows: instant (ns) -> number of rows.
        closing: last instant (ns) of the replay.
        step: ns between boundaries, the replay tick.
        most: largest number of boundaries, at least 1.

    Returns:
        Ascending instants (ns); the last is `closing`.

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
    """The position of the value in a sorted list that is nearest to a target."""
    at = min(bisect_left(values, target), len(values) - 1)
    return at - 1 if at and target - values[at - 1] <= values[at] - target else at
