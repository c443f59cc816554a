"""Packet source, the leaf of a logical plan."""

from __future__ import annotations

from dataclasses import dataclass, field

from lowwater.catalog.expr import Expr
from lowwater.catalog.records import RecordLayout
from lowwater.plan.fields import Place
from lowwater.plan.operators.base import Facts, Leaf, Physical

ANY_LINK = "*"
"""Every link: EXPLAIN uses it when it does not know the links."""


@dataclass(frozen=True)
class Sample:
    """Uniform sampling of packets (SEMANTICS O5): every engine and every division of a run selects the same packets.

    Attributes:
        rate: the share of selected packets, above 0 and at most 1.
        seed: seed of the selection.
    """

    rate: float
    seed: int = 0


@dataclass(frozen=True)
class Source(Leaf, facts=Facts("source", passes=False, waits=False, outlives="", promise="clock - skew")):
    """Packets of one protocol on some links, merged in canonical order (O1); `fields` are the stored columns read.

    Attributes:
        alias: range variable of the source in its query.
        links: names of the links, sorted.
        protocol: name of the protocol.
        member: condition of the protocol's packets; None for all packets.
        kind: the kind of the records: `pcap`, `csv` or `other`.
        group: column whose values have skews of their own on these links (SEMANTICS T8); empty for no column.
        sample: the sampling of packets; None for all packets.
        layout: how records that are no packets are read; None for packets.
        place: line and column in the text of the query.
    """

    alias: str
    links: tuple[str, ...]
    protocol: str
    member: Expr | None
    kind: str = "pcap"
    group: str = ""
    sample: Sample | None = None
    layout: RecordLayout | None = None
    place: Place = field(default=(0, 0), compare=False)

    def exprs(self) -> tuple[Expr, ...]:
        """Returns no expressions: the reader of the source evaluates `member`."""
        return ()

    def physical(self) -> Physical:
        """Returns a read of packets, which only the reference engine does."""
        return Physical("packets", "read by the reference engine")
