"""Maintenance of a lake: joins small files, sums published ones, removes old versions, streams and leftovers of runs.

Called by `lowwater maintain` and its DAG, under the locks of the runs. It never touches `packets/`, where ingest
removes leftovers itself. It never changes the order of stream files, whose digest was audited.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePath

from lowwater.config import Retention
from lowwater.errors import BusyError
from lowwater.instants import HOUR
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.runs import DONE, FAILED, INCOMPLETE, PROVISIONAL, PUBLISH, ReplayRow, read_replays
from lowwater.lake.locks import hold, hold_range, hold_staging
from lowwater.lake.results.pins import all_pins
from lowwater.lake.results.sums import make_sums
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
from lowwater.storage import paths
from lowwater.storage.containment import require_folder, require_names


@dataclass(frozen=True)
class UpkeepStep:
    """A step of the maintenance: done, or with `dry_run` due.

    Attributes:
        what: joined, summed, removed streams, removed files, removed staging.
        where: path relative to the lake.
        files: number of files.
        bytes: total size of these files.
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
) -> list[UpkeepStep]:
    """Maintains a lake. It may run beside everything else and be killed at any moment.

    Args:
        lake: the lake.
        retention: how long files and streams are kept.
        dry_run: whether to report what is due, and change nothing.
        clock: returns the current time, ns.

    Raises:
        BusyError: if another process maintains the lake.
        LakeError: if the lake cannot be read or written.
    """
    with hold(lake, "maintenance"):
        replays = read_replays(lake)
        steps = list(_clear_staging(lake, dry_run))
        if retention.streams is not None:
            steps += _remove_streams(lake, replays, clock() - retention.streams, dry_run)
        steps += _join_tables(lake, replays, dry_run)
        steps += _sum_tables(lake, dry_run)
        pinned = {lake.table(query) for pins in all_pins(lake) if pins.unfinished for query in pins.tables}
        for path in _tables(lake):
            if path in pinned:  # readers are held at a version that grows old, until its set is published wholly
                continue
            steps += _vacuum(lake, path, retention.versions, dry_run)
        return steps


def _tables(lake: Lake) -> list[PurePath]:
    """Lists every Delta table except `packets/`, whose files may be hours old before their commit."""
    ledgers = [lake.captures, lake.files, lake.malformed, lake.violations, lake.heartbeats, lake.replays, lake.quality]
    folders = [folder for name in ("tables", "streams", "sums") for folder in paths.folders(lake.root / name)]
    folders += [folder for query_set in paths.folders(lake.root / "lfta") for folder in paths.folders(query_set)]
    return [*ledgers, lake.quarantine, *sorted(folders)]


def _clear_staging(lake: Lake, dry_run: bool) -> Iterator[UpkeepStep]:
    """Removes the folders under `_work/` whose lock is free: their run is dead."""
    for folder in paths.children(lake.work):
        try:
            with hold_staging(lake, folder):
                files = list(paths.files_below(folder))
                step = UpkeepStep("removed staging", _relative(lake, folder), len(files), sum(map(_size, files)))
                if not dry_run:
                    paths.remove_tree(folder)
        except BusyError:
            continue
        yield step


def _remove_streams(lake: Lake, replays: list[ReplayRow], before: int, dry_run: bool) -> Iterator[UpkeepStep]:
    """Removes the `lfta/` and `streams/` partitions of intervals whose queries were all published before an instant."""
    newest: dict[tuple[str, int, int], dict[str, ReplayRow]] = defaultdict(dict)
    for row in replays:
        newest[row.query_set, row.interval_start, row.interval_end][row.query] = row
    for (name, start, end), rows in sorted(newest.items()):
        last = [row for query, row in rows.items() if query]
        settled = last and all(row.stage == PUBLISH and row.state in (DONE, INCOMPLETE) for row in last)
        latest = max(row.finished_at for row in rows.values())
        failed = any(row.state == FAILED and row.finished_at == latest for row in rows.values())
        if not settled or failed or latest >= before:
            continue
        folders = [*paths.folders(lake.root / "lfta" / safe_name(name)), *(lake.stream(row.query) for row in last)]
        try:
            with hold_range(lake, name, start, end):
                for folder in folders:
                    yield from _remove_interval(lake, folder, interval_label(start, end), dry_run)
        except BusyError:
            continue


def _remove_interval(lake: Lake, path: PurePath, label: str, dry_run: bool) -> Iterator[UpkeepStep]:
    table = open_table(path)
    rows = [] if table is None else [row for row in live_files(table) if row["partition.interval"] == label]
    if not rows:
        return
    if not dry_run:
        swap_files(path, [], lambda table: [row for row in live_files(table) if row["partition.interval"] == label])
        with lake_errors(f"{path}: rows of {label} cannot be removed"):
            for row in rows:
                paths.remove(path / row["path"])
    size = sum(row["size_bytes"] for row in rows)
    yield UpkeepStep("removed streams", _relative(lake, path / f"interval={label}"), len(rows), size)


def _join_tables(lake: Lake, replays: list[ReplayRow], dry_run: bool) -> Iterator[UpkeepStep]:
    """Joins the files of published hours, once no interval of the hour is open. Ledgers join theirs as they grow."""
    unsettled: dict[str, set[int]] = defaultdict(set)
    newest = {(row.query_set, row.query, row.interval_start, row.interval_end): row for row in replays if row.query}
    for row in newest.values():
        if row.stage != PUBLISH or row.state in (FAILED, PROVISIONAL):
            first, final = hours(row.interval_start, row.interval_end)
            unsettled[safe_name(row.query)] |= set(range(first, final + 1))
    for path in paths.folders(lake.root / "tables"):
        table = open_table(path)
        files: dict[int, list[int]] = defaultdict(list)
        for live in live_files(table) if table is not None else ():
            files[live["partition._hour"]].append(live["size_bytes"])
        closed = {hour: sizes for hour, sizes in files.items() if len(sizes) > 1 and hour not in unsettled[path.name]}
        if not closed:
            continue
        if not dry_run and not join_files(path, "_hour", [str(hour) for hour in sorted(closed)]):
            continue  # a run has just replaced some of the files; the next maintenance joins them
        sizes = [size for file_sizes in closed.values() for size in file_sizes]
        yield UpkeepStep("joined", _relative(lake, path), len(sizes), sum(sizes))


def _sum_tables(lake: Lake, dry_run: bool) -> Iterator[UpkeepStep]:
    """Sums the files that were published since the last maintenance, after they were joined."""
    for path in paths.folders(lake.root / "tables"):
        files, size = make_sums(path, dry_run)
        if files:
            yield UpkeepStep("summed", _relative(lake, path), files, size)


def _vacuum(lake: Lake, path: PurePath, versions: int, dry_run: bool) -> Iterator[UpkeepStep]:
    """Removes files that no recent version names: replaced ones, and uncommitted ones of dead runs."""
    table = open_table(path)
    if table is None:
        return
    retention_hours = -(-versions // HOUR)
    with lake_errors(f"{path}: old files cannot be removed"):
        names = table.vacuum(retention_hours, dry_run=True, enforce_retention_duration=False, full=True)
        require_names(path, names)
        files = [path / name for name in names]
        for file in files:
            require_folder(file.parent)
        step = UpkeepStep("removed files", _relative(lake, path), len(files), sum(map(_size, files)))
        if names and not dry_run:
            table.vacuum(retention_hours, dry_run=False, enforce_retention_duration=False, full=True)
    if names:
        yield step


def _size(path: PurePath) -> int:
    try:
        return paths.size(path)
    except OSError:  # removed meanwhile
        return 0


def _relative(lake: Lake, path: PurePath) -> str:
    return path.relative_to(lake.root).as_posix()
