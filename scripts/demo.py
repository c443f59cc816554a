"""`make demo`: captures of three links, ingested and replayed hour by hour, and what became of every packet.

A second run finds everything published from the same inputs and commits nothing to `tables/`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lowwater.capture.generate import GeneratedCapture, generate
from lowwater.config import HOUR, format_duration, format_instant, load_config, parse_instant
from lowwater.errors import LowwaterError
from lowwater.high.session import build_session
from lowwater.high.tasks import spark_runner
from lowwater.lake.ingest import ingest
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.records import read_violations
from lowwater.lake.tables import open_table
from lowwater.replay.interval import Outcome, replay
from lowwater.replay.job import Job
from lowwater.replay.progress import Progress

ROOT = Path(__file__).resolve().parents[1]
VAR = ROOT / "var"
LAKE = VAR / "lake"
START = parse_instant("2026-01-01T00:00:00Z")
HOURS = 3
LINKS = ("main1", "main2", "control")
SETTINGS = """\
# The settings of the demo's lake: three links, one of which may be excluded where it has not reported.
[interval]
length = "1h"
{links}
[sets]
main0_and_control = ["main1", "control"]

[query_sets.demo]
files = ["{queries}"]
"""
LINK = """
[links.{name}]
captures = "../captures/{name}/{name}_%Y%m%dT%H%M%SZ.pcap"
skew = "1s"
since = "{since}"
policy = "{policy}"
"""


def main() -> int:
    """Runs the demo; returns the exit code."""
    console = Console(width=None if sys.stdout.isatty() else 140)
    progress = Progress()
    with progress.stage("generate", f"{HOURS} hours of {len(LINKS)} links"):
        captures = generate(VAR / "captures", START, HOURS, LINKS, rate=25.0, seed=7)
    lake = open_lake(LAKE)
    _write_settings()
    with progress.stage("session"):
        spark = build_session("lowwater demo")
    config = load_config(LAKE)
    runner = spark_runner(spark)
    with progress.stage("ingest", f"of {len(captures)} captures"):
        # What a capture covers comes with it: the last one of each link covers a minute, not an hour.
        notes = [
            (each, ingest(lake, each.link, [each.path], config, (each.start, each.end), runner)[0].note)
            for each in captures
        ]
    before = _versions(lake)
    job = Job.open(LAKE, "demo", ROOT / "queries")
    outcomes = replay(job, START, START + HOURS * HOUR, None, progress, spark)
    commits = sum(_versions(lake).values()) - sum(before.values())
    _show_captures(console, notes)
    _show_outcomes(console, outcomes)
    _show_violations(console, lake, job)
    seconds = ", ".join(f"{name} {spent:.1f} s" for name, spent in progress.seconds.items())
    console.print(f"\nSeconds per stage: {seconds}")
    console.print(f"Commits to {LAKE.relative_to(ROOT)}/tables in this run: {commits}", highlight=False)
    return 0


def _write_settings() -> None:
    links = "".join(
        LINK.format(name=name, since=format_instant(START), policy="exclude" if name == "control" else "fail")
        for name in LINKS
    )
    text = SETTINGS.format(links=links, queries="../../queries/demo.gsql")
    (LAKE / "lowwater.toml").write_text(text, encoding="utf-8")


def _versions(lake: Lake) -> dict[str, int]:
    """Commits of each published table."""
    folder = lake.root / "tables"
    found = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        table = open_table(path)
        found[path.name] = table.version() + 1 if table else 0
    return found


def _show_captures(console: Console, notes: list[tuple[GeneratedCapture, str]]) -> None:
    table = Table(title="Captures", title_justify="left", box=None)
    for name in ("link", "covers from", "packets", "note"):
        table.add_column(name, justify="right" if name == "packets" else "left")
    for each, note in notes:
        table.add_row(each.link, format_instant(each.start), f"{each.packets:,}", note)
    console.print(table)


def _show_outcomes(console: Console, outcomes: list[Outcome]) -> None:
    table = Table(title="\nPublished", title_justify="left", box=None)
    for name in ("interval", "state", "query", "rows", "why"):
        table.add_column(name, justify="right" if name == "rows" else "left")
    for each in outcomes:
        for query, rows in each.rows.items():
            table.add_row(format_instant(each.start), each.state, query, f"{rows:,}", each.reason)
    console.print(table)


def _show_violations(console: Console, lake: Lake, job: Job) -> None:
    table = Table(title="\nRefused: packets later than their link's skew", title_justify="left", box=None)
    for name in ("link", "skew", "packets", "latest by"):
        table.add_column(name)
    for link in job.plan.links:
        skew = job.config.link(link).skew
        rows = read_violations(lake, link, skew, START, START + (HOURS + 1) * HOUR)
        latest = max(rows.column("lateness").to_pylist(), default=0)
        table.add_row(link, format_duration(skew), str(rows.num_rows), f"{latest / 1e9:.3f} s" if latest else "")
    console.print(table)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LowwaterError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
