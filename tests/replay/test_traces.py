"""`run --traces`: what every node promised, and which heartbeat of the sources it had seen by then."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lowwater_generator import GeneratedCapture

from lowwater.config import Config, Link
from lowwater.plan.context import Links
from lowwater.plan.queryset import plan_files
from lowwater.replay.progress import Progress
from lowwater.replay.run_command import RunRequest, run
from tests.replay.support import LINKS, QUERIES, SETS, START

if TYPE_CHECKING:
    from lowwater.high.runner import Runner


@pytest.mark.slow
def test_a_promise_is_traced_to_the_heartbeats_before_it(
    captures: list[GeneratedCapture], tmp_path: Path, runner: Runner
) -> None:
    chosen = [(each.link, each.path) for each in captures if each.start == START]
    plan = plan_files([QUERIES / "demo.gsql"], Links(LINKS, SETS))
    config = Config(links={name: Link() for name in LINKS}, sets=SETS)
    request = RunRequest(plan, config, chosen, tmp_path, high={"slice_rows": 1000}, traces=True)
    summary = run(request, Progress(quiet=True), runner)
    with (tmp_path / "heartbeats.csv").open() as file:
        rows = [{k: int(v) if v.lstrip("-").isdigit() else v for k, v in row.items()} for row in csv.DictReader(file)]
    nodes = defaultdict(list)
    for row in rows:
        assert row["lag"] == max(0, row["tick"] - row["promise"]) and row["until"] >= row["tick"]
        nodes[row["level"], row["producer"], row["link"]].append(row)
    assert {key[0] for key in nodes} == {"lfta", "query"}
    sources = {query.name: {lfta.name for lfta in query.lftas} for query in plan.queries}
    for (level, producer, _), said in nodes.items():
        assert [row["promise"] for row in said] == sorted({row["promise"] for row in said})
        if level == "lfta":
            assert all(row["trace"] == row["tick"] for row in said)
            continue
        assert len(said) == summary["queries"][producer]["punctuation"] > 1
        below = [key for key in nodes if key[0] == "lfta" and key[1] in sources[producer]]
        for row in said:
            reached = [max(0, *(_by(each, row["trace"]) for each in nodes[key])) for key in below]
            assert row["trace"] <= row["tick"] and row["promise"] <= min(reached)


def _by(said: dict[str, int], at: int) -> int:
    """What a heartbeat promises by an instant; 0 before it."""
    return said["promise"] + min(at, said["until"]) - said["tick"] if said["tick"] <= at else 0
