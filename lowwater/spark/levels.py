"""A level of an interval as a streaming query: a source of Structured Streaming in Python, whose tasks evaluate.

The offset is the number of tasks that have become due. Spark asks for the latest one in a process of its own, which
follows the level (`high.levels`): it looks for files, reads punctuation, and takes the outcomes of the tasks behind the
committed offset. Between two offsets lie the tasks of a micro-batch. The query ends by itself: with the result, or once
the marker in its folder is gone, by which its client ends it, and after that the next run of the interval.
"""

from __future__ import annotations

import hmac
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark import TaskContext
from pyspark.serializers import CPickleSerializer
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from lowwater.cluster import TaskRun
from lowwater.errors import LowwaterError
from lowwater.high.levels import LOOK, Level, Outcomes, Task
from lowwater.storage import paths

AT_WORK, RESULT = "at-work", "result"
"""Files in the folder of a level: its marker, and its result or error with the runs of its tasks."""
SERIALIZER: Any = CPickleSerializer()
"""Of Spark, as it brings functions and arguments to its workers."""
_DIGEST, _SIZE = "sha256", 32


class Made(NamedTuple):
    """The outcome of a task or its error, its machine, the number of the try from 1, and its seconds."""

    outcome: Any
    host: str
    tries: int
    seconds: float

    def run_of(self, task: Any) -> TaskRun:
        """Where a task ran, which has perhaps a label and a weight."""
        return TaskRun(getattr(task, "label", ""), getattr(task, "weight", 0), self.host, self.tries, self.seconds)


def guarded(function: Callable[[Any], Any], argument: Any) -> Made:
    """Calls a function in a task."""
    begin = time.monotonic()
    try:
        outcome = function(argument)
    except LowwaterError as error:  # raised here, Spark would make it the text of a Java exception
        outcome = error
    context = TaskContext.get()
    tries = context.attemptNumber() + 1 if context is not None else 1
    return Made(outcome, socket.gethostname(), tries, round(time.monotonic() - begin, 3))


class Folder:
    """What the processes of a level share, of which those of Spark know the key: nobody else's values are loaded."""

    def __init__(self, path: PurePath, key: bytes) -> None:
        self.path, self._key = path, key

    def write(self, name: str, value: Any) -> None:
        """Raises OSError if it cannot be written."""
        data = SERIALIZER.dumps(value)
        paths.write(self.path / name, self._sign(name, data) + data)

    def read(self, names: Sequence[str]) -> list[Any]:
        """Raises OSError if a value is not there, and LowwaterError if it is of somebody else."""
        found = paths.read_all([self.path / name for name in names])
        return [self._loaded(*each) for each in zip(names, found, strict=True)]

    @property
    def at_work(self) -> bool:
        return paths.has_file(self.path / AT_WORK)

    def _sign(self, name: str, data: bytes) -> bytes:
        return hmac.digest(self._key, name.encode() + data, _DIGEST)

    def _loaded(self, name: str, found: bytes) -> Any:
        if not hmac.compare_digest(found[:_SIZE], self._sign(name, found[_SIZE:])):
            raise LowwaterError(f"{self.path / name}: was changed by somebody else", "look who writes to the lake")
        return SERIALIZER.loads(found[_SIZE:])


class LevelSource(DataSource):
    """The streaming source `lowwater-level`; `of` makes that of a level."""

    level: bytes
    folder: Folder

    @classmethod
    def of(cls, level: Level, folder: Folder) -> type[LevelSource]:
        """Returns the source of a level, which Spark's client sends as it is: its plans show no description."""
        return type("Level", (cls,), {"level": SERIALIZER.dumps(level), "folder": folder, "__module__": "__main__"})

    @classmethod
    def name(cls) -> str:
        return "lowwater-level"

    def schema(self) -> str:
        """A row for each task."""
        return "task int, label string, host string, seconds double"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Returns the reader of the level."""
        return _Reader(self.level, self.folder)


class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows a level in the process that Spark asks for offsets, and evaluates its tasks in others."""

    def __init__(self, level: bytes, folder: Folder) -> None:
        self._level, self._folder = level, folder
        self._followed: _Followed | None = None

    def initialOffset(self) -> dict[str, Any]:
        return {"tasks": 0}

    def prepareForTriggerAvailableNow(self) -> None:
        """All that becomes due is available, until the level has its result."""

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if self._followed is None:
            self._followed = _Followed(SERIALIZER.loads(self._level), self._folder)
        return self._followed.due(start)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        assert self._followed is not None
        tasks = self._followed.tasks
        return [InputPartition((at, tasks[at])) for at in range(start["tasks"], end["tasks"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        number, task = partition.value
        if not self._folder.at_work:
            raise LowwaterError("the level was ended", "run the command again")
        made = guarded(task.function, task.argument)
        self._folder.write(str(number), made)
        row = [pa.array([number], pa.int32()), *(pa.array([each]) for each in (task.label, made.host, made.seconds))]
        yield pa.record_batch(row, ["task", "label", "host", "seconds"])


class _Followed:
    """A level at work. `tasks`: all that have become due."""

    def __init__(self, level: Level, folder: Folder) -> None:
        self.tasks: list[Task] = []
        self._folder, self._steps = folder, level.steps()
        self._runs: list[TaskRun] = []
        self._begun = self._ended = False

    def due(self, start: dict[str, Any]) -> dict[str, Any]:
        """Waits until more tasks are due than before `start`, which have ended, and returns the next offset: their
        number, and how far the level is. It is `start` once the level has its result."""
        try:
            outcomes = self._outcomes(range(len(self._runs), start["tasks"]))
            while not self._ended and self._folder.at_work:
                step = self._steps.send(outcomes if self._begun else None)
                self._begun, outcomes = True, {}
                if step.tasks:
                    self.tasks += step.tasks
                    return {"tasks": len(self.tasks), **step.done}
                time.sleep(LOOK)
        except StopIteration as end:
            self._end(end.value)
        except LowwaterError as error:
            self._end(error)
        return start

    def _outcomes(self, numbers: range) -> Outcomes:
        outcomes = {}
        for number, made in zip(numbers, self._folder.read([str(number) for number in numbers]), strict=True):
            task = self.tasks[number]
            self._runs.append(made.run_of(task))
            if isinstance(made.outcome, LowwaterError):
                raise made.outcome
            outcomes[task] = made.outcome
        return outcomes

    def _end(self, result: Any) -> None:
        self._ended = True
        self._folder.write(RESULT, (result, self._runs))
