"""Gaps: what lies behind records that still wait for judgement and need not wait with them.

Between `stream`, which finds gaps, and `judging`, which turns their malformed rows into rows of the capture.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from lowwater.capture.formats import scan as scanning
from lowwater.capture.formats.window import FileWindow
from lowwater.capture.records.malformed import MalformedRows

PASSED_RECORDS = 1 << 11
"""Malformed records behind the waiting ones after which they become a gap; 17 runs of them fit into the table."""

PASSED_BYTES = scanning.PASSED
"""Bytes behind the waiting records after which they become a gap."""

_FARTHEST = 16 << 20
"""Bytes. Discarding moves the bytes before the gap; a gap of this size is discarded however many must move."""


@dataclass
class Gap:
    """Damage, malformed records and other blocks behind some waiting records.

    Attributes:
        before: number of waiting records before the gap.
        rows: malformed rows of the gap.
        discarded: bytes of the gap that were removed from the window.
    """

    before: int
    rows: MalformedRows
    discarded: int = 0


class GapQueue:
    """The gaps between waiting records, in file order, and the bytes that were removed from the window for them.

    Args:
        window: the window of the file.
        malformed: malformed rows of the capture, of which each gap gets a part.
    """

    def __init__(self, window: FileWindow, malformed: MalformedRows) -> None:
        self._window = window
        self._malformed = malformed
        self._gaps: deque[Gap] = deque()
        self._discarded = 0

    def behind(self, records: int) -> Gap:
        """Returns the gap behind this number of waiting records; opens one if there is none."""
        if not self._gaps or self._gaps[-1].before < records:
            self._gaps.append(Gap(records, self._malformed.part()))
        return self._gaps[-1]

    def next_within(self, records: int) -> Gap | None:
        """Returns the first gap with at most this number of records before it; None if there is none."""
        return self._gaps[0] if self._gaps and self._gaps[0].before <= records else None

    def close_first(self) -> Gap:
        """Removes the first gap: everything before it is judged."""
        gap = self._gaps.popleft()
        self._discarded -= gap.discarded
        return gap

    def shift(self, records: int) -> None:
        """Reduces the record counts by the number of records that no longer wait."""
        if records:
            for gap in self._gaps:
                gap.before -= records

    def discard(self, begin: int, end: int, least: int) -> int:
        """Discards window bytes [begin, end), once they are worth the move of the bytes before them.

        Args:
            begin: index behind the last waiting record, or the window's begin.
            end: index at which the scan continues.
            least: fewest bytes to discard.

        Returns:
            Number of bytes discarded, 0 if they are too few.
        """
        size = end - begin
        if size < max(min(begin - self._window.begin, _FARTHEST), least):
            return 0
        self._window.take_out(begin, end)
        self._discarded += size
        return size

    def offset(self, index: int) -> int:
        """Returns the file offset of buffer[index], which lies before all gaps."""
        return self._window.origin + index - self._discarded
