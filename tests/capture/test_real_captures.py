"""Every real capture against tshark, packet by packet; its damage found and named; its bytes all accounted for."""

from __future__ import annotations

import csv
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lowwater.capture import read
from tests.breadth import USUAL, each_push, examples, some
from tests.capture.tsharkmessages import COLUMNS
from tests.capture.tsharkoracle import compare

LARGEST, MOST = 4_000_000, 40_000
"""Bytes and packets of the captures that are compared with tshark."""
SMALL = 20_000
"""Bytes."""

OPENING = 350
"""So many times the usual examples, packets of a uniform capture are compared: 2,450 in `make test`, else all."""

UNIFORM = (
    "denial6-6",
    "synflood.spoofed",
    "c06-snmpv1-req-enc",
    "xrite-i1displaypro",
    "ModbusTCP",
    "TOPS16",
    "dhcp_log",
    "BACnet_Host",
    *(f"baseline-with-latency-6__node_10.{node}." for node in range(2, 7)),  # the first node to its end
)
"""Parts of the names of large captures that repeat few kinds of packets."""

FEWEST = 2
"""Values of each column of flows and applications that must be compared in each third of the captures."""

SUBSECOND = "two seconds of microseconds or more: malformed to us, tshark takes them modulo 2^32 ns or below 0"
WIRE = "2^31 bytes or more on the wire: malformed to us"
DIFFERENCES = {
    "Malcolm-Test-Artifacts__RADIUS": {
        "16 sub-second": SUBSECOND,
        "294 ether_type": "a length of 0, which tshark calls a type",
    },
    "wrong-version-ipv6-ipv6": {"1 tunnel": "protocol 41; tshark names none, since no IPv6 header is in it"},
    "arkime_synthetic": {"818 community_id": "a UDP length of 0, after which tshark takes no ports"}
    | dict.fromkeys(("842 tls_version", "842 tls_ja3s"), "extensions of one byte: no hello to its end")
    | {"904 tls_version": "a choice of no bytes, from beyond which tshark takes two"}
    | {
        f"623 {column}": "sent from port 6081; RFC 8926 wants it as the destination"
        for column in (
            "tunnel", "tunnel_id", "inner_ipversion", "inner_srcIP", "inner_destIP", "inner_protocol", "inner_srcPort",
            "inner_destPort",
        )
    },
    "crash-eec28dafde1f1ac2299674a75a914ae16d4046fa": {"1 sub-second": SUBSECOND},
    "FuzzTarget-5114733584449536": {"1 sub-second": SUBSECOND},
    "tcpflow__bug8": {"1 sub-second": SUBSECOND},
    "FuzzTarget-4683685084594176": {"1 wire-length": WIRE},
    "FuzzTarget-5165927376355328": {"1 sub-second": SUBSECOND},
    "BT_USB_LinCooked_Eth_80211_RT": {"27226 packets": "tshark gives up at two packets of an undeclared interface"},
    "rarp_req_reply": {"2 packets": "tshark gives up at the section header, whose lengths disagree"},
    "vtp_asan": {"2 packets": "a link type that tshark does not support"},
    "test017.pcapng": {"0 packets": "tshark shows custom blocks as packets"},
    "test101.pcapng": {"3 no-time": "a simple packet block: malformed to us"},
    "PcapPlusPlus__pcapng-example": {"* time-range": "ticks near 2^64; tshark takes the nanoseconds modulo 2^64"},
    "infiniband": {
        f"* {column}": "ERF, a header of which tshark takes the time and the lengths; we take the record's"
        for column in ("timestamp", "len", "caplen")
    },
    "hoobr_rt6_print": {
        "3 community_id": "a cut routing header: tshark takes protocol 112, which is nowhere in the frame"
    },
    "mpls-6in6-broken": {
        "* tunnel": "protocol 41; tshark names none, since no IPv6 header is in it",
        "* total_length": "0, for which tshark takes the length of the rest of the frame",
    },
    "PcapPlusPlus__null_loopback": {
        f"3 {column}": "0f 00 08 00 where the family should be: no family, though tshark finds an ether type in it"
        for column in (
            "ipversion", "srcIP", "destIP", "protocol", "total_length", "ttl", "srcPort", "destPort", "payload",
        )
    },
}  # fmt: skip
"""By a part of the file's name and the packet's number (* for many) and column, or the reason of a malformed row: why
tshark says otherwise."""

DAMAGE = {
    "cut/bad record at 98218 (caplen 130, left 70)": {"cut": 1},
    "epb no iface; epb no iface": {"interface": 2},
    "unaligned block; cut/bad block at 178": {},  # lengths that are no multiple of 4 are rounded up
    "cut/bad block at 48": {"block": 1},
    "cut/bad record at 122 (caplen 134226042, left 3078)": {},  # version 2.2, in which the lengths change places
    "cut/bad record at 24 (caplen 524501, left 199)": {"cut": 1},  # version 2.0
    "trailing 2 bytes": {"cut": 1},
    "trailing 5 bytes": {"wire-length": 1, "cut": 1},
    "cut/bad record at 111 (caplen 4294967295, left 43)": {"length": 1},
    "epb caplen>block": {"captured": 1},
    "": {},
}
"""By what INDEX.csv calls it: the malformed rows by their reasons."""

UNNAMED = {
    "test101.pcapng": {"no-time": 1},
    "PcapPlusPlus__pcapng-example": {"time-range": 100},
    "FuzzTarget-4683685084594176": {"wire-length": 1},
    "FuzzTarget-5114733584449536": {"sub-second": 1},
    "FuzzTarget-5165927376355328": {"sub-second": 1, "cut": 1},
    "crash-eec28dafde1f1ac2299674a75a914ae16d4046fa": {"sub-second": 1, "length": 1},
    "Malcolm-Test-Artifacts__RADIUS": {"sub-second": 1},
    "tcpflow__bug8": {"sub-second": 1},
    "crash-8534c61cdf5987482365d7877ade12eef5aaf8b7": {"length": 1},  # a header of zeros is no record, as in the next
    "vtp_asan": {"length": 1},
}
"""Malformed rows where INDEX.csv tells of no damage, by a part of the file's name."""

pytestmark = pytest.mark.captures


def listed(folder: Path) -> dict[Path, dict[str, str]]:
    """What INDEX.csv says of each capture."""
    with (folder / "INDEX.csv").open(newline="") as file:
        return {folder / row["file"]: row for row in csv.DictReader(file)}


def told(found: list[str], known: dict[str, str]) -> set[str]:
    """Number and column of each difference, the number replaced where all of a column are known."""
    words = [re.split("[ :,]+", line)[:2] for line in found]
    return {f"* {name}" if f"* {name}" in known else f"{number} {name}" for number, name in words}


@pytest.mark.hypothesis
@pytest.mark.parametrize("third", each_push([0, 1, 2], 3))
def test_real_captures_equal_tshark(third: int, captures_dir: Path) -> None:
    rows = listed(captures_dir)
    files = [path for path in rows if path.stat().st_size <= LARGEST]
    files = [path for path in files if int(rows[path]["packets"] or 0) <= MOST]
    assert len(files) > 190
    notes = [next((known for part, known in DIFFERENCES.items() if part in path.name), {}) for path in files]
    # Each takes a process of tshark: `make fuzz` compares all, `make test` one in twelve of the small ones.
    usual = [path for path, known in zip(files, notes, strict=True) if not known and path.stat().st_size < SMALL]
    left = {*usual} - {*some(usual, 12)}
    pairs = [pair for pair in zip(files, notes, strict=True) if pair[0] not in left][third::3]
    files, notes = map(list, zip(*pairs, strict=True))
    opening = OPENING * examples(USUAL)
    with ThreadPoolExecutor(2) as pool:
        compared = list(pool.map(compare, files, [opening * any(map(path.name.count, UNIFORM)) for path in files]))
    equal = sum((same for same, _ in compared), Counter[str]())
    assert equal["len"] > 25_000
    wrong = {}
    for path, known, (_, found) in zip(files, notes, compared, strict=True):
        if told(found, known) != set(known):
            wrong[path.name] = found[:5]
    assert wrong == {}
    assert {name for name in COLUMNS if equal[name] < FEWEST} == set()


def test_damage_is_named_and_every_byte_is_accounted_for(captures_dir: Path) -> None:
    rows = listed(captures_dir)
    assert {row["damage"] for row in rows.values()} == set(DAMAGE)
    for path in rows:
        reader = read(path, 1 << 61)
        packets = sum(batch.num_rows for batch in reader)
        summary = reader.summary
        assert summary is not None and summary.packets == packets
        refused = sum(bad.length for bad in reader.malformed)
        assert summary.record_bytes + summary.overhead + refused == summary.unpacked + summary.skipped, path.name
        named = DAMAGE[rows[path]["damage"]]
        expected = next((reasons for part, reasons in UNNAMED.items() if part in path.name), named)
        assert Counter(bad.reason for bad in reader.malformed) == expected, path.name
        # Of snoop the index has no packets, and it takes zeros for records.
        if not rows[path]["damage"] and rows[path]["packets"] and "length" not in expected:
            assert packets + sum(expected.values()) == int(rows[path]["packets"]), path.name
