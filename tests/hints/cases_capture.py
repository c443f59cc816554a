"""Hints about capture files, keys and what `generate` makes."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lowwater.capture import read
from lowwater.capture.content.retention import NOTHING, read_key
from lowwater.capture.reader import index, read_chunk
from lowwater.capture.records import stream
from lowwater.instants import SECOND
from tests.capturemaker import pcap_bytes, udp
from tests.hints.setup import Case, Setup, tried
from tests.replay.support import START, Said

JUMP = 61 * SECOND


def _key(setup: Setup, content: bytes | None, mode: int = 0o600) -> None:
    path = setup.folder / "KEY"
    if content is not None:
        path.write_bytes(content)
        path.chmod(mode)
    read_key(path)


def _make_key(setup: Setup) -> None:
    subprocess.run("openssl rand -hex 32 > KEY; chmod 600 KEY", shell=True, cwd=setup.folder, check=True)
    assert len(read_key(setup.folder / "KEY")) == 32


def _close_key(setup: Setup) -> None:
    path = setup.folder / "KEY"
    subprocess.run(["chmod", "o=", path], check=True)
    assert not path.stat().st_mode & stat.S_IRWXO and len(read_key(path)) == 32


def _chunk(spoil: Callable[[Path], object]) -> Callable[[Setup], None]:
    """Reads the chunk of a file that was spoilt after its index was made."""

    def spoilt(setup: Setup) -> None:
        path = setup.folder / "a.pcap"
        path.write_bytes(setup.capture.read_bytes())
        (chunk,) = index(path, JUMP).chunks
        spoil(path)
        list(read_chunk(chunk, NOTHING))

    return spoilt


def _whole_chunk(setup: Setup) -> None:
    path = setup.folder / "a.pcap"
    if not path.exists():
        path.write_bytes(setup.capture.read_bytes())
    (chunk,) = index(path, JUMP).chunks
    assert sum(batch.num_rows for _, batch in read_chunk(chunk, NOTHING)) == chunk.records > 0


def _columns(setup: Setup, *columns: str) -> None:
    for batch in read(setup.capture, JUMP, columns=columns):
        assert batch.schema.names == list(columns)


def _jumping(setup: Setup) -> Said:
    """Ingests a capture whose clock jumps 200 s ahead, where 50 malformed records are too many."""
    path = setup.folder / "jump.pcap"
    if not path.exists():
        setup.settle(ingest=False)
        first = [(START + number * SECOND, udp("10.0.0.1", "10.0.0.2", 1, 2)) for number in range(100)]
        some = [(stamp + 200 * SECOND * (number % 3 == 1), frame) for number, (stamp, frame) in enumerate(first)]
        path.write_bytes(pcap_bytes(some))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "MALFORMED_ROWS", 20)
        return setup.run("ingest", "--lake", setup.lake, "--link", "main1", path)


def _jump_allowed(setup: Setup) -> Said:
    counted = setup.run("inspect", setup.folder / "jump.pcap")
    assert counted.code == 0 and "time-jump" in counted.out
    setup.settings('skew = "1s"', 'skew = "1s"\nmax_jump = "10min"')
    return _jumping(setup)


def _stream(setup: Setup, waits: bool) -> None:
    """Reads the first half of a capture, then the rest, from a pipe that waits for bytes or does not."""
    data = setup.capture.read_bytes()[: 48 << 10]
    reads, writes = os.pipe()
    try:
        os.set_blocking(reads, waits)
        os.write(writes, data)
        if waits:
            os.close(writes)
        with os.fdopen(reads, "rb", buffering=0, closefd=False) as file:
            assert sum(batch.num_rows for batch in read(file, JUMP, 4096)) > 0
    finally:
        os.close(reads)
        if not waits:
            os.close(writes)


CASES: list[Case] = [
    Case("an open key", lambda setup: _key(setup, bytes(32), 0o644), "chmod o= ", _close_key),
    Case("a chunk of a lost file", _chunk(Path.unlink), "check the path and the disk", _whole_chunk),
    Case("a chunk of a cut file", _chunk(lambda path: os.truncate(path, 4000)), "ingest it again", _whole_chunk),
    tried("a column misspelt", _columns, "srcPort", "srcPrt", "srcPort"),
    Case("a clock that jumps", _jumping, "raise max_jump of the link", _jump_allowed),
    tried("a stream that does not wait", _stream, "of a stream, what writes it", False, True),
]

if shutil.which("openssl"):
    CASES += [
        Case("no key", lambda setup: _key(setup, None), "openssl rand -hex 32 > KEY; chmod 600 KEY", _make_key),
        Case("a key of some bytes", lambda setup: _key(setup, b"short"), "make one: `openssl rand -hex 32", _make_key),
    ]
