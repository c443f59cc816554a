"""`claims`: from facts and settings to the captures of each link in order, its coverage in force, and its defects
(SEMANTICS T1, T5, T6, T9, A1)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import lgamma, log

from lowwater.catalog.time import LONG_SILENCE, is_late, uncovered
from lowwater.instants import HOUR, SECOND
from tests.model.rules import files, records as rec
from tests.model.rules.facts import FOREVER, Accept, Facts, Link, Place, Settings, Span
from tests.model.rules.files import LinkFiles
from tests.model.rules.records import Capture

GAP, OPEN, UNREAD, OVERLAP, OUTSIDE = "gap", "open", "unread", "overlap", "outside"
LATE, DAMAGE, DROPS, COLUMN = "late", "damage", "drops", "column"
UNCOVERED, SILENCE, INTERFACE, TWICE, PAUSE, PART = "uncovered", "silence", "interface", "twice", "pause", "part"
OF_INTERVAL = {OUTSIDE, LATE, DROPS}
"""Defects of the interval itself; others are those of all that a query reads, back in time too."""

NAMED_TO = SECOND  # names tell the begin of a file to a second
SHORTEST, RARE = 10 * SECOND, 1000


@dataclass(frozen=True)
class Defect:
    """What is known to be missing, or to be told: its link and range, the content that it is of, and a number."""

    kind: str
    link: str
    start: int
    end: int
    what: str = ""
    number: int = 0

    def meets(self, start: int, end: int) -> bool:
        return self.start < end and self.end > start


@dataclass
class LinkView:
    """What is derived of a link.

    Attributes:
        captures: those that are read, in the order of T1, with their records.
        coverage: joined coverage. reported: with what people accept to be missing.
        life: its bounds. A section that is gone ends where its coverage ends.
    """

    settings: Link
    files: LinkFiles
    captures: list[Capture] = field(default_factory=list)
    coverage: list[Span] = field(default_factory=list)
    reported: list[Span] = field(default_factory=list)
    life: Span = (0, FOREVER)

    def missing(self, start: int, end: int, kinds: Iterable[str] = (GAP, OPEN)) -> Iterator[tuple[str, Span]]:
        """Yields what is not reported of a range within the life, as a gap or, behind all coverage, as open."""
        last = self.coverage[-1][1] if self.coverage else 0
        for low, high in uncovered(self.reported, max(start, self.life[0]), min(end, self.life[1])):
            for kind, span in ((GAP, (low, min(high, last))), (OPEN, (max(low, last), high))):
                if span[0] < span[1] and kind in kinds:
                    yield kind, span


@dataclass
class Claims:
    """The view of all links. `told` changes no word of an interval."""

    links: dict[str, LinkView] = field(default_factory=dict)
    defects: list[Defect] = field(default_factory=list)
    told: list[Defect] = field(default_factory=list)
    words: dict[tuple[str, str], str] = field(default_factory=dict)
    clock: int = 0  # of the host, at the newest look

    def word(self, link: str, content: str, place: Place) -> str:
        """Returns what the file at a place is, whose content is given."""
        word, view = self.words[link, content], self.links[link]
        places = {capture.place for capture in view.captures if capture.content.id == content}
        lying = {place for place, name in view.files.lying.items() if name == content}
        if word == files.READ and place in lying - places and places & lying:
            return files.COPY
        return word


def claims(facts: Facts, settings: Settings) -> Claims:
    """Derives captures, coverage and defects from all facts. It depends on the newest sightings and on statements, and
    of a name that was used again on the order of its versions; not on the order or the number of looks."""
    found = captures(facts, settings)
    for view in found.links.values():
        for defect in [*_defects(view, found, settings)]:
            _accept(defect, facts.statements, found)
        found.told += [*_accepted_gaps(view, facts.statements), *_told(view)]
    for name, view in found.links.items():
        others = {c.content.id for other in found.links.values() if other is not view for c in other.captures}
        for capture in view.captures:
            if capture.content.id in others and capture.sane:
                found.told.append(_of_records(TWICE, capture, name))
    return found


def captures(facts: Facts, settings: Settings) -> Claims:
    """Derives the captures of the links, with their coverage and the accounts of their records, and no defects."""
    found = Claims(clock=facts.looks[-1].moment if facts.looks else 0)
    seen: dict[str, dict[Place, files.History]] = defaultdict(dict)
    for place, history in files.histories(facts.looks).items():
        for link in files.owners(place, settings):
            if history.versions:
                seen[link.name][place] = history
    for name, link in settings.links.items():
        view = found.links[name] = LinkView(link, LinkFiles(link, seen[name], facts))
        _choose(view, found)
        _cover(view, facts.statements)
    return found


def _of_records(kind: str, capture: Capture, link: str) -> Defect:
    stamps = capture.content.stamps
    return Defect(kind, link, min(stamps), max(stamps) + 1, capture.content.id)


def _choose(view: LinkView, found: Claims) -> None:
    """Chooses the captures that are read. Of two that overlap by more than the skew the first in the order of T1
    stands, until a person says otherwise."""
    link, name = view.settings, view.settings.name
    for content in view.files.contents:
        found.words[name, content.id] = view.files.word(content)
    candidates = view.files.captures()
    extents: list[tuple[Span, Span | None]] = []
    for capture in candidates:
        extent = rec.extent(capture, link.jump)
        by_hand = rec.own_coverage(capture, link.jump, -1) if capture.by_hand else None
        if any(_overlap(extent, other) > link.skew or _overlap(by_hand, hand) > link.skew for other, hand in extents):
            found.words[name, capture.content.id] = OVERLAP
        else:
            extents.append((extent, by_hand))
            view.captures.append(capture)
    rec.judge(view.captures, link.jump)


def _overlap(span: Span | None, other: Span | None) -> int:
    return min(span[1], other[1]) - max(span[0], other[0]) if span and other else -1


def _cover(view: LinkView, statements: Sequence[object]) -> None:
    """Finds the coverage in force (T5), the life, and the accounts of all records."""
    link, clock = view.settings, -1
    for capture in view.captures:
        largest = max(capture.kept, default=-1)
        if capture.declared and capture.declared[0] <= capture.moment < capture.declared[1]:
            # It may still be written; but a record ahead of the host's clock shows that this clock is wrong.
            capture.whole &= largest > capture.moment + link.jump
        capture.covers = rec.own_coverage(capture, link.jump, clock)
        clock = max(clock, largest)
    own = [capture.covers for capture in view.captures]
    for at, capture in enumerate(view.captures):
        if at and capture.rotated and capture.sane and own[at][0] == own[at - 1][0]:
            start, end = own[at]
            capture.covers = min(max(capture.stamps[0], start), end), end
    begins = sorted({capture.covers[0] for capture in view.captures})
    for capture in view.captures:
        start, end = capture.covers
        following = next((begin for begin in begins if begin > start), FOREVER)
        if capture.rotated and following < end - NAMED_TO:
            capture.covers = start, min(max(max(capture.kept, default=-1), start), end)
    view.coverage = _joined(view)
    end = view.coverage[-1][1] if view.coverage else 0
    until = FOREVER if link.until is None else link.until
    view.life = link.since or 0, min(until, end) if link.removed else until
    accepted = [
        each.span
        for each in statements
        if isinstance(each, Accept) and each.link == link.name and each.kind in (GAP, OPEN)
    ]
    view.reported = _merged([*view.coverage, *accepted])
    rec.account(view.captures, link, view.life)


def _joined(view: LinkView) -> list[Span]:
    """Joins the coverage of captures, and the bounds of the life, over pauses within the tolerance."""
    link, joined, whole = view.settings, list[Span](), False
    if link.since is not None:
        joined, whole = [(link.since, link.since)], True
    for (start, end), ends_well in sorted((c.covers, c.whole) for c in view.captures if c.covers[0] < c.covers[1]):
        if not joined or start > joined[-1][1] + (link.gap_tolerance if whole else 0):
            joined.append((start, end))
            whole = ends_well
        elif end > joined[-1][1]:
            joined[-1] = joined[-1][0], end
            whole = ends_well
    if joined and link.until is not None and whole and 0 < link.until - joined[-1][1] <= link.gap_tolerance:
        joined[-1] = joined[-1][0], link.until
    return [span for span in joined if span[0] < span[1]]


def _merged(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


# Defects.


def _accept(defect: Defect, statements: Sequence[object], found: Claims) -> None:
    """A defect is told only where people accepted all of it, and it is no larger than it was."""
    spans = _merged(
        each.span
        for each in statements
        if isinstance(each, Accept)
        and (each.kind, each.link, each.what) == (defect.kind, defect.link, defect.what)
        and each.number >= defect.number
    )
    (found.defects if any(uncovered(spans, defect.start, defect.end)) else found.told).append(defect)


def _defects(view: LinkView, found: Claims, settings: Settings) -> Iterator[Defect]:
    yield from _gaps(view)
    yield from _unread(view, found)
    yield from _by_account(view, settings)
    reads = {
        each
        for query in settings.queries
        for each in query.reads
        if query.links is None or view.settings.name in query.links
    }
    for capture in view.captures:
        name, content = view.settings.name, capture.content
        for start, end in content.damaged:
            yield Defect(DAMAGE, name, start, end, content.id)
        if content.lacks & reads and content.stamps:
            yield _of_records(COLUMN, capture, name)


def _gaps(view: LinkView) -> Iterator[Defect]:
    if view.coverage:
        start = view.coverage[0][0] if view.settings.since is None else view.settings.since
        for _, span in view.missing(start, view.coverage[-1][1], (GAP,)):
            yield Defect(GAP, view.settings.name, *span)


def _accepted_gaps(view: LinkView, statements: Sequence[object]) -> Iterator[Defect]:
    for each in statements:
        if isinstance(each, Accept) and each.link == view.settings.name and each.kind in (GAP, OPEN):
            for low, high in uncovered(view.coverage, *each.span):
                yield Defect(each.kind, each.link, low, high)


def _unread(view: LinkView, found: Claims) -> Iterator[Defect]:
    """Files that are not read, without the silences of an hour or more in them (T9)."""
    name = view.settings.name
    for content in view.files.contents:
        word = found.words[name, content.id]
        # Somebody has begun to write a file of 0 bytes of which a pattern takes the name.
        begun = not content.bytes_there and view.files.claims(content) and word == files.EMPTY
        if not begun and word not in (OVERLAP, files.UNCLAIMED, files.UNREADABLE, files.LOST):
            continue
        kind = OVERLAP if word == OVERLAP else UNREAD
        stamps = sorted(content.stamps[at] for at in rec.sane_positions(content.stamps, view.settings.jump))
        spans = [span for span, *_ in view.files.declared(content)][:1]
        if stamps:
            cuts = [at for at, (low, high) in enumerate(pairwise(stamps), 1) if high - low >= HOUR]
            spans = [(stamps[low], stamps[high - 1] + 1) for low, high in pairwise([0, *cuts, len(stamps)])]
        elif not spans and not begun:
            found.told.append(Defect(UNREAD, name, 0, 0, content.id))
        for start, end in spans:
            start, end = max(start, view.life[0]), min(end, view.life[1])
            if start < end:
                yield Defect(kind, name, start, end, content.id)


def _by_account(view: LinkView, settings: Settings) -> Iterator[Defect]:
    """Records that are in no row: outside of the life, by interval; refused as late, by the hour of their own time;
    lost before they were written, by interval (T6)."""
    link, length = view.settings, settings.interval
    outside, own, refused, sane = Counter[int](), Counter[int](), Counter[int](), Counter[int]()
    for record in (record for capture in view.captures for record in capture.records):
        if record.account == rec.OUTSIDE:
            outside[record.arrival // length] += not is_late(record.arrival, record.stamp, link.skew)
        elif record.account != rec.MALFORMED:
            own[record.stamp // HOUR] += 1
            refused[record.stamp // HOUR] += record.account == rec.LATE
            sane[record.stamp // length] += record.account == rec.SANE
    for at, number in sorted(outside.items()):
        if number and link.outside != "accepted":
            yield Defect(OUTSIDE, link.name, at * length, (at + 1) * length, number=number)
    for hour, number in sorted(refused.items()):
        if number > link.violating * own[hour]:
            yield Defect(LATE, link.name, hour * HOUR, (hour + 1) * HOUR, number=number)
    lost = Counter[int]()
    for capture in view.captures:
        start, end = capture.covers
        if capture.content.drops and start < end:
            for at in range(start // length, -(-end // length)):
                lost[at] += capture.content.drops
    for at, number in sorted(lost.items()):
        if number > link.max_drops * (number + sane[at]):
            yield Defect(DROPS, link.name, at * length, (at + 1) * length, number=number)


def _told(view: LinkView) -> Iterator[Defect]:
    """What is said and changes no word."""
    link, name = view.settings, view.settings.name
    interfaces = frozenset[str]().union(*(capture.content.interfaces for capture in view.captures))
    for content in view.files.contents:
        if content.stamps and view.files.word(content) == PART:
            yield Defect(PART, name, min(content.stamps), max(content.stamps) + 1, content.id)
    for capture in view.captures:
        if capture.content.interfaces and capture.content.interfaces != interfaces:
            yield Defect(INTERFACE, name, *capture.covers, capture.content.id)
        if capture.declared:
            low, high = capture.declared[0] - link.skew, capture.declared[1] + link.skew
            read = [each.stamp for each in capture.records if each.account in (rec.SANE, rec.LATE)]
            if beyond := [stamp for stamp in read if not low <= stamp < high]:
                yield Defect(UNCOVERED, name, min(beyond), max(beyond) + 1, capture.content.id, len(beyond))
        for start, end in _silences(capture, view):
            yield Defect(SILENCE, name, start, end, capture.content.id)
    spans = _merged(capture.covers for capture in view.captures if capture.covers[0] < capture.covers[1])
    for (_, end), (start, _) in pairwise(spans):
        if any(low < start and end < high for low, high in view.coverage):
            yield Defect(PAUSE, name, end, start)


def _silences(capture: Capture, view: LinkView) -> Iterator[Span]:
    """Long silences before the first and behind the last record, as far as the capture covers (T5)."""
    stamps = capture.kept
    if not capture.rotated or len(stamps) < 2:
        return
    first, largest = min(stamps), max(stamps)
    lull = max(after - before for before, after in pairwise(sorted(stamps)))
    others = [stamp for other in view.captures if other is not capture for stamp in other.kept]
    before = max([capture.covers[0], *(stamp for stamp in others if stamp < first)])
    behind = min([capture.covers[1], *(stamp for stamp in others if stamp > largest)])
    for start, end in ((before, first), (largest, behind)):
        length = end - start
        if length > max(SHORTEST, view.settings.gap_tolerance) and 0 < LONG_SILENCE * lull < length:
            inner, outer = (largest - first) / lull, length / lull
            if lgamma(inner + outer + 1) - lgamma(inner + 1) - lgamma(outer + 1) >= log(RARE):
                yield start, end
