"""Ready protocols of Zeek: `conn`, `dns`, `http` and `ssl`, in Zeek's own text format or in JSON.

Fields of versions 3 to 8, with those of the scripts that Zeek ships; a field that a file lacks is NULL. (The script
reference of Zeek: Conn::Info, DNS::Info, HTTP::Info, SSL::Info.) JA3 and JA4 are those of well-known packages.
"""

from __future__ import annotations

from lowwater.catalog.logs.fields import CLOCK, LogField, log_protocol, plain
from lowwater.catalog.protocols import Protocol
from lowwater.catalog.records import INSTANT, LIST, PROTOCOL_NAME
from lowwater.catalog.types import Type

KIND = "zeek"
_INT, _FLOAT, _BOOL, _STRING = Type.INT, Type.FLOAT, Type.BOOL, Type.STRING

_ENDS = (
    LogField(CLOCK, _INT, "ts", INSTANT),
    *plain(_STRING, "uid"),
    LogField("srcIP", Type.IP, "id.orig_h", others=("id/orig_h",)),
    LogField("srcPort", _INT, "id.orig_p", others=("id/orig_p",)),
    LogField("destIP", Type.IP, "id.resp_h", others=("id/resp_h",)),
    LogField("destPort", _INT, "id.resp_p", others=("id/resp_p",)),
)
_ALIASES = {"id_orig_h": "srcIP", "id_orig_p": "srcPort", "id_resp_h": "destIP", "id_resp_p": "destPort"}
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
_DNS = (
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
_HTTP = (
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
        _STRING, "cert_chain_fps", "client_cert_chain_fps", "cert_chain_fuids", "client_cert_chain_fuids", form=LIST
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

PROTOCOLS: tuple[Protocol, ...] = tuple(
    log_protocol(f"ZEEK_{member.upper()}", KIND, member, fields, _ALIASES)
    for member, fields in (("conn", _CONN), ("dns", _DNS), ("http", _HTTP), ("ssl", _SSL))
)
