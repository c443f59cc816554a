"""Folders of generated code: nothing is loaded that another user could have written."""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
from pathlib import Path

import pytest
from numba import config
from numba.core.caching import UserProvidedCacheLocator

from lowwater import caches
from lowwater.caches import cache_folder
from lowwater.errors import ConfigError
from lowwater.gsql.declarations import _Builder, _PassTokens
from lowwater.gsql.parser import load_grammar
from lowwater.machine_code import _Cache, _cache_of, cached_njit, is_trusted
from lowwater.spark.jars import NEEDED, VERSION, delta_jars


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


def test_a_user_without_a_home_has_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As any user of a container: kernels ended with a traceback."""
    for name in ("LOWWATER_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/proc/nobody")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert cache_folder() == tmp_path / f"lowwater-kernels-{os.geteuid()}"
    monkeypatch.setattr(_Cache._impl_class, "_locator_classes", [UserProvidedCacheLocator])
    monkeypatch.setattr(config, "CACHE_DIR", "")
    assert tmp_path in Path(_cache_of(is_trusted).cache_path).parents


@pytest.mark.parametrize("mode", [0o600, 0o666])
def test_a_folder_that_was_open_is_refused_for_what_is_left_in_it(
    mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else wrote a file while the folder was open; it is closed now."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    (folder / "kernel_1.py").write_text("")
    (folder / "kernel_1.py").chmod(mode)
    if mode == 0o600:
        if os.geteuid():
            pytest.skip("only root gives files away")
        os.chown(folder / "kernel_1.py", 12345, 12345)
    monkeypatch.setenv("LOWWATER_CACHE", str(folder))
    with pytest.raises(ConfigError, match="others"):
        cache_folder()
    assert not is_trusted(folder)


def test_tables_of_a_parser_are_not_loaded_from_a_folder_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """lark unpickles them: whoever writes them is obeyed."""
    ran = tmp_path / "ran"

    class Bad:
        def __reduce__(self) -> tuple[object, ...]:
            return Path.touch, (ran,)

    def parser() -> object:
        return load_grammar("functions.lark", _Builder(), _PassTokens())

    folder = tmp_path / "cache"
    monkeypatch.setenv("LOWWATER_CACHE", str(folder))
    cache_folder()
    parser()
    (tables,) = folder.glob("*.tables")
    first, _, _ = tables.read_bytes().partition(b"\n")
    tables.write_bytes(first + b"\n" + pickle.dumps(Bad()))
    folder.chmod(0o777)
    parser()
    assert not ran.exists()
    folder.chmod(0o700)
    parser()
    assert ran.exists(), "the file would have been obeyed"


@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_jars_of_a_folder_of_others_are_not_run(mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jars = tmp_path / "share" / "lowwater" / "jars"
    jars.mkdir(parents=True)
    for name in NEEDED:
        (jars / f"{name}-{VERSION}.jar").write_bytes(b"")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert len(delta_jars()) == len(NEEDED)
    jars.chmod(mode)
    with pytest.raises(ConfigError, match="written by others"):
        delta_jars()
    jars.chmod(0o755)
    (jars / f"{next(iter(NEEDED))}-{VERSION}.jar").chmod(0o666)
    caches._has_of_others.cache_clear()
    with pytest.raises(ConfigError, match="written by others"):
        delta_jars()


def test_machine_code_of_a_folder_of_others_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from numba.core import config
    from numba.core.caching import FunctionCache

    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))

    def function(value: int) -> int:
        return value + 1

    def is_cached() -> bool:
        return isinstance(cached_njit()(function)._cache, FunctionCache)  # type: ignore[attr-defined]

    assert is_cached()
    for folder in tmp_path.iterdir():
        folder.chmod(0o777)
    assert not is_cached()
