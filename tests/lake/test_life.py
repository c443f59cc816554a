"""Some drawn lives of a lake with each push; more at night, and as many as wanted by `python -m tests.lake.life`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lake.life import Life


@pytest.mark.slow
def test_a_short_life_goes_well(tmp_path: Path) -> None:
    Life(tmp_path, 1).live(steps=5)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_a_life_goes_well(tmp_path: Path, seed: int) -> None:
    Life(tmp_path, seed).live()
