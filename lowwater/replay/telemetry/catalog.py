"""The metrics of a lake: name, unit, labels and meaning of each. `collector` fills them; docs/metrics.md lists them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """A metric; all are gauges, because each is what the ledgers say now.

    Attributes:
        name: name in Prometheus; ends with the unit if it has one.
        unit: unit of the value.
        labels: names of the labels.
        help: what the value is.
    """

    name: str
    unit: str
    labels: tuple[str, ...]
    help: str


STREAM = ("query_set", "stream")

METRICS = (
    Metric("lowwater_up", "0 or 1", (), "Whether the lake could be read; without it there are no other values."),
    Metric("lowwater_link_packets", "records", ("link",), "Records of the captures that the lake has."),
    Metric("lowwater_link_captured_bytes", "bytes", ("link",), "Size of the capture files that the lake has."),
    Metric("lowwater_link_malformed", "records", ("link",), "Damaged records in these captures."),
    Metric("lowwater_link_unread_files", "files", ("link",), "Files in the folders of the link that nobody reads."),
    Metric("lowwater_link_captured_until_seconds", "s since the epoch", ("link",), "End of the coverage of the link."),
    Metric("lowwater_link_ingested_seconds", "s since the epoch", ("link",), "Time of the last ingest of the link."),
    Metric(
        "lowwater_link_violating_ratio",
        "share, 0 to 1",
        ("query_set", "link"),
        "Share of records later than the skew, in the last audited interval.",
    ),
    Metric(
        "lowwater_link_lateness_seconds",
        "s",
        ("query_set", "link"),
        "Lateness that 99.9 % of the records do not exceed, in the last audited interval.",
    ),
    Metric(
        "lowwater_lfta_records",
        "records",
        ("query_set", "lfta", "link", "outcome"),
        "Sane records of the interval whose low stage ran last, by outcome: `accepted`, `filtered`, `shed` and others.",
    ),
    Metric("lowwater_stream_rows", "rows", STREAM, "Rows of the interval that was published last."),
    Metric("lowwater_stream_published_seconds", "s since the epoch", STREAM, "Time of the last publication."),
    Metric("lowwater_stream_until_seconds", "s since the epoch", STREAM, "End of what is published."),
    Metric("lowwater_stream_lag_seconds", "s", STREAM, "Captured time of its links that is not published yet."),
    Metric("lowwater_stream_holes", "ranges", STREAM, "Ranges between published intervals that are not published."),
    Metric("lowwater_stream_version", "commits", STREAM, "Version of the table."),
    Metric(
        "lowwater_subscriber_behind_versions",
        "commits",
        ("stream", "subscriber"),
        "Versions of the table that a named subscriber has not read.",
    ),
    Metric(
        "lowwater_subscriber_seen_seconds",
        "s since the epoch",
        ("stream", "subscriber"),
        "Time at which a named subscriber was done with a change.",
    ),
    Metric(
        "lowwater_intervals",
        "intervals",
        ("query_set", "state"),
        "Intervals by the state of their last run: done, provisional, incomplete, rolled back, damaged, failed, or "
        "unpublished; a stretch is one.",
    ),
    Metric(
        "lowwater_audit_failed",
        "expectations",
        ("query_set", "severity"),
        "Expectations that failed in the newest audits of all intervals.",
    ),
    Metric(
        "lowwater_last_audit_failed",
        "expectations",
        ("query_set", "severity"),
        "Expectations that failed in the newest audit of the last audited interval.",
    ),
    Metric("lowwater_run_finished_seconds", "s since the epoch", ("query_set",), "Time of the last ledger entry."),
    Metric("lowwater_stage_seconds", "s", ("query_set", "stage"), "Duration of the stage when it ran last."),
    Metric(
        "lowwater_executors_lost",
        "executors",
        ("query_set", "stage"),
        "Executors that Spark gave up while the stage ran last, by earlier versions; 0 of runs of this one.",
    ),
    Metric(
        "lowwater_tasks_again",
        "tasks",
        ("query_set",),
        "Tasks of the low stage that ran last on a cluster which were tried more than once.",
    ),
    Metric(
        "lowwater_query_set_broken",
        "0 or 1",
        ("query_set",),
        "Whether the query set cannot be planned with its present text and settings.",
    ),
    Metric("lowwater_collected_seconds", "s since the epoch", (), "Time at which these metrics were read."),
    Metric("lowwater_collection_seconds", "s", (), "Time that reading the lake took."),
)
"""Every metric, in the order of the output."""
