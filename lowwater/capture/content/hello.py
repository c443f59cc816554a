"""ClientHello and ServerHello: names, versions, and the fingerprints JA3, JA3S and JA4.

TLS over TCP and QUIC share this parser. A hello may be cut anywhere. An extension has a value where
all of its bytes are there; a fingerprint needs the whole hello. A kernel writes the texts of all hellos of a batch one
behind another; then each different text is digested once. Lengths in a message allocate nothing: the memory for the
texts follows from the bytes that were captured.

GREASE (RFC 8701) is left out of versions and fingerprints. JA3 is the MD5 digest of the salesforce/ja3 text, JA4 is
FoxIO's specification of clients.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from hashlib import md5, sha256
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.capture.formats.capture_file import ETHERNET
from lowwater.capture.headers.fields import big16, big32, big64, byte
from lowwater.capture.inlining import kernel, part
from lowwater.capture.interpretation import Kernel

# Beginnings of messages of TLS, SSH and QUIC, by which the kernel in `applications` marks packets.

CHANGE_CIPHER_SPEC, HANDSHAKE = 20, 22
"""Types of TLS records."""

RECORD_HEADER = 5
CHANGED = RECORD_HEADER + 1
"""Bytes of a record that changes the cipher. A client whose first hello was refused sends one before its second."""

CLIENT, SERVER = 1, 2
"""Types of the messages ClientHello and ServerHello."""

SHORTEST = 6
"""Bytes of a hello up to the end of its version."""

SSH = int.from_bytes(b"SSH-", "big")

VERSION_1, VERSION_2 = 1, 0x6B3343CF
"""Versions of QUIC."""


@part
def begins_hello(buffer: Any, at: int, end: int) -> bool:
    """Whether the record of a TLS hello begins at an index; its version must be captured."""
    if end - at >= CHANGED and byte(buffer, at) == CHANGE_CIPHER_SPEC and big16(buffer, at + 3) == 1:
        at += CHANGED
    if end - at < RECORD_HEADER + SHORTEST or byte(buffer, at) != HANDSHAKE or byte(buffer, at + 1) != 3:
        return False
    kind = byte(buffer, at + RECORD_HEADER)
    # An encrypted message may begin with any byte: the high byte of the length and the version make it unlikely.
    plausible = byte(buffer, at + RECORD_HEADER + 1) == 0 and byte(buffer, at + RECORD_HEADER + 4) == 3
    return kind in (CLIENT, SERVER) and plausible


@part
def begins_initial(buffer: Any, at: int, end: int) -> bool:
    """Whether an Initial packet of QUIC begins at an index: long header, fixed bit, type and version."""
    if end - at < 5:
        return False
    kind, version = byte(buffer, at) & 0xF0, big32(buffer, at + 1)
    return (kind == 0xC0 and version == VERSION_1) or (kind == 0xD0 and version == VERSION_2)


# Columns of all packets from values of few of them: most packets hold no message of an application. Below
# `applications` and `hello`. A column of texts keeps the memory of the few; only offsets and the bitmap are made for
# all rows.


@kernel
def _fill(chosen: Any, valid: Any, few: Any, bits: Any, many: Any) -> None:
    """Puts the values of the chosen rows into zeros, and marks them; `valid` is the bitmap of `few`, or empty."""
    for place in range(len(chosen)):
        if len(valid) == 0 or valid[place >> 3] >> (place & 7) & 1:
            row = chosen[place]
            bits[row >> 3] |= 1 << (row & 7)
            many[row] = few[place]


@kernel
def _bound(chosen: Any, valid: Any, few: Any, bits: Any, many: Any) -> None:
    """Fills the offsets of texts, which rows without one repeat, and marks the rows with one."""
    row = 0
    for place in range(len(chosen)):
        last = chosen[place]
        while row <= last:
            many[row] = few[place]
            row += 1
        if len(valid) == 0 or valid[place >> 3] >> (place & 7) & 1:
            bits[last >> 3] |= 1 << (last & 7)
    while row < len(many):
        many[row] = few[len(chosen)]
        row += 1


def spread(values: pa.Array, chosen: NDArray[np.int64], rows: int) -> pa.Array:
    """Returns a column with the values at the chosen rows and NULL elsewhere.

    Args:
        values: shape (m): integers, or strings; no slice of an array.
        chosen: shape (m), rows, ascending.

    Example:
        >>> spread(pa.array(["a", None, "c"]), np.array([0, 2, 3]), 5).to_pylist()
        ['a', None, None, 'c', None]
    """
    kind = values.type
    if values.null_count == len(values):
        return pa.nulls(rows, kind)
    validity, numbers, *data = values.buffers()
    valid = NO_BITS if validity is None else read_only(validity, np.uint8)
    bits = np.zeros(-(-rows // 8), np.uint8)
    if data:
        many, few = np.empty(rows + 1, np.int32), read_only(numbers, np.int32)
        _bound(chosen, valid, few, bits, many)
    else:
        width = np.int32 if kind == _INT32 else np.int64
        many, few = np.zeros(rows, width), read_only(numbers, width)
        _fill(chosen, valid, few, bits, many)
    return pa.Array.from_buffers(kind, rows, [pa.py_buffer(bits), pa.py_buffer(many), *data])


def new_bytes(size: int) -> NDArray[np.uint8]:
    """Returns uninitialised memory of Arrow's pool, which keeps what is freed, whereas NumPy takes new pages."""
    return np.frombuffer(pa.allocate_buffer(size), np.uint8)


def read_only(buffer: pa.Buffer, kind: Any) -> NDArray[Any]:
    """Returns the memory of a buffer; numba compiles a kernel for memory that may be written anew."""
    values: NDArray[Any] = np.frombuffer(buffer, kind)
    values.flags.writeable = False
    return values


_INT32 = pa.int32()
NO_BITS = read_only(pa.py_buffer(b""), np.uint8)
"""The bitmap of a column without NULL."""


# Digests of the texts behind JA3, JA3S and JA4, each different text once. Few programs make most of the hellos, so
# most texts of a batch are those of an earlier hello.

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
        begins: shape (n), index of each text.
        ends: shape (n), index behind it.

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


LONGEST_TEXT = 2048
"""Most bytes of a text field; the rest is dropped."""

LONGEST_HELLO = 1 << 14
"""Most bytes of a hello that are read."""

NUMBERS = ("hello", "hello_version", "version", "cipher")
"""Columns of numbers of a hello, without the prefix of their application."""

_HELLO, _HELLO_VERSION, _VERSION, _CIPHER = range(4)
_NAME, _PROTOCOLS, _JA3, _JA4 = range(4)
"""Texts of a hello: those whose digests are JA3 or JA3S, and JA4, stand behind its name and protocols."""

_SERVER_NAME, _GROUPS, _POINTS, _SIGNATURES, _ALPN, _VERSIONS = 0, 10, 11, 13, 16, 43
_READ = 44  # types of extensions below are looked up
_SESSION = SHORTEST + 32  # the session id is behind the random
_COMMA, _HYPHEN, _UNDERSCORE, _ZERO = (ord(letter) for letter in ",-_0")
_MOST = 99
_WIDEST = 2  # bytes of a character
_EACH = 6  # bytes of texts that a byte of a hello may give: a cipher suite has two, and at most six and five digits
_FIXED = 64


@kernel
def _is_grease(number: int) -> bool:
    return number & 0x0F0F == 0x0A0A and number >> 8 == number & 0xFF


@kernel
def _behind(buffer: Any, at: int, width: int, end: int) -> int:
    """Returns the index behind a vector whose length has `width` bytes; end + 1 if it is cut."""
    if at + width > end:
        return end + 1
    length = byte(buffer, at) if width == 1 else big16(buffer, at)
    return min(at + width + length, end + 1)


@kernel
def _decimal(words: Any, at: int, number: int) -> int:
    """Writes a number up to 65535; returns the index behind it."""
    # Divisions by constants are multiplications.
    if number >= 10_000:
        words[at] = _ZERO + number // 10_000
        at += 1
    if number >= 1_000:
        words[at] = _ZERO + number // 1_000 % 10
        at += 1
    if number >= 100:
        words[at] = _ZERO + number // 100 % 10
        at += 1
    if number >= 10:
        words[at] = _ZERO + number // 10 % 10
        at += 1
    words[at] = _ZERO + number % 10
    return at + 1


@kernel
def _decimals(words: Any, at: int, numbers: Any, first: int, count: int) -> int:
    """Writes `count` numbers from an index on, with hyphens between them; returns the index behind them."""
    for place in range(first, first + count):
        if place > first:
            words[at] = _HYPHEN
            at += 1
        at = _decimal(words, at, numbers[place])
    return at


@kernel
def _digit(number: int) -> int:
    """Returns the hexadecimal digit of a number below 16."""
    return number + (48 if number < 10 else 87)


@kernel
def _hexadecimals(words: Any, at: int, numbers: Any, count: int) -> int:
    """Writes numbers as four digits with commas between them; returns the index behind them."""
    for place in range(count):
        if place:
            words[at] = _COMMA
            at += 1
        for shift in (12, 8, 4, 0):
            words[at] = _digit(numbers[place] >> shift & 15)
            at += 1
    return at


@kernel
def _text(words: Any, at: int, buffer: Any, begin: int, end: int) -> int:
    """Writes bytes as UTF-8, one character a byte; returns the index behind them."""
    for place in range(begin, end):
        letter = byte(buffer, place)
        if letter < 128:
            words[at] = letter
            at += 1
        else:
            words[at] = 0xC0 | letter >> 6
            words[at + 1] = 0x80 | letter & 0x3F
            at += 2
    return at


@kernel
def _load(buffer: Any, begin: int, end: int, numbers: Any, first: int) -> int:
    """Loads 16-bit numbers without GREASE to an index on; returns their count. An odd byte at the end is dropped."""
    count = 0
    for place in range(begin, end - 1, 2):
        number = big16(buffer, place)
        if not _is_grease(number):
            numbers[first + count] = number
            count += 1
    return count


@kernel
def _sort(numbers: Any, count: int) -> None:
    """Sorts by a heap: hostile lists of thousands take no longer than others."""
    for last in range(count - 1 + count // 2, 0, -1):
        # First the heap is made, from its middle down; then its largest number goes to the end, again and again.
        making = last >= count
        root, end = (last - count, count) if making else (0, last)
        if not making:
            numbers[0], numbers[last] = numbers[last], numbers[0]
        while 2 * root + 1 < end:
            child = 2 * root + 1
            if child + 1 < end and numbers[child + 1] > numbers[child]:
                child += 1
            if numbers[root] >= numbers[child]:
                break
            numbers[root], numbers[child] = numbers[child], numbers[root]
            root = child


@kernel
def _extensions(buffer: Any, at: int, end: int, kinds: Any, places: Any) -> tuple[int, bool]:
    """Reads the extensions that begin with their length at an index. Returns the count of kinds, and whether the
    extensions are whole and end with the hello.

    Args:
        end: index behind the last byte of the hello.
        kinds: receives the types without GREASE, in their order.
        places: receives begin and end of the first extension of each type below _READ; -1 where there is none.
    """
    count = 0
    if at == end:
        return 0, True  # a hello may end before the length of extensions
    if at + 2 > end:
        return 0, False
    stop = at + 2 + big16(buffer, at)
    last = min(stop, end)
    at += 2
    while at + 4 <= last:
        kind, length = big16(buffer, at), big16(buffer, at + 2)
        at += 4 + length
        if at > last:
            return count, False
        if kind < _READ and places[kind, 0] < 0:
            places[kind, 0], places[kind, 1] = at - length, at
        if not _is_grease(kind):
            kinds[count] = kind
            count += 1
    return count, at == stop and stop == end


@kernel
def _protocols(buffer: Any, places: Any, every: bool, words: Any, at: int) -> tuple[int, int, int]:
    """Writes the protocols of ALPN, or the first alone. Returns the index behind the text, and begin and end of the
    first protocol."""
    place, end = places[_ALPN, 0] + 2, places[_ALPN, 1]
    left, first, behind = LONGEST_TEXT, 0, 0
    while places[_ALPN, 0] >= 0 and place < end:
        begin, place = place + 1, _behind(buffer, place, 1, end)
        if place > end:
            break
        if behind:
            if not every:
                break
            if left > 0:
                words[at] = _COMMA
                at, left = at + 1, left - 1
        else:
            first, behind = begin, place
        size = min(place - begin, left)
        at = _text(words, at, buffer, begin, begin + size)
        left -= size
    return at, first, behind


@kernel
def _server_name(buffer: Any, places: Any, words: Any, at: int) -> int:
    """Writes the name of the server; returns the index behind it."""
    begin, end = places[_SERVER_NAME, 0], places[_SERVER_NAME, 1]
    # The list has a length, its first entry a type (0: a name of a host) and a length.
    if begin < 0 or end - begin <= 5 or byte(buffer, begin + 2) != 0:
        return at
    length = big16(buffer, begin + 3)
    if length > end - begin - 5:
        return at
    return _text(words, at, buffer, begin + 5, begin + 5 + min(length, LONGEST_TEXT))


@kernel
def _highest(buffer: Any, places: Any, version: int) -> int:
    """Returns the highest version of supported_versions, -1 for none; without this extension the hello's own."""
    if places[_VERSIONS, 0] < 0:
        return version
    highest = -1
    for place in range(places[_VERSIONS, 0] + 1, places[_VERSIONS, 1] - 1, 2):
        offered = big16(buffer, place)
        if offered > highest and not _is_grease(offered):
            highest = offered
    return highest


@kernel
def _letters(words: Any, at: int, first: int, second: int) -> int:
    words[at], words[at + 1] = first, second
    return at + 2


@kernel
def _is_alphanumeric(letter: int) -> bool:
    return 48 <= letter <= 57 or 65 <= letter <= 90 or 97 <= letter <= 122


@kernel
def _head(words: Any, at: int, letter: int, highest: int, named: bool, suites: int, kinds: int) -> int:
    """Writes the beginning of a JA4 up to its protocol; returns the index behind it."""
    words[at] = letter
    at += 1
    if 0x0301 <= highest <= 0x0304:
        at = _letters(words, at, 49, _ZERO + highest - 0x0301)
    elif highest in (0x0300, 0x0002):
        at = _letters(words, at, 115, 51 if highest == 0x0300 else 50)
    else:
        at = _letters(words, at, _ZERO, _ZERO)
    words[at] = 100 if named else 105
    suites, kinds = min(suites, _MOST), min(kinds, _MOST)
    at = _letters(words, at + 1, _ZERO + suites // 10, _ZERO + suites % 10)
    return _letters(words, at, _ZERO + kinds // 10, _ZERO + kinds % 10)


@kernel
def _put_protocol(buffer: Any, first: int, last: int, words: Any, at: int) -> int:
    """Writes the two characters of a JA4 for a protocol of ALPN; returns the index behind them."""
    if last <= first:
        return _letters(words, at, _ZERO, _ZERO)
    one, two = byte(buffer, first), byte(buffer, last - 1)
    if _is_alphanumeric(one) and _is_alphanumeric(two):
        return _letters(words, at, one, two)
    return _letters(words, at, _digit(one >> 4), _digit(two & 15))


@kernel
def _put_ja3(buffer: Any, version: int, many: int, count: int, memory: Any, words: Any, at: int) -> int:
    """Writes the text of a JA3; returns the index behind it.

    Args:
        memory: kinds, listed and places, as of `_hellos`.
        at: index of its begin in `words`.
    """
    kinds, listed, places = memory
    at = _decimal(words, at, version)
    words[at] = _COMMA
    at = _decimals(words, at + 1, listed, 0, many)
    words[at] = _COMMA
    at = _decimals(words, at + 1, kinds, 0, count)
    words[at] = _COMMA
    # The groups go behind the cipher suites in the same memory.
    groups = _load(buffer, places[_GROUPS, 0] + 2, places[_GROUPS, 1], listed, many) if places[_GROUPS, 0] >= 0 else 0
    at = _decimals(words, at + 1, listed, many, groups)
    words[at] = _COMMA
    at += 1
    for place in range(places[_POINTS, 0] + 1, places[_POINTS, 1]):
        if place > places[_POINTS, 0] + 1:
            words[at] = _HYPHEN
            at += 1
        at = _decimal(words, at, byte(buffer, place))
    return at


@kernel
def _put_kinds(buffer: Any, count: int, memory: Any, words: Any, at: int) -> int:
    """Writes the sorted extensions of a JA4 and the signature algorithms; returns the index behind them."""
    kinds, listed, places = memory
    kept = 0
    for place in range(count):
        if kinds[place] != _SERVER_NAME and kinds[place] != _ALPN:
            kinds[kept] = kinds[place]
            kept += 1
    _sort(kinds, kept)
    at = _hexadecimals(words, at, kinds, kept)
    if kept and places[_SIGNATURES, 0] >= 0:
        signatures = _load(buffer, places[_SIGNATURES, 0] + 2, places[_SIGNATURES, 1], listed, 0)
        if signatures:
            words[at] = _UNDERSCORE
            at = _hexadecimals(words, at + 1, listed, signatures)
    return at


@kernel
def _client(
    buffer: Any, at: int, end: int, whole: bool, letter: int, row: int, values: Any, texts: Any, ends: Any, memory: Any
) -> None:
    """Reads a ClientHello from its cipher suites on; arguments as of `_hellos`."""
    kinds, listed, places = memory
    names, protocols, words = texts
    version = values[_HELLO_VERSION, row]
    suites, behind = at + 2, _behind(buffer, at, 2, end)
    at = _behind(buffer, behind, 1, end)  # compression methods
    if behind > end or at > end:
        return
    count, complete = _extensions(buffer, at, end, kinds, places)
    complete = complete and whole
    highest = _highest(buffer, places, version)
    if complete or places[_VERSIONS, 0] >= 0:
        values[_VERSION, row] = highest
    ends[_NAME, row + 1] = _server_name(buffer, places, names, ends[_NAME, row])
    ends[_PROTOCOLS, row + 1], first, last = _protocols(buffer, places, True, protocols, ends[_PROTOCOLS, row])
    if not complete:
        return
    many = _load(buffer, suites, behind, listed, 0)
    out = _put_ja3(buffer, version, many, count, memory, words, ends[_JA4, row])
    ends[_JA3, row + 1] = out
    _sort(listed, many)
    out = _head(words, out, letter, highest, places[_SERVER_NAME, 0] >= 0, many, count)
    out = _put_protocol(buffer, first, last, words, out)
    words[out] = _UNDERSCORE
    out = _hexadecimals(words, out + 1, listed, many)
    words[out] = _UNDERSCORE
    ends[_JA4, row + 1] = _put_kinds(buffer, count, memory, words, out + 1)


@kernel
def _server(
    buffer: Any, at: int, end: int, whole: bool, row: int, values: Any, texts: Any, ends: Any, memory: Any
) -> None:
    """Reads a ServerHello from its cipher suite on; arguments as of `_hellos`."""
    kinds, places = memory[0], memory[2]
    protocols, words = texts[1], texts[2]
    if at + 2 > end:
        return
    version, cipher = values[_HELLO_VERSION, row], big16(buffer, at)
    values[_CIPHER, row] = cipher
    if at + 3 > end:
        return
    count, complete = _extensions(buffer, at + 3, end, kinds, places)
    complete = complete and whole
    begin = places[_VERSIONS, 0]
    if begin >= 0 and places[_VERSIONS, 1] - begin == 2:
        values[_VERSION, row] = big16(buffer, begin)
    elif begin < 0 and complete:
        values[_VERSION, row] = version
    ends[_PROTOCOLS, row + 1], _first, _last = _protocols(buffer, places, False, protocols, ends[_PROTOCOLS, row])
    if not complete:
        return
    out = _decimal(words, ends[_JA4, row], version)
    words[out] = _COMMA
    out = _decimal(words, out + 1, cipher)
    words[out] = _COMMA
    out = _decimals(words, out + 1, kinds, 0, count)
    ends[_JA3, row + 1], ends[_JA4, row + 1] = out, out


def _hellos(
    buffer: Any, begins: Any, stops: Any, letter: int, values: Any, names: Any, protocols: Any, words: Any, ends: Any,
    kinds: Any, listed: Any, places: Any,
) -> None:  # fmt: skip
    """Reads hellos.

    Args:
        begins: shape (n), index of the messages.
        stops: shape (n), index behind their last captured bytes.
        letter: first letter of a JA4.
        values: shape (4, n), receives the numbers; -1 where there is none.
        ends: shape (4, n + 1), receives the index behind each text, from index 1 on.
        places: shape (_READ, 2), memory for the places of extensions.
    """
    for row in range(len(begins)):
        ends[_NAME, row + 1], ends[_PROTOCOLS, row + 1] = ends[_NAME, row], ends[_PROTOCOLS, row]
        ends[_JA3, row + 1], ends[_JA4, row + 1] = ends[_JA4, row], ends[_JA4, row]
        begin, end = begins[row], stops[row]
        if end - begin < SHORTEST:
            continue
        values[_HELLO, row], values[_HELLO_VERSION, row] = byte(buffer, begin), big16(buffer, begin + 4)
        last = begin + 4 + (byte(buffer, begin + 1) << 16) + big16(buffer, begin + 2)
        whole, end = end >= last, min(end, last)
        at = _behind(buffer, begin + _SESSION, 1, end)
        if at > end:
            continue
        for kind in range(_READ):
            places[kind, 0], places[kind, 1] = -1, -1
        memory, texts = (kinds, listed, places), (names, protocols, words)
        if values[_HELLO, row] == SERVER:
            _server(buffer, at, end, whole, row, values, texts, ends, memory)
        elif values[_HELLO, row] == CLIENT:
            _client(buffer, at, end, whole, letter, row, values, texts, ends, memory)


_HELLOS = Kernel(_hellos, "read hellos of TLS and QUIC", ETHERNET)


def hello_columns(
    buffer: NDArray[np.uint8], begins: NDArray[np.int64], ends: NDArray[np.int64], transport: str
) -> dict[str, pa.Array]:
    """Reads hellos of a buffer.

    Args:
        begins: shape (n), index of the messages.
        ends: shape (n), index behind their last captured bytes.
        transport: first letter of a JA4: `t` for TCP, `q` for QUIC.

    Returns:
        NUMBERS (int32), and `server_name`, `alpn`, `ja3`, `ja3s` and `ja4` (string) -> n values. A field that is not
        whole is NULL, and less than SHORTEST bytes are no hello.
    """
    count = len(begins)
    ends = np.minimum(ends, begins + LONGEST_HELLO)
    sizes = ends - begins
    longest, together = int(sizes.max(initial=0)), int(sizes.clip(0).sum())
    values = np.full((len(NUMBERS), count), -1, np.int32)
    names, protocols = new_bytes(together * _WIDEST), new_bytes(together * _WIDEST)
    words = new_bytes(together * _EACH + count * _FIXED)
    marks = np.zeros((_JA4 + 1, count + 1), np.int32)
    memory = (np.empty(longest + 1, np.int64), np.empty(longest + 1, np.int64), np.empty((_READ, 2), np.int64))
    _HELLOS.of(count)(buffer, begins, ends, ord(transport), values, names, protocols, words, marks, *memory)
    bits = np.packbits(values >= 0, axis=1, bitorder="little")
    columns = {name: _numbers(values[at], bits[at]) for at, name in enumerate(NUMBERS)}
    columns["server_name"], columns["alpn"] = _strings(names, marks[_NAME]), _strings(protocols, marks[_PROTOCOLS])
    server = values[_HELLO] == SERVER
    digests, numbers = made_once(words, marks[_JA4, :-1], marks[_JA3, 1:], ja3_of)
    columns["ja3"], columns["ja3s"] = (digests.take(pa.array(numbers, mask=hidden)) for hidden in (server, ~server))
    digests, numbers = made_once(words, marks[_JA3, 1:], marks[_JA4, 1:], ja4_of)
    return columns | {"ja4": digests.take(pa.array(numbers))}


def _numbers(values: NDArray[np.int32], bits: NDArray[np.uint8]) -> pa.Int32Array:
    return pa.Array.from_buffers(pa.int32(), len(values), [pa.py_buffer(bits), pa.py_buffer(values)])


def _strings(words: NDArray[np.uint8], offsets: NDArray[np.int32]) -> pa.StringArray:
    """Returns texts that stand one behind another; an empty one is NULL."""
    valid = np.packbits(offsets[1:] > offsets[:-1], bitorder="little")
    buffers = [pa.py_buffer(valid), pa.py_buffer(offsets), pa.py_buffer(words)]
    return pa.Array.from_buffers(pa.string(), len(offsets) - 1, buffers)


# TLS over TCP (RFC 8446, RFC 5246): the hello at the beginning of a segment. Segments are not put together, nor are
# records. A hello that goes on in the next segment or in a second record is cut there. A hello of SSL 2.0 is not
# read, and DTLS is not TLS over TCP.


def tls_columns(buffer: NDArray[np.uint8], begins: NDArray[np.int64], ends: NDArray[np.int64]) -> dict[str, pa.Array]:
    """Reads the hellos of segments. Returns column -> n values.

    Args:
        begins: shape (n), index of payloads that begin as `begins_hello` says.
        ends: shape (n), index behind their captured bytes.
    """
    at = begins + np.where(buffer[begins] == CHANGE_CIPHER_SPEC, CHANGED, 0)
    one, two, three, four = (buffer[at + place].astype(np.int32) for place in range(1, RECORD_HEADER))
    hello, length = at + RECORD_HEADER, three << 8 | four
    found = hello_columns(buffer, hello, np.minimum(ends, hello + length), "t")
    version = pa.array(one << 8 | two, mask=length < SHORTEST)
    return {"tls_record_version": version} | {f"tls_{name}": column for name, column in found.items()}
