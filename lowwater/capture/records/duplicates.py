"""Copies of packets: which records have the bytes of an earlier one within a window (SEMANTICS D2).

`inspect` counts them in a stream of one file; the reader of a lake finds them in files of `packets/`. Both compare
hashes (`content.packet_hashes`).
"""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lowwater.catalog.time import is_late, promise_at
from lowwater.limits import HASH_CLASSES, UNCOMPARED_RECORDS


@dataclass(frozen=True)
class Hashed:
    """Hashes and times of records in the order of their link.

    Attributes:
        high: upper 64 bits of the hashes, shape (n).
        low: lower 64 bits, shape (n).
        stamps: timestamps, ns, shape (n).
    """

    high: NDArray[np.int64]
    low: NDArray[np.int64]
    stamps: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.stamps)

    def take(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> Hashed:
        """Returns some records."""
        return Hashed(self.high[chosen], self.low[chosen], self.stamps[chosen])

    @staticmethod
    def joined(parts: list[Hashed]) -> Hashed:
        """Returns the records of all parts, one part after the other."""
        return Hashed(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("high", "low", "stamps")))


def find_duplicates(records: Hashed, window: int, groups: NDArray[np.int64] | None = None) -> NDArray[np.bool_]:
    """Finds the records that are duplicates of an earlier one.

    The earlier of two records has the smaller timestamp, or the smaller group, or the smaller index, in this order.

    Args:
        window: longest time from a record to its copy, ns.
        groups: shape (n), numbers of the links: only a record of another group makes a copy. None: any record does.

    Returns:
        shape (n): whether an earlier record has the same hash, and is at most `window` before it.

    Example:
        >>> hashes = np.array([7, 7, 8, 7])
        >>> find_duplicates(Hashed(hashes, hashes, np.array([10, 14, 15, 20])), 5).tolist()
        [False, True, False, False]
    """
    marks = np.zeros(len(records), np.bool_)
    chosen = _shared(records)
    if not len(chosen):
        return marks
    high, low, stamps = (values[chosen] for values in (records.high, records.low, records.stamps))
    group = np.zeros(len(chosen), np.int64) if groups is None else groups[chosen]
    order = np.lexsort((group, stamps, low, high))  # stable, so equal rows stay in the order of their indices
    high, low, stamps, group = high[order], low[order], stamps[order], group[order]
    same = np.zeros(len(order), np.bool_)
    same[1:] = (high[1:] == high[:-1]) & (low[1:] == low[:-1])
    if groups is None:
        before, copied = np.arange(-1, len(order) - 1), same
    else:
        # Of the records with one hash, the last one of another group stands before the run of equal groups.
        begins = ~same
        begins[1:] |= group[1:] != group[:-1]
        first = np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))
        before, copied = first - 1, same[first]
    copied = copied.copy()
    copied[copied] = stamps[copied] - stamps[before[copied]] <= window
    marks[chosen[order[copied]]] = True
    return marks


def _shared(records: Hashed) -> NDArray[np.int64]:
    """Returns the indices, ascending, of the records whose upper half several records have: few, as a rule."""
    order = np.argsort(records.high, kind="stable")
    ordered = records.high[order]
    equal = ordered[1:] == ordered[:-1]
    shared = np.zeros(len(order), np.bool_)
    shared[1:] |= equal
    shared[:-1] |= equal
    chosen: NDArray[np.int64] = np.sort(order[shared])
    return chosen


class DuplicateCounter:
    """Counts the duplicates among the records of one link, which come in order of arrival.

    It holds the records of the last `window + skew` of the clock, and as many more, at least UNCOMPARED_RECORDS: so a
    record that stays within the window is compared a few times, however many records there are.

    Args:
        window: longest time from a record to its copy, ns.
        skew: records that are later than this are not compared, ns.

    Attributes:
        compared: number of records that are not late.
        copies: number of duplicates among the records that are decided; after `finish`, among all.
    """

    def __init__(self, window: int, skew: int) -> None:
        self.window = window
        self.compared = 0
        self.copies = 0
        self._skew = skew
        self._decided = -1  # records before this instant are counted, ns
        self._clock = -1
        self._waiting: list[Hashed] = []
        self._rows = self._kept = 0

    def add(self, records: Hashed, arrivals: NDArray[np.int64]) -> Hashed:
        """Adds records with their arrivals, ns; returns those that are not late."""
        late = is_late(arrivals, records.stamps, self._skew)
        part = records.take(~late) if late.any() else records
        self.compared += len(part)
        self._waiting.append(part)
        self._rows += len(part)
        self._clock = int(arrivals[-1]) if len(arrivals) else self._clock
        if self._rows >= max(UNCOMPARED_RECORDS, self._kept):
            self._decide(promise_at(self._clock, self._skew))
            self._rows = 0
        return part

    def finish(self) -> None:
        """Counts the duplicates among the records that still wait."""
        self._decide(self._clock + 1)

    def _decide(self, until: int) -> None:
        if not self._waiting or until <= self._decided:
            return
        records = Hashed.joined(self._waiting)
        new = (records.stamps >= self._decided) & (records.stamps < until)
        self.copies += int(np.count_nonzero(find_duplicates(records, self.window) & new))
        self._waiting = [records.take(records.stamps >= until - self.window)]
        self._kept = len(self._waiting[0])
        self._decided = until


# Copies across links (SEMANTICS D2). `inspect` reads links one after the other, so the hashes of all records wait in
# files by hash until every link is read. The audits of a lake find such duplicates by reading all links side by side
# instead (`lake.packets`).


class DuplicateSpool:
    """Counts the records that are duplicates of a record of another link; a context manager, which removes its files.

    Each record takes 32 bytes on disk.

    Args:
        window: longest time from a record to its copy, ns.
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self._folder = tempfile.TemporaryDirectory(prefix="lowwater-copies-")
        self.links = 0

    def __enter__(self) -> DuplicateSpool:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def link(self) -> int:
        """Returns a number for another link."""
        self.links += 1
        return self.links - 1

    def add(self, link: int, records: Hashed) -> None:
        """Adds records of a link, in any order."""
        classes = records.high & (HASH_CLASSES - 1)
        rows = np.stack((records.high, records.low, records.stamps, np.full(len(records), link)), axis=1)
        for number in np.unique(classes):
            with self._file(number).open("ab") as file:
                file.write(rows[classes == number].tobytes())

    def count(self) -> Counter[int]:
        """Returns for each link how many of its records another link has earlier."""
        counts: Counter[int] = Counter()
        for number in range(HASH_CLASSES):
            if not (file := self._file(number)).exists():
                continue
            high, low, stamps, links = np.ascontiguousarray(np.fromfile(file, np.int64).reshape(-1, 4).T)
            counts.update(links[find_duplicates(Hashed(high, low, stamps), self._window, links)].tolist())
        return counts

    def _file(self, number: int) -> Path:
        return Path(self._folder.name) / str(number)
