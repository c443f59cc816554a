"""The runner on Spark: parts are its tasks, and a stream over the files of lfta/ reads the punctuation."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from lowwater.columns.values import rows_within
from lowwater.errors import LowwaterError
from lowwater.high.closing import closed_parts
from lowwater.high.part import Part, PartOutcome, evaluate_chain, evaluate_part
from lowwater.high.process import Chains, first_error
from lowwater.high.runner import Outcomes, PlanParts, Promises, Source
from lowwater.high.streams import StoredStream
from lowwater.spark.session import Sessions
from lowwater.spark.tasks import SparkTasks, translate
from lowwater.storage import paths

# The stream of punctuation is a Structured Streaming query over the files of `lfta/`. The functions that read them
# everywhere do, as a streaming source in Python. So Spark needs no package and no keys for an object store, and a file
# is there when it has its name: it is never read half.

COLUMNS = pa.schema([("source", pa.int32()), ("promise", pa.int64())])
LOOK = 5
"""Seconds between two looks at what the stream has read."""
FEW = 16
"""Files that a task reads."""

Files = Sequence[tuple[int, str]]
"""(Number of its source, file as the lake names it) in order."""


class Punctuation(DataSource):
    """The streaming source `lowwater-punctuation`; its option `files` has [number of the source, file] in order."""

    @classmethod
    def name(cls) -> str:
        return "lowwater-punctuation"

    def schema(self) -> str:
        """The columns of a promise, ns."""
        return "source int, promise bigint"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Returns the reader of the files."""
        return _Reader(json.loads(self.options["files"]))


class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the files that are there, in order; the offset is their number."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._until: int | None = None

    def initialOffset(self) -> dict[str, int]:
        return {"files": 0}

    def prepareForTriggerAvailableNow(self) -> None:
        self._until = self._there(0)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        return {"files": self._there(start["files"]) if self._until is None else self._until}

    def _there(self, begin: int) -> int:
        at = begin
        while at < len(self._files) and paths.has_file(paths.lake_path(self._files[at][1])):
            at += 1
        return at

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        last = end["files"]
        return [InputPartition(self._files[at : min(at + FEW, last)]) for at in range(start["files"], last, FEW)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Workers have loaded it; the processes in which Spark only asks for offsets start without it in half the time.
        from lowwater.high.streams import StoredStream

        rows = [
            (source, max(promise.latest for promise in promises))
            for source, file in partition.value
            if (promises := StoredStream.scan([file]).promises)
        ]
        sources, promised = zip(*rows, strict=True) if rows else ((), ())
        columns = [pa.array(sources, pa.int32()), pa.array(promised, pa.int64())]
        yield pa.RecordBatch.from_arrays(columns, schema=COLUMNS)


def promises(session: SparkSession, what: str, files: Files) -> Iterator[list[tuple[int, int]]]:
    """Yields (number of the source, promise in ns) as the stream reads them; Spark shows what they are for.

    Raises:
        LowwaterError: the stream fails.
    """
    table = f"punctuation_{uuid4().hex}"
    query, seen, ended = None, 0, False
    try:
        session.dataSource.register(Punctuation)
        source = session.readStream.format(Punctuation.name()).option("files", json.dumps(list(files)))
        query = source.load().writeStream.format("memory").queryName(table).trigger(availableNow=True).start()
        while not ended:
            ended = bool(query.awaitTermination(LOOK))
            rows = session.table(table).toArrow().to_pylist()
            yield [(row["source"], row["promise"]) for row in rows[seen:]]
            seen = len(rows)
        session.catalog.dropTempView(table)
    except PySparkException as error:
        raise translate(what, error, session) from error
    finally:
        if query is not None and not ended:
            with suppress(PySparkException):  # its server may be gone
                query.stop()


class OnSpark:
    """Does the work of a command on Spark: all that touches packets or rows is in its tasks, whatever its size.

    Args:
        memory: bytes for a task; 0 for the usual ones.
    """

    name = "spark"

    def __init__(self, sessions: Sessions, memory: int = 0) -> None:
        self._sessions = sessions
        self._most = rows_within(memory)
        self.far = not sessions.master.startswith("local")

    def begin(self) -> None:
        self._sessions.begin()

    def broken(self, error: LowwaterError) -> bool:
        return self._sessions.broken(error)

    def tasks(self, what: str) -> SparkTasks:
        """Returns what runs tasks in workers; Spark's pages show what they are."""
        return SparkTasks(lambda: self._sessions.spark, what, self.far)

    def promises(self, feeds: Mapping[Source, StoredStream]) -> Generator[Promises]:
        """Yields what a stream over the files reads."""
        sources = list(feeds)
        files = [(number, file) for number, source in enumerate(sources) for file in feeds[source].files]
        for promised in promises(self._sessions.spark, "punctuation", files) if files else ():
            yield [(sources[number], promise) for number, promise in promised]

    def evaluate(self, plans: Mapping[str, PlanParts], promises: Iterable[Promises]) -> Outcomes:
        """Evaluates parts as punctuation closes them. Those of a share of a plan with a state are one task."""
        tasks = self.tasks(f"high level of {', '.join(plans)}")
        outcomes: dict[str, list[PartOutcome]] = {query: [] for query in plans}
        chains = Chains()
        for closed in closed_parts(plans, promises):
            apart = []
            for query, each in closed:
                part = replace(each, most=self._most)
                if not chains.take(query, part) and first_error(outcomes[query]) is None:
                    apart.append((query, part))
            found = tasks(partial(evaluate_part, again=True), [part for _, part in apart])
            for (query, _), outcome in zip(apart, found, strict=True):
                outcomes[query].append(outcome)
        chained, results = [_Chain.of(parts) for parts in chains.parts], []
        for chain, (found, states) in zip(chained, tasks(_evaluated, chained), strict=True):
            results.append(found)
            chain.keep(states)
        outcomes |= chains.outcomes(results)
        return {query: first_error(each) or each for query, each in outcomes.items()}


@dataclass(frozen=True)
class _Chain:
    """The parts of a share of a plan with a state, as a task on another machine.

    Attributes:
        parts: the parts, in order.
        earlier: file -> the state of the interval before.
    """

    parts: Sequence[Part]
    earlier: Mapping[str, bytes]

    @classmethod
    def of(cls, parts: Sequence[Part]) -> _Chain:
        """Takes the state with the parts: a worker may not see the disk of this machine."""
        carry = parts[0].carry
        folder = None if carry is None else carry.earlier
        files = folder.iterdir() if folder is not None and folder.is_dir() else ()
        return cls(parts, {file.name: file.read_bytes() for file in files})

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
        outcomes = evaluate_chain([replace(part, carry=here) for part in chain.parts])
        for outcome in outcomes:
            if outcome.error is not None:
                outcome.error.message = outcome.error.message.replace(str(earlier), str(carry.earlier))
        return outcomes, {file.name: file.read_bytes() for file in left.iterdir()}
