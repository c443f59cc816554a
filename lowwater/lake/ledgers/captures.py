"""The ledger `captures`: what each link has, in the order of SEMANTICS T1, with the clocks between.

Written by ingest; read by coverage, the digest, the packet reader and status.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from lowwater.config import Link
from lowwater.lake.layout import CAPTURES, MALFORMED, Lake
from lowwater.lake.opened import made_of
from lowwater.lake.tables import append_rows, lake_errors, quote, read_rows, replace_rows

_KEY = ("link", "attempt")


@dataclass(frozen=True)
class Capture:
    """One row of the ledger; see `layout.CAPTURES` for the columns. Instants are ns since the epoch."""

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

    @property
    def declared(self) -> tuple[int, int] | None:
        """The declared coverage, or None."""
        if self.declared_from is None or self.declared_to is None:
            return None
        return self.declared_from, self.declared_to

    def claims(self, start: int, end: int) -> bool:
        """Whether it is declared to cover something of [start, end), ns."""
        return self.declared is not None and self.declared[0] < end and self.declared[1] > start

    @property
    def order(self) -> tuple[int, str, int]:
        """Key of the order of a link's captures (T1): declared start, else median, then sha256."""
        start = self.declared_from
        if start is None:
            start = self.covers_from if self.median is None else self.median
        return start, self.capture, self.covers_from

    def admits(self, link: Link) -> bool:
        """Whether the link's max_jump would flag the same records as when it was ingested (T3)."""
        ahead = self.largest_ahead or 0
        return ahead <= link.jump and (self.smallest_jump is None or link.jump < self.smallest_jump)

    def meets(self, start: int, end: int) -> bool:
        """Whether its range of records meets [start, end)."""
        return self.smallest is not None and self.largest is not None and self.smallest < end and self.largest >= start


class Captures(tuple[Capture, ...]):
    """The captures of a link in the order of T1, with what many intervals ask of them kept: a year has thousands."""

    @cached_property
    def clocks(self) -> list[int]:
        """The clock of the link before each capture (T7): the largest timestamp of those before it; 0 for none."""
        return list(accumulate((each.largest or 0 for each in self[:-1]), max, initial=0))[: len(self)]

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """The stretches [from, to), ns, that captures cover, in order and joined where they touch."""
        return self.joined(0)

    def joined(self, tolerance: int) -> list[tuple[int, int]]:
        """The same, joined over pauses of at most `tolerance`, ns, but those behind a cut or a growing capture."""
        if tolerance not in self._joined:
            stretches: list[tuple[int, int]] = []
            whole = False  # whether what ends the stretch so far ended as it should
            for each in sorted(self, key=lambda row: (row.covers_from, row.covers_to)):
                if each.covers_to <= each.covers_from:
                    continue
                ends_well = each.ended_cleanly and not each.growing
                if not stretches or each.covers_from > stretches[-1][1] + (tolerance if whole else 0):
                    stretches.append((each.covers_from, each.covers_to))
                    whole = ends_well
                elif each.covers_to > stretches[-1][1]:
                    stretches[-1] = stretches[-1][0], each.covers_to
                    whole = ends_well
            self._joined[tolerance] = stretches
        return self._joined[tolerance]

    @cached_property
    def ends_well(self) -> bool:
        """Whether the capture that covers the latest time is whole."""
        latest = max((each.covers_to for each in self), default=0)
        return any(each.covers_to == latest and each.ended_cleanly and not each.growing for each in self)

    @cached_property
    def _joined(self) -> dict[int, list[tuple[int, int]]]:
        return {}

    @cached_property
    def files(self) -> dict[str, str]:
        """Names of the files, by the short form of their digest."""
        return {short(each.capture): each.path.rpartition("/")[2] for each in self}

    def meeting(self, start: int, end: int) -> list[int]:
        """The places of those whose records meet [start, end), ns."""
        smallest, largest = self._records
        found: list[int] = np.flatnonzero((smallest < end) & (largest >= start)).tolist()
        return found

    @cached_property
    def _records(self) -> np.ndarray:
        never = (np.iinfo(np.int64).max, -1)  # of a capture without a sane record
        ranges = [
            never if each.smallest is None or each.largest is None else (each.smallest, each.largest) for each in self
        ]
        return np.array(ranges, np.int64).reshape(-1, 2).T

    @staticmethod
    def of(captures: Sequence[Capture]) -> Captures:
        """The captures as such a tuple; itself where it is one."""
        return captures if isinstance(captures, Captures) else Captures(captures)


def short(digest: str) -> str:
    """As much of a digest (hex) as tells two versions of one thing apart."""
    return digest[:16]


def read_captures(lake: Lake, links: Iterable[str]) -> dict[str, Captures]:
    """The captures of some links, each in the order of T1; a link without any has an empty tuple."""
    wanted = sorted(set(links))
    with lake_errors(f"{lake.captures}: the table cannot be read"):
        return dict(made_of(lake.captures, ("captures", *wanted), lambda _: _read_captures(lake, wanted)))


def _read_captures(lake: Lake, wanted: Sequence[str]) -> dict[str, Captures]:
    rows = read_rows(lake.captures, CAPTURES, pads.field("link").isin(pa.array(wanted, pa.string())))
    found: dict[str, list[Capture]] = {link: [] for link in wanted}
    # By columns, since a dictionary a row takes longer than all the rest.
    for values in zip(*(rows.column(each.name).to_pylist() for each in fields(Capture)), strict=True):
        capture = Capture(*values)
        found[capture.link].append(capture)
    return {link: Captures(sorted(captures, key=lambda each: each.order)) for link, captures in found.items()}


def ingested_links(lake: Lake) -> list[str]:
    """Names of the links that have captures."""
    names = read_rows(lake.captures, pa.schema([CAPTURES.field("link")]))
    return sorted(pc.unique(names["link"]).to_pylist())


def family_captures(lake: Lake, link: str) -> list[Capture]:
    """The captures of a link and of those of its interfaces, in no order."""
    ours = (pads.field("link") == link) | pc.starts_with(pads.field("link"), f"{link}/")
    return [Capture(**row) for row in read_rows(lake.captures, CAPTURES, ours).to_pylist()]


def interface_links(links: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The links that stand for those of their interfaces (T1): without captures of their own, among `links` that have.

    Example:
        >>> interface_links(["a/eth0", "a/eth1", "b", "b/eth0"])
        {'a': ('a/eth0', 'a/eth1')}
    """
    known = set(links)
    parents = {link.partition("/")[0] for link in known} - known
    return {
        parent: tuple(sorted(link for link in known if link.startswith(f"{parent}/"))) for parent in sorted(parents)
    }


def put_captures(lake: Lake, rows: Sequence[Capture], replaced: Sequence[Capture] = ()) -> None:
    """Writes rows in the place of others, in one commit."""
    both = [*rows, *replaced]
    links, attempts = (", ".join(quote(text) for text in sorted({getattr(row, name) for row in both})) for name in _KEY)
    columns = [pa.array([getattr(row, each.name) for row in rows], each.type) for each in CAPTURES]
    table = pa.Table.from_arrays(columns, schema=CAPTURES)
    # The rows satisfy the predicate by their own attempt, as Delta demands.
    replace_rows(lake.captures, table, f"link IN ({links}) AND attempt IN ({attempts})")


def put_malformed(lake: Lake, damage: pa.Table, links: Sequence[str], sha256: str, attempt: str) -> None:
    """Appends the malformed rows of a capture (schema `survey.DAMAGE`), each under the link of its interface.

    Args:
        lake: the open lake.
        damage: rows of the schema `survey.DAMAGE`.
        links: link of each interface of the capture, by the interface's number.
        sha256: digest of the capture, by which the ledger names it.
        attempt: name of the ingest attempt.
    """
    size = damage.num_rows
    known = {
        "link": pa.array(links, pa.string()).take(damage.column("interface")),
        "capture": pa.repeat(pa.scalar(sha256), size),
        "attempt": pa.repeat(pa.scalar(attempt), size),
    }
    columns = [known[name] if name in known else damage.column(name) for name in MALFORMED.names]
    append_rows(lake.malformed, pa.Table.from_arrays(columns, schema=MALFORMED))


def malformed_between(lake: Lake, link: str, captures: Sequence[Capture], start: int, end: int) -> pa.Table:
    """The malformed rows of a link that arrive in [start, end), ns (A1): capture by capture, in order of their offsets.

    One that no sane record of its capture precedes arrives at the clock before the capture, or, where there is none,
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
    ours = pads.field("attempt").isin(pa.array(list(begins), pa.string()))
    rows = read_rows(lake.malformed, MALFORMED, (pads.field("link") == link) & ours).sort_by("offset")
    found = [MALFORMED.empty_table()]
    for attempt, (before, first) in begins.items():
        mine = rows.filter(pc.equal(rows.column("attempt"), attempt))
        clock = pc.coalesce(mine.column("arrival"), pa.scalar(first, pa.int64()))
        clock = pc.max_element_wise(clock, pa.scalar(before, pa.int64()))
        found.append(mine.filter(pc.and_(pc.greater_equal(clock, start), pc.less(clock, end))))
    return pa.concat_tables(found)
