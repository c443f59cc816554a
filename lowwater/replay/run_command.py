"""`lowwater run`: reads captures and writes one file for each output query, through a temporary lake."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain, count as from_on
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lowwater import caches, errors, limits, link_names
from lowwater.catalog.schemas import FRAME, HEAD, PUNCTUATION, ROW
from lowwater.catalog.time import ticks_up_to
from lowwater.config import Config
from lowwater.high.operators import StoredState
from lowwater.high.process import InProcess
from lowwater.high.runner import Runner
from lowwater.instants import HOUR, SECOND, format_duration
from lowwater.lake.ingestion import batch, record_options
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import MALFORMED, VIOLATIONS, Lake, open_lake
from lowwater.lake.ledgers.captures import Capture, Captures, ingested_links, interface_links, read_captures
from lowwater.lake.ledgers.coverage import hole_line
from lowwater.lake.ledgers.missing import fields_read, lacking_fields, missing_texts, record_ranges
from lowwater.lake.ledgers.places import key_of, location
from lowwater.lake.packets import PacketFiles, read_packets
from lowwater.lake.tables import read_rows
from lowwater.low import LowSettings, Policy
from lowwater.plan import operators as ops, properties
from lowwater.plan.bind import queries as reserved
from lowwater.plan.queryset import Plan, QueryPlan, source_links
from lowwater.plan.temporal import END_OF_TIME
from lowwater.replay import checks, remarks, row_files
from lowwater.replay.accounts import Accounts, largest_lateness, lfta_counts, link_summary
from lowwater.replay.progress import Progress
from lowwater.replay.stages.engines import (
    LowResult,
    high_level,
    high_results,
    low_level,
    low_stage,
    reference_stage,
)
from lowwater.replay.stages.inputs import LowInputs, last_instant

# Malformed records of links that are no packets: file, line, offset and reason.

COLUMNS = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("link", "path")),
        *(pa.field(name, pa.int64()) for name in ("line", "offset", "length")),
        pa.field("reason", pa.string()),
        pa.field("arrival", pa.int64()),
    ]
)


def malformed_rows(
    lake: Lake, links: Sequence[str], captures: Mapping[str, Sequence[Capture]], given: Mapping[str, str]
) -> pa.Table:
    """Reads the malformed records of some links, ordered by link, path and offset. `given`: the path of a file of the
    ledger as the user gave it."""
    rows = read_rows(lake.malformed, MALFORMED, pc.field("link").isin(pa.array(links, pa.string())))
    paths = {(row.link, row.attempt): given.get(row.path, row.path) for link in links for row in captures[link]}
    named = zip(rows.column("link").to_pylist(), rows.column("attempt").to_pylist(), strict=True)
    table = rows.append_column("path", pa.array([paths[key] for key in named], pa.string()))
    order = [("link", "ascending"), ("path", "ascending"), ("offset", "ascending")]
    return table.select(COLUMNS.names).cast(COLUMNS).sort_by(order)


# Traces of heartbeats (`--traces`): the promises of every node, with the newest heartbeat of the sources at that
# time. Over a lake, the review pages draw the same from `lfta/` and `streams/` (000, section 6.2).

Numbers = npt.NDArray[np.int64]
NO_TICK = -1

TRACES = pa.schema(
    [
        pa.field("trace", pa.int64()),  # newest tick of an LFTA that a query had seen, ns; the own one of an LFTA
        pa.field("level", pa.string()),  # lfta or query
        pa.field("producer", pa.string()),
        pa.field("link", pa.string()),  # of an LFTA
        pa.field("tick", pa.int64()),  # when the node said it, ns of the replay's clock; `until` the last of a lull
        pa.field("until", pa.int64()),
        pa.field("period", pa.int64()),  # between the ticks of a lull
        pa.field("promise", pa.int64()),  # at `tick`
        pa.field("lag", pa.int64()),  # of the promise behind the tick, ns; the last promise, of the end, has none
    ]
)
PUNCTUATION_COLUMNS = {"tick": "_tick", "until": "_until", "period": "_period", "promise": "_last"}


def traces(
    lftas: Mapping[tuple[str, str], Sequence[str]], queries: Mapping[str, tuple[Iterable[str], Sequence[str]]]
) -> pa.Table:
    """Builds the heartbeats of one interval in order of ticks, LFTAs before their readers, of files of streams: by
    (LFTA, link), and by query with the LFTAs that it reads."""
    heartbeats = {key: _punctuation(files) for key, files in lftas.items()}
    tables = [_trace_rows(rows, rows["tick"], "lfta", name, link) for (name, link), rows in heartbeats.items()]
    for name, (sources, files) in queries.items():
        rows, read = _punctuation(files), set(sources)
        newest_ticks = [_newest(heard, rows["tick"]) for (lfta, _), heard in heartbeats.items() if lfta in read]
        newest = np.maximum.reduce([np.full(len(rows["tick"]), NO_TICK), *newest_ticks])
        tables.append(_trace_rows(rows, pa.array(newest, mask=newest == NO_TICK), "query", name, ""))
    order = [(name, "ascending") for name in ("tick", "level", "producer", "link")]
    return pa.concat_tables([TRACES.empty_table(), *tables]).sort_by(order)


def _newest(heard: Mapping[str, Numbers], at: Numbers) -> Numbers:
    """The newest tick of some heartbeats at some instants; NONE before the first."""
    place = np.searchsorted(heard["tick"], at, side="right") - 1
    if not len(heard["tick"]):
        return np.full(len(at), NO_TICK)
    tick, until, period = (heard[name][np.maximum(place, 0)] for name in ("tick", "until", "period"))
    ticks: Numbers = np.where(place < 0, NO_TICK, ticks_up_to(at, tick, until, period))
    return ticks


def _punctuation(files: Sequence[str]) -> dict[str, Numbers]:
    filters = [("_kind", "=", PUNCTUATION)]
    tables = [pq.read_table(Path(file), columns=list(PUNCTUATION_COLUMNS.values()), filters=filters) for file in files]
    schema = pa.schema([(name, pa.int64()) for name in PUNCTUATION_COLUMNS.values()])
    rows = pa.concat_tables([schema.empty_table(), *(table.select(schema.names).cast(schema) for table in tables)])
    return {name: rows.column(column).to_numpy() for name, column in PUNCTUATION_COLUMNS.items()}


def _trace_rows(rows: Mapping[str, Numbers], trace: object, level: str, producer: str, link: str) -> pa.Table:
    size = len(rows["tick"])
    texts = {"level": level, "producer": producer, "link": link}
    columns = {"trace": trace, **rows, "lag": np.maximum(rows["tick"] - rows["promise"], 0)}
    columns |= {name: pa.array([text] * size, pa.string()) for name, text in texts.items()}
    return pa.table([pa.array(columns[f.name], f.type) for f in TRACES], schema=TRACES)


# The stages are the same as in a scheduled run; writing files replaces audit and publishing.


@dataclass(frozen=True)
class RunRequest:
    """The options of `lowwater run`."""

    plan: Plan
    config: Config
    captures: Sequence[tuple[str, Path]]  # (link, file) of each capture
    out: Path
    form: str = "csv"  # csv, json or parquet
    period: int = 1_000_000_000  # heartbeat period, ns
    policy: Policy = Policy.PERIODIC
    engine: str = "process"  # `reference` for the reference engine, the oracle of tests and experiments
    interval: int | None = None  # length of the intervals, ns; None for one interval over everything
    order: int | None = None  # seed of a random order of intervals, which then pass no state; for tests
    low: dict[str, Any] = field(default_factory=dict)  # settings of the low level other than the defaults; for tests
    high: dict[str, Any] = field(default_factory=dict)  # settings of the high level other than the defaults; for tests
    # plans the queries again once the interfaces of captures are known: link -> its interfaces; None to keep the plan
    replan: Callable[[Mapping[str, tuple[str, ...]]], Plan] | None = None
    traces: bool = False  # whether to write heartbeats.csv with the promises of every node
    spreadsheet: bool = False  # whether texts in CSV are made safe for a spreadsheet
    instants: bool = False  # whether the instants of temporal columns are written behind the columns of the query


@dataclass
class RunResults:
    """The results of all intervals."""

    rows: dict[str, list[pa.Table]]  # query -> rows of each interval with `_last` and `_tick`
    punctuation: dict[str, int]  # query -> number of punctuation rows
    violations: list[pa.Table] = field(default_factory=list)  # late packets of each link
    accounts: Accounts = field(default_factory=Accounts)
    notes: dict[str, None] = field(default_factory=dict)
    states: dict[str, str | None] = field(default_factory=dict)  # query -> state of its last interval
    traces: list[pa.Table] = field(default_factory=list)
    latest: dict[str, int] = field(default_factory=dict)  # link -> largest lateness of its packets, ns
    given: dict[str, str] = field(default_factory=dict)  # path of a file in the ledger -> as the user gave it
    # malformed records of the links whose records are no packets; None without such links
    malformed: pa.Table | None = None
    failures: dict[str, errors.LowwaterError] = field(
        default_factory=dict
    )  # query -> its error; these queries have no result


def run(request: RunRequest, progress: Progress, runner: Runner | None = None) -> dict[str, Any]:
    """Runs the queries, by a runner or this process, and writes the results. Returns the summary, as in `summary.json`.
    Raises ConfigError if a link that a query reads has no capture, LowwaterError if a capture or the output folder
    cannot be used, or every query fails, so nothing is written, LawError if a record is in no account, and PartialError
    if some queries fail, whatever the cause; the results of the others are written."""
    _require_captures(request)
    made = not request.out.exists()
    try:
        request.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise errors.LowwaterError(f"--out {request.out} cannot be made: {error.strerror}") from None
    folder = caches.make_folder("lowwater-run-")
    try:
        lake = open_lake(folder / "lake", runs=False)
        given = request.config.replay
        runner = None if request.engine == checks.REFERENCE else runner or InProcess(given.threads, given.bytes)
        if runner is not None:
            runner.begin()
        captures, notes = _ingest(request, lake, progress)
        request = _planned_anew(request, captures)
        found = run_intervals(request, lake, captures, folder, progress, runner)
        found.notes.update(dict.fromkeys(notes))
        found.notes.update(dict.fromkeys(f"note: {line}" for line in told_beside(request, lake, captures, found)))
    except BaseException:
        if made:
            with suppress(OSError):
                request.out.rmdir()
        raise
    finally:
        caches.remove_folder(folder)
    kept = _keeping_what_is_read(request, request.plan.links)
    found.notes.update({f"note: query {note.query}: {note}": None for note in checks.unkept_notes(request.plan, kept)})
    for link, rows in captures.items():
        fields = fields_read(request.plan.lftas, link)
        lines = missing_texts(lacking_fields(link, rows, fields, 0, END_OF_TIME))
        lines += [f"link {link!r}: {hole_line(rows[at], hole, span)}" for at, hole, span in rows.holes]
        found.notes.update({f"note: {line}": None for line in lines})
    for note in found.notes:
        progress.say(note)
    engine = checks.REFERENCE if runner is None else runner.name
    summary = _write(request, found, captures, engine, progress)
    if found.failures:
        hint = f"the results of the other queries are in {request.out}"
        raise errors.PartialError(_told(found), "; ".join([*_hints(found), hint]), summary)
    return summary


def told_beside(request: RunRequest, lake: Lake, captures: Mapping[str, Captures], found: RunResults) -> Iterator[str]:
    """Yields what is to be said of the rows of each query that did not fail: what `check` says of its text, and what
    the captures hold that the rows leave out or count twice. Raises LakeError if packets cannot be read."""
    for note in request.plan.notes:
        if note.query not in found.failures:
            yield f"query {note.query}: {note}"
    settings = {link: request.config.link(link) for link in request.plan.links}
    for query in request.plan.queries:
        if query.name not in found.failures:
            last = np.concatenate(
                [np.empty(0, np.int64), *(rows["_last"].to_numpy() for rows in found.rows[query.name])]
            )
            ends = remarks.of_begin(query, captures, last), remarks.of_end(query, captures, last)
            lines = remarks.of_packets(query, captures), *ends
            for line in chain(*lines, remarks.of_links(query, lake, captures, settings)):
                yield f"query {query.name}: {line}"


def _told(found: RunResults) -> str:
    return "\n".join(error.message for error in found.failures.values())


def _hints(found: RunResults) -> list[str]:
    return list(dict.fromkeys(error.hint for error in found.failures.values() if error.hint))


def _require_captures(request: RunRequest) -> None:
    """Checks that every link of a query has a capture, or is an interface of a link with one."""
    links_with_captures = {name for name, _ in request.captures}
    missing = [name for name in request.plan.links if not {name, name.partition("/")[0]} & links_with_captures]
    if missing:
        options = " ".join(f"--capture {name}=FILE" for name in missing)
        message = f"no capture of {', '.join(missing)}, which a query reads"
        raise errors.ConfigError(message, f"give {options}, or name other links in FROM")


def _ingest(request: RunRequest, lake: Lake, progress: Progress) -> tuple[dict[str, Captures], list[str]]:
    """Ingests the captures. Returns them, and the doubts about their times."""
    links = sorted({link for link, _ in request.captures})
    config = _keeping_what_is_read(request, links)
    tables = {link: record_options.planned_options(config, request.plan, link) for link in links}
    notes: list[str] = []
    for link in links:
        record_options.planned_skews(config, request.plan, link)  # its errors come before anything starts
    count = len(request.captures)
    with progress.stage("ingest", f"of {count} capture{'s' if count > 1 else ''}") as tell:
        for link in links:
            if tables[link] is None and config.link(link).kind != "pcap":
                continue  # no query says what its records are
            files = [path for name, path in request.captures if name == link]
            results = ingest(lake, link, files, config, records=tables[link], tell=tell)
            _refuse_same_content(link, results)
            notes += [f"{result.path}: {result.doubt}" for result in results if result.doubt]
    return read_captures(lake, ingested_links(lake), config), notes


def _refuse_same_content(link: str, ingested: Sequence[batch.IngestResult]) -> None:
    """Refuses two files of a link with the same packets: they are one capture (T1)."""
    paths: dict[str, Path] = {}
    for ingested_file in ingested:
        if any(row.packets for row in ingested_file.captures):
            first = paths.setdefault(ingested_file.capture.capture, ingested_file.path)
            if first != ingested_file.path:
                name = f"--capture {link}={ingested_file.path}"
                message = f"{name}: has the same records as {first}, and a link reads a capture once"
                raise errors.ConfigError(message, "leave one of them out, or give it to another link")


def _keeping_what_is_read(request: RunRequest, links: Sequence[str]) -> Config:
    """Extends the settings so that every column that queries read is stored: the lake is temporary. A link keeps its
    own payload setting, and an anonymised link stores no more."""
    read = checks.optional_columns(request.plan.lftas)
    sections = dict(request.config.links)
    for name in links:
        link = request.config.link(name)
        if read and link.kind == "pcap" and link.anonymise is None:
            payload = "all" if link.payload is None and FRAME in read else link.payload
            applications = tuple(sorted({*link.applications, *checks.applications_of(read)}))
            retained = {"payload": payload, "applications": applications, "sampling": link.sampling or HEAD in read}
            sections[name] = link.model_copy(update=retained)
    return request.config.model_copy(update={"links": sections}) if read else request.config


def _planned_anew(request: RunRequest, captures: Mapping[str, Sequence[Capture]]) -> RunRequest:
    """Replaces links by their interfaces (T1) and plans the queries again."""
    interfaces = interface_links(captures)
    if interfaces and request.replan is not None:
        request = replace(request, plan=request.replan(interfaces))
    missing = [name for name in request.plan.links if name not in captures]
    if missing:
        readers = ", ".join(query.name for query in request.plan.queries if not captures.keys() >= set(query.links))
        message = f"query {readers}: no capture has {', '.join(missing)}, which it reads"
        raise errors.ConfigError(message, f"there are: {', '.join(captures)}; name one of them in FROM")
    return request


def _intervals(request: RunRequest, lake: Lake, captures: dict[str, Captures]) -> list[tuple[int, int]]:
    """The intervals that can own a row (I3); intervals without packets that reach them are left out."""
    length = request.interval
    if length is None:
        return [(0, END_OF_TIME)]
    files = PacketFiles.of(lake)
    ranges = [
        each
        for name in request.plan.links
        for each in record_ranges(files, name, captures.get(name, Captures()), request.config.link(name))
    ]
    if not ranges:
        return []
    spans = _spans(request, ranges)
    chosen = _numbers(spans, length)
    if (number := _count(chosen)) > limits.RUN_INTERVALS:
        longer = (each for each in _lengths() if each > length)
        first = next(each for each in longer if _count(_numbers(spans, each)) <= limits.RUN_INTERVALS)
        raise errors.ConfigError(
            f"--interval {format_duration(length)} makes {number:,} intervals, more than {limits.RUN_INTERVALS:,}",
            f"write --interval {format_duration(first)} or a longer one",
        )
    return [(at * length, (at + 1) * length) for lo, hi in chosen for at in range(lo, hi + 1)]


def _numbers(spans: Sequence[tuple[int, int]], length: int) -> list[tuple[int, int]]:
    """The numbers of the intervals of a length (ns) that overlap a span, as disjoint ranges with both ends included."""
    chosen: list[tuple[int, int]] = []
    for lo, hi in sorted((lo // length, hi // length) for lo, hi in spans):
        if chosen and lo <= chosen[-1][1] + 1:
            chosen[-1] = chosen[-1][0], max(hi, chosen[-1][1])
        else:
            chosen.append((lo, hi))
    return chosen


def _count(chosen: Sequence[tuple[int, int]]) -> int:
    return sum(hi - lo + 1 for lo, hi in chosen)


def _lengths() -> Iterator[int]:
    """Yields usual interval lengths (ns), ascending: 1, 2 and 5 times powers of ten, then minutes, hours, days."""
    digits = (1, 2, 5)
    yield from (digit * 10**power for power in range(10) for digit in digits)
    yield from (10 * SECOND, 20 * SECOND, 30 * SECOND)
    yield from (minutes * 60 * SECOND for minutes in (1, 2, 5, 10, 15, 30))
    yield from (hours * HOUR for hours in (1, 2, 3, 6, 12))
    yield from (days * 24 * HOUR for days in from_on(1))


def _spans(request: RunRequest, ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans of instants, ends included, in which records count or rows become final; they may overlap."""
    spans: set[tuple[int, int]] = set()
    for query in request.plan.queries:
        for first, latest in dict.fromkeys(ranges):
            ranges_reached = None if request.traces else properties.reached(query.logical, first, latest)
            if ranges_reached is None:
                earliest, last = min(lo for lo, _ in ranges), max(hi for _, hi in ranges)
                return [(earliest, max(last_instant(request.config, query, last) for query in request.plan.queries))]
            spans.update((lo, min(hi, END_OF_TIME - 1)) for lo, hi in ranges_reached)
    return list(spans)


def _end(link: str, captures: Mapping[str, Captures]) -> int:
    """The first instant after the end of a link, ns: outside its files, of any interface, it has no packets (T5)."""
    own = (
        rows.numbers("largest", -1)
        for name, rows in captures.items()
        if link_names.family_of(name) == link_names.family_of(link)
    )
    return int(max((largest.max(initial=-1) for largest in own), default=-1)) + 1


def run_intervals(
    request: RunRequest,
    lake: Lake,
    captures: dict[str, Captures],
    folder: Path,
    progress: Progress,
    runner: Runner | None = None,
    whole: bool = True,
) -> RunResults:
    """Runs the queries over a lake, interval by interval, by a runner, None for the reference engine, and collects the
    results in memory. `whole`: whether the captures are read from begin to end, so that each record is in an account.
    Raises LawError if a record is in no account, and LowwaterError if every query fails."""
    names = [query.name for query in request.plan.queries]
    found = RunResults({name: [] for name in names}, dict.fromkeys(names, 0))
    ends = {link: _end(link, captures) for link in request.plan.links}
    plan, states = request.plan, dict[str, StoredState]()
    intervals = _intervals(request, lake, captures)
    if request.order is not None:
        Random(request.order).shuffle(intervals)
    for number, (start, end) in enumerate(intervals):
        handed = runner is not None and request.order is None
        inputs = LowInputs(lake, plan, request.config, start, end, captures, ends, True, handed)
        detail = f"{number + 1} of {len(intervals)}" if len(intervals) > 1 else ""
        if runner is None:
            with progress.stage("reference", detail):
                _add_reference(request, inputs, found)
        else:
            work = folder / f"interval-{number}"
            with progress.stage("low", detail):
                inputs, low = _low(request, inputs, work / "low", runner, progress, found)
                plan = inputs.plan
            with progress.stage("high", detail):
                states = _high(request, inputs, low, work / "high", states, runner, found)
            shutil.rmtree(work, ignore_errors=True)
        _require_a_result(found)
    if whole:
        _account(request, plan, lake, captures, found)
    return found


def _low(
    request: RunRequest, inputs: LowInputs, folder: Path, runner: Runner, progress: Progress, found: RunResults
) -> tuple[LowInputs, LowResult]:
    """Runs the low stage. One kernel runs all queries of a link, so where it fails each is tried alone. Returns the
    inputs without the queries that it cannot run, too."""
    settings = LowSettings(0, request.period, request.policy, **request.low)

    def attempt(plan: Plan, where: Path) -> tuple[LowInputs, LowResult]:
        chosen = replace(inputs, plan=plan)
        return chosen, low_stage(low_level(chosen, settings, where, say=progress.say), runner)

    try:
        chosen, low = attempt(inputs.plan, folder / "all")
    except Exception:
        failed: set[str] = set()
        for number, query in enumerate(inputs.plan.queries):
            try:
                attempt(inputs.plan.only(query.name), folder / str(number))
            except Exception as error:  # noqa: BLE001 - whatever a query does is its own failure
                found.failures.setdefault(query.name, errors.error_of_query(query.name, error))
                failed.add(query.name)
        if not failed:
            raise
        _require_a_result(found)
        chosen, low = attempt(inputs.plan.without(failed), folder / "rest")
    for result in low.links:
        found.accounts.add(result)
        found.violations.append(_violations(result.link, result.violations, request.config))
    return chosen, low


def _high(
    request: RunRequest,
    inputs: LowInputs,
    low: LowResult,
    folder: Path,
    states: Mapping[str, StoredState],
    runner: Runner,
    found: RunResults,
) -> dict[str, StoredState]:
    """Runs the high stage from the states of the interval before; returns those that it leaves (SEMANTICS I4)."""
    settings = {**request.high, "most": runner.most}
    level = high_level(inputs, low.files, folder, settings, states, found.failures)
    results = high_results(runner.run(level), found.failures)
    queries = [query for query in inputs.plan.queries if query.name in results]
    for query in queries:
        found.rows[query.name].append(rows_of_files(results[query.name].files, query.high.fields))
        found.punctuation[query.name] += results[query.name].punctuation
    if request.traces:
        read = {query.name: ([lfta.name for lfta in query.lftas], results[query.name].files) for query in queries}
        found.traces.append(traces(low.files, read))
    return {name: StoredState(result.states) for name, result in results.items() if result.states}


def _account(request: RunRequest, plan: Plan, lake: Lake, captures: dict[str, Captures], found: RunResults) -> None:
    """Checks that each record is in an account, and adds what is said of the links of the queries of `plan`, which did
    not fail at the low level."""
    found.accounts.keep(plan.links)
    found.accounts.check()
    found.accounts.check_captures(captures)
    tables = [name for name in request.plan.links if request.config.link(name).kind != "pcap"]
    found.given = {location(lake, key_of(lake, path)): str(path) for _, path in request.captures}
    found.malformed = malformed_rows(lake, tables, captures, found.given) if tables else None
    for name in found.accounts.links:
        packets = read_packets(lake, name, captures[name], request.config.link(name), 0, 0, END_OF_TIME)
        found.latest[name] = largest_lateness(packets)


def _require_a_result(found: RunResults) -> None:
    if found.failures.keys() == found.rows.keys() and found.failures:
        first, *others = found.failures.values()
        raise errors.LowwaterError(_told(found), "; ".join(_hints(found))) if others else first


def _add_reference(request: RunRequest, inputs: LowInputs, found: RunResults) -> None:
    outcome = reference_stage(inputs, request.period, request.policy, found.states, found.failures)
    for name, result in outcome.results.items():
        if request.order is None:
            found.states[name] = result.state
        found.rows[name].append(outcome.rows[name])
        found.punctuation[name] += len(result.punctuation)
        for count in result.counts:
            found.accounts.add_source(count)
    for scan in outcome.scans:
        found.accounts.add_link(scan.link, scan.sane, scan.violations, scan.duplicates)
        found.violations.append(_violations(scan.link, scan.violations, request.config))


def _violations(link: str, rows: pa.Table, config: Config) -> pa.Table:
    count, skew = rows.num_rows, config.link(link).skew
    named = rows.append_column("link", pa.array([link] * count, pa.string()))
    return named.append_column("skew", pa.array([skew] * count, pa.int64()))


def rows_of_files(files: Sequence[str], fields: Sequence[ops.Field]) -> pa.Table:
    """Reads the data rows of stream files, with `_last` and `_tick`."""
    names = [f.name for f in fields]
    schema = properties.stream_schema(fields)
    tables = [pq.ParquetFile(path).read().select(schema.names).cast(schema) for path in files]
    table = pa.concat_tables(tables) if tables else schema.empty_table()
    return table.filter(pc.equal(table.column("_kind"), ROW)).select([*names, "_last", "_tick"])


def _rows(found: RunResults, query: QueryPlan) -> pa.Table:
    schema = properties.value_schema(query.high.fields)
    parts = [table.select(schema.names).cast(schema) for table in found.rows[query.name]]
    return pa.concat_tables(parts) if parts else schema.empty_table()


def rows_of(found: RunResults, query: QueryPlan) -> pa.Table:
    """Returns the rows of a query in their published form, with the instants of temporal columns, in the order of all
    columns."""
    fields = query.high.fields
    return row_files.published_rows(row_files.sort_rows(_rows(found, query), fields), fields, instants=True)


def _write_query(request: RunRequest, found: RunResults, query: QueryPlan, file: Path) -> dict[str, Any]:
    """Writes the rows of a query. Returns its entry in the summary."""
    fields = query.high.fields
    rows = _rows(found, query)
    with _whole(file) as part:
        row_files.write_rows(rows, fields, part, request.form, request.spreadsheet, request.instants)
    sources = {lfta.name for lfta in query.lftas} | set(source_links(query.logical))
    return {
        "file": file.name,
        "rows": rows.num_rows,
        "punctuation": found.punctuation[query.name],
        "lftas": lfta_counts(found.accounts, sources),
    }


def _write(
    request: RunRequest, found: RunResults, captures: dict[str, Captures], engine: str, progress: Progress
) -> dict[str, Any]:
    queries: dict[str, dict[str, Any]] = {}
    with progress.stage("write"):
        for query in request.plan.queries:
            file = request.out / f"{query.name}.{request.form}"
            if query.name not in found.failures:
                try:
                    queries[query.name] = _write_query(request, found, query, file)
                except Exception as error:  # noqa: BLE001 - whatever a query does is its own failure
                    found.failures[query.name] = errors.error_of_query(query.name, error)
            if query.name in found.failures:
                file.unlink(missing_ok=True)  # of an earlier run
                queries[query.name] = {"error": found.failures[query.name].message}
        violations = pa.concat_tables(found.violations) if found.violations else VIOLATIONS.empty_table()
        chosen = violations.select(VIOLATIONS.names).sort_by([("link", "ascending"), ("arrival", "ascending")])
        tables = {reserved.VIOLATIONS: chosen}
        if found.malformed is not None:
            tables[reserved.MALFORMED] = found.malformed
        if request.traces:
            tables[reserved.HEARTBEATS] = pa.concat_tables([TRACES.empty_table(), *found.traces])
        for name, rows in tables.items():
            with _whole(request.out / f"{name}.csv") as file:
                row_files.write_csv(rows, file, request.spreadsheet)
    links = {
        name: link_summary(request.config, found.accounts, captures[name], name, found.latest.get(name, 0), found.given)
        for name in sorted(captures)
    }
    summary = {
        "engine": engine,
        "heartbeat": {"policy": str(request.policy), "period_ns": request.period},
        "interval_ns": request.interval,
        "links": links,
        "queries": queries,
        "notes": list(found.notes),
        "seconds": {name: round(spent, 3) for name, spent in progress.seconds.items()},
    }
    with _whole(request.out / f"{reserved.SUMMARY}.json") as file:
        file.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    return summary


@contextmanager
def _whole(file: Path) -> Iterator[Path]:
    """Yields another name to write a file under, so that it is there whole or not at all."""
    part = file.with_name(f".{file.name}.part")
    try:
        yield part
        part.replace(file)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
