"""Names of link types: every listed one has a name of its own. What is not decoded keeps times and lengths."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from lowwater.capture import read
from lowwater.capture.formats.capture_file import LINK_NUMBERS, LISTED, link_name
from lowwater.capture.formats.header import open_capture
from lowwater.capture.headers.links import NAMES
from tests import capturemaker as maker
from tests.capture.tsharkoracle import framed, tshark

START = 1_600_000_000_000_000_000
UNDECODED = {
    187: "BLUETOOTH_HCI_H4", 201: "BLUETOOTH_HCI_H4_WITH_PHDR", 251: "BLUETOOTH_LE_LL",
    254: "BLUETOOTH_LINUX_MONITOR", 255: "BLUETOOTH_BREDR_BB", 256: "BLUETOOTH_LE_LL_WITH_PHDR", 186: "USB_FREEBSD",
    249: "USBPCAP", 266: "USB_DARWIN", 288: "USB_2_0",
}  # fmt: skip
"""Link types of Bluetooth and USB, and their names."""


def test_every_link_type_has_a_name_of_its_own() -> None:
    for number in {*LISTED, *NAMES}:
        assert link_name(number) != str(number)
        assert LINK_NUMBERS[link_name(number)] == number
    assert set(LISTED) >= {*range(11), *range(104, 208), *range(209, 305)}
    assert link_name(65_000) == "65000"


def test_a_decoded_link_type_keeps_the_name_that_lakes_hold() -> None:
    assert {number: link_name(number) for number in NAMES} == NAMES
    assert (link_name(1), link_name(50), link_name(105)) == ("EN10MB", "PPP_SERIAL", "80211")


@pytest.mark.slow
@pytest.mark.parametrize("link", UNDECODED)
def test_records_of_bluetooth_and_usb_are_named_and_keep_times_and_lengths(tmp_path: Path, link: int) -> None:
    dice, path = random.Random(link), tmp_path / "one.pcap"
    records = [(START + 1000 * n, dice.randbytes(80), dice.randint(80, 200)) for n in range(30)]
    path.write_bytes(maker.pcap_bytes(records, link_type=link))
    header = open_capture(path)
    assert (header.link_type, header.decoded) == (UNDECODED[link], False)
    rows = [row for batch in read(path, 1 << 61) for row in batch.to_pylist()]
    assert [(row["timestamp"], row["caplen"], row["len"]) for row in rows] == [
        (stamp, len(frame), wire) for stamp, frame, wire in records
    ]
    assert {row["ipversion"] for row in rows} == {None}
    if shutil.which("tshark"):
        # Of these two, tshark's lengths are without the pseudo-header in the record.
        less = 4 if link in (201, 254) else 0
        told = [framed(fields) for fields in tshark(path)]
        assert [(one["timestamp"], one["caplen"] + less, one["len"] + less) for one in told] == [
            (stamp, len(frame), wire) for stamp, frame, wire in records
        ]


@pytest.mark.slow
@pytest.mark.parametrize(("link", "size"), [(189, 48), (220, 64)])
def test_a_header_of_usbmon_does_not_say_that_ethernet_follows(tmp_path: Path, link: int, size: int) -> None:
    """The same bytes of a bulk transfer are of a network adapter or of a disk: only descriptors far before tell."""
    frame = maker.tcp("10.0.0.1", "10.0.0.2", 1, 80, data=b"x" * 20)
    head = struct.pack("<QBBBBHBBqiiII", 1, ord("C"), 3, 0x82, 5, 1, ord("-"), 0, 1, 2, 0, len(frame), len(frame))
    path = tmp_path / "one.pcap"
    path.write_bytes(maker.pcap_bytes([(START, head.ljust(size, b"\0") + frame)], link_type=link))
    (row,) = [row for batch in read(path, 1 << 61) for row in batch.to_pylist()]
    assert (row["ipversion"], row["caplen"]) == (None, size + len(frame))
    if shutil.which("tshark"):
        words = ["tshark", "-r", str(path), "-T", "fields", "-e", "frame.protocols", "-e", "usb.bInterfaceClass"]
        told = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        assert told.split()[0] == "usb" and told.split()[1].startswith("0xff"), "an unknown class, and no Ethernet"
