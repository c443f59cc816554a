"""The command `lowwater generate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource
from rich.table import Table

from lowwater.cli import options
from lowwater.errors import ConfigError
from lowwater.instants import format_instant
from lowwater.terminal import open_console

if TYPE_CHECKING:
    from .writer import GeneratedCapture

_OF_THE_STORY = {"out", "seed", "story"}


@click.command()
@click.option("--out", required=True, type=options.FOLDER, help="Folder for the captures; one folder a link inside.")
@click.option("--start", default="2026-01-01T00:00:00Z", type=options.INSTANT, help="Begin, on the hour, ISO 8601.")
@click.option("--hours", default=1, type=click.IntRange(1, 24 * 366), help="Hours of traffic.", show_default=True)
@click.option("--links", default="main1,main2,control", help="Link names, comma separated.", show_default=True)
@click.option("--rate", default=100.0, type=click.FloatRange(0.01, 1e7), help="Packets/s of a main link.")
@click.option("--skew", multiple=True, type=options.PAIR, metavar="LINK=SECONDS", help="Disorder up to this much.")
@click.option("--offset", multiple=True, type=options.PAIR, metavar="LINK=SECONDS", help="Shift of the link's clock.")
@click.option("--seed", default=1, type=int, help="Equal seeds give equal files.", show_default=True)
@click.option("--story", is_flag=True, help="The ten minutes of the tutorial, with four incidents; only --out, --seed.")
@click.pass_context
def generate(
    context: click.Context,
    out: Path,
    start: int,
    hours: int,
    links: str,
    rate: float,
    skew: Sequence[tuple[str, str]],
    offset: Sequence[tuple[str, str]],
    seed: int,
    story: bool,
) -> None:
    """Makes captures of several links: flows, handshakes, DNS, HTTP, lulls, disorder, a cut file.

    \b
    Examples:
      lowwater generate --out captures --hours 3 --rate 50 --skew main1=2 --seed 7
      lowwater generate --out captures --story
    """
    if story:
        _tell(context, out, seed)
    else:
        _generate(out, start, hours, links, rate, options.seconds(skew), options.seconds(offset, True), seed)


def _tell(context: click.Context, out: Path, seed: int) -> None:
    """Writes the dataset of the tutorial and lists it; refuses options that would change it."""
    from .writer import write_story

    for name in sorted(set(context.params) - _OF_THE_STORY):
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise ConfigError(f"--{name} does not go with --story", f"leave out --{name}: links and times are fixed")
    with open_console().working("generating ten minutes of three links"):
        written = write_story(out, seed)
    _list(written)


def _generate(
    out: Path,
    start: int,
    hours: int,
    links: str,
    rate: float,
    skew: Mapping[str, float],
    offset: Mapping[str, float],
    seed: int,
) -> None:
    """Writes the captures and lists them.

    Args:
        out: folder of the captures; each link gets a folder in it.
        links: names of links, separated by commas.
        rate: packets/s of a main link.
        skew: maximum disorder by link, s; 0 for other links.
        offset: how far the clock of a link is ahead, s, by link.
        seed: seed of the generator; equal seeds give equal files.
    """
    from .writer import generate as write

    names = [name.strip() for name in links.split(",") if name.strip()]
    if not names:
        raise ConfigError("--links names no link", "write for example --links main1,main2,control")
    console = open_console()
    with console.working(f"generating {hours} h of {len(names)} links"):
        written = write(out, start, hours, names, rate, skew, offset, seed)
    _list(written)


def _list(written: Sequence[GeneratedCapture]) -> None:
    table = Table("capture", "covers", "packets", "violations", "note", box=None)
    for capture in written:
        covers = f"{format_instant(capture.start)}/{format_instant(capture.end)}"
        note = "cut inside its last record" if capture.cut else "" if capture.packets else "empty"
        table.add_row(str(capture.path), covers, f"{capture.packets:,}", str(capture.violations), note)
    open_console().print(table)
