"""Sample of a folder of captures before a lake exists: first timestamps of all files, and facts of some.

Below the proposal. A file is read at most once for every question. Files of records that are no packets are read by a
protocol that is proposed for all files of like names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from lowwater.capture.formats.classic import STAMP
from lowwater.capture.formats.header import open_capture
from lowwater.capture.inspect import CaptureFacts, doubts, inspect_times
from lowwater.capture.reader import read
from lowwater.capture.tables.reader import first_timestamp, inspect_records, refused_fields
from lowwater.capture.tables.sniffing import BEARABLE, Kind, SniffedTable, sniff
from lowwater.config import Link
from lowwater.errors import CaptureError
from lowwater.lake.files.protocols import LogProposal, RecordProposal, propose_log, propose_protocol, weaker

BEGINNING = 1 << 16
"""Bytes read at a time to find the first record of a capture."""


@dataclass
class Sample:
    """The captures below a folder.

    Attributes:
        count: number of files of a link to read to the end, at least 2: the first, the last, and some between them.
        progress: called with the name of the file that is being read.
        skipped: file that is no capture, or left out -> reason.
        copies: file with the bytes of another one with a like name -> that file.
        records: file of records that are no packets -> the protocol by which it is read.
    """

    folder: Path
    count: int
    progress: Callable[[str], None] = lambda text: None
    skipped: dict[str, str] = field(default_factory=dict)
    copies: dict[str, str] = field(default_factory=dict)
    records: dict[str, RecordProposal | LogProposal] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.first = cache(self._first)
        self._read_before: dict[str, CaptureFacts | None] = {}

    def facts(self, name: str) -> CaptureFacts | None:
        """Returns the facts of a file; None if it is no capture."""
        if name not in self._read_before:
            self._read_before[name] = self._facts(name)
        return self._read_before[name]

    def describe(self, names: Sequence[str], link: str) -> None:
        """Proposes a protocol for files of like names that hold records, but no packets; reads some of them.

        A type that a file read whole refuses for more than a few values gives way to a wider one.

        Args:
            link: name of their link, after which the protocol is called.
        """
        chosen = self.spread(names)
        table = self._table(chosen)
        if table is None:
            return
        if isinstance(table, LogProposal):
            self._settle(names, table)
            return
        others: dict[str, Kind | None] = {}
        try:
            for _ in range(len(table.columns)):
                proposal = propose_protocol(table, link, others)
                self._settle(names, proposal)
                if not (wider := self._refusing(chosen, proposal)):
                    break
                others |= wider
            facts = [capture for name in chosen if (capture := self.facts(name)) is not None]
            self._settle(names, replace(proposal, refused=refused_fields(facts)), clear=False)
        except CaptureError as error:
            for name in names:
                self.records.pop(name, None)
            self.skipped |= dict.fromkeys(names, error.message)

    def _table(self, names: Sequence[str]) -> SniffedTable | LogProposal | None:
        """Returns what the first file with records holds; None if there are captures among the files, or no records."""
        reasons: dict[str, str] = {}
        for name in names:
            self.progress(name)
            try:
                open_capture(self.folder / name)
                return None
            except CaptureError as error:
                reasons[name] = error.message
        for name in names:
            try:
                return propose_log(self.folder / name) or sniff(self.folder / name)
            except CaptureError as error:
                reasons[name] = error.message
        self.skipped |= reasons
        return None

    def _settle(self, names: Sequence[str], proposal: RecordProposal | LogProposal, clear: bool = True) -> None:
        """Reads files by a proposal from now on."""
        self.records |= dict.fromkeys(names, proposal)
        for name in names if clear else ():
            self._read_before.pop(name, None)

    def _refusing(self, names: Sequence[str], proposal: RecordProposal) -> dict[str, Kind | None]:
        """Returns wider types for the columns whose type refuses too many values of the files.

        Raises:
            CaptureError: the clock is among them.
        """
        facts = [capture for name in names if (capture := self.facts(name)) is not None]
        records = sum(
            capture.interfaces[0].packets + sum(capture.interfaces[0].malformed.values()) for capture in facts
        )
        refused = {name: count for name, count in refused_fields(facts).items() if count > BEARABLE * records}
        if proposal.clock in refused:
            raise CaptureError(
                f"its records have no clock: {refused[proposal.clock]:,} of {records:,} values of {proposal.clock} are "
                "no times"
            )
        return {
            each.column.label: weaker(each.column, proposal.table.kind)
            for each in proposal.fields
            if each.name in refused
        }

    def _jump(self, proposal: RecordProposal | LogProposal) -> int:
        """Returns how far a timestamp may be ahead, ns, so that the disorder of the sample passes."""
        if isinstance(proposal, LogProposal):
            return Link().jump + proposal.ahead
        assert proposal.table.clock is not None
        found = proposal.table.disorders.get(proposal.table.clock)
        return Link().jump + (found.largest if found else 0)

    def _first(self, name: str) -> int | None:
        """Returns the first sane timestamp of a file, ns; None without one."""
        self.progress(name)
        try:
            if proposal := self.records.get(name):
                return first_timestamp(self.folder / name, proposal.options, self._jump(proposal))
            with closing(read(self.folder / name, Link().jump, BEGINNING, sha256="").spans()) as spans:
                return next((int(span.records[STAMP, span.sane[0]]) for span in spans if len(span.sane)), None)
        except CaptureError as error:
            self.skipped.setdefault(name, error.message)
            return None

    def _facts(self, name: str) -> CaptureFacts | None:
        self.progress(name)
        try:
            if proposal := self.records.get(name):
                path = self.folder / name
                return inspect_records(path, proposal.options, self._jump(proposal), Link().skew)
            open_capture(self.folder / name)
            return _as_it_looks(inspect_times(self.folder / name, Link().jump, Link().skew))
        except CaptureError as error:
            self.skipped.setdefault(name, error.message)
            return None

    def disorder(self, names: Sequence[str]) -> int:
        """Returns twice how far the records of logs are behind, ns: a tool writes a record when it ends; else 0."""
        logs = [name for name in names if isinstance(self.records.get(name), LogProposal)]
        late = [one.lateness.largest for name in logs if (facts := self.facts(name)) for one in facts.interfaces]
        return 2 * max(late, default=0)

    def spread(self, names: Sequence[str]) -> list[str]:
        """Selects the first name, the last one, and some between them."""
        count = max(self.count, 2)
        if len(names) <= count:
            return list(names)
        step = (len(names) - 1) / (count - 1)
        return [names[round(number * step)] for number in range(count)]

    def in_order(self, names: Sequence[str]) -> list[str]:
        """Returns the files with a record, without copies of others, in the order of their first timestamp."""
        wanted = {*names}
        own = [name for name in names if self.copies.get(name) not in wanted]
        firsts = {name: first for name in own if (first := self.first(name)) is not None}
        return sorted(firsts, key=lambda name: (firsts[name], name))


def _as_it_looks(facts: CaptureFacts) -> CaptureFacts:
    """Reads a capture again by another unit of its times, if the one that it says is impossible and that one is not."""
    for doubt in doubts(facts):
        if doubt.impossible and doubt.resolution:
            other = inspect_times(facts.path, Link().jump, Link().skew, doubt.resolution)
            if other.summary.packets and not any(later.impossible for later in doubts(other)):
                return replace(other, doubted=doubt.words)
    return facts


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
