"""The words of what an interval of a query set is, and of how far it can be trusted: the one table of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

# Every command, page, metric and note has its words from here (SEMANTICS T6, S1, S2, S4, S7, S9, S11).

DONE, PROVISIONAL, INCOMPLETE = "done", "provisional", "incomplete"
MISSING, HALF, DAMAGED, STALE = "missing", "half published", "damaged", "stale"
FAILED, HELD, ROLLED_BACK = "failed", "held", "rolled back"
BLOCKED, WAITING, RUNNING = "cannot start", "waiting", "running"
WARNED, KEPT = "warned", "kept"

TRUSTED, DOUBTFUL, PARTIAL, REFUSED, ABSENT = "trusted", "doubtful", "partial", "refused", "absent"
TRUST = (TRUSTED, DOUBTFUL, PARTIAL, REFUSED, ABSENT)
"""What an interval is worth: sound; published with a warning, or its inputs have changed; published without traffic
that is missing; held back by its audit; not published."""


@dataclass(frozen=True)
class Word:
    """What a word says of an interval."""

    means: str
    sign: str  # of a cell on a calendar, for readers who cannot tell the colours apart
    worth: str  # one of `TRUST`
    visible: bool = False  # whether the rows of the present inputs are published
    runs: bool = False  # whether a run is due; of what is visible only where it would be done by one
    urgent: bool = False  # whether it is told in red
    alert: str = ""  # after how long an alert tells of it, as Prometheus writes it; empty for never
    usual: bool = False  # whether a healthy lake has some: then only those tell that are older than this


WORDS = {
    RUNNING: Word("a process is at work on it now", "▸", ABSENT),
    FAILED: Word(
        "its last run ended with an error", "\N{MULTIPLICATION SIGN}", REFUSED, runs=True, urgent=True, alert="15m"
    ),
    BLOCKED: Word("it should run, and something is missing that a run needs", "⊘", ABSENT, urgent=True, alert="15m"),
    WAITING: Word("it should run, and waits for what may still come", "⊘", ABSENT, alert="1d", usual=True),
    DAMAGED: Word(
        "the table does not have the rows that were published", "!", DOUBTFUL, runs=True, urgent=True, alert="15m"
    ),
    STALE: Word("the rows are of other inputs than those of today", "~", DOUBTFUL, runs=True, alert="1d"),
    HALF: Word(
        "some of its tables have the rows of today's inputs, and others do not", "½", ABSENT, runs=True, alert="1h"
    ),
    MISSING: Word("nothing is published", "○", ABSENT, runs=True, alert="1d", usual=True),
    HELD: Word("it was audited, and is not published", "‖", ABSENT, runs=True, alert="1h"),
    ROLLED_BACK: Word("a person chose earlier rows for the inputs of today", "↶", DOUBTFUL, visible=True),
    INCOMPLETE: Word(
        "the rows are of today's inputs, and something is known to be missing",
        "◐",
        PARTIAL,
        visible=True,
        runs=True,
        alert="1d",
    ),
    PROVISIONAL: Word(
        "the rows are of today's inputs, and records may still be late",
        "…",
        PARTIAL,
        True,
        True,
        alert="2d",
        usual=True,
    ),
    KEPT: Word(
        "it stays as it is: it would be run again, and packets that a run would read were removed",
        "=",
        DOUBTFUL,
        visible=True,
    ),
    WARNED: Word("as done, and its audit warned", "!", DOUBTFUL, visible=True),
    DONE: Word("the rows are of today's inputs, and nothing is known to be missing", "·", TRUSTED, visible=True),
}
"""All words, the gravest first: rows that are visible and wrong are graver than rows that are not there. Of the queries
of an interval, and of the intervals of a range, the gravest one speaks."""

STATES = tuple(word for word in WORDS if word not in (WARNED, WAITING))
"""Words of `lowwater status`. Pages say beside them which intervals that are `done` have warnings, and a backfill which
intervals wait."""
_GRAVITY = {word: at for at, word in enumerate(WORDS)}
VISIBLE = tuple(word for word, each in WORDS.items() if each.visible)
TO_CONFIRM = tuple(word for word, each in WORDS.items() if each.visible and each.runs)
"""Words of a publication that a run turns into `done` where nothing is open or missing any more."""
DUE = tuple(word for word, each in WORDS.items() if each.runs)
"""Words of a query that make its interval due."""
OWED = tuple(word for word in DUE if word not in VISIBLE)
"""Words of an interval whose rows of today's inputs are not there, and a run would give them."""
REACHED = (MISSING, HALF, STALE, FAILED, HELD)
"""Words that become `KEPT` where packets that a run would read were removed by age or size."""
URGENT = tuple(word for word, each in WORDS.items() if each.urgent)


def gravity(word: str) -> int:
    """Sort key of a word, the gravest first. One that this version does not know is the gravest.

    Example:
        >>> sorted(["done", "incomplete", "stale", "of a later version"], key=gravity)
        ['of a later version', 'stale', 'incomplete', 'done']
    """
    return _GRAVITY.get(word, -1)


def gravest(words: Iterable[str]) -> str:
    """Returns the word that speaks for several."""
    return min(words, key=gravity)
