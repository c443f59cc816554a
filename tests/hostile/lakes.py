"""A world in a lake: its settings, ingest file by file, backfill, kills, and what is published then."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from deltalake import DeltaTable

from lowwater.cli.main import cli
from tests.hostile.cases import FAMILIES, Case
from tests.hostile.compare import apart, plain, write_queries
from tests.hostile.traffic import SECOND, World
from tests.replay.support import query_columns

STATELESS = ("selection", "group", "cube", "window", "distinct", "temporal", "chain", "join", "filter_join", "union")
"""Families whose intervals are independent, so that they run in any order."""


def instant(ns: int) -> str:
    """ISO 8601, UTC, with ns."""
    import datetime

    seconds, rest = divmod(ns, SECOND)
    return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


@dataclass
class HostileLake:
    """A lake over the captures of a world."""

    root: Path
    world: World
    interval: int
    cases: dict[str, Case] = field(default_factory=dict)
    links: dict[str, list[str]] = field(default_factory=dict)
    life: tuple[int, int] = (0, 0)

    def open(self, seed: int, count: int = 4) -> HostileLake:
        """Draws queries and writes the settings; links live from whole intervals to whole intervals."""
        self.root.mkdir(parents=True, exist_ok=True)
        rng = random.Random(f"lake {seed}")
        names = rng.sample(STATELESS, count)
        self.cases = {f"q{n}": FAMILIES[name](rng, sorted(self.world.files)) for n, name in enumerate(names)}
        arguments = write_queries(dict(enumerate(self.cases.values())), self.root)
        stamps = [p.ts for p in self.world.packets]
        length = self.interval * SECOND
        # The last interval must be whole, with the reach of joins and windows behind the last record.
        self.life = (min(stamps) // length * length, (max(stamps) // length + 2) * length)
        files = [argument for argument in arguments if argument.endswith(".gsql")]
        self.write_settings(files)
        return self

    def write_settings(self, files: list[str] | None = None) -> None:
        """Writes `lowwater.toml` from the skews of the world and the lines of the links."""
        files = files or [str(self.root / f"{name}.gsql") for name in self.cases]
        lines = [
            f'[interval]\nlength = "{self.interval}s"\n',
            f"[query_sets.hostile]\nfiles = {files}".replace("'", '"'),
        ]
        # The traffic is as bad as it is: no share of late records fails an audit.
        lines += ["[thresholds]", "violating = { warning = 1, critical = 1 }", "failed = { warning = 1, critical = 1 }"]
        for link in self.world.files:
            lines += [f"[links.{link}]", f'skew = "{self.world.skews[link]}ns"']
            lines += [f'since = "{instant(self.life[0])}"', f'until = "{instant(self.life[1])}"']
            lines += self.links.get(link, [])
        (self.root / "lowwater.toml").write_text("\n".join(lines) + "\n")

    def covers(self, link: str, number: int) -> tuple[int, int]:
        """What a capture of a link covers: up to where the next one begins."""
        firsts = [min(p.ts for p in self.world.packets if p.link == link and p.file == n) for n in self.numbers(link)]
        begins = self.life[0] if number == 0 else firsts[number]
        return begins, firsts[number + 1] if number + 1 < len(firsts) else self.life[1]

    def numbers(self, link: str) -> list[int]:
        """Of the captures of a link."""
        return sorted({p.file for p in self.world.packets if p.link == link})

    def captures(self) -> list[tuple[str, int]]:
        """Link and number of every capture."""
        return [(link, number) for link in sorted(self.world.files) for number in self.numbers(link)]

    def ingest(self, link: str, number: int) -> None:
        """One capture, with what it covers."""
        path = self.world.files[link][self.numbers(link).index(number)]
        begins, ends = self.covers(link, number)
        covers = f"--covers={instant(begins)}/{instant(ends)}"
        lowwater("ingest", f"--lake={self.root}", f"--link={link}", covers, str(path))

    def backfill(self, *options: str) -> None:
        """Every interval that is due."""
        lowwater("backfill", f"--lake={self.root}", *options)

    def killed_backfill(self, seconds: float) -> int | None:
        """A backfill in a process of its own that is killed after so many seconds; its exit code if it ended before."""
        command = [sys.executable, "-m", "lowwater.cli.main", "backfill", f"--lake={self.root}"]
        with (self.root / "backfill.log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
            try:
                return process.wait(seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return None

    def differences(self) -> dict[str, tuple[list[Any], list[Any]]]:
        """Query -> rows that its table lacks, and rows too many, beside the oracle."""
        found = {}
        for name, case in self.cases.items():
            assert case.oracle is not None
            wanted = Counter(tuple(map(plain, row)) for row in case.oracle(self.world))
            rows = self.table(name)
            missing, surplus = apart(wanted - rows, rows - wanted)
            if missing or surplus:
                found[f"{name} {case.family}: {case.text}"] = missing, surplus
        return found

    def rows(self) -> int:
        """Of all tables."""
        return sum(self.table(name).total() for name in self.cases)

    def table(self, name: str) -> Counter[tuple[Any, ...]]:
        """The published rows of a query, without the columns that the lake adds."""
        folder = self.root / "tables" / name
        if not (folder / "_delta_log").is_dir():
            return Counter()
        rows: Counter[tuple[Any, ...]] = Counter()
        for path in DeltaTable(str(folder)).file_uris():
            table = pq.ParquetFile(path).read()
            rows.update(tuple(map(plain, row.values())) for row in query_columns(table).to_pylist())
        return rows


def lowwater(*arguments: str) -> Any:
    """A command of the command line, in this process."""
    return cli.main(list(arguments), standalone_mode=False)
