"""Flows as `nfdump -o csv` writes them: a header, the flows, and a summary behind them.

A parser of `reader`. The columns are found by the header, since versions of nfdump have others.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lowwater.capture.formats.sources import Source
from lowwater.capture.tables.blocks import Block
from lowwater.capture.tables.logs.sections import Section, SectionedParser
from lowwater.capture.tables.splitting import Splitter
from lowwater.catalog.records import RecordLayout
from lowwater.errors import CaptureError

_HEADERS = (b"ts,", b"firstSeen,")
_TOTALS = b"flows,bytes,packets,"
_WORDS = (b"Summary", b"No matched flows")


class NfdumpParser(SectionedParser):
    """Parses the CSV of nfdump; iterate it once. Arguments as of `SectionedParser`."""

    def __init__(self, path: Path, source: Source, layout: RecordLayout, damaged: Callable[[], bool]) -> None:
        super().__init__(path, source, layout, damaged)
        self._totals = False

    def marks(self, block: Block) -> NDArray[np.int64]:
        """Returns the lines that do not begin with a digit, and those behind them: totals follow their names."""
        if not len(block):
            return np.empty(0, np.int64)
        first = np.frombuffer(block.data, np.uint8)[block.begins]
        words = np.flatnonzero((first < ord("0")) | (first > ord("9")))
        near = np.concatenate([[0], words, words + 1])
        return np.unique(near[near < len(block)])

    def head(self, line: bytes) -> bool:
        """Reads a line that may be of a header or a summary."""
        line = line.strip()
        if self._totals:
            self._totals = False
            if not line.startswith(_HEADERS):
                return False
        if line.startswith(_HEADERS):
            names = [name.strip() for name in line.decode("utf-8", "replace").split(",")]
            made = Section(Splitter(",", "", ("",), 0, ()), ())
            self._section = self.section_of(names, tuple(names), made)
            return False
        self._totals = line.startswith(_TOTALS)
        return not (self._totals or line in _WORDS)

    def no_header(self, line: bytes) -> CaptureError:
        """Returns the error for flows without a header."""
        return CaptureError(
            f"{self._path}: begins with {line[:60]!r}, and the CSV of nfdump begins with the names of its columns",
            "write it with nfdump -o csv, without -q",
        )
