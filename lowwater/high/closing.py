"""Which parts may be evaluated: those that end at or before what all sources of their query promise (SEMANTICS P1, P3).
So punctuation alone closes a part, whoever reads it."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from lowwater.errors import LowwaterError
from lowwater.high import part, runner
from lowwater.instants import format_instant
from lowwater.plan.temporal import END_OF_TIME


@dataclass(frozen=True)
class PlanParts:
    """A plan divided into parts, in order of time, and the end of its interval, ns: a source that promises it promises
    all of time (docs/adr/0001)."""

    parts: Sequence[part.Part]
    sources: Collection[runner.Source]
    end: int


def closed_parts(
    plans: Mapping[str, PlanParts], promised: dict[runner.Source, int], read: Iterator[runner.Promises]
) -> Iterator[list[tuple[str, part.Part]]]:
    """Yields the (query, part) that promises read together close, and reads on while parts are open.

    Args:
        promised: the largest promise of each source so far, ns; what is read is added.

    Raises:
        LowwaterError: the promises of a source do not reach the end of the interval.
    """
    waiting = {query: deque(plan.parts) for query, plan in plans.items()}
    for promises in chain([()], read):
        for source, promise in promises:
            promised[source] = max(promised.get(source, promise), promise)
        closed = []
        for query, parts in waiting.items():
            least = min(promised.get(source, -END_OF_TIME) for source in plans[query].sources)
            while parts and (parts[0].end <= least or least >= plans[query].end):
                closed.append((query, parts.popleft()))
        yield closed
        if not any(waiting.values()):
            return
    query = next(query for query, parts in waiting.items() if parts)
    name, link = source = min(plans[query].sources, key=lambda each: promised.get(each, -END_OF_TIME))
    said = f"promises up to {format_instant(promised[source])} only" if source in promised else "promises nothing"
    where = f"the stream of {name}{f' on link {link}' if link else ''}"
    raise LowwaterError(f"query {query}: {where} {said}, so its rows stay open", "run the low stage again")
