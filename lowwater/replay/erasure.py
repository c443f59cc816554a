"""Erasure by a condition: what it would take out of a lake and of captures, and doing so (`lowwater erase`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import scrypt
from pathlib import Path, PurePath

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater import errors
from lowwater.capture import copies
from lowwater.capture.reader import digest
from lowwater.capture.records.parts import ReadingOrder
from lowwater.catalog.protocols import RECORD_KINDS
from lowwater.catalog.schemas import stored_field
from lowwater.config import Config, load_config
from lowwater.lake import erasure, layout, tables
from lowwater.lake.erasure import FoundContent, Standing
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.ledgers import files as sightings
from lowwater.lake.ledgers.captures import family_claims, ingested_links
from lowwater.lake.ledgers.places import location
from lowwater.lake.ledgers.states import GONE
from lowwater.lake.sought import Sought, sought_by
from lowwater.link_names import family_of
from lowwater.low.predicate import Predicate, Test
from lowwater.plan.temporal import END_OF_TIME
from lowwater.replay.packets import CaptureFrames, read_predicate, require_frames, select_records
from lowwater.storage.captures import capture_path
from lowwater.storage.object_paths import ObjectPath


@dataclass
class Condition:
    """What a condition selects on each link, and the values that it names.

    Attributes:
        blind: links whose records have not the columns of the condition: there the values alone are looked for.
        untold: whether a part of the condition tells no value, so that no scan finds what it selects.
    """

    text: str
    predicates: dict[str, Predicate]
    blind: list[str]
    sought: Sought
    untold: bool
    _tests: dict[str, Test] = field(default_factory=dict)

    def test(self, link: str, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        """Which packets or records of a link are to go: those that meet the condition, and all that have one of its
        values in any column, or in the bytes that are kept of them."""
        marks = self.sought.rows(batch) if self.sought else np.zeros(batch.num_rows, np.bool_)
        predicate = self.predicates.get(link)
        if predicate is None or not batch.num_rows:
            return marks
        names = list(dict.fromkeys(["timestamp", "arrival", "position", *predicate.columns]))
        columns = [
            batch.column(name) if name in batch.schema.names else pa.nulls(batch.num_rows, stored_field(name).type)
            for name in names
        ]
        whole = pa.RecordBatch.from_arrays(columns, names)
        if predicate.reads_payload:
            require_frames(whole, link, "whose payload the condition asks for")
        if link not in self._tests:
            self._tests[link] = predicate.test(link)
        return marks | self._tests[link](whole)

    @property
    def digest(self) -> str:
        """What is kept of it: slow to compute, and with a salt, so that nobody finds an address by trying all."""
        salt = os.urandom(8)
        return f"{salt.hex()}:{scrypt(self.text.encode(), salt=salt, n=1 << 14, r=8, p=1, dklen=16).hex()}"


def read_condition(lake: layout.Lake, config: Config, text: str) -> Condition:
    """Binds a condition to each link of a lake.
    Raises LakeError if it has none, and QueryError if the condition is wrong on all of them."""
    links = ingested_links(lake)
    if not links:
        raise errors.LakeError(f"{lake.root}: the lake has no captures", "take some in with `lowwater ingest`")
    predicates: dict[str, Predicate] = {}
    wrong: dict[str, errors.LowwaterError] = {}
    for link in links:
        try:
            if config.link(link).kind == "pcap":
                predicates[link] = read_predicate(text)
            else:
                predicates[link] = select_records(lake, config, link, text, 0, END_OF_TIME).predicate
        except (errors.QueryError, errors.QueryErrors) as error:
            wrong[link] = error
    if not predicates:
        raise next(iter(wrong.values()))
    sought, rest = sought_by(next(iter(predicates.values())).condition)
    return Condition(text, predicates, sorted(wrong), sought, bool(rest))


@dataclass(frozen=True)
class FoundCapture:
    """A capture file that has packets which are to go.

    Attributes:
        links: that have read it.
        packets: how many; None where that is not known.
        why: why no copy without them can be made; empty if one can.
    """

    path: Path
    links: tuple[str, ...]
    packets: int | None
    why: str = ""


@dataclass(frozen=True)
class Erasure:
    """What an erasure finds."""

    lake: layout.Lake
    config: Config
    condition: Condition
    contents: Sequence[FoundContent]
    captures: Sequence[FoundCapture]  # those that lie where they were seen; none unless they were asked for

    @property
    def packets(self) -> int:
        return sum(each.total for each in self.contents)


Watch = Callable[[str], None]


def look(root: PurePath, text: str, captures: bool, watch: Watch = lambda text: None) -> Erasure:
    """Finds what a condition selects in a lake, and with `captures` in the files that it was read from.
    Raises LakeError if the lake cannot be read, or has no captures, and QueryError if the condition is wrong."""
    lake, config = layout.lake_to_read(root), load_config(root)
    condition = read_condition(lake, config, text)
    found = erasure.find(lake, config, condition.test, lambda count: watch(f"reading packets: {count:,} files"))
    files: list[FoundCapture] = []
    if captures:
        for path, file in sorted(_lying(lake, config, found).items()):
            watch(f"reading {path.name}")
            if (each := _look_at(file, condition)) is not None:
                files.append(each)
    return Erasure(lake, config, condition, found, files)


@dataclass
class _File:
    """A file that lies where it was seen.

    Attributes:
        links: that read it.
        chosen: numbers of its records that are to go, as the lake knows them; arrays of each content.
        before: numbers of those that earlier erasures took out of the lake only; None where nothing tells them.
        records: whether they are no packets.
    """

    path: Path
    links: dict[str, None] = field(default_factory=dict)
    chosen: list[NDArray[np.int64]] = field(default_factory=list)
    before: NDArray[np.int64] | None = field(default_factory=lambda: np.zeros(0, np.int64))
    kept: str | None = None
    parts: str | None = None
    records: bool = False

    def frames(self, before: bool = False) -> dict[int, bytes]:
        """Returns the packets that are to go: number -> bytes; none of other records, of which no copy is made. With
        `before` those of earlier erasures as well: the lake reads a copy, and would have them again."""
        chosen = [*self.chosen, self.before] if before and self.before is not None else self.chosen
        positions = np.unique(np.concatenate([np.zeros(0, np.int64), *chosen]))
        if not len(positions) or self.records:
            return {}
        reader = CaptureFrames(self.path, positions, self.kept, ReadingOrder.parse(self.parts))
        return {position: reader.frame(position) for position in positions.tolist()}


def _lying(lake: layout.Lake, config: Config, found: Sequence[FoundContent]) -> dict[Path, _File]:
    """Finds the files of contents that lie where they were seen. The numbers of records are those of a file that is as
    it was read; in a copy that an erasure has put there they are others."""
    by_attempt = {each.attempt: each for each in found}
    files: dict[Path, _File] = {}
    seen = sightings.seen_by_attempt(lake)
    for family in sorted({family_of(link) for link in ingested_links(lake)}):
        for row in family_claims(lake, family, config).rows.to_pylist():
            for place in seen.get(row["attempt"], ()):
                path = capture_path(location(lake, place.path))
                if isinstance(path, ObjectPath) or not path.is_file():
                    continue
                same = digest(path) == (place.sha256 or row["sha256"])
                if place.state == GONE and not same:  # else it lies outside of the folders of its link
                    continue
                file = files.setdefault(path, _File(path))
                file.links[row["source"] or family] = None
                if not same:
                    continue
                content = by_attempt.get(row["attempt"])
                if row["erased"]:
                    file.before = erasure.taken_before(lake, row["attempt"])
                if content is not None:
                    file.chosen += content.positions
                if content is not None or row["erased"]:
                    file.kept, file.parts = row["kept"], row["parts"]
                    file.records = row["format"] in RECORD_KINDS
    return files


def _look_at(file: _File, condition: Condition) -> FoundCapture | None:
    links = tuple(file.links)
    try:
        count = copies.without(file.path, file.frames(), condition.sought.in_bytes, None)
    except errors.LowwaterError as error:
        if not file.chosen and not _may_hold(file.path, condition.sought):
            return None
        return FoundCapture(file.path, links, None, error.message.removeprefix(f"{file.path}: "))
    if count and file.before is None:
        why = "an earlier erasure left packets in it of which the lake does not tell any more which they are"
        return FoundCapture(file.path, links, None, why)
    return FoundCapture(file.path, links, count) if count else None


def _may_hold(path: Path, sought: Sought) -> bool:
    """Whether a file of which no copy can be made may have one of the values: who cannot tell says that it may."""
    if path.suffix == ".parquet":
        return bool(sought.in_file(path))
    with path.open("rb") as raw, suppress(ValueError):
        source, behind = copies.unpacked(raw)[1], b""
        while piece := source.read(1 << 20):
            if sought.in_bytes(behind + piece):
                return True
            behind = piece[-_LONGEST:]
        return False
    return True


_LONGEST = 1 << 10
"""Bytes of a value, at most, that stands across the end of a piece."""


def erase(what: Erasure, person: str, why: str, watch: Watch = lambda text: None) -> None:
    """Erases what was found: from capture files first, if they were looked at, then from the packets of the lake, and
    has it read the copies. Hours that had read the packets are stale then. It may be killed and run again.
    Raises BusyError if an ingest is at work, and LakeError or CaptureError if a file cannot be written."""
    lake = layout.open_lake(what.lake.root, make=False)
    lying = _lying(lake, what.config, what.contents)
    changed: dict[str, list[Path]] = {}
    for each in (each for each in what.captures if not each.why):
        watch(f"writing {each.path.name}")
        with tables.lake_errors(f"{each.path}: cannot be written"):
            copies.replace_without(each.path, lying[each.path].frames(before=True), what.condition.sought.in_bytes)
        for link in each.links:
            changed.setdefault(link, []).append(each.path)
    if what.contents:
        watch(f"erasing {what.packets:,} packets")
        erasure.erase(lake, what.config, what.contents, what.condition.test, person, why, what.condition.digest)
    for link, paths in changed.items():
        watch(f"reading the copies of link {link}")
        ingest(lake, link, paths, what.config)


@dataclass(frozen=True)
class Left:
    """What is left after an erasure.

    Attributes:
        packets: contents of which packets meet the condition.
        captures: capture files that have some.
        files: files of the lake that have one of the values.
        rows: published table -> rows that were deleted, since nothing makes their hour again.
    """

    packets: Sequence[FoundContent]
    captures: Sequence[FoundCapture]
    files: Sequence[Standing]
    rows: dict[str, int]


def finish(root: PurePath, text: str, captures: bool, watch: Watch = lambda text: None) -> Left:
    """Removes what is left of the values in tables, logs and files, and looks at all bytes.
    Raises BusyError if a run or an ingest is at work, and LakeError if the lake cannot be read or written."""
    lake = layout.open_lake(root, make=False)
    condition = read_condition(lake, load_config(root), text)
    rows: dict[str, int] = {}
    if condition.sought:
        watch("removing older versions")
        rows = erasure.purge(lake, condition.sought)
    after = look(root, text, captures, watch)
    return Left(after.contents, after.captures, where(after, watch), rows)


def where(what: Erasure, watch: Watch = lambda text: None) -> list[Standing]:
    """Looks at all bytes of the lake for the values of a condition."""
    if not what.condition.sought:
        return []
    return [*erasure.standing(what.lake, what.condition.sought, lambda count: watch(f"looking at {count:,} files"))]
