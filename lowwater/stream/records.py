"""Turns stored packets into records of virtual time, the input of the reference engine.

Reads batches of `packets/`; `reference.engine` takes the records, merged over all links by arrival.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from lowwater.catalog.expr import Column, Expr, columns_of
from lowwater.catalog.schemas import FRAME, PAYLOAD, SAMPLING_RATE, THINNED_BY, address_parts
from lowwater.catalog.values import ip_from_words
from lowwater.errors import LawError
from lowwater.plan.operators import Node, Sample, Source, walk
from lowwater.stream.operators import Promise, Row, StreamOperator
from lowwater.stream.values import Faults, Value, Values, compile_predicate


class Record(NamedTuple):
    """One record of a link."""

    arrival: int  # virtual time, ns (SEMANTICS T2)
    link: str
    timestamp: int  # ns since the epoch
    values: Values  # values of the requested columns, in that order


def merge(packets: Mapping[str, Iterable[pa.RecordBatch]], columns: Mapping[str, Sequence[str]]) -> Iterator[Record]:
    """Merges the records of all links by (arrival, link); each link stays in its own order.
    Raises LawError if the records of a link are not in order of arrival.

    Args:
        packets: link -> batches of `catalog.schemas.RECORD` in canonical order, arrival absolute.
        columns: link -> columns to read; other links are not read.
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


# Sampling and shedding (SEMANTICS O5). The decision depends on the packet, the seed and the rate of the query, and the
# number of packets of the protocol in the same second on the link. Nothing that differs between runs takes part.

SECOND = 1_000_000_000
KEPT, SAMPLED_OUT, SHED = "kept", "sampled_out", "shed"

Packet = tuple[int, int, int]
"""Timestamp (ns), length on the wire, digest of the beginning of the frame."""

_WORD = (1 << 64) - 1


def chance(key: int, packet: Packet) -> float:
    """The random number in [0, 1) of a packet, by SplitMix64 over its words; it is kept at higher rates."""
    mixed = key
    for word in packet:
        mixed ^= word & _WORD
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _WORD
        mixed ^= mixed >> 31
    return (mixed >> 11) * 2.0**-53


def key_of(seed: int, link: str) -> int:
    """The first word of the hash, from the seed of the query and the name of the link."""
    return int.from_bytes(hashlib.blake2b(f"{seed}\0{link}".encode(), digest_size=8).digest(), "big")


@dataclass(frozen=True)
class PacketSampling:
    """The packets that a source takes from one link."""

    key: int  # result of `key_of`
    rate: float  # sampling rate, 0 to 1; 1 without sampling
    shares: Mapping[int, float]  # second -> share of the sampled packets that load shedding keeps; 1 for other seconds

    @staticmethod
    def of(sample: Sample | None, link: str, budget: int | None, packets: Iterable[Packet]) -> PacketSampling:
        """Computes the sampling and load shedding of a link.

        Args:
            sample: sampling clause of the source; None without one.
            budget: most packets of a second; None for all.
            packets: all admitted packets of the protocol in whole seconds; only read with a budget.
        """
        key, rate = key_of(sample.seed if sample else 0, link), sample.rate if sample else 1.0
        if budget is None:
            return PacketSampling(key, rate, {})
        counts = Counter(packet[0] // SECOND for packet in packets if chance(key, packet) < rate)
        return PacketSampling(key, rate, {second: min(1.0, budget / count) for second, count in counts.items()})

    def outcome(self, packet: Packet) -> tuple[str, float]:
        """The outcome of a packet, and the effective sampling rate."""
        draw, rate = chance(self.key, packet), self.rate * self.shares.get(packet[0] // SECOND, 1.0)
        return (KEPT if draw < rate else SHED if draw < self.rate else SAMPLED_OUT), rate


PacketSamplings = Mapping[tuple[str, str], PacketSampling]
"""(`query.alias`, link) -> what the source takes of it, where that is not all."""


def packet_of(timestamp: int, values: Values, names: Sequence[str]) -> Packet:
    """The properties of a record that sampling hashes."""
    length, head = (values[names.index(name)] for name in THINNED_BY)
    assert isinstance(length, int) and isinstance(head, int)
    return timestamp, length, head


def packet_samplings(
    node: Node,
    packets: Mapping[str, Iterable[pa.RecordBatch]],
    skews: Mapping[str, int],
    budgets: Mapping[str, int],
) -> PacketSamplings:
    """Computes sampling and load shedding for the sources of a plan; sources that take every packet are left out.

    Args:
        packets: link -> batches, to be read more than once where load is shed; they hold whole seconds.
        skews: the skews of the links, ns.
        budgets: link -> most packets of a second that a source takes, of links with load shedding.
    """
    source_thinnings: dict[tuple[str, str], PacketSampling] = {}
    for source in walk(node):
        for link in source.links if isinstance(source, Source) else ():
            assert isinstance(source, Source)
            budget = budgets.get(link)
            if source.sample is not None or budget is not None:
                counted = _admitted(source, link, packets, skews[link]) if budget is not None else ()
                source_thinnings[f"{source.query}.{source.alias}", link] = PacketSampling.of(
                    source.sample, link, budget, counted
                )
    return source_thinnings


def _admitted(
    source: Source, link: str, packets: Mapping[str, Iterable[pa.RecordBatch]], skew: int
) -> Iterator[Packet]:
    names = list(dict.fromkeys([*columns_of(source.member), *THINNED_BY]))
    member = compile_predicate(source.member, names, Faults())
    for record in merge(packets, {link: names}):
        if record.arrival - record.timestamp <= skew and member(record.values):
            yield packet_of(record.timestamp, record.values, names)


# The source operator


@dataclass
class SourceCount:
    """Accounting of one source on one link (SEMANTICS A1): records of the interval, by outcome."""

    source: str  # `query.alias`
    link: str
    sane: int = 0  # records within the skew, by timestamp; by arrival in a plan evaluated by arrival
    not_of_protocol: int = 0
    sampled_out: int = 0  # records left out by sampling (O5)
    shed: int = 0  # records left out by load shedding (O5)
    filtered: int = 0  # records for which the predicate directly above the source is not true
    failed: int = 0  # the same, where a V2 failure took part
    violating: int = 0  # records later than the skew, by arrival

    @property
    def accepted(self) -> int:
        return self.sane - self.not_of_protocol - self.sampled_out - self.shed - self.filtered - self.failed


class SourceOperator(StreamOperator):
    """The packets of one protocol; a port per link.

    Attributes:
        name: `query.alias`.
        links: names of the links, one for each port.
        names: columns of the incoming rows: the fields, then further columns of the protocol's predicate.
        read_from: first timestamp that is read, ns (SEMANTICS I2).
        charged: accounting of the present row; a separate one for rows that no interval owns.
    """

    def __init__(
        self,
        node: Source,
        names: Sequence[str],
        read_from: int,
        owned: range,
        packet_samplings: Sequence[PacketSampling | None],
    ) -> None:
        super().__init__(len(node.links))
        self.name = f"{node.query}.{node.alias}"
        self.links = node.links
        self.names = names
        self.read_from = read_from
        self.counts = [SourceCount(self.name, link) for link in node.links]
        self.charged = self._nobody = SourceCount("", "")
        self.groupwise = tuple(Column(f.type, f.name) for f in node.fields if f.name == node.group)
        self._owned = owned
        self._width = len(node.fields)
        self._member = compile_predicate(node.member, names, Faults())
        self._samplings = packet_samplings
        self._rate = names.index(SAMPLING_RATE) if SAMPLING_RATE in names else None

    def row(self, port: int, row: Row) -> None:
        """Takes an admitted record of the link of a port."""
        self.charged = self.counts[port] if row.last in self._owned else self._nobody
        self.charged.sane += 1
        if not self._member(row.values):
            self.charged.not_of_protocol += 1
            return
        outcome, rate = self._outcome(port, row)
        if outcome == SAMPLED_OUT:
            self.charged.sampled_out += 1
        elif outcome == SHED:
            self.charged.shed += 1
        else:
            values = list(row.values[: self._width])
            if self._rate is not None:
                values[self._rate] = rate
            self.emit(row._replace(values=tuple(values)))

    def _outcome(self, port: int, row: Row) -> tuple[str, float]:
        thinning = self._samplings[port]
        return (KEPT, 1.0) if thinning is None else thinning.outcome(packet_of(row.order[0], row.values, self.names))

    def violation(self, port: int, arrival: int) -> None:
        """Counts a record later than the skew of its link."""
        self.counts[port].violating += arrival in self._owned

    def announce(self, promise: Promise) -> None:
        """Passes on a promise about all links of the source together."""
        self.emit(promise)


class Filter:
    """A predicate; rows that it drops directly above a source are counted there."""

    def __init__(self, predicate: Expr | None, names: Sequence[str], below: StreamOperator) -> None:
        self._faults = Faults()
        self._test = compile_predicate(predicate, names, self._faults)
        self._source = below if isinstance(below, SourceOperator) else None

    def passes(self, values: Values) -> bool:
        """Whether the predicate is true for a row."""
        before = self._faults.count
        if self._test(values):
            return True
        if self._source:
            failed = self._faults.count > before
            self._source.charged.failed += failed
            self._source.charged.filtered += not failed
        return False
