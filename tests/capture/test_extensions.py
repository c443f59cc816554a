"""Extension headers of IPv6: the protocol of packets with each of them, cut at every byte, as tshark's headers say."""

from __future__ import annotations

import itertools
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lowwater.capture import read
from tests import capturemaker as maker
from tests.capture.tsharkmessages import SEPARATOR
from tests.capture.tsharkoracle import need_tshark

START = 1_600_000_000_000_000_000
LINK, FIXED = 14, 40
HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, NO_NEXT, DESTINATION, MOBILITY = 0, 43, 44, 51, 59, 60, 135
KINDS = (HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION, MOBILITY)
FIELDS = {
    HOP_BY_HOP: ("ipv6.hopopts.nxt", "ipv6.hopopts.len_oct"),
    ROUTING: ("ipv6.routing.nxt", "ipv6.routing.len_oct"),
    FRAGMENT: ("ipv6.fraghdr.nxt", ""),
    AUTHENTICATION: ("ah.next_header", "ah.length"),
    DESTINATION: ("ipv6.dstopts.nxt", "ipv6.dstopts.len_oct"),
    MOBILITY: ("mip6.proto", "mip6.hlen"),
}
"""tshark's fields of a header: the protocol that it names, and its length."""


def header(kind: int, following: int, dice: random.Random) -> bytes:
    """A header that tshark reads, too: padding as its options, where it has some."""
    if kind == FRAGMENT:
        return maker.fragment(following, 0, False)
    if kind == AUTHENTICATION:
        words = dice.choice((4, 5, 7))
        return bytes([following, words - 2, 0, 0]) + dice.randbytes(4 * words - 4)
    if kind == MOBILITY:
        return bytes([following, 1, 0, 0, 0, 0]) + bytes(10)  # a binding refresh request
    octets = dice.choice((1, 2, 3))
    if kind == ROUTING:
        octets = 3
        return bytes([following, octets - 1, 0, 0]) + bytes(8 * octets - 4)
    padding = 8 * octets - 4
    return bytes([following, octets - 1, 1, padding]) + bytes(padding)


def packet(kinds: tuple[int, ...], last: int, dice: random.Random) -> bytes:
    """A frame of these extension headers, and UDP or nothing above them."""
    above = maker.udp_header(40_000, 40_001, b"abcd") if last == 17 else b""
    for kind, following in reversed(tuple(zip(kinds, (*kinds[1:], last), strict=True))):
        above = header(kind, following, dice) + above
    return maker.ethernet(maker.ipv6("2001:db8::1", "2001:db8::2", kinds[0], above), 0x86DD)


def frames() -> list[bytes]:
    """Every header alone, every two, and chains at random, above them UDP or no next header."""
    dice = random.Random(6)
    chains = [(kind,) for kind in KINDS] + list(itertools.permutations(KINDS, 2))
    chains += [tuple(dice.choices(KINDS, k=dice.randint(3, 5))) for _ in range(20)]
    return [
        packet(chain, last, dice)
        for chain in chains
        for last in (17, NO_NEXT)
        if MOBILITY not in chain[:-1] and (last == NO_NEXT) == (chain[-1] == MOBILITY)
    ]


def chains(path: Path) -> list[list[tuple[int, int]]]:
    """For each packet that tshark reads, its headers in order: the protocol that each names, and where it ends."""
    names = [name for pair in FIELDS.values() for name in pair if name]
    command = ["tshark", "-n", "-r", str(path), "-T", "fields", "-E", "occurrence=a", "-E", f"aggregator={SEPARATOR}"]
    command += ["-o", "ipv6.defragment:FALSE", "-e", "ipv6.nxt"]
    for name in names:
        command += ["-e", name]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    found = []
    for line in printed:
        first, *values = line.split("\t")
        left = {name: value.split(SEPARATOR) for name, value in zip(names, values, strict=True) if value}
        kind, at = int(first.split(SEPARATOR)[0]), LINK + FIXED
        chain = [(kind, at)]
        while left.get(FIELDS.get(kind, ("", ""))[0]):
            following, length = FIELDS[kind]
            at += size(kind, int(left[length].pop(0)) if length else 8)
            kind = int(left[following].pop(0))
            chain.append((kind, at))
        assert not any(left.values()), "a field that no header has used"
        found.append(chain)
    return found


def size(kind: int, length: int) -> int:
    """Bytes of a header, from the value of tshark's field: as in the packet, or already in bytes."""
    if kind == AUTHENTICATION:
        return 4 * (length + 2)
    return 8 * (length + 1) if kind == MOBILITY else length


def decoded(path: Path, records: list[tuple[int, bytes, int]]) -> list[dict[str, Any]]:
    path.write_bytes(maker.pcap_bytes(records))
    return [row for batch in read(path, 1 << 61) for row in batch.to_pylist()]


@pytest.mark.slow
def test_the_protocol_of_packets_cut_at_every_byte_is_what_the_last_whole_header_of_tshark_names(
    tmp_path: Path,
) -> None:
    need_tshark()
    made = frames()
    path = tmp_path / "whole.pcap"
    path.write_bytes(maker.pcap_bytes((START, frame) for frame in made))
    told = chains(path)
    assert len(told) == len(made)
    assert {kind for chain in told for kind, _ in chain} == {*KINDS, 17, NO_NEXT}
    cuts = [(START, frame[:cut], len(frame)) for frame in made for cut in range(LINK + 7, len(frame) + 1)]
    rows = iter(decoded(tmp_path / "cut.pcap", cuts))
    for frame, chain in zip(made, told, strict=True):
        for cut in range(LINK + 7, len(frame) + 1):
            # A mobility header that nothing follows is itself what the packet carries.
            named = [kind for kind, end in chain if end <= max(cut, LINK + FIXED)]
            if len(named) > 1 and named[-2:] == [MOBILITY, NO_NEXT]:
                named.pop()
            assert next(rows)["protocol"] == named[-1], (frame.hex(), cut)
