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
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
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
from lowwater.storage import digests
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


class Killed(BaseException):
    """The end of a process, wherever it was."""


@dataclass
class World:
    """What is true of a lake and its files, as a plain list says it; a backup has that of its time.

    Attributes:
        links: folder of captures -> name of the link.
        query: name of the query.
        skew: of all links, s.
        keep: what `[retention]` says of packets, in the settings file's words; empty without.
        known: what the lake has read.
        cut: the files of `known` whose last record is torn.
        erased: what lay there when packets were erased: the same file is not read again.
        kept: rows of hours whose packets are gone, by hour.
    """

    links: dict[str, str] = field(default_factory=lambda: {"a": "a", "b": "b"})
    query: str = "q"
    skew: int = 1
    keep: str = ""
    known: dict[Key, Records] = field(default_factory=dict)
    cut: set[Key] = field(default_factory=set)
    erased: dict[Key, Records] = field(default_factory=dict)
    kept: dict[int, Counter[tuple[object, ...]]] = field(default_factory=dict)


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
        self.several = {"b"} if seed % 2 else set[str]()  # links whose files have two interfaces each
        for folder in ("lake", "q", "in/a", "in/b"):
            (self.top / folder).mkdir(parents=True)
        self.settings()

    @property
    def lake(self) -> Path:
        return self.top / "lake"

    def settings(self) -> None:
        """Writes the settings and the query."""
        text = '[interval]\nlength = "1h"\n[query_sets.s]\nfiles = ["../q/q.gsql"]\n'
        for folder, name in sorted(self.world.links.items()):
            text += f'[links.{name}]\ncaptures = "../in/{folder}/x_%Y%m%d%H.pcap"\nrotation = "1h"\n'
            text += f'skew = "{self.world.skew}s"\n'
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
        stamp = time.strftime("%Y%m%d%H", time.gmtime(BEGIN // SECOND + key[1] * 3600))
        return self.top / "in" / key[0] / f"x_{stamp}.pcap"

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
            if key not in self.disk and key not in self.world.known and self.chance.random() < 0.85:
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
        key = self.chance.choice(sorted(keys))
        self.file(key).unlink()
        del self.disk[key]

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
        self.run("erase", "--where", f"srcIP = '{host}'", "--yes", "--why", "request 17", *more, code=None)
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
        self.world = copy.deepcopy(self.saved)
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

    def expected(self, hour: int) -> Counter[tuple[object, ...]]:
        """The rows of an hour: count, bin and source."""
        packets = [each for folder in "ab" for each in self.world.known.get((folder, hour), ())]
        counted = Counter((at // SECOND // BIN, source) for at, source in packets)
        return Counter((count, source, at) for (at, source), count in counted.items())

    def rows(self, lake: Path, hour: int) -> Counter[tuple[object, ...]]:
        """The rows of an hour. Of a table with a damaged file that nothing makes again, whoever reads it is told."""
        start = BEGIN + hour * HOUR
        if not (lake / "tables" / self.world.query).is_dir():
            return Counter()
        try:
            found = table_rows(lake, self.world.query, start, start + HOUR)
        except digests.DamagedError:
            assert any("flip tables" in act for act in self.acts)
            return self.world.kept.get(hour) or self.expected(hour)
        names = sorted(("c", "srcIP", "tb", "_last", "_hour"))
        at = [names.index(name) for name in ("c", "srcIP", "tb")]
        return Counter(tuple(row[number] for number in at) for row in found)

    def words(self) -> dict[int, str]:
        """The word of each hour, on which all agree."""
        said = statuses(self.lake, self.top / "q")
        found = {(row.start - BEGIN) // HOUR: row.shown for row in said if row.end - row.start == HOUR}
        counts = Counter(row.shown for row in said for _ in range((row.end - row.start) // HOUR))
        text = self.run("metrics").out
        told = {word: int(float(n)) for word, n in re.findall(r'lowwater_intervals\{.*state="([^"]+)"\} (\S+)', text)}
        assert {word: n for word, n in told.items() if n} == counts, (told, counts)
        snapshot = Ledgers(self.lake, self.top / "q").now()
        pages = page_states(lambda address: render(snapshot, address))
        shown = {(at - BEGIN) // HOUR: word for (_, at), word in pages.items()}
        assert {hour: shown.get(hour) for hour in found} == found, (shown, found)
        lines = re.findall(rf"(\S+Z) +s +\S+ +({'|'.join(words.WORDS)})\b", self.run("status").out)
        assert dict(lines) == {format_instant(row.start): row.shown for row in said if row.end - row.start == HOUR}, (
            lines,
            said,
        )
        plan = json.loads(self.run("plan", "--format", "json", code=None).out)
        planned = {each["from"] for each in plan["intervals"]} if "intervals" in plan else None
        due = {
            format_instant(row.start) for row in said if row.shown in words.DUE and row.shown not in words.TO_CONFIRM
        }
        assert planned is None or due <= planned, (due, plan)
        report = " ".join(self.run("report", code=None).out.split())
        assert f"{counts['done']} done" in report or not counts["done"], (report, counts)
        for command in ("streams", "log"):
            self.run(command)
        self.run("skew", code=None if any("packets/" in act for act in self.acts) else 0)  # it reads all packets
        return found

    def check(self) -> None:
        """No wrong row is `done`, and all agree on the word of each hour."""
        found, horizons = self.words(), self.horizons()
        for hour, word in found.items():
            keys = [(folder, hour) for folder in "ab"]
            gone = any(BEGIN + hour * HOUR < horizon for horizon in horizons.values())
            if gone and word in ("done", "kept"):
                had = self.rows(self.lake, hour)
                assert self.world.kept.setdefault(hour, had) == had, (hour, word)
            elif word in ("done", "provisional"):
                assert self.rows(self.lake, hour) == self.expected(hour), (hour, word)
                assert all(key in self.world.known and key not in self.world.cut for key in keys), (hour, word)
        for hour in [*self.world.kept]:
            if not any(BEGIN + hour * HOUR < horizon for horizon in horizons.values()):
                del self.world.kept[hour]

    def step(self) -> None:
        """One act, then all is looked at; most often somebody has ingested and published in between."""
        acts: dict[Callable[[], None], int] = {
            **dict.fromkeys((self.record, self.publish), 3),
            **dict.fromkeys((self.correct, self.cut, self.rotate, self.move, self.rename_link, self.rename_query), 1),
            **dict.fromkeys((self.drop_query, self.change_skew, self.trim, self.erase, self.flip), 1),
            **dict.fromkeys((self.foreign_delete, self.foreign_join, self.back_up, self.restore, self.kill), 1),
            **dict.fromkeys((self.full, self.wrong_clock, self.maintain), 1),
        }
        act = self.chance.choices([*acts], [*acts.values()])[0]
        needs_rows = act in (self.rename_query, self.drop_query, self.flip, self.foreign_delete, self.foreign_join)
        if (needs_rows and not (self.lake / "tables" / self.world.query).is_dir()) or (
            act in (self.correct, self.cut, self.rotate) and not self.world.known.keys() & self.disk.keys()
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
        there = {
            (row.start - BEGIN) // HOUR: row.shown
            for row in statuses(anew, self.top / "q")
            if row.end - row.start == HOUR
        }
        for hour, word in there.items():
            keys = [(folder, hour) for folder in "ab"]
            if any(BEGIN + hour * HOUR < horizon for horizon in horizons.values()) or self.lost.intersection(keys):
                continue
            if self._has_all(hour):
                # What comes behind an hour says whether its records may still be late.
                assert here.get(hour) == word or not self._has_all(hour + 1), (hour, here, there)
                if word in words.VISIBLE and here.get(hour) in words.VISIBLE:
                    assert self.rows(self.lake, hour) == self.rows(anew, hour), (hour, word)

    def _has_all(self, hour: int) -> bool:
        """Whether the disk has what the lake knows of an hour."""
        return all(self.disk.get((folder, hour)) == self.world.known.get((folder, hour)) for folder in "ab")


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
