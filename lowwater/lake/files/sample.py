"""Sample of a folder of captures before a lake exists: first timestamps of all files, and facts of some.

Below the proposal. A file is read at most once for every question.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from lowwater.capture.formats.header import open_capture
from lowwater.capture.formats.scan import STAMP
from lowwater.capture.inspect import CaptureFacts, inspect_times
from lowwater.capture.reader import read
from lowwater.config import Link
from lowwater.errors import CaptureError

BEGINNING = 1 << 16
"""Bytes read at a time to find the first record of a capture."""


@dataclass
class Sample:
    """The captures below a folder.

    Attributes:
        folder: the folder.
        count: number of files of a link to read to the end, at least 2: the first, the last, and some between them.
        progress: called with the name of the file that is being read.
        skipped: file that is no capture -> reason.
    """

    folder: Path
    count: int
    progress: Callable[[str], None] = lambda text: None
    skipped: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.first = cache(self._first)
        self.facts = cache(self._facts)

    def _first(self, name: str) -> int | None:
        """Returns the first sane timestamp of a file, ns; None without one."""
        self.progress(name)
        try:
            with closing(read(self.folder / name, Link().jump, BEGINNING, sha256="").spans()) as spans:
                return next((int(span.records[STAMP, span.sane[0]]) for span in spans if len(span.sane)), None)
        except CaptureError as error:
            self.skipped[name] = error.message
            return None

    def _facts(self, name: str) -> CaptureFacts | None:
        """Returns the facts of a file; None if it is no capture."""
        self.progress(name)
        try:
            open_capture(self.folder / name)
            return inspect_times(self.folder / name, Link().jump, Link().skew)
        except CaptureError as error:
            self.skipped[name] = error.message
            return None

    def spread(self, names: Sequence[str]) -> list[str]:
        """Selects the first name, the last one, and some between them."""
        count = max(self.count, 2)
        if len(names) <= count:
            return list(names)
        step = (len(names) - 1) / (count - 1)
        return [names[round(number * step)] for number in range(count)]

    def in_order(self, names: Sequence[str]) -> list[str]:
        """Returns the files with a record, in the order of their first timestamp."""
        firsts = {name: first for name in names if (first := self.first(name)) is not None}
        return sorted(firsts, key=lambda name: (firsts[name], name))


def earliest(facts: CaptureFacts, skew: int) -> int | None:
    """Returns the smallest timestamp (ns) of a capture that a link with this skew admits; None without a record.

    A refused record does not move the begin of the link: its clock may have been wrong by years.
    """
    smallest = [
        max(interface.summary.smallest, interface.summary.first - skew)
        for interface in facts.interfaces
        if interface.summary and interface.summary.smallest is not None and interface.summary.first is not None
    ]
    return min(smallest, default=None)


def largest(facts: CaptureFacts) -> int | None:
    """Returns the largest timestamp of a capture, ns; None without a record."""
    largest_stamps = [
        interface.summary.largest
        for interface in facts.interfaces
        if interface.summary and interface.summary.largest is not None
    ]
    return max(largest_stamps, default=None)
