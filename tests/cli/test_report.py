"""`lowwater report`: verdicts, failures word for word, pages, quarantine; clear errors where nothing is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lowwater.instants import HOUR, parse_instant
from lowwater.lake.layout import QUALITY, QUARANTINE, Lake, open_lake
from lowwater.lake.ledgers.intervals import StatusRow, gravest
from lowwater.lake.ledgers.runs import record_measures, record_quality
from lowwater.quality.reports import interval_audits, page_of
from tests.replay.support import lowwater

START = parse_instant("2026-01-01T00:00:00Z")
LONG = (
    "query flows, 2026: 2 keys (tb) in more than one row; links: [main1], main2; captures: "
    + "a.pcap, " * 40
    + "b.pcap"
)


def finding(suite: str, kind: str, severity: str, *messages: str) -> dict[str, Any]:
    said = {"suite": suite, "expectation": f"id of {kind} {severity}", "kind": kind, "severity": severity}
    counts = {"success": not messages, "evaluated": 3, "unexpected": len(messages), "messages": "\n".join(messages)}
    return {**said, **counts, "audited_at": 1}


def kept(kind: str, subject: str, total: int, rows: int) -> list[dict[str, Any]]:
    row = {"suite": "queries", "expectation": f"id of {kind} critical", "subject": subject, "total": total}
    return [{**row, "row": "{}", "kept_at": 1} for _ in range(rows)]


def record(lake: Lake, hour: int, found: list[dict[str, Any]], rows: list[dict[str, Any]], name: str = "demo") -> None:
    """Records the audit of an hour."""
    start, end = START + hour * HOUR, START + (hour + 1) * HOUR
    pages = [{**each, "page": page_of(name, start, end, each["suite"])} for each in found]
    constants = ("query_set", "interval_start", "interval_end")
    quality, quarantine = (
        pa.Table.from_pylist(data, schema=pa.schema([each for each in schema if each.name not in constants]))
        for data, schema in ((pages, QUALITY), (rows, QUARANTINE))
    )
    record_quality(lake, name, {(start, end): (quality, quarantine)})


GOOD = [finding("queries", "expect_b", "critical"), finding("links", "expect_a", "critical")]
WARNED = [finding("links", "expect_a", "warning", "link control: a gap", "link main1: late"), *GOOD]
FAILED = [
    finding("links", "expect_a", "warning", "link main1: a few"),
    finding("queries", "expect_b", "critical", LONG),
]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = open_lake(tmp_path / "lake")
    record(lake, 1, FAILED, [*kept("expect_b", "flows", 5000, 3), *kept("expect_b", "full_flow", 2, 2)])
    record(lake, 0, GOOD, [])
    record(lake, 2, WARNED, [])
    record(lake, 0, WARNED, [], name="other")
    return lake


def interval(hour: int) -> str:
    return f"2026-01-01T0{hour}:00:00Z to 2026-01-01T0{hour + 1}:00:00Z"


def test_every_interval_with_its_verdict(lake: Lake) -> None:
    said = lowwater("report", "--lake", lake.root)
    assert (said.code, said.err) == (0, "")
    pages = {(each.query_set, each.start): f"  page: {lake.reports / each.page}" for each in interval_audits(lake)}
    assert said.out.splitlines() == [
        f"demo, {interval(0)}: passed",
        f"demo, {interval(1)}: failed",
        f"  critical: {LONG}",
        "  warning: link main1: a few",
        pages["demo", START + HOUR],
        f"demo, {interval(2)}: warned",
        "  warning: link control: a gap",
        "  warning: link main1: late",
        pages["demo", START + 2 * HOUR],
        f"other, {interval(0)}: warned",
        "  warning: link control: a gap",
        "  warning: link main1: late",
        pages["other", START],
    ]
    assert pages["demo", START + HOUR].endswith(
        f"{lake.reports}/demo/2026-01-01T010000Z_2026-01-01T020000Z/queries.html"
    )


@pytest.mark.slow
def test_one_interval_in_detail(lake: Lake) -> None:
    said = lowwater("report", "--lake", lake.root, "--interval", "2026-01-01T01:00Z")
    assert said.code == 0
    assert interval(0) not in said.out and "  warning: link main1: a few\n" in said.out
    rows = [line.split() for line in said.out.splitlines()]
    assert ["links", "a", "warning", "1", "of", "3", "fail"] in rows
    assert ["queries", "b", "critical", "1", "of", "3", "fail", "5", "of", "5,002"] in rows
    said = lowwater("report", "--lake", lake.root, "--interval", "2026-01-01T00:00Z")
    assert f"demo, {interval(0)}: passed" in said.out and f"other, {interval(0)}: warned" in said.out
    assert ["queries", "b", "critical", "holds"] in [line.split() for line in said.out.splitlines()]


def test_records_that_are_in_no_row_are_said_however_few(lake: Lake) -> None:
    numbers = {"read": 120, "violating": 1, "malformed": 0, "lost": 0, "dropped": 3}
    rows = [{"link": "main1", **numbers}, {"link": "control", **numbers, "violating": 0, "dropped": 0}]
    links = pa.Table.from_pylist(rows)
    record_measures(lake, "demo", {(START, START + HOUR): {"links": links}}, now=1, again=False)
    said = lowwater("report", "--lake", lake.root)
    lost = "3 lost before they were written, as the captures say"
    line = f"  link 'main1': in no row: 1 later than the skew, {lost}; 120 read"
    assert said.out.splitlines()[:2] == [f"demo, {interval(0)}: passed", line]
    assert "'control'" not in said.out


def test_a_suite_that_this_version_does_not_know_is_shown_behind_the_others(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "lake")
    record(lake, 0, [finding("{", "expect_z", "warning", "strange"), *GOOD], [])
    record(lake, 1, [finding("{", "expect_z", "warning", "strange")], [])
    said = lowwater("report", "--lake", lake.root)
    assert said.code == 0 and said.out.count("  warning: strange") == 2


def test_a_state_that_this_version_does_not_know_is_the_gravest() -> None:
    rows = [StatusRow("q", "q", 0, 1, state, "", None) for state in ("done", "{", "failed")]
    assert gravest(rows).state == "{"
