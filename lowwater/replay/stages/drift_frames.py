"""Compares the audited interval with earlier ones: stores its measures, and builds the frames of drift.

A step of `audit`. The stored measures do not depend on the order of runs; the comparison uses the intervals audited by
then.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

import pyarrow as pa

from lowwater.lake.ledgers.captures import Captures
from lowwater.lake.ledgers.coverage import covered_share
from lowwater.lake.ledgers.history import read_metrics, record_lateness, record_metrics
from lowwater.quality.history import (
    LINK,
    QUERY,
    Row,
    history_start,
    interval_history,
    lateness_row,
    link_items,
    link_row,
    metric_rows,
    metric_table,
    query_items,
    query_row,
)
from lowwater.quality.links import LinkScan
from lowwater.quality.measures import AuditScope


def compare(scope: AuditScope, scans: Sequence[LinkScan], links: pa.Table, queries: pa.Table) -> dict[str, pa.Table]:
    """Builds the frames `link_history` and `query_history`, and stores the measures of the interval in the ledgers.

    Args:
        scope: the interval, with its ledgers and settings.
        scans: scans of the links, in the order of the frame `links`.
        links: the frame `links`.
        queries: the frame `queries`.

    Raises:
        LakeError: a ledger cannot be read or written.
    """
    settings, length = scope.config.history, scope.end - scope.start
    metrics = read_metrics(scope.lake, scope.query_set, history_start(settings, scope.start, length), scope.start)
    history, now = interval_history(settings, metrics, length), time.time_ns()
    covered = {
        scan.link: covered_share(
            scan.link,
            scope.captures.get(scan.link, ()),
            scope.config.link(scan.link),
            scope.start,
            scope.end,
        )
        for scan in scans
    }
    metrics_rows: list[Row] = []
    late, by_link, by_query = [], [], []
    for row, scan in zip(links.to_pylist(), scans, strict=True):
        skew = scope.config.link(scan.link).skew
        items = link_items(row, scan.profile, _types(scope, scan.link), covered[scan.link])
        metrics_rows += metric_rows(LINK, scan.link, items, now)
        if covered[scan.link] or scan.profile.watch.lags.records:
            late.append(lateness_row(scan.link, scope.start, scope.end, skew, scan.profile, now))
        about = {name: row[name] for name in ("link", "interval", "captures")}
        before = history.before(LINK, scan.link, scope.start)
        by_link.append(link_row(about, items, before, settings, skew))
    for row in queries.to_pylist():
        shares = [covered[link] for link in row["links"].split(", ") if link in covered]
        items = query_items(row, min(shares, default=1.0))
        metrics_rows += metric_rows(QUERY, row["query"], items, now)
        about = {name: row[name] for name in ("query", "interval", "links", "captures")}
        before = history.before(QUERY, row["query"], scope.start)
        by_query.append(query_row(about, items, before, settings))
    record_metrics(scope.lake, scope.query_set, scope.start, scope.end, metric_table(metrics_rows))
    record_lateness(scope.lake, late)
    return {"link_history": pa.Table.from_pylist(by_link), "query_history": pa.Table.from_pylist(by_query)}


def _types(scope: AuditScope, link: str) -> dict[str, int]:
    """Link type -> packets of the captures that overlap the interval."""
    packets: Counter[str] = Counter()
    captures = Captures.of(scope.captures.get(link, ()))
    for at in captures.meeting(scope.start, scope.end):
        packets[captures[at].link_type] += captures[at].packets
    return dict(packets)
