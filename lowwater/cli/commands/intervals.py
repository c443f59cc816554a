"""Commands that run intervals, or say what they are worth: plan, backfill, watch, replay, status, accept, try."""

from __future__ import annotations

import sys
import time
from itertools import chain
from pathlib import Path, PurePath
from typing import Any

import click

from lowwater import extras, instants, terminal
from lowwater.cli import options
from lowwater.lake import words
from lowwater.lake.query_sets import CAUSES
from lowwater.lake.sheets import COUNT, INSTANT, RANGE, REASON, SET, STATE, TEXT, Sheet, say_sheet


@click.command()
@options.INTERVALS
@options.CHANGES
@options.BY_DAY
@options.form("text", "json", help="Of the plan.")
def plan(
    form: str,
    files: tuple[Path, ...],
    skews: tuple[tuple[str, str], ...],
    by_day: bool,
    zone: str,
    **selection: Any,
) -> None:
    """Shows what a backfill would run, and why: nothing runs.

    \b
    An interval is due if it was never published (missing), if its last run failed (failed), or if its inputs have
    changed (stale): the reason names the query, the capture or the setting. For each interval the table shows how many
    packets it reads ("about" if it reads a part of a file), and how long it takes, estimated from earlier runs. Every
    interval that holds packets is listed. One in which captures begin or end cannot start, unless `until`, `since` or
    the policy of the link permits it, or --through-end. With --with and --skew the plan is that of other queries and
    settings; `lowwater try` runs such a plan beside the lake. --by-day counts the intervals of each day, which begins
    at midnight of --zone.
    Example:
      lowwater plan --lake var/lake --from 2026-01-01 --to 2026-01-02
      lowwater plan --lake var/lake --with new/flows.gsql --skew main1=5s
    """
    from lowwater.cli.plans import IntervalSelection, show_plan
    from lowwater.replay.job import TrialChanges

    if by_day and form == "json":
        raise click.UsageError("--by-day goes with --format text: JSON has every interval")
    changes = TrialChanges(tuple(file.resolve() for file in files), options.durations(skews))
    show_plan(IntervalSelection(**selection, changes=changes or None), form, zone if by_day else None)


@click.command()
@options.INTERVALS
@options.JOBS
@click.option(
    "--order",
    default="oldest",
    type=click.Choice(["oldest", "newest", "random"]),
    help="Which intervals begin first; the tables do not depend on it.",
    show_default=True,
)
@options.SPARK
def backfill(jobs: int, order: str, spark: str | None, **selection: Any) -> None:
    """Runs every interval that is due, in one process: what `plan` shows.

    \b
    An interval that fails does not stop the others; the summary names it and the exit code is 1. Stop it when you like:
    started again it goes on with what is left, and the tables are the same. What runs elsewhere is `running`: it is
    waited for at the end, and is no failure.
    Example:
      lowwater backfill --lake var/lake --from 2026-01-01 --to 2026-02-01 --jobs 2
    """
    extras.require("lowwater backfill", "quality")
    from lowwater.quality import judge

    judge.begin()  # it loads for seconds, beside the imports of this process
    from lowwater.cli.backfills import run_backfill
    from lowwater.cli.plans import IntervalSelection

    if not run_backfill(IntervalSelection(**selection), jobs, order, spark):
        sys.exit(1)


@click.command()
@options.OF_LAKE
@click.option("--once", is_flag=True, help="Look once and end, for cron and for timers of systemd.")
@click.option(
    "--query-set", "names", multiple=True, metavar="NAME", help="Only this one; repeats; default all of them."
)
@options.JOBS
@options.QUERIES
@options.SPARK
def watch(lake: PurePath, once: bool, names: tuple[str, ...], jobs: int, queries: Path, spark: str | None) -> None:
    """Keeps a lake right: looks every now and then, ingests what is new, and runs what is due.

    \b
    A look ingests every file that is new or has changed in the folders of the links. Then it runs each interval of the
    last days that is missing, failed, stale, damaged or provisional and can run now, oldest first, and says of the
    others why they cannot start. Stop it when you like: what was missed is caught up.
    [schedule] of the settings says how often, how far back, and how long what failed pauses; changed settings and
    queries take effect at the next look. Without --once until SIGINT or SIGTERM; what is at work is finished first.
    Exit code of --once: 1 if something failed, was refused, or is found for the first time that cannot start.
    Examples:
      lowwater watch --lake var/lake
      */10 * * * *  lowwater watch --lake /srv/lake --once
    """
    extras.require("lowwater watch", "quality")
    from lowwater.cli.backfills import watch_lake

    if not watch_lake(lake, names, queries, jobs, once, spark):
        sys.exit(1)


@click.command()
@click.argument("query_set")
@options.OF_LAKE
@click.option("--from", "start", required=True, type=options.INSTANT, help="First instant, ISO 8601.")
@click.option("--to", "end", required=True, type=options.INSTANT, help="End, ISO 8601, exclusive.")
@click.option("--stage", type=click.Choice(["low", "high", "audit", "publish"]), help="Only this stage.")
@click.option("--hold", is_flag=True, help="Stop after the audit; --stage publish publishes what it found good.")
@options.QUERIES
@options.SPARK
def replay(
    query_set: str,
    lake: PurePath,
    start: int,
    end: int,
    stage: str | None,
    hold: bool,
    queries: Path,
    spark: str | None,
) -> None:
    """Replays the intervals of a time range: packets/ -> lfta/ -> streams/ -> tables/.

    An interval that is published and whose inputs have not changed is left alone. The query set is a section
    [query_sets.NAME] of lowwater.toml, or NAME.gsql in the folder --queries.
    """
    if stage and hold:
        raise click.UsageError("--stage runs one stage, --hold all but publishing; give one of them")
    extras.require("lowwater replay", "quality")
    if stage in (None, "audit"):
        from lowwater.quality import judge

        judge.begin()
    from lowwater.replay.acceptance import approve_held
    from lowwater.replay.interval import STAGES, replay as replay_intervals
    from lowwater.replay.job import Job
    from lowwater.replay.progress import Progress
    from lowwater.replay.stages.runners import runner_of

    progress = Progress()
    job = Job.open(lake, query_set, queries)
    runner = runner_of("lowwater replay", job.config, progress, spark)
    if stage == "publish":
        approve_held(job, start, end, options.person(None))
    outcomes = replay_intervals(job, start, end, stage, progress, runner, hold)
    lines = []
    for outcome in outcomes:
        unchanged = not outcome.committed and outcome.state not in STAGES
        note = outcome.reason or ("already published from the same inputs" if unchanged else "")
        lines += [(outcome.start, outcome.state, name, rows, note) for name, rows in outcome.rows.items()]
    say_sheet(Sheet({"interval": INSTANT, "state": STATE, "query": TEXT, "rows": COUNT, "note": REASON}, lines))


NEWEST_DAYS = 14
"""Days that `status --space` shows one by one; older ones are one line."""


def _show_space(lake: PurePath) -> None:
    from lowwater.lake.layout import lake_to_read
    from lowwater.lake.space import space_of
    from lowwater.terminal import size_text

    now = time.time_ns()
    found = space_of(lake_to_read(lake), now)
    days = sorted(found.days.items(), reverse=True)
    named = [(instants.format_instant(day)[:10], size) for day, size in days[:NEWEST_DAYS]]
    if older := days[NEWEST_DAYS:]:
        named.append((f"{len(older):,} days before", sum(size for _, size in older)))
    span = instants.format_duration(found.span // (60 * instants.SECOND) * (60 * instants.SECOND))
    lines = [
        (kind, name, size_text(size), f"{size / max(found.bytes, 1):.0%}")
        for kind, sizes in (("stage", found.stages.most_common()), ("link", found.links.most_common()), ("day", named))
        for name, size in sizes
    ]
    say_sheet(Sheet(dict.fromkeys(("of", "what", "size", "share"), TEXT), lines))
    rate = f"{size_text(found.rate)} more a day, by the last {span}"
    terminal.say(f"{found.files:,} files, {size_text(found.bytes)}; {rate}")
    if found.free is not None:
        terminal.say(f"disk: {size_text(found.free)} of {size_text(found.size)} free; {_full(found.full_in(), now)}")


LONGEST = 10 * 365
"""Days from which on nobody wants to know when a disk is full."""


def _full(left: int | None, now: int) -> str:
    if left is None:
        return "the lake does not grow"
    if left >= LONGEST * instants.DAY:
        return "at this rate there is room for ten years"
    when = instants.format_instant((now + left) // instants.DAY * instants.DAY)[:10]
    return f"at this rate it is full in {left // instants.DAY:,} days, on {when}"


@click.command()
@options.OF_LAKE
@options.QUERIES
@options.MEETING
@options.BY_DAY
@click.option("--space", is_flag=True, help="Instead: what takes how much room, and when the disk is full.")
@options.form("text", "json", "csv", help="Of the table; lines below it go to standard error with json and csv.")
def status(
    lake: PurePath, queries: Path, start: int | None, end: int | None, by_day: bool, zone: str, space: bool, form: str
) -> None:
    """Shows every interval of every query set: missing, provisional, done, incomplete, stale, damaged, failed, cannot
    start.

    Intervals one after another in which nothing is recorded are one line, with their number.

    --by-day says of each day whether its report may go out, and what is missing if not; a day begins at midnight of
    --zone.

    --space adds up the files of the lake by stage, link and day instead. The rate is that of the last 7 days: what was
    written then and is still there. It needs no room, and works on a disk that is full or read only.
    """
    options.require_range(start, end)
    if space and (by_day or start is not None or end is not None or form != "text"):
        raise click.UsageError("--space is of the whole lake, as text; leave out --by-day, --from, --to and --format")
    if space:
        _show_space(lake)
        return
    from lowwater.cli.by_day import answers
    from lowwater.cli.lake_lines import lake_lines
    from lowwater.cli.why import asks_why
    from lowwater.config import load_config
    from lowwater.lake.layout import lake_to_read
    from lowwater.replay.schedule.day_states import stretches
    from lowwater.replay.schedule.due import statuses
    from lowwater.replay.schedule.links import retired_sets

    unplanned: list[str] = []
    rows = statuses(lake, queries, lambda name, error: unplanned.append(f"query set {name}: {error}"))
    chosen = [row for row in rows if instants.meets(row.start, row.end, start, end)]
    asks = any(row.shown != words.DONE for row in chosen)
    if by_day:
        sheet = answers(stretches(rows), zone, start, end)
    else:
        columns = {"interval": RANGE, "query set": SET, "query": TEXT, "state": STATE, "reason": REASON}
        sheet = Sheet(
            columns,
            [((row.start, row.end, row.intervals), row.query_set, row.query, row.shown, row.why) for row in chosen],
        )
    none = f"no interval: {lake} has no captures, or no query set in {queries} (--queries) reads them"
    if rows:
        none = "no interval meets the range"
    if sheet.rows or form != "text":
        say_sheet(sheet, form)
    elif not unplanned:
        terminal.say(none)
    aside = form != "text"  # programs read the table alone
    if asks and not aside:
        terminal.say(asks_why(lake))
    retired = (f"query set {name}: {why}" for name, why in retired_sets(lake, queries).items())
    for line in chain(lake_lines(lake_to_read(lake), load_config(lake)), retired):
        terminal.say(line, err=aside)
    for problem in unplanned:
        terminal.say(problem, err=True)


@click.command()
@click.argument("query_set")
@options.OF_LAKE
@click.option("--interval", "start", required=True, type=options.INSTANT, help="Begin of the interval, ISO 8601.")
@click.option("--to", "end", type=options.INSTANT, help="All intervals up to here, ISO 8601, exclusive.")
@click.option("--link", metavar="NAME", help="Only what is missing of this link; default of all that the set reads.")
@click.option("--cause", required=True, type=click.Choice(CAUSES), help="Why it is missing.")
@click.option("--why", metavar="TEXT", help="Reason, for the ledger, `status`, `report` and the pages.")
@options.BY
@click.option("--undo", is_flag=True, help="Take it back: the interval is incomplete again.")
@options.QUERIES
def accept(
    query_set: str,
    lake: PurePath,
    start: int,
    end: int | None,
    link: str | None,
    cause: str,
    why: str | None,
    by: str | None,
    undo: bool,
    queries: Path,
) -> None:
    """Accepts what is known to be missing of an interval, so that it is done.

    \b
    `lowwater status` names it, and why: damage inside of a file, drops that the recorder counted, late records that
    were refused, records outside of since and until, files that are unread, columns that a file lacks. It is accepted
    for every interval and set that lacks the same. Who, when and why stay visible. What becomes more, or is missing for
    another cause or of another file, is accepted by nobody. No row changes.
    Example:
      lowwater accept flows --lake var/lake --interval 2026-01-01T01:00Z --link main1 --cause damage --why "disk failed"
    """
    from lowwater.lake.layout import open_lake
    from lowwater.replay import acceptance
    from lowwater.replay.job import Job

    if undo == bool(why and why.strip()):
        raise click.UsageError("give either --why TEXT or --undo")
    open_lake(lake, make=False)
    job = Job.open(lake, query_set, queries)
    bounds = acceptance.bounds_of(job, start, end)
    found = acceptance.accept(job, *bounds, link, cause, options.person(by), (why or "").strip(), undo)
    for reason in dict.fromkeys(each.reason for each in found):
        terminal.say(f"{'not accepted any more' if undo else 'accepted'}: {reason}")
    terminal.say("`lowwater plan` says which intervals are due now")


@click.command()
@click.argument("query_set")
@click.argument("at", type=options.INSTANT, metavar="HOUR")
@options.OF_LAKE
@click.option("--json", "as_json", is_flag=True, help="As JSON, instants in ns.")
@options.QUERIES
def why(query_set: str, at: int, lake: PurePath, as_json: bool, queries: Path) -> None:
    """Says why an interval is what it is, and what would make it done.

    \b
    HOUR is an instant in it, ISO 8601. The answer has the word of `lowwater status` and its reasons; of each query the
    inputs of today and those of its rows, and in what they differ; the files that are read, by link; what is missing,
    with who accepted it; what people said; the error of the last run; in a chain, the interval before that is the
    cause; and the commands that make it done, in order. Nothing runs.
    Example:
      lowwater why flows 2026-01-01T01:00Z --lake var/lake
    """
    from lowwater.cli.why import show_why

    show_why(lake, query_set, queries, at, as_json)


@click.command()
@options.OF_LAKE
@click.option("--link", metavar="NAME", help="Only what is said of this link, or of a set that reads it.")
@click.option("--set", "query_set", metavar="NAME", help="Only what is said of this query set, or of what it reads.")
@click.option("--from", "start", type=options.INSTANT, help="Only what is said of time from here, ISO 8601.")
@click.option("--to", "end", type=options.INSTANT, help="Only what is said of time before, ISO 8601.")
@click.option("--json", "as_json", is_flag=True, help="As JSON, instants in ns.")
@options.QUERIES
def log(
    lake: PurePath,
    link: str | None,
    query_set: str | None,
    start: int | None,
    end: int | None,
    as_json: bool,
    queries: Path,
) -> None:
    """Lists what people have said of a lake, oldest first: who, when, why, of what, and whether it is in force.

    \b
    accept, undo: what is missing, by `lowwater accept`. set aside, count again: files, by `lowwater set-aside`.
    covers: the coverage of a file, by `lowwater ingest --covers`. approve: an interval whose audit warned.
    roll back, lift: rows of an interval, by `lowwater rollback`.
    Nothing is taken from the list: what is not in force any more says since when, and by what.
    Example:
      lowwater log --lake var/lake --set flows --from 2026-01-01 --to 2026-01-02
    """
    from lowwater.cli.statements import show_log
    from lowwater.replay.statement_log import StatementSelection

    options.require_range(start, end)
    show_log(lake, queries, StatementSelection(link, query_set, start, end), as_json)


MOST_CHANGES = 10
"""Default number of rows that a comparison shows."""


@click.command("try")
@click.argument("name", required=False)
@options.OF_LAKE
@options.CHANGES
@click.option("--query-set", metavar="NAME", help="Query set to change; default the one that has the file of --with.")
@click.option("--from", "start", type=options.INSTANT, help="First instant of the intervals to run, ISO 8601.")
@click.option("--to", "end", type=options.INSTANT, help="End of the intervals, ISO 8601, exclusive.")
@options.JOBS
@click.option(
    "--limit", default=MOST_CHANGES, type=click.IntRange(0), metavar="N", help="Rows to print.", show_default=True
)
@click.option("--promote", is_flag=True, help="Publish the intervals of the trial, once the lake has its changes.")
@click.option("--drop", is_flag=True, help="Remove the trial.")
@options.QUERIES
def try_(
    name: str | None,
    lake: PurePath,
    files: tuple[Path, ...],
    skews: tuple[tuple[str, str], ...],
    query_set: str | None,
    start: int | None,
    end: int | None,
    jobs: int,
    limit: int,
    promote: bool,
    drop: bool,
    queries: Path,
) -> None:
    """Tries other queries or skews beside the lake. Without a name it lists the trials.

    \b
    A trial reads the packets of the lake and has everything else of its own: nothing of it is visible to readers of the
    lake. It runs the intervals whose inputs differ from what is published, and shows the rows that differ. To promote
    it, put its query files and skews into place first; then its rows are audited and published, and nothing is
    evaluated again. Exit code 3: the rows differ.
    Example:
      lowwater try wider --lake var/lake --with new/flows.gsql --skew main1=5s --from 2026-01-01 --to 2026-01-02
      lowwater try wider --lake var/lake --promote
    """
    from lowwater.cli.backfills import TrialOptions, list_trials, run_trial
    from lowwater.lake.layout import lake_to_read
    from lowwater.replay.job import TrialChanges
    from lowwater.replay.trial import drop_trial

    if promote and drop:
        raise click.UsageError("give either --promote or --drop")
    if name is None:
        list_trials(lake_to_read(lake))
        return
    if drop:
        drop_trial(lake_to_read(lake), name)
        terminal.say(f"trial {name} is dropped")
        return
    extras.require("lowwater try", "quality")
    changes = TrialChanges(tuple(file.resolve() for file in files), options.durations(skews))
    sys.exit(run_trial(TrialOptions(name, lake, queries, query_set, changes, start, end, jobs, limit, promote)))
