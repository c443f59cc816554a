"""Silences at the ends of captures that are long beside those inside of them (SEMANTICS T5): was the recorder stopped?

A rotation says when a file should end, so a recorder that was stopped covers the rest of its rotation where no other
file begins in it. Between the ledger of captures, which knows the longest lull of each file, and the audit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lgamma, log
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lowwater.config import Link
from lowwater.instants import SECOND, format_instant, spoken_duration
from lowwater.lake.ledgers.captures import Capture, Captures
from lowwater.plan.temporal import END_OF_TIME

SHORTEST = 10 * SECOND
"""A shorter silence is none, nor is one within `gap_tolerance`."""
FACTOR = 3
"""A silence is long if it lasts so many times the longest lull between two records of the file."""
RARE = 1000
"""Of so many files at least, one would be so silent at an end by chance, if its lulls came at random."""
BEFORE, ENOUGH = 24, 3
"""What so many of so many captures before do too is usual."""


@dataclass(frozen=True)
class Silence:
    """A stretch [since, until), ns, that a capture covers, before its first record or after its last.

    Attributes:
        lull: longest time between two records of the capture, ns.
        after: whether it is behind the last record.
    """

    capture: Capture
    since: int
    until: int
    lull: int
    after: bool


def silences(captures: Sequence[Capture], settings: Link, start: int, end: int) -> list[Silence]:
    """Finds the long silences at the ends of captures that meet [start, end), ns, within the life of the link.

    The records of a file that last m times its longest lull G show that the link is not silent for longer while it is
    recorded. A silence of c times G at an end is long if c is at least FACTOR, and if of m + c lulls of one length none
    of m would be so long but once in RARE files: binomial(m + c, m) >= RARE. So a file of a few records says nothing:
    m = 20 asks for c = 3, m = 5 for 8, m = 2 for 44. A silence is usual if ENOUGH of the BEFORE captures before it had
    one, at an end or inside, of a FACTOR-th of it.

    Args:
        captures: all ledger rows of the link, in the order of T1.
        settings: settings of the link.
        start: begin of the range, ns since the epoch.
        end: end of the range, ns, exclusive.
    """
    ordered = Captures.of(captures)
    if not len(ordered):
        return []
    first, largest, lull = ordered.numbers("first", -1), ordered.numbers("largest", -1), ordered.numbers("lull", -1)
    ends = _ends(ordered, first, largest, settings)
    known = (lull > 0) & (first >= 0)
    lengths = ends[1::2] - ends[::2]
    least = np.maximum(FACTOR * lull, max(SHORTEST, settings.gap_tolerance))
    found = []
    for side in (0, 1):
        since, until = ends[2 * side], ends[2 * side + 1]
        for at in np.flatnonzero(known & (lengths[side] > least) & (since < end) & (until > start)).tolist():
            length, longest = int(lengths[side][at]), int(lull[at])
            if not _is_rare((int(largest[at]) - int(first[at])) / longest, length / longest):
                continue
            earlier = slice(max(0, at - BEFORE), at)
            likewise = known[earlier] & (FACTOR * np.maximum(lull, lengths.max(axis=0))[earlier] >= length)
            if np.count_nonzero(likewise) < ENOUGH:
                found.append(Silence(ordered[at], int(since[at]), int(until[at]), longest, bool(side)))
    return found


def silence_text(silence: Silence) -> str:
    """Describes a silence: its capture, its bounds, and the longest lull beside it."""
    since, until = format_instant(silence.since), format_instant(silence.until)
    length, lull = spoken_duration(silence.until - silence.since), spoken_duration(silence.lull)
    where = "behind its last record" if silence.after else "before its first record"
    name = Path(silence.capture.path).name
    return f"{name} covers {since} to {until} {where}, {length}, but its records are at most {lull} apart"


def _ends(
    captures: Captures, first: NDArray[np.int64], largest: NDArray[np.int64], settings: Link
) -> NDArray[np.int64]:
    """Returns, for each capture, begin and end of its coverage before its records, then of that behind them: as far as
    no record of another capture lies there. Shape (4, captures); where there is none, the end is the begin."""
    covers_from, covers_to = captures.numbers("covers_from"), captures.numbers("covers_to")
    life = settings.since or 0, END_OF_TIME if settings.until is None else settings.until
    having = np.flatnonzero(first >= 0)
    order = having[np.argsort(first[having], kind="stable")]
    begins = first[order]
    reached = np.maximum.accumulate(np.append(-1, largest[order]))  # by the records of so many captures
    followed = np.append(begins, END_OF_TIME)
    before = np.maximum(np.maximum(covers_from, life[0]), reached[np.searchsorted(begins, first)])
    behind = np.searchsorted(begins, largest, side="right")
    after = np.minimum(np.minimum(covers_to, life[1]), followed[behind])
    # The records of another capture may go on behind the last one.
    last = np.maximum(largest, np.where(reached[behind] > largest, END_OF_TIME, -1))
    return np.array([before, np.maximum(first, before), last, np.maximum(after, last)])


def _is_rare(inner: float, outer: float) -> bool:
    """Whether binomial(inner + outer, inner) is at least RARE."""
    return lgamma(inner + outer + 1) - lgamma(inner + 1) - lgamma(outer + 1) >= log(RARE)
