"""What the end-to-end tests share: captures made once, one lake with packets, one with everything published."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lowwater.capture.generate import GeneratedCapture, generate
from tests.replay.support import END, HOURS, LINKS, START, copy_lake, ingest_all, replay_range, write_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def captures(tmp_path_factory: pytest.TempPathFactory) -> list[GeneratedCapture]:
    """Three hours of each link and a last minute; the second hour of control is cut inside its last record."""
    return generate(tmp_path_factory.mktemp("captures"), START, HOURS, LINKS, rate=2.0, seed=7)


@pytest.fixture(scope="session")
def packets(captures: list[GeneratedCapture], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with all captures and nothing replayed; copy it before you change it."""
    lake = tmp_path_factory.mktemp("packets")
    write_settings(lake)
    ingest_all(lake, captures)
    return lake


@pytest.fixture(scope="session")
def published(packets: Path, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lake with the three hours replayed in order; copy it before you change it."""
    lake = copy_lake(packets, tmp_path_factory.mktemp("published") / "lake")
    replay_range(lake, spark, START, END)
    return lake


@pytest.fixture
def lake(packets: Path, tmp_path: Path) -> Path:
    """A lake with all captures of the test's own."""
    return copy_lake(packets, tmp_path / "lake")
