"""A month of a lake that takes care of itself, under a simulated clock, beside a quiet backfill of the same files.

Files come late, by minutes to days, or never. Links fail, and so does who looks: pauses, kills, a full disk. A query
and a setting change on the way. `python -m tests.replay.month --days 30 --seed 1` runs one and says what was left.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from pathlib import Path
from unittest.mock import patch

from lowwater_review.ledgers import Ledgers
from lowwater_review.pages import render

from lowwater.config import load_config
from lowwater.errors import AwayError
from lowwater.high.process import InProcess
from lowwater.instants import HOUR, SECOND, format_instant
from lowwater.lake import tables
from lowwater.lake.ledgers.intervals import gravest, set_status
from lowwater.lake.ledgers.runs import read_replays
from lowwater.lake.words import BLOCKED
from lowwater.replay.schedule.backfill import backfill
from lowwater.replay.schedule.due import DueSelection, due, expected, open_jobs
from lowwater.replay.schedule.looks import Looker, pause_after
from tests.capturemaker import pcap_bytes, udp
from tests.replay.support import Rows, table_rows

BEGIN = 493_344 * HOUR
"""2026-04-13T00:00Z."""
MINUTE = 60 * SECOND
DAY = 24 * HOUR
LINKS = {"a": "fail", "b": "fail", "c": "publish", "d": "wait", "e": "publish"}
"""Policy of each link."""
QUERIES = {
    "pair": "DEFINE {{ query_name 'pair'; }}\nSELECT tb, srcIP, count(*) AS packets, {more} AS bytes\n"
    "FROM [both].DataProtocol GROUP BY time/600 AS tb, srcIP",
    "apart": "DEFINE {{ query_name 'apart'; }}\nSELECT tb, srcIP, count(*) AS packets, {more} AS bytes\n"
    "FROM [rest].DataProtocol GROUP BY time/600 AS tb, srcIP",
    "sums": "DEFINE {{ query_name 'sums'; }}\nSELECT tb, srcIP, count(*) AS packets, running_sum(len) AS total\n"
    "FROM e.DataProtocol GROUP BY time/3600 AS tb, srcIP CLOSING_WHEN count(*) = 0",
}


class Killed(BaseException):
    """The end of a process that looks, wherever it was."""


@dataclass
class Month:
    """The month.

    Attributes:
        folder: of lake, captures and queries; made afresh.
        days: how long it is.
        length: length of an interval, ns.
        seed: of all that is drawn.
        most_late: the latest that a file comes, ns.
        sets: the query sets.
        unlucky: share of the looks that meet a full disk or are killed.
        looks: number of looks.
        kills: how many of them were killed.
        full: how many met a full disk.
    """

    folder: Path
    days: int = 30
    length: int = HOUR
    seed: int = 0
    most_late: int = 3 * DAY
    sets: tuple[str, ...] = tuple(QUERIES)
    unlucky: float = 0.04
    looks: int = 0
    kills: int = 0
    full: int = 0
    now: int = BEGIN
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.lake, self.captures, self.queries = (self.folder / name for name in ("lake", "captures", "queries"))
        for path in (self.lake, self.captures, self.queries):
            path.mkdir(parents=True)
        self.end = BEGIN + self.days * DAY
        for name in self.sets:
            self.write_query(name, "sum(len)")
        self.write_settings("1s")
        self.files = self._drawn()

    def write_query(self, name: str, more: str) -> None:
        (self.queries / f"{name}.gsql").write_text(QUERIES[name].format(more=more), encoding="utf-8")

    def write_settings(self, skew: str) -> None:
        lines = [f'[interval]\nlength = "{self.length // MINUTE} min"\n\n[replay]\npatience = "20 min"']
        lines += ['[sets]\nboth = ["a", "b"]\nrest = ["c", "d"]', '[schedule]\nlook_back = "100d"\nevery = "10 min"']
        for name in self.sets:
            lines.append(f'[query_sets.{name}]\nfiles = ["{self.queries / name}.gsql"]')
        for name, policy in LINKS.items():
            since = BEGIN if name != "d" else BEGIN + self.length
            own = skew if name == "a" else "1s"
            lines.append(
                f'[links.{name}]\ncaptures = "../captures/{name}/{name}_%Y%m%dT%H%M%S.pcap"\n'
                f'rotation = "{self.length // MINUTE} min"\nskew = "{own}"\nsince = "{format_instant(since)}"\n'
                f'policy = "{policy}"'
            )
        path = self.lake / "lowwater.toml"
        path.with_suffix(".new").write_text("\n\n".join(lines) + "\n", encoding="utf-8")
        os.replace(path.with_suffix(".new"), path)

    def _drawn(self) -> list[tuple[int, str, int]]:
        """When each file comes: (instant, link, hour); those that never come are left out."""
        files = []
        for link in LINKS:
            begin = BEGIN if link != "d" else BEGIN + self.length
            hours = range(begin, self.end, self.length)
            dead = self.random.choice(hours) if link in "bcde" else self.end
            lost = range(dead, dead + self.random.choice([1, 2, 5]) * self.length)
            for hour in hours:
                late = self.random.choices(
                    [self.random.randrange(1, 8) * MINUTE, self.random.randrange(1, 5) * HOUR, self._days()], [90, 7, 3]
                )[0]
                if hour not in lost:
                    files.append((min(hour + self.length + late, self.end + 5 * MINUTE), link, hour))
        # All links go on to the end, and a bit further: so the last hour is over.
        files += [(self.end + self.length + 2 * MINUTE, link, self.end) for link in LINKS]
        return sorted(files)

    def _days(self) -> int:
        return self.random.randrange(5 * HOUR, max(6 * HOUR, self.most_late))

    def deliver(self, until: int) -> None:
        """Puts the files there that have come by now."""
        while self.files and self.files[0][0] <= until:
            at, link, hour = self.files.pop(0)
            stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(hour // SECOND))
            path = self.captures / link / f"{link}_{stamp}.pcap"
            path.parent.mkdir(exist_ok=True)
            rest = random.Random(f"{link} {hour}")
            moments = sorted(rest.randrange(self.length // 1_000_000) for _ in range(6))
            frames = [udp(f"10.0.0.{rest.randrange(3)}", "10.0.1.1", 5, 6, bytes(rest.randrange(9))) for _ in moments]
            stamped = [(hour + each * 1_000_000, frame) for each, frame in zip(moments, frames, strict=True)]
            path.write_bytes(pcap_bytes(stamped, nanoseconds=True))
            os.utime(path, ns=(at, at))

    def clock(self) -> int:
        return self.now

    def run(self) -> None:
        """Lets the month pass, and a bit more, until all that comes late was taken up."""
        looker, looker_names = self._looker(), list(self.sets)
        changes = {BEGIN + self.days * DAY // 2: "query", BEGIN + self.days * DAY // 3: "setting"}
        away, paused = self._outages(), self._pauses()
        hindered, over = 0, self.end + self.length + 40 * MINUTE
        with patch.object(time, "time_ns", self.clock):
            while self.now < over:
                day = (self.now - BEGIN) // DAY
                self.now += pause_after(hindered, self._config) if hindered else self._step()
                if (self.now - BEGIN) // DAY > day:
                    print(f"{format_instant(self.now)}: {self.looks:,} looks", file=sys.stderr, flush=True)
                self.deliver(self.now)
                for at in [at for at in changes if at <= self.now]:
                    self._change(changes.pop(at))
                if any(begin <= self.now < end for begin, end in away):
                    continue
                names = [name for name, begin, end in paused if not begin <= self.now < end]
                if names != looker_names:
                    looker, looker_names = self._looker(names), names
                self.looks += 1
                quiet = self.now > self.end + self.length
                luck = 1.0 if quiet else self.random.random()
                try:
                    with self._disturbed("kill" if 2 * luck < self.unlucky else "full" if luck < self.unlucky else ""):
                        found = looker.look()
                    hindered = hindered + 1 if found.hindered else 0
                except Killed:
                    self.kills += 1
                    looker, hindered = self._looker(names), 0

    def _step(self) -> int:
        """To the next look at which there may be something: clocks of minutes without any are told quickly."""
        soon = self.files[0][0] if self.files else self.now + HOUR
        edge = (self.now // self.length + 1) * self.length + 21 * MINUTE
        return max(10 * MINUTE, min(soon, edge) - self.now)

    def _looker(self, names: Sequence[str] = ()) -> Looker:
        self._config = load_config(self.lake)
        note = self.lines.append
        return Looker(self.lake, names, self.queries, lambda line, _: note(line), clock=self.clock)

    def _outages(self) -> list[tuple[int, int]]:
        """When nobody looks."""
        found = []
        for _ in range(max(1, self.days // 6)):
            begin = BEGIN + self.random.randrange(self.days * 24) * HOUR
            found.append((begin, min(self.end, begin + self.random.choice([2, 6, 30]) * HOUR)))
        return found

    def _pauses(self) -> list[tuple[str, int, int]]:
        """When nobody looks at a query set, while the others go on."""
        found = []
        for name in self.sets:
            begin = BEGIN + self.random.randrange(self.days * 24) * HOUR
            length = self.random.choice([6, 24, 72]) * HOUR if name != self.sets[0] else 0
            found.append((name, begin, min(self.end, begin + length)))
        return found

    def _change(self, what: str) -> None:
        if what == "query":
            self.write_query("pair", "max(len)")
        else:
            self.write_settings("2s")

    @contextmanager
    def _disturbed(self, how: str) -> Iterator[None]:
        """Kills the look at a commit that is drawn, or lets its disk be full for a while."""
        if not how:
            yield
            return
        left, real, when = self.random.randrange(1, 14), tables.commit, self.random.random()

        def commit(*arguments: object, **options: object) -> object:
            nonlocal left
            left -= 1
            if left > 0 or (how == "full" and left < -6):
                return real(*arguments, **options)  # type: ignore[arg-type]
            if how == "full":
                self.full += 1
                raise AwayError("the disk is full", "make room on it")
            if when < 0.5:
                real(*arguments, **options)  # type: ignore[arg-type]
            raise Killed

        with patch.object(tables, "commit", commit):
            yield

    def states(self, lake: Path) -> dict[tuple[str, int], tuple[str, str]]:
        """(query set, hour) -> state and reason, of a lake, as of the end."""
        found = {}
        for job in open_jobs(lake, (), self.queries):
            job = replace(job, passed=self.now)
            rows = set_status(expected(job, job.captures()), read_replays(job.lake, job.query_set))
            for (start, end), together in groupby(rows, lambda row: (row.start, row.end)):
                worst = gravest(together)
                for at in range(start, end, job.length):
                    found[job.query_set, at] = worst.shown, worst.why
        return found

    def quiet(self) -> Path:
        """The same files and settings in a lake of its own, by one backfill."""
        lake = self.folder / "quiet"
        lake.mkdir()
        shutil.copy(self.lake / "lowwater.toml", lake)
        with patch.object(time, "time_ns", self.clock):
            looker = Looker(lake, (), self.queries, lambda *_: None, clock=self.clock)
            looker.ingest(load_config(lake))
            jobs = [replace(job, passed=self.now) for job in open_jobs(lake, (), self.queries)]
            work = [each for job in jobs for each in due(job, DueSelection())]
            backfill(jobs, work, runner=InProcess())
        return lake

    def rows(self, lake: Path) -> dict[str, Rows]:
        return {name: table_rows(lake, name, 0, 1 << 62) for name in self.sets}


def page_states(get: Callable[[str], str | None]) -> dict[tuple[str, int], str]:
    """(query set, hour) -> state, as the calendars of the pages show it.

    Args:
        get: returns the page of an address.
    """
    found = {}
    cell = re.compile(r'<a href="[^"]*\binterval/([^/"]+)/[^"]+" title="([^",]+), ([^"]+)"')
    for address in {"index.html", *re.findall(r"\bmonth/[\w-]+\.html", get("index.html") or "")}:
        for name, label, state in cell.findall(get(address) or ""):
            at = datetime.strptime(f"2026 {label} +0000", "%Y %d %b %H:%M %z")
            found[name, round(at.timestamp()) * SECOND] = "done" if state == "warned" else state
    return found


def compare(month: Month) -> Counter[str]:
    """Compares a month that has passed with a quiet backfill and with its pages; counts the hours by state."""
    quiet = month.quiet()
    assert month.rows(month.lake) == month.rows(quiet)
    ours, theirs = month.states(month.lake), month.states(quiet)
    states = {key: state for key, (state, _) in ours.items()}
    assert states == {key: state for key, (state, _) in theirs.items()}
    snapshot = Ledgers(month.lake, month.queries).now()
    assert states == page_states(lambda address: render(snapshot, address))
    for (name, at), (state, why) in ours.items():
        if at + month.length <= month.end:
            true = {"done": "", "provisional": "late packets may come", "incomplete": "no capture covers"}
            said = {**true, BLOCKED: "no capture covers"}.get(state)
            assert said is not None and said in why and bool(said) == bool(why), (name, format_instant(at), state, why)
    return Counter(state for state, _ in ours.values())


def main() -> None:
    """Runs one month from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--hours", type=int, default=1, help="length of an interval, and of a file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--unlucky", type=float, default=0.04, help="share of looks with a kill or a full disk")
    parser.add_argument("--folder", type=Path, default=Path("var/month"))
    chosen = parser.parse_args()
    folder = chosen.folder.resolve() / f"{chosen.days}-{chosen.hours}-{chosen.seed}"
    shutil.rmtree(folder, ignore_errors=True)
    begin = time.monotonic()
    month = Month(folder, chosen.days, chosen.hours * HOUR, seed=chosen.seed, unlucky=chosen.unlucky)
    month.run()
    counts = compare(month)
    print(
        f"seed {chosen.seed}: {chosen.days} days, {month.looks:,} looks, {month.kills} killed, "
        f"{month.full} commits on a full disk; {dict(counts)}; {time.monotonic() - begin:.0f} s"
    )


if __name__ == "__main__":
    main()
