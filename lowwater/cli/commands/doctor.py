"""The command `doctor`: checks the requirements of this machine."""

from __future__ import annotations

import sys

import click


@click.command()
def doctor() -> None:
    """Checks this machine and says which command mends what is missing."""
    from lowwater.cli.doctor import doctor as examine
    from lowwater.terminal import Terminal

    code = examine(Terminal())
    if code:
        sys.exit(code)
