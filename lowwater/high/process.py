"""The runner of this process: threads, as many as it has cores and memory for. It needs no Spark and no JVM."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from lowwater.capture.tables import reader as ordered
from lowwater.capture.tables.reader import TaskMap
from lowwater.columns.values import rows_within
from lowwater.errors import LowwaterError
from lowwater.high.closing import closed_parts, stored_promises
from lowwater.high.part import Part, PartOutcome, evaluate_chain, evaluate_part
from lowwater.high.runner import Outcomes, PlanParts, Promises, Source
from lowwater.high.streams import StoredStream


def process_bounds(memory: int = 0, threads: int = 0) -> tuple[int, int]:
    """Returns the number of threads of a process, and of the rows that an operator may keep in each (`rows_within`).

    Args:
        memory: bytes that they share; 0 for those of the machine or of its container.
        threads: number of threads; 0 for one a core, as far as memory allows.
    """
    number = threads or ordered.thread_count(memory)
    return number, rows_within(memory // number)


class InProcess:
    """Does the work of a command on threads; arguments as of `process_bounds`."""

    name = "process"
    far = False

    def __init__(self, threads: int = 0, memory: int = 0) -> None:
        self.threads, self._most = process_bounds(memory, threads)
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="lowwater-part")

    def begin(self) -> None:
        """Nothing has to start."""

    def broken(self, error: LowwaterError) -> bool:
        """An error here is one of its interval."""
        return False

    def tasks(self, what: str) -> TaskMap:
        """Returns what runs tasks on the threads."""
        return partial(ordered.each_on_threads, threads=self.threads)

    def promises(self, feeds: Mapping[Source, StoredStream]) -> Generator[Promises]:
        """Yields the stored punctuation."""
        return stored_promises(feeds)

    def evaluate(self, plans: Mapping[str, PlanParts], promises: Iterable[Promises]) -> Outcomes:
        """Evaluates parts as punctuation closes them. Parts of a share of a plan with a state wait for each other."""
        apart: dict[str, list[Future[PartOutcome]]] = {query: [] for query in plans}
        chains = Chains()
        begun: list[Future[Any]] = []
        try:
            for query, closed in chain.from_iterable(closed_parts(plans, promises)):
                part = replace(closed, most=self._most)
                if not chains.take(query, part):
                    apart[query].append(self._pool.submit(evaluate_part, part))
            begun = [self._pool.submit(evaluate_chain, parts) for parts in chains.parts]
            outcomes = {query: [future.result() for future in futures] for query, futures in apart.items()}
            outcomes |= chains.outcomes([future.result() for future in begun])
        finally:  # after an error or an interruption nothing more begins, and nothing is left that still writes
            begun += [future for each in apart.values() for future in each]
            wait([future for future in begun if not future.cancel()])
        return {query: first_error(each) or each for query, each in outcomes.items()}


class Chains:
    """The closed parts of plans with a state: those of one share follow one another, and shares run side by side."""

    def __init__(self) -> None:
        self._shares: dict[tuple[str, int], list[Part]] = {}

    def take(self, query: str, part: Part) -> bool:
        """Takes a part behind the earlier ones of its share; returns whether its plan has a state."""
        if part.carry is not None:
            self._shares.setdefault((query, part.share.number if part.share else 0), []).append(part)
        return part.carry is not None

    @property
    def parts(self) -> list[list[Part]]:
        """The parts of each share, in order."""
        return [*self._shares.values()]

    def outcomes(self, found: Iterable[Sequence[PartOutcome]]) -> dict[str, list[PartOutcome]]:
        """Returns the outcomes of each query in the order of its parts: slices, and in each of them shares."""
        shares: dict[str, list[Sequence[PartOutcome]]] = {}
        for (query, _), outcomes in zip(self._shares, found, strict=True):
            shares.setdefault(query, []).append(outcomes)
        return {query: [*chain.from_iterable(zip(*each, strict=True))] for query, each in shares.items()}


def first_error(outcomes: list[PartOutcome]) -> LowwaterError | None:
    """Returns the error of the first part that has one."""
    return next((outcome.error for outcome in outcomes if outcome.error is not None), None)
