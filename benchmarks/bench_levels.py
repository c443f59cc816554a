"""Both levels of an hour on more cores than it has chunks: the high level begins with the low one, or after it.

`python -m benchmarks.bench_levels [--rate 400] [--chunks 4] [--cores 2 8 16 32]` generates an hour of two links, and
runs each task once, alone, for its processor seconds. Cores that are not there take tasks in the order in which they
become due; the file of a chunk is seen when its task has ended on them.
"""

from __future__ import annotations

import argparse
import heapq
import os
import tempfile
import time
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Any

from lowwater_generator import generate

from benchmarks.bench_capacity import START
from lowwater.config import Config
from lowwater.high.query_runs import HighLevel, HighSettings
from lowwater.high.runner import Outcomes, Step
from lowwater.instants import HOUR
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.low import LowSettings
from lowwater.plan.context import Links
from lowwater.plan.queryset import plan_texts
from lowwater.replay.stages.engines import LowLevel, high_level, low_level, run_low
from lowwater.replay.stages.inputs import LowInputs

LINKS = ("main1", "main2")
FLOWS = """
SELECT tb, srcIP, destIP, srcPort, destPort, protocol, count(*) AS cnt, sum(len) AS bytes
FROM main1.DataProtocol UNION main2.DataProtocol
GROUP BY time/10 AS tb, srcIP, destIP, srcPort, destPort, protocol
"""


def spent(call: Any) -> tuple[float, Any]:
    """The processor seconds of a call, and what it gives."""
    begin = time.process_time()
    value = call()
    return time.process_time() - begin, value


def seconds(low: LowLevel, chunks: list[float], high: HighLevel, seen: Path, cores: int) -> tuple[float, int]:
    """Seconds until the high level has its result, and its number of parts, on so many cores."""
    ready: deque[tuple[float, Any]] = deque((taken, None) for taken in chunks)
    order, running, steps = iter(low.tasks), list[tuple[float, int, Any]](), high.steps()
    now, number, parts = 0.0, 0, 0
    outcomes: Outcomes | None = None
    begun, left = False, len(chunks)
    try:
        while True:
            if high.coming or not left:
                step: Step = steps.send(outcomes if begun else None)  # type: ignore[arg-type]
                begun = True
                for task in step.tasks:
                    parts += 1
                    taken, outcome = spent(task)
                    ready.append((taken, (task, outcome)))
            while ready and len(running) < cores:
                taken, made = ready.popleft()
                heapq.heappush(running, (now + taken, number, made or next(order)))
                number += 1
            now, _, made = heapq.heappop(running)
            outcomes = {}
            if isinstance(made, tuple):
                outcomes = {made[0]: made[1]}
            else:
                left -= 1
                for lfta in low.lftas:
                    path = made.path(lfta)
                    target = seen / path.relative_to(low.folder)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    os.link(path, target)
    except StopIteration:
        return now, parts


def main() -> None:
    """Prints the seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=400.0, help="packets/s of each link")
    parser.add_argument("--chunks", type=int, default=4, help="of each link")
    parser.add_argument("--rows", type=int, default=50_000, help="of a part")
    parser.add_argument("--cores", type=int, nargs="+", default=[2, 8, 16, 32])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lake = open_lake(folder / "lake")
        for each in generate(folder / "captures", START, 1, LINKS, rate=given.rate, seed=1):
            ingest(lake, each.link, [each.path], Config(), (each.start, each.end))
        plan = plan_texts([("flows.gsql", FLOWS)], Links(LINKS), 1 << 16)
        inputs = LowInputs(lake, plan, Config(), START, START + HOUR, read_captures(lake, LINKS))
        size = -(-inputs.packets // len(LINKS) // given.chunks)
        low = low_level(inputs, LowSettings(0, task_packets=size), folder / "low")
        low = replace(low, tasks=tuple(sorted(low.tasks, key=lambda task: task.number)))
        run_low(low.tasks[0])  # compiles
        chunks = [spent(lambda task=task: run_low(task))[0] for task in low.tasks]
        print(f"{inputs.packets:,} packets, {len(chunks)} chunks, {sum(chunks):.2f} s in them")
        settings = HighSettings(slice_rows=given.rows)
        for cores in given.cores:
            found = []
            for coming in (False, True):
                seen = folder / f"seen-{cores}-{coming}"
                files = {name: [str(seen / Path(file).relative_to(low.folder)) for file in each]
                         for name, each in low.files.items()}  # fmt: skip
                about = vars(settings), {}, (), True, frozenset(files if coming else ())
                found.append(seconds(low, chunks, high_level(inputs, files, seen / "work", *about), seen, cores))
            (after, parts), (along, more) = found
            print(f"{cores} cores: after it {after:.2f} s ({parts} parts), with it {along:.2f} s ({more} parts)")


if __name__ == "__main__":
    main()
