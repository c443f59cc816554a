"""Runs the high stage of one interval: every output query as a Spark streaming query over the replayed LFTAs.

Between `low` and the lake. At the closing boundary the sources promise the end of time, so that every row comes out,
and only rows owned by the interval (SEMANTICS I1) are kept.
"""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lowwater.errors import LowwaterError, ValueOverflowError
from lowwater.high.buckets import STATE_KIND
from lowwater.high.carry import Carry
from lowwater.high.failures import UnstartedError, translate
from lowwater.high.feeds import Feed, Replay
from lowwater.high.lower import Lowering, leaf_name, leaves, python_state
from lowwater.high.order import links_of, placed
from lowwater.high.results import HighResult, HighSettings, OperatorCounts
from lowwater.high.sink import BatchSink, StreamFiles
from lowwater.high.slices.choice import choose_slices
from lowwater.high.slices.driver import add_up, run_slices
from lowwater.high.slices.task import SliceTask, Stored
from lowwater.high.watch import watch_table
from lowwater.plan.cuts import by_slices, cut, waits_for_promises
from lowwater.plan.nodes import Cut, Field, LftaInput, Node, WatchJoin
from lowwater.plan.placing import NUMBER
from lowwater.plan.state import hands_over
from lowwater.plan.temporal import END_OF_TIME, INT64_MAX
from lowwater.plan.tree import walk

Inputs = Mapping[tuple[str, str], list[str]]

CONF = {
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.PushDownPredicates",
    "spark.sql.streaming.minBatchesToRetain": "1",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing."
    "FileSystemBasedCheckpointFileManager",
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
    "spark.sql.adaptive.enabled": "false",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
}
"""Settings of the session of a run: filters stay above watermarks, and a micro-batch costs no more than it must.

Spark's default manager of checkpoint files starts four processes (`readlink`) for every file on a local disk.
"""

INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
}
"""Settings over those where few rows are read: no Java is generated and compiled, no task has next to nothing to do."""

MACHINES = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state."
    "RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
    "fs.file.impl.disable.cache": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
}
"""Settings over those of queries with a state, which is in Python: transformWithState takes no other store than
RocksDB's, and that no other file system than this one, though it starts a process for every file."""

RESTARTS = 2
"""How often an output query begins again where a process of Python did not start within the 10 s that Spark waits."""


@dataclass(frozen=True)
class _Run:
    """What the output queries of one run share."""

    session: Callable[[Node], SparkSession]
    feeds: Mapping[tuple[str, str], Feed]
    start: int
    end: int
    work: Path
    settings: HighSettings
    carries: Mapping[str, Carry]

    def query(self, name: str, node: Node) -> HighResult:
        """Runs one output query; again from its beginning where the machine was too busy to start what it needs."""
        for _ in range(RESTARTS):
            try:
                return self._query(name, node)
            except UnstartedError:
                shutil.rmtree(self.work / name, ignore_errors=True)
        return self._query(name, node)

    def _query(self, name: str, node: Node) -> HighResult:
        """Runs the parts of the plan of one output query one after another."""
        began = time.monotonic()
        result = HighResult()
        parts, top = cut(node)
        made: dict[str, Feed] = {}
        for part in parts:
            # A part keeps every row: whether one is owned can only be said of the rows that its consumers make of it.
            all_time = (-END_OF_TIME, INT64_MAX)
            everything = StreamFiles(self.work / name / part.name, part.node.fields, all_time, END_OF_TIME)
            self._part(name, part.node, made, everything, result)
            made[part.name] = Feed.scan(everything.files)
        stream = StreamFiles(self.work / name / "rows", top.fields, (self.start, self.end), self.end)
        self._part(name, top, made, stream, result)
        result.files, result.rows, result.punctuation = stream.files, stream.rows, stream.punctuation
        result.seconds = time.monotonic() - began
        return result

    def _stream(
        self, query: str, node: Node, made: Mapping[str, Feed], stream: StreamFiles, result: HighResult
    ) -> None:
        folder = stream.folder
        behind = {leaf_name(leaf): (leaf, self._behind(leaf, made)) for leaf in leaves(node)}
        feeds = [feed for _, group in behind.values() for feed in group]
        carry = self.carries.get(query, Carry(end=self.end))
        rows, handed = any(feed.rows for feed in feeds), hands_over(node)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        if not rows and not handed:
            stream.close(self.end)
            return
        most = self.settings.boundaries(sum(feed.rows for feed in feeds))
        start = carry.start if handed and (carry.start or not rows) else None
        replay = Replay.over(feeds, self.end, self.settings.tick, most, start)
        with TemporaryDirectory(prefix="replay-", dir=folder.parent) as scratch:
            places, links = placed(node), links_of(node)
            waits = waits_for_promises(node)
            reels, promised = {}, {name: replay.promised(group) for name, (_, group) in behind.items()}
            for name, (leaf, group) in behind.items():
                own = leaf.lfta.links if isinstance(leaf, LftaInput) and name in places else ()
                numbers, (fields, number) = [links.index(link) for link in own], _stored(leaf)
                reels[name] = replay.lay_out(
                    group, promised[name], fields, Path(scratch) / name, numbers, number, not waits
                )
            lowering = Lowering(self.session(node), replay.clock, reels, carry)
            timeline = replay.timeline([*promised.values()])
            step = None if waits else self.settings.tick
            sink = BatchSink(stream, Path(scratch) / "checkpoint", replay, timeline, step)
            self._replay(query, lowering.query(node), sink, result)
        stream.close(replay.boundaries[-1], timeline)

    def _part(self, query: str, node: Node, made: Mapping[str, Feed], stream: StreamFiles, result: HighResult) -> None:
        (self._slices if by_slices(node) else self._stream)(query, node, made, stream, result)

    def _slices(
        self, query: str, node: Node, made: Mapping[str, Feed], stream: StreamFiles, result: HighResult
    ) -> None:
        """Evaluates a plan slice by slice, as promises close them."""
        shutil.rmtree(stream.folder, ignore_errors=True)
        stream.folder.mkdir(parents=True)
        behind = {leaf_name(leaf): (leaf, self._behind(leaf, made)) for leaf in leaves(node)}
        feeds = [feed for _, group in behind.values() for feed in group]
        if not any(feed.rows for feed in feeds):
            stream.close(self.end)
            return
        links, linked = links_of(node), placed(node)
        stored = {}
        for name, (leaf, group) in behind.items():
            numbers = [links.index(link) for link in leaf.lfta.links] if isinstance(leaf, LftaInput) else [0]
            chunks = [(number, chunk) for number, feed in zip(numbers, group, strict=True) for chunk in feed.chunks]
            stored[name] = Stored(_stored(leaf)[0], chunks, name in linked)
        replay = Replay.over(feeds, self.end, self.settings.tick, 1)
        timeline = replay.timeline([replay.promised(group) for _, group in behind.values()])
        ends: Counter[int] = Counter()
        for feed in feeds:
            ends.update(feed.ends)
        step = None if waits_for_promises(node) else self.settings.tick
        lists = {(each.file, each.columns): watch_table(each) for each in walk(node) if isinstance(each, WatchJoin)}
        closing = replay.boundaries[-1]
        slices = choose_slices(node, ends, -(-ends.total() // self.settings.slice_rows))
        files = [stream.folder / f"{number:05d}.parquet" for number in range(len(slices))]
        known = stream.owned, timeline, step, closing
        tasks = [SliceTask(node, each, stored, lists, file, *known) for each, file in zip(slices, files, strict=True)]
        with TemporaryDirectory(prefix="slices-", dir=stream.folder.parent) as scratch:
            outcomes = run_slices(query, self.session(node), tasks, Path(scratch), ends.total(), self.settings)
        for outcome in outcomes:
            if outcome.rows:
                stream.take(outcome.file, outcome.rows)
        add_up(outcomes, result)
        stream.close(closing, timeline)

    def _behind(self, leaf: LftaInput | Cut, made: Mapping[str, Feed]) -> list[Feed]:
        if isinstance(leaf, Cut):
            return [made[leaf.name]]
        return [self.feeds[leaf.lfta.name, link] for link in leaf.lfta.links]

    def _replay(self, query: str, frame: DataFrame, sink: BatchSink, result: HighResult) -> None:
        writer = frame.writeStream.foreachBatch(sink).trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(sink.checkpoint)).queryName(
            f"{query}:{sink.stream.folder.name}"
        )
        try:
            running = writer.start()
            running.awaitTermination()
        except PySparkException as error:
            raise translate(query, error) from error
        _account([json.loads(progress.json) for progress in running.recentProgress], result)


def _stored(leaf: LftaInput | Cut) -> tuple[tuple[Field, ...], str]:
    """The columns that are stored behind a leaf, and the one with the number of the record, if it is there.

    The numbers of rows are not stored.
    """
    if isinstance(leaf, Cut):
        return leaf.fields, ""
    return leaf.lfta.stored, NUMBER if leaf.lfta.placed else ""


def _rows(node: Node, feeds: Mapping[tuple[str, str], Feed]) -> int:
    """How many rows a query reads."""
    lftas = [leaf.lfta for leaf in leaves(node) if isinstance(leaf, LftaInput)]
    return sum(feeds[lfta.name, link].rows for lfta in lftas for link in lfta.links)


def _files(inputs: Inputs, lfta: str, link: str) -> list[str]:
    if (lfta, link) not in inputs:
        raise LowwaterError(f"the low stage left no stream of {lfta} on link {link}", "run the low stage first")
    return inputs[lfta, link]


def _account(batches: list[dict[str, Any]], result: HighResult) -> None:
    """Adds the progress of a finished Spark query to a result."""
    totals: dict[str, dict[str, int]] = {}
    held = 0
    for batch in batches:
        states = batch.get("stateOperators", [])
        result.late += sum(state["numRowsDroppedByWatermark"] for state in states)
        # What Spark counts of state in Python are buckets.
        rows = sum(state["numRowsTotal"] for state in states if "transformWithState" not in state["operatorName"])
        result.state_rows = max(result.state_rows, rows)
        for name, counts in batch.get("observedMetrics", {}).items():
            if name.split(":")[1] == STATE_KIND:
                held += counts["grown"] or 0
                continue
            into = totals.setdefault(name, dict.fromkeys(counts, 0))
            for key, value in counts.items():
                into[key] += value or 0
        result.state_bytes = max(result.state_bytes, held)
    result.batches += len(batches)
    for name in sorted(totals, key=lambda observed: int(observed.split(":")[0])):
        _, kind, owner = name.split(":", 2)
        result.operators.append(OperatorCounts(owner, kind, totals[name]))


def run_session(
    spark: SparkSession, settings: HighSettings, rows: int | None = None, python: bool = False
) -> SparkSession:
    """A session of its own beside `spark`, set up for the queries of a run.

    Args:
        spark: as `build_session` makes it.
        settings: of the run.
        rows: how many rows a query reads at most, where that is known.
        python: whether operators keep their state in Python.
    """
    session = spark.newSession()
    options = {**CONF, "spark.sql.shuffle.partitions": str(settings.partitions)}
    if rows is not None and rows <= settings.interpreted_rows:
        options |= INTERPRETED
    if python:
        options |= MACHINES
    for key, value in options.items():
        session.conf.set(key, value)
    return session


def run_high(
    spark: SparkSession,
    queries: Mapping[str, Node],
    inputs: Inputs,
    start: int,
    end: int,
    work: Path,
    settings: HighSettings | None = None,
    carries: Mapping[str, Carry] | None = None,
    overflows: dict[str, ValueOverflowError] | None = None,
) -> dict[str, HighResult]:
    """Runs every output query over the replayed LFTAs of one interval.

    Args:
        spark: as `build_session` makes it.
        queries: high plan by name of the output.
        inputs: parquet files of each LFTA instance, by LFTA name and link, in order of `_tick`.
        start, end: the interval, ns; rows with `_last` in [start, end) are kept.
        work: folder for rows, parts and checkpoints, one folder a query in it; the caller removes it.
        settings: how to replay; rows do not depend on it.
        carries: of the queries that hand something over from interval to interval.
        overflows: takes the error of each query of which a sum does not fit; None where that ends the run.

    Returns:
        Files and statistics by query, without those in `overflows`.

    Raises:
        ValueOverflowError: if an integer sum does not fit 64 bits.
        LowwaterError: if an input cannot be read or Spark fails.
    """
    settings = settings or HighSettings()
    wanted = {leaf.lfta for node in queries.values() for leaf in leaves(node) if isinstance(leaf, LftaInput)}
    feeds = {(lfta.name, link): Feed.scan(_files(inputs, lfta.name, link)) for lfta in wanted for link in lfta.links}
    most = max(_rows(node, feeds) for node in queries.values())
    kinds = {False, *(python_state(node) for node in queries.values())}
    sessions = {python: run_session(spark, settings, most, python) for python in kinds}
    run = _Run(lambda node: sessions[python_state(node)], feeds, start, end, work, settings, carries or {})
    with ThreadPoolExecutor(settings.concurrency, thread_name_prefix="lowwater-high") as pool:
        running = {name: pool.submit(run.query, name, node) for name, node in queries.items()}
        results = {}
        for name, future in running.items():
            try:
                results[name] = future.result()
            except ValueOverflowError as error:
                if overflows is None:
                    raise
                overflows[name] = error
        return results
