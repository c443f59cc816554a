"""Laws that every history keeps, whatever its facts are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lowwater.instants import HOUR
from tests.model.rules import files, records as rec
from tests.model.rules.facts import Facts, Look, Place, Settings, Sighting
from tests.model.rules.states import DONE, PROVISIONAL, States

if TYPE_CHECKING:
    from tests.model.cases import History


def broken_laws(history: History) -> Iterator[str]:
    """Yields the laws that do not hold at the end of a history."""
    facts, settings, states = history.facts, history.settings, history.states
    if not facts.looks:
        return
    derived, whole = wanted(states), (wanted(states), words(states))
    for name, looks in (
        ("the lines of a look in another order", [other_order(look) for look in facts.looks]),
        ("each look twice", [look for look in facts.looks for _ in range(2)]),
        ("looks in portions", [each for look in facts.looks for each in portions(look)]),
    ):
        other = States(replace(facts, looks=looks), settings)
        if found := difference(whole, (wanted(other), words(other))):
            yield f"law: {name}: {found}"
    merged = States(replace(facts, looks=[one_look(facts)]), settings)
    if found := difference(derived, wanted(merged)):
        yield f"law: all looks in one: {found}"
    kept, anew = from_scratch(facts, settings)
    if found := difference(wanted(States(kept, settings)), wanted(States(anew, settings))):
        yield f"law: a lake made anew: {found}"
    yield from one_account(states)
    yield from same_rows(history)
    yield from nothing_lacks(history)


def wanted(states: States) -> dict[str, Any]:
    """What is derived of links, and what is wanted of each interval."""
    claims, found = states.claims, dict[str, Any]()
    for name, view in claims.links.items():
        found[f"captures of {name}"] = [(c.content.id, c.place, c.covers, c.clock) for c in view.captures]
        found[f"coverage of {name}"] = view.coverage
    found["defects"] = sorted(map(repr, claims.defects))
    found["told"] = sorted(map(repr, claims.told))
    found["wanted"] = {span: states.want(span) for span in states.listed if states.settings.queries}
    return found


def words(states: States) -> Any:
    """The state of each interval."""
    return {span: states.state(span) for span in states.listed}


def difference(one: Any, other: Any) -> str:
    """Returns the first part in which two views differ, as a text."""
    if isinstance(one, tuple):
        return next((found for each, its in zip(one, other, strict=True) if (found := difference(each, its))), "")
    keys = [key for key in {**one, **other} if one.get(key) != other.get(key)]
    return f"{keys[0]}: {one.get(keys[0])} and {other.get(keys[0])}" if keys else ""


def other_order(look: Look) -> Look:
    """The lines of a look in another order, but for those of one place."""
    by_place: dict[Place, list[Sighting]] = defaultdict(list)
    for sighting in look.sightings:
        by_place[sighting.place].append(sighting)
    return Look(look.moment, tuple(each for place in reversed(by_place) for each in by_place[place]))


def portions(look: Look) -> list[Look]:
    """A look that tells its lines one by one."""
    return [Look(look.moment, (each,)) for each in look.sightings] or [look]


def one_look(facts: Facts) -> Look:
    """Everything that was ever seen, in one look: of each place its versions in their order."""
    sightings = []
    for place, history in files.histories(facts.looks).items():
        sightings += [Sighting(place, each.moment, each.content, each.growing) for each in history.versions]
        if not history.lies:
            sightings.append(Sighting(place, facts.looks[-1].moment, None))
    return other_order(Look(facts.looks[-1].moment, tuple(sightings)))


def from_scratch(facts: Facts, settings: Settings) -> tuple[Facts, Facts]:
    """The facts of a lake, and of one that is made anew from the files that lie there. Left out are contents that are
    no longer there, or have no claimed name any more: only the old lake can know them."""
    seen = files.histories(facts.looks)
    links = {place: files.owners(place, settings) for place in seen}
    lying = {
        (link.name, history.versions[-1].content): any(files.claimed(place[1], each) for each in links[place])
        for claims in (False, True)
        for place, history in seen.items()
        for link in links[place]
        if history.lies and place[0] in link.folders and not link.removed
        and claims == files.claimed(place[1], link)
    }  # fmt: skip
    once = {
        (link.name, version.content)
        for place, history in seen.items()
        for version in history.versions
        for link in links[place]
        if files.claimed(place[1], link)
    }
    there = {key for key, is_claimed in lying.items() if is_claimed or key not in once}
    moment, kept, anew = facts.looks[-1].moment, list[Sighting](), list[Sighting]()
    for place, history in seen.items():
        known = [v for v in history.versions if any((link.name, v.content) in there for link in links[place])]
        kept += [Sighting(place, each.moment, each.content, each.growing) for each in known]
        if not history.lies or history.versions[-1] not in known:
            kept.append(Sighting(place, moment, None))
        elif any(place[0] in link.folders and not link.removed for link in links[place]):
            anew.append(Sighting(place, moment, history.versions[-1].content, history.versions[-1].growing))
    fresh = replace(facts, looks=[Look(moment, tuple(anew))], removed=set())
    return replace(facts, looks=[Look(moment, tuple(kept))]), fresh


def one_account(states: States) -> Iterator[str]:
    """Every record of a capture that a query reads is charged to one interval that exists."""
    listed, length = set(states.listed), states.settings.interval
    for query in states.settings.queries:
        for view in states.wanted.links(query):
            for capture in view.captures:
                if [record.position for record in capture.records] != [*range(len(capture.content.stamps))]:
                    yield f"law: one account: {capture.content.id}"
                at = {record.charged // length * length for record in capture.records}
                if lost := sorted(start for start in at if (start, start + length) not in listed):
                    yield f"law: one account: records of {capture.content.id} are charged to {lost[0]}, not listed"


def same_rows(history: History) -> Iterator[str]:
    """What is published from the inputs of today has the rows that a run of today would give."""
    states = history.states
    done = [span for span in states.listed if states.state(span).word in (DONE, PROVISIONAL)]
    for query in states.settings.queries:
        by_interval = defaultdict(set)
        for row in history.visible(query.name):
            by_interval[history.stamp(row) // states.settings.interval].add(row)
        for span in done:
            if by_interval[span[0] // states.settings.interval] != states.wanted.rows(query, span):
                yield f"law: rows: {query.name} at {span[0]}"


def nothing_lacks(history: History) -> Iterator[str]:
    """An interval that is done has every record of its time that lies there, but for one in a hundred, what is set
    aside, what is out of the life of its link, and what people accepted."""
    states, facts = history.states, history.facts
    accepted = [each for each in states.claims.told if each.kind in ("late", "outside", "unread", "overlap", "damage")]
    done = [span for span in states.listed if states.state(span).word in (DONE, PROVISIONAL)]
    if not done:
        return
    visible = {query.name: history.visible(query.name) for query in states.settings.queries}
    for query in states.settings.queries:
        for view in states.wanted.links(query):
            name = view.settings.name
            rows = {row for row in visible[query.name] if row[0] == name}
            stamps: dict[int, list[bool]] = defaultdict(list)
            for content_id in sorted(set(view.files.lying.values())):
                content = facts.contents[content_id]
                if view.files.is_aside(content) or not content.readable:
                    continue
                wholes = [other.id for other in view.files.contents if other.begins_with(content)]
                known = next((c for c in view.captures if c.content.id in (content_id, *wholes)), None)
                for at in rec.sane_positions(content.stamps, view.settings.jump):
                    if known is not None and known.records[at].account == rec.MALFORMED:
                        continue
                    stamp = content.stamps[at]
                    there = any((name, each, at) in rows for each in (content_id, *wholes))
                    if view.life[0] <= stamp < view.life[1]:
                        stamps[stamp // HOUR].append(there)
            for start, end in done:
                if any(each.link == name and each.meets(start, end) and each.kind != "part" for each in accepted):
                    continue
                hours = range(start // HOUR, -(-end // HOUR))
                for hour in hours:
                    if stamps[hour].count(False) * 100 > len(stamps[hour]):
                        yield f"law: done lacks: {query.name}: {stamps[hour].count(False)} records of {name} at {start}"
