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

_TIMES = {"ts", "firstSeen"}
"""Names of the clock; a line with one of them between commas is a header."""

_NAMED = {"sa", "da", "srcAddr", "dstAddr"}
"""Names of addresses, one of which every flow has; statistics (`nfdump -s`) have a column `val`."""

_TOTALS = b"flows,bytes,packets,"
_WORDS = (b"Summary", b"No matched flows", b"Time window:", b"Total flows processed:", b"Sys:")
_STATISTICS = "statistics"
_NULL = ("", "0000-00-00 00:00:00.000")


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
        totals, self._totals = self._totals, line.startswith(_TOTALS)
        if self._totals or line.startswith(_WORDS):
            return False
        names = [name.strip() for name in line.decode("utf-8", "replace").split(",")]
        if not _TIMES.isdisjoint(names):
            left_out = "" if _NAMED & set(names) else _STATISTICS
            section = Section(Splitter(",", "", _NULL, 0, ()), (), left_out=left_out)
            self.begin_section(names, tuple(names), section)
            return False
        return not totals

    def no_header(self, line: bytes) -> CaptureError:
        """Returns the error for flows without a header."""
        return CaptureError(
            f"{self._path}: begins with {line[:60]!r}, and the CSV of nfdump begins with the names of its columns",
            "write it with nfdump -o csv, without -q",
        )

    def other_log(self, name: str) -> CaptureError:
        """Returns the error for a file without flows."""
        return CaptureError(
            f"{self._path}: has {name} of nfdump, and {self._layout.protocol} reads flows",
            "write it with nfdump -o csv, without -s",
        )
