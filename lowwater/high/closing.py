"""Which parts may be evaluated: those that end at or before what all sources of their query promise (SEMANTICS P1, P3).

Both runners ask it, so punctuation alone closes a part: without it nothing is evaluated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from heapq import merge

from lowwater.errors import LowwaterError
from lowwater.high.runner import PlanParts, Source
from lowwater.high.slices.part import Part
from lowwater.instants import format_instant
from lowwater.plan.temporal import END_OF_TIME


class Closing:
    """The promises of the sources of some queries so far, and the parts that are still open.

    Args:
        plans: query -> its parts.
    """

    def __init__(self, plans: Mapping[str, PlanParts]) -> None:
        self._plans = plans
        self._promised = {query: dict.fromkeys(plan.promises, -END_OF_TIME) for query, plan in plans.items()}
        self._open = {query: deque(plan.parts) for query, plan in plans.items()}
        self._readers: dict[Source, list[str]] = {}
        for query, plan in plans.items():
            for source in plan.promises:
                self._readers.setdefault(source, []).append(query)

    def advance(self, source: Source, promise: int) -> Iterator[tuple[str, Part]]:
        """Takes a promise (ns) of a source, and yields (query, part) of each part that it closes."""
        for query in self._readers[source]:
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


def closed_parts(plans: Mapping[str, PlanParts]) -> Iterator[tuple[str, Part]]:
    """Yields (query, part) of all parts as the stored punctuation closes them, in the order of its ticks.

    Raises:
        LowwaterError: see `Closing.require_all`.
    """
    closing = Closing(plans)
    sources = {source: promises for plan in plans.values() for source, promises in plan.promises.items()}
    rows = [[(each.until, each.latest, source) for each in promises] for source, promises in sources.items()]
    for _, promise, source in merge(*rows, key=lambda row: row[0]):
        yield from closing.advance(source, promise)
    closing.require_all()
