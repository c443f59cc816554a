"""Compressed captures: the same packets as the plain ones, whatever the members; damage told to the byte or block."""

from __future__ import annotations

import csv
import functools
import gzip
import lzma
import shutil
import struct
import subprocess
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from lowwater.capture.formats.sources import DecompressedSource, Stream
from lowwater.capture.reader import digest, open_capture, read
from lowwater.errors import CaptureError
from tests import capturemaker as maker
from tests.breadth import examples, some
from tests.capture.fuzz_captures import check_file, saved, whole
from tests.capture.fuzz_inputs import SECOND, START, damaged

SKIPPABLE = b"\x53\x2a\x4d\x18" + struct.pack("<I", 5) + b"hello"
BGZF_END = bytes.fromhex("1f8b08040000000000ff0600424302001b0003000000000000000000")


def bgzf(data: bytes) -> bytes:
    """Blocks as bgzip writes them, with their size in an extra field, and its empty block at the end."""
    blocks = []
    for begin in range(0, len(data), 200):
        engine = zlib.compressobj(6, zlib.DEFLATED, -15)
        part = data[begin : begin + 200]
        body = engine.compress(part) + engine.flush()
        head = bytes.fromhex("1f8b08040000000000ff060042430200") + struct.pack("<H", len(body) + 25)
        blocks.append(head + body + struct.pack("<II", zlib.crc32(part), len(part)))
    return b"".join(blocks) + BGZF_END


def codec(name: str) -> Callable[[bytes], bytes]:
    return lambda data: pa.compress(data, codec=name, asbytes=True)


# Without the time of day: two test processes must draw up the same list of tests.
gzipped = functools.partial(gzip.compress, mtime=0)


def twice(one: Callable[[bytes], bytes], between: bytes = b"", before: bytes = b"") -> Callable[[bytes], bytes]:
    return lambda data: before + one(data[:333]) + one(b"") + between + one(data[333:]) + between


SINGLE: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzipped, "zstd": codec("zstd"), "xz": lzma.compress, "lz4": codec("lz4"),
}  # fmt: skip
WRITERS = SINGLE | {
    "bgzf": bgzf,
    "gzip of members": twice(gzipped),
    "zstd of frames": twice(codec("zstd"), SKIPPABLE, SKIPPABLE),
    "xz of streams": twice(lzma.compress, bytes(8)),
    "xz without a check": lambda data: lzma.compress(data, check=lzma.CHECK_NONE),
    "lz4 of frames": twice(codec("lz4"), SKIPPABLE),
}


def capture(packets: int = 60, size: int = 30) -> bytes:
    numbers = Random(5)
    frames = (maker.udp("10.0.0.1", "10.0.0.2", number, 53, numbers.randbytes(size)) for number in range(packets))
    return maker.pcap_bytes((START + number * SECOND, frame) for number, frame in enumerate(frames))


@pytest.mark.slow
@pytest.mark.parametrize("name", some(WRITERS, 3))
@pytest.mark.parametrize("chunk", [24, 1000, 1 << 20])
def test_a_compressed_capture_is_the_capture(tmp_path: Path, name: str, chunk: int) -> None:
    data = capture()
    stored = WRITERS[name](data)
    path = saved(tmp_path, stored)
    plain, expected = whole(saved(tmp_path, data, "plain.pcap"))
    reader, rows = whole(path, chunk_bytes=chunk)
    assert rows == expected and len(rows) == 60 and reader.malformed == []
    summary, other = reader.summary, plain.summary
    assert summary is not None and other is not None
    compression = name.split()[0].replace("bgzf", "gzip")
    assert (summary.compression, summary.unpacked, summary.ended_cleanly) == (compression, len(data), True)
    assert (summary.format, summary.interfaces) == (other.format, other.interfaces)
    assert (other.compression, other.unpacked, other.skipped, other.damage) == ("", len(data), 0, "")
    assert digest(path) == summary.sha256
    header = open_capture(path)
    assert (header.bytes, header.compression, header.format) == (len(stored), summary.compression, "pcap")
    assert header == reader.header


@pytest.mark.slow
@pytest.mark.parametrize("name", some(WRITERS, 3))
def test_a_file_cut_anywhere_gives_the_packets_before(tmp_path: Path, name: str) -> None:
    data = capture()
    stored = WRITERS[name](data)
    _, expected = whole(saved(tmp_path, data))
    sizes = [*range(12, len(stored), 19), *range(len(stored) - 30, len(stored))]
    refused, clean = 0, 0
    for size in sizes:
        path = saved(tmp_path, stored[:size])
        try:
            reader, rows = whole(path)
        except CaptureError as error:
            assert "inside" in error.message
            refused += 1
            continue
        assert rows == expected[: len(rows)]
        assert len(reader.malformed) <= 1
        clean += reader.summary is not None and not reader.summary.damage
        if reader.malformed:
            (bad,) = reader.malformed
            assert bad.position == len(rows) and bad.offset == 24 + sum(16 + row["caplen"] for row in rows)
            assert bad.arrival == (rows[-1]["arrival"] if rows else None)
    assert refused < len(sizes) or name in ("zstd", "lz4")  # one block, which is whole or not there
    assert clean <= len(sizes) // 3


SEEDS = [write(capture(12)) for write in WRITERS.values()]


@pytest.mark.slow
@settings(max_examples=examples(150))
@given(st.integers(0, 1 << 32))
def test_damaged_bytes_only_give_malformed_rows_or_a_capture_error(tmp_path_factory: Any, seed: int) -> None:
    random = Random(seed)
    check_file(damaged(random, SEEDS), tmp_path_factory.mktemp("fuzz") / "one", random)


def window_of(exponent: int) -> bytes:
    """A zstd frame of one empty last block that asks for a history of 2^exponent bytes."""
    return b"\x28\xb5\x2f\xfd" + bytes([0, exponent - 10 << 3]) + b"\x01\x00\x00"


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        *((write(b""), f"inside {name}: empty file (0 bytes)") for name, write in SINGLE.items()),
        (SKIPPABLE, "inside zstd: empty file (0 bytes)"),
        (window_of(27), "inside zstd: empty file (0 bytes)"),
        *((write(b"hello, no capture at all"), f"inside {name}: not a capture") for name, write in SINGLE.items()),
        *((write(capture())[:20], f"inside {name}: cannot be decompressed: ") for name, write in SINGLE.items()),
        *((write(gzipped(capture())), "compressed again, as gzip") for write in SINGLE.values()),
        (gzipped(lzma.compress(capture())), "compressed again, as xz"),
        (gzipped(capture()[:11]), "inside gzip: cut inside the file header: 11 of 24 bytes"),
        (gzipped(b"snoop\0" + bytes(30)), "inside gzip: snoop version 0 is not supported"),
        (b"\x1f\x8b\x08" + bytes(30), "inside gzip: cannot be decompressed"),
        (b"\x1f\x8b", "it ends inside a gzip member"),
        (SKIPPABLE[:-1], "it ends inside a skippable frame"),
        (window_of(28), "asks for 268,435,456 bytes of history, more than 134,217,728"),
        (b"\x28\xb5\x2f\xfd\x21\x07\x05\x01\x00\x00", "with a dictionary"),
        (b"\x04\x22\x4d\x18\x41\x40" + bytes(20), "with a dictionary"),
        (
            lzma.compress(capture(), filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 512 << 20, "mf": lzma.MF_HC3}]),
            "Memory usage limit exceeded",
        ),
        (b"\xa1", "not a capture: it begins with a1"),
        (b"\xd4\xc3\xb2\xa1\x01\x00\x00\x00" + bytes(16), "version 1.0 is not supported"),
    ],
)  # fmt: skip
def test_what_holds_no_capture_is_refused_by_name(tmp_path: Path, stored: bytes, words: str) -> None:
    path = saved(tmp_path, stored)
    for opened in (open_capture, lambda path: read(path, SECOND)):
        with pytest.raises(CaptureError) as caught:
            opened(path)
        assert str(path) in caught.value.message and words in caught.value.message
        assert caught.value.hint


def rle_bomb(size: int) -> bytes:
    """A zstd frame of blocks of 128 KiB in four bytes each."""
    block = struct.pack("<I", 128 << 10 << 3 | 1 << 1)[:3] + b"\0"
    return b"\x28\xb5\x2f\xfd" + bytes([0, 17 - 10 << 3]) + block * (size >> 17) + b"\x01\x00\x00"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gzip", "zstd", "xz", "lz4"])
def test_a_bomb_takes_no_more_memory_than_what_is_ahead(tmp_path: Path, name: str) -> None:
    size = 64 << 20
    stored = rle_bomb(size) if name == "zstd" else SINGLE[name](bytes(size))
    path, target = saved(tmp_path, stored), memoryview(bytearray(1 << 20))
    del stored
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    unpacked = DecompressedSource(Stream(path.open("rb", buffering=0), owned=True), True)
    given, arrow = 0, 0
    while count := unpacked.readinto(target):
        given += count
        arrow = max(arrow, pa.total_allocated_bytes() - before)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    unpacked.close()
    assert given == size and unpacked.damage == ""
    assert peak < 40 << 20 and arrow < 16 << 20


def test_a_reader_that_is_left_ends_its_thread(tmp_path: Path) -> None:
    path = saved(tmp_path, gzipped(capture(3000, 1000)))
    reader = read(path, SECOND, chunk_bytes=10_000)
    next(iter(reader))
    del reader
    with pytest.raises(CaptureError, match="cut inside"):
        read(saved(tmp_path, gzipped(b"\xd4\xc3\xb2\xa1")), SECOND)


COMMANDS = (
    "gzip -1", "gzip -9", "zstd -1", "zstd --check -19", "zstd --long=27", "zstd --no-check -T2", "xz -0", "xz -T2",
    "xz --check=sha256 --block-size=100000", "lz4 -1", "lz4 -9 -BD", "lz4 -B4 -BX --content-size", "lz4 --no-frame-crc",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("command", some(COMMANDS, 3))
def test_what_the_tools_write_is_read(tmp_path: Path, command: str) -> None:
    words = command.split()
    if shutil.which(words[0]) is None:
        pytest.skip(f"no {words[0]} on this machine")
    data = capture(3000, 300)
    plain = saved(tmp_path, data)
    parts = []
    for part in (data[:500_000], data[500_000:]):
        parts.append(subprocess.run([*words, "-c"], input=part, stdout=subprocess.PIPE, check=True).stdout)
    _, expected = whole(plain)
    stored = b"".join(parts)
    reader, rows = whole(saved(tmp_path, stored, "packed"))
    assert rows == expected and reader.malformed == []
    stored = stored[:-9]
    reader, rows = whole(saved(tmp_path, stored, "packed"))
    assert [bad.reason for bad in reader.malformed] == ["compression"] and rows == expected[: len(rows)]


@pytest.mark.nightly
@pytest.mark.captures
def test_real_compressed_captures_are_those_that_another_tool_decompresses(captures_dir: Path, tmp_path: Path) -> None:
    with (captures_dir / "INDEX.csv").open(newline="") as file:
        files = [row for row in csv.DictReader(file) if row["compression"] == "gz"]
    packets, refused = 0, 0
    for row in files:
        path = captures_dir / row["file"]
        with gzip.open(path) as file:
            plain = saved(tmp_path, file.read())
        try:
            other, expected = whole(plain)
        except CaptureError as error:
            with pytest.raises(CaptureError) as caught:
                read(path, SECOND)
            assert caught.value.message.partition(": ")[2] == error.message.partition(": ")[2]
            refused += 1
            continue
        reader, rows = whole(path)
        assert rows == expected and reader.malformed == other.malformed
        packets += len(rows) + len(reader.malformed)
    assert len(files) - refused >= 15 and packets > 250_000
