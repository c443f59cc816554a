"""Reads a file of records that are no packets as Arrow batches of sane records, and lists the malformed ones.

The counterpart of `capture.reader` for `tables`. Times are judged as those of packets (SEMANTICS T3).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lowwater import errors, threads
from lowwater.capture.formats.archives import HEAD as ARCHIVE_HEAD, archive_of
from lowwater.capture.formats.sources import DecompressedSource, PeekableSource, Source, compression_of, open_source
from lowwater.capture.inspect import CaptureFacts, InterfaceFacts, Lateness
from lowwater.capture.records.facts import CaptureSummary, Interface
from lowwater.capture.records.holes import HoleFinder
from lowwater.capture.records.sanity import SIDE, Judge, Tally
from lowwater.capture.tables import columnar, delimited, logs
from lowwater.capture.tables.blocks import NO_TIME, TIME_JUMP, TIME_RANGE, VALUE_OF, Piece
from lowwater.capture.tables.options import TableOptions
from lowwater.capture.tables.statistics import ToldDrops
from lowwater.catalog.time import LOST_BYTES, arrival_times
from lowwater.limits import LEFT_OUT_TYPES, MALFORMED_ROWS
from lowwater.storage.failures import hint_of

IDENTITY = pa.schema(
    [
        pa.field("position", pa.int64(), nullable=False),
        pa.field("arrival", pa.int64(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
    ]
)
"""Columns of a batch before those of the layout; see `catalog.schemas`."""

DAMAGE = pa.schema(
    [
        pa.field("position", pa.int64()),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("length", pa.int64(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("arrival", pa.int64()),
        pa.field("interface", pa.int32(), nullable=False),
        pa.field("line", pa.int64()),
    ]
)
"""Malformed records: position and offset as for packets, `line` from 1 in a text file; `interface` is 0."""


TextParser = delimited.DelimitedParser | logs.JsonParser | logs.ZeekParser | logs.NfdumpParser

CUT, COMPRESSION = "cut", "compression"


_ROW = np.dtype([(name, np.int64) for name in ("position", "offset", "length", "line", "arrival", "reason")])
"""A malformed record; `line` is 0 in parquet, `arrival` -1 before the first sane record, `reason` a code."""

_MANY = 4
"""Malformed records with the bytes of more than so many times as many sane ones are damage."""

_SETTLED = 2 * SIDE
"""Records that wait for others at least, since few records are not worth a batch."""


class _Part(NamedTuple):
    """Whole records of a piece, whose times may not be judged yet."""

    positions: NDArray[np.int64]  # number of each record in the file
    stamps: NDArray[np.int64]  # timestamps, ns
    places: tuple[NDArray[np.int64], ...]  # offset, length and line of each record
    columns: pa.RecordBatch


_NONE = np.empty(0, np.int64)


class RecordReader:
    """Reads a file in one pass and bounded memory; iterate it once.
    Raises CaptureError if the file cannot be read, or lacks a column of the layout.

    Args:
        max_jump: how far ahead of the records around it a timestamp may be, ns (SEMANTICS T3).
        growing: whether the file is still being written: a last line without an end is then cut, since it may go on.
        dictionaries: whether texts of a batch may stay in the dictionary in which the file has them.

    Attributes:
        schema: schema of the batches, but for dictionaries.
        summary: summary of the file; None until the iteration has ended.
    """

    def __init__(
        self,
        path: Path,
        options: TableOptions,
        max_jump: int,
        sha256: str,
        growing: bool = False,
        dictionaries: bool = False,
    ) -> None:
        self.schema = pa.schema([*IDENTITY, *options.layout.schema])
        self.summary: CaptureSummary | None = None
        self._path, self._options, self._sha256 = path, options, sha256
        self._growing, self._dictionaries = growing, dictionaries
        self._judge = Judge(max_jump)
        self._tally = Tally(0)
        self._waiting: deque[_Part] = deque()
        self._jumps = np.empty(0, np.bool_)
        self._bad: list[NDArray[Any]] = []
        self._rows: list[NDArray[Any]] = []
        self._reasons: list[str] = []
        self._malformed = 0
        self._holes = HoleFinder()
        self._sane = 0
        self._record_bytes = 0
        self._position = 0
        self._overhead = 0
        self._left_out: Counter[str] = Counter()
        self._told = ToldDrops()
        self._absent: frozenset[str] | None = None
        self._unknown: set[str] = set()
        # field -> line or row of its first value that cannot be read, and some of these values
        self._unread: dict[str, tuple[int, Any]] = {}

    @property
    def malformed(self) -> pa.Table:
        """The malformed records so far, schema `DAMAGE`, in file order."""
        rows = np.concatenate([np.empty(0, _ROW), *self._rows])
        values = {name: np.ascontiguousarray(rows[name]) for name in _ROW.names or ()}
        reasons = pa.array(self._reasons, pa.string()).take(pa.array(values["reason"]))
        columns = {
            "position": pa.array(values["position"]),
            "offset": pa.array(values["offset"]),
            "length": pa.array(values["length"]),
            "reason": reasons,
            "arrival": pa.array(values["arrival"], mask=values["arrival"] < 0),
            "interface": pa.array(np.zeros(len(rows), np.int32)),
            "line": pa.array(values["line"], mask=values["line"] == 0),
        }
        return pa.Table.from_arrays([columns[name] for name in DAMAGE.names], schema=DAMAGE)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            if self._options.kind == "parquet":
                yield from self._batches(columnar.ParquetParser(self._path, self._options.layout))
                self._finish(0, "", None)
            else:
                yield from self._text()
        except OSError as error:
            raise errors.CaptureError(
                f"{self._path}: cannot be read: {error.strerror}", hint_of(error, "check the path")
            ) from error
        finally:
            self._tally.close()

    def _text(self) -> Iterator[pa.RecordBatch]:
        _, stream = open_source(self._path)
        stored = PeekableSource(stream)
        with closing(stored):
            compression = compression_of(stored.peek(32))
            if not compression:
                self._refuse_archive(stored)
                yield from self._parsed(stored, "", None)
                return
            unpacked = DecompressedSource(stored, hashed=False)
            content = PeekableSource(unpacked)
            with closing(content):
                self._refuse_archive(content)
                yield from self._parsed(content, compression, unpacked)

    def _refuse_archive(self, content: PeekableSource) -> None:
        """Raises CaptureError if a file holds other files, or sheets: its lines would all be malformed."""
        head = content.peek(ARCHIVE_HEAD)
        if inner := compression_of(head):
            raise errors.CaptureError(f"{self._path}: compressed again, as {inner}", "decompress it once")
        if (archive := archive_of(head)) is not None:
            raise errors.CaptureError(
                f"{self._path}: {archive.what}, and no {self._options.kind}", archive.remedy(self._path)
            )

    def _parsed(
        self, source: Source, compression: str, unpacked: DecompressedSource | None
    ) -> Iterator[pa.RecordBatch]:
        def damaged() -> bool:
            return self._growing or (unpacked is not None and bool(unpacked.damage))

        parser: TextParser
        if self._options.kind in ("json", "suricata"):
            parser = logs.JsonParser(source, self._options.layout, damaged)
        elif self._options.kind in ("zeek", "nfdump"):
            of_tool = logs.ZeekParser if self._options.kind == "zeek" else logs.NfdumpParser
            parser = of_tool(self._path, source, self._options.layout, damaged)
        else:
            parser = delimited.DelimitedParser(self._path, source, self._options.layout, self._options.text, damaged)
        yield from self._batches(parser)
        if self._absent is None and isinstance(parser, logs.ZeekParser | logs.NfdumpParser):
            self._absent, self._unknown = frozenset(parser.absent), parser.unknown
        blocks = parser.blocks
        overhead = blocks.overhead + parser.overhead + self._overhead
        self._finish(blocks.size, compression, unpacked, overhead, blocks.open_end)

    def _batches(self, parser: TextParser | columnar.ParquetParser) -> Iterator[pa.RecordBatch]:
        for piece in threads.in_order(parser):
            self._take(piece)
            yield from self._settled(final=False)
        yield from self._settled(final=True)

    def _take(self, piece: Piece) -> None:
        places, refusals = piece.places, piece.refusals
        self._overhead += piece.overhead
        self._told.add(piece.told)
        for name, count in piece.left_out:
            self._left_out[name if name in self._left_out or len(self._left_out) < LEFT_OUT_TYPES else "others"] += (
                count
            )
        if piece.absent is not None:
            self._absent = piece.absent if self._absent is None else self._absent & piece.absent
            self._unknown |= piece.unknown
        lines = np.broadcast_to(np.int64(0), len(places)) if places.lines is None else places.lines
        bad = np.flatnonzero(refusals.codes)
        for name, (index, examples) in refusals.values.items():
            place = self._position + index + 1 if places.lines is None else int(places.lines[index])
            self._unread.setdefault(name, (place, examples))
        if len(bad):
            codes = np.array([self._code(name) for name in refusals.names], np.int64)
            where = (bad + self._position, places.offsets[bad], places.lengths[bad], lines[bad])
            self._add(*where, codes[refusals.codes[bad]])
        whole = piece.whole
        placed: tuple[NDArray[np.int64], ...] = (places.offsets, places.lengths, lines)
        if len(whole) < len(places):
            placed = tuple(values[whole] for values in placed)
        if len(whole):
            self._waiting.append(_Part(whole + self._position, piece.stamps, placed, piece.columns))
        self._position += len(places)

    def _add(
        self,
        positions: NDArray[np.int64],
        offsets: NDArray[np.int64],
        lengths: NDArray[np.int64],
        lines: NDArray[np.int64],
        reasons: NDArray[np.int64],
    ) -> None:
        """Adds malformed records whose arrival is not known yet. Raises CaptureError if they are too many."""
        rows = np.empty(len(positions), _ROW)
        rows["position"], rows["offset"], rows["length"] = positions, offsets, lengths
        rows["line"], rows["arrival"], rows["reason"] = lines, -1, reasons
        self._bad.append(rows)
        self._malformed += len(rows)
        if self._malformed > MALFORMED_ROWS:
            raise errors.CaptureError(
                f"{self._path}: more than {MALFORMED_ROWS:,} malformed records, the last for "
                f"{self._reasons[int(rows['reason'][-1])]!r} at byte {int(rows['offset'][-1]):,}",
                "check kind, separator and header of the link, and the PROTOCOL",
            )

    def _code(self, reason: str) -> int:
        if reason not in self._reasons:
            self._reasons.append(reason)
        return self._reasons.index(reason)

    def _settled(self, final: bool) -> Iterator[pa.RecordBatch]:
        """Judges the times of the waiting records, and yields the sane ones of the pieces that are judged whole."""
        waiting = sum(len(part.positions) for part in self._waiting) - len(self._jumps)
        if not self._waiting:
            self._find_holes(self._settle_bad(_NONE, _NONE, self._tally.clock, None), _NONE, _NONE, _NONE)
        if not waiting or (not final and waiting <= _SETTLED):
            return
        stamps = np.concatenate([part.stamps for part in self._waiting])[len(self._jumps) :]
        self._jumps = np.concatenate([self._jumps, self._judge.settle(stamps, final)])
        while self._waiting and len(self._jumps) >= len(self._waiting[0].positions):
            part = self._waiting.popleft()
            jumps, self._jumps = np.split(self._jumps, [len(part.positions)])
            yield from self._judged(part, jumps, int(self._waiting[0].positions[0]) if self._waiting else None)

    def _judged(self, part: _Part, jumps: NDArray[np.bool_], before: int | None) -> Iterator[pa.RecordBatch]:
        """Yields the sane records of a piece.

        Args:
            before: position of the first record behind the piece; None without one.
        """
        columns, clock = part.columns, self._tally.clock
        positions, stamps, lengths = part.positions, part.stamps, part.places[1]
        if jumps.any():
            sane = np.flatnonzero(~jumps)
            positions, stamps, lengths = positions[sane], stamps[sane], lengths[sane]
            jumped = np.flatnonzero(jumps)
            offset, length, line = (values[jumped] for values in part.places)
            code = np.full(len(jumped), self._code(TIME_JUMP))
            self._add(part.positions[jumped], offset, length, line, code)
            columns = columns.take(pa.array(sane))
        arrivals = arrival_times(stamps, clock)
        bad = self._settle_bad(positions, arrivals, clock, before)
        self._find_holes(bad, positions, stamps, lengths)
        if len(stamps):
            self._tally.add(stamps)
            self._sane += len(stamps)
            self._record_bytes += int(lengths.sum())
            arrays = [*(pa.array(values) for values in (positions, arrivals, stamps)), *columns.columns]
            schema = self.schema
            if self._dictionaries:
                schema = pa.schema([*IDENTITY, *columns.schema])
            else:
                arrays = [array.cast(field.type) for array, field in zip(arrays, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _settle_bad(
        self, positions: NDArray[np.int64], arrivals: NDArray[np.int64], clock: int, before: int | None
    ) -> NDArray[Any]:
        """Gives malformed records the clock at their place, up to the first record that is not judged yet; returns
        them.

        Args:
            arrivals: arrivals of these records, ns.
            clock: clock before these records, ns; -1 before the first.
            before: position of the first record that waits; None without one.
        """
        if not self._bad:
            return np.empty(0, _ROW)
        rows = np.concatenate(self._bad)
        rows = rows[np.argsort(rows["position"], kind="stable")]
        ready = len(rows) if before is None else int(np.searchsorted(rows["position"], before))
        at = np.searchsorted(positions, rows["position"][:ready])
        rows["arrival"][:ready] = np.concatenate([[clock], arrivals])[at]
        if ready:
            self._rows.append(rows[:ready])
        self._bad = [rows[ready:]] if ready < len(rows) else []
        return rows[:ready]

    def _find_holes(
        self,
        bad: NDArray[Any],
        positions: NDArray[np.int64],
        stamps: NDArray[np.int64],
        lengths: NDArray[np.int64],
    ) -> None:
        """Finds damage among the next malformed records, and adds the sane ones around them.

        Malformed records that follow one another are damage where they have the bytes of many more records: lines that
        were overwritten are few long ones, and lines with a wrong value as long as others.

        Args:
            bad: dtype _ROW.
            positions: those of the sane records; with `stamps`, ns, and `lengths`, bytes.
        """
        count, size = self._sane + len(lengths), self._record_bytes + int(lengths.sum())
        places = np.searchsorted(positions, bad["position"])
        done = 0
        for place in np.unique(places).tolist() if count else []:
            run = bad[places == place]
            lost = int(run["length"].sum())
            if lost > LOST_BYTES and lost * count > _MANY * len(run) * size:
                if done < place:
                    self._holes.add(stamps[done:place], lengths[done:place], None)
                self._holes.open(int(run["offset"][0]), lost, [int(run["arrival"][0])])
                done = place
        if done < len(stamps):
            self._holes.add(stamps[done:], lengths[done:], None)

    def _finish(
        self,
        size: int,
        compression: str,
        unpacked: DecompressedSource | None,
        overhead: int = 0,
        open_end: bool = False,
    ) -> None:
        damage, skipped = (unpacked.damage, unpacked.skipped) if unpacked else ("", 0)
        cut = open_end and self._cut()
        if damage:
            row = np.array([(self._position, size, skipped, 0, self._tally.clock, self._code(COMPRESSION))], _ROW)
            self._rows.append(row)
            self._malformed += 1
        stored = self._path.stat().st_size
        interface = Interface(0, "", -1, self._options.layout.protocol, 0)
        self._tally.malformed = self._malformed
        self.summary = CaptureSummary(
            sha256=self._sha256,
            bytes=unpacked.stored if unpacked else stored,
            format=self._options.kind,
            interfaces=(replace(self._tally.summary(interface, self._holes.found(0)), drops=self._told.drops()),),
            record_bytes=self._record_bytes,
            overhead=overhead if self._options.kind != "parquet" else stored,
            ended_cleanly=not (cut or damage),
            largest_ahead=self._judge.largest_ahead,
            smallest_jump=self._judge.smallest_jump,
            compression=compression,
            unpacked=size if self._options.kind != "parquet" else stored,
            skipped=skipped,
            damage=damage,
            blocks=tuple(sorted(self._left_out.items())),
            absent=tuple(field.name for field in self._options.layout.fields if field.name in (self._absent or ())),
            unknown=tuple(sorted(self._unknown)[:LEFT_OUT_TYPES]),
            unread=tuple(self._unread_words()),
        )

    def _unread_words(self) -> Iterator[str]:
        """Says of each field whose values make records malformed which they are, and how they can be read."""
        if not self._unread:
            return
        from lowwater.capture.tables.unread import UnreadValues, readable  # few files need it

        reasons = self.malformed.column("reason").value_counts().to_pylist()
        counts = {found["values"]: found["counts"] for found in reasons}
        for field in self._options.layout.fields:
            count = counts.get(f"{VALUE_OF}{field.name}", 0)
            if count and field.name in self._unread:
                place, examples = self._unread[field.name]
                values = UnreadValues(field, count, self._position, place, readable(examples))
                yield values.words(self._options)

    def _cut(self) -> bool:
        """Whether the last record was cut: it has no end of line, and cannot be read. Its reason says so then."""
        rows = self._rows[-1] if self._rows and len(self._rows[-1]) else None
        if rows is None or int(rows["position"][-1]) != self._position - 1:
            return False
        if self._reasons[int(rows["reason"][-1])] in (NO_TIME, TIME_RANGE, TIME_JUMP):
            return False
        rows["reason"][-1] = self._code(CUT)
        return True


# Facts of a file of records


def inspect_records(
    path: Path,
    options: TableOptions,
    max_jump: int,
    skew: int,
    progress: Callable[[int], None] = lambda records: None,
    sha256: str = "",
) -> CaptureFacts:
    """Reads a file of records once and returns its facts; those of packets stay empty.
    Raises CaptureError if the file cannot be read, or too many of its records.

    Args:
        sha256: digest of the file, if it is known.
    """
    reader = RecordReader(path, options, max_jump, sha256)
    interface = Interface(0, "", -1, options.layout.protocol, 0)
    facts = InterfaceFacts(interface, Lateness(skew))
    for batch in reader:
        facts.add_times(batch.column("timestamp").to_numpy(), batch.column("arrival").to_numpy())
        progress(facts.packets)
    assert reader.summary is not None
    (facts.summary,) = reader.summary.interfaces
    damage = reader.malformed
    facts.malformed = Counter(damage.column("reason").to_pylist())
    return CaptureFacts(path, reader.summary, (facts,), pc.sum(damage.column("length")).as_py() or 0)


def first_timestamp(path: Path, options: TableOptions, max_jump: int) -> int | None:
    """Returns the timestamp of the first sane record of a file, ns; None without one.
    Raises CaptureError if the file cannot be read."""
    with closing(iter(RecordReader(path, options, max_jump, ""))) as batches:  # type: ignore[type-var]
        first = next(batches, None)
    return None if first is None else int(first.column("timestamp")[0].as_py())


def refused_fields(facts: Sequence[CaptureFacts]) -> dict[str, int]:
    """Counts the values that cannot be read, by field."""
    counts: Counter[str] = Counter()
    for capture in facts:
        for reason, count in capture.interfaces[0].malformed.items():
            if reason.startswith(VALUE_OF):
                counts[reason.removeprefix(VALUE_OF)] += count
    return dict(counts)
