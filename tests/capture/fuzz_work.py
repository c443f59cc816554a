"""Looks for inputs of the parsers of applications that cost much: mutates, and keeps what takes more lines of Python.

`python -m tests.capture.fuzz_work --rounds 20000` prints, for each parser and size, the most lines for each byte. The
kernels run as Python, so their loops are counted too. Work that grows faster than the input shows as more lines for
each byte at the larger size.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from functools import partial
from random import Random
from types import FrameType
from typing import Any

os.environ["NUMBA_DISABLE_JIT"] = "1"

from lowwater.capture.headers import fields as loads


def _load(bits: int, order: Any) -> Any:
    return lambda buffer, at: int.from_bytes(bytes(buffer[at : at + bits // 8]), order)


# Before anything takes them by name: a load is code of the compiler's, which plain Python cannot call.
loads.big16, loads.big32, loads.big64 = _load(16, "big"), _load(32, "big"), _load(64, "big")
loads.little16, loads.little32, loads.little64 = _load(16, "little"), _load(32, "little"), _load(64, "little")
loads.byte, loads.prefetch = _load(8, "big"), lambda buffer, at: None

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402

from lowwater.capture.content import applications, hello  # noqa: E402
from tests import hellomaker  # noqa: E402

SIZES = (256, 2048)
LINES_A_BYTE, LINES = 60, 4000
"""Most lines of an input: for each byte, and beside them. Honest messages take a quarter of it."""

hello._hash = lambda words, begin, end: hash(bytes(words[begin:end]))  # numbers of NumPy would overflow


def one_hello(data: bytes) -> None:
    buffer = np.frombuffer(data, np.uint8)
    hello.hello_columns(buffer, np.zeros(1, np.int64), np.array([len(buffer)]), "t")


def one_segment(data: bytes) -> None:
    for protocol, port in ((6, 443), (17, 443), (17, 53), (6, 22), (6, 80)):
        numbers = {
            "caplen": len(data), "protocol": protocol, "srcPort": 40_000, "destPort": port, "payload_offset": 0,
            "payload_length": len(data),
        }  # fmt: skip
        batch = pa.record_batch({name: pa.array([number], pa.int32()) for name, number in numbers.items()})
        applications.application_fields(np.frombuffer(data, np.uint8), np.zeros(1, np.int64), batch)


def one_quic(data: bytes) -> None:
    applications.quic_columns([bytes([0xC0, 0, 0, 0, 1]) + data + bytes(1200)])
    applications._stream(data)


_BYTES = (0, 1, 2, 10, 13, 32, 58, 64, 128, 191, 192, 255)
_CLIENT = hellomaker.browser("a.example")
_QUESTION = bytes([0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]) + b"\x03www\xc0\x0c\x01a\x00\x00\x01\x00\x01"
TARGETS: dict[str, tuple[Callable[[bytes], object], list[bytes]]] = {
    "dns": (lambda data: applications.dns_fields(data, tcp=False), [_QUESTION, _QUESTION[:12] + b"\x01a" * 100]),
    "dns over tcp": (lambda data: applications.dns_fields(data, tcp=True), [hellomaker.vector(_QUESTION)]),
    "http": (applications.http_fields, [b"GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: b\r\n\r\n", b"HTTP/1.1 200 OK\r\n"]),
    "hello": (one_hello, [_CLIENT[5:], hellomaker.server(0x1301, [hellomaker.alpn(b"h2"), (43, b"\x03\x04")])]),
    "quic": (one_quic, [hellomaker.crypto(_CLIENT[5:], 0), hellomaker.crypto(b"a", 9) * 30, b"\x02\0\0\0\0" * 30]),
    "segments": (one_segment, [_CLIENT, b"SSH-2.0-a\r\n", _QUESTION, hellomaker.initial(b"\x01" * 99, bytes(8))]),
}


def lines(work: Callable[[], object]) -> int:
    """The lines of Python that a call takes."""
    count = 0

    def traced(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += 1
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def mutated(random: Random, data: bytes, size: int) -> bytes:
    """Some bytes are changed, repeated or moved; lengths keep their places, so that parsers go on."""
    made = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 4))):
        at, kind = random.randrange(len(made) + 1), random.randrange(5)
        if kind == 0 and made:
            made[at % len(made)] = random.choice((*_BYTES, random.randrange(256)))
        elif kind == 1:
            made[at : at + 2] = random.randrange(len(made) + 2).to_bytes(2, "big")
        elif kind == 2:
            begin = random.randrange(len(made) + 1)
            made[at:at] = made[begin : begin + random.choice((1, 2, 3, 5, 8, 40))] * random.choice((1, 4, 30))
        elif kind == 3:
            del made[at : at + random.choice((1, 2, 8))]
        else:
            made[at:at] = random.randbytes(random.choice((1, 2, 4)))
    return bytes(made[:size])


def climb(name: str, size: int, rounds: int, seed: int) -> tuple[int, bytes]:
    """Returns the most lines that were found for inputs of at most so many bytes, and the input."""
    run, seeds = TARGETS[name]
    random = Random(f"{name} {size} {seed}")
    for each in seeds:  # the first call imports modules
        run(each[:size])
    kept = sorted(((lines(partial(run, each[:size])), each[:size]) for each in seeds), reverse=True)
    for number in range(rounds):
        _, parent = kept[0] if number % 3 else random.choice(kept)
        data = mutated(random, parent, size)
        taken = lines(partial(run, data))
        if taken > kept[-1][0] or len(kept) < 8:
            kept = sorted([*kept, (taken, data)], reverse=True)[:8]
    return kept[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    wrong = 0
    for name in TARGETS:
        for size in SIZES:
            taken, data = climb(name, size, asked.rounds, asked.seed)
            bad = taken > LINES_A_BYTE * size + LINES
            wrong += bad
            shown = f": {data.hex()}" if bad else ""
            print(f"{name} of {size} bytes: {taken} lines, {taken / size:.1f} a byte{shown}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
