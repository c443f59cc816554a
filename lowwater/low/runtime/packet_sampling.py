"""Sampling and load shedding of the packets of a link (SEMANTICS O5).

Before the kernels of `low.run`. A decision depends on the packet, on the seed and rate of the query, and on the number
of packets of the protocol in its second. It does not depend on chunks, tables or runs.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lowwater.low.code.row_buffers import Int64Array
from lowwater.plan.operators import Sample

SECOND = 1_000_000_000

Rates = npt.NDArray[np.float64]


def chances(key: int, *words: npt.NDArray[np.integer]) -> Rates:
    """Returns a number in [0, 1) for every packet, by mixing its words with SplitMix64.

    A packet is kept if this number is below the sampling rate.

    Args:
        words: timestamps (ns), lengths on the wire, digests of the beginnings of frames; shape (n) each.
    """
    mixed = np.full(len(words[0]), key, np.uint64)
    for word in words:
        mixed ^= word.astype(np.int64).view(np.uint64)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    fractions: Rates = (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return fractions


@dataclass(frozen=True)
class PacketSampling:
    """The sampling and load shedding of one LFTA on one link; picklable.

    Attributes:
        key: the first word of the hash.
        rate: the sampling rate; 1 without sampling.
        seconds: the seconds in which load is shed, ascending.
        shares: the share of the sampled packets that is kept, for each of these seconds.
    """

    key: int
    rate: float = 1.0
    seconds: tuple[int, ...] = ()
    shares: tuple[float, ...] = ()

    @staticmethod
    def of(sample: Sample | None, link: str) -> PacketSampling:
        """Returns sampling without load shedding."""
        seed, rate = (sample.seed, sample.rate) if sample else (0, 1.0)
        digest = hashlib.blake2b(f"{seed}\0{link}".encode(), digest_size=8).digest()
        return PacketSampling(int.from_bytes(digest, "big"), rate)

    def take(self, stamps: Int64Array, lengths: npt.NDArray[np.integer], heads: Int64Array) -> tuple[Rates, Rates]:
        """Returns the number of every packet (`chances`), and the rate with which it is kept.

        A packet is kept if its number is below the rate. Otherwise it was shed if the number is below the sampling
        rate, else sampled out.

        Args:
            stamps: timestamps, ns; shape (n).
            lengths: lengths on the wire, bytes; shape (n).
            heads: digests of the beginnings of frames; shape (n).
        """
        rates = np.full(len(stamps), self.rate)
        if self.seconds:
            seconds, shares = np.array(self.seconds), np.array(self.shares)
            second = stamps // SECOND
            at = np.minimum(np.searchsorted(seconds, second), len(seconds) - 1)
            rates *= np.where(seconds[at] == second, shares[at], 1.0)
        return chances(self.key, stamps, lengths, heads), rates


class LoadCounter:
    """Counts the sampled packets of each second, for the shares of load shedding.

    Args:
        budget: the most packets of a second.
    """

    def __init__(self, thinning: PacketSampling, budget: int) -> None:
        self._thinning = thinning
        self._budget = budget
        self._counts: Counter[int] = Counter()

    def add(self, stamps: Int64Array, lengths: npt.NDArray[np.integer], heads: Int64Array) -> None:
        """Adds admitted packets of the protocol; arguments as of `PacketSampling.take`."""
        sampled = chances(self._thinning.key, stamps, lengths, heads) < self._thinning.rate
        seconds, counts = np.unique(stamps[sampled] // SECOND, return_counts=True)
        self._counts.update(dict(zip(seconds.tolist(), counts.tolist(), strict=True)))

    def also(self, other: LoadCounter) -> LoadCounter:
        """Returns the sum of two counts with the same sampling and budget."""
        total = LoadCounter(self._thinning, self._budget)
        total._counts = self._counts + other._counts
        return total

    def thinning(self) -> PacketSampling:
        """Returns the sampling with the shares of all seconds that are over the budget."""
        over = sorted((second, count) for second, count in self._counts.items() if count > self._budget)
        shares = tuple(self._budget / count for _, count in over)
        return PacketSampling(self._thinning.key, self._thinning.rate, tuple(second for second, _ in over), shares)
