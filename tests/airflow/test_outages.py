"""A full disk and an absent store are waited for, and a failure that could not be written is told afterwards."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lowwater.errors import AwayError
from lowwater.lake.layout import lake_to_read
from lowwater.lake.ledgers import runs
from lowwater.lake.ledgers.runs import read_replays
from lowwater.replay.interval import replay
from lowwater.replay.progress import Progress
from lowwater.replay.schedule.due import statuses
from lowwater.storage import objects
from tests.airflow.test_keeping import FAR, Task
from tests.replay.test_looks import at, lake_of
from tests.storage.conftest import proxy, root, server
from tests.storage.servers import Proxy, Rule

__all__ = ["proxy", "root", "server"]
pytestmark = pytest.mark.slow


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on a disk of its own, of 16 MB."""
    monkeypatch.setattr(runs, "cache_folder", lambda: tmp_path)
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "none", folder], check=False).returncode:
        pytest.skip("a disk can only be mounted by root")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(disk: Path) -> Path:
    """Takes all room of a disk but a page; returns the file that does."""
    path = disk / "filler"
    path.write_bytes(bytes(os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize - 4096))
    return path


def look(lake: Any, queries: Path) -> Any:
    from lowwater_airflow.keeping import LookAtSet

    return LookAtSet(task_id="look", query_set="q", lake=lake, queries=queries)


def test_a_full_disk_is_waited_for_and_what_failed_is_told_by_who_can_write(
    plugins: None, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk.exceptions import TaskDeferred

    from lowwater_airflow import retries

    job = lake_of(disk, [0], more=FAR)
    lake = job.lake.root
    monkeypatch.setenv("LOWWATER_LAKE", str(lake))
    told: list[str] = []
    monkeypatch.setattr(retries, "hindered", lambda context, said: told.append(said))
    job.prepare()
    filler = fill(disk)
    with pytest.raises(AwayError, match="No space left"):
        replay(job, at(0), at(1), None, Progress(quiet=True))
    assert {row.state for row in statuses(lake, disk)} == {"missing"}, "the disk is full"

    waited = []
    again: dict[str, Any] = {}
    for _ in range(retries.TOLD):
        task = look(lake, disk)
        with pytest.raises(TaskDeferred) as waits:
            task.again(Task().context, None, **again) if again else task.execute(Task().context)
        again = waits.value.kwargs
        waited.append(again["pauses"])
    assert waited == [1, 2, 3] and len(told) == 1 and "No space left" in told[0]
    with pytest.raises(AwayError):
        look(lake, disk).again(Task().context, None, since=again["since"] - 24 * 3600, pauses=9)

    filler.unlink()
    look(lake, disk).again(Task().context, None, **again)
    (failed,) = read_replays(lake_to_read(lake))
    assert (failed.state, failed.stage, failed.interval_start) == ("failed", "low", at(0))
    assert "No space left" in failed.reason
    assert [row.state for row in statuses(lake, disk)][:1] == ["failed"]


def test_a_store_that_is_away_is_waited_for_and_dags_stay(
    plugins: None, tmp_path: Path, proxy: Proxy, root: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk.exceptions import TaskDeferred

    from lowwater.config import SECTIONS, kept_sections
    from lowwater.errors import AwayError
    from lowwater.lake.layout import open_lake
    from lowwater.storage import paths
    from lowwater_airflow import settings
    from lowwater_airflow.settings import Settings

    monkeypatch.setattr(settings, "cache_folder", lambda: tmp_path)
    monkeypatch.setenv("LOWWATER_STORE_PATIENCE", "0.2")
    monkeypatch.setenv("LOWWATER_LAKE", str(root))
    monkeypatch.setenv("LOWWATER_QUERIES", str(tmp_path))
    here = lake_of(tmp_path, [0], more=FAR)
    paths.write(root / "lowwater.toml", (here.lake.root / "lowwater.toml").read_bytes())
    paths.write(root / SECTIONS, b'{"ended": {"section": {"skew": "2s"}}}')
    open_lake(root)
    assert Settings.load().query_sets() == ["q"] and Settings.load().config.ended.keys() == {"ended"}
    found = look(root, tmp_path).execute(Task().context)
    proxy.breaks(Rule("refused"))
    objects.look_again()
    assert Settings.load().query_sets() == ["q"] and Settings.load().config.ended.keys() == {"ended"}
    with pytest.raises(AwayError, match=r"sections\.json: cannot be read"):
        kept_sections(root)
    with pytest.raises(TaskDeferred) as waits:
        look(root, tmp_path).execute(Task().context)
    proxy.breaks()
    objects.look_again()
    later = look(root, tmp_path).again(Task().context, None, **waits.value.kwargs)
    assert found and list(later) == [], "it was told before that nothing can run"
