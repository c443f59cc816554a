"""What an interval is made of: the key of the rows that today's facts ask for, the key that the log of a table has, and
their difference in words (SEMANTICS S1, S2, S9)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from tests.model.rules import records as rec
from tests.model.rules.claims import Claims, LinkView
from tests.model.rules.facts import Commit, Damage, Facts, Key, LinkKey, Query, Settings, Span

Row = tuple[str, str, int]
"""A record that is in the rows of an interval: link, content, position."""


def digest(value: object) -> str:
    """Returns a short name of a value."""
    return sha256(repr(value).encode()).hexdigest()[:16]


class Wanted:
    """Keys of the rows that the facts ask for."""

    def __init__(self, claims: Claims, settings: Settings) -> None:
        self._claims, self._settings = claims, settings
        self._keys: dict[tuple[str, Span], Key] = {}

    def links(self, query: Query) -> list[LinkView]:
        """Returns the links that a query reads, in the order of their names."""
        names = self._claims.links if query.links is None else query.links
        return [self._claims.links[name] for name in sorted(names) if name in self._claims.links]

    def alive(self, query: Query, span: Span) -> list[LinkView]:
        """Returns the links whose life meets what an interval of a query reads."""
        start, end = span[0] - query.back, span[1]
        return [view for view in self.links(query) if view.life[0] < end and view.life[1] > start]

    def key(self, query: Query, span: Span) -> Key:
        """Returns the key of an interval of a query. Coverage and policies are in none: no row depends on them."""
        found = self._keys.get((query.name, span))
        if found is None:
            chain = [span]
            while query.chained and (query.name, chain[-1]) not in self._keys and self._goes_back(query, chain[-1]):
                start, end = chain[-1]
                chain.append((2 * start - end, start))
            for each in reversed(chain):
                self._keys.setdefault((query.name, each), self._key(query, each))
            found = self._keys[query.name, span]
        return found

    def _goes_back(self, query: Query, span: Span) -> bool:
        """Whether an interval takes a state from the one before it: it begins behind the begin of all coverage."""
        begins = [view.coverage[0][0] for view in self.links(query) if view.coverage]
        return bool(begins) and span[0] > min(begins)

    def _key(self, query: Query, span: Span) -> Key:
        start, end = span[0] - query.back, span[1]
        links = []
        for view in self.alive(query, span):
            since, until = view.settings.since, view.life[1]
            bounds = since if since is not None and start < since < end else None, until if until <= end else None
            captures = tuple(
                (name, digest(records)) for name, records in self._records[view.settings.name].of(start, span[0], end)
            )
            links.append((view.settings.name, LinkKey(captures, view.settings.skew, bounds)))
        ended = before = None
        if query.chained:
            ends = [min(view.life[1], view.coverage[-1][1]) for view in self.links(query) if view.coverage]
            ended = max(ends) if ends and max(ends) < end else None
            previous = self._keys.get((query.name, (2 * span[0] - end, span[0])))
            before = digest(previous) if previous and self._goes_back(query, span) else None
        text = f"{query.text} back={query.back} chained={query.chained}"
        return Key(text, tuple(links), ended, before)

    @cached_property
    def _records(self) -> dict[str, _Records]:
        return {name: _Records(view) for name, view in self._claims.links.items()}

    def rows(self, query: Query, span: Span) -> set[Row]:
        """Returns the records that are in the rows of an interval: those whose own time lies in it."""
        return {
            (view.settings.name, name, record[0])
            for view in self.links(query)
            for name, records in self._records[view.settings.name].of(*span[:1], *span)
            for record in records
            if record[1] == rec.SANE and span[0] <= record[3] < span[1]
        }

    def charged(self, query: Query) -> Iterator[Span]:
        """Yields the intervals to which a record is charged, or in whose time one was refused (T6)."""
        length = self._settings.interval
        for view in self.links(query):
            numbers = {
                instant // length
                for capture in view.captures
                for record in capture.records
                for instant in (record.charged, record.stamp if record.account == rec.LATE else record.charged)
            }
            yield from ((at * length, (at + 1) * length) for at in numbers)


class _Records:
    """The records of a link by the hour in which they count."""

    def __init__(self, view: LinkView) -> None:
        self._hours: dict[int, dict[int, list[rec.Record]]] = defaultdict(lambda: defaultdict(list))
        self._captures = view.captures
        for at, capture in enumerate(view.captures):
            for record in capture.records:
                own = [] if record.account in (rec.MALFORMED, rec.OUTSIDE) else [record.stamp]
                for hour in {instant // _HOUR for instant in (record.charged, *own)}:
                    self._hours[hour][at].append(record)

    def of(self, back: int, start: int, end: int) -> Iterator[tuple[str, tuple[tuple[int, str, int, int], ...]]]:
        """Yields captures with the records that an interval depends on: those of its own time and of that which it
        reads back to, and those that are charged to it. What comes before a capture counts where it moves an
        arrival."""
        found: dict[int, dict[int, tuple[int, str, int, int]]] = defaultdict(dict)
        for hour in range(back // _HOUR, -(-end // _HOUR)):
            for at, records in self._hours.get(hour, {}).items():
                for record in records:
                    own = record.account in (rec.SANE, rec.LATE) and back <= record.stamp < end
                    if own or start <= record.charged < end:
                        found[at][record.position] = record.position, record.account, record.arrival, record.stamp
        for at in sorted(found):
            yield self._captures[at].content.id, tuple(found[at][position] for position in sorted(found[at]))


_HOUR = 3600 * 10**9


def differences(have: Key | None, want: Key) -> set[str]:
    """Returns in words how two keys differ."""
    if have is None:
        return set()
    had, wanted = dict(have.links), dict(want.links)
    found = {"text"} if have.text != want.text else set()
    found |= {"links"} if had.keys() != wanted.keys() else set()
    found |= {"life"} if have.ended != want.ended else set()
    found |= {"before"} if have.before != want.before else set()
    for name in had.keys() & wanted.keys():
        for word in ("captures", "skew", "life"):
            if getattr(had[name], word) != getattr(wanted[name], word):
                found.add({"captures": "capture"}.get(word, word))
    return found


@dataclass(frozen=True)
class Have:
    """What the log of a table says of an interval."""

    key: Key | None = None
    cause: str | None = None  # of damage
    overwritten: bool = False  # another interval was published over it since
    rolled_back: bool = False
    number: int = 0  # of its publications


def have(facts: Facts, query: str, span: Span) -> Have:
    """Reads the log of a table for an interval."""
    found = Have()
    for entry in facts.logs.get(query, []):
        if entry.span[0] >= span[1] or entry.span[1] <= span[0]:
            continue
        if isinstance(entry, Damage):
            if not found.number:
                continue
            key = entry.key if entry.cause == "restored" else found.key
            found = Have(key, entry.cause, found.overwritten, found.rolled_back, found.number)
        elif entry.span == span:
            number = found.number + (not entry.rolled_back)
            found = Have(entry.key, rolled_back=entry.rolled_back, number=number)
        elif found.number:
            found = Have(found.key, found.cause, True, found.rolled_back, found.number)
    return found


def published(facts: Facts, query: str, span: Span) -> list[Key]:
    """Returns the keys of all publications of an interval in a table, the first one first."""
    entries = facts.logs.get(query, [])
    return [e.key for e in entries if isinstance(e, Commit) and e.span == span and not e.rolled_back]
