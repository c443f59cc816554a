"""Finds the copies of packets in the files of a link, and of the other links of a set (SEMANTICS D1 to D6).

`packets` asks it file by file. It compares stored hashes, so neither the captures nor the order of their ingest matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lowwater.capture.records.copies import Hashed, copies
from lowwater.catalog.packets import PACKET_HASH, READABLE
from lowwater.catalog.time import Skews, is_late
from lowwater.config import section_of
from lowwater.errors import LakeError
from lowwater.storage import paths

MOST_RECORDS = 1 << 22
"""Records that are compared at once. Where a window holds more, their hashes are compared in several classes."""

_TIMES = ("timestamp", "arrival")


@dataclass(frozen=True)
class HashedFile:
    """A file of `packets/` with hashes.

    Attributes:
        path: path of the file.
        rows: number of packets.
        clock: clock of the link before its capture, ns.
        first: arrival of its first packet, ns.
        last: arrival of its last packet, ns.
    """

    path: PurePath
    rows: int
    clock: int
    first: int
    last: int


@dataclass(frozen=True)
class HashedLink:
    """The packets of a link whose copies are looked for, or among which they are looked for.

    Attributes:
        link: name of the link.
        files: files in the order of the link.
        since: begin of the link's life, ns.
        until: end of its life, ns, exclusive.
        skews: skews of its records; late records are not compared (D3).
    """

    link: str
    files: tuple[HashedFile, ...]
    since: int
    until: int
    skews: Skews


@dataclass(frozen=True)
class CopyRule:
    """How the copies of a link's packets are found; picklable.

    Attributes:
        window: longest time from a packet to its copy, ns.
        drop: whether copies do not belong to the link.
        own: the link.
        others: other links, in which earlier packets with the same bytes are looked for, for reports.
    """

    window: int
    drop: bool
    own: HashedLink
    others: tuple[HashedLink, ...] = ()


class CopyFinder:
    """Finds the copies among the packets of a link.

    It holds the hashes of the files that a window reaches. More than MOST_RECORDS are divided into classes by their
    hash; a class is larger only where many of the records are copies of one packet.

    Args:
        rule: how copies are found.
    """

    def __init__(self, rule: CopyRule) -> None:
        self.link = rule.own.link
        self._rule = rule
        self._links = sorted([rule.own, *rule.others], key=lambda link: link.link)
        self._places = {file.path: file for file in rule.own.files}
        self._loaded: dict[PurePath, tuple[Hashed, NDArray[np.int64]]] = {}
        self._found: tuple[PurePath | None, NDArray[np.bool_], NDArray[np.bool_]] = None, _NONE, _NONE

    def copies_of(self, path: PurePath) -> NDArray[np.bool_]:
        """Returns for every packet of a file whether it is a copy of an earlier one of the link.

        Raises:
            LakeError: if a file has no hashes.
            OSError: if a file cannot be read.
        """
        return self._of(path)[0]

    def seen_elsewhere(self, path: PurePath) -> NDArray[np.bool_]:
        """Returns for every packet of a file whether an earlier one of another link has its bytes. Raises as above."""
        return self._of(path)[1]

    def _of(self, path: PurePath) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        if self._found[0] != path:
            self._found = path, *self._find(self._places[path])
        return self._found[1:]

    def _find(self, file: HashedFile) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        # Packets of the file that are not late, and earlier ones of a window, have timestamps of [low, high].
        low, high = file.first - self._rule.own.skews.longest - self._rule.window, file.last
        near = [
            (group, link, other)
            for group, link in enumerate(self._links)
            for other in link.files
            if other.last >= low and other.first <= high + link.skews.longest
        ]
        classes = -(-sum(other.rows for _, _, other in near) // MOST_RECORDS)
        kept = {other.path for _, _, other in near} if classes == 1 else set()
        self._loaded = {path: loaded for path, loaded in self._loaded.items() if path in kept}
        copied, elsewhere = np.zeros(file.rows, np.bool_), np.zeros(file.rows, np.bool_)
        for number in range(classes):
            parts = [
                (group, other, *self._load(link, other, number, classes, low, high)) for group, link, other in near
            ]
            own = [part[1:] for part in parts if self._links[part[0]] is self._rule.own]
            found = copies(Hashed.joined([records for _, records, _ in own]), self._rule.window)
            _mark(copied, file, own, found)
            if self._rule.others:
                groups = np.concatenate([np.full(len(records), group) for group, _, records, _ in parts])
                every = Hashed.joined([records for _, _, records, _ in parts])
                mine = groups == self._links.index(self._rule.own)
                _mark(elsewhere, file, own, copies(every, self._rule.window, groups)[mine])
        return copied, elsewhere

    def _load(
        self, link: HashedLink, file: HashedFile, number: int, classes: int, low: int, high: int
    ) -> tuple[Hashed, NDArray[np.int64]]:
        """Reads the records of a class of hashes with a timestamp in [low, high], and their numbers in the file."""
        loaded = self._loaded.get(file.path)
        if loaded is None:
            loaded = read_hashes(link, file, number, classes)
            if classes == 1:
                self._loaded[file.path] = loaded
        records, rows = loaded
        chosen = (records.stamps >= low) & (records.stamps <= high)
        return (records, rows) if chosen.all() else (records.take(chosen), rows[chosen])


_NONE = np.zeros(0, np.bool_)


def _mark(
    marks: NDArray[np.bool_],
    file: HashedFile,
    parts: Sequence[tuple[HashedFile, Hashed, NDArray[np.int64]]],
    found: NDArray[np.bool_],
) -> None:
    """Writes what was found for the records of one file into its marks."""
    at = 0
    for other, records, rows in parts:
        if other.path == file.path:
            marks[rows] |= found[at : at + len(records)]
        at += len(records)


def read_hashes(
    link: HashedLink, file: HashedFile, number: int = 0, classes: int = 1
) -> tuple[Hashed, NDArray[np.int64]]:
    """Reads the hashes of the packets that are compared: those of the link's life that are not late.

    Args:
        link: the link of the file.
        file: the file.
        number: class of hashes to read.
        classes: number of classes.

    Returns:
        The records, and their numbers in the file.

    Raises:
        LakeError: if the file has no hashes.
        OSError: if it cannot be read.
    """
    parts, numbers, at = [], [], 0
    for batch in _batches(link, file):
        stamps, arrivals, high, low = (batch.column(name).to_numpy() for name in (*_TIMES, *PACKET_HASH))
        late = is_late(np.maximum(arrivals, file.clock), stamps, link.skews.of(batch))
        chosen = ~late & (stamps >= link.since) & (stamps < link.until)
        if classes > 1:
            chosen &= low.view(np.uint64) % np.uint64(classes) == number
        parts.append(Hashed(high, low, stamps).take(chosen))
        numbers.append(np.flatnonzero(chosen) + at)
        at += batch.num_rows
    return Hashed.joined(parts), np.concatenate(numbers)


def _batches(link: HashedLink, file: HashedFile) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(paths.local(file.path)) as stored:
        names = list(dict.fromkeys([*_TIMES, *PACKET_HASH, *link.skews.columns]))
        there = [name for name in names if name in stored.schema_arrow.names]
        if not set(PACKET_HASH) <= set(there):
            raise LakeError(
                f"link {link.link}: of packets in {file.path.name} no hash is kept, by which copies are found",
                f"keep duplicates in {section_of(link.link)}, and ingest its captures again",
            )
        for batch in stored.iter_batches(1 << 17, columns=there, use_threads=False):
            columns = [
                batch.column(name) if name in there else pa.nulls(batch.num_rows, READABLE.field(name).type)
                for name in names
            ]
            yield pa.RecordBatch.from_arrays(columns, names=names)
