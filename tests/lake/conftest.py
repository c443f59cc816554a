"""The lake of a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowwater.lake.layout import Lake, open_lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return open_lake(tmp_path / "lake")
