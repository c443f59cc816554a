"""Hands captures to tasks on other machines: their bytes go through the lake.

Between `batch`, which makes the tasks on the machine that has the captures, and `packing`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from lowwater.errors import LowwaterError
from lowwater.storage import paths

if TYPE_CHECKING:
    from lowwater.lake.ingestion.packing import PackTask


@dataclass(frozen=True)
class SentPart:
    """Bytes of a capture in the lake.

    Attributes:
        place: file of the lake with them; a task removes its copy of it.
        begin: offset of the first of them in the capture.
    """

    place: PurePath
    begin: int


def send(task: PackTask, folder: PurePath, sha256: str) -> PackTask:
    """Puts the bytes that a task reads into the lake; returns the task that reads them there.

    Args:
        task: a task of this machine.
        folder: folder of the lake for this ingest.
        sha256: digest of the capture.

    Raises:
        OSError: if the capture cannot be read, or the lake cannot be written.
    """
    place = folder / f"{task.attempt}-{task.number:06}.part"
    begin, end = (task.chunks[0].begin, task.chunks[-1].end) if task.chunks else (0, None)
    paths.send(task.path, begin, end, place)
    return replace(task, sha256=sha256, sent=SentPart(place, begin))


def received(task: PackTask) -> tuple[PackTask, Path]:
    """Brings the bytes of a task to this machine; returns the task that reads them, and the file with them."""
    assert task.sent is not None
    file = paths.local(task.sent.place)
    if task.chunks is None:
        return replace(task, path=file), file
    chunks = tuple(replace(chunk, held=file, base=task.sent.begin) for chunk in task.chunks)
    return replace(task, chunks=chunks), file


def renamed(error: LowwaterError, file: Path, capture: Path) -> LowwaterError:
    """Lets an error name the capture as its user knows it."""
    error.message = error.message.replace(str(file), str(capture))
    error.args = tuple(text.replace(str(file), str(capture)) if isinstance(text, str) else text for text in error.args)
    return error
