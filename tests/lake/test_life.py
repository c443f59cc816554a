"""Some drawn lives of a lake with each push; more at night, and as many as wanted by `python -m tests.lake.life`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lake.life import Life

FOUND = 2022, 2044, 2075, 3075, 3113, 3127, 3155, 5002, 5009
"""Lives that once went wrong."""


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that other users reach, too."""
    with tempfile.TemporaryDirectory(prefix="life-") as folder:
        yield Path(folder)


@pytest.mark.slow
def test_a_short_life_goes_well(place: Path) -> None:
    Life(place, 1).live(steps=5)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(100, 120), *FOUND])
def test_a_life_goes_well(place: Path, seed: int) -> None:
    Life(place, seed).live()
