"""Hellos of TLS and banners of SSH: published fingerprints, tshark, the specifications read twice, any bytes."""

from __future__ import annotations

from hashlib import md5
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from lowwater.capture.content import hello
from lowwater.capture.content.applications import ssh_fields
from lowwater.capture.content.hello import SHORTEST, hello_columns, made_once
from lowwater.capture.interpretation import Kernel
from tests import capturemaker, hellomaker as maker
from tests.capture.test_applications import TCP, fields_of
from tests.capture.tsharkhellos import grease, ja4
from tests.capture.tsharkoracle import compare

GREASE = [0x0A0A, 0x1A1A, 0x8A8A, 0xFAFA]
CHANGED = b"\x14\x03\x03\x00\x01\x01"
KNOWN = [maker.SERVER_NAME, maker.GROUPS, maker.POINTS, maker.SIGNATURES, maker.ALPN, maker.VERSIONS]


def hello_fields(message: bytes, transport: str) -> dict[str, Any]:
    """What a hello says, to machine code and to plain Python."""
    place, said = np.zeros(1, np.int64), []
    for form in (hello._HELLOS.machine, hello._HELLOS.python):
        with patch.object(Kernel, "of", return_value=form):
            columns = hello_columns(np.frombuffer(bytearray(message), np.uint8), place, place + len(message), transport)
        said.append({name: column[0].as_py() for name, column in columns.items() if column[0].is_valid})
    assert said[0] == said[1]
    return said[0]


def listed(text: str) -> list[int]:
    """Numbers of the raw form of a JA4."""
    return [int(word, 16) for word in text.split(",") if word]


def decimal(text: str) -> list[int]:
    """Numbers of a part of a JA3."""
    return [int(word) for word in text.split("-") if word]


def extended(kinds: list[int], bodies: list[maker.Extension]) -> list[maker.Extension]:
    """Extensions of these types, without a body where none is given."""
    given = dict(bodies)
    return [(kind, given.get(kind, b"")) for kind in kinds]


@pytest.mark.parametrize(
    ("ja4_of", "ciphers", "kinds", "signed", "offered"),
    [
        ("t13d1516h2_8daaf6152771_e5627efa2ab1",
         "1301,1302,1303,c02b,c02f,c02c,c030,cca9,cca8,c013,c014,009c,009d,002f,0035",
         "001b,0000,0033,0010,4469,0017,002d,000d,0005,0023,0012,002b,ff01,000b,000a,0015",
         "0403,0804,0401,0503,0805,0501,0806,0601", [maker.TLS_13, maker.TLS_12]),
        ("t13d1715h2_5b57614c22b0_3d5424432f57",
         "1301,1303,1302,c02b,c02f,cca9,cca8,c02c,c030,c00a,c009,c013,c014,009c,009d,002f,0035",
         "0000,0017,ff01,000a,000b,0023,0010,0005,0022,0033,002b,000d,002d,001c,0015",
         "0403,0503,0603,0804,0805,0806,0401,0501,0601,0203,0201", [maker.TLS_12, maker.TLS_13]),
        ("t13d1516h2_8daaf6152771_6d807ffa2a79",
         "1301,1302,1303,c02b,c02f,c02c,c030,cca9,cca8,c013,c014,009c,009d,002f,0035",
         "001b,0000,0033,0010,4469,0017,002d,000d,0005,0023,0012,002b,ff01,000b,000a,0015", "", [maker.TLS_13]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("greased", [False, True])
def test_published_examples_of_ja4(
    ja4_of: str, ciphers: str, kinds: str, signed: str, offered: list[int], greased: bool
) -> None:
    more = GREASE if greased else []
    bodies = [
        maker.server_name(b"a.example"), maker.alpn(b"h2", b"http/1.1"),
        maker.signatures(*more, *listed(signed)), maker.versions(*more, *offered),
    ]  # fmt: skip
    message = maker.client([*more, *listed(ciphers)], extended([*more, *listed(kinds)], bodies))
    fields = hello_fields(message, "t")
    assert (fields["ja4"], fields["version"]) == (ja4_of, maker.TLS_13)
    assert hello_fields(message, "q")["ja4"] == "q" + ja4_of[1:]


@pytest.mark.parametrize(
    ("protocol", "ends"),
    [
        (b"\xab", "ab"), (b"\x20", "20"), (b"\xab\xcd", "ad"), (b"\x20\x61", "21"), (b"\x30\xab", "3b"),
        (b"\x61\x20", "60"), (b"\x30\x31\xab\xcd", "3d"), (b"\x30\xab\xcd\x31", "01"), (b"h", "hh"), (b"", "00"),
        (b"http/1.1", "h1"),
    ],
)  # fmt: skip
def test_published_examples_of_the_protocol_in_a_ja4(protocol: bytes, ends: str) -> None:
    message = maker.client([0x1301], [maker.alpn(protocol, b"h2")])
    assert hello_fields(message, "t")["ja4"] == f"t12i0101{ends}_{ja4('t', 0, [0x1301], [], [], b'')[11:23]}_{'0' * 12}"


@pytest.mark.parametrize(
    ("words", "digest"),
    [
        ("769,47-53-5-10-49161-49162-49171-49172-50-56-19-4,0-10-11,23-24-25,0", "ada70206e40642a3e4461f35503241d5"),
        ("769,4-5-10-9-100-98-3-6-19-18-99,,,", "de350869b8c85de67a350c8d186f11e6"),
    ],
)
@pytest.mark.parametrize("greased", [False, True])
def test_published_examples_of_ja3(words: str, digest: str, greased: bool) -> None:
    version, *parts = words.split(",")
    ciphers, kinds, groups, points = map(decimal, parts)
    more = GREASE if greased else []
    bodies = [maker.server_name(b"a"), maker.groups(*more, *groups), maker.points(*points)]
    # A hello without extensions ends before their length.
    extensions = extended([*more, *kinds], bodies) if kinds or more else None
    message = maker.client([*more, *ciphers], extensions, int(version))
    assert hello_fields(message, "t")["ja3"] == digest == md5(words.encode()).hexdigest()


def test_the_published_example_of_ja3s() -> None:
    message = maker.server(47, [(kind, b"") for kind in (65281, 0, 11, 35, 5, 16)], 769)
    words = "769,47,65281-0-11-35-5-16"
    assert hello_fields(message, "t")["ja3s"] == md5(words.encode()).hexdigest()
    # What is printed with this text is the digest of the text and a line end.
    assert md5(f"{words}\n".encode()).hexdigest() == "4835b19f14997673071435cb321f5445"


NUMBERS = st.lists(st.integers(0, 0xFFFF) | st.sampled_from(GREASE), max_size=12)
NAMES = st.binary(min_size=1, max_size=20)


@st.composite
def offers(draw: st.DrawFn) -> tuple[bytes, dict[str, Any]]:
    """A ClientHello and what it says, by a second reading of the specifications."""
    version, ciphers = draw(st.sampled_from([0x0300, 0x0301, 0x0302, 0x0303])), draw(NUMBERS)
    groups, signed, offered = draw(NUMBERS), draw(NUMBERS), draw(NUMBERS)
    points = draw(st.lists(st.integers(0, 255), max_size=4))
    name, protocols = draw(NAMES), draw(st.lists(NAMES, min_size=1, max_size=3))
    bodies = [
        maker.server_name(name), maker.groups(*groups), maker.points(*points), maker.signatures(*signed),
        maker.alpn(*protocols), maker.versions(*offered),
    ]  # fmt: skip
    kinds = draw(st.lists(st.sampled_from([*KNOWN, *GREASE, 5, 23, 51, 65281]), unique=True))
    message = maker.client(ciphers, extended(kinds, bodies), version, draw(st.binary(max_size=32)))
    kept = [[number for number in many if not grease(number)] for many in (ciphers, kinds, groups, signed, offered)]
    said_groups, said_points = kept[2] if maker.GROUPS in kinds else [], points if maker.POINTS in kinds else []
    highest = max(kept[4], default=None) if maker.VERSIONS in kinds else version
    parts = ["-".join(map(str, many)) for many in (kept[0], kept[1], said_groups, said_points)]
    expected = {
        "hello": 1,
        "hello_version": version,
        "version": highest,
        "server_name": name.decode("latin-1") if maker.SERVER_NAME in kinds else None,
        "alpn": b",".join(protocols).decode("latin-1") if maker.ALPN in kinds else None,
        "ja3": md5(",".join([str(version), *parts]).encode()).hexdigest(),
        "ja4": ja4("t", highest or 0, kept[0], kept[1], kept[3] if maker.SIGNATURES in kinds else [],
                   protocols[0] if maker.ALPN in kinds else b""),
    }  # fmt: skip
    return message, {key: value for key, value in expected.items() if value is not None}


@given(offers())
def test_a_client_says_what_the_specifications_read_in_it(made: tuple[bytes, dict[str, Any]]) -> None:
    message, expected = made
    assert hello_fields(message, "t") == expected
    assert hello_fields(message + b"more", "t") == expected


@given(offers(), st.data())
def test_a_cut_hello_says_no_more_than_the_whole(made: tuple[bytes, dict[str, Any]], data: st.DataObject) -> None:
    message, expected = made
    cut = data.draw(st.integers(SHORTEST, len(message) - 1))
    found = hello_fields(message[:cut], "t")
    assert found.items() <= expected.items()
    assert {"hello", "hello_version"} <= found.keys() and not {"ja3", "ja4"} & found.keys()


def test_a_hello_whose_lengths_disagree_has_no_fingerprint() -> None:
    message = maker.client([0x1301], [maker.server_name(b"a.example")])
    for wrong in (message[:-1] + b"aa", message[:3] + bytes([message[3] + 1]) + message[4:] + b"x"):
        found = hello_fields(wrong, "t")
        assert "ja3" not in found or found["server_name"] != "a.example"
    assert "ja4" not in hello_fields(message[:3] + bytes([message[3] + 1]) + message[4:] + b"x", "t")


@given(st.binary(max_size=300), st.sampled_from([1, 2]))
def test_any_bytes_are_a_hello_or_not(body: bytes, kind: int) -> None:
    message = bytes([kind]) + body
    if len(message) >= SHORTEST:
        assert hello_fields(message, "t")["hello"] == kind
    for payload in (maker.record(message), b"\x16\x03\x01" + message, CHANGED + b"\x16\x03\x01\x00\xff" + message):
        fields_of([(TCP, 40_000, 443, payload)])


def test_texts_that_were_chosen_to_collide_are_bounded_work() -> None:
    """Texts of one slot: the probes end, and each of the others has a digest of its own."""
    texts = [number.to_bytes(8, "big") for number in range(60_000)]
    words = np.frombuffer(bytearray(b"".join(texts)), np.uint8)
    slots = [hello._hash(words, at, at + 8) & 511 for at in range(0, len(words), 8)]
    alike = [text for text, slot in zip(texts, slots, strict=True) if slot == 7][:100]
    ends = (np.arange(len(alike) * 2 + 1) * 8).astype(np.int32)
    twice = np.frombuffer(bytearray(b"".join(alike * 2)), np.uint8)
    seen: list[bytes] = []
    made, numbers = made_once(twice, ends[:-1], ends[1:], lambda text: seen.append(text) or text.hex())
    assert made.take(pa.array(numbers)).to_pylist() == [text.hex() for text in alike] * 2
    assert len(seen) == 2 * len(alike) - 8


@given(st.binary(max_size=300))
def test_any_bytes_are_a_banner_or_not(rest: bytes) -> None:
    fields = ssh_fields(b"SSH-" + rest)
    assert all("\n" not in value and value.startswith("SSH-") for value in fields.values())


@pytest.mark.slow
def test_generated_hellos_equal_tshark(tmp_path: Path) -> None:
    payloads = generated()
    frames = [capturemaker.tcp("10.0.0.1", "10.0.0.2", 20_000 + n, 443, data=data) for n, data in enumerate(payloads)]
    records = [(1_600_000_000_000_000_000 + n * 1_000_000, frame) for n, frame in enumerate(frames)]
    path = tmp_path / "hellos.pcap"
    path.write_bytes(capturemaker.pcap_bytes(records))
    equal, found = compare(path)
    assert found == []
    assert equal["tls_ja3"] == equal["tls_ja4"] >= 60 and equal["tls_ja3s"] >= 12
    assert equal["tls_server_name"] >= 40 and equal["tls_alpn"] >= 30 and equal["tls_hello"] == len(payloads)


def generated() -> list[bytes]:
    """Hellos of every version, with and without each extension and with GREASE everywhere."""
    payloads = []
    for number in range(72):
        more = [GREASE[number % 4]] if number % 2 else []
        bodies = [
            maker.groups(*more, 29, 23), maker.points(0, number % 3), maker.signatures(*more, 0x0403, 0x0804),
            maker.versions(*more, 0x0302 + number % 3, 0x0301), maker.server_name(b"h%d.example" % number),
            maker.alpn(*[b"h2", b"http/1.1", b"x"][number % 3 :]),
        ]  # fmt: skip
        own = [bodies[at] for at in range(6) if at != number % 7]
        extensions = [*[(kind, b"") for kind in more], *own[number % 5 :], *own[: number % 5], (23, b"")]
        message = maker.client([*more, 0x1301, 0xC02F, number], extensions, 0x0301 + number % 3, bytes(number % 33))
        payloads.append(maker.record(message, 0x0301 + number % 3))
    for number in range(16):
        chosen = [(maker.VERSIONS, maker.numbers([maker.TLS_13]))] if number % 2 else [(65281, b"\x00")]
        if number % 3:
            chosen.append(maker.alpn(b"h2"))
        payloads.append(maker.record(maker.server(0x1301 + number, chosen), 0x0303))
    return payloads
