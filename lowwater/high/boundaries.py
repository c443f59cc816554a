"""Micro-batch boundaries: the instants of virtual time at which the replay pauses and lets Spark close rows.

Chosen by the driver before a query starts. Rows do not depend on them (replay invariance); latency and state do.
"""

from __future__ import annotations

from collections.abc import Iterable


def choose_boundaries(spans: Iterable[tuple[int, int]], closing: int, step: int, most: int) -> list[int]:
    """Multiples of a step at which something happened, each with the next one, coarsened until they are few.

    Spark gives what a promise releases one micro-batch after the promise: without the next multiple these rows would
    wait for whatever happens next.

    Args:
        spans: first and last instant (ns) of rows and punctuation: both are the same except of a lull; may repeat.
        closing: last instant (ns) of the replay.
        step: ns between boundaries, the replay tick.
        most: how many there may be, at least 1.

    Returns:
        Increasing instants (ns) of which the last is `closing`.

    Example:
        >>> choose_boundaries([(3, 3), (4, 4), (38, 38)], closing=90, step=10, most=8)
        [10, 20, 40, 50, 90]
        >>> choose_boundaries([(3, 25)], closing=90, step=10, most=8)
        [10, 20, 30, 40, 90]
        >>> choose_boundaries([(3, 25)], closing=90, step=10, most=3)
        [40, 80, 90]
    """
    every = set(spans)
    while most > 1:
        found = _multiples(every, (closing - 1) // step, step, most)
        if len(found) < most:
            return [*(number * step for number in sorted(found)), closing]
        step *= 2
    return [closing]


def _multiples(spans: Iterable[tuple[int, int]], last: int, step: int, most: int) -> set[int]:
    """The multiples of a step, up to the `last` one, of some spans; as many as `most` where there are more."""
    found: set[int] = set()
    for first, until in spans:
        begin = -(-first // step)
        found.update(range(begin, min(-(-until // step) + 1, last, begin + most) + 1))
        if len(found) >= most:
            break
    return found
