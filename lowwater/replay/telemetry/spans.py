"""Traces of runs: a run is a trace; its stages, LFTAs, queries, operators and heartbeats are spans.

Read from the ledgers after the run, so that a run is not slowed down by a collector, and never fails because of one.
`export` sends them. The ids of a run are always the same, so a trace that is sent again is the same trace.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from lowwater.documents import stored_object
from lowwater.instants import SECOND, format_instant
from lowwater.lake.layout import OUTCOMES, Lake
from lowwater.lake.ledgers.runs import AUDIT, FAILED, HIGH, LOW, PUBLISH, ReplayRow, read_heartbeats, read_replays
from lowwater.replay.job import Job
from lowwater.replay.lags import interval_lags

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
        lake: the lake.
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
        lake: the lake.
        run: rows of the run.
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
        """Makes the span of the run."""
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
        lake: the lake.
        planned: query sets that can be planned.
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
