"""Commands on two lakes in one folder of a store at once: stopped for longer than a lease, killed, through faults."""

from __future__ import annotations

import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass
from pathlib import Path, PurePath

from benchmarks.bench_store import BEGIN, QUERIES, ingest, publish, settings
from lowwater.instants import HOUR, format_instant
from lowwater.lake import open_tables
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.open_tables import at_version
from lowwater.lake.results.pins import stored_pins
from lowwater.lake.tables import files_of, open_table
from lowwater.lake.upkeep import changes, doubled
from lowwater.storage import objects, objects as snapshots, paths
from lowwater.storage.object_paths import ObjectPath
from tests.capturemaker import pcap_bytes, udp
from tests.replay.support import ROOT, table_rows
from tests.storage.faults import as_another_process
from tests.storage.servers import ANY, BUCKET, Proxy, proxied, s3_server

HOURS = 4
NAMES = "office", "office2"
"""Two lakes in one folder; the name of one begins as that of the other."""
FIRST = format_instant(BEGIN)
COMMANDS = {
    "ingest": ["ingest"],
    "backfill": ["backfill"],
    "backfill of two at once": ["backfill", "--jobs", "2", "--order", "newest"],
    "maintain": ["maintain"],
    "rollback": ["rollback", "flows", "--at", FIRST, "--to", "previous", "--because", "a trial"],
    "lift": ["rollback", "flows", "--at", FIRST, "--lift", "--because", "its end"],
    "status": ["status"],
    "rows": ["rows", "flows"],
    "plan": ["plan", "--format", "json"],
    "streams": ["streams"],
    "doctor": ["doctor"],
}
WRITES = {"ingest": 14, "backfill": 60, "backfill of two at once": 60, "maintain": 14, "rollback": 14, "lift": 5}
"""Commands that write, and how often about."""
READERS = "status", "rows", "plan"
REASONS = re.compile(
    "is at work|no longer the one at work|object store|is not rolled back|cannot be rolled back|has no rows|no version"
)
"""What a command may say that does not succeed."""


def write_capture(folder: Path, hour: int, edition: int = 0) -> None:
    """Writes the capture of an hour; each edition has other packets."""
    begin = BEGIN + hour * HOUR
    times = [begin + at * HOUR // 16 for at in range(8 + edition)]
    frames = [(at, udp(f"10.{edition}.0.1", f"10.0.1.{at % 5}", 1000, 2000)) for at in times]
    name = format_instant(begin).replace("-", "").replace(":", "")
    capture = folder / "captures" / f"main1_{name}.pcap"
    capture.write_bytes(pcap_bytes(frames))
    os.utime(capture, (BEGIN // 10**9 + edition, BEGIN // 10**9 + edition))  # nobody writes to it any more


def start(name: str, lake: PurePath, url: str) -> subprocess.Popen[str]:
    """Starts a command on a lake, which asks the store through an address."""
    line = [sys.executable, "-m", "lowwater.cli.main", *COMMANDS[name], "--lake", str(lake)]
    environment = {**os.environ, "AWS_ENDPOINT_URL": url, "LOWWATER_STORE_TIMEOUT": "10"}
    return subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, cwd=ROOT
    )


@dataclass(frozen=True)
class Strike:
    """What happens to a command: at which of its writes, which signal, and after how many seconds it goes on."""

    write: int
    signal: signal.Signals
    pause: float

    def __str__(self) -> str:
        return f"{self.signal.name} at write {self.write}, {self.pause:.0f} s" if self.write else "left alone"


def watch(process: subprocess.Popen[str], proxy: Proxy, strike: Strike) -> str:
    """Lets a strike happen, and waits for the end; returns what the command said."""
    said = ThreadPoolExecutor(1).submit(process.communicate)
    writes, due = 0, strike.write > 0
    while due and process.poll() is None:
        writes += sum(method == "PUT" for method, *_ in proxy.seen())
        if writes >= strike.write:
            due = False
            process.send_signal(strike.signal)
            if strike.signal == signal.SIGSTOP:
                time.sleep(strike.pause)
                process.send_signal(signal.SIGCONT)
        time.sleep(0.01)
    return said.result(timeout=900)[0]


def busy(draw: random.Random, lakes: list[ObjectPath], server: int) -> list[str]:
    """Runs drawn commands at once; returns what happened."""
    chosen = [(lakes[0], name) for name in (*WRITES, "maintain")]
    chosen = [*draw.sample(chosen, 5), (lakes[0], draw.choice(READERS))]
    chosen += [(lakes[1], name) for name in draw.sample(list(WRITES), 3)]
    faults = draw.choice([[], [rule for rule in ANY if rule.fault != "stale"]])  # whoever ingests needs new lists
    story, waits = [f"faults: {len(faults)}"], []
    with ExitStack() as stack, ThreadPoolExecutor(len(chosen)) as pool:
        for lake, name in draw.sample(chosen, len(chosen)):
            proxy = stack.enter_context(proxied(server, draw.randrange(1 << 30)))
            proxy.breaks(*faults)
            struck = draw.choice([signal.SIGSTOP, signal.SIGSTOP, signal.SIGKILL, None])
            write = draw.randint(1, WRITES[name]) if struck and name in WRITES else 0
            strike = Strike(write, struck or signal.SIGCONT, draw.uniform(33, 45))
            process = start(name, lake, proxy.url)
            waits.append((f"{name} of {lake.name}", strike, process, pool.submit(watch, process, proxy, strike)))
            time.sleep(draw.random() * 2)
        for what, strike, process, waited in waits:
            said = waited.result()
            story.append(f"{what}: {strike}: {process.returncode} {said.strip().splitlines()[-1:]}")
            killed = process.returncode == -signal.SIGKILL and strike.signal == signal.SIGKILL
            assert "Traceback" not in said, f"{what}: {said}"
            assert killed or process.returncode == 0 or REASONS.search(said), f"{what}: {said}"
    return story


def play(seed: int, scratch: Path, server: int) -> list[str]:
    """Plays a seed; returns what happened."""
    draw, folder = random.Random(seed), scratch / f"{seed}"
    (folder / "captures").mkdir(parents=True)
    (folder / "queries.gsql").write_text(QUERIES)
    lakes = [ObjectPath("s3:", BUCKET, f"shared-{seed}", name) for name in NAMES]
    url = os.environ["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{server}"
    for lake in lakes:
        paths.write(lake / "lowwater.toml", settings(folder) + b'\n[retention]\nstreams = "1s"\n')
        open_lake(lake)
    editions = [0] * HOURS
    for edition in range(2):  # the second one is there to be rolled back
        editions[0] = edition
        for hour in range(HOURS):
            write_capture(folder, hour, editions[hour])
        for lake in lakes:
            ingest(lake)
            publish(lake, BEGIN, BEGIN + HOURS * HOUR)
    for _ in range(2):  # of the first, the intervals are due; of the second, the captures
        editions[draw.randrange(1, HOURS)] += 1
        editions.append(0)
        for hour, edition in enumerate(editions):
            write_capture(folder, hour, edition)
        if len(editions) == HOURS + 1:
            for lake in lakes:
                ingest(lake)
    story = busy(draw, lakes, server)
    quiet = folder / "lake"
    quiet.mkdir()
    (quiet / "lowwater.toml").write_bytes(settings(folder))
    open_lake(quiet)
    ingest(quiet)
    publish(quiet, BEGIN, BEGIN + len(editions) * HOUR)
    for lake in lakes:
        for name in ("ingest", "lift", "backfill", "maintain"):
            said, code = finished(name, lake, url)
            assert code == 0 or (name == "lift" and "is not rolled back" in said), f"{name} of {lake}: {said}"
        look(lake, Lake(quiet), url)
    return story


def finished(name: str, lake: PurePath, url: str) -> tuple[str, int]:
    """Runs a command alone; returns what it said, and its exit code."""
    process = start(name, lake, url)
    return process.communicate(timeout=900)[0], process.returncode


def look(root: ObjectPath, quiet: Lake, url: str) -> None:
    """Looks at a lake: its rows are those of a quiet run, its logs and pins are whole, all commands agree."""
    as_another_process(root)
    snapshots.look_again()
    open_tables._PACKS.clear()
    lake = Lake(root)
    for query in ("flows", "bytes"):
        rows, wanted = (table_rows(each.root, query) for each in (lake, quiet))
        assert rows == wanted, f"{query}: {len(rows)} rows, not the {len(wanted)} of a quiet run"
    ledgers = [read_captures(each, ["main1"])["main1"] for each in (lake, quiet)]
    known, wanted = (sorted((row.capture, row.packets) for row in ledger) for ledger in ledgers)
    assert known == wanted, f"captures: {known}"
    there = {path.relative_to(root).as_posix() for path in objects.below(root)}
    for path in lake.all_tables():
        table = open_table(path)
        if table is None:
            continue
        where = path.relative_to(root).as_posix()
        assert doubled(changes(path)) is None, f"{where} has files twice"
        named = {f"{where}/{name}" for name in files_of(table).column("path").to_pylist()}
        lost = {name for name in named if name not in there and name.replace("%3D", "=") not in there}
        assert not lost, f"{where} names files that are not there: {lost}"
    pins = stored_pins(lake, "demo")
    assert pins is not None
    assert set(pins.tables) == {"flows", "bytes"} and not pins.unfinished
    for query, version in pins.tables.items():
        newest, pinned = open_table(lake.table(query)), at_version(lake.table(query), version)
        assert newest is not None and set(pinned.file_uris()) == set(newest.file_uris())
    said = {name: finished(name, root, url) for name in ("plan", "status", "streams", "doctor")}
    assert not any(code for _, code in said.values()), said
    assert json.loads(said["plan"][0])["intervals"] == [], said["plan"][0]
    states = re.findall(r"^ *2026\S+ +demo +(?:flows|bytes) +(.+?)  ", said["status"][0], re.MULTILINE)
    assert states == ["done"] * 2 * (HOURS + 1) + ["provisional"] * 2, said["status"][0]
    assert "in part" not in said["streams"][0], said["streams"][0]


def main(first: int, count: int) -> None:
    """Plays seeds, and prints what happened in each."""
    os.environ.update(AWS_ACCESS_KEY_ID="rivals", AWS_SECRET_ACCESS_KEY="rivals", AWS_REGION="us-east-1")
    with tempfile.TemporaryDirectory() as scratch, s3_server(Path(scratch) / "log") as port:
        for seed in range(first, first + count):
            with redirect_stdout(io.StringIO()):
                story = play(seed, Path(scratch), port)
            print(f"seed {seed}", *story, sep="\n  ", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
