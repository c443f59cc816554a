"""Compressed files of many members, cut at every byte of the input buffer: what the formats' own tools give."""

from __future__ import annotations

import gzip
import hashlib
import io
import random
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from lowwater.capture.formats.sources import Damage, PieceSource, Stream, members
from tests.breadth import examples, some
from tests.capture.fuzz_captures import saved
from tests.capture.test_compression import SINGLE, SKIPPABLE

pytestmark = pytest.mark.slow
TIMEOUT = 600


PADDING = {"gzip": b"", "zstd": SKIPPABLE, "xz": bytes(8), "lz4": SKIPPABLE}


class Pipe(io.RawIOBase):
    """Bytes that are given once, so that nothing can be read twice."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self._data = memoryview(data)

    def readable(self) -> bool:
        return True

    def readinto(self, target: memoryview) -> int:  # type: ignore[override]
        count = min(len(target), len(self._data))
        target[:count] = self._data[:count]
        self._data = self._data[count:]
        return count


def unpacked(path: Path, size: int, step: int, piped: bool = False) -> tuple[bytes, int, str]:
    """What a file holds, where its damage begins (or its end), and why."""
    opened = Stream(Pipe(path.read_bytes()), owned=False) if piped else Stream(path.open("rb", buffering=0), owned=True)
    stored = PieceSource(opened, True, size)
    parts, why = [], ""
    try:
        for piece in members(stored, step):
            assert 0 < len(piece) <= step
            parts.append(piece)
    except Damage as error:
        why = str(error)
    position = stored.position
    stored.drain()
    assert (stored.position, stored.sha256()) == (path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())
    stored.close()
    return b"".join(parts), position, why


def by_tool(name: str, path: Path) -> tuple[bytes, bool]:
    """What the tool of a format writes of a file, and whether it is content."""
    if shutil.which(name) is None:
        pytest.skip(f"no {name} on this machine")
    with path.open("rb") as file:
        done = subprocess.run([name, "-dc"], stdin=file, capture_output=True, timeout=TIMEOUT)
    return done.stdout, done.returncode == 0


def texts(seed: int, sizes: Sequence[int]) -> list[bytes]:
    """Content of members: half of it repeats, so that one byte of input can give many of output."""
    numbers = random.Random(seed)
    return [numbers.randbytes(size // 2) + bytes(size - size // 2) for size in sizes]


@pytest.mark.parametrize("name", some(SINGLE, 2))
@pytest.mark.parametrize(
    "sizes",
    [(0,), (1,), (0, 0, 0), (1, 0, 700), pytest.param((40, 1, 900, 0, 40), marks=pytest.mark.nightly), (300, 300)],
)
def test_members_split_at_every_byte_of_the_input_buffer(tmp_path: Path, name: str, sizes: tuple[int, ...]) -> None:
    parts = texts(len(sizes), sizes)
    stored = PADDING[name].join(SINGLE[name](part) for part in parts)
    path = saved(tmp_path, stored)
    expected = b"".join(parts)
    assert by_tool(name, path) == (expected, True)
    for size in range(1, len(stored) + 2):
        for step in (1, 7, 1 << 18):
            assert unpacked(path, size, step) == (expected, len(stored), ""), (size, step)
    for size in range(18, len(stored) + 2, 5):
        assert unpacked(path, size, 64, piped=True) == (expected, len(stored), ""), size


@pytest.mark.parametrize("name", SINGLE)
@settings(max_examples=examples(40), deadline=None)
@given(
    sizes=st.lists(st.one_of(st.integers(0, 50), st.integers(0, 300_000)), min_size=1, max_size=6),
    size=st.one_of(st.integers(18, 300), st.sampled_from([1000, 64 << 10])),
    step=st.one_of(st.integers(16, 300), st.sampled_from([1000, 256 << 10])),
    behind=st.sampled_from([b"", b"garbage", bytes(3), bytes(4), bytes(512), bytes(512) + b"x", b"\x1f\x8b", b"\xff"]),
    piped=st.booleans(),
)
def test_members_of_every_size_beside_the_tool(
    tmp_path_factory: Any, name: str, sizes: list[int], size: int, step: int, behind: bytes, piped: bool
) -> None:
    parts = texts(sum(sizes), sizes)
    whole = b"".join(SINGLE[name](part) for part in parts)
    path = saved(tmp_path_factory.mktemp("members"), whole + behind)
    found, position, why = unpacked(path, size, step, piped)
    told, content = by_tool(name, path)
    assert found == b"".join(parts) == told[: len(found)]
    # lz4 -dc keeps silent about what follows the last frame; here nothing is left out without a word.
    assert bool(why) != content or (name == "lz4" and bool(why) == bool(behind))
    assert len(whole) <= position <= len(whole + behind) and (why or position == len(whole + behind))


@pytest.mark.parametrize(
    ("behind", "begins", "whole"),
    [
        (b"", 0, True), (bytes(1), 1, True), (bytes(100_000), 100_000, True), (b"garbage", 0, False),
        (bytes(70_000) + b"garbage", 70_000, False), (bytes(4) + gzip.compress(b"more", mtime=0), 4, False),
        (b"\x1f\x8b", 2, False), (gzip.compress(b"", mtime=0) + b"x", 20, False),
    ],
)  # fmt: skip
def test_zeros_behind_gzip_are_padding_and_all_else_is_damage(
    tmp_path: Path, behind: bytes, begins: int, whole: bool
) -> None:
    first, second = gzip.compress(b"a" * 3_000, mtime=0), gzip.compress(b"b", mtime=0)
    path = saved(tmp_path, first + second + behind)
    told, content = by_tool("gzip", path)
    for size in (1, 18, 1000, 64 << 10):
        found, position, why = unpacked(path, size, 1000)
        assert found == told == b"a" * 3_000 + b"b"
        assert (position - len(first + second), why == "") == (begins, whole)
    assert content == whole
