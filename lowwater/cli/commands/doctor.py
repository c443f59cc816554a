"""The command `doctor`: checks the requirements of this machine."""

from __future__ import annotations

import sys

import click


@click.command()
@click.option(
    "--prepare",
    is_flag=True,
    help="First do once what the first use would do: compile kernels; with Spark, fetch Delta's jars, record classes.",
)
def doctor(prepare: bool) -> None:
    """Checks this machine and says which command mends what is missing, and which extras are installed."""
    from lowwater.cli.doctor import doctor as examine
    from lowwater.cli.doctor import prepare as prepare_machine
    from lowwater.terminal import Terminal

    if prepare:
        prepare_machine(Terminal(stderr=True))
    code = examine(Terminal())
    if code:
        sys.exit(code)
