"""What a runner is: it does the work of a command, in this process (`process`) or on Spark (`lowwater.spark.runner`).

The unit of work of the high level is a part: a slice of the time of a query, with the files that it reads. A part is
described by plain values and evaluated by `slices.part`, the same function wherever it runs. Rows do not depend on the
parts (replay invariance).
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lowwater.capture.tables.reader import TaskMap
from lowwater.errors import LowwaterError
from lowwater.high.slices.part import Part, PartOutcome
from lowwater.high.source.stored_streams import StoredStream

Source = tuple[str, str]
"""A stored stream: (LFTA, link), or (part of a cut plan, empty text)."""

Promises = Sequence[tuple[Source, int]]
"""What sources promise, ns, as it is read together."""

Outcomes = dict[str, list[PartOutcome] | LowwaterError]
"""Query -> outcomes of its parts in order, or its error."""


@dataclass(frozen=True)
class PlanParts:
    """A plan divided into parts.

    Attributes:
        parts: the parts, in order of time.
        sources: what feeds the plan.
        end: end of the interval, ns: a source that promises it promises all of time (docs/adr/0001).
    """

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

    def ingesting(self) -> TaskMap:
        """Returns what runs the tasks of an ingest."""

    def low(self) -> TaskMap:
        """Returns what runs the tasks of a low stage."""

    def scanning(self) -> TaskMap:
        """Returns what runs the scans of an audit."""

    def promises(self, feeds: Mapping[Source, StoredStream]) -> Generator[Promises]:
        """Yields what the stored streams of LFTAs promise, as it is read.

        Raises:
            LowwaterError: the runner fails.
        """

    def evaluate(self, plans: Mapping[str, PlanParts], promises: Iterable[Promises]) -> Outcomes:
        """Evaluates the parts of some queries, each once what its sources promise has closed it (`closing`).

        Args:
            plans: query -> its parts.
            promises: of their sources, and of others.

        Raises:
            LowwaterError: the runner fails, or a source does not promise the end of its interval.
        """
