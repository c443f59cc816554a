"""Digests of the texts behind JA3, JA3S and JA4, each different text once.

Below `hello`. Few programs make most of the hellos, so most texts of a batch are those of an earlier hello.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from hashlib import md5, sha256
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.capture.headers.loads import big64, byte
from lowwater.capture.inlining import kernel

_MULTIPLIER = 0x1E3779B97F4A7C15
_POSITIVE = (1 << 63) - 1
_MOST_PROBES = 8  # bounds the work for texts that were chosen to collide: further ones get digests of their own
_LONGEST_KEPT = 2048
"""Bytes of the longest text that is remembered: those of programs have some hundred, one of a hostile hello 90,000."""

_NO_DIGEST = "0" * 12


@kernel
def _hash(words: Any, begin: int, end: int) -> int:
    state = end - begin
    while begin + 8 <= end:
        state = (state ^ big64(words, begin)) * _MULTIPLIER & _POSITIVE
        state ^= state >> 32
        begin += 8
    while begin < end:
        state = (state ^ byte(words, begin)) * _MULTIPLIER & _POSITIVE
        state ^= state >> 32
        begin += 1
    return state


@kernel
def _equal(words: Any, one: int, other: int, length: int) -> bool:
    at = 0
    while at + 8 <= length:
        if big64(words, one + at) != big64(words, other + at):
            return False
        at += 8
    while at < length:
        if byte(words, one + at) != byte(words, other + at):
            return False
        at += 1
    return True


@kernel
def _find(words: Any, begins: Any, ends: Any, slots: Any, numbers: Any, firsts: Any) -> int:
    """Numbers the different texts.

    Args:
        words: uint8 array that holds the texts.
        begins: shape (n), index of each text.
        ends: shape (n), index behind it.
        slots: hash table of 2^k slots that are -1.
        numbers: shape (n), receives the number of each text, in the order in which they come.
        firsts: shape (n), receives the first text of each number.

    Returns:
        How many numbers there are.
    """
    count = 0
    for text in range(len(begins)):
        begin, length, number = begins[text], ends[text] - begins[text], -1
        slot = _hash(words, begin, begin + length) & (len(slots) - 1)
        for _ in range(_MOST_PROBES):
            other = slots[slot]
            if other < 0:
                slots[slot] = count
                break
            first = firsts[other]
            if ends[first] - begins[first] == length and _equal(words, begins[first], begin, length):
                number = other
                break
            slot = (slot + 1) & (len(slots) - 1)
        if number < 0:
            number, firsts[count] = count, text
            count += 1
        numbers[text] = number
    return count


def made_once(
    words: NDArray[np.uint8],
    begins: NDArray[np.int32],
    ends: NDArray[np.int32],
    make: Callable[[bytes], str | None],
) -> tuple[pa.StringArray, NDArray[np.int32]]:
    """Makes something of texts, once of most different ones.

    Args:
        words: the texts.
        begins: shape (n), index of each text.
        ends: shape (n), index behind it.
        make: makes it of a text.

    Returns:
        What was made, and for each text its index therein.

    Example:
        >>> words = np.frombuffer(b"abcabd", np.uint8)
        >>> made, numbers = made_once(words, np.array([0, 3], np.int32), np.array([2, 5], np.int32), bytes.decode)
        >>> made.to_pylist(), numbers.tolist()
        (['ab'], [0, 0])
    """
    slots = np.full(2 << len(begins).bit_length(), -1, np.int32)
    numbers, firsts = np.empty((2, len(begins)), np.int32)
    firsts = firsts[: _find(words, begins, ends, slots, numbers, firsts)]
    places = zip(begins[firsts].tolist(), ends[firsts].tolist(), strict=True)
    return pa.array([make(words[begin:end].tobytes()) for begin, end in places], pa.string()), numbers


def ja3_of(text: bytes) -> str | None:
    """Returns the JA3 or JA3S of a text; None without one.

    Example:
        >>> ja3_of(b"769,47,65281-0-11-35-5-16")
        '836ce314215654b5b1f85f97c73e506f'
    """
    return md5(text, usedforsecurity=False).hexdigest() if text else None


def ja4_of(text: bytes) -> str | None:
    """Returns the JA4 of its head, its suites and its extensions with `_` between them; None without them."""
    return _ja4(text) if len(text) <= _LONGEST_KEPT else _ja4.__wrapped__(text)


@lru_cache(1024)
def _ja4(text: bytes) -> str | None:
    if not text:
        return None
    head, suites, kinds = text.split(b"_", 2)
    digest = _digest if len(text) <= _LONGEST_KEPT else _digest.__wrapped__
    return f"{str(head, 'ascii')}_{digest(suites)}_{digest(kinds)}"


@lru_cache(1024)
def _digest(listed: bytes) -> str:
    """Returns the digest of a list in a JA4: programs that shuffle their extensions have the same ones every time."""
    return sha256(listed).hexdigest()[:12] if listed else _NO_DIGEST
