"""Hostile inputs of every parser, of any size: shapes that cost the most after the code was read."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import struct
from collections.abc import Callable, Iterable
from functools import cache
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from tests import capturemaker as maker, hellomaker as hello
from tests.capture.logmaker import zeek_header
from tests.pcapngmaker import Section

SECOND = 1_000_000_000
START = 1_600_000_000 * SECOND
PAYLOAD = 1 << 14
"""Bytes of a payload that are parsed."""


class Family(NamedTuple):
    """What reads an input, and what makes one of so many bytes."""

    kind: str
    make: Callable[[int], bytes]


def filled(unit: Callable[[int], bytes], size: int) -> bytes:
    """Units with their numbers up to a size."""
    parts, total = [], 0
    while total < size:
        parts.append(unit(len(parts)))
        total += len(parts[-1])
    return b"".join(parts)


def then(head: bytes, unit: Callable[[int], bytes]) -> Callable[[int], bytes]:
    """Units behind something that stands once."""
    return lambda size: head + filled(unit, size)


def frames(unit: Callable[[int], bytes], link: int = 1, snaplen: int = 1 << 24) -> Callable[[int], bytes]:
    """A classic pcap of such frames."""
    head = maker.pcap_bytes([], link_type=link, snaplen=snaplen)

    def record(number: int) -> bytes:
        frame = unit(number)
        return struct.pack("<IIII", 1_600_000_000 + number // 1000, number % 1000, len(frame), len(frame)) + frame

    return then(head, record)


def tcp(payload: bytes, sport: int = 1000, dport: int = 443) -> bytes:
    return maker.ethernet(maker.ipv4("10.0.0.1", "10.0.0.2", 6, maker.tcp_header(sport, dport, data=payload)))


def udp(payload: bytes, sport: int = 1000, dport: int = 443) -> bytes:
    return maker.ethernet(maker.ipv4("10.0.0.1", "10.0.0.2", 17, maker.udp_header(sport, dport, payload)))


def dns(body: bytes, questions: int = 1) -> bytes:
    return udp(struct.pack("!HHHHHH", 7, 0x100, questions, 0, 0, 0) + body, dport=53)


def client(ciphers: Iterable[int], extensions: Iterable[hello.Extension]) -> bytes:
    message = hello.client(list(ciphers), list(extensions))
    return tcp(hello.record(message))


def initial(frames_: bytes, number: int = 0, length: int | None = None) -> bytes:
    size = max(len(frames_), 1162) if length is None else length
    return udp(hello.initial(frames_, number.to_bytes(8, "big"), length=size))


def cut(pieces: Iterable[bytes], size: int = PAYLOAD - 100) -> bytes:
    """Whole pieces up to a size."""
    found, total = [], 0
    for piece in pieces:
        total += len(piece)
        if total > size:
            break
        found.append(piece)
    return b"".join(found)


def counted(form: Callable[[int], bytes], count: int = PAYLOAD) -> Iterable[bytes]:
    return (form(number) for number in range(count))


@cache
def _quic(kind: str) -> bytes:
    body = hello.client([0x1301], [hello.server_name(b"a.example")])
    longest = 15_000
    made = {
        "pings": b"\x01" * longest,
        "acks": b"\x02\x00\x00" + hello.varint(longest) + b"\x00" * (longest - 6),
        "many acks": b"\x02\x00\x00\x00\x00" * (longest // 5),
        "padding": b"\x00\x01" * (longest // 2),
        "empty crypto": b"\x06\x00\x00" * (longest // 3),
        "tiny crypto": cut(counted(lambda at: hello.crypto(b"\x01", at)), longest),
        "reversed crypto": cut(reversed([hello.crypto(b"\x01", at) for at in range(2600)]), longest),
        "overlapping crypto": cut((hello.crypto(body[:60], 0) for _ in range(500)), longest),
        "growing crypto": cut((hello.crypto(bytes(at), 0) for at in range(500)), longest),
        "far crypto": cut((hello.crypto(b"a", (1 << 62) - 1 - at) for at in range(5000)), longest),
    }
    return made[kind]


def _hellos() -> dict[str, Callable[[int], bytes]]:
    many = 1 << 12
    return {
        "TLS: extensions without bytes": lambda n: client([1], [(n % 7 + at, b"") for at in range(3900)]),
        "TLS: equal extensions": lambda n: client([n & 0xFFFF], [(10, b"\x00\x02\x00\x1d")] * 2000),
        "TLS: cipher suites": lambda n: client([(at * 7919 + n) & 0xFFFF for at in range(8000)], []),
        "TLS: ALPN of one letter": lambda n: client([n & 0xFFFF], [hello.alpn(*[b"h"] * 8000)]),
        "TLS: points": lambda n: client([n & 0xFFFF], [(11, bytes([255]) + b"\xff" * 15_000)]),
        "TLS: groups and signatures": lambda n: client(
            [n & 0xFFFF], [hello.groups(*[65535] * 3900), hello.signatures(*[65535] * 3900)]
        ),
        "TLS: a long name": lambda n: client([n & 0xFFFF], [hello.server_name(b"\xff" * 15_000)]),
        "TLS: small and all different": lambda n: client([n & 0xFFFF, n >> 16], []),
        "TLS: cut into segments": lambda n: tcp(hello.browser("a.example")[: 11 + n % 200]),
        "TLS: records of one byte": lambda n: tcp(b"\x16\x03\x01\x00\x01\x01" * (1400 // 6)),
        "TLS: changes of the cipher": lambda n: tcp(b"\x14\x03\x01\x00\x01\x01" * many),
    }


def _names() -> dict[str, Callable[[int], bytes]]:
    labels = b"\x01a" * (PAYLOAD // 2 - 50)
    pointers = b"".join(struct.pack("!H", 0xC000 | at) for at in range(12, PAYLOAD - 60, 2))
    return {
        "DNS: a pointer to itself": lambda n: dns(b"\xc0\x0c"),
        "DNS: pointers into the header": lambda n: udp(b"\xc0\x00\xc0\x02\x00\x01" + bytes(6) + b"\xc0\x04", dport=53),
        "DNS: pointers forward": lambda n: dns(pointers),
        "DNS: labels up to the end": lambda n: dns(labels),
        "DNS: many questions": lambda n: dns(b"\x01a\x00\x00\x01\x00\x01" * 2000, 65535),
        "DNS: names of escapes": lambda n: dns((b"\x3f" + bytes(63)) * 3 + b"\x00\x00\x01\x00\x01"),
        "DNS: over TCP": lambda n: tcp(struct.pack("!H", 15_000) + bytes(4) + b"\x00\x01" + bytes(6) + labels, 5, 53),
        "DNS: small": lambda n: dns(b"\x01a\x00\x00\x01\x00\x01"),
    }


def _requests() -> dict[str, Callable[[int], bytes]]:
    start = b"GET / HTTP/1.1\r\n"
    return {
        "HTTP: short lines": lambda n: tcp(start + b"a\n" * 8000),
        "HTTP: one line": lambda n: tcp(b"GET " + b" " * 16_000),
        "HTTP: spaces before the version": lambda n: tcp(b"GET / " + b" " * 15_000 + b"HTTP/1.1\r\n"),
        "HTTP: spaces of a status": lambda n: tcp(b"HTTP/1.1" + b" " * 16_000),
        "HTTP: hosts": lambda n: tcp(start + b"Host:\n" * 2500),
        "HTTP: blanks around a name": lambda n: tcp(start + (b" " * 200 + b"host" + b" " * 200 + b":x\n") * 38),
        "HTTP: small": lambda n: tcp(b"GET / HTTP/1.1\r\n\r\n"),
        "SSH: small": lambda n: tcp(b"SSH-2.0-a\r\n", dport=22),
    }


def _headers() -> dict[str, tuple[Callable[[int], bytes], int]]:
    ip4, ip6 = maker.ipv4, maker.ipv6
    plain = ip4("10.0.0.1", "10.0.0.2", 17, maker.udp_header(1, 2))

    def fragment(number: int, place: int) -> bytes:
        packet = ip4("10.0.0.1", "10.0.0.2", 17, bytes(24), identity=number & 0xFFFF, offset=8 * place, more=True)
        return maker.ethernet(packet)

    big = 60_000
    chain = maker.extension(0) * (big // 8)
    vxlan = b"\x08" + bytes(7) + maker.ethernet(plain)
    for _ in range(20):
        vxlan = b"\x08" + bytes(7) + maker.ethernet(ip4("10.0.0.1", "10.0.0.2", 17, maker.udp_header(1, 4789, vxlan)))
    gtp = bytes([0x34, 255, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1]) + bytes([1, 0, 0, 1]) * (big // 4)
    return {
        "VLAN tags": (lambda n: maker.ethernet(plain, vlans=[n & 0xFFF] * (big // 4)), 1),
        "MPLS labels": (lambda n: maker.ethernet(maker.mpls(plain, [n & 0xFFFFF] * (big // 4)), 0x8847), 1),
        "IPv6 extension headers": (lambda n: maker.ethernet(ip6("::1", "::2", 0, chain), 0x86DD), 1),
        "IPv6 fragment headers": (
            lambda n: maker.ethernet(ip6("::1", "::2", 44, maker.fragment(44, 0, True, n) * (big // 8)), 0x86DD), 1),
        "tunnels in tunnels": (lambda n: udp(vxlan, dport=4789), 1),
        "extension headers of GTP": (lambda n: udp(gtp, dport=2152), 1),
        "fragments of many packets": (lambda n: fragment(n, 1), 1),
        "overlapping fragments": (lambda n: fragment(1, n % 3), 1),
        "ARP": (lambda n: maker.arp(), 1),
        "a flow each": (
            lambda n: maker.ethernet(ip4(f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}", "10.0.0.2", 6,
                                         maker.tcp_header(n & 0xFFFF, 80))), 1),
        "attributes of NFLOG": (lambda n: maker.nflog(plain, before=[(1, b"")] * (big // 4)), 239),
        "words of radiotap": (lambda n: maker.radiotap(maker.wifi(plain), words=big // 4), 127),
        "frames without bytes": (lambda n: b"", 1),
        "frames of 16 MiB": (lambda n: plain + bytes(16_000_000), 1),
    }  # fmt: skip


def _sections() -> dict[str, Callable[[int], bytes]]:
    one = Section("little")
    begin = one.header() + one.interface("a", resolution=9)
    stamp = START

    def packet(number: int, interface: int = 0) -> bytes:
        return one.packet(stamp + number * 1000, b"", interface)

    def half(unit: Callable[[int], bytes], name: str = "i{}") -> Callable[[int], bytes]:
        """Interfaces in one half of the file, as many as are taken, and in the other half what meets them."""

        def make(size: int) -> bytes:
            count = min(size // 80, 4096)
            links = range(1000, 1000 + count) if name == "same" else [1000] * count
            declared = (one.interface(name.format(at), link=link, resolution=9) for at, link in enumerate(links))
            return one.header() + b"".join(declared) + packet(0) + filled(lambda at: unit(at % count), size // 2)

        return make

    strays = b"".join(packet(number) + one.packet(stamp, b"", 7) * 2047 for number in range(15))
    comments = [(1, b"")] * 4000
    return {
        "interfaces with names": then(one.header(), lambda n: one.interface(f"{n}")),
        "interfaces without names": then(one.header(), lambda n: one.interface()),
        "interfaces of one name": then(one.header(), lambda n: one.interface("a", link=n & 0xFFFF)),
        "sections": then(b"", lambda n: one.header()),
        "sections with a packet": then(b"", lambda n: begin + packet(n)),
        "sections of other byte orders": then(
            b"", lambda n: (o := Section(("little", "big")[n % 2])).header() + o.interface("a") + o.packet(1, b"")
        ),
        "options of an interface": then(one.header(), lambda n: one.interface("a", options=[(77, b"")] * 4000)),
        "options of a section": then(b"", lambda n: one.header(options=comments)),
        "comments": then(begin, lambda n: one.packet(stamp + n, b"", options=comments)),
        "a packet of each interface": half(lambda n: packet(n, n)),
        "a packet of each link type": half(lambda n: packet(n, n), "same"),
        "simple packets": then(begin, lambda n: one.simple(b"")),
        "packets of no interface": then(begin + packet(0), lambda n: one.packet(stamp, b"", 7)),
        "other blocks": then(begin + packet(0), lambda n: one.block(5, b"")),
        "blocks of 16 MiB": then(begin, lambda n: packet(n) + one.pack("II", 6, 16 << 20)),
        "damage and sections": then(begin + packet(0), lambda n: b"\xff" + one.header()),
        "damage and packets": then(begin, lambda n: b"\xff" + begin + packet(n)),
        "damage behind many interfaces": half(lambda n: b"\xff" + begin + packet(n)),
        "damage behind waiting records": then(begin + strays, lambda n: b"\xff" + one.header()),
        "damage between interfaces": half(
            lambda n: b"\xff" + one.header() + one.interface(f"i{n}", link=1000, resolution=9) + packet(n)
        ),
        "damage and new interfaces": then(
            begin, lambda n: b"\xff" + one.header() + one.interface(f"n{n}", resolution=9) + packet(n)
        ),
    }  # fmt: skip


def _classic() -> dict[str, Callable[[int], bytes]]:
    head = maker.pcap_bytes([])

    def record(stamp: int, captured: int = 0, wire: int = 60, body: bytes = b"") -> bytes:
        return struct.pack("<IIII", stamp, 0, captured, wire) + body

    four, erf = record(1_600_000_000) * 4, maker.erf_record(START, b"") * 4
    snoop = maker.snoop_bytes([(START, bytes(60))])
    return {
        "pcap: damage behind every four records": then(head, lambda n: four + b"\xff" * 16),
        "pcap: records of 16 MiB": then(head, lambda n: record(1_600_000_000, 1 << 18, 1 << 18)),
        "pcap: records that are cut": lambda size: head + four + record(1, 200_000, 200_000) * (size // 16),
        "pcap: ones": lambda size: head + four + b"\xff" * size,
        "pcap: zeros": lambda size: head + bytes(size),
        "pcap: times that jump": then(head, lambda n: record(1_600_000_000 + (n % 2) * 100_000)),
        "pcap: times that fall": then(head, lambda n: record((1 << 31) - n)),
        "snoop: damage": then(snoop, lambda n: maker.snoop_bytes([(START, b"")] * 4)[16:] + b"\xff" * 24),
        "snoop: records without bytes": then(
            maker.snoop_bytes([]), lambda n: struct.pack(">6I", 60, 0, 24, 0, 1_600_000_000, 0)
        ),
        "snoop: huge": then(snoop, lambda n: struct.pack(">6I", 200_000, 200_000, 200_024, 0, 1_600_000_000, 0)),
        "ERF: extension headers": then(b"", lambda n: maker.erf_record(START + n, b"", 2, n % 8, extensions=8000)),
        "ERF: ports and kinds": then(
            b"", lambda n: maker.erf_record(START + n, b"", (2, 1, 5, 6, 22, 23, 21)[n % 7], n % 8)
        ),
        "ERF: padding": then(erf, lambda n: maker.erf_record(START, b"", 48)),
        "ERF: damage": then(erf, lambda n: b"\xff" * 16 + erf),
    }


def _members() -> dict[str, Callable[[int], bytes]]:
    capture = maker.pcap_bytes([(START, bytes(60))] * 4)
    zstd = pa.Codec("zstd")
    packed = {
        "gzip": lambda data: gzip.compress(data, mtime=0),
        "zstd": lambda data: zstd.compress(data, asbytes=True),
        "xz": lzma.compress,
        "lz4": lambda data: pa.Codec("lz4").compress(data, asbytes=True),
    }
    found: dict[str, Callable[[int], bytes]] = {}
    for name, pack in packed.items():
        first, empty, few = pack(capture), pack(b""), pack(capture[24:100])
        found[f"{name}: members without bytes"] = lambda size, first=first, empty=empty: (
            first + empty * (size // len(empty))
        )
        found[f"{name}: small members"] = lambda size, first=first, one=few: first + one * (size // len(one))
    found["zstd: skippable frames"] = lambda size: packed["zstd"](capture) + b"\x50\x2a\x4d\x18\0\0\0\0" * (size // 8)
    found["gzip: a long name"] = lambda size: b"\x1f\x8b\x08\x08" + bytes(6) + b"a" * size
    found["gzip: zeros behind"] = lambda size: packed["gzip"](capture) + bytes(size)
    found["gzip: padding of deflate"] = lambda size: (
        packed["gzip"](capture) + b"\x1f\x8b\x08" + bytes(7) + (b"\x00\x00\x00\xff\xff" * (size // 5))
    )
    return found


def _tables() -> dict[str, Family]:
    line = b"1767225600,10.0.0.1,1,a,0.5,true\n"
    first = b"time,src,bytes,host,rtt,up\n" + line

    def of(unit: bytes, head: bytes = first) -> Callable[[int], bytes]:
        return lambda size: head + unit * (size // len(unit))

    names = ",".join(f"c{at}" for at in range(9000)).encode()
    wide = b"time,src,bytes,host,rtt,up," + names + b"\n" + b"," * 9005 + b"\n"
    found = {
        "CSV: quotes that never close": ("csv", of(b'"x","\n')),
        "CSV: quotes that never close, doubled": ("csv", of(b'"""a","\n')),
        "CSV: an open quote": ("csv", of(b'"' + line)),
        "CSV: quotes": ("csv", of(b'"')),
        "CSV: returns": ("csv", of(b"1\r2\n")),
        "CSV: returns in quotes": ("csv", of(b'1767225600,10.0.0.1,1,"a\rb",0.5,true\n')),
        "CSV: returns before a record": ("csv", of(b"\r" + line)),
        "CSV: returns in a wide file": ("csv", of(b"1\r2\n", wide)),
        "CSV: short records": ("csv", of(b"1\n")),
        "CSV: short records in a wide file": ("csv", of(b"1\n", wide)),
        "CSV: separators": ("csv", of(b"," * 1000 + b"\n")),
        "CSV: one record": ("csv", of(b",")),
        "CSV: values that are none": ("csv", of(b"a,b,c,d,e,f\n")),
        "CSV: numbers that are too large": ("csv", of(b"99999999999999999999,::,99999999999999999999,,1e999,\n")),
        "CSV: numbers that look right": ("csv", then(
            first, lambda n: b"%d,1.2.3.%d,abcdef%x,,1e%dx,\n" % (n, n % 999, n, n))),
        "CSV: bytes that are no text": ("csv", of(b"\xff\n")),
        "CSV: zeros": ("csv", of(b"\0")),
        "CSV: blank lines": ("csv", of(b"\n")),
        "CSV: lines of a megabyte": ("csv", of(b"1" * ((1 << 20) + 10) + b"\n")),
        "CSV: records of a megabyte": ("csv", of(b'"' + b"1\n" * ((1 << 19) + 10) + b'"\n')),
        "CSV: times that jump": ("csv", of(line + b"1867225600,10.0.0.1,1,a,0.5,true\n")),
        "JSON: lists": ("json", of(b"[" * 500 + b"]" * 500 + b"\n", b"")),
        "JSON: a deep line": ("json", lambda size: b"[" * size),
        "JSON: objects without members": ("json", of(b"{}\n", b"")),
        "JSON: names": ("json", lambda size: b"{" + filled(lambda n: b'"%d":1,' % n, size) + b'"x":1}\n'),
        "JSON: names of each line": ("json", lambda size: filled(lambda n: b'{"%d":1}\n' % n, size)),
        "JSON: long numbers": ("json", of(b'{"time": ' + b"9" * 4200 + b"}\n", b"")),
        "JSON: long fractions": ("json", of(b'{"time": 1, "rtt": 0.' + b"9" * 10_000 + b"}\n", b"")),
        "JSON: surrogates": ("json", of(b'{"time": 1767225600, "host": "\\ud800"}\n', b"")),
        "JSON: escapes": ("json", of(b'{"time": 1767225600, "host": "' + b"\\u0041" * 100 + b'"}\n', b"")),
        "JSON: values of other types": ("json", of(b'{"time":[],"src":1,"bytes":"a","host":{},"up":1}\n', b"")),
        "JSON: equal names": ("json", of(b"{" + b'"time":1,' * 500 + b'"time":1}\n', b"")),
        "JSON: a line with all names": ("json", lambda size: json.dumps(
            {f"n{at}": at for at in range(min(size // 40, 1000))}).encode() + b"\n" + b"{}\n" * (size // 6)),
        "JSON: a line with times": ("json", lambda size: json.dumps(
            {f"n{at}": 1767225600 for at in range(min(size // 40, 1000))}).encode() + b"\n" + b"{}\n" * (size // 6)),
    }  # fmt: skip
    tables = {name: Family(kind, make) for name, (kind, make) in found.items()}
    fields = ["ts", "uid", "id.orig_h", "id.orig_p", "id.resp_h", "id.resp_p", "proto", "service", "history"]
    zeek = zeek_header("conn", fields)
    flow = b"ts,te,td,sa,da,sp,dp,pr,flg,fwd,stos,ipkt,ibyt\n"
    one = b"2026-01-01 00:00:00,2026-01-01 00:01:00,2.000,10.0.0.1,10.0.0.2,0,2048,ICMP,........,0,0,3,252\n"
    event = b'{"timestamp":"2026-01-01T00:00:00.000000+0000","event_type":"dns","dns":{"rrname":"a"}}\n'
    tables |= {
        "Zeek: comments": Family("ZEEK_CONN", of(b"#\n", zeek)),
        "Zeek: headers": Family("ZEEK_CONN", of(b"#fields\tts\n", zeek)),
        "Zeek: different headers": Family("ZEEK_CONN", then(zeek, lambda n: b"#fields\tts\tf%d\n1.0\ta\n" % (n % 900))),
        "Zeek: separators": Family("ZEEK_CONN", of(b"#separator \\x2c\n#fields,ts\n1.0\n", zeek)),
        "Zeek: escapes": Family(
            "ZEEK_CONN", then(zeek, lambda n: b"1.0\t\\x41%d%s%s\n" % (n, b"\\x5c" * 100, b"\t-" * 7))
        ),
        "Zeek: records before a header": Family("ZEEK_CONN", of(b"1\n", b"")),
        "Zeek: returns": Family("ZEEK_CONN", of(b"1\r2\n", zeek)),
        "Zeek: columns of a record": Family("ZEEK_CONN", of(b"\t" * 4000 + b"\n", zeek)),
        "nfdump: headers": Family("NFDUMP", of(flow, flow)),
        "nfdump: different headers": Family("NFDUMP", then(b"", lambda n: flow[:-1] + b",x%d\n" % (n % 900) + one)),
        "nfdump: totals": Family("NFDUMP", of(b"flows,bytes,packets,\n1\n", flow + one)),
        "nfdump: ports of ICMP": Family("NFDUMP", of(one, flow)),
        "nfdump: words": Family("NFDUMP", of(b"a\n", flow + one)),
        "Suricata: types of events": Family("EVE_DNS", then(event, lambda n: b'{"event_type":"%d"}\n' % n)),
        "Suricata: lists": Family("EVE_DNS", of(b'{"event_type":"dns","dns":[' + b"{}," * 300 + b"{}]}\n", event)),
        "Suricata: deep lists": Family(
            "EVE_DNS", of(b'{"event_type":"dns","dns":{"rrname":' + b"[" * 900 + b"]" * 900 + b"}}\n", event)
        ),
    }
    tables |= {
        "parquet: columns": Family("parquet", lambda size: _parquet(_wide(size // 150))),
        "parquet: nested": Family("parquet", lambda size: _parquet(_nested(80, size // 450))),
        "parquet: row groups": Family("parquet", lambda size: _parquet(_rows(size // 700), row_group_size=1)),
        "parquet: texts": Family("parquet", lambda size: _parquet(_texts(size))),
        "parquet: one long text": Family("parquet", lambda size: _parquet(_long_text(size))),
    }
    return tables


def _parquet(table: pa.Table, **options: int) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, store_schema=False, **options)
    return out.getvalue()


def _rows(count: int) -> pa.Table:
    others = {"src": ["10.0.0.1"], "bytes": [1], "host": ["a"], "rtt": [0.5], "up": [True]}
    return pa.table({"time": [1767225600] * count, **{name: value * count for name, value in others.items()}})


def _wide(count: int) -> pa.Table:
    table = _rows(1)
    for number in range(count):
        table = table.append_column(f"c{number}", [["x"]]) if count < 300 else table
    if count >= 300:
        names = [*table.column_names, *(f"c{number}" for number in range(count))]
        one = pa.chunked_array([["x"]])
        table = pa.Table.from_arrays([*table.columns, *[one] * count], names)
    return table


def _nested(depth: int, leaves: int) -> pa.Table:
    """Texts below structs in structs."""
    value: object = {f"l{at}": "x" for at in range(leaves)}
    for _ in range(depth):
        value = {"s": value}
    return _rows(1).append_column("deep", [[value]])


def _texts(size: int) -> pa.Table:
    count = size // 40
    return _rows(count).set_column(3, "host", [[f"{at:040}" for at in range(count)]])


def _long_text(size: int) -> pa.Table:
    return _rows(1000).set_column(3, "host", [["x" * size] + ["y"] * 999])


def _families() -> dict[str, Family]:
    found = {name: Family("capture", frames(unit)) for name, unit in {**_hellos(), **_names(), **_requests()}.items()}
    for kind in ("pings", "acks", "many acks", "padding", "empty crypto", "tiny crypto", "reversed crypto",
                 "overlapping crypto", "growing crypto", "far crypto"):  # fmt: skip
        found[f"QUIC: {kind}"] = Family("capture", frames(lambda n, kind=kind: initial(_quic(kind), n)))
    found["QUIC: small and all different"] = Family("capture", frames(lambda n: initial(hello.crypto(b"\x01"), n)))
    found |= {f"frames: {name}": Family("capture", frames(unit, link)) for name, (unit, link) in _headers().items()}
    found |= {f"pcapng: {name}": Family("capture", make) for name, make in _sections().items()}
    found |= {name: Family("capture", make) for name, make in {**_classic(), **_members()}.items()}
    return found | _tables()


FAMILIES = _families()
