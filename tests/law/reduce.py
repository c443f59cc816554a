"""A smaller case that still fails: fewer queries, plainer settings, fewer packets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from tests.law.cases import Case
from tests.law.settings import SECOND, Choice
from tests.law.worlds import LINKS

C = TypeVar("C")
PLAIN = Choice(
    None, None, None, SECOND, "periodic", 65536, 1 << 22, 1024, False, "immediate", (900 * SECOND, 1), 1, True
)


def reduced(case: C, smaller: Callable[[C], Iterator[C]], fails: Callable[[C], bool], budget: int) -> C:
    """The smallest case that was found in so many tries."""
    found = True
    while found:
        found = False
        for each in smaller(case):
            if each != case and budget > 0:
                budget -= 1
                if fails(each):
                    case, found = each, True
                    break
    return case


def smaller(case: Case) -> Iterator[Case]:
    """Cases with less, those with much less first."""
    if len(case.asked) > 1:
        for question in case.asked:
            yield replace(case, asked=(question,))
    yield replace(case, choice=PLAIN)
    for name in vars(PLAIN):
        yield replace(case, choice=replace(case.choice, **{name: getattr(PLAIN, name)}))
    world = case.world
    yield replace(case, world=replace(world, cuts=()))
    size = max(map(len, world.packets.values()))
    while size:
        for link in LINKS:
            packets = world.packets[link]
            for at in range(0, len(packets), size):
                rest = packets[:at] + packets[at + size :]
                # Without the packets that parted them, captures of a link may overlap.
                splits = {**world.splits, link: 0}
                yield replace(case, world=replace(world, packets={**world.packets, link: rest}, splits=splits))
        size //= 2
