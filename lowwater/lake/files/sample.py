"""What is read of the captures of a folder before a lake exists: when each begins, and a sample of them whole.

Below the proposal. Every file is read once at most, however often it is asked about.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from lowwater.capture.formats.header import open_capture
from lowwater.capture.inspect import CaptureFacts, inspect
from lowwater.capture.reader import read
from lowwater.config import Link
from lowwater.errors import CaptureError

BEGINNING = 1 << 16
"""Bytes of a capture in which its first record is looked for at a time."""


@dataclass
class Sample:
    """The captures below a folder.

    Attributes:
        folder: where they are.
        count: files of a link that are read whole: the first, the last, and some between them; two at least.
        progress: is told what is being read.
        skipped: files that are no captures, with why.
    """

    folder: Path
    count: int
    progress: Callable[[str], None] = lambda text: None
    skipped: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.first = cache(self._first)
        self.facts = cache(self._facts)

    def _first(self, name: str) -> int | None:
        """The first sane timestamp of a file, ns; None without one."""
        self.progress(name)
        try:
            reader = read(self.folder / name, Link().jump, BEGINNING, sha256="", columns=("timestamp",))
            batches = reader.by_interface()
            _, batch = next(batches, (None, None))
            batches.close()  # type: ignore[attr-defined]
        except CaptureError as error:
            self.skipped[name] = error.message
            return None
        return None if batch is None else int(batch.column("timestamp")[0].as_py())

    def _facts(self, name: str) -> CaptureFacts | None:
        """What a file holds; None of what is no capture."""
        self.progress(name)
        try:
            open_capture(self.folder / name)
            return inspect(self.folder / name, Link().jump, Link().skew)
        except CaptureError as error:
            self.skipped[name] = error.message
            return None

    def spread(self, names: Sequence[str]) -> list[str]:
        """Of names in order the first, the last and some between them."""
        count = max(self.count, 2)
        if len(names) <= count:
            return list(names)
        step = (len(names) - 1) / (count - 1)
        return [names[round(number * step)] for number in range(count)]

    def in_order(self, names: Sequence[str]) -> list[str]:
        """Those of the files that hold a record, by when they begin."""
        firsts = {name: first for name in names if (first := self.first(name)) is not None}
        return sorted(firsts, key=lambda name: (firsts[name], name))


def earliest(facts: CaptureFacts, skew: int) -> int | None:
    """The smallest timestamp of a capture that a link with this skew does not refuse, ns; None without a record.

    Of a record that is refused the link is no earlier: it may be of a clock that was set wrong by years.
    """
    found = [
        max(each.summary.smallest, each.summary.first - skew)
        for each in facts.interfaces
        if each.summary and each.summary.smallest is not None and each.summary.first is not None
    ]
    return min(found, default=None)


def largest(facts: CaptureFacts) -> int | None:
    """The largest timestamp of a capture, ns; None without a record."""
    found = [each.summary.largest for each in facts.interfaces if each.summary and each.summary.largest is not None]
    return max(found, default=None)
