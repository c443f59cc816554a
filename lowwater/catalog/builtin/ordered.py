"""Aggregates whose value depends on the order of their input: first, last, changes, catenation.

A family of the shipped catalog. They see the canonical order (O1) in one place, so they have no merge. In a query with
CLOSING_WHEN they begin anew in each epoch, but for FIRST and LAST, which keep what they have until a value comes.
"""

from __future__ import annotations

from typing import Any

from lowwater.catalog.builtin.base import EVERY, Stateless
from lowwater.catalog.expr import Type
from lowwater.catalog.functions import AggregateFunction


class First(Stateless):
    """`FIRST(x)`: the first value since the group began, that of earlier epochs included."""

    def initialize(self) -> Any:
        """No value."""
        return None

    def iterate(self, state: Any, value: Any) -> Any:
        """Keeps the first."""
        return value if state is None else state

    def reinit(self, state: Any) -> Any:
        """The first value stays the first."""
        return state

    def output(self, state: Any) -> Any:
        """The value, None for none."""
        return state


class Last(First):
    """`LAST(x)`: the last value, that of an earlier epoch where this one has none."""

    def iterate(self, state: Any, value: Any) -> Any:
        """Keeps the last."""
        return value


class Changes(Stateless):
    """`count_diff(x)`: how often a value differs from the one before it, the first counted. State: number, value."""

    def initialize(self) -> tuple[int, Any]:
        """No value."""
        return 0, None

    def iterate(self, state: tuple[int, Any], value: Any) -> tuple[int, Any]:
        """One value more."""
        count, before = state
        same = value == before or (value != value and before != before)
        return count + (count == 0 or not same), value

    def reinit(self, state: tuple[int, Any]) -> tuple[int, Any]:
        """A new epoch counts from 0."""
        return self.initialize()

    def output(self, state: tuple[int, Any]) -> int:
        """How many."""
        return state[0]


class Catenation(Stateless):
    """`CAT_aggr(separator, x)`: the strings one after another, a separator before all that follow some text."""

    def initialize(self) -> list[str]:
        """No strings."""
        return []

    def iterate(self, state: list[str], separator: str, value: str) -> list[str]:
        """One string more."""
        if state:
            state.append(separator)
        # Empty strings at the beginning are no text yet, so no separator follows them.
        if state or value:
            state.append(value)
        return state

    def reinit(self, state: list[str]) -> list[str]:
        """A new epoch begins with none."""
        return []

    def output(self, state: list[str]) -> str:
        """The whole."""
        return "".join(state)


AGGREGATES: tuple[AggregateFunction, ...] = (
    *(AggregateFunction("FIRST", (kind,), kind, First, ordered=True) for kind in EVERY),
    *(AggregateFunction("LAST", (kind,), kind, Last, ordered=True) for kind in EVERY),
    *(AggregateFunction("count_diff", (kind,), Type.INT, Changes, ordered=True) for kind in EVERY),
    AggregateFunction("CAT_aggr", (Type.STRING, Type.STRING), Type.STRING, Catenation, taken=2, ordered=True),
)
