"""The built-in packet protocols: which packets belong to each, and its columns.

A column is an expression over the stored packet columns, so that everything below the binder sees stored columns
only, and `time` is monotone because it is `timestamp/1000000000`. All columns are columns of every protocol; one that a
packet lacks is NULL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lowwater.catalog.expr import Binary, Column, Const, Expr, Type, Unary
from lowwater.catalog.packets import PAYLOAD, SAMPLING_RATE, TYPES

SECOND = 1_000_000_000
LINK = "link"
"""The link of a packet, a column of every protocol of packets that does not declare a field of this name."""


@dataclass(frozen=True)
class Attribute:
    """A temporal attribute of a protocol (SEMANTICS T8).

    Attributes:
        name: the stored column.
        decreasing: its direction.
        unit: ns that one unit of it takes; None where the protocol does not say, then no duration can be given of it.
        clock: whether it is the clock of its protocol; every other one makes progress of its own.
        skew: how far it may run behind, in its unit: a banded attribute.
        stamp: `external` (in the record), `internal` (its arrival) or `latent` (set by the operator that asks).
    """

    name: str
    decreasing: bool = False
    unit: int | None = 1
    clock: bool = True
    skew: int = 0
    stamp: str = "external"


@dataclass(frozen=True)
class Protocol:
    """A schema of records.

    Attributes:
        name: as written after `FROM link.`.
        member: which packets belong to it, over stored columns; None for every packet.
        columns: what each column reads, over stored columns.
        stored: types of the stored columns.
        attributes: the temporal ones; one at most is the clock.
        kind: of the links that have it: `pcap`, `csv`, or `other` for records that only an external function reads.
        access: stored column -> access function, of a declared protocol.
        declared: stored column -> GSQL's own type, of a declared protocol.
        hidden: columns that `*` leaves out.
    """

    name: str
    member: Expr | None
    columns: dict[str, Expr]
    stored: Mapping[str, Type] = field(default_factory=lambda: dict(TYPES))
    attributes: tuple[Attribute, ...] = (Attribute("timestamp"),)
    kind: str = "pcap"
    access: Mapping[str, str] = field(default_factory=dict)
    declared: Mapping[str, str] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()

    @property
    def clock(self) -> Attribute | None:
        return next((attribute for attribute in self.attributes if attribute.clock), None)


def _stored(name: str) -> Column:
    return Column(TYPES[name], name)


def _number(value: int) -> Const:
    return Const(Type.INT, value)


def _equals(name: str, value: int) -> Expr:
    return Binary(Type.BOOL, "=", _stored(name), _number(value))


def _known(name: str) -> Expr:
    # `x >= 0` is NULL, so not true, exactly where a header field is absent: header fields are never negative.
    return Binary(Type.BOOL, ">=", _stored(name), _number(0))


def _present(name: str) -> Expr:
    return Unary(Type.BOOL, "NOT", Unary(Type.BOOL, "IS NULL", _stored(name)))


def _both(left: Expr, right: Expr) -> Expr:
    return Binary(Type.BOOL, "AND", left, right)


def _columns() -> dict[str, Expr]:
    columns: dict[str, Expr] = {name: _stored(name) for name in TYPES}
    stamp = _stored("timestamp")
    for name, unit in (("time", 1_000_000_000), ("timestamp_ms", 1_000_000), ("timestamp_us", 1_000)):
        columns[name] = Binary(Type.INT, "/", stamp, _number(unit))
    for bit, name in enumerate(("FIN", "SYN", "RST", "PSH", "ACK", "URG")):
        masked = Binary(Type.INT, "&", _stored("flags"), _number(1 << bit))
        columns[name] = Binary(Type.BOOL, "<>", masked, _number(0))
    for alias, name in ALIASES.items():
        columns[alias] = columns[name]
    return columns


ALIASES = {
    LINK: "interface",
    "subinterface": "interface",
    "sourceIP": "srcIP",
    "source_ip": "srcIP",
    "src_ip": "srcIP",
    "dstIP": "destIP",
    "dest_ip": "destIP",
    "src_port": "srcPort",
    "source_port": "srcPort",
    "dest_port": "destPort",
    "dstPort": "destPort",
    "data_length": "total_length",
    "ip_version": "ipversion",
    "fragment_offset": "offset",
    "tcp_flags": "flags",
    "TTL": "ttl",
    "ts": "time",
    "flag": "flags",
    "TCP_data": PAYLOAD,
    "UDP_data": PAYLOAD,
}
"""Second names of our columns: of the link, and what the papers and manuals call them."""

_COLUMNS = _columns()
_TUNNEL = frozenset(name for name in _COLUMNS if name.startswith(("tunnel", "inner_")))
_ARP = frozenset(name for name in _COLUMNS if name.startswith("arp_"))
_DNS = frozenset(name for name in _COLUMNS if name.startswith("dns_"))
_HTTP = frozenset(name for name in _COLUMNS if name.startswith("http_"))
_APART = _TUNNEL | _ARP | _DNS | _HTTP | {PAYLOAD, "payload_offset", "payload_length", SAMPLING_RATE}


def _packets(name: str, member: Expr | None, shown: frozenset[str] = frozenset()) -> Protocol:
    """A protocol of packets; `*` shows the columns of the outermost headers, and these."""
    return Protocol(name, member, _COLUMNS, hidden=_APART - shown)


PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        _packets("ETH", None),
        _packets("ARP", _known("arp_op"), _ARP),
        _packets("IPV4", _equals("ipversion", 4)),
        _packets("IPV6", _equals("ipversion", 6)),
        _packets("DataProtocol", _known("ipversion")),
        _packets("TCP", _both(_equals("protocol", 6), _known("flags"))),
        _packets("UDP", _both(_equals("protocol", 17), _known("srcPort"))),
        _packets("SCTP", _both(_equals("protocol", 132), _known("srcPort"))),
        _packets("ICMP", _known("icmp_type")),
        _packets("TUNNEL", _known("tunnel"), _TUNNEL),
        _packets("DNS", _known("dns_id"), _DNS),
        _packets("HTTP", Binary(Type.BOOL, "OR", _present("http_method"), _known("http_status")), _HTTP),
    )
}
