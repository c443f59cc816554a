"""Random worlds of recorders: the files that they leave in a folder, and what was written into each."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from tests.capturemaker import pcap_bytes, tag, tcp
from tests.pcapngmaker import Section

SECOND = 1_000_000_000
HOUR = 3600 * SECOND
BASE = 1_767_225_600 * SECOND  # 2026-01-01, on the hour
NAMES = ("eth0", "eth1", "以太网", "无线网", "wlan 0")


@dataclass(frozen=True)
class Record:
    """A packet that a recorder wrote: its timestamp, ns, the name of its interface, and a number of its own."""

    stamp: int
    interface: str
    number: int
    stray: bool = False  # whether the recorder's clock was wrong for it alone

    @property
    def frame(self) -> bytes:
        return tcp(f"10.0.{self.number >> 8 & 255}.{self.number & 255}", "10.9.0.1", 1024 + (self.number >> 16), 80)


def tagged(frame: bytes) -> bytes:
    """A frame with Cisco's VN-tag."""
    kind, rest = tag(0x8926, frame[14:], 0x0800)
    return frame[:12] + kind.to_bytes(2, "big") + rest


@dataclass
class File:
    """A file of a recorder."""

    name: str
    records: list[Record]
    interfaces: tuple[str, ...] = ()
    form: str = "pcap"
    cut: int = 0
    order: tuple[int, ...] = (0,)  # of the captures that somebody joined in it
    damage: tuple[float, int] | None = None  # bytes that are overwritten: where, as a part of the file, and how many
    drops: int = 0  # what its statistics say that it lost
    tagged: bool = False

    def write(self, folder: Path) -> Path:
        path = folder / self.name
        path.parent.mkdir(parents=True, exist_ok=True)
        size = -(-len(self.records) // len(self.order)) or 1
        data = b"".join(self._capture(self.records[part * size : (part + 1) * size], part) for part in self.order)
        data = data[: len(data) - self.cut]
        if self.damage is not None:
            place, length = self.damage
            at = 200 + int(place * max(len(data) - 200 - length, 0))
            data = data[:at] + b"\xff" * len(data[at : at + length]) + data[at + length :]
        path.write_bytes(gzip.compress(data, mtime=0) if self.form == "gzip" else data)
        return path

    def _capture(self, records: list[Record], part: int) -> bytes:
        frames = [tagged(each.frame) if self.tagged else each.frame for each in records]
        rows = [(each.stamp, frame) for each, frame in zip(records, frames, strict=True)]
        order = ("little", "big")[part % 2]
        if not self.interfaces:
            return pcap_bytes(rows, order, bool(part % 3))
        section = Section(order)
        blocks = [section.header(), *(section.interface(name) for name in self.interfaces)]
        place = {name: index for index, name in enumerate(self.interfaces)}
        for each, (stamp, frame) in zip(records, rows, strict=True):
            blocks.append(section.packet(stamp // 1000, frame, place[each.interface]))
        if self.drops and records:
            blocks.append(section.statistics(records[-1].stamp // 1000, ifdrop=self.drops, ifrecv=len(records)))
        return b"".join(blocks)

    @property
    def whole(self) -> list[Record]:
        """The records that are whole: a cut takes at most the last one."""
        return self.records[: len(self.records) - bool(self.cut)]


@dataclass
class World:
    """A recorder's files in the order in which they appear, and in which of several looks each lies there."""

    files: list[File] = field(default_factory=list)
    looks: dict[str, int] = field(default_factory=dict)
    twins: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)


EVENTS = {
    "none": 12, "spill": 1, "step": 1, "zeros": 1, "cut": 1, "empty": 1, "silent": 1, "joined": 1, "damaged": 1,
    "ahead": 1, "lossy": 1, "tagged": 1,
}  # fmt: skip
"""What may happen to a file, and how often."""


class _Recorder:
    """Writes files as a recorder does; its clock may differ from the true time by `offset`."""

    def __init__(self, random: Random, world: World) -> None:
        self.random, self.world = random, world
        self.gap = random.choice((5, 20, 60)) * SECOND
        self.offset = 0
        self.number = 0
        self.kind = random.choice(("tcpdump", "tcpdump", "dumpcap"))
        self.interfaces = tuple(random.sample(NAMES, random.randint(1, 3))) if self.kind == "dumpcap" else ()
        self.rotation = random.choice((HOUR, HOUR, HOUR // 2))
        self.count = 0

    def name(self, at: int, end: str = "") -> str:
        stamp = datetime.fromtimestamp((at + self.offset) // SECOND, UTC).strftime("%Y%m%d%H%M%S")
        self.count += 1
        return f"cap_{self.count:05d}_{stamp}.pcapng" if self.interfaces else f"cap_{stamp}.pcap{end}"

    def records(self, begin: int, end: int, interfaces: tuple[str, ...]) -> list[Record]:
        made = []
        at = begin
        while at < end:
            made.append(Record(at + self.offset, self.random.choice(interfaces or ("",)), self.number))
            self.number += 1
            at += self.random.randint(self.gap // 2, self.gap)
        return made

    def file(self, begin: int, end: int) -> None:
        """The file of [begin, end), true time, with what happens to it."""
        random, world = self.random, self.world
        declared = self.interfaces
        if len(declared) > 1 and random.random() < 0.2:
            declared = tuple(random.sample(declared, len(declared) - 1))
            world.notes.append(f"unplugged in {len(world.files)}")
        elif random.random() < 0.2:
            declared = tuple(reversed(declared))
        event = random.choices(tuple(EVENTS), tuple(EVENTS.values()))[0]
        if event == "empty":
            self.add(File(self.name(begin), [], declared))
        elif event == "spill" and not declared:
            name, third = self.name(begin), (end - begin) // 3
            for part in range(3):
                made = self.records(begin + part * third, begin + (part + 1) * third, declared)
                self.add(File(name + (str(part) if part else ""), made))
        elif event == "step":
            middle = begin + random.randint(1, (end - begin) - 1)
            name, made = self.name(begin), self.records(begin, middle, declared)
            self.offset -= random.choice((3, 90, 300)) * SECOND
            self.add(File(name, made + self.records(middle, end, declared), declared))
        elif event == "zeros":
            made = self.records(begin, end, declared)
            made = [*made[:-3], *(Record(0, each.interface, each.number) for each in made[-3:])]
            self.add(File(self.name(begin), made, declared))
        elif event == "silent":
            self.add(File(self.name(begin), self.records(begin, begin + (end - begin) // 3, declared), declared))
        else:
            made = self.records(begin, end, declared)
            file = File(self.name(begin), made, declared, cut=9 if event == "cut" and made else 0)
            if event == "joined":
                file.order = tuple(random.sample(range(parts := random.randint(2, 4)), parts))
            elif event == "damaged" and len(made) > 40:
                file.damage = random.random(), random.choice((30, 300, 2000, 20_000))
            elif event == "ahead" and len(made) > 40:
                at, lead = random.choice((0, -1)), random.choice((3 * HOUR, 30 * 365 * 24 * HOUR))
                made[at] = replace(made[at], stamp=made[at].stamp + lead, stray=True)
            elif event == "lossy" and declared:
                file.drops = random.choice((1, 50))
            file.tagged = event == "tagged"
            self.add(file)
        if event != "none":
            world.notes.append(f"{event} in {len(world.files) - 1}")

    def add(self, file: File) -> None:
        # A clock that was put back names a file as an earlier one, which the recorder overwrites.
        self.world.files = [each for each in self.world.files if each.name != file.name] + [file]

    def run(self) -> None:
        """Some hours, with a restart or a clock that is put back between two files."""
        at, end = BASE, BASE + self.random.randint(3, 5) * HOUR
        restarts = self.random.random() < 0.35
        while at < end:
            until = min(at + self.rotation, end)
            if restarts and self.random.random() < 0.3:
                stop = at + self.random.randint(1, self.rotation - 1)
                self.file(at, min(stop, until))
                at = stop + self.random.choice((0, 10, 600, 2400)) * SECOND
                self.world.notes.append(f"restart after {len(self.world.files) - 1}")
                continue
            self.file(at, until)
            at = until
            if self.random.random() < 0.05:
                self.offset -= self.random.choice((600, 3600)) * SECOND
                self.world.notes.append(f"clock put back after {len(self.world.files) - 1}")


def draw(random: Random) -> World:
    """A world: one recorder, some copies, a file under a foreign name, and when each file appears."""
    world = World()
    _Recorder(random, world).run()
    for each in list(world.files):
        if random.random() < 0.08 and each.records and not each.cut and not each.damage:
            stem, _, ending = each.name.partition(".")
            zipped = random.random() < 0.5
            name = f"{each.name}.gz" if zipped else f"{stem}-copy.{ending}"
            world.files.append(replace(each, name=name, form="gzip" if zipped else "pcap"))
            world.twins.add(name)
            world.notes.append(f"{name} is a copy")
    if random.random() < 0.2:
        number, at = 1 << 20, BASE + random.randint(0, 4 * HOUR)
        made = [Record(at + part * SECOND, "", number + part) for part in range(20)]
        world.files.append(File(random.choice(("old.pcap", "test-1.cap", "cap.bak", "x.pcapng")), made))
        world.notes.append("a foreign file")
    late = random.randint(2, len(world.files)) if len(world.files) > 2 else len(world.files)
    for number, each in enumerate(world.files):
        look = 0 if number < late else random.randint(1, 2)
        world.looks[each.name] = look if random.random() < 0.9 else 2
    if all(world.looks.values()):
        world.looks[world.files[0].name] = 0
    return world
