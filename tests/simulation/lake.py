"""A lake in the simulated world: the real code of leases, commits, joins, streams, publications, pins and cleaning."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

import deltalake
from deltalake.exceptions import TableNotFoundError

from lowwater.errors import LawError, LowwaterError
from lowwater.instants import HOUR, SECOND
from lowwater.lake import clocks, maintain as maintaining, open_tables, tables, upkeep
from lowwater.lake.ingestion import ingest as cleaning
from lowwater.lake.layout import Lake
from lowwater.lake.locks import hold, hold_range
from lowwater.lake.open_tables import ValuesByState, at_version
from lowwater.lake.results import pins as pinning, published as table_states, streams
from lowwater.lake.results.pins import pins_file, publishing
from lowwater.lake.results.publish import Notes, is_inside, mark, meeting_files
from lowwater.lake.results.published import Act, digest_of, table_state
from lowwater.lake.results.streams import stream_files, write_stream
from lowwater.lake.tables import (
    DataFile,
    append_rows,
    fence_off,
    lake_errors,
    live_files,
    open_table,
    replace_rows,
    swap_files,
)
from lowwater.lake.upkeep import join
from lowwater.limits import OPEN_TABLES
from lowwater.storage import failures, locks, objects, paths
from lowwater.storage.locks import Holder
from lowwater.storage.object_paths import ObjectPath
from tests.simulation.delta import Files, SimTable, Tables, data_file
from tests.simulation.world import (
    Faults,
    Process,
    SimThreading,
    SimTime,
    SimUuid,
    Violation,
    World,
    drawn,
    spread,
)

ROOT = ObjectPath("s3://lakes/sim")
BASE = 1_800_000_000 * 10**9 // HOUR * HOUR
LENGTH = HOUR // 2
SET, INTERVALS, CAPTURES = "set", 3, 2
ROWS = 2
OLD = 400 * SECOND
"""How long files stay that no table names any more; every schedule but its pauses is shorter."""
BUSY = 150.0
"""Seconds in which programs begin and faults happen."""
NOWHERE = Path("/nowhere")
"""The folder of a mirror, which has no checkpoint."""


class Row(NamedTuple):
    """A row of the ledger `replays`."""

    number: int
    query: str
    digest: int
    at: int
    publication: int
    name: str


@dataclass(frozen=True)
class Old:
    """Faults of before, which the simulation must find."""

    retries: bool = False
    unfenced: bool = False
    given_up: bool = False
    clock: bool = False


class Sim:
    """A world with a lake."""

    def __init__(self, seed: int, old: Old = Old(), story: bool = False, pins: bool = True) -> None:
        self.world = World(seed)
        self.world.log = [] if story else None
        self.tables, self.old = Tables(self.world), old
        self.lake = Lake(ROOT)
        self.pins, self.queries = pins, ("q", "r") if pins else ("q",)
        self.published, self.stream = [self.lake.table(query) for query in self.queries], self.lake.stream("q")
        self.inputs = 0
        self._paths: dict[PurePath, tuple[str, ...]] = {
            **dict.fromkeys(self.published, ("_hour",)),
            self.stream: ("interval",),
            self.lake.packets: ("link", "hour"),
            self.lake.contents: (),
            self.lake.replays: (),
        }
        for path, partition in self._paths.items():
            self.tables.make(str(path), partition, SET if path in self.published else "")
        self._by_log = {f"{path.key}/_delta_log/": path for path in self._paths}  # type: ignore[attr-defined]
        self.world.watchers.append(self._look)

    # what must hold

    def _look(self, key: str, data: bytes | None) -> None:
        """Looks at each commit as the store does it, and at each file that goes."""
        folder, _, name = key.rpartition("/")
        path = self._by_log.get(f"{folder}/")
        if data is not None and path is not None:
            self._look_at_version(path, int(name.removesuffix(".json")))
        elif data is not None and key == pins_file(self.lake, SET).key:  # type: ignore[attr-defined]
            self._look_at_pins(json.loads(data))
        elif data is None and key.endswith(".parquet"):
            for path in self._paths:
                place = f"{path.key}/"  # type: ignore[attr-defined]
                if key.startswith(place):
                    pinned = self._pinned().get(path.name, -1) if path in self.published else -1
                    for version in {self.tables.version(str(path)), pinned}:
                        if key.removeprefix(place) in self.tables.state(str(path), version).files:
                            raise Violation(f"{key} was removed, and version {version} names it")

    def _pinned(self) -> dict[str, int]:
        """The versions at which readers are."""
        stored = self.world.objects.get(pins_file(self.lake, SET).key)  # type: ignore[attr-defined]
        return json.loads(stored.data)["tables"] if stored is not None else {}

    def _look_at_pins(self, pins: dict[str, Any]) -> None:
        """The pinned versions are there, and have the same intervals."""
        if set(pins["tables"]) - set(self.queries) or (pins["tables"] and set(pins["tables"]) != set(self.queries)):
            raise Violation(f"pins of some tables: {pins}")
        rows = []
        for query, version in pins["tables"].items():
            path = str(self.lake.table(query))
            entry = self.world.objects.get(f"{self.lake.table(query).key}/_delta_log/{version:020d}.json")  # type: ignore[attr-defined]
            if entry is None or digest_of(entry.data) != pins["digests"][query]:
                raise Violation(f"pins name a version of {query} that is not there: {pins}")
            rows.append(self.tables.rows_of(path, version))
        if any(each != rows[0] for each in rows[1:]):
            raise Violation(f"at the pinned versions tables have different intervals: {pins}, {rows}")

    def _look_at_version(self, path: PurePath, version: int) -> None:
        before, now = (self.tables.state(str(path), each) for each in (version - 1, version))
        self.world.say(f"{path.name} {version}: {len(before.files)} -> {len(now.files)} files", Process(0))
        for name in now.files.keys() - before.files.keys():
            if f"{path.key}/{name}" not in self.world.objects:  # type: ignore[attr-defined]
                raise Violation(f"{path.name}: version {version} names {name}, which is not there")
        rows = self.tables.rows_of(str(path), version)
        twice = {row for row, count in rows.items() if count > 1}
        if twice:
            raise Violation(f"{path.name}: version {version} has rows twice: {sorted(twice)[:3]}")
        if path in self.published:
            self._look_at_intervals(path, version, rows)
        if path == self.lake.contents:
            attempts = Counter(row[1] for row in rows)
            if max(attempts.values(), default=0) > 1:
                raise Violation(f"contents: version {version} has an attempt twice: {attempts}")
        if path in (self.lake.contents, self.lake.replays):
            old = self.tables.rows_of(str(path), version - 1)
            gone = {row[0] for row in old} - {row[0] for row in rows} if path == self.lake.contents else old - rows
            if gone:
                raise Violation(f"{path.name}: version {version} lacks rows of before: {sorted(gone)[:3]}")

    def _look_at_intervals(self, path: PurePath, version: int, rows: Counter[Any]) -> None:
        """Each interval is there wholly, of one publication, and does not go."""
        for number in range(INTERVALS):
            found = Counter(row[1] for row in rows if row[0] == number)
            if len(found) > 1 or set(found.values()) - {ROWS}:
                raise Violation(f"{path.name}: version {version} has interval {number} in parts: {found}")
        lost = {row[0] for row in self.tables.rows_of(str(path), version - 1)} - {row[0] for row in rows}
        if lost:
            raise Violation(f"{path.name}: version {version} lacks interval {lost}")

    # programs

    def run_interval(self, number: int) -> str:
        """As `replay.interval`: stream, publication, ledger, under the lease of the interval."""
        start = BASE + number * LENGTH
        with hold_range(self.lake, SET, start, start + LENGTH) as fence:
            lake = replace(self.lake, fence=fence)
            fence_off([self.stream, *self.published, lake.replays], fence)
            digest, last = self.inputs, self._last(number)
            if all(self._is_published(query, start, digest, last) for query in self.queries):
                return "confirmed"
            rows = [(number, digest, at) for at in range(ROWS)]
            name = f"{self.world.name()}.parquet"
            staged = ROOT / "_work" / "run" / name
            self.tables.put(str(staged.parent), name, rows)
            write_stream(self.stream, None, {(start, start + LENGTH): [staged]}, SET, fence)  # type: ignore[arg-type]
            with publishing(lake, SET, self.queries) if self.pins else nullcontext() as act:
                made = []
                for query in self.queries:
                    publication = self._publish(lake, query, start, rows, last, act)
                    before = last.get(query)
                    if before is None or (before.digest, before.publication) != (digest, publication):
                        at = max(int(self.world.wall() * 1e9), *(row.at + 1 for row in last.values()), 0)
                        made.append(Row(number, query, digest, at, publication, self.world.name()))
                if made:
                    append_rows(lake.replays, made, fence)  # type: ignore[arg-type]
        return "published"

    def _last(self, number: int) -> dict[str, Row]:
        """The newest row of the ledger about each query of an interval."""
        rows = [row for row in self._ledger(self.lake.replays) if row.number == number]
        return {row.query: row for row in sorted(rows, key=lambda row: row.at)}

    def _is_published(self, query: str, start: int, digest: int, last: dict[str, Row]) -> bool:
        """Whether the ledger says that a query is published from these inputs, and the log of its table says it too."""
        row = last.get(query)
        if row is None or row.digest != digest:
            return False
        state = table_state(self.lake.table(query)) if self.pins else None
        return state is None or state.number(start, start + LENGTH) == row.publication

    def _publish(
        self, lake: Lake, query: str, start: int, audited: list[Any], last: dict[str, Row], act: Act | None
    ) -> int:
        """As `publish`: the files of the stream are copied into the table, in one commit; returns its number."""
        end, attempt, path = start + LENGTH, self.world.name()[-12:], self.lake.table(query)
        if act is not None and self._is_published(query, start, audited[0][1], last):
            return mark(lake, query, [(start, end)], act)[start, end]
        files = stream_files(self.stream, start, end)
        if Counter(row for file in files for row in self.tables.rows[file.key].elements()) != Counter(audited):  # type: ignore[attr-defined]
            raise LawError("the stream has changed since its audit", "run the interval again")
        added = []
        for at, file in enumerate(files):
            hour = str(start // HOUR)
            target = path / f"_hour={hour}" / f"{attempt}-{at:05d}.parquet"
            with lake_errors("the rows of the stream cannot be put there"):
                paths.copy(file, target)
            held = self.tables.rows[target.key]  # type: ignore[attr-defined]
            name = target.relative_to(path).as_posix()
            added.append(data_file(name, len(held), {"_hour": hour}, start, start + ROWS - 1))

        def rest(old: list[dict[str, Any]]) -> list[DataFile]:
            cut = [row for row in old if not is_inside(row, start, end)]
            rows = [row for each in cut for row in self._rows(path, each) if not start <= _last(row) < end]
            hour = str(start // HOUR)
            return [self._written(path, f"_hour={hour}/rest-", {"_hour": hour}, rows)] if rows else []

        notes = None if act is None else Notes(lake, SET, query, (), [(start, end)], act)
        note: Any = notes or (lambda _: {"n": "1"})
        swap_files(path, added, lambda newest: meeting_files(newest, start, end), rest, lake.fence, note)
        return notes.number if notes else 0

    def _rows(self, path: PurePath, row: dict[str, Any]) -> list[Any]:
        """Reads a data file."""
        key = f"{path.key}/{row['path']}"  # type: ignore[attr-defined]
        with lake_errors("the table cannot be read"):
            self.world.request(f"GET {key}", lambda: self.world.get(key))
        return list(self.tables.rows[key].elements())

    def _written(self, path: PurePath, name: str, partition: dict[str, str], rows: list[Any]) -> DataFile:
        name = self.tables.put(str(path), f"{name}{self.world.name()[-12:]}.parquet", rows)
        times = [_last(row) for row in rows] if path in self.published else [0]
        return data_file(name, len(rows), partition, min(times), max(times))

    def _ledger(self, path: PurePath) -> list[Any]:
        """Reads a ledger."""
        table = open_table(path)
        assert table is not None
        return [row for each in live_files(table) for row in self._rows(path, each)]

    def ingest(self, capture: int) -> str:
        """As `ingest`: a file of packets, then its row of `contents`, under the lease of the link; leftovers before."""
        return self._ingest(capture, again=False)

    def replace_capture(self, capture: int) -> str:
        """As an ingest of a file that is decoded again: another attempt, which counts as soon as its row is there, and
        then what it has replaced is removed."""
        return self._ingest(capture, again=True)

    def _ingest(self, capture: int, again: bool) -> str:
        with hold(self.lake, "ingest of L", 60.0) as fence:
            lake = replace(self.lake, fence=fence)
            fence_off([lake.packets, lake.contents], fence)
            known = self._clean(lake)
            if (capture in {row[0] for row in known}) != again:
                return "unknown" if again else "known"
            attempt = self.world.name()[-12:]
            name = f"link=L/hour=0/00000-{attempt}.parquet"
            self.tables.put(str(lake.packets), name, [(capture, attempt, at) for at in range(ROWS)])
            swap_files(lake.packets, [data_file(name, ROWS, {"link": "L", "hour": "0"})], lambda table: [], fence=fence)
            number = 1 + max((row[2] for row in known), default=0)
            append_rows(lake.contents, [(capture, attempt, number)], fence)  # type: ignore[arg-type]
            self._clean(lake)
        return "replaced" if again else "added"

    def _clean(self, lake: Lake) -> list[Any]:
        """As `clean`: rows of attempts that a newer one has replaced, then files that no row names go."""
        newest = {row[0]: row for row in sorted(self._ledger(lake.contents), key=lambda row: row[2])}
        kept = {row[1] for row in newest.values()}
        gone: Any = lambda row: row[1] not in kept  # noqa: E731
        if any(map(gone, self._ledger(lake.contents))):
            replace_rows(lake.contents, [], gone, lake.fence)  # type: ignore[arg-type]
        cleaning._clean_table(lake, lake.packets, "L", kept)
        return [*newest.values()]

    def maintain(self) -> str:
        """As `maintain`: joins of published tables and of ledgers, pins, and removal of what is old."""
        with hold(self.lake, "maintenance") as fence:
            lake = replace(self.lake, fence=fence)
            before = maintaining.store_clock(lake) - OLD
            sound = {}
            for path in (*self.published, self.lake.contents, self.lake.replays, self.stream):
                unused = sound[path] = maintaining._look(lake, path, before)
                assert unused is not None
                if unused.doubled is not None:
                    raise Violation(f"{path.name} {unused.doubled.words()}")
                if path != self.stream:
                    join(path, lambda row: True)
                if not self.pins:
                    list(maintaining._remove_unused(lake, path, unused, {}, OLD, False))
            if self.pins:
                versions = maintaining._pinned_versions(lake, False)
                for path, unused in sound.items():
                    assert unused is not None
                    list(maintaining._remove_unused(lake, path, unused, versions[path], OLD, False))
        return "joined"

    def read(self) -> str:
        """A reader of the published tables, who takes his time: at the pinned versions, or the newest."""
        found, pins = [], {}
        if self.pins:
            file = pins_file(self.lake, SET)
            with lake_errors("the pins cannot be read"):
                pins = json.loads(paths.read(file))["tables"] if paths.exists(file) else {}
        for query in self.queries:
            path = self.lake.table(query)
            table = at_version(path, pins[query]) if pins else open_table(path)
            assert table is not None
            rows = Counter(row for each in live_files(table) for row in self._rows(path, each))
            if rows and max(rows.values()) > 1:
                raise Violation(f"a reader met rows twice: {rows}")
            found.append(rows)
        if pins and found[0] != found[-1]:
            raise Violation(f"a reader at {pins} met {found}")
        return "read"

    # a schedule

    def play(self) -> None:
        """Plays the schedule of the seed."""
        world = self.world
        with self._simulated():
            try:
                self._busy()
                world.run()
                if self.pins and world.draw.random() < 0.5:
                    self._ended()
                    world.now += 2 * OLD / SECOND  # so that what was left lying is old
                    self._busy(world.now)
                    world.run()
                self._quiet()
            finally:
                world.close()

    def _busy(self, since: float = 0.0) -> None:
        world, draw = self.world, self.world.draw
        level = draw.choice((0.0, 0.01, 0.05))
        world.faults = Faults(*(level * draw.random() for _ in range(3)), slow=0.1 * draw.random())
        world.faults.stopped = draw.choice((0.0, 0.02, 0.05))
        world.faults.died = draw.choice((0.0, 0.0, 0.02, 0.1)) if self.pins else 0.0
        world.faults.stale = draw.choice((0.0, 0.0, 0.0, 20.0))
        programs = [
            *(lambda number=number: self.run_interval(number) for number in _some(world, INTERVALS, 6)),
            *[self.maintain] * draw.randrange(4),
            *[self.read] * draw.randrange(3 if self.pins else 2),
        ]
        if not world.faults.stale:  # who has a ledger before him that lacks its last rows takes a file for a new one
            programs += [lambda capture=capture: self.ingest(capture) for capture in _some(world, CAPTURES, 3)]
            programs += [lambda capture=capture: self.replace_capture(capture) for capture in _some(world, CAPTURES, 2)]
        begun = [
            self._start(program, BUSY * draw.random() * draw.random())
            for program in draw.sample(programs, len(programs))
        ]
        for when in spread(world, draw.randrange(3), BUSY):
            world.at(since + when, self._changed)
        for when in spread(world, draw.randrange(6), BUSY):
            seconds = draw.choice((drawn(world, 0, 5), drawn(world, 20, 100)))
            process, frozen = draw.choice(begun), draw.random() < 0.3
            world.at(since + when, lambda p=process, s=seconds, f=frozen: world.pause(p, s, f))
        for when in spread(world, draw.randrange(3), BUSY):
            killed = draw.choice(begun)
            world.at(since + when, lambda p=killed: world.kill(p))

    def _changed(self) -> None:
        self.inputs += 1

    def _start(self, program: Callable[[], str], delay: float) -> Process:
        process = self.world.start(program, delay=delay)
        draw = self.world.draw
        process.wall = draw.choice((0.0, 0.0, drawn(self.world, -3600, 3600), 30 * 86400.0))
        process.rate = draw.choice((1.0, 1.0, drawn(self.world, 0.98, 1.02)))
        return process

    def _ended(self) -> None:
        """Every process has ended, or says why it failed."""
        for process in self.world.processes:
            if process.ended is None and not process.dead:
                raise Violation(f"process {process.number} neither ended nor says why")
            if isinstance(process.ended, Exception) and not isinstance(process.ended, LowwaterError):
                raise Violation(
                    f"process {process.number} ended without a reason: {process.ended!r}"
                ) from process.ended

    def _quiet(self) -> None:
        """Runs everything once more without faults, and looks at the whole."""
        world = self.world
        self._ended()
        world.faults = Faults()
        world.now += 2 * OLD / SECOND  # so that what was left lying is old
        work = [
            *(lambda number=number: self.run_interval(number) for number in range(INTERVALS)),
            *(lambda capture=capture: self.ingest(capture) for capture in range(CAPTURES)),
            self.maintain,
            self.read,
        ]
        for program in work:
            process = world.start(program)
            world.run()
            if not isinstance(process.ended, str):
                raise Violation(f"without faults it fails: {process.ended!r}") from process.ended
        wanted = Counter((number, self.inputs, at) for number in range(INTERVALS) for at in range(ROWS))
        newest = {path.name: self.tables.version(str(path)) for path in self.published}
        for path in self.published:
            rows = self.tables.rows_of(str(path), newest[path.name])
            if rows != wanted:
                raise Violation(f"{path.name} has {sorted(rows.elements())}, and the inputs are of {self.inputs}")
        if self.pins and self._pinned() != newest:
            raise Violation(f"pinned are {self._pinned()}, and all is published in {newest}")
        packets = self.tables.rows_of(str(self.lake.packets), self.tables.version(str(self.lake.packets)))
        ledger = self.tables.rows_of(str(self.lake.contents), self.tables.version(str(self.lake.contents)))
        for capture, attempt, _ in ledger:
            if [packets[capture, attempt, at] for at in range(ROWS)] != [1] * ROWS:
                raise Violation(f"packets of capture {capture}, attempt {attempt}: {packets}")
        if {row[0] for row in ledger} != set(range(CAPTURES)):
            raise Violation(f"captures has {sorted(ledger)}")

    # the seam

    @contextmanager
    def _simulated(self) -> Iterator[None]:
        """Puts the world in the place of store, time, chance, threads and delta-rs."""
        world, sim_time, tabled = self.world, SimTime(self.world), self.tables
        uuid, quiet = SimUuid(world), SimpleNamespace(fetch=None, drop=lambda path: None, follow=lambda *_: None)

        def table(path: str, version: int | None = None, storage_options: Any = None) -> SimTable:
            return SimTable(tabled, path, version, self.old.retries)

        def written(path: PurePath, rows: Any, grouped: int = 0, table: Any = None) -> list[DataFile]:
            return [self._written(path, "part-", {}, rows)] if rows else []

        def rest_of(path: PurePath, schema: Any, row: dict[str, Any], replaced: Any) -> list[Any] | None:
            held = list(tabled.rows[f"{path.key}/{row['path']}"].elements())  # type: ignore[attr-defined]
            return [each for each in held if not replaced(each)] if any(map(replaced, held)) else None

        def sealed(source: PurePath, target: PurePath, stays: bool = False) -> PurePath:
            paths.take(source, target)
            return target

        def joined(path: PurePath, schema: Any, rows: list[dict[str, Any]], grouped: int) -> DataFile:
            held = [row for each in rows for row in self._rows(path, each)]
            partition = {
                name.removeprefix("partition."): value for name, value in rows[0].items() if "partition." in name
            }
            place = PurePath(rows[0]["path"]).parent.as_posix()
            return self._written(path, f"{place}/joined-".removeprefix("./"), partition, held)

        def described(table: PurePath, file: PurePath, partition: dict[str, str]) -> DataFile:
            return data_file(file.relative_to(table).as_posix(), ROWS, partition)

        replaced: list[tuple[Any, str, Any]] = [
            (objects, name, getattr(_Objects(self), name))
            for name in ("read", "write", "swap", "copy", "head", "delete", "below", "walk", "entries", "children")
        ]
        replaced += [(module, "time", sim_time) for module in (locks, tables, clocks, pinning)]
        replaced += [(module, "uuid", uuid) for module in (locks, streams, upkeep, tables)]
        replaced += [(module, "random", world.draw) for module in (locks, tables, table_states)]
        replaced += [
            (locks, "threading", SimThreading(world)),
            (locks, "progress", _Progress(world)),
            (locks, "here", lambda: Holder(str(world.me().number), "machine", "place")),
            (objects, "file_cache", lambda: quiet),
            (paths, "uuid", uuid),
            (paths, "read_all", lambda files: [paths.read(file) for file in files]),
            (open_tables, "_OPEN", _Opened(world)),
            (open_tables, "mirror_of", lambda path: _Mirror(table, path)),
            (objects, "lately", lambda what, place, look: look()),
            (open_tables, "change", lambda path, opened_table, work: work()),
            (locks, "LEASE_PAUSE", 2.0),
            *[(module, "files_of", lambda table: Files(table.current)) for module in (tables, table_states)],
            (open_tables, "_VALUES", _Values(world)),
            (locks, "_LAST", _Claims(world)),
            (open_tables, "_open", lambda path, version=None, mirror=None: table(str(path), version)),
            (open_tables, "require_modest_commits", lambda *_: None),
            (open_tables, "require_plain_table", lambda *_: None),
            (deltalake, "DeltaTable", table),
            (tables, "_write_rows", written),
            (tables, "_together", lambda parts: [row for part in parts for row in part]),
            (tables, "_rest_of", rest_of),
            (paths, "take_sealed", sealed),
            (upkeep, "write_joined", joined),
            (streams, "describe", described),
            (streams, "create", lambda *_: None),
        ]
        if self.old.unfenced:
            replaced.append((tables, "claim", lambda *_: None))
        if self.old.clock:
            replaced.append((maintaining, "store_clock", lambda _: sim_time.time_ns()))
        if self.old.given_up:
            replaced.append((locks.Fence, "doubt", lambda _: None))
        with ExitStack() as stack:
            for place, name, value in replaced:
                stack.enter_context(patch.object(place, name, value))
            yield


class _Objects:
    """`lowwater.storage.objects` over the simulated store."""

    def __init__(self, sim: Sim) -> None:
        self._sim, self._world = sim, sim.world

    def read(self, path: ObjectPath, most: int = -1) -> tuple[bytes, str]:
        found = self._world.request(f"GET {path.key}", lambda: self._world.get(path.key))
        return found.data, found.tag

    def write(self, path: ObjectPath, data: bytes) -> None:
        self._world.request(f"PUT {path.key}", lambda: self._world.put(path.key, data), writes=True)

    def swap(self, path: ObjectPath, data: bytes, before: str | None) -> str:
        def act() -> str:
            return self._world.put(path.key, data, before, absent=before is None)

        tag: str = self._world.request(f"SWAP {path.key}", act, writes=True)
        return tag

    def copy(self, source: ObjectPath, target: ObjectPath) -> None:
        self._sim.tables.copy(source.key, target.key)

    def head(self, path: ObjectPath) -> dict[str, Any] | None:
        def act() -> dict[str, Any] | None:
            found = self._world.objects.get(path.key)
            modified = found and self._world.modified(found)
            return found and {"e_tag": found.tag, "size": len(found.data), "last_modified": modified}

        found: dict[str, Any] | None = self._world.request(f"HEAD {path.key}", act)
        return found

    def delete(self, some: list[ObjectPath]) -> None:
        for path in some:
            self._world.request(f"DELETE {path.key}", lambda key=path.key: self._world.drop(key), writes=True)

    def entries(self, folder: ObjectPath, *_: Any) -> list[tuple[ObjectPath, dict[str, Any]]]:
        prefix = f"{folder.key}/"
        listed = self._world.request(f"LIST {prefix}", lambda: self._world.listed(prefix))
        return [
            (_path(key), {"last_modified": self._world.modified(stored), "size": len(stored.data), "e_tag": stored.tag})
            for key, stored in listed
        ]

    def walk(self, folder: ObjectPath) -> list[ObjectPath]:
        return [path for path, _ in self.entries(folder)]

    def below(self, folder: ObjectPath, first: bool = False) -> list[ObjectPath]:
        return self.walk(folder)[: 1 if first else None]

    def children(self, folder: ObjectPath) -> tuple[list[ObjectPath], list[ObjectPath]]:
        names = [path.relative_to(folder).parts for path in self.walk(folder)]
        folders = sorted({parts[0] for parts in names if len(parts) > 1})
        return [folder / name for name in folders], [folder / parts[0] for parts in names if len(parts) == 1]


class _Progress:
    """`lowwater.storage.failures`: an answer of the store is a sign of work of the process that got it."""

    RENEWER = failures.RENEWER

    def __init__(self, world: World) -> None:
        class Watch:
            def silence(self) -> float:
                return world.now - world.me().worked

        self.Watch = Watch


class _Opened:
    """The open tables of the process whose turn it is."""

    def __init__(self, world: World) -> None:
        self._world = world

    @property
    def tables(self) -> Any:
        from collections import OrderedDict

        return self._world.me().tables.setdefault("open", OrderedDict())


class _Values:
    """The kept values of the process whose turn it is."""

    def __init__(self, world: World) -> None:
        self._world = world

    def get(self, *asked: Any) -> Any:
        values: ValuesByState = self._world.me().tables.setdefault("values", ValuesByState(OPEN_TABLES))
        return values.get(*asked)


class _Claims(MutableMapping[ObjectPath, Any]):
    """The claims that the process whose turn it is has seen last."""

    def __init__(self, world: World) -> None:
        self._world = world

    @property
    def _mine(self) -> dict[ObjectPath, Any]:
        return self._world.me().tables.setdefault("claims", {})

    def __getitem__(self, path: ObjectPath) -> Any:
        return self._mine[path]

    def __setitem__(self, path: ObjectPath, seen: Any) -> None:
        self._mine[path] = seen

    def __delitem__(self, path: ObjectPath) -> None:
        del self._mine[path]

    def __iter__(self) -> Iterator[ObjectPath]:
        return iter(self._mine)

    def __len__(self) -> int:
        return len(self._mine)


class _Mirror:
    """A mirror for looks: `SimTable` writes to the store itself, by the same conditional write."""

    def __init__(self, table: Any, path: ObjectPath) -> None:
        self.lock, self.life, self.folder, self.version = nullcontext(), 0, NOWHERE, -1
        self._table, self._path = table, path

    def reach(self, version: int) -> None: ...

    def entry(self, version: int) -> bytes:
        return paths.read(self._path / "_delta_log" / f"{version:020d}.json")

    def here(self, table: Any, most: int) -> dict[str, int]:
        return {}

    def look(self, follow: bool = True) -> bool:
        with suppress(TableNotFoundError):
            self.version = self._table(str(self._path)).version()
        return self.version >= 0


def _path(key: str) -> ObjectPath:
    return ObjectPath("s3:", "lakes", *key.split("/"))


def _last(row: Any) -> int:
    return BASE + row[0] * LENGTH + row[2]


def _some(world: World, count: int, most: int) -> list[int]:
    return [world.draw.randrange(count) for _ in range(1 + world.draw.randrange(most))]


def schedule(seed: int, old: Old = Old(), story: bool = False, pins: bool = True) -> list[str]:
    """Plays a seed; returns its story, if that is kept."""
    sim = Sim(seed, old, story, pins)
    try:
        sim.play()
    except Violation as found:
        found.add_note(f"seed {seed}")
        for line in sim.world.log or ():
            found.add_note(line)
        raise
    return sim.world.log or []
