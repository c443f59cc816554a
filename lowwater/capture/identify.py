"""The identity of a file (SEMANTICS T5), for whoever does not ingest it.

`records.identity` computes that of packets while they are read.
"""

from __future__ import annotations

import hashlib
from contextlib import closing
from pathlib import Path

from lowwater.capture.formats.capture_file import FILE_HEADER
from lowwater.capture.formats.compression import DecompressedSource, compression_of
from lowwater.capture.formats.sources import open_source
from lowwater.capture.reader import digest, read

_PIECE = 1 << 20


def identity_of(path: Path) -> str:
    """Returns the identity of a capture, which is read to its end.

    Raises:
        CaptureError: if it is no capture, or cannot be read.
    """
    reader = read(path, 0, sha256="", identified=True)
    for span in reader.spans():
        reader.count(span)
    assert reader.summary is not None
    return reader.summary.identity


def digests_of_records(path: Path) -> tuple[str, str]:
    """Returns the sha256 of a file of other records, and its identity: the sha256 of its content, decompressed.

    Raises:
        OSError: if it cannot be read.
    """
    with path.open("rb") as file:
        compressed = compression_of(file.read(FILE_HEADER))
    if not compressed:
        sha256 = digest(path)
        return sha256, sha256
    content, buffer = hashlib.sha256(), bytearray(_PIECE)
    with closing(DecompressedSource(open_source(path)[1], hashed=True)) as source:
        while count := source.readinto(memoryview(buffer)):
            content.update(memoryview(buffer)[:count])
        return source.sha256(), source.sha256() if source.damage else content.hexdigest()
