"""Seconds of the same intervals in a process and on a resident Spark, and whose the processor time is.

`python -m benchmarks.bench_resident [--packets 10000000] [--hours 3] [--master 'local[2]'] [--json FILE]` generates
hours of three links, and ingests and replays them as they arrive: an `ingest` of all links and a `backfill` for each,
in turns in its process and as clients of a server of Spark Connect, whose start is reported apart. It prints the ratio
of each.

Processor seconds on packets and rows are what an hour took more than one of few packets that ran just before it on the
same server: of Spark's Python workers, which evaluate its tasks; of the client; of the JVM; and of the processes that
Spark asks for offsets. Medians over the hours, without the first one, in which the server loads and compiles. A client
takes some five seconds whatever the packets are, which vary by a tenth: so small hours say little of its share. The
event log of the server has the names and times of the tasks.
"""

from __future__ import annotations

import argparse
import json
import operator
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
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
        tasks: processor seconds of Spark's Python workers.
        jvm: processor seconds of the server's JVM.
        offsets: processor seconds of the processes that Spark asks for offsets and schemas.
    """

    clock: float = 0.0
    client: float = 0.0
    tasks: float = 0.0
    jvm: float = 0.0
    offsets: float = 0.0

    def __add__(self, more: Taken) -> Taken:
        return self._each(more, operator.add)

    def __sub__(self, less: Taken) -> Taken:
        return self._each(less, operator.sub)

    def _each(self, other: Taken, of: Callable[[float, float], float]) -> Taken:
        return Taken(*(of(getattr(self, each.name), getattr(other, each.name)) for each in fields(self)))

    def __str__(self) -> str:
        seconds = (f"{each.name} {getattr(self, each.name):.2f}" for each in fields(self) if each.name != "clock")
        return f"{', '.join(seconds)}; clock {self.clock:.1f}"


def medians(found: Sequence[Taken]) -> Taken:
    """The median of each figure."""
    return Taken(*(median(getattr(one, each.name) for one in found) for each in fields(Taken)))


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

    @property
    def used(self) -> Taken:
        """Processor seconds so far, of processes that have ended too."""
        found = Taken()
        for child in self.process.children(recursive=True) if self.process is not None else ():
            with suppress(psutil.NoSuchProcess):  # one that has ended is in what its parent took
                found += self._used_by(child)
        return found

    @staticmethod
    def _used_by(child: psutil.Process) -> Taken:
        own, ended, line = sum(child.cpu_times()[:2]), sum(child.cpu_times()[2:4]), child.cmdline()
        if child.name() == "java":
            return Taken(jvm=own, offsets=ended)
        if "lowwater.spark.workers" in line:
            return Taken(tasks=own + ended)
        # Beside these there is the client that warms the server up.
        return Taken() if "lowwater.spark.runner" in line else Taken(offsets=own + ended)


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
    before, mine, begin = server.used, _children(), time.monotonic()
    environment = {**os.environ, MASTER: server.address}
    done = subprocess.run(
        [sys.executable, "-m", "lowwater.cli.main", *words], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return server.used - before + Taken(clock=time.monotonic() - begin, client=_children() - mine)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


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
    parser.add_argument("--hours", type=int, default=3, help="at least two")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lowwater-resident-") as name:
        folder = Path(name)
        for place, packets in (("few", FEW), ("many", options.packets)):
            generate(folder / place, START, options.hours, LINKS, packets / 7200, seed=7, cut=())
        with resident(options.master, folder) as server:
            print(f"start of the server: {server.started:.1f} s")
            alone = Server()
            next(intervals(alone, folder / "few-lake", folder / "few", 1))  # compiles what is not compiled yet
            runs = ((alone, "lake", "many"), (server, "few-lake", "few"), (server, "spark-lake", "many"))
            turns = [intervals(one, folder / lake, folder / of, options.hours) for one, lake, of in runs]
            hours = list(zip(*turns, strict=True))
        count, seconds, named = tasks(server.log)
    for number, (ours, _, its) in enumerate(hours, 1):
        process, spark = (sum(both, Taken()).clock for both in (ours, its))
        print(f"interval {number}: process {process:.1f} s, Spark {spark:.1f} s, {spark / process:.2f} times")
    rest = hours[1:]
    ratio = median(sum(its, Taken()).clock / sum(ours, Taken()).clock for ours, _, its in rest)
    print(f"median without the first: {ratio:.2f} times")
    print("processor seconds of an hour on Spark, medians without the first:")
    shares = {}
    for name, stages in (("ingest", slice(0, 1)), ("backfill", slice(1, 2)), ("both", slice(0, 2))):
        few, many = ([sum(each[stages], Taken()) for each in found] for found in list(zip(*rest, strict=True))[1:])
        more = medians([much - little for much, little in zip(many, few, strict=True)])
        shares[name] = more.tasks / sum(max(0.0, each) for each in (more.tasks, more.client, more.jvm, more.offsets))
        print(f"  {name}, of few packets: {medians(few)}")
        print(f"  {name}, on packets and rows: {more}: {shares[name]:.1%} in tasks")
    print(f"event log: {count} tasks, {seconds:.1f} s by the clock")
    for what, number in named.most_common():
        print(f"  {what}: {number}")
    if options.json:
        figures = {"packets": options.packets, "hours": options.hours, "spark_by_process": ratio, "in_tasks": shares}
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
