"""Finds which tool wrote a log, and which ready protocol reads it, from a sample of the file.

Beside `tables`, which describes files that no ready protocol reads.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lowwater.capture.tables.logs import belongs
from lowwater.capture.tables.sections import type_name
from lowwater.capture.tables.sniffing.columns import sample_text
from lowwater.catalog.logs import READY
from lowwater.catalog.records import RecordLayout
from lowwater.errors import CaptureError

_LINES = 1000
"""Most lines of a sample that are looked at."""

_LONGEST = 1 << 16
"""Longest line that is looked at, bytes."""

_KNOWN = 0.75
"""Least share of the members of an object that a protocol of Zeek knows: a log of another type shares the flow."""

_HINT = "leave it out, or describe its columns in a PROTOCOL block, as docs/records.md shows"


@dataclass(frozen=True)
class SniffedLog:
    """A log that a ready protocol reads.

    Attributes:
        kind: kind of its link: `zeek`, `suricata` or `nfdump`.
        protocol: name of the ready protocol.
        others: ready protocols of further records of the sample -> number of these records.
    """

    kind: str
    protocol: str
    others: Mapping[str, int]

    @property
    def layout(self) -> RecordLayout:
        """The fields of its records."""
        return _layout(self.protocol)


def sniff_log(path: Path) -> SniffedLog | None:
    """Finds the ready protocol of a log; None if the file is no log of a tool.

    Raises:
        CaptureError: the file cannot be read, or its tool has no ready protocol for this log.
    """
    sample = sample_text(path)
    lines = [line.strip() for piece in sample.pieces for line in piece.split(b"\n")[: _LINES // len(sample.pieces)]]
    lines = [line.removeprefix(b"\xef\xbb\xbf") for line in lines if 0 < len(line) <= _LONGEST]
    if not lines:
        return None
    if lines[0].startswith((b"#separator ", b"#fields")):
        return _zeek_text(path, lines)
    if lines[0].startswith(b"{"):
        objects = list(_objects(lines))
        return _suricata(path, objects) or _zeek_json(objects)
    return _nfdump(lines)


def _layout(protocol: str) -> RecordLayout:
    layout = READY[protocol].layout
    assert layout is not None
    return layout


def _of_kind(kind: str) -> dict[str, str]:
    """Returns the type of log of each ready protocol of a tool."""
    return {name: _layout(name).member for name, protocol in READY.items() if protocol.kind == kind}


def _log(kind: str, counts: Mapping[str, int]) -> SniffedLog:
    """Returns the log of a tool by the numbers of records of each protocol; that of the most is read."""
    ordered = sorted(counts, key=lambda name: -counts[name])
    return SniffedLog(kind, ordered[0], {name: counts[name] for name in ordered[1:]})


def _zeek_text(path: Path, lines: Sequence[bytes]) -> SniffedLog:
    words = len("#path ")  # whatever the separator
    paths = [line[words:].decode("utf-8", "replace") for line in lines if line.startswith(b"#path")]
    members = _of_kind("zeek")
    counts = Counter(name for said in paths for name, member in members.items() if said and belongs(said, member))
    if counts:
        return _log("zeek", counts)
    said = f"the log {paths[0][:60]!r} of Zeek" if paths else "a log of Zeek without a line #path"
    raise CaptureError(f"{path}: is {said}; ready are {', '.join(members)}", _HINT)


def _objects(lines: Iterable[bytes]) -> Iterable[dict[str, Any]]:
    for line in lines:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def _suricata(path: Path, objects: Sequence[Mapping[str, Any]]) -> SniffedLog | None:
    types = Counter(str(value["event_type"]) for value in objects if {"event_type", "timestamp"} <= value.keys())
    if not types or types.total() * 2 < len(objects):
        return None
    members = _of_kind("suricata")
    counts = {name: types[member] for name, member in members.items() if types[member]}
    if not counts:
        seen = ", ".join(type_name(kind) for kind in sorted(types)[:10])
        raise CaptureError(
            f"{path}: is an EVE log of Suricata with events {seen}; ready are {', '.join(members)}", _HINT
        )
    return _log("suricata", counts)


def _zeek_json(objects: Sequence[Mapping[str, Any]]) -> SniffedLog | None:
    """Returns the Zeek log whose fields are those of the objects; None if no log has nearly all of them."""
    members = Counter(name for value in objects for name in value if name != "_path")
    flows = members["ts"] * 2 > len(objects) and members["uid"] * 2 > len(objects)
    if not flows or not (members["id.orig_h"] or members["id"]):
        return None
    said = Counter(str(value["_path"]) for value in objects if "_path" in value)
    counts = {name: count for name, kind in _of_kind("zeek").items() if (count := said[kind])}
    if counts:
        return _log("zeek", counts)
    if said:
        return None
    known = {
        name: {".".join(path) for field in _layout(name).fields for path in (field.path, *field.others)} | {"id"}
        for name in _of_kind("zeek")
    }
    shares = {name: sum(members[member] for member in names) / members.total() for name, names in known.items()}
    best = max(shares, key=lambda name: shares[name])
    return SniffedLog("zeek", best, {}) if shares[best] >= _KNOWN else None


def _nfdump(lines: Sequence[bytes]) -> SniffedLog | None:
    """Returns the protocol of nfdump if the first line is its header: the clock and an address, by its names."""
    names = {name.strip() for name in lines[0].decode("utf-8", "replace").split(",")}
    fields = {field.name: {path[0] for path in (field.path, *field.others)} for field in _layout("NFDUMP").fields}
    needed = (fields["timestamp"], fields["srcIP"] | fields["destIP"], fields["ipkt"] | fields["ibyt"])
    return SniffedLog("nfdump", "NFDUMP", {}) if all(names & few for few in needed) else None
