"""The first module of the program: Ctrl-C while the others are imported waits until there is somebody to obey it."""

from __future__ import annotations

import signal


def main() -> None:
    """Runs the command line."""
    came: list[int] = []
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    from lowwater.cli.main import main as run

    run(stopped=lambda: bool(came))
