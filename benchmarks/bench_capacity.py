"""Figures for docs/capacity.md: seconds of each stage at 1 and 2 cores, bytes a packet, requests to the store.

`python -m benchmarks.bench_capacity --packets 1000000` generates captures of one link, ingests and replays an hour of
them with the lake in the S3 server of the tests, on one core, on two, and on two with a store whose every answer comes
50 ms later. The server itself has the other core, or shares both.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import uuid
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from lowwater.capture.generate import generate
from lowwater.instants import HOUR, format_instant, parse_instant
from lowwater.storage import paths
from lowwater.storage.object_paths import ObjectPath
from tests.storage.servers import BUCKET, LATE, Proxy, Rule, proxied, s3_server

ROOT = Path(__file__).resolve().parents[1]
START = parse_instant("2026-01-01T00:00:00Z")
STAGES = ("ingest", "low", "high", "audit", "publish")
SECONDS = re.compile(r"^\s+(ingest|low|high|audit|publish) .*?: ([\d.,]+) s", re.MULTILINE)
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
class Figures:
    """The figures of one run.

    Attributes:
        name: what is special about it.
        seconds: stage -> seconds.
        requests: stage -> number of requests by method.
        sizes: folder of the lake -> bytes.
    """

    name: str
    seconds: dict[str, float]
    requests: dict[str, dict[str, int]]
    sizes: dict[str, int]


def measure(name: str, proxy: Proxy, captures: dict[str, Path], cores: str, late: bool, queries: Path) -> Figures:
    """Ingests and replays the hour into a new lake."""
    lake = ObjectPath("s3:", BUCKET, f"capacity-{uuid.uuid4().hex[:8]}")
    paths.write(lake / "lowwater.toml", (SETTINGS + "".join(LINK.format(name=link) for link in captures)).encode())
    proxy.breaks(*([Rule("late")] if late else []))
    seconds: dict[str, float] = {}
    requests: dict[str, dict[str, int]] = {}
    span = "--from", format_instant(START), "--to", format_instant(START + HOUR)
    for stage in STAGES:
        proxy.seen()
        if stage == "ingest":
            commands = [["ingest", "--link", link, str(file)] for link, file in captures.items()]
        else:
            commands = [["replay", "demo", "--queries", str(queries), *span, "--stage", stage]]
        for verb, *options in commands:
            line = [
                "taskset",
                "-c",
                cores,
                sys.executable,
                "-m",
                "lowwater.cli.main",
                verb,
                "--lake",
                str(lake),
                *options,
            ]
            done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
            for said, text in SECONDS.findall(done.stdout + done.stderr):
                if said == stage:
                    seconds[stage] = seconds.get(stage, 0.0) + float(text.replace(",", ""))
        requests[stage] = dict(Counter(method for method, *_ in proxy.seen()))
    proxy.breaks()
    sizes = {folder: sum(map(paths.size, paths.matching(lake / folder, "*.parquet"))) for folder in FOLDERS}
    return Figures(name, seconds, requests, sizes)


FOLDERS = ("packets", "lfta", "streams", "tables")


def main() -> None:
    """Measures, and prints a line of JSON for each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packets", type=int, default=1_000_000, help="of the hour; default: 1,000,000")
    parser.add_argument("--folder", type=Path, default=ROOT / "var" / "capacity")
    options = parser.parse_args()
    folder: Path = options.folder.absolute()
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "queries").mkdir(parents=True)
    shutil.copy(ROOT / "queries" / "demo.gsql", folder / "queries")
    made = generate(folder / "captures", START, 1, ("main1", "main2", "control"), options.packets / 7200, seed=7)
    files = {capture.link: capture.path for capture in made if capture.start == START}
    packets = sum(capture.packets for capture in made if capture.start == START)
    size = sum(file.stat().st_size for file in files.values())
    print(json.dumps({"packets": packets, "capture_bytes": size}), flush=True)
    with s3_server(folder / "s3.log") as server, proxied(server) as proxy:
        keys = {"AWS_ACCESS_KEY_ID": "capacity", "AWS_SECRET_ACCESS_KEY": "capacity", "AWS_REGION": "us-east-1"}
        os.environ.update({**keys, "AWS_ENDPOINT_URL": proxy.url})
        runs = [("warm-up", "0,1", False), ("1 core", "0", False), ("2 cores", "0,1", False)]
        for name, cores, late in [*runs, (f"2 cores, answers {LATE * 1000:.0f} ms later", "0,1", True)]:
            print(json.dumps(vars(measure(name, proxy, files, cores, late, folder / "queries"))), flush=True)


if __name__ == "__main__":
    main()
