"""A skew review in words and as JSON: the same for the command line and the pages."""

from __future__ import annotations

from typing import Any

from lowwater.instants import SECOND, format_duration, format_instant
from lowwater.quality.lags import bound_of
from lowwater.quality.skew import QUANTILES, Outlier, Reader, Review, Rung, recommend

FILES = 3
"""Captures of an outlier that are named; JSON has all."""


def share_text(share: float) -> str:
    """A share in percent, three digits.

    Example:
        >>> share_text(0.0183), share_text(0.0), share_text(0.9999)
        ('1.83%', '0%', '99.99%')
    """
    return f"{100 * share:.4g}%" if share > 0.99 else f"{100 * share:.3g}%"


def headline(found: Review) -> str:
    """What the records of the link are, in one sentence, and the verdict."""
    total = found.total
    if not total.records:
        return "no records arrived in this time"
    late = f"{total.records:,} records, {total.late:,} out of order ({share_text(total.late / total.records)})"
    return f"{late}, the latest {format_duration(bound_of(total.largest))} late; {verdict(found)}"


def verdict(found: Review) -> str:
    """The recommendation in one sentence; where there is an outlier it is for the others."""
    apart = f"without {outlier_text(found.outlier)}, " if found.outlier else ""
    now = found.lost(found.skew)
    said = f"{apart}skew {format_duration(found.skew)} refuses {now:,} ({_share(found, now)})"
    if found.recommended is None:
        return f"{said}: nothing to recommend"
    if found.advice == "keep":
        return f"{said}: keep it"
    then = found.lost(found.recommended)
    lost = f"{then:,} ({_share(found, then)})" if then else "none"
    return f"{said}: {found.advice} it to {format_duration(found.recommended)}, which refuses {lost}"


def _share(found: Review, lost: int) -> str:
    return share_text(lost / found.others.records if found.others.records else 0.0)


def outlier_text(outlier: Outlier) -> str:
    """An outlier by its time and its captures."""
    files = ", ".join(outlier.captures[:FILES])
    more = len(outlier.captures) - FILES
    named = f" ({files}{f' and {more} more' if more > 0 else ''})" if files else ""
    return f"{format_instant(outlier.seen[0].start)} to {format_instant(outlier.seen[-1].end)}{named}"


def marks(found: Review, rung: Rung) -> list[str]:
    """What is special about a rung: in force, recommended, knee, admits all."""
    special = {"in force": found.skew, "recommended": found.recommended, "knee": found.knee}
    names = [name for name, bound in special.items() if bound == rung.bound]
    whole = next((each for each in found.rungs if not each.lost), None)
    return [*names, "admits all"] if rung is whole else names


def remarks(found: Review) -> list[str]:
    """What the numbers alone do not say: too few records, a group apart, what queries wait for, the latest record."""
    said = []
    if 0 < found.others.records * found.loss < 1:
        said.append(
            f"{share_text(found.loss)} of {found.others.records:,} records is less than one: the bound has to admit all"
        )
    if found.outlier and found.recommended is not None:
        bound = found.outlier.bound
        needs = "no skew would do" if bound is None else f"{format_duration(bound)} would be needed"
        said.append(
            f"outlier: {outlier_text(found.outlier)}, where {found.outlier.records:,} records are more than "
            f"{format_duration(found.recommended)} late; with it {needs}. Look at the capture: records in the wrong "
            "order, or a clock that was set; at the skew recommended they are refused"
        )
    if found.apart:
        count, least = found.apart
        said.append(
            f"{count:,} records are {format_duration(least)} late or more, far beyond the rest: a clock that was set, "
            "or captures in the wrong order, which no skew mends"
        )
    if found.recommended is not None:
        said += [reader_text(found, reader, found.recommended) for reader in found.readers]
    if found.latest:
        latest = found.latest[0]
        where = f"record {latest.position} of the capture {latest.capture[:12]}"
        said.append(f"the latest record, {format_duration(latest.lateness)} late, is {where}")
    return said


def reader_text(found: Review, reader: Reader, bound: int) -> str:
    """What a bound does to the rows of a query, which wait for the slowest of its links (P3)."""
    now, then = (max(each, reader.waits or 0) for each in (found.skew, bound))
    name = f"{reader.query_set}/{reader.query}"
    if now == then:
        held = f" (for another link, {format_duration(then)})" if reader.waits == then > bound else ""
        return f"{name}: its rows wait {format_duration(then)}, as now{held}"
    rows = ""
    if reader.rate is not None:
        rows = f", about {reader.rate * then / SECOND:,.0f} of them at a time (now {reader.rate * now / SECOND:,.0f})"
    return f"{name}: its rows wait {format_duration(then)} (now {format_duration(now)}){rows}"


def document(found: Review) -> dict[str, Any]:
    """The review as JSON; durations in ns."""
    return {
        "link": found.link,
        "skew_ns": found.skew,
        "loss": found.loss,
        "records": found.total.records,
        "out_of_order": found.total.late,
        "refused": found.refused,
        "largest_ns": found.total.largest,
        "quantiles_ns": {str(share): found.total.quantile(share) for share in QUANTILES},
        "recommended_ns": found.recommended,
        "advice": found.advice,
        "knee_ns": found.knee,
        "apart": None if found.apart is None else {"records": found.apart[0], "least_ns": found.apart[1]},
        "ladder": [
            {
                "bound_ns": rung.bound,
                "lost": rung.lost,
                "share": rung.share,
                "latency_ns": rung.bound,
                "records_held": rung.alive,
                "records_held_at_most": rung.busiest,
            }
            for rung in found.rungs
        ],
        "histogram": [{"bound_ns": bound, "records": count} for bound, count in found.total.bounds()],
        "outlier": None
        if found.outlier is None
        else {
            "from": format_instant(found.outlier.seen[0].start),
            "to": format_instant(found.outlier.seen[-1].end),
            "captures": list(found.outlier.captures),
            "records": found.outlier.records,
            "recommended_with_it_ns": found.outlier.bound,
        },
        "latest": [
            {"lateness_ns": late.lateness, "capture": late.capture, "position": late.position} for late in found.latest
        ],
        "queries": [
            {
                "query_set": reader.query_set,
                "query": reader.query,
                "other_links_wait_ns": reader.waits,
                "rows_per_second": reader.rate,
            }
            for reader in found.readers
        ],
        "intervals": [
            {
                "start": format_instant(each.start),
                "end": format_instant(each.end),
                "records": each.lags.records,
                "out_of_order": each.lags.late,
                "refused": each.refused,
                "largest_ns": each.lags.largest,
                "quantiles_ns": {str(share): each.lags.quantile(share) for share in QUANTILES},
                "recommended_ns": recommend(each.lags, found.loss),
                "busiest_second": each.busiest,
            }
            for each in found.seen
        ],
    }
