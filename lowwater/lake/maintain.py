"""Maintenance of a lake: joins small files, removes old versions, streams, leftovers of runs, and packets of which the
settings keep no more.

Called by `lowwater maintain` and its DAG, under the locks of the runs. Leftovers in `packets/` are removed by ingest.
Stream files, whose digest was audited, stay byte for byte (`lake.packing`).
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import NamedTuple
from urllib.parse import unquote

from lowwater import limits
from lowwater.config import Retention, load_config
from lowwater.errors import AwayError, BusyError, LakeError, TakenOverError
from lowwater.instants import HOUR, format_duration
from lowwater.lake import layout, open_tables, packing, tables, trimming, upkeep, verification
from lowwater.lake.clocks import store_clock
from lowwater.lake.ledgers.runs import PUBLISH, ReplayRow, read_replays
from lowwater.lake.locks import hold, hold_range, hold_staging
from lowwater.lake.results import published
from lowwater.lake.results.pins import pin, stored_pins, tables_by_owner
from lowwater.lake.upkeep import LOG, Doubled, changes, doubled, join_files
from lowwater.lake.words import DONE, FAILED, INCOMPLETE, PROVISIONAL
from lowwater.storage import locks, paths
from lowwater.storage.failures import away

DOUBLED = "doubled"  # what is said of a table that has rows twice; it is left alone until it is mended
LEFT = "left alone"  # what is said of a table that cannot be read or written


@dataclass(frozen=True)
class UpkeepStep:
    """A step of the maintenance: done, or with `dry_run` due."""

    # joined, mended, removed files, staging, streams, packets, captures, malformed, quarantine or reports; or what is
    # said of a table that is left: `DOUBLED`, `LEFT`
    what: str
    where: str  # path relative to the lake
    files: int
    bytes: int
    why: str = ""
    hint: str = ""  # what mends a table that is left alone


class Apart:
    """Does the work on each table apart from that on the others, so that one that cannot be read stops none of them."""

    def __init__(self, lake: layout.Lake, short: bool = False) -> None:
        self._lake, self._short = lake, short
        self.left: dict[PurePath, UpkeepStep] = {}  # tables that cannot be read or written

    @contextmanager
    def of(self, path: PurePath) -> Iterator[None]:
        """Notes an error of the block, which works on a table, unless it passes without another input. On a disk
        without room the work goes on, since a later part of it may free some."""
        try:
            yield
        except (BusyError, TakenOverError):
            raise
        except LakeError as error:
            if isinstance(error, AwayError) and not self._short:
                raise
            where = _relative(self._lake, path)
            self.left.setdefault(path, UpkeepStep(LEFT, where, 0, 0, error.message, error.hint))


def require_sound(steps: Collection[UpkeepStep]) -> None:
    """Raises LakeError if a table was left alone, or has rows twice."""
    for what in (LEFT, DOUBLED):
        if found := [each for each in steps if each.what == what]:
            hint = found[0].hint if what == LEFT else upkeep.MEND
            texts = [each.why if what == LEFT else f"{each.where} {each.why}" for each in found]
            raise LakeError("; ".join(dict.fromkeys(texts)), hint)


def maintain(
    lake: layout.Lake,
    retention: Retention,
    dry_run: bool = False,
    clock: Callable[[], int] | None = None,
    mend: bool = False,
) -> list[UpkeepStep]:
    """Maintains a lake. It may run beside everything else and be killed at any moment. `clock` returns the current
    time, ns; without one it is that of the store. A table that cannot be read or written is left alone, as a step says.
    Raises BusyError if another process maintains the lake, TakenOverError if one took it over, AwayError if its disk
    has no room or its store does not answer, and LakeError if neither tables nor locks of it can be written."""
    with hold(lake, "maintenance", roomless=True) as fence:
        short = not _has_room(lake)
        if short and not dry_run:  # what frees most, packets and rows between the stages, goes by a commit
            with suppress(OSError):
                paths.remove(lake.locks / RESERVE)
        lake, apart = replace(lake, fence=fence), Apart(lake, short)
        now = store_clock(lake, dry_run) if clock is None else clock()
        steps = [*clear_staging(lake, dry_run), *_clear_old(lake, dry_run)]
        sound: dict[PurePath, _Unused] = {}
        versions: Mapping[PurePath, Mapping[int, str]] | None = None
        ingested = {lake.packets, *lake.record_tables()}  # whose files may be hours old before their commit
        for path in lake.all_tables():
            with apart.of(path):
                unused = _look(lake, path, now - retention.versions)
                if unused is None:
                    continue
                if (found := unused.doubled) is not None:
                    what, why = DOUBLED, found.words()
                    if mend and not dry_run:
                        upkeep.mend(lake, path, found)
                        what, why = "mended", f"it {found.words('held')}"
                    steps.append(UpkeepStep(what, _relative(lake, path), len(found.void), 0, why))
                elif path not in ingested:
                    sound[path] = unused
        if short:  # what follows writes before it frees
            steps += _free(lake, sound, retention.versions, dry_run, apart)
        about = lake, retention, load_config(lake.root), now, dry_run
        for path, trimmed in (
            (lake.packets, trimming.trim_packets(*about)),
            (lake.malformed, trimming.trim_malformed(*about)),
            (lake.sightings, trimming.trim_captures(*about)),
            (lake.quarantine, trimming.trim_quarantine(lake, retention, now, dry_run)),
            (lake.reports, trimming.trim_reports(lake, retention, now, dry_run)),
        ):
            with apart.of(path):
                for each in trimmed:
                    inside = each.folder.is_relative_to(lake.root)
                    where = _relative(lake, each.folder) if inside else str(each.folder)
                    steps.append(UpkeepStep(f"removed {each.what}", where, each.files, each.bytes, each.why))
        with apart.of(lake.replays):  # it says which intervals are published
            replays = read_replays(lake)
            steps += _remove_streams(lake, replays, retention, now, dry_run, apart)
            if retention.streams is None:
                steps += _pack_streams(lake, replays, sound, dry_run, apart)
            steps += _join_tables(lake, replays, sound, dry_run, apart)
        for path in () if dry_run else paths.folders(lake.root / "tables"):  # published since the last maintenance
            with apart.of(path):
                _tell_lost(path, fence)
        with apart.of(lake.root / "pins"):
            versions = _pinned_versions(lake, dry_run)
        for path, unused in sound.items():
            if versions is None and path.parent == lake.root / "tables":
                continue  # a reader may be at any version
            with apart.of(path):
                pinned = (versions or {}).get(path, {})
                steps += _remove_unused(lake, path, unused, pinned, retention.versions, dry_run)
        steps += apart.left.values()
        open_tables.pack_logs(lake.root, lake.packed_ledgers())
        if not dry_run:
            _keep_reserve(lake)
        return steps


def _has_room(lake: layout.Lake, more: int = 0) -> bool:
    """Whether a commit, and so many bytes more, have room on the disk of a lake."""
    try:
        tables.require_room(lake.root, more)
    except OSError:
        return False
    return True


RESERVE = "reserve"
"""File beside the locks of a lake on a disk, which only takes room until that is needed."""


def _keep_reserve(lake: layout.Lake) -> None:
    place = lake.locks / RESERVE
    if isinstance(place, Path) and not place.exists() and _has_room(lake, 4 * limits.RESERVE_BYTES):
        with suppress(OSError), place.open("wb") as file:  # a disk that cannot keep room has none to give up
            os.posix_fallocate(file.fileno(), 0, limits.RESERVE_BYTES)


def _free(
    lake: layout.Lake, sound: dict[PurePath, _Unused], versions: int, dry_run: bool, apart: Apart
) -> Iterator[UpkeepStep]:
    """Removes what no version needs, by the pins as they are, which takes no room; `sound` then has none of it."""
    pinned: Mapping[PurePath, Mapping[int, str]] | None = None
    with apart.of(lake.root / "pins"):
        pinned = _pinned_versions(lake, dry_run=True)
    for path, unused in sound.items():
        if pinned is not None or path.parent != lake.root / "tables":
            with apart.of(path):
                yield from _remove_unused(lake, path, unused, (pinned or {}).get(path, {}), versions, dry_run)
                sound[path] = replace(unused, files=[])


def mend_lake(lake: layout.Lake) -> list[UpkeepStep]:
    """Takes lost files of ledgers, and torn commits, out of the logs, without which no command can read them.
    Raises BusyError if another process maintains the lake, and LakeError if a table cannot be written."""
    kept = verification.last_verdicts(lake)
    damaged = {str(each[0]) for name in ("data", "running") for each in kept.get(name, {}).get("damaged", ())}
    with hold(lake, "maintenance") as fence:
        held = replace(lake, fence=fence)
        return [
            UpkeepStep("mended", _relative(lake, path), files, 0, why)
            for path, why, files in verification.mend_logs(held, damaged)
        ]


def _pinned_versions(lake: layout.Lake, dry_run: bool) -> dict[PurePath, dict[int, str]]:
    """Writes the pins that are behind; returns the versions at which readers are, table -> version -> its digest.

    Versions stay pinned until their set is published wholly again, and grow old meanwhile. Those that were pinned until
    now are among them; so are those that another process keeps this one from moving.
    """
    versions: dict[PurePath, dict[int, str]] = defaultdict(dict)
    for query_set in tables_by_owner(lake):
        found = [stored_pins(lake, query_set)]
        if not dry_run:
            pin(lake, query_set)
            found.append(stored_pins(lake, query_set))
        for pins in filter(None, found):
            for query, version in pins.tables.items():
                versions[lake.table(query)][version] = pins.digests.get(query, "")
    return versions


def _tell_lost(path: PurePath, fence: locks.Fence | None) -> None:
    """Says in the log of a table in an object store which of its files are gone; on a disk everybody looks."""
    state = published.table_state(path)
    lost = {} if state is None else state.lost_objects()
    known = [] if state is None else [(each.start, each.end) for each in state.damage]
    told = [
        (hour * HOUR, (hour + 1) * HOUR, published.lost_text(name))
        for hour, name in sorted(lost.items())
        if not any(start <= hour * HOUR and (hour + 1) * HOUR <= end for start, end in known)
    ]
    if told:
        tables.swap_files(path, [], lambda _: [], fence=fence, note=lambda _: {published.LOST: json.dumps(told)})


@dataclass(frozen=True)
class _Unused:
    """What a table has that nobody needs, as of its newest version."""

    files: list[paths.Listed]  # files that no recent version names, which are old themselves
    doubled: Doubled | None  # what doubled rows of it; None for nothing


def _look(lake: layout.Lake, path: PurePath, before: int) -> _Unused | None:
    """Looks at the files and the recent commits of a table; None without a table.

    The files are listed first: whoever commits one of them later is in the log that is read then.
    """
    if tables.open_table(path) is None:
        return None
    with tables.lake_errors(f"{path}: its files cannot be listed"):
        stored = [each for each in paths.listed(path) if LOG not in each.path.relative_to(path).parts]
    recent = changes(path, before)
    table = tables.open_table(path)
    assert table is not None
    named = {unquote(row["path"]) for row in tables.live_files(table)}
    for each in recent:
        named |= each.added.keys() | set(each.removed)
    files = [each for each in stored if each.at < before and each.path.relative_to(path).as_posix() not in named]
    return _Unused(files, doubled(recent))


def clear_staging(lake: layout.Lake, dry_run: bool) -> Iterator[UpkeepStep]:
    """Removes the folders under `_work/` whose lock is free: their run is dead."""
    for folder in paths.children(lake.work):
        try:
            with hold_staging(lake, folder):
                step = _removed(lake, folder, "its run ended", dry_run)
        except BusyError:
            continue
        except LakeError as error:
            if not away(error):
                raise
            continue  # the disk has no room for the lock: the next maintenance removes it
        yield step


def _clear_old(lake: layout.Lake, dry_run: bool) -> Iterator[UpkeepStep]:
    """Removes what earlier versions kept: notes of drivers that a master of Spark had started, sums of which plots were
    drawn, an index of reports."""
    why = "no version writes or reads it any more"
    for name in ("_drivers", "sums"):
        if any(paths.files_below(folder := lake.root / name)):
            yield _removed(lake, folder, why, dry_run)
    if paths.has_file(index := lake.reports / "index.html"):
        yield UpkeepStep("removed staging", _relative(lake, index), 1, _size(index), why)
        if not dry_run:
            paths.remove(index)


def _removed(lake: layout.Lake, folder: PurePath, why: str, dry_run: bool) -> UpkeepStep:
    files = list(paths.files_below(folder))
    step = UpkeepStep("removed staging", _relative(lake, folder), len(files), sum(map(_size, files)), why)
    if not dry_run:
        paths.remove_tree(folder)
    return step


def _remove_streams(
    lake: layout.Lake, replays: list[ReplayRow], retention: Retention, now: int, dry_run: bool, apart: Apart
) -> Iterator[UpkeepStep]:
    """Removes what lies between the stages: rows of LFTAs, and those of queries before their audit."""
    kept = retention.low or retention.streams, retention.streams
    for folder, limit in zip(("lfta", "streams"), kept, strict=True):
        if limit is not None:
            before = trimming.gone_before(_between(lake, replays, folder) if limit.size is not None else (), limit, now)
            yield from _remove_stage(lake, replays, folder == "lfta", before, dry_run, apart)


def _between(lake: layout.Lake, replays: Iterable[ReplayRow], stage: str) -> list[tuple[int, int]]:
    """Lists when the last run of each interval, or batch of them, ended, and how many bytes it left in a stage."""
    sizes: dict[tuple[str, tuple[int, int]], int] = defaultdict(int)
    owners = {tables.safe_name(row.query): row.query_set for row in replays if row.query}
    folders = [(each.name, f) for each in paths.folders(lake.root / stage) for f in paths.folders(each)]
    if stage == "streams":
        folders = [(tables.safe_name(owners.get(f.name, "")), f) for f in paths.folders(lake.root / stage)]
    for owner, folder in folders:
        table = tables.open_table(folder)
        for label, rows in ({} if table is None else tables.files_by_interval(table)).items():
            if (bounds := tables.label_bounds(label)) is not None:
                sizes[owner, bounds] += sum(row["size_bytes"] for row in rows)
    ended: dict[tuple[str, tuple[int, int]], int] = defaultdict(int)
    for row in replays:
        key = tables.safe_name(row.query_set), row.interval
        ended[key] = max(ended[key], row.finished_at)
    return [
        (max((at for (name, span), at in ended.items() if name == owner and _meets([span], bounds)), default=0), size)
        for (owner, bounds), size in sizes.items()
    ]


def _remove_stage(
    lake: layout.Lake, replays: list[ReplayRow], low: bool, before: int, dry_run: bool, apart: Apart
) -> Iterator[UpkeepStep]:
    """Removes the `lfta/` or `streams/` partitions of intervals whose queries were all published before an instant, and
    the rows of LFTAs of a batch once that is so for one of its intervals, and the ledger has no later row about any:
    they are of use to all of them together only."""
    removed, waiting, recent = (defaultdict[str, list[tuple[int, int]]](list) for _ in range(3))
    intervals = [*_runs(replays)]
    for name, start, end, last, latest, settled in intervals:
        if latest >= before:
            recent[name].append((start, end))
        if not settled or latest >= before:
            waiting[name].append((start, end))
            continue
        removed[name].append((start, end))
        folders = _lfta_folders(lake, name) if low else [lake.stream(row.query) for row in last]
        yield from _remove_range(lake, name, (start, end), folders, dry_run, apart)
    for name in {each.query_set for each in intervals} if low else ():
        for folder in _lfta_folders(lake, name):
            with apart.of(folder):
                for bounds in _batches(
                    folder, {(each.start, each.end) for each in intervals if each.query_set == name}
                ):
                    used = not _meets(removed[name], bounds) and _meets(waiting[name], bounds)
                    if not used and not _meets(recent[name], bounds):
                        yield from _remove_range(lake, name, bounds, [folder], dry_run, apart)


class _Run(NamedTuple):
    """What the ledger says of an interval: the newest row of each of its queries, when the last of them ended, and
    whether all were published since and nothing failed."""

    query_set: str
    start: int
    end: int
    last: Sequence[ReplayRow]
    latest: int
    settled: bool


def _runs(replays: Iterable[ReplayRow]) -> Iterator[_Run]:
    newest: dict[tuple[str, int, int], dict[str, ReplayRow]] = defaultdict(dict)
    visible: dict[tuple[str, int, int, str], ReplayRow] = {}
    for row in replays:
        newest[row.query_set, *row.interval][row.query] = row
        if row.stage == PUBLISH and row.state != FAILED:
            visible[row.query_set, *row.interval, row.query] = row
    for (name, start, end), rows in sorted(newest.items()):
        last = [_settling(row, visible.get((name, start, end, query))) for query, row in rows.items() if query]
        # A set is published as a whole (S4): what a query left before, and did not publish then, is of one that the set
        # has no more.
        published = max((row.finished_at for row in last if row.stage == PUBLISH), default=0)
        present = [row for row in last if row.stage == PUBLISH or row.finished_at > published]
        settled = bool(last) and all(row.stage == PUBLISH and row.state in (DONE, INCOMPLETE) for row in present)
        latest = max(row.finished_at for row in rows.values())
        failed = any(row.state == FAILED and row.finished_at == latest for row in rows.values())
        yield _Run(name, start, end, last, latest, settled and not failed)


def _pack_streams(
    lake: layout.Lake, replays: list[ReplayRow], sound: Collection[PurePath], dry_run: bool, apart: Apart
) -> Iterator[UpkeepStep]:
    """Joins the streams of days that are over and wholly published, where the settings keep them."""
    closed: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for run in _runs(replays):
        for row in run.last if run.settled else ():
            closed[run.query_set, row.query].append((run.start, run.end))
    for (name, query), spans in sorted(closed.items()):
        path = lake.stream(query)
        if path not in sound:
            continue
        days = packing.old_days(spans)
        with apart.of(path):
            if dry_run:
                sizes = [size for files in packing.due(path, days).values() for _, size in files]
                found = [(len(sizes), sum(sizes))] if sizes else []
            else:
                found = [*packing.pack(lake, name, path, days)]
            if found:
                files, size = (sum(each[at] for each in found) for at in (0, 1))
                yield UpkeepStep("joined", _relative(lake, path), files, size)


def _meets(ranges: Iterable[tuple[int, int]], bounds: tuple[int, int]) -> bool:
    return any(start < bounds[1] and bounds[0] < end for start, end in ranges)


def _lfta_folders(lake: layout.Lake, query_set: str) -> list[PurePath]:
    return [*paths.folders(lake.root / "lfta" / tables.safe_name(query_set))]


def _batches(folder: PurePath, intervals: Collection[tuple[int, ...]]) -> list[tuple[int, int]]:
    """The ranges, ns, under which a table has rows of LFTAs of several intervals that ran together, or would have."""
    table = tables.open_table(folder)
    labels = [] if table is None else tables.files_by_interval(table)
    ranges = (bounds for label in labels if (bounds := tables.label_bounds(label)) is not None)
    return sorted(bounds for bounds in ranges if bounds not in intervals)


def _remove_range(
    lake: layout.Lake, name: str, bounds: tuple[int, int], folders: list[PurePath], dry_run: bool, apart: Apart
) -> Iterator[UpkeepStep]:
    """Removes what tables of a query set have under a range, unless a run is at work on it."""
    why = "the interval was published before those that [retention] keeps"
    try:
        with hold_range(lake, name, *bounds) as fence:
            held = replace(lake, fence=fence)
            folders = [folder for folder in folders if folder not in apart.left]
            if not dry_run:
                tables.fence_off(folders, fence)
            for folder in folders:
                with apart.of(folder):
                    for each in trimming.trim_interval(held, folder, tables.interval_label(*bounds), why, dry_run):
                        yield UpkeepStep("removed streams", _relative(lake, each.folder), each.files, each.bytes, why)
    except BusyError:
        return


def _settling(row: ReplayRow, visible: ReplayRow | None) -> ReplayRow:
    """The row that says whether a query needs its stream, given its newest one and its publication. A run by hand that
    ended before it would publish what is visible already, from the same inputs, leaves nothing to publish."""
    if visible is not None and row.state != FAILED and row.digest == visible.digest != "":
        return visible
    return row


def _join_tables(
    lake: layout.Lake, replays: list[ReplayRow], sound: Collection[PurePath], dry_run: bool, apart: Apart
) -> Iterator[UpkeepStep]:
    """Joins the files of published hours, once no interval of the hour is open. Ledgers join theirs as they grow."""
    unsettled: dict[str, set[int]] = defaultdict(set)
    newest = {(row.query_set, row.query, row.interval): row for row in replays if row.query}
    for row in newest.values():
        if row.stage != PUBLISH or row.state in (FAILED, PROVISIONAL):
            first, final = tables.hours(*row.interval)
            unsettled[tables.safe_name(row.query)] |= set(range(first, final + 1))
    for path in paths.folders(lake.root / "tables"):
        if path in sound:
            with apart.of(path):
                yield from _join_table(lake, path, unsettled[path.name], dry_run)


def _join_table(lake: layout.Lake, path: PurePath, unsettled: set[int], dry_run: bool) -> Iterator[UpkeepStep]:
    state = published.table_state(path)
    if state is None:
        return
    unsettled = unsettled | set(state.lost())
    files: dict[int, list[int]] = defaultdict(list)
    for live in state.listed.to_pylist():
        files[live["partition._hour"]].append(live["size_bytes"])
    closed = {hour: sizes for hour, sizes in files.items() if len(sizes) > 1 and hour not in unsettled}
    if not closed:
        return
    if not dry_run and not join_files(path, "_hour", {str(hour) for hour in closed}):
        return  # a run has just replaced some of the files; the next maintenance joins them
    sizes = [size for file_sizes in closed.values() for size in file_sizes]
    yield UpkeepStep("joined", _relative(lake, path), len(sizes), sum(sizes))


def _remove_unused(
    lake: layout.Lake, path: PurePath, unused: _Unused, pinned: Mapping[int, str], versions: int, dry_run: bool
) -> Iterator[UpkeepStep]:
    """Removes files that no recent and no pinned version names: replaced ones, and uncommitted ones of dead runs."""
    needed = _named_at(path, pinned) if unused.files else set()
    files = [each for each in unused.files if each.path.relative_to(path).as_posix() not in needed]
    if not files:
        return
    if not dry_run:
        if lake.fence is not None:
            tables.require_held(path, lake.fence)
        with tables.lake_errors(f"{path}: old files cannot be removed"):
            paths.remove(*(each.path for each in files))
    why = f"no version of the last {format_duration(versions)} names them, and the store wrote them before that"
    yield UpkeepStep("removed files", _relative(lake, path), len(files), sum(each.size for each in files), why)


def _named_at(path: PurePath, versions: Mapping[int, str]) -> set[str]:
    """Returns the files that some versions of a table name; a version of another history is none of it."""
    named: set[str] = set()
    for version, digest in versions.items():
        found = published.commit_digest(path, version)
        if found and digest in ("", found):
            with tables.lake_errors(f"{path}: version {version}, which readers have, cannot be read"):
                named |= {unquote(row["path"]) for row in tables.live_files(open_tables.at_version(path, version))}
    return named


def _size(path: PurePath) -> int:
    try:
        return paths.size(path)
    except OSError:  # removed meanwhile
        return 0


def _relative(lake: layout.Lake, path: PurePath) -> str:
    return path.relative_to(lake.root).as_posix()
