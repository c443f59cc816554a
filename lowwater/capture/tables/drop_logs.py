"""Logs of Zeek that hold no records of a link, and say what Zeek did not see: `capture_loss`, `stats`, `reporter`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from lowwater.capture.formats.sources import DecompressedSource, PeekableSource, Source, compression_of, open_source
from lowwater.capture.records.drops import ZEEK_STATS, DeclaredDrops, Drops
from lowwater.capture.tables.blocks import TextBlocks
from lowwater.capture.tables.statistics import TELLING, Told, ToldDrops, instant_of, told

_NAME = re.compile(rf"(?:^|[-._])(?P<kind>{'|'.join(TELLING['zeek'])})(?=[-._]).*(?:log|json)")


def kind_of(name: str) -> str:
    """Returns the type of the records of a log of Zeek that tell drops, by the name of its file; empty for another.

    Example:
        >>> kind_of("capture_loss.13:00:00-14:00:00.log.gz"), kind_of("conn.log")
        ('capture_loss', '')
    """
    found = _NAME.search(name)
    return found["kind"] if found else ""


def drops_of_log(path: Path) -> DeclaredDrops:
    """Reads what such a log tells, with both instants of each. Where a record has none, those of its log stand for it.
    Raises CaptureError or OSError if it cannot be read."""
    collected, opening = ToldDrops(), dict[str, Drops | None]()  # peer -> its first statistics, until the second ones
    first, last = None, None
    for kind, event in _events(path):
        if stamp := instant_of(event.get("ts")):
            first, last = min(stamp, first or stamp), max(stamp, last or stamp)
        if (found := told("zeek", kind, event)) is None:
            continue
        peer, tells = found
        if isinstance(tells, Drops) and tells.source == ZEEK_STATS and tells.end:
            if peer not in opening:
                opening[peer] = tells
                continue
            if (before := opening[peer]) is not None and before.end:
                # the record before that one is in another log: as long before it as this one is behind it
                collected.add([Told(peer, replace(before, start=max(2 * before.end - tells.end, 0)))])
                opening[peer] = None
        collected.add([found])
    collected.add(Told(peer, alone) for peer, alone in opening.items() if alone is not None)
    if first is None or last is None:
        return DeclaredDrops()
    ranges = ((each, last if each.end is None else each.end) for each in collected.drops().ranges)
    return DeclaredDrops(
        tuple(
            replace(each, start=min(first, end) if each.start is None else each.start, end=end) for each, end in ranges
        )
    )


def _events(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields the records that may tell, with their type: by `#path` or `_path`, else by the name of the file."""
    separator, names = "\t", list[str]()
    kind = named = kind_of(path.name)
    for line in _lines(path):
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if text.startswith("#separator "):
            separator = (
                re.sub(r"\\x([0-9a-fA-F]{2})", lambda code: chr(int(code[1], 16)), text.partition(" ")[2]) or "\t"
            )
        elif text.startswith("#"):
            word, *values = text[1:].split(separator)
            if word == "path":
                kind = values[0] if values else named
            names = values if word == "fields" else names
        elif text.startswith("{"):
            try:
                event = json.loads(text, parse_float=Decimal)
            except (ValueError, RecursionError):
                continue
            if (of := event.get("_path", named)) in TELLING["zeek"]:
                yield of, event
        elif kind in TELLING["zeek"]:
            yield kind, dict(zip(names, text.split(separator), strict=False))


def _lines(path: Path) -> Iterator[bytes]:
    _, stream = open_source(path)
    peekable = PeekableSource(stream)
    with closing(peekable):
        packed = compression_of(peekable.peek(32))
        source: Source = DecompressedSource(peekable, hashed=False) if packed else peekable
        with closing(source):
            for block in TextBlocks(source):
                yield from (block.record(at) for at in range(len(block)))
