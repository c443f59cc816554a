"""Turns stored packets into records of virtual time, the input of the reference engine.

Reads batches of `packets/`; `reference.engine` takes the records, merged over all links by arrival.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from lowwater.catalog.packets import FRAME, PAYLOAD, SAMPLING_RATE, address_parts
from lowwater.catalog.values import ip_from_words
from lowwater.errors import LawError
from lowwater.stream.values import Value, Values


class Record(NamedTuple):
    """One record of a link.

    Attributes:
        arrival: virtual time, ns (SEMANTICS T2).
        link: name of the link.
        timestamp: ns since the epoch.
        values: values of the requested columns, in that order.
    """

    arrival: int
    link: str
    timestamp: int
    values: Values


def merge(packets: Mapping[str, Iterable[pa.RecordBatch]], columns: Mapping[str, Sequence[str]]) -> Iterator[Record]:
    """Merges the records of all links by (arrival, link); each link stays in its own order.

    Args:
        packets: link -> batches of `catalog.packets.RECORD` in canonical order, arrival absolute.
        columns: link -> columns to read; other links are not read.

    Raises:
        LawError: the records of a link are not in order of arrival.
    """
    feeds = [_records(link, packets.get(link, ()), names) for link, names in sorted(columns.items())]
    return heapq.merge(*feeds, key=lambda record: (record.arrival, record.link))


def _records(link: str, batches: Iterable[pa.RecordBatch], names: Sequence[str]) -> Iterator[Record]:
    clock = 0
    for batch in batches:
        columns = [_column(batch, name, link) for name in names]
        rows = zip(*columns, strict=True) if columns else iter([()] * batch.num_rows)
        stamps, arrivals = batch["timestamp"].to_pylist(), batch["arrival"].to_pylist()
        for arrival, stamp, values in zip(arrivals, stamps, rows, strict=True):
            if arrival < max(clock, stamp):
                message = f"link {link}: the record of {stamp} ns arrives at {arrival} ns, the clock is at {clock} ns"
                raise LawError(message, "read the captures in canonical order, arrivals carried from one to the next")
            clock = arrival
            yield Record(arrival, link, stamp, values)


def _column(batch: pa.RecordBatch, name: str, link: str) -> list[Value]:
    if name == "interface":
        return [link] * batch.num_rows
    if name == SAMPLING_RATE:
        return [None] * batch.num_rows  # the source says it
    if name == PAYLOAD:
        parts = zip(*(batch[part].to_pylist() for part in (FRAME, "payload_offset", "payload_length")), strict=True)
        return [_payload(*part) for part in parts]
    if not (names := address_parts(name)):
        stored: list[Value] = batch[name].to_pylist()
        return stored
    words = [batch[part].to_pylist() for part in names]
    return [None if None in parts else ip_from_words(*parts) for parts in zip(*words, strict=True)]


def _payload(frame: bytes | None, offset: int | None, length: int | None) -> str | None:
    """The stored part of a payload, one character for each byte."""
    if frame is None or offset is None:
        return None
    available = len(frame) - offset
    size = max(available if length is None else min(length, available), 0)
    return "".join(map(chr, frame[offset : offset + size]))
