"""Records outside of the life of their link or of the declared coverage of their capture; the intervals that hold any.

Between `packets/` and whoever accounts for records (SEMANTICS T5, A1): no setting takes a record out of every number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from lowwater.config import Config, Link
from lowwater.instants import format_instant
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.captures import Capture, Captures, ingested_links, read_captures
from lowwater.lake.packets import PacketFiles, readable
from lowwater.plan.temporal import END_OF_TIME


@dataclass(frozen=True)
class Outside:
    """The records of one capture, or of several, that lie outside.

    Attributes:
        early: before `since` of the link; no run reads them.
        late: at or after `until`; no run reads them.
        uncovered: in the life of the link and outside of the declared coverage of their capture by more than the skew,
            which disorder at a rotation does not explain; runs read them.
    """

    early: int = 0
    late: int = 0
    uncovered: int = 0

    @property
    def unread(self) -> int:
        """Those that no run reads."""
        return self.early + self.late

    @property
    def all(self) -> int:
        """All of them."""
        return self.early + self.late + self.uncovered

    def __add__(self, other: Outside) -> Outside:
        return Outside(self.early + other.early, self.late + other.late, self.uncovered + other.uncovered)


def outside(
    files: PacketFiles,
    link: str,
    captures: Sequence[Capture],
    settings: Link,
    start: int = 0,
    end: int = END_OF_TIME,
) -> list[tuple[Capture, Outside]]:
    """The records of a link that arrive in [start, end), ns, and lie outside; the captures that have such.

    Only files whose statistics cross a bound are read, and of these the timestamps.

    Args:
        files: the files of the lake.
        link: its name.
        captures: all of its captures, in the order of T1.
        settings: the settings of the link.
        start: the start of the arrivals; `end` their end.

    Raises:
        LakeError: if a file cannot be read.
    """
    life = settings.since or 0, END_OF_TIME if settings.until is None else settings.until
    found = []
    for capture, clock in zip(captures, Captures.of(captures).clocks, strict=True):
        declared = 0, END_OF_TIME
        if capture.declared is not None:
            declared = capture.declared[0] - settings.longest_skew, capture.declared[1] + settings.longest_skew
        if capture.smallest is None or capture.largest is None or max(capture.largest, clock) < start:
            continue
        low, high = max(life[0], declared[0]), min(life[1], declared[1])
        if capture.smallest >= low and capture.largest < high:
            continue
        count = Outside()
        for row in _rows(files, link, capture):
            count += _of_file(files.folder / row["path"], link, row, life, declared, (start, end, clock))
        if count != Outside():
            found.append((capture, count))
    return found


def elsewhere(
    files: PacketFiles, link: str, captures: Sequence[Capture], settings: Link, start: int, end: int
) -> list[tuple[Capture, int]]:
    """The captures that claim something of [start, end), ns, and hold records that contradict it in other intervals.

    Args:
        files: the files of the lake.
        link: its name.
        captures: all of its captures, in the order of T1.
        settings: the settings of the link.
        start: the start of the interval; `end` its end.

    Returns:
        With each capture how many of its records lie outside of its declared coverage by more than the skew, in the
        life of the link or not, without those that are charged to this interval.

    Raises:
        LakeError: if a file cannot be read.
    """
    whole_life = settings.model_copy(update={"since": None, "until": None})
    claiming = [each for each in captures if each.claims(start, end)]
    if not (found := outside(files, link, claiming, whole_life)):
        return []
    here = {each.attempt: count.uncovered for each, count in outside(files, link, captures, whole_life, start, end)}
    rest = [(each, count.uncovered - here.get(each.attempt, 0)) for each, count in found]
    return [(each, count) for each, count in rest if count]


def _of_file(
    path: Path,
    link: str,
    row: Mapping[str, Any],
    life: tuple[int, int],
    declared: tuple[int, int],
    arrivals: tuple[int, int, int],
) -> Outside:
    start, end, clock = arrivals
    least, most = row["min.timestamp"], row["max.timestamp"]
    first, last = max(row["min.arrival"], clock), max(row["max.arrival"], clock)
    if last < start or first >= end or (least >= max(life[0], declared[0]) and most < min(life[1], declared[1])):
        return Outside()
    if start <= first and last < end:
        if most < life[0]:
            return Outside(early=row["num_records"])
        if least >= life[1]:
            return Outside(late=row["num_records"])
    with readable(link, path):
        table = pq.read_table(path, columns=["timestamp", "arrival"], partitioning=None)
    stamps, clocks = (table.column(name).to_numpy() for name in ("timestamp", "arrival"))
    clocks = np.maximum(clocks, clock)
    stamps = stamps[(clocks >= start) & (clocks < end)]
    early, late = stamps < life[0], stamps >= life[1]
    strays = ((stamps < declared[0]) | (stamps >= declared[1])) & ~early & ~late
    return Outside(*(int(marks.sum()) for marks in (early, late, strays)))


def strays(paths: Iterable[Path], declared: tuple[int, int]) -> tuple[int, int]:
    """How many records of some files of packets are before, and how many at or behind the end of a coverage, ns."""
    before = behind = 0
    for path in paths:
        stamps = pq.read_table(path, columns=["timestamp"], partitioning=None).column("timestamp").to_numpy()
        before, behind = before + int((stamps < declared[0]).sum()), behind + int((stamps >= declared[1]).sum())
    return before, behind


def attempt_paths(files: PacketFiles, capture: Capture) -> list[Path]:
    """The files of packets of a capture and link."""
    return [files.folder / row["path"] for row in _rows(files, capture.link, capture)]


def _rows(files: PacketFiles, link: str, capture: Capture) -> Iterator[Mapping[str, Any]]:
    return (row for row in files.attempts.get(capture.attempt, ()) if row["partition.link"] == link)


def intervals_held(
    files: PacketFiles, captures: Mapping[str, Sequence[Capture]], config: Config, length: int
) -> set[tuple[int, int]]:
    """The intervals [start, end), ns, to which records of some links are charged (A1), by the statistics of the files.

    A sane record lies at most a skew before its arrival; any other is charged to the interval of its arrival. Malformed
    records of a capture without any packet and coverage have no instant, and so no interval: ingest tells of them.

    Args:
        files: the data files of `packets/`.
        captures: ledger rows of each link, by its name, in the order of T1.
        config: settings of the lake, for the skews.
        length: length of an interval, ns; intervals begin at its multiples.
    """
    found: set[int] = set()
    for link, mine in captures.items():
        skew = config.link(link).longest_skew
        for capture, clock in zip(mine, Captures.of(mine).clocks, strict=True):
            if capture.malformed and (begin := clock or (capture.first or capture.covers_from)):
                found.add(begin // length)
            for row in _rows(files, link, capture):
                first, last = max(row["min.arrival"], clock), max(row["max.arrival"], clock)
                least = min(max(row["min.timestamp"], first - skew), first)
                found.update(range(least // length, last // length + 1))
    return {(number * length, (number + 1) * length) for number in found}


def lake_outside(lake: Lake, link: str, settings: Link) -> list[tuple[Capture, Outside]]:
    """`outside` over all that a lake has of a link."""
    (captures,) = read_captures(lake, [link]).values()
    return outside(PacketFiles.of(lake), link, captures, settings)


def outside_words(capture: Capture, count: Outside, settings: Link) -> str:
    """What of a capture lies outside, in words."""
    said = []
    if count.early:
        said.append(f"{count.early:,} before since, {format_instant(settings.since or 0)}: in no row")
    if count.late:
        said.append(f"{count.late:,} at or after until, {format_instant(settings.until or 0)}: in no row")
    if count.uncovered and capture.declared is not None:
        covers = "/".join(format_instant(bound) for bound in capture.declared)
        said.append(f"{count.uncovered:,} outside of its declared coverage, {covers}")
    return "; ".join(said)


def outside_lines(lake: Lake, config: Config) -> list[str]:
    """A line for each link of a lake that has records outside: how many, and of which capture the most."""
    lines = []
    for link in ingested_links(lake):
        settings = config.link(link)
        if found := lake_outside(lake, link, settings):
            whole = sum((count for _, count in found), Outside())
            capture, count = max(found, key=lambda each: each[1].all)
            said = f"{capture.path.rpartition('/')[2]}: {outside_words(capture, count, settings)}"
            rest = f"; and {len(found) - 1} more captures" if len(found) > 1 else ""
            lines.append(f"link {link!r}: {whole.all:,} records outside: {said}{rest}")
    return lines
