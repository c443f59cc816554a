"""The tasks of the low stage: one for each chunk of a link, with a file of rows for each LFTA.

They read packets of the lake and run the kernels of `low`, in this process or on Spark (docs/adr/0012).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.capture.tables.reader import TaskMap
from lowwater.catalog.packets import FRAME, THINNED_BY
from lowwater.catalog.streams import LAST, ROW
from lowwater.catalog.time import is_late
from lowwater.errors import LakeError
from lowwater.high.shares import FEWEST, Choices, DividedWriter
from lowwater.lake.ingestion.division import divide
from lowwater.lake.packets import DroppedCopies, LinkRead
from lowwater.lake.tables import safe_name
from lowwater.low import Bounds, LinkResult, LowSettings, compiles, merge_results, needed_columns, run_link
from lowwater.low.runtime.packet_sampling import LoadCounter, PacketSampling
from lowwater.plan.operators import Lfta
from lowwater.plan.properties.schemas import stream_schema
from lowwater.replay.packets.predicate import Predicate
from lowwater.storage import paths

ROW_GROUP = 1 << 17
SHARED_ROWS = 1 << 19
"""Rows that are divided by share together: each share is a row group of its own."""
FRAME_ROWS = 1 << 13
"""Packets of a batch with frames, each up to 64 KiB."""


@dataclass(frozen=True)
class LowTask:
    """A pass over a chunk of one link; a small link is one chunk.

    Attributes:
        link: name of the link.
        read: packets of the chunk, in canonical order.
        lftas: all LFTAs that read the link.
        bounds: bounds of the interval, of every read range, and of the chunk, ns.
        settings: settings of the kernels.
        folder: folder for the files: of this machine, or of the lake for tasks on other machines.
        number: number of the chunk.
        thinnings: LFTA -> its sampling of a link that sheds load.
        keys: LFTA -> what may divide its rows by share (`plan.shares`).
    """

    link: str
    read: LinkRead
    lftas: tuple[Lfta, ...]
    bounds: Bounds
    settings: LowSettings
    folder: PurePath
    number: int = 0
    thinnings: Mapping[str, PacketSampling] = field(default_factory=dict)
    keys: Mapping[str, Choices] = field(default_factory=dict)

    @property
    def weight(self) -> int:
        """Packets to read; the heaviest tasks start first."""
        return self.read.packets

    @property
    def home(self) -> str:
        """The first file that it reads, by which a machine of a cluster is chosen."""
        files = [str(file.path) for capture in self.read.captures for file in capture.files]
        return files[0] if files else self.link

    @property
    def label(self) -> str:
        """The link and the number of the chunk, from 1."""
        return f"{self.link} {self.number + 1}"


@dataclass(frozen=True)
class LowOutcome:
    """The result of a link or of a chunk: its accounting, and the files of each LFTA in the order of chunks."""

    result: LinkResult
    files: dict[str, tuple[str, ...]]


def low_tasks(
    read: LinkRead,
    lftas: tuple[Lfta, ...],
    bounds: Bounds,
    settings: LowSettings,
    folder: PurePath,
    keys: Mapping[str, Choices] = MappingProxyType({}),
) -> list[LowTask]:
    """Divides a link into tasks: one for each chunk of about `task_packets`, in order.

    Args:
        read: packets of one link.
        lftas: every LFTA that reads the link.
        bounds: what the pass reads and owns, ns since the epoch.
        settings: settings of the low level for the link.
        folder: folder for the files of the rows.
        keys: LFTA -> what divides its rows by share.

    Raises:
        LakeError: its packets cannot be read.
    """
    return [
        LowTask(read.link, part, lftas, _chunk_bounds(bounds, part), settings, folder, number, keys=keys)
        for number, part in enumerate(divide(read, settings.task_packets))
    ]


def _chunk_bounds(bounds: Bounds, part: LinkRead) -> Bounds:
    return replace(bounds, entered=part.entered, left=part.left, before=part.before)


def run_tasks(tasks: Sequence[LowTask], runner: TaskMap) -> list[LowOutcome]:
    """Runs tasks in parallel; returns one outcome for each link, in the order of the tasks.

    On links that shed load, the packets of every second are counted first, over all chunks (SEMANTICS O5).
    """
    shedding = [task for task in tasks if task.settings.shed is not None]
    loads: dict[str, dict[str, LoadCounter]] = {}
    for task, task_loads in zip(shedding, runner(count_loads, shedding), strict=True):
        link_loads = loads.setdefault(task.link, {})
        loads[task.link] = {
            name: link_loads[name].also(load) if link_loads else load for name, load in task_loads.items()
        }
    thinned = {link: {name: load.thinning() for name, load in lfta_loads.items()} for link, lfta_loads in loads.items()}
    whole = [replace(task, thinnings=thinned.get(task.link, {})) for task in tasks]
    links: dict[str, list[LowOutcome]] = {}
    for outcome in runner(run_low, whole):
        links.setdefault(outcome.result.link, []).append(outcome)
    return [_merged_outcome(parts) for parts in links.values()]


def links_to_compile(tasks: Sequence[LowTask]) -> dict[str, int]:
    """The links whose kernels must be compiled first, each with its number of LFTAs."""
    links: dict[str, list[LowTask]] = {}
    for task in tasks:
        links.setdefault(task.link, []).append(task)
    links_to_compile: dict[str, int] = {}
    for link, (task, *more) in links.items():
        records = sum(chunk.read.packets for chunk in (task, *more))
        if compiles(task.lftas, link, task.settings, records):
            links_to_compile[link] = len(task.lftas)
    return links_to_compile


def _merged_outcome(parts: Sequence[LowOutcome]) -> LowOutcome:
    names = parts[0].files
    files = {name: tuple(path for part in parts for path in part.files[name]) for name in names}
    return LowOutcome(merge_results([part.result for part in parts]), files)


def run_low(task: LowTask) -> LowOutcome:
    """Runs all LFTAs of a link in one pass over the packets of a chunk.

    Raises:
        LakeError: the files cannot be written.
    """
    sinks = {
        lfta.name: StreamWriter(
            task.folder / safe_name(lfta.name),
            f"{safe_name(task.link)}-{task.number}",
            stream_schema(lfta.fields),
            task.keys.get(lfta.name, ()),
            task.bounds.grains.get(lfta.name, 1),
            task.settings.shared_rows,
        )
        for lfta in task.lftas
    }
    try:
        columns = needed_columns(task.lftas, task.settings.shed is not None, task.settings.skews)
        dropped = DroppedCopies()
        batches = task.read.batches(columns, FRAME_ROWS if FRAME in columns else ROW_GROUP, dropped=dropped)

        def write(name: str, batch: pa.RecordBatch) -> None:
            sinks[name].write(batch)

        arguments = task.settings, write, task.thinnings, task.read.packets
        result = run_link(task.lftas, task.link, batches, task.bounds, *arguments)
        for sink in sinks.values():
            sink.close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise LakeError(
            f"link {task.link}: {task.folder} cannot be written: {reason}", "make room on the disk"
        ) from None
    return LowOutcome(
        replace(result, duplicates=dropped.owned), {name: (str(sink.path),) for name, sink in sinks.items()}
    )


def count_loads(task: LowTask) -> dict[str, LoadCounter]:
    """Counts, for each LFTA, the packets of every second in a chunk of a link that sheds load (SEMANTICS O5).

    Only the protocol counts: the prefilter depends on the other queries of the set.
    """
    budget = task.settings.shed
    assert budget is not None
    selections = {lfta.name: (lfta.member, PacketSampling.of(lfta.sample, task.link)) for lfta in task.lftas}
    loads = {pair: LoadCounter(pair[1], budget) for pair in selections.values()}
    members = {member: Predicate(member, None) for member, _ in loads}
    tests = {member: predicate.test(task.link) for member, predicate in members.items()}
    columns = list(
        dict.fromkeys([*THINNED_BY, *(name for predicate in members.values() for name in predicate.columns)])
    )
    for batch in task.read.batches(columns, ROW_GROUP):
        stamps, arrivals, lengths, heads = (
            batch.column(name).to_numpy() for name in ("timestamp", "arrival", *THINNED_BY)
        )
        sane = ~is_late(arrivals, stamps, task.settings.skew)
        for member, test in tests.items():
            chosen = sane & test(batch)
            for (of, _), load in loads.items():
                if of == member:
                    load.add(stamps[chosen], lengths[chosen], heads[chosen])
    return {name: loads[pair] for name, pair in selections.items()}


class StreamWriter:
    """Writes a stream to a parquet file, collecting small batches into row groups.

    Args:
        folder, name: where.
        schema: columns of the stream.
        keys: what may divide its rows by share; empty for nothing.
        grain: ns between two instants at which slices of its readers may begin.
        shared: rows of so long a time from which they are divided.
    """

    def __init__(
        self,
        folder: PurePath,
        name: str,
        schema: pa.Schema,
        keys: Choices = (),
        grain: int = 1,
        shared: int = LowSettings.shared_rows,
    ) -> None:
        self.path = folder / f"{name}.parquet"
        options = {"compression": "zstd", "compression_level": 1}
        fewest = min(FEWEST, -(-shared // 8))
        self._writer = DividedWriter(paths.draft(self.path), schema, keys, ROW_GROUP, fewest, **options)
        self._schema, self._keys, self._grain, self._least = schema, keys, grain, shared
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        self._epochs: set[int] = set()

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._rows += batch.num_rows
        if self._keys:
            lasts = batch.column(LAST).filter(pc.equal(batch.column("_kind"), ROW)).to_numpy()
            self._epochs.update((np.unique(lasts) // self._grain).tolist())
        if self._rows >= (SHARED_ROWS if self._shared else ROW_GROUP):
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()
        paths.place(self.path)

    @property
    def _shared(self) -> bool:
        """Whether slices of time would have too many of the waiting rows, so that shares divide them."""
        return 0 < len(self._epochs) * self._least <= self._rows

    def _flush(self) -> None:
        if self._waiting:
            table = pa.Table.from_batches(self._waiting, self._schema)
            if self._shared:
                is_row = pc.equal(table["_kind"], ROW)
                self._writer.write(table.filter(is_row))
                table = table.filter(pc.invert(is_row))
            if table.num_rows:
                self._writer.write(table, divided=False)
        self._waiting, self._rows = [], 0
        self._epochs.clear()


def by_link(lftas: Sequence[Lfta]) -> dict[str, tuple[Lfta, ...]]:
    """Link -> LFTAs that read it, links sorted."""
    links = sorted({link for lfta in lftas for link in lfta.links})
    return {link: tuple(lfta for lfta in lftas if link in lfta.links) for link in links}
