"""A full disk: every command says so in one line with a hint, and no library writes beside it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow.compute as pc
import pytest
from deltalake.exceptions import DeltaError

from lowwater.cli.main import _guarded
from lowwater.errors import LakeError
from lowwater.lake import open_tables, tables
from lowwater.lake.layout import open_lake
from lowwater.lake.tables import lake_errors
from tests.replay.support import lowwater

TREE = """Generic LocalFileSystem error
      \x1b[31m↳\x1b[0m Unable to copy data to file
       \x1b[31m↳\x1b[0m No space left on device (os error 28)
"""
"""As Delta prints it where RUST_BACKTRACE is set."""


@pytest.mark.parametrize("error", [OSError(TREE), DeltaError(TREE), OSError(errno.ENOSPC, "No space left on device")])
def test_the_error_of_delta_is_one_line(error: Exception) -> None:
    with pytest.raises(LakeError) as refused, lake_errors("captures: cannot be written"):
        raise error
    assert refused.value.message == "captures: cannot be written: No space left on device"


class _Full:
    f_bavail, f_frsize = 10, 4096


def test_nothing_is_committed_without_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The threads of Delta panic, and print that, where the room ends in the middle of a commit."""
    lake = open_lake(tmp_path / "lake")
    rows = open_tables.existing(lake.contents).to_pyarrow_table()
    monkeypatch.setattr(os, "statvfs", lambda path: _Full)
    changes: list[Callable[[], object]] = [
        lambda: tables.append_rows(lake.contents, rows),
        lambda: tables.replace_rows(lake.contents, rows, pc.field("link") == "a"),
        lambda: tables.swap_files(lake.contents, [], lambda table: [], note=lambda table: {"a": "b"}),
        lambda: tables.create(lake.root / "tables" / "new", rows.schema),
    ]
    for change in changes:
        with pytest.raises(LakeError, match="No space left on device") as refused:
            change()
        assert "room" in refused.value.hint
    assert open_tables.existing(lake.contents).version() == 0


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
@pytest.mark.parametrize("name", [None, "out/rows.csv"])
def test_any_file_that_no_module_expected_is_one_line(
    code: int, name: str | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "dup2", lambda *_: None)

    def command() -> None:
        raise OSError(code, os.strerror(code), name)

    assert _guarded(command) == 1
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2 and os.strerror(code) in said[0] and (name or "output") in said[0]


@pytest.mark.slow
def test_a_command_whose_file_does_not_fit_is_one_line(tmp_path: Path) -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        said = lowwater("generate", "--out", tmp_path / "captures", "--hours", "1")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert said.code == 1 and len(said.err.splitlines()) <= 2 and "File too large" in said.err, said
