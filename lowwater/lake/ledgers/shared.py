"""Captures that several links have: a query over these links counts each of their packets several times.

Between the ledger of captures and whoever tells it: ingest, status, report and the audit. Copies of single packets are
found by `lake.copies`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations

import pyarrow as pa

from lowwater.lake.datasets import pads
from lowwater.lake.layout import CAPTURES, Lake
from lowwater.lake.ledgers.captures import Capture, Captures, ingested_links, read_captures
from lowwater.lake.tables import read_rows

_SHOWN = 3
_COLUMNS = ("capture", "sha256", "attempt", "packets", "first", "last")


def shared_captures(captures: Mapping[str, Captures]) -> dict[tuple[str, str], list[tuple[Capture, Capture]]]:
    """Finds the captures of links whose records another link has too.

    The interfaces of one file are no copies of each other.

    Args:
        captures: link -> its captures in the order of T1.

    Returns:
        Two links, in order of their names -> pairs of their captures.
    """
    places: dict[tuple[object, ...], list[tuple[str, int, str]]] = defaultdict(list)
    for link, rows in sorted(captures.items()):
        columns = (rows.values(name) for name in _COLUMNS)
        for at, (identity, sha256, attempt, packets, *ends) in enumerate(zip(*columns, strict=True)):
            if packets:  # a lake of before has the sha256 of the file alone
                for digest in {identity, sha256 or identity}:
                    places[digest, packets, *ends].append((link, at, attempt))
    pairs: dict[tuple[str, str], dict[tuple[int, int], tuple[Capture, Capture]]] = defaultdict(dict)
    for found in places.values():
        for (first, one, made), (second, other, made_too) in combinations(found, 2):
            if first != second and made != made_too:
                pairs[first, second][one, other] = captures[first][one], captures[second][other]
    return {links: [both for _, both in sorted(by_place.items())] for links, by_place in sorted(pairs.items())}


def meeting(captures: Mapping[str, Sequence[Capture]], start: int, end: int) -> dict[str, Captures]:
    """Returns of each link the captures whose records meet [start, end), ns."""
    ordered = {link: Captures.of(rows) for link, rows in captures.items()}
    return {link: Captures(rows[at] for at in rows.meeting(start, end)) for link, rows in ordered.items()}


def shared_words(link: str, captures: Mapping[str, Sequence[Capture]], start: int, end: int) -> tuple[str, int]:
    """Describes what a link shares with other links in [start, end), ns; and counts the packets of these captures.

    Args:
        link: name of the link.
        captures: link -> ledger rows, of the links that a query set reads.
        start: begin of the interval, ns since the epoch.
        end: end of the interval, ns since the epoch, exclusive.
    """
    texts, own = [], {}
    for links, pairs in shared_captures(meeting(captures, start, end)).items():
        if link in links:
            for pair in pairs:
                mine, other = pair if links[0] == link else pair[::-1]
                own[mine.attempt] = mine.packets
                texts.append(f"{_file(mine)} is {_file(other)} of link {other.link!r}")
    return _abbreviated(texts), sum(own.values())


def shared_lines(lake: Lake) -> list[str]:
    """Describes shared captures: a line for each two links that have some."""
    lines = []
    for (first, second), pairs in shared_captures(read_captures(lake, ingested_links(lake))).items():
        files = _abbreviated([f"{_file(one)} is {_file(other)}" for one, other in pairs])
        count = sum(one.packets for one, _ in pairs)
        lines.append(
            f"links {first!r} and {second!r} have the same {count:,} packets, {files}: a query that reads both counts "
            "each twice"
        )
    return lines


def shared_notes(lake: Lake, rows: Iterable[Capture]) -> dict[str, str]:
    """Describes what new captures share with those of other links: attempt -> text."""
    digests = {digest for row in rows if row.packets for digest in (row.capture, row.file_digest)}
    if not digests:
        return {}
    chosen = pa.array(sorted(digests), pa.string())
    found = read_rows(lake.captures, CAPTURES, pads.field("capture").isin(chosen) | pads.field("sha256").isin(chosen))
    by_link: dict[str, list[Capture]] = defaultdict(list)
    for row in found.to_pylist():
        by_link[row["link"]].append(Capture(**row))
    notes: dict[str, list[str]] = defaultdict(list)
    for pairs in shared_captures({link: Captures(of_link) for link, of_link in by_link.items()}).values():
        for one, other in pairs:
            for mine, theirs in ((one, other), (other, one)):
                notes[mine.attempt].append(f"link {theirs.link!r} has the same {mine.packets:,} packets, {theirs.path}")
    return {attempt: _abbreviated(list(dict.fromkeys(texts))) for attempt, texts in notes.items()}


def _file(capture: Capture) -> str:
    return capture.path.rpartition("/")[2]


def _abbreviated(texts: Collection[str]) -> str:
    return "; ".join(_shortened(list(texts)))


def _shortened(texts: Sequence[str]) -> Iterator[str]:
    yield from texts[:_SHOWN]
    if len(texts) > _SHOWN:
        yield f"and {len(texts) - _SHOWN:,} more"
