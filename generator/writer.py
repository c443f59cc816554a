"""Writing synthetic captures: links, hours, disorder, lulls and a cut file.

Last step of `generate`. Every minute of true time has its own random numbers, some shared by all busy links and some
for every link. So an hour of a link depends only on the seed, and flows continue from one file into the next.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from lowwater.capture.formats.capture_file import ETHERNET
from lowwater.catalog.time import arrival_times, is_late
from lowwater.errors import ConfigError

from . import flows, templates
from .flows import DNS, LONGEST, MINUTE, PACKET, TCP
from .frames import LARGEST, render

HOUR = 60 * MINUTE
QUIET_LINK = "control"
_QUIET_RATE = 0.2
_SHARED = 0.5  # share of a busy link's flows that all busy links see
_DISORDERED = 0.02
_VIOLATIONS = 5  # an hour
_LULL = (20 * MINUTE, 40 * MINUTE)
_SPACING = 150  # us between the sightings of a shared flow on two successive links
_PIECE = 1 << 18  # packets rendered at a time


@dataclass(frozen=True)
class GeneratedCapture:
    """A written file."""

    link: str  # name of its link
    path: Path  # the file
    start: int  # begin of its coverage, ns since the epoch, on the link's clock
    end: int  # end of its coverage, ns, exclusive
    packets: int  # number of whole records
    violations: int  # number of records later than the link's skew (SEMANTICS T2)
    cut: bool  # whether its last record is cut in the middle
    bytes: int  # its size


@dataclass(frozen=True)
class _Link:
    name: str
    place: int  # among the links
    quiet: bool
    rate: float
    skew: int  # us, as the next one
    offset: int
    seed: int

    def random(self, purpose: str, number: int, shared: bool = False) -> np.random.Generator:
        who = "shared" if shared else self.name
        return np.random.default_rng([self.seed, zlib.crc32(f"{who}/{purpose}".encode()), number])


def _minute(link: _Link, minute: int) -> NDArray[np.void]:
    """Draws the packets of the flows that start in a minute of true time, stamped by the link's clock."""
    if link.quiet:
        random = link.random("flows", minute)
        packets = flows.packets_of(random, flows.flows_of_minute(random, minute, link.rate, flows.QUIET))
    else:
        parts = []
        for shared, share in ((True, _SHARED), (False, 1 - _SHARED)):
            random = link.random("flows", minute, shared)
            table = flows.flows_of_minute(random, minute, link.rate * share, flows.BUSY)
            parts.append(flows.packets_of(random, table))
        parts[0]["stamp"] += link.place * _SPACING
        packets = np.concatenate(parts)
    packets["stamp"] += link.offset
    return packets


def _place(link: _Link, packets: NDArray[np.void], minute: int, violations: NDArray[np.int64]) -> None:
    """Sets the file order of packets: at their stamp, later by at most the skew, or, for violations, by more."""
    random = link.random("disorder", minute)
    late = np.where(random.random(len(packets)) < _DISORDERED, random.random(len(packets)) * 0.95 * link.skew, 0)
    packets["key"] = packets["stamp"] + late.astype(np.int64)
    for moment in violations.tolist() if link.skew else ():
        later = np.flatnonzero(packets["stamp"] >= moment)
        if len(later) and moment < (minute + 1) * MINUTE + link.offset and moment >= minute * MINUTE + link.offset:
            chosen = later[np.argmin(packets["stamp"][later])]
            packets["key"][chosen] = packets["stamp"][chosen] + int(link.skew * (1.3 + 0.6 * random.random()))


def _pieces(link: _Link, start: int, end: int, lull: bool) -> Iterator[NDArray[np.void]]:
    """Yields the packets stamped in [start, end), us, in file order."""
    violations = link.random("violations", start).integers(start, start + HOUR, _VIOLATIONS)
    waiting = np.empty(0, PACKET)
    first = (start - link.offset - LONGEST) // MINUTE
    last = -(-(end - link.offset) // MINUTE)
    for minute in range(first, last):
        packets = _minute(link, minute)
        stamps = packets["stamp"]
        inside = (stamps >= start) & (stamps < end)
        if lull:
            inside &= (stamps < start + _LULL[0]) | (stamps >= start + _LULL[1])
        if not inside.all():  # rows are wide: copying all of them costs as much as drawing them
            packets = packets[inside]
        _place(link, packets, minute, violations)
        waiting = np.concatenate([waiting, packets])
        ready = waiting["key"] < (minute + 1) * MINUTE + link.offset
        due = np.flatnonzero(ready)
        yield waiting[due[np.argsort(waiting["key"][due], kind="stable")]]
        waiting = waiting[~ready]
    yield waiting[np.argsort(waiting["key"], kind="stable")]


class Output:
    """A capture that is being written.

    Attributes:
        packets: number of whole records so far.
        violations: number of them that are later than the skew.
        last: bytes of the last record.
    """

    def __init__(self, file: BinaryIO, skew: int) -> None:
        self._file = file
        self._skew = skew
        self._clock = 0
        self._shapes, self._sizes = templates.frames(), templates.payload_sizes()
        self._out = np.empty(0, np.uint8)
        self.packets = self.violations = 0
        self.last = 0
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, templates.SNAPLEN, ETHERNET))

    def write(self, packets: NDArray[np.void]) -> None:
        if not len(packets):
            return
        clock = arrival_times(packets["stamp"], self._clock)
        self._clock = int(clock[-1])
        late = is_late(clock, packets["stamp"], self._skew)
        self.violations += int(late.sum())
        self.packets += len(packets)
        for begin in range(0, len(packets), _PIECE):
            order = np.arange(begin, min(begin + _PIECE, len(packets)))
            if len(self._out) < len(order) * LARGEST + 1:
                self._out = np.empty(len(order) * LARGEST + 1, np.uint8)
            size = render(self._out, packets, order, self._shapes, self._sizes)
            self._file.write(self._out[:size].data)
        self.last = render(self._out, packets, order[-1:], self._shapes, self._sizes)
        self._last_late = bool(late[-1])

    def cut(self) -> bool:
        """Cuts the last record in the middle; returns False if there is none."""
        if not self.packets:
            return False
        self._file.flush()
        self._file.truncate(self._file.tell() - self.last // 2)
        self.packets -= 1
        self.violations -= self._last_late
        return True


def _write(link: _Link, out: Path, start: int, end: int, lull: bool, empty: bool, cut: bool) -> GeneratedCapture:
    name = datetime.fromtimestamp(start / 1_000_000, UTC).strftime(f"{link.name}_%Y%m%dT%H%M%SZ.pcap")
    path = out / link.name / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        output = Output(file, link.skew)
        if not empty:
            for packets in _pieces(link, start, end, lull):
                output.write(packets)
        was_cut = cut and output.cut()
    return GeneratedCapture(
        link.name, path, start * 1000, end * 1000, output.packets, output.violations, was_cut, path.stat().st_size
    )


def require_seed(seed: int) -> None:
    """Refuses a seed below 0."""
    if seed < 0:
        raise ConfigError(f"--seed {seed}: below 0", "give a whole number from 0")


def _links(
    links: Sequence[str], rate: float, skew: Mapping[str, float], offset: Mapping[str, float], seed: int
) -> list[_Link]:
    for option, seconds in (("--skew", skew), ("--offset", offset)):
        for name in seconds:
            if name not in links:
                raise ConfigError(f"{option} {name}: no such link", f"the links are {', '.join(links)}")
    configured = []
    for place, name in enumerate(links):
        if not name or "/" in name or name.startswith("."):
            raise ConfigError(
                f"--links: {name!r} is not a valid name of a link", "a link's name is a folder: letters, digits"
            )
        quiet = name == QUIET_LINK
        lateness = skew.get(name, 1.0)
        if lateness < 0:
            raise ConfigError(f"--skew {name}={lateness}: below 0", "give the seconds by which records may be late")
        shift = round(offset.get(name, 0.0) * 1_000_000)
        pace = min(rate, _QUIET_RATE) if quiet else rate
        configured.append(_Link(name, place, quiet, pace, round(lateness * 1_000_000), shift, seed))
    return configured


def generate(
    out: Path,
    start: int,
    hours: int = 3,
    links: Sequence[str] = ("main1", "main2", QUIET_LINK),
    rate: float = 100.0,
    skew: Mapping[str, float] | None = None,
    offset: Mapping[str, float] | None = None,
    seed: int = 0,
    cut: Sequence[tuple[str, int]] = ((QUIET_LINK, 1),),
) -> list[GeneratedCapture]:
    """Writes synthetic captures: one for every link and hour, `<link>/<link>_%Y%m%dT%H%M%SZ.pcap`, and a last minute.

    A link named `control` is nearly silent. Its second hour (the first if there is no other) has a lull of twenty
    minutes, and its last capture is empty. All other links see half of their flows together.

    Args:
        out: output folder, created if missing.
        start: begin of the first hour, ns since the epoch, a whole number of seconds.
        rate: packets per second of every busy link, on average.
        skew: seconds by which records of a link may be late, default 1. Some records are late by less, some by more
            (counted in `GeneratedCapture.violations`). A link with skew 0 is in order.
        offset: seconds by which the clock of a link is ahead, default 0; its files follow its own clock.
        cut: (link, hour from 0) of the captures whose last record is cut in the middle.

    Returns:
        The written files, link by link, hour by hour.

    Raises:
        ConfigError: if an argument is out of range or names no link.
    """
    if hours < 1:
        raise ConfigError(f"--hours {hours}: below 1", "generate at least one hour")
    if not 0 < rate <= 1e6:
        raise ConfigError(f"--rate {rate:g}: not within (0, 1000000]", "give packets per second and link")
    require_seed(seed)
    begin, rest = divmod(start, 1000)
    if rest or begin % 1_000_000 or not HOUR <= begin < 4_000_000_000 * 1_000_000:
        raise ConfigError(f"--start {start} ns: not a whole second between 1970 and 2096", "give --start in UTC")
    written = []
    for link in _links(links, rate, skew or {}, offset or {}, seed):
        lull_hour = min(1, hours - 1) if link.quiet else -1
        for hour in range(hours):
            at = begin + hour * HOUR
            written.append(_write(link, out, at, at + HOUR, hour == lull_hour, False, (link.name, hour) in cut))
        end = begin + hours * HOUR
        written.append(_write(link, out, end, end + MINUTE, False, link.quiet, False))
    return written


# A small dataset with four incidents: ten minutes of three links, as the tutorial reads them. Beside `writer`, on the
# same flows and frames. `inside` and `outside` are the two sides of a firewall, `servers` is the network of the DNS
# servers. The incidents do not depend on the seed; the traffic around them does.

BEGIN = 1_772_452_800_000_000
"""The first instant, us since the epoch: 2026-03-02T12:00:00Z."""

LINKS = ("inside", "outside", "servers")
MINUTES = 10
FILE_MINUTES = 5
DRIFT = 250e-6
"""How much faster than true time the clock of `outside` runs: 15 ms a minute."""

SCANNER = 76
"""Number of the host that scans: 10.0.0.77."""

SCAN = (3 * MINUTE, 4 * MINUTE + MINUTE // 2)
SCANNED_HOSTS, SCANNED_PORTS = 20, 30
RESOLVERS = (52, 53, 54)
"""Numbers of the DNS servers: 198.18.0.53 to 198.18.0.55."""

SLOW_RESOLVER, SLOW_FROM = 53, 6 * MINUTE
CUT_AT = 4 * MINUTE + MINUTE // 6
"""Microseconds after BEGIN at which the first capture of `servers` breaks off."""

_RATE = 40.0  # packets/s through the firewall
_LOOKUPS = 300  # a minute and resolver
_FIREWALL = 120  # us that the firewall takes
_MIX = flows.Mix((0.30, 0.45, 0.15, 0.0, 0.10, 0.0))


def _random(seed: int, purpose: str, minute: int) -> np.random.Generator:
    return np.random.default_rng([seed, zlib.crc32(f"story/{purpose}".encode()), minute])


def _through_the_firewall(seed: int) -> NDArray[np.void]:
    """Draws the packets that both sides of the firewall see, in true time; flows of the minutes before run on."""
    parts = []
    for minute in range(-2, MINUTES):
        random = _random(seed, "flows", minute + 2)
        table = flows.flows_of_minute(random, BEGIN // MINUTE + minute, _RATE, _MIX)
        parts.append(flows.packets_of(random, table))
    return np.concatenate(parts)


def _scan(seed: int) -> NDArray[np.void]:
    """Draws the SYNs of the scan: each port of each host once, in a random order; the firewall drops all of them."""
    random = _random(seed, "scan", 0)
    tries = SCANNED_HOSTS * SCANNED_PORTS
    packets = np.zeros(tries, PACKET)
    target = random.permutation(tries)
    packets["kind"], packets["count"] = TCP, 1
    packets["client"] = SCANNER
    packets["server"] = 100 + target // SCANNED_PORTS
    packets["dport"] = 1 + target % SCANNED_PORTS * 37
    packets["sport"] = random.integers(49152, 65536, tries)
    packets["client_seq"] = random.integers(0, 1 << 32, tries)
    packets["stamp"] = BEGIN + np.linspace(SCAN[0], SCAN[1], tries, endpoint=False).astype(np.int64)
    return packets


def _lookups(seed: int) -> NDArray[np.void]:
    lookups = np.concatenate([_asked(seed, minute, resolver) for minute in range(MINUTES) for resolver in RESOLVERS])
    packets = flows.packets_of(_random(seed, "dns", 0), lookups)
    packets["stamp"] = np.repeat(lookups["start"], 2) + packets["number"] * np.repeat(lookups["span"], 2)
    return packets


def _asked(seed: int, minute: int, resolver: int) -> NDArray[np.void]:
    """Draws the lookups that a DNS server gets in a minute; `span` is the time until its answer."""
    random = _random(seed, f"dns/{resolver}", minute)
    slow = resolver == SLOW_RESOLVER and minute * MINUTE >= SLOW_FROM
    lookups = np.zeros(_LOOKUPS, flows.FLOW)
    lookups["kind"], lookups["count"], lookups["dport"], lookups["server"] = DNS, 2, 53, resolver
    lookups["client"] = random.integers(0, 200, _LOOKUPS)
    lookups["sport"] = random.integers(49152, 65536, _LOOKUPS)
    lookups["ident"] = random.integers(0, 1 << 16, _LOOKUPS)
    lookups["host"] = random.integers(0, flows.HOSTS, _LOOKUPS)
    lookups["start"] = BEGIN + minute * MINUTE + random.integers(0, MINUTE, _LOOKUPS)
    lookups["span"] = (
        random.integers(400_000, 1_200_000, _LOOKUPS) if slow else random.integers(1_000, 20_000, _LOOKUPS)
    )
    return lookups


def _seen(seed: int) -> Iterator[tuple[str, NDArray[np.void]]]:
    """Yields each link with its packets, stamped by its own clock, in no order."""
    both = _through_the_firewall(seed)
    yield "inside", np.concatenate([both, _scan(seed)])
    later = both.copy()
    later["stamp"] += _FIREWALL + ((both["stamp"] - BEGIN) * DRIFT).astype(np.int64)
    yield "outside", later
    yield "servers", _lookups(seed)


def write_story(out: Path, seed: int = 1) -> list[GeneratedCapture]:
    """Writes the dataset: two captures of five minutes for each link, `<link>/<link>_%Y%m%dT%H%M%SZ.pcap`.

    The incidents: 10.0.0.77 scans on `inside`; 198.18.0.54 answers slowly on `servers` from 12:06; the clock of
    `outside` gains 15 ms a minute; the first capture of `servers` breaks off at 12:04:10, inside a record.

    Args:
        out: output folder, created if missing.
        seed: seed of all random numbers, from 0.

    Returns:
        The written files, link by link, in the order of time.

    Raises:
        ConfigError: if the seed is below 0.
    """
    require_seed(seed)
    written = []
    for name, packets in _seen(seed):
        packets = packets[np.argsort(packets["stamp"], kind="stable")]
        for begin in range(BEGIN, BEGIN + MINUTES * MINUTE, FILE_MINUTES * MINUTE):
            cut = name == "servers" and begin == BEGIN
            written.append(_story_write(out, name, packets, begin, begin + FILE_MINUTES * MINUTE, cut))
    return written


def _story_write(out: Path, link: str, packets: NDArray[np.void], begin: int, end: int, cut: bool) -> GeneratedCapture:
    """Writes one capture.

    Args:
        begin: begin of the file, us since the epoch, on the link's clock.
        end: its end, exclusive.
        cut: whether the file breaks off at CUT_AT.
    """
    path = out / link / datetime.fromtimestamp(begin / 1_000_000, UTC).strftime(f"{link}_%Y%m%dT%H%M%SZ.pcap")
    path.parent.mkdir(parents=True, exist_ok=True)
    until = begin + CUT_AT if cut else end
    with path.open("wb") as file:
        output = Output(file, 0)
        output.write(packets[(packets["stamp"] >= begin) & (packets["stamp"] < until)])
        was_cut = cut and output.cut()
    size = path.stat().st_size
    return GeneratedCapture(link, path, begin * 1000, end * 1000, output.packets, output.violations, was_cut, size)
