"""Skew reviews in words and as JSON, as the command and the pages show them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from lowwater.instants import SECOND, format_duration, format_instant
from lowwater.quality.lateness import (
    QUANTILES,
    BoundEffect,
    LatenessCounts,
    Outlier,
    ReadingQuery,
    SkewReview,
    bound_of,
    recommend,
)

FILES = 3
"""Number of captures of an outlier that the text names; the JSON names all."""


def share_text(share: float) -> str:
    """A share in percent, with three digits.

    Example:
        >>> share_text(0.0183), share_text(0.0), share_text(0.9999)
        ('1.83%', '0%', '99.99%')
    """
    return f"{100 * share:.4g}%" if share > 0.99 else f"{100 * share:.3g}%"


def headline(report: SkewReview) -> str:
    """One sentence about the records of the link, and the recommendation."""
    total = report.total
    if not total.records:
        return "no records arrived in this time"
    late = f"{total.records:,} records, {total.late:,} out of order ({share_text(total.late / total.records)})"
    return f"{late}, the latest {format_duration(bound_of(total.largest))} late; {verdict(report)}"


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


def bound_labels(report: SkewReview, rung: BoundEffect) -> list[str]:
    """The labels of a bound: in force, recommended, admits all."""
    special = {"in force": report.skew, "recommended": report.recommended}
    names = [name for name, bound in special.items() if bound == rung.bound_ns]
    whole = next((rung for rung in report.rungs if not rung.lost), None)
    return [*names, "admits all"] if rung is whole else names


def remarks(report: SkewReview) -> list[str]:
    """Explains the numbers: too few records, separate groups, the wait of queries, the latest record."""
    lines = []
    if 0 < report.others.records * report.loss < 1:
        lines.append(
            f"{share_text(report.loss)} of {report.others.records:,} records is less than one: "
            "the bound has to admit all"
        )
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


def reader_text(report: SkewReview, reader: ReadingQuery, bound: int) -> str:
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
                "recommended_ns": recommend(interval.lags, report.loss),
                "busiest_second": interval.busiest,
            }
            for interval in report.seen
        ],
    }


def _lags_json(lags: LatenessCounts, refused: int) -> dict[str, Any]:
    return {
        "records": lags.records,
        "out_of_order": lags.late,
        "refused": refused,
        "largest_ns": lags.largest,
        "quantiles_ns": {str(share): lags.quantile(share) for share in QUANTILES},
    }
