"""Rule T6: an interval that a file falls into which lies there and is not read is incomplete, and says which (T9)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lowwater.instants import HOUR, SECOND
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.runs import read_quality
from lowwater.replay.schedule.due import statuses
from tests.capturemaker import pcap_bytes, udp
from tests.replay.support import QUERIES, START, commits, lowwater, replay_range, table_rows

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

QUERY = """DEFINE { query_name 'perhour'; }
SELECT tb, count(*) AS packets FROM cap.UDP GROUP BY time/3600 AS tb
"""


def hour(folder: Path, number: int, part: int = 0, parts: int = 1) -> Path:
    """A part of an hour of 180 packets, as `tcpdump` names it."""
    folder.mkdir(exist_ok=True)
    name = f"cap_20260101{number:02}.pcap" + (str(part) if part else "")
    seconds = [3600 * number + 20 * at for at in range(180 * part // parts, 180 * (part + 1) // parts)]
    (folder / name).write_bytes(
        pcap_bytes([(START + second * SECOND, udp("10.0.0.1", "10.0.0.2", 4000, 53)) for second in seconds])
    )
    return folder / name


@pytest.fixture
def spilled(tmp_path: Path) -> tuple[Path, Path]:
    """A lake with two whole hours, and the folder of its captures."""
    lake, folder = tmp_path / "lake", tmp_path / "cap"
    lake.mkdir()
    (lake / "q.gsql").write_text(QUERY)
    (lake / "lowwater.toml").write_text(
        '[query_sets.q]\nfiles = ["q.gsql"]\n'
        '[links.cap]\ncaptures = "../cap/cap_%Y%m%d%H.pcap"\nrotation = "1h"\nsince = "2026-01-01T00:00:00Z"\n'
    )
    hour(folder, 0), hour(folder, 1)
    return lake, folder


def shown(lake: Path) -> list[tuple[str, str]]:
    return [(row.state, row.reason) for row in statuses(lake, QUERIES)]


def run(lake: Path, runner: Runner, first: int, last: int) -> list[tuple[str, bool]]:
    done = replay_range(lake, runner, START + first * HOUR, START + (last + 1) * HOUR, query_set="q")
    return [(each.state, each.committed) for each in done]


def packets(lake: Path) -> list[int]:
    return [row[2] for row in table_rows(lake, "perhour", 0, 1 << 62)]


@pytest.mark.slow
def test_a_spill_makes_its_hour_incomplete_until_it_is_read_or_set_aside(
    spilled: tuple[Path, Path], runner: Runner
) -> None:
    lake, folder = spilled
    at = ("--lake", lake, "--queries", QUERIES)
    assert lowwater("ingest", "--lake", lake).code == 0
    assert run(lake, runner, 0, 0) == [("done", True)]
    hour(folder, 0, 1, 3).rename(folder / "late.pcap")  # nobody claims it, and the hour is published already
    for part in range(3):
        hour(folder, 2, part, 3)
    hour(folder, 3)
    said = lowwater("ingest", "--lake", lake)
    assert (
        said.code == 0
        and "3 files lie in the folder and no pattern claims them, 180 records, from 2026-01-01T00:20" in (said.err)
    )
    assert shown(lake)[0] == ("incomplete", "link 'cap': not read: late.pcap (no pattern claims it)")
    assert run(lake, runner, 1, 2) == [("done", True), ("incomplete", True)]
    reason = (
        "link 'cap': not read: cap_2026010102.pcap1 (no pattern claims it), cap_2026010102.pcap2 (no pattern claims it)"
    )
    assert shown(lake)[1:3] == [("done", ""), ("incomplete", reason)]
    quality = read_quality(open_lake(lake), "q", START + 2 * HOUR, START + 3 * HOUR).to_pylist()
    warned = {row["kind"]: row["messages"] for row in quality if not row["success"] and row["suite"] == "links"}
    assert "cap_2026010102.pcap1" in warned["link_to_have_nothing_unread"], "beside its silence to the end"
    assert packets(lake) == [180, 180, 60]
    for command in ("plan", "status", "report"):
        out = lowwater(command, *at).out
        assert "not read: link 'cap': 3 files lie in the folder" in out and "late.pcap" in out
    (line, hint) = json.loads(lowwater("plan", *at, "--format", "json").out)["files"]
    assert "late.pcap" in line and hint.startswith("hint: ")
    # Nothing is due: a run could not read more.
    assert [row["from"] for row in json.loads(lowwater("plan", *at, "--format", "json").out)["intervals"]] == [
        "2026-01-01T03:00:00Z"
    ]

    before = commits(lake)
    aside = ("set-aside", "--lake", lake, "late.pcap", "*.pcap[12]", "--reason", "of the test bench", "--by", "me")
    assert lowwater(*aside).code == 0
    assert [state for state, _ in shown(lake)[:3]] == ["done", "done", "incomplete"]
    (due, _) = json.loads(lowwater("plan", *at, "--format", "json").out)["intervals"]
    assert (due["state"], due["packets"], due["from"]) == ("incomplete", 0, "2026-01-01T02:00:00Z")
    assert run(lake, runner, 0, 2) == [("done", False)] * 3 and commits(lake) == before  # its rows stay
    assert [state for state, _ in shown(lake)[:3]] == ["done"] * 3
    assert "3 files set aside by me, 180 records" in (out := lowwater("report", *at).out) and "of the test bench" in out

    assert lowwater("set-aside", "--lake", lake, "*.pcap[12]", "--undo").code == 0
    assert shown(lake)[2] == ("incomplete", reason)
    settings = lake / "lowwater.toml"
    settings.write_text(
        settings.read_text().replace("rotation", "gap_tolerance = '1min'\n# ").replace("%H.pcap", "%H.pcap*")
    )
    assert lowwater("ingest", "--lake", lake).code == 0
    assert shown(lake)[2][0] == "stale"
    assert run(lake, runner, 2, 2) == [("done", True)] and packets(lake) == [180, 180, 180]
