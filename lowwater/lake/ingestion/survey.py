"""Survey of a capture before its packets are decoded: digest, chunks, malformed rows, the links of its interfaces."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lowwater.capture.content.retention import NOTHING, ContentOptions
from lowwater.capture.formats.capture_file import FILE_HEADER
from lowwater.capture.formats.division import CaptureChunk, CaptureIndex, indexing
from lowwater.capture.formats.sources import DecompressedSource, Source, compression_of, open_source
from lowwater.capture.inspect import digests_of_records
from lowwater.capture.reader import digest
from lowwater.capture.records.facts import Interface, InterfaceSummary
from lowwater.capture.records.malformed import REASONS, MalformedRows
from lowwater.capture.records.sanity import Median, longest_lull
from lowwater.catalog.time import arrival_times
from lowwater.config import section_of
from lowwater.errors import CaptureError, LowwaterError
from lowwater.limits import MEDIAN_INTERFACES
from lowwater.link_names import below, family_of
from lowwater.storage.failures import hint_of, passing

# A plain file is hashed and divided in one pass. A compressed file is only hashed: it is decoded while it is
# decompressed.

_PIECE = 1 << 20

DAMAGE = pa.schema(
    [
        pa.field("position", pa.int64()),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("length", pa.int64(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("arrival", pa.int64()),
        pa.field("interface", pa.int32(), nullable=False),
    ]
)
"""Schema of the malformed rows of a capture; `interface` is the interface number."""


@dataclass(frozen=True)
class FailedTask:
    """Error of a task about a file or the disk, returned so that the work on other files goes on.

    Attributes:
        file: number of the file in this ingest; -1 if the task has none.
    """

    error: LowwaterError
    file: int = -1


@dataclass(frozen=True)
class SurveyTask:
    """Task of a worker.

    Attributes:
        path: the file.
        max_jump: max_jump of its link, ns.
        chunk_bytes: approximate size of a chunk, bytes.
        whole: whether the file is one chunk, since its records are no packets.
        content: content that is stored beside the headers.
    """

    path: Path
    max_jump: int
    chunk_bytes: int
    whole: bool = False
    content: ContentOptions = NOTHING


@dataclass(frozen=True)
class Survey:
    """Result of a survey.

    Attributes:
        path: the file.
        sha256: digest of the bytes that were read.
        identity: identity of the capture (T5); empty for a compressed capture, which is not decoded here.
        bytes: number of bytes that were read.
        grew: whether the file became longer meanwhile.
        index: its chunks and its summary, without malformed rows; None for a compressed file, and one without packets.
        damage: the malformed rows, schema `DAMAGE`.
    """

    path: Path
    sha256: str
    identity: str
    bytes: int
    grew: bool
    index: CaptureIndex | None
    damage: pa.Table


def survey(task: SurveyTask) -> Survey | FailedTask:
    """Surveys a file."""
    surveying = SurveyRun(task)
    for _ in surveying:
        pass
    return surveying.result


class SurveyRun:
    """A survey, step by step: iterate it once; it yields the chunks of a plain file as soon as they are complete.

    Attributes:
        result: the result, after the iteration.
    """

    result: Survey | FailedTask

    def __init__(self, task: SurveyTask) -> None:
        self._task = task

    def __iter__(self) -> Iterator[CaptureChunk]:
        try:
            self.result = yield from _survey(self._task)
        except OSError as error:
            text = f"{self._task.path}: cannot be read: {error.strerror}"
            self.result = FailedTask(passing(CaptureError(text, hint_of(error, "check the path")), error))
        except LowwaterError as error:
            self.result = FailedTask(passing(error))


def _survey(task: SurveyTask) -> Generator[CaptureChunk, None, Survey]:
    before = _size(task.path)
    with task.path.open("rb") as file:
        compressed = compression_of(file.read(FILE_HEADER))
    if compressed or task.whole:
        sha256, identity = digests_of_records(task.path) if task.whole else (digest(task.path), "")
        grew = task.path.stat().st_size > before
        return Survey(task.path, sha256, identity, before, grew, None, DAMAGE.empty_table())
    capture_index = yield from indexing(task.path, task.max_jump, task.chunk_bytes, content=task.content)
    grew = max(task.path.stat().st_size, capture_index.summary.bytes) > before
    bare = replace(capture_index, malformed=MalformedRows(task.path))
    return Survey(
        task.path,
        capture_index.summary.sha256,
        capture_index.summary.identity,
        capture_index.summary.bytes,
        grew,
        bare,
        damage_table(capture_index.malformed),
    )


def _size(path: Path) -> int:
    """Returns the size of a file; raises an error if it cannot be ingested."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise CaptureError(
            f"{str(path)!a}: the file name is not UTF-8 text, which the ledger requires", "rename it"
        ) from None
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise CaptureError(
            f"{path}: is not a regular file, and ingest reads a capture more than once", "write it to a file first"
        )
    return status.st_size


def damage_table(rows: MalformedRows) -> pa.Table:
    """Converts malformed rows to a table, schema `DAMAGE`."""
    columns = {name: np.ascontiguousarray(rows.columns[name]) for name in DAMAGE.names}
    reasons = pa.DictionaryArray.from_arrays(columns["reason"], pa.array(REASONS))
    absent = {name: columns[name] < 0 for name in ("position", "arrival")}
    arrays = [
        reasons.cast(field.type)
        if field.name == "reason"
        else pa.array(columns[field.name], field.type, mask=absent.get(field.name))
        for field in DAMAGE
    ]
    return pa.Table.from_arrays(arrays, schema=DAMAGE)


def starts_with(path: Path, size: int, sha256: str, unpacked: bool) -> bool:
    """Whether the first `size` bytes of a file, stored or decompressed, have this digest.

    Args:
        size: number of bytes from the beginning.
        unpacked: whether to compare the decompressed bytes.

    Raises:
        CaptureError: if the file cannot be read.
    """
    hashed = hashlib.sha256()
    buffer = bytearray(_PIECE)
    try:
        stored = open_source(path)[1]
        source: Source = DecompressedSource(stored, False) if unpacked else stored
        left = size
        with closing(source):
            while left and (count := source.readinto(memoryview(buffer)[: min(left, _PIECE)])):
                hashed.update(memoryview(buffer)[:count])
                left -= count
    except OSError as error:
        raise CaptureError(
            f"{path}: cannot be read: {error.strerror}", hint_of(error, "check the path and the disk")
        ) from error
    return left == 0 and hashed.hexdigest() == sha256


# An interface with a name is the link `link/name`, also if it is the only one of its file; the link has the others.
# Interfaces of one name are one link, as all are with `interfaces = "one"`.

MOST_INTERFACES = MEDIAN_INTERFACES
"""Most interfaces of a capture that become links: each has a partition of its own in every table."""


def link_names(link: str, names: Sequence[str], path: Path, one: bool) -> list[str]:
    """Names the link of every interface of a capture.

    Args:
        names: names of its interfaces, as `facts.Interface` has them.

    Raises:
        CaptureError: if there are too many interfaces, or the link is itself the link of an interface.

    Example:
        >>> link_names("main", ["eth0", "", "eth0"], Path("a.pcapng"), False)
        ['main/eth0', 'main', 'main/eth0']
    """
    if one:
        return [link] * len(names)
    several = len(set(names))
    if several > 1 and (len(names) > MOST_INTERFACES or "/" in link):
        family = family_of(link)
        why, remedy = f"and {link!r} is the link of one", f"ingest it for link {family!r}"
        if len(names) > MOST_INTERFACES:
            why = f"more than the {MOST_INTERFACES} that may be links"
            remedy = (
                f'set interfaces = "one" in {section_of(family)} of lowwater.toml, and ingest it for link {family!r}'
            )
        raise CaptureError(f"{path}: has {several} interfaces, {why}", remedy)
    return [below(link, name) for name in names]


def parted(
    batches: Iterable[tuple[Interface, pa.RecordBatch]], clocks: Mapping[str, int], one: bool
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Merges batches of interfaces that are one link, in file order. Yields the name of the interface with each batch.

    Args:
        batches: as from `read_chunk` and `CaptureReader.by_interface`: by record span, and in a span by interface.
        clocks: name -> largest sane timestamp before them over all interfaces of this name, ns.
        one: whether all interfaces are one link; its name is empty.
    """
    now, waiting, last = dict(clocks), dict[str, list[pa.RecordBatch]](), -1
    for interface, batch in batches:
        if interface.index <= last:
            yield from _settled(waiting, now)
        last = interface.index
        if one or interface.shared:
            waiting.setdefault("" if one else interface.name, []).append(batch)
        else:
            yield interface.name, batch
            now[interface.name] = batch.column("arrival")[-1].as_py()
    yield from _settled(waiting, now)


def _settled(waiting: dict[str, list[pa.RecordBatch]], clocks: dict[str, int]) -> Iterator[tuple[str, pa.RecordBatch]]:
    for name, batches in waiting.items():
        joined = _in_order(batches, clocks.get(name, -1))
        clocks[name] = joined.column("arrival")[-1].as_py()
        yield name, joined
    waiting.clear()


def _in_order(batches: list[pa.RecordBatch], clock: int) -> pa.RecordBatch:
    if len(batches) == 1 and batches[0].column("arrival")[0].as_py() >= clock:
        return batches[0]
    table = pa.Table.from_batches(batches)
    table = table.take(pc.sort_indices(table, [("position", "ascending")]))
    arrived = pa.array(arrival_times(table.column("timestamp").to_numpy(), clock))
    at = table.schema.get_field_index("arrival")
    return table.set_column(at, table.schema.field(at), arrived).combine_chunks().to_batches()[0]


@dataclass(frozen=True)
class MergedInterfaces:
    """Several interfaces as one: their summary, and their malformed rows with the clock of all interfaces."""

    summary: InterfaceSummary
    damage: pa.Table


def merge_summaries(parts: Sequence[InterfaceSummary], files: Sequence[Path], damage: pa.Table) -> MergedInterfaces:
    """Merges the summaries of several interfaces into one, by a pass over the written packets.

    Args:
        files: files with all packets of these interfaces, in order of position.
        damage: malformed rows of these interfaces, schema `DAMAGE`.

    Returns:
        A summary under the first interface; its link type is `mixed` if they differ, and its name empty.
    """
    rows = _Rows(damage)
    for path in files:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=["position", "arrival", "timestamp"], use_threads=False):
                rows.add(*(column.to_numpy() for column in batch.columns))
    types = {part.interface.link_type for part in parts}
    names = {part.interface.name for part in parts}
    name = names.pop() if len(names) == 1 else ""
    head = replace(parts[0].interface, link_type=types.pop() if len(types) == 1 else "mixed", name=name)
    summary = InterfaceSummary(
        interface=head,
        packets=sum(part.packets for part in parts),
        undecoded=sum(part.undecoded for part in parts),
        malformed=sum(part.malformed for part in parts),
        first=rows.first,
        last=rows.last,
        smallest=min((part.smallest for part in parts if part.smallest is not None), default=None),
        largest=max((part.largest for part in parts if part.largest is not None), default=None),
        median=rows.median.value(),
        lull=rows.lull if rows.first is not None else None,
    )
    rows.median.close()
    return MergedInterfaces(summary, rows.damage())


class _Rows:
    """Facts from a pass over the packets of a capture: first and last timestamp, median, clocks of malformed rows."""

    def __init__(self, damage: pa.Table) -> None:
        self.first: int | None = None
        self.last: int | None = None
        self.lull = 0
        self._clock = -1
        self.median = Median()
        self._damage = damage
        # A row without a position lies behind all packets.
        places = pc.fill_null(damage.column("position"), np.iinfo(np.int64).max)
        self._places: NDArray[np.int64] = places.to_numpy()
        self._clocks = np.full(len(self._places), -1, np.int64)

    def add(self, positions: NDArray[np.int64], arrivals: NDArray[np.int64], stamps: NDArray[np.int64]) -> None:
        self.first = int(stamps[0]) if self.first is None else self.first
        self.last = int(stamps[-1])
        self.lull, self._clock = longest_lull(arrivals, self._clock, self.lull), int(arrivals[-1])
        self.median.add(stamps)
        before = np.searchsorted(positions, self._places)
        self._clocks = np.where(before > 0, arrivals[before - 1], self._clocks)

    def damage(self) -> pa.Table:
        arrivals = pa.array(self._clocks, pa.int64(), mask=self._clocks < 0)
        at = DAMAGE.get_field_index("arrival")
        return self._damage.set_column(at, DAMAGE.field(at), arrivals)
