"""The command `run`: runs queries over captures, without a lake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from lowwater.cli import options


@click.command()
@options.QUERY_FILES
@click.option("--capture", multiple=True, type=options.PAIR, metavar="LINK=FILE", help="A capture of a link; repeats.")
@click.option(
    "--out", required=True, type=options.FOLDER, help="Folder for <query>.csv, skew_violations.csv, summary.json."
)
@click.option(
    "--format",
    "form",
    default="csv",
    type=click.Choice(["csv", "json", "parquet"]),
    help="Of the rows.",
    show_default=True,
)
@click.option("--query", metavar="NAME", help="Only this output query.")
@click.option(
    "--kind",
    multiple=True,
    type=options.PAIR,
    metavar="LINK=KIND",
    help="What its files are, such as zeek; default pcap.",
)
@click.option("--skew", multiple=True, type=options.PAIR, metavar="LINK=DURATION", help="Disorder allowed; default 1s.")
@click.option(
    "--heartbeat",
    default="1s",
    metavar="DURATION|POLICY",
    help="Period, on-demand, data-driven or none.",
    show_default=True,
)
# An option of 0.7 and before, read for one more minor version. The reference engine is the oracle of the tests.
@click.option("--engine", default="process", type=click.Choice(["process", "spark", "reference"]), hidden=True)
@click.option("--interval", type=options.DURATION, help="Evaluate interval by interval; default one interval.")
@click.option("--spark", metavar="URL", help="A Spark that evaluates: its master URL. Default: this process.")
@options.SPREADSHEET
@options.INSTANTS
@click.option(
    "--copies",
    type=click.IntRange(min=1),
    help="Most windows and groupings that a row may be in. Default: [replay] of --links, or 4096.",
)
@click.option("--traces", is_flag=True, help="Write heartbeats.csv too: what every node promised, when and how late.")
@options.DEFINITIONS
def run(files: tuple[Path, ...], **arguments: Any) -> None:
    """Runs queries over captures: files in, one file per output query out. No lake, no scheduler.

    \b
    Example:
      lowwater run queries/flows.gsql --capture main1=a.pcap --capture main2=b.pcap --out results
    """
    from lowwater.cli.queries import run_files

    run_files(files, **arguments)
