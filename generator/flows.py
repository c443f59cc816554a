"""Flows and their packets: endpoints, times and sizes.

First step of `generate`: a table of flows, then a table of packets. `frames` writes their bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

HTTP, TCP, UDP, DNS, ECHO, ARP = range(6)
"""Kinds of flow."""

MINUTE = 60_000_000
LONGEST = 2 * MINUTE
"""Microseconds. No flow lasts longer than LONGEST."""

HOSTS = 64
"""Number of host names in DNS and HTTP requests."""

_SHARED_FIELDS = [
    ("client_seq", np.int64),
    ("server_seq", np.int64),
    ("client", np.int32),  # index of an address
    ("server", np.int32),
    ("sport", np.int32),  # of the client
    ("dport", np.int32),
    ("count", np.int32),  # packets
    ("size", np.int32),  # payload bytes of a data packet on the wire
    ("ident", np.int32),
    ("kind", np.uint8),
    ("v6", np.uint8),
    ("host", np.uint8),
]
# `start` is true time, microseconds since the epoch; `span` is in microseconds too.
FLOW = np.dtype([*_SHARED_FIELDS, ("start", np.int64), ("span", np.int64)])
# Whole rows are sorted and copied, so they are as narrow as their values allow.
PACKET = np.dtype([("stamp", np.int64), ("key", np.int64), ("number", np.int32), *_SHARED_FIELDS])
"""A packet: the fields of its flow, its number in it, timestamp on the link's clock and order key in the file (us)."""

_HANDSHAKE = 4  # SYN, SYN-ACK, ACK and the request
_FINISH = 2
_GRID = 4096


def _pareto(shape: float, largest: int) -> NDArray[np.int64]:
    """Returns quantiles of a Pareto distribution on [1, largest]: a sample is a lookup, and the mean is known."""
    at = (np.arange(_GRID) + 0.5) / _GRID
    values: NDArray[np.float64] = (1 - at * (1 - float(largest) ** -shape)) ** (-1 / shape)
    return np.floor(values).astype(np.int64)


_EXCHANGES = _pareto(1.1, 4000)
_DATAGRAMS = _pareto(1.3, 500)
_CLIENTS, _SERVERS = 8192, 1024
_TCP_PORTS = np.array([443, 443, 443, 8000, 40010, 40022])
_UDP_PORTS = np.array([40001, 40002, 40003])


@dataclass(frozen=True)
class Mix:
    """Shares of the kinds of flow, in the order of the kinds; they add up to 1."""

    shares: tuple[float, ...]

    @property
    def packets_per_flow(self) -> float:
        means = (6 + _EXCHANGES.mean(), 6 + _EXCHANGES.mean(), _DATAGRAMS.mean(), 2.0, 2 * _ECHOES.mean(), 2.0)
        return float(sum(share * mean for share, mean in zip(self.shares, means, strict=True)))


_ECHOES = np.array([1, 2, 4, 4])
BUSY = Mix((0.25, 0.30, 0.12, 0.25, 0.05, 0.03))
QUIET = Mix((0.0, 0.0, 0.0, 0.3, 0.5, 0.2))


def _zipf(random: np.random.Generator, size: int, count: int) -> NDArray[np.int64]:
    """Draws indices below `size`, the first ones by far the most frequent."""
    ranks = np.cumsum(1 / np.arange(1, size + 1))
    indices: NDArray[np.int64] = np.searchsorted(ranks, random.random(count) * ranks[-1])
    return indices


def flows_of_minute(random: np.random.Generator, minute: int, rate: float, mix: Mix) -> NDArray[np.void]:
    """Draws the flows that start in a minute. Returns an array of FLOW.

    Args:
        minute: number of the minute since the epoch.
        rate: packets per second on average.
        mix: shares of the kinds.
    """
    count = int(random.poisson(rate * 60 / mix.packets_per_flow))
    flows = np.zeros(count, FLOW)
    kind = np.searchsorted(np.cumsum(mix.shares), random.random(count), side="right").clip(0, ARP)
    flows["kind"] = kind
    flows["v6"] = (random.random(count) < 0.15) & (kind != ARP)
    flows["client"] = _zipf(random, _CLIENTS, count)
    flows["server"] = _zipf(random, _SERVERS, count)
    flows["host"] = flows["server"] % HOSTS
    flows["sport"] = random.integers(49152, 65536, count)
    tcp_port = _TCP_PORTS[random.integers(0, len(_TCP_PORTS), count)]
    udp_port = _UDP_PORTS[random.integers(0, len(_UDP_PORTS), count)]
    flows["dport"] = np.select([kind == HTTP, kind == TCP, kind == UDP, kind == DNS], [80, tcp_port, udp_port, 53], 0)
    exchanges = _EXCHANGES[random.integers(0, _GRID, count)] + _HANDSHAKE + _FINISH
    datagrams = _DATAGRAMS[random.integers(0, _GRID, count)]
    echoes = 2 * _ECHOES[random.integers(0, len(_ECHOES), count)]
    flows["count"] = np.select([kind <= TCP, kind == UDP, kind == ECHO], [exchanges, datagrams, echoes], 2)
    flows["size"] = np.where(random.random(count) < 0.6, 1448, random.integers(64, 1448, count))
    for name, bits in (("client_seq", 32), ("server_seq", 32), ("ident", 16)):
        flows[name] = random.integers(0, 1 << bits, count)
    flows["start"] = minute * MINUTE + random.integers(0, MINUTE, count)
    pace = random.integers(500, 60_000, count)
    flows["span"] = np.minimum(flows["count"] * pace, LONGEST - 1)
    return flows


def packets_of(random: np.random.Generator, flows: NDArray[np.void]) -> NDArray[np.void]:
    """Draws the packets of flows, in no order. `stamp` is true time and rises with the number; `key` is not set."""
    counts = flows["count"]
    which = np.repeat(np.arange(len(flows)), counts)
    packets = np.zeros(len(which), PACKET)
    for name, _ in _SHARED_FIELDS:
        packets[name] = flows[name][which]
    number = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
    packets["number"] = number
    place = (number + random.random(len(which))) / packets["count"]
    packets["stamp"] = flows["start"][which] + (flows["span"][which] * place).astype(np.int64)
    return packets
