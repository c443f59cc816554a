"""Every real classic capture of a link type that is decoded, flows, DNS and HTTP, against tshark, packet by packet."""

from __future__ import annotations

import csv
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from lowwater.capture import open_capture, read
from lowwater.capture.header import DECODED
from lowwater.errors import CaptureError
from tests.capture.tsharkmessages import NAMES
from tests.capture.tsharkoracle import compare

LARGEST = 4_000_000
FEWEST = 100
"""Values of each column of flows and applications that must be compared."""
SUBSECOND = "more than a second of microseconds; we carry them over, tshark takes them modulo 2^32 ns or below 0"
DIFFERENCES = {
    "Malcolm-Test-Artifacts__RADIUS": {
        "16 timestamp": SUBSECOND,
        "294 ether_type": "a length of 0, which tshark calls a type",
    },
    "wrong-version-ipv6-ipv6": {"1 tunnel": "protocol 41; tshark names none, since no IPv6 header is in it"},
    "arkime_synthetic": {"818 community_id": "a UDP length of 0, after which tshark takes no ports"}
    | {
        f"623 {column}": "sent from port 6081; RFC 8926 wants it as the destination"
        for column in (
            "tunnel",
            "tunnel_id",
            "inner_ipversion",
            "inner_srcIP",
            "inner_destIP",
            "inner_protocol",
            "inner_srcPort",
            "inner_destPort",
        )
    },
    "crash-eec28dafde1f1ac2299674a75a914ae16d4046fa": {"1 timestamp": SUBSECOND},
    "FuzzTarget-5114733584449536": {"1 timestamp": SUBSECOND, "1 tunnel": "GTP', which carries no packets"},
    "tcpflow__bug8": {"1 timestamp": SUBSECOND},
    "FuzzTarget-4683685084594176": {
        "0 packets": "a record of 925,728 bytes, beyond both 256 KiB and the snaplen: malformed to us"
    },
    "PcapPlusPlus__null_loopback": {
        f"3 {column}": "0f 00 08 00 where the family should be: no family, though tshark finds an ether type in it"
        for column in (
            "ipversion",
            "srcIP",
            "destIP",
            "protocol",
            "total_length",
            "ttl",
            "srcPort",
            "destPort",
            "payload",
        )
    },
}
"""By a part of the file's name and the packet's number and column: why tshark says otherwise."""
REFUSED = {"suricata-verify__nfsv2": "version 2.1", "nDPI__fuzz-2021-10-13": "version 2.0"}

pytestmark = pytest.mark.captures


def chosen(folder: Path) -> list[Path]:
    """The plain classic captures of decoded link types."""
    found = []
    with (folder / "INDEX.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if row["format"] in ("pcap-us", "pcap-ns") and row["compression"] == "none":
                path = folder / row["file"]
                if not any(part in path.name for part in REFUSED) and open_capture(path).link_number in DECODED:
                    found.append(path)
    return found


def test_real_captures_equal_tshark(captures_dir: Path) -> None:
    if shutil.which("tshark") is None:
        pytest.skip("no tshark on this machine")
    files = [path for path in chosen(captures_dir) if path.stat().st_size <= LARGEST]
    assert len(files) > 100
    wrong, equal = {}, Counter[str]()
    for path in files:
        known = next((notes for part, notes in DIFFERENCES.items() if part in path.name), {})
        same, found = compare(path)
        equal += same
        told = {" ".join(re.split("[ :,]+", line)[:2]) for line in found}
        if told != set(known):
            wrong[path.name] = found[:5]
    assert wrong == {}
    assert {name for name in NAMES if equal[name] < FEWEST} == set()


def test_every_byte_of_a_real_capture_is_accounted_for(captures_dir: Path) -> None:
    for path in chosen(captures_dir):
        reader = read(path, 1 << 61)
        captured = sum(16 * batch.num_rows + sum(batch.column("caplen").to_pylist()) for batch in reader)
        assert 24 + captured + sum(bad.length for bad in reader.malformed) == path.stat().st_size, path.name


@pytest.mark.parametrize("part", REFUSED)
def test_old_versions_are_refused_by_name(captures_dir: Path, part: str) -> None:
    (path,) = captures_dir.glob(f"*/*{part}*")
    with pytest.raises(CaptureError, match=REFUSED[part]):
        read(path, 1 << 61)
