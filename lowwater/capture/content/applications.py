"""Fields of applications (DNS, HTTP/1, TLS, QUIC, SSH) in packets, for the queries that read them."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import dns.exception
import dns.name
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.capture.content import hello as tls
from lowwater.capture.headers.fields import big32, prefetch
from lowwater.capture.inlining import kernel, part
from lowwater.catalog.schemas import KEPT, UNNAMED

# Initial packets of QUIC: version, lengths of connection ids, and the ClientHello in it (RFC 9001, RFC 9369). The
# keys of a client's first packets follow from the destination connection id, so everybody who sees such a packet can
# decrypt it. The work for a datagram is bounded: its first packet, at most LONGEST_PACKET bytes, one derivation of
# keys, one block of AES and one decryption. Datagrams are not put together: a ClientHello of several packets is cut
# at its first gap. Packets of servers, and of clients after the answer of a server, have other keys: their names are
# NULL.

LONGEST_PACKET = 1 << 14
LEAST_DATAGRAM = 1200
"""Bytes of a datagram with an Initial packet of a client (RFC 9000, section 14.1); smaller ones are not decrypted."""

LEAST_ID = 8
"""Bytes of the destination connection id that a client chooses (RFC 9000, section 7.2)."""

MOST_ID = 20

_SALTS = {
    tls.VERSION_1: bytes.fromhex("38762cf7f55934b34d179ae6a4c80cadccbb7f0a"),
    tls.VERSION_2: bytes.fromhex("0dede3def700a6db819381be6e269dcbf9bd2ed9"),
}
_LABELS = {tls.VERSION_1: b"quic ", tls.VERSION_2: b"quicv2 "}
_NAMES = ("server_name", "alpn", "ja4")
_CLEAR = {"quic_version": pa.int64(), "quic_dcid_length": pa.int32(), "quic_scid_length": pa.int32()}
_SAMPLE = 16  # bytes of ciphertext that protect the header, from 4 bytes behind the begin of the packet number on
_PADDING, _PING, _ACK, _ACK_ECN, _CRYPTO = 0, 1, 2, 3, 6
_ZEROS = re.compile(rb"\x00+")


def quic_columns(payloads: list[bytes]) -> dict[str, pa.Array]:
    """Reads the Initial packets at the beginning of datagrams. Returns column -> a value for each payload.

    Args:
        payloads: payloads of UDP datagrams that begin as `hello.begins_initial` says.
    """
    rows: list[dict[str, int]] = []
    hellos: list[bytes] = []
    for payload in payloads:
        fields, at = _clear(payload)
        rows.append(fields)
        hello = _client_hello(payload, at) if at else b""
        hellos.append(hello if hello[:1] == bytes([tls.CLIENT]) else b"")
    columns = {name: pa.array([row.get(name) for row in rows], kind) for name, kind in _CLEAR.items()}
    ends = np.cumsum([0, *map(len, hellos)])
    found = tls.hello_columns(np.frombuffer(bytearray(b"".join(hellos)), np.uint8), ends[:-1], ends[1:], "q")
    return columns | {f"quic_{name}": found[name] for name in _NAMES}


def _clear(payload: bytes) -> tuple[dict[str, int], int]:
    """Returns the fields in the clear, and the index behind them; 0 if no ClientHello can be read."""
    fields = {"quic_version": int.from_bytes(payload[1:5], "big")}
    at = 5
    for name in ("quic_dcid_length", "quic_scid_length"):
        if at >= len(payload):
            return fields, 0
        if payload[at] > MOST_ID:
            return {}, 0
        fields[name] = payload[at]
        at += 1 + payload[at]
    whole = len(payload) >= LEAST_DATAGRAM and fields["quic_dcid_length"] >= LEAST_ID
    return fields, at if whole else 0


def _client_hello(payload: bytes, at: int) -> bytes:
    """Returns the beginning of the handshake stream in a packet whose token begins at an index."""
    token, at = _varint(payload, at)
    length, at = _varint(payload, at + token)
    if not 4 + _SAMPLE <= length <= LONGEST_PACKET or at + length > len(payload):
        return b""
    version, identity = int.from_bytes(payload[1:5], "big"), payload[6 : 6 + payload[5]]
    return _stream(_decrypt(payload[: at + length], at, identity, version))


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Returns an integer of variable length and the index behind it; if it is cut, an integer that is too large."""
    if at >= len(data):
        return 1 << 62, at
    width = 1 << (data[at] >> 6)
    if at + width > len(data):
        return 1 << 62, at
    return int.from_bytes(data[at : at + width], "big") & ((1 << (8 * width - 2)) - 1), at + width


def _expand(secret: bytes, label: bytes, length: int) -> bytes:
    """HKDF-Expand-Label of TLS 1.3 for up to 32 bytes: one block of the digest."""
    label = b"tls13 " + label
    information = length.to_bytes(2, "big") + bytes([len(label)]) + label + b"\x00\x01"
    return hmac.digest(secret, information, hashlib.sha256)[:length]


def _decrypt(packet: bytes, at: int, identity: bytes, version: int) -> bytes:
    """Returns the frames of a client's packet whose number begins at an index; nothing if the keys do not fit."""
    # Most processes decrypt nothing, and need not load the library.
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    secret = _expand(hmac.digest(_SALTS[version], identity, hashlib.sha256), b"client in", 32)
    key, iv, mask_key = (
        _expand(secret, _LABELS[version] + name, length) for name, length in ((b"key", 16), (b"iv", 12), (b"hp", 16))
    )
    sample = packet[at + 4 : at + 4 + _SAMPLE]
    mask = Cipher(algorithms.AES(mask_key), modes.ECB()).encryptor().update(sample)
    first = packet[0] ^ mask[0] & 0x0F
    size = 1 + (first & 3)
    number = bytes(left ^ right for left, right in zip(packet[at : at + size], mask[1:], strict=False))
    header = bytes([first]) + packet[1:at] + number
    nonce = iv[: 12 - size] + bytes(left ^ right for left, right in zip(iv[12 - size :], number, strict=True))
    try:
        return AESGCM(key).decrypt(nonce, packet[at + size :], header)
    except InvalidTag:
        return b""


def _stream(frames: bytes) -> bytes:
    """Returns the beginning of the handshake stream, up to its first gap."""
    stream = b""
    for offset, data in sorted(_pieces(frames)):
        if offset > len(stream):
            break
        stream += data[len(stream) - offset :]
    return stream


def _pieces(frames: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields offset and bytes of every CRYPTO frame, up to a frame that no Initial packet has."""
    at = 0
    while at < len(frames):
        kind = frames[at]
        if kind == _PADDING:
            zeros = _ZEROS.match(frames, at)
            at = len(frames) if zeros is None else zeros.end()
        elif kind == _PING:
            at += 1
        elif kind in (_ACK, _ACK_ECN):
            at = _after_ack(frames, at + 1, kind == _ACK_ECN)
        elif kind == _CRYPTO:
            offset, at = _varint(frames, at + 1)
            length, at = _varint(frames, at)
            if at + length > len(frames):
                return
            yield offset, frames[at : at + length]
            at += length
        else:
            return


def _after_ack(frames: bytes, at: int, counted: bool) -> int:
    """Returns the index behind an ACK frame whose type ends at an index."""
    _, at = _varint(frames, at)
    _, at = _varint(frames, at)
    ranges, at = _varint(frames, at)
    # The first range, a gap and a range for each other one, and three counts: a byte or more each.
    for _ in range(min(1 + 2 * ranges + (3 if counted else 0), len(frames) - at)):
        _, at = _varint(frames, at)
    return at


# Fields of applications (DNS, HTTP/1, TLS, QUIC, SSH) in packets, for the queries that read them. It runs after
# decoding, for links that store these fields. A kernel marks the few packets that may hold a message; only these are
# parsed: here DNS and HTTP/1, in `tls`, `quic` and `ssh` the others. Packets are parsed one by one. If a message
# spans several TCP segments, only fields that are whole in the first segment have a value. A middle segment of a DNS
# stream is parsed as if a message began in it. Packet bytes never raise an error: a field that is not whole is NULL.
# At most 16 KiB of a payload are looked at. DNS (RFC 1035, over TCP RFC 7766) is UDP or TCP on port 53, 5353
# (multicast) or 5355 (LLMNR). HTTP/1 (RFC 9112) is any TCP payload that begins with a method or with `HTTP/1.`. RTSP
# and SIP have such request lines too, with another version: a line that is cut before the version may still show a
# method. Names are written as in zone files; a byte that is not printable ASCII is `\DDD` (RFC 4343). HTTP texts have
# one character a byte, as payloads have.

# The identification string of SSH (RFC 4253, section 4.2): the first line of a client and of a server.

LONGEST_LINE = 255
"""Most bytes of the line, with its end."""


def ssh_fields(payload: bytes) -> dict[str, Any]:
    """Parses an identification string.

    Args:
        payload: payload of a TCP segment that begins with `SSH-`.

    Example:
        >>> ssh_fields(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\\r\\n")
        {'ssh_banner': 'SSH-2.0-OpenSSH_9.2p1 Debian-2'}
    """
    line, end, _ = payload[:LONGEST_LINE].partition(b"\n")
    return {"ssh_banner": line.removesuffix(b"\r").decode("latin-1")} if end else {}


APPLICATIONS = pa.schema([field for field in KEPT if field.name not in UNNAMED])
"""Schema of the fields; all are nullable."""

NAMES = tuple(dict.fromkeys(name.partition("_")[0] for name in APPLICATIONS.names))
"""The applications, as settings name them."""

_OF_APPLICATION = {name: [field for field in APPLICATIONS if field.name.partition("_")[0] == name] for name in NAMES}
_HEAD = 1 << 14  # bytes of a payload that are parsed
_METHODS = frozenset(
    b"GET HEAD POST PUT DELETE CONNECT OPTIONS TRACE PATCH PROPFIND PROPPATCH MKCOL COPY MOVE LOCK UNLOCK SEARCH "
    b"REPORT MERGE CHECKOUT CHECKIN UNCHECKOUT MKACTIVITY MKWORKSPACE VERSION-CONTROL BASELINE-CONTROL UPDATE LABEL "
    b"NOTIFY SUBSCRIBE UNSUBSCRIBE BCOPY BMOVE BDELETE BPROPFIND BPROPPATCH POLL PURGE LINK UNLINK BIND REBIND UNBIND "
    b"ACL MKCALENDAR RPC_CONNECT RPC_IN_DATA RPC_OUT_DATA CCM_POST SSTP_DUPLEX_POST".split()
)
_STARTS = np.unique([int.from_bytes((method + b" ")[:4], "big") for method in (*_METHODS, b"HTTP")])
_STATUS = re.compile(rb"HTTP/1\.[0-9] +([0-9]{3})[ \r\n]")
_VERSION = b"HTTP/1."
_FIELDS = {b"host": "http_host", b"user-agent": "http_user_agent"}

_TCP, _UDP = 6, 17
_AHEAD = 8  # packets whose payload is asked for before it is looked at
_DNS_HEADER = 12
_DNS_LONGEST = _DNS_HEADER + 255 + 1
"""Bytes up to the end of the longest name: one that ends with a pointer, in place of the empty label, has one more."""
_NOTHING, _DNS, _DNS_TCP, _HTTP, _TLS, _SSH, _QUIC = range(7)
_MARKS = {"dns": (_DNS, _DNS_TCP), "http": (_HTTP,), "tls": (_TLS,), "ssh": (_SSH,), "quic": (_QUIC,)}
_WANT_DNS, _WANT_HTTP, _WANT_TLS, _WANT_SSH, _WANT_QUIC = (
    1 << NAMES.index(name) for name in ("dns", "http", "tls", "ssh", "quic")
)


@part
def _value(column: Any, row: int) -> int:
    """Returns a value of `_column`, -1 for NULL."""
    numbers, valid, skipped = column
    if len(valid) > 0 and not valid[(skipped + row) >> 3] >> ((skipped + row) & 7) & 1:
        return -1
    return int(numbers[row])


@kernel
def _mark(
    buffer: Any,
    begins: Any,
    captured: Any,
    protocol: Any,
    source: Any,
    destination: Any,
    offsets: Any,
    lengths: Any,
    starts: Any,
    wanted: int,
    out: Any,
) -> int:
    """Finds rows whose payload may hold a message of a wanted application, by ports and first bytes.

    Args:
        buffer: uint8 array that holds the frames.
        begins: shape (n), index of the frames.
        captured: captured bytes of the frames, as of `_column`, as the next five.
        starts: first bytes of messages of HTTP.
        out: shape (4, n), receives row, mark, begin and end of the payload.
    """
    count, last = 0, len(begins) - 1
    for row in range(last + 1):
        above, offset = _value(protocol, row), _value(offsets, row)
        prefetch(buffer, begins[min(row + _AHEAD, last)] + offset)
        tcp = above == _TCP
        if offset < 0 or not (tcp or above == _UDP):
            continue
        begin, end, length = begins[row] + offset, begins[row] + _value(captured, row), _value(lengths, row)
        if length >= 0:
            end = min(end, begin + length)
        if end - begin < 4:
            continue
        kind = _NOTHING
        if wanted & _WANT_DNS:
            for port in (_value(source, row), _value(destination, row)):
                if port in (53, 5353, 5355):
                    kind = _DNS_TCP if tcp else _DNS
        if kind != _NOTHING:
            pass
        elif not tcp:
            if wanted & _WANT_QUIC and tls.begins_initial(buffer, begin, end):
                kind = _QUIC
        elif wanted & _WANT_TLS and tls.begins_hello(buffer, begin, end):
            kind = _TLS
        elif wanted & (_WANT_SSH | _WANT_HTTP):
            first = big32(buffer, begin)
            if wanted & _WANT_SSH and first == tls.SSH:
                kind = _SSH
            if wanted & _WANT_HTTP:
                for start in starts:
                    if first == start:
                        kind = _HTTP
        if kind != _NOTHING:
            out[0, count], out[1, count], out[2, count], out[3, count] = row, kind, begin, min(end, begin + _HEAD)
            count += 1
    return count


def application_fields(
    buffer: NDArray[np.uint8], begins: NDArray[np.int64], batch: pa.RecordBatch, applications: Sequence[str] = NAMES
) -> dict[str, pa.Array]:
    """Extracts the fields of applications from the payloads of the outermost transport.

    Args:
        begins: shape (n), index of the frames in the buffer.
        batch: the decoded frames, n rows with `caplen`, `protocol`, `srcPort`, `destPort`, `payload_offset` and
            `payload_length`.

    Returns:
        The columns of `APPLICATIONS` for these applications, in order -> n values; NULL without such a message, and for
        fields that are not whole.
    """
    ports = ("srcPort", "destPort") if "dns" in applications else ("caplen", "caplen")  # ports matter for DNS alone
    names = ("caplen", "protocol", *ports, "payload_offset", "payload_length")
    wanted = sum(1 << NAMES.index(name) for name in set(applications))
    out = tls.new_bytes(4 * len(begins) * 8).view(np.int64).reshape(4, -1)
    captured, protocol, source, destination, offsets, lengths = (_column(batch.column(name)) for name in names)
    count = _mark(buffer, begins, captured, protocol, source, destination, offsets, lengths, _STARTS, wanted, out)
    marked = np.ascontiguousarray(out[:, :count])
    columns: dict[str, pa.Array] = {}
    for name in NAMES:
        if name in applications:
            kinds = marked[1]
            chosen = kinds == _MARKS[name][0]
            for mark in _MARKS[name][1:]:
                chosen |= kinds == mark
            if not chosen.any():
                columns |= {field.name: pa.nulls(len(begins), field.type) for field in _OF_APPLICATION[name]}
                continue
            rows, kinds, firsts, ends = marked if chosen.all() else np.ascontiguousarray(marked[:, chosen])
            found = _parsed(name, buffer, firsts, ends, kinds)
            columns |= {field: tls.spread(values, rows, len(begins)) for field, values in found.items()}
    return {name: columns[name] for name in APPLICATIONS.names if name in columns}


def _parsed(
    name: str, buffer: NDArray[np.uint8], begins: NDArray[np.int64], ends: NDArray[np.int64], kinds: NDArray[np.int64]
) -> dict[str, pa.Array]:
    """Returns the columns of an application in the payloads that are marked for it."""
    if name == "tls":
        return tls.tls_columns(buffer, begins, ends)
    payloads = [buffer[begin:end].tobytes() for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
    if name == "quic":
        return quic_columns(payloads)
    rows = [_PARSERS[kind](payload) for kind, payload in zip(kinds.tolist(), payloads, strict=True)]
    return {field.name: pa.array([row.get(field.name) for row in rows], field.type) for field in _OF_APPLICATION[name]}


def dns_fields(payload: bytes, tcp: bool) -> dict[str, Any]:
    """Parses a DNS message.

    Args:
        payload: payload of a UDP datagram, or of a TCP segment in which a message begins.
        tcp: whether two bytes of length precede the message.

    Example:
        >>> dns_fields(bytes.fromhex("0001010000010000000000000377777703636f6d0000010001"), tcp=False)["dns_query"]
        'www.com'
    """
    if tcp:
        payload = payload[2 : 2 + int.from_bytes(payload[:2], "big")]
    if len(payload) < _DNS_HEADER:
        return {}
    identity, flags, questions, answers = (int.from_bytes(payload[at : at + 2], "big") for at in range(0, 8, 2))
    fields: dict[str, Any] = {"dns_id": identity, "dns_response": flags >> 15, "dns_answers": answers}
    if flags >> 15:
        fields["dns_rcode"] = flags & 15
    if not questions:
        return fields
    try:
        name, used = dns.name.from_wire(payload[:_DNS_LONGEST], _DNS_HEADER)
    except dns.exception.DNSException:
        return fields
    fields["dns_query"] = name.to_text(omit_final_dot=True)
    after = _DNS_HEADER + used
    if after + 2 <= len(payload):
        fields["dns_type"] = int.from_bytes(payload[after : after + 2], "big")
    return fields


def http_fields(payload: bytes) -> dict[str, Any]:
    """Parses an HTTP/1 request or response.

    Example:
        >>> http_fields(b"GET / HTTP/1.1\\r\\nHost: a.example\\r\\nUser-Ag")
        {'http_method': 'GET', 'http_uri': '/', 'http_host': 'a.example'}
    """
    if payload.startswith(_VERSION):
        status = _STATUS.match(payload)
        return {"http_status": int(status[1])} if status else {}
    first, newline, rest = payload.partition(b"\n")
    fields = _request(first, bool(newline))
    if not fields:
        return {}
    # The last line may be cut.
    for line in rest.split(b"\n")[:-1]:
        name, colon, value = line.partition(b":")
        if not line.strip():
            break
        field = _FIELDS.get(name.strip().lower())
        if field and colon:
            fields.setdefault(field, _text(value.strip()))
    return fields


def _request(line: bytes, whole: bool) -> dict[str, Any]:
    """Returns method and URI of a request line; nothing for another protocol, such as SIP or RTSP."""
    method, space, rest = line.partition(b" ")
    if not space or method not in _METHODS:
        return {}
    fields = {"http_method": _text(method)}
    uri, space, version = rest.strip().rpartition(b" ")
    if space and version.startswith(_VERSION):
        return fields | {"http_uri": _text(uri.strip())}
    if not whole:
        return fields
    # HTTP/0.9 has only this method, and no version.
    return fields | {"http_uri": _text(version)} if method == b"GET" and version and not space else {}


def _text(value: bytes) -> str:
    return value[: tls.LONGEST_TEXT].decode("latin-1")


def _column(array: pa.Array) -> tuple[NDArray[np.int32], NDArray[np.uint8], int]:
    """Returns the values of a column of integers, its bitmap (empty without NULL), and the bit of its first row."""
    bits, data = array.buffers()
    valid = tls.read_only(bits, np.uint8) if array.null_count else tls.NO_BITS
    return tls.read_only(data, np.int32)[array.offset : array.offset + len(array)], valid, array.offset


_PARSERS: dict[int, Callable[[bytes], dict[str, Any]]] = {
    _DNS: lambda payload: dns_fields(payload, tcp=False),
    _DNS_TCP: lambda payload: dns_fields(payload, tcp=True),
    _HTTP: http_fields,
    _SSH: ssh_fields,
}
"""Mark -> parser of a payload."""
