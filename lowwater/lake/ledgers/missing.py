"""What is known to be missing of a link in a range of time: the one place that says so."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from itertools import accumulate
from operator import itemgetter
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from lowwater.capture.records.facts import Hole
from lowwater.catalog.expr import columns_of
from lowwater.catalog.time import is_late, uncovered
from lowwater.config import Config, Link, section_of
from lowwater.documents import FILE_NAME
from lowwater.instants import format_duration, format_instant
from lowwater.lake import layout
from lowwater.lake.files.patterns import covers_line, pieces_of, second_coverage
from lowwater.lake.ledgers.captures import (
    SHOWN,
    Capture,
    Captures,
    few,
    ingested_links,
    life_of,
    read_captures,
)
from lowwater.lake.ledgers.coverage import Gap, hole_line, in_life
from lowwater.lake.ledgers.drops import Lost, counted, in_order, span_words
from lowwater.lake.ledgers.files import (
    LONGEST,
    SeenFile,
    absent_folders,
    drops_beside,
    file_words,
    of_told,
    overlapping_files,
    seen_links,
    told_files,
)
from lowwater.lake.ledgers.intervals import merged
from lowwater.lake.ledgers.late import Doubtful, Refused, records_within, refused_hours
from lowwater.lake.ledgers.statements import Defect, Statement, accepted, covering
from lowwater.lake.ledgers.states import FOLDER
from lowwater.lake.packets import PacketFiles, stored_records
from lowwater.lake.query_sets import ABSENT, DAMAGE, DROPS, LATE, OUTSIDE, UNREAD
from lowwater.lake.tables import grouped
from lowwater.plan import operators as ops, temporal

# Columns that files of records lack. A tool that calls a column otherwise from one day on leaves NULL in the rows of
# its old name. Ingest writes both names into the ledger; an interval whose queries read such a column is not plainly
# done.


def fields_read(lftas: Sequence[ops.Lfta], link: str) -> set[str]:
    """Returns the fields of the protocol of a link that LFTAs read."""
    fields: set[str] = set()
    for lfta in lftas:
        if link in lfta.links and lfta.layout is not None:
            items = [item.expr for item in lfta.keys]
            columns = columns_of(lfta.member, lfta.predicate, *items, *(part.argument for part in lfta.partials))
            fields |= {field.name for field in lfta.layout.fields if field.stored in columns}
    return fields


def absent_words(capture: Capture, fields: Collection[str] | None = None) -> str:
    """Returns the columns that a file lacks, of all or of these fields, and those that nobody knows, as a text; empty
    if it lacks none."""
    lacking = [name for name in capture.absent_fields if fields is None or name in fields]
    if not lacking:
        return ""
    unknown = capture.unknown_columns
    # A column that has got another name is most like the new one.
    lacking.sort(key=lambda name: -max(SequenceMatcher(None, name, other).ratio() for other in unknown))
    verb = "is a column" if len(unknown) == 1 else "are columns"
    return f"has no {few(lacking)}, and {few(unknown)} {verb} that no field reads"


def lacking_fields(
    link: str, captures: Sequence[Capture], fields: Collection[str], start: int, end: int
) -> list[Missing]:
    """Finds the files of a link that lack fields which are read."""
    if not fields:
        return []
    ordered = Captures.of(captures)
    found = [(ordered[at], words) for at in ordered.meeting(start, end) if (words := absent_words(ordered[at], fields))]
    if not found:
        return []
    (first, words), *others = found
    more = f", like {len(others):,} more" if others else ""
    defects = []
    for capture, _ in found:
        lacking = sorted(set(fields) & set(capture.absent_fields))
        what = " ".join([capture.capture, *lacking])
        defects.append(Defect(what, capture.smallest or 0, capture.largest or 0, len(lacking)))
    text = f"link {link!r}: {first.path} {words}{more}: NULL where a query reads it"
    return [Missing(link, ABSENT, text, tuple(defects), len(found))]


# Records outside of the life of their link, or of the declared coverage of their capture: no setting may remove a
# record from every count (SEMANTICS A1).


@dataclass(frozen=True)
class OutsideCount:
    """Numbers of records outside, of one capture or several."""

    early: int = 0  # records before `since` of the link; no run reads them
    late: int = 0  # records at or after `until`; no run reads them
    # records within the life of the link that lie outside of the declared coverage by more than the skew, so that
    # disorder at a rotation does not explain them; runs read them
    uncovered: int = 0

    @property
    def unread(self) -> int:
        """Records that no run reads."""
        return self.early + self.late

    @property
    def all(self) -> int:
        return self.early + self.late + self.uncovered

    def __add__(self, other: OutsideCount) -> OutsideCount:
        return OutsideCount(self.early + other.early, self.late + other.late, self.uncovered + other.uncovered)


def outside(
    files: PacketFiles,
    link: str,
    captures: Sequence[Capture],
    settings: Link,
    start: int = 0,
    end: int = temporal.END_OF_TIME,
) -> list[tuple[Capture, OutsideCount]]:
    """Counts, by capture, the records of a link that arrive in [start, end), ns, and lie outside. Only files whose
    statistics cross a bound are read, and of these only the timestamps.
    Raises LakeError if a file cannot be read."""
    life = life_of(settings)
    counts = []
    least = settings.shortest_skew if settings.turns else settings.longest_skew
    for capture, clock in _crossing(Captures.of(captures), least, life, start):
        declared = 0, temporal.END_OF_TIME
        if capture.declared is not None:
            skew = settings.at(capture.declared[0]).longest_skew
            declared = capture.declared[0] - skew, capture.declared[1] + skew
        count = OutsideCount()
        for row in files.in_force(capture):
            count += _of_file(link, row, life, declared, (start, end, clock))
        if count != OutsideCount():
            counts.append((capture, count))
    return counts


def left_out(
    files: PacketFiles, link: str, captures: Sequence[Capture], settings: Link, start: int, end: int
) -> Iterator[Missing]:
    """Finds the records that arrive in [start, end), ns, and that `since` or `until` of their link leaves out (T6): the
    reason names the line to change.

    Links whose records outside are accepted have none. A record that is later than the skew is none of them: it would
    be in no row with another `since` either. Only files that cross a bound, or have late records, are read."""
    if settings.outside == "accepted":
        return
    ordered, life, whole_time = Captures.of(captures), life_of(settings), (0, temporal.END_OF_TIME)
    places, firsts, lasts = ordered.beyond(*life)
    counts = []
    for at in places[(firsts < end) & (lasts >= start)].tolist():
        arrivals, count = (start, end, ordered.clocks[at]), OutsideCount()
        skew = settings.at(ordered[at].smallest or 0).longest_skew
        for row in files.in_force(ordered[at]):
            count += _of_file(link, row, life, whole_time, arrivals, skew)
        counts.append((ordered[at], count))
    if early := [(capture, count.early) for capture, count in counts if count.early]:
        begin, cut = min(capture.smallest or 0 for capture, _ in early), settings.since or 0
        last = max(min(capture.largest or 0, cut - 1) for capture, _ in early)
        text = _left_out_words(link, settings, "since", cut, early, begin, last, begin)
        yield Missing(link, OUTSIDE, text, _left_out_defects("since", early, start, end), len(early))
    if late := [(capture, count.late) for capture, count in counts if count.late]:
        last, cut = max(capture.largest or 0 for capture, _ in late), settings.until or 0
        begin = min(max(capture.smallest or 0, cut) for capture, _ in late)
        text = _left_out_words(link, settings, "until", cut, late, begin, last, last + 1)
        yield Missing(link, OUTSIDE, text, _left_out_defects("until", late, start, end), len(late))


def _left_out_defects(name: str, counts: Sequence[tuple[Capture, int]], start: int, end: int) -> tuple[Defect, ...]:
    return tuple(Defect(f"{capture.capture} {name}", start, end, count) for capture, count in counts)


def _left_out_words(
    link: str,
    settings: Link,
    name: str,
    cut: int,
    counts: Sequence[tuple[Capture, int]],
    first: int,
    last: int,
    better: int,
) -> str:
    total, (worst, _) = sum(count for _, count in counts), max(counts, key=itemgetter(1))
    more = f" and {len(counts) - 1} more" if len(counts) > 1 else ""
    kind = "packet" if settings.kind == "pcap" else "record"
    return (
        f"{section_of(link)} {name} = {format_instant(cut)} of {FILE_NAME} leaves out {total:,} {kind}"
        f"{'' if total == 1 else 's'} of {worst.path.rpartition('/')[2]}{more}, from {format_instant(first)} to "
        f'{format_instant(last)}: set {name} = "{format_instant(better)}", or outside = "accepted" if nothing is missed'
    )


def _crossing(captures: Captures, skew: int, life: tuple[int, int], start: int) -> Iterator[tuple[Capture, int]]:
    """Yields the captures with records that may lie outside and arrive from an instant (ns) on, with their clocks."""
    smallest, largest = captures.numbers("smallest", -1), captures.numbers("largest", -1)
    begins, ends = captures.numbers("declared_from", -1), captures.numbers("declared_to", -1)
    declared, clocks = (begins >= 0) & (ends >= 0), np.array(captures.clocks, np.int64)
    low = np.where(declared, np.maximum(life[0], begins - skew), max(life[0], 0))
    high = np.where(declared, np.minimum(life[1], ends + skew), min(life[1], temporal.END_OF_TIME))
    known = (smallest >= 0) & (largest >= 0) & (np.maximum(largest, clocks) >= start)
    for at in np.flatnonzero(known & ((smallest < low) | (largest >= high))).tolist():
        yield captures[at], captures.clocks[at]


def elsewhere(
    files: PacketFiles, link: str, captures: Sequence[Capture], settings: Link, start: int, end: int
) -> list[tuple[Capture, int]]:
    """Finds captures whose declared coverage meets [start, end), ns, and that hold records of other intervals. Returns
    them with the number of their records outside of their declared coverage by more than the skew, within the life of
    the link or not, except records that count in this interval.
    Raises LakeError if a file cannot be read."""
    whole_life = settings.model_copy(update={"since": None, "until": None})
    ordered = Captures.of(captures)
    begins, ends = ordered.numbers("declared_from", temporal.END_OF_TIME), ordered.numbers("declared_to", -1)
    claiming = [ordered[at] for at in np.flatnonzero((begins < end) & (ends > start)).tolist()]
    if not (outside_counts := outside(files, link, claiming, whole_life)):
        return []
    in_interval = {
        capture.attempt: count.uncovered for capture, count in outside(files, link, captures, whole_life, start, end)
    }
    elsewhere_counts = [
        (capture, count.uncovered - in_interval.get(capture.attempt, 0)) for capture, count in outside_counts
    ]
    return [(capture, count) for capture, count in elsewhere_counts if count]


def _of_file(
    link: str,
    row: Mapping[str, Any],
    life: tuple[int, int],
    declared: tuple[int, int],
    arrivals: tuple[int, int, int],
    skew: int = temporal.END_OF_TIME,
) -> OutsideCount:
    """Counts the records of a file that are outside, but not later than a skew."""
    start, end, clock = arrivals
    least, most = row["min.timestamp"], row["max.timestamp"]
    first, last = max(row["min.arrival"], clock), max(row["max.arrival"], clock)
    if last < start or first >= end or (least >= max(life[0], declared[0]) and most < min(life[1], declared[1])):
        return OutsideCount()
    if start <= first and last < end and last - least <= skew:
        if most < life[0]:
            return OutsideCount(early=row["num_records"])
        if least >= life[1]:
            return OutsideCount(late=row["num_records"])
    table = stored_records(link, row)
    stamps, clocks = (table.column(name).to_numpy() for name in ("timestamp", "arrival"))
    clocks = np.maximum(clocks, clock)
    stamps = stamps[(clocks >= start) & (clocks < end) & ~is_late(clocks, stamps, skew)]
    early, late = stamps < life[0], stamps >= life[1]
    strays = ((stamps < declared[0]) | (stamps >= declared[1])) & ~early & ~late
    return OutsideCount(*(int(marks.sum()) for marks in (early, late, strays)))


def attempt_paths(files: PacketFiles, capture: Capture) -> list[PurePath]:
    """Paths of the packet files of a capture and link."""
    return [PacketFiles.path(row) for row in files.rows(capture.link, capture.attempt)]


def occupied_intervals(
    files: PacketFiles, captures: Mapping[str, Sequence[Capture]], config: Config, length: int
) -> list[tuple[int, int]]:
    """Finds the intervals in which records of links count (A1), by the statistics of the files: disjoint ranges of
    numbers of intervals of this length (ns), in order.

    A sane record lies at most a skew before its arrival; other records count in the interval of their arrival.
    Malformed records of a capture without packets and coverage have no instant, so no interval; ingest reports them.
    """
    numbers: set[tuple[int, int]] = set()
    for link, link_captures in captures.items():
        ordered, settings = Captures.of(link_captures), config.link(link)
        for at in np.flatnonzero(ordered.numbers("malformed")).tolist():
            if begin := ordered.damage_from(at):
                numbers.add((begin // length, begin // length + 1))
        for least, last in record_ranges(files, link, ordered, settings):
            numbers.add((least // length, last // length + 1))
    known = [(first * length, min(end * length, temporal.END_OF_TIME)) for first, end in merged(numbers)]
    for link, link_captures in captures.items():  # what is missing where a late record belongs is told there (T6)
        for late in Doubtful.of(files, link, link_captures, config).late(known=known):
            numbers.update((at, at + 1) for at in np.unique(late.stamps // length).tolist())
    return merged(numbers)


def record_ranges(files: PacketFiles, link: str, captures: Captures, settings: Link) -> Iterator[tuple[int, int]]:
    """Yields the ranges of time, ns, ends included, in which sane records of a link count, by the statistics of its
    files: by hours, so that a silence within a capture is in none of them."""
    facts = (captures.values("attempt"), captures.values("packets"), captures.numbers("largest").tolist())
    for attempt, packets, largest, clock in zip(*facts, captures.clocks, strict=True):
        for row in files.rows(link, attempt, packets, largest):
            first, last = max(row["min.arrival"], clock), max(row["max.arrival"], clock)
            yield min(max(row["min.timestamp"], settings.oldest(first)), first), last


def lake_records_outside(lake: layout.Lake, link: str, settings: Link) -> list[tuple[Capture, OutsideCount]]:
    """Counts the records outside over all captures of a link, by capture."""
    return outside(PacketFiles.of(lake), link, read_captures(lake, [link])[link], settings)


def outside_words(capture: Capture, count: OutsideCount, settings: Link) -> str:
    """Describes the records outside of a capture."""
    texts = []
    if count.early:
        texts.append(f"{count.early:,} before since, {format_instant(settings.since or 0)}: in no row")
    if count.late:
        texts.append(f"{count.late:,} at or after until, {format_instant(settings.until or 0)}: in no row")
    if count.uncovered and capture.declared is not None:
        covers = "/".join(format_instant(bound) for bound in capture.declared)
        texts.append(f"{count.uncovered:,} outside of its declared coverage, {covers}")
        second = second_coverage(settings, Path(capture.path))
        smallest, largest = capture.smallest or 0, capture.largest or 0
        if second is not None and second[0] <= smallest + settings.at(second[0]).skew and largest < second[1]:
            line = covers_line(Path(capture.path).name, second)
            texts[-1] += f" (the hour in its name comes twice; it is of the second, so write {line})"
        if any(piece[:2] == "%E" for pattern in settings.patterns for piece in pieces_of(pattern)):
            texts[-1] += " (if its name ends with the last second that it holds, write %L for %E in captures)"
    return "; ".join(texts)


def outside_lines(lake: layout.Lake, config: Config) -> list[str]:
    """Describes records outside: a line for every link that has some, with their number and the worst capture."""
    lines = []
    for link in ingested_links(lake):
        settings = config.link(link)
        if counts := lake_records_outside(lake, link, settings):
            total = sum((count for _, count in counts), OutsideCount())
            capture, count = max(counts, key=lambda item: item[1].all)
            text = f"{capture.path.rpartition('/')[2]}: {outside_words(capture, count, settings)}"
            text += ", accepted" if total.unread and settings.outside == "accepted" else ""
            more = f"; and {len(counts) - 1} more captures" if len(counts) > 1 else ""
            lines.append(f"link {link!r}: {total.all:,} records outside: {text}{more}")
    return lines


# Gaps in coverage are not here: they decide whether a run starts (`coverage`). What is here lets it start, and makes
# what it publishes `incomplete` (SEMANTICS T6). A new kind of missing records is a function in SOURCES. Rows and
# digests depend on none of it.


@dataclass(frozen=True)
class Missing:
    """Records of a link that are known and are in no row of an interval."""

    link: str
    cause: str  # one of CAUSES
    reason: str  # a sentence that names them and the cause, and what mends it
    defects: tuple[Defect, ...]  # of which it is made: those that a person accepts, one or more
    files: int = 1


Finder = Callable[[str, int, int, int], Iterable[Missing]]
"""(link, read_from, start, end) -> what is missing of the link for a run of [start, end), ns, that reads it from
`read_from`."""

Source = Callable[[layout.Lake, Config, Mapping[str, Sequence[Capture]]], Finder]
"""Reads a ledger once, and returns what finds records in it for as many intervals as are asked for."""


class KnownMissing:
    """What the ledgers know to be missing, at one moment."""

    def __init__(self, lake: layout.Lake, config: Config, captures: Mapping[str, Sequence[Capture]]) -> None:
        self._lake, self._captures = lake, captures
        self._unread_rows = unread_rows(lake, config)
        self._finders = [source(lake, config, captures) for source in SOURCES]
        self._damage = damaged_stretches(lake, config, captures)
        self._accepted = accepted(lake)

    @cached_property
    def horizons(self) -> Mapping[str, int]:
        """Link -> instant (ns) before which its packets were removed by age or size (S11)."""
        return PacketFiles.of(self._lake).horizons

    @cached_property
    def absent_folders(self) -> dict[str, str]:
        """Link -> which of its folders the last look could not read: its next captures may lie there."""
        return absent_folders(self._lake)

    def unread_in(self, gap: Gap) -> list[tuple[Gap, str]]:
        """Parts a gap by the files in the folders of its link that hold records of its time, as far as is known, and
        are not read: with each part, these files in words; empty where there are none. Of a link without any capture,
        files whose time nothing tells are of the whole gap."""
        rows = list(self._unread_rows(gap.link, gap.since, gap.until))
        if not rows and not self._captures.get(gap.link):
            names = seen_links(gap.link)
            rows = [row for row in told_files(self._lake).values() if row.unread and {*names} & {*row.links}]
            rows = [row for row in rows if row.span is None and row.state != FOLDER]
            return [(gap, unread_words(rows))]
        spans = merged((max(row.span[0], gap.since), min(row.span[1], gap.until)) for row in rows if row.span)
        parts = [
            (start, end, unread_words([row for row in rows if row.falls_into(start, end)])) for start, end in spans
        ]
        parts += [(start, end, "") for start, end in uncovered(spans, gap.since, gap.until)]
        return [(Gap(gap.link, start, end), words) for start, end, words in sorted(parts)]

    def of(self, read_from: Mapping[str, int], start: int, end: int) -> list[Missing]:
        """Lists what is missing for a run of [start, end), ns, that reads each link from `read_from[link]`, ns."""
        return [
            found
            for link, begin in sorted(read_from.items())
            for find in self._finders
            for found in find(link, begin, start, end)
        ]

    @property
    def accepts(self) -> bool:
        """Whether a person has accepted a defect of any interval."""
        return bool(self._accepted)

    def accepted(self, found: Missing) -> list[Statement]:
        """The statements by which people accept all of what is missing; none where some of it is not accepted."""
        return covering(self._accepted, found.link, found.cause, found.defects)

    def statements(self, links: Collection[str], start: int, end: int) -> list[Statement]:
        """The statements by which people accept what is missing of links in [start, end), ns."""
        stated = (each for each in self._accepted.values() if each.link in links)
        return sorted((each for each in stated if each.start < end and each.end > start), key=lambda each: each.key)

    def unaccepted(self, gaps: Iterable[Gap]) -> list[Gap]:
        """Returns gaps without the damage that people accept."""
        return self._without(gaps, False)

    def beside_damage(self, gaps: Iterable[Gap]) -> list[Gap]:
        """Returns gaps without all damage, which is told by itself."""
        return self._without(gaps, True)

    def _without(self, gaps: Iterable[Gap], all_damage: bool) -> list[Gap]:
        left: list[Gap] = []
        for gap in gaps:
            spans = [
                (defect.start, defect.end)
                for found in self._damage(gap.link, gap.since, gap.since, gap.until)
                if all_damage or self.accepted(found)
                for defect in found.defects
            ]
            left += [Gap(gap.link, *each) for each in uncovered(merged(spans), gap.since, gap.until)]
        return left


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

    def meeting(self, start: int, end: int) -> Iterator[SeenFile]:
        """Yields the files that may hold records of [start, end), ns."""
        for at in range(bisect_left(self._ends, start + 1), bisect_left(self._begins, end)):
            row = self._spans[at][1]
            if row.falls_into(start, end):
                yield row


def unread_rows(lake: layout.Lake, config: Config) -> Callable[[str, int, int], Iterator[SeenFile]]:
    """Reads the ledger once; returns what yields the files in the folders of a link that are not read, and may hold
    records of [start, end), ns, within the life of the link."""
    spans = of_told(lake, "unread files", lambda: _unread(lake))
    by_link = grouped((row.links[0], row) for row in overlapping_files(lake, config))
    overlapping = {link: _Spans(rows) for link, rows in by_link.items()}

    def rows(link: str, start: int, end: int) -> Iterator[SeenFile]:
        since, until = life_of(config.link(link))
        for name in dict.fromkeys(seen_links(link)):
            for found in (spans, overlapping):
                if name in found:
                    yield from found[name].meeting(max(start, since), min(end, until))

    return rows


def unread_words(rows: Sequence[SeenFile]) -> str:
    """Names files, and says why each is not read."""
    words = [(row.shown, file_words(row).partition("\n")[0][:LONGEST]) for row in rows[:SHOWN]]
    more = f", and {len(rows) - SHOWN:,} more" if len(rows) > SHOWN else ""
    text = f"{', '.join(f'{name} ({cause})' for name, cause in words)}{more}"
    return text.replace("; ", ", ")  # which parts the reasons of an interval


def unread_files(lake: layout.Lake, config: Config, captures: Mapping[str, Sequence[Capture]]) -> Finder:
    """Finds the files that lie in the folders of a link, and are not read, within the life of the link (T9)."""
    rows_of = unread_rows(lake, config)

    def find(link: str, read_from: int, start: int, end: int) -> Iterator[Missing]:
        rows = list(rows_of(link, read_from, end))
        if rows:
            text = f"link {link!r}: not read: {unread_words(rows)}"
            defects = (Defect(f"{row.path} {row.size} {row.written}", *(row.span or (0, 0)), 1) for row in rows)
            yield Missing(link, UNREAD, text, tuple(defects), len(rows))

    return find


def left_out_records(lake: layout.Lake, config: Config, captures: Mapping[str, Sequence[Capture]]) -> Finder:
    """Finds the records that arrive in an interval, and that `since` or `until` of their link leaves out."""
    files = PacketFiles.of(lake)

    def find(link: str, read_from: int, start: int, end: int) -> Iterator[Missing]:
        yield from left_out(files, link, captures.get(link, ()), config.link(link), start, end)

    return find


def declared_drops(lake: layout.Lake, config: Config, captures: Mapping[str, Sequence[Capture]]) -> Finder:
    """Finds the records that captures say were lost in an interval, where they are more than the link bears."""
    ordered, beside = {link: Captures.of(rows) for link, rows in captures.items()}, drops_beside(lake)

    def find(link: str, read_from: int, start: int, end: int) -> Iterator[Missing]:
        of_link, limit = ordered.get(link, Captures()), config.link(link).max_drops
        found = _lost(beside.get(link, ()), of_link, start, end)
        count, whole = counted(found)
        if count and _pass_limit(lake, link, of_link, count, whole, (start, end), limit):
            text = (
                f"link {link!r}: {drop_words(found)}: more than max_drops = {limit:g} of the records of the "
                "interval, and in no row"
            )
            defects = (
                Defect(
                    f"{each.what} {each.drops.source}".strip(),
                    each.begin if each.drops.start is None else each.drops.start,
                    each.end if each.drops.end is None else each.drops.end,
                    each.drops.count,
                )
                for each in found
                if each.drops.count
            )
            files = {(each.what, each.file) for each in found if each.drops.count}
            yield Missing(link, DROPS, text, tuple(defects), len(files))

    return find


def refused_records(lake: layout.Lake, config: Config, captures: Mapping[str, Sequence[Capture]]) -> Finder:
    """Finds hours of which too many records were refused as late, by their own time: whatever interval they arrive in,
    which may never run."""
    files = PacketFiles.of(lake)
    doubtful: dict[str, Doubtful] = {}

    def find(link: str, read_from: int, start: int, end: int) -> Iterator[Missing]:
        of_link = captures.get(link, ())
        if link not in doubtful:
            doubtful[link] = Doubtful.of(files, link, of_link, config)
        if not (late := doubtful[link].late(start, end)):
            return
        limit, settings = config.limits(link).violating.warning, config.link(link)
        for refused in refused_hours(late, start, end):
            records = records_within(files, link, of_link, *in_life(settings, refused.start, refused.end))
            if refused.total > limit * records:
                yield _refused(link, refused, records, settings)

    return find


def _pass_limit(
    lake: layout.Lake, link: str, captures: Captures, count: int, whole: int, within: tuple[int, int], limit: float
) -> bool:
    """Whether lost records are a larger share of an interval than this; `whole` is what their source saw, or 0."""
    if whole:
        return count > limit * whole
    known, crossing = 0, []
    files, (start, end) = PacketFiles.of(lake), within
    for at in captures.meeting(start, end):
        for row in files.in_force(captures[at]):
            least, most = row["min.timestamp"], row["max.timestamp"]
            if start <= least and most < end:
                known += row["num_records"]
            elif least < end and most >= start:
                crossing.append(row)
    # most files lie within an interval, and the others are read only where they decide
    if count <= limit * (known + count) or count > limit * (
        known + sum(row["num_records"] for row in crossing) + count
    ):
        return count > limit * (known + count)
    return count > limit * (records_within(files, link, captures, start, end) + count)


def lost_of_link(
    lake: layout.Lake, link: str, captures: Captures, start: int = 0, end: int = temporal.END_OF_TIME
) -> list[Lost]:
    """Returns the records that captures of a link, and logs beside them, say were lost in [start, end), ns."""
    return _lost(drops_beside(lake).get(link, ()), captures, start, end)


def _lost(beside: Sequence[Lost], captures: Captures, start: int, end: int) -> list[Lost]:
    logs = [each for each in beside if each.meets(start, end)]
    found = [each for each in captures.lost if each.meets(start, end)]
    return in_order([*found, *logs]) if logs else found


def drop_words(lost: Sequence[Lost]) -> str:
    """Says how many records were lost, between which instants, and which files say so; at least one of them."""
    count, lost = counted(lost)[0], [each for each in lost if each.drops.count]
    names = list(dict.fromkeys(each.file for each in lost))
    files, says = few(names), "say" if len(names) > 1 else "says"
    was = "record was" if count == 1 else "records were"
    return f"{count:,} {was} lost {span_words(lost)}, as {files} {says}"


def drop_lines(lake: layout.Lake) -> list[str]:
    """Describes records that captures say were lost: a line for every link that has some."""
    lines = []
    for link, captures in read_captures(lake, ingested_links(lake)).items():
        if counted(lost := lost_of_link(lake, link, captures))[0]:
            lines.append(f"link {link!r}: {drop_words(lost)}")
    return lines


def _refused(link: str, refused: Refused, records: int, settings: Link) -> Missing:
    kind = "packets" if settings.kind == "pcap" else "records"
    names = few([capture.path.rpartition("/")[2] for capture, _ in refused.late])
    when = f"from {format_instant(refused.start)} to {format_instant(refused.end)}"
    text = (
        f"link {link!r}: {refused.total:,} of {records:,} {kind} {when} were refused as late ({names}): the clock of "
        f"the link was at {format_instant(refused.clock)}, and its skew is "
        f"{format_duration(settings.at(refused.start).skew)}"
    )
    return Missing(link, LATE, text, late_defects(refused), len(refused.late))


def late_defects(refused: Refused) -> tuple[Defect, ...]:
    """Returns what people accept of records that were refused, one for each capture."""
    return tuple(Defect(capture.capture, refused.start, refused.end, count) for capture, count in refused.late)


def damaged_stretches(lake: layout.Lake, config: Config, captures: Mapping[str, Sequence[Capture]]) -> Finder:
    """Finds the holes that damage makes in the coverage of a link, within its life (T5)."""

    def find(link: str, read_from: int, start: int, end: int) -> Iterator[Missing]:
        for capture, hole, span in Captures.of(captures.get(link, ())).holes_in(
            *in_life(config.link(link), read_from, end)
        ):
            if hole.is_gap:
                text = f"link {link!r}: {hole_line(capture, hole, span)}"
                yield Missing(link, DAMAGE, text, (damage_defect(capture, hole, span),))

    return find


def damage_defect(capture: Capture, hole: Hole, span: tuple[int, int]) -> Defect:
    """Returns what people accept of a hole with its time [since, until), ns."""
    return Defect(f"{capture.capture} {hole.offset}", *span, hole.length)


def _unread(lake: layout.Lake) -> dict[str, _Spans]:
    rows = grouped((link, row) for row in told_files(lake).values() if row.unread for link in row.links)
    return {link: _Spans(of_link) for link, of_link in rows.items()}


SOURCES: Sequence[Source] = (left_out_records, damaged_stretches, declared_drops, unread_files, refused_records)
