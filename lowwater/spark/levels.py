"""A level of an interval as a streaming query: a source of Structured Streaming in Python, whose tasks evaluate.

The offset is the number of tasks that have become due. Spark asks for the latest one in a process of its own, which it
starts for each query. Of the low level, all tasks are due at the beginning: the process passes them on, and loads none
of their modules. It follows the high level (`high.runner`): it looks for files, reads punctuation, and takes the
outcomes of the tasks behind the committed offset. Between two offsets lie the tasks of a micro-batch. The query ends by
itself: with the result, or once the marker in its folder is gone, by which its client ends it, and after that the next
run of the interval.
"""

from __future__ import annotations

import hmac
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

from pyspark import TaskContext
from pyspark.serializers import CPickleSerializer
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from lowwater import extras
from lowwater.cluster import TaskRun
from lowwater.errors import LowwaterError
from lowwater.high.runner import Level, Outcomes, Steps, Task, Tasks, pause
from lowwater.storage import paths

AT_WORK, RESULT = "at-work", "result"
"""Files in the folder of a level: its marker, and its result or error with the runs of its tasks."""
SERIALIZER: Any = CPickleSerializer()
"""Of Spark, as it brings functions and arguments to its workers."""
_SIZE = 32


class Made(NamedTuple):
    """The outcome of a task or its error, and where it ran."""

    outcome: Any
    run: TaskRun


def guarded(task: Task) -> Made:
    """Calls a function where Spark has a task for it."""
    begin, argument = time.monotonic(), task.args[0]
    try:
        outcome = task()
    except LowwaterError as error:  # raised here, Spark would make it the text of a Java exception
        outcome = error
    context, about = TaskContext.get(), (getattr(argument, "label", ""), getattr(argument, "weight", 0))
    tries = context.attemptNumber() + 1 if context is not None else 1
    return Made(outcome, TaskRun(*about, socket.gethostname(), tries, round(time.monotonic() - begin, 3)))


class Folder:
    """What the processes of a level share, of which those of Spark know the key: nobody else's values are loaded."""

    def __init__(self, path: PurePath, key: bytes) -> None:
        self.path, self._key = path, key

    def write(self, name: str, value: Any) -> None:
        """Raises OSError if it cannot be written."""
        data = SERIALIZER.dumps(value)
        paths.write(self.path / name, self._sign(name, data) + data)

    def read(self, names: Iterable[str]) -> Iterator[Any]:
        """Yields values. Raises OSError if one is not there, and LowwaterError if it is of somebody else."""
        named = [*names]
        for name, found in zip(named, paths.read_all([self.path / name for name in named]), strict=True):
            if not hmac.compare_digest(found[:_SIZE], self._sign(name, found[_SIZE:])):
                raise LowwaterError(f"{self.path / name}: was changed by somebody else", "look who writes to the lake")
            yield SERIALIZER.loads(found[_SIZE:])

    @property
    def at_work(self) -> bool:
        return paths.has_file(self.path / AT_WORK)

    def _sign(self, name: str, data: bytes) -> bytes:
        return hmac.digest(self._key, name.encode() + data, "sha256")


class LevelSource(DataSource):
    """The streaming source of a level: a class for each, which Spark's client sends as it is, so that its plans show no
    description. `known`: the tasks that are due from the beginning, each pickled, and `done`, how far they bring it;
    `level`: one that says which are due, pickled, or nothing."""

    known: Sequence[bytes]
    done: Mapping[str, int | str]
    level: bytes
    folder: Folder

    @classmethod
    def name(cls) -> str:
        return "lowwater-level"

    def schema(self) -> str:
        """A row for each task."""
        return "task int, label string, size bigint, host string, seconds double"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Returns the reader of the level."""
        return _Reader(self)


def source_of(level: Level, folder: Folder) -> type[LevelSource]:
    """Makes the source of a level."""
    known, done, text = list[bytes](), dict[str, int | str](), b""
    if isinstance(level, Tasks):
        known, done = [*map(SERIALIZER.dumps, level.tasks)], level.done(level.tasks)
    else:
        text = SERIALIZER.dumps(level)
    values = {"known": known, "done": done, "level": text, "folder": folder, "__module__": "__main__"}
    return type("Level", (LevelSource,), values)


class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows a level in the process that Spark asks for offsets, and evaluates its tasks in others."""

    def __init__(self, of: LevelSource) -> None:
        self._due, self._done, self._level, self._folder = [*of.known], of.done, of.level, of.folder
        self._steps: Steps | None = None
        self._tasks: list[Task] = []  # that have become due, of a level that says so
        self._runs: list[TaskRun] = []  # of those that have ended
        self._over = False

    def initialOffset(self) -> dict[str, Any]:
        return {"tasks": 0}

    def prepareForTriggerAvailableNow(self) -> None:
        """All that becomes due is available, until the level has its result."""

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Waits until more tasks are due than before `start`, which have ended, and returns the next offset: their
        number, and how far the level is. It is `start` once the level has its result."""
        if not self._level:
            return {"tasks": len(self._due), **self._done}
        outcomes: Outcomes | None = None
        begun = time.monotonic()
        try:
            if self._steps is None:
                extras.hide_pandas()
                self._steps = SERIALIZER.loads(self._level).steps()
            else:
                made = self._folder.read(map(str, range(len(self._runs), start["tasks"])))
                ended = dict(zip(self._tasks[len(self._runs) : start["tasks"]], made, strict=True))
                self._runs += [each.run for each in ended.values()]
                outcomes = {task: each.outcome for task, each in ended.items()}
            while not self._over and self._folder.at_work:
                tasks, done = self._steps.send(outcomes)  # type: ignore[arg-type]
                if tasks:
                    self._tasks += tasks
                    self._due += map(SERIALIZER.dumps, tasks)
                    return {"tasks": len(self._due), **done}
                outcomes = {}
                time.sleep(pause(time.monotonic() - begun))
        except StopIteration as end:
            self._end(end.value)
        except LowwaterError as error:
            self._end(error)
        return start

    def _end(self, result: Any) -> None:
        self._over = True
        self._folder.write(RESULT, (result, self._runs))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [InputPartition((at, self._due[at])) for at in range(start["tasks"], end["tasks"])]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        number, task = partition.value
        if not self._folder.at_work:
            raise LowwaterError("the level was ended", "run the command again")
        made = guarded(SERIALIZER.loads(task))
        self._folder.write(str(number), made)
        yield number, made.run.task, made.run.size, made.run.host, made.run.seconds
