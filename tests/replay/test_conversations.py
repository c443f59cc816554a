"""Conversations: the query set that is shipped and the question, in intervals, on both engines, and beside tshark."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from lowwater_generator import generate

from lowwater.cli.asking import recipe
from lowwater.instants import SECOND, parse_instant
from tests import capturemaker as maker
from tests.breadth import each_push
from tests.replay.support import ROOT, START, lowwater

SET = ROOT / "queries" / "conversations.gsql"
CAPTURES = (
    "traffic/ITI+ICS-Security-Tools__ModbusTCP.pcap",
    "traffic/DSPJ2021+benchmark-data__20210929-11-experiment-baseline-with-latency-6__node_10.1.0.11.pcap",
    "traffic/ajbanjara+Wireshark__SkypeIRC.cap",
    "traffic/ajbanjara+Wireshark__packet_capture.pcap",
    "breadth/ajbanjara+Wireshark__cap1.pcap",
    "breadth/ntop+nDPI__ocs.pcap",
    "breadth/ntop+nDPI__tumblr.pcap",
    "breadth/OISF+suricata-verify__smb2-peter-minus-p191-p192.pcap",
    "traffic/ajbanjara+Wireshark__wwwww.pcap",
    "traffic/idaholab+Malcolm-Test-Artifacts__DNP3.pcap",
    "traffic/ajbanjara+Wireshark__trafficmorning.pcap",
    "breadth/ajbanjara+Wireshark__hari.pcap",
    "breadth/markofu+hackeire__1.pcap",
    "breadth/ajbanjara+Wireshark__rrtacl.pcap",
    "breadth/arkime+arkime__80211http.pcap",
    "breadth/ajbanjara+Wireshark__C37.118_2PMUsInSync_TCP.pcap",
    "breadth/ntop+nDPI__custom_categories.pcapng",
    "breadth/ntop+nDPI__dns_fragmented.pcap",
    "breadth/OpenAttackDefenseTools+tulip__tip-toe-flow.pcap",
    "breadth/OISF+suricata-verify__http-connect-tls__input.pcap",
    "breadth/ajbanjara+Wireshark__jxta-mcast-sample.pcap",
    "breadth/ajbanjara+Wireshark__dssetup_DsRoleGetPrimaryDomainInformation_ad_dc.cap",
    "breadth/cisco-system-traffic-generator+trex-core__sim_astf-param_ipv6.pcap",
    "breadth/LibtraceTeam+libtrace__100_seconds.pcap",
    "breadth/markofu+pcaps__IP_PROTOCOL_SCAN.pcap",
    "breadth/zeek+zeek__connect-with-header.pcap",
    "breadth/zeek+zeek__get-to-ssh-server.pcap",
    "breadth/zeek+zeek__modify-request.pcapng",
    "breadth/zeek+zeek__openjdk-25.0.2-zeek.org.pcap",
    "breadth/the-tcpdump-group+tcpdump__lspping-fec-ldp.pcap",
    "breadth/seladb+PcapPlusPlus__nanosecs_big_endian.pcap",
)
COUNTED = {
    "retransmissions": "retransmission", "duplicate_acks": "duplicate_ack", "out_of_order": "out_of_order",
    "zero_windows": "zero_window",
}  # fmt: skip
FIELDS = (
    "frame.time_epoch", "frame.len", "ip.src", "ipv6.src", "ip.dst", "ipv6.dst", "tcp.srcport", "tcp.dstport",
    "tcp.flags", "tcp.stream", "tcp.analysis.initial_rtt", *(f"tcp.analysis.{name}" for name in COUNTED.values()),
)  # fmt: skip


def test_the_question_is_the_set_with_other_timeouts() -> None:
    ours = SET.read_text(encoding="utf-8")
    for own, other in (("15 s, 30 min", "1 d, 1 d"), ("30 min", "1 d"), ("payload_length, 1 h", "payload_length, 1 d")):
        ours = ours.replace(own, other)
    first = re.compile(r"\A(--[^\n]*\n)+")
    assert first.sub("", ours) == first.sub("", recipe("conversations").text)


def rows_of(path: Path) -> Counter[tuple[tuple[str, str], ...]]:
    with path.open(newline="", encoding="utf-8") as file:
        return Counter(tuple(row.items()) for row in csv.DictReader(file))


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return next(iter(generate(tmp_path_factory.mktemp("captures"), START, 1, ["main1"], rate=0.7, seed=5))).path


@pytest.mark.slow
def test_rows_are_those_of_any_interval_and_engine(generated: Path, tmp_path: Path) -> None:
    found = []
    for number, words in enumerate((("--interval", "7m"), ("--interval", "1h"), ("--engine", "reference"))):
        out = tmp_path / str(number)
        said = lowwater("run", SET, "--capture", f"main1={generated}", "--skew", "main1=1m", *words, "--out", out)
        assert said.code == 0, said
        found.append(rows_of(out / "conversations.csv"))
    assert found[0] == found[1] == found[2] and sum(found[0].values()) > 50


def test_timeouts_ends_and_marks(tmp_path: Path) -> None:
    """Conversations that pause, last, are closed or reset, and one at the end of the data."""
    a, b = "10.0.0.1", "10.0.0.9"

    def packet(second: float, sport: int, flags: int, back: bool = False, seq: int = 0) -> tuple[int, bytes]:
        ends = (b, a, 443, sport) if back else (a, b, sport, 443)
        return START + round(second * SECOND), maker.tcp(*ends, flags, seq)

    packets = [packet(0, 1, 16), packet(15, 1, 16), packet(30.001, 1, 16)]
    packets += [packet(second, 2, 16, back=second % 20 > 0) for second in range(0, 2000, 10)]
    packets += [packet(3, 3, 2), packet(3.1, 3, 18, True), packet(3.2, 3, 17), packet(3.3, 3, 17, True)]
    packets += [packet(4, 4, 2, seq=1), packet(4.1, 4, 20, True), packet(4.2, 4, 2, seq=9), packet(4.3, 4, 20, True)]
    packets += [packet(1999, 5, 2)]
    path = tmp_path / "a.pcap"
    path.write_bytes(maker.pcap_bytes(sorted(packets), nanoseconds=True))
    said = lowwater("run", SET, "--capture", f"main1={path}", "--out", tmp_path / "out")
    assert said.code == 0, said
    with (tmp_path / "out" / "conversations.csv").open(newline="") as file:
        rows = [*csv.DictReader(file)]
    names = ("client_port", "ended", "client_packets", "server_packets", "round_trip")
    found = Counter(((parse_instant(row["began"]) - START) / SECOND, *(row[name] for name in names)) for row in rows)
    assert found == Counter(
        {
            (0.0, "1", "idle", "2", "0", ""): 1,
            (30.001, "1", "idle", "1", "0", ""): 1,
            (0.0, "2", "idle", "90", "90", ""): 1,
            (1800.0, "2", "open", "10", "10", ""): 1,
            (3.0, "3", "closed", "2", "2", "200000000"): 1,
            (4.0, "4", "reset", "1", "1", "100000000"): 1,
            (4.2, "4", "reset", "1", "1", "100000000"): 1,
            (1999.0, "5", "open", "1", "0", ""): 1,
        }
    )


class Packet(NamedTuple):
    """What tshark says of a packet."""

    stamp: int
    len: int
    source: tuple[str, str]
    dest: tuple[str, str]
    flags: int
    stream: str
    round_trip: str
    told: frozenset[str]


def read(path: Path) -> Iterator[Packet]:
    """The segments of a capture by tshark, in order of time as here, each by itself."""
    words = [part for name in FIELDS for part in ("-e", name)]
    words += ["-o", "ip.defragment:FALSE", "-o", "ipv6.defragment:FALSE"]
    words += ["-T", "fields", "-E", "separator=|", "-E", "occurrence=f"]
    only = "tcp.flags && !icmp && !icmpv6"  # an error message quotes the segment that it is about
    command = ["tshark", "-n", "-r", str(path), "-Y", only, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    for line in done.stdout.splitlines():
        row = dict(zip(FIELDS, line.split("|"), strict=True))
        told = frozenset(name for name, field in COUNTED.items() if row[f"tcp.analysis.{field}"])
        source, dest = ((row[f"ip.{at}"] or row[f"ipv6.{at}"], row[f"tcp.{at}port"]) for at in ("src", "dst"))
        stamp, size = int(Decimal(row["frame.time_epoch"]) * SECOND), int(row["frame.len"])
        flags, trip = int(row["tcp.flags"], 0) & 255, row["tcp.analysis.initial_rtt"]
        yield Packet(stamp, size, source, dest, flags, row["tcp.stream"], trip, told)


def wanted(packets: list[Packet]) -> Counter[tuple[Any, ...]]:
    """The conversations of tshark's streams."""
    streams: dict[str, list[Packet]] = defaultdict(list)
    for each in packets:
        streams[each.stream].append(each)
    found: Counter[tuple[Any, ...]] = Counter()
    for of in streams.values():
        first = of[0]
        client = first.dest if first.flags & 18 == 18 else first.source
        server = first.source if first.flags & 18 == 18 else first.dest
        sides = [[each for each in of if (each.source == client) is asks] for asks in (True, False)]
        trip = next((round(Decimal(each.round_trip) * SECOND) for each in of if each.round_trip), "")
        counts = [len(side) for side in sides] + [sum(each.len for each in side) for side in sides]
        counts += [sum(name in each.told for each in side) for name in COUNTED for side in sides]
        found[(first.stamp // 1000, *client, *server, str(trip), *map(str, counts))] += 1
    return found


@pytest.mark.captures
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is absent: apt install tshark")
@pytest.mark.parametrize("name", each_push(CAPTURES, 6))
def test_counts_are_those_of_tshark(name: str, captures_dir: Path, tmp_path: Path) -> None:
    """Of each conversation, and of each direction; the captures are in order of time, without tunnels or fragments."""
    theirs = wanted([*read(captures_dir / name)])
    said = lowwater("ask", "conversations", "--capture", captures_dir / name, "--format", "csv")
    assert said.code == 0, said
    columns = ["client", "client_port", "server", "server_port", "round_trip"]
    columns += [f"{side}_{what}" for what in ("packets", "bytes", *COUNTED) for side in ("client", "server")]
    ours = Counter(
        (parse_instant(row["began"]) // 1000, *(row[column] for column in columns))
        for row in csv.DictReader(said.out.splitlines())
    )
    assert ours == theirs, ([*(theirs - ours)][:3], [*(ours - theirs)][:3])


def biflows(path: Path, folder: Path) -> Counter[tuple[str, ...]]:
    """(source, port, destination, port) -> packets, by nfdump: each side of its biflows, over all timeouts."""
    environment, fields = {"TZ": "UTC", "PATH": "/usr/bin:/bin"}, "fmt:%sa,%sp,%da,%dp,%ipkt,%opkt"
    flows = ["nfpcapd", "-r", str(path), "-w", str(folder)]
    command = ["nfdump", "-R", str(folder), "-B", "-q", "-N", "-6", "-o", fields, "proto tcp"]
    found: Counter[tuple[str, ...]] = Counter()
    if subprocess.run(flows, env=environment, capture_output=True, check=False).returncode:
        return found
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    for line in (each for each in said.splitlines() if "," in each):
        *ends, there, back = (each.strip() for each in line.split(","))
        found[tuple(ends)] += int(there)
        found[*ends[2:], *ends[:2]] += int(back)
    return +found


@pytest.mark.captures
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nfpcapd") is None, reason="nfdump is absent: apt install nfdump")
@pytest.mark.parametrize("name", each_push(CAPTURES, 6))
def test_packets_each_way_are_those_of_biflows_of_nfdump(name: str, captures_dir: Path, tmp_path: Path) -> None:
    said = lowwater("ask", "conversations", "--capture", captures_dir / name, "--format", "csv")
    assert said.code == 0, said
    ours: Counter[tuple[str, ...]] = Counter()
    for row in csv.DictReader(said.out.splitlines()):
        client, server = ((row[f"{side}"], row[f"{side}_port"]) for side in ("client", "server"))
        ours[*client, *server] += int(row["client_packets"])
        ours[*server, *client] += int(row["server_packets"])
    theirs = biflows(captures_dir / name, tmp_path)
    if not theirs:
        pytest.skip("nfpcapd reads no flow of it: 802.11, and frames that it does not know")
    assert +ours == theirs
