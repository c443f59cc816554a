"""The skew review of a link (docs/review.md): what each bound would lose and cost, in numbers, in words and as JSON.

`quality.lateness` measures. `lowwater skew --set` and the pages write the bound that is chosen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any

import numpy as np

from lowwater import documents, errors
from lowwater.config import load_config, section_of
from lowwater.instants import SECOND, WEEK, format_duration, format_instant
from lowwater.lake.ledgers.captures import Capture, Captures
from lowwater.lake.sheets import COUNT, DURATION, INSTANT, LABELS, SHARE, Sheet, share_text
from lowwater.lake.tables import lake_errors
from lowwater.lake.words import STALE
from lowwater.quality import lateness
from lowwater.replay.job import Job, TrialChanges
from lowwater.replay.schedule import due, links
from lowwater.storage import paths

OUTLIER_FACTOR = 10
"""Records form a separate group if their least lateness is this many times the recommended bound."""

SMALL_BOUND = 1_000_000
"""A bound up to OUTLIER_FACTOR times this (ns) delays nobody noticeably, so below it nothing is an outlier."""


@dataclass(frozen=True)
class BoundEffect:
    """The effect of one bound, as the JSON of a review has it."""

    bound_ns: int  # the promise of the link trails its clock by this time (T2)
    lost: int  # number of records it refuses
    share: float  # share of all records it refuses
    records_held: float  # mean number of records within the bound of the clock
    records_held_at_most: float  # the same in the busiest second


@dataclass(frozen=True)
class Outlier:
    """A single interval, or the intervals of one capture, without which a far smaller bound would do."""

    seen: tuple[lateness.IntervalLateness, ...]  # the intervals, in order
    captures: tuple[str, ...]  # file names of the captures to look at
    records: int  # number of its records that are later than the bound recommended for the others
    bound: int | None  # bound that would be recommended with the outlier, ns; None if no skew would do


@dataclass(frozen=True)
class SkewReview:
    """The skew review of a link."""

    link: str  # name of the link
    skew: int  # skew in force, ns
    loss: float  # share of the records that a recommended bound may refuse
    seen: tuple[lateness.IntervalLateness, ...]  # the intervals with records, in order
    total: lateness.LatenessCounts  # lateness of all records
    refused: int  # records later than the skew in force
    # bounds with different effects, ascending; 0, the skew in force and the least bound that admits all records are
    # among them
    rungs: tuple[BoundEffect, ...]
    recommended: int | None  # recommended bound without the outlier, ns; None without records, or if no skew would do
    # (records, least lateness in ns) of a separate group beyond the recommended bound; None without one
    apart: tuple[int, int] | None
    latest: tuple[lateness.LateRecord, ...]  # latest records of all intervals
    readers: tuple[links.ReadingQuery, ...]  # queries that read the link
    outlier: Outlier | None  # intervals that alone need a far larger bound; None without any
    others: lateness.LatenessCounts  # lateness of the records without the outlier

    def lost(self, bound: int) -> int:
        """Number of records outside the outlier that a bound refuses: a bound of two digits, or the skew in force."""
        if bound != self.skew:
            return self.others.lost(bound)
        return self.refused - sum(interval.refused for interval in (self.outlier.seen if self.outlier else ()))

    @property
    def advice(self) -> str:
        """`keep`, `raise`, `lower` or, where nothing is recommended, `none`."""
        if self.recommended is None:
            return "none"
        return "keep" if self.recommended == self.skew else "raise" if self.recommended > self.skew else "lower"


def review(
    link: str,
    skew: int,
    intervals: Iterable[lateness.IntervalLateness],
    loss: float = lateness.LOSS,
    readers: Sequence[links.ReadingQuery] = (),
    captures: Sequence[Capture] = (),
) -> SkewReview:
    """Builds the review of a link from the lateness of its intervals."""
    seen = tuple(intervals)
    total, refused = _total(seen), sum(interval.refused for interval in seen)
    outlier = find_outlier(seen, total, loss, captures)
    out = range(outlier.seen[0].start, outlier.seen[-1].end) if outlier else range(0)
    others = _total(interval for interval in seen if interval.start not in out)
    recommended = lateness.recommend(others, loss)
    enough = total.quantile(1.0) or 0
    steps = [0, *(bound for bound in lateness.LADDER if bound < enough), enough]
    useful = [bound for before, bound in pairwise(steps) if total.lost(bound) < total.lost(before)]
    rungs = tuple(
        _effect_of(bound, total, seen, refused if bound == skew else total.lost(bound))
        for bound in sorted({0, skew, *useful, recommended or 0})
    )
    apart = _separate_group(others, recommended)
    latest = tuple(sorted((late for each in seen for late in each.latest), reverse=True)[: lateness.LATEST_RECORDS])
    values = total, refused, rungs, recommended, apart, latest, tuple(readers), outlier, others
    return SkewReview(link, skew, loss, seen, *values)


def _total(intervals: Iterable[lateness.IntervalLateness]) -> lateness.LatenessCounts:
    total = lateness.LatenessCounts()
    for interval in intervals:
        total.merge(interval.lags)
    return total


def find_outlier(
    intervals: Sequence[lateness.IntervalLateness],
    total: lateness.LatenessCounts,
    loss: float,
    captures: Sequence[Capture] = (),
) -> Outlier | None:
    """The interval, or the intervals of one capture, without which a bound OUTLIER_FACTOR times smaller would do, where
    two remain for comparison. Of several, the one with the smallest remaining bound, then the one of fewest intervals.
    """
    bound = lateness.recommend(total, loss)
    if not total.records or (bound is not None and bound < OUTLIER_FACTOR * SMALL_BOUND):
        return None
    ordered = Captures.of(captures)
    firsts = np.searchsorted([interval.end for interval in intervals], ordered.numbers("covers_from"), side="right")
    lasts = np.searchsorted([interval.start for interval in intervals], ordered.numbers("covers_to"), side="left")
    single = np.arange(len(intervals))
    groups = np.unique(np.vstack([np.append(single, firsts), np.append(single + 1, lasts)]), axis=1)
    first, last = groups[:, (groups[0] < groups[1]) & (len(intervals) - (groups[1] - groups[0]) >= 2)]
    # Row n: what the first n intervals lose by each bound, and their records; so a group is a difference of two rows.
    rows = [np.append(interval.lags.losses(), interval.lags.records) for interval in intervals]
    sums = np.cumsum(np.vstack([np.zeros(len(lateness.BOUNDS) + 1, np.int64), *rows]), axis=0)
    others = sums[-1] - sums[last] + sums[first]
    enough = (others[:, :-1] <= lateness.borne(others[:, -1:], loss)) & (others[:, -1:] > 0)
    found = np.flatnonzero(enough.any(axis=1))
    if not len(found):
        return None
    remaining = np.array(lateness.BOUNDS)[enough[found].argmax(axis=1)]
    best = np.lexsort((first[found], (last - first)[found], remaining))[0]
    least, begin, end = int(remaining[best]), int(first[found[best]]), int(last[found[best]])
    if bound is not None and bound < OUTLIER_FACTOR * max(least, SMALL_BOUND):
        return None
    group = tuple(intervals[begin:end])
    return Outlier(group, _files_of(group, ordered), sum(interval.lags.lost(least) for interval in group), bound)


def _files_of(group: Sequence[lateness.IntervalLateness], captures: Captures) -> tuple[str, ...]:
    """File names of the captures with the latest records; if these are unknown, of the captures that cover the
    intervals."""
    named = {late.capture for interval in group for late in interval.latest}
    start, end = group[0].start, group[-1].end
    if not named:
        return tuple(Path(captures[at].path).name for at in captures.meeting(start, end))
    files = zip(captures.values("capture"), captures.values("path"), strict=True)
    return tuple(Path(path).name for digest, path in files if digest in named)


def _effect_of(
    bound: int, total: lateness.LatenessCounts, intervals: Sequence[lateness.IntervalLateness], lost: int
) -> BoundEffect:
    span = sum(interval.end - interval.start for interval in intervals)
    alive = total.records * bound / span if span else 0.0
    busiest = max((interval.busiest for interval in intervals), default=0) * bound / SECOND
    share = lost / total.records if total.records else 0.0
    return BoundEffect(bound, lost, share, min(alive, total.records), min(busiest, total.records))


def _separate_group(lags: lateness.LatenessCounts, recommended: int | None) -> tuple[int, int] | None:
    beyond = [(bound, count) for bound, count in lags.bounds() if recommended and bound > recommended]
    if not beyond or not recommended or beyond[0][0] < OUTLIER_FACTOR * recommended:
        return None
    return sum(count for _, count in beyond), beyond[0][0]


# The review in words, as the command and the pages show it.

FILES = 3
"""Number of captures of an outlier that the text names; the JSON names all."""


def headline(report: SkewReview) -> str:
    """One sentence about the records of the link, and the recommendation."""
    total = report.total
    if not total.records:
        return "no records arrived in this time"
    late = f"{total.records:,} records, {total.late:,} out of order ({share_text(total.late / total.records)})"
    return f"{late}, the latest {format_duration(lateness.bound_of(total.largest))} late; {verdict(report)}"


def verdict(report: SkewReview) -> str:
    """The recommendation in one sentence; an outlier is left out of it."""
    apart = f"without {outlier_text(report.outlier)}, " if report.outlier else ""
    now = report.lost(report.skew)
    refusals = f"{apart}skew {format_duration(report.skew)} refuses {now:,} ({_share(report, now)})"
    if report.recommended is None:
        return f"{refusals}: nothing to recommend"
    if report.advice == "keep":
        return f"{refusals}: keep it"
    then = report.lost(report.recommended)
    lost = f"{then:,} ({_share(report, then)})" if then else "none"
    return f"{refusals}: {report.advice} it to {format_duration(report.recommended)}, which refuses {lost}"


def _share(report: SkewReview, lost: int) -> str:
    return share_text(lost / report.others.records if report.others.records else 0.0)


def outlier_text(outlier: Outlier) -> str:
    """The time and the captures of an outlier."""
    files = ", ".join(outlier.captures[:FILES])
    more = len(outlier.captures) - FILES
    named = f" ({files}{f' and {more} more' if more > 0 else ''})" if files else ""
    return f"{format_instant(outlier.seen[0].start)} to {format_instant(outlier.seen[-1].end)}{named}"


def bounds_sheet(report: SkewReview) -> Sheet:
    """What each bound would lose and cost, as a table."""
    columns = {"bound": DURATION, "lost": COUNT, "share": SHARE, "latency": DURATION}
    columns |= {"records held": COUNT, "at most": COUNT, "remark": LABELS}
    whole = next((rung for rung in report.rungs if not rung.lost), None)
    special = {"in force": report.skew, "recommended": report.recommended}
    rows = []
    for rung in report.rungs:
        labels = [name for name, bound in special.items() if bound == rung.bound_ns] + ["admits all"] * (rung is whole)
        held = rung.records_held, rung.records_held_at_most
        rows.append((rung.bound_ns, rung.lost, rung.share, rung.bound_ns, *held, labels))
    return Sheet(columns, rows)


def arrivals_sheet(
    report: SkewReview,
    intervals: Iterable[lateness.IntervalLateness],
    shares: Mapping[tuple[int, int], float] = MappingProxyType({}),
) -> Sheet:
    """The lateness of intervals, as a table. `shares`: interval [start, end), ns -> share of its records that were
    refused; where they are known, they stand beside those of a week before."""
    columns = {"interval of arrival": INSTANT, "records": COUNT, "out of order": COUNT}
    columns |= {f"{100 * share:g} %": DURATION for share in lateness.QUANTILES} | {"latest": DURATION, "refused": COUNT}
    columns |= dict.fromkeys(("share", "a week before"), replace(SHARE, none="unknown")) if shares else {}
    columns |= {"its own bound": replace(DURATION, none="none"), "remark": LABELS}
    outliers = report.outlier.seen if report.outlier else ()
    rows = []
    for each in intervals:
        times = each.start, each.end
        before = times[0] - WEEK, times[1] - WEEK
        refused = (shares.get(times, 0), shares.get(before)) if shares else ()
        quantiles = [each.lags.quantile(share) or 0 for share in lateness.QUANTILES]
        latest = lateness.bound_of(each.lags.largest), each.refused
        own = lateness.recommend(each.lags, report.loss)
        labels = ["outlier"] * (each in outliers)
        rows.append((each.start, each.lags.records, each.lags.late, *quantiles, *latest, *refused, own, labels))
    return Sheet(columns, rows)


def remarks(report: SkewReview) -> list[str]:
    """Explains the numbers: too few records, separate groups, the wait of queries, the latest record."""
    lines = []
    if 0 < report.others.records * report.loss < 1:
        less = f"{share_text(report.loss)} of {report.others.records:,} records is less than one"
        lines.append(f"{less}: the bound has to admit all")
    if report.outlier and report.recommended is not None:
        bound = report.outlier.bound
        needs = "no skew would do" if bound is None else f"{format_duration(bound)} would be needed"
        lines.append(
            f"outlier: {outlier_text(report.outlier)}, where {report.outlier.records:,} records are more than "
            f"{format_duration(report.recommended)} late; with it {needs}. Look at the capture: records in the wrong "
            "order, or a clock that was set; at the skew recommended they are refused"
        )
    if report.apart:
        count, least = report.apart
        lines.append(
            f"{count:,} records are {format_duration(least)} late or more, far beyond the rest: a clock that was set, "
            "or captures in the wrong order, which no skew mends"
        )
    if report.recommended is not None:
        lines += [reader_text(report, reader, report.recommended) for reader in report.readers]
    if report.latest:
        latest = report.latest[0]
        where = f"record {latest.position} of the capture {latest.capture[:12]}"
        lines.append(f"the latest record, {format_duration(latest.lateness_ns)} late, is {where}")
    return lines


def reader_text(report: SkewReview, reader: links.ReadingQuery, bound: int) -> str:
    """The effect of a bound on the rows of a query, which wait for the slowest of its links (P3)."""
    now, then = (max(skew, reader.other_links_wait_ns or 0) for skew in (report.skew, bound))
    name = f"{reader.query_set}/{reader.query}"
    if now == then:
        reason = f" (for another link, {format_duration(then)})" if reader.other_links_wait_ns == then > bound else ""
        return f"{name}: its rows wait {format_duration(then)}, as now{reason}"
    rows = ""
    if (rate := reader.rows_per_second) is not None:
        rows = f", about {rate * then / SECOND:,.0f} of them at a time (now {rate * now / SECOND:,.0f})"
    return f"{name}: its rows wait {format_duration(then)} (now {format_duration(now)}){rows}"


def review_json(report: SkewReview) -> dict[str, Any]:
    """The review as JSON values; durations in ns."""
    outlier = report.outlier and {
        "from": format_instant(report.outlier.seen[0].start),
        "to": format_instant(report.outlier.seen[-1].end),
        "captures": list(report.outlier.captures),
        "records": report.outlier.records,
        "recommended_with_it_ns": report.outlier.bound,
    }
    return {
        "link": report.link,
        "skew_ns": report.skew,
        "loss": report.loss,
        **_lags_json(report.total, report.refused),
        "recommended_ns": report.recommended,
        "advice": report.advice,
        "apart": report.apart and dict(zip(("records", "least_ns"), report.apart, strict=True)),
        "ladder": [{**asdict(rung), "latency_ns": rung.bound_ns} for rung in report.rungs],
        "histogram": [{"bound_ns": bound, "records": count} for bound, count in report.total.bounds()],
        "outlier": outlier,
        "latest": [asdict(late) for late in report.latest],
        "queries": [asdict(reader) for reader in report.readers],
        "intervals": [
            {
                "start": format_instant(interval.start),
                "end": format_instant(interval.end),
                **_lags_json(interval.lags, interval.refused),
                "recommended_ns": lateness.recommend(interval.lags, report.loss),
                "busiest_second": interval.busiest,
            }
            for interval in report.seen
        ],
    }


def _lags_json(lags: lateness.LatenessCounts, refused: int) -> dict[str, Any]:
    return {
        "records": lags.records,
        "out_of_order": lags.late,
        "refused": refused,
        "largest_ns": lags.largest,
        "quantiles_ns": {str(share): lags.quantile(share) for share in lateness.QUANTILES},
    }


# The skew of a link in the settings of a lake is changed after it was said which intervals become stale. All other
# lines of the settings stay as they are.

_SKEW = re.compile(r"""^(\s*skew\s*=\s*)(?:"[^"]*"|'[^']*'|\d+)""")


@dataclass(frozen=True)
class SkewChange:
    """A new skew of a link, before it is written."""

    link: str  # section of the settings that has the skew: the link, or the link whose interface it is
    before: int  # skew in force, ns
    after: int  # new skew, ns
    text: str  # the settings with the new skew
    written: str  # the settings as they are
    query_sets: tuple[str, ...]
    stale: tuple[due.Due, ...]  # published intervals that become stale, oldest first

    @property
    def effect(self) -> str:
        """What becomes stale, in words."""
        count = len(self.stale)
        return "1 published interval becomes stale" if count == 1 else f"{count:,} published intervals become stale"


def skew_change(root: PurePath, queries: Path, jobs: Iterable[Job], link: str, bound: int) -> SkewChange:
    """Computes what a new skew would do. Writes nothing.
    Raises ConfigError if the settings cannot be changed by a program, or a variable of the environment overrides them,
    and LowwaterError if a query set cannot be planned with the new skew."""
    path = root / documents.FILE_NAME
    with lake_errors(f"{path}: cannot be read"):
        written = paths.read(path).decode() if paths.exists(path) else ""
    config = load_config(root, text=written)
    section = link if link in config.links else link.partition("/")[0]
    before = config.link(link).skew
    if turns := config.link(link).turns:
        raise errors.ConfigError(
            f"link {link!r}: the skew in force is that of its period since {format_instant(turns[-1][0])}",
            f'write skew = "{format_duration(bound)}" in that [{section_of(section, "periods")}] of {path}',
        )
    text = with_skew(written, section, bound, str(path))
    changed = load_config(root, text=text)
    if changed.link(link).skew != bound:
        raise errors.ConfigError(
            f"link {link!r}: a variable of the environment sets the skew, over {path}",
            f"change LOWWATER_LINKS__{section.upper()}__SKEW where it is set",
        )
    reading = [job for job in jobs if any(section in (name, name.partition("/")[0]) for name in job.plan.links)]
    tried = TrialChanges(skews={section: bound})
    stale = [each for job in reading for each in _newly_stale(job, Job.open(root, job.query_set, queries, tried))]
    names = tuple(job.query_set for job in reading)
    stale.sort(key=lambda each: (each.start, each.query_set))
    return SkewChange(section, before, bound, text, written, names, tuple(stale))


def write_skew(root: PurePath, change: SkewChange) -> None:
    """Writes the settings with the new skew.
    Raises ConfigError if somebody has changed them meanwhile, and LakeError if they cannot be written."""
    path = root / documents.FILE_NAME
    with lake_errors(f"{path}: cannot be written"):
        if (paths.read(path).decode() if paths.exists(path) else "") != change.written:
            raise errors.ConfigError(f"{path}: was changed meanwhile", "look at the change again")
        paths.write(path, change.text.encode())


def with_skew(text: str, link: str, bound: int, where: str) -> str:
    """Puts a skew, ns, into the section of a link.
    Raises ConfigError if the section has another form than a header and lines, or there is none.

    Example:
        >>> with_skew('[links.a]\\nskew = "1s"  # measured\\n', "a", 2 * 10**9, "lowwater.toml")
        '[links.a]\\nskew = "2s"  # measured\\n'
    """
    wanted: dict[str, object] = {"links": {link: {}}}
    value = f'"{format_duration(bound)}"'
    lines, header, place = text.splitlines(keepends=True), None, None
    for at, line in enumerate(lines):
        if line.lstrip().startswith("["):
            if header is not None:
                break
            header = at if _parsed(line) == wanted else None
        elif header is not None and _SKEW.match(line):
            place = at
            break
    if place is not None:
        lines[place] = _SKEW.sub(lambda found: found[1] + value, lines[place])
    elif header is not None:
        lines[header] = lines[header].rstrip("\n") + "\n"
        lines.insert(header + 1, f"skew = {value}\n")
    changed, expected = "".join(lines), deepcopy(documents.toml_table(text))
    expected.get("links", {}).get(link, {})["skew"] = value.strip('"')
    if header is None or _parsed(changed) != expected:
        raise errors.ConfigError(
            f"{where}: the skew of link {link!r} is not in lines of a section {section_of(link)}",
            f"write skew = {value} into its section by hand",
        )
    return changed


def _parsed(text: str) -> dict[str, object] | None:
    try:
        return documents.toml_table(text)
    except ValueError:
        return None


def _newly_stale(before: Job, after: Job) -> list[due.Due]:
    """The intervals that are stale after a change of settings and were not before."""
    chosen = due.DueSelection(kinds=(STALE,))
    known = {(each.start, each.end) for each in due.due(before, chosen)}
    return [each for each in due.due(after, chosen) if (each.start, each.end) not in known]
