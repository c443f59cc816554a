"""`make endurance-cluster`: intervals on a cluster, with a kill at a random instant of each, beside a quiet run.

For each interval a victim, a stage and an instant in it are drawn, so that each victim dies in each stage. The kill
waits for the begin of its stage; where the stage is over before, it is that of the next interval, in half the time.
`--each N` goes on until each pair of victim and stage has N kills in the ledger, and fails while one has fewer. Victims
are a worker with all of its processes, an executor, the driver, its server of Spark Connect, the task above it, the
master, or the S3 server. With `--resident` one server serves all drivers. A driver whose server died must say so. What
died is started again; a task that died or failed is tried again, as Airflow does. Then the rows of the interval are
those of a quiet run in one process, and no staging of it is left. A task runs the intervals of a lake one after another
in one Spark application, until it dies. Several lakes are at work on the cluster at once; a worker or a master dies for
all of them. Each lake begins with an ingest on the cluster, with a kill too. Each ingest and interval is a line of JSON
in the ledger; a run adds to it, and ends with the counts of all.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any, TypeVar

import psutil
import pyarrow.compute as pc
from demo import LINK
from endurance import SETTINGS
from home import ROOT
from lowwater_generator import generate
from machines import Cluster, ClusterError, cluster, die_with_starter, environment

from lowwater.instants import HOUR, format_instant, parse_instant
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.locks import folder_of_run
from lowwater.lake.tables import fetch_rows, open_table, table_dataset
from lowwater.storage import objects, paths
from lowwater.storage.object_paths import ObjectPath

Value = TypeVar("Value")
START = parse_instant("2026-01-01T00:00:00Z")
LINKS = ("main1", "main2", "control")
QUERY_SET = "demo"
TABLES = ("flows", "full_flow", "bursts")
BURSTS = """
DEFINE { query_name 'bursts'; }
SELECT tb, srcIP, destIP, srcPort, destPort, len, count(*) AS cnt, max(timestamp) AS last
FROM DataProtocol
GROUP BY time/10 AS tb, srcIP, destIP, srcPort, destPort, len
CLOSING_WHEN count(*) >= 3
"""
"""A query whose state goes from interval to interval, and which shares divide where its rows are many."""
VICTIMS = {"worker": 4, "executor": 4, "server": 3, "driver": 1, "task": 1, "master": 3, "s3": 4}
"""Victim -> how often it is drawn. A driver that dies costs most: a new one starts its executors again."""
MACHINES = ("worker", "master", "s3")
"""Victims that all lakes miss, as a resident server: their death is the kill of each interval that runs and had none
yet. One is away at a time."""
INGEST = "ingest"
STAGES = ("low", "high", "audit", "publish")
TRIES = 12
"""Times that an interval is tried."""
AWAY = 3.0
"""Longest time for which a part of the cluster is away, s."""
LOOK = 0.25
"""Seconds between two looks for a victim that is not there yet."""
CLEANS = 60.0
"""Seconds that a run may take after its commit to remove its staging."""
STUCK = 600.0
"""Seconds without the end of a stage after which a task counts as stuck."""
RECENT = 20
"""Runs of a stage of which the shortest is its length, for instants in it."""
GONE = re.compile(r"Spark (at|on) \S+ (has ended, or was started again|gives no answer)")
"""What a driver says whose server died."""
ENDED = re.compile(rf"  (low|high|audit|publish) {QUERY_SET} (\S+): ([\d.,]+) s$")
CONNECTED = re.compile(r"  session: [\d.,]+ s$")
"""A driver has its Spark: its low stage has begun."""
TASK = """\
import logging, sys
sys.path.insert(0, {plugins!r})
logging.basicConfig(level=20)
from lowwater.errors import LowwaterError
from lowwater_airflow.child import Child
try:
    Child("replay", {arguments!r}).run()
except LowwaterError as error:
    sys.exit(f"error: {{error}}")
"""
"""The task of Airflow without Airflow: the process above the driver."""


@dataclass(frozen=True)
class Run:
    """The folders of a run.

    Attributes:
        folder: folder of everything.
        hours: intervals of a lake; a run of more intervals begins again with a new lake.
        chance: draws victims, stages and instants.
        drawn: (victim, stage) -> how often it was drawn, or stands in the ledger of earlier runs.
        lanes: the lakes at work.
        victims: those that are drawn.
        stages: stages of an interval that are drawn.
        each: kills that each pair of a victim and a stage shall have; 0 for none in particular.
        killed: (victim, stage) -> kills, with those in the ledger of earlier runs.
        ends: when no interval begins any more, s of the monotonic clock.
    """

    folder: Path
    hours: int
    chance: random.Random
    drawn: Counter[tuple[str, str]] = field(default_factory=Counter)
    lanes: list[Lane] = field(default_factory=list)
    victims: Sequence[str] = tuple(VICTIMS)
    stages: Sequence[str] = STAGES
    each: int = 0
    killed: Counter[tuple[str, str]] = field(default_factory=Counter)
    ends: float = float("inf")

    def over(self) -> bool:
        """Whether no interval begins any more."""
        return time.monotonic() > self.ends or (self.each > 0 and not self.missing())

    def missing(self) -> list[tuple[str, str]]:
        """The pairs of a victim and a stage with too few kills, each as often as it lacks one."""
        pairs = [(victim, stage) for victim in self.victims for stage in self.stages]
        return [pair for pair in pairs for _ in range(self.each - self.killed[pair])]

    def kill(self, stages: Sequence[str]) -> Kill:
        """Draws a kill in one of some stages, of the pairs of victim and stage that were drawn least by weight."""
        pairs = {
            (victim, stage): self.drawn[victim, stage] / (1 if self.each else VICTIMS[victim])
            for victim in self.victims
            for stage in stages
        }
        least = min(pairs.values())
        victim, stage = self.chance.choice([pair for pair, share in pairs.items() if share == least])
        self.drawn[victim, stage] += 1
        return Kill(victim, stage, self.chance.random())

    @property
    def ledger(self) -> Path:
        """A line for each ingest and each interval."""
        return self.folder / "ledger.jsonl"

    @property
    def queries(self) -> Path:
        """Folder of the one query set."""
        return self.folder / "queries"

    @property
    def quiet(self) -> Path:
        """The lake with the rows of a quiet run in one process."""
        return self.folder / "quiet"

    def prepare(self) -> None:
        """Makes captures and the quiet lake, unless they are there."""
        if self.quiet.exists():
            return
        begun = self.folder / "begun"
        shutil.rmtree(begun, ignore_errors=True)
        begun.mkdir(parents=True)
        self.queries.mkdir(exist_ok=True)
        demo = (ROOT / "queries" / f"{QUERY_SET}.gsql").read_text(encoding="utf-8")
        (self.queries / f"{QUERY_SET}.gsql").write_text(f"{demo.rstrip()};\n{BURSTS}", encoding="utf-8")
        generate(self.folder / "captures", START, self.hours, LINKS, 0.25, seed=7)
        since, until = format_instant(START), format_instant(START + self.hours * HOUR)
        kinds = {name: "publish" if name == "control" else "fail" for name in LINKS}
        links = "".join(LINK.format(name=name, since=since, until=until, policy=kinds[name]) for name in LINKS)
        text = (SETTINGS + links).replace('"../captures/', f'"{self.folder}/captures/')
        (begun / "lowwater.toml").write_text(text, encoding="utf-8")
        command(INGEST, "--lake", begun)
        command("backfill", "--lake", begun, "--queries", self.queries, "--from", since, "--to", until)
        begun.rename(self.quiet)


def command(verb: str, *options: object) -> None:
    """Runs a command of the command line.

    Raises:
        ClusterError: it failed.
    """
    line = [sys.executable, "-m", "lowwater.cli.main", verb, *map(str, options)]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(f"lowwater {verb} failed:\n{done.stdout[-500:]}{done.stderr[-2000:]}")


def rows(lake: PurePath, start: int, hours: int = 1) -> Mapping[str, str]:
    """Table -> number of rows of intervals and their digest, whatever their order.

    Args:
        lake: the lake.
        start: begin of the first interval, ns since the epoch.
        hours: number of intervals.
    """
    facts = {}
    objects.look_again()  # a run of another process has just published
    mine = (pc.field("_last") >= start) & (pc.field("_last") < start + hours * HOUR)
    for name in TABLES:
        path = lake / "tables" / name
        table = open_table(path)
        stored = []
        if table is not None:
            stored = fetch_rows(path, table_dataset(path, table), mine).to_table(filter=mine).to_pylist()
        texts = sorted(map(repr, stored))
        facts[name] = f"{len(texts)} {hashlib.sha256(chr(10).join(texts).encode()).hexdigest()}"
    return facts


def captured(lake: PurePath) -> list[tuple[str, str, int, int]]:
    """Link, digest, packets and malformed records of each capture of a lake."""
    found = read_captures(open_lake(lake), LINKS)
    return sorted((row.link, row.capture, row.packets, row.malformed) for name in LINKS for row in found[name])


@dataclass
class Kill:
    """A kill that is to come.

    Attributes:
        victim: kind of the victim.
        stage: stage that was drawn.
        share: instant as a share of the length of the stage; half of it for the next interval, where it was too late.
        at: when it is due, s of the monotonic clock; infinity while another stage runs.
        killed: name of the victim; empty before.
        during: stage that ran when it was killed.
        after: seconds since the begin of that stage.
        told: whether a try that ended with the server said so, and nothing else.
    """

    victim: str
    stage: str
    share: float
    at: float = float("inf")
    killed: str = ""
    during: str = ""
    after: float = 0.0
    told: bool = True


@dataclass
class Lane:
    """The work on one lake of the cluster.

    Attributes:
        run: the folders.
        machines: the cluster.
        lake: the lake.
        lengths: stage -> its last lengths, s.
        alone: is held while something is killed and started again.
    """

    run: Run
    machines: Cluster
    lake: ObjectPath
    lengths: dict[str, deque[float]]
    alone: threading.Lock
    _stage: str = field(default=INGEST, init=False)

    @property
    def log(self) -> Path:
        """What tasks and ingests of the lake say."""
        return self.run.folder / "logs" / f"{self.lake.name}.log"

    _began: float = field(default=0.0, init=False)
    _kill: Kill | None = field(default=None, init=False)

    def ingest(self) -> None:
        """Ingests all captures on the cluster, with one kill."""
        paths.write(self.lake / "lowwater.toml", (self.run.quiet / "lowwater.toml").read_bytes())
        kill = self.run.kill((INGEST,))
        began = time.monotonic()
        for tried in range(1, TRIES + 1):
            program = [sys.executable, "-m", "lowwater.cli.main", INGEST, "--lake", str(self.lake)]
            process = self._started(program, f"{INGEST}, try {tried}")
            self._enter(INGEST, kill)
            while process.poll() is None:
                self._strike(kill, process)
                time.sleep(0.05)
            if process.wait() == 0:
                break
            self._judge(kill)
        self.lengths[INGEST].append(time.monotonic() - self._began)
        self._kill = None
        same = again(lambda: captured(self.lake)) == captured(self.run.quiet)
        left = staged(self.lake / "_work")
        self._line({"ingest": self.lake.name}, kill, tried, same, left, time.monotonic() - began)

    def replay(self, first: int, last: int) -> None:
        """Runs intervals, with a kill in each; checks each of them while the next one runs.

        Args:
            first: number of the first interval, of those of the lake.
            last: number of the interval behind the last.
        """
        with ThreadPoolExecutor(1) as checks:
            for check in [checks.submit(self._check, *each) for each in self._replayed(first, last)]:
                check.result()

    def _replayed(self, first: int, last: int) -> Iterator[tuple[int, Kill, int, float]]:
        """Yields number, kill, tries and seconds of each interval once it is published; arguments as of `replay`."""
        number, tried, kill, began = first, 0, self.run.kill(self.run.stages), time.monotonic()

        def over() -> tuple[int, Kill, int, float]:
            nonlocal kill, began
            found = number, replace(kill), tried, time.monotonic() - began
            # A kill that came too late, or found nobody, is that of the next interval.
            kill = self.run.kill(self.run.stages) if kill.killed else Kill(kill.victim, kill.stage, kill.share / 2)
            self._kill, began = None, time.monotonic()
            return found

        while number < last and (tried or not self.run.over()):
            tried += 1
            if tried > TRIES:
                raise ClusterError(f"{_begin(number)} was tried {TRIES} times: {self.log}")
            task, reached = self._task(number, last, tried), self.log.stat().st_size
            self._enter("", kill)
            ended = False
            while not ended:
                ended = task.poll() is not None
                stages, reached = self._ended(reached)
                for stage, at, length in stages:
                    if not stage:
                        self._enter(STAGES[0], kill)
                        continue
                    if number < at:  # it was published before its task died
                        yield over()
                        number, tried = at, 1
                    self.lengths[stage].append(length)
                    if stage == STAGES[-1]:
                        yield over()
                        number, tried = number + 1, 1
                        if self.run.over():
                            _end(task)
                            return
                    self._enter(STAGES[(STAGES.index(stage) + 1) % len(STAGES)], kill)
                if not ended and number < last:
                    self._strike(kill, task)
                    if time.monotonic() - self._began > STUCK:
                        _end(task)
                        raise ClusterError(f"{_begin(number)} is stuck in stage {self._stage}: {self.log}")
                    time.sleep(0.05)
            if task.wait() != 0:
                self._judge(kill)
            elif number < last:  # the last one was published before its task died
                yield over()
                number, tried = number + 1, 0

    def _judge(self, kill: Kill) -> None:
        """Notes whether a failed try says that its server died, where that is what happened."""
        if kill.killed == "server" and kill.told:
            said = self.log.read_text(errors="replace").rpartition("== ")[2]
            kill.told = GONE.search(said) is not None and "Traceback" not in said

    def _enter(self, stage: str, kill: Kill) -> None:
        """Notes that a stage begins, or the start of a task, and sets the kill where it is for this stage."""
        self._stage, self._began, self._kill = stage, time.monotonic(), kill
        kill.at = self._began + kill.share * min(self.lengths[stage]) if stage == kill.stage else float("inf")

    def _strike(self, kill: Kill, task: psutil.Popen) -> None:
        """Kills the victim when it is due, and starts again what the cluster has lost."""
        if kill.killed or time.monotonic() < kill.at:
            return
        alone = kill.victim in MACHINES or (kill.victim == "server" and self.machines.resident)
        if alone and not self.alone.acquire(blocking=False):
            return  # another lake's turn; the next look is soon
        try:
            name = struck(self.machines, task, kill.victim, self.run.chance)
            self._hit(name)
            if not name:  # it is not there yet; to look for it goes through all processes
                kill.at = time.monotonic() + LOOK
            if alone:
                for lane in self.run.lanes:
                    lane._hit(kill.killed)
                time.sleep(self.run.chance.uniform(0.0, AWAY))
                self.machines.revive(kill.killed)
        finally:
            if alone:
                self.alone.release()

    def _hit(self, name: str) -> None:
        """Notes a death as the kill of the interval, if it had none."""
        kill = self._kill
        if name and kill is not None and not kill.killed:
            kill.during, kill.after = self._stage or STAGES[0], round(time.monotonic() - self._began, 2)
            self.run.drawn[kill.victim, kill.stage] -= 1
            self.run.drawn[_kind(name), kill.during] += 1
            self.run.killed[_kind(name), kill.during] += 1
            kill.killed = name

    def _task(self, first: int, last: int, tried: int) -> psutil.Popen:
        """Starts a task over intervals: a process above the driver, which dies with it."""
        span = ["--from", _begin(first), "--to", _begin(last)]
        arguments = [QUERY_SET, "--lake", str(self.lake), "--queries", str(self.run.queries), *span]
        program = TASK.format(plugins=str(ROOT / "plugins"), arguments=arguments)
        return self._started([sys.executable, "-c", program], f"{_begin(first)}, try {tried}")

    def _started(self, program: list[str], what: str) -> psutil.Popen:
        variables = {**os.environ, **self.machines.environment(), "PYTHONUNBUFFERED": "1"}
        with self.log.open("a") as log:
            print(f"== {self.lake.name} {what}", file=log, flush=True)
            return psutil.Popen(program, cwd=ROOT, env=variables, stdout=log, stderr=log, preexec_fn=die_with_starter)

    def _ended(self, reached: int) -> tuple[list[tuple[str, int, float]], int]:
        """Returns the stages that ended behind a place of the log, with the numbers of their intervals and their
        seconds; an empty name where a driver has its Spark."""
        with self.log.open("rb") as log:
            log.seek(reached)
            text = log.read()
        whole = text[: text.rfind(b"\n") + 1]
        found = []
        for line in whole.decode(errors="replace").splitlines():
            if match := ENDED.search(line):
                number = (parse_instant(match[2]) - START) // HOUR
                found.append((match[1], number, float(match[3].replace(",", ""))))
            elif CONNECTED.search(line):
                found.append(("", 0, 0.0))
        return found, reached + len(whole)

    def _check(self, number: int, kill: Kill, tried: int, seconds: float) -> None:
        """Holds a published interval against the quiet run.

        Args:
            number: its number, of those of the lake.
            kill: the kill in it.
            tried: how often it was tried.
            seconds: how long it took.
        """
        start = START + number * HOUR
        # With the interval before it, of which a kill must have left no row either.
        first, hours = max(START, start - HOUR), min(number, 1) + 1
        same = again(lambda: rows(self.lake, first, hours)) == rows(self.run.quiet, first, hours)
        left = self._staging(start)
        if left:  # its driver died between the commit and the end of its run
            span = "--from", _begin(number), "--to", _begin(number + 1)
            command("replay", QUERY_SET, "--lake", self.lake, "--queries", self.run.queries, *span)
            left = self._staging(start)
        self._line({"lake": self.lake.name, "interval": _begin(number)}, kill, tried, same, left, seconds)

    def _staging(self, start: int) -> list[str]:
        """The staging files of the interval at an instant, ns, once its run has had time to remove them."""
        folder = folder_of_run(open_lake(self.lake), QUERY_SET, start, start + HOUR)
        deadline = time.monotonic() + CLEANS
        while (left := staged(folder)) and time.monotonic() < deadline:
            time.sleep(1.0)
        return left

    def _line(self, what: dict[str, str], kill: Kill, tried: int, same: bool, left: list[str], seconds: float) -> None:
        about = {"victim": kill.killed, "stage": kill.during, "after": kill.after, "tries": tried, "told": kill.told}
        line = {**what, **about, "same": same, "left": left, "seconds": round(seconds, 1)}
        with self.run.ledger.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps(line), flush=True)


def again(read: Callable[[], Value]) -> Value:
    """What a read of a lake gives, which is repeated while the kill of another lake has taken the S3 server away."""
    deadline = time.monotonic() + CLEANS
    while True:
        try:
            return read()
        except OSError:  # a StoreError is one, and so is what the readers of Delta raise
            if time.monotonic() > deadline:
                raise
            time.sleep(1.0)


def staged(folder: PurePath) -> list[str]:
    """The files below a folder of a lake."""
    return again(lambda: [str(file) for file in paths.files_below(folder)])


def _begin(number: int) -> str:
    return format_instant(START + number * HOUR)


def _end(task: psutil.Popen) -> None:
    """Ends a task and what is below it."""
    for process in [task, *task.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    task.wait()


def struck(machines: Cluster, task: psutil.Popen, victim: str, chance: random.Random) -> str:
    """Kills a victim; returns its name, or nothing where it is not there yet."""
    if victim == "worker":
        name = chance.choice(machines.names[: machines.workers])
        machines.kill(name)
        return name
    if victim in ("master", "s3") or (victim == "server" and machines.resident):
        machines.kill(victim)
        return victim
    try:
        if victim == "executor":
            candidates = machines.executors(None if machines.resident else task)
        elif victim == "server":
            candidates = [child for child in task.children(recursive=True) if child.name() == "java"]
        elif victim == "driver":  # of an ingest the command itself is the driver
            candidates = [child for child in task.children() if "python" in child.name()] or [task]
        else:
            candidates = [task]
        if candidates:
            chance.choice(candidates).send_signal(signal.SIGKILL)
            return victim
    except psutil.NoSuchProcess:
        pass
    return ""


def main() -> int:
    """Runs intervals for a while, and prints the counts of the ledger; 1 on a difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "var" / "endurance" / "cluster")
    parser.add_argument(
        "--intervals", type=int, default=200, help="intervals with a kill in the ledger at the end; default: 200"
    )
    parser.add_argument(
        "--each", type=int, default=0, help="until each victim died so often in each stage, whatever --intervals"
    )
    parser.add_argument("--hours", type=int, default=24, help="intervals of a lake; default: 24")
    parser.add_argument("--lanes", type=int, default=3, help="lakes at work at once; default: 3")
    parser.add_argument("--resident", action="store_true", help="one server of Spark Connect for all lakes")
    parser.add_argument("--victims", nargs="+", choices=VICTIMS, default=[*VICTIMS], help="who is killed; default: all")
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES, help="when; default: in each")
    parser.add_argument("--far", action="store_true", help="a second for each write of results: publish takes longer")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no interval begins after so many")
    parser.add_argument("--seed", type=int, default=None, help="of victims and instants; default: another each time")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the cluster is stopped
    folder: Path = options.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    run = Run(
        folder,
        options.hours,
        random.Random(options.seed),
        victims=options.victims,
        stages=options.stages,
        each=options.each,
        ends=time.monotonic() + options.seconds,
    )
    for counts in (run.drawn, run.killed):
        counts.update((_kind(line["victim"]), line["stage"]) for line in _lines(run.ledger))
    run.prepare()
    (folder / "logs").mkdir(exist_ok=True)
    lengths: dict[str, deque[float]] = defaultdict(lambda: deque([3.0], RECENT))
    alone, all_done = threading.Lock(), threading.Barrier(options.lanes)
    with (
        cluster(
            folder / "machines",
            applications=options.lanes,
            resident=options.resident,
            far=r"/tables/" if options.far else "",
        ) as machines,
        environment(machines.store()),
    ):

        def work() -> None:
            try:
                while not run.over():
                    missing = run.hours if run.each else options.intervals - _intervals(_lines(run.ledger))
                    if missing <= 0:
                        break
                    lane = Lane(run, machines, machines.lake(f"kills-{uuid.uuid4().hex[:6]}"), lengths, alone)
                    run.lanes.append(lane)
                    lane.ingest()
                    lane.replay(0, min(run.hours, missing))
                    run.lanes.remove(lane)
            finally:
                all_done.wait()  # what a thread has started again ends with it

        with ThreadPoolExecutor(options.lanes) as pool:
            for lane in [pool.submit(work) for _ in range(options.lanes)]:
                lane.result()
    code = _summary(_lines(run.ledger))
    for victim, stage in run.missing():
        print(f"no kill yet: {victim} in {stage}")
    return code or int(bool(run.missing()))


def _lines(ledger: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ledger.read_text().splitlines()] if ledger.exists() else []


def _intervals(lines: list[dict[str, Any]]) -> int:
    """Intervals with a kill: one that is over while the cluster gets back what another lake's kill took has none."""
    return sum("interval" in line and line["victim"] != "" for line in lines)


def _summary(lines: list[dict[str, Any]]) -> int:
    """Prints a table of the kills, and what differed; 1 where anything did."""
    stages = (INGEST, *STAGES)
    kills = Counter((_kind(line["victim"]), line["stage"]) for line in lines)
    print(f"| victim | {' | '.join(stages)} | all |\n| --- |{' ---: |' * (len(stages) + 1)}")
    for victim in (*VICTIMS, "nobody"):
        counts = [kills[victim, stage] for stage in stages]
        every = sum(count for (name, _), count in kills.items() if name == victim)
        print(f"| {victim} | {' | '.join(map(str, counts))} | {every} |")
    different, left = sum(not line["same"] for line in lines), sum(bool(line["left"]) for line in lines)
    ingests = sum("ingest" in line for line in lines)
    print(f"{_intervals(lines)} intervals with a kill, {ingests} ingests")
    silent = sum(not line.get("told", True) for line in lines)
    print(f"{different} with other rows, {left} with staging left, {silent} that did not say that their server died")
    return 1 if different or left or silent else 0


def _kind(name: str) -> str:
    return "worker" if name.startswith("worker") else name or "nobody"


if __name__ == "__main__":
    try:
        code = main()
    except ClusterError as problem:
        print(f"error: {problem}", file=sys.stderr)
        code = 1
    sys.stdout.flush()
    os._exit(code)  # threads of Arrow that still read ahead would abort the process while Python ends
