"""Survey of a capture file before its packets are decoded: digest, chunks, malformed rows; and comparison of prefixes.

First task of ingest, on a worker. A plain file is hashed and divided in one pass. A compressed file is only hashed: it
is decoded while it is decompressed.
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

from lowwater.capture.content.retention import NOTHING, ContentOptions
from lowwater.capture.formats.capture_file import FILE_HEADER
from lowwater.capture.formats.compression import DecompressedSource, compression_of
from lowwater.capture.formats.division import CaptureChunk, CaptureIndex, indexing
from lowwater.capture.formats.sources import Source, open_source
from lowwater.capture.identify import digests_of_records
from lowwater.capture.reader import digest
from lowwater.capture.records.malformed import REASONS, MalformedRows
from lowwater.errors import CaptureError, LowwaterError
from lowwater.storage.failures import hint_of, passing

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
"""Schema of the malformed rows of a capture; `interface` is the interface number."""


@dataclass(frozen=True)
class FailedTask:
    """Error of a task about a file or the disk, returned so that the work on other files goes on.

    Attributes:
        error: the error.
        file: number of the file in this ingest; -1 if the task has none.
    """

    error: LowwaterError
    file: int = -1


@dataclass(frozen=True)
class SurveyTask:
    """Task of a worker.

    Attributes:
        path: the file.
        max_jump: max_jump of its link, ns.
        chunk_bytes: approximate size of a chunk, bytes.
        whole: whether the file is one chunk, since its records are no packets.
        content: content that is stored beside the headers.
    """

    path: Path
    max_jump: int
    chunk_bytes: int
    whole: bool = False
    content: ContentOptions = NOTHING


@dataclass(frozen=True)
class Survey:
    """Result of a survey.

    Attributes:
        path: the file.
        sha256: digest of the bytes that were read.
        identity: identity of the capture (T5); empty for a compressed capture, which is not decoded here.
        bytes: number of bytes that were read.
        grew: whether the file became longer meanwhile.
        index: its chunks and its summary, without malformed rows; None for a compressed file, and one without packets.
        damage: the malformed rows, schema `DAMAGE`.
    """

    path: Path
    sha256: str
    identity: str
    bytes: int
    grew: bool
    index: CaptureIndex | None
    damage: pa.Table


def survey(task: SurveyTask) -> Survey | FailedTask:
    """Surveys a file."""
    surveying = SurveyRun(task)
    for _ in surveying:
        pass
    return surveying.result


class SurveyRun:
    """A survey, step by step: iterate it once; it yields the chunks of a plain file as soon as they are complete.

    Attributes:
        result: the result, after the iteration.
    """

    result: Survey | FailedTask

    def __init__(self, task: SurveyTask) -> None:
        self._task = task

    def __iter__(self) -> Iterator[CaptureChunk]:
        try:
            self.result = yield from _survey(self._task)
        except OSError as error:
            text = f"{self._task.path}: cannot be read: {error.strerror}"
            self.result = FailedTask(passing(CaptureError(text, hint_of(error, "check the path")), error))
        except LowwaterError as error:
            self.result = FailedTask(passing(error))


def _survey(task: SurveyTask) -> Generator[CaptureChunk, None, Survey]:
    before = _size(task.path)
    with task.path.open("rb") as file:
        compressed = compression_of(file.read(FILE_HEADER))
    if compressed or task.whole:
        sha256, identity = digests_of_records(task.path) if task.whole else (digest(task.path), "")
        grew = task.path.stat().st_size > before
        return Survey(task.path, sha256, identity, before, grew, None, DAMAGE.empty_table())
    capture_index = yield from indexing(task.path, task.max_jump, task.chunk_bytes, content=task.content)
    grew = max(task.path.stat().st_size, capture_index.summary.bytes) > before
    bare = replace(capture_index, malformed=MalformedRows(task.path))
    return Survey(
        task.path,
        capture_index.summary.sha256,
        capture_index.summary.identity,
        capture_index.summary.bytes,
        grew,
        bare,
        damage_table(capture_index.malformed),
    )


def _size(path: Path) -> int:
    """Returns the size of a file; raises an error if it cannot be ingested."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise CaptureError(
            f"{str(path)!a}: the file name is not UTF-8 text, which the ledger requires", "rename it"
        ) from None
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise CaptureError(
            f"{path}: is not a regular file, and ingest reads a capture more than once", "write it to a file first"
        )
    return status.st_size


def damage_table(rows: MalformedRows) -> pa.Table:
    """Converts malformed rows to a table, schema `DAMAGE`."""
    columns = {name: np.ascontiguousarray(rows.columns[name]) for name in DAMAGE.names}
    reasons = pa.DictionaryArray.from_arrays(columns["reason"], pa.array(REASONS))
    absent = {name: columns[name] < 0 for name in ("position", "arrival")}
    arrays = [
        reasons.cast(field.type)
        if field.name == "reason"
        else pa.array(columns[field.name], field.type, mask=absent.get(field.name))
        for field in DAMAGE
    ]
    return pa.Table.from_arrays(arrays, schema=DAMAGE)


def starts_with(path: Path, size: int, sha256: str, unpacked: bool) -> bool:
    """Whether the first `size` bytes of a file, stored or decompressed, have this digest.

    Args:
        path: a file.
        size: number of bytes from the beginning.
        sha256: the digest, hex.
        unpacked: whether to compare the decompressed bytes.

    Raises:
        CaptureError: if the file cannot be read.
    """
    hashed = hashlib.sha256()
    buffer = bytearray(_PIECE)
    try:
        stored = open_source(path)[1]
        source: Source = DecompressedSource(stored, False) if unpacked else stored
        left = size
        with closing(source):
            while left and (count := source.readinto(memoryview(buffer)[: min(left, _PIECE)])):
                hashed.update(memoryview(buffer)[:count])
                left -= count
    except OSError as error:
        raise CaptureError(
            f"{path}: cannot be read: {error.strerror}", hint_of(error, "check the path and the disk")
        ) from error
    return left == 0 and hashed.hexdigest() == sha256
