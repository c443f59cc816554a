"""Captures that several links have: a query over these links counts each of their packets several times.

Between the ledger of captures and whoever tells it: ingest, status, report and the audit. Copies of single packets are
found by `lake.copies`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import pyarrow as pa
import pyarrow.dataset as pads

from lowwater.lake.layout import CAPTURES, Lake
from lowwater.lake.ledgers.captures import Capture, Captures, ingested_links, read_captures
from lowwater.lake.tables import read_rows

_SHOWN = 3


class SharedCapture(NamedTuple):
    """Two captures of different links with the same records, or where `whole` is false with the same first ones."""

    one: Capture
    other: Capture
    whole: bool

    @property
    def most(self) -> int:
        """How many packets they share at most."""
        return min(self.one.packets, self.other.packets)

    def turned(self) -> SharedCapture:
        """Returns it from the other side."""
        return SharedCapture(self.other, self.one, self.whole)

    def words(self) -> str:
        """Describes it, without the links."""
        both = _file(self.one), _file(self.other)
        return f"{both[0]} is {both[1]}" if self.whole else f"{both[0]} begins with the packets of {both[1]}"


def shared_captures(captures: Mapping[str, Captures]) -> dict[tuple[str, str], list[SharedCapture]]:
    """Finds the captures of links whose records another link has too, or whose first records it has.

    The interfaces of one file are no copies of each other.

    Args:
        captures: link -> its captures in the order of T1.

    Returns:
        Two links, in order of their names -> what they share.
    """
    places: dict[tuple[object, ...], list[tuple[str, int]]] = defaultdict(list)
    digests = {link: _digests(rows) for link, rows in sorted(captures.items())}
    met = Counter(digest for of_link in digests.values() for of_row in of_link for digest in of_row)
    for link, of_link in digests.items():
        for at in (at for at, of_row in enumerate(of_link) if any(met[digest] > 1 for digest in of_row)):
            row = captures[link][at]
            if row.packets:
                for digest in {row.capture, row.file_digest}:
                    places[digest, row.packets, row.first, row.last].append((link, at))
                if row.head:
                    places[row.head, row.first].append((link, at))
    pairs: dict[tuple[str, str], dict[tuple[int, int], SharedCapture]] = defaultdict(dict)
    for key, found in places.items():
        for (one, at), (other, there) in combinations(found, 2):
            shared = SharedCapture(captures[one][at], captures[other][there], len(key) > 2)
            if one == other or shared.one.attempt == shared.other.attempt:
                continue
            if shared.whole or (at, there) not in pairs[one, other]:
                pairs[one, other][at, there] = shared
    return {links: [shared for _, shared in sorted(by_place.items())] for links, by_place in sorted(pairs.items())}


def _digests(rows: Captures) -> list[set[str]]:
    """Returns the digests of each capture by which others are compared; a lake of before has that of the file alone."""
    columns = (rows.values(name) for name in ("capture", "sha256", "head"))
    return [{digest for digest in digests if digest} for digests in zip(*columns, strict=True)]


def meeting(captures: Mapping[str, Sequence[Capture]], start: int, end: int) -> dict[str, Captures]:
    """Returns of each link the captures whose records meet [start, end), ns."""
    ordered = {link: Captures.of(rows) for link, rows in captures.items()}
    return {link: Captures(rows[at] for at in rows.meeting(start, end)) for link, rows in ordered.items()}


def shared_words(link: str, captures: Mapping[str, Sequence[Capture]], start: int, end: int) -> tuple[str, int]:
    """Describes what a link shares with other links in [start, end), ns; and how many packets of captures at most.

    Args:
        link: name of the link.
        captures: link -> ledger rows, of the links that a query set reads.
        start: begin of the interval, ns since the epoch.
        end: end of the interval, ns since the epoch, exclusive.
    """
    texts: list[str] = []
    own: dict[str, int] = {}
    for links, pairs in shared_captures(meeting(captures, start, end)).items():
        if link in links:
            for pair in pairs:
                mine = pair if links[0] == link else pair.turned()
                own[mine.one.attempt] = max(mine.most, own.get(mine.one.attempt, 0))
                texts.append(f"{mine.words()} of link {mine.other.link!r}")
    return _abbreviated(texts), sum(own.values())


def shared_lines(lake: Lake) -> list[str]:
    """Describes shared captures: a line for each two links that have some."""
    lines = []
    for (first, second), pairs in shared_captures(read_captures(lake, ingested_links(lake))).items():
        files, count = _abbreviated([pair.words() for pair in pairs]), sum(pair.most for pair in pairs)
        most = "" if all(pair.whole for pair in pairs) else "up to "
        lines.append(
            f"links {first!r} and {second!r} have the same packets, {most}{count:,}: {files}: a query that reads both "
            "counts each twice"
        )
    return lines


def shared_notes(lake: Lake, rows: Iterable[Capture]) -> dict[str, str]:
    """Describes what new captures share with those of other links: attempt -> text."""
    digests = {digest for row in rows if row.packets for digest in (row.capture, row.file_digest, row.head) if digest}
    if not digests:
        return {}
    chosen = pa.array(sorted(digests), pa.string())
    alike = [pads.field(name).isin(chosen) for name in ("capture", "sha256", "head")]
    found = read_rows(lake.captures, CAPTURES, alike[0] | alike[1] | alike[2])
    by_link: dict[str, list[Capture]] = defaultdict(list)
    for row in found.to_pylist():
        by_link[row["link"]].append(Capture(**row))
    notes: dict[str, list[str]] = defaultdict(list)
    for pairs in shared_captures({link: Captures(of_link) for link, of_link in by_link.items()}).values():
        for pair in pairs:
            for mine in (pair, pair.turned()):
                same = f"the same {mine.most:,} packets" if mine.whole else "a file that begins with the same packets"
                notes[mine.one.attempt].append(f"link {mine.other.link!r} has {same}, {mine.other.path}")
    return {attempt: _abbreviated(list(dict.fromkeys(texts))) for attempt, texts in notes.items()}


def _file(capture: Capture) -> str:
    return capture.path.rpartition("/")[2]


def _abbreviated(texts: Collection[str]) -> str:
    return "; ".join(_shortened(list(texts)))


def _shortened(texts: Sequence[str]) -> Iterator[str]:
    yield from texts[:_SHOWN]
    if len(texts) > _SHOWN:
        yield f"and {len(texts) - _SHOWN:,} more"
