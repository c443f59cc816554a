"""Every query set in `queries/` has its golden: packets in and rows out on both engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.replay.golden import GOLDEN, names, rows_text

if TYPE_CHECKING:
    from lowwater.high.runner import Runner


def golden(name: str) -> str:
    return (GOLDEN / "queries" / f"{name}.txt").read_text(encoding="utf-8")


def test_every_golden_has_its_query_file() -> None:
    assert names()
    assert sorted(path.stem for path in (GOLDEN / "queries").iterdir()) == names()


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_rows_of_the_reference_engine(name: str) -> None:
    assert rows_text(name, "reference") == golden(name)


@pytest.mark.slow
def test_rows_of_both_runners(each_runner: Runner) -> None:
    made = {name: rows_text(name, "process", each_runner) for name in names()}
    assert made == {name: golden(name) for name in names()}
