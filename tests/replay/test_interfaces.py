"""Interfaces of a link that come and go (T1, T5): rows, states and messages, whatever the order of ingest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lowwater.config import load_config
from lowwater.documents import FILE_NAME
from lowwater.instants import HOUR
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.open_tables import existing
from lowwater.replay.job import Job
from lowwater.replay.schedule.backfill import backfill
from lowwater.replay.schedule.due import DueSelection, due, statuses
from tests.lake.support import BASE
from tests.lake.test_interfaces import pcapng
from tests.replay.support import lowwater

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

HOURS = [["以太网", "无线网"], ["无线网", "以太网"], ["无线网"], ["以太网", "无线网"]]
"""Interfaces that the file of each hour declares: other places in hour 1, an adapter unplugged in hour 2."""
QUERY = """DEFINE { query_name 'hourly'; }
SELECT tb, link, count(*) AS packets FROM pc.DataProtocol GROUP BY time/3600 AS tb, link"""


def take_in(lake: Lake, folder: Path, hour: int) -> str:
    names = HOURS[hour]
    packets = [(hour * 3600 + 60 * minute, at) for minute in range(60) for at in range(len(names))]
    path = pcapng(folder / f"pc-{hour}.pcapng", names, packets)
    covers = (BASE + hour * HOUR, BASE + (hour + 1) * HOUR)
    return ingest(lake, "pc", [path], load_config(lake.root), covers)[0].note


def run(lake: Lake, queries: Path, runner: Runner) -> None:
    job = Job.open(lake.root, "q", queries)
    backfill([job], due(job, DueSelection(None, None)), runner=runner)


@pytest.mark.slow
def test_an_hour_with_an_adapter_unplugged_is_covered_and_named(tmp_path: Path, runner: Runner) -> None:
    (queries := tmp_path / "queries").mkdir()
    (queries / "q.gsql").write_text(QUERY, encoding="utf-8")
    lakes = {name: open_lake(tmp_path / name) for name in ("together", "by hour", "backwards")}
    for lake in lakes.values():
        (lake.root / FILE_NAME).write_text("[links.pc]\n")
    for hour in range(4):
        take_in(lakes["together"], tmp_path, hour)
        note = take_in(lakes["by hour"], tmp_path, hour)
        assert ("it does not declare pc/以太网" in note) == (hour == 2)
        run(lakes["by hour"], queries, runner)
        take_in(lakes["backwards"], tmp_path, 3 - hour)
        run(lakes["backwards"], queries, runner)
    run(lakes["together"], queries, runner)
    expected = sorted((BASE // HOUR + hour, f"pc/{name}", 60) for hour, names in enumerate(HOURS) for name in names)
    for lake in lakes.values():
        table = existing(lake.table("hourly"))
        rows = table.to_pyarrow_table().select(["tb", "link", "packets"]).to_pylist()
        assert sorted(tuple(row.values()) for row in rows) == expected
        assert [row.state for row in statuses(lake.root, queries)] == ["done"] * 3 + ["provisional"]
        said = lowwater("report", "--lake", lake.root, "--queries", queries)
        assert "link 'pc/以太网': 1 capture does not declare this interface: pc-2.pcapng (2027-01-15T10:" in said.out
        said = lowwater("report", "--lake", lake.root, "--queries", queries, "--interval", "2027-01-15T10:00:00Z")
        assert "the interface is not declared by 1 capture" in said.out and "warned" in said.out, said
