"""Metrics of a lake for Prometheus, and traces of its runs for OpenTelemetry, both from its ledgers; off unless a
command asks for them.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import groupby
from pathlib import Path, PurePath
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler, WSGIServer

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

import lowwater
from lowwater import documents, hosts, terminal
from lowwater.catalog.schemas import PUNCTUATION
from lowwater.config import load_config
from lowwater.errors import LakeError, LowwaterError
from lowwater.instants import SECOND, format_instant
from lowwater.lake import backup, query_sets, verification, words
from lowwater.lake.answers import answered
from lowwater.lake.layout import OUTCOMES, Lake, lake_to_read
from lowwater.lake.ledgers import intervals, runs
from lowwater.lake.ledgers.captures import ingested_links, read_captures
from lowwater.lake.ledgers.drops import counted
from lowwater.lake.ledgers.files import overlapping_files, told_files
from lowwater.lake.ledgers.missing import lost_of_link
from lowwater.lake.results import streams
from lowwater.limits import PUSH_SECONDS, SCRAPE_CONNECTIONS, SCRAPE_SECONDS
from lowwater.replay.job import Job
from lowwater.replay.registry import StreamInfo, list_streams
from lowwater.replay.reuse import lfta_folder, low_range
from lowwater.replay.schedule import looks
from lowwater.replay.schedule.due import States, with_running
from lowwater.replay.schedule.links import jobs
from lowwater.storage import paths

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import GaugeMetricFamily

# Name, unit, labels and meaning of each metric; docs/metrics.md lists them.


@dataclass(frozen=True)
class Metric:
    """A metric; all are gauges, because each is what the ledgers say now."""

    name: str  # name in Prometheus; ends with the unit if it has one
    unit: str  # unit of the value
    labels: tuple[str, ...]
    help: str


STREAM = ("query_set", "stream")

METRICS = (
    Metric("lowwater_up", "0 or 1", (), "Whether the lake could be read; without it there are no other values."),
    Metric("lowwater_link_packets", "records", ("link",), "Records of the captures that the lake has."),
    Metric("lowwater_link_captured_bytes", "bytes", ("link",), "Size of the capture files that the lake has."),
    Metric("lowwater_link_malformed", "records", ("link",), "Damaged records in these captures."),
    Metric("lowwater_link_dropped", "records", ("link",), "Records that these captures say were lost."),
    Metric("lowwater_link_unread_files", "files", ("link",), "Files in the folders of the link that nobody reads."),
    Metric("lowwater_link_captured_until_seconds", "s since the epoch", ("link",), "End of the coverage of the link."),
    Metric("lowwater_link_ingested_seconds", "s since the epoch", ("link",), "Time of the last ingest of the link."),
    Metric(
        "lowwater_link_violating_ratio",
        "share, 0 to 1",
        ("query_set", "link"),
        "Share of records later than the skew, in the last audited interval.",
    ),
    Metric(
        "lowwater_link_lateness_seconds",
        "s",
        ("query_set", "link"),
        "Lateness that 99.9 % of the records do not exceed, in the last audited interval.",
    ),
    Metric(
        "lowwater_lfta_records",
        "records",
        ("query_set", "lfta", "link", "outcome"),
        "Sane records of the interval whose low stage ran last, by outcome: `accepted`, `filtered`, `shed` and others.",
    ),
    Metric("lowwater_stream_rows", "rows", STREAM, "Rows of the interval that was published last."),
    Metric("lowwater_stream_published_seconds", "s since the epoch", STREAM, "Time of the last publication."),
    Metric("lowwater_stream_until_seconds", "s since the epoch", STREAM, "End of what is published."),
    Metric("lowwater_stream_lag_seconds", "s", STREAM, "Captured time of its links that is not published yet."),
    Metric("lowwater_stream_holes", "ranges", STREAM, "Ranges between published intervals that are not published."),
    Metric("lowwater_stream_version", "commits", STREAM, "Version of the table."),
    Metric(
        "lowwater_subscriber_behind_versions",
        "commits",
        ("stream", "subscriber"),
        "Versions of the table that a named subscriber has not read.",
    ),
    Metric(
        "lowwater_subscriber_seen_seconds",
        "s since the epoch",
        ("stream", "subscriber"),
        "Time at which a named subscriber was done with a change.",
    ),
    Metric(
        "lowwater_intervals",
        "intervals",
        ("query_set", "state"),
        "Intervals by what `lowwater status` calls them, each counted once; of query sets that can be planned.",
    ),
    Metric(
        "lowwater_interval_oldest_seconds",
        "s since the epoch",
        ("query_set", "state"),
        "End of the oldest interval of a state, or of those that wait; of query sets that a schedule looks at.",
    ),
    Metric(
        "lowwater_looked_seconds",
        "s since the epoch",
        ("query_set",),
        "Time of the last look of a schedule at the query set.",
    ),
    Metric("lowwater_backup_seconds", "s since the epoch", (), "Time of the last backup; none where nobody took one."),
    Metric(
        "lowwater_verified_seconds",
        "s since the epoch",
        ("bytes",),
        "Time of the last `lowwater verify`: of sizes (`bytes` is no), or of all bytes of a share (yes).",
    ),
    Metric("lowwater_damaged_files", "files", ("bytes",), "Files that this look found damaged."),
    Metric(
        "lowwater_audit_failed",
        "expectations",
        ("query_set", "severity"),
        "Expectations that failed in the newest audits of all intervals.",
    ),
    Metric(
        "lowwater_last_audit_failed",
        "expectations",
        ("query_set", "severity"),
        "Expectations that failed in the newest audit of the last audited interval.",
    ),
    Metric("lowwater_run_finished_seconds", "s since the epoch", ("query_set",), "Time of the last ledger entry."),
    Metric("lowwater_stage_seconds", "s", ("query_set", "stage"), "Duration of the stage when it ran last."),
    Metric(
        "lowwater_tasks_again",
        "tasks",
        ("query_set",),
        "Tasks of the low stage that ran last on a cluster which were tried more than once.",
    ),
    Metric(
        "lowwater_query_set_broken",
        "0 or 1",
        ("query_set",),
        "Whether the query set cannot be planned with its present text and settings.",
    ),
    Metric("lowwater_collected_seconds", "s since the epoch", (), "Time at which these metrics were read."),
    Metric("lowwater_collection_seconds", "s", (), "Time that reading the lake took."),
)


# The web server has few connections, each with an end, whatever is sent. Prometheus' own server has a thread for
# everybody who connects, for as long as they like.

PLAIN = [("Content-Type", "text/plain; charset=utf-8"), ("X-Content-Type-Options", "nosniff")]

App = Callable[[Mapping[str, Any], Callable[..., Any]], Any]


class _Answer(ServerHandler):
    def log_exception(self, exc_info: Any) -> None:
        if not isinstance(exc_info[1], OSError):  # else the client is gone
            terminal.say(f"error: {type(exc_info[1]).__name__}: {exc_info[1]}", err=True)


class _Request(WSGIRequestHandler):
    server: Endpoint

    def setup(self) -> None:
        super().setup()
        self.connection.settimeout(SCRAPE_SECONDS)

    def handle(self) -> None:
        self.raw_requestline = self.rfile.readline(65537)
        if len(self.raw_requestline) > 65536:
            self.requestline, self.command = "", ""
            self.send_error(414)
        elif not self.parse_request():
            return
        elif self.request_version == "HTTP/0.9":
            self.send_error(505)
        else:
            self.server.heard(self.connection)
            reader: Any = self.rfile
            writer: Any = self.wfile
            app: Any = self.server.get_app()
            answer: Any = _Answer(reader, writer, self.get_stderr(), self.get_environ(), multithread=True)
            answer.request_handler = self
            answer.run(app)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuses a request, and says nothing of what it holds."""
        self.request_version = "HTTP/1.0"  # the one before has no headers
        self.send_response(code)
        for header in PLAIN:
            self.send_header(*header)
        self.end_headers()
        self.wfile.write(b"Only GET is of use here.\n")

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: a line for each request is of no use to anybody."""


class Endpoint(ThreadingMixIn, WSGIServer):
    """The server; `port` 0 for a free one, `names` are permitted in the header `Host`, None for every name.
    Raises OSError if the address cannot be had."""

    daemon_threads, request_queue_size = True, 128

    def __init__(self, host: str, port: int, app: App, names: frozenset[str] | None) -> None:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family, _, _, _, address = found[0]
        # Connection -> since when its request is under way; None once it is here.
        self._open: dict[socket.socket, float | None] = {}
        self._lock = threading.Lock()
        super().__init__(address[:2], _Request)  # type: ignore[arg-type]
        self.set_app(_guarded(app, names))

    def process_request(self, request: Any, client_address: Any) -> None:
        """Takes a connection, in place of one that makes the server wait if there are many."""
        with self._lock:
            waiting = [(since, line) for line, since in self._open.items() if since is not None]
            full = len(self._open) >= SCRAPE_CONNECTIONS
            if full and waiting:
                _end(min(waiting, key=lambda each: each[0])[1])
            if not full or waiting:
                self._open[request] = time.monotonic()
        if request in self._open:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def heard(self, request: socket.socket) -> None:
        with self._lock:
            self._open[request] = None

    def service_actions(self) -> None:
        """Ends the connections whose requests do not come; called twice a second."""
        with self._lock:
            now = time.monotonic()
            for line, since in self._open.items():
                if since is not None and now - since > SCRAPE_SECONDS:
                    _end(line)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing: a client that ends early is no news."""


def _end(line: socket.socket) -> None:
    with suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)  # its thread sees the end, and closes it


def _guarded(app: App, names: frozenset[str] | None) -> App:
    """Returns an application that answers to its own names only, and reads the lake for one request at a time."""
    turn = threading.Lock()

    def answer(environ: Mapping[str, Any], start_response: Callable[..., Any]) -> Any:
        if not hosts.is_known(environ.get("HTTP_HOST", ""), names):
            start_response("421 Misdirected Request", PLAIN)
            return [b"This server has another name.\n"]
        if environ["REQUEST_METHOD"] != "GET":
            start_response("405 Method Not Allowed", [*PLAIN, ("Allow", "GET")])
            return [b"Only GET is of use here.\n"]
        with turn:
            return app(environ, start_response)

    return answer


# By the official client, of the extra `metrics`. Reading the lake changes nothing in it.

Sample = tuple[str, tuple[str, ...], float]
"""Name of a metric, values of its labels, value."""

MEASURES = {"violating": "lowwater_link_violating_ratio", "lateness": "lowwater_link_lateness_seconds"}
"""Measure of the ledger `metrics` -> metric; lateness is ns there."""


class LakeCollector:
    """Reads a lake when Prometheus asks; `lenient`: one that cannot be read gives `lowwater_up` 0, and no error."""

    def __init__(self, root: PurePath, queries: Path, lenient: bool = False) -> None:
        self._root, self._queries, self._lenient = paths.lake_path(root), queries, lenient

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yields every metric with the samples that there are now.
        Raises LakeError if there is no such lake, or it cannot be read."""
        families = {family.name: family for family in self.describe()}
        try:
            samples = [*self.samples(), ("lowwater_up", (), 1.0)]
        except LowwaterError as error:
            if not self._lenient:
                raise
            terminal.say(f"error: {error}", err=True)
            samples = [("lowwater_up", (), 0.0)]
        for name, labels, value in samples:
            families[name].add_metric(labels, value)
        yield from families.values()

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Yields the metrics without samples, so that registering reads nothing."""
        from prometheus_client.core import GaugeMetricFamily

        yield from (GaugeMetricFamily(metric.name, metric.help, labels=metric.labels) for metric in METRICS)

    def samples(self) -> Iterator[Sample]:
        begin = time.monotonic()
        lake = lake_to_read(self._root)
        unplanned: dict[str, LowwaterError] = {}
        planned = jobs(self._root, self._queries, unplanned.__setitem__)
        problems = {name: error.message for name, error in unplanned.items()}
        settled = answered(
            lake,
            "metrics",
            repr((load_config(self._root), sorted(job.footing for job in planned), problems)),
            lambda: [*_settled(lake, planned, problems)],
        )
        yield from ((name, tuple(labels), value) for name, labels, value in settled)
        yield from _intervals(lake, planned)
        yield "lowwater_collected_seconds", (), time.time()
        yield "lowwater_collection_seconds", (), time.monotonic() - begin


def _settled(lake: Lake, planned: list[Job], problems: dict[str, str]) -> Iterator[Sample]:
    """Yields the samples on which neither the time nor who is at work has an influence."""
    yield from _links(lake)
    yield from _measures(lake)
    for info in list_streams(lake, planned, problems):
        yield from _stream(info)
    replays = runs.read_replays(lake)
    yield from _lftas(lake, replays)
    yield from _runs(replays)
    yield from _care(lake)
    yield from _audits(lake)
    yield from _sets(planned, problems)


def _links(lake: Lake) -> Iterator[Sample]:
    rows = (*told_files(lake).values(), *overlapping_files(lake, load_config(lake.root)))
    unread = Counter(link for row in rows if row.unread for link in row.links)
    for link in sorted({*ingested_links(lake), *unread}):
        yield "lowwater_link_unread_files", (link,), unread[link]
    for link, captures in read_captures(lake, ingested_links(lake)).items():
        if captures:
            yield "lowwater_link_packets", (link,), int(captures.numbers("packets").sum())
            yield "lowwater_link_captured_bytes", (link,), int(captures.numbers("bytes").sum())
            yield "lowwater_link_malformed", (link,), int(captures.numbers("malformed").sum())
            yield "lowwater_link_dropped", (link,), counted(lost_of_link(lake, link, captures))[0]
            yield "lowwater_link_captured_until_seconds", (link,), (captures.end or 0) / SECOND
            yield "lowwater_link_ingested_seconds", (link,), int(captures.numbers("ingested_at").max()) / SECOND


def _measures(lake: Lake) -> Iterator[Sample]:
    rows = runs.read_metrics(lake)
    measured = pc.is_in(rows["measure"], pa.array(sorted(MEASURES), pa.string()))
    rows = rows.filter(pc.and_(pc.equal(rows["kind"], "link"), measured))
    newest = {
        (row["measure"], row["query_set"], row["subject"]): row["value"]
        for row in rows.sort_by([("interval_end", "ascending"), ("measured_at", "ascending")]).to_pylist()
    }
    for (measure, query_set, link), value in sorted(newest.items()):
        if value is not None:
            yield MEASURES[measure], (query_set, link), value / SECOND if measure == "lateness" else value


def _lftas(lake: Lake, replays: list[runs.ReplayRow]) -> Iterator[Sample]:
    """Yields the accounts of the LFTAs of each query set over the interval whose low stage ran last."""
    newest = {row.query_set: row for row in replays if row.stage == runs.LOW and row.state != words.FAILED}
    for query_set, row in sorted(newest.items()):
        counts: Counter[tuple[str, str, str]] = Counter()
        for beat in runs.read_heartbeats(lake, query_set, row.interval_start, row.interval_end).to_pylist():
            for outcome in OUTCOMES:
                counts[beat["lfta"], beat["link"], outcome] += beat[outcome]
        yield from (("lowwater_lfta_records", (query_set, *labels), count) for labels, count in sorted(counts.items()))


def _stream(info: StreamInfo) -> Iterator[Sample]:
    labels = (info.owner, info.name)
    values = {
        "lowwater_stream_rows": info.rows,
        "lowwater_stream_published_seconds": _seconds(info.published_at),
        "lowwater_stream_until_seconds": _seconds(info.until),
        "lowwater_stream_lag_seconds": _seconds(info.lag),
        "lowwater_stream_holes": max(0, len(info.published) - 1) if info.published else None,
        "lowwater_stream_version": info.version,
    }
    yield from ((name, labels, value) for name, value in values.items() if value is not None)
    for reader in info.readers:
        if reader.behind is not None and reader.seen is not None:
            yield "lowwater_subscriber_behind_versions", (info.name, reader.name), reader.behind
            yield "lowwater_subscriber_seen_seconds", (info.name, reader.name), reader.seen / SECOND


def _seconds(instant: int | None) -> float | None:
    return None if instant is None else instant / SECOND


def _runs(replays: list[runs.ReplayRow]) -> Iterator[Sample]:
    """Yields what the ledger `replays` says, oldest rows first."""
    stages: dict[tuple[str, str], float] = {}
    finished: dict[str, int] = {}
    spread: dict[str, int] = {}
    for row in replays:
        finished[row.query_set] = max(row.finished_at, finished.get(row.query_set, 0))
        seconds = documents.stored_object(row.timings).get(row.stage)
        if seconds is not None:
            stages[row.query_set, row.stage] = seconds
        if row.stage == runs.LOW and row.state != words.FAILED:
            account = documents.stored_object(row.accounting)
            if "tasks" in account:
                spread[row.query_set] = sum(task["tries"] > 1 for task in account["tasks"])
    for query_set in sorted(finished):
        yield "lowwater_run_finished_seconds", (query_set,), finished[query_set] / SECOND
    for labels, seconds in sorted(stages.items()):
        yield "lowwater_stage_seconds", labels, seconds
    yield from (("lowwater_tasks_again", (query_set,), again) for query_set, again in sorted(spread.items()))


def _intervals(lake: Lake, planned: Sequence[Job]) -> Iterator[Sample]:
    """Yields how many intervals of each query set are what `status` says, a stretch as all that it has."""
    for job in planned:
        rows = with_running(lake, States(job).rows())
        counts: Counter[str] = Counter()
        oldest: dict[str, int] = {}
        for _, together in groupby(rows, lambda row: (row.start, row.end)):
            first = intervals.gravest(together)
            counts[first.shown] += first.intervals
            end = first.start + (first.end - first.start) // first.intervals
            oldest[first.shown] = min(end, oldest.get(first.shown, end))
        for word in words.STATES:
            yield "lowwater_intervals", (job.query_set, word), counts[word]
        yield from _looked(lake, job, oldest)


def _looked(lake: Lake, job: Job, oldest: dict[str, int]) -> Iterator[Sample]:
    """Yields what a schedule that looks at a query set leaves to time; nothing where none does."""
    looked = query_sets.last_look(lake.root, job.query_set).at
    if looked:
        yield "lowwater_looked_seconds", (job.query_set,), looked / SECOND
        waits = [left.due for left in looks.waiting(job, time.time_ns())]
        if waits:
            oldest[words.WAITING] = min(due.start + (due.end - due.start) // due.intervals for due in waits)
        for word, end in sorted(oldest.items()):
            if words.WORDS[word].usual:
                yield "lowwater_interval_oldest_seconds", (job.query_set, word), end / SECOND


def _care(lake: Lake) -> Iterator[Sample]:
    """Yields when somebody last looked after the lake: backups, and looks at its files."""
    if (at := backup.last_backup(lake)) is not None:
        yield "lowwater_backup_seconds", (), at / SECOND
    kept = verification.last_verdicts(lake)
    for name, label in (("sizes", "no"), ("data", "yes")):
        with suppress(KeyError, TypeError, ValueError):
            samples = int(kept[name]["at"]) / SECOND, len(kept[name]["damaged"])
            yield "lowwater_verified_seconds", (label,), samples[0]
            yield "lowwater_damaged_files", (label,), samples[1]


def _audits(lake: Lake) -> Iterator[Sample]:
    rows = runs.read_quality(lake).select(["query_set", "interval_end", "severity", "success"]).to_pylist()
    failed = Counter((row["query_set"], row["severity"]) for row in rows if not row["success"])
    last = {row["query_set"]: 0 for row in rows}
    for row in rows:
        last[row["query_set"]] = max(last[row["query_set"]], row["interval_end"])
    newest = Counter(
        (row["query_set"], row["severity"])
        for row in rows
        if not row["success"] and row["interval_end"] == last[row["query_set"]]
    )
    for query_set in sorted(last):
        for severity in ("critical", "warning"):
            yield "lowwater_audit_failed", (query_set, severity), failed[query_set, severity]
            yield "lowwater_last_audit_failed", (query_set, severity), newest[query_set, severity]


def _sets(planned: list[Job], problems: dict[str, str]) -> Iterator[Sample]:
    for name in sorted({job.query_set for job in planned} | set(problems)):
        yield "lowwater_query_set_broken", (name,), float(name in problems)


def registry_of(root: PurePath, queries: Path, lenient: bool = False) -> CollectorRegistry:
    """Returns a registry of the official client with the metrics of a lake."""
    from prometheus_client import CollectorRegistry

    registry = CollectorRegistry()
    registry.register(LakeCollector(root, queries, lenient))
    return registry


def metrics_text(root: PurePath, queries: Path) -> str:
    """Returns the metrics of a lake in the text format of Prometheus.
    Raises LakeError if there is no such lake, or it cannot be read."""
    from prometheus_client import generate_latest

    return generate_latest(registry_of(root, queries)).decode()


def write_textfile(root: PurePath, queries: Path, path: Path) -> None:
    """Writes the metrics to a file for the node exporter, which sees the old or the new one.
    Raises LakeError if the lake cannot be read, or the file cannot be written."""
    text = metrics_text(root, queries)
    try:
        paths.write(path.absolute(), text.encode())
    except OSError as error:
        raise LakeError(f"{path}: cannot be written: {error.strerror}", "name a folder that you may write") from None


@contextmanager
def serving(root: PurePath, queries: Path, host: str, port: int) -> Iterator[int]:
    """Serves the metrics at `/metrics`; each request reads the lake. Yields the port; `port` 0 is a free one.
    Raises LakeError if the address cannot be had."""
    from prometheus_client import make_wsgi_app

    app = make_wsgi_app(registry_of(root, queries, lenient=True))
    try:
        server = Endpoint(host, port, app, hosts.known_names(host))
    except OSError as error:
        hint = "name another port, or end the process that has it"
        raise LakeError(f"{host}:{port}: cannot listen: {error.strerror}", hint) from None
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


# Lags. The punctuation is in `lfta/` and `streams/`. At virtual time t the promise of a node is its largest so far,
# and its lag is t minus the promise. The node where the lag grows delays the others (000, section 6.2).

# Traces: a run is a trace; its stages, nodes and heartbeats are spans.

READ = pa.schema([(name, pa.int64()) for name in ("_tick", "_until", "_last")])
SAMPLES = 60
"""Number of instants of an interval at which the lag is sampled."""


@dataclass(frozen=True)
class Lag:
    """The lag of one node."""

    level: str  # `link`, `LFTA` or `query`
    name: str
    on: str  # link of an LFTA; empty for other nodes
    typical: int  # median lag over the interval, ns
    most: int  # largest lag over the interval, ns
    series: tuple[int, ...]  # lag at `SAMPLES` instants, ns
    before: int  # median lag of the node's inputs, ns, where its bar begins


def interval_lags(job: Job, start: int, end: int) -> list[Lag]:
    """The lags of links, LFTAs and output queries over [start, end), in the direction of flow; none before a run."""
    # Samples at irregular times, because ticks and epochs are regular and would bias the lag.
    shares = (np.arange(SAMPLES) + (np.arange(SAMPLES) * 0.618034) % 1) / SAMPLES
    moments = start + (shares * (end - start)).astype(np.int64)
    lags: list[Lag] = []
    for link in job.plan.links:
        skew = job.config.link(link).at(start).longest_skew
        lags.append(Lag("link", link, "", skew, skew, (skew,) * SAMPLES, 0))
    ran = [row for row in runs.interval_replays(job.lake, job.query_set, start, end) if row.stage == runs.LOW]
    stored = low_range(ran[-1]) if ran and ran[-1].interval == (start, end) else (start, end)
    for lfta in job.plan.lftas:
        parts = streams.stream_parts(job.lake.lfta(job.query_set, lfta_folder(lfta)), *stored)
        for link, files in zip(sorted(lfta.links), parts, strict=False):
            before = job.config.link(link).at(start).longest_skew
            lags += _lag("LFTA", lfta.name, link, files, moments, before, start)
    for query in job.plan.queries:
        below = [lag.typical for lag in lags if lag.level == "LFTA" and lag.name in {lfta.name for lfta in query.lftas}]
        files = streams.stream_files(job.lake.stream(query.name), start, end)
        lags += _lag("query", query.name, "", files, moments, max(below, default=0), start)
    return lags if any(lag.level != "link" for lag in lags) else []


def _lag(
    level: str, name: str, on: str, files: Sequence[PurePath], moments: NDArray[np.int64], before: int, start: int
) -> list[Lag]:
    if (rows := _promises(files)) is None:
        return []
    ticks, untils, promises = rows
    at = np.searchsorted(ticks, moments, side="right") - 1
    # Without traffic the promise rises with the clock. Before the first promise it is the start of the interval.
    risen = np.minimum(moments, untils[np.maximum(at, 0)]) - ticks[np.maximum(at, 0)]
    promised = np.where(at < 0, start, promises[np.maximum(at, 0)] + np.maximum(risen, 0))
    lags = np.maximum(0, moments - promised)
    return [Lag(level, name, on, int(np.median(lags)), int(lags.max()), tuple(lags.tolist()), before)]


def _promises(files: Sequence[PurePath]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]] | None:
    """Reads the punctuation of a node by tick, all ns; None without punctuation or with a damaged file. Returns ticks,
    ends of the lulls after them, and the largest promise so far."""
    tables = []
    for path in files:
        try:
            table = pq.read_table(
                paths.local(path), columns=["_kind", *READ.names], filters=[("_kind", "=", PUNCTUATION)]
            )
            tables.append(table.select(READ.names).cast(READ))
        except (OSError, pa.ArrowException):
            return None  # the audit reports the damaged stream
    rows = pa.concat_tables([READ.empty_table(), *tables]).sort_by([("_tick", "ascending"), ("_last", "ascending")])
    if not rows.num_rows:
        return None
    ticks, untils, lasts = (column.to_numpy() for column in rows.select(READ.names).columns)
    return ticks, untils, np.maximum.accumulate(lasts)


# Spans are read from the ledgers after the run, so that a run is not slowed down by a collector, and never fails
# because of one. The ids of a run are always the same, so a trace that is sent again is the same trace.

ORDER = {runs.LOW: 0, runs.HIGH: 1, runs.AUDIT: 2, runs.PUBLISH: 3}

Value = str | int | float | bool


@dataclass(frozen=True)
class Span:
    """A part of a run."""

    name: str
    trace: int  # id of the trace, 128 bits
    id: int  # id of the span, 64 bits
    parent: int  # id of the span that it is a part of; 0 for the run itself
    start: int  # begin, wall clock, ns since the epoch
    end: int  # end, wall clock, ns since the epoch
    attributes: Mapping[str, Value]
    error: str = ""  # why it failed; empty if it did not


@dataclass
class RunRows:
    """The ledger rows of one run of an interval, oldest first."""

    query_set: str
    start: int
    end: int
    rows: list[runs.ReplayRow] = field(default_factory=list)

    @property
    def finished(self) -> int:
        """Time of its last row, ns since the epoch."""
        return self.rows[-1].finished_at

    @property
    def key(self) -> tuple[str, int, int, int]:
        """Names the run as far as it has come."""
        return self.query_set, self.start, self.end, self.finished


def runs_since(lake: Lake, since: int) -> list[RunRows]:
    """Finds the runs that ended after an instant, in the order of their ends.
    Raises LakeError if the ledger cannot be read."""
    open_runs: dict[tuple[str, int, int], RunRows] = {}
    ran: list[RunRows] = []
    for row in runs.read_replays(lake):
        key = row.query_set, row.interval_start, row.interval_end
        run = open_runs.get(key)
        if run is None or run.rows[-1].state == words.FAILED or ORDER[row.stage] < ORDER[run.rows[-1].stage]:
            run = open_runs[key] = RunRows(*key)
            ran.append(run)
        run.rows.append(row)
    return sorted((run for run in ran if run.finished > since), key=lambda run: run.finished)


def spans_of(lake: Lake, run: RunRows, job: Job | None, newest: bool) -> list[Span]:
    """Makes the spans of a run, the run itself first. Those of LFTAs and heartbeats only for the `newest` run of its
    interval, whose accounts and streams the lake has, and heartbeats only with a `job` that can be planned."""
    maker = _Maker(run)
    stages: dict[str, list[runs.ReplayRow]] = defaultdict(list)
    for row in run.rows:
        stages[row.stage].append(row)
    by_stage = {stage: maker.stage(stage, rows) for stage, rows in stages.items()}
    details: list[Span] = []
    if runs.LOW in by_stage and newest:
        details += _lfta_spans(lake, run, maker, by_stage[runs.LOW])
    for row in stages.get(runs.HIGH, ()):
        if row.query and row.state != words.FAILED:
            details += _query(row, maker, by_stage[runs.HIGH])
    if newest and job is not None and {runs.LOW, runs.HIGH} <= set(by_stage):
        details += _heartbeats(job, run, maker, by_stage)
    spans = [*by_stage.values()]
    return [maker.root(spans), *spans, *details]


class _Maker:
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

    def stage(self, stage: str, rows: Sequence[runs.ReplayRow]) -> Span:
        """Makes the span of a stage from its rows; a stage that failed before it was timed has no length."""
        end = max(row.finished_at for row in rows)
        seconds = max(documents.stored_object(row.timings).get(stage, 0.0) for row in rows)
        failed = next((row for row in rows if row.state == words.FAILED), None)
        counted = [row.rows for row in rows if row.rows is not None]
        attributes: dict[str, Value] = {"stage": stage, "state": rows[-1].state}
        if counted:
            attributes["rows"] = sum(counted)
        span = self.span(stage, stage, None, (end - round(seconds * SECOND), end), **attributes)
        return replace(span, error=failed.reason or "failed") if failed else span

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
        error = (last.reason or "failed") if last.state == words.FAILED else ""
        return Span(f"run {run.query_set}", self._trace, self._root, 0, *bounds, attributes, error)


def _lfta_spans(lake: Lake, run: RunRows, maker: _Maker, stage: Span) -> Iterator[Span]:
    """Yields a span for each LFTA and link; its length is its processor time, since LFTAs of a link run together."""
    totals: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in runs.read_heartbeats(lake, run.query_set, run.start, run.end).to_pylist():
        counts = totals[row["lfta"], row["link"]]
        for name in ("sane", *OUTCOMES, "rows_out", "punctuations", "collisions", "ejections", "nanoseconds"):
            counts[name] += row[name] or 0
    for (lfta, link), counts in sorted(totals.items()):
        length = min(counts.pop("nanoseconds"), stage.end - stage.start)
        bounds = stage.start, stage.start + length
        facts: dict[str, Value] = {"lfta": lfta, "link": link, "processor_seconds": length / SECOND, **counts}
        yield maker.span(f"lfta {lfta} {link}", f"lfta {lfta}", stage, bounds, **facts)


def _query(row: runs.ReplayRow, maker: _Maker, stage: Span) -> Iterator[Span]:
    """Yields the span of a query in the high stage, and its operators below it."""
    account = documents.stored_object(row.accounting)
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
        stage = stages[runs.HIGH if lag.level == "query" else runs.LOW]
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


def traces_since(
    lake: Lake, planned: Iterable[Job], since: int, sent: Collection[tuple[str, int, int, int]] = ()
) -> Iterator[tuple[RunRows, list[Span]]]:
    """Yields the runs that ended after an instant with their spans, without those whose keys were sent. The ledger gets
    runs in another order than that of their ends: several end at once, on machines with other clocks.
    Raises LakeError if a ledger or a stream cannot be read."""
    by_name: Mapping[str, Job] = {job.query_set: job for job in planned}
    ran = runs_since(lake, since)
    newest: dict[tuple[str, int, int], Any] = {(run.query_set, run.start, run.end): run for run in ran}
    for run in (run for run in ran if run.key not in sent):
        last = newest[run.query_set, run.start, run.end] is run
        yield run, spans_of(lake, run, by_name.get(run.query_set), last)


# By the official exporter of the extra `metrics`.


class TraceSender:
    """Sends spans to a collector by OTLP over HTTP; `/v1/traces` is added to an address that names no path."""

    def __init__(self, address: str) -> None:
        from urllib.parse import urlsplit

        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise LowwaterError(f"{address}: no address of a collector", "write for example --to http://localhost:4318")
        path = "/v1/traces" if parts.path in ("", "/") else parts.path
        self._address = f"{parts.scheme}://{parts.netloc}{path}"
        # Its log shows what the collector answers as it is; the error of `send` says enough.
        logging.getLogger(OTLPSpanExporter.__module__).setLevel(logging.CRITICAL + 1)
        self._exporter: SpanExporter = OTLPSpanExporter(endpoint=self._address, timeout=PUSH_SECONDS)

    def send(self, spans: Sequence[Span]) -> None:
        """Sends the spans of a run. Raises LowwaterError if the collector does not take them."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        if self._exporter.export([_readable(span) for span in spans]) is not SpanExportResult.SUCCESS:
            hint = "check its address and that it runs"
            raise LowwaterError(f"{self._address}: the collector did not take the spans", hint)

    def close(self) -> None:
        self._exporter.shutdown()


def _readable(span: Span) -> ReadableSpan:
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
