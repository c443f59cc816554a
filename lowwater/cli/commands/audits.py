"""Commands over what audits found: report, skew, expect, gx."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import click

from lowwater import errors, extras, terminal
from lowwater.cli import options
from lowwater.instants import format_duration, format_instant
from lowwater.lake.sheets import COUNT, NUMBER, TEXT, Sheet, say_sheet
from lowwater.storage import paths
from lowwater.storage.object_paths import ObjectPath

if TYPE_CHECKING:
    from lowwater.config import Config
    from lowwater.lake import layout
    from lowwater.lake.ledgers.captures import Captures
    from lowwater.quality.history import LimitProposal
    from lowwater.replay.job import Job
    from lowwater.replay.schedule.skew_review import SkewReview


@click.command()
@options.OF_LAKE
@click.option("--interval", type=options.INSTANT, help="Only the interval that begins here, ISO 8601, in detail.")
@options.MEETING
@options.BY_DAY
@click.option("--html", type=options.FOLDER, metavar="DIR", help="Write the review pages of the whole lake here.")
@options.QUERIES
def report(
    lake: PurePath,
    interval: int | None,
    start: int | None,
    end: int | None,
    by_day: bool,
    zone: str,
    html: Path | None,
    queries: Path,
) -> None:
    """Shows what the audits found: verdicts, what failed, and where the pages of the data-quality report are.

    \b
    passed and warned intervals are published, failed ones are not; --interval shows every expectation of one interval
    and how many of its rows are in quarantine. Intervals that were never audited, cannot start or are not done are
    listed with the reason; the summary counts each interval once. --by-day says of each day whether its report may go
    out; a day begins at midnight of --zone.
    --html writes the calendar of all intervals, a page for each of them, plans, skew reviews and the Data Docs, as
    files that need no server and no network.
    Example:
      lowwater report --lake var/lake --interval 2026-01-01T01:00Z
      lowwater report --lake var/lake --by-day --zone Europe/Berlin --from 2026-01-01
    """
    options.require_range(start, end)
    from lowwater.cli.report import show_report, write_pages

    some = by_day or start is not None or end is not None
    if html is not None and (some or interval is not None):
        raise click.UsageError("--html writes all intervals; leave out --interval, --by-day, --from and --to")
    if interval is not None and some:
        raise click.UsageError("--interval is one of them; leave out --by-day, --from and --to")
    if html is not None:
        write_pages(lake, queries, html)
    else:
        show_report(lake, interval, queries, (start, end), zone if by_day else None)


RECOMMENDED = -1
"""Value of `--set recommended`."""


class _Bound(click.ParamType[int]):
    """A duration, or the word `recommended`."""

    name = "duration|recommended"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        return RECOMMENDED if value == "recommended" else int(options.DURATION.convert(value, param, ctx))


_BOUND = _Bound()


@click.command()
@options.OF_LAKE
@click.option("--link", "links", multiple=True, metavar="NAME", help="Only this link; repeats; default all links.")
@click.option("--from", "start", type=options.INSTANT, help="First arrival, ISO 8601.")
@click.option("--to", "end", type=options.INSTANT, help="End of the arrivals, ISO 8601, exclusive.")
@click.option(
    "--loss",
    default=0.0001,
    type=click.FloatRange(0, 1),
    help="Share of the records that a recommended bound may refuse.",
    show_default=True,
)
@options.QUERIES
@click.option(
    "--set",
    "chosen",
    type=_BOUND,
    help="Write this skew of the one --link into lowwater.toml, and show which intervals become stale.",
)
@click.option("--dry-run", is_flag=True, help="With --set: write nothing.")
@options.form("text", "json", help="Of the review.")
def skew(
    lake: PurePath,
    links: tuple[str, ...],
    start: int | None,
    end: int | None,
    loss: float,
    queries: Path,
    chosen: int | None,
    dry_run: bool,
    form: str,
) -> None:
    """Shows how late the records of each link are, and what every possible skew bound would lose and cost.

    \b
    Lateness is arrival - timestamp over all sane records in packets/, by interval of arrival (SEMANTICS T2). The bound
    that is recommended is the least of 0 and 1, 2, 5 x 10^n that refuses at most the share --loss: docs/review.md.
    --set DURATION writes a bound into the settings, and --set recommended the one that is recommended. The intervals
    that become stale are listed; `lowwater backfill` runs them.
    Example:
      lowwater skew --lake var/lake --link main1
    """
    if dry_run and chosen is None:
        raise click.UsageError("--dry-run goes with --set")
    if chosen is not None and len(links) != 1:
        raise click.UsageError("--set needs one --link")
    options.require_range(start, end)
    from lowwater.replay.schedule.skew_review import review_json

    if chosen is not None and chosen != RECOMMENDED:
        _set(lake, queries, links[0], chosen, dry_run)
        return
    reviews = list(_reviews(lake, links, start, end, loss, queries))
    if chosen == RECOMMENDED:
        bounds = [review.recommended for review in reviews if review.recommended is not None]
        _set(lake, queries, links[0], max(bounds, default=None), dry_run)
        return
    if form == "json":
        terminal.say(json.dumps({"links": [review_json(review) for review in reviews]}, indent=2))
        return
    console = terminal.open_console()
    for review in reviews:
        _show(console, review)


def _set(root: PurePath, queries: Path, link: str, bound: int | None, dry_run: bool) -> None:
    """Writes a skew into the settings, or says what it would do."""
    from lowwater.replay.schedule.skew_review import skew_change, write_skew

    if bound is None:
        raise errors.ConfigError(f"link {link!r}: no skew is recommended", "give a duration: --set 2s")
    change = skew_change(root, queries, _sets(root, queries), link, bound)
    if not dry_run:
        write_skew(root, change)
    after = f"{'would be' if dry_run else 'is'} {format_duration(change.after)}"
    terminal.say(f"{change.link}: skew {after}, was {format_duration(change.before)}; {change.effect}")
    for each in change.stale:
        terminal.say(f"  {format_instant(each.start)}  {each.query_set}")


def _sets(root: PurePath, queries: Path) -> list[Job]:
    from lowwater.replay.schedule.links import jobs

    return jobs(root, queries, lambda name, error: terminal.say(f"query set {name} is left out: {error}", err=True))


def _reviews(
    root: PurePath, links: Sequence[str], start: int | None, end: int | None, loss: float, queries: Path
) -> Iterator[SkewReview]:
    from lowwater.config import load_config
    from lowwater.lake import layout
    from lowwater.lake.ledgers.captures import ingested_links, read_captures, standing_for

    lake, config = layout.lake_to_read(root), load_config(root)
    ingested = ingested_links(lake)
    chosen = [link for name in links for link in standing_for(name, ingested) or [name]] or ingested
    sets, captures = _sets(root, queries), read_captures(lake, chosen)
    for link in chosen:
        if links or captures[link]:  # of an interface that is gone of its file nothing is left to judge
            yield _review(lake, config, link, captures[link], start, end, loss, sets)


def _review(
    lake: layout.Lake,
    config: Config,
    link: str,
    captures: Captures,
    start: int | None,
    end: int | None,
    loss: float,
    sets: list[Job],
) -> SkewReview:
    from lowwater.lake.ledgers.runs import read_replays
    from lowwater.lake.packets import PacketFiles, packet_files
    from lowwater.quality.lateness import link_lateness
    from lowwater.replay.schedule.links import readers, row_rates
    from lowwater.replay.schedule.skew_review import review

    settings = config.link(link)
    if not captures:
        raise errors.LakeError(f"{lake.root}: link {link!r} has no captures", "`lowwater ingest` takes them in")
    first = min((capture.smallest for capture in captures if capture.smallest is not None), default=0)
    last = max((capture.largest for capture in captures if capture.largest is not None), default=0)
    until = last + 1 if end is None else end
    since, settings = next((each.since, each.settings) for each in settings.pieces() if until <= each.until)
    files = PacketFiles.of(lake)
    # One skew holds for what is shown: that of the newest period. Packets before a horizon are gone (S11).
    begin = max(first, since, files.horizons.get(link, 0)) if start is None else start
    read = packet_files(files, link, captures, settings, begin, begin, until)
    seen = link_lateness(read, settings.skew, config.interval.length)
    waiting = readers(sets, link, row_rates(read_replays(lake), begin, until))
    return review(link, settings.skew, seen, loss, waiting, captures)


def _show(console: terminal.Terminal, review: SkewReview) -> None:
    from lowwater.replay.schedule.skew_review import arrivals_sheet, bounds_sheet, headline, remarks

    console.print(terminal.styled(review.link, "bold") + f": {terminal.shown(headline(review))}", soft_wrap=True)
    if not review.total.records:
        return
    say_sheet(bounds_sheet(review))
    say_sheet(arrivals_sheet(review, review.seen))
    for line in remarks(review):
        console.print(f"  {line}", soft_wrap=True)
    console.print()


@click.command()
@click.option("--lake", type=options.LAKE, help="The lake's folder; needed for --suggest.")
@click.option("--suggest", is_flag=True, help="Propose limits from the history of the lake.")
@click.option("--query-set", metavar="NAME", help="What is expected of the rows of its queries, as suites in JSON.")
@click.option("--write", is_flag=True, help="Write the suites of --query-set that are not there yet.")
@options.QUERIES
def expect(lake: PurePath | None, suggest: bool, query_set: str | None, write: bool, queries: Path) -> None:
    """Shows what audits expect of an interval; with --suggest, limits for lowwater.toml.

    \b
    With --suggest every audited interval is compared again with the intervals before it. A proposed limit is a quarter
    above the 99 % quantile of the differences; the table shows how many intervals it would have warned about.
    With --query-set the command shows the suites LAKE/expectations/QUERY_SET/QUERY.json, or a suite to start with.
    Examples:
      lowwater expect --lake var/lake --suggest
      lowwater expect --lake var/lake --query-set flows --write
    """
    if query_set is not None:
        if lake is None or suggest:
            raise click.UsageError("--query-set needs --lake, and goes without --suggest")
        _suites(lake, query_set, queries, write)
        return
    if write:
        raise click.UsageError("--write needs --query-set")
    if not suggest:
        say_sheet(_expectations())
        return
    if lake is None:
        raise click.UsageError("--suggest needs --lake")
    from lowwater.config import load_config

    proposals = _suggestions(lake, load_config(lake))
    say_sheet(_table(proposals))
    terminal.say("\n".join(["", *_toml(proposals)]))


def _expectations() -> Sheet:
    from lowwater_expectations.audits import SUITES, read_suite

    rows = [
        (name, each.meta["rule"], each.severity, each.description)
        for name in SUITES
        for each in read_suite(name).expectations
    ]
    return Sheet(dict.fromkeys(("suite", "expectation", "severity", "what is expected"), TEXT), rows)


def _suites(root: PurePath, query_set: str, queries: Path, write: bool) -> None:
    """Prints the suite of each query, or writes the missing suites."""
    from lowwater.quality.suites import starting_suite, suite_file
    from lowwater.replay.job import Job

    for query in Job.open(root, query_set, queries).plan.queries:
        path = suite_file(root, query_set, query.name)
        exists = paths.has_file(path)
        suite = paths.read(path).decode() if exists else starting_suite(query_set, query.name, query.high.fields)
        if not write:
            terminal.say(suite, nl=False)
        elif exists:
            terminal.say(f"{path} already exists")
        else:
            paths.write(path, suite.encode())
            terminal.say(f"wrote {path}")


def _suggestions(root: PurePath, config: Config) -> list[LimitProposal]:
    import pyarrow.compute as pc

    from lowwater.lake import layout
    from lowwater.lake.ledgers.runs import read_metrics
    from lowwater.quality.history import interval_history, limit_proposals

    metrics = read_metrics(layout.lake_to_read(root))
    histories = []
    for name in sorted(pc.unique(metrics.column("query_set")).to_pylist()):
        metrics_of_set = metrics.filter(pc.equal(metrics.column("query_set"), name))
        histories.append(interval_history(config.history, metrics_of_set, config.length(name)))
    proposals = limit_proposals(config, histories)
    if not proposals:
        raise errors.LakeError(
            f"{root}: no audited interval has {config.history.least} earlier ones to compare with",
            "audit more intervals, or lower `least` in [history]",
        )
    return proposals


def _table(proposals: list[LimitProposal]) -> Sheet:
    columns = {"section": TEXT, "limit": TEXT, "intervals": COUNT, "median": NUMBER, "largest": NUMBER}
    columns |= {"in force": NUMBER, "beyond it": COUNT, "proposed": NUMBER, "beyond that": COUNT}
    rows = []
    for each in proposals:
        seen = f"{each.median:.4g}", f"{each.most:.4g}", f"{each.now:g}", each.warned
        rows.append((f"[{each.section}]", each.key, each.judged, *seen, f"{each.limit:g}", each.beyond))
    return Sheet(columns, rows)


def _toml(proposals: list[LimitProposal]) -> list[str]:
    """Formats the proposed limits as lines of `lowwater.toml`; critical limits stay, or a comment says what was."""
    lines = []
    for section, limits in groupby(proposals, key=lambda proposal: proposal.section):
        lines.append(f"[{section}]")
        for proposal in limits:
            critical = max(proposal.critical, proposal.limit)
            was = f"  # critical was {proposal.critical:.15g}" if critical > proposal.critical else ""
            lines.append(f"{proposal.key} = {{ warning = {proposal.limit:g}, critical = {critical:.15g} }}{was}")
    return lines


@click.command()
@options.OF_LAKE
@click.option("--to", "folder", type=options.FOLDER, metavar="DIR", help="Of a lake in a store: the project is here.")
def gx(lake: PurePath, folder: Path | None) -> None:
    """Writes LAKE/gx, a project of Great Expectations; again after more intervals, to bring it up to date.

    \b
    It has an asset for each published table and its stream, for the measures of the audits (measures.links), and for
    ledgers (ledgers.skew_violations); a batch for each of the newest 100 intervals of a table, and "newest" and
    "whole"; a validation for each suite; and a checkpoint for each query set, and for our own suites, @measures. The
    suite of a query is that of the audits, in LAKE/expectations: what you save there is asked of the rows of the next
    interval. What you add to the project stays. Of a lake in a store, --to DIR gets a copy of all of this, which the
    next call brings up to date; suites that you saved there go to the store then.
    Example:
      lowwater gx --lake var/lake
      python -c 'import great_expectations as gx; c = gx.get_context(project_root_dir="var/lake"); print(c.checkpoints)'
    """
    from lowwater.config import load_config
    from lowwater.lake import layout, locks
    from lowwater.lake.ledgers.runs import AUDIT, PUBLISH, ReplayRow, read_replays
    from lowwater.quality.gx_project import OURS, bring, link_data, write_measure_suites, write_suites
    from lowwater.quality.modules import modules_of, require_trusted
    from lowwater.quality.suites import LATE, suite_file

    if (folder is None) == isinstance(lake, ObjectPath):
        raise click.UsageError("--to DIR is for lakes in a store, and needed for them")
    extras.require("lowwater gx", "quality")
    from lowwater_expectations.project import write_project

    opened, config = layout.open_lake(lake, make=False), load_config(lake)
    if (modules := modules_of(config.suites.modules)) is not None:
        require_trusted(modules, lake)
    published: dict[str, set[str]] = {}
    audited: dict[str, list[ReplayRow]] = {}
    for row in read_replays(opened):
        if row.stage == PUBLISH and row.query:
            published.setdefault(row.query_set, set()).add(row.query)
        elif row.stage == AUDIT:
            audited.setdefault(row.query_set, []).append(row)
    if not published:
        raise errors.LakeError(f"{lake}: nothing is published", "publish an interval with `lowwater backfill` first")
    if folder is not None:
        opened = bring(opened, folder.resolve())
    place = Path(str(opened.root))
    with locks.attempt(opened, "gx", wait=60) as scratch:
        late = {name for name in published if paths.has_file(suite_file(opened.root, name, LATE))}
        tables = sorted({query for queries in published.values() for query in queries})
        assets = link_data(opened, tables, config, {name: audited.get(name, []) for name in sorted(late)})
        suites = {
            name: write_suites(opened, name, [*sorted(queries), *([LATE] if name in late else [])])
            for name, queries in published.items()
        }
        about = {**suites, OURS: write_measure_suites(opened)}
        write_project(place, assets, about, scratch, config.suites.modules)
    batches = sum(len(asset.batches) for asset in assets)
    terminal.say(f"wrote {place}/gx: {len(assets)} assets, {batches} batches, {len(published) + 1} checkpoints")
    terminal.say(f'open it: great_expectations.get_context(project_root_dir="{place}")')
    first = next(iter(next(iter(suites.values()))))
    terminal.say(
        f"the suite of a query is QUERY_SET.QUERY, such as {first}: audits ask what you save there, and "
        "`lowwater plan` names published intervals to audit again"
    )
