"""The ledger `files` (SEMANTICS T9): files seen in the folders of the links, what became of them, and their names."""

from __future__ import annotations

import os
import shlex
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import takewhile
from pathlib import Path, PurePath

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater import documents
from lowwater.capture.records.drops import DeclaredDrops, Drops
from lowwater.config import Config, Link
from lowwater.documents import FILE_NAME
from lowwater.instants import HOUR, SECOND, format_instant
from lowwater.lake import layout, locks, tables
from lowwater.lake.files.patterns import dated_parts, divided, regex_of
from lowwater.lake.ledgers.captures import Capture, few, in_line, ingested_links, read_captures
from lowwater.lake.ledgers.drops import Lost, lost_of
from lowwater.lake.ledgers.sections import ended_lines
from lowwater.lake.open_tables import cached_value
from lowwater.lake.packets import PacketFiles
from lowwater.link_names import family_of
from lowwater.storage.captures import capture_path, is_address
from lowwater.storage.object_paths import ObjectPath
from lowwater.storage.paths import written_at

# Where the ledgers say that files lie, and by which names the links know them (SEMANTICS T5, T9). Both ledgers of
# files use it. A file is known by its link and its name under the folder of the pattern that claims it, so that lake
# and captures may move, together or alone, and lie elsewhere on another machine.


def key_of(lake: layout.Lake, path: str | Path) -> str:
    """Returns the path by which the ledgers know a file. Where lake and file are on this machine it is relative to the
    lake, so that a move of both changes nothing. Bytes of a name that are no UTF-8 are escaped."""
    text = os.fspath(path)
    if not is_address(text):
        text = os.path.abspath(text)
        if not isinstance(lake.source, ObjectPath):
            text = os.path.relpath(text, _real(str(lake.source)))
    try:
        text.encode()
    except UnicodeEncodeError:
        return "not UTF-8: " + os.fsencode(text.replace("\\", "\\\\")).decode("utf-8", "backslashreplace")
    return text


def location(lake: layout.Lake, key: str) -> str:
    """Returns the absolute path, or the address, of a file of a ledger."""
    if is_address(key) or isinstance(lake.source, ObjectPath):
        return key
    return os.path.normpath(os.path.join(_real(str(lake.source)), key))


def places_of(lake: layout.Lake, path: str, place: str | None) -> list[str]:
    """Returns where the file of a capture lay, as far as the ledger tells: by `place`, its path from the folder of the
    lake, which may have been moved with it (an older ledger has none), or as it was named."""
    named = [] if place and not os.path.isabs(path) else [str(capture_path(path).absolute())]
    own = [location(lake, place)] if place else []
    return list(dict.fromkeys([*own, *named]))


# The folder of a lake that is open does not become another one.
@cache
def _real(folder: str) -> str:
    return os.path.realpath(folder)


def spellings(places: Iterable[str], real: Callable[[str], str] = os.path.realpath) -> Iterator[str]:
    """Yields absolute paths, or addresses, and the same ones with the links in their folders followed; a file that is a
    link stays itself."""
    for place in places:
        yield place
        if not is_address(place):
            folder, _, name = place.rpartition("/")
            yield f"{real(folder or '/').rstrip('/')}/{name}"


class FolderNames:
    """The names of the files of a link under the folders of its patterns: the part of each before the first field or
    wildcard."""

    def __init__(self, settings: Link) -> None:
        self._patterns = [(pattern, *divided(pattern)) for pattern in settings.captures or ()]

    @property
    def folders(self) -> list[tuple[str, str]]:
        """The folders, each once, with the first of their patterns."""
        return list({folder: (pattern, folder) for pattern, folder, _ in reversed(self._patterns)}.values())[::-1]

    def name(self, place: str, real: Callable[[str], str] | None = None) -> str:
        """Returns the name of a file under the folder of the first pattern that claims it, with the links of folders
        followed by `real`; empty where none does."""
        for pattern, folder, depth in self._patterns:
            own = _last(place, depth)
            if regex_of(pattern).fullmatch(place):
                return own
            if real is None or is_address(place) or not regex_of(pattern).fullmatch(f"{folder}/{own}"):
                continue
            if real(place[: -len(own) - 1]) == real(folder):
                return own
        return ""

    def moved(
        self, place: str, name: str | None, taken: Callable[[str], bool] = lambda place: False, unclaimed: bool = False
    ) -> str | None:
        """Returns where a file lies since the folders of the link are others; None if it is where it was, or unknown.

        `name` is its name at that time: empty if no pattern claimed it, None if an older ledger does not tell. Several
        folders may have the name. That counts whose own name is most like that of the old folder; of equal ones, that
        which has the file. An `unclaimed` file is one that no pattern claims, but lay in such a folder."""
        if name == "" or self.name(place):
            return None
        found: dict[str, int] = {}
        for pattern, folder, depth in self._patterns:
            own = _last(place, depth) if name is None else name
            target = f"{folder}/{own}"
            wanted = f"{pattern.rpartition('/')[0]}/*" if unclaimed else pattern
            before = place[: -len(own) - 1]
            if (
                place.endswith(f"/{own}")
                and regex_of(wanted).fullmatch(target)
                and not (taken(target) or _are_of_other_dates(before, folder))
            ):
                found[target] = _alike(before, folder)
        best = [target for target, like in found.items() if like == max(found.values())]
        if len(best) > 1:
            best = [target for target in best if is_there(target)]
        return best[0] if len(best) == 1 and best[0] != place else None


def file_of(lake: layout.Lake, settings: Link, capture: Capture) -> Path:
    """Returns the path of the file of a capture, where it lies now; its path at ingest where it is nowhere."""
    names, places = FolderNames(settings), places_of(lake, capture.path, capture.place)
    places += [target for place in places if (target := names.moved(place, capture.name)) is not None]
    found = next((place for place in places if is_there(place, capture.bytes)), None)
    return capture_path(capture.path if found is None else found)


def is_there(place: str, size: int | None = None) -> bool:
    """Whether a file lies at a place, and is so long, if that is given."""
    try:
        return size in (None, capture_path(place).stat().st_size)
    except OSError:
        return False


def _last(place: str, depth: int) -> str:
    return "/".join(place.split("/")[-depth:])


def _are_of_other_dates(one: str, other: str) -> bool:
    """Whether two folders are beside each other and named by dates, as those of two months."""
    parts, others = one.split("/"), other.split("/")
    count = dated_parts(parts)
    return count > 0 and count == dated_parts(others) and parts[:-count] == others[:-count]


def _alike(one: str, other: str) -> int:
    """Returns how many last parts of two folders are equal."""
    pairs = zip(reversed(one.split("/")), reversed(other.split("/")), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


# The ledger `files`: every file that was seen in the folders of the links, and what became of it (SEMANTICS T9).
# Written by what looks into the folders (`ingestion.folders`), by ingest about the files that it takes or refuses,
# and by `lowwater set-aside`. Read by whoever says what is not read; they look into no folder.

READ = "read"
REFUSED = "refused"
EMPTY = "empty"
GROWING = "still written"
NEW = "not ingested"
UNCLAIMED = "unclaimed"
OTHER = "no traffic"
ASIDE = "set aside"
OVERLAPS = "overlaps"
"""Of a capture that the ledger `captures` has and nobody reads (T1); no row of the ledger `files` has it."""
GONE = "gone"
FOLDER = "folder"
"""A folder that could not be looked into, or not wholly."""

STATES = (REFUSED, OVERLAPS, UNCLAIMED, NEW, GROWING, EMPTY, GONE, FOLDER, ASIDE, OTHER, READ)
"""All states; those of which people must know come first."""

ARCHIVE = ", whose files are not read: "
"""In the reason of an unclaimed file that is an archive, between what it is and what unpacks it."""

LONGEST = 400  # most characters of the reason of a file in a line
_DEAD = 1_000  # rows that a newer one has replaced, or of files that are gone, before the table is written anew


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A row of the ledger; see `layout.FILES` for the columns. Instants are ns since the epoch."""

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
    capture: str | None = None
    judged: str | None = None
    person: str | None = None
    digests: str | None = None
    silences: tuple[int, ...] = ()
    seen_at: int = 0
    drops: str | None = None

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

    def doubts(self, capture: str, link: str, ingested_at: int, written: int) -> bool:
        """Whether another file may lie in the place of the capture of a link, which was ingested at an instant, though
        its length is the same and its last write, ns, is old, too: by `mv`, `cp -p`, `rsync -t`."""
        if self.state == READ:  # a copy or a restore may have cut the time to the second
            return self.capture == capture and self.written // SECOND != written // SECOND
        # An earlier look found so; no ingest took the file since.
        waits = self.state in (NEW, GROWING) and self.unread and ingested_at < self.seen_at
        return waits and link in {*map(family_of, self.links)}

    def falls_into(self, start: int, end: int) -> bool:
        """Whether records of it may lie in [start, end), ns."""
        if self.span is None or not (self.span[0] < end and self.span[1] > start):
            return False
        begin, until = max(start, self.span[0]), min(end, self.span[1])
        silences = zip(self.silences[::2], self.silences[1::2], strict=True)
        return not any(silent < begin and until <= heard for silent, heard in silences)


NAMES = tuple(field.name for field in fields(SeenFile))


def read_seen(lake: layout.Lake) -> Mapping[str, SeenFile]:
    """Reads the ledger: path -> the newest row about it. It is read again only if it has changed."""
    with tables.lake_errors(f"{lake.files}: the table cannot be read"):
        return cached_value(lake.files, "seen files", lambda table: {} if table is None else _newest(lake))


def told_files(lake: layout.Lake) -> Mapping[str, SeenFile]:
    """Reads the rows about files of which people are told: those that are unread or set aside, of a year of others."""
    with tables.lake_errors(f"{lake.files}: the table cannot be read"):
        return cached_value(lake.files, "told files", lambda table: {} if table is None else _newest(lake, told=True))


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
            about = each.words, True, (link,), row.bytes, 0, begin, end, row.packets, *declared, row.capture
            path = row.place or key_of(lake, row.path)
            found.append(replace(SeenFile(path, OVERLAPS, *about), silences=_silences(times)))
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
    with tables.lake_errors(f"{lake.files}: the table cannot be read"):
        return cached_value(lake.files, "drops", lambda table: {} if table is None else _drops(lake))


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


def _newest(lake: layout.Lake, told: bool = False) -> dict[str, SeenFile]:
    rows = tables.read_rows(lake.files, layout.FILES).sort_by("seen_at").combine_chunks()
    paths = rows.column("path").combine_chunks().dictionary_encode()
    newest = np.zeros(len(paths.dictionary), np.int64)
    newest[paths.indices.to_numpy()] = np.arange(rows.num_rows)  # of equal paths the last one counts
    rows = rows.take(pa.array(newest))
    if told:
        rows = rows.filter(pc.or_(rows.column("unread"), pc.equal(rows.column("state"), ASIDE)))
    pool: dict[int, int] = {}
    columns = [tables.column_values(rows.column(name), pool) for name in NAMES]
    for place in (NAMES.index("links"), NAMES.index("silences")):
        columns[place] = [tuple(each or ()) for each in columns[place]]
    return {row.path: row for values in zip(*columns, strict=True) for row in [SeenFile(*values)]}


@contextmanager
def changing(lake: layout.Lake) -> Iterator[layout.Lake]:
    """Holds the ledger for a change of what was read from it; yields the lake with the fence of that."""
    with locks.hold(lake, "ledger of files", 600.0, [lake.files]) as fence:
        tables.fence_off([lake.files], fence)
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


def put_seen(lake: layout.Lake, rows: Iterable[SeenFile], since: int = 0) -> int:
    """Writes rows about files that say something new, in one commit; returns their number. Needs `changing`. `since`:
    instant, ns; that a file is refused as it was refused before then is new, too."""
    before = read_seen(lake)

    def says_more(row: SeenFile) -> bool:
        old = before.get(row.path)
        return old is None or old.seen_at < since or replace(row, seen_at=old.seen_at) != old

    changed = [row for row in rows if says_more(row)]
    if not changed:
        return 0
    tables.create(lake.files, layout.FILES)
    now = max(time.time_ns(), max((row.seen_at for row in before.values()), default=0) + 1)
    after = {**before, **{row.path: replace(row, seen_at=now) for row in changed}}
    # A row of a file that is gone and missed by nobody says nothing more, but for what it told of drops.
    alive = {path: row for path, row in after.items() if row.state != GONE or row.unread or row.drops}
    stored = tables.read_rows(lake.files, pa.schema([layout.FILES.field("seen_at")])).num_rows
    if stored + len(changed) > len(alive) + max(len(alive), _DEAD):
        tables.replace_rows(lake.files, tables.table_of(alive.values(), layout.FILES), None, lake.fence)
    else:
        tables.append_rows(lake.files, tables.table_of((after[row.path] for row in changed), layout.FILES), lake.fence)
    return len(changed)


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
