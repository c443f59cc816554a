"""The nearest right row that meets each left row of ASOF JOIN (SEMANTICS O9), over columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from lowwater.columns.values import Numbers, moved
from lowwater.plan import operators as ops
from lowwater.plan.temporal import INT64_MAX

Order = Callable[[Numbers], list[Numbers]]
"""Positions of right rows -> columns by which they compare in canonical order (SEMANTICS O1)."""


def by_keys(
    node: ops.Join, keys: tuple[Numbers, Numbers], size: int, values: tuple[Numbers, Numbers], order: Order
) -> Numbers:
    """Returns the position of the nearest right row with the key of each left row and within its band; -1 for none.

    Right rows are sorted by key and value once, and each left row is looked up in them.

    Args:
        keys: numbers of the keys of left and right rows, from 0 below `size`.
        values: values of the window of left and right rows.
    """
    (ours, theirs), (left, right) = keys, values
    if not len(left) or not len(right):
        return np.full(len(left), -1, np.int64)
    low, high = moved(left, -node.window.below), moved(left, node.window.above)
    width, of_right, number = _numbered(right, size)
    # Both sides are sorted by key and value, so that a look-up finds what the one before it has read.
    places = theirs * width + of_right
    rows = np.argsort(places)
    ordered = places[rows]
    _sort_equal(rows, ordered, order)
    after = node.window.below <= 0
    looked_up = ours * width + (number(high, True) if node.latest else number(low if after else left, False))
    by = np.argsort(looked_up)
    ours, low, high = ours[by], low[by], high[by]
    least = ours * width + number(low, False)
    at = np.searchsorted(ordered, looked_up[by], side="right" if node.latest else "left")
    if node.latest:
        at -= 1
        met = (at >= 0) & (ordered[at] >= least)
    else:
        behind, at = at - 1, np.minimum(at, len(ordered) - 1)
        met = (behind + 1 < len(ordered)) & (ordered[at] <= ours * width + number(high, True))
        if not after:
            before = np.maximum(behind, 0)
            meets = (behind >= 0) & (ordered[before] >= least)
            value = left[by]
            chosen = meets & (~met | (value - right[rows[before]] <= right[rows[at]] - value))
            # Of the rows before it with one value the first in canonical order is the nearest.
            at[chosen] = np.searchsorted(ordered, ordered[before[chosen]], side="left")
            met |= meets
    found = np.full(len(left), -1, np.int64)
    found[by[met]] = rows[at[met]]
    return found


def _numbered(right: Numbers, keys: int) -> tuple[int, Numbers, Callable[[Numbers, bool], Numbers]]:
    """Numbers right values in their order, from 1 below a width which times the keys fits 64 bits. Returns the width,
    the numbers, and what gives the number of the first right value that is not below a value, or with True that of the
    last one that is not above."""
    least, most = int(right.min()), int(right.max())
    width = most - least + 3
    if width * keys < INT64_MAX and least > -INT64_MAX and most < INT64_MAX:
        return width, right - (least - 1), lambda values, last: np.clip(values, least - 1, most + 1) - (least - 1)
    distinct, numbers = np.unique(right, return_inverse=True)

    def number(values: Numbers, last: bool) -> Numbers:
        found: Numbers = np.searchsorted(distinct, values, side="right" if last else "left")
        return found if last else found + 1

    return len(distinct) + 2, numbers + 1, number


def _sort_equal(rows: Numbers, ordered: Numbers, order: Order) -> None:
    """Sorts the rows of each place canonically: rows with one key and one value."""
    equal = ordered[1:] == ordered[:-1]
    if not equal.any():
        return
    tied = np.flatnonzero(np.concatenate([equal, [False]]) | np.concatenate([[False], equal]))
    among = rows[tied]
    rows[tied] = among[np.lexsort((*reversed(order(among)), ordered[tied]))]


def of_pairs(
    node: ops.Join,
    pairs: Iterable[tuple[Numbers, Numbers]],
    values: tuple[Numbers, Numbers],
    order: Order,
) -> Numbers:
    """Returns the position of the nearest right row of each left row among pairs that meet; -1 for none. `pairs`:
    blocks of positions of left and right rows."""
    left, right = values
    places = np.empty(len(right), np.int64)
    places[np.lexsort((*reversed(order(np.arange(len(right)))), right))] = np.arange(len(right))
    if node.latest:
        places = -places
    found, rows = np.full(len(left), -1, np.int64), np.zeros(0, np.int64)
    for a, b in pairs:
        # The nearest ones of earlier blocks stand among the pairs again.
        rows = np.unique(a)
        again = rows[found[rows] >= 0]
        a, b = np.concatenate([a, again]), np.concatenate([b, found[again]])
        nearest = np.lexsort((places[b], np.abs(right[b] - left[a]), a))
        first = nearest[np.flatnonzero(np.diff(a[nearest], prepend=-1))]
        found[a[first]] = b[first]
    return found
