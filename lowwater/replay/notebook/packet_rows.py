"""Packets of a link as rows that people read: addresses as texts, instants as timestamps.

Between `lake.packets`, which has the stored columns, and `rows`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.capture.addresses import published
from lowwater.catalog.packets import ADDRESSES, COLUMNS, KEPT, READABLE, address_parts
from lowwater.catalog.types import Type
from lowwater.config import Config
from lowwater.errors import LakeError
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.packets import KEYS, read_packets
from lowwater.low.runtime.chunk_columns import addresses
from lowwater.plan.text import nearest
from lowwater.replay.notebook.rows import INSTANT
from lowwater.replay.packets.capture_export import require_frames
from lowwater.replay.packets.predicate import Predicate

INSTANTS = ("arrival", "timestamp")
MACS = ("srcMAC", "destMAC")

HEADERS = tuple(
    dict.fromkeys(
        [*KEYS, *(name.removesuffix("_hi") for name in COLUMNS.names if not name.endswith("_lo"))],
    )
)
"""Columns of packets where nobody names others."""
NAMED = (*HEADERS, *KEPT.names)
"""All columns of packets."""


@dataclass(frozen=True)
class PacketRows:
    """The packets of a link with a timestamp in [start, end), within its life, copies included.

    Attributes:
        lake: the lake.
        config: its settings.
        link: a link of packets with captures.
        start: first timestamp, ns since the epoch.
        end: end of the timestamps, ns, exclusive.
        predicate: selects packets.
        columns: columns of `NAMED`.
    """

    lake: Lake
    config: Config
    link: str
    start: int
    end: int
    predicate: Predicate
    columns: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        """Schema of the batches."""
        return pa.schema([pa.field(name, _type(name)) for name in self.columns])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the packets in the order of the link: by capture, then by position.

        Raises:
            LakeError: files of packets cannot be read, or a condition asks for payloads that are not stored.
        """
        captures = read_captures(self.lake, [self.link])[self.link]
        parts = [part for name in self.columns for part in address_parts(name) or (name,)]
        stored = [name for name in dict.fromkeys([*parts, *self.predicate.columns]) if name not in KEYS]
        settings = self.config.link(self.link)
        test = self.predicate.test(self.link)
        everything = self.predicate.member is None and self.predicate.condition is None
        for batch in read_packets(self.lake, self.link, captures, settings, self.start, self.start, self.end, stored):
            stamps = batch.column("timestamp")
            inside = batch.filter(pc.and_(pc.greater_equal(stamps, self.start), pc.less(stamps, self.end)))
            if inside.num_rows and not everything:
                if self.predicate.reads_payload:
                    require_frames(inside, self.link, "whose payload the condition asks for")
                inside = inside.filter(pa.array(test(inside)))
            if inside.num_rows:
                yield pa.RecordBatch.from_arrays([_shown(inside, name) for name in self.columns], schema=self.schema)


def packet_columns(names: Sequence[str]) -> tuple[str, ...]:
    """Returns the columns of packets that are asked for; `HEADERS` for none.

    Raises:
        LakeError: packets have no such column.
    """
    for name in names:
        if name not in NAMED:
            raise LakeError(
                f"packets have no column {name!r}",
                nearest(name, NAMED) or "docs/packets.md lists the stored columns; `where` takes all of a protocol",
            )
    return tuple(dict.fromkeys(names)) or HEADERS


def _type(name: str) -> pa.DataType:
    if name in INSTANTS:
        return INSTANT
    return pa.string() if name in ADDRESSES or name in MACS else READABLE.field(name).type


def _shown(batch: pa.RecordBatch, name: str) -> pa.Array:
    """Returns a column of packets as people read it."""
    if name in ADDRESSES:
        words = [batch.column(part) for part in address_parts(name)]
        null = np.logical_or.reduce([word.is_null().to_numpy(zero_copy_only=False) for word in words])
        family, high, low = (word.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64) for word in words)
        return published(addresses(family, high, low, null), Type.IP)
    column = batch.column(name)
    return published(column, Type.MAC) if name in MACS else column.cast(_type(name))
