"""The low stage of one interval: one task a link, the rows of each of its LFTAs into a file of their own.

Between `lake` (packets) and `low` (kernels); the tasks run in this process or on Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lowwater.catalog.packets import FRAME, THINNED_BY
from lowwater.errors import LakeError
from lowwater.lake.packets import LinkRead
from lowwater.lake.tables import safe_name
from lowwater.low import Bounds, LinkResult, LowSettings, needed_columns, run_link
from lowwater.low.thinning import Load, Thinning
from lowwater.plan.nodes import Lfta
from lowwater.plan.schemas import stream_schema
from lowwater.replay.predicate import Predicate

ROW_GROUP = 1 << 17
FRAME_ROWS = 1 << 13
"""Packets of a batch with their frames, which may be as long as 64 KiB."""


@dataclass(frozen=True)
class LowTask:
    """The pass over one link.

    Attributes:
        link: its name.
        read: which packets, in canonical order.
        lftas: all that read the link.
        bounds: of the interval and of every read range.
        settings: of the kernels.
        folder: where the files go: `<folder>/<lfta>/<link>.parquet`.
    """

    link: str
    read: LinkRead
    lftas: tuple[Lfta, ...]
    bounds: Bounds
    settings: LowSettings
    folder: Path


@dataclass(frozen=True)
class LowOutcome:
    """What a task leaves: its accounting, and the file of each LFTA."""

    result: LinkResult
    files: dict[str, str]


def run_low(task: LowTask) -> LowOutcome:
    """Runs all LFTAs of a link in one pass over its packets.

    Raises:
        LakeError: the files cannot be written.
    """
    sinks = {
        lfta.name: Sink(task.folder / safe_name(lfta.name), task.link, stream_schema(lfta.fields))
        for lfta in task.lftas
    }
    try:
        columns = needed_columns(task.lftas, task.settings.shed is not None)
        batches = task.read.batches(columns, FRAME_ROWS if FRAME in columns else ROW_GROUP)

        def write(name: str, batch: pa.RecordBatch) -> None:
            sinks[name].write(batch)

        result = run_link(task.lftas, task.link, batches, task.bounds, task.settings, write, shares(task))
        for sink in sinks.values():
            sink.close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise LakeError(
            f"link {task.link}: {task.folder} cannot be written: {reason}", "make room on the disk"
        ) from None
    return LowOutcome(result, {name: str(sink.path) for name, sink in sinks.items()})


def shares(task: LowTask) -> dict[str, Thinning]:
    """What each LFTA takes of a link that sheds load: the packets of every second are counted first (SEMANTICS O5).

    What counts is the protocol, since which conjuncts the prefilter has depends on the other queries of the set.
    """
    budget = task.settings.shed
    if budget is None:
        return {}
    asked = {lfta.name: (lfta.member, Thinning.of(lfta.sample, task.link)) for lfta in task.lftas}
    loads = {pair: Load(pair[1], budget) for pair in asked.values()}
    members = {member: Predicate(member, None) for member, _ in loads}
    tests = {member: predicate.test(task.link) for member, predicate in members.items()}
    columns = list(dict.fromkeys([*THINNED_BY, *(name for each in members.values() for name in each.columns)]))
    for batch in task.read.batches(columns, ROW_GROUP):
        stamps, arrivals, lengths, heads = (
            batch.column(name).to_numpy() for name in ("timestamp", "arrival", *THINNED_BY)
        )
        sane = arrivals - stamps <= task.settings.skew
        for member, test in tests.items():
            chosen = sane & test(batch)
            for (of, _), load in loads.items():
                if of == member:
                    load.add(stamps[chosen], lengths[chosen], heads[chosen])
    return {name: loads[pair].thinning() for name, pair in asked.items()}


class Sink:
    """A stream's parquet file that gathers small batches into whole row groups."""

    def __init__(self, folder: Path, link: str, schema: pa.Schema) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{safe_name(link)}.parquet"
        self._writer = pq.ParquetWriter(self.path, schema, compression="zstd", compression_level=1)
        self._schema = schema
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._rows += batch.num_rows
        if self._rows >= ROW_GROUP:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema), row_group_size=ROW_GROUP)
        self._waiting, self._rows = [], 0


def by_link(lftas: Sequence[Lfta]) -> dict[str, tuple[Lfta, ...]]:
    """The LFTAs that read each link, links sorted."""
    links = sorted({link for lfta in lftas for link in lfta.links})
    return {link: tuple(lfta for lfta in lftas if link in lfta.links) for link in links}
