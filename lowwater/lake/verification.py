"""Compares what lies in a lake with what its logs name: existence and sizes, and all bytes with their digests.

Called by `lowwater verify`. What is wrong is told with its cost and what makes it again, and is noted where the other
commands look: rows of a table in its log, so that their intervals are `damaged`; packets by another name, so that
`ingest` reads their capture again if it lies there; rows between the stages by taking them out of their log, so that
the next run makes them. A verdict is kept in the lake (docs/adr/0179).
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Collection, Container, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lowwater import documents, instants, link_names
from lowwater.errors import LakeError
from lowwater.lake import layout, open_tables, tables, upkeep
from lowwater.lake.ledgers.captures import Capture, ingested_links, keep_orphans, orphans, read_captures
from lowwater.lake.ledgers.places import is_there
from lowwater.lake.results import published, streams
from lowwater.storage import digests, paths

if TYPE_CHECKING:
    from deltalake import DeltaTable

VERDICT = "verified.json"
"""File of a lake with what the last looks found, and how far one came that was ended."""
KEPT_EVERY = 10.0
"""Seconds between two notes of how far a look has come."""
RESUMED = instants.WEEK
"""A look that was ended goes on where it was for so long, ns."""


@dataclass(frozen=True)
class Asked:
    """Which files are looked at, and how."""

    data: bool = False  # whether their bytes are read
    share: Fraction = Fraction(1)  # part of the files whose bytes are read; another one each day
    link: str | None = None
    query_set: str | None = None
    start: int | None = None  # ns
    end: int | None = None  # ns, exclusive

    @property
    def texts(self) -> dict[str, Any]:
        return {**asdict(self), "share": str(self.share)}

    def is_chosen(self, name: str, day: int) -> bool:
        """Whether the bytes of a file are read on a day."""
        number = int(sha256(name.encode(errors="surrogateescape")).hexdigest()[:12], 16) % self.share.denominator
        return (number - day * self.share.numerator) % self.share.denominator < self.share.numerator


@dataclass(frozen=True)
class Stored:
    """A data file as the log of its table names it."""

    table: PurePath
    name: str  # relative to the table
    size: int
    row: Mapping[str, Any]  # its row of `live_files`; empty for a file of a state
    query_set: str  # empty if it is of none

    @property
    def path(self) -> PurePath:
        return self.table / self.name

    @property
    def link(self) -> str:
        return str(self.row.get("partition.link") or "")

    @property
    def span(self) -> tuple[int, int] | None:
        """The time of its rows, as its partition says it, ns; None if it is of none."""
        for name in ("hour", "_hour"):
            if (hour := self.row.get(f"partition.{name}")) is not None:
                return int(hour) * instants.HOUR, (int(hour) + 1) * instants.HOUR
        return tables.label_bounds(str(self.row.get("partition.interval") or ""))


@dataclass(frozen=True)
class Damaged:
    """A file that is not as it was written."""

    where: str  # path relative to the lake
    what: str
    cost: str  # what is lost with it, until it is made again
    again: str  # what makes it again; empty if nothing does


@dataclass
class Verdict:
    """What a look at a lake found."""

    files: int = 0
    bytes: int = 0
    compared: int = 0  # files whose bytes were compared with their digests
    read: int = 0  # their bytes
    bare: int = 0  # files without a digest, of older versions or other programs
    damaged: list[Damaged] = field(default_factory=list)
    unkept: str = ""  # why the lake could not be told; empty if it was
    resumed: bool = False

    @property
    def lasting(self) -> list[Damaged]:
        """What nothing makes again."""
        return [each for each in self.damaged if not each.again]


def verify(
    lake: layout.Lake,
    asked: Asked,
    told: Callable[[int, int], object] = lambda done, total: None,
    now: Callable[[], int] = time.time_ns,
) -> Verdict:
    """Looks at the files of a lake. `told` is called with the bytes that were read, and those that are to be read.
    Raises LakeError if the lake cannot be read."""
    return _Look(lake, asked, told, now).all()


def require_sound(lake: object, verdict: Verdict) -> None:
    """Raises LakeError if a look at a lake found something damaged."""
    if count := len(verdict.damaged):
        files, are = ("file", "is") if count == 1 else ("files", "are")
        lasting = len(verdict.lasting)
        hint = "the lines `again` say what makes them again" if lasting < count else ""
        if lasting:
            hint += f"{'; ' if hint else ''}nothing makes {lasting:,} of them again: restore them from a backup"
        raise LakeError(f"{lake}: {count:,} {files} {are} not as written", hint)


def last_verdicts(lake: layout.Lake) -> dict[str, Any]:
    """Returns what is kept of earlier looks; empty without one."""
    with suppress(OSError, ValueError):
        kept = documents.json_value(paths.read(lake.root / VERDICT))
        return kept if isinstance(kept, dict) else {}
    return {}


class _Look:
    def __init__(
        self, lake: layout.Lake, asked: Asked, told: Callable[[int, int], object], now: Callable[[], int]
    ) -> None:
        self._lake, self._asked, self._told, self._now = lake, asked, told, now
        self._verdict = Verdict()
        self._kept = last_verdicts(lake)
        self._begun, self._after = now(), ""
        self._saved = time.monotonic()
        self._total = 0
        running = self._kept.get("running")
        if asked.data and isinstance(running, dict) and running.get("asked") == asked.texts:
            with suppress(KeyError, TypeError, ValueError):
                begun, after = int(running["begun"]), str(running["after"])
                found = [Damaged(*map(str, each)) for each in running["damaged"]]
                if 0 <= self._begun - begun < RESUMED:
                    self._begun, self._after, self._verdict.damaged = begun, after, found
                    self._verdict.resumed = True

    def all(self) -> Verdict:
        asked, verdict, day = self._asked, self._verdict, self._begun // instants.DAY
        work: list[tuple[str, Stored]] = []
        for file, there in self._named():
            verdict.files += 1
            verdict.bytes += file.size
            verdict.bare += not _digest(file)
            where = self._where(file.path)
            if there != file.size:
                what = "is gone" if there is None else f"has {there:,} of its {file.size:,} bytes"
                self._found(file, what)
            elif asked.data and asked.is_chosen(where, day) and where > self._after:
                work.append((where, file))
        work.sort(key=lambda each: each[0])
        self._total = sum(file.size for _, file in work)
        for where, file in work:
            self._compare(file)
            self._after = where
            if time.monotonic() - self._saved >= KEPT_EVERY:
                self._keep(False)
        self._keep(True)
        return verdict

    def _compare(self, file: Stored) -> None:
        verdict, digest, before = self._verdict, _digest(file), self._verdict.read

        def told(count: int) -> None:
            verdict.read += count
            self._told(verdict.read, self._total)

        try:
            if digest:
                with paths.fresh(file.path) as content:
                    found = digests.compute(content, told)
                verdict.compared += 1
                if found != digest:
                    self._found(file, "has other bytes than were written")
                    return
                if isinstance(file.path, Path):
                    digests.note_sound(file.path)
            if file.row:
                for claim in upkeep.wrong_of(file.table, file.row):
                    self._found(file, claim.removeprefix(f"{file.path}: "))
        except FileNotFoundError:
            return  # removed meanwhile by who published it again; the next look tells otherwise
        except OSError as error:
            self._found(file, f"cannot be read: {error.strerror or error}")
        verdict.read = before + file.size

    def _found(self, file: Stored, what: str) -> None:
        where = self._where(file.path)
        if any(each.where == where for each in self._verdict.damaged):
            return
        changed = not (what == "is gone" or what.startswith("has 0 of"))
        cost, again = self._costs(file)
        self._verdict.damaged.append(Damaged(where, what, cost, again))
        try:
            self._note(file, what, changed)
        except (LakeError, OSError) as error:
            self._verdict.unkept = error.message if isinstance(error, LakeError) else str(error)

    # what lies there

    def _named(self) -> Iterator[tuple[Stored, int | None]]:
        """Yields every file that the log of a table names and that is asked for, with the size that it has; None for a
        file that is gone."""
        for path in self._lake.all_tables():
            try:
                with tables.lake_errors(f"{path}: the table cannot be read"):
                    table = tables.open_table(path)
                    rows = [] if table is None else tables.live_files(table)
            except LakeError as error:
                self._verdict.damaged.append(
                    Damaged(self._where(path), error.message.removeprefix(f"{path}: "), *_of_log(self._lake, path))
                )
                continue
            if table is None:
                continue
            owner = str(table.metadata().configuration.get(tables.OWNER) or "")
            files = [self._stored(path, row, owner) for row in rows]
            if path in (self._lake.packets, *self._lake.record_tables()):  # what dead attempts left is nobody's
                files = [file for file in files if self._captures is None or _attempt(file) in self._known]
            if not (files := [file for file in files if self._is_asked(file)]):
                continue
            sizes = {each.path.relative_to(path).as_posix(): each.size for each in paths.listed(path)}
            for file in files:
                yield file, sizes.get(file.name)
        for folder in self._states():
            sizes = dict(paths.sizes(folder))
            for name, digest in sorted(streams.state_digests(folder).items()):
                row = {"digest": digest}
                file = Stored(folder, name, sizes.get(name, 0), row, folder.parent.parent.name)
                if self._is_asked(file):
                    yield file, sizes.get(name)

    def _stored(self, path: PurePath, row: Mapping[str, Any], owner: str) -> Stored:
        own = str(row.get("partition.query_set") or owner)
        if path.parent.parent == self._lake.root / "lfta":
            own = path.parent.name
        return Stored(path, unquote(row["path"]), row["size_bytes"], row, own)

    def _states(self) -> list[PurePath]:
        sets = paths.folders(self._lake.states)
        return [state for each in sets for query in paths.folders(each) for state in paths.folders(query)]

    def _is_asked(self, file: Stored) -> bool:
        asked, span = self._asked, file.span
        if asked.link is not None and link_names.family_of(_plain(file.link)) != link_names.family_of(asked.link):
            return False
        if asked.query_set is not None and file.query_set not in (asked.query_set, tables.safe_name(asked.query_set)):
            return False
        if asked.start is None and asked.end is None:
            return True
        return span is not None and (
            (asked.end is None or span[0] < asked.end) and (asked.start is None or asked.start < span[1])
        )

    # what it costs

    def _costs(self, file: Stored) -> tuple[str, str]:
        kind = PurePath(self._where(file.path)).parts[0]
        time_of = "" if file.span is None else f" of {_span(*file.span)}"
        if kind in ("packets", "records"):
            return self._of_packets(file, time_of, self._capture(file))
        if kind == "tables":
            cost = f"rows of the query {file.table.name}{time_of}: what was published there is damaged"
            return cost, "`lowwater backfill` publishes them again"
        if kind in ("lfta", "streams"):
            cost = (
                f"rows between the stages of query set {file.query_set}{time_of}; what is published needs them no more"
            )
            return cost, "the next run of the interval makes them again, by `lowwater backfill` where one is due"
        if kind == "state":
            cost = f"the state that an interval of query set {file.query_set} left for the next one"
            return cost, "`lowwater backfill` makes it again, where it is needed"
        return _of_ledger(kind)

    def _of_packets(self, file: Stored, time_of: str, capture: Capture | None) -> tuple[str, str]:
        rows = file.row.get("num_records", 0)
        cost = f"{rows:,} records of link {_plain(file.link)}{time_of}: an interval that has to run again cannot"
        if capture is None:
            return f"{cost}; no row of the ledger `contents` names them", ""
        cost += f"; they are of {capture.path}"
        if self._lies(capture):
            name = capture.source or _plain(file.link)
            where = f"--lake {shlex.quote(str(self._lake.root))} --link {name} {shlex.quote(capture.path)}"
            return cost, f"`lowwater ingest {where}` reads the capture again"
        return f"{cost}, which does not lie there any more; what is published of them stays", ""

    def _lies(self, capture: Capture) -> bool:
        return is_there(capture.path, capture.bytes)

    def _capture(self, file: Stored) -> Capture | None:
        return (self._captures or {}).get(_attempt(file))

    @cached_property
    def _captures(self) -> dict[str, Capture] | None:
        """Attempt -> a capture of it; None if the ledger cannot be read."""
        with suppress(LakeError):
            found = read_captures(self._lake, ingested_links(self._lake))
            return {row.attempt: row for rows in found.values() for row in rows}
        return None

    @cached_property
    def _known(self) -> set[str]:
        return {*(self._captures or {}), *orphans(self._lake)}

    # what is noted

    def _note(self, file: Stored, what: str, changed: bool) -> None:
        """Says it where other commands look. A file that is gone, or has another size, everybody sees on a disk."""
        kind, span = PurePath(self._where(file.path)).parts[0], file.span
        local = isinstance(file.path, Path)
        if kind == "tables" and span is not None and (changed or not local):
            state = published.table_state(file.table)
            known = [] if state is None else [(each.start, each.end) for each in state.damage]
            if not any(start <= span[0] and span[1] <= end for start, end in known):
                text = json.dumps([(*span, f"a file of the table {what}: {file.name}")])
                note = {published.LOST: text}
                tables.swap_files(file.table, [], lambda _: [], note=lambda _: note)
        capture = self._capture(file) if kind in ("packets", "records") else None
        if changed and capture is not None and self._lies(capture):
            paths.set_aside(file.path)
        if kind == "state":
            paths.remove_tree(file.table)
        if kind in ("lfta", "streams"):
            self._forget(file)

    def _forget(self, file: Stored) -> None:
        """Takes the rows of an interval between two stages out of the log of their table, all of them: the next run of
        it then finds none under their key, and makes them. Nothing is done where a run has replaced the file."""
        label = str(file.row["partition.interval"])

        def of_interval(table: DeltaTable) -> list[dict[str, Any]]:
            rows = tables.interval_files(table, label)
            return rows if any(unquote(row["path"]) == file.name for row in rows) else []

        tables.swap_files(file.table, [], of_interval)

    def _keep(self, done: bool) -> None:
        self._saved, verdict = time.monotonic(), self._verdict
        found = [[each.where, each.what, each.cost, each.again] for each in verdict.damaged]
        kept = dict(self._kept)
        entry = {"asked": self._asked.texts, "begun": self._begun, "damaged": found}
        kept.pop("running", None)
        if done:
            counts = {name: getattr(verdict, name) for name in ("files", "bytes", "compared", "read", "bare")}
            kept["data" if self._asked.data else "sizes"] = {**entry, **counts, "at": self._now()}
        else:
            kept["running"] = {**entry, "after": self._after}
        try:
            paths.write(self._lake.root / VERDICT, json.dumps(kept).encode())
        except OSError as error:
            verdict.unkept = verdict.unkept or f"{self._lake.root / VERDICT}: cannot be written: {error.strerror}"

    def _where(self, path: PurePath) -> str:
        for root in (self._lake.root, self._lake.source):
            with suppress(ValueError):
                return path.relative_to(root).as_posix()
        return str(path)


def _digest(file: Stored) -> str:
    return str(file.row.get("digest") or digests.said(file.name))


def _attempt(file: Stored) -> str:
    return digests.bare(file.name).rpartition("-")[2]


def _plain(link: str) -> str:
    return link.replace("@", "/")


def _span(start: int, end: int) -> str:
    return f"{instants.format_instant(start)} to {instants.format_instant(end)}"


_MEND = "`lowwater maintain` with --mend takes it out of the log"


def _of_ledger(name: str) -> tuple[str, str]:
    if name == "contents":
        return (
            "which captures are in the lake: no command works without it",
            f"{_MEND}, then `lowwater ingest` reads the captures again that lie there",
        )
    if name == "replays":
        cost = "which intervals ran, and from what; what is published stands in the logs of the tables"
        return cost, f"{_MEND}, then `lowwater backfill` runs its intervals again"
    if name == "sightings":
        return (
            "where captures lay, and what became of other files: captures that it does not name are not read",
            f"{_MEND}, then `lowwater ingest` looks at the folders, and reads the captures again that lie there",
        )
    if name == "statements":
        return f"what people said of files and intervals; {_MEND}, and nobody knows it any more", ""
    cost = f"rows of the ledger {name}: what audits, reports and metrics say of past runs"
    return cost, f"{_MEND}; a run of the interval makes its rows again"


def _of_log(lake: layout.Lake, path: PurePath) -> tuple[str, str]:
    """What it costs that the log of a table cannot be read."""
    kind = path.relative_to(lake.root).parts[0] if lake.root in path.parents else path.name
    if kind in ("tables", "streams", "lfta"):
        what = {"tables": f"all rows of the query {path.name}"}.get(kind, "rows between the stages")
        return what, f"`lowwater maintain` with --mend, or move {path} away; then `lowwater backfill` makes it again"
    return "all of the table", "`lowwater maintain` with --mend, or restore it from a backup"


def mend_logs(lake: layout.Lake, damaged: Collection[str]) -> Iterator[tuple[PurePath, str, int]]:
    """Takes out of logs what no command can read: a newest commit that was torn, and files of all but packets and
    published tables that are gone, cut or `damaged` (paths relative to the lake). Yields table, what was done, and the
    number of files. Packets of captures that no row of a lost ledger names any more are kept.
    Raises LakeError if a table cannot be written."""
    for path in lake.all_tables():
        if _without_torn_commit(path):
            yield path, "its newest commit was torn, and was taken away", 1
        if path in (lake.packets, *lake.record_tables()) or path.parent == lake.root / "tables":
            continue
        with suppress(LakeError):
            table = tables.open_table(path)
            rows = [] if table is None else tables.live_files(table)
            lost = {row["path"] for row in rows if _is_lost(lake, path, row, damaged)}
            if lost:
                if path == lake.contents:
                    keep_orphans(lake, lost)
                tables.swap_files(path, [], partial(_rows_named, lost), fence=lake.fence)
                yield path, "files with rows of it were lost", len(lost)


def _rows_named(names: Container[str], table: DeltaTable) -> list[dict[str, Any]]:
    return [row for row in tables.live_files(table) if row["path"] in names]


def _is_lost(lake: layout.Lake, path: PurePath, row: Mapping[str, Any], damaged: Collection[str]) -> bool:
    place = path / unquote(row["path"])
    if not paths.has_size(place, row["size_bytes"]):
        return True
    return lake.root in place.parents and place.relative_to(lake.root).as_posix() in damaged


def _without_torn_commit(path: PurePath) -> bool:
    """Sets the newest commit of a table on a disk aside if it is none: a power cut left it, and nobody was told."""
    if not isinstance(path, Path):
        return False
    commits = sorted(file for file in paths.children(path / upkeep.LOG) if upkeep.is_commit(file))
    if len(commits) < 2:
        return False
    try:
        for line in paths.read(commits[-1]).splitlines():
            documents.json_value(line.decode())
        return False
    except ValueError:
        paths.set_aside(commits[-1])
        open_tables.forget(path)
        return True
