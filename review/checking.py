"""Checks and explains query texts in a process of its own, so that no text holds the server up.

Below `write_page`. The process begins with the first text, answers one text after another, and is ended when one takes
too long or too much memory, or nobody has asked for a while. It reads the settings and ledgers of the lake, no packets.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from lowwater.errors import LowwaterError
from lowwater.processes import EndedError, Process, serve
from lowwater.replay.preview import Limits

BOUNDS = Limits(seconds=10, megabytes=1024)
"""What a text may take."""
IDLE = 300.0
"""Seconds after which the process ends if nobody has asked."""
WAITING = 4
"""Most texts that wait; a further one is refused at once."""
OF_ONE = 2
"""Most texts of one person that are checked or wait."""
LONGEST_PLAN = 40_000
"""Most characters of an explained plan."""


class Checker:
    """Answers what is known of a text: its mistakes, columns and plan, as JSON.

    Args:
        bounds: what a text may take.
    """

    def __init__(self, bounds: Limits = BOUNDS, command: Sequence[str] | None = None) -> None:
        self._bounds, self._command = bounds, command or __name__
        self._counting, self._turn = threading.Lock(), threading.Lock()
        self._of: Counter[Hashable] = Counter()
        self._processes: dict[bool, Process] = {}
        self._timer: threading.Timer | None = None

    def check(
        self, lake: PurePath, text: str, query_set: str, links: Sequence[str], who: Hashable = ""
    ) -> dict[str, Any]:
        """Checks a text.

        Args:
            lake: the lake, whose settings say what a query may name.
            query_set: the query set whose protocols, functions and parameters it uses; empty for none.
            links: the links that it may read.

        Returns:
            `error`: why nothing was checked; `problems`, each with `line` and `column` from 1, the offsets `start` and
            `end` in UTF-16 units, `message`, `hint` and `kind`; `explained`; `queries` with their columns.
        """
        with self._counting:
            if self._of.total() > WAITING or self._of[who] >= OF_ONE:
                return _nothing("Other texts are being checked. Try again in some seconds.")
            self._of[who] += 1
        try:
            with self._turn:
                asked = {"lake": str(lake), "text": text, "set": query_set, "links": list(links)}
                return self._ask(asked, "://" in str(lake))
        finally:
            with self._counting:
                self._of[who] -= 1
                self._of += Counter()  # without those who have nothing here

    def _ask(self, asked: Mapping[str, Any], in_store: bool) -> dict[str, Any]:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(IDLE, self._retire)
        self._timer.daemon = True
        self._timer.start()
        process = self._processes.setdefault(in_store, Process(self._command, self._bounds.megabytes, in_store))
        try:
            (found,) = process.ask(asked, self._bounds.seconds)
        except EndedError:
            return _nothing("The text takes too long to check, or too much memory: make it smaller.")
        return found

    def _retire(self) -> None:
        with self._turn:
            self.end()

    def end(self) -> None:
        for process in self._processes.values():
            process.end()


def _nothing(error: str) -> dict[str, Any]:
    return {"error": error, "problems": [], "explained": "", "queries": []}


def known_of(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Checks and explains a text in this process; the answer of `Checker.check`."""
    from lowwater_editor.checking import check_scripts, make_script
    from lowwater_editor.names import learn

    from lowwater.config import load_config
    from lowwater.lake.layout import lake_to_read
    from lowwater.plan.explain import explain
    from lowwater.replay.preview import FILE, preview_context

    try:
        lake = lake_to_read(asked["lake"])
        config = load_config(lake.root)
        context = preview_context(lake, config, asked["set"], asked["links"])
        scripts = [make_script(FILE, asked["text"])]
        checked = check_scripts(scripts, context, config, libraries=False)
        streams = learn(scripts, context, libraries=False).streams
    except LowwaterError as refused:
        return _nothing(str(refused))
    explained = "No plan while there is a mistake."
    if checked.plan is not None:
        explained = explain(checked.plan).replace(FILE, "this text")
        if len(explained) > LONGEST_PLAN:
            explained = f"{explained[:LONGEST_PLAN]}\n... `lowwater explain` has the rest"
    return {
        "error": "",
        "problems": [_shown(asked["text"], each) for each in checked.problems],
        "explained": explained,
        "queries": [
            {
                "name": name,
                "columns": [(facts.name, facts.type, facts.progress.replace("`", "")) for facts in columns],
            }
            for name, columns in streams.items()
        ],
    }


def _shown(text: str, problem: Any) -> dict[str, Any]:
    """A problem with its place: line and column from 1, and offsets as a browser counts them."""
    before = text[: problem.start]
    return {
        "line": before.count("\n") + 1,
        "column": problem.start - (before.rfind("\n") + 1) + 1,
        "start": _units(before),
        "end": _units(text[: problem.end]),
        "message": problem.message,
        "hint": problem.hint,
        "kind": problem.kind,
    }


def _units(text: str) -> int:
    return len(text) + sum(ord(char) > 0xFFFF for char in text)


def _answers(asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    try:
        yield known_of(asked)
    except (MemoryError, RecursionError):
        yield _nothing("The text takes too much memory to check: make it smaller.")


if __name__ == "__main__":
    os.chdir("/")
    serve(_answers, BOUNDS.megabytes)
