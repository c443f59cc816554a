"""Ready protocols of Suricata's EVE log (JSON): `flow`, `alert` and `dns`. One file holds events of many types.

Fields of versions 4 to 8; a field that an event lacks is NULL. (The user guide of Suricata: EVE JSON format.)
"""

from __future__ import annotations

from lowwater.catalog.logs.fields import CLOCK, LogField, log_protocol, plain
from lowwater.catalog.protocols import Protocol
from lowwater.catalog.records import INSTANT, LIST, PROTOCOL_NAME
from lowwater.catalog.types import Type

KIND = "suricata"
_INT, _BOOL, _STRING = Type.INT, Type.BOOL, Type.STRING

_EVENT = (
    *plain(_INT, "flow_id"),
    *plain(_STRING, "in_iface"),
    *plain(_STRING, "vlan", form=LIST),
    LogField("srcIP", Type.IP, "src_ip"),
    LogField("srcPort", _INT, "src_port", others=("icmp_type",)),
    LogField("destIP", Type.IP, "dest_ip"),
    LogField("destPort", _INT, "dest_port", others=("icmp_code",)),
    LogField("protocol", _INT, "proto", PROTOCOL_NAME),
    *plain(_STRING, "proto"),
    *plain(_INT, "icmp_type", "icmp_code"),
    *plain(_STRING, "app_proto", "community_id"),
)
_ALIASES = {"src_ip": "srcIP", "src_port": "srcPort", "dest_ip": "destIP", "dest_port": "destPort"}
_TIMED = (LogField(CLOCK, _INT, "timestamp", INSTANT), *_EVENT)

_COUNTS = ("flow.pkts_toserver", "flow.pkts_toclient", "flow.bytes_toserver", "flow.bytes_toclient")
_FLOW = (
    LogField(CLOCK, _INT, "flow.start", INSTANT),
    LogField("flow_end", _INT, "flow.end", INSTANT),
    LogField("logged", _INT, "timestamp", INSTANT),
    *_EVENT,
    *plain(_INT, *_COUNTS, "flow.age"),
    *plain(_STRING, "flow.state", "flow.reason"),
    *plain(_BOOL, "flow.alerted"),
    *plain(_STRING, "tcp.tcp_flags", "tcp.tcp_flags_ts", "tcp.tcp_flags_tc", "tcp.state"),
)
_ALERT = (
    *_TIMED,
    *plain(_INT, "pcap_cnt", "tx_id"),
    *plain(_STRING, "alert.action"),
    *plain(_INT, "alert.gid", "alert.signature_id", "alert.rev"),
    *plain(_STRING, "alert.signature", "alert.category"),
    *plain(_INT, "alert.severity"),
    *plain(_STRING, "direction"),
    LogField("flow_start", _INT, "flow.start", INSTANT),
    *plain(_INT, *_COUNTS),
    *plain(_STRING, "http.hostname", "http.url", "tls.sni"),
)
_DNS = (
    *_TIMED,
    *plain(_INT, "pcap_cnt", "tx_id"),
    *plain(_STRING, "dns.type"),
    *plain(_INT, "dns.id", "dns.tx_id"),
    LogField("dns_rrname", _STRING, "dns.rrname", others=("dns.queries.rrname", "dns.query.rrname")),
    LogField("dns_rrtype", _STRING, "dns.rrtype", others=("dns.queries.rrtype", "dns.query.rrtype")),
    *plain(_STRING, "dns.rcode", "dns.rdata"),
    *plain(_INT, "dns.ttl"),
    *plain(_STRING, "dns.flags"),
    *plain(_BOOL, "dns.qr", "dns.aa", "dns.tc", "dns.rd", "dns.ra"),
    *plain(_STRING, "dns.answers", "dns.grouped.A", "dns.grouped.AAAA", "dns.grouped.CNAME", form=LIST),
)

PROTOCOLS: tuple[Protocol, ...] = tuple(
    log_protocol(f"EVE_{member.upper()}", KIND, member, fields, aliases, nested=True)
    for member, fields, aliases in (
        ("flow", _FLOW, {**_ALIASES, "flow_start": CLOCK}),
        ("alert", _ALERT, _ALIASES),
        ("dns", _DNS, _ALIASES),
    )
)
