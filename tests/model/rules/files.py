"""What the files of a link are: which contents lie there or lay there, under which names, and which of them are read
(SEMANTICS T1, T5, T9)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property

from tests.model.rules.facts import FOREVER, Aside, Content, Covers, Facts, Link, Look, Place, Settings, Span
from tests.model.rules.records import Capture, bounds, sane_positions

READ, COPY, PART, REPLACED, OVERLAP = "read", "copy", "part", "replaced", "overlap"
UNCLAIMED, UNREADABLE, SET_ASIDE, EMPTY, LOST = "unclaimed", "unreadable", "set aside", "empty", "lost"


@dataclass
class Version:
    """A content at a place, with the last moment at which a look found it there."""

    content: str
    moment: int
    growing: bool


@dataclass
class History:
    """The versions at a place, in the order of the log; the last one lies there, or none."""

    versions: list[Version] = field(default_factory=list)
    lies: bool = False


def histories(looks: Sequence[Look]) -> dict[Place, History]:
    """Returns what lay at each place. What lies there and is not told of was found unchanged, so it does not grow."""
    found: dict[Place, History] = {}
    for look in looks:
        for sighting in look.sightings:
            history = found.setdefault(sighting.place, History())
            history.lies = sighting.content is not None
            if sighting.content is not None:
                if history.versions and history.versions[-1].content == sighting.content:
                    history.versions.pop()
                history.versions.append(Version(sighting.content, sighting.moment, sighting.growing))
        told = {sighting.place for sighting in look.sightings}
        for place, history in found.items():
            if history.lies:
                version = history.versions[-1]
                version.growing &= place in told or version.moment == look.moment  # a portion of one look
                version.moment = look.moment
    return found


def owners(place: Place, settings: Settings) -> list[Link]:
    """Returns the links of a file: those of its folder that claim it; if none does, those whose pattern begins as its
    name does, else all of the folder (T9)."""
    folder, name = place
    links = [link for link in settings.links.values() if folder in link.folders and not link.removed]
    links = links or [link for link in settings.links.values() if folder in (*link.former, *link.folders)]
    alike = [link for link in links if any(name.startswith(each.split("*")[0]) for each in link.claims)]
    return [link for link in links if claimed(name, link)] or alike or links


def claimed(name: str, link: Link) -> bool:
    """Whether a pattern of a link claims a name."""
    return any(fnmatchcase(name, pattern) for pattern in link.claims)


class LinkFiles:
    """The files of one link.

    Args:
        link: its settings.
        seen: histories of the places that are its own.
        facts: contents, and what people said.

    Attributes:
        versions: the versions at each place; a place in a former folder is the one of that name in a folder of today.
        lying: the content that lies at each place now.
    """

    def __init__(self, link: Link, seen: dict[Place, History], facts: Facts) -> None:
        self.link, self._facts = link, facts
        self.versions: dict[Place, list[Version]] = {}
        self.lying: dict[Place, str] = {}
        for place in sorted(seen, key=lambda place: place[0] in link.folders):
            history = seen[place]
            self.versions.setdefault(self._today(place, seen), []).extend(history.versions)
            if history.lies and place[0] in link.folders and not link.removed:
                self.lying[place] = history.versions[-1].content
        self._had: dict[str, set[Place]] = defaultdict(set)
        for place, versions in self.versions.items():
            for version in versions:
                self._had[version.content].add(place)
        self._names: dict[str, list[Place]] = {}
        self._words: dict[str, str] = {}
        self._asides: dict[str, dict[Place, bool]] = defaultdict(dict)
        for each in facts.statements:
            if isinstance(each, Aside) and each.place[0] in (*link.folders, *link.former):
                self._asides[each.content][each.place] = each.aside

    def _today(self, place: Place, seen: dict[Place, History]) -> Place:
        if place[0] in self.link.folders:
            return place
        places = [(folder, place[1]) for folder in self.link.folders if (folder, place[1]) in seen]
        return places[0] if len(places) == 1 else place

    @cached_property
    def contents(self) -> list[Content]:
        """All contents that were ever seen, in no order of looks."""
        return [self._facts.contents[name] for name in sorted(self._had)]

    def names(self, content: Content) -> list[Place]:
        """Returns the claimed names under which a content lies; else those that it had; else all of its names."""
        if content.id not in self._names:
            had = sorted(self._had[content.id])
            lying = [place for place in had if self.lying.get(place) == content.id]
            lying = [place for place in lying if not self._is_left(content, place)] or lying
            under = [[place for place in places if claimed(place[1], self.link)] for places in (lying, had)]
            self._names[content.id] = under[0] or under[1] or lying or had
        return self._names[content.id]

    def is_aside(self, content: Content) -> bool:
        """Whether people set a content aside wherever it lies as a file of the link. What they said of a place goes
        with its file to another folder, under its name."""
        lying = [place for place in self.names(content) if self.lying.get(place) == content.id]
        aside = any(self._asides.get(content.id, {}).values())
        return aside and all(self._is_left(content, place) for place in lying)

    def _is_left(self, content: Content, place: Place) -> bool:
        said = self._asides.get(content.id, {})
        folders = *self.link.folders, *self.link.former
        gone = [each for each, aside in said.items() if aside and self.lying.get(each) != content.id]
        moved = [other[1] for other in gone if other[0] in folders]
        return said.get(place, place[1] in moved)

    def is_there(self, content: Content) -> bool:
        """Whether the file of a content lies in a folder of the link."""
        return content.id in self.lying.values()

    def available(self, content: Content) -> bool:
        """Whether the packets of a content are in the lake, or can be decoded."""
        kept = content.id in self._facts.decoded and content.id not in self._facts.removed
        return kept or self.is_there(content)

    # What became of each content. Only what lies there, was ever there and was said counts, so no look decides.

    def word(self, content: Content) -> str:
        """Returns what a content is; READ for one that may be a capture."""
        if content.id not in self._words:
            self._words[content.id] = self._word(content)
        return self._words[content.id]

    def _word(self, content: Content) -> str:
        if self.is_aside(content):
            return SET_ASIDE
        replaced = any(self._successors(content))
        if replaced and not self.is_there(content):
            return REPLACED
        if not content.readable:
            return UNREADABLE
        if not content.bytes_there:
            return EMPTY
        if content.stamps and any(self._wholes(content)):
            growing = any(self._newest(content, place).growing for place in self.names(content))
            return PART if content.whole and not growing else REPLACED
        if content.id not in self._facts.decoded and not self.is_there(content):
            return LOST if content.stamps else EMPTY
        if replaced or not self.claims(content):  # an old version that lies there under an unclaimed name
            return UNCLAIMED if content.stamps else EMPTY
        return READ if content.stamps or any(self.declared(content)) else EMPTY

    def _successors(self, content: Content) -> Iterator[str]:
        """Yields the newer versions at a place of a content that replace it (T5)."""
        for place in self.names(content):
            versions = [version.content for version in self.versions[place]]
            if self.lying.get(place) != content.id:
                last = len(versions) - versions[::-1].index(content.id)
                for other in versions[last:]:
                    if other != content.id and self._replaces(self._facts.contents[other], content, place):
                        yield other

    def _replaces(self, new: Content, old: Content, place: Place) -> bool:
        """Whether one version replaces an older one of its place: it is of the same time, or begins with all of it, or
        has its records by a corrected clock, or that one has no record of the time that its name tells; else a name was
        used again."""
        if not old.stamps or new.begins_with(old) or (new.shape and new.shape == old.shape):
            return True
        if not new.stamps:
            return False
        named = self._named(place)
        begin, end = named[0] if named is not None else (0, FOREVER)
        if not any(begin <= stamp < end for stamp in old.stamps):
            return True
        spans = [times(each, self.link.jump) for each in (new, old)]
        # Records outside of what the name tells do not say when it was taken, if others do.
        both = [(max(a, begin), min(b, end)) if a < end and b >= begin else (a, b) for a, b in spans]
        low, high = max(first for first, _ in both), min(last for _, last in both)
        return high - low > self.link.skew or (low <= high and (low, high) in both)

    def _wholes(self, content: Content) -> Iterator[Content]:
        """Yields the captures, under any name, that begin with all bytes of a content."""
        for other in self.contents:
            if not other.begins_with(content) or not self.claims(other) or not self.available(other):
                continue
            if not self.is_aside(other) and not any(self._successors(other)):
                yield other

    def claims(self, content: Content) -> bool:
        """Whether a pattern claims a content under a name that counts."""
        return any(claimed(name, self.link) for _, name in self.names(content))

    def _newest(self, content: Content, place: Place) -> Version:
        return next(version for version in reversed(self.versions[place]) if version.content == content.id)

    # Captures.

    def declared(self, content: Content) -> Iterator[tuple[Span, Place, bool, bool]]:
        """Yields what a content is declared to cover: span, place, whether an end was made up from the rotation, and
        whether a person said so, which counts before any name. Of a content with records the first one counts (T5)."""
        names = self.names(content)
        lineage = {content.id, *(each.id for each in self.contents if content.id in self._successors(each))}
        spans = [
            each.span
            for each in self._facts.statements
            if isinstance(each, Covers) and each.link == self.link.name and each.content in lineage
        ]
        for span in dict.fromkeys(reversed(spans)):
            yield span, names[0], False, True
        if spans:
            return
        stamps = [content.stamps[at] for at in sane_positions(content.stamps, self.link.jump)]
        first = stamps[0] if stamps else 0
        told = []
        for place in names:
            if (named := self._named(place)) is not None:
                told.append((named[0], place, named[1], False))
        if content.stamps and len(told) < len(names):  # a name that tells nothing is better than one that is wrong
            told = [each for each in told if each[0][0] <= first < each[0][1]]
        yield from sorted(told, key=lambda each: (not each[0][0] <= first < each[0][1], each[1]))

    def _named(self, place: Place) -> tuple[Span, bool] | None:
        """What a name declares, and whether its end is made up from the rotation."""
        start, end = self.link.named(place[1])
        rotated = end is None and self.link.rotation is not None
        end = start + self.link.rotation if rotated and start is not None and self.link.rotation else end
        return None if start is None or end is None else ((start, end), rotated)

    def captures(self) -> list[Capture]:
        """Returns the captures of the link, in the order of T1, before overlaps are looked for."""
        found = []
        for content in self.contents:
            if self.word(content) != READ:
                continue
            names = self.names(content)
            versions = [self._newest(content, place) for place in names]
            moment, growing = max(each.moment for each in versions), all(each.growing for each in versions)
            sane, whole = sane_positions(content.stamps, self.link.jump), content.whole and not growing
            declared = dict.fromkeys(self.declared(content))
            for span, place, rotated, by_hand in [*declared][: 1 if content.stamps else None]:
                found.append(Capture(self.link.name, content, place, span, rotated, by_hand, whole, moment, sane=sane))
            if not declared:
                place = next((each for each in names if self._named(each) is None), names[0])
                found.append(Capture(self.link.name, content, place, None, whole=whole, moment=moment, sane=sane))
        # A file without records that was renamed has grown under its other name.
        begun = {each.declared[0] for each in found if each.sane and each.declared}
        found = [
            each
            for each in found
            if each.sane or each.by_hand or self.is_there(each.content) or not each.declared
            or each.declared[0] not in begun
        ]  # fmt: skip
        return sorted(found, key=lambda capture: capture.order)


def times(content: Content, jump: int) -> Span:
    """First and largest timestamp of a content with records, both included, without those at its ends that lead."""
    stamps = tuple(content.stamps[at] for at in sane_positions(content.stamps, jump))
    if not stamps:
        return content.stamps[0], max(content.stamps)
    return bounds(stamps, jump)
