"""What a runner is: it does the work of a command, in this process (`process`) or on Spark (`lowwater.spark.runner`).

Its tasks are functions of plain values, the same wherever they run. Rows do not depend on how the work is divided
(replay invariance).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from lowwater import errors, threads

if TYPE_CHECKING:  # an ingest has a runner, and no levels
    from lowwater.high.levels import Start


class Runner(Protocol):
    """Does the work of a command.

    Attributes:
        name: of the runner in summaries.
        far: whether its tasks may run on machines that do not see the disk of this one.
        again: whether it tries a task again that raises an OSError.
        most: rows that an operator keeps in memory in a task; 0 for the usual number.
    """

    name: str
    far: bool
    again: bool
    most: int

    def begin(self) -> None:
        """Prepares for work in the background; its errors come where it is needed."""

    def broken(self, error: errors.LowwaterError) -> bool:
        """Whether an error is of the runner itself, and so of every interval."""

    def about(self, interval: str) -> Runner:
        """Returns the runner whose tasks say that they are for an interval of a query set."""

    def tasks(self, what: str) -> threads.TaskMap:
        """Returns what runs tasks of an ingest or an audit, as `what` says."""

    def levels(self) -> AbstractContextManager[Start]:
        """Yields what begins the low and the high level of an interval; those that have not ended at its end are
        ended."""
