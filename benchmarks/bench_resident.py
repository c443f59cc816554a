"""Seconds of the same intervals in a process and on a resident Spark, and whose the processor time is.

`python -m benchmarks.bench_resident [--packets 10000000] [--hours 3] [--master 'local[2]']` generates hours of three
links, and ingests and replays them as they arrive: an `ingest` of all links and a `backfill` for each, in turns in its
process and as clients of a server of Spark Connect, whose start is reported apart. It prints the ratio of each.

Processor seconds on packets and rows are what Spark's Python workers, a client, and the processes that Spark asks for
offsets took more than with hours of few packets. The event log of the server has the names and
times of the tasks.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from statistics import median

import psutil
from lowwater_generator import generate

from benchmarks.bench_capacity import ROOT, SETTINGS, START
from lowwater.instants import HOUR, format_instant
from lowwater.spark.server import answers, free_port

LINKS = ("main1", "main2", "control")
FEW = 2_000
"""Packets of an hour whose commands take what every command takes."""
MASTER = "LOWWATER_SPARK_MASTER"


@dataclass
class Taken:
    """What a command, or several, took.

    Attributes:
        clock: seconds by the clock.
        client: processor seconds of the process of the command.
        workers: processor seconds of Spark's Python workers.
        offsets: processor seconds of the processes that Spark asks for offsets.
    """

    clock: float = 0.0
    client: float = 0.0
    workers: float = 0.0
    offsets: float = 0.0

    def __add__(self, more: Taken) -> Taken:
        return Taken(*(getattr(self, each.name) + getattr(more, each.name) for each in fields(self)))


@dataclass
class Server:
    """A resident Spark.

    Attributes:
        address: of its clients.
        started: seconds until it answered.
        process: the process above it; None for no Spark.
        log: folder of its event log.
    """

    address: str = "none"
    started: float = 0.0
    process: psutil.Popen | None = None
    log: Path = field(default_factory=Path)

    def workers(self) -> float:
        """Processor seconds of its Python workers, of those that have ended too."""
        found = 0.0
        for child in self.process.children(recursive=True) if self.process is not None else ():
            if "python" in child.name():
                times = child.cpu_times()
                found += times.user + times.system + times.children_user + times.children_system
        return found

    def offsets(self) -> float:
        """Processor seconds of processes that its JVM has started and that have ended: one for each streaming query."""
        family = self.process.children(recursive=True) if self.process is not None else ()
        ended = [each.cpu_times() for each in family if each.name() == "java"]
        return float(sum(times.children_user + times.children_system for times in ended))


@contextmanager
def resident(master: str, folder: Path) -> Iterator[Server]:
    """Starts a server with an event log."""
    conf, log, port = folder / "conf", folder / "events", free_port()
    for each in (conf, log):
        each.mkdir()
    lines = ["spark.eventLog.enabled true", "spark.eventLog.compress false", f"spark.eventLog.dir file://{log}"]
    (conf / "spark-defaults.conf").write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-P", "-m", "lowwater.spark.server", "--master", master, "--port", str(port)]
    begin = time.monotonic()
    with (folder / "server.log").open("w") as said:
        process = psutil.Popen(command, env={**os.environ, "SPARK_CONF_DIR": str(conf)}, stdout=said, stderr=said)
    try:
        while not answers("127.0.0.1", port):
            assert process.poll() is None, (folder / "server.log").read_text()
            time.sleep(0.1)
        yield Server(f"sc://localhost:{port}", time.monotonic() - begin, process, log)
    finally:
        process.terminate()
        process.wait()


def command(server: Server, *words: str) -> Taken:
    """Runs a command of the command line to its end."""
    before, offsets, used = server.workers(), server.offsets(), resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.monotonic()
    environment = {**os.environ, MASTER: server.address}
    done = subprocess.run(
        [sys.executable, "-m", "lowwater.cli.main", *words], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    clock, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    client = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    return Taken(clock, client, server.workers() - before, server.offsets() - offsets)


def intervals(server: Server, lake: Path, captures: Path, hours: int) -> Iterator[tuple[Taken, Taken]]:
    """Ingests and replays each hour into a new lake as its captures arrive; yields what both commands took."""
    shutil.rmtree(lake, ignore_errors=True)
    arrived = lake / "arrived"
    arrived.mkdir(parents=True)
    spans = f'since = "{format_instant(START)}"\nuntil = "{format_instant(START + hours * HOUR)}"\n'
    links = "".join(
        f'\n[links.{link}]\nskew = "1s"\npolicy = "publish"\nrotation = "1h"\n{spans}'
        f'captures = "{arrived}/{link}_%Y%m%dT%H%M%SZ.pcap"\n'
        for link in LINKS
    )
    sets = f'\n[query_sets.flows]\nfiles = ["{ROOT / "queries" / "flows.gsql"}"]\n'
    (lake / "lowwater.toml").write_text(SETTINGS + links + sets)
    for number in range(hours):
        start = START + number * HOUR
        for link in LINKS:
            for file in sorted((captures / link).iterdir())[number : number + 1]:
                (arrived / file.name).hardlink_to(file)
        span = "--from", format_instant(start), "--to", format_instant(start + HOUR)
        yield command(server, "ingest", "--lake", str(lake)), command(server, "backfill", "--lake", str(lake), *span)


def tasks(log: Path) -> tuple[int, float, Counter[str]]:
    """The tasks of an event log: number, seconds by the clock, and how many have which name on Spark's pages."""
    names: dict[int, str] = {}
    count, seconds, named = 0, 0.0, Counter[str]()
    for file in (each for each in log.rglob("*") if each.is_file()):
        for line in file.read_text().splitlines():
            event = json.loads(line) if line.startswith("{") else {}
            if event.get("Event") == "SparkListenerJobStart":
                name = event.get("Properties", {}).get("spark.job.description") or "(none)"
                names |= dict.fromkeys(event["Stage IDs"], name)
            elif event.get("Event") == "SparkListenerTaskEnd" and (metrics := event.get("Task Metrics")):
                count, seconds = count + 1, seconds + metrics["Executor Run Time"] / 1000
                named[names.get(event["Stage ID"], "(none)").partition(":")[0]] += 1
    return count, seconds, named


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packets", type=int, default=10_000_000, help="of an hour, all links together")
    parser.add_argument("--hours", type=int, default=3)
    parser.add_argument("--master", default="local[2]")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lowwater-resident-") as name:
        folder = Path(name)
        for place, packets in (("few", FEW), ("many", options.packets)):
            generate(folder / place, START, options.hours, LINKS, packets / 7200, seed=7, cut=())
        with resident(options.master, folder) as server:
            print(f"start of the server: {server.started:.1f} s")
            alone = Server()
            next(intervals(alone, folder / "few-lake", folder / "few", 1))  # compiles what is not compiled yet
            runs = ((alone, "lake"), (server, "spark-lake"))
            turns = [intervals(one, folder / lake, folder / "many", options.hours) for one, lake in runs]
            pairs = list(zip(*turns, strict=True))
            few = list(intervals(server, folder / "few-lake", folder / "few", options.hours))
        for number, (ours, its) in enumerate(((sum(a, Taken()), sum(b, Taken())) for a, b in pairs), 1):
            less = 3.0 if number == 1 else 0.0
            print(
                f"interval {number}: process {ours.clock:.1f} s, Spark {its.clock:.1f} s, "
                f"{(its.clock - less) / ours.clock:.2f} times{' without its first 3 s' if less else ''}"
            )
        ratios = [sum(its, Taken()).clock / sum(ours, Taken()).clock for ours, its in pairs[1:]]
        if ratios:
            print(f"median of the further intervals: {median(ratios):.2f} times")
        print("processor seconds on packets and rows, and the clock of all:")
        for at, name in enumerate(("ingest", "backfill")):
            spark, least = (sum((each[at] for each in found), Taken()) for found in ([its for _, its in pairs], few))
            workers, client, offsets = (
                max(0.0, getattr(spark, of) - getattr(least, of)) for of in ("workers", "client", "offsets")
            )
            share = workers / (workers + client + offsets)
            print(
                f"  {name}: Spark's tasks {workers:.2f}, clients {client:.2f}, offsets {offsets:.2f}: {share:.1%} in "
                f"tasks; beside them tasks {least.workers:.2f}, clients {least.client:.2f}, offsets "
                f"{least.offsets:.2f}; {spark.clock:.1f} s, of few packets {least.clock:.1f} s"
            )
        count, seconds, named = tasks(server.log)
        print(f"event log: {count} tasks, {seconds:.1f} s by the clock")
        for what, number in named.most_common():
            print(f"  {what}: {number}")


if __name__ == "__main__":
    main()
