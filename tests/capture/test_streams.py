"""Captures from streams: FIFOs, pipes, sockets, objects that give a few bytes at a time; plain and compressed."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import random
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from lowwater.capture import read
from lowwater.capture.reader import CaptureReader
from tests import capturemaker as maker
from tests.capture.test_compression import SINGLE
from tests.pcapngmaker import Section

SECOND = 1_000_000_000
START = 1_600_000_000 * SECOND
FRAMES = [maker.udp("10.0.0.1", "10.0.0.2", number, 53, random.Random(number).randbytes(90)) for number in range(900)]
CLASSIC = maker.pcap_bytes((START + number, frame) for number, frame in enumerate(FRAMES))
PCAPNG = Section().header() + Section().interface("a", resolution=9)
PCAPNG += b"".join(Section().packet(START + number, frame) for number, frame in enumerate(FRAMES))
FORMS = {"pcap": CLASSIC, "pcapng": PCAPNG} | {name: pack(CLASSIC) for name, pack in SINGLE.items()}
FORM = pytest.mark.parametrize("form", FORMS)


class Short:
    """Bytes by `read` only, a few at a time."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)
        self._numbers = random.Random(1)

    def read(self, size: int) -> bytes:
        return self._file.read(min(size, self._numbers.randint(1, 700)))


def whole(capture: Any) -> tuple[CaptureReader, list[int]]:
    reader = read(capture, SECOND, chunk_bytes=5000)
    return reader, [port for batch in reader for port in batch["srcPort"].to_pylist()]


def check(capture: Any, data: bytes) -> None:
    """A stream gives what the file gives."""
    reader, ports = whole(capture)
    assert ports == list(range(900)) and reader.malformed == []
    summary = reader.summary
    assert summary is not None and summary.ended_cleanly
    assert (summary.bytes, summary.sha256) == (len(data), hashlib.sha256(data).hexdigest())


@FORM
def test_a_file_object_is_read_from_where_it_stands(tmp_path: Path, form: str) -> None:
    path = tmp_path / "one"
    path.write_bytes(b"before" + FORMS[form])
    with path.open("rb") as file:
        file.seek(6)
        check(file, FORMS[form])
        assert not file.closed


@FORM
def test_a_fifo_is_a_path(tmp_path: Path, form: str) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_bytes(FORMS[form]))
    writer.start()
    check(path, FORMS[form])
    writer.join()


@pytest.mark.slow
def test_a_socket_and_standard_input() -> None:
    ours, theirs = socket.socketpair()
    writer = threading.Thread(target=lambda: (theirs.sendall(PCAPNG), theirs.close()))
    writer.start()
    with ours, ours.makefile("rb") as file:
        check(file, PCAPNG)
    writer.join()
    code = "import sys; from lowwater.capture import read; r = read(sys.stdin.buffer, 10**9); "
    code += "print(sum(b.num_rows for b in r), r.header.path, r.header.bytes)"
    done = subprocess.run([sys.executable, "-c", code], input=FORMS["gzip"], capture_output=True, check=True)
    assert done.stdout.decode().split() == ["900", "<stdin>", "0"]


@pytest.mark.slow
@pytest.mark.parametrize("name", SINGLE)
@pytest.mark.parametrize("times", [1, 5])
def test_a_damaged_stream_may_lose_what_cannot_be_read_again(tmp_path: Path, name: str, times: int) -> None:
    data = bytearray(SINGLE[name](CLASSIC + CLASSIC[24:] * (times - 1)))
    data[len(data) // 2] ^= 0xFF
    path = tmp_path / "one"
    path.write_bytes(data)
    reader, ports = whole(path)
    other, fewer = whole(Short(bytes(data)))
    assert fewer == ports[: len(fewer)]
    assert len(fewer) == len(ports) if times == 1 else len(ports) - len(fewer) < (64 << 10) // len(FRAMES[0])
    summary, same = other.summary, reader.summary
    assert summary is not None and same is not None
    assert (summary.bytes, summary.sha256, bool(summary.damage)) == (same.bytes, same.sha256, bool(same.damage))
    refused = sum(bad.length for bad in other.malformed)
    assert summary.record_bytes + summary.overhead + refused == summary.unpacked + summary.skipped


def test_a_stream_cut_in_its_compression_gives_the_packets_before() -> None:
    stored = gzip.compress(CLASSIC)
    reader, ports = whole(Short(stored[:-4000]))
    assert ports == list(range(len(ports))) and 300 < len(ports) < 900
    assert [bad.reason for bad in reader.malformed] == ["compression"]
