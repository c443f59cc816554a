"""Texts and JSON of the values that `lowwater inspect` shows: instants, durations, rates, order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lowwater.capture.inspect import QUANTILES, CaptureFacts, InterfaceFacts
from lowwater.instants import format_duration, format_instant


def instant_text(value: int | None) -> str:
    """Formats an instant (ns); a dash for none."""
    return "-" if value is None else format_instant(value)


def duration_text(value: int | None) -> str:
    """Formats a duration (ns) in the largest unit in which it is at least 1."""
    if value is None:
        return "-"
    for size, unit in ((3_600_000_000_000, "h"), (1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")):
        if value >= size:
            return f"{value / size:,.6g} {unit}"
    return f"{value} ns" if value else "0 s"


def rate_text(value: float | None) -> str:
    """Formats an amount per second; a dash for none."""
    return "-" if value is None else f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"


def counts_text(counts: Iterable[tuple[str, int]]) -> str:
    """Formats counts by name, sorted; 0 for none."""
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts)) or "0"


def gap_texts(facts: InterfaceFacts) -> list[str]:
    """Formats the longest gaps between records, the longest first."""
    return [f"{duration_text(length)} from {instant_text(start)}" for start, length in facts.gaps.longest()]


def gaps(facts: InterfaceFacts) -> list[dict[str, Any]]:
    """Returns the longest gaps between records as JSON, the longest first."""
    return [{"start": instant_twice(start), "length": duration_twice(length)} for start, length in facts.gaps.longest()]


def file_entry(facts: CaptureFacts) -> dict[str, Any]:
    """Returns what the JSON says of every file that was read: its name, form and bytes, and how it ended."""
    summary = facts.summary
    return {
        "file": str(facts.path),
        "error": None,
        "format": summary.format,
        "compression": summary.compression,
        "sha256": summary.sha256,
        "bytes": {
            "file": summary.bytes,
            "unpacked": summary.unpacked,
            "skipped": summary.skipped,
            "records": summary.record_bytes,
            "malformed": facts.malformed_bytes,
            "overhead": summary.overhead,
            "accounted": facts.accounted,
        },
        "ended_cleanly": summary.ended_cleanly,
        "damage": summary.damage,
    }


def order(facts: InterfaceFacts) -> dict[str, Any]:
    """Returns the order of records as JSON."""
    lateness = facts.lateness
    quantiles = {quantile_name(share): duration_twice(lateness.quantile(share)) for share in QUANTILES}
    return {
        "strict": not lateness.late,
        "out_of_order": lateness.late,
        "refused": lateness.refused,
        "lateness": {**quantiles, "max": duration_twice(lateness.largest if facts.packets else None)},
    }


def quantile_name(share: float) -> str:
    """Names a quantile as a key of JSON."""
    return f"p{100 * share:g}".replace(".", "_")


def instant_twice(value: int | None) -> dict[str, Any] | None:
    """Returns an instant (ns) as JSON, as a number and as text."""
    return None if value is None else {"ns": value, "iso": format_instant(value)}


def duration_twice(value: int | None) -> dict[str, Any] | None:
    """Returns a duration (ns) as JSON, as a number and as text."""
    return None if value is None else {"ns": value, "text": format_duration(value)}
