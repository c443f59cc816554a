"""Reads histories of a lake as text, and holds what they say against the model (tests/model/README.md has the grammar).

python -m tests.model.cases [FILE ...]   prints a line for each case that fails
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lowwater.instants import SECOND, parse_duration
from tests.model.laws import broken_laws
from tests.model.rules import facts as fa, files, records as rec
from tests.model.rules.claims import GAP, OPEN, UNCOVERED, Defect
from tests.model.rules.facts import Commit, Content, Damage, Facts, Link, Look, Place, Query, Settings, Sighting, Span
from tests.model.rules.keys import Row, published
from tests.model.rules.states import States

OWN = Path(__file__).with_name("cases.txt")
HOUR, MINUTE = 3600 * SECOND, 60 * SECOND
BASE = 20_000 * 24 * HOUR
"""The midnight from which a case counts; behind 1970, where 0 is an instant as every other."""
TIME = r"\d+:\d\d(?::\d\d(?:\.\d+)?)?"
NAME = re.compile(r"(?:^|_)(\d{4,6})(?:-(\d{4,6}))?(?=\.|$)")


class CaseError(Exception):
    """A line that says what does not hold, or that nobody can read."""


def instant(text: str) -> int:
    hours, minutes, seconds = [*text.split(":"), "0"][:3]
    return BASE + int(hours) * HOUR + int(minutes) * MINUTE + round(float(seconds) * SECOND)


def span_of(text: str) -> Span:
    low, _, high = text.partition("..")
    return instant(low), instant(high) if high else fa.FOREVER


def shown(at: int) -> str:
    seconds, rest = divmod(at - BASE, SECOND)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}"
    tail = f":{seconds % 60:02}" + (f"{rest / SECOND:.9f}".rstrip("0")[1:] if rest else "")
    return text + (tail if seconds % 60 or rest else "")


def named(name: str) -> tuple[int | None, int | None]:
    """The begin and the end that a name tells: `a_0300.pcap`, `a_0300-0400.pcap`."""
    found = NAME.search(name)
    if not found:
        return None, None
    low, high = (None if not text else _clock(text) for text in found.groups())
    return low, high


def _clock(text: str) -> int:
    text, seconds = (text[:4], int(text[4:])) if len(text) == 6 else (text, 0)
    return BASE + int(text[:-2]) * HOUR + int(text[-2:]) * MINUTE + seconds * SECOND


@dataclass
class Case:
    """A case: its name, and its lines with their numbers in the file."""

    name: str
    lines: list[tuple[int, str]] = field(default_factory=list)


def cases(text: str) -> list[Case]:
    found: list[Case] = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.split(" # ")[0].strip()
        if line.startswith("case "):
            found.append(Case(line[5:].strip()))
        elif line and not line.startswith("#"):
            if not found:
                raise CaseError(f"line {number}: before the first case: {line}")
            found[-1].lines.append((number, line))
    return found


LINK_TIMES = {"since", "until"}
LINK_DURATIONS = {"rotation", "skew", "gap_tolerance", "max_jump", "patience"}
DEFECTS = ("gap", "open", "unread", "overlap", "outside", "late", "damage", "drops", "column")


class History:
    """The facts and settings of a case so far; lines are applied one after the other."""

    def __init__(self) -> None:
        self.facts = Facts()
        self.links: dict[str, dict[str, str]] = {}
        self.former: dict[str, list[str]] = {}
        self.gone: set[str] = set()
        self.queries: dict[str, dict[str, str]] = {"q": {}}
        self.set: dict[str, str] = {}
        self.began = self.chose = False
        self.seen: dict[Place, list[str]] = {}  # contents by place, as @1, @2 count them
        self.keys: dict[tuple[Any, ...], str] = {}
        self.rows: dict[tuple[str, Span, fa.Key], frozenset[Row]] = {}
        self.looking = False  # the line before was one of a look
        self._states: States | None = None
        self._settings: Settings | None = None

    # Settings.

    @property
    def settings(self) -> Settings:
        if self._settings is None:
            self._settings = self._read_settings()
        return self._settings

    def _read_settings(self) -> Settings:
        queries = [
            Query(
                name,
                tuple(each["links"].split(",")) if "links" in each else None,
                parse_duration(each.get("back", "0")),
                each.get("text", "1"),
                frozenset(each["reads"].split(",")) if "reads" in each else frozenset(),
                each.get("chained") == "yes",
            )
            for name, each in self.queries.items()
        ]
        durations = {name: parse_duration(self.set[name]) for name in ("interval", "patience") if name in self.set}
        links = {name: self.link(name) for name in self.links}
        return Settings(links, queries, approval=self.set.get("approval") == "yes", **durations)

    def link(self, name: str) -> Link:
        values: dict[str, Any] = {}
        for key, text in self.links[name].items():
            if key in LINK_TIMES:
                values[key] = instant(text)
            elif key in LINK_DURATIONS:
                values[key] = parse_duration(text)
            elif key in ("violating", "max_drops"):
                values[key] = float(text)
            elif key == "claims":
                values[key] = tuple(text.split(","))
            elif key in ("policy", "outside"):
                values[key] = text
            elif key != "folder":
                raise CaseError(f"link: no line {key!r} is known")
        folders = tuple(self.links[name].get("folder", name).split("+"))
        former = tuple(folder for folder in self.former.get(name, []) if folder not in folders)
        return Link(name, folders, former, named=named, removed=name in self.gone, **values)

    @property
    def states(self) -> States:
        if self._states is None:
            self._states = States(self.facts, self.settings)
        return self._states

    # Lines.

    def apply(self, line: str) -> None:
        """Applies a line, or checks what it says. Raises CaseError if it does not hold, or nobody can read it."""
        verb, _, rest = line.partition(" ")
        two = " ".join(line.split()[:2])
        phrases = {
            "no link": self._no_link, "no query": self._no_query, "no defect": self._no_defect,
            "no told": self._no_told,
            "packets gone": self._packets_gone, "set aside": self._set_aside, "not aside": self._not_aside,
            "roll back": self._roll_back,
        }  # fmt: skip
        if two in phrases:
            act, rest = phrases[two], " ".join(line.split()[2:])
        else:
            found = getattr(self, f"_{verb}", None)
            if found is None or not re.fullmatch(r"[a-z]+", verb):
                raise CaseError(f"nobody can read {line!r}")
            act = found
        checks = verb in CHECKS or two in ("no defect", "no told")
        if not checks:
            self._states = None
        if {"link", "query", "set"} & {*two.split()}:
            self._settings = None
        act(rest)
        if not checks:
            self._states = None
            self.looking = verb in ("saw", "gone", "look")
            self._decode()

    def _link(self, rest: str) -> None:
        name, *options = rest.split()
        values = self.links.setdefault(name, {})
        self.gone.discard(name)
        before = values.get("folder", name).split("+")
        _options(values, options)
        if before != values.get("folder", name).split("+"):
            self.former.setdefault(name, []).extend(before)

    def _no_link(self, name: str) -> None:
        self.gone.add(name)

    def _query(self, rest: str) -> None:
        name, *options = rest.split()
        if not self.chose and not self.began:
            self.queries = {}
        self.chose = True
        _options(self.queries.setdefault(name, {}), options)

    def _no_query(self, name: str) -> None:
        self.queries.pop(name, None)

    def _set(self, rest: str) -> None:
        _options(self.set, rest.split())

    # Looks.

    def _saw(self, rest: str) -> None:
        moment, file, words = re.fullmatch(r"(\S+) (\S+) ?(.*)", rest).groups()  # type: ignore[union-attr]
        place, growing = _place(file), bool(re.search(r"\bgrowing\b", words))
        content = self._new(place, re.sub(r"\s*\bgrowing\b", "", words).strip())
        self.began = True
        if content not in self.seen.setdefault(place, []):
            self.seen[place].append(content)
        else:
            self.seen[place] = [each for each in self.seen[place] if each != content] + [content]
        self._looked(instant(moment), Sighting(place, instant(moment), content, growing))

    def _new(self, place: Place, words: str) -> str:
        if found := re.fullmatch(r"same as (\S+)", words):
            return self.content(found[1])
        if (place, words) in self.keys:
            return self.keys[place, words]
        name = f"{'/'.join(place)}@{len(self.seen.get(place, [])) + 1}"
        values: dict[str, Any] = {"chain": (name,), "shape": name}
        left = words
        if left.startswith(("no records", "no bytes", "unreadable")):
            values["bytes_there"] = not left.startswith("no bytes")
            values["readable"] = not left.startswith("unreadable")
            left = re.sub(r"^(no records|no bytes|unreadable)\s*", "", left)
        stamps: list[int] = []
        while found := re.match(rf"\+?\s*({TIME})(?:\.\.({TIME}))? (\d+)\s*", left):
            low, high, count = instant(found[1]), instant(found[2] or found[1]), int(found[3])
            stamps += [low + (high - low) * at // max(count - 1, 1) for at in range(count)]
            left = left[found.end() :]
        while left:
            for pattern, put in WORDS.items():
                if found := re.match(pattern + r"(?:\s+|$)", left):
                    put(self, values, name, found)
                    left = left[found.end() :]
                    break
            else:
                raise CaseError(f"nobody can read {left!r}")
        self.facts.contents[name] = Content(name, tuple(stamps), **values)
        self.keys[place, words] = name
        return name

    def _begins_with(self, values: dict[str, Any], name: str, found: re.Match[str]) -> None:
        values["chain"] = (*self.facts.contents[self.content(found[1])].chain, name)

    def _begin_of(self, values: dict[str, Any], name: str, found: re.Match[str]) -> None:
        """All contents that have all bytes of the other one have these, too."""
        whole = self.facts.contents[self.content(found[1])].chain[-1]
        for key, content in self.facts.contents.items():
            if whole in content.chain:
                at = content.chain.index(whole)
                chain = (*content.chain[:at], name, *content.chain[at:])
                self.facts.contents[key] = replace(content, chain=chain)

    def _clock_of(self, values: dict[str, Any], name: str, found: re.Match[str]) -> None:
        values["shape"] = self.facts.contents[self.content(found[1])].shape

    def content(self, file: str) -> str:
        """The content that a file of the text is: the newest of its name, or the one of its number."""
        name, _, number = file.partition("@")
        seen = self.seen.get(_place(name), [])
        if number:
            by_number = f"{name}@{number}"
            return by_number if by_number in self.facts.contents else seen[int(number) - 1]
        if not seen:
            raise CaseError(f"no look saw {name}")
        return seen[-1]

    def _gone(self, rest: str) -> None:
        moment, file = rest.split()
        self._looked(instant(moment), Sighting(_place(file), instant(moment), None))

    def _look(self, rest: str) -> None:
        self.began = True
        self._looked(instant(rest))

    def _looked(self, moment: int, *sightings: Sighting) -> None:
        looks = self.facts.looks
        if self.looking and looks[-1].moment == moment:
            looks[-1] = Look(moment, (*looks[-1].sightings, *sightings))
        else:
            looks.append(Look(moment, sightings))

    def _decode(self) -> None:
        """What lies there and is claimed is decoded, once."""
        settings = self.settings
        for place, history in files.histories(self.facts.looks).items():
            if history.lies:
                content = self.facts.contents[history.versions[-1].content]
                links = [link for link in files.owners(place, settings) if not link.removed]
                if content.readable and any(
                    files.claimed(place[1], link) and place[0] in link.folders for link in links
                ):
                    self.facts.decoded.add(content.id)

    def _packets_gone(self, file: str) -> None:
        self.facts.removed.add(self.content(file))

    # People.

    def _covers(self, rest: str) -> None:
        span, file = rest.split()
        for link in self._links_of(file):
            place = _place(file.partition("@")[0])
            self.facts.statements.append(fa.Covers(link.name, self.content(file), span_of(span), place))

    def _set_aside(self, file: str) -> None:
        self._aside(file, True)

    def _not_aside(self, file: str) -> None:
        self._aside(file, False)

    def _aside(self, file: str, aside: bool) -> None:
        self.facts.statements.append(fa.Aside(_place(file.partition("@")[0]), self.content(file), aside))

    def _accept(self, rest: str) -> None:
        kind, link, *spans = rest.split()
        span = span_of(spans[0]) if spans else (0, fa.FOREVER)
        if kind in (GAP, OPEN) and spans:
            self.facts.statements.append(fa.Accept(kind, link, span))
            return
        for defect in [*self._defects(kind)]:
            if defect.kind == kind and defect.link == link and defect.meets(*span):
                clipped = max(defect.start, span[0]), min(defect.end, span[1])
                self.facts.statements.append(fa.Accept(kind, link, clipped, defect.what, defect.number))

    def _approve(self, rest: str) -> None:
        for span in self.intervals(rest.split()):
            self.facts.statements.append(fa.Approve(span, self.states.want(span)))

    def _roll_back(self, rest: str) -> None:
        at, _, number = rest.split()
        (span,) = self.intervals([at])
        wants = tuple((query.name, self.states.wanted.key(query, span)) for query in self.settings.queries)
        for query in self.settings.queries:
            keys = published(self.facts, query.name, span)
            if not 1 <= int(number) <= len(keys):
                raise CaseError(f"{query.name} has {len(keys)} publications of {at}")
            self.facts.logs[query.name].append(Commit(span, keys[int(number) - 1], rolled_back=True))
        self.facts.statements.append(fa.RollBack(span, wants))

    def _lift(self, rest: str) -> None:
        self.facts.statements += [fa.Lift(span) for span in self.intervals(rest.split())]

    # Runs, and what happens to tables.

    def _ran(self, rest: str) -> None:
        self.began = True
        found = re.fullmatch(
            r"(all|[\d:. ]+?)(?: (warned|failed for now|failed|through end))?(?: only ([\w ]+))?", rest.strip()
        )
        if not found:
            raise CaseError(f"nobody can read {rest!r}")
        which, outcome, only = found.groups()
        done: set[Span] = set()
        while True:
            spans = self.states.due if which == "all" else self.intervals(which.split())
            if not (spans := [span for span in spans if span not in done]):
                return
            for span in spans:
                done.add(span)
                self._run(span, outcome, only.split() if only else None)
            self._states = None

    def _run(self, span: Span, outcome: str | None, only: Sequence[str] | None) -> None:
        states = self.states
        held = outcome == "warned" and self.settings.approval and not states._approved(span)
        if outcome in ("failed", "failed for now") or held:
            self.facts.results.append(fa.Result(span, states.want(span), str(outcome)))
            return
        for query in self.settings.queries:
            if only is None or query.name in only:
                key, rows = states.wanted.key(query, span), frozenset(states.wanted.rows(query, span))
                if self.rows.setdefault((query.name, span, key), rows) != rows:
                    raise CaseError(f"one key has two results: {query.name} {shown(span[0])}")
                self.facts.logs.setdefault(query.name, []).append(Commit(span, key))

    def _damage(self, rest: str) -> None:
        found = re.fullmatch(r"(\S+) (cut|files gone|state gone|restored (\d+))(?: of (\S+))?", rest)
        if not found:
            raise CaseError(f"nobody can read {rest!r}")
        (span,) = self.intervals([found[1]])
        for query in self.settings.queries:
            if found[4] in (None, query.name):
                keys = published(self.facts, query.name, span)
                key = keys[int(found[3]) - 1] if found[3] and found[3] != "0" else None
                cause = "restored" if found[3] else found[2]
                self.facts.logs.setdefault(query.name, []).append(Damage(span, cause, key))

    # Checks.

    def _file(self, rest: str) -> None:
        file, word = rest.split(" is ")
        place, content = _place(file.partition("@")[0]), self.content(file)
        found = {self.states.claims.word(link.name, content, place) for link in self._links_of(file)}
        _holds(found == {word}, f"it is {', '.join(sorted(found))}")

    def _capture(self, rest: str) -> None:
        file, span = rest.split(" covers ")
        content = self.content(file)
        links = [self.states.claims.links[link.name] for link in self._links_of(file)]
        found = [c.covers for view in links for c in view.captures if c.content.id == content]
        _holds(span_of(span) in found, f"it covers {_spans(found)}")

    def _order(self, rest: str) -> None:
        link, *names = rest.split()
        view = self.states.claims.links[link]
        folders = [*view.settings.folders, *view.settings.former]
        files = [[name] if "/" in name else [f"{folder}/{name}" for folder in folders] for name in names]
        seen = [[file for file in each if _place(file.partition("@")[0]) in self.seen] for each in files]
        wanted = [self.content(next(iter(each))) for each in seen]
        found = [capture.content.id for capture in view.captures]
        _holds(found == wanted, f"it is {' '.join(found)}")

    def _coverage(self, rest: str) -> None:
        link, *spans = rest.split()
        found = self.states.claims.links[link].coverage
        _holds(found == [*map(span_of, spans)], f"it is {_spans(found)}")

    def _defect(self, rest: str) -> None:
        self._is_told(rest, self._defects(rest.split()[0]))

    def _told(self, rest: str) -> None:
        self._is_told(rest, self.states.claims.told)

    def _is_told(self, rest: str, defects: Sequence[Defect]) -> None:
        kind, link, *spans = rest.split()
        found = [(each.start, each.end) for each in defects if (each.kind, each.link) == (kind, link)]
        if not spans:
            _holds(bool(found), "there is none")
            return
        low, high = span_of(spans[0])
        fits = [span for span in found if span in ((low, high), (low, high + 1))]
        if kind == UNCOVERED and low == high:
            fits = [span for span in found if span[0] <= low < span[1]]
        _holds(bool(fits), f"there is {_spans(found) or 'none'}")

    def _no_defect(self, rest: str) -> None:
        found = [each for each in self._defects(rest) if rest in ("", each.kind)]
        words = ", ".join(f"{each.kind} {each.link} {_spans([(each.start, each.end)])}" for each in found)
        _holds(not found, f"there is {words}")

    def _no_told(self, rest: str) -> None:
        found = {each.kind for each in self.states.claims.told if rest in ("", each.kind)}
        _holds(not found, f"there is {', '.join(sorted(found))}")

    def _defects(self, kind: str) -> Sequence[Defect]:
        """The defects of the links. What is open is a matter of the intervals that exist."""
        if kind != OPEN:
            return self.states.claims.defects
        found: list[Defect] = []
        for name, view in self.states.claims.links.items():
            for span in self.states.listed:
                for _, (low, high) in view.missing(*span, (OPEN,)):
                    if found and found[-1].link == name and found[-1].end == low:
                        low = found.pop().start
                    found.append(Defect(OPEN, name, low, high))
        return found

    def _account(self, rest: str) -> None:
        link, at, words = rest.split(" ", 2)
        (span,) = self.intervals([at])
        records = [r for c in self.states.claims.links[link].captures for r in c.records]
        for word, number in (each.split() for each in words.split(",")):
            if word == "refused":
                found = sum(r.account == rec.LATE and span[0] <= r.stamp < span[1] for r in records)
            else:
                found = sum(r.account == word and span[0] <= r.charged < span[1] for r in records)
            _holds(found == int(number), f"{word} {found}")

    def _state(self, rest: str) -> None:
        times = re.match(rf"((?:{TIME}(?:\.\.(?:{TIME}))?\s+)+)(.+)", rest)
        if not times:
            raise CaseError(f"nobody can read {rest!r}")
        word, _, reason = times[2].partition(" because ")
        for span in self.intervals(times[1].split()):
            listed = span in self.states.listed
            state = self.states.state(span)
            found = state.word if listed else "-"
            why = f" because {', '.join(sorted(state.reasons))}" if state.reasons and listed else ""
            fits = found == word and (not reason or reason in state.reasons)
            _holds(fits, f"{shown(span[0])} is {found}{why}")

    def _due(self, rest: str) -> None:
        wanted = [] if rest == "nothing" else self.intervals(rest.split())
        due = self.states.due
        _holds(due == sorted(wanted), f"due is {' '.join(shown(start) for start, _ in due) or 'nothing'}")

    def _publishes(self, rest: str) -> None:
        at, number = rest.split()
        (span,) = self.intervals([at])
        found = sum(span[0] <= self.stamp(row) < span[1] for row in self.visible(self.settings.queries[0].name))
        _holds(found == int(number), f"it has {found}")

    def visible(self, query: str) -> set[Row]:
        """What readers of a table see."""
        rows: set[Row] = set()
        for entry in self.facts.logs.get(query, []):
            if isinstance(entry, Commit) or entry.cause == "restored":
                rows = {row for row in rows if not entry.span[0] <= self.stamp(row) < entry.span[1]}
                if entry.key is not None:
                    rows |= self.rows[query, entry.span, entry.key]
        return rows

    def stamp(self, row: Row) -> int:
        return self.facts.contents[row[1]].stamps[row[2]]

    def _links_of(self, file: str) -> list[Link]:
        settings = self.settings
        place = _place(file.partition("@")[0])
        return [settings.links[link.name] for link in files.owners(place, settings)]

    def intervals(self, texts: Sequence[str]) -> list[Span]:
        """Intervals, by their begin or as a range of them."""
        length, spans = self.settings.interval, []
        for text in texts:
            low, high = span_of(text) if ".." in text else (instant(text), instant(text) + length)
            spans += [(at, at + length) for at in range(low, high, length)]
        return spans


CHECKS = {"file", "capture", "order", "coverage", "defect", "told", "account", "state", "due", "publishes"}
WORDS: dict[str, Any] = {
    r"cut": lambda h, values, name, found: values.update(whole=False),
    r"damaged (\S+)": lambda h, values, name, found: values.update(
        damaged=(*values.get("damaged", ()), span_of(found[1]))
    ),
    r"drops (\d+)": lambda h, values, name, found: values.update(drops=int(found[1])),
    r"lacks (\S+)": lambda h, values, name, found: values.update(lacks=frozenset(found[1].split(","))),
    r"interfaces (\S+)": lambda h, values, name, found: values.update(interfaces=frozenset(found[1].split(","))),
    r"begins with (\S+)": History._begins_with,
    r"begin of (\S+)": History._begin_of,
    r"clock of (\S+)": History._clock_of,
}


def _options(values: dict[str, str], options: Sequence[str]) -> None:
    for option in options:
        key, _, text = option.partition("=")
        if text == "-":
            values.pop(key, None)
        else:
            values[key] = text


def _place(file: str) -> Place:
    folder, _, name = file.rpartition("/")
    return folder, name


def _spans(spans: Sequence[Span]) -> str:
    return " ".join(f"{shown(low)}..{shown(high)}" for low, high in spans)


def _holds(fits: bool, found: str) -> None:
    if not fits:
        raise CaseError(found)


def failures(case: Case) -> Iterator[str]:
    """Yields what does not hold of a case: a check, or one of the laws at its end."""
    history, failed = History(), False
    for number, line in case.lines:
        try:
            history.apply(line)
        except CaseError as error:
            failed = True
            yield f"line {number}: {line}: {error}"
        except (KeyError, IndexError, ValueError, TypeError, AttributeError, StopIteration) as error:
            yield f"line {number}: nobody can read {line!r} ({error!r})"
            return
    if not failed:
        yield from broken_laws(history)


def main(paths: Sequence[str]) -> int:
    """Prints a line for each case that fails; returns 1 if one does."""
    count = bad = 0
    for path in map(Path, paths or [str(OWN)]):
        for case in cases(path.read_text(encoding="utf-8")):
            count += 1
            if found := next(failures(case), None):
                bad += 1
                print(f"{path}: {case.name}: {found}")
    print(f"{count - bad} of {count} cases hold", file=sys.stderr)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
