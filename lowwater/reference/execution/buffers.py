"""The arcs of a query graph: buffers of tuples and punctuation (section 3).

Below the operators and sources of `reference.execution`, which put messages in and take them out.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from lowwater.stream.operators import Row


class Message(NamedTuple):
    """A tuple, or a punctuation, which has no row.

    Attributes:
        timestamp: ns; no later message of the same arc has a smaller one (section 1).
        bound: ns; no later row of the same arc has a smaller `_last` (SEMANTICS P1). It is the timestamp where both
            are of one clock, and lags by the skew of the link where tuples are stamped on entry.
        entered: the instant (ns) at which the tuple entered the system, or the punctuation was made.
        row: of the tuple; None for a punctuation.
    """

    timestamp: int
    bound: int
    entered: int
    row: Row | None


@dataclass
class Queued:
    """How much all buffers of a graph hold together (section 6, memory usage).

    Attributes:
        tuples: now; `punctuations` now.
        peak: the most of both at once; `punctuation_part` the punctuations of that peak.
        most_tuples: the most tuples at once.
    """

    tuples: int = 0
    punctuations: int = 0
    peak: int = 0
    punctuation_part: int = 0
    most_tuples: int = 0

    def add(self, tuples: int, punctuations: int) -> None:
        """Counts messages that are put in; negative numbers those that are taken out."""
        self.tuples += tuples
        self.punctuations += punctuations
        if self.tuples > self.most_tuples:
            self.most_tuples = self.tuples
        if self.tuples + self.punctuations > self.peak:
            self.peak, self.punctuation_part = self.tuples + self.punctuations, self.punctuations


class Buffer:
    """An arc: its producer puts messages at the tail, its consumer takes them from the front (section 3).

    Attributes:
        messages: in order.
        tuples: how many of them are tuples.
    """

    def __init__(self, queued: Queued) -> None:
        self.messages: deque[Message] = deque()
        self.tuples = 0
        self._queued = queued

    def put(self, message: Message) -> None:
        """Production."""
        self.messages.append(message)
        if message.row is None:
            self._queued.add(0, 1)
        else:
            self.tuples += 1
            self._queued.add(1, 0)

    def take(self) -> Message:
        """Consumption."""
        message = self.messages.popleft()
        if message.row is None:
            self._queued.add(0, -1)
        else:
            self.tuples -= 1
            self._queued.add(-1, 0)
        return message

    def first_tuple(self) -> int | None:
        """The timestamp of the first tuple; None where only punctuation waits, or nothing."""
        if not self.tuples:
            return None
        return next(message.timestamp for message in self.messages if message.row is not None)
