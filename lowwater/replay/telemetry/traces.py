"""Traces of runs for OpenTelemetry: a run is a trace; its stages, nodes and heartbeats are spans."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

import lowwater
from lowwater.catalog.schemas import PUNCTUATION
from lowwater.documents import stored_object
from lowwater.errors import LowwaterError
from lowwater.instants import SECOND, format_instant
from lowwater.lake.layout import OUTCOMES, Lake
from lowwater.lake.ledgers.runs import AUDIT, FAILED, HIGH, LOW, PUBLISH, ReplayRow, read_heartbeats, read_replays
from lowwater.lake.results.streams import stream_files, stream_parts
from lowwater.limits import PUSH_SECONDS
from lowwater.replay.interval import lfta_folder
from lowwater.replay.job import Job
from lowwater.storage.paths import local

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter


# Lags. The punctuation is in `lfta/` and `streams/`. At virtual time t the promise of a node is its largest so far,
# and its lag is t minus the promise. The node where the lag grows delays the others (000, section 6.2).

READ = pa.schema([(name, pa.int64()) for name in ("_tick", "_until", "_last")])
SAMPLES = 60
"""Number of instants of an interval at which the lag is sampled."""


@dataclass(frozen=True)
class Lag:
    """The lag of one node.

    Attributes:
        level: `link`, `LFTA` or `query`.
        name: name of the node.
        on: link of an LFTA; empty for other nodes.
        typical: median lag over the interval, ns.
        most: largest lag over the interval, ns.
        series: lag at `SAMPLES` instants, ns.
        before: median lag of the node's inputs, ns, where its bar begins.
    """

    level: str
    name: str
    on: str
    typical: int
    most: int
    series: tuple[int, ...]
    before: int


def interval_lags(job: Job, start: int, end: int) -> list[Lag]:
    """Measures the lags of links, LFTAs and output queries over [start, end), in the direction of flow.

    Args:
        start: first instant of the interval, ns since the epoch.
        end: end of the interval, ns since the epoch, exclusive.

    Returns:
        The lags; none before a run.
    """
    # Samples at irregular times, because ticks and epochs are regular and would bias the lag.
    shares = (np.arange(SAMPLES) + (np.arange(SAMPLES) * 0.618034) % 1) / SAMPLES
    moments = start + (shares * (end - start)).astype(np.int64)
    lags: list[Lag] = []
    for link in job.plan.links:
        skew = job.config.link(link).longest_skew
        lags.append(Lag("link", link, "", skew, skew, (skew,) * SAMPLES, 0))
    for lfta in job.plan.lftas:
        parts = stream_parts(job.lake.lfta(job.query_set, lfta_folder(lfta)), start, end)
        for link, files in zip(sorted(lfta.links), parts, strict=False):
            before = job.config.link(link).longest_skew
            lags += _lag("LFTA", lfta.name, link, files, moments, before, start)
    for query in job.plan.queries:
        below = [lag.typical for lag in lags if lag.level == "LFTA" and lag.name in {lfta.name for lfta in query.lftas}]
        files = stream_files(job.lake.stream(query.name), start, end)
        lags += _lag("query", query.name, "", files, moments, max(below, default=0), start)
    return lags if any(lag.level != "link" for lag in lags) else []


def _lag(
    level: str, name: str, on: str, files: Sequence[PurePath], moments: NDArray[np.int64], before: int, start: int
) -> list[Lag]:
    rows = _promises(files)
    if rows is None:
        return []
    ticks, untils, promises = rows
    at = np.searchsorted(ticks, moments, side="right") - 1
    # Without traffic the promise rises with the clock. Before the first promise it is the start of the interval.
    risen = np.minimum(moments, untils[np.maximum(at, 0)]) - ticks[np.maximum(at, 0)]
    promised = np.where(at < 0, start, promises[np.maximum(at, 0)] + np.maximum(risen, 0))
    lags = np.maximum(0, moments - promised)
    return [Lag(level, name, on, int(np.median(lags)), int(lags.max()), tuple(lags.tolist()), before)]


def _promises(files: Sequence[PurePath]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]] | None:
    """Reads the punctuation of a node by tick, all ns; None without punctuation or with a damaged file.

    Returns:
        Ticks, ends of the lulls after them, and the largest promise so far.
    """
    tables = []
    for path in files:
        try:
            table = pq.read_table(local(path), columns=["_kind", *READ.names], filters=[("_kind", "=", PUNCTUATION)])
            tables.append(table.select(READ.names).cast(READ))
        except (OSError, pa.ArrowException):
            return None  # the audit reports the damaged stream
    rows = pa.concat_tables([READ.empty_table(), *tables]).sort_by([("_tick", "ascending"), ("_last", "ascending")])
    if not rows.num_rows:
        return None
    return _numbers(rows, "_tick"), _numbers(rows, "_until"), np.maximum.accumulate(_numbers(rows, "_last"))


def _numbers(rows: pa.Table, name: str) -> NDArray[np.int64]:
    values: NDArray[np.int64] = rows.column(name).to_numpy()
    return values


# Spans are read from the ledgers after the run, so that a run is not slowed down by a collector, and never fails
# because of one. The ids of a run are always the same, so a trace that is sent again is the same trace.

ORDER = {LOW: 0, HIGH: 1, AUDIT: 2, PUBLISH: 3}

Value = str | int | float | bool


@dataclass(frozen=True)
class Span:
    """A part of a run.

    Attributes:
        name: what was done.
        trace: id of the trace, 128 bits.
        id: id of the span, 64 bits.
        parent: id of the span that it is a part of; 0 for the run itself.
        start: begin, wall clock, ns since the epoch.
        end: end, wall clock, ns since the epoch.
        attributes: what is known of it.
        error: why it failed; empty if it did not.
    """

    name: str
    trace: int
    id: int
    parent: int
    start: int
    end: int
    attributes: Mapping[str, Value]
    error: str = ""


@dataclass
class RunRows:
    """The ledger rows of one run of an interval, oldest first."""

    query_set: str
    start: int
    end: int
    rows: list[ReplayRow] = field(default_factory=list)

    @property
    def finished(self) -> int:
        """Time of its last row, ns since the epoch."""
        return self.rows[-1].finished_at


def runs_since(lake: Lake, since: int) -> list[RunRows]:
    """Finds the runs that ended after an instant, in the order of their ends.

    Args:
        since: wall clock, ns since the epoch.

    Raises:
        LakeError: the ledger cannot be read.
    """
    open_runs: dict[tuple[str, int, int], RunRows] = {}
    runs: list[RunRows] = []
    for row in read_replays(lake):
        key = row.query_set, row.interval_start, row.interval_end
        run = open_runs.get(key)
        if run is None or run.rows[-1].state == FAILED or ORDER[row.stage] < ORDER[run.rows[-1].stage]:
            run = open_runs[key] = RunRows(*key)
            runs.append(run)
        run.rows.append(row)
    return sorted((run for run in runs if run.finished > since), key=lambda run: run.finished)


def spans_of(lake: Lake, run: RunRows, job: Job | None, newest: bool) -> list[Span]:
    """Makes the spans of a run, the run itself first.

    Args:
        job: its query set; None if it cannot be planned, and then without heartbeats.
        newest: whether it is the last run of its interval, so that the lake's accounts and streams are of this run.
    """
    maker = _Maker(run)
    stages: dict[str, list[ReplayRow]] = defaultdict(list)
    for row in run.rows:
        stages[row.stage].append(row)
    spans = [maker.stage(stage, rows) for stage, rows in stages.items()]
    by_stage = {str(span.attributes["lowwater.stage"]): span for span in spans}
    details: list[Span] = []
    if LOW in by_stage and newest:
        details += _lftas(lake, run, maker, by_stage[LOW])
    for row in stages.get(HIGH, ()):
        if row.query and row.state != FAILED:
            details += _query(row, maker, by_stage[HIGH])
    if newest and job is not None and {LOW, HIGH} <= set(by_stage):
        details += _heartbeats(job, run, maker, by_stage)
    return [maker.root(spans), *spans, *details]


class _Maker:
    """Makes spans of one trace."""

    def __init__(self, run: RunRows) -> None:
        self._run = run
        first = run.rows[0].finished_at
        self._seed = f"{run.query_set} {run.start} {run.end} {first}"
        self._trace = int.from_bytes(sha256(self._seed.encode()).digest()[:16]) or 1
        self._root = self._id("run")

    def _id(self, name: str) -> int:
        return int.from_bytes(sha256(f"{self._seed} {name}".encode()).digest()[:8]) or 1

    def span(self, key: str, name: str, parent: Span | None, bounds: tuple[int, int], **attributes: Value) -> Span:
        """Makes a span below another one, or below the run; `key` is its own within the run."""
        named = {f"lowwater.{word}": value for word, value in attributes.items()}
        above = self._root if parent is None else parent.id
        return Span(name, self._trace, self._id(key), above, *bounds, named)

    def stage(self, stage: str, rows: Sequence[ReplayRow]) -> Span:
        """Makes the span of a stage from its rows; a stage that failed before it was timed has no length."""
        end = max(row.finished_at for row in rows)
        seconds = max(stored_object(row.timings).get(stage, 0.0) for row in rows)
        failed = next((row for row in rows if row.state == FAILED), None)
        counted = [row.rows for row in rows if row.rows is not None]
        attributes: dict[str, Value] = {"stage": stage, "state": rows[-1].state}
        if counted:
            attributes["rows"] = sum(counted)
        span = self.span(stage, stage, None, (end - round(seconds * SECOND), end), **attributes)
        return Span(**{**span.__dict__, "error": failed.reason or "failed"}) if failed else span

    def root(self, stages: Sequence[Span]) -> Span:
        run, last = self._run, self._run.rows[-1]
        bounds = min(span.start for span in stages), max(span.end for span in stages)
        attributes: dict[str, Value] = {
            "lowwater.query_set": run.query_set,
            "lowwater.interval.start": format_instant(run.start),
            "lowwater.interval.end": format_instant(run.end),
            "lowwater.state": last.state,
            "lowwater.reason": last.reason,
        }
        error = (last.reason or "failed") if last.state == FAILED else ""
        return Span(f"run {run.query_set}", self._trace, self._root, 0, *bounds, attributes, error)


def _lftas(lake: Lake, run: RunRows, maker: _Maker, stage: Span) -> Iterator[Span]:
    """Yields a span for each LFTA and link; its length is its processor time, since LFTAs of a link run together."""
    totals: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in read_heartbeats(lake, run.query_set, run.start, run.end).to_pylist():
        counts = totals[row["lfta"], row["link"]]
        for name in ("sane", *OUTCOMES, "rows_out", "punctuations", "collisions", "ejections", "nanoseconds"):
            counts[name] += row[name] or 0
    for (lfta, link), counts in sorted(totals.items()):
        length = min(counts.pop("nanoseconds"), stage.end - stage.start)
        bounds = stage.start, stage.start + length
        facts: dict[str, Value] = {"lfta": lfta, "link": link, "processor_seconds": length / SECOND, **counts}
        yield maker.span(f"lfta {lfta} {link}", f"lfta {lfta}", stage, bounds, **facts)


def _query(row: ReplayRow, maker: _Maker, stage: Span) -> Iterator[Span]:
    """Yields the span of a query in the high stage, and its operators below it."""
    account = stored_object(row.accounting)
    length = round(float(account.get("seconds", 0.0)) * SECOND)
    bounds = max(stage.start, row.finished_at - length), row.finished_at
    facts: dict[str, Value] = {"query": row.query, "rows": row.rows or 0}
    span = maker.span(f"query {row.query}", f"query {row.query}", stage, bounds, **facts)
    yield span
    for at, operator in enumerate(account.get("operators", ())):
        kind, of = str(operator["kind"]), str(operator["query"])
        counts: dict[str, Value] = {name: int(count) for name, count in operator["counts"].items()}
        key = f"operator {row.query} {at}"
        yield maker.span(key, f"{kind} {of}", span, bounds, operator=kind, query=of, **counts)


def _heartbeats(job: Job, run: RunRows, maker: _Maker, stages: Mapping[str, Span]) -> Iterator[Span]:
    """Yields a span for the heartbeats of each node: by how much its promises trailed the clock of the replay."""
    for lag in interval_lags(job, run.start, run.end):
        stage = stages[HIGH if lag.level == "query" else LOW]
        facts: dict[str, Value] = {
            "level": lag.level,
            "node": lag.name,
            "lag.typical_seconds": lag.typical / SECOND,
            "lag.most_seconds": lag.most / SECOND,
        }
        if lag.on:
            facts["link"] = lag.on
        key = f"heartbeats {lag.level} {lag.name} {lag.on}"
        yield maker.span(key, f"heartbeats {lag.name}", stage, (stage.start, stage.end), **facts)


def traces_since(lake: Lake, planned: Iterable[Job], since: int) -> Iterator[tuple[RunRows, list[Span]]]:
    """Yields the runs that ended after an instant with their spans.

    Args:
        since: wall clock, ns since the epoch.

    Raises:
        LakeError: a ledger or a stream cannot be read.
    """
    by_name: Mapping[str, Job] = {job.query_set: job for job in planned}
    runs = runs_since(lake, since)
    newest: dict[tuple[str, int, int], Any] = {(run.query_set, run.start, run.end): run for run in runs}
    for run in runs:
        last = newest[run.query_set, run.start, run.end] is run
        yield run, spans_of(lake, run, by_name.get(run.query_set), last)


# By the official exporter of the extra `metrics`.


class TraceSender:
    """Sends spans to a collector by OTLP over HTTP.

    Args:
        address: address of the collector; `/v1/traces` is added if it names no path.
    """

    def __init__(self, address: str) -> None:
        from urllib.parse import urlsplit

        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise LowwaterError(f"{address}: no address of a collector", "write for example --to http://localhost:4318")
        path = parts.path if parts.path not in ("", "/") else "/v1/traces"
        self._address = f"{parts.scheme}://{parts.netloc}{path}"
        # Its log shows what the collector answers as it is; the error of `send` says enough.
        logging.getLogger(OTLPSpanExporter.__module__).setLevel(logging.CRITICAL + 1)
        self._exporter: SpanExporter = OTLPSpanExporter(endpoint=self._address, timeout=PUSH_SECONDS)

    def send(self, spans: Sequence[Span]) -> None:
        """Sends the spans of a run.

        Raises:
            LowwaterError: the collector does not take them.
        """
        from opentelemetry.sdk.trace.export import SpanExportResult

        if self._exporter.export([_readable(span) for span in spans]) is not SpanExportResult.SUCCESS:
            raise LowwaterError(
                f"{self._address}: the collector did not take the spans", "check its address and that it runs"
            )

    def close(self) -> None:
        """Ends the connection."""
        self._exporter.shutdown()


def _readable(span: Span) -> ReadableSpan:
    """Makes the span of the official library."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

    sampled = TraceFlags(TraceFlags.SAMPLED)
    return ReadableSpan(
        name=span.name,
        context=SpanContext(span.trace, span.id, False, sampled),
        parent=SpanContext(span.trace, span.parent, False, sampled) if span.parent else None,
        resource=Resource({"service.name": "lowwater", "service.version": lowwater.__version__}),
        attributes=dict(span.attributes),
        kind=SpanKind.INTERNAL,
        status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.OK),
        start_time=span.start,
        end_time=span.end,
    )
