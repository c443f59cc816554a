"""The schemas of packets/, and of streams between stages and as published."""

from __future__ import annotations

import pyarrow as pa

from lowwater.catalog import expr as ex, records

# Stored packets. Ingest writes RECORD for every packet, and columns of KEPT for links that ask for them. All other
# columns of a protocol are computed from these (`protocols`). An IP address takes two signed 64-bit words (`<name>_hi`,
# `<name>_lo`) and a column for its version (`ADDRESSES`). `docs/packets.md` explains each column, and when it is NULL.

IDENTITY = pa.schema(
    [
        pa.field("capture", pa.string(), nullable=False),  # its identity, hex (SEMANTICS T5)
        pa.field("position", pa.int64(), nullable=False),  # 0-based record number in the capture
        pa.field("arrival", pa.int64(), nullable=False),  # largest sane timestamp of the capture so far, ns
    ]
)

COLUMNS = pa.schema(
    [
        pa.field("timestamp", pa.int64(), nullable=False),  # ns since the epoch
        pa.field("len", pa.int32(), nullable=False),  # bytes on the wire
        pa.field("caplen", pa.int32(), nullable=False),  # bytes captured
        pa.field("srcMAC", pa.int64()),
        pa.field("destMAC", pa.int64()),
        pa.field("ether_type", pa.int32()),
        pa.field("vlan_id", pa.int32()),
        pa.field("ipversion", pa.int32()),
        pa.field("srcIP_hi", pa.int64()),
        pa.field("srcIP_lo", pa.int64()),
        pa.field("destIP_hi", pa.int64()),
        pa.field("destIP_lo", pa.int64()),
        pa.field("protocol", pa.int32()),
        pa.field("srcPort", pa.int32()),
        pa.field("destPort", pa.int32()),
        pa.field("total_length", pa.int32()),
        pa.field("ttl", pa.int32()),
        pa.field("tos", pa.int32()),
        pa.field("id", pa.int64()),
        pa.field("offset", pa.int32()),  # fragment offset, bytes
        pa.field("flags", pa.int32()),  # TCP flags
        pa.field("sequence_number", pa.int64()),
        pa.field("ack_number", pa.int64()),
        pa.field("window", pa.int32()),
        pa.field("icmp_type", pa.int32()),
        pa.field("icmp_code", pa.int32()),
        pa.field("payload_offset", pa.int32()),  # start of the frame to the end of the outermost transport header
        pa.field("payload_length", pa.int32()),  # bytes on the wire
        pa.field("unsaid_length", pa.int32()),  # length of the IP packet where its header says 0 for another one
        pa.field("tunnel", pa.int32()),  # IP protocol or UDP port of the outermost tunnel
        pa.field("tunnel_id", pa.int64()),
        pa.field("inner_ipversion", pa.int32()),
        pa.field("inner_srcIP_hi", pa.int64()),
        pa.field("inner_srcIP_lo", pa.int64()),
        pa.field("inner_destIP_hi", pa.int64()),
        pa.field("inner_destIP_lo", pa.int64()),
        pa.field("inner_protocol", pa.int32()),
        pa.field("inner_srcPort", pa.int32()),
        pa.field("inner_destPort", pa.int32()),
        pa.field("inner_flags", pa.int32()),
        pa.field("arp_op", pa.int32()),
        pa.field("arp_ipversion", pa.int32()),
        pa.field("arp_srcIP_hi", pa.int64()),
        pa.field("arp_srcIP_lo", pa.int64()),
        pa.field("arp_destIP_hi", pa.int64()),
        pa.field("arp_destIP_lo", pa.int64()),
    ]
)

RECORD = pa.schema([*IDENTITY, *COLUMNS])
"""One row of `packets/`, without the partition columns `link` and `hour` (of the arrival, hours since the epoch)."""

BATCH = pa.schema([field for field in RECORD if field.name != "capture"])
"""What is decoded of a packet: a row of `packets/` before its capture has a number."""

FRAME, PAYLOAD, HEAD = "frame", "payload", "frame_head"
PACKET_HASH = ("packet_hash_hi", "packet_hash_lo")
"""Columns of the hash by which copies of a packet are found (SEMANTICS D1)."""

SAMPLING_RATE = "sampling_rate"
RECORD_NUMBER = "record_number"
"""Column with the number of a record, in the order of T1 within the link and the run. Computed, never stored."""

THINNED_BY = ("len", HEAD)
"""Columns that identify a packet for sampling and load shedding, beside its timestamp (SEMANTICS O5)."""

KEPT = pa.schema(
    [
        pa.field(FRAME, pa.binary()),  # first bytes of the frame: headers and the beginning of the payload
        pa.field(HEAD, pa.int64()),  # digest of the first 64 bytes, by which packets are sampled
        pa.field(PACKET_HASH[0], pa.int64()),  # hash of the bytes above the link layer, by which copies are found
        pa.field(PACKET_HASH[1], pa.int64()),
        pa.field("dns_id", pa.int32()),
        pa.field("dns_query", pa.string()),  # name of the first question
        pa.field("dns_type", pa.int32()),  # of the first question
        pa.field("dns_response", pa.int32()),  # 1 for a response, 0 for a query
        pa.field("dns_rcode", pa.int32()),  # of a response: the 4 bits in the header
        pa.field("dns_answers", pa.int32()),  # as the header counts them
        pa.field("http_method", pa.string()),
        pa.field("http_host", pa.string()),
        pa.field("http_uri", pa.string()),
        pa.field("http_user_agent", pa.string()),
        pa.field("http_status", pa.int32()),  # of a response
        pa.field("tls_hello", pa.int32()),  # 1 for a ClientHello, 2 for a ServerHello
        pa.field("tls_record_version", pa.int32()),
        pa.field("tls_hello_version", pa.int32()),  # the old field of the hello, at most TLS 1.2
        pa.field("tls_version", pa.int32()),  # highest one that a client offers, or the choice of a server
        pa.field("tls_cipher", pa.int32()),  # choice of a server
        pa.field("tls_server_name", pa.string()),
        pa.field("tls_alpn", pa.string()),  # offers of a client with commas between them, or the choice of a server
        pa.field("tls_ja3", pa.string()),  # of a ClientHello
        pa.field("tls_ja3s", pa.string()),  # of a ServerHello
        pa.field("tls_ja4", pa.string()),  # of a ClientHello
        pa.field("ssh_banner", pa.string()),  # identification string of a client or server
        pa.field("quic_version", pa.int64()),  # of an Initial packet
        pa.field("quic_dcid_length", pa.int32()),
        pa.field("quic_scid_length", pa.int32()),
        pa.field("quic_server_name", pa.string()),
        pa.field("quic_alpn", pa.string()),
        pa.field("quic_ja4", pa.string()),
    ]
)
"""Columns that ingest stores only if the settings of a link ask for them; otherwise they read as NULL."""

UNNAMED = (FRAME, HEAD, *PACKET_HASH)
"""Columns of `KEPT` that no expression reads."""

READABLE = pa.schema([*RECORD, *KEPT])
"""All stored columns that an engine may read."""

ADDRESSES = {
    "srcIP": "ipversion",
    "destIP": "ipversion",
    "inner_srcIP": "inner_ipversion",
    "inner_destIP": "inner_ipversion",
    "arp_srcIP": "arp_ipversion",
    "arp_destIP": "arp_ipversion",
}
"""Address column -> the stored column of its IP version."""

TYPES: dict[str, ex.Type] = {
    **{field.name: ex.Type.INT for field in COLUMNS if not field.name.endswith(("_hi", "_lo"))},
    "srcMAC": ex.Type.MAC,
    "destMAC": ex.Type.MAC,
    **dict.fromkeys(ADDRESSES, ex.Type.IP),
    "interface": ex.Type.STRING,  # the link: constant in the stream of a link, never stored
    **{
        field.name: ex.Type.STRING if field.type == pa.string() else ex.Type.INT
        for field in KEPT
        if field.name not in UNNAMED
    },
    PAYLOAD: ex.Type.STRING,  # computed from the frame
    SAMPLING_RATE: ex.Type.FLOAT,  # sampling rate of the query that reads it; never stored
}
"""Column of a packet -> its type, for all columns that expressions may read."""


def address_parts(name: str) -> tuple[str, ...]:
    """Returns the stored columns of an address: version, upper and lower word; empty for any other column.

    Example:
        >>> address_parts("srcIP"), address_parts("ip:src"), address_parts("len")
        (('ipversion', 'srcIP_hi', 'srcIP_lo'), ('ip.version:src', 'ip.high:src', 'ip.low:src'), ())
    """
    if name in ADDRESSES:
        return ADDRESSES[name], f"{name}_hi", f"{name}_lo"
    return records.stored_parts(name) if name.startswith("ip:") else ()


def is_stored(name: str) -> bool:
    """Whether a stored column of packets or other records has this name."""
    return name in READABLE.names or records.is_record_column(name)


def stored_field(name: str) -> pa.Field:
    """Returns the name and type of a stored column of packets or other records."""
    return records.record_field(name) if records.is_record_column(name) else READABLE.field(name)


def stored(names: list[str]) -> list[str]:
    """Returns the stored columns that the columns of expressions need, without repetition.

    Example:
        >>> stored(["timestamp", "srcIP", "interface"])
        ['timestamp', 'ipversion', 'srcIP_hi', 'srcIP_lo']
        >>> stored(["payload"])
        ['frame', 'payload_offset', 'payload_length']
    """
    columns: dict[str, None] = {}
    for name in names:
        if (parts := address_parts(name)) or records.is_record_column(name):
            columns.update(dict.fromkeys(parts or records.stored_parts(name)))
        elif name == PAYLOAD:
            columns.update(dict.fromkeys((FRAME, "payload_offset", "payload_length")))
        elif name not in ("interface", SAMPLING_RATE, RECORD_NUMBER):
            columns[name] = None
    return list(columns)


# Streams, between stages and as published. A row of `lfta/` or `streams/` has the fields of its plan node, then CONTROL
# (SEMANTICS P5). A punctuation row has all columns; a column without a promise is NULL. `streams/` has the published
# types, with addresses as texts, since its files become files of `tables/`.

ROW = "row"
PUNCTUATION = "punctuation"

LAST = "_last"
TICK = "_tick"
"""Control columns that operators read: last instant of a row (I1), and virtual time of its emission; both ns."""

STREAM_TYPES: dict[ex.Type, pa.DataType] = {
    ex.Type.BOOL: pa.bool_(),
    ex.Type.INT: pa.int64(),
    ex.Type.FLOAT: pa.float64(),
    ex.Type.IP: pa.binary(),
    ex.Type.MAC: pa.int64(),
    ex.Type.STRING: pa.string(),
    ex.Type.INSTANT: pa.int64(),
}

INSTANT = pa.timestamp("us", tz="UTC")
"""Type of instants in published rows: TIMESTAMP of a table."""

TABLE_TYPES: dict[ex.Type, pa.DataType] = {
    **STREAM_TYPES,
    ex.Type.IP: pa.string(),
    ex.Type.MAC: pa.string(),
    ex.Type.INSTANT: INSTANT,
}

CONTROL = pa.schema(
    [
        pa.field(
            LAST, pa.int64(), nullable=False
        ),  # row: last instant, ns (I1); punctuation: a lower bound of later rows
        pa.field("_kind", pa.string(), nullable=False),  # ROW or PUNCTUATION
        pa.field(TICK, pa.int64(), nullable=False),  # virtual time of the emission, ns
        pa.field("_until", pa.int64(), nullable=False),  # lull: its last tick, ns; else equal to _tick (T4)
        pa.field("_period", pa.int64(), nullable=False),  # lull: ns between its ticks; else 0
    ]
)
