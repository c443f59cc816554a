"""Ledgers as runs leave them, without the runs: as many intervals as wanted, for the pages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from lowwater.capture.content.retention import DECODER_VERSION
from lowwater.cluster import TaskRun
from lowwater.instants import HOUR, SECOND, format_instant, parse_instant
from lowwater.lake.layout import HEARTBEATS, LATENESS, METRICS, QUALITY, QUARANTINE, REPLAYS, Lake, open_lake
from lowwater.lake.ledgers.captures import Capture
from lowwater.lake.ledgers.runs import ReplayRow
from lowwater.lake.tables import append_rows, interval_label
from lowwater.replay.job import Job
from tests.lake.support import covering, put_captures, put_table

START = parse_instant("2025-01-01T00:00:00Z")
SKIPPED, MISSING = 97, 7
"""Of so many intervals the one of this number never ran."""

LINKS = ("main1", "main2", "control")
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'"
"""What must never be on a page as it is."""

CLUSTERED = 8
"""The interval that ran on a cluster."""

QUERIES = """
DEFINE { query_name 'flows'; }
SELECT tb, srcIP, count(*) as cnt FROM [links].IPV4 GROUP BY time/60 as tb, srcIP;
"""


def capture(link: str, at: int, **changed: object) -> Capture:
    """The capture of an hour."""
    begin = START + at * HOUR
    told: dict[str, Any] = {
        "link": link,
        "capture": f"{link}{at:060}",
        "path": f"captures/{link}/{link}_{at}.pcap",
        "bytes": 1000,
        "packets": 100,
        "declared_from": begin,
        "declared_to": begin + HOUR,
        "decoder_version": DECODER_VERSION,
        "attempt": f"{link}{at}",
    }
    return covering(begin, begin + HOUR, **{**told, **changed})


def table(rows: list[dict[str, object]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=schema)


ABSENT = frozenset({("control", 1)})


def make(
    folder: Path, hours: int, failed: frozenset[int] = frozenset(), absent: frozenset[tuple[str, int]] = ABSENT
) -> tuple[Path, Path]:
    """A lake with `hours` intervals of three links and a query set; every audit of `failed` found something hostile."""
    queries, root = folder / "queries", folder / "lake"
    queries.mkdir(parents=True)
    lake = open_lake(root)
    links = "".join(f'[links.{link}]\nsince = "2025-01-01T00:00:00Z"\n' for link in LINKS)
    names = ", ".join(f'"{link}"' for link in LINKS)
    (root / "lowwater.toml").write_text(f"{links}[sets]\nlinks = [{names}]\n[query_sets.q]\n", encoding="utf-8")
    (queries / "q.gsql").write_text(QUERIES, encoding="utf-8")
    captures = [capture(link, at) for link in LINKS for at in range(hours) if (link, at) not in absent]
    put_captures(lake, captures)
    job = Job.open(root, "q", queries)
    known = job.captures()
    replays = [row for at in range(hours) for row in _replays(job, known, at, at in failed, hours - at < 800)]
    append_rows(lake.replays, table(replays, REPLAYS))
    put_table(lake, "q", "flows", job.plan.queries[0].high.fields, _counts(replays))
    _quality(lake, hours, failed)
    append_rows(lake.heartbeats, table(_shed(), HEARTBEATS))
    append_rows(lake.metrics, table(list(_metrics(hours)), METRICS))
    append_rows(lake.lateness, table([_late(link, at) for link in LINKS for at in range(hours)], LATENESS))
    return root, queries


def _replays(job: Job, known: object, at: int, failed: bool, recent: bool) -> list[dict[str, object]]:
    start, end = START + at * HOUR, START + (at + 1) * HOUR
    if at % SKIPPED == MISSING:
        return []
    # Of old intervals nobody asks whether their inputs have changed.
    inputs = job.inputs(start, end, known)  # type: ignore[arg-type]
    digest = inputs.digest(job.plan.queries[0]) if recent else "old"
    parts = {"inputs": inputs.key(job.plan.queries[0]).summary} if recent else {}
    account = {name: {"read": 100, "malformed": 0, "violating": 1, "sane": 99} for name in LINKS}
    stages = ("low", "high", "audit") if failed else ("low", "high", "audit", "publish")
    rows = []
    for order, stage in enumerate(stages):
        wrong = failed and stage == "audit"
        said: dict[str, object] = {
            "operators": [{"query": "flows", "kind": "group", "counts": {"rows_in": 9, "rows_out": 7}}]
        }
        if at == CLUSTERED and stage == "low":
            places = (("main1 1", "10.0.0.3", 1, 9.5), ("main1 2", "10.0.0.4", 2, 10.5), ("main2 1", "", 1, 9.5))
            said["tasks"] = [asdict(TaskRun(name, 4_000_000, *spot)) for name, *spot in places]
        row = ReplayRow(
            query_set="q",
            query="" if stage == "low" or wrong else "flows",
            interval_start=start,
            interval_end=end,
            stage=stage,
            state="failed" if wrong else "done",
            finished_at=end + order * SECOND,
            reason=f"the audit failed: {HOSTILE}" if wrong else "",
            digest=digest,
            rows=7 + at % 5,
            timings=json.dumps({"low": 1.5, "high": 4.25, "audit": 1.0}),
            accounting=json.dumps(parts if stage == "publish" else {"links": account, **said}),
        )
        rows.append(asdict(row))
    return rows


def _counts(replays: list[dict[str, Any]]) -> dict[tuple[int, int], int]:
    """The rows of each interval that the ledger calls published."""
    return {(row["interval_start"], row["interval_end"]): row["rows"] for row in replays if row["stage"] == "publish"}


def _shed() -> list[dict[str, object]]:
    """Two minutes of a link, in the second of which records were shed."""
    rows: list[dict[str, object]] = []
    for minute, shed in ((0, 0), (1, 250)):
        start = START + CLUSTERED * HOUR + minute * 60 * SECOND
        counts = {"sane": 1000, "not_of_protocol": 0, "filtered": 0, "failed": 0, "sampled_out": 0}
        row = {**dict.fromkeys(HEARTBEATS.names), **counts, "shed": shed, "accepted": 1000 - shed}
        rows.append(
            row | {"query_set": "q", "lfta": "flows.TCP", "link": "main1", "start": start, "end": start + 60 * SECOND}
        )
    return rows


def _quality(lake: Lake, hours: int, failed: frozenset[int]) -> None:
    rows, kept = [], []
    for at in range(hours):
        if at % SKIPPED == MISSING:
            continue
        start, end = START + at * HOUR, START + (at + 1) * HOUR
        key = {"query_set": "q", "interval_start": start, "interval_end": end}
        for suite, count in (
            ("links", 7),
            ("skew", 6),
            ("lftas", 4),
            ("queries", 7),
            ("rows", 2),
            ("link_history", 12),
            ("query_history", 2),
        ):
            for number in range(count):
                wrong = at in failed and number == 0
                said = {"suite": suite, "expectation": f"{suite}{number}", "kind": f"expect_{suite}_{number}"}
                found = {
                    "severity": "critical",
                    "success": not wrong,
                    "evaluated": 3,
                    "unexpected": int(wrong),
                    "messages": HOSTILE if wrong else "",
                    "page": f"q/{interval_label(start, end)}/{suite}.html",
                    "audited_at": 1,
                }
                rows.append({**key, **said, **found})
                if wrong:
                    text = json.dumps({HOSTILE: HOSTILE, "_last": start})
                    about = {"suite": suite, "expectation": f"{suite}{number}", "subject": HOSTILE, "total": 3}
                    kept.append({**key, **about, "row": text, "kept_at": 1})
    append_rows(lake.quality, table(rows, QUALITY))
    append_rows(lake.quarantine, table(kept, QUARANTINE))


SPIKE = 20
"""Of so many hours the one in which the links had ten times their packets."""


def volume(at: int) -> int:
    """Packets of a link in an hour."""
    return (100 + at % 5) * (10 if at == SPIKE else 1)


def _metrics(hours: int) -> Iterator[dict[str, object]]:
    """What audits measured of each link and query."""
    for at in range(hours):
        if at % SKIPPED == MISSING:
            continue
        key = {"query_set": "q", "interval_start": START + at * HOUR, "interval_end": START + (at + 1) * HOUR}
        values = {"volume": volume(at), "bytes": 60 * volume(at), "violating": 0.01, "malformed": 0.0, "lateness": 5e6}
        values |= {"silence": 2e9, "gap": HOUR / 4 if at == 9 else 0.0}
        for link in LINKS:
            for measure, value in values.items():
                about = {"kind": "link", "subject": link, "measure": measure, "item": ""}
                yield {**key, **about, "value": float(value), "measured_at": 1}
        query = {"kind": "query", "subject": "flows", "measure": "volume", "item": "", "value": float(7 + at % 5)}
        yield {**key, **query, "measured_at": 1}


def _late(link: str, at: int) -> dict[str, object]:
    bounds = [0, *(digit * 10**power for power in range(4, 9) for digit in range(10, 100))]
    counts = [40_000, *(1 + number % 7 for number in range(len(bounds) - 1))]
    start = START + at * HOUR
    scalars = {"skew": SECOND, "refused": 3, "largest": bounds[-1], "busiest": 99, "measured_at": 1}
    known = {"link": link, "month": format_instant(start)[:7], "interval_start": start, "interval_end": start + HOUR}
    return {**known, **scalars, "bounds": bounds, "counts": counts}
