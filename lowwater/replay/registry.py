"""The registry of published streams: what each one is, who makes it, who reads it, and how new it is.

Reads the tables and ledgers of a lake and the plans of its query sets, for `lowwater streams` and the review pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePath
from typing import Any

from lowwater.errors import LowwaterError
from lowwater.instants import SECOND, format_duration, format_instant, format_moment
from lowwater.lake.layout import Lake, lake_to_read
from lowwater.lake.ledgers.intervals import merged
from lowwater.lake.ledgers.runs import PUBLISH, ReplayRow, read_replays
from lowwater.lake.ledgers.statements import retired, retired_words
from lowwater.lake.results.pins import Pins, pinned
from lowwater.lake.results.published import Range, TableState, commit_digest, damages, table_state
from lowwater.lake.results.published_rows import of_query
from lowwater.lake.results.subscription import consumers_of
from lowwater.lake.tables import lake_errors, open_table, plain_type, safe_name
from lowwater.lake.words import DAMAGED, FAILED
from lowwater.plan import operators as ops, queryset
from lowwater.plan.explain.describe import columns_info
from lowwater.plan.explain.model import Progress
from lowwater.plan.properties import is_instant
from lowwater.replay.job import Job
from lowwater.replay.schedule.links import jobs, retired_sets
from lowwater.storage import paths

VERSION = 1
"""Version of the document of `lowwater streams --json`."""


@dataclass(frozen=True)
class StreamColumn:
    """A column of a stream."""

    name: str
    type: str  # type of the published values, as Arrow names it
    temporal: str = ""  # `increasing` or `decreasing`; empty for a column without progress
    # the value computed from the clock (ns) or from `origin`, as GSQL; empty without progress or without a plan
    of: str = ""
    # bound of the rows after the last published interval, of instants in ISO 8601; None without a promise
    promise: int | str | None = None


@dataclass(frozen=True)
class Reader:
    """A consumer of a stream."""

    kind: str  # `query` of the same query set, or `subscriber`
    name: str
    until: int | None = None  # end of the range that a subscriber has read, ns since the epoch; None for a query
    behind: int | None = None  # number of versions of the table that a subscriber has not read; None for a query
    seen: int | None = None  # when the subscriber was done with the range, ns since the epoch; None for a query
    # whether the log has the version that a subscriber has read no more, or another one: it must begin again
    lost: bool = False


@dataclass(frozen=True)
class StreamInfo:
    """A stream that is published, or will be."""

    name: str
    owner: str  # query set that makes it (S3)
    columns: tuple[StreamColumn, ...]
    key: tuple[str, ...] | None = None  # columns that are unique together; None if unknown
    links: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()  # queries of the set that it is made of, in the order of their evaluation
    readers: tuple[Reader, ...] = ()
    # what is published and as it was published, ns since the epoch, in order; ranges that touch are one
    published: tuple[Range, ...] = ()
    # published intervals whose rows the table does not have, as (start, end, why); ns since the epoch
    damaged: tuple[tuple[int, int, str], ...] = ()
    last: Range | None = None  # interval that was published last, ns since the epoch; None without a publication
    rows: int | None = None  # rows of this interval; None without a publication
    state: str = ""  # state of this publication; empty without one
    published_at: int | None = None  # when it was published, ns since the epoch; None without a publication
    # end of what is captured of its links, all of them, ns since the epoch; None if nothing is
    captured: int | None = None
    version: int | None = None  # version of the table; None without one
    # version that belongs together with the pinned ones of the other tables of its set; None without one
    pinned: int | None = None
    unfinished: bool = False  # whether the newest versions of the tables of its set do not belong together
    problem: str = ""  # why the query set cannot be planned, so that keys and producers are unknown; else empty

    @property
    def until(self) -> int | None:
        """End of what is published, ns since the epoch; None without a publication."""
        return self.published[-1][1] if self.published else None

    @property
    def lag(self) -> int | None:
        """Captured time that is not published yet, ns; None if either is unknown."""
        return None if self.until is None or self.captured is None else max(0, self.captured - self.until)

    def document(self) -> dict[str, Any]:
        """The stream as JSON values; instants in ns since the epoch."""
        return {**asdict(self), "until": self.until, "lag": self.lag}


def streams_of(root: PurePath, queries: Path) -> list[StreamInfo]:
    """Lists the streams of a lake by name. Raises LakeError if there is no such lake, or it cannot be read."""
    unplanned: dict[str, LowwaterError] = {}
    planned = jobs(root, queries, unplanned.__setitem__)
    problems = retired_sets(root, queries) | {name: error.message for name, error in unplanned.items()}
    return list_streams(lake_to_read(root), planned, problems)


def list_streams(lake: Lake, planned: Sequence[Job], problems: Mapping[str, str]) -> list[StreamInfo]:
    """Lists the streams of query sets by name. `problems`: query set that cannot be planned, or is retired -> why.
    Raises LakeError if the lake cannot be read."""
    replays = read_replays(lake, stage=PUBLISH)
    streams = {}
    pins: dict[str, Pins | None] = {}
    for job in planned:
        ends = {link: rows.end for link, rows in job.captures().items()}
        pins[job.query_set] = pinned(lake, job.query_set, [query.name for query in job.plan.queries])
        for query in job.plan.queries:
            stored = _stored(lake, query.name, replays, pins)
            if stored is None or stored.owner == job.query_set:
                streams[query.name] = _planned(lake, job, query, stored, ends)
    owners = {job.query_set for job in planned} | set(problems)
    for name in _tables(lake, replays):
        stored = None if name in streams else _stored(lake, name, replays, pins)
        if stored is not None and stored.owner in owners:
            readers = _subscribers(lake, name, stored.version)
            problem = problems.get(stored.owner, "its query set has no such query any more")
            if (said := retired(lake).get(name)) is not None:
                problem = retired_words(said)
            streams[name] = replace(stored, readers=readers, problem=problem)
    return [streams[name] for name in sorted(streams)]


def _tables(lake: Lake, replays: Sequence[ReplayRow]) -> list[str]:
    """Returns the names of the published tables: those of the ledger, else of their folders."""
    names = {safe_name(row.query): row.query for row in replays if row.query}
    return [names.get(path.name, path.name) for path in paths.folders(lake.root / "tables")]


def _stored(lake: Lake, name: str, replays: Sequence[ReplayRow], pins: dict[str, Pins | None]) -> StreamInfo | None:
    """Returns what the table and the publications of the ledger say of a stream; None without a table."""
    import pyarrow as pa

    path = lake.table(name)
    table, state = open_table(path), table_state(path)
    if table is None or state is None:
        return None
    promise = state.note.promise if state.note else {}
    with lake_errors(f"{path}: the table cannot be read"):
        columns = [
            StreamColumn(
                column.name,
                str(plain_type(column.type)),
                promise=_bound(is_instant(column.type), promise.get(column.name)),
            )
            for column in pa.schema(table.schema().to_arrow())
            if of_query(column)
        ]
    mine = [row for row in replays if row.query == name and row.query_set == state.owner]
    rows = [row for row in mine if row.state != FAILED]
    damaged = damages(lake, name, rows)
    last = rows[-1] if rows else None
    told = (state.note.start, state.note.end) if state.note else None
    if state.owner and state.owner not in pins:
        pins[state.owner] = pinned(lake, state.owner)
    together = pins.get(state.owner)
    return StreamInfo(
        name,
        state.owner,
        tuple(columns),
        published=_published(state, rows, damaged),
        damaged=tuple((*bounds, why) for bounds, why in sorted(damaged.items())),
        last=_bounds(last) if last else told,
        rows=last.rows if last else None,
        state="" if last is None else DAMAGED if _bounds(last) in damaged else last.state,
        published_at=last.finished_at if last else None,
        version=state.version,
        pinned=together.tables.get(name) if together else None,
        unfinished=bool(together and together.unfinished),
    )


def _bound(is_moment: bool, promise: int | None) -> int | str | None:
    return format_moment(promise) if is_moment and promise is not None else promise


def _bounds(row: ReplayRow) -> Range:
    return row.interval_start, row.interval_end


def _published(state: TableState, rows: Sequence[ReplayRow], damaged: Mapping[Range, str]) -> tuple[Range, ...]:
    """Returns what is published as the ledger says; without a ledger what the table says."""
    if not rows:
        return state.note.ranges if state.note else ()
    return tuple(merged(bounds for bounds in map(_bounds, rows) if bounds not in damaged))


def _planned(
    lake: Lake, job: Job, query: queryset.QueryPlan, stored: StreamInfo | None, ends: Mapping[str, int | None]
) -> StreamInfo:
    from lowwater.plan import properties

    columns = tuple(
        StreamColumn(field.name, str(field.type)) for field in properties.published_schema(query.high.fields)
    )
    base = stored or StreamInfo(query.name, job.query_set, columns)
    below = tuple(label.removeprefix("query ") for label, _ in query.parts if label.startswith("query "))
    readers = [
        Reader("query", other.name)
        for other in (*job.plan.queries, *job.plan.internal)
        if other.name != query.name and f"query {query.name}" in [label for label, _ in other.parts]
    ]
    captured = [ends.get(link) for link in query.links]
    known = [end for end in captured if end is not None]
    return replace(
        base,
        columns=_temporal(base.columns, query.high.fields),
        key=query.key,
        links=tuple(query.links),
        queries=tuple(name for name in below if name != query.name),
        readers=(*readers, *_subscribers(lake, query.name, base.version)),
        captured=min(known) if known and len(known) == len(captured) else None,
    )


def _temporal(columns: Sequence[StreamColumn], fields: Sequence[ops.Field]) -> tuple[StreamColumn, ...]:
    """Adds the temporal properties of a plan to the columns of a table."""
    progress = {column.name: column.progress for column in columns_info(fields) if column.progress}
    return tuple(
        replace(column, temporal=known.direction, of=_computed(known))
        if (known := progress.get(column.name)) is not None
        else column
        for column in columns
    )


def _computed(progress: Progress) -> str:
    steps = ", ".join(progress.steps)
    return f"{progress.origin}: {steps}" if progress.origin else steps


def _subscribers(lake: Lake, name: str, version: int | None) -> tuple[Reader, ...]:
    readers = []
    for each in consumers_of(lake, name):
        behind = max(0, (version or 0) - each.version)
        found = commit_digest(lake.table(name), each.version)
        lost = bool(each.digest) and found != each.digest and bool(found or behind)
        readers.append(Reader("subscriber", each.name, each.until, behind, each.seen, lost))
    return tuple(readers)


def stream_facts(info: StreamInfo) -> dict[str, str]:
    """Returns what is known of a stream in words: name of the fact -> text; instants and durations are exact."""
    key = "unknown" if info.key is None else ", ".join(info.key) or "one row"
    source = [f"query set {info.owner}"]
    source += [f"queries {', '.join(info.queries)}"] * bool(info.queries)
    source += [f"links {', '.join(info.links)}"] * bool(info.links)
    when = f", in version {info.version}, {_second(info.published_at)}" if info.published_at else ""
    facts = {
        "columns": ", ".join(f"{column.name} {column.type}" for column in info.columns),
        "key": key,
        "temporal": "; ".join(_temporal_words(info.columns)) or "none",
        "producers": ", ".join(source),
        "consumers": "; ".join(map(_reader_words, info.readers)) or "none known",
        "published": f"{published_text(info)}{when}",
        "damaged": "; ".join(
            f"{format_instant(start)} to {format_instant(end)}: {why}" for start, end, why in info.damaged
        ),
        "pinned": _pinned_words(info) if info.unfinished else "",
        "lag": "unknown" if info.lag is None else format_duration(info.lag),
        "problem": info.problem,
    }
    return {name: text for name, text in facts.items() if text}


def published_text(info: StreamInfo) -> str:
    """Returns what is published of a stream, in words."""
    if info.until is None:
        return "nothing yet"
    text = f"{format_instant(info.published[0][0])} to {format_instant(info.until)}"
    holes = len(info.published) - 1
    return text if not holes else f"{text}, {holes} {'hole' if holes == 1 else 'holes'}"


def _temporal_words(columns: Sequence[StreamColumn]) -> Iterator[str]:
    for column in columns:
        if column.temporal:
            word = ">=" if column.temporal == "increasing" else "<="
            promise = "" if column.promise is None else f", later rows {word} {column.promise}"
            yield f"{column.name} {column.temporal} ({column.of}){promise}"


def _reader_words(reader: Reader) -> str:
    text = f"{reader.kind} {reader.name}"
    if reader.until is None or reader.seen is None:
        return text
    behind = f", {reader.behind} versions behind" if reader.behind else ""
    behind += ", which the log of the table does not have any more: it must begin again" * reader.lost
    return f"{text} (up to {format_instant(reader.until)}, at {_second(reader.seen)}{behind})"


def _pinned_words(info: StreamInfo) -> str:
    """Names the pinned version, which is not the newest one, and says why."""
    version = "no version" if info.pinned is None else f"version {info.pinned}"
    return f"{version}; an interval of the set is published in part, or damaged: `lowwater status`"


def _second(instant: int) -> str:
    return format_instant(instant - instant % SECOND)
