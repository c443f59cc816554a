"""Looks into the folders of the links, and keeps the ledger `files` (SEMANTICS T9) of what it sees."""

from __future__ import annotations

import glob
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PurePath
from typing import Any, BinaryIO, NamedTuple

from lowwater import instants
from lowwater.capture import inspect, reader
from lowwater.capture.formats.archives import HEAD as ARCHIVE_HEAD, Archive, archive_of
from lowwater.capture.formats.classic import STAMP
from lowwater.capture.formats.sources import DecompressedSource, PeekableSource, compression_of, open_source
from lowwater.capture.tables.drop_logs import drops_of_log, kind_of
from lowwater.capture.tables.options import TableOptions
from lowwater.capture.tables.reader import first_timestamp, inspect_records
from lowwater.catalog.protocols import LOG_KINDS
from lowwater.config import Config
from lowwater.errors import CaptureError, ConfigError, LowwaterError
from lowwater.lake.files.patterns import (
    declared_coverage,
    files_of,
    is_of_other_period,
    leads_out,
    named_coverage,
    naming,
    naming_of,
)
from lowwater.lake.ingestion import record_options
from lowwater.lake.ingestion.listing import FoundFile, Listing, listing
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers import files as ledger, statements
from lowwater.lake.ledgers.captures import family_claims, ingested_links
from lowwater.lake.ledgers.places import FolderNames, key_of, location, spellings
from lowwater.lake.ledgers.sections import keep_sections
from lowwater.lake.ledgers.states import ASIDE, EMPTY, FOLDER, GONE, GROWING, NEW, OTHER, READ, REFUSED, UNCLAIMED
from lowwater.lake.tables import grouped
from lowwater.limits import LOOK_READ_BYTES, UNCLAIMED_FILES
from lowwater.link_names import family_of
from lowwater.plan.temporal import END_OF_TIME
from lowwater.storage.captures import StoredCapture, capture_path
from lowwater.storage.untrusted import open_regular

# After ingest, which says what it took and refused; before the intervals, of which none is `done` into which an
# unread file falls. A file is opened only where its name, size and last write say that it is new.


SETTLED = 10 * instants.SECOND  # time without a write after which a file counts as complete, ns
SILENCE = 3600 * instants.SECOND
"""Shortest silence of a file, ns, for which it does not fall into the intervals within it."""

_BEGINNING = 1 << 16
_SMALL = 16 << 20
"""Bytes of a file that is read again and again while it is being written."""

_CAPTURE = re.compile(
    r"\.(?:pcap(?:ng)?|cap|ntar|snoop|erf|dmp|dump|trc?)[-_.]?\d*(?:\.(?:gz|zst|zstd|xz|lz4|bz2|zip|7z|rar))?$",
    re.IGNORECASE,
)
"""Names of captures: what has one and cannot be read may be damaged traffic."""

_PACKED = re.compile(r"\.(?:gz|zst|zstd|xz|lz4|lzma|bz2)$", re.IGNORECASE)


class _Facts(NamedTuple):
    """Times (ns) and number of the sane records of a file, as far as it was read; malformed records beside them, and
    the digests of its bytes, as they are and decompressed, and its long silences, each as begin and end."""

    first: int | None = None
    last: int | None = None
    packets: int | None = None
    malformed: int = 0
    digests: str = ""
    silences: tuple[int, ...] = ()

    @property
    def columns(self) -> dict[str, Any]:
        known = {"first": self.first, "last": self.last, "packets": self.packets}
        return {**known, "digests": self.digests or None, "silences": self.silences}


def look(lake: Lake, config: Config, clock: Callable[[], int] = time.time_ns) -> int:
    """Looks into the folders of all links once, and writes what has changed in one commit.
    Raises ConfigError if a pattern has an unknown field, and LakeError if the ledger cannot be read or written."""
    if not any(settings.patterns for settings in config.links.values()) and not ledger.read_seen(lake):
        return 0
    found = listing(config)
    claimed: dict[str, list[str]] = {}
    for link, settings in sorted(config.links.items()):
        if settings.patterns:
            for path in files_of(settings, 0, END_OF_TIME, outside=True):
                claimed.setdefault(str(path), []).append(link)
    keep_sections(lake, config)
    with ledger.changing(lake) as held:
        looked = _Look(lake, config, found, claimed, clock())
        return ledger.put_seen(held, looked.rows())


def record(lake: Lake, config: Config, link: str, refused: Mapping[Path, LowwaterError]) -> None:
    """Keeps which files an ingest refused for a link, and why."""
    if not refused:
        return
    reading = _Reading(config)
    with ledger.changing(lake) as held:
        before, rows = ledger.read_seen(lake), []
        for path, error in refused.items():
            key = key_of(lake, path)
            old = before.get(key)
            links = {link, *(old.links if old is not None and old.state == REFUSED else ())}
            rows.append(_refused(key, path, tuple(sorted(links)), error, reading, link, config))
        # A look tries what was refused before an edit of the settings: that it was refused since ends that.
        ledger.put_seen(held, rows, ledger.settings_at(lake, config))


def _looks(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return -1, 0
    return status.st_size, status.st_mtime_ns


def _words(error: LowwaterError, path: PurePath) -> str:
    """Returns the message of an error about a file, without its path, as the ledger can keep it: any text in UTF-8."""
    message = error.message.removeprefix(str(path)).removeprefix(": ").removeprefix(", ")
    return message.encode("utf-8", "backslashreplace").decode()


def _refused(
    key: str, path: Path, links: tuple[str, ...], error: LowwaterError, reading: _Reading, link: str, config: Config
) -> ledger.SeenFile:
    size, written = _looks(path)
    declared = declared_coverage(config.link(link), path) or (None, None)
    state = EMPTY if size == 0 else REFUSED
    facts = reading.facts(str(path), link, max(size, 0)) if size > 0 else _Facts()
    row = ledger.SeenFile(key, state, _words(error, path), True, links, max(size, 0), written, **facts.columns)
    return replace(row, declared_from=declared[0], declared_to=declared[1])


class _Reading:
    """Reads the times of files that nobody ingests, until a budget is spent."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._left = LOOK_READ_BYTES
        self.options = cache(self._options)

    def _options(self, link: str) -> TableOptions | LowwaterError | None:
        try:
            return record_options.record_options(self._config, link)
        except LowwaterError as error:
            return error

    def facts(self, path: str, link: str, size: int, whole: bool = True) -> _Facts:
        """Reads the times of a file of so many bytes by the settings of a link, to its end if that is asked for and the
        budget has room for it; nothing of what is no file of such records."""
        settings, options, file = self._config.link(link), self.options(link), capture_path(path)
        if isinstance(options, LowwaterError):
            return _Facts()
        if options is not None and isinstance(
            own := record_options.content_of_file(options, settings, file), TableOptions
        ):
            options = own
        try:
            if whole and (size <= self._left or self._left == LOOK_READ_BYTES):  # one file of any size is read
                self._left -= size
                if options is None:
                    facts = inspect.inspect_times(file, settings.jump, settings.skew)
                else:
                    facts = inspect_records(file, options, settings.jump, settings.skew)
                return _of(facts, settings.skew)
            if options is not None:
                return _Facts(first_timestamp(file, options, settings.jump))
            with closing(reader.read(file, settings.jump, _BEGINNING, sha256="").spans()) as spans:
                return _Facts(next((int(span.records[STAMP, span.sane[0]]) for span in spans if len(span.sane)), None))
        except (LowwaterError, OSError):
            return _Facts()


def _of(facts: inspect.CaptureFacts, skew: int) -> _Facts:
    """Takes the facts of a file that was read; a record far behind the clock is of no time of its own (A1)."""
    summaries = [each.summary for each in facts.interfaces if each.summary is not None]
    malformed = sum(each.malformed.total() for each in facts.interfaces)
    packets = sum(each.packets for each in summaries)
    digests = _digests(facts.path, bool(facts.summary.compression))
    silences = facts.interfaces[0].gaps.longest() if len(facts.interfaces) == 1 else ()
    spans = sorted((start, start + length) for start, length in silences if length >= SILENCE)
    bounds = tuple(bound for span in spans for bound in span)
    return _Facts(facts.earliest(skew), facts.largest, packets, malformed, digests, bounds)


def _digests(path: Path, packed: bool) -> str:
    """Returns the SHA-256 of a file, and of what it is decompressed, by which it is known under another name."""
    found = [reader.digest(path)]
    if packed:
        hashed, buffer = hashlib.sha256(), bytearray(1 << 20)
        with closing(DecompressedSource(open_source(path)[1], False)) as source:
            while count := source.readinto(memoryview(buffer)):
                hashed.update(memoryview(buffer)[:count])
        found.append(hashed.hexdigest())
    return " ".join(found)


def _archive(path: Path) -> Archive | None:
    """Returns which archive a file is, plain or compressed; None if it is none, or cannot be read."""
    try:
        source = PeekableSource(open_source(path)[1])
        with closing(source):
            head = source.peek(ARCHIVE_HEAD)
            if not compression_of(head):
                return archive_of(head)
            with closing(PeekableSource(DecompressedSource(source, hashed=False))) as content:
                return archive_of(content.peek(ARCHIVE_HEAD))
    except (CaptureError, OSError):
        return None


class _Look:
    """One look: judges every file of a listing, by the ledgers where they know it, and of which patterns claim each."""

    def __init__(self, lake: Lake, config: Config, found: Listing, claimed: Mapping[str, list[str]], now: int) -> None:
        self._lake = lake
        self._config = config
        self._found = found
        self._claimed = claimed
        self._now = now
        self._real = cache(os.path.realpath)
        self._before, self._moved_from = self._relocated(ledger.read_seen(lake))
        self._reading = _Reading(config)
        self._namings = cache(lambda link: naming(config.link(link)))
        self._outsides: dict[str, Callable[[Path], str]] = {}  # link -> where a file of it lies elsewhere
        self._at: dict[str, list[ledger.SeenFile]] = {}  # place -> what was seen there of what the lake has
        self._digests: dict[str, dict[str, str]] = {}  # link -> digest -> path
        # link, first record -> packets, bytes without compression, whether it is compressed, places
        self._begun: dict[tuple[str, int], list[tuple[int, int, bool, set[str]]]] = {}
        self._families: dict[str, str] = {}  # attempt -> link of its captures
        found_again = ledger.by_attempt(self._before.values())
        for family in sorted({*map(family_of, ingested_links(lake))}):
            self._take(family, found_again)
        self._identities = {
            file.identity: file.name
            for path in claimed
            if (file := found.files.get(path)) is not None and file.identity is not None
        }

    def _relocated(
        self, before: Mapping[str, ledger.SeenFile]
    ) -> tuple[dict[str, ledger.SeenFile], list[ledger.SeenFile]]:
        """Returns the rows of before by the paths that their files have now, and those that named other paths: lake or
        captures were moved, or are elsewhere on this machine."""
        names = {link: FolderNames(settings) for link, settings in self._config.links.items() if settings.patterns}
        rows, left = dict(before), []

        def is_known(place: str) -> bool:
            return key_of(self._lake, place) in before

        for key, row in before.items():
            place = location(self._lake, key)
            if place in self._found.files or row.state in (FOLDER, GONE):
                continue
            moved = {
                names[link].moved(place, None, is_known, unclaimed)
                for link in row.links
                if link in names
                for unclaimed in (False, True)
            }
            targets = self._found.files.keys() & moved
            # perhaps by somebody, from elsewhere
            named = row.state in (REFUSED, EMPTY) and _stated(place) is not None
            if len(targets) == 1 and not named:
                own = key_of(self._lake, targets.pop())
                rows[own] = replace(row, path=own)
                left.append(rows.pop(key))
        return rows, left

    def _take(self, family: str, seen: Mapping[str, Sequence[ledger.SeenFile]]) -> None:
        """Takes what the lake has of a link. `seen`: attempt -> rows."""
        rows = family_claims(self._lake, family, self._config).rows
        attempts = rows.column("attempt").to_pylist()
        places = dict[str, set[str]]()
        self._families |= dict.fromkeys(attempts, family)
        digests = self._digests.setdefault(family, {})
        for attempt in dict.fromkeys(attempts):
            for row in seen.get(attempt, ()):
                place = location(self._lake, row.path)
                for spelled in {*spellings([place], self._real)}:
                    self._at.setdefault(spelled, []).append(row)
                places.setdefault(attempt, set()).add(place)
                if row.sha256 is not None:
                    digests[row.sha256] = place
        names = ("path", "bytes", "capture", "sha256", "smallest", "packets", "compression", "unpacked")
        for attempt, path, size, capture, sha256, first, packets, packed, unpacked in zip(
            attempts, *(rows.column(name).to_pylist() for name in names), strict=True
        ):
            digests.setdefault(capture, path)
            digests.setdefault(sha256, path)
            if first is not None:
                whole = unpacked or 0 if packed else size
                lying = places.get(attempt, {path})
                self._begun.setdefault((family, first), []).append((packets, whole, bool(packed), lying))

    def rows(self) -> list[ledger.SeenFile]:
        """Judges every file; returns their rows, those of folders with problems, and those of files that are gone."""
        rows: dict[str, ledger.SeenFile] = {}
        for path, links in self._claimed.items():
            file = self._found.files.get(path) or _stated(path)
            if file is not None:
                row = self._of_claimed(file, links)
                rows[row.path] = row
        left = (file for path, file in self._found.files.items() if path not in self._claimed)
        unclaimed = grouped((file.folder, file) for file in left)
        problems = dict(self._found.problems)
        for folder, files in unclaimed.items():
            if len(files) > UNCLAIMED_FILES:
                problems[folder] = (
                    f"holds {len(files):,} files that no pattern claims: only the first {UNCLAIMED_FILES:,} are judged"
                )
                files = sorted(files, key=lambda file: file.name)[:UNCLAIMED_FILES]
            for file in files:
                row = self._of_unclaimed(file)
                rows[row.path] = row
        for folder, why in problems.items():
            key = key_of(self._lake, folder)
            owners = tuple(sorted({link for _, link in self._found.links[folder]}))
            rows[key] = ledger.SeenFile(
                key, FOLDER, why.encode("utf-8", "backslashreplace").decode(), True, owners, 0, 0
            )
        return [*rows.values(), *self._gone(rows, problems)]

    def _of_claimed(self, file: FoundFile, links: Sequence[str]) -> ledger.SeenFile:
        key = key_of(self._lake, file.path)
        old = self._before.get(key)
        same = old is not None and (old.size, old.written) == (file.size, file.written)
        bare = ledger.SeenFile(key, READ, "", False, tuple(links), file.size, file.written)
        if file.broken:
            return replace(bare, state=REFUSED, reason="a symbolic link to a file that is not there", unread=True)
        taken = {link: self._capture(file, link) for link in links}
        lacking = [link for link, seen in taken.items() if seen is None]
        had = [seen for seen in taken.values() if seen is not None]
        if lacking:  # a row of another state does not tell that what was read was still being written
            had = [seen for seen in had if seen.state != GROWING]
        bare = self._named(bare, old, (lacking or links)[0], file)
        if had:
            attempts = tuple(dict.fromkeys(each for seen in had for each in seen.attempts if each in self._families))
            bare = replace(bare, attempts=attempts, sha256=had[0].sha256)
        if not lacking:
            growing = any(seen.state == GROWING for seen in had)
            # It was read as it was then: what has been written since is not.
            size, written = (had[0].size, had[0].written) if growing else (file.size, file.written)
            return replace(bare, state=GROWING if growing else READ, size=size, written=written)
        declared = bare.declared_from, bare.declared_to
        row = replace(bare, unread=True, links=tuple(lacking))
        if where := self._outside(lacking[0], file):
            reason = f'a symbolic link leads to {where}, out of the folders of the link: set symbolic_links = "read"'
            return replace(row, state=REFUSED, reason=reason)
        if same and old is not None and old.state == REFUSED and set(lacking) & set(old.links):
            return replace(old, links=tuple(sorted(set(lacking) & set(old.links))))
        if not file.size:
            return replace(row, state=EMPTY)
        if same and old is not None and old.state in (NEW, GROWING) and old.unread:
            facts = _Facts(old.first, old.last, old.packets, 0, old.digests or "", old.silences)
        elif declared[0] is not None:
            facts = _Facts()  # its name tells
        else:
            facts = self._reading.facts(file.path, lacking[0], file.size)
        growing = 0 <= self._now - file.written < SETTLED or (
            declared[0] is not None and declared[1] is not None and declared[0] <= self._now < declared[1]
        )
        return replace(row, state=GROWING if growing else NEW, **facts.columns)

    def _outside(self, link: str, file: FoundFile) -> str:
        """Where a file lies to which a symbolic link leads that is not followed; empty for others."""
        if link not in self._outsides:
            self._outsides[link] = leads_out(self._config.link(link))
        return self._outsides[link](capture_path(file.path))

    def _named(self, row: ledger.SeenFile, old: ledger.SeenFile | None, link: str, file: FoundFile) -> ledger.SeenFile:
        """Adds what the name of a file tells."""
        settings = self._config.link(link)
        digest = self._namings(link)
        if old is not None and old.named == digest:
            told = old.declared_from, old.declared_to, old.rotated, old.folder_name
        else:
            path = capture_path(file.path)
            declared, rotated = named_coverage(settings, path, row.first)
            digest = naming_of(settings, path)
            begin, end = declared or (None, None)
            told = begin, end, rotated, FolderNames(settings).name(file.path, self._real)
        begin, end, made_up, name = told
        return replace(row, declared_from=begin, declared_to=end, rotated=made_up, named=digest, folder_name=name)

    def _seen_at(self, path: str) -> list[ledger.SeenFile]:
        """Returns what the lake has of a path, or of the same one without links in its folders."""
        spelled = dict.fromkeys(spellings([path], self._real))
        return [row for place in spelled for row in self._at.get(place, ())]

    def _capture(self, file: FoundFile, link: str) -> ledger.SeenFile | None:
        """Returns what was seen of a file that a link has as it is now; None without one."""
        family = family_of(link)
        for row in self._seen_at(file.path):
            known = {self._families.get(attempt) for attempt in row.attempts}
            if family in known and (row.state == GROWING or self._is_whole(file, row)):
                return row
        return None

    def _is_whole(self, file: FoundFile, row: ledger.SeenFile) -> bool:
        """Whether nothing was written to a file since it was read, nor another one put in its place; a last write in
        the future tells nothing."""
        return row.looks_like(file.size, file.written) or (row.size == file.size and file.written > self._now)

    def _of_unclaimed(self, file: FoundFile) -> ledger.SeenFile:
        key, links = key_of(self._lake, file.path), self._found.candidates(file)
        old = self._before.get(key)
        judged = self._judged(links)
        bare = ledger.SeenFile(key, OTHER, "", False, links, file.size, file.written, judged=judged)
        for row in self._seen_at(file.path):  # somebody named it
            if row.state == GROWING or self._is_whole(file, row):
                return replace(row, path=key, links=links if row.path == key else row.links, judged=judged)
        if old is not None and (old.size, old.written) == (file.size, file.written):
            if old.state == REFUSED:
                return old  # somebody named it
            if (old.links, old.judged) == (links, judged) and self._stands(old, file):
                return old
        if file.broken:
            return replace(bare, reason="a symbolic link to a file that is not there")
        if file.name.startswith("."):
            return replace(bare, reason="hidden")
        if links and all(self._outside(link, file) for link in links):
            return replace(bare, reason="a symbolic link out of the folders of the link")
        if file.identity in self._identities:
            return replace(bare, reason=f"another name of {self._identities[file.identity]}")
        if not file.size:
            return replace(bare, state=EMPTY)
        return self._sniffed(file, bare)

    def _stands(self, old: ledger.SeenFile, file: FoundFile) -> bool:
        """Whether what was found out about a file that has not changed is all that can be."""
        if old.state == READ:
            return any(old.sha256 in digests for digests in self._digests.values())
        if old.first is not None and old.packets is None:
            return False
        if self._same_bytes(old.links, old.digests or ""):
            return False
        return old.state in (OTHER, EMPTY, UNCLAIMED) and not (
            old.reason.startswith("another name of ") and file.identity not in self._identities
        )

    def _same_bytes(self, links: Sequence[str], digests: str) -> tuple[str, str] | None:
        """Returns digest and path of the capture of some links that has the bytes of a file; None without one."""
        for family in {*map(family_of, links)}:
            for sha256 in digests.split():
                if (path := self._digests.get(family, {}).get(sha256)) is not None:
                    return sha256, path
        return None

    def _judged(self, links: Sequence[str]) -> str:
        """Returns the settings by which a file that no pattern claims is judged, as a text."""
        texts = set()
        for link in links:
            options = self._reading.options(link)
            kind = self._config.link(link).kind
            protocol = options.layout.protocol if isinstance(options, TableOptions) else kind
            texts.add(f"{protocol} drops" if kind == "zeek" else protocol)
        return " ".join([*sorted(texts), "archives"])  # before these were known, a row says less

    def _sniffed(self, file: FoundFile, bare: ledger.SeenFile) -> ledger.SeenFile:
        """Looks into a file that no pattern claims: it may be traffic of a link of its folder."""
        path, why = capture_path(file.path), ""
        try:
            with _opened(path) as opened:
                opened.read(1)
        except OSError as error:
            return replace(bare, state=UNCLAIMED, reason=f"cannot be read: {error.strerror}", unread=True)
        if bare.links and (archive := _archive(path)) is not None and archive.holds_files:
            why = f"{archive.what}{ledger.ARCHIVE}{archive.remedy(file.path)}"
            return replace(bare, state=UNCLAIMED, reason=why, unread=True)
        of_packets = [link for link in bare.links if self._reading.options(link) is None]
        if of_packets:
            try:
                reader.open_capture(path)
            except CaptureError as error:
                why = _words(error, path)
                if _CAPTURE.search(file.name) and "empty file" not in error.message:
                    return replace(bare, state=UNCLAIMED, reason=why, unread=True, links=tuple(of_packets))
            else:
                return self._of_traffic(file, bare, tuple(of_packets))
        for link in bare.links:
            options = self._reading.options(link)
            if isinstance(options, TableOptions) and self._is_of(path, file, link, options):
                return self._of_traffic(file, bare, (link,))
        of_zeek = [link for link in bare.links if self._config.link(link).kind == "zeek"]
        if of_zeek and kind_of(file.name):
            return self._with_drops(path, replace(bare, links=tuple(of_zeek)))
        return replace(bare, reason=why.partition("\n")[0][:200] or "no records of a link of its folder")

    def _with_drops(self, path: Path, row: ledger.SeenFile) -> ledger.SeenFile:
        """Adds what a log of Zeek tells that holds no records of its links; what it told stays if it cannot be read."""
        old = self._before.get(row.path)
        try:
            told = drops_of_log(path).text() or None
        except (CaptureError, OSError) as error:
            why = _words(error, path) if isinstance(error, CaptureError) else f"cannot be read: {error.strerror}"
            return replace(row, reason=why.partition("\n")[0][:200], drops=None if old is None else old.drops)
        return replace(row, reason="it says what Zeek did not see, and holds no records of its link", drops=told)

    def _is_of(self, path: Path, file: FoundFile, link: str, options: TableOptions) -> bool:
        """Whether a file holds records of a link: named as its files are, and read by its protocol."""
        families = {_family(pattern) for pattern in self._config.link(link).patterns}
        if "" not in families and _family(file.name) not in families:
            return False
        try:
            if options.kind in LOG_KINDS:
                from lowwater.capture.tables.sniffing import sniff_log  # few looks find a file that it is for

                log = sniff_log(path)
                return log is not None and log.protocol == options.layout.protocol
            return first_timestamp(path, options, self._config.link(link).jump) is not None
        except (LowwaterError, OSError):
            return False

    def _of_traffic(self, file: FoundFile, bare: ledger.SeenFile, links: tuple[str, ...]) -> ledger.SeenFile:
        whole = self._now - file.written >= SETTLED or file.size <= _SMALL
        facts = self._reading.facts(file.path, links[0], file.size, whole)
        if facts.packets == 0 and not facts.malformed:
            return replace(bare, state=EMPTY, reason="without a record", links=bare.links)
        known = self._same_bytes(bare.links, facts.digests) or self._unpacked(bare.links, facts, file.size)
        if known is not None:
            return replace(bare, state=READ, reason=f"the same bytes as {Path(known[1]).name}", sha256=known[0])
        if (longer := self._whole(bare.links, facts, file)) is not None:  # as a copy that was ended leaves
            return replace(bare, state=READ, reason=f"the first bytes of {Path(longer[1]).name}", sha256=longer[0])
        others = [link for link in links if is_of_other_period(self._config.link(link), capture_path(file.path))]
        why = f"its name tells a time of another period of link {others[0]!r}" if others else ""
        return replace(bare, state=UNCLAIMED, unread=True, reason=why, **facts.columns)

    def _unpacked(self, links: Sequence[str], facts: _Facts, size: int) -> tuple[str, str] | None:
        """Returns digest and path of the compressed capture of some links which, unpacked, is a file that was read."""
        for family in {*map(family_of, links)}:
            for packets, whole, packed, places in self._begun.get((family, facts.first or 0), ()):
                if not packed or (packets, whole) != (facts.packets, size):
                    continue
                for place in places:
                    with suppress(LowwaterError, OSError):
                        own, _, plain = _digests(capture_path(place), True).partition(" ")
                        if plain == facts.digests:
                            return own, place
        return None

    def _whole(self, links: Sequence[str], facts: _Facts, file: FoundFile) -> tuple[str, str] | None:
        """Returns digest and path of the capture of some links that begins with all bytes of a file."""
        for family in {*map(family_of, links)}:
            sha256 = {place: digest for digest, place in self._digests.get(family, {}).items()}
            for _, size, packed, places in self._begun.get((family, facts.first or 0), ()):
                for place in () if packed or size <= file.size else places & sha256.keys():
                    with suppress(OSError):
                        if _begins_with(capture_path(place), capture_path(file.path)):
                            return sha256[place], place
        return None

    def _gone(self, rows: Mapping[str, ledger.SeenFile], problems: Mapping[str, str]) -> list[ledger.SeenFile]:
        """Returns the rows of files that are no longer there. One that nobody read is still missing, unless its bytes
        are in another file, or in the lake: then it was moved."""
        gone = [replace(row, state=GONE, reason=row.state, unread=False) for row in self._moved_from]
        left = [row for path, row in self._before.items() if path not in rows and (row.state != GONE or row.unread)]
        if not left:
            return gone
        bytes_there = {sha256 for row in rows.values() for sha256 in (row.digests or "").split()}
        new = {(row.size, row.written) for path, row in rows.items() if path not in self._before}
        unseen = tuple(f"{folder}/" for folder in problems)
        for row in left:
            own, place = set((row.digests or "").split()), location(self._lake, row.path)
            moved = bool(own & bytes_there) or self._is_taken(row) or (not own and (row.size, row.written) in new)
            if row.state == GONE:
                if moved:
                    gone.append(replace(row, unread=False))
                continue
            if row.state != FOLDER and place.startswith(unseen):
                continue  # nobody could look
            outside = row.state != FOLDER and place.rpartition("/")[0] not in self._found.links
            there = outside and _stated(place) is not None
            if there and row.state in (REFUSED, EMPTY):
                continue  # somebody named it
            # Where its folder is no longer one of a link, it is no longer missed.
            unread = row.unread and row.state != FOLDER and not moved and not there and not row.is_archive
            reason = row.reason if row.state == REFUSED else row.state
            gone.append(replace(row, state=GONE, reason=reason, unread=unread))
        return gone

    def _is_taken(self, row: ledger.SeenFile) -> bool:
        """Whether the lake has the bytes of a file that is gone, what they were packed into, or all of a file whose
        beginning a look saw: `tcpdump -z gzip` packs a file when it is whole, and others rename it then."""
        if self._same_bytes(row.links, row.digests or "") is not None:
            return True
        if row.first is None:
            return False
        place, found = location(self._lake, row.path), (row.packets or 0, row.size)
        for family in {*map(family_of, row.links)}:
            for packets, size, packed, places in self._begun.get((family, row.first), ()):
                of_its_name = any(_PACKED.sub("", each) == place or place.startswith(f"{each}.") for each in places)
                if (packed and (packets, size) == found) or (of_its_name and packets >= found[0] and size >= found[1]):
                    return True
        return False


def _opened(path: Path) -> BinaryIO:
    return path.open("rb") if isinstance(path, StoredCapture) else open_regular(path)


def _begins_with(whole: Path, part: Path) -> bool:
    """Whether a file begins with all bytes of another one."""
    with _opened(whole) as long, _opened(part) as short:
        while piece := short.read(1 << 20):
            if long.read(len(piece)) != piece:
                return False
    return True


def _stated(path: str) -> FoundFile | None:
    """Looks at a file that no listing has; None where there is none."""
    file = capture_path(path)
    try:
        status = file.stat()
    except OSError:
        return None
    if not isinstance(file, StoredCapture) and not file.is_file():
        return None
    return FoundFile(path, status.st_size, status.st_mtime_ns, (status.st_dev, status.st_ino))


def _family(name: str) -> str:
    """Returns the ending of a name that says what is in it, whatever numbers and compression follow.

    Example:
        >>> _family("eve.json.1.gz"), _family("conn.%Y-%m-%d.log*"), _family("conn")
        ('.json', '.log', '')
    """
    plain = _PACKED.sub("", name.rpartition("/")[2].rstrip("*"))
    endings = [part for part in re.split(r"\.", plain)[1:] if re.fullmatch(r"[A-Za-z]\w*", part)]
    return f".{endings[-1].lower()}" if endings else ""


# Files that somebody sets aside for ever, with a reason that stays visible.

SHOWN = 5
"""Most files that a message names."""


def set_aside(lake: Lake, config: Config, names: Sequence[str], reason: str, person: str) -> list[ledger.SeenFile]:
    """Sets files aside, by their paths, by names of files that are not read, or by patterns of either, also of files
    that are gone: no ingest takes them by a pattern, and no interval lacks them any more. One that is in the lake is
    set aside by its name or path, no pattern, and its records are read no more. A name that a file which is not read
    and one that is read have in two folders means the first.
    Raises ConfigError if a name fits no file, or several that are read, or a pattern only files that are read."""
    look(lake, config)
    overlapping = {row.path for row in ledger.overlapping_files(lake, config)}

    def is_unread(row: ledger.SeenFile) -> bool:
        return row.state not in (READ, GROWING) or row.unread or row.path in overlapping

    rows, others = list[ledger.SeenFile](), list[str]()
    for name in names:
        found = [] if glob.has_magic(name) else _found(lake, name)
        if any(map(is_unread, found)) or not (read := [row for row in found if row.attempts]):
            others.append(name)
        elif len(read) > 1:
            links = ", ".join(sorted({link for row in read for link in row.links}))
            raise ConfigError(f"{name}: several files of this name are read, of {links}", "name each by its path")
        else:
            rows += read
    rows += _chosen(lake, others, is_unread, _READ)
    statements.state(lake, said_of(statements.ASIDE, rows, reason, person))
    return rows


def said_of(act: str, rows: Iterable[ledger.SeenFile], why: str, person: str) -> Iterator[statements.Statement]:
    """Yields what a person says of files, for each link that has or lacks one."""
    for row in rows:
        start, end = row.span or (0, 0)
        for link in row.links or ("",):
            yield statements.Statement(0, person, act, why, link, "", row.sha256 or "", start, end, row.size, row.path)


def undo(lake: Lake, config: Config, names: Sequence[str], person: str) -> list[ledger.SeenFile]:
    """Takes back that files were set aside: they are what the looks have found; arguments as of `set_aside`.
    Raises ConfigError if a name fits no file that is set aside."""
    look(lake, config)
    aside = {path for path, row in ledger.told_files(lake).items() if row.state == ASIDE}
    rows = _chosen(lake, names, lambda row: row.path in aside, "is not set aside")
    statements.state(lake, said_of(statements.COUNT, rows, "", person))
    return rows


_READ = "is in the lake, and read: name it without a pattern, or name the file that has its records"


def _chosen(
    lake: Lake, names: Iterable[str], fits: Callable[[ledger.SeenFile], bool], why: str
) -> list[ledger.SeenFile]:
    chosen: dict[str, ledger.SeenFile] = {}
    for name in names:
        found = _found(lake, name)
        if not found:
            known = sorted(row.shown for row in ledger.told_files(lake).values() if row.unread)[:SHOWN]
            raise ConfigError(
                f"{name}: no file of this name was seen in the folders of the links",
                f"not read are {', '.join(known)}" if known else "`lowwater status` names the files that are not read",
            )
        of_kind = [row for row in found if fits(row)]
        if not of_kind:
            raise ConfigError(
                f"{name}: {'every such file' if len(found) > 1 else 'the file'} {why}",
                "`lowwater status` lists the files that are not read, and those that are set aside",
            )
        chosen |= {row.path: row for row in of_kind}
    return list(chosen.values())


def _found(lake: Lake, name: str) -> list[ledger.SeenFile]:
    """Returns the files of the ledger that a path, a name or a pattern of either names."""
    rows = ledger.read_seen(lake)
    if (row := rows.get(key_of(lake, name))) is not None:
        return [row]
    if not glob.has_magic(name):
        named = [row for row in rows.values() if row.name == name]
        return [row for row in named if row.state != EMPTY] or named
    if "/" not in name:
        return [row for row in rows.values() if fnmatchcase(row.name, name)]
    pattern = name if "://" in name else os.path.abspath(name)
    return [row for row in rows.values() if fnmatchcase(location(lake, row.path), pattern)]
