"""What a runner is: it does the work of a command, in this process (`process`) or on Spark (`lowwater.spark.runner`).

The unit of work of the high level is a part, which is described by plain values and evaluated by `high.part`, the same
function wherever it runs. Rows do not depend on the parts (replay invariance).
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lowwater.capture.tables.reader import TaskMap
from lowwater.errors import LowwaterError
from lowwater.high.part import Part, PartOutcome
from lowwater.high.streams import StoredStream

Source = tuple[str, str]
"""A stored stream: (LFTA, link), or (part of a cut plan, empty text)."""

Promises = Sequence[tuple[Source, int]]
"""What sources promise, ns, as it is read together."""

Outcomes = dict[str, list[PartOutcome] | LowwaterError]
"""Query -> outcomes of its parts in order, or its error."""


@dataclass(frozen=True)
class PlanParts:
    """A plan divided into parts, in order of time, and the end of its interval, ns: a source that promises it promises
    all of time (docs/adr/0001)."""

    parts: Sequence[Part]
    sources: Collection[Source]
    end: int


class Runner(Protocol):
    """Does the work of a command.

    Attributes:
        name: of the runner in summaries.
        far: whether its tasks may run on machines that do not see the disk of this one.
    """

    @property
    def name(self) -> str: ...

    @property
    def far(self) -> bool: ...

    def begin(self) -> None:
        """Prepares for work in the background; its errors come where it is needed."""

    def broken(self, error: LowwaterError) -> bool:
        """Whether an error is of the runner itself, and so of every interval."""

    def tasks(self, what: str) -> TaskMap:
        """Returns what runs tasks of an ingest, the low level or an audit, as `what` says."""

    def promises(self, feeds: Mapping[Source, StoredStream]) -> Generator[Promises]:
        """Yields what the stored streams of LFTAs promise, as it is read.

        Raises:
            LowwaterError: the runner fails.
        """

    def evaluate(self, plans: Mapping[str, PlanParts], promises: Iterable[Promises]) -> Outcomes:
        """Evaluates the parts of queries, each once what its sources promise has closed it (`closing`).

        Raises:
            LowwaterError: the runner fails, or a source does not promise the end of its interval.
        """
