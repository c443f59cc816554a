"""Doubts about the times of a capture: sub-seconds in another unit than the file says, and clocks that jump by years.

`inspect`, `init`, `ingest`, `run` and the audit say them. Nothing is corrected unless the setting `resolution` says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lowwater.instants import HOUR, SECOND, format_instant

if TYPE_CHECKING:
    from lowwater.capture.inspect import CaptureFacts

YEAR = 365 * 24 * HOUR
_DAY = 24 * HOUR
_LEAST = 100
"""Fewest records whose sub-seconds, all below a thousandth, are no chance."""


@dataclass(frozen=True)
class Doubt:
    """A doubt about the times of a capture.

    Attributes:
        words: what is seen.
        resolution: value of the setting `resolution` that reads the file otherwise; empty if none does.
        impossible: whether the file cannot be right as it is.
    """

    words: str
    resolution: str = ""
    impossible: bool = False


def subsecond_words(count: int, records: int) -> str:
    """Says how many sub-seconds of a file, or of an interval, exceed a second; empty for none.

    Example:
        >>> subsecond_words(3, 1000)
        '3 of 1,000 sub-seconds exceed a second'
        >>> subsecond_words(998, 1000)
        '998 of 1,000 sub-seconds exceed a second: these look like nanoseconds (resolution = "nanoseconds" of the link)'
    """
    if not count:
        return ""
    words = f"{count:,} of {records:,} sub-seconds exceed a second"
    return f"{words}: {_look_like('nanoseconds')}" if 2 * count >= records else words


def doubts(facts: CaptureFacts) -> list[Doubt]:
    """Lists the doubts about a capture, the impossible first."""
    found: list[Doubt] = []
    records = sum(interface.packets + sum(interface.malformed.values()) for interface in facts.interfaces)
    parts = sum(interface.malformed["sub-second"] for interface in facts.interfaces)
    if parts:
        likely = 2 * parts >= records
        found.append(Doubt(subsecond_words(parts, records), "nanoseconds" if likely else "", likely))
    beyond = sum(interface.malformed["time-range"] for interface in facts.interfaces)
    if facts.resolution == "us" and facts.summary.format == "pcapng" and 2 * beyond >= records > 0:
        words = f"{beyond:,} of {records:,} times are out of range: {_look_like('nanoseconds')}"
        found.append(Doubt(words, "nanoseconds", True))
    if facts.resolution == "ns":
        found += _finer(facts)
    for interface in facts.interfaces:
        for start, length in sorted(interface.gaps.longest()):
            if length >= YEAR:
                years = f"{length / YEAR:.1f}".removesuffix(".0")
                bounds = f"from {format_instant(start)} to {format_instant(start + length)}"
                found.append(Doubt(f"its clock jumps by {years} years, {bounds}: was it not set before?"))
    return found


def _finer(facts: CaptureFacts) -> list[Doubt]:
    """Lists doubts about a file that says nanoseconds and may have microseconds."""
    packets = facts.summary.packets
    bounds = [part.summary for part in facts.interfaces if part.summary and part.summary.smallest is not None]
    if facts.summary.format == "pcap":
        part = max((interface.largest_part or 0 for interface in facts.interfaces), default=0)
        if packets >= _LEAST and 0 < part < SECOND // 1000:
            words = f"all {packets:,} sub-seconds are below a millisecond: {_look_like('microseconds')}"
            return [Doubt(words, "microseconds")]
    elif facts.summary.format == "pcapng" and bounds:
        first, last = min(bound.smallest or 0 for bound in bounds), max(bound.largest or 0 for bound in bounds)
        if first >= _DAY * 10 and last < _DAY * 50:  # 1997 to 2106, in microseconds that are taken for nanoseconds
            words = f"its times begin at {format_instant(first)}, in microseconds at {format_instant(first * 1000)}"
            return [Doubt(f"{words}: {_look_like('microseconds')}", "microseconds")]
    return []


def _look_like(unit: str) -> str:
    return f'these look like {unit} (resolution = "{unit}" of the link)'
