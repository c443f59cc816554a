"""The task of `capture_ingest` takes the files of its interval, and looks into the folders of the links (T9)."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lowwater.config import load_config
from lowwater.instants import HOUR
from lowwater.lake.ingestion.folders import set_aside
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.files import read_seen
from lowwater.lake.ledgers.missing import KnownMissing
from tests.airflow.test_keeping import Task
from tests.lake.support import BASE, capture


@pytest.mark.slow
def test_ingest_of_an_interval_keeps_the_ledger_of_files(
    plugins: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from lowwater_airflow.operators import IngestCaptures

    root, folder = tmp_path / "lake", tmp_path / "cap"
    root.mkdir()
    (root / "lowwater.toml").write_text(
        "".join(f'[links.{link}]\ncaptures = "../cap/{link}_%Y%m%d%H.pcap"\nrotation = "1h"\n' for link in "ab")
    )
    lake, config = open_lake(root), load_config(root)
    first, spill = capture(folder / "a_2027011508.pcap", [1, 2]), capture(folder / "a_2027011508.pcap1", [3, 4])
    later = capture(folder / "a_2027011509.pcap", [3601])
    (folder / "b_2027011508.pcap").write_bytes(b"no capture at all")
    for path in (first, spill, later):
        os.utime(path, (0, 0))

    def ingested(hour: int) -> tuple[list[str], dict[str, Any] | None]:
        task = Task()
        context: Any = task.context | {
            "data_interval_start": datetime.fromtimestamp(BASE // 10**9 + 3600 * hour, UTC),
            "data_interval_end": datetime.fromtimestamp(BASE // 10**9 + 3600 * (hour + 1), UTC),
        }
        found = IngestCaptures(task_id="ingest", lake=root).execute(context)
        (told,) = [event.extra for event in task.events.values()] or [None]
        assert bool(task.task.outlets) == bool(told), "an event of nothing new would begin looks"
        return [each["title"].partition(" ")[2] for each in found], told

    refused = ["b_2027011508.pcap"]
    assert ingested(0) == (refused, {"captures": [first.name], "packets": {"a": 2}}), "the others are ingested"
    out = capsys.readouterr().out
    assert "1 file lies in the folder and no pattern claims it, 2 records" in out
    assert ingested(0) == (refused, None)
    states = {row.name: row.state for row in read_seen(lake).values()}
    told = {first.name: "read", spill.name: "unclaimed", later.name: "not ingested", refused[0]: "refused"}
    assert states == told
    known, begins = KnownMissing(lake, config, {}), [BASE + hour * HOUR for hour in range(3)]
    assert [len(known.of({"a": begin}, begin, begin + HOUR)) for begin in begins] == [1, 1, 0]
    set_aside(lake, config, [later.name], "a test of the tap", "me")
    assert ingested(1) == ([], None)
