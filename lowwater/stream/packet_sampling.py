"""Sampling and load shedding of packets, one at a time (SEMANTICS O5).

The decision depends on the packet, the seed and the rate of the query, and the number of packets of the protocol in the
same second on the link. Nothing that differs between runs takes part.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lowwater.catalog.expr import columns_of
from lowwater.catalog.packets import THINNED_BY
from lowwater.plan.operators import Node, Sample, Source
from lowwater.plan.tree import walk
from lowwater.stream.records import merge
from lowwater.stream.values import Faults, Values, compile_predicate

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
    """The packets that a source takes from one link.

    Attributes:
        key: result of `key_of`.
        rate: sampling rate, 0 to 1; 1 without sampling.
        shares: second -> share of the sampled packets that load shedding keeps; 1 for other seconds.
    """

    key: int
    rate: float
    shares: Mapping[int, float]

    @staticmethod
    def of(sample: Sample | None, link: str, budget: int | None, packets: Iterable[Packet]) -> PacketSampling:
        """Computes the sampling and load shedding of a link.

        Args:
            sample: sampling clause of the source; None without one.
            link: name of the link.
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
        node: logical plan.
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
