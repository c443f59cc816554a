"""Ledgers that grow with every audit: measures of intervals, and the lateness of links.

Written by the audit; read by checks over time, `lowwater expect` and the pages. The newest row of a key counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
from numpy.typing import NDArray

from lowwater.instants import HOUR, format_instant
from lowwater.lake.layout import LATENESS, MEASURES, METRICS, Lake, measures_schema
from lowwater.lake.ledgers.captures import files_by_link
from lowwater.lake.ledgers.runs import with_constants
from lowwater.lake.opened import cached_value
from lowwater.lake.tables import append_rows, create, files_dataset, lake_errors, quote, read_rows, replace_rows
from lowwater.storage.object_paths import ObjectPath

DAY = 24 * HOUR
LONG = 400 * DAY
"""Shorter ranges are read by naming their months, so that no other partition is opened."""


@dataclass(frozen=True)
class LinkLateness:
    """A row of `lateness`; see `layout.LATENESS`. Instants and durations are ns."""

    link: str
    interval_start: int
    interval_end: int
    skew: int
    refused: int
    largest: int
    busiest: int
    bounds: NDArray[np.int64]
    counts: NDArray[np.int64]
    measured_at: int


def record_metrics(lake: Lake, query_set: str, start: int, end: int, rows: pa.Table) -> None:
    """Replaces the measures of [start, end), ns, of a query set.

    Args:
        lake: the lake.
        query_set: name of the query set.
        start: begin of the interval, ns since the epoch.
        end: end of the interval, ns, exclusive.
        rows: METRICS without `query_set`, `interval_start` and `interval_end`.
    """
    table = with_constants(rows, METRICS, {"query_set": query_set, "interval_start": start, "interval_end": end})
    of_set = (pads.field("query_set") == query_set) & (pads.field("interval_start") == start)
    if read_rows(lake.metrics, METRICS, of_set & (pads.field("interval_end") == end)).num_rows:
        predicate = f"query_set = {quote(query_set)} AND interval_start = {start} AND interval_end = {end}"
        replace_rows(lake.metrics, table, predicate, lake.fence)
    else:
        append_rows(lake.metrics, table, lake.fence)  # touches no file, however large the compacted ones are


def record_measures(lake: Lake, query_set: str, start: int, end: int, tables: Mapping[str, pa.Table], now: int) -> None:
    """Replaces the measures of [start, end), ns, of a query set, in the tables of `layout.MEASURES`.

    The table `queries` is the first: whether it has the interval says whether the others may. A lake in a store has no
    such tables: they would take a third more requests for each interval.
    """
    if isinstance(lake.root, ObjectPath):
        return
    of_interval: dict[str, str | int] = {"query_set": query_set, "interval_start": start, "interval_end": end}
    there = reduce(and_, (pads.field(name) == value for name, value in of_interval.items()))
    path, key = lake.measures("queries"), pa.schema([("query_set", pa.string())])
    again = bool(read_rows(path, key, there).num_rows)
    predicate = f"query_set = {quote(query_set)} AND interval_start = {start} AND interval_end = {end}"
    for name in sorted(tables, key=lambda name: name != "queries"):
        if not tables[name].num_rows and not again:
            continue
        path, schema = lake.measures(name), measures_schema(tables[name].schema)
        create(path, schema, ["query_set"], about=MEASURES[name])
        rows = with_constants(tables[name], schema, {**of_interval, "measured_at": now})
        if again:
            replace_rows(path, rows, predicate, lake.fence)
        else:
            append_rows(path, rows, lake.fence)


def read_metrics(
    lake: Lake, query_set: str | None = None, start: int = 0, end: int = 1 << 62, subject: str | None = None
) -> pa.Table:
    """Reads the measures of intervals that begin in [start, end), ns.

    Args:
        lake: the open lake.
        query_set: name of the query set; None for all.
        start: first begin of an interval, ns since the epoch.
        end: end of the begins, ns, exclusive.
        subject: name of the link or query; None for all.
    """
    chosen = (pads.field("interval_start") >= start) & (pads.field("interval_start") < end)
    if query_set is not None:
        chosen &= pads.field("query_set") == query_set
    if subject is not None:
        chosen &= pads.field("subject") == subject
    return read_rows(lake.metrics, METRICS, chosen)


def record_lateness(lake: Lake, rows: Sequence[LinkLateness]) -> None:
    """Appends the lateness of links, without rows that are stored already."""
    stored = {link: {_comparable(row) for row in _rows_of(lake, link, rows)} for link in {row.link for row in rows}}
    new = [row for row in rows if _comparable(row) not in stored[row.link]]
    if new:
        records = [{**vars(row), "month": _month(row.interval_start)} for row in new]
        append_rows(lake.lateness, pa.Table.from_pylist(records, schema=LATENESS), lake.fence)


def _rows_of(lake: Lake, link: str, rows: Sequence[LinkLateness]) -> list[LinkLateness]:
    link_rows = [row for row in rows if row.link == link]
    first, last = min(row.interval_start for row in link_rows), max(row.interval_start for row in link_rows)
    return read_lateness(lake, link, first, last + 1)


def _comparable(row: LinkLateness) -> tuple[int, int, int, int, int, int, tuple[int, ...]]:
    counts = (*row.bounds.tolist(), *row.counts.tolist())
    return row.interval_start, row.interval_end, row.skew, row.refused, row.largest, row.busiest, counts


def read_lateness(lake: Lake, link: str, start: int = 0, end: int = 1 << 62) -> list[LinkLateness]:
    """Reads the lateness of a link in the intervals that begin in [start, end), ns, in order.

    Args:
        lake: the open lake.
        link: name of the link.
        start: first begin of an interval, ns since the epoch.
        end: end of the begins, ns, exclusive.
    """
    chosen = (pads.field("interval_start") >= start) & (pads.field("interval_start") < end)
    if end - start < LONG:
        months = {_month(at) for at in range(start, end, DAY)} | {_month(max(start, end - 1))}
        files = [name for name in lateness_files(lake, link) if name.partition("month=")[2].partition("/")[0] in months]
        with lake_errors(f"{lake.lateness}: the table cannot be read"):
            rows = files_dataset(lake.lateness, [(name, pads.field("link") == link) for name in files], LATENESS)
            rows = rows.to_table([name for name in LATENESS.names if name != "month"])
    else:
        rows = read_rows(lake.lateness, LATENESS, (pads.field("link") == link) & chosen)
    scalars = rows.select([name for name in LATENESS.names if name not in ("month", "bounds", "counts")])
    lists = list(zip(_lists(rows, "bounds"), _lists(rows, "counts"), strict=True))
    newest = {}
    numbered = scalars.append_column("place", [np.arange(scalars.num_rows)]).filter(chosen)  # lists are not moved
    for row in numbered.sort_by("measured_at").to_pylist():
        bounds, counts = lists[row.pop("place")]
        newest[row["interval_start"], row["interval_end"]] = LinkLateness(**row, bounds=bounds, counts=counts)
    return [newest[key] for key in sorted(newest)]


def lateness_files(lake: Lake, link: str) -> tuple[str, ...]:
    """Names the files with the lateness of a link; they are others whenever it has changed."""
    names: Mapping[str, tuple[str, ...]] = cached_value(lake.lateness, "lateness files", files_by_link)
    return names.get(link, ())


def _month(at: int) -> str:
    return format_instant(at)[:7]


def late_share(lake: Lake, link: str, start: int, end: int) -> float | None:
    """Share of the records of a link that were refused as late, in the intervals that begin in [start, end), ns."""
    rows = read_lateness(lake, link, max(0, start), end)
    records = sum(int(sum(row.counts)) for row in rows)
    return sum(row.refused for row in rows) / records if records else None


def _lists(rows: pa.Table, name: str) -> list[NDArray[np.int64]]:
    column = rows.column(name).combine_chunks()
    if not len(column):
        return []
    ends = np.cumsum(pc.list_value_length(column).to_numpy()).tolist()
    values = column.flatten().to_numpy()
    return [values[begin:end] for begin, end in zip([0, *ends[:-1]], ends, strict=True)]
