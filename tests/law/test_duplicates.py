"""The law over links that drop copies: rows are those of the oracles over the packets that are no copies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from lowwater.config import Config, Duplicates
from tests.breadth import each_push, some
from tests.law import compare
from tests.law.cases import Case, case
from tests.law.compare import REFERENCE
from tests.law.fuzz import accepted, check
from tests.law.worlds import LINKS, SECOND, Packet, World, _split, world

CASES = 48


@dataclass(frozen=True)
class CopiedWorld(World):
    """A world whose links drop copies within their windows, ns; copies are in no record of the oracles."""

    windows: Mapping[str, int] = field(default_factory=dict)

    def records(self, links: Sequence[str] = LINKS) -> Iterator[tuple[str, int, int, bool, Packet]]:
        for link in links:
            every = list(World.records(self, [link]))
            sane = [(packet.stamp, at, content(packet)) for _, at, _, admitted, packet in every if admitted]
            copies = {
                at
                for stamp, at, own in sane
                if any(
                    own == other and stamp - earlier <= self.windows[link] and (earlier, before) < (stamp, at)
                    for earlier, before, other in sane
                )
            }
            yield from (record for record in every if record[1] not in copies)


def content(packet: Packet) -> tuple[Any, ...]:
    """What is equal in copies, by the fields that were drawn."""
    if packet.kind == "arp":
        return ("arp",)
    ports = (packet.sport, packet.dport) if packet.kind in ("tcp", "udp") else ()
    flags = packet.flags if packet.kind == "tcp" else 0
    return packet.kind, packet.src, packet.dest, ports, flags, packet.data


def copied_world(seed: int) -> CopiedWorld:
    """The world of a number, with copies: some at once, some later, some before their originals, some too late."""
    made, random = world(seed), Random(seed)
    windows = {link: random.choice((0, 1, SECOND // 2, 3 * SECOND, 60 * SECOND)) for link in LINKS}
    packets, splits = {}, {}
    for link, originals in made.packets.items():
        found = list(originals)
        for packet in originals:
            for _ in range(random.choice((0, 0, 1, 1, 2))):
                later = random.choice((0, 0, 1, windows[link], windows[link] + 1, -1, SECOND))
                ttl = random.choice((1, 63, packet.ttl))
                copy = replace(packet, stamp=packet.stamp + later, ttl=ttl, drawn_ttl=packet.ttl)
                place = found.index(packet) + random.choice((0, 1, 1, 2, 3))
                found.insert(place, copy)
        packets[link] = tuple(found)
        splits[link] = _split(found, random.randint(0, len(found)))
    return CopiedWorld(packets, made.skews, splits, made.cuts, windows)


def copied_case(seed: int) -> Case:
    """The queries and settings of a case, over the world with copies."""
    return replace(case(seed), world=copied_world(seed // 4))


def with_duplicates(plain: Config, made: CopiedWorld) -> Config:
    links = {
        name: link.model_copy(update={"duplicates": Duplicates(action="drop", window=made.windows[name])})
        for name, link in plain.links.items()
    }
    return plain.model_copy(update={"links": links})


@pytest.fixture(autouse=True)
def dropping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adds the windows of a world to the settings of its links."""
    plain = compare.config_of
    monkeypatch.setattr(compare, "config_of", lambda made: with_duplicates(plain(made), made))


def test_worlds_have_copies_of_every_kind() -> None:
    every = [copied_world(seed) for seed in range(CASES // 4)]
    dropped = {
        (seed, link): len(made.packets[link]) - len(list(made.records([link])))
        for seed, made in enumerate(every)
        for link in LINKS
    }
    assert sum(count > 5 for count in dropped.values()) > len(dropped) // 4
    assert sum(made.violations(link) > 0 for made in every for link in LINKS) > len(every) // 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", each_push(some(range(CASES), 2), 2))
def test_rows_of_the_reference_engine_are_of_packets_that_are_no_copies(seed: int) -> None:
    run, _ = accepted(copied_case(seed), REFERENCE)
    if run.asked:
        check(run, REFERENCE)
