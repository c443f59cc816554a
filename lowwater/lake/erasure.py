"""Takes packets and records out of a lake, and what they left in its tables, logs and files (SEMANTICS T11).

What the lake has of a file stays one content, with fewer packets: a new attempt at it, which replaces the old one as a
new decoding does (T5). So every hour that had read them is stale, and the next run makes it of the rest. What is left
afterwards in older versions, logs and reports is removed then (`purge`). Each step says by itself what is left to do,
so whoever is killed runs the same again.
"""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lowwater.capture.records import sanity
from lowwater.catalog.time import arrival_times
from lowwater.config import Config
from lowwater.documents import json_value
from lowwater.errors import LakeError
from lowwater.instants import HOUR
from lowwater.lake import answers, layout, open_tables, tables
from lowwater.lake.ingestion.ingest import clean
from lowwater.lake.ledgers import files as sightings, statements
from lowwater.lake.ledgers.captures import family_claims
from lowwater.lake.ledgers.edges import edges_of
from lowwater.lake.ledgers.runs import replayed_sets
from lowwater.lake.ledgers.statements import Statement
from lowwater.lake.locks import hold, hold_range
from lowwater.lake.maintain import clear_staging
from lowwater.lake.packets import PacketFiles, place_of
from lowwater.lake.results import published
from lowwater.lake.sought import Sought
from lowwater.limits import GROUP_ROWS, INGEST_WAIT
from lowwater.link_names import family_of
from lowwater.storage import digests, paths

Test = Callable[[str, pa.RecordBatch], NDArray[np.bool_]]
"""Returns which packets, or records, of a link are to go."""

_BOUNDED = ("position", "arrival", "timestamp")
"""Columns of packets with bounds in the log, as ingest has them."""


# Packets and records


@dataclass
class FoundContent:
    """Packets of a content that are to go: of one attempt at a file, over all links that have it.

    Attributes:
        packets: link -> how many.
        start, end: their timestamps, [start, end), ns.
        positions: their numbers in the file, in order.
        growing: whether the file was still being written when it was read.
    """

    content: str
    attempt: str
    path: str
    growing: bool
    packets: dict[str, int] = field(default_factory=dict)
    start: int = 1 << 62
    end: int = 0
    positions: list[NDArray[np.int64]] = field(default_factory=list)

    @property
    def total(self) -> int:
        return sum(self.packets.values())


def find(
    lake: layout.Lake, config: Config, test: Test, watch: Callable[[int], None] = lambda files: None
) -> list[FoundContent]:
    """Reads all packets and records of a lake, also those that no query reads; returns what is to go.
    Raises LakeError if the lake cannot be read. `watch`: called with the number of files that were read."""
    files, found, count = PacketFiles.of(lake), dict[str, FoundContent](), 0
    contents = {row["attempt"]: row["content"] for row in _contents(lake).to_pylist()}
    places = _places(lake, config)
    for attempt, rows in sorted(files.attempts.items()):
        for row in rows:
            count += 1
            watch(count)
            link = str(row["partition.link"])
            with tables.lake_errors(f"{PacketFiles.path(row)}: cannot be read"):
                chosen = _chosen(PacketFiles.path(row), link, test)
            if chosen is None:
                continue
            path, growing = places.get(attempt, (attempt, False))
            known = found.setdefault(attempt, FoundContent(contents.get(attempt, ""), attempt, path, growing))
            stamps, positions = (chosen.column(name).to_numpy() for name in ("timestamp", "position"))
            known.packets[link] = known.packets.get(link, 0) + chosen.num_rows
            known.start, known.end = min(known.start, int(stamps.min())), max(known.end, int(stamps.max()) + 1)
            known.positions.append(positions)
    return sorted(found.values(), key=lambda each: (each.path, each.attempt))


def taken_before(lake: layout.Lake, attempt: str) -> NDArray[np.int64] | None:
    """Returns the numbers of the records that erasures have taken out of an attempt at a file, in order; None where
    what the lake has of it does not tell them, since other records of it are not there either.
    Raises LakeError if the lake cannot be read."""
    rows = tables.read_rows(lake.contents, layout.CONTENTS, pc.field("attempt") == attempt).to_pylist()
    erased = sum(row["erased"] or 0 for row in rows)
    if not erased:
        return np.zeros(0, np.int64)
    malformed = tables.read_rows(lake.malformed, layout.MALFORMED, pc.field("attempt") == attempt).column("position")
    there = [malformed.drop_null().to_numpy()]
    for stored in PacketFiles.of(lake).attempts.get(attempt, ()):
        with tables.lake_errors(f"{PacketFiles.path(stored)}: cannot be read"):
            columns = pq.read_table(paths.local(PacketFiles.path(stored)), columns=["position"], partitioning=None)
        there.append(columns.column("position").to_numpy())
    total = erased + sum(row["packets"] + row["malformed"] for row in rows)
    found = np.setdiff1d(np.arange(total), np.concatenate(there))
    return found if len(found) == erased else None


def _contents(lake: layout.Lake) -> pa.Table:
    return tables.read_rows(lake.contents, layout.CONTENTS)


def _places(lake: layout.Lake, config: Config) -> dict[str, tuple[str, bool]]:
    """Attempt -> where its file lies, and whether it was still being written."""
    found: dict[str, tuple[str, bool]] = {}
    for family in sorted({family_of(link) for link in _contents(lake).column("link").to_pylist()}):
        rows = family_claims(lake, family, config).rows.select(["attempt", "path", "growing"]).to_pylist()
        found |= {row["attempt"]: (row["path"], row["growing"]) for row in rows}
    return found


def _chosen(path: PurePath, link: str, test: Test) -> pa.Table | None:
    """Returns times and positions of the packets of a file that are to go; None without any."""
    parts = []
    with pq.ParquetFile(paths.local(path)) as file:
        for batch in file.iter_batches(GROUP_ROWS, use_threads=False):
            mask = test(link, batch)
            if mask.any():
                parts.append(batch.select(["timestamp", "position"]).filter(pa.array(mask)))
    return pa.Table.from_batches(parts) if parts else None


def erase(
    lake: layout.Lake, config: Config, found: Sequence[FoundContent], test: Test, person: str, why: str, digest: str
) -> None:
    """Takes packets out of the lake: says so, writes what is left of each file anew, and removes the old rows.
    Raises BusyError if an ingest of a link is at work, and LakeError if a file is still being written, or the lake
    cannot be written. `digest`: of the condition, which is kept nowhere else."""
    if growing := [each.path for each in found if each.growing]:
        raise LakeError(
            f"{growing[0]}: is still being written, and the next look would bring its packets back",
            "`lowwater ingest` reads it once it is whole; then erase",
        )
    sources = {row["attempt"]: row["source"] for row in _contents(lake).to_pylist()}
    by_family = tables.grouped((family_of(sources[each.attempt]), each) for each in found if each.attempt in sources)
    for family, of_family in sorted(by_family.items()):
        with hold(lake, f"ingest of {family}", INGEST_WAIT) as fence:
            held = replace(lake, fence=fence)
            tables.fence_off([lake.packets, lake.records(family), lake.contents, lake.malformed], fence)
            statements.state(
                held,
                (
                    Statement(
                        0, person, statements.ERASE, why, family, digest, each.content, each.start, each.end, each.total
                    )
                    for each in of_family
                ),
            )
            renamed = {each.attempt: _without(held, config, each.attempt, test) for each in of_family}
            with sightings.changing(held) as changing:
                rows = tables.read_rows(lake.sightings, layout.SIGHTINGS)
                tables.replace_rows(lake.sightings, _under(rows, renamed), None, changing.fence)
            clean(held, family, family_claims(held, family, config).kept)


def _under(rows: pa.Table, renamed: Mapping[str, str]) -> pa.Table:
    """Returns sightings in which the new attempts have the places of the old ones."""
    attempts = [[renamed.get(name, name) for name in names] for names in rows.column("attempts").to_pylist()]
    at = rows.schema.get_field_index("attempts")
    return rows.set_column(at, rows.schema.field(at), pa.array(attempts, rows.schema.field(at).type))


def _without(lake: layout.Lake, config: Config, old: str, test: Test) -> str:
    """Writes what stays of an attempt as a new one, whose name it returns: its packets, malformed rows, and facts."""
    attempt, files = uuid.uuid4().hex[:12], PacketFiles.of(lake)
    rows = tables.read_rows(lake.contents, layout.CONTENTS, pc.field("attempt") == old).to_pylist()
    damage = tables.read_rows(lake.malformed, layout.MALFORMED, pc.field("attempt") == old)
    written: dict[PurePath, list[tables.DataFile]] = defaultdict(list)
    kept, malformed = [], []
    for row in rows:
        stay = _Staying(lake, row["link"], attempt, test)
        for stored in sorted(files.rows(row["link"], old), key=lambda each: place_of(PacketFiles.path(each))):
            written[stored["folder"]] += stay.add(stored)
        jump = config.link(row["link"]).jump
        kept.append(stay.facts(row, jump))
        malformed.append(stay.damage(damage.filter(pc.equal(damage.column("link"), row["link"]))))
        kept[-1]["leading"] = malformed[-1].column("arrival").null_count
    for table, new in written.items():
        tables.swap_files(table, new, lambda _: [], fence=lake.fence)
    if any(part.num_rows for part in malformed):
        tables.append_rows(lake.malformed, pa.concat_tables(malformed), lake.fence)
    tables.append_rows(lake.contents, pa.Table.from_pylist(kept, layout.CONTENTS), lake.fence)
    return attempt


class _Staying:
    """What stays of the packets of an attempt and link: files of a new attempt, and facts of them."""

    def __init__(self, lake: layout.Lake, link: str, attempt: str, test: Test) -> None:
        self._lake, self._link, self._attempt, self._test = lake, link, attempt, test
        self._clock, self._median = -1, sanity.Median()
        self._files: list[PurePath] = []
        self._times: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []  # positions and arrivals
        self._packets = self._gone = self._undecoded = self._lull = self._lag = 0
        self._first = self._last = self._smallest = self._largest = -1

    def add(self, stored: Mapping[str, Any]) -> Iterator[tables.DataFile]:
        """Writes the packets of a file that stay; yields a file for each hour of arrival."""
        path, folder = PacketFiles.path(stored), stored["folder"]
        with tables.lake_errors(f"{path}: what stays of it cannot be written"):
            rows = pq.read_table(paths.local(path), partitioning=None)
            masks = [self._test(self._link, batch) for batch in rows.to_batches(GROUP_ROWS)]
            gone = np.concatenate([*masks, np.zeros(0, np.bool_)])
            erased, rows = rows.filter(pa.array(gone)), rows.filter(pa.array(~gone))
            self._gone += erased.num_rows
            if "ipversion" in erased.column_names:
                self._undecoded += erased.column("ipversion").null_count
            elif folder == self._lake.packets:
                self._undecoded += erased.num_rows
            if not rows.num_rows:
                return
            # The clock of a capture is that of its records (T2): without one of them it may be another one.
            stamps = rows.column("timestamp").to_numpy()
            self._lull = sanity.longest_lull(stamps, self._clock, self._lull)
            arrivals = arrival_times(stamps, self._clock)
            self._clock = int(arrivals[-1])
            at = rows.schema.get_field_index("arrival")
            rows = rows.set_column(at, rows.schema.field(at), pa.array(arrivals, rows.schema.field(at).type))
            self._note(rows.column("position").to_numpy(), arrivals, stamps)
            prefix = digests.bare(path.name).rpartition("-")[0]
            hours = arrivals // HOUR
            for hour in np.unique(hours).tolist():
                yield self._write(folder, int(hour), prefix, rows.filter(pa.array(hours == hour)))

    def _note(self, positions: NDArray[np.int64], arrivals: NDArray[np.int64], stamps: NDArray[np.int64]) -> None:
        self._first = int(stamps[0]) if not self._packets else self._first
        self._smallest = min(int(stamps.min()), self._smallest) if self._packets else int(stamps.min())
        self._largest = max(int(stamps.max()), self._largest)
        self._last, self._lag = int(stamps[-1]), max(self._lag, int((arrivals - stamps).max()))
        self._median.add(stamps)
        self._times.append((positions, arrivals))
        self._packets += len(stamps)

    def _write(self, folder: PurePath, hour: int, prefix: str, rows: pa.Table) -> tables.DataFile:
        place = PurePath(f"link={tables.safe_name(self._link)}") / f"hour={hour}"
        target = folder / place / f"{prefix}-{self._attempt}.parquet"
        there = [name for name in _BOUNDED if name in rows.column_names]
        pq.write_table(
            rows,
            paths.draft(target),
            row_group_size=GROUP_ROWS,
            compression="zstd",
            write_statistics=there,
            write_page_checksum=True,
        )
        size, target = paths.draft(target).stat().st_size, paths.seal(target)
        self._files.append(target)
        ends = {name: (pc.min(rows.column(name)).as_py(), pc.max(rows.column(name)).as_py()) for name in there}
        low, high = ({name: bounds[side] for name, bounds in ends.items()} for side in (0, 1))
        partition = {"link": self._link, "hour": str(hour)}
        return tables.DataFile(target.relative_to(folder).as_posix(), size, rows.num_rows, partition, low, high)

    def facts(self, row: Mapping[str, Any], jump: int) -> dict[str, Any]:
        """Returns the row of the ledger: what was covered, and the bytes of the file, are as they were."""
        some = self._packets > 0
        lull = self._lull if some else None
        files = sorted(self._files, key=place_of)
        found = {
            "first": self._first,
            "last": self._last,
            "smallest": self._smallest,
            "largest": self._largest,
            "median": self._median.value() if some else None,
            "lull": lull,
            "lag": self._lag,
        }
        self._median.close()
        return {
            **row,
            **{name: value if some else None for name, value in found.items()},
            "attempt": self._attempt,
            "packets": self._packets,
            "undecoded": max(row["undecoded"] - self._undecoded, 0),
            "edges": edges_of(files, self._packets, lull, jump),
            "erased": (row["erased"] or 0) + self._gone,
        }

    def damage(self, rows: pa.Table) -> pa.Table:
        """Returns the malformed rows of the link under the new attempt, at the clock that the packets before have."""
        size = rows.num_rows
        none = np.zeros(0, np.int64)
        positions, arrivals = (np.concatenate([none, *(each[side] for each in self._times)]) for side in (0, 1))
        places = pc.fill_null(rows.column("position"), np.iinfo(np.int64).max).to_numpy()
        before = np.searchsorted(positions, places)
        clocks = np.where(before > 0, arrivals[before - 1] if len(arrivals) else -1, -1) if size else none
        new = {
            "arrival": pa.array(clocks, pa.int64(), mask=clocks < 0),
            "attempt": pa.repeat(pa.scalar(self._attempt), size),
        }
        return pa.table([new.get(name, rows.column(name)) for name in layout.MALFORMED.names], layout.MALFORMED)


# What is left of them in tables, logs and files


@dataclass(frozen=True)
class Standing:
    """A file of a lake that has a value which is looked for."""

    path: PurePath
    columns: Mapping[str, int]  # column -> rows; the empty name of a file without columns


def standing(
    lake: layout.Lake, sought: Sought, watch: Callable[[int], None] = lambda files: None
) -> Iterator[Standing]:
    """Looks at all bytes of all files of a lake, also at those that no version names.
    Raises LakeError if a file cannot be read. `watch`: called with the number of files that were looked at."""
    for count, path in enumerate(sorted(paths.files_below(lake.root))):
        watch(count)
        with suppress(FileNotFoundError), tables.lake_errors(f"{path}: cannot be read"):
            if found := sought.in_file(path):
                yield Standing(path, found)


ROWS = ("tables",)
MADE_AGAIN = ("streams", "lfta")
"""Folders of tables that are made again where they are needed."""
TOLD = ("quarantine", "metrics", "measures", "quality")
"""Ledgers whose rows tell what was seen in an interval, and are read by people only."""


def purge(lake: layout.Lake, sought: Sought) -> dict[str, int]:
    """Removes what is left of values: rows that tell of them, pages of reports, trials, files that no version needs,
    and what logs say of files that are gone. Readers of older versions lose them. Returns how many rows of each
    published table went, which nothing makes again.
    Raises BusyError if a run or an ingest is at work, and LakeError if the lake cannot be written."""
    families = sorted({family_of(link) for link in _contents(lake).column("link").to_pylist()})
    lost: dict[str, int] = {}
    with ExitStack() as stack:
        # Whoever has begun to write files that no commit names yet holds one of these.
        fence = stack.enter_context(hold(lake, "maintenance"))
        for name in sorted(replayed_sets(lake)):
            stack.enter_context(hold_range(lake, name, -(1 << 62), 1 << 62))
            stack.enter_context(hold(lake, f"publication of {name}", 60.0))
        for family in families:
            stack.enter_context(hold(lake, f"ingest of {family}", INGEST_WAIT))
        held = replace(lake, fence=fence)
        for path in held.all_tables():
            if tables.open_table(path) is not None:
                lost |= _purge_rows(held, path, sought)
        for found in list(standing(held, sought)):
            trials = lake.root / "tries"
            if found.path.is_relative_to(lake.reports):
                paths.remove(found.path)
            elif found.path.is_relative_to(trials):
                paths.remove_tree(trials / found.path.relative_to(trials).parts[0])
        for _ in clear_staging(held, dry_run=False):
            pass
        for path in held.all_tables():
            if tables.open_table(path) is not None:
                _vacuum(path)
                _clean_log(path, sought)
        with tables.lake_errors(f"{lake.root}: cannot be cleaned"):
            open_tables.drop_pack(lake.root)
        answers.forget(lake)
    return lost


def _purge_rows(lake: layout.Lake, path: PurePath, sought: Sought) -> dict[str, int]:
    """Removes the rows of a table, or the files of one that is made again, that have one of the values."""
    kind = path.relative_to(lake.root).parts[0]
    if kind not in (*ROWS, *MADE_AGAIN, *TOLD):
        return {}
    live = tables.live_files(open_tables.existing(path))
    with tables.lake_errors(f"{path}: cannot be read"):
        having = {row["path"] for row in live if sought.in_file(path / unquote(row["path"]))}
    if not having:
        return {}
    gone, hours = 0, set[int]()
    written: list[tables.DataFile] = []
    if kind not in MADE_AGAIN:
        for row in (row for row in live if row["path"] in having):
            file = path / unquote(row["path"])
            with tables.lake_errors(f"{file}: what stays of it cannot be written"):
                rows = pq.read_table(paths.local(file), partitioning=None)
                marks = sought.rows(rows)
                gone += int(np.count_nonzero(marks))
                if not marks.all():
                    written.append(_rest(path, file, rows.filter(pa.array(~marks)), tables.partition_of(row)))
            if kind in ROWS:
                hours.add(int(row["partition._hour"]))
    said = [
        (hour * HOUR, (hour + 1) * HOUR, "rows were erased, and nothing can make the hour again")
        for hour in sorted(hours)
    ]
    tables.swap_files(
        path,
        written,
        lambda newest: [row for row in tables.live_files(newest) if row["path"] in having],
        fence=lake.fence,
        note=(lambda _: {published.LOST: json.dumps(said)}) if said else None,
    )
    return {path.name: gone} if kind in ROWS else {}


def _rest(path: PurePath, file: PurePath, rows: pa.Table, partition: Mapping[str, str | None]) -> tables.DataFile:
    target = file.with_name(f"part-{uuid.uuid4().hex[:12]}.parquet")
    pq.write_table(rows, paths.draft(target), compression="snappy", write_page_checksum=True)
    return tables.describe(path, paths.seal(target), partition)


def _vacuum(path: PurePath) -> None:
    """Removes the files of a table that its newest version does not name."""
    named = {unquote(row["path"]) for row in tables.live_files(open_tables.existing(path))}
    with tables.lake_errors(f"{path}: old files cannot be removed"):
        stored = [each.path for each in paths.listed(path) if "_delta_log" not in each.path.relative_to(path).parts]
        paths.remove(*(each for each in stored if each.relative_to(path).as_posix() not in named))


def _clean_log(path: PurePath, sought: Sought) -> None:
    """Takes values out of the log of a table: what it says of files that are gone, and of its checkpoints those that
    have some."""
    log = path / "_delta_log"
    with tables.lake_errors(f"{path}: its log cannot be cleaned"):
        entries = sorted(paths.children(log))
        having = [each for each in entries if sought.in_file(each)]
        old = [each for each in having if each.name.endswith(".parquet")]
        for entry in (each for each in having if each not in old):
            lines = [json.dumps(_cleaned(json_value(line), sought)) for line in paths.read(entry).splitlines() if line]
            paths.write(entry, "".join(f"{line}\n" for line in lines).encode())
        if old:
            table = open_tables.existing(path)
            open_tables.change(path, table, table.create_checkpoint)
            newest = f"{table.version():020}."
            paths.remove(*(each for each in old if not each.name.startswith(newest)))
    open_tables.forget(path)


def _cleaned(value: Any, sought: Sought) -> Any:
    """Returns a value of a log without texts that have one of the values; of statistics of files the counts stay."""
    if isinstance(value, Mapping):
        return {name: _cleaned(each, sought) for name, each in value.items()}
    if isinstance(value, list):
        return [_cleaned(each, sought) for each in value]
    if not isinstance(value, str) or not sought.in_text(value.encode()):
        return value
    try:
        statistics = json_value(value)
    except ValueError:
        return "erased"
    counts = {name: statistics[name] for name in ("numRecords", "nullCount") if name in statistics}
    return json.dumps(counts) if "numRecords" in counts else "erased"


def spans(found: Iterable[FoundContent]) -> tuple[int, int]:
    """The range of time, ns, of what was found."""
    every = list(found)
    return min(each.start for each in every), max(each.end for each in every)
