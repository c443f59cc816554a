"""The source operator: packets of one protocol with their accounting, and the predicates directly above.

`reference.clock` feeds it with records and promises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowwater.catalog.expr import Column, Expr
from lowwater.catalog.packets import SAMPLING_RATE
from lowwater.plan.operators import Source
from lowwater.stream.operators import Promise, Row, StreamOperator
from lowwater.stream.packet_sampling import KEPT, SAMPLED_OUT, SHED, PacketSampling, packet_of
from lowwater.stream.values import Faults, Values, compile_predicate


@dataclass
class SourceCount:
    """Accounting of one source on one link (SEMANTICS A1): records of the interval, by outcome.

    Attributes:
        source: `query.alias`.
        link: name of the link.
        sane: records within the skew, by timestamp; by arrival in a plan evaluated by arrival.
        not_of_protocol: records that are no packet of the protocol.
        sampled_out: records left out by sampling (O5).
        shed: records left out by load shedding (O5).
        filtered: records for which the predicate directly above the source is not true.
        failed: the same, where a V2 failure took part.
        violating: records later than the skew, by arrival.
    """

    source: str
    link: str
    sane: int = 0
    not_of_protocol: int = 0
    sampled_out: int = 0
    shed: int = 0
    filtered: int = 0
    failed: int = 0
    violating: int = 0

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
        counts: accounting of each link.
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
