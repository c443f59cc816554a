"""Commands over query files: check, explain, run, cookbook."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import click

from lowwater.cli import options
from lowwater.terminal import open_console, say, styled


@click.command()
@options.QUERY_FILES
@options.form("text", "json", help="Of the errors.")
@click.option("--lake", type=options.LAKE, help="A lake whose links and settings the queries are to fit.")
@options.DEFINITIONS
def check(files: tuple[Path, ...], form: str, **definitions: Any) -> None:
    """Parses and plans query files and reports every error; for editors and CI. Exits with 1 if there is one.

    \b
    With --links or --lake a query may read only what the links keep, as applications = ["dns"] of a link does. With
    --lake, files of one of its query sets are checked as that set: with its other files, schemas and parameters.

    \b
    The JSON is {"errors": [{"file", "line", "column", "message", "hint", "source", "kind"}], "notes": [...]}.
    Examples:
      lowwater check queries/*.gsql --format json
      lowwater check queries/*.gsql --lake var/lake
    """
    from lowwater.cli.queries import check_files

    if not check_files(files, form, **definitions):
        sys.exit(1)


@click.command()
@options.QUERY_FILES
@options.form("text", "json", "mermaid", help="json is described by docs/explain.schema.json.")
@click.option("--kernel", is_flag=True, help="The code that is generated for each link, instead of the plan.")
@click.option("--with-stats", is_flag=True, help="What the last runs over --lake measured and recommend, instead.")
@click.option("--lake", type=options.LAKE, help="The lake's folder, for --with-stats.")
@options.DEFINITIONS
def explain(
    files: tuple[Path, ...],
    form: str,
    kernel: bool,
    with_stats: bool,
    lake: PurePath | None,
    **definitions: Any,
) -> None:
    """Shows the plan of a query set: both levels as GSQL, operators, punctuation, read ranges, and why.

    Without --links every name before a protocol is taken as a link.
    --with-stats shows for each LFTA what the last runs counted, and which table, heartbeat period and order of
    conjuncts they recommend; runs take them where lowwater.toml says tuned = true in [replay].
    """
    from lowwater.cli.queries import explain_files, explain_kernels

    if with_stats or lake is not None:
        say(_statistics(files, form, kernel, with_stats, lake, definitions), nl=False)
        return
    text = explain_kernels(files, **definitions) if kernel else explain_files(files, form, **definitions)
    say(text, nl=False)


def _statistics(
    files: tuple[Path, ...],
    form: str,
    kernel: bool,
    with_stats: bool,
    lake: PurePath | None,
    definitions: dict[str, Any],
) -> str:
    from lowwater.cli.queries import explain_statistics

    if not with_stats or lake is None:
        raise click.UsageError("--with-stats and --lake go together")
    if kernel or form == "mermaid" or definitions.pop("links") is not None:
        raise click.UsageError("--with-stats reads the links of the lake; leave out --kernel, --links and mermaid")
    return explain_statistics(files, form, lake, definitions)


@click.command()
@options.QUERY_FILES
@click.option("--capture", multiple=True, type=options.PAIR, metavar="LINK=FILE", help="A capture of a link; repeats.")
@click.option(
    "--out", required=True, type=options.FOLDER, help="Folder for <query>.csv, skew_violations.csv, summary.json."
)
@options.form("csv", "json", "parquet", help="Of the rows.")
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
def run(
    files: tuple[Path, ...],
    schemas: tuple[Path, ...],
    functions: tuple[Path, ...],
    params: tuple[tuple[str, Any], ...],
    dialect: str,
    **chosen: Any,
) -> None:
    """Runs queries over captures: files in, one file per output query out. No lake, no scheduler.

    \b
    Example:
      lowwater run queries/flows.gsql --capture main1=a.pcap --capture main2=b.pcap --out results
    """
    from lowwater.cli.queries import Definitions
    from lowwater.cli.runs import RunOptions, run_files

    run_files(files, RunOptions(**chosen), Definitions(schemas, functions, params, dialect))


@dataclass(frozen=True)
class Recipe:
    """A query of the cookbook."""

    name: str  # its `query_name`
    title: str
    question: str
    text: str


_RECIPE = re.compile(r"^## (?P<title>.+?)\n\n(?P<question>.+?\?).*?^```gsql[^\n]*\n(?P<text>.+?)^```$", re.M | re.S)


def recipes() -> list[Recipe]:
    """Reads the queries of the cookbook, in its order."""
    from lowwater.extras import shared

    page = (shared("docs") / "cookbook.md").read_text(encoding="utf-8")
    found = []
    for part in re.split(r"^(?=## )", page, flags=re.M):
        if match := _RECIPE.search(part):
            names = re.findall(r"query_name '(\w+)'", match["text"])
            found.append(Recipe(names[-1], match["title"], " ".join(match["question"].split()), match["text"]))
    return found


@click.command()
@click.argument("name", required=False)
def cookbook(name: str | None) -> None:
    """Prints a query to begin with; without a name it lists the questions that they answer.

    \b
    A query reads the links that --capture names; change links, time buckets and limits to yours.
    Example:
      lowwater cookbook talkers > talkers.gsql
      lowwater run talkers.gsql --capture main1=capture.pcap --out results
    """
    from rich.table import Table

    from lowwater.config import nearest

    found = {recipe.name: recipe for recipe in recipes()}
    if name is None:
        table = Table("name", "question", box=None, pad_edge=False)
        for recipe in found.values():
            table.add_row(recipe.name, styled(recipe.question, fold=True))
        open_console().print(table)
        say("lowwater cookbook NAME > NAME.gsql", err=True)
        return
    if name not in found:
        raise click.BadParameter(f"there is no query {name!r}{nearest(name, found)}", param_hint="NAME")
    say(found[name].text, nl=False)
