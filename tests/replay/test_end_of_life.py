"""What waits for records that never come goes at the end of the links' life, whatever the intervals are."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lowwater_generator import generate

from lowwater.instants import HOUR, SECOND, format_instant
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.open_tables import existing
from lowwater.replay.job import Job
from lowwater.replay.schedule.backfill import backfill
from lowwater.replay.schedule.due import DueSelection, due, end_of_rows, statuses
from tests.replay.support import QUERIES, START, lowwater, query_columns, table_rows

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

MINUTE = 60 * SECOND
RECORDS = 22 * MINUTE
"""How long packets come; the captures cover the half hour, and the link ends 23 s before it."""
UNTIL = START + 30 * MINUTE - 23 * SECOND

TEXT = """DEFINE { query_name 'open'; }
SELECT tb, srcIP, count(*) AS n, sum(len) AS s, running_sum(len) AS r FROM main1.DataProtocol
GROUP BY time/60 AS tb, srcIP CLOSING_WHEN running_sum(len) > 4000;
DEFINE { query_name 'idle'; }
SELECT tb, srcIP, count(*) AS n FROM main1.DataProtocol GROUP BY time/90 AS tb, srcIP CLOSING_WHEN count(*) = 0;
DEFINE { query_name 'counted'; }
SELECT wid, count(*) AS n, sum(len) AS s FROM main1.DataProtocol [RANGE 50 ROWS, SLIDE 30 ROWS];
DEFINE { query_name 'sliding'; }
SELECT wid, count(*) AS n FROM main1.DataProtocol [RANGE 10 min, SLIDE 4 min, WA time];
DEFINE { query_name 'pairs'; }
SELECT A.time AS ta, B.time AS tb LEFT_OUTER_JOIN FROM main1.TCP A, main1.UDP B
WHERE A.time <= B.time AND B.time <= A.time + 200 AND A.srcIP = B.destIP
"""
QUERIES_OF = ("open", "idle", "counted", "sliding", "pairs")


def lake_of(folder: Path, capture: Path, length: str, until: int | None = UNTIL) -> Path:
    """A lake whose link ends at an instant (ns), or goes on."""
    folder.mkdir()
    (folder / "ends.gsql").write_text(TEXT, encoding="utf-8")
    lines = [f'[interval]\nlength = "{length}"', f'[query_sets.ends]\nfiles = ["{folder / "ends.gsql"}"]']
    life = [f'since = "{format_instant(START)}"'] + ([f'until = "{format_instant(until)}"'] if until else [])
    lines.append("\n".join(["[links.main1]", 'skew = "1s"', *life]))
    (folder / "lowwater.toml").write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    covers = f"{format_instant(START)}/{format_instant(START + 30 * MINUTE)}"
    done = lowwater("ingest", "--lake", folder, "--link", "main1", "--covers", covers, capture)
    assert done.code == 0, done
    return folder


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packets of 22 minutes."""
    (made, *_) = generate(tmp_path_factory.mktemp("ends"), START, 1, ["main1"], rate=0.5, seed=3)
    kept = made.path.with_name("kept.pcap")
    packets = made.path.read_bytes()
    kept.write_bytes(packets[: _place(packets, START + RECORDS)])
    return kept


def _place(data: bytes, instant: int) -> int:
    """Where the first record at or after an instant (ns) begins in a pcap file of microseconds."""
    at = 24
    while at < len(data):
        seconds, _, length = (int.from_bytes(data[at + skip : at + skip + 4], "little") for skip in (0, 4, 8))
        if seconds * SECOND >= instant:
            return at
        at += 16 + length
    return at


def listed(lake: Path) -> list[tuple[int, int]]:
    """The intervals that are due, in minutes from the start."""
    found = due(Job.open(lake, "ends", QUERIES), DueSelection(None, None))
    assert all(not each.blocked for each in found)
    return [((each.start - START) // MINUTE, (each.end - START) // MINUTE) for each in found]


@pytest.mark.slow
def test_intervals_are_listed_up_to_the_last_row_that_can_be(capture: Path, tmp_path: Path) -> None:
    """The last one is cut by `until`; windows of 10 minutes and bands of 200 s end behind it."""
    lake = lake_of(tmp_path / "short", capture, "6 min")
    job = Job.open(lake, "ends", QUERIES)
    captures = read_captures(open_lake(lake), ["main1"])
    # The last window begins at minute 28 and ends with minute 38.
    assert end_of_rows(job, captures) == START + 38 * MINUTE
    assert listed(lake) == [(at, at + 6) for at in range(0, 42, 6)]
    without = lake_of(tmp_path / "on", capture, "6 min", until=None)
    assert end_of_rows(Job.open(without, "ends", QUERIES), job.captures()) == 0
    assert listed(without) == [(at, at + 6) for at in range(0, 30, 6)]


@pytest.mark.nightly
@pytest.mark.slow
def test_rows_at_the_end_of_life_do_not_depend_on_the_intervals(capture: Path, tmp_path: Path, runner: Runner) -> None:
    found = {}  # of 9 minutes the fourth holds the end, and the fifth owns windows that end behind it
    for length in ("2h", "9 min"):
        lake = lake_of(tmp_path / length.replace(" ", ""), capture, length)
        job = Job.open(lake, "ends", QUERIES)
        tried = backfill([job], due(job, DueSelection(None, None)), 1, runner=runner)
        assert {each.state for each in tried} == {"done"}
        assert {row.state for row in statuses(lake, QUERIES)} == {"done"}
        found[length] = {name: table_rows(lake, name, 0, 1 << 62) for name in QUERIES_OF}
        assert all(found[length].values())
    assert found["2h"] == found["9 min"]
    # Idle epochs go on behind the last packet, and end with that in which the link does.
    names = sorted(("tb", "srcIP", "n", "s", "r", "_last", "_hour"))
    ends = {row[names.index("_last")] for row in found["2h"]["open"]}
    assert max(ends) == START + 30 * MINUTE - 1
    assert {at for at in ends if at >= START + RECORDS} == {START + at * MINUTE - 1 for at in range(23, 31)}


@pytest.mark.slow
def test_a_lake_whose_link_ends_with_its_last_record_has_the_rows_of_a_run(
    capture: Path, tmp_path: Path, runner: Runner
) -> None:
    lake = lake_of(tmp_path / "lake", capture, "14 min", until=START + HOUR)
    (row,) = Job.open(lake, "ends", QUERIES).captures()["main1"]
    settings = lake / "lowwater.toml"
    text = settings.read_text(encoding="utf-8")
    assert row.largest is not None
    last = row.largest + 1
    exact = f"{format_instant(last // SECOND * SECOND)[:-1]}.{last % SECOND:09d}Z"
    settings.write_text(text.replace(format_instant(START + HOUR), exact), encoding="utf-8")
    job = Job.open(lake, "ends", QUERIES)
    backfill([job], due(job, DueSelection(None, None)), 1, runner=runner)
    out = tmp_path / "out"
    asked = ("run", lake / "ends.gsql", "--capture", f"main1={capture}", "--out", out, "--engine", "reference")
    assert lowwater(*asked).code == 0
    for name in QUERIES_OF:
        with (out / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            shown = sorted(tuple(sorted(each.items())) for each in csv.DictReader(file))
        table = existing(lake / "tables" / name)
        rows = query_columns(table.to_pyarrow_table()).to_pylist()
        wanted = [{key: "" if value is None else str(value) for key, value in each.items()} for each in rows]
        assert sorted(tuple(sorted(each.items())) for each in wanted) == shown and shown, name
