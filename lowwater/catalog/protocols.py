"""The built-in packet protocols: which packets belong to each protocol, and its columns.

A column is an expression over stored packet columns, so the planner below the binder sees stored columns only. `time`
is monotone because it is `timestamp/1000000000`. All protocols have the same columns; a column that a packet lacks is
NULL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lowwater.catalog.expr import Binary, Column, Const, Expr, Type, Unary
from lowwater.catalog.packets import PAYLOAD, SAMPLING_RATE, TYPES
from lowwater.catalog.records import RecordLayout

SECOND = 1_000_000_000
LINK = "link"
"""Column with the link of a packet, in every packet protocol that does not declare a field of this name."""
INTERFACE = "interface"
"""Column of any record with the name of its link (V3)."""


@dataclass(frozen=True)
class Attribute:
    """A temporal attribute of a protocol (SEMANTICS T8).

    Attributes:
        name: the stored column.
        decreasing: whether its values fall.
        unit: the length of one unit, ns; None if the protocol does not say, then it cannot be compared with a duration.
        clock: whether it is the clock of its protocol. Any other attribute makes progress by itself.
        skew: the maximum lateness of a banded attribute, in its unit.
        stamp: `external` (in the record), `internal` (the arrival) or `latent` (set by the operator that reads it).
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
        name: the name after `FROM link.`.
        member: the condition, over stored columns, of packets that belong to the protocol; None for all packets.
        columns: name of a column -> its expression over stored columns.
        stored: types of the stored columns.
        attributes: the temporal attributes; at most one is the clock.
        kind: the kind of its links: `pcap`, `csv`, or `other` for records that only an external function reads.
        access: stored column -> access function; for declared protocols.
        declared: stored column -> GSQL type; for declared protocols.
        hidden: columns that `*` leaves out.
        layout: how records that are no packets are read; None for packets.
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
    # Digests of packet protocols are made of what repr shows, and must not change.
    layout: RecordLayout | None = field(default=None, repr=False)

    @property
    def clock(self) -> Attribute | None:
        return next((attribute for attribute in self.attributes if attribute.clock), None)


def _stored(name: str) -> Column:
    return Column(TYPES[name], name)


def _number(value: int) -> Const:
    return Const(Type.INT, value)


def _equals(name: str, value: int) -> Expr:
    return Binary(Type.BOOL, "=", _stored(name), _number(value))


def _has_number(name: str) -> Expr:
    # Header fields are never negative, so `x >= 0` is true where the field is present, and NULL where it is absent.
    return Binary(Type.BOOL, ">=", _stored(name), _number(0))


def _has_value(name: str) -> Expr:
    return Unary(Type.BOOL, "NOT", Unary(Type.BOOL, "IS NULL", _stored(name)))


def _conjunction(left: Expr, right: Expr) -> Expr:
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
"""Alias of a column -> the column: the names in the papers and in the manuals of Gigascope and Tigon."""

_COLUMNS = _columns()
_TUNNEL = frozenset(name for name in _COLUMNS if name.startswith(("tunnel", "inner_")))
_ARP = frozenset(name for name in _COLUMNS if name.startswith("arp_"))
_DNS = frozenset(name for name in _COLUMNS if name.startswith("dns_"))
_HTTP = frozenset(name for name in _COLUMNS if name.startswith("http_"))
_TLS = frozenset(name for name in _COLUMNS if name.startswith("tls_"))
_SSH = frozenset(name for name in _COLUMNS if name.startswith("ssh_"))
_QUIC = frozenset(name for name in _COLUMNS if name.startswith("quic_"))
LATER = _TLS | _SSH | _QUIC | {LINK}
"""Columns that came after 0.1. Digests leave them out where nobody declares them, so that no interval becomes stale."""

_HIDDEN = (
    _TUNNEL | _ARP | _DNS | _HTTP | _TLS | _SSH | _QUIC | {PAYLOAD, "payload_offset", "payload_length", SAMPLING_RATE}
)


def _packet_protocol(name: str, member: Expr | None, extra: frozenset[str] = frozenset()) -> Protocol:
    """Returns a packet protocol. `*` gives the columns of the outermost headers, and those in `extra`."""
    return Protocol(name, member, _COLUMNS, hidden=_HIDDEN - extra)


PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        _packet_protocol("ETH", None),
        _packet_protocol("ARP", _has_number("arp_op"), _ARP),
        _packet_protocol("IPV4", _equals("ipversion", 4)),
        _packet_protocol("IPV6", _equals("ipversion", 6)),
        _packet_protocol("DataProtocol", _has_number("ipversion")),
        _packet_protocol("TCP", _conjunction(_equals("protocol", 6), _has_number("flags"))),
        _packet_protocol("UDP", _conjunction(_equals("protocol", 17), _has_number("srcPort"))),
        _packet_protocol("SCTP", _conjunction(_equals("protocol", 132), _has_number("srcPort"))),
        _packet_protocol("ICMP", _has_number("icmp_type")),
        _packet_protocol("TUNNEL", _has_number("tunnel"), _TUNNEL),
        _packet_protocol("DNS", _has_number("dns_id"), _DNS),
        _packet_protocol("HTTP", Binary(Type.BOOL, "OR", _has_value("http_method"), _has_number("http_status")), _HTTP),
        _packet_protocol("TLS", _has_number("tls_hello"), _TLS),
        _packet_protocol("SSH", _has_value("ssh_banner"), _SSH),
        _packet_protocol("QUIC", _has_number("quic_version"), _QUIC),
    )
}
