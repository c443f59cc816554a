"""Upkeep of a lake: small files joined, old versions and rows between the stages removed, what dead runs left cleared.

Beside the pipeline, under the locks of the runs; called by `lowwater maintain` and its DAG. It never touches
`packets/` (ingest clears those of dead attempts itself), nor the order of stream files, whose digest was audited.
"""

from __future__ import annotations

import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lowwater.config import Retention
from lowwater.errors import BusyError
from lowwater.instants import HOUR
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.runs import DONE, FAILED, INCOMPLETE, PROVISIONAL, PUBLISH, Replay, read_replays
from lowwater.lake.locks import hold, hold_range
from lowwater.lake.tables import (
    hours,
    interval_label,
    join_files,
    lake_errors,
    live_files,
    open_table,
    safe_name,
    swap_files,
)


@dataclass(frozen=True)
class Kept:
    """One step of the upkeep, done or with `dry_run` to be done.

    Attributes:
        what: joined, removed streams, removed files, removed staging.
        where: relative to the lake.
        files: how many.
        bytes: that they had.
    """

    what: str
    where: str
    files: int
    bytes: int


def maintain(
    lake: Lake,
    retention: Retention,
    dry_run: bool = False,
    clock: Callable[[], int] = time.time_ns,
) -> list[Kept]:
    """Does what is due of the upkeep; may run beside everything else and be killed at any moment.

    Args:
        lake: the lake.
        retention: how long things are kept.
        dry_run: only say what would be done.
        clock: now, ns.

    Raises:
        BusyError: another process does the same.
        LakeError: the lake cannot be read or written.
    """
    with hold(lake, "maintenance"):
        replays = read_replays(lake)
        found = list(_staging(lake, dry_run))
        if retention.streams is not None:
            found += _streams(lake, replays, clock() - retention.streams, dry_run)
        found += _joined(lake, replays, dry_run)
        for path in _tables(lake):
            found += _vacuumed(lake, path, retention.versions, dry_run)
        return found


def _tables(lake: Lake) -> list[Path]:
    """Every Delta table but `packets/`, whose uncommitted files may be hours old before their commit."""
    ledgers = [lake.captures, lake.malformed, lake.violations, lake.heartbeats, lake.replays, lake.quality]
    folders = [*lake.root.glob("tables/*"), *lake.root.glob("streams/*"), *lake.root.glob("lfta/*/*")]
    return [*ledgers, lake.quarantine, *sorted(path for path in folders if path.is_dir())]


def _staging(lake: Lake, dry_run: bool) -> Iterator[Kept]:
    """Folders under `_work/` whose run is dead: its lock is free."""
    for folder in sorted(lake.work.iterdir()):
        try:
            with hold(lake, folder.name):
                files = [path for path in folder.rglob("*") if path.is_file()]
                kept = Kept("removed staging", _relative(lake, folder), len(files), sum(map(_size, files)))
                if not dry_run:
                    shutil.rmtree(folder, ignore_errors=True)
        except BusyError:
            continue
        yield kept


def _streams(lake: Lake, replays: list[Replay], before: int, dry_run: bool) -> Iterator[Kept]:
    """The partitions of `lfta/` and `streams/` of intervals whose queries were all published long enough ago."""
    newest: dict[tuple[str, int, int], dict[str, Replay]] = defaultdict(dict)
    for row in replays:
        newest[row.query_set, row.interval_start, row.interval_end][row.query] = row
    for (name, start, end), rows in sorted(newest.items()):
        last = [row for query, row in rows.items() if query]
        settled = last and all(row.stage == PUBLISH and row.state in (DONE, INCOMPLETE) for row in last)
        latest = max(row.finished_at for row in rows.values())
        failed = any(row.state == FAILED and row.finished_at == latest for row in rows.values())
        if not settled or failed or latest >= before:
            continue
        folders = [*(lake.root / "lfta" / safe_name(name)).glob("*"), *(lake.stream(row.query) for row in last)]
        try:
            with hold_range(lake, name, start, end):
                for folder in folders:
                    yield from _without_interval(lake, folder, interval_label(start, end), dry_run)
        except BusyError:
            continue


def _without_interval(lake: Lake, path: Path, label: str, dry_run: bool) -> Iterator[Kept]:
    table = open_table(path)
    rows = [] if table is None else [row for row in live_files(table) if row["partition.interval"] == label]
    if not rows:
        return
    if not dry_run:
        swap_files(path, [], lambda table: [row for row in live_files(table) if row["partition.interval"] == label])
        with lake_errors(f"{path}: rows of {label} cannot be removed"):
            for row in rows:
                (path / row["path"]).unlink(missing_ok=True)
    size = sum(row["size_bytes"] for row in rows)
    yield Kept("removed streams", _relative(lake, path / f"interval={label}"), len(rows), size)


def _joined(lake: Lake, replays: list[Replay], dry_run: bool) -> Iterator[Kept]:
    """Published hours in several files, joined once nothing of them is open; ledgers join theirs as they grow."""
    unsettled: dict[str, set[int]] = defaultdict(set)
    newest = {(row.query_set, row.query, row.interval_start, row.interval_end): row for row in replays if row.query}
    for row in newest.values():
        if row.stage != PUBLISH or row.state in (FAILED, PROVISIONAL):
            first, final = hours(row.interval_start, row.interval_end)
            unsettled[safe_name(row.query)] |= set(range(first, final + 1))
    for path in sorted(lake.root.glob("tables/*")):
        table = open_table(path)
        files: dict[int, list[int]] = defaultdict(list)
        for live in live_files(table) if table is not None else ():
            files[live["partition._hour"]].append(live["size_bytes"])
        closed = {hour: sizes for hour, sizes in files.items() if len(sizes) > 1 and hour not in unsettled[path.name]}
        if not closed:
            continue
        if not dry_run and not join_files(path, "_hour", [str(hour) for hour in sorted(closed)]):
            continue  # a run has just replaced some of it; the next upkeep finds it again
        sizes = [size for each in closed.values() for size in each]
        yield Kept("joined", _relative(lake, path), len(sizes), sum(sizes))


def _vacuumed(lake: Lake, path: Path, versions: int, dry_run: bool) -> Iterator[Kept]:
    """Files that no version of the last while names: replaced ones, and what dead runs wrote and did not commit."""
    table = open_table(path)
    if table is None:
        return
    keep = -(-versions // HOUR)
    with lake_errors(f"{path}: old files cannot be removed"):
        names = table.vacuum(keep, dry_run=True, enforce_retention_duration=False, full=True)
        files = [path / name for name in names]
        kept = Kept("removed files", _relative(lake, path), len(files), sum(map(_size, files)))
        if names and not dry_run:
            table.vacuum(keep, dry_run=False, enforce_retention_duration=False, full=True)
    if names:
        yield kept


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # removed meanwhile
        return 0


def _relative(lake: Lake, path: Path) -> str:
    return path.relative_to(lake.root).as_posix()
