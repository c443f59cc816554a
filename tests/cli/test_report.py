"""`lowwater report`: verdicts, failures word for word, pages, quarantine; clear errors where nothing is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lowwater.instants import HOUR, parse_instant
from lowwater.lake.layout import QUALITY, QUARANTINE, Lake, open_lake
from lowwater.lake.ledgers.runs import read_quality, read_quarantine, record_quality
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
    tables = [
        pa.Table.from_pylist(data, schema=pa.schema([each for each in schema if each.name not in constants]))
        for data, schema in ((pages, QUALITY), (rows, QUARANTINE))
    ]
    record_quality(lake, name, start, end, *tables)


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
        pages["demo", START],
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


@pytest.mark.slow
def test_what_many_links_have_alike_is_said_once(lake: Lake) -> None:
    """Nine links with a gap each: the first, and how many more; one interval in detail has all."""
    messages = [f"link n{number}: a gap" for number in range(1, 10)]
    record(lake, 3, [finding("links", "expect_a", "warning", *messages), *GOOD], [])
    lines = lowwater("report", "--lake", lake.root).out.splitlines()
    begin = lines.index(f"demo, {interval(3)}: warned")
    assert lines[begin + 1 : begin + 3] == ["  warning: link n1: a gap", "  warning: and 8 more like it"]
    assert "page:" in lines[begin + 3]
    detailed = lowwater("report", "--lake", lake.root, "--interval", "2026-01-01T03:00Z")
    assert [line for line in detailed.out.splitlines() if line.endswith("a gap")] == [
        f"  warning: {m}" for m in messages
    ]


def test_an_audit_takes_the_place_of_the_one_before(lake: Lake) -> None:
    record(lake, 1, GOOD, [])
    assert [each.verdict for each in interval_audits(lake)] == ["passed", "passed", "warned", "warned"]
    assert read_quality(lake).num_rows == 2 + 2 + 3 + 3
    assert read_quarantine(lake, "demo", START + HOUR, START + 2 * HOUR).num_rows == 0


def test_nothing_to_show(lake: Lake, tmp_path: Path) -> None:
    said = lowwater("report", "--lake", lake.root, "--interval", "2026-01-01T07:00Z")
    assert said.code == 1
    assert said.err == (
        "error: no interval begins at 2026-01-01T07:00:00Z\n"
        "  hint: 3 do, from 2026-01-01T00:00:00Z to 2026-01-01T02:00:00Z\n"
    )
    empty = open_lake(tmp_path / "empty")
    said = lowwater("report", "--lake", empty.root)
    assert said.code == 1
    assert said.err.startswith(f"error: {empty.root}: no interval has been audited yet\n  hint: ")
    said = lowwater("report", "--lake", tmp_path / "absent")
    assert said.code == 1 and "there is no lake" in said.err
    said = lowwater("report", "--lake", lake.root, "--interval", "soon")
    assert said.code == 2 and "'soon' is no instant" in said.err
