"""A batch of intervals is evaluated as one interval that is as long as all of them; here its streams are divided among
them again. By the law the rows are theirs (I1), and so are the promises: within an interval none is above its end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import PurePath

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lowwater.catalog.schemas import LAST, PUNCTUATION
from lowwater.columns.files import HourFiles
from lowwater.high.query_runs import HighResult
from lowwater.high.streams import StreamFiles
from lowwater.high.timeline import Timeline
from lowwater.instants import SECOND
from lowwater.lake.ledgers.runs import Range
from lowwater.plan import properties
from lowwater.plan.operators import Field
from lowwater.storage import paths

MINUTE = 60 * SECOND
LONGEST = 7 * 24 * 60 * MINUTE
"""Longest batch, ns: an audit compares late records with those of the week before, which must have been audited."""


def divides(length: int) -> bool:
    """Whether intervals of a length, ns, may be of a batch: the accounts of LFTAs are by minute."""
    return length % MINUTE == 0


@dataclass
class Share:
    """What an interval has of the stream of a query."""

    files: list[PurePath] = field(default_factory=list)  # in order: of rows, then the promises
    rows: int = 0


def divided(
    result: HighResult, fields: Sequence[Field], intervals: Sequence[Range], folder: PurePath
) -> Mapping[Range, Share]:
    """Divides the stream of a query, in published types, among the intervals of a batch, in order. Files with rows of
    one interval stay as they are; others are written anew in `folder`. Of one interval it is the stream itself.
    Raises OSError if files cannot be read or written."""
    files = [paths.lake_path(file) for file in result.files]
    if len(intervals) == 1:
        return {intervals[0]: Share(files, result.rows)}
    shares = {span: Share() for span in intervals}
    starts, schema = [start for start, _ in intervals], properties.result_schema(fields)
    promises = list[pa.Table]()
    for number, file in enumerate(files):
        with pq.ParquetFile(paths.local(file)) as stored:
            least, most, kind = _bounds(stored)
            if kind == PUNCTUATION:
                promises.append(stored.read(["_tick", "_until", "_period", LAST]))
                continue
            first, last = (int(np.searchsorted(starts, at, side="right")) - 1 for at in (least, most))
            if first == last:
                shares[intervals[first]].files.append(file)
                shares[intervals[first]].rows += stored.metadata.num_rows
                continue
            _choose(stored, intervals, schema, folder, number, shares)
    timeline = _timeline(pa.concat_tables(promises))
    for span, share in shares.items():
        share.files.append(_promises(timeline, fields, span, folder / str(span[0])))
    return shares


def _bounds(stored: pq.ParquetFile) -> tuple[int, int, str]:
    """Smallest and largest `_last` of a file, ns, and the kind of its rows: promises have a file of their own."""
    names = stored.schema_arrow.names
    groups = [stored.metadata.row_group(at) for at in range(stored.metadata.num_row_groups)]
    lasts = [group.column(names.index(LAST)).statistics for group in groups]
    kind = groups[0].column(names.index("_kind")).statistics.min
    return min(each.min for each in lasts), max(each.max for each in lasts), kind


def _choose(
    stored: pq.ParquetFile,
    intervals: Sequence[Range],
    schema: pa.Schema,
    folder: PurePath,
    number: int,
    shares: Mapping[Range, Share],
) -> None:
    """Writes the rows of a file that has rows of several intervals as files of each of them."""
    starts, outs = [start for start, _ in intervals], dict[Range, HourFiles]()
    with ExitStack() as open_files:
        for batch in stored.iter_batches(1 << 16):
            owners = np.searchsorted(starts, batch.column(LAST).to_numpy(), side="right") - 1
            for owner in np.unique(owners):
                span = intervals[owner]
                if span not in outs:
                    own = folder / str(span[0])
                    paths.make_folders(own)
                    outs[span] = open_files.enter_context(HourFiles(own, f"rows-{number:05d}", schema))
                mine = batch.filter(pa.array(owners == owner))
                outs[span].write(pa.Table.from_batches([mine], schema))
    for span, out in outs.items():
        shares[span].files += out.files
        shares[span].rows += sum(out.files.values())


def _timeline(promises: pa.Table) -> Timeline:
    """The promises of a stream, tick by tick, ascending."""
    ticks, values = list[int](), list[int]()
    for row in promises.to_pylist():
        run = range(row["_tick"], row["_until"] + 1, row["_period"] or 1)
        ticks += run
        values += (row[LAST] + tick - row["_tick"] for tick in run)
    return Timeline(np.array(ticks, np.int64), np.array(values, np.int64))


def _promises(timeline: Timeline, fields: Sequence[Field], span: Range, folder: PurePath) -> PurePath:
    """Writes the promises of an interval: those within it, and its end at the tick at which all of it was promised."""
    paths.make_folders(folder)
    start, end = span
    first, last = np.searchsorted(timeline.promises, start, side="right"), np.searchsorted(timeline.promises, end)
    out = StreamFiles(folder, fields, span, end, published=True)
    own = Timeline(timeline.instants[first:last], timeline.promises[first:last])
    out.close(int(timeline.instants[last]), own)
    return paths.lake_path(out.files[0])
