"""`make demo`: ingests and replays captures of three links hour by hour with Airflow, and reports on every packet.

A second run finds everything published from the same inputs and commits nothing to `tables/`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any

from home import ROOT, Home, HomeError, default_home
from lowwater_generator import GeneratedCapture, generate
from rich.live import Live
from rich.table import Table
from rich.text import Text

from lowwater.cli.report import show_report
from lowwater.errors import LowwaterError
from lowwater.instants import HOUR, format_duration, format_instant, parse_instant
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.runs import read_violations
from lowwater.lake.tables import open_table
from lowwater.replay.job import Job
from lowwater.replay.progress import Progress
from lowwater.replay.schedule.due import statuses
from lowwater.terminal import Terminal, open_console, styled

VAR = ROOT / "var"
START = parse_instant("2026-01-01T00:00:00Z")
HOURS = 3
END = START + HOURS * HOUR
LINKS = ("main1", "main2", "control")
DAGS = ("capture_ingest", "replay_demo")
LONGEST = 1800.0
"""Seconds that the backfills may take on a busy machine."""
SETTINGS = """\
# The settings of the demo's lake: three links, one of which is left out where it has not reported.
[interval]
length = "1h"
{links}
[sets]
main0_and_control = ["main1", "control"]

[query_sets.demo]
files = ["../../queries/demo.gsql"]

[replay]
patience = "10min"

[spark]
master = "local[*]"
"""
LINK = """
[links.{name}]
captures = "../captures/{name}/{name}_%Y%m%dT%H%M%SZ.pcap"
rotation = "1h"
skew = "1s"
since = "{since}"
until = "{until}"
outside = "accepted"
policy = "{policy}"
"""


def main() -> int:
    """Runs the demo; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave Airflow running")
    keep = parser.parse_args().keep
    console = open_console()
    progress, home = Progress(), default_home()
    try:
        home.prepare()
        with progress.stage("generate", f"{HOURS} hours of {len(LINKS)} links"):
            captures = generate(VAR / "captures", START, HOURS, LINKS, rate=4.0, seed=7)
        lake = open_lake(home.lake)
        (lake.root / "lowwater.toml").write_text(settings(), encoding="utf-8")
        before = _versions(lake)
        with progress.stage("airflow", "start"):
            home.start()
            home.ready(*DAGS)
        with progress.stage("backfill", f"of {' and '.join(DAGS)} by Airflow"):
            states = backfill(home, console)
        commits = sum(_versions(lake).values()) - sum(before.values())
        show_captures(console, captures)
        show_published(console, home)
        show_violations(console, home)
        console.print("\nAudited", style="bold")
        show_report(home.lake, None, home.queries)
        seconds = ", ".join(f"{name} {spent:.1f} s" for name, spent in progress.seconds.items())
        console.print(f"\nSeconds: {seconds}\nCommits to {lake.root.relative_to(ROOT)}/tables in this run: {commits}")
        if set(states.values()) != {"success"}:
            return explain_failures(console, home)
        if keep:
            console.print(f"Airflow runs at {home.address}; make down stops it")
        else:
            console.print("Airflow is stopped; make up starts it again, with these runs in it")
        return 0
    finally:
        if not keep:
            home.stop()


def settings() -> str:
    """The settings of the demo's lake."""
    links = "".join(
        LINK.format(
            name=name,
            since=format_instant(START),
            until=format_instant(END),
            policy="publish" if name == "control" else "fail",
        )
        for name in LINKS
    )
    return SETTINGS.format(links=links)


def backfill(home: Home, console: Terminal) -> dict[str, str]:
    """Backfills both DAGs at once; returns the final state of each run.

    Args:
        home: the Airflow.
        console: is told what changes.
    """
    last = format_instant(END - HOUR)
    for dag in DAGS:
        home.backfill(dag, format_instant(START), last)
    deadline = time.monotonic() + LONGEST
    changed: set[str] = set()
    with Live(console=console, transient=True) if console.is_terminal else _Silent() as live:
        while True:
            tasks = [task for dag in DAGS for task in home.tasks(dag)]
            live.update(_grid(tasks))
            if not console.is_terminal:
                _say_changes(console, tasks, changed)
            runs = {run["dag_run_id"] + run["dag_id"]: run["state"] for dag in DAGS for run in home.runs(dag)}
            if runs and set(runs.values()) <= {"success", "failed"}:
                return runs
            if time.monotonic() > deadline:
                raise HomeError(f"the backfills did not end in {LONGEST:.0f} s: see {home.log}")
            time.sleep(1.0)


class _Silent:
    """Replaces the live table where there is no terminal."""

    def __enter__(self) -> _Silent:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def update(self, _: object) -> None:
        return None


def _grid(tasks: Iterable[Mapping[str, Any]]) -> Table:
    """A table with a row for each run and its tasks."""
    cells: dict[tuple[str, str], dict[str, list[str]]] = {}
    for task in tasks:
        row = cells.setdefault((task["dag_id"], _hour(task)), {})
        row.setdefault(task["task_id"], []).append(task["state"] or "")
    table = Table("DAG", "interval", "tasks", box=None)
    for (dag, hour), row in sorted(cells.items()):
        table.add_row(
            dag, hour, styled("  ").join(styled(f"{name} ") + _summary(states) for name, states in row.items())
        )
    return table


def _summary(states: list[str]) -> Text:
    colours = {"success": "green", "running": "cyan", "failed": "red", "up_for_retry": "yellow", "deferred": "magenta"}
    counted = {state: states.count(state) for state in states}
    texts = [(f"{count} " if len(states) > 1 else "") + (state or "-") for state, count in counted.items()]
    parts = (styled(text, colours.get(state, "dim")) for state, text in zip(counted, texts, strict=True))
    return styled(" ").join(parts)


def _say_changes(console: Terminal, tasks: Iterable[Mapping[str, Any]], changed: set[str]) -> None:
    for task in tasks:
        if task["state"] in ("success", "deferred", "failed", "up_for_retry"):
            name = task["task_id"] + (f" [{task['rendered_map_index']}]" if task["map_index"] >= 0 else "")
            seconds = f" in {task['duration']:.1f} s" if task["state"] == "success" and task["duration"] else ""
            line = f"  {task['dag_id']} {_hour(task)} {name}: {task['state']}{seconds}"
            if line not in changed:
                changed.add(line)
                console.print(line)


def _hour(task: Mapping[str, Any]) -> str:
    """The begin of the interval of a task's run."""
    return str(task["logical_date"]).replace("+00:00", "Z")


def explain_failures(console: Terminal, home: Home) -> int:
    """Prints the last lines of each failed task; returns the exit code."""
    for dag in DAGS:
        for task in home.tasks(dag):
            if task["state"] == "failed":
                console.print(f"\n{dag} {_hour(task)} {task['task_id']} failed:\n{home.why(task)}")
    return 1


def _versions(lake: Lake) -> dict[str, int]:
    """Commits of each published table."""
    folder = lake.root / "tables"
    versions = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        table = open_table(path)
        versions[path.name] = table.version() + 1 if table else 0
    return versions


def show_captures(console: Terminal, captures: Iterable[GeneratedCapture]) -> None:
    """Prints a table of the captures."""
    console.print("\nCaptures", style="bold")
    table = Table(box=None)
    for name in ("link", "covers from", "packets", "note"):
        table.add_column(name, justify="right" if name == "packets" else "left")
    for capture in captures:
        if capture.start < END:
            note = "cut inside its last record" if capture.cut else ""
            table.add_row(capture.link, format_instant(capture.start), f"{capture.packets:,}", note)
    console.print(table)


def show_published(console: Terminal, home: Home) -> None:
    """Prints a table of what is published."""
    console.print("\nPublished", style="bold")
    table = Table(box=None)
    for name in ("interval", "state", "query", "rows", "why"):
        table.add_column(name, justify="right" if name == "rows" else "left")
    for row in statuses(home.lake, home.queries):
        if row.query_set == "demo":
            rows = "" if row.rows is None else f"{row.rows:,}"
            table.add_row(format_instant(row.start), row.state, row.query, rows, row.reason)
    console.print(table)


def show_violations(console: Terminal, home: Home) -> None:
    """Prints a table of the packets that were refused."""
    job = Job.open(home.lake, "demo", home.queries)
    console.print("\nRefused: packets later than their link's skew", style="bold")
    table = Table(box=None)
    for name in ("link", "skew", "packets", "latest by"):
        table.add_column(name)
    for link in job.plan.links:
        skew = job.config.link(link).skew
        rows = read_violations(job.lake, link, job.config.link(link), START, END + HOUR)
        latest = max(rows.column("lateness").to_pylist(), default=0)
        table.add_row(link, format_duration(skew), str(rows.num_rows), f"{latest / 1e9:.3f} s" if latest else "")
    console.print(table)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (LowwaterError, HomeError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
