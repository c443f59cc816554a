"""What is known to be missing of a link in a range of time: the one place that says why an interval is not `done`.

Gaps in coverage are not here: they decide whether a run starts (`coverage`). What is here lets it start, and makes what
it publishes `incomplete` (SEMANTICS T6). Runs, the states of intervals, plans and audits ask `missing`. A new kind of
missing records is a function in SOURCES. Rows and digests depend on none of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from lowwater.config import Config
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.captures import Capture
from lowwater.lake.ledgers.outside import left_out
from lowwater.lake.ledgers.seen import LONGEST, SeenFile, file_words, seen_links, told_files
from lowwater.lake.opened import cached_value
from lowwater.lake.packets import PacketFiles
from lowwater.plan.temporal import END_OF_TIME

SHOWN = 3
"""Most reasons of a link that a text lists."""


FILE, OUTSIDE, ABSENT = "file", "outside", "absent"
"""Kinds of what is missing: files that nobody reads, records that `since` or `until` leaves out, and columns that
queries read and a file lacks, which only the plan knows (`replay.job`)."""


@dataclass(frozen=True)
class Missing:
    """Records of a link that are known and are in no row of an interval.

    Attributes:
        link: name of the link.
        kind: FILE, OUTSIDE or ABSENT.
        reason: a sentence that names them and the cause.
        files: number of the files.
    """

    link: str
    kind: str
    reason: str
    files: int = 1


Finder = Callable[[str, int, int, int], Iterable[Missing]]
"""(link, read_from, start, end) -> what is missing of the link for a run of [start, end), ns, that reads it from
`read_from`."""

Source = Callable[[Lake, Config, Mapping[str, Sequence[Capture]]], Finder]
"""Reads a ledger once, and returns what finds records in it for as many intervals as are asked for."""


class KnownMissing:
    """What the ledgers know to be missing, at one moment.

    Args:
        lake: the lake.
        config: settings of the lake.
        captures: link -> its captures, in the order of T1.
    """

    def __init__(self, lake: Lake, config: Config, captures: Mapping[str, Sequence[Capture]]) -> None:
        self._finders = [source(lake, config, captures) for source in SOURCES]

    def of(self, read_from: Mapping[str, int], start: int, end: int) -> list[Missing]:
        """Lists what is missing for a run of [start, end), ns, that reads each link from `read_from[link]`.

        Args:
            read_from: link -> first timestamp that the run reads, ns since the epoch.
            start: first instant of the interval, ns since the epoch.
            end: end of the interval, ns since the epoch, exclusive.
        """
        return [
            found
            for link, begin in sorted(read_from.items())
            for find in self._finders
            for found in find(link, begin, start, end)
        ]


def missing_texts(found: Iterable[Missing]) -> list[str]:
    """Describes what is missing, each text once."""
    return list(dict.fromkeys(each.reason for each in found))


class _Spans:
    """Unread files of a link by the time in which their records may lie; a range is looked up in logarithmic time."""

    def __init__(self, rows: Iterable[SeenFile]) -> None:
        spans = [(span, row) for row in rows if (span := row.span) is not None]
        self._spans = sorted(spans, key=lambda item: (item[0], item[1].path))
        self._begins = [span[0] for span, _ in self._spans]
        self._ends = list(accumulate((span[1] for span, _ in self._spans), max))  # the furthest end so far: it rises

    def meeting(self, start: int, end: int) -> Iterator[tuple[int, int, SeenFile]]:
        """Yields span and file of those that meet [start, end), ns."""
        for at in range(bisect_left(self._ends, start + 1), bisect_left(self._begins, end)):
            (since, until), row = self._spans[at]
            if row.falls_into(start, end):
                yield since, until, row


def unread_files(lake: Lake, config: Config, captures: Mapping[str, Sequence[Capture]]) -> Finder:
    """Finds the files that lie in the folders of a link, and are not read, within the life of the link (T9)."""
    spans = cached_value(lake.files, "unread files", lambda table: {} if table is None else _unread(lake))

    def find(link: str, read_from: int, start: int, end: int) -> Iterator[Missing]:
        settings = config.link(link)
        begin = max(read_from, settings.since or 0)
        until = min(end, END_OF_TIME if settings.until is None else settings.until)
        named = [name for name in dict.fromkeys(seen_links(link)) if name in spans]
        rows = [row for name in named for _, _, row in spans[name].meeting(begin, until)]
        if rows:
            words = [(row.name, file_words(row).partition("\n")[0][:LONGEST]) for row in rows[:SHOWN]]
            more = f", and {len(rows) - SHOWN:,} more" if len(rows) > SHOWN else ""
            text = f"link {link!r}: not read: {', '.join(f'{name} ({cause})' for name, cause in words)}{more}"
            yield Missing(link, FILE, text.replace("; ", ", "), len(rows))  # it parts the reasons of an interval

    return find


def left_out_records(lake: Lake, config: Config, captures: Mapping[str, Sequence[Capture]]) -> Finder:
    """Finds the records that arrive in an interval, and that `since` or `until` of their link leaves out."""
    files = PacketFiles.of(lake)

    def find(link: str, read_from: int, start: int, end: int) -> Iterator[Missing]:
        yield from (Missing(link, OUTSIDE, text) for text in left_out(files, captures, config, [link], start, end))

    return find


def _unread(lake: Lake) -> dict[str, _Spans]:
    rows: dict[str, list[SeenFile]] = {}
    for row in told_files(lake).values():
        for link in row.links if row.unread else ():
            rows.setdefault(link, []).append(row)
    return {link: _Spans(of_link) for link, of_link in rows.items()}


SOURCES: Sequence[Source] = (left_out_records, unread_files)
