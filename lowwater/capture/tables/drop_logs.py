"""Logs of Zeek that hold no records of a link, and say what Zeek did not see: `capture_loss`, `stats`, `reporter`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from lowwater.capture.formats.sources import DecompressedSource, PeekableSource, Source, compression_of, open_source
from lowwater.capture.records.drops import DeclaredDrops
from lowwater.capture.tables.blocks import TextBlocks
from lowwater.capture.tables.statistics import TELLING, ToldDrops, instant_of, told


def kind_of(name: str) -> str:
    """Returns the type of the records of a log of Zeek that tell drops, by the name of its file; empty for another.

    Example:
        >>> kind_of("capture_loss.13:00:00-14:00:00.log.gz"), kind_of("conn.log")
        ('capture_loss', '')
    """
    kind = name.partition(".")[0]
    return kind if kind in TELLING["zeek"] and ".log" in name else ""


def drops_of_log(path: Path) -> DeclaredDrops:
    """Reads what such a log tells. Where a record has no time, the times of the others of its log stand for it.
    Raises CaptureError or OSError if it cannot be read."""
    kind, collected, names = kind_of(path.name), ToldDrops(), list[str]()
    first, last = None, None
    for line in _lines(path):
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if text.startswith("#"):
            word, *rest = text[1:].split("\t")
            names = rest if word == "fields" else names
            continue
        event: Any = dict(zip(names, text.split("\t"), strict=False))
        if text.startswith("{"):
            try:
                event = json.loads(text, parse_float=Decimal)
            except (ValueError, RecursionError):
                continue
        found = told("zeek", kind, event)
        collected.add(() if found is None else (found,))
        if stamp := instant_of(event.get("ts")):
            first, last = min(stamp, first or stamp), max(stamp, last or stamp)
    return DeclaredDrops(
        tuple(
            replace(
                each, start=min(first, each.end or last) if each.start is None else each.start, end=each.end or last
            )
            for each in collected.drops().ranges
            if first is not None and last is not None
        )
    )


def _lines(path: Path) -> Iterator[bytes]:
    _, stream = open_source(path)
    source: Source = PeekableSource(stream)
    with closing(source):
        if compression_of(source.peek(32)):
            source = DecompressedSource(source, hashed=False)
        with closing(source):
            for block in TextBlocks(source):
                yield from (block.record(at) for at in range(len(block)))
