"""Audits an interval: measures links, accounts and streams, judges the measures, and records the verdict."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from operator import call
from pathlib import Path, PurePath
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lowwater import errors, instants, limits
from lowwater.catalog.schemas import ROW
from lowwater.catalog.time import Skews
from lowwater.lake import query_sets, words
from lowwater.lake.layout import QUALITY, QUARANTINE, VIOLATIONS, row_schema
from lowwater.lake.ledgers import coverage, runs
from lowwater.lake.ledgers.captures import Captures
from lowwater.lake.packets import LinkRead
from lowwater.lake.results.published import damages_of
from lowwater.lake.results.streams import fingerprint, put_back, stream_files
from lowwater.plan.operators import Field
from lowwater.quality import history, judge, reports, streams
from lowwater.quality.links import LinkScan, scan_link
from lowwater.quality.measures import AuditScope, Counts, frames, lfta_counts
from lowwater.quality.suites import LATE
from lowwater.replay.job import IntervalInputs, Job
from lowwater.storage import paths
from lowwater.threads import TaskMap

if TYPE_CHECKING:
    from lowwater_expectations.audits import Finding, Validation


# Records of links, counted beside the high level.


class LinkScans:
    """The scans of the links of intervals (A1). As a context manager it waits for those that run."""

    def __init__(self, tasks: TaskMap) -> None:
        self.tasks = tasks
        self._scans: dict[tuple[int, str], tuple[Future[list[LinkScan]], int]] = {}
        self._pool = ThreadPoolExecutor(thread_name_prefix="lowwater-scan")

    def begin(self, intervals: Iterable[IntervalInputs]) -> None:
        """Begins the scans that were not begun before. They depend on no stage."""
        wanted = {(inputs.start, link): inputs for inputs in intervals for link in inputs.plan.links}
        if new := {key: inputs for key, inputs in wanted.items() if key not in self._scans}:
            scans = self._pool.submit(
                lambda: [*self.tasks(_scanned, [inputs.to_scan(link) for (_, link), inputs in new.items()])]
            )
            self._scans |= {key: (scans, at) for at, key in enumerate(new)}

    def forget(self) -> None:
        """Forgets the scans: one that failed has failed for all that were begun with it."""
        self._scans.clear()

    def results(self, start: int, links: Sequence[str]) -> list[LinkScan]:
        """Waits for the scans of links over the interval with a begin, ns, and returns them in this order.
        Raises LowwaterError if the packets of a link cannot be read, or what runs the scans fails."""
        return [scans.result()[at] for scans, at in (self._scans[start, link] for link in links)]

    def __enter__(self) -> LinkScans:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)


def _scanned(to_scan: tuple[LinkRead, Skews]) -> LinkScan:
    return scan_link(*to_scan)


# The comparison with earlier intervals. The stored measures do not depend on the order of runs; the comparison uses
# the intervals audited by then.


@dataclass(frozen=True)
class _Measured:
    """What was measured of an interval."""

    scope: AuditScope
    counts: Counts
    queries: Sequence[streams.QueryMeasures]
    rules: Mapping[str, Sequence[streams.RuleResult]]
    scans: Sequence[LinkScan]
    rows: dict[str, list[history.Row]]  # table of measures -> its rows

    @property
    def span(self) -> runs.Range:
        return self.scope.start, self.scope.end


def compare(intervals: Sequence[_Measured]) -> bool:
    """Compares links and queries of intervals, in order, with earlier intervals, stores the measures in the ledgers,
    and adds the columns of the comparison to those of links and queries.
    Returns whether one of the intervals may have been audited before, which no other ledger then has to be asked.
    Raises LakeError if a ledger cannot be read or written."""
    scope, spans = intervals[0].scope, {each.span for each in intervals}
    settings, length = scope.config.history, scope.end - scope.start
    since = history.history_start(settings, scope.start, length)
    metrics = runs.read_metrics(scope.lake, scope.query_set, since, intervals[-1].scope.start + 1)
    bounds = zip(metrics.column("interval_start").to_pylist(), metrics.column("interval_end").to_pylist(), strict=True)
    again = not spans.isdisjoint(bounds)
    past, now = history.interval_history(settings, metrics, length), time.time_ns()
    late = list[runs.LinkLateness]()
    kept = {each.span: history.metric_table(_compared(each, past, late, now), now) for each in intervals}
    runs.record_metrics(scope.lake, scope.query_set, kept, again)
    runs.record_lateness(scope.lake, late)
    return again


def _compared(
    measured: _Measured, past: history.IntervalHistory, late: list[runs.LinkLateness], now: int
) -> Iterator[tuple[str, str, history.Items]]:
    """Yields what the ledger keeps of an interval: kind, subject, measures; `late` gets the lateness of its links."""
    scope, bounds, covered = measured.scope, measured.span, dict[str, float]()
    settings, start = scope.config.history, scope.start
    since = history.history_start(settings, start, scope.end - start)
    for row, scan in zip(measured.rows["links"], measured.scans, strict=True):
        link, watch, about = scan.link, scan.profile.watch, scope.config.link(scan.link)
        covered[link] = coverage.covered_share(link, scope.captures.get(link, ()), about, *bounds)
        if covered[link] or watch.lags.records:
            ends = watch.refused, watch.lags.largest, watch.busiest
            late.append(runs.LinkLateness(link, *bounds, about.at(start).skew, *ends, *watch.lags.counted(), now))
        items = history.link_items(row, scan.profile, _types(scope, link), covered[link])
        row |= history.link_row(items, past.before(history.LINK, link, start, since), settings, about.at(start).skew)
        past.keep(history.LINK, link, start, items)
        yield history.LINK, link, items
    for row in measured.rows["queries"]:
        shares = {link: covered[link] for link in row["links"].split(", ") if link in covered}
        items = history.query_items(row["rows"], history.covered_by(shares, scope.config, *bounds))
        row |= history.query_row(items, past.before(history.QUERY, row["query"], start, since), settings)
        past.keep(history.QUERY, row["query"], start, items)
        yield history.QUERY, row["query"], items


def _types(scope: AuditScope, link: str) -> dict[str, int]:
    """Link type -> packets of the captures that overlap the interval."""
    packets: Counter[str] = Counter()
    captures = Captures.of(scope.captures.get(link, ()))
    for at in captures.meeting(scope.start, scope.end):
        packets[captures[at].link_type] += captures[at].packets
    return dict(packets)


# `quality` measures and `lowwater_expectations` judges, between the high stage and publishing. A critical failure
# becomes the one error that holds back every query of the set (SEMANTICS Q1).

EVIDENCE = {
    "query_rows_to_be_owned": "not_owned",
    "query_promises_to_be_kept": "below_promise",
    "query_keys_to_be_unique": "duplicate_keys",
}
"""Rule about single rows of a stream -> measure that counts the rows that break it."""

CUSTOM_RULE = "query_rows_to_keep_rule"
"""The rule that stands for the rules of custom suites."""


@dataclass(frozen=True)
class Verdict:
    """The result of an audit."""

    verdict: str  # passed or warned; a failed audit is an error
    report: str  # absolute path of the page to read first; empty where it passed
    rows: dict[str, int]  # query -> number of rows
    fingerprints: dict[str, str]  # query -> fingerprint of its stream when audited
    accounting: dict[str, Any]  # accounts of links and LFTAs (A1)


def audit(
    job: Job,
    intervals: Sequence[IntervalInputs],
    written: Sequence[Mapping[str, streams.WrittenStream]],
    scans: LinkScans,
    scratch: Path,
) -> list[Verdict | errors.AuditError]:
    """Audits intervals of one length, in order, and stores the findings: `quality`, `quarantine`, pages of those that
    did not pass. Returns the verdict of each, or the error of one that a critical expectation holds back.
    `written`: for each interval query -> record of the high stage about its stream.
    Raises LakeError if an input cannot be read, or the findings cannot be stored."""
    from lowwater_expectations.audits import validate

    scans.begin(intervals)  # while this thread looks at the streams
    damages = {
        query.name: damages_of(job.lake, job.query_set, query.name, intervals[0].start, intervals[-1].end)
        for query in job.plan.queries
    }
    together = intervals[0].start, intervals[-1].end
    scopes = [_scope(job, inputs, together) for inputs in intervals]
    counts = [lfta_counts(scope) for scope in scopes]
    queries = [
        _queries(job, inputs, of_interval, damages, scans.tasks, scratch)
        for inputs, of_interval in zip(intervals, written, strict=True)
    ]
    rules = _judged(job, scopes, queries, scratch)
    measured = [
        _measured(*each, scans.results(each[0].start, each[0].links))
        for each in zip(scopes, counts, queries, rules, strict=True)
    ]
    again = compare(measured)
    frames = _tables(measured)
    names = [f"{job.query_set} {instants.format_instant(inputs.start)}" for inputs in intervals]
    validations = validate(frames, names, judge.ask)
    _keep(measured, validations, frames, scratch, again)
    return [_verdict(*each) for each in zip(intervals, measured, validations, strict=True)]


def _measured(
    scope: AuditScope,
    counts: Counts,
    queries: Sequence[streams.QueryMeasures],
    rules: Mapping[str, Sequence[streams.RuleResult]],
    scanned: Sequence[LinkScan],
) -> _Measured:
    return _Measured(scope, counts, queries, rules, scanned, frames(scope, scanned, counts, queries, rules))


def _tables(measured: Sequence[_Measured]) -> list[dict[str, pa.Table]]:
    """The rows of each interval as tables: of one schema by name, although a column may have no value in one."""
    found: list[dict[str, pa.Table]] = [{} for _ in measured]
    for name in measured[0].rows:
        whole, begin = pa.Table.from_pylist([row for each in measured for row in each.rows[name]]), 0
        for mine, each in zip(found, measured, strict=True):
            mine[name] = whole.slice(begin, len(each.rows[name]))
            begin += len(each.rows[name])
    return found


def _verdict(
    inputs: IntervalInputs, measured: _Measured, validations: Sequence[Validation]
) -> Verdict | errors.AuditError:
    from lowwater_expectations.audits import verdict

    scope = measured.scope
    findings = [finding for validation in validations for finding in validation.findings]
    failures = reports.graver_first(findings)
    report = ""
    if failures:
        report = str(scope.lake.reports / reports.page_of(scope.query_set, *measured.span, failures[0].suite))
    accounting = _accounting(measured.rows["links"], measured.counts)
    if verdict(findings) == words.FAILED:
        error = _error(scope, failures, report, _acceptable(inputs, measured.rows["skew"]))
        error.accounting = accounting
        return error
    return Verdict(
        verdict(findings),
        report,
        {query.query: query.stream.rows for query in measured.queries},
        {query.query: query.fingerprint for query in measured.queries},
        accounting,
    )


def _scope(job: Job, inputs: IntervalInputs, together: runs.Range) -> AuditScope:
    instances = sorted((lfta.name, link) for lfta in job.plan.lftas for link in lfta.links)
    passing, failing = list[coverage.Gap](), list[coverage.Gap]()
    for gap in inputs.gaps():
        (passing if inputs.passes(gap) else failing).append(gap)
    about = job.lake, job.config, job.query_set, inputs.start, inputs.end
    accepted = {defect for found in inputs.all_missing() if inputs.known.accepted(found) for defect in found.defects}
    return AuditScope(*about, inputs.captures, instances, failing, passing, inputs.missing(), accepted, together)


@dataclass(frozen=True)
class _Stream:
    """A stored stream of a query over [start, end), ns; two tasks look at it, one of which looks for keys alone."""

    files: Sequence[PurePath]
    fields: Sequence[Field]
    start: int
    end: int
    written: str  # fingerprint of the files as the high stage wrote them
    key: Sequence[str] | None


def _checked(stream: _Stream) -> tuple[str, streams.StreamCheck]:
    files = paths.as_they_are(stream.files)
    try:
        found = fingerprint(files)
    except errors.LakeError:
        found = ""  # the audit reports a missing file as a finding
    return found, streams.check_stream(files, stream.fields, stream.start, stream.end, found != stream.written)


def _distinct(stream: _Stream) -> bool:
    return not stream.key or streams.distinct_keys(paths.as_they_are(stream.files), stream.fields, stream.key)


def _queries(
    job: Job,
    inputs: IntervalInputs,
    written: Mapping[str, streams.WrittenStream],
    damages: Mapping[str, Mapping[runs.Range, str]],
    tasks: TaskMap,
    scratch: Path,
) -> list[streams.QueryMeasures]:
    for query in job.plan.queries:
        put_back(job.lake.stream(query.name), inputs.start, inputs.end, job.lake.fence)
    stored = [
        _Stream(
            stream_files(job.lake.stream(query.name), inputs.start, inputs.end),
            query.high.fields,
            inputs.start,
            inputs.end,
            written[query.name].fingerprint,
            query.key,
        )
        for query in job.plan.queries
    ]
    found = [*tasks(call, [partial(look, stream) for stream in stored for look in (_checked, _distinct)])]
    measures = []
    for query, stream, (print_, check), distinct in zip(job.plan.queries, stored, found[::2], found[1::2], strict=True):
        name, key = query.name, query.key
        keys, broken = 0, streams.BrokenRows()
        if key and stream.files and not check.columns and not distinct:
            files = paths.as_they_are(stream.files)
            keys, broken = streams.shared_keys(files, stream.fields, key, limits.EXAMPLE_ROWS, scratch / "keys")
        damage = damages[name].get((inputs.start, inputs.end), "")
        about = name, query.links, key, written[name]
        measures.append(streams.QueryMeasures(*about, print_, check, broken, keys, damage))
    return measures


def _judged(
    job: Job, scopes: Sequence[AuditScope], queries: Sequence[Sequence[streams.QueryMeasures]], scratch: Path
) -> list[dict[str, list[streams.RuleResult]]]:
    """Checks the rows of each query against its custom suite, in all intervals at once; those of an interval whose
    stream has changed, which the suite `queries` reports, are not looked at. Returns query -> results, of each."""
    found: list[dict[str, list[streams.RuleResult]]] = [{} for _ in scopes]

    def judge_all(files: Sequence[Sequence[Path]], schema: pa.Schema, about: str) -> None:
        suite = job.suites.get(about, ())
        checked = streams.check_rows(files, schema, suite, job.config.suites, modules=job.modules)
        for results, of_interval in zip(found, checked, strict=True):
            results[about] = of_interval

    for at, query in enumerate(job.plan.queries):
        files = list[Sequence[Path]]()
        for scope, mine in zip(scopes, queries, strict=True):
            sound = mine[at].fingerprint == mine[at].written.fingerprint and not mine[at].stream.columns
            stored = stream_files(job.lake.stream(query.name), scope.start, scope.end) if sound else []
            files.append(paths.as_they_are(stored))
        judge_all(files, row_schema(query.high.fields), query.name)
    if job.suites.get(LATE):
        judge_all([[_late_records(scope, scratch)] for scope in scopes], VIOLATIONS, LATE)
    return found


def _late_records(scope: AuditScope, scratch: Path) -> Path:
    """Writes the late records that are charged to an interval, those of its arrivals (T2), as rows to be checked."""
    rows = runs.charged_violations(scope.lake, scope.config, scope.links, scope.start, scope.end)
    scratch.mkdir(parents=True, exist_ok=True)
    file = scratch / f"late-{scope.start}.parquet"
    pq.write_table(rows.append_column("_kind", pa.array([ROW] * rows.num_rows, pa.string())), file)
    return file


def _evidence(
    queries: Sequence[streams.QueryMeasures], rules: Mapping[str, Sequence[streams.RuleResult]]
) -> dict[tuple[str, tuple[str, ...]], streams.BrokenRows]:
    """(expectation, subject) -> rows of streams that break it."""
    evidence = {(kind, (query.query,)): query.broken[name] for query in queries for kind, name in EVIDENCE.items()}
    return evidence | {(CUSTOM_RULE, (query, rule.name)): rule.broken for query in rules for rule in rules[query]}


def _keep(
    measured: Sequence[_Measured],
    validations: Sequence[Sequence[Validation]],
    tables: Sequence[Mapping[str, pa.Table]],
    scratch: Path,
    again: bool,
) -> None:
    """Stores the findings: tables first, so that an unwritable page loses nothing."""
    scope, now = measured[0].scope, time.time_ns()
    found: dict[runs.Range, tuple[pa.Table, pa.Table]] = {}
    asked: dict[runs.Range, dict[str, pa.Table]] = {}
    pages: dict[str, Validation] = {}
    gone = list[PurePath]()  # pages of an earlier audit
    for each, of_interval, frames_ in zip(measured, validations, tables, strict=True):
        evidence = _evidence(each.queries, each.rules)
        rows, evidence_rows = [], []
        if again:
            gone.append(scope.lake.reports / reports.folder_of(scope.query_set, *each.span))
        for validation in of_interval:
            page = reports.page_of(scope.query_set, *each.span, validation.suite)
            if any(not finding.success for finding in validation.findings):
                pages[page] = validation
            for finding in validation.findings:
                rows.append(_row(finding, page, now))
                evidence_rows += [
                    {**_named(finding), "subject": subject, "total": total, "row": row, "kept_at": now}
                    for subject, total, row in _rows(finding, validation.rows, evidence)
                ]
        found[each.span] = _table(rows, QUALITY), _table(evidence_rows, QUARANTINE)
        some = pc.not_equal(frames_["rows"].column("rule"), streams.NOTHING)
        asked[each.span] = {**frames_, "rows": frames_["rows"].filter(some)}
    runs.record_quality(scope.lake, scope.query_set, found, again)
    runs.record_measures(scope.lake, scope.query_set, asked, now, again)
    for folder in gone:
        paths.remove_tree(folder)
    if pages:
        reports.write_pages(scope.lake, pages, scratch)


FINDING_COLUMNS = ("kind", "severity", "success", "evaluated", "unexpected", "title")


def _row(finding: Finding, page: str, now: int) -> dict[str, Any]:
    messages = "\n".join(message.replace("\n", " ") for message in finding.messages)
    values = {name: getattr(finding, name) for name in FINDING_COLUMNS}
    return {**_named(finding), **values, "messages": messages, "page": page, "audited_at": now}


def _named(finding: Finding) -> dict[str, Any]:
    return {"suite": finding.suite, "expectation": finding.expectation}


def _rows(
    finding: Finding,
    frame: Sequence[Mapping[str, Any]],
    evidence: Mapping[tuple[str, tuple[str, ...]], streams.BrokenRows],
) -> Iterator[tuple[str, int, str]]:
    """Yields the rows that break an expectation: subject, total number for it, row as JSON."""
    from lowwater_expectations.audits import read_suite

    room, subjects = limits.EXAMPLE_ROWS, read_suite(finding.suite).meta["subjects"]
    for position in finding.rows:
        measures = frame[position]
        about = tuple(str(measures[name]) for name in subjects)
        subject = (": " if finding.kind == CUSTOM_RULE else " on ").join(about)
        total, broken = 1, [dict(measures)]
        if (broken_rows := evidence.get((finding.kind, about))) is not None and (
            broken_rows.rows or finding.kind != CUSTOM_RULE
        ):
            total, broken = broken_rows.total, broken_rows.rows
        for row in broken[:room]:
            yield subject, total, json.dumps(row, default=str)
        room -= len(broken[:room])


def _table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    columns = [column for column in schema if column.name not in ("query_set", "interval_start", "interval_end")]
    return pa.Table.from_pylist([dict(row) for row in rows], schema=pa.schema(columns))


def _acceptable(inputs: IntervalInputs, skew: Sequence[history.Row]) -> list[str]:
    """Says how a person accepts what was refused as late, where it is own time alone that passes a critical limit."""
    by_arrival, judged = (
        [row for row in skew if row[share] > row["violating_critical"]] for share in ("arrived_share", "judged_share")
    )
    if by_arrival or not judged:
        return []
    links = {row["link"] for row in judged}
    return inputs.to_accept([each for each in inputs.missing() if each.cause == query_sets.LATE and each.link in links])


def _error(scope: AuditScope, failures: Sequence[Finding], report: str, acceptable: Sequence[str]) -> errors.AuditError:
    messages = [message for failure in failures if failure.severity == reports.CRITICAL for message in failure.messages]
    return errors.AuditError(
        f"the audit of {scope.query_set}, {scope.interval}, failed: " + "\n  ".join(messages),
        "; ".join([f"nothing of this run is published, its rows are in streams/; the report: {report}", *acceptable]),
        report,
    )


def _accounting(links: Sequence[history.Row], counts: Counts) -> dict[str, Any]:
    counted = ("read", "malformed", "violating", "duplicates", "sane")
    names = (*counted, "outside", "uncovered", "dropped", "copies", "copies_elsewhere")
    return {
        "links": {row["link"]: {name: row[name] for name in names if row[name] is not None} for row in links},
        "lftas": {f"{lfta} on {link}": dict(count) for (lfta, link), count in counts.items()},
    }
