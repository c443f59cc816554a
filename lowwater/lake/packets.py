"""Packets of a link in arrival order, for the kernels: without those that are copies, and in chunks."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lowwater import documents
from lowwater.capture.records.duplicates import Hashed, find_duplicates
from lowwater.catalog.records import arrival_unit
from lowwater.catalog.schemas import HEAD, PACKET_HASH, READABLE, RECORD, stored_field
from lowwater.catalog.time import Skews, is_late
from lowwater.config import Link, section_of
from lowwater.errors import LakeError
from lowwater.instants import format_instant
from lowwater.lake import layout, open_tables
from lowwater.lake.ledgers.captures import Capture, Captures, life_of
from lowwater.lake.tables import grouped, lake_errors, live_files
from lowwater.limits import COMPARED_RECORDS
from lowwater.plan.temporal import END_OF_TIME
from lowwater.storage import digests, paths, untrusted

if TYPE_CHECKING:
    from deltalake import DeltaTable


# Copies of packets (SEMANTICS D1 to D6), by stored hashes: neither the captures nor the order of their ingest matter.


_TIMES = ("timestamp", "arrival")


@dataclass(frozen=True)
class PacketFile:
    """A file of `packets/`."""

    path: PurePath
    rows: int
    capture: str  # identity of its capture, hex
    clock: int  # clock of the link before the capture, ns (T7)
    first: int  # arrival of its first packet, ns
    last: int  # arrival of its last packet, ns


@dataclass(frozen=True)
class HashedLink:
    """The packets of a link whose copies are looked for, or among which they are looked for."""

    read: LinkRead
    skews: Skews  # skews of its records; late records are not compared (D3)


@dataclass(frozen=True)
class DuplicateRule:
    """How the copies of a link's packets are found; picklable."""

    window: int  # longest time from a packet to its copy, ns
    drop: bool  # whether copies do not belong to the link
    own: HashedLink
    # other links, in which earlier packets with the same bytes are looked for, for reports
    others: tuple[HashedLink, ...] = ()


class DuplicateFinder:
    """Finds the copies among the packets of a link.

    It holds the hashes of the files that a window reaches. More than COMPARED_RECORDS are divided into classes by their
    hash; a class is larger only where many of the records are copies of one packet.
    """

    def __init__(self, rule: DuplicateRule) -> None:
        self._rule = rule
        self._links = sorted([rule.own, *rule.others], key=lambda link: link.read.link)
        self._places = {file.path: file for file in rule.own.read.files}
        self._loaded: dict[PurePath, tuple[Hashed, NDArray[np.int64]]] = {}
        self._found: tuple[PurePath | None, NDArray[np.bool_], NDArray[np.bool_]] = None, _NONE, _NONE

    def marks_of(self, path: PurePath) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Returns for every packet of a file whether it is a copy of an earlier one of the link, and whether an earlier
        one of another link has its bytes.
        Raises LakeError if a file has no hashes, and OSError if a file cannot be read."""
        if self._found[0] != path:
            self._found = path, *self._find(self._places[path])
        return self._found[1:]

    def _find(self, file: PacketFile) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        # Packets of the file that are not late, and earlier ones of a window, have timestamps of [low, high].
        low, high = file.first - self._rule.own.skews.longest - self._rule.window, file.last
        near = [
            (group, link, other)
            for group, link in enumerate(self._links)
            for other in link.read.files
            if other.last >= low and other.first <= high + link.skews.longest
        ]
        classes = -(-sum(other.rows for _, _, other in near) // COMPARED_RECORDS)
        kept = {other.path for _, _, other in near} if classes == 1 else set()
        self._loaded = {path: loaded for path, loaded in self._loaded.items() if path in kept}
        copied, elsewhere = np.zeros(file.rows, np.bool_), np.zeros(file.rows, np.bool_)
        for number in range(classes):
            parts = [
                (group, other, *self._load(link, other, number, classes, low, high)) for group, link, other in near
            ]
            own = [part[1:] for part in parts if self._links[part[0]] is self._rule.own]
            found = find_duplicates(Hashed.joined([records for _, records, _ in own]), self._rule.window)
            _mark(copied, file, own, found)
            if self._rule.others:
                groups = np.concatenate([np.full(len(records), group) for group, _, records, _ in parts])
                every = Hashed.joined([records for _, _, records, _ in parts])
                mine = groups == self._links.index(self._rule.own)
                _mark(elsewhere, file, own, find_duplicates(every, self._rule.window, groups)[mine])
        return copied, elsewhere

    def _load(
        self, link: HashedLink, file: PacketFile, number: int, classes: int, low: int, high: int
    ) -> tuple[Hashed, NDArray[np.int64]]:
        """Reads the records of a class of hashes with a timestamp in [low, high], and their numbers in the file."""
        loaded = self._loaded.get(file.path)
        if loaded is None:
            loaded = _read_hashes(link, file, number, classes)
            if classes == 1:
                self._loaded[file.path] = loaded
        records, rows = loaded
        chosen = (records.stamps >= low) & (records.stamps <= high)
        return (records, rows) if chosen.all() else (records.take(chosen), rows[chosen])


_NONE = np.zeros(0, np.bool_)


def _mark(
    marks: NDArray[np.bool_],
    file: PacketFile,
    parts: Sequence[tuple[PacketFile, Hashed, NDArray[np.int64]]],
    found: NDArray[np.bool_],
) -> None:
    """Writes what was found for the records of one file into its marks."""
    at = 0
    for other, records, rows in parts:
        if other.path == file.path:
            marks[rows] |= found[at : at + len(records)]
        at += len(records)


def _read_hashes(link: HashedLink, file: PacketFile, number: int, classes: int) -> tuple[Hashed, NDArray[np.int64]]:
    """Reads the hashes of the packets that are compared, and their numbers in the file: of one class, those of the
    link's life that are not late."""
    parts, numbers, at = [], [], 0
    for batch in _batches(link, file):
        stamps, arrivals, high, low = (batch.column(name).to_numpy() for name in (*_TIMES, *PACKET_HASH))
        late = is_late(np.maximum(arrivals, file.clock), stamps, link.skews.of(batch))
        late |= np.arange(at, at + len(stamps)) >= file.rows  # no records of the link (T3)
        chosen = ~late & (stamps >= link.read.since) & (stamps < link.read.until)
        if classes > 1:
            chosen &= low.view(np.uint64) % np.uint64(classes) == number
        parts.append(Hashed(high, low, stamps).take(chosen))
        numbers.append(np.flatnonzero(chosen) + at)
        at += batch.num_rows
    return Hashed.joined(parts), np.concatenate(numbers)


def _batches(link: HashedLink, file: PacketFile) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(paths.local(file.path)) as stored:
        names = list(dict.fromkeys([*_TIMES, *PACKET_HASH, *link.skews.columns]))
        there = [name for name in names if name in stored.schema_arrow.names]
        if not set(PACKET_HASH) <= set(there):
            raise LakeError(
                f"link {link.read.link}: duplicates cannot be found, since {file.path.name} has no hashes of packets",
                f"ingest its captures again, or write duplicates = 'keep' in {section_of(link.read.link)}",
            )
        for batch in stored.iter_batches(1 << 17, columns=there, use_threads=False):
            columns = [
                batch.column(name) if name in there else pa.nulls(batch.num_rows, READABLE.field(name).type)
                for name in names
            ]
            yield pa.RecordBatch.from_arrays(columns, names=names)


# The driver resolves files and clocks into a picklable `LinkRead`; a worker reads these files without opening a Delta
# table.

COPY, ELSEWHERE = "copy", "seen_elsewhere"
"""Columns of marked batches: whether a packet is a copy of an earlier one of its link, or of another link (D2)."""

KEYS = ("capture", "position", "arrival", "timestamp")
CAPTURE = pa.dictionary(pa.int32(), pa.string())
_AGAIN = "if the capture was ingested anew meanwhile, run the interval again"
_READ_AGAIN = "`lowwater ingest` with --link and the capture file reads what is missing again"


@dataclass(frozen=True)
class LinkRead:
    """The packets of a link that a run reads, or a chunk of them; picklable."""

    link: str
    files: tuple[PacketFile, ...]  # by capture in the order of T1, then by hour of arrival and chunk, so by position
    read_from: int  # begin of the read range (I2), ns
    start: int
    end: int
    since: int = 0  # begin of the link's life, ns (T5). Records outside of its life do not belong to the link.
    until: int = END_OF_TIME  # end of the link's life, ns, exclusive
    begin: int = 0  # packets of the first file that lie before the chunk
    stop: int | None = None  # packets of the last file up to the end of the chunk; None for all
    entered: int = -1  # clock of the link before the chunk, ns; -1 if nothing lies before it
    left: int | None = None  # clock of the link after the chunk, ns; None if nothing lies after it
    before: int = 0  # packets of the link before the chunk
    # finds the copies of packets; None where they are packets like all others (SEMANTICS D4)
    copies: DuplicateRule | None = None

    @property
    def packets(self) -> int:
        return sum(file.rows for file in self.files)

    def batches(
        self,
        columns: Sequence[str] = (),
        rows: int = 131072,
        marked: bool = False,
        dropped: DroppedCopies | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Reads the packets in arrival order: capture (dictionary of strings, one value), position, arrival (absolute,
        ns), timestamp, then the stored `columns` (`catalog.schemas.READABLE`), NULL if a file lacks one.

        A packet is read if its timestamp is in [read_from, end) or its arrival in [start, end): a late packet counts in
        the interval of its arrival (A1).
        Raises LakeError if a file cannot be read, for example since its capture was ingested again meanwhile.

        Args:
            rows: most rows of a batch.
            marked: whether copies stay, and the columns COPY and ELSEWHERE tell them; otherwise `copies` decides (D4).
        """
        finder = None
        if self.copies is not None and (marked or self.copies.drop):
            finder = DuplicateFinder(self.copies)
        for number, file in enumerate(self.files):
            begin = self.begin if number == 0 else 0
            stop = file.rows if self.stop is None or number < len(self.files) - 1 else self.stop
            with readable(self.link, file.path):
                for at, batch in self._file(file, columns, rows, begin, stop):
                    part = _marked(batch, at, finder, file.path) if marked else batch
                    if finder is not None and not marked:
                        part = self._without_copies(batch, at, finder, file.path, dropped)
                    if part.num_rows:
                        yield from self._filtered(part, file, self.schema(columns, marked))

    def schema(self, columns: Sequence[str] = (), marked: bool = False) -> pa.Schema:
        marks = [pa.field(name, pa.bool_(), nullable=False) for name in (COPY, ELSEWHERE)] if marked else []
        keys = [RECORD.field(name) if name != "capture" else pa.field(name, CAPTURE, nullable=False) for name in KEYS]
        return pa.schema([*keys, *(stored_field(name) for name in columns if name not in KEYS), *marks])

    def _file(
        self, file: PacketFile, columns: Sequence[str], rows: int, begin: int, stop: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yields stored rows, each batch with the number of its first row in the file."""
        schema = self.schema(columns)
        with pq.ParquetFile(paths.local(file.path)) as content:
            there = {*content.schema_arrow.names}  # which Arrow makes anew
            stored = [name for name in schema.names if name in there and name != "capture"]
            if HEAD in schema.names and HEAD not in stored:
                raise LakeError(
                    f"link {self.link}: the lake has no sampling columns of capture {file.capture[:12]}",
                    f"write sampling = true in {section_of(self.link)} and ingest the capture again",
                )
            after = 0
            for number in range(content.num_row_groups):
                group = content.metadata.row_group(number)
                at, after = after, after + group.num_rows
                if at >= stop or after <= begin or not self._may_hold(_bounds(group), file.clock):
                    continue
                for batch in content.iter_batches(rows, [number], stored, use_threads=False):
                    first, end = max(begin - at, 0), min(stop - at, batch.num_rows)
                    if first < end:
                        yield at + first, batch.slice(first, end - first)
                    at += batch.num_rows

    def _without_copies(
        self, batch: pa.RecordBatch, at: int, finder: DuplicateFinder, path: PurePath, dropped: DroppedCopies | None
    ) -> pa.RecordBatch:
        """Removes the copies of a batch of stored rows; `at` is the number of its first row in the file."""
        copied = finder.marks_of(path)[0][at : at + batch.num_rows]
        if not copied.any():
            return batch
        if dropped is not None:
            stamps = batch.column("timestamp").to_numpy()
            dropped.owned += int(np.count_nonzero(copied & (stamps >= self.start) & (stamps < self.end)))
        return batch.filter(pa.array(~copied))

    def _may_hold(self, bounds: dict[str, tuple[int, int]], clock: int) -> bool:
        if "timestamp" not in bounds or "arrival" not in bounds:
            return True
        least, most = bounds["timestamp"]
        first, last = (max(value, clock) for value in bounds["arrival"])
        return (least < self.end and most >= self.read_from) or (first < self.end and last >= self.start)

    def _filtered(self, batch: pa.RecordBatch, file: PacketFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        stamps, arrivals = columns["timestamp"], columns["arrival"]
        if arrivals[0].as_py() < file.clock:
            arrivals = columns["arrival"] = pc.max_element_wise(arrivals, pa.scalar(file.clock, pa.int64()))
        low, high = max(self.read_from, self.since), min(self.end, self.until)
        bounds = pc.min_max(stamps)
        all_inside = bounds["min"].as_py() >= low and bounds["max"].as_py() < high
        for name in schema.names:  # a file lacks columns that have no value in it, and internal timestamps
            if unit := arrival_unit(name):
                columns[name] = pc.divide(arrivals, pa.scalar(unit, pa.int64()))
            elif name not in columns:
                columns[name] = pa.nulls(batch.num_rows, schema.field(name).type)
        zeros = pa.repeat(pa.scalar(0, pa.int32()), batch.num_rows)
        columns["capture"] = pa.DictionaryArray.from_arrays(zeros, pa.array([file.capture]))
        result = pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
        if not all_inside:
            read = pc.or_(_within(stamps, self.read_from, self.end), _within(arrivals, self.start, self.end))
            result = result.filter(pc.and_(read, _within(stamps, self.since, self.until)))
        if result.num_rows:
            yield result


@dataclass
class DroppedCopies:
    """Number of dropped copies whose timestamp lies in the interval of a read (A1)."""

    owned: int = 0


def _marked(batch: pa.RecordBatch, at: int, finder: DuplicateFinder | None, path: PurePath) -> pa.RecordBatch:
    """Adds COPY and ELSEWHERE to a batch of stored rows; `at` is the number of its first row in the file."""
    own = slice(at, at + batch.num_rows)
    marks = [mark[own] for mark in finder.marks_of(path)] if finder else [np.zeros(batch.num_rows, np.bool_)] * 2
    for name, mark in zip((COPY, ELSEWHERE), marks, strict=True):
        batch = batch.append_column(name, pa.array(mark))
    return batch


def stored_records(link: str, row: Mapping[str, Any], names: Sequence[str] = _TIMES) -> pa.Table:
    """Reads columns of the records in force of a packet file of `PacketFiles`; NULL where none of them has a value.
    Raises LakeError if the file cannot be read."""
    path = PacketFiles.path(row)
    with readable(link, path), pq.ParquetFile(paths.local(path)) as stored:
        there = [name for name in dict.fromkeys(names) if name in stored.schema_arrow.names]
        table = stored.read(there).slice(0, row["num_records"])
    for name in dict.fromkeys(names):
        if name not in there:  # columns without a value are not in a file
            table = table.append_column(name, pa.nulls(table.num_rows, READABLE.field(name).type))
    return table


def begin_alike(whole: Sequence[PurePath], part: Sequence[PurePath], columns: Collection[str] = ()) -> bool:
    """Whether the first records of a capture are all those of another one, given the packet files of each for a link,
    by all of their columns but the identity, or by some. A few rows are in memory. Raises OSError if a file cannot be
    read."""
    theirs, rest = _in_order(whole), pa.table({})
    for mine in _in_order(part):
        while mine.num_rows:
            if not rest.num_rows and not (rest := next(theirs, rest)).num_rows:
                return False
            size = min(mine.num_rows, rest.num_rows)
            if not _equal(mine.slice(0, size), rest.slice(0, size), columns):
                return False
            mine, rest = mine.slice(size), rest.slice(size)
    return True


def _in_order(files: Sequence[PurePath]) -> Iterator[pa.Table]:
    for path in sorted(files, key=place_of):
        with pq.ParquetFile(paths.local(path)) as stored:
            for batch in stored.iter_batches(use_threads=False):
                yield pa.Table.from_batches([batch])


def _equal(one: pa.Table, other: pa.Table, names: Collection[str]) -> bool:
    for name in names or {*one.column_names, *other.column_names} - {"capture"}:
        columns = [table.column(name) for table in (one, other) if name in table.column_names]
        plain = [
            pc.cast(column, column.type.value_type) if pa.types.is_dictionary(column.type) else column
            for column in columns
        ]
        if len(plain) == 1:  # columns without a value are not in a file
            if plain[0].null_count < len(plain[0]):
                return False
        elif not plain[0].equals(plain[1]):
            return False
    return True


@contextmanager
def readable(link: str, path: PurePath) -> Iterator[None]:
    """Turns the error of an unreadable packet file into a LakeError that says what may have happened."""
    try:
        yield
    except OSError as error:
        # A file that is there counts as whole for the ingest.
        first = f"remove {path}" if isinstance(error, untrusted.UnreadableError) else _AGAIN
        why = f"packets of link {link!r} cannot be read: {error.strerror or error}"
        raise LakeError(f"{path}: {why}", f"{first}; {_READ_AGAIN}") from error


def _within(values: pa.Array, start: int, end: int) -> pa.Array:
    return pc.and_(pc.greater_equal(values, start), pc.less(values, end))


def _bounds(group: Any) -> dict[str, tuple[int, int]]:
    bounds = {}
    for index in range(group.num_columns):
        column = group.column(index)
        if column.path_in_schema in ("timestamp", "arrival") and column.statistics is not None:
            bounds[column.path_in_schema] = (column.statistics.min, column.statistics.max)
    return bounds


HORIZONS = "lowwater.horizons"
"""Property of `packets/` and of tables of records: link -> instant (ns) before which its packets were removed by age or
size (S11), as JSON."""


def removed_words(link: str, horizon: int) -> str:
    """Says which packets of a link were removed."""
    return (
        f"packets of link {link!r} before {format_instant(horizon)} were removed, as [retention] or a retirement says"
    )


@dataclass(frozen=True)
class PacketFiles:
    """The files of `packets/` and `records/` at one instant, read once for all links."""

    folder: PurePath  # folder of `packets/`, or of the only table
    # ingest attempt -> its rows of `live_files`, of all links, with the folder of their table
    attempts: Mapping[str, Sequence[dict[str, Any]]]
    # link -> instant (ns) before which its packets were removed by age or size
    horizons: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, lake: layout.Lake) -> PacketFiles:
        """Reads the list of files of a lake. Raises LakeError if the lake cannot be read."""
        packets = cls.of_table(lake.packets)
        # A table of records is made before the first capture that is in it.
        folders = open_tables.cached_value(lake.contents, "tables of records", lambda _: lake.record_tables())
        tables = [cls.of_table(folder) for folder in folders]
        if not tables:
            return packets
        every = packets, *tables
        return cls(
            packets.folder,
            {name: rows for table in every for name, rows in table.attempts.items()},
            {link: at for table in every for link, at in table.horizons.items()},
        )

    @classmethod
    def of_table(cls, folder: PurePath) -> PacketFiles:
        """Reads the list of files of `packets/`, or of the table of a link with other records."""
        with lake_errors(f"{folder}: the table cannot be read"):
            return open_tables.cached_value(
                folder, "files", lambda table: cls(folder, _by_attempt(table, folder), horizons_of(table))
            )

    @staticmethod
    def path(row: Mapping[str, Any]) -> PurePath:
        path: PurePath = row["folder"] / row["path"]
        return path

    @staticmethod
    def are_there(rows: Iterable[Mapping[str, Any]]) -> bool:
        """Whether all files lie in the lake with the sizes that their table says."""
        return all(paths.has_size(PacketFiles.path(row), row["size_bytes"]) for row in rows)

    def removed(self, links: Iterable[str], start: int) -> list[str]:
        """Says of which links packets from an instant (ns) on are not there, since they were removed."""
        return [removed_words(link, at) for link in links if start < (at := self.horizons.get(link, 0))]

    def is_closed(self, capture: Capture) -> bool:
        """Whether a capture of a link lies before its horizon, so that the lake has its packets no more, or not for
        long: it is not read again."""
        return (capture.largest or 0) < self.horizons.get(capture.link, 0)

    def are_closed(self, captures: Iterable[Capture]) -> bool:
        """Whether all captures of a file are."""
        return bool(self.horizons) and all(map(self.is_closed, captures))

    def have(self, captures: Iterable[Capture]) -> bool:
        """Whether no packets of the captures of a file are missing, but before horizons, and no file of them is gone,
        cut or set aside as damaged."""
        found = [self.of_capture(row, row.link) for row in captures if not self.is_closed(row)]
        return all(rows is not None and self.are_there(rows) for rows in found)

    def rows(self, link: str, attempt: str, packets: int | None = None, largest: int = 0) -> list[dict[str, Any]]:
        """Returns the files of an attempt and link, in no order; of a capture with so many packets, up to a timestamp
        (ns), without those at its end that lead what follows (T3). Of a file with both, the first `num_records` count.
        """
        rows = [row for row in self.attempts.get(attempt, ()) if row["partition.link"] == link]
        if packets is None or sum(row["num_records"] for row in rows) <= packets:
            return rows
        kept = []
        for row in sorted(rows, key=_place):
            if packets >= row["num_records"]:
                kept.append(row)
            elif packets:
                bounds = {f"max.{name}": min(row[f"max.{name}"], largest) for name in _TIMES}
                kept.append({**row, **bounds, "num_records": packets})
            packets -= min(packets, row["num_records"])
        return kept

    def in_force(self, capture: Capture) -> list[dict[str, Any]]:
        """Returns the files of a capture and its link, in no order; without what is out of force (T3)."""
        return self.rows(capture.link, capture.attempt, capture.packets, capture.largest or 0)

    def of_capture(self, capture: Capture, link: str) -> list[dict[str, Any]] | None:
        """Returns the files of a capture and link, in order; None where some of its packets are missing."""
        stored, strays = sum(row["num_records"] for row in self.rows(link, capture.attempt)), capture.strays
        if stored not in (capture.packets, capture.packets + strays):
            return None
        return sorted(self.rows(link, capture.attempt, capture.packets, capture.largest or 0), key=_place)


def horizons_of(table: DeltaTable | None) -> dict[str, int]:
    """Reads the horizons of a table of packets."""
    stored = None if table is None else table.metadata().configuration.get(HORIZONS)
    found = documents.stored_object(stored) if stored else {}
    return {str(link): at for link, at in found.items() if isinstance(at, int)}


def place_of(path: PurePath) -> tuple[int, str]:
    """Sort key of the files of a capture and link: hour of arrival, then name, which begins with the chunk."""
    return int(path.parent.name.partition("=")[2]), path.name


def _place(row: Mapping[str, Any]) -> tuple[int, str]:
    return int(row["partition.hour"]), row["path"].rpartition("/")[2]


def _by_attempt(table: DeltaTable | None, folder: PurePath) -> dict[str, list[dict[str, Any]]]:
    rows = [] if table is None else live_files(table)
    attempts = (digests.bare(row["path"]).rpartition("-")[2] for row in rows)
    return grouped(zip(attempts, ({**row, "folder": folder} for row in rows), strict=True))


def packet_files(
    files: PacketFiles, link: str, captures: Sequence[Capture], settings: Link, read_from: int, start: int, end: int
) -> LinkRead:
    """Finds the files that a run of [start, end) reads of a link, on the driver: those of its captures, in the order of
    T1, that may hold such packets, by the statistics of their commits. Who reads from the begin on reads what is there.
    Raises LakeError if files of a capture are missing, or packets from `read_from` on were removed by age or size."""
    empty = LinkRead(link, (), read_from, start, end, *life_of(settings))
    horizon = files.horizons.get(link, 0)
    if 0 < read_from < horizon:
        raise LakeError(f"{removed_words(link, horizon)}: only what begins there can be read")
    found: list[PacketFile] = []
    ordered = Captures.of(captures)
    for at in ordered.arriving(read_from, start, end):
        capture, clock = ordered[at], ordered.clocks[at]
        placed = files.of_capture(capture, link)
        if placed is None and files.is_closed(capture):
            continue
        if placed is None:
            raise LakeError(
                f"{files.folder}: the ledger counts {capture.packets} packets of {capture.path} (link {link!r}), "
                "and some are missing",
                f"{_AGAIN}; else another program changed the table: {_READ_AGAIN}; where that file is gone, restore "
                "the version before by Delta's RESTORE",
            )
        for row in placed:
            bounds = {name: (row[f"min.{name}"], row[f"max.{name}"]) for name in _TIMES}
            if empty._may_hold(bounds, clock):
                first, last = (max(arrival, clock) for arrival in bounds["arrival"])
                path, rows = PacketFiles.path(row), row["num_records"]
                found.append(PacketFile(path, rows, capture.capture, clock, first, last))
    return replace(empty, files=tuple(found))


def read_packets(
    lake: layout.Lake,
    link: str,
    captures: Sequence[Capture],
    settings: Link,
    read_from: int,
    start: int,
    end: int,
    columns: Sequence[str] = (),
) -> Iterator[pa.RecordBatch]:
    """Reads the packets of a link in one process: `packet_files` and `LinkRead.batches` together."""
    files = PacketFiles.of_table(lake.table_of(link, settings.kind != "pcap"))
    return packet_files(files, link, captures, settings, read_from, start, end).batches(columns)


# Chunks, so that several tasks read a large capture. A chunk needs the clock of the link before it, which is the
# arrival of the packet before it. Nothing else of earlier packets matters (SEMANTICS T2, P2).


def divide(read: LinkRead, most: int) -> list[LinkRead]:
    """Divides the packets of a link into chunks of about equal size, in order of arrival.

    A chunk consists of whole files unless they are larger than a chunk. The last late packets, after the end of the
    interval, are not divided.
    Raises LakeError if a file cannot be read."""
    count = -(-read.packets // most)
    if count <= 1:
        return [read]
    ends = list(accumulate(file.rows for file in read.files))
    cuts, clocks = [0], [-1]
    for number in range(1, count):
        at = read.packets * number // count
        place = bisect_right(ends, at - 1)  # of the file with the packet before the cut
        file, end = read.files[place], ends[place]
        cut = end if file.rows <= most else at
        if cut <= cuts[-1] or cut == ends[-1]:
            continue
        clock = _clock(read.link, file, cut - end + file.rows)
        if clock >= read.end:
            break
        cuts.append(cut)
        clocks.append(clock)
    bounds = zip(cuts, [*cuts[1:], ends[-1]], clocks, [*clocks[1:], None], strict=True)
    return [_chunk(read, ends, *chunk) for chunk in bounds]


def _clock(link: str, file: PacketFile, rows: int) -> int:
    """Returns the clock of the link after so many packets of a file, ns."""
    if rows == file.rows:
        return file.last
    with readable(link, file.path):
        arrivals = pq.read_table(paths.local(file.path), columns=["arrival"], partitioning=None).column("arrival")
    return max(file.clock, int(arrivals[rows - 1].as_py()))


def _chunk(read: LinkRead, ends: Sequence[int], start: int, end: int, entered: int, left: int | None) -> LinkRead:
    begins = [0, *ends]
    first, last = bisect_right(ends, start), bisect_left(ends, end)  # of the files with its packets
    return replace(
        read,
        files=read.files[first : last + 1],
        begin=start - begins[first],
        stop=end - begins[last],
        entered=entered,
        left=left,
        before=start,
    )
