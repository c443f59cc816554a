"""The upkeep of Airflow's DAG `lowwater_maintain`: it keeps what `[retention]` says, and the hours stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowwater.lake.layout import lake_to_read
from lowwater.lake.packets import PacketFiles
from tests.airflow.test_keeping import Task
from tests.replay.test_kept_hours import Old


@pytest.mark.nightly
@pytest.mark.slow
def test_packets_go_by_a_run_of_airflow(plugins: None, tmp_path: Path) -> None:
    from lowwater_airflow.operators import MaintainLake, VerifyLake

    lake, task = Old(tmp_path), Task()
    lake.retain()
    removed = MaintainLake(task_id="maintain", lake=lake.root).execute(task.context)
    assert removed["removed packets"] > 1000 and {*PacketFiles.of(lake_to_read(lake.root)).horizons} == {"a", "b"}
    assert lake.words() == ["done", "done", "done", "provisional"] and lake.counts() == [30] * 4
    assert "removed packets" not in MaintainLake(task_id="maintain", lake=lake.root).execute(task.context)
    read = VerifyLake(task_id="verify", lake=lake.root, days=1).execute(task.context)
    assert read["compared"] > 0
