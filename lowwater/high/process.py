"""The runner of this process: threads, as many as it has cores and memory for. It needs no Spark and no JVM."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from lowwater.capture.tables import reader as ordered
from lowwater.capture.tables.reader import TaskMap
from lowwater.columns.values import rows_within
from lowwater.errors import LowwaterError, error_of_query
from lowwater.high.closing import closed_parts, stored_promises
from lowwater.high.part import ChainState, Part, PartOutcome, evaluate_chain, evaluate_part
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
    """Does the work of a command on threads.

    Args:
        threads: number of threads; 0 for one a core, as far as memory allows.
        memory: bytes that they share; 0 for those of the machine or of its container.
    """

    name = "process"
    far = False

    def __init__(self, threads: int = 0, memory: int = 0) -> None:
        self.threads, self._most = process_bounds(memory, threads)
        self._tasks: TaskMap = partial(ordered.each_on_threads, threads=self.threads)
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="lowwater-part")

    def begin(self) -> None:
        """Nothing has to start."""

    def broken(self, error: LowwaterError) -> bool:
        """An error here is one of its interval."""
        return False

    def ingesting(self) -> TaskMap:
        """Returns what runs tasks on the threads."""
        return self._tasks

    def low(self) -> TaskMap:
        """Returns what runs tasks on the threads."""
        return self._tasks

    def scanning(self) -> TaskMap:
        """Returns what runs tasks on the threads."""
        return self._tasks

    def promises(self, feeds: Mapping[Source, StoredStream]) -> Generator[Promises]:
        """Yields the stored punctuation."""
        return stored_promises(feeds)

    def evaluate(self, plans: Mapping[str, PlanParts], promises: Iterable[Promises]) -> Outcomes:
        """Evaluates parts as punctuation closes them. Parts of a plan with a state wait for each other."""
        apart: dict[str, list[Future[PartOutcome]]] = {query: [] for query in plans}
        chained: dict[str, list[Part]] = {}
        chains: dict[str, Future[list[PartOutcome]]] = {}
        try:
            for query, closed in chain.from_iterable(closed_parts(plans, promises)):
                part = replace(closed, most=self._most)
                if part.carry is None:
                    apart[query].append(self._pool.submit(evaluate_part, part))
                else:
                    chained.setdefault(query, []).append(part)
            for query, parts in chained.items():
                chains[query] = self._pool.submit(evaluated_chain, query, parts, {})
            outcomes = {query: [future.result() for future in futures] for query, futures in apart.items()}
            outcomes |= {query: future.result() for query, future in chains.items()}
        finally:  # after an error or an interruption nothing more begins, and nothing is left that still writes
            begun: list[Future[Any]] = [*chains.values(), *(future for each in apart.values() for future in each)]
            wait([future for future in begun if not future.cancel()])
        return {query: first_error(each) or each for query, each in outcomes.items()}


def evaluated_chain(query: str, parts: list[Part], chains: dict[str, ChainState]) -> list[PartOutcome]:
    """Evaluates parts of a plan with a state in order.

    Args:
        query: name of the query.
        parts: its parts that were closed, in order.
        chains: query -> its state after the parts before; gets that of this query.
    """
    try:
        if query not in chains:
            chains[query] = ChainState(parts[0])
    except Exception as error:  # noqa: BLE001 - whatever a query does is its own failure
        return [PartOutcome(error=error_of_query(query, error))]
    return evaluate_chain(parts, chains[query])


def first_error(outcomes: list[PartOutcome]) -> LowwaterError | None:
    """Returns the error of the first part that has one."""
    return next((outcome.error for outcome in outcomes if outcome.error is not None), None)
