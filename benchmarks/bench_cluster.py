"""Measures a cluster of two workers with one core each beside one process with two cores, over lakes in one store.

`python -m benchmarks.bench_cluster --captures FOLDER` ingests and replays an hour of links into new lakes of the S3
server of the cluster, in turn in one process and on the cluster, with the sizes from which Lowwater uses a cluster by
itself. All processes share two cores, the S3 server and the driver too. It prints the seconds of each stage, of the
last interval apart from those before it, which wait for the start of executors. It ends with 1 where the rows differ.
Captures are `FOLDER/LINK/*.pcap`, as `lowwater generate` writes them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil

from benchmarks.bench_capacity import LINK, SECONDS, SPAN, processor_seconds
from benchmarks.capacity import STAGES
from benchmarks.performance import table
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.tables import open_table
from lowwater.storage import paths
from lowwater.storage.object_paths import ObjectPath
from scripts.machines import Cluster, cluster, environment

ROOT = Path(__file__).resolve().parents[1]
QUERY_SET = "flows"
PROCESS, CLUSTER = "one process", "cluster"


@dataclass(frozen=True)
class Run:
    """What a run took.

    Attributes:
        stages: stage -> seconds by the clock, as the commands print them, for each link or interval.
        seconds: of both commands by the clock, with their start.
        processor: processor seconds of the commands.
        executors: processor seconds of executors and their Python processes; the S3 server is left out.
        packets: number of packets.
        rows: rows of the published table, and the packets that they count.
    """

    stages: Mapping[str, list[float]]
    seconds: float
    processor: float
    executors: float
    packets: int
    rows: tuple[int, int]


class ExecutorSeconds(threading.Thread):
    """Adds up the processor seconds of the executors of a cluster, which end with their application."""

    def __init__(self, machines: Cluster) -> None:
        super().__init__(daemon=True)
        self._machines, self._over = machines, threading.Event()
        self._seen: dict[tuple[int, float], float] = {}

    def run(self) -> None:
        """Looks at them until `total` is asked for."""
        while not self._over.wait(0.25):
            for executor in self._machines.executors():
                with suppress(psutil.Error):
                    for each in [executor, *executor.children(recursive=True)]:
                        spent = each.cpu_times()
                        self._seen[each.pid, each.create_time()] = spent.user + spent.system

    def total(self) -> float:
        """Stops looking; the seconds of all executors that were seen."""
        self._over.set()
        self.join()
        return sum(self._seen.values())


def measured(machines: Cluster, where: str, captures: Mapping[str, Path], intervals: int) -> Run:
    """Ingests and replays the hour into a new lake.

    Args:
        machines: the cluster, whose S3 server has the lake.
        where: PROCESS or CLUSTER.
        captures: link -> file.
        intervals: number of intervals of the hour.
    """
    lake = machines.lake(f"speed-{uuid.uuid4().hex[:8]}")
    variables = machines.environment() if where == CLUSTER else machines.store()
    length = f'[interval]\nlength = "{3600 // intervals}s"\n'
    paths.write(lake / "lowwater.toml", (length + "".join(LINK.format(name=link) for link in captures)).encode())
    watch = ExecutorSeconds(machines)
    watch.start()
    said, begin, spent = "", time.monotonic(), processor_seconds()
    for link, file in captures.items():
        said += _said(["ingest", "--lake", str(lake), "--link", link, str(file)], variables)
    replay = ["replay", QUERY_SET, "--lake", str(lake), "--queries", str(ROOT / "queries"), *SPAN]
    said += _said(replay, variables)
    seconds: dict[str, list[float]] = {stage: [] for stage in STAGES}
    for stage, text in SECONDS.findall(said):
        seconds[stage].append(float(text.replace(",", "")))
    packets = sum(row.packets for rows in read_captures(open_lake(lake), [*captures]).values() for row in rows)
    clock, processor = time.monotonic() - begin, processor_seconds() - spent
    run = Run(seconds, clock, processor, watch.total(), packets, _rows(lake))
    paths.remove_tree(lake)
    return run


def _rows(lake: ObjectPath) -> tuple[int, int]:
    found = open_table(lake / "tables" / QUERY_SET)
    assert found is not None
    counts = found.to_pyarrow_table(columns=["cnt"]).column("cnt")
    return len(counts), sum(counts.to_pylist())


def _said(command: list[str], variables: Mapping[str, str]) -> str:
    line = ["taskset", "-c", "0,1", sys.executable, "-m", "lowwater.cli.main", *command]
    done = subprocess.run(line, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def report(runs: Mapping[str, list[Run]]) -> str:
    """The medians of the runs as a table of Markdown."""
    values: dict[str, dict[str, list[float]]] = {}
    intervals = len(runs[PROCESS][0].stages[STAGES[-1]])
    for stage in STAGES:
        values[stage] = {where: [sum(run.stages[stage]) for run in each] for where, each in runs.items()}
    values["all, with their start"] = {where: [run.seconds for run in each] for where, each in runs.items()}
    values["processor seconds of all"] = {
        where: [run.processor + run.executors for run in each] for where, each in runs.items()
    }
    for stage in STAGES[1:] if intervals > 1 else ():
        last = {where: [run.stages[stage][-1] for run in each] for where, each in runs.items()}
        values[f"{stage}, last of {intervals} intervals"] = last
    if intervals > 1:
        name = f"low to publish, last of {intervals} intervals"
        values[name] = {
            where: [sum(run.stages[stage][-1] for stage in STAGES[1:]) for run in each] for where, each in runs.items()
        }
    rows = []
    for name, by in values.items():
        ours, theirs = median(by[PROCESS]), median(by[CLUSTER])
        rows.append([name, f"{ours:.1f}", f"{theirs:.1f}", f"{theirs / ours - 1:+.0%}" if ours else "-"])
    return table(("stage", "one process, s", "cluster, s", "longer by"), rows)


def main() -> int:
    """Measures; 1 where the rows differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captures", type=Path, required=True, help="folder with a folder of each link")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each; default: %(default)s")
    parser.add_argument("--intervals", type=int, default=1, help="intervals of the hour; default: %(default)s")
    parser.add_argument("--folder", type=Path, default=ROOT / "var" / "bench" / "cluster")
    options = parser.parse_args()
    captures = {folder.name: min(folder.iterdir()) for folder in sorted(options.captures.iterdir())}
    runs: dict[str, list[Run]] = {PROCESS: [], CLUSTER: []}
    with cluster(options.folder.absolute(), workers=2) as machines, environment(machines.store()):
        for _ in range(options.repeat):
            for where, done in runs.items():
                done.append(measured(machines, where, captures, options.intervals))
                print(json.dumps({"where": where, **vars(done[-1])}), flush=True)
    print(f"{runs[PROCESS][0].packets:,} packets, {runs[PROCESS][0].rows[0]:,} rows\n\n{report(runs)}")
    return 0 if len({run.rows for each in runs.values() for run in each}) == 1 else 1


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # threads of Arrow that still read ahead would abort the process while Python ends
