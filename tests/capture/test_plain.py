"""The quick way through the commonest packets gives the columns that the general way gives."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from lowwater.capture.formats.capture_file import RECORD_HEADER
from lowwater.capture.formats.classic import CAPTURED, OFFSET, ROWS, STAMP, WIRE
from lowwater.capture.headers import fields
from lowwater.capture.headers import packet as decode
from lowwater.capture.headers.batches import decode_batch
from lowwater.capture.headers.packet import plain
from tests import capturemaker as maker
from tests.capture import fuzz_inputs

GENERAL = decode._kernel


def decoded(frames: list[bytes], wire: list[int]) -> pa.RecordBatch:
    """All frames as Ethernet, their lengths on the wire given."""
    begins = np.cumsum([RECORD_HEADER, *(len(frame) + RECORD_HEADER for frame in frames)])[:-1]
    buffer = np.frombuffer(bytearray().join(bytes(RECORD_HEADER) + frame for frame in frames) + bytes(8), np.uint8)
    records = np.zeros((ROWS, len(frames)), np.int64)
    records[OFFSET], records[STAMP] = begins - RECORD_HEADER, fuzz_inputs.START
    records[CAPTURED], records[WIRE] = [len(frame) for frame in frames], wire
    return decode_batch(buffer, records, np.arange(len(frames)), -1, maker.ETHERNET)[0]


def both(frames: list[bytes], wire: list[int]) -> pa.RecordBatch:
    """What both ways give, which is the same."""
    quick = decoded(frames, wire)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decode, "_kernel", lambda layer, whole: GENERAL(layer, whole, False))
        general = decoded(frames, wire)
    quick.validate(full=True)
    for index in range(len(frames)):
        assert quick.slice(index, 1) == general.slice(index, 1), frames[index].hex()
    return quick


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_damaged_frames(seed: int) -> None:
    pool = [frame for frame in fuzz_inputs.frames() if frame[12:14] == b"\x08\x00"] * 3 + fuzz_inputs.frames()
    buffer, begins, lengths = fuzz_inputs.damaged_frames(seed, 2000, pool, 0)
    frames = [bytes(buffer[begin : begin + length]) for begin, length in zip(begins, lengths, strict=True)]
    drawn = random.Random(seed)
    both(frames, [max(len(frame) + drawn.choice((0, 0, 900, -9)), 0) for frame in frames])


@given(
    st.sampled_from([6, 17]),
    st.binary(max_size=60),
    st.integers(0, 70),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 255)), max_size=4),
    st.integers(0, 90),
)
def test_packets_cut_and_changed(
    protocol: int, data: bytes, cut: int, changes: list[tuple[int, int]], pad: int
) -> None:
    build = maker.tcp if protocol == 6 else maker.udp
    frame = bytearray(build("10.0.0.1", "10.0.0.2", 5, 80, data=data) + bytes(pad))
    for at, value in changes:
        frame[at % len(frame)] = value
    both([bytes(frame[: len(frame) - min(cut, len(frame))]), bytes(frame)], [len(frame), len(frame)])


@njit
def _plain(buffer: Any, begin: int, end: int, wire: int, out: Any, row: int) -> int:
    return plain(buffer, begin, end, wire, out, row)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("frame", "quick"),
    [
        (maker.tcp("10.0.0.1", "10.0.0.2", 5, 80), True),
        (maker.udp("10.0.0.1", "10.0.0.2", 5, 53, bytes(20)), True),
        (maker.udp("10.0.0.1", "10.0.0.2", 5, 4789, bytes(20)), False),
        (maker.tcp("2001:db8::1", "2001:db8::2", 5, 80), True),
        (maker.udp("2001:db8::1", "2001:db8::2", 5, 53, bytes(20)), True),
        (maker.udp("2001:db8::1", "2001:db8::2", 5, 2152, bytes(20)), False),
        (maker.tcp("2001:db8::1", "2001:db8::2", 5, 80)[:73], False),
        (maker.tcp("10.0.0.1", "10.0.0.2", 5, 80)[:53], False),
        (maker.arp() + bytes(20), False),
    ],
)
def test_which_packets_go_the_quick_way(frame: bytes, quick: bool) -> None:
    wide, narrow = np.zeros((len(fields.WIDE), 1), np.int64), np.zeros((len(fields.NARROW), 1), np.int32)
    out = fields.Columns(wide, narrow, fields.EVERY)
    found = _plain(np.frombuffer(bytearray(frame + bytes(8)), np.uint8), 0, len(frame), len(frame), out, 0)
    assert (found != 0) == quick


@pytest.mark.parametrize("layer", decode.LINK_TYPES.values(), ids=lambda layer: layer.name)
def test_a_kernel_is_compiled_once_for_records_of_any_layout(layer: Any) -> None:
    """Records that are part of a larger array, as in a file of several batches, wait for no other compilation."""
    whole, part = np.zeros((ROWS, 2), np.int64), np.zeros((ROWS, 3), np.int64)[:, :2]
    kernel: Any = GENERAL(layer, True).machine
    for records in (whole, part):
        out = fields.Columns(np.empty((len(fields.WIDE), 2), np.int64), np.empty((len(fields.NARROW), 2), np.int32), -1)
        present, carriers = np.zeros(8, np.int64), np.empty((2, 4), np.int64)
        kernel(np.zeros(64, np.uint8), records, 0, np.arange(2), -1, out, present, carriers)
    assert len(kernel.signatures) == 1
