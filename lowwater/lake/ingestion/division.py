"""Division of a link's packets into chunks, so that several tasks read a large capture.

Between `lake.packets` and the low stage. A chunk needs the clock of the link before it, which is the arrival of the
packet before it. Nothing else of earlier packets matters (SEMANTICS T2, P2).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import pyarrow.parquet as pq

from lowwater.lake.packets import CaptureRead, LinkRead, PacketFile, readable

FilePlace = tuple[CaptureRead, PacketFile, int]
"""A file, its capture, and the number of the link's packets before the file."""


def divide(read: LinkRead, most: int) -> list[LinkRead]:
    """Divides the packets of a link into chunks of about equal size, in order of arrival.

    A chunk consists of whole files unless they are larger than a chunk. The last late packets, after the end of the
    interval, are not divided.

    Args:
        read: all packets of the link that a run reads.
        most: approximate number of packets of a chunk.

    Raises:
        LakeError: if a file cannot be read.
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
        end = ends[bisect_right(ends, at - 1)]  # end of the file with the packet before the cut
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
    return [_chunk(read, placed, *chunk) for chunk in bounds]


def _clock(link: str, place: FilePlace, cut: int) -> int:
    """Returns the clock of the link after the packet before a cut, ns."""
    capture, file, before = place
    if cut == before + file.rows:
        return max(capture.clock, file.last)
    with readable(link, file.path):
        arrivals = pq.read_table(file.path, columns=["arrival"], partitioning=None).column("arrival")
    return max(capture.clock, int(arrivals[cut - before - 1].as_py()))


def _chunk(
    read: LinkRead, placed: Sequence[FilePlace], start: int, end: int, entered: int, left: int | None
) -> LinkRead:
    overlapping = [place for place in placed if place[2] < end and place[2] + place[1].rows > start]
    captures: dict[str, list[PacketFile]] = {}
    for capture_read, file, _ in overlapping:
        captures.setdefault(capture_read.capture, []).append(file)
    return replace(
        read,
        captures=tuple(
            replace(capture, files=tuple(captures[capture.capture]))
            for capture in read.captures
            if capture.capture in captures
        ),
        begin=start - overlapping[0][2],
        stop=end - overlapping[-1][2],
        entered=entered,
        left=left,
        before=start,
    )
