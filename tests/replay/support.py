"""A small lake for the end-to-end tests: three hours of three links, as `make demo` has them, and readers of it."""

from __future__ import annotations

import io
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path, PurePath
from socketserver import BaseServer
from threading import Thread
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from lowwater_generator import GeneratedCapture

from lowwater.cli.main import main
from lowwater.config import load_config
from lowwater.instants import HOUR, parse_instant
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from lowwater.lake.tables import fetch_rows, open_table, table_dataset
from lowwater.plan.properties import is_instant
from lowwater.replay.interval import Outcome, replay
from lowwater.replay.job import Job
from lowwater.replay.progress import Progress
from lowwater.replay.schedule.due import statuses

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

ROOT = Path(__file__).resolve().parents[2]
QUERIES = ROOT / "queries"
START = parse_instant("2026-01-01T00:00:00Z")
HOURS = 3
END = START + HOURS * HOUR
LINKS = ("main1", "main2", "control")
SETS: dict[str, tuple[str, ...]] = {"main0_and_control": ("main1", "control")}
DEMO = ("flows", "full_flow")
"""Output queries of queries/demo.gsql."""

Rows = list[tuple[Any, ...]]


def write_settings(
    lake: Path,
    skews: Mapping[str, str] | None = None,
    length: str = "1h",
    sets: Mapping[str, Path] | None = None,
    policy: str = "exclude",
) -> None:
    """Writes `lowwater.toml`: the links, their sets, and the query sets by file; `policy` is that of control."""
    lines = [f'[interval]\nlength = "{length}"\n\n[sets]']
    lines += [f"{name} = {list(links)!r}".replace("'", '"') for name, links in SETS.items()]
    for name, file in (sets or {"demo": QUERIES / "demo.gsql"}).items():
        lines.append(f'\n[query_sets.{name}]\nfiles = ["{file}"]')
    for link in LINKS:
        own = policy if link == "control" else "fail"
        skew = (skews or {}).get(link, "1s")
        lines.append(f'\n[links.{link}]\nskew = "{skew}"\nsince = "2026-01-01T00:00:00Z"\npolicy = "{own}"')
    (lake / "lowwater.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def ingest_all(lake: Path, captures: Iterable[GeneratedCapture]) -> None:
    """Ingests captures in this process, each with what it covers."""
    opened, config = open_lake(lake), load_config(lake)
    for each in captures:
        ingest(opened, each.link, [each.path], config, (each.start, each.end))


def copy_lake(lake: Path, to: Path) -> Path:
    """Another lake with the same content."""
    return Path(shutil.copytree(lake, to))


def replay_range(
    lake: Path, runner: Runner, start: int, end: int, stage: str | None = None, query_set: str = "demo"
) -> list[Outcome]:
    """What `lowwater replay` does, on the session of the tests."""
    return replay(Job.open(lake, query_set, QUERIES), start, end, stage, Progress(quiet=True), runner)


def table_rows(lake: PurePath, query: str, start: int = START, end: int = END) -> Rows:
    """The rows of a published table whose `_last` is in [start, end), all columns but instants by name, sorted."""
    stored = stored_rows(lake, query, start, end)
    names = sorted(column.name for column in stored.schema if not is_instant(column.type))
    return sorted((tuple(row[name] for name in names) for row in stored.to_pylist()), key=repr)


def column_rows(lake: PurePath, query: str, columns: Sequence[str], start: int, end: int) -> Counter[tuple[Any, ...]]:
    """The values of some columns of a published table in each row whose `_last` is in [start, end)."""
    rows = stored_rows(lake, query, start, end).to_pylist()
    return Counter(tuple(row[name] for name in columns) for row in rows)


def stored_rows(lake: PurePath, query: str, start: int, end: int) -> pa.Table:
    """The rows of a published table whose `_last` is in [start, end)."""
    path = lake / "tables" / query
    table = open_table(path)
    assert table is not None, f"tables/{query} does not exist"
    stored = fetch_rows(path, table_dataset(path, table)).to_table()
    last = stored["_last"].to_numpy()
    return stored.filter(pa.array((last >= start) & (last < end)))


def query_columns(table: pa.Table) -> pa.Table:
    """The columns of the query: without those that the lake adds."""
    added = [column.name for column in table.schema if column.name[0] == "_" or is_instant(column.type)]
    return table.drop_columns(added)


def all_tables(lake: Path, queries: Sequence[str] = DEMO) -> dict[str, Rows]:
    """Every published table."""
    assert sorted(path.name for path in (lake / "tables").iterdir()) == sorted(queries)
    return {query: table_rows(lake, query, 0, 1 << 62) for query in queries}


def commits(lake: Path) -> dict[str, int]:
    """The version of each published table."""
    found = {path.name: open_table(path) for path in (lake / "tables").iterdir()}
    return {name: table.version() for name, table in found.items() if table is not None}


def states(lake: Path, query_set: str = "demo") -> dict[tuple[int, str], str]:
    """(hours since START, query) -> state, as `lowwater status` shows it; not of the hour in which the captures end."""
    rows = [row for row in statuses(lake, QUERIES) if row.query_set == query_set]
    rows = [row for row in rows if row.start < END or row.state != "missing"]
    return {((row.start - START) // HOUR, row.query): row.state for row in rows}


def each_query(*by_hour: str) -> dict[tuple[int, str], str]:
    """The states of the hours from 0 on, the same for both queries of the demo."""
    return {(hour, query): state for hour, state in enumerate(by_hour) for query in DEMO}


def leftovers(lake: Path) -> list[Path]:
    """What runs left in `_work/`, and checkpoints anywhere."""
    return [*(lake / "_work").iterdir(), *lake.rglob("checkpoint")]


@contextmanager
def listening(server: BaseServer) -> Iterator[Any]:
    """Lets a server answer on a thread until the block ends."""
    with server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


def wait(condition: Callable[[], Any], seconds: float, every: float = 0.3) -> Any:
    """Polls until a condition gives something; what it gave, or None when the time is over.

    Args:
        condition: what is asked again and again.
        seconds: for how long.
        every: seconds between two questions; those to a server of Airflow cost it about 50 ms of work each.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(every)
    return None


@dataclass(frozen=True)
class Said:
    """What a command left: its exit code and what it printed."""

    code: int
    out: str
    err: str


def lowwater(*arguments: object) -> Said:
    """Runs the command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    said = Said(int(ended.value.code or 0), out.getvalue(), err.getvalue())
    assert "Traceback" not in said.out + said.err
    return said
