"""Which parts may be evaluated: those that end at or before what all sources of their query promise (SEMANTICS P1, P3).

Both runners ask it, so punctuation alone closes a part: without it nothing is evaluated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping
from heapq import merge

from lowwater.errors import LowwaterError
from lowwater.high.part import Part
from lowwater.high.runner import PlanParts, Promises, Source
from lowwater.high.streams import StoredStream
from lowwater.instants import format_instant
from lowwater.plan.temporal import END_OF_TIME


class Closing:
    """The promises of the sources of some queries so far, and the parts that are still open."""

    def __init__(self, plans: Mapping[str, PlanParts]) -> None:
        self._plans = plans
        self._promised = {query: dict.fromkeys(plan.sources, -END_OF_TIME) for query, plan in plans.items()}
        self._open = {query: deque(plan.parts) for query, plan in plans.items()}
        self._readers: dict[Source, list[str]] = {}
        for query, plan in plans.items():
            for source in plan.sources:
                self._readers.setdefault(source, []).append(query)

    def advance(self, source: Source, promise: int) -> Iterator[tuple[str, Part]]:
        """Takes a promise (ns) of a source, and yields (query, part) of each part that it closes."""
        for query in self._readers.get(source, ()):
            promised = self._promised[query]
            # After its last promise a source is silent for ever.
            promised[source] = max(promised[source], END_OF_TIME if promise >= self._plans[query].end else promise)
            least, parts = min(promised.values()), self._open[query]
            while parts and parts[0].slice_.end <= least:
                yield query, parts.popleft()

    def require_all(self) -> None:
        """Checks that no part is left.

        Raises:
            LowwaterError: the promises of a source do not reach the end of the interval.
        """
        for query, parts in self._open.items():
            if parts:
                promised = self._promised[query]
                (name, link), least = min(promised.items(), key=lambda item: item[1])
                said = f"promises up to {format_instant(least)} only" if least > -END_OF_TIME else "promises nothing"
                where = f"the stream of {name}{f' on link {link}' if link else ''}"
                raise LowwaterError(f"query {query}: {where} {said}, so its rows stay open", "run the low stage again")


def closed_parts(plans: Mapping[str, PlanParts], promises: Iterable[Promises]) -> Iterator[list[tuple[str, Part]]]:
    """Yields the (query, part) that promises read together have closed.

    Raises:
        LowwaterError: see `Closing.require_all`.
    """
    closing = Closing(plans)
    for promised in promises:
        yield [closed for source, promise in promised for closed in closing.advance(source, promise)]
    closing.require_all()


def stored_promises(feeds: Mapping[Source, StoredStream]) -> Generator[Promises]:
    """Yields the promises of stored streams one by one, in the order of their ticks."""
    rows = [[(each.until, each.latest, source) for each in feed.promises] for source, feed in feeds.items()]
    for _, promise, source in merge(*rows, key=lambda row: row[0]):
        yield [(source, promise)]


class ReadOnce:
    """Promises that are read from their source once, and given from the first one on to everyone who asks."""

    def __init__(self, source: Generator[Promises]) -> None:
        self._source = source
        self._read: list[Promises] = []

    def __iter__(self) -> Iterator[Promises]:
        yield from self._read
        for promised in self._source:
            self._read.append(promised)
            yield promised

    def close(self) -> None:
        """Ends the source, whether or not it was read to its end."""
        self._source.close()
