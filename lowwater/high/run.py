"""Runs the high stage of one interval: the output queries as Spark streaming queries over the replayed LFTAs.

Those that are not cut share one. Its rows are punctuation, and each promise closes a slice of time.

Between `low` and the lake. At the closing boundary the sources promise the end of time, so that every row comes out,
and only rows owned by the interval (SEMANTICS I1) are kept.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from lowwater.catalog.streams import STREAM_TYPES
from lowwater.catalog.watchlists import read_watchlist
from lowwater.errors import LowwaterError, ValueOverflowError
from lowwater.high.handover import Carry
from lowwater.high.results import HighResult, HighSettings
from lowwater.high.sink.files import StreamFiles
from lowwater.high.slices.choice import choose_chain, choose_slices
from lowwater.high.slices.driver import Sliced, add_up, run_slices
from lowwater.high.slices.places import links_of, placed_leaves
from lowwater.high.slices.task import SliceTask, Stored
from lowwater.high.source.streams import Feed, Replay
from lowwater.high.timeline import Timeline
from lowwater.plan.cuts import by_slices, cut, waits_for_promises
from lowwater.plan.operators import Cut, LftaInput, Node, WatchJoin
from lowwater.plan.properties.placing import NUMBER
from lowwater.plan.properties.state import hands_over
from lowwater.plan.temporal import END_OF_TIME, INT64_MAX
from lowwater.plan.tree import leaf_name, leaves, walk

Inputs = Mapping[tuple[str, str], list[str]]
Behind = Mapping[str, tuple[LftaInput | Cut, list[Feed]]]
"""The leaves of a plan by name, each with what is stored behind it."""

CONF = {
    "spark.sql.streaming.minBatchesToRetain": "1",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing."
    "FileSystemBasedCheckpointFileManager",
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
    "spark.sql.adaptive.enabled": "false",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
}
"""Settings of the session of a run: a micro-batch costs no more than it must.

Spark's default manager of checkpoint files starts four processes (`readlink`) for every file on a local disk.
"""

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Settings over those for streams of punctuation, which has few rows: no Java is generated and compiled."""


@dataclass(frozen=True)
class _Plan(Sliced):
    """A plan in slices, and where its rows and its punctuation go.

    Attributes:
        stream: takes them.
        closing: tick (ns) of the last promise of the timeline.
    """

    stream: StreamFiles
    closing: int
    timeline: Timeline


@dataclass(frozen=True)
class _Run:
    """What the output queries of one run share."""

    session: SparkSession
    feeds: Mapping[tuple[str, str], Feed]
    start: int
    end: int
    work: Path
    settings: HighSettings
    carries: Mapping[str, Carry]
    published: bool

    def together(self, queries: Mapping[str, Node]) -> dict[str, HighResult | ValueOverflowError]:
        """Runs output queries of one part each on one stream; a query without a result has its error."""
        began = time.monotonic()
        results = {name: HighResult() for name in queries}
        streams = {name: self._output(name, node) for name, node in queries.items()}
        plans = {name: plan for name, node in queries.items() if (plan := self._sliced(name, node, {}, streams[name]))}
        folder = self.work / "all-slices"  # the name of no query
        errors = self._evaluate(plans, results, folder) if plans else {}
        for name, result in results.items():
            _finish(result, streams[name], began)
        return {**results, **errors}

    def _output(self, name: str, node: Node) -> StreamFiles:
        """The stream of the rows of an output query."""
        stream = StreamFiles(self.work / name / "rows", node.fields, (self.start, self.end), self.end, self.published)
        stream.folder.mkdir(parents=True)
        return stream

    def query(self, name: str, node: Node) -> HighResult:
        """Runs the parts of the plan of one output query one after another."""
        began = time.monotonic()
        result = HighResult()
        parts, top = cut(node)
        made: dict[str, Feed] = {}
        for part in parts:
            # A part keeps every row: whether one is owned can only be said of the rows that its consumers make of it.
            all_time = (-END_OF_TIME, INT64_MAX)
            everything = StreamFiles(self.work / name / part.name, part.node.fields, all_time, END_OF_TIME)
            everything.folder.mkdir(parents=True)
            self._part(name, part.node, made, everything, result)
            made[part.name] = Feed.scan(everything.files)
        stream = self._output(name, top)
        self._part(name, top, made, stream, result)
        _finish(result, stream, began)
        return result

    def _part(self, query: str, node: Node, made: Mapping[str, Feed], stream: StreamFiles, result: HighResult) -> None:
        if (plan := self._sliced(query, node, made, stream)) is not None:
            for error in self._evaluate({query: plan}, {query: result}, stream.folder.parent / "slices").values():
                raise error

    def _sliced(self, query: str, node: Node, made: Mapping[str, Feed], stream: StreamFiles) -> _Plan | None:
        """A plan in slices, which are evaluated as promises close them; None where there is nothing to do."""
        behind = {leaf_name(leaf): (leaf, self._behind(leaf, made)) for leaf in leaves(node)}
        feeds = [feed for _, group in behind.values() for feed in group]
        rows, handed = any(feed.rows for feed in feeds), hands_over(node)
        if not rows and not handed:
            stream.close(self.end)
            return None
        carry = self.carries.get(query, Carry(end=self.end))
        start = carry.start if handed and (carry.start or not rows) else None
        replay = Replay.over(feeds, self.end, self.settings.tick, start)
        timeline = replay.timeline([replay.promised(group) for _, group in behind.values()])
        ends: Counter[int] = Counter()
        for feed in feeds:
            ends.update(feed.ends)
        most = max(1, -(-ends.total() // self.settings.slice_rows))
        chained = not by_slices(node)
        slices = choose_chain(behind, ends, most) if chained else choose_slices(node, ends, most)
        lists = {(each.file, each.columns): _watch_table(each) for each in walk(node) if isinstance(each, WatchJoin)}
        stored = _stored(node, behind)
        step = None if waits_for_promises(node) else self.settings.tick
        known = stream.owned, timeline, step, replay.closing, stream.published, carry if chained else None
        tasks = [
            SliceTask(node, each, stored, lists, stream.folder, f"{number:05d}", *known)
            for number, each in enumerate(slices)
        ]
        python = any(operator.physical().in_python for operator in walk(node))
        return _Plan(tasks, ends.total(), python, stream, replay.closing, timeline)

    def _evaluate(
        self, plans: Mapping[str, _Plan], results: Mapping[str, HighResult], folder: Path
    ) -> dict[str, ValueOverflowError]:
        """Evaluates plans in slices on one stream of punctuation; the errors of those of which a sum does not fit."""
        try:
            found = run_slices(plans, self.session, folder, self.settings)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        errors = {}
        for name, plan in plans.items():
            outcomes = found[name]
            if isinstance(outcomes, ValueOverflowError):
                errors[name] = outcomes
                continue
            for outcome in outcomes:
                for file, rows in outcome.files.items():
                    plan.stream.take(file, rows)
            add_up(outcomes, results[name])
            plan.stream.close(plan.closing, plan.timeline)
        return errors

    def _behind(self, leaf: LftaInput | Cut, made: Mapping[str, Feed]) -> list[Feed]:
        if isinstance(leaf, Cut):
            return [made[leaf.name]]
        return [self.feeds[leaf.lfta.name, link] for link in leaf.lfta.links]


def _finish(result: HighResult, stream: StreamFiles, began: float) -> None:
    result.files, result.rows, result.punctuation = stream.files, stream.rows, stream.punctuation
    result.seconds = time.monotonic() - began


def _stored(node: Node, behind: Behind) -> dict[str, Stored]:
    """What is stored behind each leaf of a plan; the numbers of rows are not."""
    links, placed = links_of(node), placed_leaves(node)
    stored = {}
    for name, (leaf, group) in behind.items():
        lfta = leaf.lfta if isinstance(leaf, LftaInput) else None
        numbers = [links.index(link) for link in lfta.links] if lfta else [0]
        chunks = [(number, chunk) for number, feed in zip(numbers, group, strict=True) for chunk in feed.chunks]
        record = NUMBER if lfta and lfta.placed else ""
        stored[name] = Stored(lfta.stored if lfta else leaf.fields, chunks, name in placed, record)
    return stored


def _watch_table(node: WatchJoin) -> pa.Table:
    """The rows of a watch list, with the columns of the operator.

    Raises:
        ConfigError: the file of the list cannot be read, or a line of it is wrong.
    """
    rows = read_watchlist(node.file, [(f.name.removeprefix(f"{node.watch_alias}."), f.type) for f in node.columns])
    columns = zip(*rows, strict=True) if rows else ([] for _ in node.columns)
    arrays = [pa.array(list(values), STREAM_TYPES[f.type]) for values, f in zip(columns, node.columns, strict=True)]
    return pa.table(arrays, names=[f.name for f in node.columns])


def _files(inputs: Inputs, lfta: str, link: str) -> list[str]:
    if (lfta, link) not in inputs:
        raise LowwaterError(f"the low stage left no stream of {lfta} on link {link}", "run the low stage first")
    return inputs[lfta, link]


def run_session(spark: SparkSession, more: Mapping[str, str]) -> SparkSession:
    """A session of its own beside `spark`, as `build_session` makes it, with the settings CONF and more."""
    session = spark.newSession()
    for key, value in {**CONF, **more}.items():
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
    published: bool = False,
) -> dict[str, HighResult]:
    """Runs every output query over the replayed LFTAs of one interval.

    Args:
        spark: as `build_session` makes it.
        queries: high plan by name of the output.
        inputs: parquet files of each LFTA instance, by LFTA name and link, in order of `_tick`.
        start, end: the interval, ns; rows with `_last` in [start, end) are kept.
        work: folder for rows, parts and checkpoints, one folder a query in it; the caller removes it.
        settings: how to replay; rows do not depend on it.
        carries: the carries of the queries that hand something over from interval to interval.
        overflows: takes the error of each query of which a sum does not fit; None where that ends the run.
        published: whether rows are written as they are published, else in stream types.

    Returns:
        Files and statistics by query, without those in `overflows`.

    Raises:
        ValueOverflowError: if an integer sum does not fit 64 bits.
        LowwaterError: if an input cannot be read or Spark fails.
    """
    settings = settings or HighSettings()
    wanted = {leaf.lfta for node in queries.values() for leaf in leaves(node) if isinstance(leaf, LftaInput)}
    feeds = {(lfta.name, link): Feed.scan(_files(inputs, lfta.name, link)) for lfta in wanted for link in lfta.links}
    session = run_session(spark, INTERPRETED)
    run = _Run(session, feeds, start, end, work, settings, carries or {}, published)
    whole = {name: node for name, node in queries.items() if not cut(node)[0]}
    with ThreadPoolExecutor(settings.concurrency, thread_name_prefix="lowwater-high") as pool:
        together = pool.submit(run.together, whole)
        apart = {name: pool.submit(run.query, name, node) for name, node in queries.items() if name not in whole}
        found: dict[str, HighResult | ValueOverflowError] = {**together.result()}
        for name, future in apart.items():
            try:
                found[name] = future.result()
            except ValueOverflowError as error:
                found[name] = error
    results = {}
    for name in queries:
        result = found[name]
        if isinstance(result, HighResult):
            results[name] = result
        elif overflows is None:
            raise result
        else:
            overflows[name] = result
    return results
