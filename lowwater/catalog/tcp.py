"""What is unusual about the segments of a TCP connection, one after another (SEMANTICS O12).

The definitions are those of Wireshark's `tcp_analyze_sequence_number`, of version 4.0. The high level calls the loop
over sorted rows, the reference engine each step.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lowwater.machine_code import cached_njit

Numbers = npt.NDArray[np.int64]

# Bits of `tcp_analysis`, numbers as in Wireshark.
RETRANSMISSION = 0x0001
LOST_BEFORE = 0x0002
ACKED_UNSEEN = 0x0004
KEEP_ALIVE = 0x0008
DUPLICATE_ACK = 0x0010
ZERO_WINDOW = 0x0020
ZERO_WINDOW_PROBE = 0x0040
ZERO_WINDOW_PROBE_ACK = 0x0080
KEEP_ALIVE_ACK = 0x0100
OUT_OF_ORDER = 0x0200
FAST_RETRANSMISSION = 0x0400
WINDOW_UPDATE = 0x0800
REUSED_PORTS = 0x2000
SPURIOUS_RETRANSMISSION = 0x4000
FROM_CLIENT = 0x10000
"""Of this program: the sender is the one that began the connection, as far as its first segment tells."""

_FIN, _SYN, _RST, _ACK = 1, 2, 4, 16
_WORD = (1 << 32) - 1
_HALF = 1 << 31
_FAST = 20_000_000
"""Longest time from an ACK to the fast retransmission that it asks for, ns."""
_NEAR = 3_000_000
"""Longest time by which segments overtake one another where the round trip is not known, ns."""

# The state of a connection, and behind it those of both directions. 0 is "none" where nothing else is said, as there.
_LAST, _SYN_TIME, _ROUND_TRIP, _CLIENT, BEGAN, _DIRECTION = 0, 1, 2, 3, 4, 5
_BASED, _BASE, _NEXT, _NEXT_TIME, _ACKED, _ACK_TIME, _WINDOW, _DUPLICATES, _EXPECTED, _BITS = range(10)
_WIDTH = 10
STATE = _DIRECTION + 2 * _WIDTH
"""Numbers of the state of a connection."""


@cached_njit()
def begin(state: Numbers) -> None:
    """Makes the state that of a connection without a segment."""
    state[:] = 0
    state[_LAST] = -1
    state[_DIRECTION + _WINDOW] = state[_DIRECTION + _WIDTH + _WINDOW] = _WORD


def fresh() -> list[int]:
    """The state of a connection without a segment."""
    state = np.zeros(STATE, np.int64)
    begin(state)
    return [*map(int, state)]


@cached_njit()
def segment(
    state: Numbers, gap: int, time: int, forward: bool, seq: int, ack: int, window: int, flags: int, length: int
) -> int:
    """Takes the next segment of a connection; returns its bits.

    Args:
        state: of `STATE` numbers; it is changed.
        gap: a segment that comes later than so many ns after the one before begins another connection.
        time: ns.
        forward: its direction.
        window: as in the header, without a scale.
        length: of its payload.
    """
    bits = 0
    ours, theirs = (_DIRECTION, _DIRECTION + _WIDTH) if forward else (_DIRECTION + _WIDTH, _DIRECTION)
    if state[_LAST] < 0 or time - state[_LAST] > gap:
        begin(state)
    elif flags & (_SYN | _ACK) == _SYN and state[ours + _BASED] and state[ours + _BASE] != seq:
        begin(state)
        bits = REUSED_PORTS
    elif flags & (_SYN | _ACK) == _SYN | _ACK and state[ours + _BASED] and state[ours + _BASE] != seq:
        state[ours + _BASE] = seq
        bits = REUSED_PORTS
    state[_LAST] = time
    if not state[_CLIENT]:
        state[BEGAN] = time
        state[_CLIENT] = theirs if flags & (_SYN | _ACK) == _SYN | _ACK else ours
    if not state[ours + _BASED]:
        state[ours + _BASED], state[ours + _BASE] = 1, seq if flags & _SYN else (seq - 1) & _WORD
    if not state[theirs + _BASED] and flags & _ACK:
        state[theirs + _BASED], state[theirs + _BASE] = 1, (ack - 1) & _WORD
    expected = state[ours + _NEXT]
    bits |= _without_data(state, ours, theirs, seq, ack, window, flags, length)
    if ack != state[ours + _ACKED]:
        state[ours + _DUPLICATES] = 0
    if flags & _ACK and state[theirs + _EXPECTED] and (state[theirs + _EXPECTED] - ack) & _WORD >= _HALF:
        # Behind a hole once; beyond all that was seen once until the other direction acknowledges something else.
        if state[theirs + _EXPECTED] != state[theirs + _NEXT] or state[theirs + _DUPLICATES] == 0:
            bits |= ACKED_UNSEEN
        if state[theirs + _EXPECTED] == state[theirs + _NEXT]:
            state[theirs + _DUPLICATES] = -1
        state[theirs + _EXPECTED] = state[theirs + _NEXT]
    counted = length + (1 if flags & (_SYN | _FIN) else 0)
    if counted and not bits & KEEP_ALIVE:
        bits |= _again(state, ours, theirs, time, seq, length, counted)
    end = (seq + counted) & _WORD
    if not bits & ZERO_WINDOW_PROBE:
        if not expected or (expected - end) & _WORD >= _HALF:
            state[ours + _NEXT], state[ours + _NEXT_TIME] = end, time
        if not state[ours + _EXPECTED] or seq == state[ours + _EXPECTED]:
            state[ours + _EXPECTED] = state[ours + _NEXT]
    state[ours + _ACKED], state[ours + _ACK_TIME] = ack, time
    state[ours + _WINDOW], state[ours + _BITS] = window, bits
    return bits | FROM_CLIENT if state[_CLIENT] == ours else bits


@cached_njit()
def _without_data(
    state: Numbers, ours: int, theirs: int, seq: int, ack: int, window: int, flags: int, length: int
) -> int:
    """What windows and segments without new data say."""
    expected, plain = state[ours + _NEXT], flags & (_SYN | _FIN | _RST) == 0
    if length == 1 and seq == expected and state[theirs + _WINDOW] == 0:
        return ZERO_WINDOW_PROBE
    bits = ZERO_WINDOW if window == 0 and plain else 0
    if expected and (expected - seq) & _WORD >= _HALF and not flags & _RST:
        bits |= LOST_BEFORE
    if length <= 1 and seq == (expected - 1) & _WORD and plain:
        bits |= KEEP_ALIVE
    if length or seq != expected or ack != state[ours + _ACKED] or not plain:
        return bits
    if window != state[ours + _WINDOW]:
        return bits | WINDOW_UPDATE if window else bits
    if window and state[theirs + _BITS] & KEEP_ALIVE:
        return bits | KEEP_ALIVE_ACK
    if window:
        state[ours + _DUPLICATES] = 1 if state[ours + _DUPLICATES] < 0 else state[ours + _DUPLICATES] + 1
        return bits | DUPLICATE_ACK
    return bits | ZERO_WINDOW_PROBE_ACK if state[theirs + _BITS] & ZERO_WINDOW_PROBE else bits


@cached_njit()
def _again(state: Numbers, ours: int, theirs: int, time: int, seq: int, length: int, counted: int) -> int:
    """Whether a segment that takes sequence numbers, `counted` of them, was sent again or was overtaken."""
    expected, acked = state[ours + _NEXT], state[theirs + _ACKED]
    # Of two bytes or more that begin one before it, only the first may be a probe's.
    behind = expected != 0 and (seq - expected) & _WORD >= _HALF and not (length > 1 and seq == (expected - 1) & _WORD)
    left = (seq + length - acked) & _WORD
    if length and acked and (left == 0 or left >= _HALF):
        return SPURIOUS_RETRANSMISSION
    if not behind:
        return 0
    if state[theirs + _DUPLICATES] >= 2 and acked == seq and time - state[theirs + _ACK_TIME] < _FAST:
        return FAST_RETRANSMISSION
    near = state[_ROUND_TRIP] if state[_ROUND_TRIP] else _NEAR
    if time - state[ours + _NEXT_TIME] < near and expected != (seq + counted) & _WORD:
        return OUT_OF_ORDER
    return RETRANSMISSION


@cached_njit()
def handshake(state: Numbers, time: int, flags: int) -> int:
    """Takes the flags of a segment behind `segment`; returns the time, ns, from the last SYN to the first ACK without
    SYN, where the segment is that ACK, else -1."""
    if flags & (_SYN | _ACK) == _SYN:
        state[_SYN_TIME] = time
    elif flags & (_SYN | _ACK) == _ACK and state[_SYN_TIME] and not state[_ROUND_TRIP]:
        state[_ROUND_TRIP] = time - state[_SYN_TIME]
        return state[_ROUND_TRIP] if state[_ROUND_TRIP] else -1
    return -1


@cached_njit()
def segments(
    before: Numbers,
    saved: Numbers,
    begins: Numbers,
    gap: int,
    times: Numbers,
    valid: npt.NDArray[np.bool_],
    forward: npt.NDArray[np.bool_],
    numbers: Numbers,
) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Takes segments that are sorted by connection and, within it, by order.

    Args:
        before: number of a row of `saved` with the state of the connection, for a row that only brings this state; -1
            for a segment, and -2 for any other row.
        begins: place of the first row of the connection of each row.
        valid: whether a segment has all values; others are not seen.
        numbers: of each segment the sequence number, the acknowledged one, window, flags and length, in rows of five.

    Returns:
        The bits of each row, the time of the handshake that it ends or -1, when its connection began, and the states
        behind the last rows.
    """
    rows = len(begins)
    bits, trips, began = np.zeros(rows, np.int64), np.full(rows, -1, np.int64), np.zeros(rows, np.int64)
    ends = 0
    for at in range(rows):
        ends += begins[at] == at
    states, state, number = np.zeros((ends, STATE), np.int64), np.zeros(STATE, np.int64), 0
    for at in range(rows):
        if begins[at] == at:
            begin(state)
        if before[at] >= 0:
            state[:] = saved[before[at]]
        elif before[at] == -1 and valid[at]:
            row = numbers[at]
            bits[at] = segment(state, gap, times[at], forward[at], row[0], row[1], row[2], row[3], row[4])
            trips[at], began[at] = handshake(state, times[at], row[3]), state[BEGAN]
        elif before[at] == -1 and times[at] - state[_LAST] > gap:
            begin(state)  # so what is kept does not depend on when ended connections are dropped
        if at + 1 == rows or begins[at + 1] == at + 1:
            states[number] = state
            number += 1
    return bits, trips, began, states
