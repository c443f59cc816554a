"""Some drawn lives of a lake with each push; more at night, and as many as wanted by `python -m tests.lake.life`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lake.life import Life


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(100, 120))])
def test_a_life_goes_well(tmp_path: Path, seed: int) -> None:
    Life(tmp_path, seed).live()
