"""Lakes of the pages that several files of tests read."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi import FastAPI
from lowwater_review import Ledgers
from lowwater_review.app import create

from tests.conftest import made_once
from tests.review.resultlake import make_results

Results = Callable[[Path], tuple[Path, Path]]


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Copies the lake of `make_results`, which is made once, with its queries and captures: they move together."""

    def make(folder: Path) -> None:
        make_results(folder)

    made = made_once(tmp_path_factory, "results", make)

    def copied(folder: Path) -> tuple[Path, Path]:
        for name in ("lake", "queries", "captures"):
            shutil.copytree(made / name, folder / name)
        return folder / "lake", folder / "queries"

    return copied


@pytest.fixture(scope="module")
def made(results: Results, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A lake with rows, and its queries, of one file of tests."""
    return results(tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def app(made: tuple[Path, Path]) -> FastAPI:
    """The pages of that lake."""
    return create(Ledgers(*made))
