"""Chooses the prefilter of every link: cheap conjuncts as bits, computed once a packet for all LFTAs that read it.

After the split, over all LFTAs of a query set. A packet goes on to an LFTA only if it has all bits of the LFTA's
signature; the conjuncts in it are removed from the LFTA's own predicate (004, Prefilters; 000, section 4.2: temporal
values are saved before the prefilter drops a packet, so it never holds a promise back).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowwater.catalog.expr import Expr, columns_of, conjunction, conjuncts
from lowwater.catalog.packets import SAMPLING_RATE
from lowwater.plan.operators import ANY_LINK, Lfta
from lowwater.plan.properties.cost import cheap, cost

MOST_BITS = 64


@dataclass(frozen=True)
class Signature:
    """What the prefilter means for one LFTA.

    Attributes:
        lfta: its name.
        bits: positions of its conjuncts in the prefilter.
        rest: what is left of its predicate; None for nothing.
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
        links: names.
        bits: one conjunct each, over stored columns: the shared ones first, then the cheap ones.
        shared: how many LFTAs want each bit.
        signatures: one of each LFTA that reads the links.
    """

    links: tuple[str, ...]
    bits: tuple[Expr, ...]
    shared: tuple[int, ...]
    signatures: tuple[Signature, ...]


def choose_prefilters(lftas: Sequence[Lfta]) -> tuple[Prefilter, ...]:
    """The prefilters of all links, links with the same LFTAs together."""
    readers: dict[str, tuple[int, ...]] = {}
    for link in sorted({link for lfta in lftas for link in lfta.links}):
        readers[link] = tuple(at for at, lfta in enumerate(lftas) if link in lfta.links or ANY_LINK in lfta.links)
    found = []
    for group in dict.fromkeys(readers.values()):
        links = tuple(link for link, reading in readers.items() if reading == group)
        found.append(_prefilter(links, [lftas[at] for at in group]))
    return tuple(found)


def _prefilter(links: tuple[str, ...], lftas: Sequence[Lfta]) -> Prefilter:
    wanted: dict[Expr, int] = {}
    for lfta in lftas:
        candidates = [part for part in _parts(lfta) if cheap(part) and _of_packet(columns_of(part))]
        for part in dict.fromkeys(candidates):
            wanted[part] = wanted.get(part, 0) + 1
    order = {part: at for at, part in enumerate(wanted)}
    bits = sorted(wanted, key=lambda part: (-wanted[part], cost(part), order[part]))[:MOST_BITS]
    at = {part: bit for bit, part in enumerate(bits)}
    signatures = tuple(
        Signature(
            lfta.name,
            tuple(sorted({at[part] for part in _parts(lfta) if part in at})),
            conjunction([part for part in _parts(lfta) if part not in at]),
        )
        for lfta in lftas
    )
    return Prefilter(links, tuple(bits), tuple(wanted[part] for part in bits), signatures)


def _of_packet(columns: list[str]) -> bool:
    """Whether a conjunct is a property of a packet, the same for all LFTAs and links."""
    return columns not in ([], ["interface"]) and SAMPLING_RATE not in columns


def _parts(lfta: Lfta) -> list[Expr]:
    return conjuncts(lfta.member) + conjuncts(lfta.predicate)
