"""Drops that logs of tools declare among their records (SEMANTICS A1): Suricata's events `stats`, and Zeek's logs
`stats`, `capture_loss` and `reporter`, joined with others or not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from lowwater.capture.records.drops import (
    BELIEVED,
    SURICATA,
    ZEEK_LOSS,
    ZEEK_REPORTER,
    ZEEK_STATS,
    CounterLog,
    DeclaredDrops,
    Drops,
    DropTally,
    Reading,
)
from lowwater.capture.records.sanity import END_OF_TIME
from lowwater.instants import SECOND

TELLING = {"suricata": ("stats",), "zeek": ("stats", "capture_loss", "reporter")}
"""Tool -> types of its records that tell drops."""

_DROPPED = (
    re.compile(r"\b(?P<seen>\d{1,14}) packets received on interface \S+, (?P<lost>\d{1,14}) "),
    re.compile(r"\b(?P<lost>\d{1,14}) packets dropped after filtering, (?P<seen>\d{1,14}) received"),
)
"""What Zeek reports of the packets that it did not get."""


class Told(NamedTuple):
    """What one record tells: a reading of a counter, or drops; of `peer`, one of the processes of a tool."""

    peer: str
    tells: Reading | Drops


def told(tool: str, kind: str, event: Mapping[str, Any]) -> Told | None:
    """Returns what a record of a tool tells of drops; None for nothing. Numbers may be texts."""
    if tool == "suricata":
        return _suricata(event)
    stamp, peer = instant_of(event.get("ts")), str(event.get("peer") or "")
    if kind == "capture_loss":
        lost, seen, length = (_count(event.get(name)) for name in ("gaps", "acks", "ts_delta"))
        if stamp is None or lost is None:
            return None
        start = None if length is None else max(stamp - length * SECOND, 0)
        return Told(peer, Drops(start, stamp, lost, ZEEK_LOSS, seen or 0))
    if kind == "stats":
        lost, seen = _count(event.get("pkts_dropped")), _count(event.get("pkts_proc"))
        return None if lost is None else Told(peer, Drops(None, stamp, lost, ZEEK_STATS, (seen or 0) + lost))
    said = next((found for each in _DROPPED if (found := each.search(str(event.get("message"))))), None)
    if said is None:
        return None
    return Told(peer, Drops(None, stamp or None, int(said["lost"]), ZEEK_REPORTER, int(said["seen"])))


def _suricata(event: Mapping[str, Any]) -> Told | None:
    stats = event.get("stats")
    capture = stats.get("capture") if isinstance(stats, dict) else None
    if not isinstance(stats, dict) or not isinstance(capture, dict):
        return None
    counts = {count for name in ("kernel_drops", "kernel_ifdrops") if (count := _count(capture.get(name))) is not None}
    if not counts:
        return None
    stamp, running = instant_of(event.get("timestamp")), _count(stats.get("uptime"))
    since = None
    if stamp is not None and running is not None:  # it has whole seconds, of the clock at the event
        since = max(stamp // SECOND - running, 0) * SECOND
    return Told("", Reading(sum(counts), stamp, since, received=_count(capture.get("kernel_packets"))))


def _count(value: Any) -> int | None:
    """Returns a number of packets, or of seconds; None for what is none."""
    try:
        number = None if isinstance(value, bool) or value is None else int(Decimal(str(value)))
    except (InvalidOperation, ValueError, OverflowError):
        return None
    return number if number is not None and 0 <= number < BELIEVED else None


def instant_of(value: Any) -> int | None:
    """Returns an instant, ns, of seconds since the epoch or of ISO 8601; None for what is none."""
    text = str(value)
    try:
        if "T" not in text:
            stamp = int(Decimal(text) * SECOND)
        else:
            at = datetime.fromisoformat(text)
            at = at if at.tzinfo else at.replace(tzinfo=UTC)
            stamp = int(at.timestamp()) * SECOND + at.microsecond * 1000
    except (InvalidOperation, ValueError, OverflowError):
        return None
    return stamp if 0 <= stamp < END_OF_TIME else None


class ToldDrops:
    """Collects what the records of a file tell, in its order."""

    def __init__(self) -> None:
        self._tallies: dict[str, DropTally] = {}
        self._log = CounterLog("", self._tally(SURICATA))
        self._last: dict[str, int | None] = {}  # peer -> instant of its statistics before

    def add(self, found: Iterable[Told]) -> None:
        """Adds what the next records tell."""
        for peer, tells in found:
            if isinstance(tells, Reading):
                self._log.read(tells)
                continue
            start = tells.start
            if tells.source == ZEEK_STATS:  # it counts since its record before
                start, self._last[peer] = self._last.get(peer) if start is None else start, tells.end
            drops = Drops(start, tells.end, tells.count, tells.source, tells.whole)
            self._tally(tells.source).put([drops])

    def drops(self) -> DeclaredDrops:
        """Returns what they tell."""
        ranges = (each for tally in self._tallies.values() for each in tally.ranges())
        counter = self._log.counter()
        return DeclaredDrops(tuple(ranges), () if counter is None else (counter,))

    def _tally(self, source: str) -> DropTally:
        if source not in self._tallies:
            self._tallies[source] = DropTally(source)
        return self._tallies[source]
