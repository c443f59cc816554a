"""Initial packets of QUIC: the examples of RFC 9001 and RFC 9369, tshark, cut anywhere, any bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from lowwater.capture.content.applications import quic_columns
from tests import capturemaker, hellomaker as maker
from tests.capture.tsharkoracle import compare

V1, V2 = 1, 0x6B3343CF
IDENTITY = bytes.fromhex("8394c8f03e515708")
EXAMPLE = bytes.fromhex(
    "060040f1010000ed0303ebf8fa56f12939b9584a3896472ec40bb863cfd3e86804fe3a47f06a2b69484c00000413011302010000c0"
    "00000010000e00000b6578616d706c652e636f6dff01000100000a00080006001d0017001800100007000504616c706e000500050100"
    "000000003300260024001d00209370b2c9caa47fbabaf4559fedba753de171fa71f50f1ce15d43e994ec74d748002b0003020304000d"
    "0010000e0403050306030203080408050806002d00020101001c00024001003900320408ffffffffffffffff05048000ffff07048000"
    "ffff0801100104800075300901100f088394c8f03e51570806048000ffff"
)
"""The CRYPTO frame of both examples."""

HELLO = maker.browser("www.example.org")[5:]


def quic_fields(payload: bytes) -> dict[str, Any]:
    """What a datagram says."""
    return {name: column[0].as_py() for name, column in quic_columns([payload]).items() if column[0].is_valid}


@pytest.mark.parametrize(
    ("version", "begin", "end"),
    [
        (V1, "c000000001088394c8f03e5157080000449e7b9aec34d1b1c98dd7689fb8ec11d242b123dc9bd8bab936b47d92ec356c",
         "e221af44860018ab0856972e194cd934"),
        (V2, "d76b3343cf088394c8f03e5157080000449ea0c95e82ffe67b6abcdb4298b485dd04de806071bf03dceebfa162e75d6c",
         "a18b2faa745b6fe189cf772a9f84cbfc"),
    ],
)  # fmt: skip
def test_published_packets(version: int, begin: str, end: str) -> None:
    packet = maker.initial(EXAMPLE, IDENTITY, version=version)
    assert (packet[:48].hex(), packet[-16:].hex(), len(packet)) == (begin, end, 1200)
    fields = quic_fields(packet)
    assert fields.pop("quic_ja4").startswith("q13d0211an_")
    assert fields == {
        "quic_version": version, "quic_dcid_length": 8, "quic_scid_length": 0,
        "quic_server_name": "example.com", "quic_alpn": "alpn",
    }  # fmt: skip


def test_frames_in_any_order_with_others_between_them() -> None:
    parts = [(at, HELLO[at : at + 25]) for at in range(0, len(HELLO), 25)]
    ack = b"\x02\x05\x00\x01\x00\x01\x00" + b"\x03\x05\x00\x00\x00\x01\x02\x03"
    frames = b"\x01\x00\x00".join(maker.crypto(data, offset) for offset, data in reversed(parts))
    overlapping = maker.crypto(HELLO[:40]) + maker.crypto(HELLO[:30]) + maker.crypto(HELLO[20:], 20)
    whole = quic_fields(maker.initial(maker.crypto(HELLO), IDENTITY))
    assert whole["quic_ja4"].startswith("q13d0506h2_")
    for made in (ack + frames, frames + ack, overlapping):
        assert quic_fields(maker.initial(made, IDENTITY)) == whole


@given(st.binary(max_size=120), st.sampled_from([V1, V2]))
def test_any_frames_are_read_or_not(frames: bytes, version: int) -> None:
    fields = quic_fields(maker.initial(frames, IDENTITY, version=version))
    assert fields.items() >= {"quic_version": version, "quic_dcid_length": 8, "quic_scid_length": 0}.items()


@given(st.binary(max_size=60), st.sampled_from([V1, V2]), st.booleans())
def test_any_bytes_are_a_packet_or_not(rest: bytes, version: int, long: bool) -> None:
    quic_fields(b"\xc0" + version.to_bytes(4, "big") + rest + bytes(1300 if long else 0))


@pytest.mark.slow
def test_generated_packets_equal_tshark(tmp_path: Path) -> None:
    frames = []
    for number in range(24):
        name = f"h{number}.example"
        hello = (maker.browser if number % 3 else maker.script)(name)[5:]
        half = len(hello) // 2
        parts = [maker.crypto(hello)] if number % 2 else [maker.crypto(hello[half:], half), maker.crypto(hello[:half])]
        identity = bytes([number]) * (8 + number % 13)
        packet = maker.initial(
            b"".join(parts), identity, bytes(number % 21), number=number, size=1 + number % 4, token=bytes(number % 5),
            length=1180,
        )  # fmt: skip
        frames.append(capturemaker.udp("10.0.0.1", f"10.0.1.{number}", 20_000 + number, 443, packet))
    records = [(1_600_000_000_000_000_000 + at * 1_000_000, frame) for at, frame in enumerate(frames)]
    path = tmp_path / "quic.pcap"
    path.write_bytes(capturemaker.pcap_bytes(records))
    equal, found = compare(path)
    assert found == []
    assert equal["quic_server_name"] == equal["quic_ja4"] == equal["quic_version"] == 24
    assert equal["quic_alpn"] == 16 and equal["quic_dcid_length"] == equal["quic_scid_length"] == 24
