"""Drawn histories of a lake: recorders, people and hosts do what they do, in any order, and after each step the laws
hold. A history that breaks one is printed as a case, to be kept in cases.txt.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from tests.breadth import examples
from tests.model.cases import BASE, HOUR, MINUTE, Case, CaseError, History, failures, shown
from tests.model.laws import broken_laws

Step = tuple[str, int, int, int]
ACTS = [
    "record", "record", "record", "record", "look", "gone", "rename", "copy", "grow", "part", "correct", "clock",
    "aside", "not aside", "covers", "accept", "link", "link", "query", "set", "run", "run", "run some", "roll back",
    "lift", "approve", "damage", "packets gone", "folder",
]  # fmt: skip
RECORDS = [
    "{0}:00..{0}:55 12", "{0}:00..{0}:55 12", "{0}:00..{0}:55 12", "{0}:20..{0}:55 8", "{0}:00..{0}:15 4",
    "{0}:00..{0}:10 3 + {0}:40..{0}:55 4 damaged {0}:10..{0}:40", "{0}:00..{0}:55 12 + 30:00 1",
    "{0}:00..{0}:30 7 cut", "{0}:00..{0}:25 6 growing", "no records", "no bytes", "unreadable",
    "{0}:30..{0}:55 6 + {0}:00..{0}:25 6", "09:00 1 + {0}:05..{0}:55 11", "{0}:00..{0}:55 12 drops 7",
    "{0}:05..{0}:50 10 lacks bytes", "{0}:00..{0}:58 20 + 08:00..08:18 19", "{0}:00..{0}:55 12 interfaces e0,e1",
]  # fmt: skip
NAMES = ["{0}00.pcap", "{0}00.pcap", "{0}20.pcap", "{0}00.pcap1", "x_{0}00.pcap", "ring.pcap", "t{0}.pcap", "copy.bak"]
LINK = [
    "rotation=1h", "rotation=-", "skew=5m", "skew=1h", "skew=-", "since=01:00", "since=02:30", "since=-", "until=04:00",
    "until=03:30", "until=-", "gap_tolerance=6m", "gap_tolerance=-", "policy=publish", "policy=wait", "policy=fail",
    "outside=accepted", "max_jump=2h", "max_jump=-", "claims=*.pcap*", "claims=*", "claims=*.pcap",
]  # fmt: skip
QUERY = ["text=2", "text=1", "back=10m", "back=-", "chained=yes", "chained=-", "links=a", "links=-", "reads=bytes"]
SET = ["interval=2h", "interval=1h", "patience=5h", "patience=1m", "approval=yes", "approval=-"]
KINDS = ["gap", "open", "unread", "overlap", "outside", "late", "damage", "drops", "column"]
STEPS = st.lists(
    st.tuples(st.sampled_from(ACTS), st.integers(0, 5), st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=14
)


class World:
    """Turns steps into lines of a case, which is applied as it grows."""

    def __init__(self, begin: int = 0, now: int = BASE + 5 * HOUR, runs: bool = True) -> None:
        self.history, self.lines, self.now = History(), list[str](), now
        self.files: list[str] = []  # names that a look has seen
        links = "ab"[: 1 + begin % 2]
        for link in links:
            self.say(f"link {link} rotation=1h" + ["", " policy=publish", " since=00:00"][begin % 3])
        if begin > 1:
            for hour in range(4):
                for link in links:
                    self.saw(f"{link}/{link}_0{hour}00.pcap", RECORDS[0].format(f"0{hour}"))
            if runs:
                self.say("ran all")

    def say(self, line: str) -> None:
        self.lines.append(line)
        self.history.apply(line)

    def saw(self, file: str, words: str) -> None:
        self.say(f"saw {shown(self.now)} {file} {words}")
        if file not in self.files:
            self.files.append(file)

    def step(self, step: Step) -> None:
        """Does what a step says, as far as there is something to do it to."""
        act, hour, one, two = step
        at = f"{hour:02}"
        self.now = self.clock(hour, one)
        link, file = (
            "ab"[two % 5 == 4 and "b" in self.history.links],
            self.files[one % len(self.files)] if self.files else None,
        )
        interval = shown((BASE + hour * HOUR) // self.history.settings.interval * self.history.settings.interval)
        if act == "record":
            self.saw(f"{link}/{link}_" + NAMES[one % len(NAMES)].format(at), RECORDS[two % len(RECORDS)].format(at))
        elif act == "look":
            self.say(f"look {shown(self.now)}")
        elif act == "link":
            self.say(f"link {link} {LINK[one % len(LINK)]}")
        elif act == "query":
            self.say(f"query {'qr'[two % 3 == 0]} {QUERY[one % len(QUERY)]}")
        elif act == "set":
            self.say(f"set {SET[one % len(SET)]}")
        elif act == "folder":
            self.say(f"link a folder={['a', 'disk', 'a+disk'][one % 3]}")
        elif act == "accept":
            self.say(f"accept {KINDS[one % len(KINDS)]} {link}" + (f" {at}:00..{hour + 1:02}:00" if two % 2 else ""))
        elif act == "run":
            self.say("ran all" + ["", "", " warned", " failed for now"][one % 4])
        elif act == "run some":
            self.say(f"ran {interval}" + ["", " only q", " failed", " through end"][one % 4])
        elif act in ("lift", "approve"):
            self.say(f"{act} {interval}")
        elif act == "roll back":
            self._try(f"roll back {interval} to {1 + one % 2}")
        elif act == "damage":
            self._try(f"damage {interval} " + ["cut", "files gone", "state gone", "restored 0", "restored 1"][one % 5])
        elif file:
            self._to_file(act, file, hour, one, two)

    def clock(self, hour: int, one: int) -> int:
        """The clock of the host at a step, which goes on, stands, is corrected, or is put back."""
        moments = self.now + 20 * MINUTE, self.now, BASE + (hour + 1) * HOUR, self.now - 30 * MINUTE
        return max(moments[one % 4], BASE + MINUTE)

    def _to_file(self, act: str, file: str, hour: int, one: int, two: int) -> None:
        at, folder = f"{hour:02}", file.split("/")[0]
        other = f"{['a', 'disk', folder][one % 3]}/{folder}_{NAMES[two % len(NAMES)].format(at)}"
        if act in ("aside", "not aside"):
            self.say(f"{'set aside' if act == 'aside' else act} {file}")
        elif act == "gone":
            self.say(f"gone {shown(self.now)} {file}")
        elif act == "packets gone":
            self.say(f"packets gone {file}")
        elif act == "covers":
            self.say(f"covers {at}:00..{hour + 1 + two % 2:02}:00 {file}")
        elif act in ("rename", "copy") and other != file:
            self.saw(other, f"same as {file}")
            if act == "rename":
                self.say(f"gone {shown(self.now)} {file}")
        elif act == "grow":
            self.saw(file if two % 2 else other, f"{self._records(file, 99)} begins with {file}")
        elif act == "part" and other != file and (count := len(self._stamps(file))):
            self.saw(other, f"{self._records(file, 1 + two % count)} begin of {file}")
        elif act == "correct":
            self.saw(file, f"{at}:00..{at}:5{two % 9} {8 + two % 4}")
        elif act == "clock":
            self.saw(file, f"{at}:01..{at}:56 {len(self._stamps(file))} clock of {file}")

    def _stamps(self, file: str) -> tuple[int, ...]:
        return self.history.facts.contents[self.history.content(file)].stamps

    def _records(self, file: str, number: int) -> str:
        """So many of the records of a file, or all and some more, as a text."""
        stamps = [*self._stamps(file)]
        if number > len(stamps):
            stamps += [max(stamps, default=BASE) + minute * MINUTE for minute in (1, 2, 3)]
        return " + ".join(f"{shown(stamp)} 1" for stamp in stamps[:number])

    def _try(self, line: str) -> None:
        """Says a line that may be refused."""
        try:
            self.history.apply(line)
        except (CaseError, IndexError):
            return
        self.lines.append(line)


@pytest.mark.slow
@settings(max_examples=max(200, examples(250)))
@given(st.integers(0, 11), STEPS)
def test_laws_hold_at_each_step(begin: int, steps: list[Step]) -> None:
    world = World(begin)
    for step in steps:
        world.step(step)
        broken = next(broken_laws(world.history), None)
        assert broken is None, "\n".join(["", "case drawn", *world.lines, broken or ""])


def test_a_drawn_history_is_a_case() -> None:
    world = World()
    for step in [("record", 3, 0, 0), ("look", 3, 2, 0), ("run", 0, 0, 0), ("rename", 3, 0, 4), ("gone", 1, 0, 0)]:
        world.step(step)
    assert not [*failures(Case("drawn", [*enumerate(world.lines, 1)]))]
