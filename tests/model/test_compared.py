"""What a lake derives of its facts is what the rules say, on drawn histories in memory."""

from __future__ import annotations

import pytest

from tests.breadth import examples
from tests.model.compared import compared, drawn


@pytest.mark.slow
def test_the_captures_of_drawn_histories_are_those_of_the_rules() -> None:
    for seed in range(examples(700)):
        begin, steps = drawn(seed)
        assert not [*compared(begin, steps)], f"python -m tests.model.compared 1 {seed}"
