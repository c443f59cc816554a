"""Parses text logs whose header lines say which columns the records below them have.

Between `blocks` and `reader`. A log may have several headers: of files that were joined, or of a tool that started
again. A record is read by the header above it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.capture.formats.sources import Source
from lowwater.capture.tables.blocks import Block, TextBlocks
from lowwater.capture.tables.logs.flows import with_ends
from lowwater.capture.tables.pieces import ENCODING, LONG, Piece, Places, Refusals, make_piece
from lowwater.capture.tables.splitting import Splitter
from lowwater.catalog.records import RecordField, RecordLayout
from lowwater.errors import CaptureError

MOST_SECTIONS = 1000
"""Most different headers of a file. A log has one; a hostile file would make a section of every line."""

MOST_COLUMNS = 4096
"""Most columns of a header."""


@dataclass(frozen=True)
class Section:
    """How the records below a header are read.

    Attributes:
        splitter: splits them.
        places: for each field of the layout, its place among the values that the splitter gives; -1 for no value.
        lists: separator of the elements of sets and vectors.
        empty: text of an empty value; empty for none.
        left_out: name of the type of its records, where they are left out; empty where they are read.
    """

    splitter: Splitter
    places: tuple[int, ...]
    lists: str = ","
    empty: str = ""
    left_out: str = ""


@dataclass(frozen=True)
class Run:
    """Consecutive records of a block.

    Attributes:
        begin: index of the first record.
        end: index behind the last record.
        section: how they are read; None for lines that are no records.
    """

    begin: int
    end: int
    section: Section | None


class SectionedParser(ABC):
    """Parses a log with header lines; iterate it once.

    Args:
        path: path of the file, for messages.
        source: its decompressed bytes.
        layout: the fields, by name.
        damaged: as for `TextBlocks`.

    Attributes:
        blocks: the blocks of the file.
        overhead: 0; a piece counts the bytes of its lines that are no records.

    Raises:
        CaptureError: a header cannot be read, or records come before the first header.
    """

    overhead = 0

    def __init__(self, path: Path, source: Source, layout: RecordLayout, damaged: Callable[[], bool]) -> None:
        self.blocks = TextBlocks(source, damaged=damaged)
        self._path, self._layout = path, layout
        self._section: Section | None = None
        self._headers: dict[object, Section] = {}

    def __iter__(self) -> Iterator[Callable[[], Piece]]:
        """Yields the work on each block, in order; headers are read here, since a block depends on those before it."""
        for block in self.blocks:
            yield partial(self.piece, block, self.runs(block))

    @abstractmethod
    def marks(self, block: Block) -> NDArray[np.int64]:
        """Returns the indices of the lines that may be no records, ascending."""

    @abstractmethod
    def head(self, line: bytes) -> bool:
        """Reads a line that may be no record, and changes the section. Returns whether it is a record after all."""

    @abstractmethod
    def no_header(self, line: bytes) -> CaptureError:
        """Returns the error for a first record without a header above it."""

    def values(self, section: Section, fields: tuple[RecordField, ...], raw: list[pa.Array]) -> list[pa.Array]:
        """Returns the texts of the fields of a section without the signs of its format."""
        return raw

    def runs(self, block: Block) -> list[Run]:
        """Divides a block into runs of records of one section; the call for a block comes after that for the last."""
        runs: list[Run] = []
        begin = 0
        for mark in self.marks(block).tolist():
            before = self._section
            if self.head(block.record(mark)):
                continue
            self._add(runs, block, begin, mark, before)
            runs.append(Run(mark, mark + 1, None))
            begin = mark + 1
        self._add(runs, block, begin, len(block), self._section)
        return runs

    def _add(self, runs: list[Run], block: Block, begin: int, end: int, section: Section | None) -> None:
        if begin == end:
            return
        if section is None:
            raise self.no_header(block.record(begin))
        runs.append(Run(begin, end, section))

    def piece(self, block: Block, runs: list[Run]) -> Piece:
        """Parses the records of a block.

        Args:
            block: the block.
            runs: what `runs` gives for it.
        """
        places = Places(block.offset + block.begins, block.ends - block.begins, block.lines)
        refusals = Refusals(len(block))
        read = np.zeros(len(block), np.bool_)
        sections: dict[Section, list[NDArray[np.int64]]] = {}
        left_out: Counter[str] = Counter()
        for run in runs:
            if run.section is None:
                continue
            if run.section.left_out:
                left_out[run.section.left_out] += run.end - run.begin
                continue
            read[run.begin : run.end] = True
            sections.setdefault(run.section, []).append(np.arange(run.begin, run.end))
        refusals.add(np.flatnonzero(block.long & read), LONG)
        odd = block.no_utf8()
        refusals.add(odd[read[odd]], ENCODING)
        parts = [self._split(block, section, np.concatenate(found), refusals) for section, found in sections.items()]
        indices = np.concatenate([np.empty(0, np.int64), *(found for found, _ in parts)])
        raw = [_joined([columns[at] for _, columns in parts]) for at in range(len(self._layout.fields))]
        order = np.argsort(indices, kind="stable")
        if len(parts) > 1:
            indices, raw = indices[order], [values.take(pa.array(order)) for values in raw]
        piece = make_piece(self._layout, places, indices, with_ends(self._layout, raw), refusals)
        overhead = int(places.lengths[~read].sum())
        return replace(piece, left_out=tuple(left_out.items()), overhead=overhead)

    def _split(
        self, block: Block, section: Section, records: NDArray[np.int64], refusals: Refusals
    ) -> tuple[NDArray[np.int64], list[pa.Array]]:
        whole = records[refusals.codes[records] == 0]
        indices, values = section.splitter.split(block, whole, 0, refusals)
        raw = [
            values[at].cast(pa.string()) if at >= 0 else pa.nulls(len(indices), pa.string()) for at in section.places
        ]
        return indices, self.values(section, self._layout.fields, raw)

    def section_of(self, names: list[str], key: object, made: Section) -> Section:
        """Returns the section of a header, with the places of the fields.

        Args:
            names: names of the columns.
            key: what a header must have in common to be the same one.
            made: the section without width, chosen columns and places.

        Raises:
            CaptureError: too many columns or headers, or the file lacks the clock.
        """
        if key in self._headers:
            return self._headers[key]
        if len(names) > MOST_COLUMNS or len(self._headers) == MOST_SECTIONS:
            many = f"{len(names):,} columns" if len(names) > MOST_COLUMNS else f"{MOST_SECTIONS:,} different headers"
            raise CaptureError(f"{self._path}: has {many}, which no log has", "check kind of the link")
        chosen: dict[int, int] = {}
        places = []
        for field in self._layout.fields:
            found = next((name for path in (field.path, *field.others) if (name := ".".join(path)) in names), None)
            if found is None:
                places.append(-1)
                self._require(field, names, made)
            else:
                places.append(chosen.setdefault(names.index(found), len(chosen)))
        splitter = replace(made.splitter, width=len(names), chosen=tuple(chosen) or (0,))
        self._headers[key] = replace(made, splitter=splitter, places=tuple(places))
        return self._headers[key]

    def _require(self, field: RecordField, names: list[str], made: Section) -> None:
        if field.stored == self._layout.clock and not made.left_out:
            raise CaptureError(
                f"{self._path}: has no column {'.'.join(field.path)!r}, the clock of {self._layout.protocol}",
                f"its columns are: {', '.join(names)}"[:500],
            )


def _joined(columns: list[pa.Array]) -> pa.Array:
    return pa.concat_arrays(columns) if columns else pa.nulls(0, pa.string())
