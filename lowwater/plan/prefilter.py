"""Chooses the prefilter of each link: cheap conjuncts that the kernel evaluates once a packet for all LFTAs.

After the rewriter, over all LFTAs of a query set. Each conjunct is a bit. A packet goes on to an LFTA only if it has
all bits of the LFTA's signature. The conjuncts of the signature leave the predicate of the LFTA (004, Prefilters). The
kernel reads temporal values before the prefilter drops a packet, so a dropped packet never delays a promise (000,
section 4.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowwater.catalog.expr import Expr, columns_of, conjunction, conjuncts
from lowwater.catalog.packets import SAMPLING_RATE
from lowwater.plan.operators import ANY_LINK, Lfta
from lowwater.plan.properties.cost import cheap, cost

MAX_BITS = 64


@dataclass(frozen=True)
class PrefilterSignature:
    """The prefilter bits of one LFTA.

    Attributes:
        lfta: the name of the LFTA.
        bits: positions of its conjuncts in the prefilter.
        rest: the rest of its predicate; None for nothing.
    """

    lfta: str
    bits: tuple[int, ...]
    rest: Expr | None

    @property
    def mask(self) -> int:
        """The bits as a number."""
        return sum(1 << bit for bit in self.bits)


@dataclass(frozen=True)
class Prefilter:
    """The prefilter of links that the same LFTAs read.

    Attributes:
        links: the names of the links.
        bits: a conjunct per bit, over stored columns: those of several LFTAs first, then the cheap ones.
        shared: the number of LFTAs that use each bit.
        signatures: the signature of each LFTA that reads the links.
    """

    links: tuple[str, ...]
    bits: tuple[Expr, ...]
    shared: tuple[int, ...]
    signatures: tuple[PrefilterSignature, ...]


def choose_prefilters(lftas: Sequence[Lfta]) -> tuple[Prefilter, ...]:
    """Returns the prefilters of all links; links with the same LFTAs share one."""
    readers: dict[str, tuple[int, ...]] = {}
    for link in sorted({link for lfta in lftas for link in lfta.links}):
        readers[link] = tuple(at for at, lfta in enumerate(lftas) if link in lfta.links or ANY_LINK in lfta.links)
    prefilters = []
    for group in dict.fromkeys(readers.values()):
        links = tuple(link for link, reading in readers.items() if reading == group)
        prefilters.append(_prefilter(links, [lftas[at] for at in group]))
    return tuple(prefilters)


def _prefilter(links: tuple[str, ...], lftas: Sequence[Lfta]) -> Prefilter:
    users: dict[Expr, int] = {}
    for lfta in lftas:
        candidates = [part for part in _conjuncts_of(lfta) if cheap(part) and _of_packet(columns_of(part))]
        for part in dict.fromkeys(candidates):
            users[part] = users.get(part, 0) + 1
    order = {part: at for at, part in enumerate(users)}
    bits = sorted(users, key=lambda part: (-users[part], cost(part), order[part]))[:MAX_BITS]
    at = {part: bit for bit, part in enumerate(bits)}
    signatures = tuple(
        PrefilterSignature(
            lfta.name,
            tuple(sorted({at[part] for part in _conjuncts_of(lfta) if part in at})),
            conjunction([part for part in _conjuncts_of(lfta) if part not in at]),
        )
        for lfta in lftas
    )
    return Prefilter(links, tuple(bits), tuple(users[part] for part in bits), signatures)


def _of_packet(columns: list[str]) -> bool:
    """Whether a conjunct depends on the packet alone, so that it is the same for all LFTAs and links."""
    return columns not in ([], ["interface"]) and SAMPLING_RATE not in columns


def _conjuncts_of(lfta: Lfta) -> list[Expr]:
    return conjuncts(lfta.member) + conjuncts(lfta.predicate)
