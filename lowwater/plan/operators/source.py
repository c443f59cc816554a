"""Packets, as the leaf of a logical plan."""

from __future__ import annotations

from dataclasses import dataclass, field

from lowwater.catalog.expr import Expr
from lowwater.plan.fields import Place
from lowwater.plan.operators.base import Facts, Leaf, Physical

ANY_LINK = "*"
"""Stands for every link where a plan is explained without knowing them."""


@dataclass(frozen=True)
class Sample:
    """Uniform sampling of packets (SEMANTICS O5): the same packets in every engine and however a run is cut.

    Attributes:
        rate: which share is kept, above 0 and up to 1.
        seed: another one keeps other packets.
    """

    rate: float
    seed: int = 0


@dataclass(frozen=True)
class Source(Leaf, facts=Facts("source", passes=False, waits=False, outlives="", promise="clock - skew")):
    """Packets of one protocol on some links, merged in canonical order (O1). `fields` are the stored columns read.

    Attributes:
        alias: range variable of the source in its query.
        links: names, sorted.
        protocol: its name.
        member: which packets belong to the protocol; None for all.
        kind: the kind of its records: `pcap`, `csv` or `other`.
        group: column whose values have skews of their own on these links; empty for none (SEMANTICS T8).
        sample: which of the packets it takes; None for all.
    """

    alias: str
    links: tuple[str, ...]
    protocol: str
    member: Expr | None
    kind: str = "pcap"
    group: str = ""
    sample: Sample | None = None
    place: Place = field(default=(0, 0), compare=False)

    def exprs(self) -> tuple[Expr, ...]:
        """None: whether a packet belongs to the protocol is the reader's to see."""
        return ()

    def physical(self) -> Physical:
        """Only the reference engine reads packets itself."""
        return Physical("packets", "read by the reference engine")
