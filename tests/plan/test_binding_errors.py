"""Every text without a meaning has the error of its golden: place, cause, and what to write instead."""

from __future__ import annotations

import pytest

from tests.plan.binding_cases import CASES, GOLDEN, failure


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_error_is_that_of_the_golden(name: str) -> None:
    error = failure(CASES[name])
    assert f"{type(error).__name__}\n{error}\n" == (GOLDEN / f"plan_{name}.txt").read_text(encoding="utf-8")
    assert error.line > 0 and error.column > 0


def test_every_golden_has_a_case() -> None:
    assert {path.stem for path in GOLDEN.glob("plan_*.txt")} == {f"plan_{name}" for name in CASES}
