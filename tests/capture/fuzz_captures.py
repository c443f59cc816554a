"""Reads captures, and holds what must hold whatever their bytes: only our own errors, an account of every byte."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from lowwater.capture.content.retention import ContentOptions
from lowwater.capture.reader import CaptureReader, CaptureSummary, by_time, index, read, read_chunk
from lowwater.capture.records.parts import ReadingOrder
from lowwater.errors import CaptureError
from tests.capture import fuzz_inputs

MAX_JUMP = 61 * fuzz_inputs.SECOND
FORGIVING = 1 << 61
"""A max_jump that no capture has, ns."""


def saved(folder: Path, data: bytes, name: str = "one.pcap") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def whole(path: Path, max_jump: int = FORGIVING, **options: Any) -> tuple[CaptureReader, list[dict[str, Any]]]:
    """The reader of a file that is read to its end, and the rows in their order; every byte is accounted for."""
    reader = read(path, max_jump, **options)
    batches = list(reader)
    check_sums(reader, batches, path.stat().st_size)
    assert reader.summary is not None and reader.summary.sha256 == sha256(path.read_bytes()).hexdigest()
    return reader, _rows(batches)


def check_file(data: bytes, path: Path, random: Random) -> str:
    """Reads a file; says `read`, `read with damage`, or `refused`.

    Raises:
        AssertionError: the reader broke a promise.
    """
    path.write_bytes(data)
    try:
        content = ContentOptions(untimed=random.choice((None, None, -1, fuzz_inputs.START)))
        window = random.choice((24, 100, 4096, 1 << 20))

        def once(order: ReadingOrder, sha256: str | None) -> tuple[CaptureReader, list[pa.RecordBatch]]:
            reader = read(path, MAX_JUMP, window, sha256, content, identified=True, order=order)
            batches = list(reader)
            check_sums(reader, batches, len(data))
            return reader, batches

        reader, batches = by_time(once, lambda read_once: whole_summary(read_once[0]))
    except CaptureError as error:
        assert str(path) in str(error) and error.hint, f"no file or no hint: {error}"
        return "refused"
    summary = whole_summary(reader)
    if not summary.compression:
        found = index(path, MAX_JUMP, random.choice((24, 200, 1 << 20)), summary.sha256, content)
        assert found.malformed == tuple(reader.malformed), "the index has other malformed rows"
        decoded = tuple(replace(each, undecoded=0, wire=0, types={}) for each in summary.interfaces)
        assert found.summary == replace(summary, interfaces=decoded), "the index has another summary"
        parts = [batch for chunk in found.chunks for _, batch in read_chunk(chunk, content)]
        assert _rows(parts) == _rows(batches), "chunks give other rows than one pass"
    return "read with damage" if reader.malformed else "read"


def whole_summary(reader: CaptureReader) -> CaptureSummary:
    """The summary of a reader that has ended."""
    assert reader.summary is not None
    return reader.summary


def check_sums(reader: CaptureReader, batches: Sequence[pa.RecordBatch], size: int) -> None:
    """Holds a reader that has ended against the bytes of its file."""
    summary = reader.summary
    assert summary is not None
    refused = sum(bad.length for bad in reader.malformed)
    assert summary.record_bytes + refused + summary.overhead == summary.unpacked + summary.skipped, "bytes are missing"
    assert summary.bytes == size and (summary.compression or summary.unpacked == size), "not the size of the file"
    assert summary.packets == sum(batch.num_rows for batch in batches), "packets are missing"
    assert summary.malformed == len(reader.malformed), "malformed rows are missing"
    assert bool(summary.damage) == any(bad.reason == "compression" for bad in reader.malformed), "damage of no place"
    assert summary.damage or not summary.skipped, "bytes are skipped without damage"
    for batch in batches:
        batch.validate(full=True)
        stamps, arrivals = batch["timestamp"].to_numpy(), batch["arrival"].to_numpy()
        assert (stamps >= 0).all() and (arrivals >= stamps).all() and (np.diff(arrivals) >= 0).all(), "times"


def _rows(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    rows = [row for batch in batches for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: row["position"])
