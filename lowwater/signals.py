"""What Ctrl-C and SIGTERM do to a process.

A handler runs between two instructions of the main thread, also where that holds a lock: it may set a name, say a line,
raise or leave, and no more. An exception that it raises can be lost, or come before the wait that it is meant for. It
does not run at all while the main thread waits for a lock without an end, where the signal came just before that. So a
command that ends in order waits in steps and asks a flag, and one signal more leaves the process.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

STEP = 0.1
"""Longest wait between two looks at the flag, s."""


@contextmanager
def until_stopped(
    then: Callable[[], None] = lambda: None, numbers: tuple[int, ...] = (signal.SIGINT, signal.SIGTERM)
) -> Iterator[Callable[[], bool]]:
    """Yields a function that says whether a signal came; the next one does what it did before the block.

    Other threads than the main one get no signals: there it never comes.

    Args:
        then: called by the handler of the first signal.
        numbers: the signals.
    """
    came = False

    def stop(number: int, frame: object) -> None:
        nonlocal came
        came = True
        for each, handler in before.items():
            signal.signal(each, handler)
        with suppress(RuntimeError):  # of a line that it says while the main thread writes one
            then()

    main = threading.current_thread() is threading.main_thread()
    before: dict[int, Any] = {number: signal.getsignal(number) for number in numbers if main}
    for number in before:
        signal.signal(number, stop)
    try:
        yield lambda: came
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is stop:
                signal.signal(number, handler)


def pause(seconds: float, stopped: Callable[[], bool]) -> None:
    """Sleeps, until a signal came: an event is not safe to set in its handler."""
    end = time.monotonic() + seconds
    while not stopped() and (left := end - time.monotonic()) > 0:
        time.sleep(min(left, STEP))


def interrupt_once(leave: Callable[[], NoReturn]) -> None:
    """Lets Ctrl-C raise KeyboardInterrupt, once: another one, and one that Python would drop, leaves the process.

    Args:
        leave: ends the process, whatever it is at.
    """

    def interrupt(number: int, frame: object) -> None:
        signal.signal(number, lambda *_: leave())
        raise KeyboardInterrupt

    usual = sys.unraisablehook

    def dropped(what: sys.UnraisableHookArgs) -> None:
        if issubclass(what.exc_type, KeyboardInterrupt):
            leave()
        usual(what)

    sys.unraisablehook = dropped
    if not in_background():
        signal.signal(signal.SIGINT, interrupt)


def in_background() -> bool:
    """Whether a shell has put the process into the background such that Ctrl-C is for others."""
    return signal.getsignal(signal.SIGINT) is signal.SIG_IGN
