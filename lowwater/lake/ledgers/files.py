"""The ledger `sightings` (SEMANTICS T9): files seen in the folders of the links, and what became of them."""

from __future__ import annotations

import os
import shlex
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import PurePath
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater import documents
from lowwater.capture.records.drops import DeclaredDrops, Drops
from lowwater.config import Config
from lowwater.documents import FILE_NAME
from lowwater.instants import HOUR, SECOND, format_instant
from lowwater.lake import layout, locks, open_tables, tables
from lowwater.lake.ledgers import statements
from lowwater.lake.ledgers.captures import attempts_of, few, in_line, ingested_links, read_captures
from lowwater.lake.ledgers.drops import Lost, lost_of
from lowwater.lake.ledgers.places import location
from lowwater.lake.ledgers.sections import ended_lines
from lowwater.lake.ledgers.states import (
    ASIDE,
    EMPTY,
    FOLDER,
    GONE,
    GROWING,
    NEW,
    OVERLAPS,
    REFUSED,
    STATES,
    UNCLAIMED,
)
from lowwater.lake.open_tables import cached_value
from lowwater.lake.packets import PacketFiles
from lowwater.link_names import family_of
from lowwater.storage.object_paths import ObjectPath
from lowwater.storage.paths import written_at

# Every file that was seen in the folders of the links, and what became of it (SEMANTICS T9). Rows are appended. Written
# by what looks into the folders (`ingestion.folders`), and by ingest about the files that it takes or refuses. Read by
# whoever says what is not read; they look into no folder. Whether a file is set aside is said by `statements` alone, so
# no look and no ingest can undo it.

T = TypeVar("T")

ARCHIVE = ", whose files are not read: "
"""In the reason of an unclaimed file that is an archive, between what it is and what unpacks it."""

LONGEST = 400  # most characters of the reason of a file in a line
_DEAD = 1_000  # rows that a newer one has replaced, or of files that are gone, before the table is written anew


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A row of the ledger; see `layout.SIGHTINGS` for the columns. Instants are ns since the epoch."""

    path: str
    state: str
    reason: str
    unread: bool
    links: tuple[str, ...]
    size: int
    written: int
    first: int | None = None
    last: int | None = None
    packets: int | None = None
    declared_from: int | None = None
    declared_to: int | None = None
    rotated: bool | None = None
    named: str | None = None
    folder_name: str | None = None
    attempts: tuple[str, ...] = ()
    sha256: str | None = None
    judged: str | None = None
    digests: str | None = None
    silences: tuple[int, ...] = ()
    seen_at: int = 0
    drops: str | None = None
    settled: bool | None = None  # set when it is stored
    person: str | None = None  # who set it aside; in no row of the ledger

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def is_archive(self) -> bool:
        """Whether it holds files; once they are unpacked and it is gone, nobody misses it."""
        return self.state == UNCLAIMED and ARCHIVE in self.reason

    @property
    def shown(self) -> str:
        """Its name in one line."""
        return in_line(self.name)

    @property
    def span(self) -> tuple[int, int] | None:
        """The time [from, to), ns, in which its records may lie; None where nothing tells.

        Where it was not read to its end, its records may go on until it was last written.
        """
        if self.first is not None:
            return self.first, max(self.first, self.written if self.last is None else self.last) + 1
        if self.declared_from is not None and self.declared_to is not None:
            return self.declared_from, self.declared_to
        return None

    def looks_like(self, size: int, written: int) -> bool:
        """Whether a file of this size and last write, ns, may be taken for what was seen: a copy or a restore may have
        cut the time to the second."""
        return self.size == size and self.written // SECOND == written // SECOND

    def falls_into(self, start: int, end: int) -> bool:
        """Whether records of it may lie in [start, end), ns."""
        if self.span is None or not (self.span[0] < end and self.span[1] > start):
            return False
        begin, until = max(start, self.span[0]), min(end, self.span[1])
        silences = zip(self.silences[::2], self.silences[1::2], strict=True)
        return not any(silent < begin and until <= heard for silent, heard in silences)


SETTLED = 2 * SECOND
"""Least time (ns) from the last write of a file to when it was seen, for the two to tell what it is."""

NAMES = tuple(field.name for field in fields(SeenFile) if field.name != "person")


def read_seen(lake: layout.Lake) -> Mapping[str, SeenFile]:
    """Reads the ledger: path -> the newest row about it. It is read again only if it has changed."""
    with tables.lake_errors(f"{lake.sightings}: the table cannot be read"):
        return cached_value(lake.sightings, "seen files", lambda table: {} if table is None else _newest(lake))


def seen_by_attempt(lake: layout.Lake) -> Mapping[str, Sequence[SeenFile]]:
    """Reads the ledger: attempt -> the newest rows of the paths that have what was decoded then."""
    return cached_value(lake.sightings, "seen by attempt", lambda table: by_attempt(read_seen(lake).values()))


def by_attempt(rows: Iterable[SeenFile]) -> dict[str, list[SeenFile]]:
    """Returns attempt -> the rows that have what was decoded then."""
    return tables.grouped((attempt, row) for row in rows for attempt in row.attempts)


def told_files(lake: layout.Lake) -> Mapping[str, SeenFile]:
    """Reads the rows about files of which people are told: those that are unread or set aside, of a year of others."""
    return of_told(lake, "told files", lambda: _told(lake))


def of_told(lake: layout.Lake, key: str, compute: Callable[[], T]) -> T:
    """Returns what is computed of the files of which people are told; again only if what was seen or said changes."""
    with tables.lake_errors(f"{lake.sightings}: the table cannot be read"):
        state = open_tables.identity(lake.sightings), statements.asides(lake)
        return _TOLD.get((lake.sightings, key), state, compute)


_TOLD = open_tables.ValuesByState(512)


def _told(lake: layout.Lake) -> dict[str, SeenFile]:
    asides = statements.asides(lake)
    if open_tables.newest(lake.sightings) is None:
        return {}
    rows = _newest(lake, asides)
    said = {path: asides.said(path, row.size, row.sha256) for path, row in rows.items()}
    aside = {path: each for path, each in said.items() if each is not None and each.act == statements.ASIDE}
    # What was said of a file that lies in another folder by now, under its name, goes with it.
    gone = {_likeness(rows[path]): path for path in aside if rows[path].state == GONE}
    for path, row in rows.items() if gone else ():
        if row.state != GONE and (before := gone.pop(_likeness(row), None)) is not None:
            moved = aside.pop(before)
            if said[path] is None:
                aside[path] = moved
    told = {path: row for path, row in rows.items() if row.unread}
    for path, each in aside.items():
        told[path] = replace(rows[path], state=ASIDE, reason=each.why, person=each.person, unread=False)
    return told


def _likeness(row: SeenFile) -> tuple[str, int, int]:
    return row.name, row.size, row.written


def overlapping_files(lake: layout.Lake, config: Config) -> list[SeenFile]:
    """Returns the captures that are not read since they overlap others (T1), as files that are not read."""
    found = list[SeenFile]()
    for link, captures in read_captures(lake, ingested_links(lake), config).items():
        for each in captures.unread:
            row, files = each.capture, PacketFiles.of(lake)
            span = None if row.first is None or row.largest is None else (row.first, row.largest)
            begin, end = span or row.declared or (None, None)
            declared = (None, None) if span else (row.declared_from, row.declared_to)
            times = sorted((part["min.timestamp"], part["max.timestamp"]) for part in files.in_force(row))
            about = each.words, True, (link,), row.bytes, 0, begin, end, row.packets, *declared
            found.append(replace(SeenFile(row.place or "", OVERLAPS, *about), silences=_silences(times)))
    return found


def _silences(parts: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Returns the silences of an hour and more between parts of a file, in order: each as begin and end, ns."""
    found, reached = list[int](), parts[0][1] if parts else 0
    for begin, end in parts:
        if begin - reached >= HOUR:
            found += [reached, begin]
        reached = max(reached, end)
    return tuple(found)


def drops_beside(lake: layout.Lake) -> Mapping[str, Sequence[Lost]]:
    """Reads what logs that are no captures of their links say was lost, by link (A1). It is read again only if the
    ledger has changed."""
    with tables.lake_errors(f"{lake.sightings}: the table cannot be read"):
        return cached_value(lake.sightings, "drops", lambda table: {} if table is None else _drops(lake))


def _drops(lake: layout.Lake) -> dict[str, Sequence[Lost]]:
    # A log is rotated, renamed and packed, also while it grows. So of the drops of two logs that begin at one instant,
    # the one has what the other has, or is its beginning. Of logs that were joined, the records begin where the log
    # before ends, and not where they are taken to begin alone: they end at one instant, with one count.
    found: dict[str, dict[tuple[object, ...], tuple[str, Drops]]] = {}
    ended: dict[str, set[tuple[object, ...]]] = {}
    rows = (row for row in _newest(lake).values() if row.drops)
    for row in sorted(rows, key=lambda row: (row.state == GONE, row.path)):
        ranges = DeclaredDrops.of_object(documents.stored_object(row.drops or "{}")).ranges
        number: Counter[tuple[object, ...]] = Counter()
        for each in ranges:
            begin, end = (each.source, each.start), (each.source, each.end, each.count, each.whole)
            key, last = (*begin, number[begin]), (*end, number[end])
            number.update((begin, end))
            for link in row.links:
                if each.end is not None and last in ended.setdefault(link, set()) and key not in found[link]:
                    continue
                ended.setdefault(link, set()).add(last)
                known = found.setdefault(link, {}).setdefault(key, (row.shown, each))[1]
                if (each.count, each.end or 0) > (known.count, known.end or 0):
                    found[link][key] = row.shown, each
    return {
        link: lost_of((name, "", DeclaredDrops((each,)), 0, 0) for name, each in of_link.values())
        for link, of_link in found.items()
    }


def _newest(lake: layout.Lake, told: statements.Asides | None = None) -> dict[str, SeenFile]:
    """Reads the newest row of each path; with `told` only those that are unread, or have a name that it tells."""
    rows = _stored(lake)
    paths = rows.column("path").combine_chunks().dictionary_encode()
    newest = np.zeros(len(paths.dictionary), np.int64)
    newest[paths.indices.to_numpy()] = np.arange(rows.num_rows)  # of equal paths the last one counts
    rows = rows.take(pa.array(newest))
    if told is not None:
        chosen = rows.column("unread")
        if names := {path.rpartition("/")[2] for path in told.paths}:
            own = pc.replace_substring_regex(rows.column("path"), "(?s)^.*/", "")
            chosen = pc.or_(chosen, pc.is_in(own, pa.array([*names], pa.string())))
        rows = rows.filter(chosen)
    pool: dict[int, int] = {}
    columns = [tables.column_values(rows.column(_COLUMNS.get(name, name)), pool) for name in NAMES]
    for place in map(NAMES.index, ("links", "silences", "attempts")):
        columns[place] = [tuple(each or ()) for each in columns[place]]
    return {row.path: row for values in zip(*columns, strict=True) for row in [SeenFile(*values)]}


@contextmanager
def changing(lake: layout.Lake) -> Iterator[layout.Lake]:
    """Holds the ledger for a change of what was read from it; yields the lake with the fence of that."""
    with locks.hold(lake, "ledger of files", 600.0, [lake.sightings]) as fence:
        tables.fence_off([lake.sightings], fence)
        yield replace(lake, fence=fence)


def changed_at(path: PurePath) -> int:
    """Returns when a file got its content, ns since the epoch; 0 without one. An older file that was put in its place
    (`mv`, `cp -p`) has an old last write."""
    if isinstance(path, ObjectPath):
        return round(written_at(path) * SECOND)
    try:
        status = os.stat(path)
    except OSError:
        return 0
    return max(status.st_mtime_ns, status.st_ctime_ns)


def settings_at(lake: layout.Lake, config: Config) -> int:
    """Returns since when the present settings and schemas hold, by which files are refused, ns since the epoch."""
    return max(map(changed_at, [lake.root / FILE_NAME, *config.link_schemas]))


def put_seen(lake: layout.Lake, rows: Iterable[SeenFile], since: int = 0, read: bool = False) -> int:
    """Appends rows about files that say something new, in one commit; returns their number. Needs `changing`.

    Args:
        since: instant, ns, before all of the rows; that a file is refused as it was refused before then is new, too.
        read: whether the files were read: then it is new as well that one is what it was when its last write was so
            near that another one could follow it.
    """
    before = read_seen(lake)

    def says_more(row: SeenFile) -> bool:
        old = before.get(row.path)
        if old is None or old.seen_at < since or (read and not old.settled):
            return True
        return replace(row, seen_at=old.seen_at, settled=old.settled) != old

    changed = [row for row in rows if says_more(row)]
    if not changed:
        return 0
    tables.create(lake.sightings, layout.SIGHTINGS)
    clock = time.time_ns()  # which may have been ahead, so that the order of the rows is ahead of it
    now = max(clock, since + 1, max((row.seen_at for row in before.values()), default=0) + 1)
    settled = clock - SETTLED
    new = [replace(row, seen_at=now + number, settled=row.written < settled) for number, row in enumerate(changed)]
    _forget(lake, before)
    tables.append_rows(lake.sightings, table_of(new), lake.fence)
    return len(changed)


def table_of(rows: Iterable[SeenFile]) -> pa.Table:
    """Returns rows as the table has them."""
    named = layout.SIGHTINGS.names
    fields = pa.schema([column.with_name(_FIELDS.get(column.name, column.name)) for column in layout.SIGHTINGS])
    return tables.table_of(rows, fields).rename_columns(named)


_FIELDS = {"name": "folder_name"}  # `name` is that of the file
_COLUMNS = {attribute: column for column, attribute in _FIELDS.items()}


def _forget(lake: layout.Lake, before: Mapping[str, SeenFile]) -> None:
    """Removes the rows that nobody reads any more, once they are many."""
    stored = tables.read_rows(lake.sightings, pa.schema([layout.SIGHTINGS.field("seen_at")])).num_rows
    if stored <= len(before) + max(len(before), _DEAD):
        return
    rows, spoken = _stored(lake), {each.file for each in statements.declared(lake)}
    kept = pa.array(remembered(rows, attempts_of(lake), spoken), pa.int64())
    tables.replace_rows(lake.sightings, rows.take(kept), None, lake.fence)


def remembered(rows: pa.Table, known: Collection[str], spoken: Collection[str | None]) -> list[int]:
    """Returns which rows tell something: an older one of a path only while the lake has what lay there. One of a file
    that is gone and missed by nobody says nothing more, but for what it told of drops and what the lake has of it.

    Args:
        known: attempts that the lake has. spoken: paths of which people declared what their files cover.
    """
    kept: dict[tuple[str, ...], int] = {}
    columns = (rows.column(name).to_pylist() for name in ("path", "state", "unread", "drops", "attempts"))
    for at, (path, state, unread, drops, attempts) in enumerate(zip(*columns, strict=True)):
        kept.pop((path,), None)
        own = {attempt for attempt in attempts if attempt in known}
        if state != GONE or unread or drops or own:
            kept[path,] = at
        for attempt in own:
            # What people declared is of the content that was seen next, though it was seen again behind others.
            kept[(path, attempt, str(at)) if path in spoken else (path, attempt)] = at
    return sorted({*kept.values()})


def _stored(lake: layout.Lake) -> pa.Table:
    return tables.read_rows(lake.sightings, layout.SIGHTINGS).sort_by("seen_at").combine_chunks()


def seen_links(link: str) -> tuple[str, str]:
    """Returns the names by which the ledger may know a link: its own, and that of the link of its capture."""
    return link, family_of(link)


def file_words(row: SeenFile) -> str:
    """Describes why a file is not read, without its name."""
    words = {
        UNCLAIMED: f"no pattern claims it: {row.reason}" if row.reason else "no pattern claims it",
        REFUSED: f"refused: {row.reason}",
        NEW: "not ingested yet",
        GROWING: "still being written, and nothing of it is read",
        EMPTY: "it has 0 bytes",
        GONE: f"gone before it was read ({row.reason})",
        FOLDER: row.reason,
        OVERLAPS: row.reason,
    }
    return words[row.state]


def count_words(rows: Sequence[SeenFile]) -> str:
    """Returns the number of the records of files as far as it is known, and where they begin."""
    known = [row.packets for row in rows if row.packets is not None]
    more = "" if len(known) == len(rows) else " or more"
    counted = f"{sum(known):,} record{'' if sum(known) == 1 else 's'}{more}" if known else ""
    begins = min((row.span[0] for row in rows if row.span is not None), default=None)
    since = "at a time that nothing tells" if begins is None else f"from {format_instant(begins)}"
    return ", ".join(text for text in (counted, since) if text)


def _named(rows: Sequence[SeenFile]) -> str:
    return few([row.name for row in rows])


def _of(links: Sequence[str]) -> str:
    return f"link{'s' if len(links) > 1 else ''} {few([*map(repr, links)])}"


_LINES = {
    REFUSED: ("file was refused", "files were refused"),
    OVERLAPS: ("file is of the time of another one", "files are of the time of others"),
    UNCLAIMED: (
        "file lies in the folder and no pattern claims it",
        "files lie in the folder and no pattern claims them",
    ),
    NEW: ("file is not ingested", "files are not ingested"),
    GROWING: ("file is still being written, and nothing of it is read", "files are still being written, and not read"),
    EMPTY: ("file is empty (0 bytes)", "files are empty (0 bytes)"),
    GONE: ("file is gone that nobody read", "files are gone that nobody read"),
}


def _groups(rows: Iterable[SeenFile]) -> Iterator[tuple[str, tuple[str, ...], list[SeenFile]]]:
    """Yields state, links and files, in order; a folder and a reason to set aside are each a group of their own,
    and so are kinds of files that no pattern claims."""
    groups: dict[tuple[int, tuple[str, ...], str], list[SeenFile]] = {}
    for row in rows:
        own = row.path if row.state == FOLDER else f"{row.reason}\0{row.person}" if row.state == ASIDE else ""
        own = row.reason.partition(":")[0] if row.state == UNCLAIMED else own
        groups.setdefault((STATES.index(row.state), row.links, own), []).append(row)
    for (state, links, _), members in sorted(groups.items()):
        ordered = sorted(members, key=lambda row: (row.span is None, row.span or (0, 0), row.path))
        yield STATES[state], links, ordered


def absent_folders(lake: layout.Lake) -> dict[str, str]:
    """Link -> which of its folders the last look could not read, and why."""
    texts: dict[str, str] = {}
    for row in told_files(lake).values():
        if row.state == FOLDER:
            for link in row.links:
                more = f"folder {location(lake, row.path)}: {row.reason}"
                texts[link] = f"{texts[link]}, {more}" if link in texts else more
    return texts


def unread_lines(
    lake: layout.Lake,
    config: Config,
    links: Iterable[str] | None = None,
    hint: bool = True,
    but: Sequence[str] = (),
    said: Collection[str] = (),
) -> list[str]:
    """Says which files that lie in the folders of the links are not read, and which are set aside: of all links that
    the settings name, if they name any, or of these. `but` are states, and `said` folders, that are not told."""
    wanted = None if links is None else {name for link in links for name in seen_links(link)}
    rows = [
        row
        for row in (*told_files(lake).values(), *overlapping_files(lake, config))
        if row.state not in but
        and not (row.state == FOLDER and location(lake, row.path) in said)
        and (wanted is None or wanted & set(row.links))
        and (not config.links or any(set(seen_links(link)) & set(config.links) for link in row.links))
    ]
    lines = [*ended_lines(lake, config)] if hint else []
    for state, of, members in _groups(rows):
        if state == FOLDER:
            lines.append(f"{_of(of)}: folder {location(lake, members[0].path)}: {members[0].reason}")
        elif state == ASIDE:
            row = members[0]
            many = f"{len(members):,} file{'' if len(members) == 1 else 's'}"
            by = f" by {row.person}" if row.person else ""
            lines.append(f"{_of(of)}: {many} set aside{by}, {count_words(members)}: {_named(members)}: {row.reason}")
        else:
            words = _LINES[state][len(members) > 1]
            told = next((row.reason for row in members if row.reason and state in (REFUSED, OVERLAPS, UNCLAIMED)), "")
            why = f": {told[:LONGEST]}" if told else ""
            lines.append(
                f"not read: {_of(of)}: {len(members):,} {words}, {count_words(members)}: {_named(members)}{why}"
            )
    if hint and (states := {row.state for row in rows if row.unread}):
        folder = shlex.quote(str(lake.root))
        advice = list[str]()
        if states & {NEW, GROWING}:
            advice.append(f"`lowwater ingest --lake {folder}` reads those that are not ingested, once they are whole")
        if states & {REFUSED, EMPTY, GONE}:
            advice.append("put a whole file in the place of each that was refused, is empty or is gone")
        if states & {OVERLAPS}:
            advice.append("of files of one time, write a longer skew, or make links of them")
        if states & {UNCLAIMED}:
            advice.append("let a pattern of captures claim what none claims, ingest it by name")
        advice.append(f"or set them aside: lowwater set-aside --lake {folder} FILE --reason WHY")
        lines.append(f"hint: an interval that such files fall into is not done; {', '.join(advice)}")
    return lines
