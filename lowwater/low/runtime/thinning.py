"""Sampling and load shedding of the packets of a link (SEMANTICS O5).

Before the kernels of `low.run`: whether a packet is kept is a function of the packet, of the query's seed and rate, and
of how many packets of the protocol its second has on its link, so it does not depend on chunks, tables or runs.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lowwater.plan.operators import Sample

SECOND = 1_000_000_000

Words = npt.NDArray[np.int64]
Rates = npt.NDArray[np.float64]


def chances(key: int, *words: npt.NDArray[np.integer]) -> Rates:
    """For each packet the number in [0, 1) that it is kept below: SplitMix64 mixes its words, one after the other.

    Args:
        key: the key of the seed and the link.
        words: timestamps (ns), lengths on the wire, digests of the beginnings of frames; shape (n) each.
    """
    mixed = np.full(len(words[0]), key, np.uint64)
    for word in words:
        mixed ^= word.astype(np.int64).view(np.uint64)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    found: Rates = (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return found


@dataclass(frozen=True)
class Thinning:
    """What an LFTA takes of one link; picklable.

    Attributes:
        key: first word of the hash.
        rate: of sampling, 1 without it.
        seconds: ascending, those in which load shedding leaves something out; `shares` what it keeps of the sampled
            packets of each.
    """

    key: int
    rate: float = 1.0
    seconds: tuple[int, ...] = ()
    shares: tuple[float, ...] = ()

    @staticmethod
    def of(sample: Sample | None, link: str) -> Thinning:
        """Sampling alone."""
        seed, rate = (sample.seed, sample.rate) if sample else (0, 1.0)
        digest = hashlib.blake2b(f"{seed}\0{link}".encode(), digest_size=8).digest()
        return Thinning(int.from_bytes(digest, "big"), rate)

    def take(self, stamps: Words, lengths: npt.NDArray[np.integer], heads: Words) -> tuple[Rates, Rates]:
        """The chance of every packet, and the rate with which packets like it are kept.

        A packet is kept where its chance is below the rate; else it is shed where that is below `rate` of sampling.
        """
        rates = np.full(len(stamps), self.rate)
        if self.seconds:
            known, shares = np.array(self.seconds), np.array(self.shares)
            second = stamps // SECOND
            at = np.minimum(np.searchsorted(known, second), len(known) - 1)
            rates *= np.where(known[at] == second, shares[at], 1.0)
        return chances(self.key, stamps, lengths, heads), rates


class Load:
    """Counts the packets of each second that a sampling takes, for the shares of load shedding."""

    def __init__(self, thinning: Thinning, budget: int) -> None:
        self._thinning = thinning
        self._budget = budget
        self._counts: Counter[int] = Counter()

    def add(self, stamps: Words, lengths: npt.NDArray[np.integer], heads: Words) -> None:
        """Admitted packets of the protocol."""
        taken = chances(self._thinning.key, stamps, lengths, heads) < self._thinning.rate
        seconds, counts = np.unique(stamps[taken] // SECOND, return_counts=True)
        self._counts.update(dict(zip(seconds.tolist(), counts.tolist(), strict=True)))

    def also(self, other: Load) -> Load:
        """The counts of both, of the same sampling and budget."""
        found = Load(self._thinning, self._budget)
        found._counts = self._counts + other._counts
        return found

    def thinning(self) -> Thinning:
        """The thinning with the shares of all seconds counted."""
        over = sorted((second, count) for second, count in self._counts.items() if count > self._budget)
        shares = tuple(self._budget / count for _, count in over)
        return Thinning(self._thinning.key, self._thinning.rate, tuple(second for second, _ in over), shares)
