"""The control of `make endurance-cluster`: whom it kills, and when an interval is over, with programs for tasks."""

from __future__ import annotations

import random
import sys
import threading
from collections import Counter, defaultdict, deque
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lowwater.storage.object_paths import ObjectPath
from tests.airflow.conftest import script
from tests.replay.support import ROOT

sys.path.insert(0, str(ROOT / "scripts"))  # where it finds the modules beside it
endurance = script("endurance_cluster")
sys.path.remove(str(ROOT / "scripts"))
STAGES, VICTIMS = endurance.STAGES, endurance.VICTIMS
TASK = """
import sys, time
first, last = map(int, sys.argv[1:])
print("INFO:task:  session: 0.1 s", flush=True)
for number in range(first, last):
    for stage in ("low", "high", "audit", "publish"):
        time.sleep(0.15)
        print(f"INFO:task:  {stage} demo 2026-01-01T{number:02d}:00:00Z: 0.2 s", flush=True)
"""


class Lane(endurance.Lane):  # type: ignore[misc, name-defined]
    """A lake whose task is a program that only says what a task says."""

    def _task(self, first: int, last: int, tried: int) -> Any:
        return self._started([sys.executable, "-c", TASK, str(first), str(last)], f"try {tried}")


@pytest.fixture
def lanes(tmp_path: Path) -> list[Lane]:
    (tmp_path / "logs").mkdir()
    run = endurance.Run(tmp_path, 24, random.Random(3))
    lengths: dict[str, deque[float]] = defaultdict(lambda: deque([0.15], 20))
    alive = SimpleNamespace(
        names=["worker0", "worker1", "master", "s3"], workers=2, kill=lambda _: None, revive=lambda _: None,
        executors=lambda _: [], environment=dict,
    )  # fmt: skip
    alone = threading.Lock()
    run.lanes.extend([Lane(run, alive, ObjectPath("s3:", "lakes", f"{number}"), lengths, alone) for number in range(2)])
    return list(run.lanes)


def test_every_victim_is_drawn_for_every_stage(tmp_path: Path) -> None:
    run = endurance.Run(tmp_path, 24, random.Random(3))
    for _ in range(sum(VICTIMS.values()) * len(STAGES)):
        run.kill(STAGES)
    assert run.drawn == Counter({(victim, stage): VICTIMS[victim] for victim in VICTIMS for stage in STAGES})
    later = endurance.Run(tmp_path, 24, random.Random(4), Counter(run.drawn))
    later.drawn["driver", "audit"] = 0
    assert (lambda kill: (kill.victim, kill.stage))(later.kill(STAGES)) == ("driver", "audit")
    few = endurance.Run(tmp_path, 24, random.Random(3), victims=("server", "worker", "driver"), stages=("low", "high"))
    for _ in range(6):
        few.kill(few.stages)
    assert set(few.drawn.values()) == {1} and len(few.drawn) == 6, "each pair once before one comes again"


@pytest.mark.slow
def test_a_machine_that_dies_is_the_kill_of_every_lake(lanes: list[Lane]) -> None:
    for lane, stage in zip(lanes, ("low", "audit"), strict=True):
        lane._enter(stage, endurance.Kill("worker", stage, 0.0))
    lanes[0]._strike(lanes[0]._kill, None)
    assert [(lane._kill.killed[:6], lane._kill.during) for lane in lanes] == [("worker", "low"), ("worker", "audit")]


@pytest.mark.slow
def test_each_victim_dies_in_each_stage_and_its_task_is_tried_again(
    lanes: list[Lane], monkeypatch: pytest.MonkeyPatch
) -> None:
    (lane, _) = lanes
    run = replace(lane.run, victims=("task", "driver"), stages=("low", "audit"), each=1)
    monkeypatch.setattr(lane, "run", run)
    assert len(run.missing()) == 4
    found = list(lane._replayed(0, 24))
    assert [number for number, *_ in found] == list(range(len(found)))
    kills = [kill for _, kill, *_ in found if kill.killed]
    assert not run.missing() and set(run.killed.values()) == {1}
    assert {(kill.victim, kill.stage) for kill in kills} == {(kill.killed, kill.during) for kill in kills}
    assert all(tried > 1 for _, kill, tried, _ in found if kill.killed)
