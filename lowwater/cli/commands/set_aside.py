"""The command `set-aside`: files that are to be read by nobody, with the reason."""

from __future__ import annotations

import getpass
from pathlib import PurePath

import click

from lowwater.cli import options


@click.command("set-aside")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--lake", required=True, type=options.LAKE, help=options.LAKE_HELP)
@click.option("--reason", metavar="WHY", help="Reason, for the ledger, `status`, `report` and the pages.")
@click.option("--by", metavar="NAME", help="Who decided it; default the user of this process.")
@click.option("--undo", is_flag=True, help="Take it back: the files count again as what lies there.")
def set_aside(files: tuple[str, ...], lake: PurePath, reason: str | None, by: str | None, undo: bool) -> None:
    """Sets files in the folders of the links aside for ever: captures that are to be read by nobody.

    \b
    FILE is the path or the name of a file that `lowwater status` names, or a quoted pattern for many; it may be gone.
    Ingest by patterns leaves such a file alone, and it keeps no interval from being done. The reason stays visible. A
    file that gets another size later counts again: it is another one.
    Example:
      lowwater set-aside --lake var/lake 'captures/main1/*.pcap.bak' --reason "copies of the old disk"
    """
    from lowwater.config import load_config
    from lowwater.lake.ingestion.setting_aside import set_aside as put_aside
    from lowwater.lake.ingestion.setting_aside import undo as take_back
    from lowwater.lake.layout import open_lake
    from lowwater.terminal import say

    if undo == bool(reason and reason.strip()):
        raise click.UsageError("give either --reason WHY or --undo")
    opened, config = open_lake(lake, make=False), load_config(lake)
    if undo:
        rows = take_back(opened, config, files)
    else:
        rows = put_aside(opened, config, files, str(reason).strip(), by or getpass.getuser())
    for row in rows:
        say(f"{row.name}: {'counts again' if undo else 'set aside'}")
    say("`lowwater plan` says which intervals are due now")
