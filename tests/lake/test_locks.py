"""Runs of a query set exclude each other where their intervals overlap: real processes, killed ones, random ranges."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from lowwater.errors import BusyError
from lowwater.instants import HOUR, parse_instant
from lowwater.lake.layout import Lake
from lowwater.lake.locks import held_ranges, hold, hold_range, run_attempt
from lowwater.storage.locks import Holder
from tests.breadth import some
from tests.replay.support import ROOT

START = parse_instant("2026-01-01T00:00:00Z")

HOLDER = """
import sys
from pathlib import Path
from lowwater.lake.layout import Lake
from lowwater.lake.locks import run_attempt
with run_attempt(Lake(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])):
    print("held", flush=True)
    sys.stdin.read()
"""

MANY = """
import os, random, sys, time
from pathlib import Path
from lowwater.errors import BusyError
from lowwater.lake.layout import Lake
from lowwater.lake.locks import hold_range
lake, chosen = Lake(Path(sys.argv[1])), random.Random(int(sys.argv[3]))
log = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND)
print("ready", flush=True)
sys.stdin.readline()
for _ in range(60):
    start = chosen.randrange(12)
    end = start + chosen.randrange(1, 5)
    try:
        with hold_range(lake, "q", start, end):
            os.write(log, f"begin {start} {end}\\n".encode())
            time.sleep(chosen.random() / 200)
            os.write(log, f"end {start} {end}\\n".encode())
    except BusyError:
        os.write(log, f"busy {start} {end}\\n".encode())
"""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """The folders of a lake; its tables are no matter here."""
    made = Lake(tmp_path / "lake")
    for folder in (made.work, made.locks):
        folder.mkdir(parents=True)
    return made


@contextmanager
def holder(lake: Lake, query_set: str, start: int, end: int) -> Iterator[subprocess.Popen[str]]:
    """A process that is at work on [start, end), ns, until it is told to end."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(lake.root), query_set, str(start), str(end)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


@pytest.mark.slow
def test_a_killed_holder_lets_go_and_leaves_no_file(lake: Lake) -> None:
    with holder(lake, "demo", START, START + HOUR) as process:
        process.kill()
        process.wait()
        folder = lake.locks / "runs_of_demo"
        assert len([*folder.iterdir()]) == 1 and len([*lake.work.iterdir()]) == 1
        assert held_ranges(lake, "demo") == {} and len([*folder.iterdir()]) == 1, "a look removes nothing"
        with run_attempt(lake, "demo", START, START + HOUR) as (mine, _):
            assert [*mine.parent.iterdir()] == [mine], "what the dead one left of this interval is removed"
    assert [*lake.work.iterdir()] == []


@pytest.mark.slow
@pytest.mark.parametrize("dead", [(START, START + HOUR), (START, START + 24 * HOUR)])
def test_what_a_dead_run_left_is_removed_by_the_next_one_that_meets_its_range(
    lake: Lake, dead: tuple[int, int]
) -> None:
    with holder(lake, "demo", *dead), holder(lake, "other", START, START + HOUR):
        pass  # both are killed
    with run_attempt(lake, "demo", START, START + 2 * HOUR) as (mine, _):
        assert sorted(each.name for each in lake.work.iterdir()) == sorted(
            [mine.parent.name, f"run_of_other@{START}-{START + HOUR}"]
        )


@pytest.mark.slow
@pytest.mark.parametrize("seed", some(range(20), 4))
def test_a_range_is_given_exactly_if_none_that_overlaps_is_held(lake: Lake, seed: int) -> None:
    chosen = random.Random(seed)
    held: dict[tuple[int, int], ExitStack] = {}
    for _ in range(100):
        if held and chosen.random() < 0.4:
            held.pop(chosen.choice(sorted(held))).close()
        start = chosen.randrange(-10, 10)
        end = start + chosen.randrange(1, 6)
        overlaps = any(first < end and start < last for first, last in held)
        stack = ExitStack()
        try:
            stack.enter_context(hold_range(lake, "q", start, end))
        except BusyError:
            assert overlaps
        else:
            assert not overlaps
            held[start, end] = stack
        if chosen.random() < 0.2:
            assert set(held_ranges(lake, "q")) == set(held)
    for stack in held.values():
        stack.close()
    assert held_ranges(lake, "q") == {}


@pytest.mark.slow
def test_processes_with_random_ranges_never_hold_two_that_overlap(lake: Lake, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    with ExitStack() as ends:
        processes = []
        for seed in range(4):
            command = [sys.executable, "-c", MANY, str(lake.root), str(log), str(seed)]
            process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            ends.callback(process.kill)
            processes.append(ends.enter_context(process))
        for process in processes:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        assert [process.wait(120) for process in processes] == [0] * 4
    held: set[tuple[int, int]] = set()
    counts = {"begin": 0, "end": 0, "busy": 0}
    for line in log.read_text().splitlines():
        what, start, end = line.split()[0], *map(int, line.split()[1:])
        counts[what] += 1
        if what == "begin":
            assert not any(first < end and start < last for first, last in held)
            held.add((start, end))
        elif what == "end":
            held.remove((start, end))
    assert counts["begin"] == counts["end"] > 60 and counts["busy"] > 0, counts
    assert held_ranges(lake, "q") == {}


def test_a_process_of_another_machine_is_not_to_be_ended(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each container has a process 2 of its own: the number alone says nothing."""
    away = Holder("2", "web1, container 0123456789ab", "another start pid:[1]")
    with hold(lake, "thing"):
        with pytest.raises(BusyError) as refused, hold(lake, "thing"):
            pass
        assert "end that process" in refused.value.hint
        (lake.locks / "thing.lock").write_text(away.text())
        said = "process 2 on web1, container 0123456789ab is at work"
        with pytest.raises(BusyError, match=said) as refused, hold(lake, "thing"):
            pass
        assert "end that" not in refused.value.hint and "another machine" in refused.value.hint
