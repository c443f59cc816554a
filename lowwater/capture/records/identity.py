"""The identity of a capture: a digest of its records, whatever file they lie in (SEMANTICS T5).

The reader adds each span of records, in the pass that finds them. A capture that is compressed, or rewritten in another
format, has the same identity as before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowwater.capture.formats.capture_file import RECORD_HEADER
from lowwater.capture.formats.classic import CAPTURED, INTERFACE, OFFSET, STAMP, WIRE
from lowwater.capture.headers.fields import byte, little64
from lowwater.capture.headers.links import LINK_TYPES
from lowwater.capture.inlining import kernel, part
from lowwater.capture.records.batches import RecordSpan
from lowwater.capture.records.facts import Interface
from lowwater.capture.records.malformed import NUMBERS, MalformedRows
from lowwater.capture.records.sanity import END_OF_TIME, LARGEST_WIRE

_FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_THIRD, _FOURTH = np.uint64(0x165667B19E3779F9), np.uint64(0xFF51AFD7ED558CCD)
_TURN = np.uint64(29)

HEAD = 100
"""Records by which a file begins as another one: no two taps have the times and bytes of so many alike."""


@part
def _mix(state: Any, word: Any, factor: Any) -> Any:
    """Mixes 8 bytes into 64 bits: a permutation of the state for every word, and of the word for every state."""
    state = (state ^ word) * factor
    return state ^ (state >> _TURN)


@kernel
def _add(buffer: Any, records: Any, numbers: Any, met: int, state: Any) -> int:
    """Mixes the records whose time and length are within range into a digest of 128 bits.

    Args:
        buffer: the bytes of the records.
        records: as `scan.scan` fills it.
        numbers: place of each interface in the order of their first records; -1 before its first one.
        met: number of interfaces with records so far.
        state: the digest, two words.

    Returns:
        The number of interfaces with records.
    """
    first, second = state[0], state[1]
    for row in range(records.shape[1]):
        stamp, wire, captured = records[STAMP, row], records[WIRE, row], records[CAPTURED, row]
        if stamp < 0 or stamp >= END_OF_TIME or wire > LARGEST_WIRE:
            continue
        interface = records[INTERFACE, row]
        if numbers[interface] < 0:
            numbers[interface] = met
            met += 1
        # Four words at a time: a multiplication takes longer than the load of a word.
        a = _mix(_FIRST, np.uint64(stamp), _FIRST)
        b = _mix(_SECOND, np.uint64(wire), _SECOND)
        c = _mix(_THIRD, np.uint64(captured), _THIRD)
        d = _mix(_FOURTH, np.uint64(numbers[interface]), _FOURTH)
        at = records[OFFSET, row] + RECORD_HEADER
        end = at + captured
        while at + 32 <= end:
            a = _mix(a, np.uint64(little64(buffer, at)), _FIRST)
            b = _mix(b, np.uint64(little64(buffer, at + 8)), _SECOND)
            c = _mix(c, np.uint64(little64(buffer, at + 16)), _THIRD)
            d = _mix(d, np.uint64(little64(buffer, at + 24)), _FOURTH)
            at += 32
        while at + 8 <= end:
            a = _mix(a, np.uint64(little64(buffer, at)), _SECOND)
            at += 8
        rest = 0
        if at < end and captured >= 8:
            rest = little64(buffer, end - 8)
        else:
            while at < end:
                rest = rest << 8 | byte(buffer, at)
                at += 1
        b = _mix(b, np.uint64(rest), _FIRST)
        first = _mix(_mix(first, a, _FIRST), c, _SECOND)
        second = _mix(_mix(second, b, _THIRD), d, _FOURTH)
    state[0], state[1] = first, second
    return met


class Identity:
    """The digest of the records of a capture, while it is read.

    It is of what its rows are made of, in file order: time, lengths, captured bytes and interface of each record whose
    time and length are within range, and place and reason of each malformed one. `max_jump` is left out of it.
    """

    def __init__(self) -> None:
        self._state = np.zeros(2, np.uint64)
        self._numbers = np.empty(0, np.int64)
        self._met = 0
        self._head: list[int] | None = None

    def add(self, span: RecordSpan, interfaces: int) -> None:
        """Adds the records of a span of a capture with so many interfaces so far."""
        if len(self._numbers) < interfaces:
            more = np.full(interfaces - len(self._numbers), -1, np.int64)
            self._numbers = np.concatenate([self._numbers, more])
        rest = span.records
        if self._head is None and span.position + rest.shape[1] >= HEAD:
            count = max(HEAD - span.position, 0)
            self._take(span, rest[:, :count])
            self._head, rest = self._state.tolist(), rest[:, count:]
        self._take(span, rest)

    def head(self) -> str:
        """Returns a digest of the first HEAD records, hex; empty if the capture has fewer."""
        return "" if self._head is None else "".join(f"{word:016x}" for word in self._head)

    def _take(self, span: RecordSpan, records: NDArray[np.int64]) -> None:
        self._met = int(_add(span.buffer, records, self._numbers, self._met, self._state))

    def digest(self, interfaces: Sequence[Interface], malformed: MalformedRows) -> str:
        """Returns the identity, 64 hex digits.

        The name of an only interface is left out: a format without names is no other capture.

        Args:
            interfaces: all interfaces of the capture.
            malformed: its malformed rows.
        """
        used = sorted((number, at) for at, number in enumerate(self._numbers.tolist()) if number >= 0)
        named = len(interfaces) > 1
        labels = [(_layer(interfaces[at]), interfaces[at].name if named else "") for _, at in used]
        rows = malformed.columns[malformed.columns["reason"] != NUMBERS["time-jump"]]
        digest = hashlib.sha256(repr(labels).encode())
        digest.update(self._state.astype("<u8").tobytes())
        for name, kind in (("position", "<i8"), ("interface", "<i4"), ("reason", "u1")):
            digest.update(rows[name].astype(kind).tobytes())
        return digest.hexdigest()


def _layer(interface: Interface) -> str:
    """Names what decodes the frames: pcap and pcapng have different numbers for some link types."""
    layer = LINK_TYPES.get(interface.link_number)
    return interface.link_type if layer is None else layer.name
