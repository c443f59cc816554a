"""The command line: one group, one function per command, exit codes as documented in the README.

Top of the package. Known errors become one message and exit code 1, bad usage 2; LOWWATER_DEBUG=1 shows tracebacks.
Heavy imports happen inside the commands, so that `--help` is instant.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from lowwater import __version__
from lowwater.cli import expect, intake, options, packets, rows, schedule, skew, upkeep
from lowwater.errors import LowwaterError
from lowwater.replay.warmup import launch_jvm_early
from lowwater.terminal import say, say_refused


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="lowwater")
def cli() -> None:
    """Replays packet captures through GSQL stream queries, exactly.

    \b
    Try it without a lake:
      lowwater generate --out captures --hours 1
      lowwater inspect captures/*/*.pcap
      lowwater run queries/flows.gsql --capture main1=captures/main1/... --out results
    Keep a lake, an interval at a time:
      lowwater init captures --lake var/lake --query queries/flows.gsql
      lowwater ingest --lake var/lake
      lowwater plan --lake var/lake
      lowwater backfill --lake var/lake
      lowwater report --lake var/lake
      lowwater rows flows --lake var/lake
    """


@cli.command()
@click.option("--out", required=True, type=options.FOLDER, help="Folder for the captures; one folder a link inside.")
@click.option("--start", default="2026-01-01T00:00:00Z", type=options.INSTANT, help="Begin, on the hour, ISO 8601.")
@click.option("--hours", default=1, type=click.IntRange(1, 24 * 366), help="Hours of traffic.", show_default=True)
@click.option("--links", default="main1,main2,control", help="Link names, comma separated.", show_default=True)
@click.option("--rate", default=100.0, type=click.FloatRange(0.01, 1e7), help="Packets/s of a main link.")
@click.option("--skew", multiple=True, type=options.PAIR, metavar="LINK=SECONDS", help="Disorder up to this much.")
@click.option("--offset", multiple=True, type=options.PAIR, metavar="LINK=SECONDS", help="Shift of the link's clock.")
@click.option("--seed", default=1, type=int, help="Equal seeds give equal files.", show_default=True)
def generate(
    out: Path,
    start: int,
    hours: int,
    links: str,
    rate: float,
    skew: Sequence[tuple[str, str]],
    offset: Sequence[tuple[str, str]],
    seed: int,
) -> None:
    """Makes captures of several links: flows, handshakes, DNS, HTTP, lulls, disorder, a cut file.

    \b
    Example:
      lowwater generate --out captures --hours 3 --rate 50 --skew main1=2 --seed 7
    """
    from lowwater.cli.captures import generate_captures

    generate_captures(out, start, hours, links, rate, options.seconds(skew), options.seconds(offset, True), seed)


@cli.command()
@options.QUERY_FILES
@click.option(
    "--format",
    "form",
    default="text",
    type=click.Choice(["text", "json", "mermaid"]),
    help="json is described by docs/explain.schema.json.",
    show_default=True,
)
@click.option("--kernel", is_flag=True, help="The code that is generated for each link, instead of the plan.")
@click.option("--with-stats", is_flag=True, help="What the last runs over --lake measured and recommend, instead.")
@click.option("--lake", type=options.FOLDER, help="The lake's folder, for --with-stats.")
@options.DEFINITIONS
def explain(
    files: tuple[Path, ...], form: str, kernel: bool, with_stats: bool, lake: Path | None, **definitions: Any
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
    files: tuple[Path, ...], form: str, kernel: bool, wanted: bool, lake: Path | None, definitions: dict[str, Any]
) -> str:
    from lowwater.cli.tuning import explain_statistics

    if not wanted or lake is None:
        raise click.UsageError("--with-stats and --lake go together")
    if kernel or form == "mermaid" or definitions.pop("links") is not None:
        raise click.UsageError("--with-stats reads the links of the lake; leave out --kernel, --links and mermaid")
    return explain_statistics(files, form, lake, definitions)


@cli.command()
@options.QUERY_FILES
@click.option(
    "--format", "form", default="text", type=click.Choice(["text", "json"]), help="Of the errors.", show_default=True
)
@options.DEFINITIONS
def check(files: tuple[Path, ...], form: str, **definitions: Any) -> None:
    """Parses and plans query files and reports every error; for editors and CI. Exits with 1 if there is one.

    \b
    The JSON is {"errors": [{"file", "line", "column", "message", "hint", "source", "kind"}], "notes": [...]}.
    Example:
      lowwater check queries/*.gsql --format json
    """
    from lowwater.cli.queries import check_files

    if not check_files(files, form, **definitions):
        sys.exit(1)


@cli.command()
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
@click.option("--skew", multiple=True, type=options.PAIR, metavar="LINK=DURATION", help="Disorder allowed; default 1s.")
@click.option(
    "--heartbeat",
    default="1s",
    metavar="DURATION|POLICY",
    help="Period, on-demand, data-driven or none.",
    show_default=True,
)
@click.option(
    "--engine",
    default="spark",
    type=click.Choice(["spark", "reference"]),
    help="What evaluates; the reference engine is slow and needs no JVM.",
    show_default=True,
)
@click.option("--interval", type=options.DURATION, help="Evaluate interval by interval; default one interval.")
@options.SPREADSHEET
@click.option(
    "--copies",
    type=click.IntRange(min=1),
    help="Most windows and groupings that a row may be in. Default: [replay] of --links, or 4096.",
)
@click.option("--traces", is_flag=True, help="Write heartbeats.csv too: what every node promised, when and how late.")
@options.DEFINITIONS
def run(files: tuple[Path, ...], **chosen: Any) -> None:
    """Runs queries over captures: files in, one file per output query out. No lake, no scheduler.

    \b
    Example:
      lowwater run queries/flows.gsql --capture main1=a.pcap --capture main2=b.pcap --out results
    """
    if chosen["engine"] == "spark":
        launch_jvm_early()
    from lowwater.cli.queries import run_files

    run_files(files, **chosen)


@cli.command()
@click.argument("query_set")
@click.option("--lake", required=True, type=options.FOLDER, help="The lake's folder.")
@click.option("--from", "start", required=True, type=options.INSTANT, help="First instant, ISO 8601.")
@click.option("--to", "end", required=True, type=options.INSTANT, help="End, ISO 8601, exclusive.")
@click.option("--stage", type=click.Choice(["low", "high", "audit", "publish"]), help="Only this stage.")
@click.option("--hold", is_flag=True, help="Stop after the audit; --stage publish publishes what it found good.")
@click.option("--queries", default="queries", type=options.FOLDER, help="Folder of query sets.", show_default=True)
def replay(query_set: str, lake: Path, start: int, end: int, stage: str | None, hold: bool, queries: Path) -> None:
    """Replays the intervals of a time range: packets/ -> lfta/ -> streams/ -> tables/.

    An interval that is published and whose inputs have not changed is left alone. The query set is a section
    [query_sets.NAME] of lowwater.toml, or NAME.gsql in the folder --queries.
    """
    if stage and hold:
        raise click.UsageError("--stage runs one stage, --hold all but publishing; give one of them")
    if stage in (None, "high"):
        launch_jvm_early()
    from lowwater.cli.queries import replay_range

    replay_range(query_set, lake, start, end, stage, hold, queries)


@cli.command()
@click.option("--lake", required=True, type=options.FOLDER, help="The lake's folder.")
@click.option("--queries", default="queries", type=options.FOLDER, help="Folder of query sets.", show_default=True)
def status(lake: Path, queries: Path) -> None:
    """Shows every interval of every query set: missing, provisional, done, incomplete, stale, failed, cannot start."""
    from lowwater.cli.queries import show_status

    show_status(lake, queries)


@cli.command()
@click.option("--lake", required=True, type=options.FOLDER, help="The lake's folder.")
@click.option("--interval", type=options.INSTANT, help="Only the interval that begins here, ISO 8601, in detail.")
@click.option("--html", type=options.FOLDER, metavar="DIR", help="Write the review pages of the whole lake here.")
@click.option("--queries", default="queries", type=options.FOLDER, help="Folder of query sets.", show_default=True)
def report(lake: Path, interval: int | None, html: Path | None, queries: Path) -> None:
    """Shows what the audits found: verdicts, what failed, and where the pages of the data-quality report are.

    \b
    passed and warned intervals are published, failed ones are not; --interval shows every expectation of one interval
    and how many of its rows are in quarantine. Intervals that were never audited, cannot start or are not done are
    there too, with why; the summary counts each interval once.
    --html writes the calendar of all intervals, a page for each of them, plans, skew reviews and the Data Docs, as
    files that need no server and no network.
    Example:
      lowwater report --lake var/lake --interval 2026-01-01T01:00Z
    """
    from lowwater.cli.report import show_report, write_pages

    if html is not None and interval is not None:
        raise click.UsageError("--html writes the pages of all intervals; leave out --interval")
    if html is not None:
        write_pages(lake, queries, html)
    else:
        show_report(lake, interval, queries)


@cli.command()
def doctor() -> None:
    """Checks this machine and says which command mends what is missing."""
    from lowwater.cli.doctor import doctor as examine
    from lowwater.terminal import Terminal

    code = examine(Terminal())
    if code:
        sys.exit(code)


cli.add_command(intake.init)
cli.add_command(intake.ingest)
cli.add_command(packets.inspect)
cli.add_command(packets.export)
cli.add_command(rows.rows)
cli.add_command(schedule.plan)
cli.add_command(schedule.backfill)
cli.add_command(upkeep.maintain)
cli.add_command(skew.skew)
cli.add_command(expect.expect)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: runs a command and turns known errors into one message and an exit code."""
    sys.exit(_guarded(lambda: cli.main(args=arguments, prog_name="lowwater", standalone_mode=False)))


def _guarded(command: Callable[[], Any]) -> int:
    try:
        code = command()
        return code if isinstance(code, int) else 0
    except LowwaterError as error:
        if os.environ.get("LOWWATER_DEBUG"):
            raise
        say(f"error: {error}", err=True)
        return 1
    except click.ClickException as error:
        say_refused(error)
        return error.exit_code
    except click.Abort:
        return 130
    except BrokenPipeError:
        # The reader of our output went away: nothing is left to say, and Python must not flush into it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    main()
