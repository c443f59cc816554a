"""Measures what docs/capacity.md is made of: seconds of each stage, bytes a packet, requests to the store.

`python -m benchmarks.bench_capacity` generates an hour of three links in two sizes, ingests and replays it with the
lake in the S3 server of the tests: on one core, on two, and on two with a store that answers later. Each stage is a
process of its own. It writes docs/capacity.json, of which `python -m benchmarks.capacity` makes the page. Processor
seconds are those of the process, without those of the server; clock seconds depend on what else runs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import time
import uuid
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lowwater_generator import generate

from benchmarks.capacity import FIGURES, STAGES
from lowwater.instants import HOUR, format_instant, parse_instant
from lowwater.storage import paths
from lowwater.storage.object_paths import ObjectPath
from tests.storage.servers import BUCKET, DELAYS, Proxy, Rule, proxied, s3_server

ROOT = Path(__file__).resolve().parents[1]
START = parse_instant("2026-01-01T00:00:00Z")
SPAN = ("--from", format_instant(START), "--to", format_instant(START + HOUR))
LINKS = ("main1", "main2", "control")
FOLDERS = ("packets", "lfta", "streams", "tables")
SECONDS = re.compile(r"^\s+(ingest|low|high|audit|publish) .*?: ([\d.,]+) s$", re.MULTILINE)
SETTINGS = """\
[sets]
main0_and_control = ["main1", "control"]

[schedule]
maintain = "never"
"""
LINK = """
[links.{name}]
skew = "1s"
since = "2026-01-01T00:00:00Z"
until = "2026-01-01T01:00:00Z"
policy = "publish"
"""


@dataclass(frozen=True)
class Hour:
    """Captures of an hour.

    Attributes:
        packets: number of packets of all links.
        size: bytes of the files.
        files: link -> file.
    """

    packets: int
    size: int
    files: dict[str, Path]

    @staticmethod
    def of(folder: Path, packets: int) -> Hour:
        """Generates about so many packets."""
        made = generate(folder, START, 1, LINKS, packets / 7200, seed=7)
        first = [capture for capture in made if capture.start == START]
        files = {capture.link: capture.path for capture in first}
        size = sum(file.stat().st_size for file in files.values())
        return Hour(sum(capture.packets for capture in first), size, files)


@dataclass(frozen=True)
class Variant:
    """How a run differs from others.

    Attributes:
        cores: number of cores.
        late: seconds by which the store answers later.
    """

    cores: int
    late: float = 0.0


@dataclass(frozen=True)
class Stage:
    """What a stage took.

    Attributes:
        clock: seconds by the clock, as the command prints them, without its start.
        processor: processor seconds of its processes, with their start.
        requests: method, or LIST -> number of requests to the store.
    """

    clock: float
    processor: float
    requests: dict[str, int]


def measure(hour: Hour, variant: Variant, proxy: Proxy, queries: Path) -> dict[str, Any]:
    """Ingests and replays an hour into a new lake; returns the figures.

    Args:
        hour: the captures.
        variant: cores, and how late the store answers.
        proxy: the way to the store.
        queries: folder with the query set `demo`.
    """
    lake = ObjectPath("s3:", BUCKET, f"capacity-{uuid.uuid4().hex[:8]}")
    paths.write(lake / "lowwater.toml", (SETTINGS + "".join(LINK.format(name=link) for link in hour.files)).encode())
    proxy.breaks(*([Rule("late")] if variant.late else []))
    stages = {}
    for stage in STAGES:
        if stage == "ingest":
            commands = [["ingest", "--link", link, str(file)] for link, file in hour.files.items()]
        else:
            commands = [["replay", "demo", "--queries", str(queries), *SPAN, "--stage", stage]]
        proxy.seen()
        clock, processor = 0.0, processor_seconds()
        for verb, *options in commands:
            clock += _seconds(stage, _said(variant.cores, [verb, "--lake", str(lake), *options]))
        requests = dict(
            sorted(Counter("LIST" if "list-type" in path else method for method, path, _ in proxy.seen()).items())
        )
        stages[stage] = asdict(Stage(round(clock, 2), round(processor_seconds() - processor, 2), requests))
    proxy.breaks()
    sizes = {folder: sum(map(paths.size, paths.matching(lake / folder, "*.parquet"))) for folder in FOLDERS}
    paths.remove_tree(lake)
    return {**asdict(variant), "stages": stages, "bytes": sizes}


def processor_seconds() -> float:
    """Processor seconds of all processes that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _said(cores: int, command: list[str]) -> str:
    line = ["taskset", "-c", "0" if cores == 1 else f"0-{cores - 1}", sys.executable, "-m", "lowwater.cli.main"]
    done = subprocess.run([*line, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def _seconds(stage: str, said: str) -> float:
    return sum(float(text.replace(",", "")) for name, text in SECONDS.findall(said) if name == stage)


def main() -> None:
    """Measures, and writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packets", default="500000,4000000", help="two sizes of the hour; default: %(default)s")
    parser.add_argument("--folder", type=Path, default=ROOT / "var" / "capacity")
    parser.add_argument("--json", type=Path, default=FIGURES, help="where the figures go; default: %(default)s")
    parser.add_argument("--add", action="store_true", help="only runs that the JSON does not have yet")
    options = parser.parse_args()
    folder: Path = options.folder.absolute()
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "queries").mkdir(parents=True)
    shutil.copy(ROOT / "queries" / "demo.gsql", folder / "queries")
    hours = [Hour.of(folder / number, int(number)) for number in options.packets.split(",")]
    sizes: list[dict[str, Any]] = [{"packets": hour.packets, "capture_bytes": hour.size, "runs": []} for hour in hours]
    busy = os.getloadavg()[0]
    if options.add:
        known = json.loads(options.json.read_text(encoding="utf-8"))
        if [size["packets"] for size in known["sizes"]] != [hour.packets for hour in hours]:
            parser.error(f"{options.json} has other sizes")
        sizes, busy = known["sizes"], max(busy, known["load_average"])
    with s3_server(folder / "s3.log") as server, proxied(server) as proxy:
        keys = {"AWS_ACCESS_KEY_ID": "capacity", "AWS_SECRET_ACCESS_KEY": "capacity", "AWS_REGION": "us-east-1"}
        os.environ.update({**keys, "AWS_ENDPOINT_URL": proxy.url})
        measure(hours[0], Variant(2), proxy, folder / "queries")  # compiles what is not compiled yet
        for variant in (Variant(1), Variant(2), Variant(2, DELAYS["late"])):
            for hour, size in zip(hours, sizes, strict=True):
                if any((run["cores"], run["late"]) == (variant.cores, variant.late) for run in size["runs"]):
                    continue
                size["runs"].append(measure(hour, variant, proxy, folder / "queries"))
                print(json.dumps({"packets": hour.packets, **size["runs"][-1]}), flush=True)
                busy = max(busy, os.getloadavg()[0])
                _keep(options.json, options.packets, busy, sizes)


def _keep(file: Path, packets: str, busy: float, sizes: list[dict[str, Any]]) -> None:
    """Writes the figures so far.

    Args:
        file: the JSON.
        packets: sizes of the hour, as they were asked for.
        busy: highest load average.
        sizes: the runs of each size.
    """
    figures = {
        "date": time.strftime("%Y-%m-%d"),
        "command": f"python -m benchmarks.bench_capacity --packets {packets}",
        "machine": {"cores": os.cpu_count(), "processor": platform.processor() or platform.machine()},
        "load_average": round(busy, 1),
        "sizes": sizes,
    }
    file.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
