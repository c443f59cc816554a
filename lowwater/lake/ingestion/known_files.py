"""Files of a link that the lake knows, as an ingest looks for them, and errors of files that overlap (SEMANTICS T1)."""

from __future__ import annotations

import os
import shlex
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from lowwater import config, errors
from lowwater.capture.content.retention import DECODER_VERSION, ContentOptions, hash_of, kept_for_rows
from lowwater.capture.records.facts import CaptureSummary
from lowwater.capture.tables.options import READER_VERSION, TableOptions
from lowwater.catalog.protocols import RECORD_KINDS
from lowwater.instants import SECOND, format_duration, format_instant, spoken_duration
from lowwater.lake.files.patterns import covers_key
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.captures import NAMES, Capture, family_claims
from lowwater.lake.ledgers.claims import Claims
from lowwater.lake.ledgers.files import SeenFile, seen_by_attempt
from lowwater.lake.ledgers.overlaps import Overlap
from lowwater.lake.ledgers.places import FolderNames, is_there, key_of, location, spellings
from lowwater.lake.ledgers.states import GONE
from lowwater.lake.tables import column_values, grouped
from lowwater.link_names import below, family_of
from lowwater.storage.captures import capture_path

Coverage = tuple[int, int]


@dataclass(frozen=True)
class KnownFile:
    """A file: the rows of one attempt, one a link."""

    rows: tuple[Capture, ...]

    @property
    def row(self) -> Capture:
        """Its first row, for the facts that are equal in all rows: all facts about the file."""
        return self.rows[0]

    @property
    def packets(self) -> int:
        return sum(row.packets for row in self.rows)

    @property
    def is_by_bytes(self) -> bool:
        """Whether its identity is that of its bytes, not of its packets, as in lakes of 0.1."""
        return self.row.capture == self.row.sha256 and self.row.format not in RECORD_KINDS

    @property
    def source(self) -> str:
        """Link that it was read for."""
        return self.row.source or self.row.link

    def fits(self, settings: config.Link, content: ContentOptions | TableOptions) -> bool:
        """Whether a new ingest would give the same packets, links and stored content."""
        row = self.row
        if settings.interfaces == "one":
            interfaces_same = len(self.rows) == 1 and row.link == self.source
        else:
            interfaces_same = all((each.interfaces or 1) == 1 for each in self.rows) and all(
                each.link == below(self.source, each.interface) for each in self.rows
            )
        kept_same = kept_for_rows(row.kept) == kept_for_rows(str(content)) and (row.key or "") == content.key_digest
        if isinstance(content, ContentOptions):  # hashes that are no longer asked for may stay
            kept_same = kept_same and content.compared in ("", hash_of(row.kept))
        version_same = row.decoded_as(row.decoder_version) == row.decoded_as(version_of(content))
        return interfaces_same and kept_same and version_same and row.admits(settings)

    def is_of(self, links: Sequence[str]) -> bool:
        """Whether its records belong to these links."""
        return {row.link for row in self.rows} == set(links)


def content_for(content: ContentOptions | TableOptions, declared: Coverage | None) -> ContentOptions | TableOptions:
    """Returns what is stored of a file; packets without a time begin with the time that it is declared to cover."""
    if isinstance(content, TableOptions) or content.untimed is None or declared is None:
        return content
    return replace(content, untimed=declared[0])


def version_of(content: ContentOptions | TableOptions) -> int:
    """Returns the version of the reader of packets, or of other records."""
    return READER_VERSION if isinstance(content, TableOptions) else DECODER_VERSION


def known_files(rows: pa.Table) -> dict[str, KnownFile]:
    """Returns the files of some rows of a view, by attempt."""
    pool, none = dict[int, int](), [None] * rows.num_rows
    there = {*rows.column_names}
    columns = [column_values(rows.column(name), pool) if name in there else none for name in NAMES]
    by_attempt = grouped((row.attempt, row) for row in (Capture(*values) for values in zip(*columns, strict=True)))
    return {name: KnownFile(tuple(sorted(of_file, key=lambda row: row.link))) for name, of_file in by_attempt.items()}


def files_of(view: Claims, attempts: Collection[str]) -> dict[str, KnownFile]:
    """Returns the files of some attempts, as far as they were seen."""
    return known_files(view.rows.filter(pc.is_in(view.rows.column("attempt"), pa.array(sorted(attempts), pa.string()))))


class KnownFiles:
    """The files of a link and its interfaces, by bytes, records and places. What an ingest adds is here at once."""

    def __init__(self, lake: Lake, link: str, config: config.Config) -> None:
        family, settings = family_of(link), config.link(link)
        self.lake, self.link, self.view = lake, link, family_claims(lake, family, config)
        self.names = FolderNames(settings)
        self._real = cache(os.path.realpath)
        self._files: dict[str, KnownFile] = {}
        self._by_digest: dict[str, dict[str, KnownFile]] = defaultdict(dict)
        self._by_first: dict[int, dict[str, KnownFile]] = defaultdict(dict)
        self._at: dict[str, list[SeenFile]] = defaultdict(list)
        self._seen: dict[str, list[SeenFile]] = defaultdict(list)
        for file in known_files(self.view.rows).values():
            self._include(file)
        found = seen_by_attempt(lake)
        seen = {row.path: row for attempt in self._files for row in found.get(attempt, ())}.values()
        taken = {location(lake, row.path) for row in seen}
        for row in seen:
            place = location(lake, row.path)
            moved = self.names.moved(place, row.folder_name, taken.__contains__)
            for spelled in self._spelled(filter(None, (place, moved))):
                self._at[spelled].append(row)
            for attempt in self._files.keys() & row.attempts:
                if row.sha256 is not None:
                    self._by_digest[row.sha256][attempt] = self._files[attempt]
                self._seen[attempt].append(row)

    @property
    def all(self) -> list[KnownFile]:
        """The files, in no order."""
        return list(self._files.values())

    def seen_of(self, attempt: str) -> list[SeenFile]:
        """Returns the newest rows of the places of an attempt, also of those where its file is known to be gone."""
        return self._seen.get(attempt, [])

    def same(self, path: Path, sha256: str, identity: str, declared: Coverage | None) -> KnownFile | None:
        """Returns the file with these bytes, or with these records in a file of its own that still lies there; of those
        that are set aside only the file itself. An empty file may stand for many hours: its coverage must agree
        (T5)."""
        here = {attempt for row in self.seen_at(path) for attempt in row.attempts}
        found = {**self._by_digest.get(sha256, {}), **(self._by_digest.get(identity, {}) if identity else {})}
        for attempt, file in found.items():
            left = self.view.left.get(attempt)
            if not self._is_own(file) or (left is not None and (left.by or (attempt not in here))):
                continue
            if file.packets or file.row.declared == declared:
                equal = attempt in self._by_digest.get(sha256, ())
                if equal or (attempt not in here and self.where(file) is not None):
                    return file
        return None

    def seen_at(self, path: Path) -> list[SeenFile]:
        """Returns what was seen at a path, or where its file lay when its link had other folders."""
        return [row for place in self._spelled([_absolute(path)]) for row in self._at.get(place, ())]

    def at(self, path: Path) -> list[tuple[SeenFile, KnownFile]]:
        """Returns the files that were seen at a path, or lay elsewhere when their link had other folders."""
        return [
            (row, self._files[attempt])
            for row in {row.path: row for row in self.seen_at(path)}.values()
            for attempt in row.attempts
            if attempt in self._files
        ]

    def where(self, file: KnownFile) -> str | None:
        """Returns where a file lies, as long as it was; None where it does not."""
        return file.row.path if is_there(file.row.path, file.row.bytes) else None

    def folder_name(self, path: Path) -> str:
        """The name of a file under the folder of the pattern that claims it."""
        return self.names.name(_absolute(path), self._real)

    def moved_from(self, path: Path) -> Iterator[SeenFile]:
        """Yields what was seen at other paths, where the file of a path lay before its folder became another one."""
        key = key_of(self.lake, path)
        for row in self.seen_at(path):
            if row.path != key and row.state != GONE:
                yield row

    def _spelled(self, places: Iterable[str]) -> set[str]:
        return {*spellings(places, self._real)}

    def of_records(self, identity: str) -> Iterator[KnownFile]:
        """Yields the files with these records."""
        return filter(self._is_own, self._by_digest.get(identity, {}).values())

    def perhaps_whole(self, part: KnownFile) -> Iterator[KnownFile]:
        """Yields files that may begin with all records of a new file, of which it has some."""
        return (file for file in self._beginning_as(part) if _may_begin_with(file, part))

    def perhaps_parts(self, whole: KnownFile) -> Iterator[KnownFile]:
        """Yields files whose records may be the first ones of a new file. Their bytes do not always tell: they may be
        compressed, in another format, or have an end that is no record."""
        return (file for file in self._beginning_as(whole) if _may_begin_with(whole, file))

    def _beginning_as(self, file: KnownFile) -> Iterator[KnownFile]:
        """Yields the files whose first record has the time of that of a new file."""
        firsts = {row.first for row in file.rows if row.first is not None}
        found = {name: other for first in firsts for name, other in self._by_first.get(first, {}).items()}
        return filter(self._is_own, found.values())

    def add(self, file: KnownFile) -> None:
        """Adds a file that the ingest has decoded."""
        self._include(file)

    def drop(self, attempt: str) -> None:
        """Takes out a file that could not be committed."""
        self._files.pop(attempt, None)
        for index in (self._by_digest, self._by_first):
            for found in index.values():
                found.pop(attempt, None)

    def _include(self, file: KnownFile) -> None:
        attempt, row = file.row.attempt, file.row
        self._files[attempt] = file
        for digest in (row.file_digest, row.capture):
            self._by_digest[digest][attempt] = file
        for first in {each.first for each in file.rows if each.first is not None}:
            self._by_first[first][attempt] = file

    def _is_own(self, file: KnownFile) -> bool:
        """Whether it is no file of another link of the family, which was ingested for a named interface."""
        return file.source == self.link


def _may_begin_with(whole: KnownFile, part: KnownFile) -> bool:
    """Whether a file has more records than another one, and no fewer of any link; or as many as one that is known by
    its bytes: then nothing else tells that the records are the same."""
    counts = {row.link: row.packets for row in whole.rows}
    more = whole.packets >= part.packets if part.is_by_bytes else whole.packets > part.packets
    return more and all(counts.get(row.link, -1) >= row.packets for row in part.rows)


def _absolute(path: Path) -> str:
    return str(capture_path(path).absolute())


def overlap_error(file: KnownFile, other: KnownFile, overlap: Overlap, settings: config.Link) -> errors.OverlapError:
    """Makes the error of a file that is not read, since it overlaps another one by more than the skew (T1), whatever
    interfaces they declare. An end that a rotation made up overlaps nothing."""
    if not overlap.declared:
        return _same_time(file, other, overlap, settings)
    key = _shared_key(file.row, other.row, settings)
    section = config.section_of(family_of(file.source), "covers")
    why = "" if key is None else f": both have their coverage from the line {key!r} of {section}"
    hint = f"say what each covers, by --covers FROM/TO or a line of {section}"
    if key is not None:
        hint = "write a line for each file; where a name fits several, the first counts"
    first, second = (f"{capture.path} ({span(capture)})" for capture in (file.row, other.row))
    skew = settings.at(max(file.row.covers_from, other.row.covers_from)).longest_skew
    return errors.OverlapError(
        f"link {file.source!r}: {first} and {second} are declared to overlap by {format_duration(overlap.length)}, "
        f"more than the link's skew of {format_duration(skew)}{why}; {_which_is_read(file, other)}",
        hint,
        file.source,
        first,
        second,
    )


def _which_is_read(file: KnownFile, other: KnownFile) -> str:
    return f"{Path(other.row.path).name} is read, and {Path(file.row.path).name} is not"


UNSORTED = (
    "the captures that are joined in it are in another order than their times, and it is too large to be unpacked for "
    "that"
)


def skew_place(link: str, settings: config.Link, instant: int) -> str:
    """Names the part of the settings that has the skew of a link at an instant, ns."""
    since = next((at for at, _ in reversed(settings.turns) if at <= instant), None)
    if since is None:
        return config.section_of(family_of(link))
    return f"the period since {format_instant(since)} of [{config.section_of(family_of(link), 'periods')}]"


def refuse_overlap_within(link: str, path: Path, facts: CaptureSummary, settings: config.Link) -> None:
    """Raises an error if captures that are joined in a file overlap by more than the skew, as files may not (T1), or
    stand behind one another as if they did."""
    if (found := facts.overlap) is None:
        return
    skew, overlap = settings.at(found.first).longest_skew, found.clock - found.first
    if overlap <= skew:
        return
    if facts.by_time:
        raise errors.CaptureError(f"{path}: {UNSORTED}", "unpack it, or make room in TMPDIR, and ingest it again")
    at = found.offset - facts.order.shift(found.offset)
    unit = SECOND if overlap <= 60 * SECOND else 60 * SECOND
    raise errors.OverlapError(
        f"link {link!r}: {path} is {facts.parts:,} captures, one behind the other, and the one at byte {at:,} begins "
        f"at {format_instant(found.first)}, {spoken_duration(overlap)} before another one ends; the skew of the link "
        f"is {format_duration(skew)}: either these are two recorders, or the clock of the recorder "
        "was put back",
        f'one recorder: set skew = "{format_duration(-(-overlap // unit) * unit)}" in '
        f"{skew_place(link, settings, found.first)}, and it is read; two recorders: make a file and a link of each",
        link,
        str(path),
        str(path),
        overlap=overlap,
    )


def _same_time(new: KnownFile, other: KnownFile, found: Overlap, settings: config.Link) -> errors.OverlapError:
    ((_, end), before), ((begin, last), after) = sorted([(found.records, new.row.path), (found.others, other.row.path)])
    shorter = min(high - low for low, high in (found.records, found.others))
    # How far behind its clock the link has records then.
    latest = max(found.length, found.others[1] - found.records[0])
    unit = SECOND if latest <= 60 * SECOND else 60 * SECOND
    why = "either these are two recorders, or the clock of the recorder was put back"
    hint = (
        f"two recorders: {several_links(new.source, new.row.path)}; one recorder: set skew = "
        f'"{format_duration(-(-latest // unit) * unit)}" in {skew_place(new.source, settings, begin)}, '
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
        f"link {new.source!r}: {after} begins at {format_instant(begin)}, {spoken_duration(end - begin)} "
        f"before {before} ends, and goes on to {format_instant(last)}; the skew of the link is "
        f"{format_duration(settings.at(begin).longest_skew)}: {why}; {_which_is_read(new, other)}",
        hint,
        new.source,
        first,
        second,
        2 * found.length >= shorter and not same_head,
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
