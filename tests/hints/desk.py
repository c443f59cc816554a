"""A desk of a user's: a small capture, a lake, queries, the command line; and a record of where errors are made."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from lowwater import errors
from lowwater.capture.generate import generate
from lowwater.instants import SECOND, format_instant
from tests.replay.support import ROOT, START, Said, lowwater

Site = tuple[str, str]
"""File below the project, and the qualified name of the function that makes an error with a hint."""

SPAN = 600
"""Seconds that the packets of the desk's captures last."""
FOLDERS = ("lowwater", "editor", "plugins", "review", "dags")
MAKERS = {
    "fault": 1,
    "_fault": 1,
    "refusal": 1,
    "error": 2,
    "unsupported": 2,
    "lake_error": 2,
    "error_at": 3,
    "_wrong": 3,
    "_error": 3,
}
"""Functions that make errors for others, which are the sites; at which place of their arguments the hint is."""


@dataclass
class Desk:
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
    wrong: Callable[[Desk], Said | None]
    hint: str
    follow: Callable[[Desk], Said | None]


@dataclass
class Seen:
    """The sites at which errors with a hint were made, and the hints."""

    sites: set[Site] = field(default_factory=set)
    hints: list[str] = field(default_factory=list)


@contextmanager
def recorded() -> Iterator[Seen]:
    """Records where errors with a hint are made."""
    seen = Seen()
    plain = errors.LowwaterError.__init__

    def init(self: Any, message: str, hint: str = "") -> None:
        plain(self, message, hint)
        if hint:
            frame = sys._getframe(1)
            while _makes(frame) and frame.f_back is not None:
                frame = frame.f_back
            path = Path(frame.f_code.co_filename)
            if path.is_relative_to(ROOT):
                function = frame.f_code.co_qualname.split(".<locals>.<")[0]  # not the comprehension in it
                seen.sites.add((path.relative_to(ROOT).as_posix(), function))
                seen.hints.append(hint)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(errors.LowwaterError, "__init__", init)
        yield seen


def _makes(frame: FrameType) -> bool:
    """Whether a frame only makes an error for its caller: the initialiser of an error, or one of MAKERS."""
    name = frame.f_code.co_name
    return name in MAKERS or (name == "__init__" and isinstance(frame.f_locals.get("self"), errors.LowwaterError))


def sites() -> dict[Site, list[str]]:
    """Every function of the source that makes an error with a hint, with the hints as they are written."""
    found: dict[Site, list[str]] = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            _of(path, ast.parse(path.read_text(encoding="utf-8")), "", found)
    return found


def _of(path: Path, node: ast.AST, within: str, found: dict[Site, list[str]]) -> None:
    for child in ast.iter_child_nodes(node):
        name = within
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{within}{child.name}.<locals>."
        elif isinstance(child, ast.ClassDef):
            name = f"{within}{child.name}."
        if isinstance(child, ast.Call):
            hint, site = _hint(child), (path.relative_to(ROOT).as_posix(), within.removesuffix(".<locals>."))
            if hint and site[1].rpartition(".")[2] not in MAKERS:
                found.setdefault(site, []).append(hint)
        _of(path, child, name, found)


def _hint(call: ast.Call) -> str:
    """The hint of a call that makes an error, as it is written; empty for none."""
    called = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    if called in vars(builtins):  # an OSError of ours has its text there
        return ""
    place = 1 if called.endswith("Error") else MAKERS.get(called, len(call.args))
    found = ast.unparse(call.args[place]) if len(call.args) > place else ""
    return "" if found == "''" else found


def captured(folder: Path) -> Path:
    """The capture of the desks: ten minutes of one link."""
    (made, *_) = generate(folder, START, 1, ["main1"], rate=1.0, seed=5)
    data, at = made.path.read_bytes(), 24
    while at < len(data) and int.from_bytes(data[at : at + 4], "little") * SECOND < START + SPAN * SECOND:
        at += 16 + int.from_bytes(data[at + 8 : at + 12], "little")
    path = folder / "main1.pcap"
    path.write_bytes(data[:at])
    return path
