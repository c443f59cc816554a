"""The ledgers that runs write: violations, heartbeats, replays, and what the audits found.

Written by the replay, read by audits, publish and status. Each write is one commit and may be repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from lowwater.lake.layout import HEARTBEATS, QUALITY, QUARANTINE, REPLAYS, VIOLATIONS, Lake
from lowwater.lake.tables import append_rows, compact, open_table, quote, read_rows, replace_rows, scanned

DONE, PROVISIONAL, INCOMPLETE, FAILED = "done", "provisional", "incomplete", "failed"
LOW, HIGH, AUDIT, PUBLISH = "low", "high", "audit", "publish"


def record_violations(lake: Lake, link: str, skew: int, start: int, end: int, rows: pa.Table) -> None:
    """Replaces the violations of a link and skew that arrive in [start, end), ns.

    Args:
        lake: the lake.
        link: name of the link.
        skew: the bound that they exceed, ns.
        start: the start of the interval; `end` its end.
        rows: capture, position, timestamp, arrival, lateness; arrivals all in [start, end).
    """
    where = (pads.field("arrival") >= start) & (pads.field("arrival") < end)
    mine = (pads.field("link") == link) & (pads.field("skew") == skew)
    if not rows.num_rows and not read_rows(lake.violations, VIOLATIONS, mine & where).num_rows:
        return
    table = with_constants(rows, VIOLATIONS, {"link": link, "skew": skew})
    predicate = f"link = {quote(link)} AND skew = {skew} AND arrival >= {start} AND arrival < {end}"
    replace_rows(lake.violations, table, predicate)
    compact(lake.violations)


def read_violations(lake: Lake, link: str, skew: int, start: int, end: int) -> pa.Table:
    """The violations of a link and skew that arrive in [start, end), ns, in order.

    Args:
        lake: the open lake.
        link: name of the link.
        skew: skew by which the records were judged, ns.
        start: first instant of arrival, ns since the epoch.
        end: end of the arrivals, ns, exclusive.
    """
    where = (pads.field("arrival") >= start) & (pads.field("arrival") < end)
    rows = read_rows(lake.violations, VIOLATIONS, (pads.field("link") == link) & (pads.field("skew") == skew) & where)
    return rows.sort_by([("arrival", "ascending"), ("capture", "ascending"), ("position", "ascending")])


def record_heartbeats(lake: Lake, query_set: str, start: int, end: int, rows: pa.Table) -> None:
    """Replaces the operator statistics of a query set over [start, end), ns.

    Args:
        lake: the lake.
        query_set: its name.
        start: the start of the interval; `end` its end.
        rows: HEARTBEATS without `query_set`, one per LFTA, link and minute; a minute that the interval's bounds cut is
            its part in the interval, so that runs of any length add up.
    """
    table = with_constants(rows, HEARTBEATS, {"query_set": query_set})
    predicate = f'query_set = {quote(query_set)} AND "start" >= {start} AND "start" < {end}'
    replace_rows(lake.heartbeats, table, predicate)
    compact(lake.heartbeats)


def read_heartbeats(lake: Lake, query_set: str, start: int, end: int) -> pa.Table:
    """The operator statistics of a query set over [start, end), ns.

    Args:
        lake: the open lake.
        query_set: name of the query set.
        start: first instant, ns since the epoch.
        end: end, ns, exclusive.
    """
    where = (pads.field("start") >= start) & (pads.field("start") < end)
    return read_rows(lake.heartbeats, HEARTBEATS, (pads.field("query_set") == query_set) & where)


def read_statistics(lake: Lake, lftas: Sequence[str], most: int) -> pa.Table:
    """The newest rows of HEARTBEATS with statistics of some LFTAs, of any query set; none where none were counted.

    Args:
        lake: the lake.
        lftas: their names.
        most: how far back from the newest they go, ns.
    """
    chosen = pads.field("lfta").isin(pa.array(sorted(set(lftas)), pa.string()))
    table = open_table(lake.heartbeats)
    if table is None:
        return HEARTBEATS.empty_table()
    # Which rows lack a column the files say only once they are read: those of an older lake do not have it.
    when = scanned(lake.heartbeats, table).to_table(columns=["start", "records"], filter=chosen).drop_null()
    if not when.num_rows:
        return HEARTBEATS.empty_table()
    latest = pc.max(when.column("start")).as_py()
    rows = read_rows(lake.heartbeats, HEARTBEATS, chosen & (pads.field("start") > latest - most))
    return rows.filter(pc.is_valid(rows.column("records")))


def with_constants(rows: pa.Table, schema: pa.Schema, constants: dict[str, str | int]) -> pa.Table:
    """The rows in the schema of a ledger, with columns that are the same in all of them; NULL in those they lack."""
    columns = []
    for each in schema:
        if each.name in constants:
            columns.append(pa.repeat(pa.scalar(constants[each.name], each.type), rows.num_rows))
        elif each.nullable and each.name not in rows.column_names:
            columns.append(pa.nulls(rows.num_rows, each.type))
        else:
            columns.append(rows[each.name].cast(each.type))
    return pa.Table.from_arrays(columns, schema=schema)


@dataclass(frozen=True)
class Replay:
    """One row of `replays`: what became of a stage of a run.

    Attributes:
        query_set: its name.
        query: name of the output query; empty for the whole set.
        interval_start: ns; `interval_end` as well.
        stage: low, high, audit or publish.
        state: done, provisional, incomplete or failed.
        finished_at: wall clock, ns.
        reason: why it is not done.
        digest: the digest of the inputs (S1).
        rows: how many came out.
        settings: JSON, as `timings` and `accounting`.
    """

    query_set: str
    query: str
    interval_start: int
    interval_end: int
    stage: str
    state: str
    finished_at: int
    reason: str = ""
    digest: str = ""
    rows: int | None = None
    settings: str = field(default="{}")
    timings: str = field(default="{}")
    accounting: str = field(default="{}")


def record_replays(lake: Lake, rows: list[Replay]) -> None:
    """Appends rows in one commit; the newest of (query set, query, interval, stage) counts."""
    if rows:
        append_rows(lake.replays, pa.Table.from_pylist([asdict(row) for row in rows], schema=REPLAYS))
        compact(lake.replays)


def read_replays(lake: Lake, query_set: str | None = None, span: tuple[int, int] | None = None) -> list[Replay]:
    """The rows of a query set, or all, oldest first; with a span [start, end), ns, of the intervals that meet it."""
    chosen = None if query_set is None else pads.field("query_set") == query_set
    if span is not None:
        near = (pads.field("interval_start") < span[1]) & (pads.field("interval_end") > span[0])
        chosen = near if chosen is None else chosen & near
    rows = read_rows(lake.replays, REPLAYS, chosen).to_pylist()
    return sorted((Replay(**row) for row in rows), key=lambda row: row.finished_at)


def replayed_sets(lake: Lake) -> set[str]:
    """The query sets that were ever run."""
    names = read_rows(lake.replays, pa.schema([REPLAYS.field("query_set")]))
    return set(pc.unique(names["query_set"]).to_pylist())


def last_published(lake: Lake, query_set: str, query: str, start: int, end: int) -> Replay | None:
    """The publication that the rows of [start, end) come from; None if there is none or several made them.

    Args:
        lake: the open lake.
        query_set: name of the query set.
        query: an output query of it.
        start: first instant of the interval, ns since the epoch.
        end: end of the interval, ns since the epoch, exclusive.
    """
    rows = [row for row in read_replays(lake, query_set, (start, end)) if row.query == query and row.stage == PUBLISH]
    published = [row for row in rows if row.state != FAILED]
    if not published or (published[-1].interval_start, published[-1].interval_end) != (start, end):
        return None
    return published[-1]


def record_quality(lake: Lake, query_set: str, start: int, end: int, rows: pa.Table, kept: pa.Table) -> None:
    """Replaces what the audit of [start, end), ns, of a query set found.

    Args:
        lake: the lake.
        query_set: its name.
        start: the start of the interval; `end` its end.
        rows: QUALITY without `query_set`, `interval_start` and `interval_end`, one an expectation.
        kept: QUARANTINE without these.
    """
    constants: dict[str, str | int] = {"query_set": query_set, "interval_start": start, "interval_end": end}
    predicate = f"query_set = {quote(query_set)} AND interval_start = {start} AND interval_end = {end}"
    failed = with_constants(kept, QUARANTINE, constants)
    if failed.num_rows or read_quarantine(lake, query_set, start, end).num_rows:
        replace_rows(lake.quarantine, failed, predicate)
        compact(lake.quarantine)
    found = with_constants(rows, QUALITY, constants)
    replace_rows(lake.quality, found, predicate)
    compact(lake.quality)


def read_quality(lake: Lake, query_set: str | None = None, start: int = 0, end: int = 0) -> pa.Table:
    """What the newest audits found: that of [start, end), ns, of a query set, or without one all of them.

    Args:
        lake: the open lake.
        query_set: name of the query set; None for all audits of all sets.
        start: first instant of the interval, ns since the epoch; unused without a query set.
        end: end of the interval, ns since the epoch, exclusive.
    """
    return read_rows(lake.quality, QUALITY, None if query_set is None else _of_interval(query_set, start, end))


def read_qualities(lake: Lake, start: int, end: int) -> pa.Table:
    """What the newest audits found of every interval that begins in [start, end), ns."""
    chosen = (pads.field("interval_start") >= start) & (pads.field("interval_start") < end)
    return read_rows(lake.quality, QUALITY, chosen)


def read_quarantine(lake: Lake, query_set: str, start: int, end: int) -> pa.Table:
    """The rows that the newest audit of [start, end), ns, of a query set kept.

    Args:
        lake: the open lake.
        query_set: name of the query set.
        start: first instant of the interval, ns since the epoch.
        end: end of the interval, ns since the epoch, exclusive.
    """
    return read_rows(lake.quarantine, QUARANTINE, _of_interval(query_set, start, end))


def _of_interval(query_set: str, start: int, end: int) -> pads.Expression:
    bounds = (pads.field("interval_start") == start) & (pads.field("interval_end") == end)
    return (pads.field("query_set") == query_set) & bounds
