"""What a command has seen of a store lately: it asks once, and takes what it saw as one snapshot.

Below `objects`. What others write meanwhile is seen after LOOK seconds, or once `look_again` was called: whoever has
taken a lease calls it, since the holder before may have written until then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

LOOK = 10.0
"""Seconds for which what was seen stands."""

T = TypeVar("T")
_seen: dict[Hashable, tuple[float, Any]] = {}
_asked: list[float] = [0.0]


def look_again() -> None:
    """Lets everything be looked at again when it is used next."""
    _asked[0] = time.monotonic()


def is_recent(at: float) -> bool:
    """Whether what was seen at an instant, s of the monotonic clock, still stands."""
    return at > _asked[0] and time.monotonic() - at < LOOK


def lately(key: Hashable, look: Callable[[], T]) -> T:
    """Returns what was seen lately under a key; looks, and keeps what it sees, otherwise. Nobody changes it."""
    found = _seen.get(key)
    if found is not None and is_recent(found[0]):
        value: T = found[1]
        return value
    at = time.monotonic()  # what is written while it looks may not be in it
    value = look()
    _seen[key] = at, value
    return value


def forget(key: Hashable) -> None:
    """Lets one thing be looked at again."""
    _seen.pop(key, None)
