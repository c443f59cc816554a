"""Link types: names, generated frames of every kind against tshark, whole and cut, and the columns each kind fills."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from lowwater.capture.content.retention import DECODER_VERSION
from lowwater.capture.formats.capture_file import LINK_NUMBERS, LISTED, link_name
from lowwater.capture.headers.links import NAMES, by_number
from lowwater.capture.headers.packet import decode_batch
from lowwater.capture.headers.tunnels import NAMES as TUNNELS
from tests import capturemaker as maker
from tests.breadth import each_push, some
from tests.capture import linkframes
from tests.capture.linkframes import LINKS
from tests.capture.tsharkoracle import compare

START = 1_600_000_000_000_000_000
FRAMES = 150
RECORD_HEADER = bytes(16)
PACKET4 = linkframes.PACKET4
SHOWN = [link for link, made in LINKS.items() if made.layers]
"""Link types that tshark reads, too."""
FIXED = ("position", "arrival", "timestamp", "len", "caplen")


def test_a_new_link_type_or_tunnel_raises_the_version_of_the_decoder() -> None:
    assert (len(NAMES) + len(TUNNELS), DECODER_VERSION) == (38, 14), "captures of a lake must be decoded again (T7)"


def test_every_decoded_link_type_has_frames() -> None:
    assert set(LINKS) == set(NAMES)


def test_every_link_type_has_a_name_of_its_own_and_a_decoded_one_that_of_lakes() -> None:
    assert {number: link_name(number) for number in NAMES} == NAMES
    assert (link_name(1), link_name(50), link_name(105)) == ("EN10MB", "PPP_SERIAL", "80211")
    for number in {*LISTED, *NAMES}:
        assert link_name(number) != str(number)
        assert LINK_NUMBERS[link_name(number)] == number
    assert set(LISTED) >= {*range(11), *range(104, 208), *range(209, 305)}
    assert link_name(65_000) == "65000"


def test_a_number_has_one_entry() -> None:
    with pytest.raises(ValueError, match="two entries have the number 1: one and uno"):
        by_number([("a", {1: "one"}), ("b", {2: "two", 1: "uno"})])


@pytest.mark.slow
@pytest.mark.parametrize("link", each_push(SHOWN, 3))
def test_generated_frames_equal_tshark(tmp_path: Path, link: int) -> None:
    dice = random.Random(link)
    path = tmp_path / "one.pcap"
    path.write_bytes(maker.pcap_bytes(((START, LINKS[link].drawn(dice)) for _ in range(FRAMES)), link_type=link))
    equal, found = compare(path)
    assert (equal["len"], found) == (FRAMES, [])


@pytest.mark.slow
@pytest.mark.parametrize("link", some(SHOWN, 2))
def test_frames_cut_at_every_length_equal_tshark(tmp_path: Path, link: int) -> None:
    dice = random.Random(link)
    frames = [LINKS[link].drawn(dice) for _ in range(8)]
    path = tmp_path / "one.pcap"
    cuts = [(START, frame[:length], len(frame)) for frame in frames for length in range(len(frame) + 1)]
    path.write_bytes(maker.pcap_bytes(cuts, link_type=link))
    equal, found = compare(path)
    assert (equal["len"], found) == (len(cuts), [])


def decoded(frame: bytes, link: int, after: bytes = b"", wire: int | None = None) -> dict[str, Any]:
    """The row of a frame in a buffer in which `after` follows it; `wire` is its length, that captured if not given."""
    buffer = np.array(bytearray(RECORD_HEADER + frame + after))
    records = np.array([[0, 0], [START, 0], [wire or len(frame), 0], [len(frame), 0]], np.int64)[:, :1]
    batch, _ = decode_batch(buffer, records, np.zeros(1, np.int64), -1, link)
    (row,) = batch.to_pylist()
    return {name: value for name, value in row.items() if name not in FIXED}


frames = st.sampled_from(sorted(LINKS)).flatmap(
    lambda link: st.tuples(
        st.just(link), st.binary(max_size=80) | st.randoms(use_true_random=False).map(LINKS[link].drawn)
    )
)


@given(frames, st.integers(0, 120), st.lists(st.tuples(st.integers(0, 60), st.integers(0, 255)), max_size=3))
def test_nothing_is_read_beyond_the_captured_bytes(
    frame: tuple[int, bytes], cut: int, flips: list[tuple[int, int]]
) -> None:
    link, whole = frame[0], bytearray(frame[1])
    for at, value in flips:
        if at < len(whole):
            whole[at] = value
    short, rest = bytes(whole[:cut]), bytes(whole[cut:])
    row = decoded(short, link, rest + bytes(64), len(whole))
    for after in (b"", b"\xff" * 64, b"\x45" * 64):
        assert row == decoded(short, link, after, len(whole))
    complete = decoded(bytes(whole), link)
    assert all(value in (complete[name], None) for name, value in row.items())


def present(row: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


LINK = ("destMAC", "srcMAC", "ether_type", "vlan_id", "ipversion")


@pytest.mark.parametrize(
    ("link", "frame", "row"), [(link, frame, row) for link, made in LINKS.items() for frame, row in made.rows]
)
def test_what_each_kind_fills(link: int, frame: bytes, row: tuple[Any, ...]) -> None:
    assert present(decoded(frame, link), *LINK) == row


@pytest.mark.slow
@given(st.randoms(use_true_random=False), st.booleans())
def test_a_transfer_of_usb_has_the_values_of_its_ethernet_frame(dice: random.Random, long: bool) -> None:
    """tshark reads no Ethernet in a transfer; Ethernet is compared with tshark above."""
    frame = linkframes.over_ethernet(dice)
    inside = linkframes.transfer(frame, dice)
    whole, place = maker.usbmon(inside, long), inside.index(frame)
    header = len(whole) - len(inside)
    link = maker.USB_MMAPPED if long else maker.USB
    tabled = inside[:1] in b"Nn" and inside.rfind(b"NCM" if inside[:1] == b"N" else b"ncm") > place
    for length in range(header + place, len(whole) + 1):
        inner = decoded(frame[: length - header - place], maker.ETHERNET, wire=len(frame))
        if inner["payload_offset"] is not None:
            inner["payload_offset"] += header + place
        row = decoded(whole[:length], link, wire=len(whole))
        if tabled and length < len(whole):
            assert row == inner or present(row, *LINK) == (None,) * 5  # the table of the frames is cut
        elif length > header + place:
            assert row == inner
    assert present(decoded(whole, link), *LINK) == present(decoded(frame, maker.ETHERNET), *LINK)


UNLIKE = (0x8847, 0x8848, 0x8903)
"""tshark knows a frame behind MPLS by vendors' addresses, and takes no outer addresses with FabricPath."""


@pytest.mark.slow
def test_every_tag_and_wrapping_cut_at_every_length_equals_tshark(tmp_path: Path) -> None:
    shown = [(kind, packet) for kind, packet in (*linkframes.TAGS, *linkframes.ENVELOPES) if kind not in UNLIKE]
    frames = [maker.ethernet(packet, kind) for kind, packet in shown]
    frames += [maker.ethernet(packet, kind, vlans=[5]) for kind, packet in linkframes.TAGS]
    frames += [maker.isl(maker.ethernet(PACKET4, 0x0800, 7, 8))]
    path = tmp_path / "one.pcap"
    cuts = [(START, frame[:length], len(frame)) for frame in frames for length in range(len(frame) + 1)]
    path.write_bytes(maker.pcap_bytes(cuts))
    equal, found = compare(path)
    assert (equal["len"], found) == (len(cuts), [])
