"""Runs one command of Lowwater with a sampler beside it: processor seconds by part, as JSON.

`python -m benchmarks.sampled FILE WORD ...` runs `lowwater WORD ...`. A thread looks at all threads every few
milliseconds. What a thread has computed since the last look counts for the part that its Python stack names.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

PERIOD = 0.02
"""Seconds between two looks at the threads of this process."""

CHILDREN_EVERY = 5
"""Looks at this process for one at the processes that it starts."""

SAMPLER = "the sampler"

IMPORTS = "imports"
EXPECTATIONS = "Great Expectations"
OTHER = "start, plan, ledgers, end"
FOLDERS = (
    ("benchmarks/sampled.py", SAMPLER),
    ("lowwater/gsql/", "start: query set is parsed and planned"),
    ("lowwater/plan/", "start: query set is parsed and planned"),
    ("lowwater/quality/links.py", "audit, packets are counted"),
    ("replay/stages/audit.py", "audit, streams and measures"),
    ("lowwater/quality/", "audit, streams and measures"),
    ("lowwater/capture/", "captures: decoded"),
    ("lowwater/lake/ingestion/", "captures: written as packets"),
    ("lowwater/low/", "low: packets to LFTA rows"),
    ("lowwater/high/", "high: LFTA rows to rows of queries"),
    ("replay/stages/engines.py", "low: packets to LFTA rows"),
    ("lowwater/lake/results/", "publish, streams"),
)
"""End or part of a path -> name of the part; the first that fits a frame decides, outer frames before inner ones."""


def part_of(frame: FrameType | None) -> str:
    """The part that a stack names."""
    files, importing = [], ""
    while frame is not None:
        code = frame.f_code
        if code.co_name == "_find_and_load" and "importlib._bootstrap" in code.co_filename:
            importing = str(frame.f_locals.get("name", ""))  # in the end that of the outermost import
        files.append(code.co_filename)
        frame = frame.f_back
    if importing:
        return EXPECTATIONS if importing.startswith(("lowwater_expectations", "great_expectations")) else IMPORTS
    return next((name for file in reversed(files) for text, name in FOLDERS if text in file), OTHER)


class Sampler:
    """Adds up the processor time of all threads of this process, and of the one that has Great Expectations."""

    def __init__(self) -> None:
        self.parts: Counter[str] = Counter()
        self._seen: dict[tuple[int, int], int] = {}
        self._begin = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="sampler", daemon=True)

    def begin(self) -> None:
        """Begins to look."""
        self._thread.start()

    def end(self) -> dict[str, Any]:
        """Seconds, all processor seconds of this process as the system counts them, processor seconds by part."""
        self._ended.set()
        self._thread.join()
        spent = os.times()
        found = {name: round(count / 1e9, 2) for name, count in self.parts.most_common()}
        wall = time.monotonic() - self._begin
        return {"seconds": round(wall, 2), "python": round(spent.user + spent.system, 2), "parts": found}

    def _loop(self) -> None:
        looks = 0
        while not self._ended.wait(PERIOD):
            looks += 1
            self._look(looks % CHILDREN_EVERY == 0)

    def _look(self, at_children: bool) -> None:
        frames = sys._current_frames()
        stacks = {each.native_id: part_of(frames.get(each.ident or 0)) for each in threading.enumerate()}
        stacks[threading.get_native_id()] = SAMPLER
        # Threads of Arrow and Delta have no Python stack: they work for a part that waits for them.
        others = (IMPORTS, EXPECTATIONS, OTHER, SAMPLER)
        waiting = next((part for part in stacks.values() if part not in others), OTHER)
        pid = os.getpid()
        for thread, spent in tasks(pid):
            self._add((pid, thread), spent, stacks.get(thread, waiting))
        for child in children(pid) if at_children else ():
            for thread, spent in tasks(child):
                self._add((child, thread), spent, EXPECTATIONS)

    def _add(self, key: tuple[int, int], spent: int, part: str) -> None:
        self.parts[part] += spent - self._seen.get(key, 0)
        self._seen[key] = spent


def tasks(pid: int) -> Iterator[tuple[int, int]]:
    """Number and nanoseconds on a processor of each thread of a process."""
    for task in (Path("/proc") / str(pid) / "task").glob("*"):
        try:
            yield int(task.name), int((task / "schedstat").read_text(encoding="ascii").split()[0])
        except (OSError, IndexError):  # it has just ended
            continue


def children(pid: int) -> Iterator[int]:
    """The processes that a process has started, and theirs."""
    for task in (Path("/proc") / str(pid) / "task").glob("*"):
        try:
            found = (task / "children").read_text(encoding="ascii").split()
        except OSError:
            continue
        for child in map(int, found):
            yield child
            yield from children(child)


def main() -> None:
    """Runs the command and writes what it took at its end."""
    target = Path(sys.argv[1])
    sampler = Sampler()
    # Registered first, it runs last: after the session has ended.
    atexit.register(lambda: target.write_text(json.dumps(sampler.end()) + "\n", encoding="utf-8"))
    sampler.begin()
    from lowwater.cli.main import main as command

    command(sys.argv[2:])


if __name__ == "__main__":
    main()
