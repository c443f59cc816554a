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
_ALIASES = {"src_ip": "srcIP", "src_port": "srcPort", "dest_ip": "destIP", "dest_port": "destPort"}
_TIMED = (LogField(CLOCK, _INT, "timestamp", INSTANT), *_EVENT)

_COUNTS = ("flow.pkts_toserver", "flow.pkts_toclient", "flow.bytes_toserver", "flow.bytes_toclient")
_BYPASSED = tuple(f"flow.bypassed.{name.partition('.')[2]}" for name in _COUNTS)
_FLAGS = ("syn", "fin", "rst", "psh", "ack", "urg", "ecn", "cwr", "ts_gap", "tc_gap")
_FLOW = (
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
_DNS = (
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

PROTOCOLS: tuple[Protocol, ...] = tuple(
    log_protocol(f"EVE_{member.upper()}", KIND, member, fields, aliases, nested=True)
    for member, fields, aliases in (
        ("flow", _FLOW, {**_ALIASES, "flow_start": CLOCK}),
        ("alert", _ALERT, _ALIASES),
        ("dns", _DNS, _ALIASES),
    )
)
