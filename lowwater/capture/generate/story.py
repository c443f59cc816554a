"""A small dataset with four incidents: ten minutes of three links, as the tutorial reads them.

Beside `writer`, on the same flows and frames. `inside` and `outside` are the two sides of a firewall, `servers` is the
network of the DNS servers. The incidents do not depend on the seed; the traffic around them does.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lowwater.capture.generate import flows
from lowwater.capture.generate.flows import DNS, MINUTE, PACKET, TCP
from lowwater.capture.generate.writer import GeneratedCapture, Output, require_seed

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
    """Draws the questions and answers of the DNS servers."""
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
            written.append(_write(out, name, packets, begin, begin + FILE_MINUTES * MINUTE, cut))
    return written


def _write(out: Path, link: str, packets: NDArray[np.void], begin: int, end: int, cut: bool) -> GeneratedCapture:
    """Writes one capture.

    Args:
        out: folder of the captures.
        link: name of the link.
        packets: its packets in the order of time.
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
