"""Packets per second of writing synthetic captures and of decoding captures.

Run it from the repository: `python benchmarks/bench_capture.py [--packets N] [--json FILE]`. Compilation, the first
run's cost, is outside what is measured; files are read from the page cache. The first steps are the bounds of the
others: what reading the bytes alone costs, the kernels over records that are in memory, and `kernels, from the file`:
reading, scanning, judging and decoding into memory that is used again, and nothing else (no Arrow, no NULLs, nothing
malformed, no summary). No reader made of these kernels is faster; the share of it that each reading reaches is printed.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from lowwater_generator import generate

from lowwater.capture.formats.capture_file import RECORD_HEADER
from lowwater.capture.formats.classic import ROWS, STAMP
from lowwater.capture.headers.packet import NARROW, WHOLE, WIDE, Columns, Memory, Shape, decode, decode_batch, shape_of
from lowwater.capture.reader import index, read
from lowwater.capture.records.sanity import Judge
from lowwater.catalog.schemas import stored
from lowwater.limits import CAPTURE_CHUNK_BYTES

START = 1_600_002_000_000_000_000 // 3_600_000_000_000 * 3_600_000_000_000
MAX_JUMP = 61_000_000_000
RECORDS, REPEATED = 1 << 15, 20
FIELDS = ["timestamp", "len", "srcIP", "destIP", "srcPort", "destPort", "protocol", "flags"]
EIGHT = stored(FIELDS)
"""The stored columns of eight fields; an address takes two, and one for the family of both."""
SHAPES = {"8 fields": shape_of(tuple(EIGHT)), "all columns": WHOLE}
PIECE = 1 << 19
"""Bytes with which the kernels alone are fastest: what they fill stays in the processor's second cache."""


def _measure(work: Callable[[], int], repeat: int) -> tuple[int, float, float]:
    """Packets, and the least wall-clock and processor seconds of some runs."""
    best, least = float("inf"), float("inf")
    packets = 0
    for _ in range(repeat):
        wall, cpu = time.perf_counter(), time.process_time()
        packets = work()
        best, least = min(best, time.perf_counter() - wall), min(least, time.process_time() - cpu)
    return packets, best, least


def _read(path: Path, packets: int) -> int:
    """Nothing but the bytes, from the page cache into the processor's: no reader can be faster."""
    buffer = bytearray(CAPTURE_CHUNK_BYTES)
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return packets


class _Kernels:
    """Records of the beginning of a capture, found and in memory."""

    def __init__(self, path: Path) -> None:
        chunk = index(path, MAX_JUMP, 8 * CAPTURE_CHUNK_BYTES).chunks[0]
        with path.open("rb") as file:
            self.buffer = np.frombuffer(file.read(chunk.end), np.uint8)
        self.records = np.zeros((ROWS, RECORDS), np.int64)
        self.count, _, _ = chunk.scanner.scan(self.buffer, chunk.begin, chunk.end, self.records, 0)
        self.chunk, self.memory = chunk, Memory()

    def scan(self) -> int:
        for _ in range(REPEATED):
            self.chunk.scanner.scan(self.buffer, self.chunk.begin, self.chunk.end, self.records, 0)
        return REPEATED * self.count

    def from_the_file(self, path: Path, shape: Shape, size: int) -> int:
        """Reads `size` bytes at a time, and finds, judges and decodes the records in them."""
        buffer, records = np.empty(2 * size, np.uint8), np.zeros((ROWS, size // RECORD_HEADER + 16), np.int64)
        judge, rows, kept, packets, clock = Judge(MAX_JUMP), records.shape[1], 0, 0, -1
        wide, narrow = np.empty((len(WIDE), rows), np.int64), np.empty((len(NARROW), rows), np.int32)
        out, present, positions = Columns(wide, narrow, shape.wanted), np.empty(rows, np.int64), np.arange(rows)
        with path.open("rb", buffering=0) as file:
            file.seek(self.chunk.begin)
            while read := file.readinto(buffer[kept : kept + size].data):
                end = kept + read
                count, at, _ = self.chunk.scanner.scan(buffer, 0, end, records, 0)
                judge.settle(records[STAMP, :count], True)
                clock, _, _ = decode(buffer, records[:, :count], count, positions, clock, 1, out, present)
                packets, kept = packets + count, end - at
                buffer[:kept] = buffer[at:end].copy()
        return packets

    def decode(self, shape: Shape) -> int:
        records, positions = self.records[:, : self.count], np.arange(self.count)
        for _ in range(REPEATED):
            decode_batch(self.buffer, records, positions, -1, 1, self.memory, shape)
        return REPEATED * self.count


def _decode(path: Path, sha256: str | None, columns: list[str] | None = None) -> int:
    return sum(batch.num_rows for batch in read(path, MAX_JUMP, sha256=sha256, columns=columns))


def measure(folder: Path, packets: int, repeat: int) -> list[dict[str, Any]]:
    """One result per step: name, packets, bytes, seconds, packets per second."""
    rate = packets / 3600
    warm = generate(folder / "warm", START, 1, ["main1"], rate=1)
    for columns in (None, EIGHT):
        _decode(warm[0].path, None, columns)
    made = generate(folder / "made", START, 1, ["main1"], rate=rate)[0]
    kernels = _Kernels(made.path)
    steps: list[tuple[str, Callable[[], int]]] = [
        ("read the bytes", lambda: _read(made.path, made.packets)),
        ("scan, in memory", kernels.scan),
        ("decode, in memory", lambda: kernels.decode(WHOLE)),
        ("8 fields, in memory", lambda: kernels.decode(SHAPES["8 fields"])),
        *(
            (f"kernels, {name}", partial(kernels.from_the_file, made.path, shape, PIECE))
            for name, shape in SHAPES.items()
        ),
        ("generate", lambda: sum(one.packets for one in generate(folder / "made", START, 1, ["main1"], rate=rate))),
        ("read 8 fields", lambda: _decode(made.path, "known", EIGHT)),
        ("read all columns", lambda: _decode(made.path, "known")),
        ("all and sha256", lambda: _decode(made.path, None)),
    ]
    results = []
    for name, work in steps:
        count, seconds, cpu = _measure(work, repeat)
        results.append(
            {
                "step": name, "packets": count, "bytes": made.bytes, "seconds": round(seconds, 3),
                "cpu_seconds": round(cpu, 3), "packets_per_second": round(count / seconds),
                "packets_per_cpu_second": round(count / cpu),
            }
        )  # fmt: skip
    return results


def shares(results: list[dict[str, Any]]) -> dict[str, float]:
    """What share of the speed of the kernels alone each reading reaches, by processor time."""
    speed = {row["step"]: row["packets_per_cpu_second"] for row in results}
    return {name: round(speed[f"read {name}"] / speed[f"kernels, {name}"], 2) for name in SHAPES}


def main() -> None:
    """Prints a table and the same as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packets", type=int, default=5_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = measure(Path(folder), options.packets, options.repeat)
    print(f"{'step':20} {'packets':>10} {'MB':>7} {'s':>7} {'cpu s':>7} {'M packets/s':>12} {'M per cpu s':>12}")
    for row in results:
        print(
            f"{row['step']:20} {row['packets']:>10} {row['bytes'] / 1e6:>7.0f} {row['seconds']:>7.2f} "
            f"{row['cpu_seconds']:>7.2f} {row['packets_per_second'] / 1e6:>12.2f} "
            f"{row['packets_per_cpu_second'] / 1e6:>12.2f}"
        )
    reached = shares(results)
    for name, share in reached.items():
        print(f"read {name}: {share:.0%} of what the kernels alone reach")
    machine = platform.processor() or platform.machine()
    text = json.dumps({"machine": machine, "results": results, "shares": reached})
    print(text)
    if options.json:
        options.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
