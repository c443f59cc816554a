"""Drawn lives of a lake: two links are recorded, ingested and published while disks fail and people change their mind.

After each step every command, metric and page says the same of each hour, and the rows of an hour that is `done` are
those of the packets that the lake was given, as a plain list knows them. At the end a backfill makes the tables equal
to those of a lake that is made anew from the files that are left.
`python -m tests.lake.life 20 100` lives the lives 100 to 119 and says which went wrong.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import random
import re
import shutil
import struct
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from deltalake import DeltaTable
from lowwater_review.ledgers import Ledgers
from lowwater_review.pages import render

from lowwater.instants import HOUR, SECOND, format_instant
from lowwater.lake import open_tables, tables, words
from lowwater.lake.layout import lake_to_read
from lowwater.lake.packets import PacketFiles
from lowwater.link_names import family_of
from lowwater.replay.schedule.due import statuses
from lowwater.storage import digests, untrusted
from tests.capturemaker import pcap_bytes, udp
from tests.lake.test_interfaces import block
from tests.replay.month import page_states
from tests.replay.support import Said, lowwater, table_rows

BEGIN = 493_344 * HOUR
"""2026-04-13T00:00Z."""
HOURS = 5
STEPS = 9
BIN = 1200
QUERY = (
    "DEFINE {{ query_name '{}'; }}\nSELECT tb, srcIP, count(*) AS c FROM DataProtocol GROUP BY time/{} AS tb, srcIP\n"
)

Records = tuple[tuple[int, str], ...]
"""Timestamp (ns) and source of each packet."""
Rows = Counter[tuple[Any, ...]]
Key = tuple[str, int]
"""Folder of a link, number of an hour."""


def with_interfaces(frames: Sequence[tuple[int, bytes]]) -> bytes:
    """A pcapng whose packets are of two interfaces in turn."""
    options = struct.pack("<HHB3xHH4s4x", 9, 1, 9, 2, 4, b"eth0"), struct.pack("<HHB3xHH4s4x", 9, 1, 9, 2, 4, b"eth1")
    blocks = [block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))]
    blocks += [block(1, struct.pack("<HxxI", 1, 65535) + each) for each in options]
    for number, (at, frame) in enumerate(frames):
        head = struct.pack("<IIIII", number % 2, at >> 32, at & 0xFFFFFFFF, len(frame), len(frame))
        blocks.append(block(6, head + frame))
    return b"".join(blocks)


def at_hour(hour: int) -> int:
    """The instant at which an hour begins, ns."""
    return BEGIN + hour * HOUR


@contextmanager
def as_user(user: int, group: int) -> Iterator[None]:
    """Lets this process be one of another user, as long as the block lasts."""
    groups, mask = os.getgroups(), os.umask(0o002)
    os.setgroups([])
    os.setegid(group)
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)
        os.umask(mask)


class Killed(BaseException):
    """The end of a process, wherever it was."""


@dataclass
class World:
    """What is true of a lake and its files, as a plain list says it; a backup has that of its time.

    Attributes:
        links: folder of captures -> name of the link.
        query: name of the query.
        query_set: name of its query set.
        skew: of all links, s.
        length: of an interval, s.
        periods: folder -> hour from which another recorder writes its files, under other names.
        ends: folder -> hour at which the link has ended.
        keep: what `[retention]` says of packets, in the settings file's words; empty without.
        known: what the lake has read.
        cut: the files of `known` whose last record is torn.
        erased: what lay there when packets were erased: the same file is not read again.
        kept: rows of bins whose packets are gone, by bin.
    """

    links: dict[str, str] = field(default_factory=lambda: {"a": "a", "b": "b"})
    query: str = "q"
    query_set: str = "s"
    skew: int = 1
    length: int = 3600
    periods: dict[str, int] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    keep: str = ""
    known: dict[Key, Records] = field(default_factory=dict)
    cut: set[Key] = field(default_factory=set)
    erased: dict[Key, Records] = field(default_factory=dict)
    kept: dict[int, Rows] = field(default_factory=dict)


class Life:
    """One life: `acts` has what happened, by which a life that goes wrong is told."""

    def __init__(self, top: Path, seed: int) -> None:
        self.chance, self.top = random.Random(seed), top / "here"
        self.world = World()
        self.saved: World | None = None
        self.disk: dict[Key, Records] = {}
        self.torn: set[Key] = set()
        self.lost: set[Key] = set()  # packets of files that are no more, in files that were damaged
        self.written, self.acts = 0, list[str]()
        self.damaged = set[int]()  # bins of intervals that are damaged, of whatever length
        self.several = {"b"} if seed % 2 else set[str]()  # links whose files have two interfaces each
        for folder in ("lake", "q", "in/a", "in/b"):
            (self.top / folder).mkdir(parents=True)
        self.settings()

    @property
    def lake(self) -> Path:
        return self.top / "lake"

    def settings(self) -> None:
        """Writes the settings and the query."""
        text = f'[interval]\nlength = "{self.world.length}s"\n'
        text += f'[query_sets.{self.world.query_set}]\nfiles = ["../q/q.gsql"]\n'
        for folder, name in sorted(self.world.links.items()):
            text += f'[links.{name}]\ncaptures = "../in/{folder}/x_%Y%m%d%H.pcap"\nrotation = "1h"\n'
            text += f'skew = "{self.world.skew}s"\n'
            if folder in self.world.ends:
                text += f'until = "{format_instant(at_hour(self.world.ends[folder]))}"\n'
            if folder in self.world.periods:
                text += f'[[links.{name}.periods]]\nsince = "{format_instant(at_hour(self.world.periods[folder]))}"\n'
                text += f'captures = "../in/{folder}/new_%Y%m%d_%H.pcap"\nskew = "2s"\n'
        keep = f'[retention]\npackets = "{self.world.keep}"\n' if self.world.keep else ""
        (self.lake / "lowwater.toml").write_text(text + keep)
        (self.top / "q" / "q.gsql").write_text(QUERY.format(self.world.query, BIN))

    def run(self, *arguments: object, code: int | None = 0) -> Said:
        """Runs a command over the lake."""
        said = lowwater(*arguments, "--lake", self.lake)
        assert code is None or said.code == code, (arguments, said)
        return said

    # What happens.

    def file(self, key: Key) -> Path:
        new = key[1] >= self.world.periods.get(key[0], HOURS)
        name = time.strftime("new_%Y%m%d_%H" if new else "x_%Y%m%d%H", time.gmtime(at_hour(key[1]) // SECOND))
        return self.top / "in" / key[0] / f"{name}.pcap"

    def write(self, key: Key, records: Records, torn: bool = False) -> None:
        frames = [(at, udp(source, "10.1.0.1", 5, 6)) for at, source in records]
        data = with_interfaces(frames) if key[0] in self.several else pcap_bytes(frames, nanoseconds=True)
        self.file(key).write_bytes(data[:-7] if torn else data)
        self.written += 1
        os.utime(self.file(key), ns=(BEGIN - 1000 * HOUR + self.written * SECOND,) * 2)
        self.disk[key] = records[:-1] if torn else records
        (self.torn.add if torn else self.torn.discard)(key)

    def drawn(self, hour: int) -> Records:
        """One packet in most spans of 5 minutes, and in the first and the last: a recording of a whole hour."""
        spans = [span for span in range(12) if span in (0, 11) or self.chance.random() < 0.7]
        at = (BEGIN + hour * HOUR + (span * 300 + self.chance.randrange(5, 295)) * SECOND for span in spans)
        return tuple((each, f"10.0.0.{self.chance.randrange(1, 4)}") for each in at)

    def record(self) -> None:
        """The next hours of both links are recorded; now and then one of them comes later."""
        there = [hour for _, hour in {*self.disk, *self.world.known}]
        last = max(there, default=-1) + 1
        new = [(folder, hour) for hour in range(min(HOURS, last + self.chance.randrange(1, 4))) for folder in "ab"]
        for key in new:
            if key in self.disk or key in self.world.known or key[1] >= self.world.ends.get(key[0], HOURS):
                continue
            if self.chance.random() < 0.85:
                self.write(key, self.drawn(key[1]))

    def correct(self) -> None:
        """A file is replaced by another recording of its hour."""
        key = self.chosen()
        self.write(key, self.drawn(key[1]))

    def cut(self) -> None:
        key = self.chosen()
        self.write(key, self.drawn(key[1]), torn=True)

    def rotate(self) -> None:
        """Somebody removes a capture that the lake has read."""
        keys = [key for key in self.disk if self.world.known.get(key) == self.disk[key] and key not in self.torn]
        if not keys:
            return self.publish()
        key = self.chance.choice(sorted(keys))
        self.file(key).unlink()
        del self.disk[key]
        return None

    def chosen(self) -> Key:
        return self.chance.choice(sorted(self.disk))

    def move(self) -> None:
        """Lake, captures and queries get another place together."""
        target = self.top.with_name(f"place{len(self.acts)}")
        shutil.move(self.top, target)
        self.top = target

    def rename_link(self) -> None:
        folder = self.chance.choice("ab")
        old, new = self.world.links[folder], f"{folder}{len(self.acts)}"
        self.run("rename", "link", old, new, "--why", "a better name")
        self.world.links[folder] = new

    def rename_query(self) -> None:
        new = f"q{len(self.acts)}"
        self.run("rename", "query", self.world.query, new, "--why", "a better name")
        self.world.query = new

    def rename_set(self) -> None:
        new = f"s{len(self.acts)}"
        self.run("rename", "set", self.world.query_set, new, "--why", "a better name")
        self.world.query_set = new

    def change_length(self) -> None:
        """Intervals are shorter, or longer, from now on."""
        self.world.length = self.chance.choice(sorted({1800, 3600, 7200} - {self.world.length}))
        self.settings()

    def new_recorder(self) -> None:
        """A recorder is replaced at the end of what it has recorded: no hour before is stale by that."""
        folder = self.chance.choice("ab")
        since = 1 + max((hour for link, hour in {*self.disk, *self.world.known} if link == folder), default=-1)
        if folder in {*self.world.periods, *self.world.ends} or not 0 < since < HOURS:
            return self.publish()
        before = self.words()
        self.world.periods[folder] = since
        self.settings()
        after = self.words()
        assert {each: word for each, word in before.items() if each[1] <= at_hour(since)} == {
            each: word for each, word in after.items() if each[1] <= at_hour(since)
        }
        return None

    def end_link(self) -> None:
        """A link ends with its last recording; half of the time its packets may not stay."""
        folder = self.chance.choice("ab")
        there = [hour for link, hour in {*self.disk, *self.world.known} if link == folder]
        if folder in self.world.ends or folder not in {link for link, _ in self.world.known}:
            return self.publish()
        self.world.ends[folder] = max(there) + 1
        self.settings()
        if self.chance.random() < 0.5:
            return None
        self.acts[-1] += " drop"
        captures = ("--captures",) if self.chance.random() < 0.5 else ()
        said = ("retire", "link", self.world.links[folder], "--drop", "--why", "its packets may not be kept", *captures)
        assert "nothing was changed" in self.run(*said).out
        self.run(*said, "--yes")
        for key in [key for key in self.disk if key[0] == folder and not self.file(key).exists()]:
            del self.disk[key]
            self.torn.discard(key)
        return None

    def stranger(self) -> None:
        """Another user, who has no rights, or may read, or is of the group whose members work in the lake."""
        if os.geteuid():
            return self.publish()
        kind = self.chance.choice(["nobody", "reader", "member"])
        self.acts[-1] += f" {kind}"
        self.top.parent.chmod(0o711)
        self.give(self.top / "in", 0, 0o755)
        self.give(self.top / "q", 0, 0o755)
        self.give(self.lake, 3000, {"nobody": 0o750, "reader": 0o755, "member": 0o2770}[kind])
        open_tables._OPEN.tables.clear()
        before = self.words() if kind == "reader" else {}
        open_tables._OPEN.tables.clear()
        with as_user(2001, 3000 if kind == "member" else 2001):
            for command in ("ingest", "backfill", "maintain") if kind == "member" else ():
                said = self.run(command, code=None)
                assert "denied" not in said.out + said.err, (command, said)
            if kind == "member":
                self.took_in()
            elif kind == "reader":
                assert self.words() == before
            for command in () if kind == "member" else ("status", "ingest", "backfill", "maintain", "plan", "report"):
                said = self.run(command, code=None)
                assert said.code in ((1,) if kind == "nobody" else (0, 1)), (command, said)
                assert kind == "reader" or "error: " in said.err, (command, said)
        open_tables._OPEN.tables.clear()
        return None

    @staticmethod
    def give(folder: Path, group: int, mode: int) -> None:
        """Gives a folder and all in it to a group, with a mode of folders."""
        for path in (folder, *folder.rglob("*")):
            os.chown(path, -1, group)
            path.chmod(mode if path.is_dir() else mode & 0o666)

    def drop_query(self) -> None:
        """The table is to be made anew."""
        self.run("retire", "query", self.world.query, "--drop", "--yes", "--why", "made anew")
        self.world.kept.clear()

    def change_skew(self) -> None:
        self.world.skew = 3 - self.world.skew
        self.settings()

    def trim(self) -> None:
        """Packets of the first hours go."""
        before = BEGIN + self.chance.randrange(1, 3) * HOUR + HOUR // 2
        self.world.keep = f"{(time.time_ns() - before) // SECOND}s"
        self.settings()
        self.run("maintain")

    def erase(self) -> None:
        host, captures = f"10.0.0.{self.chance.randrange(1, 4)}", self.chance.random() < 0.5
        captures &= not self.world.erased  # a copy has what was erased before of the lake alone (docs/personal-data.md)
        horizons = self.horizons()
        more = ("--captures",) if captures else ()
        said = self.run("erase", "--where", f"srcIP = '{host}'", "--yes", "--why", "request 17", *more, code=None)
        if said.code and "its bytes are not those that were written" in said.err:
            return  # what a damaged file has of the host nobody knows: nothing is erased before it is made again
        for key, records in self.world.known.items():
            left = tuple(each for each in records if each[1] != host)
            if left != records and records and records[0][0] >= horizons[key[0]]:
                if key in self.disk and self.disk[key] == records:
                    self.world.erased[key] = records
                    with suppress(OSError):
                        if captures and key not in self.torn:
                            self.disk[key] = left
                self.world.known[key] = left
        for rows in self.world.kept.values():
            for row in [row for row in rows if host in row]:
                del rows[row]

    def flip(self) -> None:
        """A bit of a data file changes; who looks at all bytes is told, and what can be made again is."""
        files = [path for name in ("tables", "packets") for path in sorted((self.lake / name).rglob("*.parquet"))]
        live = {str(path) for path in files if "_delta_log" not in path.parts} & self._live()
        if not live:
            return
        path = Path(self.chance.choice(sorted(live)))
        content = bytearray(path.read_bytes())
        content[self.chance.randrange(len(content))] ^= 1 << self.chance.randrange(8)
        status = path.stat()
        path.write_bytes(content)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
        self.acts[-1] += f" {path.relative_to(self.lake)}"
        said = self.run("verify", "--data", code=1)
        assert path.name in re.sub(r"\s", "", said.out + said.err), said
        if "packets" in path.parts:
            folders = {name: folder for folder, name in self.world.links.items()}
            of = next(part for part in path.parts if part.startswith("link=")).removeprefix("link=").partition("@")[0]
            hour = int(path.parent.name.removeprefix("hour=")) - BEGIN // HOUR
            key = folders[of], hour
            if self.disk.get(key) != self.world.known.get(key) or key in self.world.erased:
                self.lost.add(key)

    def _live(self) -> set[str]:
        folders = [*(self.lake / "tables").iterdir(), self.lake / "packets"]
        files = (uri for folder in folders for uri in DeltaTable(str(folder)).file_uris())
        return {file for file in files if digests.said(file)}  # files of other programs have no digest in their name

    def foreign_delete(self) -> None:
        """Another program deletes rows of a published table."""
        DeltaTable(str(self.lake / "tables" / self.world.query)).delete("\"srcIP\" = '10.0.0.2'")

    def foreign_join(self) -> None:
        """Another program joins the files of a table."""
        DeltaTable(str(self.lake / "tables" / self.world.query)).optimize.compact()

    def back_up(self) -> None:
        """A lake with damaged files is not backed up."""
        if self.run("backup", "--to", self.top.parent / "backups", code=None).code == 0:
            self.saved = copy.deepcopy(self.world)

    def restore(self) -> None:
        """The disk of the lake is lost."""
        if self.saved is None:
            return self.back_up()
        shutil.rmtree(self.lake)
        open_tables._OPEN.tables.clear()
        self.run("restore", "--from", self.top.parent / "backups")
        named = {key: self.file(key) for key in self.disk}
        self.world = copy.deepcopy(self.saved)
        for key, path in named.items():  # the settings of then know the recorders of then
            path.rename(self.file(key))
        (self.top / "q" / "q.gsql").write_text(QUERY.format(self.world.query, BIN))
        return None

    def kill(self) -> None:
        """A backfill is killed at a commit."""
        left, real = self.chance.randrange(1, 8), tables.commit

        def commit(*arguments: object, **options: object) -> object:
            nonlocal left
            left -= 1
            if left == 0:
                raise Killed
            return real(*arguments, **options)  # type: ignore[arg-type]

        self.ingest()
        with patch.object(tables, "commit", commit), suppress(Killed):
            self.run("backfill", code=None)

    def full(self) -> None:
        """The disk is full for a while: whatever runs says so, and changes nothing that is published."""

        class NoRoom:
            f_bavail, f_frsize = 10, 4096

        with patch.object(os, "statvfs", lambda path: NoRoom):
            for command in ("ingest", "backfill", "maintain"):
                self.run(command, code=None)

    def wrong_clock(self) -> None:
        """The clock of a host is wrong by a day."""
        off = self.chance.choice([-24, 24]) * HOUR
        real = time.time_ns
        with patch.object(time, "time_ns", lambda: real() + off):
            self.run("watch", "--once", code=None)
        self.took_in()

    def publish(self) -> None:
        self.ingest()
        self.run("backfill", code=None)

    def maintain(self) -> None:
        self.run("maintain")

    def ingest(self) -> None:
        self.run("ingest", code=None)
        self.took_in()

    def took_in(self) -> None:
        for key, records in self.disk.items():
            if self.world.erased.get(key) != records:
                self.world.known[key] = records
                (self.world.cut.add if key in self.torn else self.world.cut.discard)(key)
                self.lost.discard(key)

    # What must hold.

    def horizons(self) -> dict[str, int]:
        """Folder -> the instant before which the lake says that packets of the link are gone, ns."""
        said = PacketFiles.of(lake_to_read(self.lake)).horizons
        return {
            folder: max((at for link, at in said.items() if family_of(link) == name), default=0)
            for folder, name in self.world.links.items()
        }

    @staticmethod
    def bins(start: int, end: int) -> range:
        """The bins of which [start, end), ns, has the rows: those that end there."""
        return range((start + 1) // SECOND // BIN, end // SECOND // BIN)

    def expected(self, start: int, end: int) -> Rows:
        """The rows of an interval: count, source and bin."""
        packets = (each for records in self.world.known.values() for each in records)
        counted = Counter((at // SECOND // BIN, source) for at, source in packets)
        bins = self.bins(start, end)
        return Counter((count, source, at) for (at, source), count in counted.items() if at in bins)

    def rows(self, lake: Path, start: int, end: int) -> Rows:
        """The rows of an interval. If a damaged file is made again by nothing, whoever reads its table is told."""
        if not (lake / "tables" / self.world.query).is_dir():
            return Counter()
        try:
            found = table_rows(lake, self.world.query, start, end)
        except untrusted.UnreadableError:
            assert any("flip tables" in act for act in self.acts)
            kept = [self.world.kept.get(each) for each in self.bins(start, end)]
            return sum(filter(None, kept), Rows()) if None not in kept else self.expected(start, end)
        names = sorted(("c", "srcIP", "tb", "_last", "_hour"))
        at = [names.index(name) for name in ("c", "srcIP", "tb")]
        return Counter(tuple(row[number] for number in at) for row in found)

    def words(self) -> dict[tuple[int, int], str]:
        """The word of each interval, on which all agree."""
        said = [*statuses(self.lake, self.top / "q")]
        own = {(row.start, row.end): row for row in said if row.end - row.start == self.world.length * SECOND}
        found = {bounds: row.shown for bounds, row in own.items()}
        self.damaged = {each for row in said if row.state == words.DAMAGED for each in self.bins(row.start, row.end)}
        counts = Counter[str]()
        for row in said:
            counts[row.shown] += row.intervals
        text = self.run("metrics").out
        told = {word: int(float(n)) for word, n in re.findall(r'lowwater_intervals\{.*state="([^"]+)"\} (\S+)', text)}
        assert {word: n for word, n in told.items() if n} == counts, (told, counts)
        snapshot = Ledgers(self.lake, self.top / "q").now()
        pages = page_states(lambda address: render(snapshot, address))
        length = self.world.length * SECOND
        shown = {at // length * length: word for (_, at), word in pages.items()}
        begun = {start: [row.shown for row in said if row.start // length * length == start] for start, _ in found}
        cells = {at: words.gravest(each) for at, each in begun.items()}
        assert not {at: (shown.get(at), word) for at, word in cells.items() if shown.get(at) != word}, said
        name = self.world.query_set
        lines = re.findall(rf"(\S+Z) +{name} +\S+ +({'|'.join(words.WORDS)})\b", self.run("status").out)
        one = {format_instant(start): word for (start, _), word in found.items()}
        assert one.items() <= dict(lines).items(), (lines, said)
        plan = json.loads(self.run("plan", "--format", "json", code=None).out)
        planned = {(each["start"], each["end"]): each["word"] for each in plan["intervals"]}
        planned |= {(each["start"], each["end"]): each["state"] for each in plan["kept"]}
        of_length = {(row.start, row.end): row.shown for row in said if row.start % length == row.end % length == 0}
        must = {words.BLOCKED, words.KEPT, *words.DUE} - {*words.TO_CONFIRM}
        assert planned.items() <= of_length.items(), (planned, said)
        assert {each for each, word in of_length.items() if word in must} <= planned.keys(), (planned, said)
        report = self.run("report", code=None).out.splitlines()
        summary = re.findall(r"([\d,]+) ([a-z ]+?)(?=[,;:]|$)", report[-1]) if report else []
        numbers = {word: int(n.replace(",", "")) for n, word in summary}
        total = numbers.pop("intervals", numbers.pop("interval", 0))
        due = sum(n for word, n in counts.items() if word in words.DUE and word not in words.VISIBLE) - counts["failed"]
        assert total == counts.total() and numbers.pop("due", 0) == due, (report, counts)
        assert numbers == {word: counts[word] for word in numbers}, (report, counts)
        for command in ("streams", "log"):
            self.run(command)
        if (self.lake / "tables" / self.world.query).is_dir():
            table = self.run("rows", self.world.query, "--format", "csv", code=None)
            if table.code == 0:
                stored = self.rows(self.lake, 0, 1 << 62)
                assert len(table.out.splitlines()) - 1 == stored.total(), (table, stored)
        self.run("skew", code=None if any("packets/" in act for act in self.acts) else 0)  # it reads all packets
        return found

    def hours(self, start: int, end: int) -> list[Key]:
        """The files that an interval reads."""
        among = range((start - BEGIN) // HOUR, -(-(end - BEGIN) // HOUR))
        return [(folder, hour) for folder in "ab" for hour in among if hour < self.world.ends.get(folder, 1 << 30)]

    def check(self) -> None:
        """No wrong row is `done`, and all agree on the word of each interval."""
        found, horizons = self.words(), self.horizons()
        for (start, end), word in found.items():
            if any(start < horizon for horizon in horizons.values()):
                if word in ("done", "kept", "provisional"):
                    had = self.rows(self.lake, start, end)
                    for each in {*self.bins(start, end)} - self.damaged:
                        rows = Rows({row: n for row, n in had.items() if row[2] == each})
                        assert self.world.kept.setdefault(each, rows) == rows, (format_instant(start), word)
            elif word in ("done", "provisional"):
                assert self.rows(self.lake, start, end) == self.expected(start, end), (format_instant(start), word)
                for key in self.hours(start, end):
                    assert key in self.world.known, (format_instant(start), word, key)
                    cut = key in self.world.cut and (self.world.known[key] or [(0, "")])[-1][0] < end
                    assert not cut, (format_instant(start), word, key)
        for each in [*self.world.kept]:
            if not any(each * BIN * SECOND < horizon for horizon in horizons.values()):
                del self.world.kept[each]

    def step(self) -> None:
        """One act, then all is looked at; most often somebody has ingested and published in between."""
        acts: dict[Callable[[], None], int] = {
            **dict.fromkeys((self.record, self.publish), 3),
            **dict.fromkeys((self.correct, self.cut, self.rotate, self.move, self.rename_link, self.rename_query), 1),
            **dict.fromkeys((self.drop_query, self.change_skew, self.trim, self.erase, self.flip), 1),
            **dict.fromkeys((self.foreign_delete, self.foreign_join, self.back_up, self.restore, self.kill), 1),
            **dict.fromkeys((self.full, self.wrong_clock, self.maintain, self.rename_set, self.change_length), 1),
            **dict.fromkeys((self.new_recorder, self.end_link, self.stranger), 1),
        }
        act = self.chance.choices([*acts], [*acts.values()])[0]
        needs_rows = act in (self.rename_query, self.drop_query, self.flip, self.foreign_delete, self.foreign_join)
        if (needs_rows and not (self.lake / "tables" / self.world.query).is_dir()) or (
            act in (self.correct, self.cut) and not self.world.known.keys() & self.disk.keys()
        ):
            act = self.publish
        self.acts.append(act.__name__)
        act()
        if self.chance.random() < 0.6:
            self.publish()
        else:
            self.ingest()
        self.check()

    def live(self, steps: int = STEPS) -> None:
        """The first hours are recorded and published; then so many steps, and the end."""
        self.acts.append("record")
        self.record()
        self.publish()
        for _ in range(steps):
            self.step()
        self.end()

    def end(self) -> None:
        """A backfill, then a lake made anew from the files that are left: where it has all that this one was given,
        its hours are the same."""
        for _ in range(2):
            self.publish()
        self.check()
        self.run("verify", "--data", code=None)
        here, horizons = self.words(), self.horizons()
        anew = self.top / "anew"
        anew.mkdir()
        shutil.copy(self.lake / "lowwater.toml", anew)
        for command in ("ingest", "backfill"):
            assert lowwater(command, "--lake", anew).code in (0, 1)
        there = {(row.start, row.end): row.shown for row in statuses(anew, self.top / "q")}
        for (start, end), word in there.items():
            keys = self.hours(start, end)
            if any(start < horizon for horizon in horizons.values()) or self.lost.intersection(keys):
                continue
            if self._has_all(keys) and (start, end) in here:
                # What comes behind an interval says whether its records may still be late.
                assert here[start, end] == word or not self._has_all(self.hours(end, end + 1)), (start, here, there)
                if word in words.VISIBLE and here[start, end] in words.VISIBLE:
                    assert self.rows(self.lake, start, end) == self.rows(anew, start, end), (start, word)

    def _has_all(self, keys: Sequence[Key]) -> bool:
        """Whether the disk has what the lake knows of some hours."""
        return all(self.disk.get(key) == self.world.known.get(key) for key in keys)


def main() -> None:
    """Lives some lives from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("number", type=int, nargs="?", default=20)
    parser.add_argument("seed", type=int, nargs="?", default=0)
    chosen = parser.parse_args()
    wrong = []
    for seed in range(chosen.seed, chosen.seed + chosen.number):
        top = Path(tempfile.mkdtemp(prefix=f"life{seed}-"))
        begin, life = time.process_time(), Life(top, seed)
        try:
            life.live()
            shutil.rmtree(top)
        except Exception:  # noqa: BLE001
            wrong.append(seed)
            traceback.print_exc()
            print(f"what is left of it: {life.top}")
        print(f"seed {seed}: {', '.join(life.acts)}; {time.process_time() - begin:.0f} s", flush=True)
    print(f"{chosen.number - len(wrong)} of {chosen.number} lives went well; wrong: {wrong or 'none'}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
