"""Proposed links for logs that a ready protocol reads.

Beside `protocols`, which proposes PROTOCOL blocks for other files of records.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lowwater.capture.records.sanity import END_OF_TIME
from lowwater.capture.tables.reader import TableOptions, inspect_records
from lowwater.capture.tables.sniffing.logs import SniffedLog, sniff_log
from lowwater.config import Link


@dataclass(frozen=True)
class LogProposal:
    """The ready protocol by which the records of a link are read.

    Attributes:
        log: what was found in a sample.
        ahead: how far its records run behind one another, ns.
    """

    log: SniffedLog
    ahead: int

    @property
    def options(self) -> TableOptions:
        """How the records are read."""
        return TableOptions(self.log.kind, self.log.layout)

    @property
    def protocol(self) -> str:
        """Name of the ready protocol."""
        return self.log.protocol


def propose_log(path: Path) -> LogProposal | None:
    """Proposes the ready protocol of a log, and reads it once for its disorder; None if the file is no such log.

    A log is written when a flow ends, so its times run behind by minutes, which are no time jumps.

    Raises:
        CaptureError: the file cannot be read, or no ready protocol reads this log of its tool.
    """
    log = sniff_log(path)
    if log is None:
        return None
    facts = inspect_records(path, TableOptions(log.kind, log.layout), END_OF_TIME, Link().skew)
    return LogProposal(log, facts.interfaces[0].lateness.largest)
