"""Lowwater in the comparison: a lake, its commands, and the rows of its tables."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
from deltalake import DeltaTable

from benchmarks.exactness.inputs import Captures
from lowwater.plan.properties import is_instant

ROOT = Path(__file__).parents[2]
QUERIES = {"flows": "flows of ten seconds", "handshakes": "TCP handshakes"}
_LIMIT = 500
_BATCHES = 4
_ALIVE = 3.0
"""Time from the start of a command to its death, s: it is then at work."""
_LINK = """[links.{link}]
captures = "{folder}/{link}_%Y%m%dT%H%M%SZ.pcap"
rotation = "{rotation}"
since = "2026-01-01T00:00:00Z"
until = "2026-01-01T01:00:00Z"

"""
_SET = """[query_sets.{name}]
files = ["{file}"]

"""


def published(captures: Captures, out: Path) -> dict[str, list[str]]:
    """Imports captures into a new lake, runs its hour, and returns the rows of its tables.

    The files come in batches, so that the order of the import is that of the variant. A variant that is killed has its
    second ingest and its backfill killed.
    """
    lake = out / "lake"
    lake.mkdir(parents=True)
    (lake / "lowwater.toml").write_text(settings(captures))
    for link, files in captures.files.items():
        size = -(-len(files) // _BATCHES)
        for number, at in enumerate(range(0, len(files), size)):
            words = ["ingest", "--lake", str(lake), "--link", link, *map(str, files[at : at + size])]
            if captures.killed and number == 1:
                _command(words, kill=True)
            _command(words)
    run = ["backfill", "--lake", str(lake)]
    if captures.killed:
        _command(run, kill=True)
    _command(run)
    return {title: _rows(lake / "tables" / name) for name, title in QUERIES.items()}


def settings(captures: Captures) -> str:
    """The settings of the lake: how long a file covers, the life of the links, the queries."""
    links = [
        _LINK.format(link=link, folder=files[0].parent, rotation="1h" if len(files) == 1 else "1min")
        for link, files in captures.files.items()
    ]
    sets = [_SET.format(name=name, file=ROOT / "queries" / f"{name}.gsql") for name in QUERIES]
    return "".join((*links, *sets))


def _command(words: list[str], kill: bool = False) -> None:
    """Runs a command of Lowwater, or kills it and its children once it is at work."""
    command = [sys.executable, "-m", "lowwater.cli.main", *words]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True, cwd=ROOT
    )
    if kill:
        time.sleep(_ALIVE)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return
    printed, _ = process.communicate(timeout=_LIMIT)
    if process.returncode:
        raise RuntimeError(f"lowwater {' '.join(words)} ended with {process.returncode}: {printed[-800:]}")


def _rows(table: Path) -> list[str]:
    with duckdb.connect() as connection:
        published = DeltaTable(table).to_pyarrow_dataset()
        connection.register("published", published)
        columns = ", ".join(f'"{column.name}"' for column in published.schema if not is_instant(column.type))
        return [str(row) for row in connection.execute(f"SELECT {columns} FROM published").fetchall()]
