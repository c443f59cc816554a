"""Frames read from the capture files themselves, for packets whose bytes the lake did not keep.

`capture_export` asks for them by capture and position. A file is found by the path in the ledger, and is used only if
its SHA-256 is that of the ingest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lowwater.capture.content.retention import EVERYTHING, ContentOptions, has_times_of_file, resolution_of
from lowwater.capture.reader import digest, read
from lowwater.catalog.packets import FRAME
from lowwater.errors import LakeError, LowwaterError
from lowwater.lake.ledgers.captures import Capture
from lowwater.plan.temporal import END_OF_TIME

SHOWN = 5
"""Most files that a message names."""


class CaptureFrames:
    """The frames of chosen packets of one capture, read forward once; about one window of the file is in memory.

    Args:
        path: the capture file.
        positions: positions of the chosen packets, in any order.
        kept: options of its ingest, as the ledger stores them.
    """

    def __init__(self, path: Path, positions: NDArray[np.int64], kept: str | None) -> None:
        self._path, self._positions, self._kept = path, np.unique(positions), kept
        self._batches = self._read()
        self._ahead: dict[int, bytes] = {}

    def _read(self) -> Iterator[pa.RecordBatch]:
        # Which packets have a time depends on these; which time does not matter.
        untimed = 0 if has_times_of_file(self._kept) else None
        content = ContentOptions(EVERYTHING, untimed=untimed, resolution=resolution_of(self._kept))
        yield from read(self._path, END_OF_TIME, sha256="-", content=content, columns=["position", FRAME])

    def frame(self, position: int) -> bytes:
        """Returns the captured bytes of a packet; positions must be asked for nearly in order.

        Raises:
            LakeError: the file does not hold the record.
        """
        while position not in self._ahead:
            batch = next(self._batches, None)
            if batch is None:
                raise LakeError(
                    f"{self._path}: has no record {position}, which the lake has",
                    "ingest the capture again",
                )
            found = pc.is_in(batch.column("position"), pa.array(self._positions))
            chosen = batch.filter(found)
            numbers, frames = (chosen.column(name).to_pylist() for name in ("position", FRAME))
            self._ahead.update((number, frame or b"") for number, frame in zip(numbers, frames, strict=True))
        return self._ahead.pop(position)


def frame_sources(
    link: str,
    captures: Sequence[Capture],
    wanted: Mapping[str, Sequence[NDArray[np.int64]]],
    file_of: Callable[[Capture], Path],
) -> dict[str, CaptureFrames]:
    """Opens the files of the captures whose frames are wanted.

    Args:
        link: name of the link.
        captures: ledger rows of the link.
        wanted: identity of a capture -> arrays of positions.
        file_of: the path of the file of a capture.

    Raises:
        LakeError: the addresses of a capture were replaced, or files are gone or have changed; the message names them.
    """
    chosen = [capture for capture in captures if capture.capture in wanted]
    if any(capture.key for capture in chosen):
        raise LakeError(
            f"link {link!r}: its addresses are anonymised, so the bytes of its capture files are not given out",
            "leave `anonymise` out and ingest the captures again, if the addresses may be seen",
        )
    gone = [text for capture in chosen if (text := _fault(capture, file_of(capture)))]
    if gone:
        more = f", and {len(gone) - SHOWN} more" if len(gone) > SHOWN else ""
        raise LakeError(
            f"link {link!r}: the lake kept no bytes of the frames, and their files cannot be read: "
            f"{', '.join(gone[:SHOWN])}{more}",
            "bring the files back to their places, or set `payload` and ingest them again",
        )
    return {
        capture.capture: CaptureFrames(file_of(capture), np.concatenate(wanted[capture.capture]), capture.kept)
        for capture in chosen
    }


def _fault(capture: Capture, path: Path) -> str:
    """Returns why the file of a capture cannot be used, with its path; empty if it can."""
    try:
        if not path.is_file():
            return f"{path} (is gone)"
        return "" if digest(path) == capture.file_digest else f"{path} (has changed)"
    except (OSError, LowwaterError):
        return f"{path} (cannot be read)"
