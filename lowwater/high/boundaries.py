"""Micro-batch boundaries: the instants of virtual time at which the replay pauses and lets Spark close rows.

Chosen by the driver before a query starts. Rows do not depend on them (replay invariance); latency and state do.
"""

from __future__ import annotations

from collections.abc import Iterable


def choose_boundaries(ticks: Iterable[int], closing: int, step: int, most: int) -> list[int]:
    """Multiples of a step by which there are rows, coarsened until they are few, the closing one in place of the last.

    No micro-batch is without rows: each takes a third of a second, however few they are.

    Args:
        ticks: instants (ns) of rows; may repeat.
        closing: last instant (ns) of the replay.
        step: ns between boundaries, the replay tick.
        most: how many there may be, at least 1.

    Returns:
        Increasing instants (ns) of which the last is `closing`.

    Example:
        >>> choose_boundaries([3, 4, 11, 38], closing=50, step=10, most=8)
        [10, 20, 50]
        >>> choose_boundaries([3, 4, 11, 38], closing=50, step=10, most=3)
        [10, 20, 50]
        >>> choose_boundaries([3, 4, 11, 38, 47], closing=50, step=10, most=3)
        [20, 40, 50]
    """
    instants = set(ticks)
    while most > 1:
        found = sorted({min(-(-tick // step) * step, closing) for tick in instants})
        if len(found) <= most:
            return [*found[:-1], closing]
        step *= 2
    return [closing]
