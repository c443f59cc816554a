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
"""A silence is long if it lasts so many lulls."""
RARE = 1000
"""Of so many captures at least, one would be so silent at an end by chance, if lulls came at random."""
BEFORE, ENOUGH = 24, 3
"""What so many of so many captures before do too is usual."""


@dataclass(frozen=True)
class Silence:
    """A stretch [since, until), ns, that a capture covers, before its first record or after its last.

    Attributes:
        lull: what it is long beside, ns: the longest time between two records of the capture, or of captures before it.
        own: whether it is that of the capture.
    """

    capture: Capture
    since: int
    until: int
    lull: int
    own: bool


def silences(captures: Sequence[Capture], settings: Link, start: int, end: int) -> list[Silence]:
    """Finds the long silences at the ends of captures that meet [start, end), ns, within the life of the link.

    Records that last m times their longest lull G show that the link is not silent for longer while it is recorded. A
    silence of c times G at an end is long if c is more than FACTOR, and if binomial(m + c, m) >= RARE: by chance one is
    so long in so many captures. So a few records say nothing: m = 20 asks for c = 3, m = 5 for 8,
    m = 2 for 44. They are the records of the capture, or of the BEFORE captures before it, of whose silences G then is
    the ENOUGH-th longest, since what so many of them do is usual.

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
    made_up = ordered.numbers("rotated") > 0  # what a person declares to be covered is, however silent
    known = (lull >= 0) | (first < 0)  # older ledgers know no lulls
    ends = _ends(ordered, first, largest, settings)
    lengths = ends[1::2] - ends[::2]
    longest, lasts = np.maximum(lull, lengths.max(axis=0)), largest - first
    least = max(SHORTEST, settings.gap_tolerance)
    found = []
    for side in (0, 1):
        since, until = ends[2 * side], ends[2 * side + 1]
        for at in np.flatnonzero(made_up & known & (lengths[side] > least) & (since < end) & (until > start)).tolist():
            length, mine = int(lengths[side][at]), int(lull[at])
            before = max(0, at - BEFORE) + np.flatnonzero(known[max(0, at - BEFORE) : at])
            usual = np.sort(longest[before])[::-1]
            if len(usual) >= ENOUGH and length <= FACTOR * usual[ENOUGH - 1]:
                continue
            own = _is_long(length, mine, int(lasts[at]))
            if not own:
                mine = int(usual[ENOUGH - 1 if len(usual) >= ENOUGH else 0]) if len(usual) else 0
            if own or _is_long(length, mine, int(lasts[before].sum())):
                found.append(Silence(ordered[at], int(since[at]), int(until[at]), mine, own))
    return found


def _is_long(length: int, lull: int, lasts: int) -> bool:
    """Whether a silence (ns) is long beside records that last so long (ns), with such a longest lull (ns)."""
    if lull <= 0 or length <= FACTOR * lull:
        return False
    inner, outer = lasts / lull, length / lull
    return lgamma(inner + outer + 1) - lgamma(inner + 1) - lgamma(outer + 1) >= log(RARE)


def silence_text(silence: Silence) -> str:
    """Describes a silence: its capture, its bounds, and the longest lull beside it."""
    since, until = format_instant(silence.since), format_instant(silence.until)
    length, lull = spoken_duration(silence.until - silence.since), spoken_duration(silence.lull)
    name, first = Path(silence.capture.path).name, silence.capture.first
    where = "without a record" if first is None else "before its first record"
    if silence.capture.largest is not None and silence.since >= silence.capture.largest:
        where = "behind its last record"
    whose = "its records" if silence.own else "records of the link before it"
    return f"{name} covers {since} to {until} {where}, {length}, but {whose} are at most {lull} apart"


def _ends(
    captures: Captures, first: NDArray[np.int64], largest: NDArray[np.int64], settings: Link
) -> NDArray[np.int64]:
    """Returns, for each capture, begin and end of its coverage before its records, then of that behind them: as far as
    no record of another capture lies there. Shape (4, captures); where there is none, the end is the begin. All that a
    capture without records covers is behind them."""
    covers_from, covers_to = captures.numbers("covers_from"), captures.numbers("covers_to")
    life = settings.since or 0, END_OF_TIME if settings.until is None else settings.until
    having = np.flatnonzero(first >= 0)
    order = having[np.argsort(first[having], kind="stable")]
    begins = first[order]
    reached = np.maximum.accumulate(np.append(-1, largest[order]))  # by the records of so many captures
    followed = np.append(begins, END_OF_TIME)
    begun = np.where(first < 0, np.maximum(covers_from, life[0]), first)
    last = np.where(first < 0, begun, largest)
    before = np.maximum(np.maximum(covers_from, life[0]), reached[np.searchsorted(begins, begun)])
    behind = np.searchsorted(begins, last, side="right")
    after = np.minimum(np.minimum(covers_to, life[1]), followed[behind])
    last = np.where(reached[behind] > last, END_OF_TIME, last)  # records of another capture go on behind its own
    return np.array([before, np.maximum(begun, before), last, np.maximum(after, last)])
