"""The runner on Spark: everything that touches packets or rows runs in Spark's tasks, whatever its size.

A stream of punctuation (`punctuation`) closes the parts of the high level.
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from lowwater.capture.tables.reader import TaskMap
from lowwater.cluster import on_cluster
from lowwater.columns.blocks import rows_within
from lowwater.errors import LowwaterError
from lowwater.high.closing import closed_parts
from lowwater.high.part import Part, PartOutcome, evaluate_part
from lowwater.high.process import evaluated_chain, first_error
from lowwater.high.runner import Outcomes, PlanParts, Promises, Source
from lowwater.high.streams import StoredStream
from lowwater.spark import punctuation
from lowwater.spark.session import Sessions
from lowwater.spark.tasks import SparkTasks


class OnSpark:
    """Does the work of a command on Spark.

    Args:
        sessions: the session of the command.
        memory: bytes for a task; 0 for the usual ones.
    """

    name = "spark"

    def __init__(self, sessions: Sessions, memory: int = 0) -> None:
        self._sessions = sessions
        self._most = rows_within(memory)
        self.far = on_cluster(sessions.master)

    def begin(self) -> None:
        """Starts the session in the background."""
        self._sessions.begin()

    def broken(self, error: LowwaterError) -> bool:
        """Whether an error is the failure to start the session."""
        return self._sessions.broken(error)

    def ingesting(self) -> TaskMap:
        """Returns what runs the tasks of an ingest."""
        return self._tasks("ingest")

    def low(self) -> TaskMap:
        """Returns what runs the tasks of a low stage."""
        return self._tasks("low")

    def scanning(self) -> TaskMap:
        """Returns what runs the scans of an audit."""
        return self._tasks("audit")

    def promises(self, feeds: Mapping[Source, StoredStream]) -> Generator[Promises]:
        """Yields what a stream over the files reads."""
        sources = list(feeds)
        files = [(number, file) for number, source in enumerate(sources) for file in feeds[source].files]
        for promised in punctuation.promises(self._sessions.spark, "punctuation", files) if files else ():
            yield [(sources[number], promise) for number, promise in promised]

    def evaluate(self, plans: Mapping[str, PlanParts], promises: Iterable[Promises]) -> Outcomes:
        """Evaluates parts as punctuation closes them. Those of a plan with a state are one task."""
        tasks = self._tasks(f"high level of {', '.join(plans)}")
        outcomes: dict[str, list[PartOutcome]] = {query: [] for query in plans}
        chains: dict[str, list[Part]] = {}
        for closed in closed_parts(plans, promises):
            apart = []
            for query, each in closed:
                part = replace(each, most=self._most)
                if part.carry is not None:
                    chains.setdefault(query, []).append(part)
                elif first_error(outcomes[query]) is None:
                    apart.append((query, part))
            found = tasks(partial(evaluate_part, again=True), [part for _, part in apart])
            for (query, _), outcome in zip(apart, found, strict=True):
                outcomes[query].append(outcome)
        chained = [_Chain.of(query, parts) for query, parts in chains.items()]
        for chain, (found, states) in zip(chained, tasks(_evaluated, chained), strict=True):
            outcomes[chain.query] = found
            chain.keep(states)
        return {query: first_error(each) or each for query, each in outcomes.items()}

    def _tasks(self, what: str) -> SparkTasks:
        return SparkTasks(lambda: self._sessions.spark, what, self.far)


@dataclass(frozen=True)
class _Chain:
    """The parts of a plan with a state, as a task on another machine.

    Attributes:
        query: name of the query.
        parts: the parts, in order.
        earlier: file -> the state of the interval before.
    """

    query: str
    parts: Sequence[Part]
    earlier: Mapping[str, bytes]

    @classmethod
    def of(cls, query: str, parts: Sequence[Part]) -> _Chain:
        """Takes the state with the parts: a worker may not see the disk of this machine."""
        carry = parts[0].carry
        folder = None if carry is None else carry.earlier
        files = folder.iterdir() if folder is not None and folder.is_dir() else ()
        return cls(query, parts, {file.name: file.read_bytes() for file in files})

    def keep(self, states: Mapping[str, bytes]) -> None:
        """Writes the state after the interval to its folder on this machine."""
        carry = self.parts[0].carry
        if carry is not None and carry.left is not None:
            carry.left.mkdir(parents=True, exist_ok=True)
            for name, state in states.items():
                (carry.left / name).write_bytes(state)


def _evaluated(chain: _Chain) -> tuple[list[PartOutcome], dict[str, bytes]]:
    """Returns the outcomes of the parts of a chain, and file -> the state after them."""
    carry = chain.parts[0].carry
    assert carry is not None
    with tempfile.TemporaryDirectory(prefix="lowwater-state-") as folder:
        earlier, left = Path(folder) / "earlier", Path(folder) / "left"
        earlier.mkdir()
        left.mkdir()
        for name, state in chain.earlier.items():
            (earlier / name).write_bytes(state)
        here = replace(carry, earlier=carry.earlier and earlier, left=carry.left and left)
        outcomes = evaluated_chain(chain.query, [replace(part, carry=here) for part in chain.parts], {})
        for outcome in outcomes:
            if outcome.error is not None:
                outcome.error.message = outcome.error.message.replace(str(earlier), str(carry.earlier))
        return outcomes, {file.name: file.read_bytes() for file in left.iterdir()}
