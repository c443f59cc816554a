"""A log of csv beside a capture, from `init` over a run that is killed to the review pages: the same rules for both."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lowwater.lake.layout import MALFORMED, QUALITY, open_lake
from lowwater.lake.open_tables import existing
from lowwater.lake.tables import read_rows
from lowwater.replay.job import Job
from lowwater.replay.schedule.backfill import backfill
from lowwater.replay.schedule.due import DueSelection, due
from tests.capturemaker import pcap_bytes, tcp
from tests.cli.test_ctrl_c import AT_WORK
from tests.replay.support import leftovers, lowwater

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

BEGIN, HOUR, SECOND = 1_767_225_600, 3600, 1_000_000_000
HOURS, STEP = 2, 2
QUERY = """DEFINE { query_name 'seen'; visibility 'internal'; }
SELECT tb, srcIP, count(*) AS packets FROM wire.TCP GROUP BY time/60 AS tb, srcIP;
DEFINE { query_name 'logged'; visibility 'internal'; }
SELECT tb, src, count(*) AS lines, sum(bytes) AS bytes FROM web.WEB GROUP BY time/60 AS tb, src;
DEFINE { query_name 'beside'; }
SELECT CASE WHEN s.tb IS NOT NULL THEN s.tb ELSE l.tb END AS tb,
    CASE WHEN s.srcIP IS NOT NULL THEN s.srcIP ELSE l.src END AS srcIP, s.packets, l.lines, l.bytes
FROM seen s FULL JOIN logged l ON s.tb = l.tb AND s.srcIP = l.src
"""


def write(folder: Path) -> tuple[Counter[tuple[int, str]], Counter[tuple[int, str]], Counter[tuple[int, str]]]:
    """Captures and logs of some hours; packets, lines and bytes by minute and client. One line an hour is damaged."""
    packets, lines, sizes = Counter[tuple[int, str]](), Counter[tuple[int, str]](), Counter[tuple[int, str]]()
    folder.mkdir()
    for hour in range(HOURS):
        name, first = f"20260101T{hour:02}", BEGIN + hour * HOUR
        frames, text = [], ["time,src,bytes\n"]
        for at in range(first, first + HOUR, STEP):
            client = f"10.0.0.{at // STEP % 5 + 1}"
            frames.append((at * SECOND, tcp(client, "192.0.2.1", 1024, 80)))
            packets[at // 60, client] += 1
            if at % 7 == 0:
                continue
            text.append(f"{at},{client},{at % 1000}\n")
            lines[at // 60, client] += 1
            sizes[at // 60, client] += at % 1000
        text[5:5] = [f"{first + 8},10.0.0.1,many\n"]
        (folder / f"wire_{name}.pcap").write_bytes(pcap_bytes(frames, nanoseconds=True))
        (folder / f"web_{name}.csv").write_text("".join(text))
    return packets, lines, sizes


def killed_before_its_audit(lake: Path, queries: Path) -> None:
    """Kills the process of a first run once the queries are evaluated; `test_crash` does so with Spark."""
    words = [sys.executable, "-c", AT_WORK, "audit", "replay", "beside", "--lake", str(lake), "--queries", str(queries)]
    words += ["--from", "2026-01-01T00:00Z", "--to", "2026-01-01T01:00Z", "--spark", "none"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        said = []
        while (line := child.stderr.readline()) != "at work\n":
            said.append(line)
            assert line, said
        child.kill()
    assert [*(lake / "_work").glob("run_of_beside*/*")], "there is something for the next run to clear"


@pytest.mark.slow
def test_records_and_packets_from_init_to_the_pages(tmp_path: Path, runner: Runner) -> None:
    packets, lines, sizes = write(tmp_path / "in")
    lake, query = tmp_path / "lake", tmp_path / "beside.gsql"
    query.write_text(QUERY)
    for words in (("init", tmp_path / "in", "--lake", lake, "--query", query), ("ingest", "--lake", lake)):
        said = lowwater(*words)
        assert said.code == 0, said.err
    settings = (lake / "lowwater.toml").read_text()
    assert 'kind = "csv"' in settings and "[links.wire]" in settings
    killed_before_its_audit(lake, tmp_path)
    assert not (lake / "tables").exists()
    job = Job.open(lake, "beside", tmp_path)
    published = set()
    for each in (job, replace(job, through_end=True)):
        tried = backfill([each], due(each, DueSelection()), runner=runner)
        published |= {one.due.start for one in tried if one.published}
    assert published == {(BEGIN + hour * HOUR) * SECOND for hour in range(HOURS)}, tried

    table = existing(lake / "tables" / "beside")
    rows = table.to_pyarrow_table(columns=["tb", "srcIP", "packets", "lines", "bytes"]).to_pylist()
    assert len(rows) == len(packets)
    for row in rows:
        key = row["tb"], row["srcIP"]
        assert row["packets"] == packets[key]
        assert (row["lines"], row["bytes"]) == ((lines[key], sizes[key]) if lines[key] else (None, None))

    assert leftovers(lake) == []
    opened = open_lake(lake)
    malformed = read_rows(opened.malformed, MALFORMED).to_pylist()
    assert [(row["link"], row["reason"], row["line"]) for row in malformed] == [("web", "value of bytes", 6)] * HOURS
    audited = read_rows(opened.quality, QUALITY).to_pylist()
    assert {row["suite"] for row in audited} >= {"links", "lftas", "queries"}
    assert {row["evaluated"] for row in audited if row["suite"] == "links"} == {2}
    assert not [row for row in audited if not row["success"] and row["severity"] == "critical"]

    for words, parts in (
        (("status",), ("web", "wire")),
        (("skew", "--link", "web"), ("web",)),
        (("report",), ("beside",)),
        (("rows", "beside", "--format", "json"), ("10.0.0.1",)),
        (("report", "--html", tmp_path / "site"), ()),
    ):
        said = lowwater(words[0], *words[1:], "--lake", lake)
        assert said.code == 0 and all(part in said.out for part in parts), said
    site = tmp_path / "site"
    skew = (site / "skew" / "web.html").read_text()
    assert "web" in skew
    (page, *_) = sorted((site / "interval" / "beside").glob("*.html"))
    shown = page.read_text()
    assert "value of bytes" in shown and "web" in shown and "wire" in shown
