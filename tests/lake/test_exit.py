"""How a process ends that read tables of Delta: no thread of a library needs the interpreter by then."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyarrow import fs

from lowwater.config import Config, Link
from lowwater.instants import SECOND
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from lowwater.lake.open_tables import existing
from lowwater.lake.tables import table_dataset
from tests.capturemaker import pcap_bytes, udp

FAILS = (
    ("export", "--lake", "{lake}", "--out", "{lake}/x.pcap", "--force"),
    ("replay", "nothing", "--lake", "{lake}", "--from", "2026-01-01", "--to", "2026-01-02", "--stage", "low"),
    ("report", "--lake", "{lake}", "--interval", "2026-01-01"),
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with one capture of which no bytes are kept, and whose file is gone."""
    folder = tmp_path_factory.mktemp("exit")
    capture = folder / "b.pcap"
    capture.write_bytes(pcap_bytes([(1_700_000_000 * SECOND, udp("10.0.0.1", "10.0.0.2", 1, 53, bytes(80)))]))
    ingest(open_lake(folder / "lake"), "b", [capture], Config(links={"b": Link()}))
    capture.unlink()
    return folder / "lake"


def _python(filesystem: fs.FileSystem) -> bool:
    """Whether files are objects of Python: threads of Arrow that hold one at the end abort the process."""
    inner = filesystem.base_fs if isinstance(filesystem, fs.SubTreeFileSystem) else filesystem
    return isinstance(inner, fs.PyFileSystem)


def test_tables_are_read_without_objects_of_python(lake: Path) -> None:
    for path in (lake / "contents", lake / "packets", lake / "malformed"):
        table = existing(path)
        assert _python(table.to_pyarrow_dataset().filesystem)  # what is avoided
        assert not _python(table_dataset(path, table).filesystem)


@pytest.mark.slow
@pytest.mark.parametrize("words", FAILS, ids=lambda words: str(words[0]))
def test_a_command_that_fails_ends_with_its_exit_code(lake: Path, words: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "lowwater.cli.main", *(word.format(lake=lake) for word in words)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1 and "terminate called" not in ended.stderr, ended.stderr
