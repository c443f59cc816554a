"""The task `find` of `capture_ingest` lists the files of its interval, and looks into the folders of the links (T9)."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lowwater.config import load_config
from lowwater.instants import HOUR
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.ingestion.setting_aside import set_aside
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.missing import KnownMissing
from lowwater.lake.ledgers.seen import read_seen
from tests.lake.support import BASE, capture


@pytest.mark.slow
def test_find_keeps_the_ledger_of_files(plugins: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from lowwater_airflow.operators import FindCaptures

    root, folder = tmp_path / "lake", tmp_path / "cap"
    root.mkdir()
    (root / "lowwater.toml").write_text('[links.a]\ncaptures = "../cap/a_%Y%m%d%H.pcap"\nrotation = "1h"\n')
    first, spill = capture(folder / "a_2027011508.pcap", [1, 2]), capture(folder / "a_2027011508.pcap1", [3, 4])
    later = capture(folder / "a_2027011509.pcap", [3601])
    for path in (first, spill, later):
        os.utime(path, (0, 0))

    def find(hour: int) -> list[str]:
        context: Any = {
            "data_interval_start": datetime.fromtimestamp(BASE // 10**9 + 3600 * hour, UTC),
            "data_interval_end": datetime.fromtimestamp(BASE // 10**9 + 3600 * (hour + 1), UTC),
        }
        return [each["path"] for each in FindCaptures(task_id="find", lake=root).execute(context)]

    assert find(0) == [str(first)]
    out = capsys.readouterr().out
    assert "1 file lies in the folder and no pattern claims it, 2 records" in out
    assert "not ingested" not in out  # the next tasks do that
    lake, config = open_lake(root), load_config(root)
    ingest(lake, "a", [first], config)  # as the mapped task does, without another look
    states = {row.name: row.state for row in read_seen(lake).values()}
    assert states == {first.name: "read", spill.name: "unclaimed", later.name: "not ingested"}
    known, begins = KnownMissing(lake, config, {}), [BASE + hour * HOUR for hour in range(3)]
    assert [len(known.of({"a": begin}, begin, begin + HOUR)) for begin in begins] == [1, 1, 0]
    set_aside(lake, config, [later.name], "a test of the tap", "me")
    assert find(1) == []
