"""Ends commands that run until somebody stops them, between two steps of their work."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def until_stopped(then: Callable[[], None] = lambda: None) -> Iterator[Callable[[], bool]]:
    """Yields a function that says whether Ctrl-C or SIGTERM came. A second signal ends the process at once.

    Args:
        then: called by the first signal.
    """
    came = False

    def stop(number: int, _: object) -> None:
        nonlocal came
        came = True
        signal.signal(number, signal.SIG_DFL)
        then()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
