"""Answers that stand as long as nothing has changed of what they were made of (docs/adr/0206).

What commands say of a lake of years is nearly all about hours that nothing touches any more. An answer notes what it
was made of: what was looked at of the files of the lake, in the state in which it was, and a digest of all else. Who
asks again compares these, which takes a look at each file and reads none. An answer is kept on this machine, in the
cache of this user. It decides nothing: one that is lost, of another version, or cannot be read, is computed again.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import lowwater
from lowwater.caches import cache_folder
from lowwater.errors import ConfigError
from lowwater.lake import layout
from lowwater.lake.layout import Lake
from lowwater.storage import paths

MOST = 50
"""Most lakes of which a user has answers; those go of which some were kept longest ago."""

FRESH = 50_000_000
"""A file that was written so short a time (ns) before may change within the resolution of its clock."""


class Question:
    """A question about a lake, and its answer, as JSON has it; None as long as none stands.

    Args:
        name: of the question; each has one answer.
        about: what it depends on beside the files of the lake.
    """

    def __init__(self, lake: Lake, name: str, about: str) -> None:
        self._root = lake.root
        self._stamp = sha256(f"{_code()}\0{about}".encode()).hexdigest()
        self._looks: paths.Looks = {}
        self._place = _place(lake, name)
        self.answer: Any = self._standing()

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Notes what the block looks at; there may be several until the answer is known."""
        if self._place is None:
            yield
            return
        with paths.looking(self._looks):
            yield

    def keep(self, answer: Any) -> None:
        """Keeps an answer. It may be changed afterwards by nobody."""
        self.answer = answer
        recent = time.time_ns() - FRESH
        if self._place is None or any(type(each) is tuple and each[1] > recent for each in self._looks.values()):
            return
        root = f"{self._root}/"
        looks = {path.removeprefix(root): state for path, state in self._looks.items()}
        body = json.dumps({"stamp": self._stamp, "looks": looks, "answer": answer}, separators=(",", ":"))
        text = f"{sha256(body.encode()).hexdigest()}\n{body}"
        with suppress(OSError):
            self._place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft = self._place.with_suffix(f".{uuid.uuid4().hex[:8]}")
            draft.write_text(text, encoding="utf-8")
            draft.replace(self._place)
            _leave(self._place.parent.parent)

    def _standing(self) -> Any:
        if self._place is None:
            return None
        try:
            digest, _, body = self._place.read_text(encoding="utf-8").partition("\n")
            if sha256(body.encode()).hexdigest() != digest:
                return None
            kept = json.loads(body)
            if kept["stamp"] != self._stamp:
                return None
            root = f"{self._root}/"
            looks = {path if path.startswith("/") else root + path: state for path, state in kept["looks"].items()}
            if not all(_alike(paths.look_again(path), state) for path, state in looks.items()):
                return None
            paths.note_looks(looks)  # whoever asks this for an answer of their own depends on them
            return kept["answer"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None


def _alike(now: object, then: object) -> bool:
    return (list(now) if isinstance(now, tuple) else now) == (list(then) if isinstance(then, tuple) else then)


def _place(lake: Lake, name: str) -> Path | None:
    """The file of an answer; None where none is kept: of a store, whose looks are requests, and without a cache."""
    folder = _folder(lake)
    return None if folder is None else folder / f"{sha256(name.encode()).hexdigest()[:32]}.json"


def _folder(lake: Lake) -> Path | None:
    if not isinstance(lake.root, Path):
        return None
    try:
        return cache_folder() / "answers" / sha256(str(lake.root.absolute()).encode()).hexdigest()[:32]
    except ConfigError:
        return None


def forget(lake: Lake) -> None:
    """Removes the answers of a lake: they may tell of what a person erases."""
    if (folder := _folder(lake)) is not None:
        shutil.rmtree(folder, ignore_errors=True)


def _leave(folder: Path) -> None:
    """Removes the answers of the lakes of which none was kept lately, where there are many."""
    kept = [(entry.stat().st_mtime_ns, entry.path) for entry in os.scandir(folder)]
    for _, path in sorted(kept)[:-MOST]:
        shutil.rmtree(path, ignore_errors=True)


@cache
def _code() -> str:
    """What differs between two states of this program: one that is being changed has one number of its version."""
    found = [lowwater.__version__]
    for folder, _, files in sorted(os.walk(os.path.dirname(lowwater.__file__))):
        for name in sorted(files):
            if name.endswith(".py"):
                status = os.stat(os.path.join(folder, name))
                found.append(f"{name} {status.st_size} {status.st_mtime_ns}")
    return sha256("\n".join(found).encode()).hexdigest()


def make_ledgers(lake: Lake) -> None:
    """Makes what a lake lacks, as `layout.make_ledgers`, and opens no ledger where all were there before."""
    question = Question(lake, "ledgers", "")
    if question.answer is None:
        with question.asking():
            layout.make_ledgers(lake)
        question.keep(True)
    else:
        layout.make_ledgers(lake, whole=True)


def answered(lake: Lake, name: str, about: str, compute: Callable[[], Any]) -> Any:
    """Returns the answer of a question that stands, or computes and keeps it."""
    question = Question(lake, name, about)
    if question.answer is None:
        with question.asking():
            answer = compute()
        question.keep(answer)
    return question.answer
