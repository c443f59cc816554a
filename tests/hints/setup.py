"""What a user has: a small capture, a lake, queries, commands; for cases that are no rows of table.txt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lowwater_generator import generate

from lowwater.instants import SECOND, format_instant
from tests.replay.support import START, Said, lowwater

SPAN = 600
"""Seconds that the packets of its captures last."""


@dataclass
class Setup:
    """Where one case is at work.

    Attributes:
        folder: of its own.
        capture: ten minutes of packets from START on, of the one link `main1`; shared, so it is not to be changed.
    """

    folder: Path
    capture: Path

    @property
    def lake(self) -> Path:
        """Folder of the lake, which `settle` makes."""
        return self.folder / "lake"

    def write(self, name: str, text: str) -> Path:
        """A text file in the folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def query(self, text: str, name: str = "q") -> Path:
        """A file with one query of this name."""
        return self.write(f"{name}.gsql", f"DEFINE {{ query_name '{name}'; }}\n{text}\n")

    def settle(self, *lines: str, ingest: bool = True) -> Path:
        """A lake with one link, more lines of settings, and the capture in it."""
        self.lake.mkdir(exist_ok=True)
        flows = self.query("SELECT tb, count(*) AS n FROM main1.TCP GROUP BY time/60 AS tb", "flows")
        own = [
            f'[query_sets.flows]\nfiles = ["{flows}"]',
            f'[links.main1]\nskew = "1s"\nsince = "{format_instant(START)}"\nuntil = "{self.at(SPAN)}"',
        ]
        (self.lake / "lowwater.toml").write_text("\n".join([*own, *lines]) + "\n", encoding="utf-8")
        if ingest:
            said = self.run("ingest", "--lake", self.lake, "--link", "main1", "--covers", self.life, self.capture)
            assert said.code == 0, said
        return self.lake

    def settings(self, old: str, new: str) -> None:
        """Changes the settings of the lake."""
        file = self.lake / "lowwater.toml"
        text = file.read_text(encoding="utf-8")
        assert old in text, (old, text)
        file.write_text(text.replace(old, new), encoding="utf-8")

    @property
    def life(self) -> str:
        """What the capture covers, for --covers."""
        return f"{format_instant(START)}/{self.at(SPAN)}"

    @staticmethod
    def at(seconds: int) -> str:
        """An instant after START, as options take it."""
        return format_instant(START + seconds * SECOND)

    @staticmethod
    def run(*arguments: object) -> Said:
        """Runs the command line."""
        return lowwater(*arguments)


@dataclass(frozen=True)
class Case:
    """A message that is provoked, and its hint, followed.

    Attributes:
        name: of the case.
        wrong: does what the message is about; gives what a command said, or raises the error.
        hint: what the hint says, or a part of it.
        follow: does what the hint says; asserts that it helps, or gives what a command said, which must end with 0.
    """

    name: str
    wrong: Callable[[Setup], Said | None]
    hint: str
    follow: Callable[[Setup], Said | None]


def tried(name: str, act: Callable[..., object], hint: str, wrong: object, right: object) -> Case:
    """A case of an act that is wrong with some arguments and right with others: one, several, or some by name."""

    def with_(given: object) -> Callable[[Setup], Said | None]:
        def acted(setup: Setup) -> Said | None:
            if isinstance(given, dict):
                found = act(setup, **given)
            else:
                found = act(setup, *given) if isinstance(given, tuple) else act(setup, given)
            return found if isinstance(found, Said) else None

        return acted

    return Case(name, with_(wrong), hint, with_(right))


def captured(folder: Path) -> Path:
    """The capture of the desks: ten minutes of one link."""
    (made, *_) = generate(folder, START, 1, ["main1"], rate=1.0, seed=5)
    path = folder / "main1.pcap"
    path.write_bytes(b"".join(records(made.path)))
    return path


def records(path: Path) -> list[bytes]:
    """The header of a capture and its records of the first ten minutes."""
    data, found, at = path.read_bytes(), [], 24
    while at < len(data) and int.from_bytes(data[at : at + 4], "little") * SECOND < START + SPAN * SECOND:
        size = 16 + int.from_bytes(data[at + 8 : at + 12], "little")
        found.append(data[at : at + size])
        at += size
    return [data[:24], *found]
