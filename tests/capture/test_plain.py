"""The quick way through the commonest packets gives the columns that the general way gives."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from lowwater.capture.formats.capture_file import RECORD_HEADER
from lowwater.capture.formats.classic import CAPTURED, OFFSET, ROWS, STAMP, WIRE
from lowwater.capture.headers import packet as decode
from lowwater.capture.headers.packet import decode_batch
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
    st.sampled_from([6, 17]), st.binary(max_size=60), st.integers(0, 70),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 255)), max_size=4), st.integers(0, 90),
)  # fmt: skip
def test_packets_cut_and_changed(
    protocol: int, data: bytes, cut: int, changes: list[tuple[int, int]], pad: int
) -> None:
    build = maker.tcp if protocol == 6 else maker.udp
    frame = bytearray(build("10.0.0.1", "10.0.0.2", 5, 80, data=data) + bytes(pad))
    for at, value in changes:
        frame[at % len(frame)] = value
    both([bytes(frame[: len(frame) - min(cut, len(frame))]), bytes(frame)], [len(frame), len(frame)])
