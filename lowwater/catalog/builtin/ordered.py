"""Implements aggregates that depend on the order of their input: first, last, changes, concatenation.

A family of the built-in catalog. One engine process reads all values in canonical order (O1), so the aggregates have no
merge. In a query with CLOSING_WHEN, every epoch starts with an empty state. FIRST and LAST keep their state instead.
"""

from __future__ import annotations

from typing import Any

from lowwater.catalog.builtin.base import EVERY, Stateless
from lowwater.catalog.expr import Type
from lowwater.catalog.functions import AggregateFunction


class First(Stateless):
    """`FIRST(x)`: the first value since the start of the group, earlier epochs included."""

    def initialize(self) -> Any:
        """Returns an empty state."""
        return None

    def iterate(self, state: Any, value: Any) -> Any:
        """Keeps the first value."""
        return value if state is None else state

    def reinit(self, state: Any) -> Any:
        """Keeps the state for the next epoch."""
        return state

    def output(self, state: Any) -> Any:
        """Returns the value; None without values."""
        return state


class Last(First):
    """`LAST(x)`: the last value; the last value of an earlier epoch if the current epoch has no values."""

    def iterate(self, state: Any, value: Any) -> Any:
        """Keeps the last value."""
        return value


class Changes(Stateless):
    """`count_diff(x)`: the number of values that differ from their predecessor. The first value counts as different.

    State: the number, and the latest value.
    """

    def initialize(self) -> tuple[int, Any]:
        """Returns an empty state."""
        return 0, None

    def iterate(self, state: tuple[int, Any], value: Any) -> tuple[int, Any]:
        """Adds a value to the state."""
        count, before = state
        same = value == before or (value != value and before != before)
        return count + (count == 0 or not same), value

    def reinit(self, state: tuple[int, Any]) -> tuple[int, Any]:
        """Returns an empty state for the next epoch."""
        return self.initialize()

    def output(self, state: tuple[int, Any]) -> int:
        """Returns the number of changes."""
        return state[0]


class Catenation(Stateless):
    """`CAT_aggr(separator, x)`: the concatenation of the strings, with separators between them.

    State: the strings and separators.
    """

    def initialize(self) -> list[str]:
        """Returns an empty state."""
        return []

    def iterate(self, state: list[str], separator: str, value: str) -> list[str]:
        """Adds a string to the state."""
        if state:
            state.append(separator)
        # Leading empty strings add no text, so no separator follows them.
        if state or value:
            state.append(value)
        return state

    def reinit(self, state: list[str]) -> list[str]:
        """Returns an empty state for the next epoch."""
        return []

    def output(self, state: list[str]) -> str:
        """Returns the concatenation."""
        return "".join(state)


AGGREGATES: tuple[AggregateFunction, ...] = (
    *(AggregateFunction("FIRST", (kind,), kind, First, ordered=True) for kind in EVERY),
    *(AggregateFunction("LAST", (kind,), kind, Last, ordered=True) for kind in EVERY),
    *(AggregateFunction("count_diff", (kind,), Type.INT, Changes, ordered=True) for kind in EVERY),
    AggregateFunction("CAT_aggr", (Type.STRING, Type.STRING), Type.STRING, Catenation, taken=2, ordered=True),
)
