"""The names that recorders give their files: one recorder is one link, and its next file belongs to it as well."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest

from lowwater.instants import HOUR, SECOND, format_duration, parse_duration
from lowwater.lake.files.patterns import regex_of
from lowwater.lake.files.proposal import LinkProposal, propose
from tests.breadth import some
from tests.capturemaker import pcap_bytes, tcp

FRAME = tcp("10.0.0.1", "10.0.0.2", 1024, 80)
START = datetime(2026, 1, 30, 20, tzinfo=UTC)
DAY = 24 * HOUR
ZONES = {"UTC": "UTC", "Asia/Kolkata": "Asia/Kolkata", "Asia/Tokyo": "Etc/GMT-9"}
"""Zone of the names -> what is proposed for it."""

SOURCES = """
https://www.tcpdump.org/manpages/tcpdump.1.html
tcpdump -G | 1h | trace_%Y%m%d_%H%M%S.pcap | trace_%Y%m%d_%H%M%S.pcap%c | 1h
tcpdump -G -W | 30m | t-%Y-%m-%d-%H.%M.cap | t-%Y-%m-%d-%H.%M.cap%c | 30m
tcpdump -G -C -W 100 | 1h | spilling cap_%Y%m%d%H%M%S.pcap{c:02d} | cap_%Y%m%d%H%M%S.pcap%c | 1h
tcpdump -C | 1h | trace.pcap{c} | trace.pcap%c | - | UTC | 12
tcpdump -C, no ending | 1h | trace{c} | trace%c | - | UTC | 12
tcpdump -C -W 1000 | 1h | trace.pcap{n:03d} | trace.pcap%c | -
tcpdump -G -z gzip | 1h | zipped t_%Y%m%d%H.pcap | t_%Y%m%d%H.pcap%c t_%Y%m%d%H.pcap%c.gz | 1h
tcpdump %s | 1h | dump.{s}.pcap | dump.%s.pcap%c | 1h
tcpdump %z | 1h | t_%Y%m%dT%H%M%S%z.pcap | t_%Y%m%dT%H%M%S%z.pcap%c | 1h | Asia/Kolkata
tcpdump, zone of the place | 1h | t_%Y%m%dT%H%M%S.pcap | t_%Y%m%dT%H%M%S.pcap%c | 1h | Asia/Kolkata
tcpdump, UTC | 1h | t_%Y-%m-%dT%H:%M:%SZ.pcap | t_%Y-%m-%dT%H:%M:%SZ.pcap%c | 1h
tcpdump %b | 1d | t-%d-%b-%Y.pcap | t-%d-%b-%Y.pcap%c | 1d
tcpdump %j | 1h | t-%Y-%j-%H.pcap | t-%Y-%j-%H.pcap%c | 1h
tcpdump %I%p | 1h | t_%Y%m%d_%I%M%p.pcap | t_%Y%m%d_%I%M%p.pcap%c | 1h
tcpdump %a %Z | 1h | t_%a_%d_%b_%Y_%H-%M_%Z.pcap | t_%a_%d_%b_%Y_%H-%M_%Z.pcap%c | 1h | Asia/Tokyo
tcpdump %H | 1h | t-%H.pcap | t-%n.pcap | -
https://github.com/the-tcpdump-group/tcpdump/issues/352
tcpdump -G -C | 1h | spilling cap_%Y%m%d%H%M%S{c} | cap_%Y%m%d%H%M%S%c | 1h
tcpdump -G -C .pcap | 1h | spilling cap_%Y%m%d%H%M%S.pcap{c} | cap_%Y%m%d%H%M%S.pcap%c | 1h
https://gitlab.com/wireshark/wireshark/-/blob/master/ringbuffer.c
dumpcap -b | 1h | x_{one:05d}_%Y%m%d%H%M%S.pcapng | x_%n_%Y%m%d%H%M%S.pcapng | 1h
dumpcap -b nametimenum:2 | 1h | x_%Y%m%d%H%M%S_{one:05d}.pcapng | x_%Y%m%d%H%M%S_%n.pcapng | 1h
tshark -b, zone of the place | 1h | x_{one:05d}_%Y%m%d%H%M%S.pcap | x_%n_%Y%m%d%H%M%S.pcap%c | 1h | Asia/Tokyo
https://www.wireshark.org/docs/man-pages/editcap.html
editcap -i | 1h | out_{n:05d}_%Y%m%d%H%M%S.pcap | out_%n_%Y%m%d%H%M%S.pcap%c | 1h
https://arkime.com/faq
Arkime | 1h | node1-%y%m%d-{late:08d}.pcap | node1-%y%m%d-%n.pcap%c | -
https://docs.zeek.org/en/master/scripts/base/frameworks/logging/main.zeek.html
Zeek archive | 1h | %Y-%m-%d/conn.%H:%M:%S > -%H:%M:%S.log.gz | %Y-%m-%d/conn.%H:%M:%S-%EH:%EM:%ES.log.gz | 1h
Zeek rotation | 1h | conn.%Y-%m-%d-%H-%M-%S.log | conn.%Y-%m-%d-%H-%M-%S.log | 1h
https://docs.suricata.io/en/latest/configuration/suricata-yaml.html
Suricata pcap-log | 1h | log.pcap.{s} | log.pcap.%s | 1h
Suricata pcap-log, multi | 1h | log.pcap.1.{s} | log.pcap.1.%s | 1h
Suricata pcap-log, usec | 1h | log.pcap.{s}.{part:06d} | log.pcap.%s.%6N | -
Suricata eve | 1h | eve-%Y-%m-%d-%H:%M.json | eve-%Y-%m-%d-%H:%M.json | 1h
https://manpages.ubuntu.com/manpages/noble/en/man1/nfcapd.1.html
nfcapd | 30m | nfcapd.%Y%m%d%H%M | nfcapd.%Y%m%d%H%M | 30m
nfcapd -S 1 | 30m | %Y/%m/%d/nfcapd.%Y%m%d%H%M | %Y/%m/%d/nfcapd.%Y%m%d%H%M | 30m
http://netsniff-ng.org
netsniff-ng | 1h | dump-{s}.pcap | dump-%s.pcap%c | 1h
https://github.com/google/stenographer
Stenographer | 1h | PKT0/{s}000000 | PKT0/%s%6N | 1h
https://docs.securityonion.net
Security Onion | 1h | suripcap/1/so-pcap.{s} | suripcap/1/so-pcap.%s | 1h
Security Onion 16 | 1h | dailylogs/%Y-%m-%d/snort.log.{s} | dailylogs/%Y-%m-%d/snort.log.%s | 1h
https://manpages.debian.org/daemonlogger
daemonlogger | 1h | daemonlogger.pcap.{s} | daemonlogger.pcap.%s | 1h
https://man7.org/linux/man-pages/man8/logrotate.8.html
logrotate | 1h | rotated eve.pcap | eve.pcap eve.pcap.%n eve.pcap.%n.gz | -
logrotate dateext | 1d | eve.json-%Y%m%d | eve.json-%Y%m%d | 1d
logrotate hourly | 1h | eve.json-%Y%m%d%H | eve.json-%Y%m%d%H | 1h
logrotate dateformat .%s | 1h | eve.json.{s} | eve.json.%s | 1h
https://github.com/ntop/n2disk/issues/28
n2disk | 30m | timeline/%Y/%m/%d/%H/%M/{s}.{part:06d}.pcap | timeline/%Y/%m/%d/%H/%M/%s.%6N.pcap%c | -
https://www.ntop.org/guides/n2disk
n2disk, numbers | 1h | {one}.pcap | %n.pcap | - | UTC | 12
https://pcapplusplus.github.io/docs/examples
PcapSplitter | 1h | in-{n:04d}.pcap | in-%n.pcap | -
https://docs.fmad.io/fmadio-documentation/configuration/automatic-push-pcap
fmadio, epochs | 1h | {s} > -{s}.pcap | %s-%Es.pcap%c | 1h
fmadio, msec | 1h | f_{s}000.pcap | f_%s%3N.pcap%c | 1h
fmadio, nsec | 1h | f_{s}000000000.pcap | f_%s%9N.pcap%c | 1h
fmadio, HHMM | 30m | %Y%m%d_%H%M.pcap | %Y%m%d_%H%M.pcap%c | 30m
fmadio, NS | 1h | %Y%m%d_%H%M%S.{part}.{other}.789.pcap | %Y%m%d_%H%M%S.%3N.%3N.%3N.pcap%c | -
fmadio, TZ | 1h | f__%Y-%m-%d_%H:%M:%S{z}.pcap | f__%Y-%m-%d_%H:%M:%S%z.pcap%c | 1h | America/New_York
https://learn.microsoft.com/azure/network-watcher/packet-capture-overview
Azure | 1h | %Y/%m/%d/packetcapture_%H_%M_%S_{part}.cap | %Y/%m/%d/packetcapture_%H_%M_%S_%3N.cap%c | -
https://docs.nordicsemi.com/bundle/nrfutil
nRF | 1h | %Y%m%d-T%H%M%S.{part}-capture.pcap | %Y%m%d-T%H%M%S.%3N-capture.pcap%c | -
https://documentation.extremenetworks.com/npb
Extreme | 1h | pktcapture_{one}.pcapng | pktcapture_%n.pcapng | - | UTC | 12
https://docs.netgate.com/pfsense/en/latest/diagnostics/packetcapture
pfSense | 1h | packetcapture-igb0-%Y%m%d%H%M%S.pcap | packetcapture-igb0-%Y%m%d%H%M%S.pcap%c | 1h
https://learn.microsoft.com/windows-server/networking/technologies/pktmon
pktmon | 1h | PktMon{one}.pcapng | PktMon%n.pcapng | - | UTC | 12
https://docs.aws.amazon.com/vpc/latest/userguide/flow-logs-s3.html
VPC flow logs | 1h | 12_vpcflowlogs_fl-1_%Y%m%dT%H%MZ_{hash}.log.gz | 12_vpcflowlogs_fl-1_%Y%m%dT%H%MZ_*.log.gz | 1h
https://mawi.wide.ad.jp/mawi
MAWI | 1d | %Y%m%d%H%M.pcap.gz | %Y%m%d%H%M.pcap%c.gz | 1d | Asia/Tokyo
https://www.caida.org/catalog/datasets/passive_dataset
CAIDA | 1h | equinix-nyc.dirA.%Y%m%d-%H%M%S.UTC.anon.pcap.gz | equinix-nyc.dirA.%Y%m%d-%H%M%S.UTC.anon.pcap%c.gz | 1h
https://ss64.com/nt/syntax-getdate.html
Windows script | 1d | lan_%m-%d-%Y.pcap | lan_%m-%d-%Y.pcap%c | 1d
https://man7.org/linux/man-pages/man1/date.1.html
German script | 1d | lan_%d.%m.%Y.pcap | lan_%d.%m.%Y.pcap%c | 1d
from, to | 1h | x_%Y%m%dT%H%M%SZ > -%Y%m%dT%H%M%SZ.pcap | x_%Y%m%dT%H%M%SZ-%EY%Em%EdT%EH%EM%ESZ.pcap%c | 1h
"""
"""Name, length of a rotation, names of its files, patterns and rotation that are right for them; zone; rotations.

Names are dates in the zone, with seconds since 1970 {s}, numbers of rotations {n} and {one}, and a few others; behind
` > ` stands the end of the rotation. A `rotated` or `zipped` recorder renames or compresses what is closed, and one
that is `spilling` goes on in files with a count, which is not reset, where a rotation is busy.
"""


class Recorder(NamedTuple):
    """A recorder, and what is right for its files."""

    step: int
    names: str
    patterns: tuple[str, ...]
    rotation: int | None
    zone: str = "UTC"
    slices: int = 8


def recorders() -> Iterator[tuple[str, Recorder]]:
    for line in SOURCES.splitlines():
        name, *words = (word.strip() for word in line.split(" | "))
        if words:
            step, names, patterns, rotation, *more = words
            right = tuple(patterns.split(" ")), None if rotation == "-" else parse_duration(rotation)
            yield name, Recorder(parse_duration(step), names, *right, *more[:1], *map(int, more[1:]))


RECORDERS = dict(recorders())


def written(form: str, at: datetime, n: int, count: str | int = "") -> str:
    numbers = {"n": n, "one": n + 1, "late": n + 97, "part": n * n + 238, "other": n * 37 + 100, "c": count}
    texts = {"z": at.isoformat()[-6:], "hash": f"{hash((n, 7)) & 0xFFFFFFFF:08x}a1"}
    return at.strftime(form.format(s=int(at.timestamp()), **numbers, **texts))


def names_of(recorder: Recorder, at: datetime, n: int) -> list[str]:
    """The files of a rotation."""
    begin, _, end = recorder.names.partition(" > ")
    kind, _, form = begin.rpartition(" ")
    match kind:
        case "rotated":  # the oldest has the highest number
            return ["eve.pcap" if n == 7 else f"eve.pcap.{7 - n}" + (".gz" if n < 6 else "")]
        case "zipped":
            return [written(form, at, n) + (".gz" if n < 7 else "")]
        case "spilling":
            first = 0 if ":" in form.partition("{c")[2] else ""
            return [written(form, at, n, count) for count in ([first] if n % 3 else [first, n + 1, n + 2])]
    later = at + timedelta(seconds=recorder.step // SECOND)
    return [written(form, at, n, n or "") + (written(end, later, n) if end else "")]


def write(folder: Path, recorder: Recorder, slices: int) -> list[str]:
    """Makes the files of the first rotations; a rotation of several files is divided among them."""
    made = []
    step = timedelta(seconds=recorder.step // SECOND)
    begin = START if recorder.step < DAY else datetime(2026, 1, 28, tzinfo=ZoneInfo(recorder.zone))
    for number in range(slices):
        at = (begin + number * step).astimezone(ZoneInfo(recorder.zone))
        names = names_of(recorder, at, number)
        length = recorder.step // len(names)
        for part, name in enumerate(names):
            first = int((begin + number * step).timestamp()) * SECOND + part * length
            data = pcap_bytes([(first + tick * length // 60 + 300_000_000, FRAME) for tick in range(60)])
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(gzip.compress(data, 1) if name.endswith(".gz") else data)
            made.append(name)
    return made


def said(link: LinkProposal) -> str:
    length = link.dates.rotation
    return f"{link.named.patterns} {length and format_duration(length)} {link.dates.why} {link.notes}"


@pytest.mark.slow
@pytest.mark.parametrize("name", some(RECORDERS, 3))
def test_a_recorder_is_one_link_and_so_is_its_next_file(name: str, tmp_path: Path) -> None:
    recorder = RECORDERS[name]
    names = write(tmp_path / "all", recorder, recorder.slices)
    (link,) = propose(tmp_path / "all", 2).links
    assert link.named.patterns == recorder.patterns, said(link)
    assert link.dates.rotation == recorder.rotation, said(link)
    zone = "UTC" if "%z" in link.named.pattern else recorder.zone
    assert link.dates.zone == (zone if "%Z" in link.named.pattern else ZONES[zone]), said(link)
    assert not link.mixed and sorted(link.named.names) == sorted(names)
    write(tmp_path / "half", recorder, recorder.slices // 2)
    (before,) = propose(tmp_path / "half", 2).links
    patterns = [regex_of(pattern) for pattern in before.named.patterns]
    missed = [each for each in names if not any(pattern.fullmatch(each) for pattern in patterns)]
    assert not missed or name in ("tcpdump -G -z gzip", "logrotate"), (before.named.patterns, missed)
