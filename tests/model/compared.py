"""Draws histories, and compares what the lake derives of them, in memory, with what the rules say.

python -m tests.model.compared [NUMBER] [FIRST SEED]   prints each history in which they differ, as a case
"""

from __future__ import annotations

import random
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

from tests.model.cases import CHECKS, HOUR, MINUTE, Case, CaseError, History, _place
from tests.model.product import Product, differences
from tests.model.rules import files
from tests.model.rules.claims import captures
from tests.model.rules.facts import Facts, Look
from tests.model.test_histories import ACTS, Step, World

LEFT_OUT = {
    *("run", "run some", "roll back", "lift", "approve", "damage", "accept", "query", "set", "packets gone"),
    *("clock", "folder"),
}
"""Acts on which no capture depends; and a corrected clock, which the lake cannot tell from a name that is used again
where names tell no time; and folders, which need a disk (`lake.ledgers.places`). A pattern that claims less than before
is left out, too: what the lake has stays read, as what a person names to an ingest."""
WIDER = ["*.pcap", "*.pcap*", "*"]
"""Patterns, each of which claims what those before it claim."""
OF_FILES = [*(act for act in ACTS if act not in LEFT_OUT), "truncate"]
KILLS = ["killed 1", "killed 2"]
"""The ingest behind the next act is killed behind one write, or two; then another one begins."""


def drawn(seed: int) -> tuple[int, list[Step]]:
    """Draws how a history begins, and its steps."""
    chance = random.Random(seed)
    acts = [*OF_FILES, *KILLS, "forget"]
    size = chance.randrange(2, 15)
    return chance.randrange(12), [
        (chance.choice(acts), chance.randrange(6), chance.randrange(41), chance.randrange(41)) for _ in range(size)
    ]


class Later(World):
    """A host whose clock goes on, behind the time of all files: whether one is still written is said of it. Clocks that
    are wrong need a disk (`lake.clocks`), and an ingest that asks them."""

    def __init__(self, begin: int, product: Product) -> None:
        self.product = product
        super().__init__(begin, 8 * HOUR, runs=False)

    def clock(self, hour: int, one: int) -> int:
        return self.now + MINUTE

    def say(self, line: str) -> None:
        link, _, claims = line.removeprefix("link ").partition(" claims=")
        if not claims or WIDER.index(claims) >= WIDER.index(self.history.links[link].get("claims", WIDER[0])):
            super().say(line)

    def _to_file(self, act: str, file: str, hour: int, one: int, two: int) -> None:
        there = files.histories(self.history.facts.looks)[_place(file)].lies
        claimed = any(files.claimed(_place(file)[1], link) for link in self.history.settings.links.values())
        # One that is gone is in no ingest; and a copy of a file without a record is another one of its kind.
        refused = {"covers": not (there and claimed), "aside": self.product.refuses(file)}
        if not refused.get(act, act in ("rename", "copy") and not self._stamps(file)):
            super()._to_file(act, file, hour, one, two)
        if act == "truncate" and (count := len(self._stamps(file))) > 1:
            self.saw(file, f"{self._records(file, 1 + two % (count - 1))} begin of {file}")


def compared(begin: int, steps: Sequence[Step]) -> Iterator[str]:
    """Yields in what lake and rules differ at the end of a history; after each step an ingest has looked."""
    product = Product()
    world = Later(begin, product)
    product.step(world.history.facts, world.history.settings)
    killed, forgotten = 0, set[str]()
    for step in steps:
        if step[0] == "forget":
            product.forget()
        elif step[0] in KILLS:
            killed = int(step[0][-1])  # what comes next is ingested in two parts
            continue
        else:
            with suppress(CaseError):
                world.step(step)
        for kill in {killed: None, 0: None}:
            product.step(world.history.facts, world.history.settings, kill)
        killed = 0
        facts, settings = world.history.facts, world.history.settings
        found = [*differences(product, settings, captures(facts, settings).links)]
        if found and (left := forgotten & product.forgotten):
            # Both have agreed that something else replaces them, so they were removed: what people say later, or
            # another setting, brings none of them back (T7).
            found = [*differences(product, settings, captures(_without(facts, left), settings).links)]
        if found:
            yield "\n".join(["case drawn", *world.lines, f"# {' '.join(map(str, step))}", *found])
            return
        forgotten |= product.forgotten


def _without(facts: Facts, forgotten: Collection[str]) -> Facts:
    looks = [
        Look(look.moment, tuple(each for each in look.sightings if each.content not in forgotten))
        for look in facts.looks
    ]
    return replace(facts, looks=looks)


def of_case(case: Case) -> Iterator[str]:
    """Yields in what lake and rules differ behind a line of a case; an ingest looks behind each look."""
    history, product = History(), Product()
    for (_, line), (_, following) in pairwise([*case.lines, (0, "")]):
        history.apply(line)
        moment = line.split()[:2][-1]
        one_look = line.startswith(LOOKS) and following.startswith(LOOKS) and following.split()[1] == moment
        if not (line.startswith(tuple(CHECKS)) or one_look):
            product.step(history.facts, history.settings)
            rules = captures(history.facts, history.settings).links
            yield from (f"{line}: {told}" for told in differences(product, history.settings, rules))


LOOKS = ("saw ", "gone ")


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
