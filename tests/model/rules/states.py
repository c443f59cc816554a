"""`states`: what each interval of a set is, from what is wanted, what its tables have, and what people said.

The words are those of `lake.words` (SEMANTICS T6, S1, S2, S4, S7, S9).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from lowwater.lake.words import (
    BLOCKED,
    DAMAGED,
    DONE,
    FAILED,
    HALF,
    HELD,
    INCOMPLETE,
    MISSING,
    PROVISIONAL,
    ROLLED_BACK,
    STALE,
    WAITING,
)
from tests.model.rules.claims import GAP, OF_INTERVAL, OPEN, Claims, Defect, LinkView, claims
from tests.model.rules.facts import Approve, Facts, Key, Lift, RollBack, Settings, Span
from tests.model.rules.keys import Have, Row, Wanted, differences, digest, have


@dataclass(frozen=True)
class State:
    """The word of an interval, with the reasons for it; whether a look would run it."""

    word: str
    reasons: frozenset[str] = frozenset()
    due: bool = False


class States:
    """The states of the intervals of a set.

    Args:
        facts: all facts.
        settings: those of the moment.
    """

    def __init__(self, facts: Facts, settings: Settings) -> None:
        self.facts, self.settings = facts, settings
        self.claims: Claims = claims(facts, settings)
        self.wanted = Wanted(self.claims, settings)
        self._found: dict[Span, State] = {}

    @cached_property
    def listed(self) -> list[Span]:
        """The intervals that exist, in order (T6, I3): those that captures cover to their end and all between them,
        those to which a record is charged, those from the first `since` to the last look, and what is published."""
        length, spans = self.settings.interval, set[Span]()
        lives, covered = list[LinkView](), list[Span]()
        for query in self.settings.queries:
            spans.update(self.wanted.charged(query))
            for view in self.wanted.links(query):
                lives.append(view)
                covered += [(max(s, view.life[0]), min(e, view.life[1])) for s, e in view.coverage]
            for entry in self.facts.logs.get(query.name, []):
                if entry.span[1] - entry.span[0] == length and entry.span[0] % length == 0:
                    spans.add(entry.span)
        covered = [span for span in covered if span[0] < span[1]]
        first, ends = min((s for s, _ in covered), default=0), max((view.life[1] for view in lives), default=0)
        # Coverage behind the end of a life shows that it is over, whatever lacks before.
        last = max((e for view in lives for _, e in view.coverage), default=0) if covered else 0
        last = ends if last >= ends else max((e for _, e in covered), default=0)
        numbers = set(range(first // length, -(-last // length) if last >= ends else last // length))
        if begins := [view.settings.since for view in lives if view.settings.since is not None]:
            numbers |= set(range(min(begins) // length, min(self.claims.clock // length, -(-ends // length))))
        return sorted(spans | {(at * length, (at + 1) * length) for at in numbers})

    def rows(self, span: Span) -> set[Row]:
        """Returns the records that a run of the first query would have in its rows."""
        return self.wanted.rows(self.settings.queries[0], span)

    def state(self, span: Span) -> State:
        """Returns the state of an interval."""
        if span not in self._found:
            for each in self.listed:  # in order: a chain may be blocked by the interval before
                if each[0] < span[0] and each not in self._found:
                    self._found[each] = self._state(each)
            self._found[span] = self._state(span)
        return self._found[span]

    @property
    def due(self) -> list[Span]:
        """The intervals that a look would run, the oldest first."""
        return [span for span in self.listed if self.state(span).due]

    def want(self, span: Span) -> str:
        """Returns a name of what is wanted of all queries of the set."""
        return digest([(query.name, self.wanted.key(query, span)) for query in self.settings.queries])

    # The table. The first word that fits is the word.

    def _state(self, span: Span) -> State:
        wants = {query.name: self.wanted.key(query, span) for query in self.settings.queries}
        haves = {query.name: have(self.facts, query.name, span) for query in self.settings.queries}
        statement = self._roll_back(span)
        rolled_back = all(each.rolled_back for each in haves.values())
        if statement is not None and rolled_back and self._stands(statement):
            causes = frozenset(each.cause for each in haves.values() if each.cause)
            return State(DAMAGED, causes) if causes else State(ROLLED_BACK)
        if self._other_roll_back(span):
            return State(BLOCKED, frozenset({"roll back"}))
        if all(_has(each, wants[name]) for name, each in haves.items()):
            if found := {defect.kind for defect in self.passing(span)}:
                return State(INCOMPLETE, frozenset(found))
            return State(DONE if self._closed(span) else PROVISIONAL)
        would, reasons = self._run(wants, haves)
        if statement is not None:
            reasons |= {
                word for name, key in statement.wants if name in wants for word in differences(key, wants[name])
            }
        outcome = self._outcome(span)
        if outcome in ("failed", "failed for now"):
            return State(FAILED, due=outcome == "failed for now" and not self._stops(span, wants)[0])
        if outcome == "warned" and self.settings.approval and not self._approved(span):
            return State(HELD)
        stops, waits = self._stops(span, wants)
        if stops or waits:
            under = {would} - {MISSING}
            return State(BLOCKED if stops else WAITING, frozenset(stops or waits) | reasons | under)
        return State(would, frozenset(reasons), due=True)

    def _run(self, wants: dict[str, Key], haves: dict[str, Have]) -> tuple[str, set[str]]:
        """Returns the word of what should run, with its reasons."""
        causes = {each.cause for name, each in haves.items() if each.cause and not _has(each, wants[name])}
        if causes:
            return DAMAGED, {cause for cause in causes if cause}
        numbers = {each.number for each in haves.values()}
        if numbers == {0}:
            return MISSING, set()
        if 0 in numbers or self._died(haves, wants):
            return HALF, set()
        reasons = {"length"} if any(each.overwritten for each in haves.values()) else set()
        for name, each in haves.items():
            reasons |= differences(each.key, wants[name])
        return STALE, reasons

    def _died(self, haves: dict[str, Have], wants: dict[str, Key]) -> bool:
        """Whether the last run published some tables only."""
        return len({each.number for each in haves.values()}) > 1 and any(_has(e, wants[n]) for n, e in haves.items())

    def passing(self, span: Span) -> Iterator[Defect]:
        """Yields the defects of an interval that do not stop it, or that would not stop what is published."""
        for query in self.settings.queries:
            names = {view.settings.name for view in self.wanted.links(query)}
            for defect in self.claims.defects:
                start = span[0] if defect.kind in OF_INTERVAL else span[0] - query.back
                if defect.link in names and defect.kind != GAP and defect.meets(start, span[1]):
                    yield defect
            for view in self.wanted.alive(query, span):
                for kind, part in view.missing(span[0] - query.back, span[1]):
                    yield Defect(kind, view.settings.name, *part)

    def _closed(self, span: Span) -> bool:
        """Whether every link has reported to the end of an interval and its skew (T6)."""
        return not any(
            True
            for query in self.settings.queries
            for view in self.wanted.alive(query, span)
            for _ in view.missing(span[0] - query.back, span[1] + view.settings.skew)
        )

    def _stops(self, span: Span, wants: dict[str, Key]) -> tuple[set[str], set[str]]:
        """Returns what stops an interval that should run: without an end in sight, and with one."""
        stops, waits = set[str](), set[str]()
        for query in self.settings.queries:
            for view in self.wanted.alive(query, span):
                patience = self.settings.patience if view.settings.patience is None else view.settings.patience
                patient = self.claims.clock < span[1] + patience
                for kind, _ in view.missing(span[0] - query.back, span[1]):
                    policy = view.settings.policy
                    if (kind == OPEN and patient) or policy == "wait":
                        waits.add(kind)
                    elif policy == "fail":
                        stops.add(kind)
                available = {c.content.id for c in view.captures if view.files.available(c.content)}
                read = dict(wants[query.name].links).get(view.settings.name)
                if read and any(name not in available for name, _ in read.captures):
                    stops.add("packets")
            before = (2 * span[0] - span[1], span[0])
            if query.chained and wants[query.name].before and before in self._found:
                state = self._found[before]
                if state.word in (BLOCKED, WAITING, HELD) or (state.word == FAILED and not state.due):
                    stops.add("before")
        return stops, waits

    def _outcome(self, span: Span) -> str | None:
        """Returns how the last run of what is wanted ended, if it did not publish."""
        want = self.want(span)
        return next((r.outcome for r in reversed(self.facts.results) if r.span == span and r.want == want), None)

    def _approved(self, span: Span) -> bool:
        want = self.want(span)
        return any(
            isinstance(each, Approve) and each.span == span and each.want == want for each in self.facts.statements
        )

    # Roll backs (S7).

    def _roll_back(self, span: Span) -> RollBack | None:
        """Returns the last roll back of an interval, if it was not lifted."""
        for each in reversed(self.facts.statements):
            if isinstance(each, RollBack | Lift) and each.span == span:
                return each if isinstance(each, RollBack) else None
        return None

    def _stands(self, statement: RollBack) -> bool:
        """Whether the inputs of a roll back are those of today."""
        queries = {query.name: query for query in self.settings.queries}
        return all(
            name in queries and self.wanted.key(queries[name], statement.span) == key for name, key in statement.wants
        )

    def _other_roll_back(self, span: Span) -> bool:
        """Whether a roll back of an interval of another length stands that meets this one, and nothing was published
        over a part of it."""
        spans = {each.span for each in self.facts.statements if isinstance(each, RollBack)}
        for other in spans - {span}:
            if other[0] < span[1] and other[1] > span[0] and other[1] - other[0] != span[1] - span[0]:
                statement = self._roll_back(other)
                names = [query.name for query in self.settings.queries]
                haves = [have(self.facts, name, other) for name in names]
                untouched = all(each.rolled_back and not each.overwritten for each in haves)
                if statement is not None and untouched and self._stands(statement):
                    return True
        return False


def _has(found: Have, want: Key) -> bool:
    """Whether a table has the rows that are wanted. A table that was restored to what is wanted has them."""
    return found.key == want and not found.overwritten and found.cause in (None, "restored")
