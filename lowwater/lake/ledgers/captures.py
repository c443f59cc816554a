"""The ledger `captures`: captures of every link, in the order of SEMANTICS T1, with the clocks between them.

Written by ingest; read by coverage, the digest, the packet reader and status.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import accumulate
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.config import Link
from lowwater.lake.datasets import pads
from lowwater.lake.layout import CAPTURES, MALFORMED, Lake
from lowwater.lake.opened import cached_value
from lowwater.lake.tables import append_rows, files_dataset, lake_errors, quote, read_rows, replace_rows

if TYPE_CHECKING:
    from deltalake import DeltaTable

_KEY = ("link", "attempt")
_SHOWN_TYPES = 6


def left_out_words(counts: Mapping[str, int]) -> str:
    """Returns the records of other types as a text; empty if there are none.

    Example:
        >>> left_out_words({"alert": 3, "flow": 1200})
        'records of other types are left out: flow 1,200, alert 3'
    """
    types = sorted(counts, key=lambda name: (-counts[name], name))
    words = [f"{name} {counts[name]:,}" for name in types[:_SHOWN_TYPES]]
    if len(types) > _SHOWN_TYPES:
        words.append(f"{len(types) - _SHOWN_TYPES} more types {sum(counts[name] for name in types[_SHOWN_TYPES:]):,}")
    return f"records of other types are left out: {', '.join(words)}" if words else ""


@dataclass(frozen=True, slots=True)
class Capture:
    """A row of the ledger; see `layout.CAPTURES` for the columns. Instants are ns since the epoch.

    A year of 30 links has a quarter of a million of them: with a dictionary each would take two kilobytes more.
    """

    link: str
    capture: str
    path: str
    bytes: int
    format: str
    link_type: str
    packets: int
    undecoded: int
    malformed: int
    first: int | None
    last: int | None
    smallest: int | None
    largest: int | None
    median: int | None
    covers_from: int
    covers_to: int
    declared_from: int | None
    declared_to: int | None
    ended_cleanly: bool
    largest_ahead: int | None
    smallest_jump: int | None
    decoder_version: int
    ingested_at: int
    attempt: str
    interface: str | None = None
    interfaces: int | None = None
    growing: bool | None = None
    compression: str | None = None
    record_bytes: int | None = None
    overhead: int | None = None
    unpacked: int | None = None
    skipped: int | None = None
    kept: str | None = None
    key: str | None = None
    early: int | None = None
    late: int | None = None
    by_hand: bool | None = None
    left_out: str | None = None

    @property
    def left_out_counts(self) -> dict[str, int]:
        """In the log of a tool, the number of the records of each other type."""
        counts: dict[str, int] = json.loads(self.left_out or "{}")
        return counts

    @property
    def declared(self) -> tuple[int, int] | None:
        """Declared coverage [from, to), ns; None without a declaration."""
        if self.declared_from is None or self.declared_to is None:
            return None
        return self.declared_from, self.declared_to

    def claims(self, start: int, end: int) -> bool:
        """Whether its declared coverage meets [start, end), ns."""
        return self.declared is not None and self.declared[0] < end and self.declared[1] > start

    @property
    def order(self) -> tuple[int, str, int]:
        """Sort key of a link's captures (T1): declared start, else median, then sha256."""
        start = self.declared_from
        if start is None:
            start = self.covers_from if self.median is None else self.median
        return start, self.capture, self.covers_from

    def admits(self, link: Link) -> bool:
        """Whether the current max_jump flags the same records as at ingest (T3)."""
        ahead = self.largest_ahead or 0
        return ahead <= link.jump and (self.smallest_jump is None or link.jump < self.smallest_jump)

    def meets(self, start: int, end: int) -> bool:
        """Whether the time range of its records meets [start, end), ns."""
        return self.smallest is not None and self.largest is not None and self.smallest < end and self.largest >= start


class Captures(tuple[Capture, ...]):
    """Captures of a link in the order of T1; caches what many intervals ask, since a year has thousands of captures."""

    @cached_property
    def clocks(self) -> list[int]:
        """Clock of the link before every capture (T7): the largest timestamp of earlier captures, ns; 0 without one."""
        return list(accumulate((capture.largest or 0 for capture in self[:-1]), max, initial=0))[: len(self)]

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """Covered ranges [from, to), ns, in order, joined where they touch."""
        return self.joined(0)

    def joined(self, tolerance: int) -> list[tuple[int, int]]:
        """Covered ranges, joined over pauses of at most `tolerance`, ns, but not after a cut or growing capture."""
        if tolerance not in self._joined:
            stretches: list[tuple[int, int]] = []
            ended_well = False  # whether the capture at the end of the last range ended cleanly
            for capture in sorted(self, key=lambda row: (row.covers_from, row.covers_to)):
                if capture.covers_to <= capture.covers_from:
                    continue
                ends_well = capture.ended_cleanly and not capture.growing
                if not stretches or capture.covers_from > stretches[-1][1] + (tolerance if ended_well else 0):
                    stretches.append((capture.covers_from, capture.covers_to))
                    ended_well = ends_well
                elif capture.covers_to > stretches[-1][1]:
                    stretches[-1] = stretches[-1][0], capture.covers_to
                    ended_well = ends_well
            self._joined[tolerance] = stretches
        return self._joined[tolerance]

    @cached_property
    def end(self) -> int | None:
        """End of the latest coverage, ns; None without a capture."""
        return max((capture.covers_to for capture in self), default=None)

    @cached_property
    def ends_well(self) -> bool:
        """Whether the capture with the latest coverage is whole."""
        latest = self.end or 0
        return any(capture.covers_to == latest and capture.ended_cleanly and not capture.growing for capture in self)

    @cached_property
    def _joined(self) -> dict[int, list[tuple[int, int]]]:
        return {}

    @cached_property
    def files(self) -> dict[str, str]:
        """Names of the files, by the short form of their digest."""
        return {short(capture.capture): capture.path.rpartition("/")[2] for capture in self}

    def meeting(self, start: int, end: int) -> list[int]:
        """Returns the indices of captures whose records meet [start, end), ns."""
        smallest, largest = self._records
        places: list[int] = np.flatnonzero((smallest < end) & (largest >= start)).tolist()
        return places

    def covering(self, start: int, end: int) -> list[int]:
        """Returns the indices of captures whose coverage, or records, meet [start, end), ns."""
        covers_from, covers_to = self._coverage
        smallest, largest = self._records
        covers = (covers_from < end) & (covers_to > start)
        places: list[int] = np.flatnonzero(covers | ((smallest < end) & (largest >= start))).tolist()
        return places

    @cached_property
    def _coverage(self) -> np.ndarray:
        return np.array([(capture.covers_from, capture.covers_to) for capture in self], np.int64).reshape(-1, 2).T

    @cached_property
    def _records(self) -> np.ndarray:
        never = (np.iinfo(np.int64).max, -1)  # of a capture without a sane record
        ranges = [
            never if capture.smallest is None or capture.largest is None else (capture.smallest, capture.largest)
            for capture in self
        ]
        return np.array(ranges, np.int64).reshape(-1, 2).T

    @staticmethod
    def of(captures: Sequence[Capture]) -> Captures:
        """Wraps captures; returns the same object if it is one already."""
        return captures if isinstance(captures, Captures) else Captures(captures)


def short(digest: str) -> str:
    """Returns enough hex digits of a digest to tell two versions of a thing apart."""
    return digest[:16]


def read_captures(lake: Lake, links: Iterable[str]) -> dict[str, Captures]:
    """Reads the captures of some links, by link, in the order of T1; an empty tuple for a link without captures.

    A link is read again only if files of it have come or gone.
    """
    with lake_errors(f"{lake.captures}: the table cannot be read"):
        known = cached_value(lake.captures, "capture files", _files_by_link)
        return {link: _link_captures(lake, link, known.get(link, ())) for link in sorted(set(links))}


def _files_by_link(table: DeltaTable | None) -> dict[str, tuple[str, ...]]:
    if table is None:
        return {}
    files = pa.table(table.get_add_actions(flatten=True))
    if not files.num_rows:
        return {}
    by_link: dict[str, list[str]] = {}
    for link, name in zip(files.column("partition.link").to_pylist(), files.column("path").to_pylist(), strict=True):
        by_link.setdefault(link, []).append(name)
    return {link: tuple(sorted(names)) for link, names in by_link.items()}


_READ: OrderedDict[tuple[PurePath, str], tuple[tuple[str, ...], Captures]] = OrderedDict()
_READ_LOCK = threading.Lock()
MOST_LINKS = 512
"""Links whose captures are kept, of all lakes of the process."""


def _link_captures(lake: Lake, link: str, files: tuple[str, ...]) -> Captures:
    place = lake.captures, link
    with _READ_LOCK:
        kept = _READ.get(place)
    if kept is not None and kept[0] == files:  # names of files are unique
        return kept[1]
    dataset = files_dataset(lake.captures, [(name, pads.field("link") == link) for name in files], CAPTURES)
    rows = dataset.to_table()
    # Read by column: a dictionary for every row takes longer than everything else.
    pool: dict[int, int] = {}  # the instants of a capture are often equal
    columns = (_values(rows.column(column.name), pool) for column in fields(Capture))
    captures = Captures(sorted((Capture(*values) for values in zip(*columns, strict=True)), key=lambda row: row.order))
    with _READ_LOCK:
        _READ[place] = files, captures
        _READ.move_to_end(place)
        while len(_READ) > MOST_LINKS:
            _READ.popitem(last=False)
    return captures


def _values(column: pa.ChunkedArray, pool: dict[int, int]) -> list[Any]:
    """Returns the values of a column; equal texts, such as formats, and equal numbers are one object."""
    if not pa.types.is_string(column.type):
        return [pool.setdefault(value, value) if type(value) is int else value for value in column.to_pylist()]
    coded = column.combine_chunks().dictionary_encode()
    texts = [*coded.dictionary.to_pylist(), None]
    return [texts[at] for at in coded.indices.fill_null(len(texts) - 1).to_pylist()]


def ingested_links(lake: Lake) -> list[str]:
    """Names of the links with captures."""
    names = read_rows(lake.captures, pa.schema([CAPTURES.field("link")]))
    return sorted(pc.unique(names["link"]).to_pylist())


def family_captures(lake: Lake, link: str) -> list[Capture]:
    """Reads the captures of a link and of its interfaces, in no order."""
    of_family = (pads.field("link") == link) | pc.starts_with(pads.field("link"), f"{link}/")
    return [Capture(**row) for row in read_rows(lake.captures, CAPTURES, of_family).to_pylist()]


def interface_links(links: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Finds links that stand for their interfaces (T1): they have no captures, but links below them are in `links`.

    Example:
        >>> interface_links(["a/eth0", "a/eth1", "b", "b/eth0"])
        {'a': ('a/eth0', 'a/eth1')}
    """
    names = set(links)
    parents = {link.partition("/")[0] for link in names} - names
    return {
        parent: tuple(sorted(link for link in names if link.startswith(f"{parent}/"))) for parent in sorted(parents)
    }


def put_captures(lake: Lake, rows: Sequence[Capture], replaced: Sequence[Capture] = ()) -> None:
    """Writes ledger rows in the place of others, in one commit."""
    both = [*rows, *replaced]
    links, attempts = (", ".join(quote(text) for text in sorted({getattr(row, name) for row in both})) for name in _KEY)
    columns = [pa.array([getattr(row, column.name) for row in rows], column.type) for column in CAPTURES]
    table = pa.Table.from_arrays(columns, schema=CAPTURES)
    # The rows satisfy the predicate by their own attempt, as Delta demands.
    replace_rows(lake.captures, table, f"link IN ({links}) AND attempt IN ({attempts})", lake.fence)


def put_malformed(lake: Lake, damage: pa.Table, links: Sequence[str], sha256: str, attempt: str) -> None:
    """Appends the malformed rows of a capture, under the links of their interfaces.

    Args:
        lake: the open lake.
        damage: rows of the schema `survey.DAMAGE`, or `capture.tables.reader.DAMAGE`.
        links: links of the interfaces, by interface number.
        sha256: digest of the capture, its name in the ledger.
        attempt: name of the ingest attempt.
    """
    size = damage.num_rows
    constants = {
        "link": pa.array(links, pa.string()).take(damage.column("interface")),
        "capture": pa.repeat(pa.scalar(sha256), size),
        "attempt": pa.repeat(pa.scalar(attempt), size),
    }
    if "line" not in damage.schema.names:
        constants["line"] = pa.nulls(size, pa.int64())
    columns = [constants[name] if name in constants else damage.column(name) for name in MALFORMED.names]
    append_rows(lake.malformed, pa.Table.from_arrays(columns, schema=MALFORMED), lake.fence)


def malformed_between(lake: Lake, link: str, captures: Sequence[Capture], start: int, end: int) -> pa.Table:
    """Reads the malformed rows of a link that arrive in [start, end), ns (A1), by capture and offset.

    A row before the first sane record of its capture arrives at the clock before the capture. Without one, it arrives
    at the beginning of the capture.

    Args:
        lake: the open lake.
        link: name of the link.
        captures: ledger rows of the link, in the order of T1.
        start: first instant of arrival, ns since the epoch.
        end: end of the arrivals, ns, exclusive.
    """
    begins: dict[str, tuple[int, int]] = {}
    for capture, before in zip(captures, Captures.of(captures).clocks, strict=True):
        first = before or (capture.covers_from if capture.first is None else capture.first)
        if capture.malformed and first < end and max(first, capture.largest or 0) >= start:
            begins[capture.attempt] = before, first
    of_captures = pads.field("attempt").isin(pa.array(list(begins), pa.string()))
    rows = read_rows(lake.malformed, MALFORMED, (pads.field("link") == link) & of_captures).sort_by("offset")
    tables = [MALFORMED.empty_table()]
    for attempt, (before, first) in begins.items():
        capture_rows = rows.filter(pc.equal(rows.column("attempt"), attempt))
        clock = pc.coalesce(capture_rows.column("arrival"), pa.scalar(first, pa.int64()))
        clock = pc.max_element_wise(clock, pa.scalar(before, pa.int64()))
        tables.append(capture_rows.filter(pc.and_(pc.greater_equal(clock, start), pc.less(clock, end))))
    return pa.concat_tables(tables)
