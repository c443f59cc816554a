"""The names that recorders give their files: one recorder is one link, and its next file belongs to it as well."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from lowwater.instants import HOUR, SECOND, format_duration
from lowwater.lake.files.patterns import regex_of
from lowwater.lake.files.proposal import LinkProposal, propose
from tests.breadth import some
from tests.capturemaker import pcap_bytes, tcp

FRAME = tcp("10.0.0.1", "10.0.0.2", 1024, 80)
START = datetime(2026, 1, 30, 20, tzinfo=UTC)
HALF_HOUR, DAY = HOUR // 2, 24 * HOUR
ZONES = {"UTC": "UTC", "Asia/Kolkata": "Asia/Kolkata", "Asia/Tokyo": "Etc/GMT-9"}
"""Zone of the names -> what is proposed for it."""

Names = Callable[[datetime, int], list[str]]


@dataclass(frozen=True)
class Recorder:
    """A recorder, and what is right for its files."""

    source: str
    step: int
    names: Names
    patterns: tuple[str, ...]
    rotation: int | None
    zone: str = "UTC"
    slices: int = 8


def strftime(form: str) -> Names:
    return lambda at, _: [at.strftime(form)]


def epoch(form: str, unit: int = 1, more: int = 0) -> Names:
    """Names by seconds since 1970 (`{s}`), in units of a second's part, `more` of them later."""
    return lambda at, n: [form.format(s=int(at.timestamp()) * unit + (more * (n + 1) if more else 0), n=n)]


def spilling(form: str, digits: str = "") -> Names:
    """`tcpdump -G -C`: busy rotations go on in files with a count, which is not reset."""

    def names(at: datetime, n: int) -> list[str]:
        counts = [""] if n % 3 else ["", str(n + 1), str(n + 2)]
        return [at.strftime(form) + (format(int(count or 0), digits) if digits else count) for count in counts]

    return names


def zipped(form: str) -> Names:
    """All files but that of the last rotation are compressed when they are closed."""
    return lambda at, n: [at.strftime(form) + (".gz" if n < 7 else "")]


def spanning(form: str, end: str, length: int) -> Names:
    return lambda at, _: [at.strftime(form) + (at + timedelta(seconds=length // SECOND)).strftime(end)]


def rotated(at: datetime, n: int) -> list[str]:
    """Logs that logrotate numbers: the oldest has the highest number."""
    return ["eve.pcap" if n == 7 else f"eve.pcap.{7 - n}" + (".gz" if n < 6 else "")]


def threads(at: datetime, n: int) -> list[str]:
    return [f"log.pcap.1.{int(at.timestamp())}"]


TCPDUMP = "https://www.tcpdump.org/manpages/tcpdump.1.html"
SPILL = "https://github.com/the-tcpdump-group/tcpdump/issues/352"
RING = "https://gitlab.com/wireshark/wireshark/-/blob/master/ringbuffer.c"
SURICATA = "https://docs.suricata.io/en/latest/configuration/suricata-yaml.html"
ZEEK = "https://docs.zeek.org/en/master/scripts/base/frameworks/logging/main.zeek.html"
FMADIO = "https://docs.fmad.io/fmadio-documentation/configuration/automatic-push-pcap"
NFCAPD = "https://manpages.ubuntu.com/manpages/noble/en/man1/nfcapd.1.html"
LOGROTATE = "https://man7.org/linux/man-pages/man8/logrotate.8.html"
ONION = "https://docs.securityonion.net"
SPLITTER = "https://pcapplusplus.github.io/docs/examples"
EDITCAP = "https://www.wireshark.org/docs/man-pages/editcap.html"
AZURE = "https://learn.microsoft.com/azure/network-watcher/packet-capture-overview"

RECORDERS = {
    "tcpdump -G": Recorder(TCPDUMP, HOUR, strftime("trace_%Y%m%d_%H%M%S.pcap"), ("trace_%Y%m%d_%H%M%S.pcap%c",), HOUR),
    "tcpdump -G -W": Recorder(TCPDUMP, HALF_HOUR, strftime("t-%F-%H.%M.cap"), ("t-%Y-%m-%d-%H.%M.cap%c",), HALF_HOUR),
    "tcpdump -G -C": Recorder(SPILL, HOUR, spilling("cap_%Y%m%d%H%M%S"), ("cap_%Y%m%d%H%M%S%c",), HOUR),
    "tcpdump -G -C .pcap": Recorder(SPILL, HOUR, spilling("cap_%Y%m%d%H%M%S.pcap"), ("cap_%Y%m%d%H%M%S.pcap%c",), HOUR),
    "tcpdump -G -C -W 100": Recorder(
        TCPDUMP, HOUR, spilling("cap_%Y%m%d%H%M%S.pcap", "02d"), ("cap_%Y%m%d%H%M%S.pcap%c",), HOUR
    ),
    "tcpdump -C": Recorder(TCPDUMP, HOUR, lambda at, n: [f"trace.pcap{n or ''}"], ("trace.pcap%c",), None, slices=12),
    "tcpdump -C, no ending": Recorder(TCPDUMP, HOUR, lambda at, n: [f"trace{n or ''}"], ("trace%c",), None, slices=12),
    "tcpdump -C -W 1000": Recorder(TCPDUMP, HOUR, lambda at, n: [f"trace.pcap{n:03d}"], ("trace.pcap%c",), None),
    "tcpdump -G -z gzip": Recorder(
        TCPDUMP, HOUR, zipped("t_%Y%m%d%H.pcap"), ("t_%Y%m%d%H.pcap%c", "t_%Y%m%d%H.pcap%c.gz"), HOUR
    ),
    "tcpdump %s": Recorder(TCPDUMP, HOUR, epoch("dump.{s}.pcap"), ("dump.%s.pcap%c",), HOUR),
    "tcpdump %z": Recorder(
        TCPDUMP, HOUR, strftime("t_%Y%m%dT%H%M%S%z.pcap"), ("t_%Y%m%dT%H%M%S%z.pcap%c",), HOUR, "Asia/Kolkata"
    ),
    "tcpdump, zone of the place": Recorder(
        TCPDUMP, HOUR, strftime("t_%Y%m%dT%H%M%S.pcap"), ("t_%Y%m%dT%H%M%S.pcap%c",), HOUR, "Asia/Kolkata"
    ),
    "tcpdump, UTC": Recorder(TCPDUMP, HOUR, strftime("t_%FT%H:%M:%SZ.pcap"), ("t_%Y-%m-%dT%H:%M:%SZ.pcap%c",), HOUR),
    "tcpdump %b": Recorder(TCPDUMP, DAY, strftime("t-%d-%b-%Y.pcap"), ("t-%d-%b-%Y.pcap%c",), DAY),
    "tcpdump %j": Recorder(TCPDUMP, HOUR, strftime("t-%Y-%j-%H.pcap"), ("t-%Y-%j-%H.pcap%c",), HOUR),
    "tcpdump %I%p": Recorder(TCPDUMP, HOUR, strftime("t_%Y%m%d_%I%M%p.pcap"), ("t_%Y%m%d_%I%M%p.pcap%c",), HOUR),
    "tcpdump %a %Z": Recorder(
        TCPDUMP, HOUR, strftime("t_%a_%d_%b_%Y_%H-%M_%Z.pcap"), ("t_%a_%d_%b_%Y_%H-%M_%Z.pcap%c",), HOUR, "Asia/Tokyo"
    ),
    "tcpdump %H": Recorder(TCPDUMP, HOUR, strftime("t-%H.pcap"), ("t-%n.pcap",), None),
    "dumpcap -b": Recorder(
        RING, HOUR, lambda at, n: [f"x_{n + 1:05d}_{at:%Y%m%d%H%M%S}.pcapng"], ("x_%n_%Y%m%d%H%M%S.pcapng",), HOUR
    ),
    "dumpcap -b nametimenum:2": Recorder(
        RING, HOUR, lambda at, n: [f"x_{at:%Y%m%d%H%M%S}_{n + 1:05d}.pcapng"], ("x_%Y%m%d%H%M%S_%n.pcapng",), HOUR
    ),
    "tshark -b, zone of the place": Recorder(
        RING,
        HOUR,
        lambda at, n: [f"x_{n + 1:05d}_{at:%Y%m%d%H%M%S}.pcap"],
        ("x_%n_%Y%m%d%H%M%S.pcap%c",),
        HOUR,
        "Asia/Tokyo",
    ),
    "editcap -i": Recorder(
        EDITCAP, HOUR, lambda at, n: [f"out_{n:05d}_{at:%Y%m%d%H%M%S}.pcap"], ("out_%n_%Y%m%d%H%M%S.pcap%c",), HOUR
    ),
    "Arkime": Recorder(
        "https://arkime.com/faq",
        HOUR,
        lambda at, n: [f"node1-{at:%y%m%d}-{n + 97:08d}.pcap"],
        ("node1-%y%m%d-%n.pcap%c",),
        None,
    ),
    "Zeek archive": Recorder(
        ZEEK,
        HOUR,
        spanning("%Y-%m-%d/conn.%H:%M:%S", "-%H:%M:%S.log.gz", HOUR),
        ("%Y-%m-%d/conn.%H:%M:%S-%EH:%EM:%ES.log.gz",),
        HOUR,
    ),
    "Zeek rotation": Recorder(
        ZEEK, HOUR, strftime("conn.%Y-%m-%d-%H-%M-%S.log"), ("conn.%Y-%m-%d-%H-%M-%S.log",), HOUR
    ),
    "Suricata pcap-log": Recorder(SURICATA, HOUR, epoch("log.pcap.{s}"), ("log.pcap.%s",), HOUR),
    "Suricata pcap-log, multi": Recorder(SURICATA, HOUR, threads, ("log.pcap.1.%s",), HOUR),
    "Suricata pcap-log, usec": Recorder(
        SURICATA, HOUR, lambda at, n: [f"log.pcap.{int(at.timestamp())}.{n * n * 919:06d}"], ("log.pcap.%s.%6N",), None
    ),
    "Suricata eve": Recorder(SURICATA, HOUR, strftime("eve-%F-%H:%M.json"), ("eve-%Y-%m-%d-%H:%M.json",), HOUR),
    "nfcapd": Recorder(NFCAPD, HALF_HOUR, strftime("nfcapd.%Y%m%d%H%M"), ("nfcapd.%Y%m%d%H%M",), HALF_HOUR),
    "nfcapd -S 1": Recorder(
        NFCAPD, HALF_HOUR, strftime("%Y/%m/%d/nfcapd.%Y%m%d%H%M"), ("%Y/%m/%d/nfcapd.%Y%m%d%H%M",), HALF_HOUR
    ),
    "netsniff-ng": Recorder("http://netsniff-ng.org", HOUR, epoch("dump-{s}.pcap"), ("dump-%s.pcap%c",), HOUR),
    "Stenographer": Recorder(
        "https://github.com/google/stenographer", HOUR, epoch("PKT0/{s}", 10**6), ("PKT0/%s%6N",), HOUR
    ),
    "Security Onion": Recorder(ONION, HOUR, epoch("suripcap/1/so-pcap.{s}"), ("suripcap/1/so-pcap.%s",), HOUR),
    "Security Onion 16": Recorder(
        ONION,
        HOUR,
        lambda at, n: [f"dailylogs/{at:%F}/snort.log.{int(at.timestamp())}"],
        ("dailylogs/%Y-%m-%d/snort.log.%s",),
        HOUR,
    ),
    "daemonlogger": Recorder(
        "https://manpages.debian.org/daemonlogger",
        HOUR,
        epoch("daemonlogger.pcap.{s}"),
        ("daemonlogger.pcap.%s",),
        HOUR,
    ),
    "logrotate": Recorder(LOGROTATE, HOUR, rotated, ("eve.pcap", "eve.pcap.%n", "eve.pcap.%n.gz"), None),
    "logrotate dateext": Recorder(LOGROTATE, DAY, strftime("eve.json-%Y%m%d"), ("eve.json-%Y%m%d",), DAY),
    "logrotate hourly": Recorder(LOGROTATE, HOUR, strftime("eve.json-%Y%m%d%H"), ("eve.json-%Y%m%d%H",), HOUR),
    "logrotate dateformat .%s": Recorder(LOGROTATE, HOUR, epoch("eve.json.{s}"), ("eve.json.%s",), HOUR),
    "n2disk": Recorder(
        "https://github.com/ntop/n2disk/issues/28",
        HALF_HOUR,
        lambda at, n: [f"timeline/{at:%Y/%m/%d/%H/%M}/{int(at.timestamp())}.{n * n + 100:06d}.pcap"],
        ("timeline/%Y/%m/%d/%H/%M/%s.%6N.pcap%c",),
        None,
    ),
    "n2disk, numbers": Recorder(
        "https://www.ntop.org/guides/n2disk", HOUR, lambda at, n: [f"{n + 1}.pcap"], ("%n.pcap",), None, slices=12
    ),
    "PcapSplitter": Recorder(SPLITTER, HOUR, lambda at, n: [f"in-{n:04d}.pcap"], ("in-%n.pcap",), None),
    "fmadio, epochs": Recorder(
        FMADIO,
        HOUR,
        lambda at, n: [f"{int(at.timestamp())}-{int(at.timestamp()) + 3600}.pcap"],
        ("%s-%Es.pcap%c",),
        HOUR,
    ),
    "fmadio, msec": Recorder(FMADIO, HOUR, epoch("f_{s}.pcap", 10**3), ("f_%s%3N.pcap%c",), HOUR),
    "fmadio, nsec": Recorder(FMADIO, HOUR, epoch("f_{s}.pcap", 10**9), ("f_%s%9N.pcap%c",), HOUR),
    "fmadio, HHMM": Recorder(FMADIO, HALF_HOUR, strftime("%Y%m%d_%H%M.pcap"), ("%Y%m%d_%H%M.pcap%c",), HALF_HOUR),
    "fmadio, NS": Recorder(
        FMADIO,
        HOUR,
        lambda at, n: [f"{at:%Y%m%d_%H%M%S}.{n * n + 20:03d}.{n * 37 + 100}.789.pcap"],
        ("%Y%m%d_%H%M%S.%3N.%3N.%3N.pcap%c",),
        None,
    ),
    "fmadio, TZ": Recorder(
        FMADIO,
        HOUR,
        lambda at, n: [f"f__{at:%Y-%m-%d_%H:%M:%S}{at.isoformat()[-6:]}.pcap"],
        ("f__%Y-%m-%d_%H:%M:%S%z.pcap%c",),
        HOUR,
        "America/New_York",
    ),
    "Azure": Recorder(
        AZURE,
        HOUR,
        lambda at, n: [f"{at:%Y/%m/%d/packetcapture_%H_%M_%S}_{n * n + 238}.cap"],
        ("%Y/%m/%d/packetcapture_%H_%M_%S_%3N.cap%c",),
        None,
    ),
    "nRF": Recorder(
        "https://docs.nordicsemi.com/bundle/nrfutil",
        HOUR,
        lambda at, n: [f"{at:%Y%m%d-T%H%M%S}.{n * n + 238}-capture.pcap"],
        ("%Y%m%d-T%H%M%S.%3N-capture.pcap%c",),
        None,
    ),
    "Extreme": Recorder(
        "https://documentation.extremenetworks.com/npb",
        HOUR,
        lambda at, n: [f"pktcapture_{n + 1}.pcapng"],
        ("pktcapture_%n.pcapng",),
        None,
        slices=12,
    ),
    "pfSense": Recorder(
        "https://docs.netgate.com/pfsense/en/latest/diagnostics/packetcapture",
        HOUR,
        strftime("packetcapture-igb0-%Y%m%d%H%M%S.pcap"),
        ("packetcapture-igb0-%Y%m%d%H%M%S.pcap%c",),
        HOUR,
    ),
    "pktmon": Recorder(
        "https://learn.microsoft.com/windows-server/networking/technologies/pktmon",
        HOUR,
        lambda at, n: [f"PktMon{n + 1}.pcapng"],
        ("PktMon%n.pcapng",),
        None,
        slices=12,
    ),
    "VPC flow logs": Recorder(
        "https://docs.aws.amazon.com/vpc/latest/userguide/flow-logs-s3.html",
        HOUR,
        lambda at, n: [f"1234_vpcflowlogs_eu_fl-1a_{at:%Y%m%dT%H%MZ}_{hash((n, 7)) & 0xFFFFFFFF:08x}a1.log.gz"],
        ("1234_vpcflowlogs_eu_fl-1a_%Y%m%dT%H%MZ_*.log.gz",),
        HOUR,
    ),
    "MAWI": Recorder(
        "https://mawi.wide.ad.jp/mawi",
        DAY,
        strftime("%Y%m%d%H%M.pcap.gz"),
        ("%Y%m%d%H%M.pcap%c.gz",),
        DAY,
        "Asia/Tokyo",
    ),
    "CAIDA": Recorder(
        "https://www.caida.org/catalog/datasets/passive_dataset",
        HOUR,
        strftime("equinix-nyc.dirA.%Y%m%d-%H%M%S.UTC.anon.pcap.gz"),
        ("equinix-nyc.dirA.%Y%m%d-%H%M%S.UTC.anon.pcap%c.gz",),
        HOUR,
    ),
    "Windows script": Recorder(
        "https://ss64.com/nt/syntax-getdate.html", DAY, strftime("lan_%m-%d-%Y.pcap"), ("lan_%m-%d-%Y.pcap%c",), DAY
    ),
    "German script": Recorder(
        "https://man7.org/linux/man-pages/man1/date.1.html",
        DAY,
        strftime("lan_%d.%m.%Y.pcap"),
        ("lan_%d.%m.%Y.pcap%c",),
        DAY,
    ),
    "from, to": Recorder(
        "https://man7.org/linux/man-pages/man1/date.1.html",
        HOUR,
        spanning("x_%Y%m%dT%H%M%SZ", "-%Y%m%dT%H%M%SZ.pcap", HOUR),
        ("x_%Y%m%dT%H%M%SZ-%EY%Em%EdT%EH%EM%ESZ.pcap%c",),
        HOUR,
    ),
}


def write(folder: Path, recorder: Recorder, slices: int) -> list[str]:
    """Makes the files of the first rotations; a rotation of several files is divided among them."""
    made = []
    step = timedelta(seconds=recorder.step // SECOND)
    begin = START if recorder.step < DAY else datetime(2026, 1, 28, tzinfo=ZoneInfo(recorder.zone))
    for number in range(slices):
        at = (begin + number * step).astimezone(ZoneInfo(recorder.zone))
        names = recorder.names(at, number)
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
