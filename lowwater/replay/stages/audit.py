"""Audits an interval: measures links, accounts and streams, judges the measures, and records the verdict."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from lowwater.lake.results.published import damage_of
from lowwater.lake.results.streams import fingerprint, stream_files
from lowwater.plan.operators import Field
from lowwater.quality import history, judge, reports, streams
from lowwater.quality.links import LinkScan, scan_link
from lowwater.quality.measures import AuditScope, Counts, frames, lfta_counts
from lowwater.quality.suites import LATE, CustomExpectation
from lowwater.replay.job import IntervalInputs, Job
from lowwater.storage.paths import as_they_are
from lowwater.threads import TaskMap

if TYPE_CHECKING:
    from lowwater_expectations.audits import Finding, Validation


# Records of links, counted beside the high level.

ToScan = tuple[LinkRead, Skews]


class LinkScans:
    """The scans of the links of an interval (A1). As a context manager it waits for those that run."""

    def __init__(self, tasks: TaskMap) -> None:
        self.tasks = tasks
        self._scans: dict[str, tuple[Future[list[LinkScan]], int]] = {}
        self._pool = ThreadPoolExecutor(thread_name_prefix="lowwater-scan")

    def begin(self, to_scan: Callable[[str], ToScan], links: Sequence[str]) -> None:
        """Begins the scans that were not begun before; `to_scan` describes that of a link, and depends on no stage."""
        if new := [link for link in links if link not in self._scans]:
            scans = self._pool.submit(lambda: [*self.tasks(_scanned, [to_scan(link) for link in new])])
            self._scans |= {link: (scans, at) for at, link in enumerate(new)}

    def results(self, links: Sequence[str]) -> list[LinkScan]:
        """Waits for the scans of links, and returns them in this order.
        Raises LowwaterError if the packets of a link cannot be read, or what runs the scans fails."""
        return [scans.result()[at] for scans, at in map(self._scans.__getitem__, links)]

    def __enter__(self) -> LinkScans:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)


def _scanned(to_scan: ToScan) -> LinkScan:
    return scan_link(*to_scan)


# The comparison with earlier intervals. The stored measures do not depend on the order of runs; the comparison uses
# the intervals audited by then.


def compare(scope: AuditScope, scans: Sequence[LinkScan], measured: Mapping[str, Sequence[history.Row]]) -> bool:
    """Compares links and queries with earlier intervals, stores the measures of the interval in the ledgers, and adds
    the columns of the comparison to those of links and queries. `scans` are in the order of the measures of links.
    Returns whether the interval may have been audited before, which no other ledger then has to be asked.
    Raises LakeError if a ledger cannot be read or written."""
    settings, bounds = scope.config.history, (scope.start, scope.end)
    length = scope.end - scope.start
    since = history.history_start(settings, scope.start, length)
    metrics = runs.read_metrics(scope.lake, scope.query_set, since, scope.start + 1)
    again = pc.any(pc.equal(metrics.column("interval_start"), scope.start)).as_py() or False
    past, now = history.interval_history(settings, metrics, length), time.time_ns()
    kept: list[tuple[str, str, history.Items]] = []
    covered, late = {}, []
    for row, scan in zip(measured["links"], scans, strict=True):
        link, watch, about = scan.link, scan.profile.watch, scope.config.link(scan.link)
        covered[link] = coverage.covered_share(link, scope.captures.get(link, ()), about, *bounds)
        if covered[link] or watch.lags.records:
            ends = watch.refused, watch.lags.largest, watch.busiest
            late.append(runs.LinkLateness(link, *bounds, about.skew, *ends, *watch.lags.counted(), now))
        items = history.link_items(row, scan.profile, _types(scope, link), covered[link])
        kept.append((history.LINK, link, items))
        row |= history.link_row(items, past.before(history.LINK, link, scope.start), settings, about.skew)
    for row in measured["queries"]:
        shares = {link: covered[link] for link in row["links"].split(", ") if link in covered}
        items = history.query_items(row["rows"], history.covered_by(shares, scope.config, *bounds))
        kept.append((history.QUERY, row["query"], items))
        row |= history.query_row(items, past.before(history.QUERY, row["query"], scope.start), settings)
    runs.record_metrics(scope.lake, scope.query_set, *bounds, history.metric_table(kept, now), again)
    runs.record_lateness(scope.lake, late)
    return again


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
    report: str  # absolute path of the page to read first
    rows: dict[str, int]  # query -> number of rows
    fingerprints: dict[str, str]  # query -> fingerprint of its stream when audited
    accounting: dict[str, Any]  # accounts of links and LFTAs (A1)


def audit(
    job: Job,
    inputs: IntervalInputs,
    written: Mapping[str, streams.WrittenStream],
    scans: LinkScans,
    scratch: Path,
) -> Verdict:
    """Audits an interval and stores the findings: `quality`, `quarantine`, pages of the report without the index.
    `written`: query -> record of the high stage about its stream.
    Raises AuditError if a critical expectation failed, and LakeError if an input cannot be read, or the findings cannot
    be stored."""
    from lowwater_expectations.audits import validate, verdict

    scope = _scope(job, inputs)
    counts = lfta_counts(scope)
    scans.begin(inputs.to_scan, scope.links)  # while this thread looks at the streams
    queries = _queries(job, inputs, written, scans.tasks, scratch)
    rules = {query.query: _judged(job, inputs, query) for query in queries}
    if late := job.suites.get(LATE):
        rules[LATE] = _judged_late(job, scope, late, scratch)
    scanned = scans.results(scope.links)
    measured = frames(scope, scanned, counts, queries, rules)
    again = compare(scope, scanned, measured)
    tables = {name: pa.Table.from_pylist(rows) for name, rows in measured.items()}
    run = f"{job.query_set} {instants.format_instant(inputs.start)}"
    validations = validate(tables, run, judge.ask)
    findings = [finding for validation in validations for finding in validation.findings]
    _keep(scope, validations, tables, _evidence(queries, rules), scratch, again)
    failures = reports.graver_first(findings)
    page = reports.page_of(
        job.query_set, inputs.start, inputs.end, failures[0].suite if failures else validations[0].suite
    )
    report = str(job.lake.reports / page)
    accounting = _accounting(measured["links"], counts)
    if verdict(findings) == words.FAILED:
        error = _error(scope, failures, report, _acceptable(inputs, measured["skew"]))
        error.accounting = accounting
        raise error
    return Verdict(
        verdict(findings),
        report,
        {query.query: query.stream.rows for query in queries},
        {query.query: query.fingerprint for query in queries},
        accounting,
    )


def _scope(job: Job, inputs: IntervalInputs) -> AuditScope:
    instances = sorted((lfta.name, link) for lfta in job.plan.lftas for link in lfta.links)
    passing, failing = list[coverage.Gap](), list[coverage.Gap]()
    for gap in inputs.gaps():
        (passing if inputs.passes(gap) else failing).append(gap)
    about = job.lake, job.config, job.query_set, inputs.start, inputs.end
    accepted = {defect for found in inputs.all_missing() if inputs.known.accepted(found) for defect in found.defects}
    return AuditScope(*about, inputs.captures, instances, failing, passing, inputs.missing(), accepted)


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
    files = as_they_are(stream.files)
    try:
        found = fingerprint(files)
    except errors.LakeError:
        found = ""  # the audit reports a missing file as a finding
    return found, streams.check_stream(files, stream.fields, stream.start, stream.end, found != stream.written)


def _distinct(stream: _Stream) -> bool:
    return not stream.key or streams.distinct_keys(as_they_are(stream.files), stream.fields, stream.key)


def _queries(
    job: Job, inputs: IntervalInputs, written: Mapping[str, streams.WrittenStream], tasks: TaskMap, scratch: Path
) -> list[streams.QueryMeasures]:
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
            files = as_they_are(stream.files)
            keys, broken = streams.shared_keys(files, stream.fields, key, limits.EXAMPLE_ROWS, scratch / "keys")
        damage = damage_of(job.lake, job.query_set, name, inputs.start, inputs.end)
        about = name, query.links, key, written[name]
        measures.append(streams.QueryMeasures(*about, print_, check, broken, keys, damage))
    return measures


def _judged(job: Job, inputs: IntervalInputs, query: streams.QueryMeasures) -> list[streams.RuleResult]:
    """Checks the rows of a query against its custom suite; the suite `queries` reports a stream that has changed."""
    sound = query.fingerprint == query.written.fingerprint and not query.stream.columns
    files = stream_files(job.lake.stream(query.query), inputs.start, inputs.end) if sound else []
    (planned,) = (each for each in job.plan.queries if each.name == query.query)
    suite = job.suites.get(query.query, ())
    schema = row_schema(planned.high.fields)
    return streams.check_rows(as_they_are(files), schema, suite, job.config.suites, modules=job.modules)


def _judged_late(
    job: Job, scope: AuditScope, suite: Sequence[CustomExpectation], scratch: Path
) -> list[streams.RuleResult]:
    """Checks the late records that are charged to the interval, those of its arrivals (T2), against their suite."""
    rows = runs.charged_violations(scope.lake, scope.config, scope.links, scope.start, scope.end)
    scratch.mkdir(parents=True, exist_ok=True)
    file = scratch / "late.parquet"
    pq.write_table(rows.append_column("_kind", pa.array([ROW] * rows.num_rows, pa.string())), file)
    return streams.check_rows([file], VIOLATIONS, suite, job.config.suites, modules=job.modules)


def _evidence(
    queries: Sequence[streams.QueryMeasures], rules: Mapping[str, Sequence[streams.RuleResult]]
) -> dict[tuple[str, tuple[str, ...]], streams.BrokenRows]:
    """(expectation, subject) -> rows of streams that break it."""
    evidence = {(kind, (query.query,)): query.broken[name] for query in queries for kind, name in EVIDENCE.items()}
    return evidence | {(CUSTOM_RULE, (query, rule.name)): rule.broken for query in rules for rule in rules[query]}


def _keep(
    scope: AuditScope,
    validations: Sequence[Validation],
    tables: Mapping[str, pa.Table],
    evidence: Mapping[tuple[str, tuple[str, ...]], streams.BrokenRows],
    scratch: Path,
    again: bool,
) -> None:
    """Stores the findings: tables first, so that an unwritable page loses nothing."""
    now = time.time_ns()
    addresses = {
        each.suite: reports.page_of(scope.query_set, scope.start, scope.end, each.suite) for each in validations
    }
    rows, evidence_rows = [], []
    for validation in validations:
        for finding in validation.findings:
            rows.append(_row(finding, addresses[validation.suite], now))
            evidence_rows += [
                {**_named(finding), "subject": subject, "total": total, "row": row, "kept_at": now}
                for subject, total, row in _rows(finding, validation.rows, evidence)
            ]
    about = scope.lake, scope.query_set, scope.start, scope.end
    runs.record_quality(*about, _table(rows, QUALITY), _table(evidence_rows, QUARANTINE), again)
    asked = pc.not_equal(tables["rows"].column("rule"), streams.NOTHING)
    runs.record_measures(*about, {**tables, "rows": tables["rows"].filter(asked)}, now, again)
    reports.write_pages(scope.lake, {addresses[each.suite]: each for each in validations}, scratch)


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
