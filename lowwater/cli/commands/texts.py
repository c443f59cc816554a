"""Commands over query files: check, explain, run; and ask, over those of the cookbook."""

from __future__ import annotations

import sys
from pathlib import Path, PurePath
from typing import Any

import click

from lowwater.cli import options
from lowwater.terminal import say


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


@click.command()
@click.argument("question", required=False)
@options.CAPTURE_OF_LINK
@options.LAKE_INSTEAD
@click.option("--of", "links", multiple=True, metavar="LINK", help="With --lake: only this link; repeats.")
@click.option("--from", "start", type=options.INSTANT, help="With --lake: first instant, ISO 8601.")
@click.option("--to", "end", type=options.INSTANT, help="With --lake: end, ISO 8601, exclusive.")
@click.option("--every", type=options.DURATION, help="Length of the epochs, such as 10m or 1d; default as in the text.")
@click.option("--limit", default=20, type=click.IntRange(1), metavar="N", help="Rows of a table.", show_default=True)
@options.form("table", "csv", "json", help="csv and json: all rows, and nothing else.")
def ask(question: str | None, captures: tuple[str, ...], lake: PurePath | None, **chosen: Any) -> None:
    """Answers a usual question about captures or a lake: the query, a table and a plot. Without a name it lists them.

    \b
    The table has the rows with the largest first figure. The plot shows that figure over time, or by row where there
    is one epoch. The queries are those of the cookbook; `lowwater ask NAME > NAME.gsql` keeps one, to be changed, and
    run each hour over a lake.
    Examples:
      lowwater ask
      lowwater ask largest --capture capture.pcap --every 10m
      lowwater ask differences --capture left1=a.pcap --capture right1=b.pcap
      lowwater ask names --lake var/lake --of main1 --from 2026-01-01T00:00Z --to 2026-01-02T00:00Z
    """
    from lowwater.cli.asking import Asked, answer, list_questions, recipe

    if question is None:
        list_questions()
    elif not captures and lake is None:
        say(recipe(question).every(chosen["every"]), nl=False)
    else:
        answer(recipe(question), Asked(captures, lake, **chosen))


# A command of 0.7 and before, which `ask` replaced; read for one more minor version.
@click.command(hidden=True)
@click.argument("name", required=False)
def cookbook(name: str | None) -> None:
    """Prints a query to begin with; without a name it lists the questions that they answer. Now `lowwater ask`."""
    from lowwater.cli.asking import list_questions, recipe

    if name is None:
        list_questions()
    else:
        say(recipe(name).text, nl=False)
