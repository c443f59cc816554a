"""The ready protocols: which packets belong to each, and the logs of Zeek, Suricata and nfdump."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lowwater.catalog.expr import Binary, Case, Column, Const, Expr, Type, Unary
from lowwater.catalog.records import INSTANT, LIST, PROTOCOL_NAME, RecordField, RecordLayout, column_name
from lowwater.catalog.schemas import PAYLOAD, SAMPLING_RATE, TYPES
from lowwater.catalog.value_names import PROTOCOL_NUMBERS

# Packet protocols. A column is an expression over stored packet columns, so the planner below the binder sees stored
# columns only. `time` is monotone because it is `timestamp/1000000000`. All protocols have the same columns; a column
# that a packet lacks is NULL.

SECOND = 1_000_000_000
LINK = "link"
"""Column with the link of a packet, in every packet protocol that does not declare a field of this name."""
INTERFACE = "interface"
"""Column of any record with the name of its link (V3)."""


@dataclass(frozen=True)
class Attribute:
    """A temporal attribute of a protocol (SEMANTICS T8)."""

    name: str
    decreasing: bool = False  # whether its values fall
    # the length of one unit, ns; None if the protocol does not say, then it cannot be compared with a duration
    unit: int | None = 1
    clock: bool = True  # whether it is the clock of its protocol. Any other attribute makes progress by itself.
    skew: int = 0  # the maximum lateness of a banded attribute, in its unit
    # `external` (in the record), `internal` (the arrival) or `latent` (set by the operator that reads it)
    stamp: str = "external"


@dataclass(frozen=True)
class Protocol:
    """A schema of records."""

    name: str  # the name after `FROM link.`
    # the condition, over stored columns, of packets that belong to the protocol; None for all packets
    member: Expr | None
    columns: dict[str, Expr]  # name of a column -> its expression over stored columns
    stored: Mapping[str, Type] = field(default_factory=lambda: dict(TYPES))
    attributes: tuple[Attribute, ...] = (Attribute("timestamp"),)  # the temporal attributes; at most one is the clock
    # the kind of its links: `pcap`, `csv`, or `other` for records that only an external function reads
    kind: str = "pcap"
    access: Mapping[str, str] = field(default_factory=dict)  # stored column -> access function; for declared protocols
    declared: Mapping[str, str] = field(default_factory=dict)  # stored column -> GSQL type; for declared protocols
    hidden: frozenset[str] = frozenset()  # columns that `*` leaves out
    # Digests of packet protocols are made of what repr shows, and must not change.
    # how records that are no packets are read; None for packets
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
    said, unsaid = _stored("total_length"), _stored("unsaid_length")
    columns["ip_length"] = Case(Type.INT, ((_has_number("unsaid_length"), unsaid),), said)
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
_LENGTHS = frozenset(("ip_length", "unsaid_length"))
LATER = _TLS | _SSH | _QUIC | _LENGTHS | {LINK}
"""Columns that came after 0.1. Digests leave them out where nobody declares them, so that no interval becomes stale."""

_HIDDEN = (
    _TUNNEL
    | _ARP
    | _DNS
    | _HTTP
    | _TLS
    | _SSH
    | _QUIC
    | _LENGTHS
    | {PAYLOAD, "payload_offset", "payload_length", SAMPLING_RATE}
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


# Ready protocols: logs of Zeek, Suricata and nfdump (ADR 63)

# Numbers of IP protocols


def protocol_number(name: str | None) -> int | None:
    """Returns the number of an IP protocol by its name in any case, or by its digits; None for any other text.

    Example:
        >>> protocol_number("TCP"), protocol_number("47"), protocol_number("unknown_transport")
        (6, 47, None)
    """
    if name is None:
        return None
    text = name.strip().lower()
    if text.isascii() and text.isdigit() and len(text) <= 3:
        return int(text) if int(text) <= 0xFF else None
    return PROTOCOL_NUMBERS.get(text)


# Building a ready protocol. The clock and the columns that identify a flow have the names that they have in packets, so
# the same expression joins a log with packets.

CLOCK = "timestamp"
"""Field of the clock, ns."""

_PARTS = {"time": SECOND, "ts": SECOND, "timestamp_ms": 1_000_000, "timestamp_us": 1_000}


@dataclass(frozen=True)
class LogField:
    """A field of a ready protocol."""

    name: str
    type: Type
    member: str  # its name in the log; dots lead into objects of JSON
    form: str = ""  # form of its text, as in `catalog.records`; empty for a plain value
    others: tuple[str, ...] = ()  # further names of the member, in older or newer versions of the tool


def plain(kind: Type, *members: str, form: str = "") -> tuple[LogField, ...]:
    """Returns fields with the names of their members, dots written as underscores."""
    return tuple(LogField(member.replace(".", "_"), kind, member, form) for member in members)


def log_protocol(
    name: str, tool: str, member: str, fields: tuple[LogField, ...], aliases: dict[str, str], nested: bool = False
) -> Protocol:
    """Builds a ready protocol.

    Args:
        member: type of the records among those of the tool; other types are left out.
        fields: its fields; one is CLOCK.
        aliases: further name of a field -> the field.
        nested: whether dots of a member lead into objects; otherwise slashes do, and dots belong to the name.
    """

    def path(member: str) -> tuple[str, ...]:
        return tuple(member.split("." if nested else "/"))

    records = tuple(
        RecordField(
            field.name,
            field.type,
            path=path(field.member),
            form=field.form,
            unit=1 if field.form == INSTANT else SECOND,
            others=tuple(path(other) for other in field.others),
        )
        for field in fields
    )
    clock = column_name(Type.INT, CLOCK)
    columns: dict[str, Expr] = {}
    for record in records:
        columns[record.name] = Column(record.type, record.stored)
        if record.name == CLOCK:
            for part, unit in _PARTS.items():
                columns[part] = Binary(Type.INT, "/", columns[CLOCK], Const(Type.INT, unit))
    columns |= {alias: columns[field] for alias, field in aliases.items()}
    columns |= {column: Column(Type.STRING, INTERFACE) for column in (LINK, INTERFACE)}
    hidden = {"ts", "timestamp_ms", "timestamp_us", LINK, INTERFACE} | aliases.keys()
    return Protocol(
        name,
        None,
        columns,
        {**{record.stored: record.type for record in records}, INTERFACE: Type.STRING},
        (Attribute(clock),),
        kind=tool,
        access={record.stored: f"get_{tool}" for record in records},
        declared={record.stored: str(record.type) for record in records},
        hidden=frozenset(hidden),
        layout=RecordLayout(name, records, clock, 1, format=tool, member=member),
    )


# nfdump. Until version 1.7.4 the header has short names, from 1.7.5 on long ones, which also stand in `-o csv-fast` and
# in formats of users (`-o 'csv:%ts,...'`). A field that a file lacks is NULL.

NFDUMP_KIND = "nfdump"
_INT, _FLOAT, _BOOL, _STRING, _IP = Type.INT, Type.FLOAT, Type.BOOL, Type.STRING, Type.IP


def _named(kind: Type, names: dict[str, str], form: str = "") -> tuple[LogField, ...]:
    """Returns fields with the short names of their columns; the others are long names, with blanks between them."""
    return tuple(LogField(name, kind, name, form, tuple(others.split())) for name, others in names.items())


_FLOW = (
    LogField(CLOCK, _INT, "ts", INSTANT, ("firstSeen",)),
    *_named(_INT, {"te": "lastSeen"}, INSTANT),
    *_named(_FLOAT, {"td": "duration"}),
    LogField("srcIP", _IP, "sa", others=("srcAddr",)),
    LogField("srcPort", _INT, "sp", others=("srcPort",)),
    LogField("destIP", _IP, "da", others=("dstAddr",)),
    LogField("destPort", _INT, "dp", others=("dstPort",)),
    LogField("protocol", _INT, "pr", PROTOCOL_NAME, ("proto",)),
    *_named(_STRING, {"pr": "proto", "flg": "flags"}),
    *_named(_INT, {"fwd": "fwdStatus", "stos": "srcTos tos", "ipkt": "packets inPackets", "ibyt": "bytes inBytes"}),
    *_named(_INT, {"opkt": "outPackets", "obyt": "outBytes", "fl": "flows"}),
    LogField("input", _INT, "in", others=("input",)),
    LogField("output", _INT, "out", others=("output",)),
    *_named(_INT, {"sas": "srcAS", "das": "dstAS", "smk": "srcMask", "dmk": "dstMask", "dtos": "dstTos"}),
    *_named(_STRING, {"dir": "direction"}),
    *_named(_IP, {"nh": "nextIP", "nhb": "bgpNextIP"}),
    *_named(_INT, {"svln": "srcVlan", "dvln": "dstVlan"}),
    *_named(_STRING, {"ismc": "inSrcMac", "odmc": "outDstMac", "idmc": "inDstMac", "osmc": "outSrcMac"}),
    *_named(_STRING, {f"mpls{number}": f"mplsLabel{number}" for number in range(1, 11)}),
    *_named(_FLOAT, {"cl": "clientLatency", "sl": "serverLatency", "al": "appLatency"}),
    *_named(_IP, {"ra": "routerIP"}),
    *_named(_STRING, {"eng": "engine"}),
    *_named(_INT, {"exid": "exporterID"}),
    *_named(_INT, {"tr": "received"}, INSTANT),
)
_ALIASES = {
    "sa": "srcIP",
    "sp": "srcPort",
    "da": "destIP",
    "dp": "destPort",
    "packets": "ipkt",
    "bytes": "ibyt",
    "flows": "fl",
    "duration": "td",
    "lastSeen": "te",
}

NFDUMP: tuple[Protocol, ...] = (log_protocol("NFDUMP", NFDUMP_KIND, "flow", _FLOW, _ALIASES),)


# Suricata's EVE log: `flow`, `alert` and `dns`. One file holds events of many types. Fields of versions 4 to 8; a field
# that an event lacks is NULL. (The user guide of Suricata: EVE JSON format.)

SURICATA_KIND = "suricata"

_EVENT = (
    *plain(_INT, "flow_id", "parent_id"),
    *plain(_STRING, "in_iface", "host"),
    *plain(_STRING, "vlan", form=LIST),
    LogField("srcIP", Type.IP, "src_ip"),
    LogField("srcPort", _INT, "src_port", others=("icmp_type",)),
    LogField("destIP", Type.IP, "dest_ip"),
    LogField("destPort", _INT, "dest_port", others=("icmp_code",)),
    LogField("protocol", _INT, "proto", PROTOCOL_NAME),
    *plain(_STRING, "proto"),
    *plain(_INT, "ip_v", "icmp_type", "icmp_code", "response_icmp_type", "response_icmp_code", "spi"),
    *plain(_STRING, "app_proto", "app_proto_ts", "app_proto_tc", "app_proto_orig", "app_proto_expected"),
    *plain(_STRING, "community_id", "pkt_src", "direction"),
    *plain(_INT, "pcap_cnt"),
    *plain(_STRING, "pcap_filename", "ether.src_mac", "ether.dest_mac"),
    *plain(_STRING, "metadata", form=LIST),
)
_SURICATA_ALIASES = {"src_ip": "srcIP", "src_port": "srcPort", "dest_ip": "destIP", "dest_port": "destPort"}
_TIMED = (LogField(CLOCK, _INT, "timestamp", INSTANT), *_EVENT)

_COUNTS = ("flow.pkts_toserver", "flow.pkts_toclient", "flow.bytes_toserver", "flow.bytes_toclient")
_BYPASSED = tuple(f"flow.bypassed.{name.partition('.')[2]}" for name in _COUNTS)
_FLAGS = ("syn", "fin", "rst", "psh", "ack", "urg", "ecn", "cwr", "ts_gap", "tc_gap")
_SURICATA_FLOW = (
    LogField(CLOCK, _INT, "flow.start", INSTANT),
    LogField("flow_end", _INT, "flow.end", INSTANT),
    LogField("logged", _INT, "timestamp", INSTANT),
    *_EVENT,
    *plain(_INT, *_COUNTS, "flow.age", "flow.tx_cnt", *_BYPASSED),
    *plain(_STRING, "flow.state", "flow.reason", "flow.bypass", "flow.action"),
    *plain(_BOOL, "flow.alerted", "flow.emergency", "flow.wrong_thread", "flow.elephant"),
    *plain(_STRING, "flow.exception_policy", form=LIST),
    *plain(_STRING, "tcp.tcp_flags", "tcp.tcp_flags_ts", "tcp.tcp_flags_tc", "tcp.state"),
    *plain(_BOOL, *(f"tcp.{flag}" for flag in _FLAGS)),
)
_ALERT = (
    *_TIMED,
    *plain(_INT, "tx_id"),
    *plain(_STRING, "alert.action"),
    *plain(_INT, "alert.gid", "alert.signature_id", "alert.rev"),
    *plain(_STRING, "alert.signature", "alert.category"),
    *plain(_INT, "alert.severity"),
    *plain(_STRING, "alert.rule", "alert.xff"),
    *plain(_STRING, "alert.references", "alert.metadata", form=LIST),
    *plain(Type.IP, "alert.source.ip", "alert.target.ip"),
    *plain(_INT, "alert.source.port", "alert.target.port"),
    *plain(_STRING, "verdict.action"),
    LogField("flow_start", _INT, "flow.start", INSTANT),
    *plain(_INT, *_COUNTS),
    *plain(_STRING, "payload", "payload_printable", "packet"),
    *plain(_INT, "stream"),
    *plain(_STRING, "capture_file"),
    *plain(_STRING, "http.hostname", "http.url", "http.http_method", "http.http_user_agent", "http.protocol"),
    *plain(_INT, "http.status", "http.length"),
    *plain(_STRING, "tls.sni", "tls.version", "tls.subject", "tls.issuerdn", "tls.ja3.hash", "tls.ja4"),
    LogField("dns_rrname", _STRING, "dns.query.rrname", others=("dns.queries.rrname", "dns.rrname")),
)
_GROUPED = ("A", "AAAA", "CNAME", "MX", "NS", "NULL", "PTR", "SOA", "SRV", "SSHFP", "TXT")
_LOGS_DNS = (
    *_TIMED,
    *plain(_INT, "tx_id"),
    *plain(_STRING, "dns.type"),
    *plain(_INT, "dns.version", "dns.id", "dns.tx_id", "dns.opcode"),
    LogField("dns_rrname", _STRING, "dns.rrname", others=("dns.queries.rrname", "dns.query.rrname")),
    LogField("dns_rrtype", _STRING, "dns.rrtype", others=("dns.queries.rrtype", "dns.query.rrtype")),
    *plain(_STRING, "dns.rcode", "dns.rdata"),
    *plain(_INT, "dns.ttl"),
    *plain(_STRING, "dns.flags"),
    *plain(_BOOL, "dns.qr", "dns.aa", "dns.tc", "dns.rd", "dns.ra", "dns.z"),
    *plain(_STRING, "dns.queries", "dns.answers", "dns.authorities", "dns.additionals", form=LIST),
    *plain(_STRING, *(f"dns.grouped.{kind}" for kind in _GROUPED), form=LIST),
)

SURICATA: tuple[Protocol, ...] = tuple(
    log_protocol(f"EVE_{member.upper()}", SURICATA_KIND, member, fields, aliases, nested=True)
    for member, fields, aliases in (
        ("flow", _SURICATA_FLOW, {**_SURICATA_ALIASES, "flow_start": CLOCK}),
        ("alert", _ALERT, _SURICATA_ALIASES),
        ("dns", _LOGS_DNS, _SURICATA_ALIASES),
    )
)


# Zeek: `conn`, `dns`, `http` and `ssl`. Fields of versions 3 to 8, with those of the scripts that Zeek ships; a field
# that a file lacks is NULL. (The script reference of Zeek: Conn::Info, DNS::Info, HTTP::Info, SSL::Info.) JA3 and JA4
# are those of well-known packages.

ZEEK_KIND = "zeek"

_ENDS = (
    LogField(CLOCK, _INT, "ts", INSTANT),
    *plain(_STRING, "uid"),
    LogField("srcIP", Type.IP, "id.orig_h", others=("id/orig_h",)),
    LogField("srcPort", _INT, "id.orig_p", others=("id/orig_p",)),
    LogField("destIP", Type.IP, "id.resp_h", others=("id/resp_h",)),
    LogField("destPort", _INT, "id.resp_p", others=("id/resp_p",)),
)
_ZEEK_ALIASES = {"id_orig_h": "srcIP", "id_orig_p": "srcPort", "id_resp_h": "destIP", "id_resp_p": "destPort"}
_PROTO = (LogField("protocol", _INT, "proto", PROTOCOL_NAME), *plain(_STRING, "proto"))

_CONN = (
    *_ENDS,
    *_PROTO,
    *plain(_STRING, "service"),
    *plain(_FLOAT, "duration"),
    *plain(_INT, "orig_bytes", "resp_bytes"),
    *plain(_STRING, "conn_state"),
    *plain(_BOOL, "local_orig", "local_resp"),
    *plain(_INT, "missed_bytes"),
    *plain(_STRING, "history"),
    *plain(_INT, "orig_pkts", "orig_ip_bytes", "resp_pkts", "resp_ip_bytes"),
    *plain(_STRING, "tunnel_parents", form=LIST),
    *plain(_INT, "ip_proto"),
    *plain(_STRING, "ip_proto_name", "community_id", "orig_l2_addr", "resp_l2_addr"),
    *plain(_INT, "vlan", "inner_vlan", "pppoe_session_id"),
    *plain(_STRING, "speculative_service"),
    *plain(_STRING, "failed_service", form=LIST),
)
_ZEEK_DNS = (
    *_ENDS,
    *_PROTO,
    *plain(_INT, "trans_id"),
    *plain(_FLOAT, "rtt"),
    *plain(_STRING, "query"),
    *plain(_INT, "qclass"),
    *plain(_STRING, "qclass_name"),
    *plain(_INT, "qtype"),
    *plain(_STRING, "qtype_name"),
    *plain(_INT, "rcode"),
    *plain(_STRING, "rcode_name"),
    *plain(_BOOL, "AA", "TC", "RD", "RA"),
    *plain(_INT, "Z"),
    *plain(_STRING, "answers", "TTLs", form=LIST),
    *plain(_BOOL, "rejected"),
    *plain(_INT, "opcode"),
    *plain(_STRING, "opcode_name"),
    *plain(_STRING, "auth", "addl", form=LIST),
    *plain(_STRING, "original_query", "community_id"),
)
_LOGS_HTTP = (
    *_ENDS,
    *plain(_INT, "trans_depth"),
    *plain(_STRING, "method", "host", "uri", "referrer", "version", "user_agent", "origin"),
    *plain(_INT, "request_body_len", "response_body_len", "status_code"),
    *plain(_STRING, "status_msg"),
    *plain(_INT, "info_code"),
    *plain(_STRING, "info_msg"),
    *plain(_STRING, "tags", form=LIST),
    *plain(_STRING, "username", "password"),
    *plain(_STRING, "proxied", "orig_fuids", "orig_filenames", "orig_mime_types", form=LIST),
    *plain(_STRING, "resp_fuids", "resp_filenames", "resp_mime_types", form=LIST),
    *plain(_STRING, "client_header_names", "server_header_names", "cookie_vars", "uri_vars", form=LIST),
    *plain(_STRING, "community_id"),
)
_OFFERED = (
    "client_ciphers", "ssl_client_exts", "ssl_server_exts", "point_formats", "client_curves", "orig_alpn",
    "client_supported_versions", "psk_key_exchange_modes", "client_key_share_groups", "client_comp_methods", "sigalgs",
    "hashalgs",
)  # fmt: skip
_SSL = (
    *_ENDS,
    *plain(_STRING, "version", "cipher", "curve", "server_name"),
    *plain(_BOOL, "resumed"),
    *plain(_STRING, "last_alert", "next_protocol"),
    *plain(_BOOL, "established"),
    *plain(_STRING, "ssl_history"),
    *plain(
        _STRING,
        "cert_chain_fps",
        "client_cert_chain_fps",
        "cert_chain_fuids",
        "client_cert_chain_fuids",
        form=LIST,
    ),
    *plain(_STRING, "subject", "issuer", "client_subject", "client_issuer"),
    *plain(_BOOL, "sni_matches_cert"),
    *plain(_STRING, "validation_status", "ocsp_status", "cert"),
    *plain(_STRING, "requested_client_certificate_authorities", form=LIST),
    *plain(_INT, "server_version", "client_version", "server_supported_version", "server_key_share_group"),
    *plain(_INT, "ticket_lifetime_hint", "dh_param_size", "ech_kdf_id", "ech_aead_id"),
    *plain(_STRING, *_OFFERED, form=LIST),
    *plain(_STRING, "ja3", "ja3s", "ja4", "ja4s", "community_id"),
)

ZEEK: tuple[Protocol, ...] = tuple(
    log_protocol(f"ZEEK_{member.upper()}", ZEEK_KIND, member, fields, _ZEEK_ALIASES)
    for member, fields in (("conn", _CONN), ("dns", _ZEEK_DNS), ("http", _LOGS_HTTP), ("ssl", _SSL))
)


READY: dict[str, Protocol] = {protocol.name: protocol for protocol in (*ZEEK, *SURICATA, *NFDUMP)}
"""Name -> ready protocol."""

LOG_KINDS: tuple[str, ...] = tuple(dict.fromkeys(protocol.kind for protocol in READY.values()))
"""Kinds of links that hold logs: a kind names the tool that wrote the file."""

RECORD_KINDS = ("csv", "json", "parquet", *LOG_KINDS)
"""Kinds of links whose records are no packets."""

BUILTIN: dict[str, Protocol] = {**PROTOCOLS, **READY}
"""All protocols that a query may name without declaring them."""
