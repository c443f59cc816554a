"""Files of a link in the ledger, and which of them a new file replaces (SEMANTICS T1, T5)."""

from __future__ import annotations

import json
import os
import shlex
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

from lowwater import config, errors
from lowwater.capture.content.retention import DECODER_VERSION, ContentOptions, hash_of, kept_for_rows
from lowwater.capture.formats.sources import starts_with
from lowwater.capture.records.facts import CaptureSummary
from lowwater.capture.tables.options import READER_VERSION, TableOptions
from lowwater.instants import SECOND, format_duration, format_instant, spoken_duration
from lowwater.lake.files.patterns import covers_key
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.captures import Capture, CopiedFile, family_captures, put_captures
from lowwater.lake.ledgers.files import FolderNames, is_there, key_of, places_of, spellings
from lowwater.lake.ledgers.overlaps import Overlap, first_and_largest
from lowwater.lake.tables import grouped
from lowwater.link_names import below, family_of, source_of
from lowwater.plan.temporal import END_OF_TIME
from lowwater.storage.captures import capture_path

# A file is compared with the few that it may replace or overlap, and not with thousands.

T = TypeVar("T")


class Places(Generic[T]):
    """Things by keys: each has several, and several things may have one key."""

    def __init__(self) -> None:
        self._by_key: dict[Hashable, dict[str, T]] = defaultdict(dict)

    def add(self, name: str, thing: T, keys: Iterable[Hashable]) -> None:
        for key in keys:
            self._by_key[key][name] = thing

    def remove(self, name: str, keys: Iterable[Hashable]) -> None:
        for key in keys:
            del self._by_key[key][name]
            if not self._by_key[key]:
                del self._by_key[key]

    def find(self, keys: Iterable[Hashable]) -> list[T]:
        """Returns the things that have one of some keys, each once."""
        found: dict[str, T] = {}
        for key in keys:
            found.update(self._by_key.get(key, {}))
        return list(found.values())


# Under the lock of an ingest. A file is the rows of one attempt: one row, or a row for every interface.

Coverage = tuple[int, int]


@dataclass(frozen=True)
class LedgerFile:
    """A file in the ledger, or one that will be: its rows, one a link."""

    rows: tuple[Capture, ...]

    @property
    def row(self) -> Capture:
        """Its first row, for the facts that are equal in all rows: all facts about the file."""
        return self.rows[0]

    @property
    def packets(self) -> int:
        return sum(row.packets for row in self.rows)

    @property
    def copies(self) -> Collection[CopiedFile]:
        return self.row.copied_to.values() if self.row.copies else ()

    @property
    def covers(self) -> Coverage:
        """Coverage in force."""
        return self.row.covers_from, self.row.covers_to

    @property
    def largest(self) -> int | None:
        """Largest timestamp of the file, ns; None without a record."""
        return max((row.largest for row in self.rows if row.largest is not None), default=None)

    @property
    def source(self) -> str:
        """Link that it was ingested for."""
        return self.row.source or source_of(self.row.link, len(self.rows) > 1)

    def fits(self, settings: config.Link, content: ContentOptions | TableOptions) -> bool:
        """Whether a new ingest would give the same packets, links and stored content."""
        row = self.row
        if settings.interfaces == "one":
            interfaces_same = len(self.rows) == 1 and row.link == self.source
        else:
            interfaces_same = all((each.interfaces or 1) == 1 and not each.renamed for each in self.rows) and (
                row.source is None or all(each.link == below(self.source, each.interface) for each in self.rows)
            )
        kept_same = kept_for_rows(row.kept) == kept_for_rows(str(content)) and (row.key or "") == content.key_digest
        if isinstance(content, ContentOptions):  # hashes that are no longer asked for may stay
            kept_same = kept_same and content.compared in ("", hash_of(row.kept))
        version_same = row.decoded_as(row.decoder_version) == row.decoded_as(version_of(content))
        return interfaces_same and kept_same and version_same and row.admits(settings)

    def is_of(self, links: Sequence[str]) -> bool:
        """Whether its records belong to these links."""
        return {row.link for row in self.rows} == set(links)

    def at(self, path: Path, place: str, name: str) -> LedgerFile:
        """Returns the file at another path, with its place and name there."""
        return self._with(path=str(path), place=place, name=name)

    def counted(self) -> LedgerFile:
        """Returns the file as one that nobody has set aside."""
        return self._with(aside=None) if self.row.aside else self

    def with_copy(self, place: str, sha256: str, size: int, seen_at: int) -> LedgerFile:
        """Returns the file with another file that has its records and lies beside it."""
        known = self.row.copied_to.get(place)
        if known is not None and known.sha256 == sha256:
            return self
        copies = json.dumps({**self.row.copied_to, place: CopiedFile(sha256, size, seen_at)})
        return self._with(copies=copies)

    def with_beginning(self, place: str, copy: CopiedFile) -> LedgerFile:
        """Returns the file with another file that is its beginning and lies beside it."""
        return self._with(beginnings=json.dumps({**self.row.begun_in, place: copy}))

    def declaring(self, declared: Coverage | None) -> Coverage | None:
        """Returns the declared coverage, given what the settings declare for its path. A declaration by `--covers`
        holds; one by the settings ends when they no longer make it. An older ledger does not tell the two apart: its
        declaration holds unless the settings declare another one."""
        if self.row.by_hand:
            return self.row.declared
        return declared or (self.row.declared if self.row.by_hand is None else None)

    def covering(
        self, declared: Coverage | None, growing: bool, by_hand: bool | None = False, rotated: bool | None = False
    ) -> LedgerFile:
        """Returns the file with its coverage (T5), which was declared by `--covers`, or with an end that is made up
        from the rotation; None where these are unknown.

        A file that ended cleanly covers its declared time. A cut or growing file covers the time from the declared
        begin to its clock at the last good record; a cut says nothing about the begin. Without a declaration, a file
        covers the time from its first record to that clock. All interfaces of a file have the same coverage, with or
        without packets."""
        first = min((row.first for row in self.rows if row.first is not None), default=None)
        start, end = (first, self.largest) if declared is None else declared
        if declared is not None and (growing or not self.row.ended_cleanly):
            end = max(declared[0], min(declared[1], self.largest or 0))
        if start is None or end is None:
            start = end = 0
        declared_from, declared_to = declared or (None, None)
        rotated = rotated if declared is not None else False
        return self._with(
            covers_from=start, covers_to=end, declared_from=declared_from, declared_to=declared_to, growing=growing,
            by_hand=by_hand, file_first=first, file_largest=self.largest, rotated=rotated,
        )  # fmt: skip

    def _with(self, **facts: Any) -> LedgerFile:
        """Returns the file with other facts in all of its rows."""
        return LedgerFile(tuple(replace(row, **facts) for row in self.rows))


def version_of(content: ContentOptions | TableOptions) -> int:
    """Returns the version of the reader of packets, or of other records."""
    return READER_VERSION if isinstance(content, TableOptions) else DECODER_VERSION


class LedgerFiles:
    """The files of a link and its interfaces in the ledger, while the lock of their ingest is held.

    Files that are put are here at once, and in the ledger after `commit`.
    """

    def __init__(self, lake: Lake, link: str, settings: config.Link) -> None:
        self.lake = lake
        self.link = link
        self.names = FolderNames(settings)
        self._real = cache(os.path.realpath)
        self._files: dict[str, LedgerFile] = {}
        self._places: Places[LedgerFile] = Places()
        self._keyed: dict[str, list[Hashable]] = {}
        rows = grouped((row.attempt, row) for row in family_captures(lake, family_of(link))).values()
        files = [LedgerFile(tuple(sorted(file_rows, key=lambda row: row.link))) for file_rows in rows]
        self._taken = {place for file in files for place in self._own(file)}
        for file in files:
            self._include(file)
        self._stored = dict(self._files)
        self._changed: set[str] = set()

    @property
    def all(self) -> list[LedgerFile]:
        """The files, in no order."""
        return list(self._files.values())

    def of(self, attempt: str) -> LedgerFile:
        """Returns the file of an attempt."""
        return self._files[attempt]

    @property
    def attempts(self) -> Set[str]:
        """Attempts whose packets are visible, or will be after `commit`."""
        return self._files.keys()

    def same(self, path: Path, sha256: str, identity: str, declared: Coverage | None) -> LedgerFile | None:
        """Returns the file with these bytes, or with these records in a file of its own that still lies there; of those
        that are set aside only the file itself. An empty file may stand for many hours: its coverage must agree
        (T5)."""
        for file in filter(self._is_own, self._places.find([("bytes", sha256), ("records", identity)])):
            if file.row.aside and not self.is_of(path, file):
                continue
            if file.packets or file.row.declared == declared:
                if file.row.file_digest == sha256:
                    return file
                equal = file.row.capture == identity or any(copy.sha256 == sha256 for copy in file.copies)
                if equal and not self.is_of(path, file) and self.where(file) is not None:
                    return file
        return None

    def at(self, path: Path) -> list[LedgerFile]:
        """Returns the files that were ingested from this path, or lay elsewhere when their link had other folders."""
        return self._places.find([("place", place) for place in self._spelled([_absolute(path)])])

    def is_of(self, path: Path, file: LedgerFile) -> bool:
        """Whether a file was ingested from this path, or from where it lay before."""
        return not self._spelled([_absolute(path)]).isdisjoint(self._spellings(file))

    def has_moved(self, path: Path, file: LedgerFile) -> bool:
        """Whether a file lies at this path now: it is no longer where it was, or that is no folder of its link any
        more."""
        own, place = self._own(file), _absolute(path)
        if place in own:
            return len(own) > 1  # with the lake
        if not self._spelled([place]).isdisjoint(self._spelled(own)):
            return False
        return self.is_of(path, file) or self.where(file) is None

    def where(self, file: LedgerFile) -> str | None:
        """Returns where a file lies, as long as it was; None where it does not."""
        places = [*self._own(file), *self._moved(file)]
        return next((place for place in places if is_there(place, file.row.bytes)), None)

    def here(self, file: LedgerFile, path: Path) -> LedgerFile:
        return file.at(path, key_of(self.lake, path), self.names.name(_absolute(path), self._real))

    def _own(self, file: LedgerFile) -> list[str]:
        return places_of(self.lake, file.row.path, file.row.place)

    def _moved(self, file: LedgerFile) -> list[str]:
        places = self._own(file)
        if any(map(self.names.name, places)):
            return []
        found = (self.names.moved(place, file.row.name, self._taken.__contains__) for place in places)
        return [place for place in found if place is not None]

    def _spellings(self, file: LedgerFile) -> set[str]:
        return self._spelled([*self._own(file), *self._moved(file)])

    def _spelled(self, places: Iterable[str]) -> set[str]:
        return {*spellings(places, self._real)}

    def _keys(self, file: LedgerFile, begins: bool = False) -> list[Hashable]:
        """Returns what a file is looked up by: its records, its bytes and those of its copies, its places, and how it
        begins: with a record, or without one, or if it may begin as an empty one, with its declared begin."""
        firsts = {row.first for row in file.rows if row.first is not None}
        keys: list[Hashable] = [("records", file.row.capture)]
        keys += [("place", place) for place in self._spellings(file)]
        keys += [("bytes", digest) for digest in {file.row.file_digest, *(copy.sha256 for copy in file.copies)}]
        keys += [("first", first) for first in firsts]
        if (begins or not file.packets) and file.row.declared_from is not None:
            keys.append(("declared", file.row.declared_from))
        return keys

    def declared_by_hand(self, new: LedgerFile, settings: config.Link, unpacked: int) -> Coverage | None:
        """Returns the coverage that `--covers` declared for the file that a new file replaces; None without one."""
        for file in self._alike(new):
            if file.row.by_hand and file.row.declared and self._replaces(new, file, settings, unpacked) is not None:
                return file.row.declared
        return None

    def put(
        self, new: LedgerFile, settings: config.Link, unpacked: int = 0, parts: Iterable[LedgerFile] = ()
    ) -> tuple[bool, str]:
        """Puts a file in the place of the files that it replaces; `commit` writes it.

        Args:
            unpacked: decompressed size, bytes.
            parts: files whose records are the first ones of the new file.
        """
        alike = [(file, self._replaces(new, file, settings, unpacked)) for file in self._alike(new)]
        replaced = {
            file.row.attempt: f"it begins with all records of {file.row.path}, which it replaces" for file in parts
        }
        replaced |= {file.row.attempt: note for file, note in alike if note is not None}
        for file in (self._files[attempt] for attempt in replaced):
            lies = None if self.is_of(capture_path(new.row.path), file) else self.where(file)
            if lies is not None and file.packets < new.packets:
                copy = CopiedFile(file.row.file_digest, file.row.bytes, file.row.ingested_at)
                new = new.with_beginning(key_of(self.lake, lies), copy)
        if new.row.attempt in self._files:  # only its coverage is another one
            replaced.setdefault(new.row.attempt, "")
        for attempt in replaced:
            self._leave_out(attempt)
        self._include(new)
        self._changed |= {new.row.attempt, *replaced}
        notes = dict.fromkeys(note for note in replaced.values() if note)
        return bool(replaced), "; ".join(notes)

    def perhaps_whole(self, part: LedgerFile) -> Iterator[LedgerFile]:
        """Yields files of other names that may begin with all records of a new file, of which it has some."""
        path = capture_path(part.row.path)
        for file in self._beginning_as(part):
            if not file.row.aside and _may_begin_with(file, part) and not self.is_of(path, file):
                yield file

    def perhaps_parts(self, whole: LedgerFile) -> Iterator[LedgerFile]:
        """Yields files of other names whose records may be the first ones of a new file. Their bytes do not always
        tell: they may be compressed, in another format, or have an end that is no record."""
        path = capture_path(whole.row.path)
        for file in self._beginning_as(whole):
            if _may_begin_with(whole, file) and not self.is_of(path, file):
                yield file

    def _beginning_as(self, file: LedgerFile) -> Iterator[LedgerFile]:
        """Yields the files whose first record has the time of that of a new file."""
        firsts = {row.first for row in file.rows if row.first is not None}
        return filter(self._is_own, self._places.find([("first", first) for first in firsts]))

    def commit(self) -> None:
        """Writes the files that were put since, in the place of those that they replace, in one commit.
        Raises LakeError if the ledger cannot be written; `undo` then makes this what is there."""
        new = [row for attempt in self._changed & self._files.keys() for row in self._files[attempt].rows]
        old = [row for attempt in self._changed & self._stored.keys() for row in self._stored[attempt].rows]
        if new or old:
            put_captures(self.lake, new, old)
        self._stored = dict(self._files)
        self._changed.clear()

    def undo(self) -> None:
        for attempt in self._changed:
            if attempt in self._files:
                self._leave_out(attempt)
            if attempt in self._stored:
                self._include(self._stored[attempt])
        self._changed.clear()

    def _include(self, file: LedgerFile) -> None:
        self._files[file.row.attempt] = file
        keys = self._keyed[file.row.attempt] = self._keys(file)
        self._places.add(file.row.attempt, file, keys)

    def _leave_out(self, attempt: str) -> None:
        del self._files[attempt]
        self._places.remove(attempt, self._keyed.pop(attempt))

    def _alike(self, new: LedgerFile) -> Iterator[LedgerFile]:
        """Yields the files that a new one may replace: they have its bytes, its name, or its beginning."""
        return filter(self._is_own, self._places.find(self._keys(new, begins=True)))

    def _is_own(self, file: LedgerFile) -> bool:
        """Whether it is no file of another link of the family, which was ingested for a named interface."""
        return file.source == self.link

    def _replaces(self, new: LedgerFile, old: LedgerFile, settings: config.Link, unpacked: int) -> str | None:
        """Returns why a file replaces another, for the user; None if it does not."""
        same_path = self.is_of(capture_path(new.row.path), old)
        same_bytes = new.row.file_digest == old.row.file_digest
        if same_bytes or new.row.capture == old.row.capture:
            # An empty file stands for many hours, and replaces another only if the settings now say otherwise of that.
            undeclared = not new.row.by_hand and old.row.by_hand is False and same_path
            stands_for = bool(new.packets) or new.row.declared == old.row.declared or undeclared
            why = "read again: a setting of the link, or the decoder, has changed"
            if not same_bytes:
                why = f"it has the same records as {old.row.path}, which it replaces"
            return why if stands_for else None
        if self._begins_alike(new, old, same_path) and _is_prefix(new.row, old.row, unpacked):
            grown = "" if not same_path else ": it has grown"
            return f"it begins with all {old.row.bytes:,} bytes of {old.row.path}, which it replaces{grown}"
        declared_alike = new.row.declared is not None and new.row.declared == old.row.declared
        skew = settings.longest_skew
        overlap = _overlap(new.row, old.row) > skew or _are_of_one_time(new, old, skew)
        if same_path and (not _is_another_part(new, old, skew) if declared_alike else overlap):
            return "the file has changed: what it has now replaces what had its name before"
        return None

    def _begins_alike(self, new: LedgerFile, old: LedgerFile, same_path: bool) -> bool:
        """Whether the records of a new file begin as those of the old one, according to the ledger. Any file begins as
        an empty file of the same name, or of the same declared begin if that was renamed since."""
        if not old.packets:
            same_start = new.row.declared_from is not None and new.row.declared_from == old.row.declared_from
            return same_path or (same_start and self.where(old) is None)
        firsts = {row.first for row in new.rows}
        return all(row.first in firsts for row in old.rows if row.first is not None)


def _may_begin_with(whole: LedgerFile, part: LedgerFile) -> bool:
    """Whether a file has more records than another one, and no fewer of any link."""
    counts = {row.link: row.packets for row in whole.rows}
    return whole.packets > part.packets and all(counts.get(row.link, -1) >= row.packets for row in part.rows)


def _absolute(path: Path) -> str:
    return str(capture_path(path).absolute())


def _is_prefix(new: Capture, old: Capture, unpacked: int) -> bool:
    """Whether a file, stored or decompressed, begins with all bytes of another file."""
    path = capture_path(new.path)
    if old.bytes < new.bytes and starts_with(path, old.bytes, old.file_digest, False):
        return True
    packed = bool(new.compression) and not old.compression and old.bytes <= unpacked
    return packed and starts_with(path, old.bytes, old.file_digest, True)


def _overlap(row: Capture, other: Capture) -> int:
    return min(row.covers_to, other.covers_to) - max(row.covers_from, other.covers_from)


def overlap_error(file: LedgerFile, other: LedgerFile, overlap: Overlap, settings: config.Link) -> errors.OverlapError:
    """Makes the error of a file that is not read, since it overlaps another one by more than the skew (T1), whatever
    interfaces they declare. An end that a rotation made up overlaps nothing."""
    if not overlap.declared:
        return _same_time(file, other, overlap.length, settings)
    key = _shared_key(file.row, other.row, settings)
    section = config.section_of(family_of(file.source), "covers")
    why = "" if key is None else f": both have their coverage from the line {key!r} of {section}"
    hint = f"say what each covers, by --covers FROM/TO or a line of {section}"
    if key is not None:
        hint = "write a line for each file; where a name fits several, the first counts"
    first, second = (f"{capture.path} ({span(capture)})" for capture in (file.row, other.row))
    return errors.OverlapError(
        f"link {file.source!r}: {first} and {second} are declared to overlap by {format_duration(overlap.length)}, "
        f"more than the link's skew of {format_duration(settings.longest_skew)}{why}; {_which_is_read(file, other)}",
        hint,
        file.source,
        first,
        second,
    )


def _which_is_read(file: LedgerFile, other: LedgerFile) -> str:
    return f"{Path(other.row.path).name} is read, and {Path(file.row.path).name} is not"


UNSORTED = (
    "the captures that are joined in it are in another order than their times, and it is too large to be unpacked for "
    "that"
)


def refuse_overlap_within(link: str, path: Path, facts: CaptureSummary, settings: config.Link) -> None:
    """Raises an error if captures that are joined in a file overlap by more than the skew, as files may not (T1), or
    stand behind one another as if they did."""
    if (found := facts.overlap) is None or (overlap := found.clock - found.first) <= settings.longest_skew:
        return
    if facts.by_time:
        raise errors.CaptureError(f"{path}: {UNSORTED}", "unpack it, or make room in TMPDIR, and ingest it again")
    at = found.offset - facts.order.shift(found.offset)
    unit = SECOND if overlap <= 60 * SECOND else 60 * SECOND
    raise errors.OverlapError(
        f"link {link!r}: {path} is {facts.parts:,} captures, one behind the other, and the one at byte {at:,} begins "
        f"at {format_instant(found.first)}, {spoken_duration(overlap)} before another one ends; the skew of the link "
        f"is {format_duration(settings.longest_skew)}: either these are two recorders, or the clock of the recorder "
        "was put back",
        f'one recorder: set skew = "{format_duration(-(-overlap // unit) * unit)}" in '
        f"{config.section_of(family_of(link))}, and it is read; two recorders: make a file and a link of each",
        link,
        str(path),
        str(path),
        overlap=overlap,
    )


def _extent(file: LedgerFile) -> Coverage:
    """Returns the time of the records of a file, ns. Those outside of its declared coverage are `uncovered`: they do
    not say when it was taken."""
    extents = [extent for row in file.rows if (extent := _records_of(row)) is not None]
    if not extents:
        return END_OF_TIME, 0
    begin, end = file.row.declared or (0, END_OF_TIME)
    return max(min(first for first, _ in extents), begin), min(max(largest for _, largest in extents), end)


def _records_of(row: Capture) -> Coverage | None:
    """Returns the first and the largest timestamp of a capture, ns, but for those at its ends that its own records do
    not judge (T3); None without a record."""
    if row.first is None or row.largest is None:
        return None
    return first_and_largest(row.first, row.largest, row.packets, row.edges, 0)


def _are_of_one_time(new: LedgerFile, old: LedgerFile, skew: int) -> bool:
    """Whether the records of two files overlap by more than the skew, or those of one lie within the time of the
    other's. Two files that follow one another overlap by at most the skew (T1), however short they are."""
    (begin, last), (old_begin, old_last) = ends = _extent(new), _extent(old)
    both = max(begin, old_begin), min(last, old_last)
    return both[1] - both[0] > skew or (both[0] <= both[1] and both in ends)


def _is_another_part(new: LedgerFile, old: LedgerFile, skew: int) -> bool:
    """Whether a file has other records than one of its name and declared coverage, which come before or behind those:
    a recorder was started again within the hour by which it names its files. As many bytes in as many records are the
    same records by a corrected clock, and so are those that were outside of what was declared."""
    firsts = [row.first for row in old.rows if row.first is not None]
    if not (new.packets and firsts) or old.largest is None or old.row.declared is None or new.row.is_declared:
        return False
    declared_from, declared_to = old.row.declared
    if not (declared_from <= min(firsts) and old.largest < declared_to):
        return False
    same_records = (new.packets, new.row.record_bytes) == (old.packets, old.row.record_bytes)
    return not same_records and not _are_of_one_time(new, old, skew)


def _same_time(new: LedgerFile, other: LedgerFile, overlap: int, settings: config.Link) -> errors.OverlapError:
    before, after = sorted((new, other), key=lambda each: (_extent(each), each.row.path))
    (begin, last), (_, end) = _extent(after), _extent(before)
    shorter = min(high - low for low, high in map(_extent, (new, other)))
    first_read, second_read = (_extent(each) for each in sorted((new, other), key=lambda each: each.row.order))
    latest = max(overlap, first_read[1] - second_read[0])  # how far behind its clock the link has records then
    unit = SECOND if latest <= 60 * SECOND else 60 * SECOND
    why = "either these are two recorders, or the clock of the recorder was put back"
    hint = (
        f"two recorders: {several_links(new.source, new.row.path)}; one recorder: set skew = "
        f'"{format_duration(-(-latest // unit) * unit)}" in {config.section_of(family_of(new.source))}, '
        "and both are read"
    )
    row, earlier = new.row, other.row
    same_head = bool(row.head) and row.head == earlier.head
    if row.first is not None and row.first == earlier.first:
        if same_head:
            why = "they begin with the same packets, so one is a part or another version of the other"
            hint = "move the one with fewer packets out of the files of the link"
        hint = f"if they are two versions of one file, ingest the right one under the name of the other; {hint}"
    first, second = (f"{capture.path} ({span(capture)})" for capture in (row, earlier))
    return errors.OverlapError(
        f"link {new.source!r}: {after.row.path} begins at {format_instant(begin)}, {spoken_duration(end - begin)} "
        f"before {before.row.path} ends, and goes on to {format_instant(last)}; the skew of the link is "
        f"{format_duration(settings.longest_skew)}: {why}; {_which_is_read(new, other)}",
        hint,
        new.source,
        first,
        second,
        2 * overlap >= shorter and not same_head,
        latest,
    )


def _shared_key(row: Capture, other: Capture, settings: config.Link) -> str | None:
    """Returns the key of `covers` that declares the coverage of both captures; None without one."""
    if row.by_hand or other.by_hand or row.declared != other.declared:
        return None
    key = covers_key(settings, Path(row.path))
    return key if key == covers_key(settings, Path(other.path)) else None


def several_links(link: str, path: str) -> str:
    """Advises what to do about captures of one link that were taken at the same time."""
    return (
        f"make each a link of its own, as --link {link}-2 or "
        f"--capture {link}-2=FILE, and name all of them in a set; `lowwater init {shlex.quote(str(Path(path).parent))} "
        "--lake NEW` finds and proposes them"
    )


def span(row: Capture) -> str:
    """Returns the coverage of a ledger row as text."""
    return f"{format_instant(row.covers_from)} to {format_instant(row.covers_to)}"
