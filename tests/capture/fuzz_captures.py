"""Fuzzes decoders and readers: `python -m tests.capture.fuzz_captures --frames 9000000 --files 1000000 --seed 1`.

A frame's columns depend on its own bytes alone. Of a file, only our own errors leave the reader, nothing takes long,
memory does not grow, chunks give what one pass gives, and records, malformed rows and overhead add up to its bytes.
`--corpus DIR` adds what `fuzz_guided` found to the seeds. Not a part of the tests; a finding ends it with 1.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa

from lowwater.capture.content.applications import application_fields
from lowwater.capture.content.retention import ContentOptions
from lowwater.capture.formats.capture_file import RECORD_HEADER
from lowwater.capture.formats.classic import ROWS
from lowwater.capture.formats.division import index, read_chunk
from lowwater.capture.headers.batches import decode_batch
from lowwater.capture.reader import CaptureReader, read
from lowwater.errors import CaptureError
from tests.capture import fuzz_inputs
from tests.memory import peak_memory

FRAMES, FILES = 8192, 500
"""Inputs of one piece of work."""

SECONDS = 2.0
"""Most CPU seconds for one file, read twice."""

GROWTH = 96
"""Most MiB by which a process may grow once it is warm."""

MAX_JUMP = 61 * fuzz_inputs.SECOND
_GAP = 96
_MOST_SHOWN = 20
_seeds: list[bytes] = []
_pool: list[bytes] = []
_baseline = 0.0


@dataclass
class Found:
    """What some inputs gave."""

    kinds: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    growth: float = 0.0
    failures: list[str] = field(default_factory=list)


def check_frames(seed: int, count: int) -> None:
    """Decodes damaged frames under one link type, twice: what lies around them differs.

    Raises:
        AssertionError: a frame was decoded from bytes that are not its own, or a column is out of its range.
    """
    buffer, begins, lengths = fuzz_inputs.damaged_frames(seed, count, _pool, _GAP)
    other = buffer.copy()
    mine = np.zeros(len(buffer) + 1, np.int32)
    np.add.at(mine, begins, 1)
    np.add.at(mine, begins + lengths, -1)
    noise = np.random.default_rng(seed + 1).integers(256, size=len(buffer), dtype=np.uint8)
    outside = np.cumsum(mine[:-1]) == 0
    other[outside] = noise[outside]
    records = np.zeros((ROWS, count), np.int64)
    records[0], records[1], records[2], records[3] = begins - RECORD_HEADER, fuzz_inputs.START, lengths, lengths
    link = fuzz_inputs.LINK_TYPES[seed % len(fuzz_inputs.LINK_TYPES)]
    positions = np.arange(count)
    one, _ = decode_batch(buffer, records, positions, -1, link)
    two, _ = decode_batch(other, records, positions, -1, link)
    one.validate(full=True)
    if not one.equals(two):
        bad = next(n for n in range(count) if one.slice(n, 1) != two.slice(n, 1))
        frame = bytes(buffer[begins[bad] : begins[bad] + lengths[bad]])
        raise AssertionError(f"link type {link}: {frame.hex()} is decoded from bytes beyond it")
    fields = pa.record_batch(application_fields(buffer, begins, one))
    fields.validate(full=True)
    again = pa.record_batch(application_fields(other, begins, two))
    assert fields.equals(again), "fields of applications are from bytes beyond a frame"
    for name, least, most in (("srcPort", 0, 65535), ("protocol", 0, 255), ("offset", 0, 65535), ("ttl", 0, 255)):
        bounds = pa.compute.min_max(one[name])
        assert bounds["min"].as_py() is None or least <= bounds["min"].as_py() <= bounds["max"].as_py() <= most, name


def check_file(data: bytes, path: Path, random: Random) -> str:
    """Reads a file; says `read`, `read with damage`, or `refused`.

    Raises:
        AssertionError: the reader broke a promise.
    """
    path.write_bytes(data)
    try:
        content = ContentOptions(untimed=random.choice((None, None, -1, fuzz_inputs.START)))
        reader = read(path, MAX_JUMP, random.choice((24, 100, 4096, 1 << 20)), content=content, identified=True)
        batches = list(reader)
    except CaptureError as error:
        assert str(path) in str(error) and error.hint, f"no file or no hint: {error}"
        return "refused"
    check_sums(reader, batches, len(data))
    summary = reader.summary
    assert summary is not None
    if not summary.compression:
        found = index(path, MAX_JUMP, random.choice((24, 200, 1 << 20)), summary.sha256, content)
        assert found.malformed == tuple(reader.malformed), "the index has other malformed rows"
        decoded = tuple(replace(each, undecoded=0) for each in summary.interfaces)
        assert found.summary == replace(summary, interfaces=decoded), "the index has another summary"
        parts = [batch for chunk in found.chunks for _, batch in read_chunk(chunk, content)]
        assert _rows(parts) == _rows(batches), "chunks give other rows than one pass"
    return "read with damage" if reader.malformed else "read"


def check_sums(reader: CaptureReader, batches: Sequence[pa.RecordBatch], size: int) -> None:
    """Holds a reader that has ended against the bytes of its file."""
    summary = reader.summary
    assert summary is not None
    refused = sum(bad.length for bad in reader.malformed)
    assert summary.record_bytes + refused + summary.overhead == summary.unpacked + summary.skipped, "bytes are missing"
    assert summary.bytes == size and (summary.compression or summary.unpacked == size), "not the size of the file"
    assert summary.packets == sum(batch.num_rows for batch in batches), "packets are missing"
    assert summary.malformed == len(reader.malformed), "malformed rows are missing"
    for batch in batches:
        batch.validate(full=True)
        stamps, arrivals = batch["timestamp"].to_numpy(), batch["arrival"].to_numpy()
        assert (stamps >= 0).all() and (arrivals >= stamps).all() and (np.diff(arrivals) >= 0).all(), "times"


def _rows(batches: Iterable[pa.RecordBatch]) -> list[dict[str, object]]:
    rows = [row for batch in batches for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: row["position"])


def run(job: tuple[str, int, int]) -> Found:
    """One piece of work: `frames` or `files`, the seed, how many."""
    kind, seed, count = job
    found = Found()
    if kind == "frames":
        try:
            check_frames(seed, count)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding, and the run goes on
            found.failures.append(f"frames of seed {seed}: {type(error).__name__}: {str(error)[:1500]}")
        found.kinds["frames"] += count
    else:
        _run_files(seed, count, found)
    found.growth = (peak_memory() - _baseline) / (1 << 20)
    return found


def _run_files(seed: int, count: int, found: Found) -> None:
    random = Random(seed)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        path = Path(folder) / "one.pcap"
        for _ in range(count):
            data = fuzz_inputs.damaged(random, _seeds)
            begun = time.process_time()
            try:
                found.kinds[check_file(data, path, random)] += 1
            except Exception as error:  # noqa: BLE001 - as above
                found.failures.append(f"{type(error).__name__}: {str(error)[:500]}\n  {data[:3000].hex()}")
            taken = time.process_time() - begun
            if taken > SECONDS:
                found.failures.append(f"{taken:.2f} s\n  {data[:3000].hex()}")
            found.slowest = max(found.slowest, taken)


def warm_up(corpus: Path | None) -> None:
    """Makes the seeds, compiles the kernels: the growth of the process from here on is a leak."""
    global _baseline
    _seeds.extend(fuzz_inputs.files())
    _pool.extend(fuzz_inputs.frames())
    if corpus is not None:
        kept = [path.read_bytes() for path in sorted(corpus.iterdir()) if path.is_file()]
        _pool.extend(data[1:] for data in kept if 1 < len(data) <= 400)
    for seed in range(2 * len(fuzz_inputs.LINK_TYPES)):
        run(("frames", seed, FRAMES))
    run(("files", 0, FILES))
    _baseline = peak_memory()


def _jobs(kind: str, inputs: int, each: int, seed: int) -> list[tuple[str, int, int]]:
    return [
        (kind, seed * 1_000_003 + number, min(each, inputs - start))
        for number, start in enumerate(range(0, inputs, each))
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the fuzzer and prints what it found; returns 1 for a failure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    jobs = _jobs("frames", options.frames, FRAMES, options.seed) + _jobs("files", options.files, FILES, options.seed)
    total = Found()
    begun = time.monotonic()
    with get_context("spawn").Pool(options.jobs, warm_up, (options.corpus,)) as pool:
        for done, found in enumerate(pool.imap_unordered(run, jobs), 1):
            total.kinds += found.kinds
            total.slowest = max(total.slowest, found.slowest)
            total.growth = max(total.growth, found.growth)
            total.failures += found.failures
            if done % max(len(jobs) // 20, 1) == 0:
                spent = time.monotonic() - begun
                print(f"{done}/{len(jobs)} in {spent:.0f} s, {len(total.failures)} failures", flush=True)
    if total.growth > GROWTH:
        total.failures.append(f"memory grew by {total.growth:.0f} MiB, more than {GROWTH}")
    print(f"{sum(total.kinds.values()):,} inputs: {dict(total.kinds.most_common())}")
    print(f"slowest file: {total.slowest:.2f} s (at most {SECONDS})")
    print(f"memory: grew by {total.growth:.0f} MiB (at most {GROWTH})")
    for failure in total.failures[:_MOST_SHOWN]:
        print(f"FAILED {failure}")
    print(f"{len(total.failures)} failures")
    return 1 if total.failures else 0


if __name__ == "__main__":
    sys.exit(main())
