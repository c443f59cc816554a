"""Draws histories, and compares what the lake derives of them, in memory, with what the rules say: the captures of each
link, and the state of each interval.

python -m tests.model.compared [NUMBER] [FIRST SEED]   prints each history in which they differ, as a case
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

from lowwater.lake import words
from lowwater.lake.ledgers.intervals import NOTHING_MISSING
from tests.model.cases import BASE, CHECKS, HOUR, MINUTE, Case, CaseError, History, _place, shown
from tests.model.memory import Memory, Told, in_memory
from tests.model.product import differences
from tests.model.rules import files
from tests.model.rules.claims import captures
from tests.model.rules.facts import Facts, Look, Settings, Span
from tests.model.rules.records import LATE
from tests.model.rules.states import State, States
from tests.model.test_histories import ACTS, KINDS, QUERY, SET, Step, World

LEFT_OUT = {"packets gone", "approve", "clock", "folder"}
"""Acts that the lake in memory does not know: what was removed by age is another thing than one file, and what waits
for a person has an audit; a corrected clock cannot be told from a name that is used again where names tell no time; and
folders need a disk (`lake.ledgers.places`). Of queries and sets, states that are handed over, columns of other records
and approval are left out, and a pattern that claims less than before, too: what the lake has stays read."""
WIDER = ["*.pcap", "*.pcap*", "*"]
"""Patterns, each of which claims what those before it claim."""
KILLS = ["killed 1", "killed 2"]
"""The ingest behind the next act is killed behind one write, or two; then another one begins."""
DRAWN = [*(act for act in ACTS if act not in LEFT_OUT), "run", "run", "truncate", *KILLS, "forget"]
CAUSES = ("unread", "outside", "late", "damage", "drops")
"""What people accept; to the lake a file that overlaps is one that is unread."""


def drawn(seed: int) -> tuple[int, list[Step]]:
    """Draws how a history begins, and its steps."""
    chance = random.Random(seed)
    size = chance.randrange(2, 15)
    return chance.randrange(12), [
        (chance.choice(DRAWN), chance.randrange(6), chance.randrange(41), chance.randrange(41)) for _ in range(size)
    ]


UNKNOWN = "chained", "reads", "approval"
"""Settings that are left out."""
KNOWN = {"query": QUERY, "set": SET}


class Later(World):
    """A host whose clock goes on, behind the time of all files: whether one is still written is said of it. Clocks that
    are wrong need a disk (`lake.clocks`), and an ingest that asks them. What people and runs do, they do to both."""

    def __init__(self, begin: int, memory: Memory) -> None:
        self.memory = memory
        super().__init__(begin, BASE + 8 * HOUR, runs=False)

    def clock(self, hour: int, one: int) -> int:
        return self.now + MINUTE

    @property
    def now_there(self) -> tuple[Settings, int]:
        return now_of(self.history)

    def say(self, line: str) -> None:
        link, _, claims = line.removeprefix("link ").partition(" claims=")
        if not claims or WIDER.index(claims) >= WIDER.index(self.history.links[link].get("claims", WIDER[0])):
            super().say(line)

    def step(self, step: Step) -> None:
        act, hour, one, two = step
        length = self.history.settings.interval
        start = (BASE + hour * HOUR) // length * length
        if act in ("run", "run some", "roll back", "lift", "damage"):
            self._to_interval(act, (start, start + length), one)
        elif act == "accept":
            link = "ab"[two % 5 == 4 and "b" in self.history.links]
            if (cause := KINDS[one % len(KINDS)]) in CAUSES:
                self.memory.accept(*self.now_there, cause, link)
                self.say(f"accept {cause} {link}")
                if cause == "unread":
                    self.say(f"accept overlap {link}")
        elif act in KNOWN and KNOWN[act][one % len(KNOWN[act])].startswith(UNKNOWN):
            super().step((act, hour, 0, two))
        else:
            super().step(step)

    def _to_interval(self, act: str, span: Span, one: int) -> None:
        at, memory, states = shown(span[0]), self.memory, self.history.states
        if act == "run":
            memory.run_all(*self.now_there)
            self.say("ran all")
        elif act == "run some":
            which = ["", "", " only q", " through end"][one % 4]
            only, through = "q" if "only" in which else None, "through" in which
            runs = span in states.listed and (states.state(span).due or states.state(span).word in words.VISIBLE)
            if runs and memory.run(*self.now_there, span, only, through):
                self.say(f"ran {at}{which}")
        elif act == "roll back":
            if memory.roll_back(*self.now_there, span, 1 + one % 2):
                self._try(f"roll back {at} to {1 + one % 2}")
        elif act == "lift":
            memory.lift(*self.now_there, span)
            self.say(f"lift {at}")
        elif memory.visible("q", span) and self.history.facts.logs.get("q"):
            number, what = len(self.lines), ["cut", "files gone"][one % 2]
            self._try(f"damage {at} {what}")
            if len(self.lines) > number:
                memory.spoil(span, what)

    def _to_file(self, act: str, file: str, hour: int, one: int, two: int) -> None:
        there = files.histories(self.history.facts.looks)[_place(file)].lies
        claimed = any(files.claimed(_place(file)[1], link) for link in self.history.settings.links.values())
        content = self.history.facts.contents[self.history.content(file)]
        # One that is gone, or is no capture, is in no ingest; a copy of a file without a record is another one.
        taken = there and claimed and content.readable and content.bytes_there
        refused = {"covers": not taken, "aside": self.memory.refuses(file)}
        if not refused.get(act, act in ("rename", "copy") and not self._stamps(file)):
            super()._to_file(act, file, hour, one, two)
        if act == "truncate" and (count := len(self._stamps(file))) > 1:
            self.saw(file, f"{self._records(file, 1 + two % (count - 1))} begin of {file}")


def now_of(history: History) -> tuple[Settings, int]:
    """The settings of a history, and the moment of its last look."""
    looks = history.facts.looks
    return history.settings, looks[-1].moment if looks else 0


def compared(begin: int, steps: Sequence[Step]) -> Iterator[str]:
    """Yields in what lake and rules differ behind the first step of a history where they do; after each step an ingest
    has looked. Needs `in_memory`."""
    memory = Memory()
    world = Later(begin, memory)
    memory.ingest(world.history.facts, *world.now_there)
    killed, forgotten = 0, set[str]()
    for step in steps:
        if step[0] == "forget":
            memory.forget()
        elif step[0] in KILLS:
            killed = int(step[0][-1])  # what comes next is ingested in two parts
            continue
        else:
            with suppress(CaseError):
                world.step(step)
        for kill in {killed: None, 0: None}:
            memory.ingest(world.history.facts, *world.now_there, kill)
        killed = 0
        facts, settings = world.history.facts, world.history.settings
        memory.job(*world.now_there)
        found = [*differences(memory, settings, captures(facts, settings).links)]
        if found and (left := forgotten & memory.forgotten):
            # Both have agreed that something else replaces them, so they were removed: what people say later, or
            # another setting, brings none of them back (T7). From here on the lake is another one.
            found = [*differences(memory, settings, captures(_without(facts, left), settings).links)]
            if not found:
                return
        if found := found or [*states_differ(memory, world.history)]:
            yield "\n".join(["case drawn", *world.lines, f"# {' '.join(map(str, step))}", *found])
            return
        forgotten |= memory.forgotten
    yield from memory.why_differs(memory.words(*world.now_there))


def _without(facts: Facts, forgotten: Collection[str]) -> Facts:
    looks = [
        Look(look.moment, tuple(each for each in look.sightings if each.content not in forgotten))
        for look in facts.looks
    ]
    return replace(facts, looks=looks)


# States. In which of these lake and rules differ by decision (docs/adr/0175): what is listed there is not told here.


def states_differ(memory: Memory, history: History) -> Iterator[str]:
    """Yields the intervals of which the lake says another word than the rules, or whose rows are others."""
    rules, told, decided = history.states, memory.words(*now_of(history)), _Decided(memory, history)
    for span in sorted({*told, *rules.listed}):
        mine, state = told.get(span, Told("-")), rules.state(span) if span in rules.listed else State("-")
        at, rows = shown(span[0]), decided.rows_are_equal(span)
        alike = mine.word == state.word or {mine.word, state.word} <= {words.BLOCKED, words.WAITING}
        if alike and mine.word in (words.DONE, words.PROVISIONAL) and mine.intervals == 1 and not rows:
            yield f"{at} is {mine.word}, and has other rows than the rules"
        elif not (alike and mine.due == state.due) and not decided.that(span, mine, state):
            why = f"{mine.word}, due: {mine.due} ({mine.why[:300]})"
            yield f"{at}: {why}, and the rules: {state.word}, due: {state.due} ({', '.join(sorted(state.reasons))})"


class _Decided:
    """What the lake says otherwise than the rules by decision."""

    def __init__(self, memory: Memory, history: History) -> None:
        self._memory, self._history, self._now = memory, history, now_of(history)[1]
        self._rules: States = history.states
        views = self._rules.claims.links.values()
        self._captures = [each for view in views for each in view.captures]
        self._damaged = any(content.damaged for content in history.facts.contents.values())

    def rows_are_equal(self, span: Span) -> bool:
        """Whether readers see the records of an interval that the rules want."""
        queries = self._history.settings.queries
        return all(self._rules.wanted.rows(each, span) == self._memory.visible(each.name, span) for each in queries)

    def that(self, span: Span, mine: Told, state: State) -> bool:
        """Whether a decision makes a difference between two words."""
        return (
            self._of_a_run(span, mine, state)
            or self._of_a_key(span, mine, state)
            or self._of_damage(span, mine, state)
            or self._of_unread(mine, state)
        )

    def _of_a_run(self, span: Span, mine: Told, state: State) -> bool:
        """A run confirms what is whole by now; a gap that a file may fill is waited for as what is open."""
        confirms = mine.word in words.TO_CONFIRM and state.word in words.VISIBLE
        if confirms and (mine.word == state.word or (mine.due and state.word == words.DONE)):
            return True
        if confirms and mine.why == NOTHING_MISSING:
            return True
        return mine.word == words.WAITING and self._now < span[1] + self._history.settings.patience

    def _of_a_key(self, span: Span, mine: Told, state: State) -> bool:
        """The key of the lake has the gaps and policies of links and all captures that span the interval, and none of
        malformed records; a lift ends what stood."""
        queries, would = self._history.settings.queries, {words.STALE, words.HALF, words.MISSING, words.DAMAGED}
        if len(queries) > 1 and mine.due == state.due and {mine.word, state.word} <= would:
            return True  # of several tables the gravest word speaks
        if (
            (mine.word, state.word) == (words.STALE, words.MISSING)
            and mine.due == state.due
            and "as a part" in mine.why
        ):
            return True  # a longer interval was published there, by which rows are visible
        stale = mine.word == words.STALE or (mine.word == words.BLOCKED and mine.why.startswith(words.STALE))
        if stale and state.word in words.VISIBLE:
            return state.word == words.ROLLED_BACK or self.rows_are_equal(span)
        malformed = any(len(each.sane) < len(each.content.stamps) or each.strays for each in self._captures)
        if mine.word in words.VISIBLE and state.word == words.STALE and state.reasons == {"capture"}:
            return malformed and self.rows_are_equal(span)
        # A window of a query may end behind the life of its links; and of a file with late records the statistics tell
        # its bounds alone, by which an hour before is listed.
        late = any(record.account == LATE for each in self._captures for record in each.records)
        return state.word == "-" and (late or any(each.back for each in queries))

    def _of_damage(self, span: Span, mine: Told, state: State) -> bool:
        """Damage that is a hole is a gap in the lake, and stops."""
        if not self._damaged:
            return False
        published = any(row.interval == span for row in self._memory.replays)
        return mine.word == words.BLOCKED or not published or {mine.word, state.word} <= set(words.VISIBLE)

    def _of_unread(self, mine: Told, state: State) -> bool:
        """The ledger has one row for a place: an unread file over which another one was written is forgotten. A file
        beside the pattern that is the begin of one that is read is told as unread where that lies nowhere."""
        of_links = [(view, self._rules.claims.words) for view in self._rules.claims.links.values()]
        if state.reasons and state.reasons <= {"unread", "overlap"}:
            return any(
                found[view.settings.name, content.id] == files.LOST and not view.files.is_there(content)
                for view, found in of_links
                for content in view.files.contents
            )
        parts = any(word == files.PART for _, found in of_links for word in found.values())
        return mine.word == words.INCOMPLETE and state.word in words.VISIBLE and parts and "claim" in mine.why


def of_case(case: Case) -> Iterator[str]:
    """Yields in what lake and rules differ behind a line of a case; an ingest looks behind each look. Of states only as
    long as no line speaks of what the lake in memory does not know. Needs `in_memory`."""
    history, memory, known = History(), Memory(), True
    for (_, line), (_, following) in pairwise([*case.lines, (0, "")]):
        if line.startswith((*CHECKS, "no defect", "no told")):
            continue
        known = known and not STRANGE.search(line)
        if known and history.facts.looks:
            _do(memory, history, line)
        history.apply(line)
        moment = line.split()[:2][-1]
        if line.startswith(LOOKS) and following.startswith(LOOKS) and following.split()[1] == moment:
            continue  # both are one look
        memory.ingest(history.facts, *now_of(history))
        memory.job(*now_of(history))
        rules = captures(history.facts, history.settings).links
        yield from (f"{line}: {told}" for told in differences(memory, history.settings, rules))
        if known and history.facts.looks:
            yield from (f"{line}: {told}" for told in states_differ(memory, history))


LOOKS = ("saw ", "gone ")
STRANGE = re.compile(
    "chained=|reads=|approval=|^no link|^no query|^packets gone|failed|warned|state gone|restored|"
    "^accept (gap|open|column|overlap)"
)
"""In a line of a case: what the lake in memory does not know of states."""


def _do(memory: Memory, history: History, line: str) -> None:
    """Does to the lake what a line of a case says of intervals."""
    now, words_of = now_of(history), line.split()
    act, spans = words_of[0], [each for each in words_of if re.match(r"\d+:", each)]
    if line.startswith("ran all"):
        memory.run_all(*now)
    elif act == "ran":
        only = words_of[words_of.index("only") + 1] if "only" in words_of else None
        for span in history.intervals(spans):
            memory.run(*now, span, only, "through" in words_of)
    elif act == "accept":
        memory.accept(*now, *words_of[1:3])
    elif act in ("roll", "lift", "damage"):
        (span,) = history.intervals(spans[:1])
        if act == "damage":
            memory.spoil(span, line)
        elif act == "lift":
            memory.lift(*now, span)
        else:
            memory.roll_back(*now, span, int(words_of[-1]))


def smallest(begin: int, steps: Sequence[Step]) -> list[Step]:
    """Leaves out steps without which a history differs as well."""
    kept = [*steps]
    for at in reversed(range(len(kept))):
        less = kept[:at] + kept[at + 1 :]
        if any(compared(begin, less)):
            kept = less
    return kept


def main(arguments: Sequence[str]) -> int:
    number, first = int(arguments[0]) if arguments else 10_000, int(arguments[1]) if arguments[1:] else 0
    bad = 0
    with in_memory():
        for seed in range(first, first + number):
            begin, steps = drawn(seed)
            if next(compared(begin, steps), None):
                bad += 1
                told = next(compared(begin, smallest(begin, steps)))
                print(f"seed {seed}, begin {begin}:\n{told}\n", flush=True)
    print(f"{number - bad:,} of {number:,} histories agree", file=sys.stderr)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
