"""Folders of generated code: nothing is loaded that another user could have written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lowwater.caches import cache_folder
from lowwater.errors import ConfigError
from lowwater.machine_code import cached_njit, is_trusted


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770, 0o702])
def test_a_cache_that_others_can_write_is_refused(mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(mode)
    monkeypatch.setenv("LOWWATER_CACHE", str(folder))
    with pytest.raises(ConfigError, match="can be written to by others") as refused:
        cache_folder()
    assert "LOWWATER_CACHE" in refused.value.hint
    assert not is_trusted(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
def test_a_cache_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chown(tmp_path, 12345, 12345)
    monkeypatch.setenv("LOWWATER_CACHE", str(tmp_path))
    with pytest.raises(ConfigError, match="others"):
        cache_folder()
    assert not is_trusted(tmp_path)


def test_a_cache_is_made_for_its_user_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOWWATER_CACHE", str(tmp_path / "a" / "b"))
    assert cache_folder().stat().st_mode & 0o777 == 0o700


def test_python_files_of_a_group_are_as_good_as_their_bytecode(tmp_path: Path) -> None:
    folder = tmp_path / "__pycache__"
    assert is_trusted(folder)
    folder.mkdir()
    folder.chmod(0o775)
    assert is_trusted(folder)
    folder.chmod(0o777)
    assert not is_trusted(folder)


def test_machine_code_of_a_folder_of_others_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from numba.core import config

    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))

    def function(value: int) -> int:
        return value + 1

    def is_cached() -> bool:
        return type(cached_njit()(function)._cache).__name__ == "_Cache"  # type: ignore[attr-defined]

    assert is_cached()
    for folder in tmp_path.iterdir():
        folder.chmod(0o777)
    assert not is_cached()
