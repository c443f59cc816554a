"""The facts of captures as one JSON document (docs/inspect.schema.json) and as rows of a CSV file.

Below `cli.inspect`. Every instant and duration is there twice: in nanoseconds, and as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lowwater.capture.headers.tunnels import NAMES
from lowwater.capture.inspect import QUANTILES, CaptureFacts, InterfaceFacts
from lowwater.capture.records.lateness import QUANTILE_ERROR
from lowwater.errors import LowwaterError
from lowwater.instants import format_duration, format_instant

FAMILIES = {4: "ipv4", 6: "ipv6"}


@dataclass(frozen=True)
class Inspected:
    """What became of one file: its facts, or why there are none."""

    path: Path
    facts: CaptureFacts | None = None
    error: LowwaterError | None = None


def document(captures: list[Inspected], max_jump: int, skew: int) -> dict[str, Any]:
    """The JSON document of `--format json`."""
    settings = {"max_jump": _duration(max_jump), "skew": _duration(skew), "quantile_error": QUANTILE_ERROR}
    return {"settings": settings, "captures": [_capture(each) for each in captures]}


def _capture(each: Inspected) -> dict[str, Any]:
    if each.facts is None:
        message, hint = (each.error.message, each.error.hint) if each.error else ("", "")
        return {"file": str(each.path), "error": {"message": message, "hint": hint}}
    facts, summary = each.facts, each.facts.summary
    sizes = {
        "file": summary.bytes,
        "unpacked": summary.unpacked,
        "skipped": summary.skipped,
        "records": summary.record_bytes,
        "malformed": facts.malformed_bytes,
        "overhead": summary.overhead,
        "accounted": facts.accounted,
    }
    return {
        "file": str(each.path),
        "error": None,
        "format": summary.format,
        "compression": summary.compression,
        "sha256": summary.sha256,
        "bytes": sizes,
        "ended_cleanly": summary.ended_cleanly,
        "damage": summary.damage,
        "blocks": dict(summary.blocks),
        "interfaces": [_interface(interface) for interface in facts.interfaces],
    }


def _interface(facts: InterfaceFacts) -> dict[str, Any]:
    interface, summary = facts.interface, facts.summary
    instants = {name: getattr(summary, name) for name in ("first", "last", "smallest", "largest")}
    return {
        "index": interface.index,
        "name": interface.name,
        "link_type": interface.link_type,
        "link_number": interface.link_number,
        "snaplen": interface.snaplen,
        "packets": facts.packets,
        "undecoded": summary.undecoded if summary else 0,
        "malformed": dict(sorted(facts.malformed.items())),
        **{name: _instant(value) for name, value in instants.items()},
        "duration": _duration(facts.duration),
        "packets_per_second": facts.rate(facts.packets),
        "bits_per_second": facts.rate(8 * facts.wire),
        "bytes_captured": facts.captured,
        "bytes_on_wire": facts.wire,
        "truncated": facts.truncated,
        "order": _order(facts),
        "gaps": [{"start": _instant(start), "length": _duration(length)} for start, length in facts.gaps.longest()],
        "ip": {name: facts.families[version] for version, name in FAMILIES.items()},
        "protocols": {name: facts.protocols[name] for name in ("tcp", "udp", "icmp", "arp", "other")},
        "vlans": [{"vlan_id": vlan, "packets": count} for vlan, count in sorted(facts.vlans.items())],
        "tunnels": [
            {"tunnel": number, "name": NAMES[number], "packets": count}
            for number, count in sorted(facts.tunnels.items())
        ],
    }


def _order(facts: InterfaceFacts) -> dict[str, Any]:
    lateness = facts.lateness
    quantiles = {_name(share): _duration(lateness.quantile(share)) for share in QUANTILES}
    return {
        "strict": not lateness.late,
        "out_of_order": lateness.late,
        "refused": lateness.refused,
        "lateness": {**quantiles, "max": _duration(lateness.largest if facts.packets else None)},
    }


def _name(share: float) -> str:
    return f"p{100 * share:g}".replace(".", "_")


def _instant(value: int | None) -> dict[str, Any] | None:
    return None if value is None else {"ns": value, "iso": format_instant(value)}


def _duration(value: int | None) -> dict[str, Any] | None:
    return None if value is None else {"ns": value, "text": format_duration(value)}


def rows(captures: list[Inspected], max_jump: int, skew: int) -> Iterator[list[Any]]:
    """The document as a table: the names of its columns, then a row an interface, or a row a file with an error."""
    yield list(_COLUMNS)
    for capture in document(captures, max_jump, skew)["captures"]:
        for interface in capture.get("interfaces", [{}]):
            tree = {"capture": capture, **interface}
            yield [_cell(tree, path) for path in _COLUMNS.values()]


_INSTANTS = ("first", "last", "smallest", "largest")
_DURATIONS = {"duration": "duration"} | {
    f"lateness_{name}": f"order.lateness.{name}" for name in (*map(_name, QUANTILES), "max")
}
_COLUMNS = {
    "file": "capture.file",
    "error": "capture.error.message",
    **{name: f"capture.{name}" for name in ("format", "compression", "sha256", "ended_cleanly", "damage")},
    **{f"bytes_{name}": f"capture.bytes.{name}" for name in ("file", "unpacked", "records", "malformed", "overhead")},
    "interface": "index",
    **{name: name for name in ("name", "link_type", "link_number", "snaplen", "packets", "undecoded", "malformed")},
    **{f"{name}_ns": f"{name}.ns" for name in _INSTANTS},
    **{name: f"{name}.iso" for name in _INSTANTS},
    **{f"{name}_ns": f"{path}.ns" for name, path in _DURATIONS.items()},
    **{name: name for name in ("packets_per_second", "bits_per_second", "bytes_captured", "bytes_on_wire")},
    "truncated": "truncated",
    "out_of_order": "order.out_of_order",
    "refused": "order.refused",
    **{name: f"ip.{name}" for name in FAMILIES.values()},
    **{name: f"protocols.{name}" for name in ("tcp", "udp", "icmp", "arp", "other")},
    "vlans": "vlans",
    "tunnels": "tunnels",
    "gaps": "gaps",
}
"""Columns of the CSV file, and where each is in the document."""


def _cell(tree: Any, path: str) -> Any:
    for name in path.split("."):
        tree = tree.get(name) if isinstance(tree, Mapping) else None
    if path == "gaps":
        return " ".join(f"{gap['start']['iso']}+{gap['length']['text']}" for gap in tree or ())
    if isinstance(tree, Mapping):
        return " ".join(f"{name}={count}" for name, count in tree.items())
    if isinstance(tree, list):
        return " ".join(f"{next(iter(each.values()))}={each['packets']}" for each in tree)
    return str(tree).lower() if isinstance(tree, bool) else tree
