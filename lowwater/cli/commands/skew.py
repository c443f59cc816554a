"""The command `skew`: shows the loss and latency of every skew bound of a link, and recommends one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from lowwater.cli import options
from lowwater.instants import format_duration, format_instant
from lowwater.terminal import Terminal, open_console, say, shown, styled

if TYPE_CHECKING:
    from lowwater.config import Config
    from lowwater.lake.layout import Lake
    from lowwater.quality.lateness import SkewReview
    from lowwater.replay.job import Job


RECOMMENDED = -1
"""Value of `--set recommended`."""


class _Bound(click.ParamType[int]):
    """A duration, or the word `recommended`."""

    name = "duration|recommended"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        return RECOMMENDED if value == "recommended" else int(options.DURATION.convert(value, param, ctx))


_BOUND = _Bound()


@click.command()
@click.option("--lake", required=True, type=options.LAKE, help=options.LAKE_HELP)
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
@click.option("--queries", default="queries", type=options.FOLDER, help="Folder of query sets.", show_default=True)
@click.option(
    "--set",
    "chosen",
    type=_BOUND,
    help="Write this skew of the one --link into lowwater.toml, and show which intervals become stale.",
)
@click.option("--dry-run", is_flag=True, help="With --set: write nothing.")
@click.option(
    "--format", "form", default="text", type=click.Choice(["text", "json"]), help="Of the review.", show_default=True
)
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
    if start is not None and end is not None and start >= end:
        raise click.UsageError("--to must be after --from")
    from lowwater.quality.late_records import review_json

    if chosen is not None and chosen != RECOMMENDED:
        _set(lake, queries, links[0], chosen, dry_run)
        return
    reviews = list(_reviews(lake, links, start, end, loss, queries))
    if chosen == RECOMMENDED:
        bounds = [review.recommended for review in reviews if review.recommended is not None]
        _set(lake, queries, links[0], max(bounds, default=None), dry_run)
        return
    if form == "json":
        say(json.dumps({"links": [review_json(review) for review in reviews]}, indent=2))
        return
    console = open_console()
    for review in reviews:
        _show(console, review)


def _set(root: PurePath, queries: Path, link: str, bound: int | None, dry_run: bool) -> None:
    """Writes a skew into the settings, or says what it would do."""
    from lowwater.errors import ConfigError
    from lowwater.replay.schedule.link_queries import jobs
    from lowwater.replay.schedule.skew_setting import skew_change, write_skew

    if bound is None:
        raise ConfigError(f"link {link!r}: no skew is recommended", "give a duration: --set 2s")
    sets = jobs(root, queries, lambda name, error: say(f"query set {name} is left out: {error}", err=True))
    change = skew_change(root, queries, sets, link, bound)
    if not dry_run:
        write_skew(root, change)
    skews = (
        f"skew {'would be' if dry_run else 'is'} {format_duration(change.after)}, was {format_duration(change.before)}"
    )
    say(f"{change.link}: {skews}; stale: {len(change.stale)} intervals")
    for each in change.stale:
        say(f"  {format_instant(each.start)}  {each.query_set}")


def _reviews(
    root: PurePath, links: Sequence[str], start: int | None, end: int | None, loss: float, queries: Path
) -> Iterator[SkewReview]:
    from lowwater.config import load_config
    from lowwater.lake.layout import lake_to_read
    from lowwater.lake.ledgers.captures import ingested_links, standing_for
    from lowwater.replay.schedule.link_queries import jobs

    lake, config = lake_to_read(root), load_config(root)
    ingested = ingested_links(lake)
    chosen = [link for name in links for link in standing_for(name, ingested) or [name]] or ingested
    sets = jobs(root, queries, lambda name, error: say(f"query set {name} is left out: {error}", err=True))
    for link in chosen:
        yield _review(lake, config, link, start, end, loss, sets)


def _review(
    lake: Lake, config: Config, link: str, start: int | None, end: int | None, loss: float, sets: list[Job]
) -> SkewReview:
    from lowwater.errors import LakeError
    from lowwater.lake.ledgers.captures import read_captures
    from lowwater.lake.ledgers.runs import read_replays
    from lowwater.lake.packets import PacketFiles, packet_files
    from lowwater.quality.lateness import link_lateness, review
    from lowwater.replay.schedule.link_queries import readers, row_rates

    settings = config.link(link)
    captures = read_captures(lake, [link])[link]
    if not captures:
        raise LakeError(f"{lake.root}: link {link!r} has no captures", "`lowwater ingest` takes them in")
    first = min((capture.smallest for capture in captures if capture.smallest is not None), default=0)
    last = max((capture.largest for capture in captures if capture.largest is not None), default=0)
    begin, until = first if start is None else start, last + 1 if end is None else end
    read = packet_files(PacketFiles.of(lake), link, captures, settings, begin, begin, until)
    seen = link_lateness(read, settings.skew, config.interval.length)
    waiting = readers(sets, link, row_rates(read_replays(lake), begin, until))
    return review(link, settings.skew, seen, loss, waiting, captures)


def _show(console: Terminal, review: SkewReview) -> None:
    from lowwater.quality.late_records import bound_labels, headline, remarks, share_text

    console.print(styled(review.link, "bold") + f": {shown(headline(review))}", soft_wrap=True)
    if not review.total.records:
        return
    table = _numbers("bound", "lost", "share", "latency", "records held", "at most")
    table.add_column("")
    for rung in review.rungs:
        cells = (f"{rung.lost:,}", share_text(rung.share), format_duration(rung.bound), f"{rung.alive:,.0f}")
        table.add_row(
            format_duration(rung.bound), *cells, f"{rung.busiest:,.0f}", ", ".join(bound_labels(review, rung))
        )
    console.print(table)
    console.print(_intervals(review))
    for line in remarks(review):
        console.print(f"  {line}", soft_wrap=True)
    console.print()


def _intervals(review: SkewReview) -> Table:
    from lowwater.quality.lateness import QUANTILES, bound_of, recommend

    shares = [f"{100 * share:g} %" for share in QUANTILES]
    table = _numbers("interval of arrival", "records", "out of order", *shares, "latest", "refused", "its own bound")
    table.add_column("")
    for interval in review.seen:
        quantiles = [format_duration(interval.lags.quantile(share) or 0) for share in QUANTILES]
        recommended = recommend(interval.lags, review.loss)
        counts = (f"{interval.lags.records:,}", f"{interval.lags.late:,}")
        ends = (format_duration(bound_of(interval.lags.largest)), f"{interval.refused:,}")
        bound = "none" if recommended is None else format_duration(recommended)
        mark = "outlier" if review.outlier and interval in review.outlier.seen else ""
        table.add_row(format_instant(interval.start), *counts, *quantiles, *ends, bound, mark)
    return table


def _numbers(first: str, *others: str) -> Table:
    table = Table(first, box=None)
    for name in others:
        table.add_column(name, justify="right")
    return table
