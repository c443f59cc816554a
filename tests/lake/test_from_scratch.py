"""What a lake knows of its files is what a lake that is made anew would know, whatever recorders and people did to
them, and whenever somebody looked (SEMANTICS T1, T5, T9)."""

from __future__ import annotations

import gzip
import os
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from lowwater.config import load_config
from lowwater.instants import HOUR
from lowwater.lake.ingestion.arrivals import arrivals
from lowwater.lake.ingestion.folders import look
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.ledgers.files import overlapping_files, told_files
from lowwater.replay.schedule.due import statuses
from tests.breadth import examples
from tests.lake.support import BASE, capture, known_captures

QUERY = "DEFINE { query_name n; } SELECT tb, count(*) AS c FROM a.ETH GROUP BY time/60 AS tb\n"
PER_HOUR = 180  # records of an hour

ACTS = (
    *("new", "new", "new", "second", "grow", "truncate", "rename", "copy", "compress", "correct", "use again", "cut"),
    *("spill", "delete", "skew", "look", "look", "look"),
)


class History:
    """A folder of captures of one link, and a lake that looks into it now and then. Each file is a part of the records
    of an hour, by the clock of one of several recorders: `files` has (hour, first record, last record, offset)."""

    def __init__(self, top: Path, seed: int) -> None:
        self.chance, self.top, self.folder = random.Random(seed), top, top / "in"
        self.folder.mkdir()
        self.dated = self.chance.random() < 0.5
        self.files: dict[str, tuple[int, int, int, int]] = {}
        self.numbers, self.clock, self.acts = 0, 0, list[str]()
        name = "a_%Y%m%d%H_*.pcap*" if self.dated else "a_*.pcap*"
        rotation = 'rotation = "1h"\n' if self.dated else ""
        skew = self.chance.choice(["1s", "5min"])
        links = f'[links.a]\ncaptures = "{self.folder}/{name}"\n{rotation}skew = "{skew}"\n'
        self.text = f'[query_sets.n]\nfiles = ["n.gsql"]\n{links}'
        self.lake = self.new_lake("lake")

    def new_lake(self, name: str) -> Lake:
        root = self.top / name
        root.mkdir()
        (root / "n.gsql").write_text(QUERY)
        (root / "lowwater.toml").write_text(self.text)
        return open_lake(root)

    def name(self, hour: int) -> str:
        self.numbers += 1
        return f"a_20270115{8 + hour:02}_{self.numbers}.pcap" if self.dated else f"a_{self.numbers}.pcap"

    def write(self, name: str, hour: int, first: int, last: int, offset: int) -> None:
        step = 3600 / PER_HOUR
        capture(self.folder / name, [3600 * hour + offset + step * number for number in range(first, last)])
        self.files[name] = hour, first, last, offset
        self.touch(name)

    def touch(self, name: str) -> None:
        self.clock += 1
        os.utime(self.folder / name, ns=(BASE - 2000 * HOUR + self.clock * 10**9,) * 2)

    def step(self) -> None:
        """One thing that recorders, people or a look do."""
        act, chance = self.chance.choice(ACTS), self.chance
        name = chance.choice(sorted(self.files)) if self.files else ""
        if act in ("new", "look", "skew"):
            getattr(self, act)()
        elif not name or (act == "delete" and chance.random() < 0.6):
            return
        else:
            getattr(self, act.replace(" ", "_"))(name, *self.files[name])
        self.acts.append(f"{act} {name}" if act not in ("new", "look", "skew") else act)

    def new(self) -> None:
        hour, part = self.chance.randrange(4), self.chance.random() < 0.3
        first, last = (self.chance.randrange(60), self.chance.randrange(80, PER_HOUR)) if part else (0, PER_HOUR)
        self.write(self.name(hour), hour, first, last, 0)

    def second(self, name: str, hour: int, first: int, last: int, offset: int) -> None:
        self.write(self.name(hour), hour, first, last, self.chance.choice([1, 3, 300]))

    def grow(self, name: str, hour: int, first: int, last: int, offset: int) -> None:
        if not name.endswith(".gz"):
            self.write(name, hour, first, min(PER_HOUR, last + self.chance.randrange(1, 50)), offset)

    def truncate(self, name: str, hour: int, first: int, last: int, offset: int) -> None:
        if not name.endswith(".gz"):
            self.write(name, hour, first, max(first + 1, last - self.chance.randrange(1, 80)), offset)

    def cut(self, name: str, hour: int, first: int, last: int, offset: int) -> None:
        data = (self.folder / name).read_bytes()
        if len(data) > 200 and not name.endswith(".gz"):
            (self.folder / name).write_bytes(data[:-7])
            self.touch(name)

    def correct(self, name: str, hour: int, first: int, last: int, offset: int) -> None:
        if not name.endswith(".gz"):
            self.write(name, hour, first, last, self.chance.choice([2, 4]))

    def use_again(self, name: str, hour: int, first: int, last: int, offset: int) -> None:
        if not name.endswith(".gz") and not self.dated:
            self.write(name, self.chance.randrange(4), 0, PER_HOUR, 0)

    def rename(self, name: str, hour: int, first: int, last: int, offset: int) -> None:
        self._put(name, Path.rename)
        del self.files[name]

    def copy(self, name: str, hour: int, first: int, last: int, offset: int) -> None:
        self._put(name, shutil.copy)

    def _put(self, name: str, how: Any) -> None:
        facts = self.files[name]
        other = self.name(facts[0]) + (".gz" if name.endswith(".gz") else "")
        how(self.folder / name, self.folder / other)
        self.files[other] = facts

    def compress(self, name: str, *facts: int) -> None:
        if not name.endswith(".gz"):
            data = gzip.compress((self.folder / name).read_bytes())
            (self.folder / f"{name}.gz").write_bytes(data)
            (self.folder / name).unlink()
            self.files[f"{name}.gz"] = self.files.pop(name)
            self.touch(f"{name}.gz")

    def spill(self, name: str, hour: int, first: int, last: int, offset: int) -> None:
        """A file that no pattern claims."""
        if not name.endswith(".gz"):
            spilled = self.folder / f"x{name}1"
            shutil.copy(self.folder / name, spilled)
            os.utime(spilled, ns=(BASE - 2000 * HOUR,) * 2)

    def delete(self, name: str, *facts: int) -> None:
        (self.folder / name).unlink()
        del self.files[name]

    def skew(self) -> None:
        self.text = re.sub(r'skew = "\w+"', f'skew = "{self.chance.choice(["1s", "5min", "1h"])}"', self.text)
        (self.lake.root / "lowwater.toml").write_text(self.text)

    def look(self) -> None:
        take(self.lake)


def take(lake: Lake) -> None:
    """What `lowwater ingest` does."""
    config = load_config(lake.root)
    ingest(lake, "a", arrivals(lake, config)["a"].new, config, refusals={})
    look(lake, config)


def view(lake: Lake) -> dict[str, Any]:
    """What is read, with its coverage; what is not read; the states of the hours."""
    config = load_config(lake.root)
    rows = read_captures(lake, ["a"], config)["a"]
    files = (*told_files(lake).values(), *overlapping_files(lake, config))
    return {
        "read": [(row.capture, row.packets, row.covers_from, row.covers_to) for row in rows],
        # of two files with one content, either may give the name
        "unread": sorted((file.sha256 or file.name, file.state) for file in files if file.unread),
        "states": [(row.start, row.shown) for row in statuses(lake.root, lake.root)],
    }


def contents(lake: Lake) -> set[str]:
    return {row.capture for row in known_captures(lake, "a")}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(examples(6)), 5020])
def test_a_lake_knows_what_one_that_is_made_anew_knows(tmp_path: Path, seed: int) -> None:
    history = History(tmp_path, seed)
    for number in range(14):
        history.step()
        if history.acts and history.acts[-1] != "look" and number < 13:
            continue
        take(history.lake)
        anew = history.new_lake(f"anew{number}")
        take(anew)
        # But for contents that are gone from the disk, of which a new lake knows nothing.
        if contents(history.lake) <= contents(anew):
            assert view(history.lake) == view(anew), (seed, history.acts)
