"""The packets of a link in chunks, so that one large capture is read by many tasks.

Between `lake.packets` and the low stage. A chunk is entered with the clock of the link before it, which is the arrival
of the packet before it; nothing else of what lies before matters to it (SEMANTICS T2, P2).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import pyarrow.parquet as pq

from lowwater.lake.packets import CaptureRead, LinkRead, PacketFile, readable

Placed = tuple[CaptureRead, PacketFile, int]
"""A file, its capture, and how many packets of the link are before it."""


def divide(read: LinkRead, most: int) -> list[LinkRead]:
    """Chunks of a link in order of arrival, of about equal size, whole files where these are not larger than a chunk.

    From the end of the interval on nothing is divided: what comes there are the last packets that are late.

    Args:
        read: all packets of the link that a run reads.
        most: packets of a chunk, about.

    Raises:
        LakeError: a file cannot be read.
    """
    count = -(-read.packets // most)
    if count <= 1:
        return [read]
    files = [(capture, file) for capture in read.captures for file in capture.files]
    ends = list(accumulate(file.rows for _, file in files))
    placed = [(capture, file, end - file.rows) for (capture, file), end in zip(files, ends, strict=True)]
    cuts, clocks = [0], [-1]
    for number in range(1, count):
        at = read.packets * number // count
        end = ends[bisect_right(ends, at - 1)]  # of the file with the packet before the cut
        place = placed[bisect_right(ends, at - 1)]
        cut = end if place[1].rows <= most else at
        if cut <= cuts[-1] or cut == ends[-1]:
            continue
        clock = _clock(read.link, place, cut)
        if clock >= read.end:
            break
        cuts.append(cut)
        clocks.append(clock)
    bounds = zip(cuts, [*cuts[1:], ends[-1]], clocks, [*clocks[1:], None], strict=True)
    return [_chunk(read, placed, *each) for each in bounds]


def _clock(link: str, place: Placed, cut: int) -> int:
    """The link's clock after the packet before a cut."""
    capture, file, before = place
    if cut == before + file.rows:
        return max(capture.clock, file.last)
    with readable(link, file.path):
        arrivals = pq.read_table(file.path, columns=["arrival"], partitioning=None).column("arrival")
    return max(capture.clock, int(arrivals[cut - before - 1].as_py()))


def _chunk(read: LinkRead, placed: Sequence[Placed], start: int, end: int, entered: int, left: int | None) -> LinkRead:
    mine = [place for place in placed if place[2] < end and place[2] + place[1].rows > start]
    captures: dict[str, list[PacketFile]] = {}
    for capture, file, _ in mine:
        captures.setdefault(capture.capture, []).append(file)
    return replace(
        read,
        captures=tuple(
            replace(each, files=tuple(captures[each.capture])) for each in read.captures if each.capture in captures
        ),
        begin=start - mine[0][2],
        stop=end - mine[-1][2],
        entered=entered,
        left=left,
        before=start,
    )
