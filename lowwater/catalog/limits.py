"""Limits of constant arguments: the values that a parameter takes, checked when a query is planned.

Outside of its limit an argument makes every value NULL or false, or the aggregate empty, which would look like a
result. Beside the entries of the catalog; the scope checks every constant that a query writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from math import inf
from typing import Any

from lowwater.catalog.localdays import zone_names


@dataclass(frozen=True)
class Limit:
    """The values that a parameter takes.

    Attributes:
        says: what they are, behind `must be`.
        least: the least number.
        most: the greatest number.
        above: whether `least` itself is not among them.
        hint: what to write instead of another value, with `{0}` for the value divided by 100; empty for no hint.
    """

    says: str
    least: float = -inf
    most: float = inf
    above: bool = False
    hint: str = ""

    def admits(self, value: Any) -> bool:
        """Whether a value is within the limit; NULL is, and a text unless it is empty."""
        if value is None or isinstance(value, bool):
            return True
        if isinstance(value, str | bytes):
            return bool(value)
        return self.least <= value <= self.most and not (self.above and value == self.least)

    def advice(self, value: Any) -> str:
        """What to write instead; empty for no advice."""
        fits = self.hint and isinstance(value, int | float) and self.admits(value / 100)
        return self.hint.format(f"{value / 100:g}") if fits else ""


Limits = tuple[tuple[int, Limit], ...]
"""(position of an argument, from 0, its limit) pairs."""


def at_least(least: int) -> Limit:
    """Numbers from `least` on."""
    return Limit(f"at least {least}", least)


def between(least: int, most: int) -> Limit:
    """Numbers from `least` to `most`, both included."""
    return Limit(f"from {least} to {most}", least, most)


_PERCENT = "write {0}: it is a share, not a percentage"
FRACTION = Limit("from 0 to 1", 0, 1, hint=_PERCENT)
SHARE = Limit("above 0 and at most 1", 0, 1, above=True, hint=_PERCENT)
NOT_EMPTY = Limit("a text that is not empty")


class _Zone(Limit):
    """The names of time zones."""

    def admits(self, value: Any) -> bool:
        return value is None or value in zone_names()

    def advice(self, value: Any) -> str:
        last = {name.rpartition("/")[2].lower(): name for name in sorted(zone_names())}
        known = {name.lower(): name for name in zone_names()}
        for names, text in ((known, value.lower()), (last, value.replace(" ", "_").lower())):
            if close := get_close_matches(text, names, 1, 0.75):
                return f"did you mean {names[close[0]]!r}?"
        return "write for example 'UTC' or 'Europe/Berlin'"


ZONE = _Zone("a time zone of the tz database")
SHIFT = between(0, 63)
"""Widths of shifts of 64-bit integers (SEMANTICS V2)."""
