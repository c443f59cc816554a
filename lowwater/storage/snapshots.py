"""What a command has seen of a store lately: it asks once, and takes what it saw as one snapshot.

Below `objects`. What others write meanwhile is seen after LOOK seconds, or once `look_again` was called: whoever has
taken a lease calls it, since the holder before may have written until then.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, TypeVar

LOOK = 30.0
"""Seconds for which what was seen stands."""

T = TypeVar("T")
_seen: dict[tuple[str, PurePath], tuple[float, Any]] = {}
_asked: list[float] = [0.0]
_asked_of: dict[PurePath, float] = {}


def look_again(*places: PurePath) -> None:
    """Lets some places, or everything, be looked at again when it is used next."""
    now = time.monotonic()
    if not places:
        _asked[0] = now
    for place in places:
        _asked_of[place] = now


def is_recent(at: float, place: PurePath) -> bool:
    """Whether what was seen of a place at an instant, s of the monotonic clock, still stands."""
    return at > max(_asked[0], _asked_of.get(place, 0.0)) and time.monotonic() - at < LOOK


def lately(what: str, place: PurePath, look: Callable[[], T]) -> T:
    """Returns what was seen lately of a place; looks, and keeps what it sees, otherwise. Nobody changes it."""
    found = _seen.get((what, place))
    if found is not None and is_recent(found[0], place):
        value: T = found[1]
        return value
    at = time.monotonic()  # what is written while it looks may not be in it
    value = look()
    _seen[what, place] = at, value
    return value
