"""How many random examples a test has: in `make test` what it says, fewer in `make test-fast`, more in `make fuzz`."""

from __future__ import annotations

from hypothesis import settings

USUAL = 50
"""Examples of a test in `make test` that does not say how many."""
FEWEST = 3


def examples(usual: int) -> int:
    """The examples under the profile of this run, of a test that has `usual` of them in `make test`."""
    return max(min(FEWEST, usual), usual * settings().max_examples // USUAL)
