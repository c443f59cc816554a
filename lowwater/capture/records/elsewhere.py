"""Copies across links: which records of one link another link has earlier, within a window (SEMANTICS D2).

`inspect` reads links one after the other, so the hashes of all records wait in files by hash until every link is read.
The audits of a lake find such copies by reading all links side by side instead (`lake.copies`).
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

from lowwater.capture.records.copies import Hashed, copies

_CLASSES = 64
"""Classes of hashes. One of them at a time is in memory, and the others are in files."""


class CopySpool:
    """Counts the records that are copies of a record of another link; a context manager, which removes its files.

    Each record takes 32 bytes on disk.

    Args:
        window: longest time from a record to its copy, ns.
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self._folder = tempfile.TemporaryDirectory(prefix="lowwater-copies-")
        self.links = 0

    def __enter__(self) -> CopySpool:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def link(self) -> int:
        """Returns a number for another link."""
        self.links += 1
        return self.links - 1

    def add(self, link: int, records: Hashed) -> None:
        """Adds records of a link, in any order."""
        classes = records.high & (_CLASSES - 1)
        rows = np.stack((records.high, records.low, records.stamps, np.full(len(records), link)), axis=1)
        for number in np.unique(classes):
            with self._file(number).open("ab") as file:
                file.write(rows[classes == number].tobytes())

    def count(self) -> Counter[int]:
        """Returns for each link how many of its records another link has earlier."""
        counts: Counter[int] = Counter()
        for number in range(_CLASSES):
            if not (file := self._file(number)).exists():
                continue
            high, low, stamps, links = np.ascontiguousarray(np.fromfile(file, np.int64).reshape(-1, 4).T)
            counts.update(links[copies(Hashed(high, low, stamps), self._window, links)].tolist())
        return counts

    def _file(self, number: int) -> Path:
        return Path(self._folder.name) / str(number)
