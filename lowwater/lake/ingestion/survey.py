"""What a capture file is before a packet of it is decoded: its digest, its chunks, what is not whole; and its prefixes.

First task of ingest, on a worker. A plain file is hashed and divided in one pass; of a compressed one only the digest
is known, since it is decoded while it is decompressed.
"""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from lowwater.capture.formats.compression import Unpacked, compression_of
from lowwater.capture.formats.division import Chunk, Index, indexing
from lowwater.capture.formats.header import FILE_HEADER
from lowwater.capture.formats.sources import Source, open_source
from lowwater.capture.reader import digest
from lowwater.capture.records.malformed import REASONS, MalformedRows
from lowwater.errors import CaptureError, LowwaterError

_PIECE = 1 << 20

DAMAGE = pa.schema(
    [
        pa.field("position", pa.int64()),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("length", pa.int64(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("arrival", pa.int64()),
        pa.field("interface", pa.int32(), nullable=False),
    ]
)
"""Columns of malformed rows as a capture gives them; `interface` is its number."""


@dataclass(frozen=True)
class Failed:
    """What a task gives where a file or the disk is wrong: it must not undo the work on other files.

    Attributes:
        error: what is wrong.
        file: number of the file in this ingest, where the task has one.
    """

    error: LowwaterError
    file: int = -1


@dataclass(frozen=True)
class SurveyTask:
    """What a worker is told: the file, the max_jump of its link (ns), and about how many bytes a chunk is to have."""

    path: Path
    max_jump: int
    chunk_bytes: int


@dataclass(frozen=True)
class Survey:
    """What a worker found.

    Attributes:
        path: the file.
        sha256: of what was read of it.
        bytes: how much that was.
        grew: whether it became longer meanwhile.
        index: its chunks and its summary, without malformed rows; None where it is compressed.
        damage: the malformed rows, schema `DAMAGE`.
    """

    path: Path
    sha256: str
    bytes: int
    grew: bool
    index: Index | None
    damage: pa.Table


def survey(task: SurveyTask) -> Survey | Failed:
    """Surveys a file."""
    surveying = Surveying(task)
    for _ in surveying:
        pass
    return surveying.found


class Surveying:
    """One survey, step by step: iterate it once, for the chunks of a plain file as soon as they are known.

    Attributes:
        found: set when the iteration has ended.
    """

    found: Survey | Failed

    def __init__(self, task: SurveyTask) -> None:
        self._task = task

    def __iter__(self) -> Iterator[Chunk]:
        try:
            self.found = yield from _survey(self._task)
        except LowwaterError as error:
            self.found = Failed(error)
        except OSError as error:
            text = f"{self._task.path}: cannot be read: {error.strerror}"
            self.found = Failed(CaptureError(text, "check the path"))


def _survey(task: SurveyTask) -> Generator[Chunk, None, Survey]:
    before = _size(task.path)
    with task.path.open("rb") as file:
        compressed = compression_of(file.read(FILE_HEADER))
    if compressed:
        sha256 = digest(task.path)
        return Survey(task.path, sha256, before, task.path.stat().st_size > before, None, DAMAGE.empty_table())
    found = yield from indexing(task.path, task.max_jump, task.chunk_bytes)
    grew = max(task.path.stat().st_size, found.summary.bytes) > before
    bare = replace(found, malformed=MalformedRows(task.path))
    return Survey(task.path, found.summary.sha256, found.summary.bytes, grew, bare, damage_table(found.malformed))


def _size(path: Path) -> int:
    """The size of a file that can be ingested."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise CaptureError(f"{str(path)!a}: its name is no UTF-8 text, as the ledger wants it", "rename it") from None
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise CaptureError(
            f"{path}: is no regular file, and ingest reads a capture more than once", "write it to a file first"
        )
    return status.st_size


def damage_table(rows: MalformedRows) -> pa.Table:
    """Malformed rows as columns, schema `DAMAGE`."""
    found = {name: np.ascontiguousarray(rows.columns[name]) for name in DAMAGE.names}
    reasons = pa.DictionaryArray.from_arrays(found["reason"], pa.array(REASONS))
    absent = {name: found[name] < 0 for name in ("position", "arrival")}
    columns = [
        reasons.cast(field.type)
        if field.name == "reason"
        else pa.array(found[field.name], field.type, mask=absent.get(field.name))
        for field in DAMAGE
    ]
    return pa.Table.from_arrays(columns, schema=DAMAGE)


def starts_with(path: Path, size: int, sha256: str, unpacked: bool) -> bool:
    """Whether the first `size` bytes of a file, or of what it holds compressed, have this digest.

    Args:
        path: a file.
        size: bytes from the beginning.
        sha256: the digest, hexadecimal.
        unpacked: whether the bytes are those after decompression.

    Raises:
        CaptureError: if it cannot be read.
    """
    hashed = hashlib.sha256()
    buffer = bytearray(_PIECE)
    try:
        stored = open_source(path)[1]
        source: Source = Unpacked(stored, False) if unpacked else stored
        left = size
        with closing(source):
            while left and (count := source.readinto(memoryview(buffer)[: min(left, _PIECE)])):
                hashed.update(memoryview(buffer)[:count])
                left -= count
    except OSError as error:
        raise CaptureError(f"{path}: cannot be read: {error.strerror}", "check the path and the disk") from error
    return left == 0 and hashed.hexdigest() == sha256
