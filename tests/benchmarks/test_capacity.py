"""The page of capacity is made from its JSON; its arithmetic is that of figures made by a rule."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from benchmarks import capacity
from benchmarks.parts import Step, simulated
from tests.breadth import examples

PACKETS = (1_000_000, 3_000_000)
EACH = {"ingest": 1e-6, "low": 2e-6, "high": 4e-6, "audit": 5e-7, "publish": 0.0}
FIXED = 5.0


def run(packets: int, cores: int, late: float) -> dict[str, Any]:
    stages = {
        name: {
            "clock": 1.0 + packets * each / cores + 10 * late,
            "processor": FIXED + packets * each,
            "requests": {"GET": 20, "PUT": 10 + packets // 100_000, "LIST": 5, "DELETE": 7},
        }
        for name, each in EACH.items()
    }
    stored = {
        name: packets * share
        for name, share in zip(("packets", "lfta", "streams", "tables"), (40, 8, 4, 2), strict=True)
    }
    return {"cores": cores, "late": late, "stages": stages, "bytes": stored}


FIGURES: dict[str, Any] = {
    "date": "2026-01-01",
    "command": "python -m benchmarks.bench_capacity",
    "machine": {"cores": 2, "processor": "some"},
    "load_average": 1.0,
    "sizes": [
        {
            "packets": packets,
            "capture_bytes": packets * 100,
            "runs": [run(packets, cores, late) for cores, late in ((1, 0.0), (2, 0.0), (2, 0.05))],
        }
        for packets in PACKETS
    ],
}


def row(begin: str, text: str) -> list[str]:
    """The cells of the first row that begins so."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {begin} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_page_counts_requests_as_stores_charge_them() -> None:
    text = capacity.page(FIGURES, json.loads(capacity.PARTS.read_text(encoding="utf-8")))
    part = text[text.index("## Requests") :]
    assert row("ingest", part) == ["ingest", "25", "45", "20", "20"], "PUT and LIST, GET"
    # 10 billion packets: one write for each 100,000 and stage, and 15 of every interval and stage.
    writes, reads = 5 * (100_000 + 24 * 15), 5 * 24 * 20
    dollars = writes / 1000 * 0.005 + reads / 1000 * 0.0004
    assert row("24", part) == ["24", f"{writes:,}", f"{reads:,}", f"{dollars:,.2f}"]


def test_committed_page_is_that_of_the_committed_figures() -> None:
    figures, parts = (json.loads(file.read_text(encoding="utf-8")) for file in (capacity.FIGURES, capacity.PARTS))
    assert capacity.PAGE.read_text(encoding="utf-8") == capacity.page(figures, parts)
    hour = capacity.HourOfParts(parts["hours"][-1])
    assert parts["one hour"] == [capacity.one_hour(hour, cores) for cores in capacity.CORES]


def test_tasks_wait_for_the_steps_before_theirs() -> None:
    """Ingest 2 x 1 s, then low 4 x 1 s, then high 2 s beside the counts of 1 s, each with what a run does by itself."""
    seconds = {"ingest": [1.0, 1.0], "low": [1.0] * 4, "high": [2.0], "audit": [1.0]}
    stages = {
        stage: {"rest": 0.5, "rounds": [{"of": "q", "seconds": seconds[stage]}] if stage in seconds else []}
        for stage in capacity.STAGES
    }
    hour = capacity.HourOfParts({"packets": 100, "stages": stages})
    total = 9.0 + 5 * 0.5
    assert capacity.one_hour(hour, 1) == {"cores": 1, "seconds": total, "busy": 1.0}
    # 0.5 + 1 + 0.5 + 2 + 0.5 beside 1 s of the counts + 2 + 0.5 + 0.5
    assert capacity.one_hour(hour, 2) == {"cores": 2, "seconds": 7.5, "busy": round(total / 15, 3)}
    small = capacity.HourOfParts({"packets": 50, "stages": stages})
    steps = capacity.Traffic(small, hour).steps(1000.0, links=5, intervals=3)
    assert sum(len(step.seconds) == 40 for step in steps) == 3, "ten times the tasks of low, in each interval"
    assert all(max(step.after, default=-1) < number for number, step in enumerate(steps))


@pytest.mark.slow
@given(
    st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=6), min_size=1, max_size=6), st.integers(1, 5), st.data()
)
@settings(max_examples=examples(20), deadline=None)
def test_a_simulation_is_between_the_bounds_of_graham(tasks: list[list[int]], cores: int, data: st.DataObject) -> None:
    earlier = [st.sets(st.integers(0, number - 1)) if number else st.just(set[int]()) for number in range(len(tasks))]
    steps = [Step(each, data.draw(before)) for each, before in zip(tasks, earlier, strict=True)]
    path: list[float] = []
    for step in steps:
        path.append(max(step.seconds) + max((path[before] for before in step.after), default=0))
    span, busy = simulated(steps, cores)
    total = sum(map(sum, tasks))
    assert max(max(path), total / cores) <= span + 1e-9
    assert span <= total / cores + (1 - 1 / cores) * max(path) + 1e-9
    assert abs(busy - total / (cores * span)) < 1e-9
