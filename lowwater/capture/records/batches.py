"""The judged records of a stretch of a capture, shared out by interface and decoded.

Between `stream` and the reader, and between a chunk and `formats.division.read_chunk`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.capture.content.retention import Keeper
from lowwater.capture.formats import scan as scanning
from lowwater.capture.headers.batches import Memory, decode_batch
from lowwater.capture.records.facts import Interface


@dataclass(frozen=True)
class Round:
    """Records of a stretch of the file without damage, judged.

    Attributes:
        buffer: holds them.
        records: shape (scan.ROWS, n), as `scan` fills it; n is at least 1.
        kept: indices of the sane ones, ascending.
        position: number of the first one in the capture.
        begin: offset of the first one in the file.
        end: offset behind the last one.
        parted: whether damage lies between the last round and this one.
    """

    buffer: NDArray[np.uint8]
    records: NDArray[np.int64]
    kept: NDArray[np.int64]
    position: int
    begin: int
    end: int
    parted: bool


def shares(each: Round, interfaces: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """The sane records of a round by interface: its number, and the indices of its records, at least one."""
    if not len(each.kept):
        return
    if interfaces == 1:
        yield 0, each.kept
        return
    numbers = each.records[scanning.INTERFACE][each.kept]
    ordered = np.argsort(numbers, kind="stable")
    found, begins = np.unique(numbers[ordered], return_index=True)
    for number, chosen in zip(found.tolist(), np.split(ordered, begins[1:]), strict=True):
        yield number, each.kept[chosen]


def of(each: Round, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """The records of a round with these indices, ascending, at least one; no copy of the first ones."""
    first = chosen[-1] == len(chosen) - 1
    return each.records[:, : len(chosen)] if first else each.records[:, chosen]


def decode_round(
    each: Round,
    chosen: NDArray[np.int64],
    clock: int,
    interface: Interface,
    keeper: Keeper,
    memory: Memory | None = None,
) -> pa.RecordBatch:
    """Decodes of some records of a round what the keeper needs, and keeps of them what is asked for.

    Args:
        each: the round.
        chosen: indices of sane records of one interface, ascending, at least one.
        clock: largest sane timestamp of the interface before them, ns.
        interface: theirs.
        keeper: the keeper of the reader.
        memory: as for `decode_batch`.

    Returns:
        A batch of the keeper's schema.
    """
    sane = of(each, chosen)
    link, positions = interface.link_number, chosen + each.position
    batch, _ = decode_batch(each.buffer, sane, positions, clock, link, memory, keeper.shape)
    return keeper.batch(each.buffer, sane[scanning.OFFSET], batch)
