"""Reads a file of records that are no packets as Arrow batches of sane records, and lists the malformed ones.

The counterpart of `capture.reader` for `tables`. Times are judged as those of packets (SEMANTICS T3).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.capture.formats.compression import DecompressedSource, compression_of
from lowwater.capture.formats.sources import PeekableSource, Source, open_source
from lowwater.capture.records.facts import CaptureSummary, Interface
from lowwater.capture.records.malformed import MOST_ROWS
from lowwater.capture.records.sanity import Judge
from lowwater.capture.records.tally import Tally
from lowwater.capture.tables.columnar import ParquetParser
from lowwater.capture.tables.delimited import DelimitedParser, TextOptions
from lowwater.capture.tables.jsonlines import JsonParser
from lowwater.capture.tables.pieces import TIME_JUMP, Piece
from lowwater.catalog.records import RecordLayout
from lowwater.errors import CaptureError

READER_VERSION = 1
"""Changes whenever the same file would be read to other rows (SEMANTICS T7)."""

IDENTITY = pa.schema(
    [
        pa.field("position", pa.int64(), nullable=False),
        pa.field("arrival", pa.int64(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
    ]
)
"""Columns of a batch before those of the layout; see `catalog.packets`."""

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

CUT, COMPRESSION = "cut", "compression"


@dataclass(frozen=True)
class TableOptions:
    """How the records of a link are read; picklable. The ledger stores it as text.

    Attributes:
        kind: `csv`, `json` or `parquet`.
        layout: the fields.
        text: how delimited text is written.
    """

    kind: str
    layout: RecordLayout
    text: TextOptions = field(default_factory=TextOptions)

    key_digest = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.text} {self.layout}"


@dataclass(frozen=True)
class _Bad:
    position: int
    offset: int
    length: int
    reason: str
    line: int | None


class RecordReader:
    """Reads a file in one pass and bounded memory; iterate it once.

    Args:
        path: the file.
        options: how its records are read.
        max_jump: how far ahead of the median of its neighbours a timestamp may be, ns (SEMANTICS T3).
        sha256: digest of the file.

    Attributes:
        schema: schema of the batches.
        summary: summary of the file; None until the iteration has ended.

    Raises:
        CaptureError: the file cannot be read, or lacks a column of the layout.
    """

    def __init__(self, path: Path, options: TableOptions, max_jump: int, sha256: str) -> None:
        self.schema = pa.schema([*IDENTITY, *options.layout.schema])
        self.summary: CaptureSummary | None = None
        self._path, self._options, self._sha256 = path, options, sha256
        self._judge = Judge(max_jump)
        self._tally = Tally(0)
        self._waiting: list[tuple[NDArray[np.int64], NDArray[np.int64], pa.RecordBatch]] = []
        self._places: list[_Bad] = []
        self._bad: list[_Bad] = []
        self._rows: list[tuple[_Bad, int]] = []
        self._malformed_bytes = 0
        self._record_bytes = 0
        self._position = 0

    @property
    def malformed(self) -> pa.Table:
        """The malformed records so far, schema `DAMAGE`, in file order."""
        rows = [
            (bad.position, bad.offset, bad.length, bad.reason, None if arrival < 0 else arrival, 0, bad.line)
            for bad, arrival in self._rows
        ]
        columns = list(zip(*rows, strict=True)) or [()] * len(DAMAGE)
        return pa.table([pa.array(column, field.type) for column, field in zip(columns, DAMAGE, strict=True)], DAMAGE)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            if self._options.kind == "parquet":
                yield from self._batches(ParquetParser(self._path, self._options.layout))
                self._finish(0, "", None)
            else:
                yield from self._text()
        except OSError as error:
            raise CaptureError(f"{self._path}: cannot be read: {error.strerror}", "check the path") from error
        finally:
            self._tally.close()

    def _text(self) -> Iterator[pa.RecordBatch]:
        _, stream = open_source(self._path)
        stored = PeekableSource(stream)
        with closing(stored):
            compression = compression_of(stored.peek(32))
            if not compression:
                yield from self._parsed(stored, "", None)
                return
            unpacked = DecompressedSource(stored, hashed=False)
            with closing(unpacked):
                yield from self._parsed(unpacked, compression, unpacked)

    def _parsed(
        self, source: Source, compression: str, unpacked: DecompressedSource | None
    ) -> Iterator[pa.RecordBatch]:
        parser: DelimitedParser | JsonParser
        if self._options.kind == "json":
            parser = JsonParser(source, self._options.layout)
        else:
            parser = DelimitedParser(self._path, source, self._options.layout, self._options.text)
        yield from self._batches(parser)
        blocks = parser.blocks
        self._finish(blocks.size, compression, unpacked, blocks.overhead + parser.overhead, blocks.open_end)

    def _batches(self, parser: DelimitedParser | JsonParser | ParquetParser) -> Iterator[pa.RecordBatch]:
        for piece in parser:
            self._take(piece)
            yield from self._settled(final=False)
        yield from self._settled(final=True)

    def _take(self, piece: Piece) -> None:
        places, lines = piece.places, piece.places.lines
        for index in sorted(piece.reasons):
            self._bad.append(
                _Bad(
                    self._position + index,
                    int(places.offsets[index]),
                    int(places.lengths[index]),
                    piece.reasons[index],
                    None if lines is None else int(lines[index]),
                )
            )
        whole = piece.whole
        columns = [
            pa.array(values)
            for values in (
                places.offsets[whole],
                places.lengths[whole],
                whole if lines is None else lines[whole],
            )
        ]
        located = pa.RecordBatch.from_arrays(
            [*columns, *piece.columns.columns], names=["offset", "length", "line", *piece.columns.schema.names]
        )
        self._waiting.append((whole + self._position, piece.stamps, located))
        self._position += len(places)
        if len(self._rows) + len(self._bad) > MOST_ROWS:
            raise self._too_many()

    def _settled(self, final: bool) -> Iterator[pa.RecordBatch]:
        """Judges the times of the waiting records, and yields the sane ones."""
        positions = np.concatenate([np.empty(0, np.int64), *(part[0] for part in self._waiting)])
        stamps = np.concatenate([np.empty(0, np.int64), *(part[1] for part in self._waiting)])
        if not final and len(positions) <= 2 * 16:
            return
        jumps = self._judge.settle(stamps, final)
        count = len(jumps)
        located = pa.Table.from_batches([part[2] for part in self._waiting]).combine_chunks() if count else None
        batch = located.slice(0, count).to_batches()[0] if located is not None else None
        if batch is not None and jumps.any():
            self._add_jumps(batch, positions[:count], jumps)
        sane = np.flatnonzero(~jumps)
        clock = self._tally.clock
        arrivals = np.maximum.accumulate(np.maximum(stamps[sane], clock)) if len(sane) else stamps[:0]
        self._settle_bad(positions[sane], arrivals, clock, None if final else int(positions[count]))
        rest = located.slice(count).to_batches() if located is not None else [part[2] for part in self._waiting]
        self._waiting = [(positions[count:], stamps[count:], rest[0])] if len(positions) > count and rest else []
        if batch is not None and len(sane):
            self._tally.add(stamps[sane])
            chosen = batch if len(sane) == count else batch.take(pa.array(sane))
            self._record_bytes += int(np.sum(chosen.column("length").to_numpy()))
            identity = [pa.array(values) for values in (positions[sane], arrivals, stamps[sane])]
            yield pa.RecordBatch.from_arrays([*identity, *chosen.columns[3:]], schema=self.schema)

    def _add_jumps(self, batch: pa.RecordBatch, positions: NDArray[np.int64], jumps: NDArray[np.bool_]) -> None:
        for index in np.flatnonzero(jumps).tolist():
            offset, length, line = (batch.column(name)[index].as_py() for name in ("offset", "length", "line"))
            lined = None if self._options.kind == "parquet" else line
            self._bad.append(_Bad(int(positions[index]), offset, length, TIME_JUMP, lined))

    def _settle_bad(
        self, positions: NDArray[np.int64], arrivals: NDArray[np.int64], clock: int, before: int | None
    ) -> None:
        """Gives malformed records the clock at their place, as far as the records before them are judged."""
        self._bad.sort(key=lambda bad: bad.position)
        ready = list(itertools.takewhile(lambda bad: before is None or bad.position < before, self._bad))
        self._bad = self._bad[len(ready) :]
        at = np.searchsorted(positions, np.array([bad.position for bad in ready], np.int64))
        clocks = np.concatenate([[clock], arrivals])[at].tolist()
        self._rows += [(bad, int(value)) for bad, value in zip(ready, clocks, strict=True)]
        self._malformed_bytes += sum(bad.length for bad in ready)

    def _too_many(self) -> CaptureError:
        first = self._rows[0][0] if self._rows else self._bad[0]
        return CaptureError(
            f"{self._path}: more than {MOST_ROWS:,} malformed records, the first for {first.reason} at byte "
            f"{first.offset:,}",
            "check kind, separator and header of the link, and the PROTOCOL",
        )

    def _finish(
        self,
        size: int,
        compression: str,
        unpacked: DecompressedSource | None,
        overhead: int = 0,
        open_end: bool = False,
    ) -> None:
        """Records damage at the end, and computes the summary."""
        damage, skipped = (unpacked.damage, unpacked.skipped) if unpacked else ("", 0)
        cut = False
        if open_end and self._rows and self._rows[-1][0].position == self._position - 1:
            # A last record without an end of line that cannot be read was cut.
            last, arrival = self._rows[-1]
            self._rows[-1] = _Bad(last.position, last.offset, last.length, CUT, last.line), arrival
            cut = True
        if damage:
            self._rows.append((_Bad(self._position, size, skipped, COMPRESSION, None), self._tally.clock))
            self._malformed_bytes += skipped
        stored = self._path.stat().st_size
        interface = Interface(0, "", -1, self._options.layout.protocol, 0)
        self._tally.malformed = len(self._rows)
        self.summary = CaptureSummary(
            sha256=self._sha256,
            bytes=unpacked.stored if unpacked else stored,
            format=self._options.kind,
            interfaces=(self._tally.summary(interface),),
            record_bytes=self._record_bytes,
            overhead=overhead if self._options.kind != "parquet" else stored,
            ended_cleanly=not (cut or damage),
            largest_ahead=self._judge.largest_ahead,
            smallest_jump=self._judge.smallest_jump,
            compression=compression,
            unpacked=size if self._options.kind != "parquet" else stored,
            skipped=skipped,
            damage=damage,
        )
