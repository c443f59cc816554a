"""The low level and the high level of Lowwater itself over streams of packets, for experiments that compare the model.

Between an experiment and `lowwater.low` and `lowwater.high`. The slices of the high level are those of a run on Spark;
they are evaluated one after another in this process, where a run hands them to threads or to Spark's executors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from experiments.architectures import size
from experiments.frame import Measurement, Verdict
from experiments.model import SECOND, Stream
from lowwater.catalog.schemas import RECORD, ROW
from lowwater.high.part import Part, StoredLeaf, evaluate_part
from lowwater.high.query_runs import HighSettings
from lowwater.high.streams import StoredStream, StreamFiles, timeline_of
from lowwater.high.timeline import choose_slices
from lowwater.low import Bounds, LowSettings, needed_columns, run_link
from lowwater.plan.context import Links
from lowwater.plan.operators import Lfta, LftaInput, leaves
from lowwater.plan.queryset import QueryPlan, plan_texts
from lowwater.plan.temporal import END_OF_TIME, INT64_MAX

Files = dict[tuple[str, str], list[str]]
"""(LFTA, link) -> the files of its stream."""

PAPER_SLICE = HighSettings().slice_rows
"""Rows of a slice as a run chooses it; they are divided like the rate of the paper."""

SLICES = "Lowwater, a slice"
"""The form of a row that has what the high level holds, beside those of the model."""


CAUSE = (
    "The high level keeps no state between slices of such a query "
    "([49](adr/0049-slices-of-time.md)): a slice reads rows of the low "
    f"level from files, {PAPER_SLICE:,} of them, or those of an epoch or window where these are more. So this column "
    "has no curve. Where rows follow the rate, slices are divided like it here. Heartbeats and skew decide when a "
    "slice may be evaluated; until then its rows are on disk."
)
"""Why the state of the system beside that of the model is a number."""


@dataclass(frozen=True)
class Levels:
    """A query evaluated on both levels.

    Attributes:
        low: rows that the low level gave.
        slices: of the high level.
        most: rows of the largest slice, with the earlier rows that it reads.
        megabytes: their values, 8 bytes a number, as the model counts them.
        rows: of the result.
        files: of the streams of the LFTAs.
        result: files of the query's own stream.
    """

    low: int
    slices: int
    most: int
    megabytes: float
    rows: int
    files: Files
    result: list[str]


def stored(stream: Stream, columns: Sequence[str]) -> pa.RecordBatch:
    """The packets of a link in order of arrival, with the columns that its kernel reads."""
    made = stream.batch()
    zero = pa.nulls(made.num_rows, pa.int32()).fill_null(0)
    known = {
        "capture": pa.DictionaryArray.from_arrays(zero, ["0" * 64]),
        "position": pa.array(range(made.num_rows)),
        "offset": zero,
    }
    found = [known[n] if n in known else made[n].cast(RECORD.field(n).type) for n in columns]
    return pa.record_batch(found, names=list(columns))


def planned_query(text: str, links: Sequence[str], **sets: tuple[str, ...]) -> QueryPlan:
    """The plan of the last query of a text, on both levels."""
    return plan_texts([("query.gsql", text)], Links(tuple(links), sets)).queries[-1]


def low(lftas: Sequence[Lfta], streams: Mapping[str, Stream], folder: Path, period: float) -> Files:
    """Runs the low level of every link, and stores the streams of its LFTAs."""
    files: Files = {}
    columns = needed_columns(lftas)
    for link, stream in streams.items():
        mine = [lfta for lfta in lftas if link in lfta.links]
        written: dict[str, list[pa.RecordBatch]] = {lfta.name: [] for lfta in mine}
        bounds = Bounds({lfta.name: 0 for lfta in mine}, 0, END_OF_TIME)
        settings = LowSettings(stream.skew, round(period * SECOND))

        def write(name: str, batch: pa.RecordBatch, to: dict[str, list[pa.RecordBatch]] = written) -> None:
            to[name].append(batch)

        run_link(mine, link, [stored(stream, columns)], bounds, settings, write)
        for name, batches in written.items():
            path = folder / f"{name}-{link}.parquet"
            pq.write_table(pa.Table.from_batches(batches), path)
            files[name, link] = [str(path)]
    return files


def high(query: QueryPlan, files: Files, folder: Path, period: float, slice_rows: int) -> Levels:
    """Evaluates the slices of the high level over stored streams."""
    node = query.high
    every: list[StoredStream] = []
    leaf_rows: dict[str, StoredLeaf] = {}
    for leaf in leaves(node):
        assert isinstance(leaf, LftaInput)
        feeds = [StoredStream().add(*files[leaf.lfta.name, link]) for link in leaf.lfta.links]
        every += feeds
        chunks = [(number, chunk) for number, feed in enumerate(feeds) for chunk in feed.chunks]
        leaf_rows[leaf.lfta.name] = StoredLeaf(leaf.lfta.stored, chunks)
    timeline = timeline_of(every, END_OF_TIME, round(period * SECOND))
    ends: Counter[int] = Counter()
    for feed in every:
        ends.update(feed.ends)
    stream = StreamFiles(folder, node.fields, (-END_OF_TIME, INT64_MAX), END_OF_TIME)
    cut = choose_slices(node, ends, max(1, -(-ends.total() // slice_rows)))
    settings = stream.owned, timeline, None, False
    tasks = [Part(node, [each], leaf_rows, {}, folder, f"{at:05d}", *settings) for at, each in enumerate(cut)]
    most = 0
    for task in tasks:
        outcome = evaluate_part(task)
        assert outcome.most == outcome.read
        most = max(most, outcome.read)
        stream.files += outcome.files
        stream.rows += sum(outcome.files.values())
    stream.close(timeline.closing, timeline)
    bytes_each = max(_bytes(lfta, files[lfta.name, lfta.links[-1]]) for lfta in query.lftas)
    return Levels(ends.total(), len(tasks), most, most * bytes_each / 1e6, stream.rows, files, stream.files)


def _bytes(lfta: Lfta, files: Sequence[str]) -> int:
    """Bytes of the values of a row of an LFTA without texts: all of its rows have as many."""
    table = pa.concat_tables([pq.read_table(file, columns=["_kind", *(f.name for f in lfta.stored)]) for file in files])
    row = table.filter(pc.equal(table["_kind"], ROW)).slice(0, 1).drop_columns(["_kind"]).to_pylist()[0]
    return size(tuple(row.values()))


def slices(query: QueryPlan, streams: Mapping[str, Stream], period: float, rate: float, paper: float) -> Measurement:
    """What the high level holds at one period of heartbeats, where a link has so much of the paper's rate."""
    with TemporaryDirectory() as folder:
        files = low(query.lftas, streams, Path(folder), period)
        found = high(query, files, Path(folder), period, max(1, round(PAPER_SLICE * rate / paper)))
    return {
        "form": SLICES,
        "slice": found.most,
        "low": found.low,
        "megabytes": found.megabytes,
        "scaled": found.megabytes * paper / rate,
    }


def merged(rows: Sequence[Any], interval: int, packets: float) -> tuple[float, float]:
    """The least and the most MB, at the paper's rates, of a merge at an interval of heartbeats.

    Gigascope's merge keeps rows of its low level. How many of these a packet gives depends on flows and on slots, which
    000 does not name: at least as few as our low level gives, at most one. A row has its values, and at most as much
    again in headers and links.

    Args:
        rows: of the result, one of them of the merge at that interval, one a slice.
        interval: of heartbeats, s.
        packets: of all links, that the slices' low level read.
    """
    (merge,) = (row for row in rows if (row["form"], row["heartbeat"]) == ("iop", interval))
    stored = next(row for row in rows if row["form"] == SLICES)
    scale, bytes_each = merge["scaled"] / merge["megabytes"], 1e6 * stored["megabytes"] / stored["slice"]
    return merge["merge"] * stored["low"] / packets * bytes_each * scale / 1e6, 2 * merge["scaled"]


BETWEEN = "taken as: between a merge of our low level's rows and one of packets with as much again in headers"
"""How a size that 000 prints is judged; `merged` says why."""


def held(rows: Sequence[Any], parameter: str, beside: str = "") -> Verdict:
    """Whether what the high level holds is the same (within a half) for the least and the largest parameter.

    Args:
        rows: of the result, some of them slices.
        parameter: as the claim calls it.
        beside: another column, whose values are judged apart.
    """
    groups: dict[Any, list[Any]] = {}
    for row in rows:
        if row.get("form") == SLICES:
            groups.setdefault(row.get(beside), []).append(row)
    said = "; ".join(" and ".join(f"{row['slice']:,}" for row in group) for group in groups.values())
    kept = [[row["slice"] for row in group] for group in groups.values()]
    return Verdict(
        f"(ours) rows that Lowwater's high level holds at once do not follow {parameter}",
        f"{said} rows of the low level in the largest slice" if kept else "not in this result",
        all(0 < max(each) <= 1.5 * min(each) for each in kept) if kept else None,
        CAUSE,
    )
