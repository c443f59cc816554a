"""A lake from before ADR 166: rows by the older meaning of a missing side are stale, once, and no others are."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowwater.instants import SECOND
from lowwater.plan import operators as ops
from tests.capturemaker import ACK, SYN, pcap_bytes, tcp
from tests.replay.support import lowwater

pytestmark = pytest.mark.slow

BEGIN = 1_767_225_600  # 2026-01-01T00:00:00Z
SETTINGS = """
[links.main1]
captures = "main1_%Y%m%d%H.pcap"
rotation = "1h"
since = "2026-01-01T00:00:00Z"
until = "2026-01-01T01:00:00Z"
[links.main2]
captures = "main2_%Y%m%d%H.pcap"
rotation = "1h"
since = "2026-01-01T00:00:00Z"
until = "2026-01-01T01:00:00Z"
[query_sets.joins]
files = "joins.gsql"
"""
JOIN = "JOIN main2.TCP A ON S.srcPort = A.destPort AND S.timestamp <= A.timestamp AND A.timestamp <= S.timestamp + 3 s"
QUERIES = f"""
DEFINE {{ query_name 'unanswered'; }}
SELECT S.time, S.srcPort AS port FROM main1.TCP S LEFT {JOIN} WHERE A.destPort IS NULL;
DEFINE {{ query_name 'answered'; }}
SELECT S.time, A.destPort AS port FROM main1.TCP S INNER {JOIN};
DEFINE {{ query_name 'tries'; }}
SELECT S.time, S.srcPort AS port, A.len AS len FROM main1.TCP S LEFT {JOIN};
DEFINE {{ query_name 'counted'; }}
SELECT tb, count(*) AS n FROM main1.TCP GROUP BY time/60 AS tb;
"""


def _lake(folder: Path) -> Path:
    asked = [((BEGIN + 60 * at) * SECOND, tcp("10.0.0.1", "192.0.2.1", 2000 + at, 443, SYN)) for at in range(50)]
    answers = [(at + SECOND // 9, tcp("192.0.2.1", "10.0.0.1", 443, 2000 + 2 * n, SYN | ACK)) for n, (at, _) in
               enumerate(asked[::2])]  # fmt: skip
    for link, frames in (("main1", asked), ("main2", answers)):
        (folder / f"{link}_2026010100.pcap").write_bytes(pcap_bytes(frames, nanoseconds=True))
    (folder / "lowwater.toml").write_text(SETTINGS)
    (folder / "joins.gsql").write_text(QUERIES)
    assert lowwater("ingest", "--lake", folder).code == 0
    return folder


def _rows(lake: Path, query: str) -> int:
    return len(lowwater("rows", query, "--lake", lake, "--format", "csv").out.splitlines()) - 1


def test_plan_says_which_rows_are_stale_and_says_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = _lake(tmp_path)
    with monkeypatch.context() as before:
        before.setattr(ops.Join, "untied", lambda self: {})  # so the key of its inputs has no word of the rule
        assert lowwater("backfill", "--lake", lake).code == 0
    said = " ".join(lowwater("plan", "--lake", lake).out.split())
    rule = "the rule for a side without a partner: all of its columns are NULL"
    told = f"the rule of join is version 3 (since 0.3): {rule}"
    assert f"unanswered: 2 hours stale: {told}, 2026-01-01T00:00:00Z to 2026-01-01T02:00:00Z" in said
    states = [line.split() for line in lowwater("status", "--lake", lake).out.splitlines() if "2026-01-01T00" in line]
    assert {words[2]: words[3] for words in states} == {
        "unanswered": "stale", "answered": "done", "tries": "done", "counted": "done",
    }  # fmt: skip
    assert lowwater("backfill", "--lake", lake).code == 0
    assert "nothing is due" in lowwater("plan", "--lake", lake).out
    assert (_rows(lake, "unanswered"), _rows(lake, "answered"), _rows(lake, "tries")) == (25, 25, 50)
