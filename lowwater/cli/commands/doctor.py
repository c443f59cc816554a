"""The command `doctor`: checks the requirements of this machine, or of a lake."""

from __future__ import annotations

import sys
from pathlib import PurePath

import click

from lowwater.cli import options


@click.command()
@click.option(
    "--prepare",
    is_flag=True,
    help="First do once what the first use would do: compile kernels; with Spark, fetch Delta's jars, record classes.",
)
@click.option(
    "--lake", type=options.LAKE, help="Try the store or the disk of a lake in the place of this machine; new ones too."
)
def doctor(prepare: bool, lake: PurePath | None) -> None:
    """Checks this machine and says which command mends what is missing, and which extras are installed.

    \b
    With --lake it tries what a lake needs of its object store, or of its folder: it writes, reads, lists and removes
    below LAKE/_doctor, lets writers race for one name, compares clocks and takes times. It says what is missing, and
    what of Lowwater then does not hold.
    Example:
      lowwater doctor --lake s3://lakes/office
    """
    from lowwater.terminal import Terminal

    if lake is not None:
        from lowwater.cli.lake_doctor import examine_lake

        code = examine_lake(lake, Terminal())
    else:
        from lowwater.cli.doctor import doctor as examine
        from lowwater.cli.doctor import prepare as prepare_machine

        if prepare:
            prepare_machine(Terminal(stderr=True))
        code = examine(Terminal())
    if code:
        sys.exit(code)
