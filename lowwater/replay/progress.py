"""Progress of long work: a status line on a terminal, plain lines elsewhere (a scheduler's log).

Used by every command that takes longer than a moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lowwater.terminal import Terminal

PERIOD = 10.0
"""Seconds between two lines about one stage."""


class Progress:
    """Reports stages with their duration, and adds up the seconds of each stage."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = Terminal(stderr=True, quiet=quiet)
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str, detail: str = "") -> Iterator[Callable[[str], None]]:
        """Times a stage of an object, such as an interval; yields a function that tells how far it is, outside of a
        terminal with one line every `PERIOD` at most."""
        text = f"{name} {detail}".strip()
        begin = told = time.monotonic()

        def tell(done: str) -> None:
            nonlocal told
            if (now := time.monotonic()) >= told + PERIOD:
                told = now
                self.console.print(f"  {text}: {done}")

        if self.console.is_terminal:
            with self.console.working(text, "bold") as show:
                yield lambda done: show(f"{text}: {done}")
        else:
            yield tell
        spent = time.monotonic() - begin
        self.seconds[name] = self.seconds.get(name, 0.0) + spent
        self.console.print(f"  {text}: {spent:.1f} s")

    def say(self, text: str) -> None:
        self.console.print(text)
