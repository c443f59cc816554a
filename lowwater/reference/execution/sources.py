"""The sources of a query graph: wrappers fill their arcs, and they make enabling timestamps (ETS; section 5).

Below the nodes. A source reads one link for one operator. Its wrapper works beside the system, so that it takes none of
its time.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from enum import Enum
from itertools import count
from typing import NamedTuple

from lowwater.plan.temporal import END_OF_TIME
from lowwater.reference.execution.buffers import Buffer, Message
from lowwater.stream.operators import LEAST, Row
from lowwater.stream.records import Record
from lowwater.stream.values import Values


class Stamps(Enum):
    """Where the timestamps of tuples come from (section 5)."""

    INTERNAL = "internal"
    """From the system's clock, on entry."""
    EXTERNAL = "external"
    """From the application: the timestamp of the record."""
    LATENT = "latent"
    """None: operators that need one would make it."""


class Punctuate(Enum):
    """When sources make punctuation (section 6)."""

    NONE = "none"
    PERIODIC = "periodic"
    ON_DEMAND = "on-demand"


class Reads(NamedTuple):
    """What a source takes of a link.

    Attributes:
        pick: the columns of the operator from the values of a record.
        first: first timestamp (ns) that is read.
        skew: how late (ns) a record may be (SEMANTICS T2).
    """

    pick: Callable[[Values], Values]
    first: int
    skew: int


class Source:
    """One link for one operator.

    Args:
        link: its name.
        arc: the input buffer (section 3).
        stamps: of its tuples.
        reads: what it takes.

    Attributes:
        made: punctuations that it made.
    """

    def __init__(self, link: str, arc: Buffer, stamps: Stamps, reads: Reads) -> None:
        self.link, self.arc, self.made = link, arc, 0
        self._stamps, self._reads = stamps, reads
        self._said = LEAST
        self._latest: tuple[int, int] | None = None
        self._early: list[tuple[int, int, Message]] = []
        self._number = count()

    def start(self, now: int) -> None:
        """The stream starts, which stands for the tuple before the first one."""
        self._latest = now, now

    def enter(self, record: Record, number: int) -> None:
        """The wrapper puts a record into the arc; what is later than the skew is a violation, and left out.

        External tuples wait here until none with a smaller timestamp may come, so that the arc is in order: the input
        manager of Srivastava and Widom, which the paper builds on.
        """
        skew, stamp = self._reads.skew, record.timestamp
        if record.arrival - stamp > skew or stamp < self._reads.first:
            return
        row = Row(self._reads.pick((*record.values, 0)), stamp, (stamp, self.link, number))
        if self._stamps is Stamps.LATENT:
            self.arc.put(Message(LEAST, LEAST, record.arrival, row))
        elif self._stamps is Stamps.INTERNAL:
            self._put(Message(record.arrival, record.arrival - skew, record.arrival, row))
        else:
            assert self._latest is not None
            if stamp >= self._latest[0]:
                self._latest = stamp, record.arrival
            heapq.heappush(self._early, (stamp, next(self._number), Message(stamp, stamp, record.arrival, row)))
            self.let_go(record.arrival)

    def enabling(self, now: int) -> int:
        """The timestamp that an ETS made now has (section 5): (i) internal, (ii) external, t + tau - delta."""
        if self._stamps is Stamps.INTERNAL:
            return now
        assert self._latest is not None
        stamp, arrival = self._latest
        return max(self._said, stamp + (now - arrival) - self._reads.skew)

    def enables_at(self, timestamp: int) -> int:
        """The first instant (ns) at which an ETS is as large as a timestamp."""
        if self._stamps is Stamps.INTERNAL:
            return timestamp
        assert self._latest is not None
        stamp, arrival = self._latest
        return timestamp - stamp + arrival + self._reads.skew

    def let_go(self, now: int) -> None:
        """Puts into the arc the external tuples before which none may come any more."""
        while self._early and self._early[0][0] <= self.enabling(now):
            self._put(heapq.heappop(self._early)[2])

    def due(self) -> int | None:
        """When the first of the tuples that wait in the source may go, ns."""
        return self.enables_at(self._early[0][0]) if self._early else None

    def punctuate(self, now: int) -> None:
        """Makes a punctuation: an ETS, or a periodic one (sections 1 and 5)."""
        value = self.enabling(now)
        self.let_go(now)
        lag = self._reads.skew if self._stamps is Stamps.INTERNAL else 0
        self._put(Message(value, value - lag, now, None))
        self.made += 1

    def close(self, now: int) -> None:
        """The stream has ended: what waits goes, and the last punctuation promises the end of time (SEMANTICS T6)."""
        while self._early:
            self._put(heapq.heappop(self._early)[2])
        self.arc.put(Message(END_OF_TIME, END_OF_TIME, now, None))

    def _put(self, message: Message) -> None:
        self._said = max(self._said, message.timestamp)
        self.arc.put(message)
