"""How many examples a test has: random ones one in seven of what it says in `make test`, fewer in `make test-fast`;
of a table of cases some with each push, and all each night."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import pytest
from hypothesis import settings

T = TypeVar("T")
USUAL = 50
"""Examples of a test that does not say how many, where each test has what it says."""
IN_SUITE = 7
"""Examples of such a test in `make test`."""
FEWEST = 3


def examples(usual: int) -> int:
    """The examples under the profile of this run, of a test that says `usual`."""
    return max(min(FEWEST, usual), usual * settings().max_examples // USUAL)


def some(values: Iterable[T], every: int) -> list[T]:
    """One of so many values of a list of cases; all of them in `make fuzz`."""
    return list(values)[:: every if examples(USUAL) < USUAL else 1]


def each_push(values: Iterable[Any], every: int) -> list[Any]:
    """The cases of a table for `parametrize`, each a tuple where it has several values: one in `every` runs with each
    push, all of them each night."""
    night = pytest.mark.nightly
    rows = (value if type(value) is tuple else (value,) for value in values)
    return [pytest.param(*row, marks=night if at % every else ()) for at, row in enumerate(rows)]
