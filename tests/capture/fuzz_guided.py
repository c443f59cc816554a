"""Coverage-guided fuzzing: `python -m tests.capture.fuzz_guided TARGET CORPUS -runs=1000000 [-max_len=400]`."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

os.environ["NUMBA_DISABLE_JIT"] = "1"

import atheris

from lowwater.capture.headers import fields as loads


def _load(bits: int, order: Any) -> Any:
    def load(buffer: bytes, at: int) -> int:
        end = at + bits // 8
        if at < 0 or end > len(buffer):
            raise IndexError(f"bytes {at} to {end} of {len(buffer)}")
        # 64 bits are an address: signed, as the compiled load gives them.
        return int.from_bytes(bytes(buffer[at:end]), order, signed=bits == 64)

    return load


# Before anything takes them by name: a load is code of the compiler's, which plain Python cannot call.
loads.big16, loads.big32, loads.big64 = _load(16, "big"), _load(32, "big"), _load(64, "big")
loads.byte, loads.prefetch = _load(8, "big"), lambda buffer, at: None
loads.with_bits = lambda numbers, at, bits: sum(
    (int(number) & bits != 0) << place for place, number in enumerate(numbers[at : at + 8])
)
loads.little16, loads.little32 = _load(16, "little"), _load(32, "little")

loads.little64 = _load(64, "little")

with atheris.instrument_imports(include=["lowwater.capture", "lowwater.catalog.watchlists", "dns.name", "dns.wire"]):
    from lowwater.capture.content import applications, hello
    from lowwater.capture.formats import sources
    from lowwater.capture.formats.capture_file import RECORD_HEADER
    from lowwater.capture.formats.classic import CAPTURED, OFFSET, STAMP, WIRE
    from lowwater.capture.headers import packet
    from lowwater.capture.reader import read
    from lowwater.capture.records import stream as decoding
    from lowwater.capture.tables import blocks
    from lowwater.capture.tables.options import TableOptions, TextOptions
    from lowwater.capture.tables.reader import RecordReader
    from lowwater.capture.tables.sniffing import sniff, sniff_log
    from lowwater.catalog.watchlists import read_watchlist

# The kernels are to be made after the loads.
import dns.exception  # noqa: E402
import dns.name  # noqa: E402
import dpkt  # noqa: E402
import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402

from lowwater.capture.formats.sources import Stream  # noqa: E402
from lowwater.catalog.protocols import READY  # noqa: E402
from lowwater.catalog.values import Type  # noqa: E402
from lowwater.errors import CaptureError, ConfigError  # noqa: E402
from tests import hellomaker  # noqa: E402
from tests.capture import fuzz_inputs, fuzz_logs  # noqa: E402
from tests.capture.fuzz_captures import MAX_JUMP, check_sums  # noqa: E402
from tests.capture.tablemaker import BY_NAME, as_csv, as_json, flows, layout  # noqa: E402

# Numbers of NumPy would overflow where those of the kernel wrap.
hello._hash = lambda words, begin, end: hash(words[begin:end].tobytes())
_ipv4, blocks._ipv4 = blocks._ipv4, lambda data, ends, low: _ipv4(bytes(data), ends, low)

LINKS = fuzz_inputs.LINK_TYPES
PIECE = 100
"""Bytes read at a time."""


def decode_bytes(buffer: Any, *rest: Any) -> Any:
    """Decodes over Python's numbers: NumPy's bytes would wrap where compiled ones do not."""
    return packet.decode_batch(bytes(buffer), *rest)  # type: ignore[arg-type]


def one_file(data: bytes) -> None:
    """Reads a capture to its end; only an error of ours leaves the reader, and all bytes are accounted for."""
    try:
        reader = read(io.BytesIO(data), MAX_JUMP, PIECE)
        check_sums(reader, list(reader), len(data))
    except CaptureError as error:
        assert error.hint, f"no hint: {error}"


def one_frame(data: bytes) -> None:
    """Decodes one frame that ends where its buffer ends."""
    if not data:
        return
    buffer = bytes(RECORD_HEADER) + data[1:]
    size = len(data) - 1
    # A mapping from (row, column) is as good as an array here, and plain Python is slow with arrays.
    records = {(OFFSET, 0): 0, (STAMP, 0): fuzz_inputs.START, (WIRE, 0): size, (CAPTURED, 0): size}
    packet.decode(buffer, records, 1, [0], -1, LINKS[data[0] % len(LINKS)], packet.Columns({}, {}, packet.EVERY), [0])


def one_dns(data: bytes) -> None:
    """Reads a message of DNS as dnspython and dpkt read it."""
    tcp, payload = bool(data[:1] and data[0] & 1), data[1:]
    fields = applications.dns_fields(payload, tcp)
    message = payload[2 : 2 + int.from_bytes(payload[:2], "big")] if tcp else payload
    if len(message) < 12:
        assert fields == {}
        return
    header = dpkt.dns.DNS(message[:4] + bytes(8))
    assert (fields["dns_id"], fields["dns_response"]) == (header.id, header.qr)
    try:
        name = dns.name.from_wire(message, 12)[0].to_text(omit_final_dot=True)
    except dns.exception.DNSException:
        name = None
    assert fields.get("dns_query") == (name if message[4:6] != b"\0\0" else None)


def one_http(data: bytes) -> None:
    """Reads a request or a response, and the request as dpkt reads it."""
    fields = applications.http_fields(data)
    for name, value in fields.items():
        assert isinstance(value, int) or len(value) <= hello.LONGEST_TEXT, name
    head, end, _ = data.partition(b"\r\n\r\n")
    try:
        known = dpkt.http.Request(head + end)
    except Exception:  # noqa: BLE001 - dpkt raises many kinds of error
        return
    first = head.split(b"\n")[0]  # spaces in a URI are for dpkt the end of it
    if end and fields and first.count(b" ") == 2 and all(32 <= byte < 127 or byte in b"\r\n" for byte in head):
        assert (fields["http_method"], fields["http_uri"]) == (known.method, known.uri)


def one_hello(data: bytes) -> None:
    """Reads a message of TLS, whole and cut: a field of the cut one is that of the whole, or none."""
    if len(data) < 2:
        return
    buffer = np.frombuffer(bytearray(data[1:]), np.uint8)
    ends = np.array([len(buffer), len(buffer) * data[0] // 256])
    found = hello.hello_columns(buffer, np.zeros(2, np.int64), ends, "t")
    for name, column in found.items():
        column.validate(full=True)
        whole, part = column.to_pylist()
        texts = isinstance(part, str) and name == "alpn"
        assert part is None or part == whole or texts, f"{name} of a part is {part!r}, of the whole {whole!r}"
    if len(data) > 20 and data[1] == 22:
        hello.tls_columns(buffer, np.zeros(1, np.int64), np.array([len(buffer)]))


def one_quic(data: bytes) -> None:
    """Reads a datagram, and the same bytes as the frames of a packet: its stream by another rule."""
    if data:
        applications.quic_columns([bytes([0xC0 | data[0] & 15, 0, 0, 0, 1]) + data[1:] + bytes(1200)])
    pieces = list(applications._pieces(data))
    assert sum(len(piece) for _, piece in pieces) <= len(data)
    known = {offset + at: byte for offset, piece in sorted(pieces, reverse=True) for at, byte in enumerate(piece)}
    end = next(at for at in range(len(data) + 1) if at not in known)
    stream = applications._stream(data)
    assert len(stream) == end, "not the stream up to its first gap"


def one_segment(data: bytes) -> None:
    """Reads the payload of a packet as its ports and first bytes say; the line of SSH by another rule."""
    if len(data) < 2:
        return
    tcp, port, payload = data[0] & 1, (22, 53, 80, 443)[data[0] >> 1 & 3], data[1:]
    numbers = {
        "caplen": len(payload), "protocol": 6 if tcp else 17, "srcPort": 40_000, "destPort": port, "payload_offset": 0,
        "payload_length": None if data[0] & 8 else data[0] * 8,
    }  # fmt: skip
    batch = pa.record_batch({name: pa.array([number], pa.int32()) for name, number in numbers.items()})
    columns = applications.application_fields(np.frombuffer(payload, np.uint8), np.zeros(1, np.int64), batch)
    for column in columns.values():
        column.validate(full=True)
    length = numbers["payload_length"]
    line = re.match(rb"(SSH-[^\n]{0,250})\n", payload[:length])
    known = line[1].removesuffix(b"\r").decode("latin-1") if tcp and port != 53 and line else None
    found = columns["ssh_banner"][0].as_py()
    assert found == known, f"{found!r}, not {known!r}"
    others = {name.partition("_")[0] for name, column in columns.items() if column.null_count == 0}
    assert len(others) <= 1, f"one message of {others}"


def one_packed(data: bytes) -> None:
    """Decompresses a file by steps of two sizes: the same bytes, the same damage at the same place."""
    if not sources.compression_of(data):
        return
    found = []
    for size, step in ((1 << 16, 1 << 18), (18, 7)):
        stored = sources.PieceSource(Stream(io.BytesIO(data), owned=False), False, size)
        unpacked, damage = bytearray(), ""
        try:
            for piece in sources.members(stored, step):
                unpacked += piece
                if len(unpacked) > 1 << 16:
                    return
        except sources.Damage as error:
            damage = str(error)
        found.append((bytes(unpacked), bool(damage)))
    assert found[0][1] == found[1][1], f"damage by one step alone: {found[0][1]}"
    assert found[0][0].startswith(found[1][0]) or found[1][0].startswith(found[0][0]), "other bytes"


_LAYOUT = layout(BY_NAME)
_FOLDER = Path(tempfile.mkdtemp(prefix="lowwater-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))


def read_table(data: bytes, options: TableOptions, sizes: tuple[int, ...] = (1 << 22, 200)) -> None:
    """Reads a file by blocks of several sizes: the same rows, and an account of every byte."""
    path, found = _FOLDER / "file", []
    path.write_bytes(data)
    for size in sizes:
        blocks.RECORD_BLOCK_BYTES = size
        try:
            reader = RecordReader(path, options, 10**11, "")
            rows = [row for batch in reader for row in batch.to_pylist()]
        except CaptureError as error:
            assert error.hint and str(path) in error.message, error
            found.append(None)
            continue
        assert reader.summary is not None
        damage = reader.malformed.to_pylist()
        lost = sum(row["length"] for row in damage)
        assert reader.summary.record_bytes + lost + reader.summary.overhead == len(data), "bytes are in no account"
        found.append((rows, damage))
    assert all(each == found[0] for each in found), "the rows depend on the blocks"


def one_csv(data: bytes) -> None:
    quote = ('"', "'", "")[data[0] % 3] if data else '"'
    read_table(b"time,src,bytes,host,rtt,up\n" + data[1:], TableOptions("csv", _LAYOUT, TextOptions(quote=quote)))


def one_json(data: bytes) -> None:
    read_table(data, TableOptions("json", _LAYOUT))


def one_log(data: bytes) -> None:
    protocol = list(READY.values())[data[0] % len(READY)] if data else READY["NFDUMP"]
    assert protocol.layout is not None
    read_table(data[1:], TableOptions(protocol.kind, protocol.layout))


def one_sample(data: bytes) -> None:
    path = _FOLDER / "sample"
    path.write_bytes(data)
    for propose in (sniff, sniff_log):
        try:
            propose(path)
        except CaptureError as error:
            assert error.hint, error


def one_list(data: bytes) -> None:
    path = _FOLDER / "list"
    path.write_bytes(data)
    try:
        read_watchlist(str(path), [("a", Type.IP), ("b", Type.INT), ("c", Type.STRING), ("d", Type.MAC)])
    except ConfigError as error:
        assert error.hint, error


class Target(NamedTuple):
    """What reads an input, and inputs to begin with."""

    run: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]


def _questions() -> list[bytes]:
    names = (b"\x03www\x01a\x00", b"\xc0\x04", b"\x01.\xc0\x0b", b"\x3f" + bytes(63) + b"\x00", b"\x00")
    messages = [bytes([0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]) + name + b"\x00\x01\x00\x01" for name in names]
    return [b"\0" + each for each in messages] + [b"\1" + hellomaker.vector(each) for each in messages]


def _messages() -> list[bytes]:
    chosen = hellomaker.server(0x1301, [hellomaker.alpn(b"h2"), (43, b"\x03\x04")])
    clients = [hellomaker.browser("a.example")[5:], hellomaker.script("b.example")[5:]]
    return [b"\x80" + each for each in (*clients, chosen, *map(hellomaker.record, clients))]


def _frames_of_quic() -> list[bytes]:
    body = hellomaker.browser("a.example")[5:]
    parts = [hellomaker.crypto(body[at : at + 40], at) for at in range(0, len(body), 40)]
    return [
        b"".join(parts), b"".join(reversed(parts)), b"\1\0\0".join(parts), parts[0] + b"\2\5\0\1\0\0\0" + parts[1],
        b"\3\5\0\0\0\0\0\0" + parts[0], hellomaker.crypto(body[:50], 30) + parts[0],
        hellomaker.initial(hellomaker.crypto(body), bytes(8))[:80],
    ]  # fmt: skip


def _segments() -> list[bytes]:
    """The beginnings of other targets, as TCP and UDP, to three ports; lines of SSH about the longest one."""
    lines = [b"SSH-2.0-" + bytes(size) + b"\r\n" for size in (0, 1, 244, 245, 246, 247)]
    begins = [*lines, b"SSH-1.99-a b\nKEX", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", *(each[1:] for each in _questions())]
    begins += [hellomaker.browser("a.example"), hellomaker.initial(hellomaker.crypto(b"abc"), bytes(8))[:80]]
    return [bytes([240 + head]) + begin for begin in begins for head in (9, 1, 2, 8)]


def _packed() -> list[bytes]:
    data = fuzz_inputs.files()[0][:200]
    zstd, lz4 = (pa.Codec(name).compress(data, asbytes=True) for name in ("zstd", "lz4"))
    found = [gzip.compress(data, mtime=0), lzma.compress(data), zstd, lz4, b"\x50\x2a\x4d\x18\4\0\0\0abcd" + zstd]
    return found + [each + each for each in found] + [found[0] + bytes(20), found[1] + bytes(4)]


def _lists() -> list[bytes]:
    return [b'# words\n10.0.0.1,7,a,02:00:00:00:00:01\n::1,0x7f,"b,""c",\n\n', b"1.2.3.4,,,\n"]


def _of_frames() -> list[bytes]:
    return [bytes([number % len(LINKS)]) + frame for number, frame in enumerate(fuzz_inputs.frames())]


TARGETS = {
    "frames": Target(one_frame, _of_frames),
    "files": Target(one_file, fuzz_inputs.files),
    "dns": Target(one_dns, _questions),
    "http": Target(one_http, lambda: [b"GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: b\r\n\r\n", b"HTTP/1.1 200 OK\r\n"]),
    "hello": Target(one_hello, _messages),
    "quic": Target(one_quic, _frames_of_quic),
    "segments": Target(one_segment, _segments),
    "packed": Target(one_packed, _packed),
    "csv": Target(one_csv, lambda: [bytes([at]) + as_csv(flows(at, 6)) for at in range(3)]),
    "json": Target(one_json, lambda: [as_json(flows(at, 4)) for at in range(3)]),
    "logs": Target(one_log, lambda: [bytes([n]) + log[:900] for n in range(len(READY)) for log in fuzz_logs.seeds()]),
    "samples": Target(
        one_sample, lambda: [as_csv(flows(1, 6)), as_json(flows(1, 4)), *(log[:900] for log in fuzz_logs.seeds())]
    ),
    "lists": Target(one_list, _lists),
}


def main() -> None:
    """Fills an empty corpus with the seeds, and fuzzes."""
    if len(sys.argv) < 3 or sys.argv[1] not in TARGETS:
        sys.exit(f"say one of {', '.join(TARGETS)}, and name a folder for the corpus")
    what, corpus = sys.argv.pop(1), Path(sys.argv[1])
    if what != "frames":
        decoding.decode_batch = decode_bytes
    corpus.mkdir(parents=True, exist_ok=True)
    if not any(corpus.iterdir()):
        for number, seed in enumerate(TARGETS[what].seeds()):
            (corpus / f"seed-{number}").write_bytes(seed)
    atheris.Setup(sys.argv, TARGETS[what].run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
