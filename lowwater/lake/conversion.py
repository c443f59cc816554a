"""The ledgers of a lake of format 1, and the facts that format 2 keeps in their place (docs/adr/0185).

Format 1 had two ledgers of files whose rows changed: `captures`, with what decoding knew, where files lay, what their
names and people said; and `files`, with what a look saw. Only the converter knows them.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lowwater import documents
from lowwater.config import Config
from lowwater.lake import layout, open_tables, tables
from lowwater.lake.files.patterns import declared_coverage
from lowwater.lake.ledgers import states
from lowwater.lake.ledgers.files import SETTLED, SeenFile
from lowwater.lake.ledgers.places import Whereabouts, is_there, key_of, location
from lowwater.lake.ledgers.statements import ASIDE, COVERS, Statement
from lowwater.link_names import family_of, source_of
from lowwater.storage.captures import capture_path, is_address

_OVERLAPS = "overlaps"
"""State of a file that format 1 refused since another one was of its time; its records were not stored."""

_TEXT, _INT, _BOOL = pa.string(), pa.int64(), pa.bool_()

_FACTS = [name for name in layout.CONTENTS.names if name not in ("content", "decoded_at", "begins_with", "begins")]
"""Columns that both formats have; of `source`, `sha256` and the times of the file, format 1 may lack the values."""

_OF_CAPTURES = pa.schema(
    [
        *(layout.CONTENTS.field(name).with_nullable(True) for name in _FACTS),
        *(pa.field(name, _TEXT) for name in ("capture", "path", "place", "name", "copies")),
        *(pa.field(name, _INT) for name in ("ingested_at", "declared_from", "declared_to", "covers_from", "covers_to")),
        *(pa.field(name, _BOOL) for name in ("growing", "by_hand", "rotated", "aside")),
    ]
)
"""The columns of `captures` of format 1 that are converted; older releases lack some."""

_OF_FILES = pa.schema(
    [
        *(
            layout.SIGHTINGS.field(name).with_nullable(True)
            for name in layout.SIGHTINGS.names
            if name not in ("rotated", "named", "name", "attempts", "sha256", "settled")
        ),
        *(pa.field(name, _TEXT) for name in ("capture", "person")),
    ]
)
"""The columns of `files` of format 1."""


@dataclass(frozen=True)
class Ledgers:
    """The ledgers of files of a lake of format 1: a row for each capture and link, the newest row of each path."""

    captures: pa.Table
    files: Mapping[str, Mapping[str, Any]]

    @staticmethod
    def read(lake: layout.Lake, version: int | None = None) -> Ledgers:
        """Reads both, `captures` at a version, None for the newest; a lake that no ingest looked into has no `files`.
        Raises LakeError if one cannot be read."""
        captures, files = folders(lake.root)
        with tables.lake_errors(f"{captures}: the table cannot be read"):
            table = open_tables.existing(captures) if version is None else open_tables.at_version(captures, version)
            dataset = tables.with_fields(tables.table_dataset(captures, table), _OF_CAPTURES)
            rows = tables.chosen_rows(tables.fetch_rows(captures, dataset), _OF_CAPTURES.names)
        seen = tables.read_rows(files, _OF_FILES).sort_by("seen_at")
        return Ledgers(rows.combine_chunks(), {row["path"]: row for row in seen.to_pylist()})


def folders(root: PurePath) -> tuple[PurePath, PurePath]:
    """Returns where `captures` and `files` of format 1 lie."""
    captures, files = documents.OF_FORMAT_1
    return root / captures, root / files


def contents(captures: pa.Table) -> pa.Table:
    """Returns the rows of `contents` for those of `captures`."""
    count = pc.value_counts(captures.column("attempt"))
    several = {each["values"] for each in count.to_pylist() if each["counts"] > 1}
    links, attempts = (captures.column(name).to_pylist() for name in ("link", "attempt"))
    sources = [source_of(link, attempt in several) for link, attempt in zip(links, attempts, strict=True)]
    times = captures.group_by("attempt").aggregate([("first", "min"), ("largest", "max")])
    spans = {row["attempt"]: (row["first_min"], row["largest_max"]) for row in times.to_pylist()}
    columns = {name: captures.column(name) for name in _FACTS}
    columns |= {"content": captures.column("capture"), "decoded_at": captures.column("ingested_at")}
    columns["source"] = pc.coalesce(captures.column("source"), pa.array(sources, _TEXT))
    columns["sha256"] = pc.coalesce(captures.column("sha256"), captures.column("capture"))
    for at, name in enumerate(("file_first", "file_largest")):
        columns[name] = pc.coalesce(captures.column(name), pa.array([spans[each][at] for each in attempts], _INT))
    none = pa.nulls(captures.num_rows, _TEXT)
    return pa.table([columns.get(field.name, none) for field in layout.CONTENTS], names=layout.CONTENTS.names).cast(
        layout.CONTENTS
    )


@dataclass(frozen=True, slots=True)
class _File:
    """A file of `captures`: an attempt at it, and what all of its rows say."""

    attempt: str
    capture: str
    sha256: str
    path: str  # by which the ledgers know it
    link: str
    size: int
    ingested_at: int
    growing: bool
    aside: bool
    by_hand: bool
    declared: tuple[int | None, int | None]
    rotated: bool | None
    name: str | None
    copies: Mapping[str, tuple[str, int, int]]


def _files(lake: layout.Lake, config: Config, captures: pa.Table) -> list[_File]:
    """Returns the files of the rows, in the order of their ingest."""
    found, wheres = dict[str, _File](), dict[str, Whereabouts]()
    for row in captures.sort_by([("ingested_at", "ascending"), ("attempt", "ascending")]).to_pylist():
        if row["attempt"] in found:
            continue
        source = row["source"] or family_of(row["link"])
        settings = config.past_link(source)
        place = _place(lake, wheres.setdefault(source, Whereabouts(lake, settings)), row)
        by_hand = row["by_hand"]
        if by_hand is None:  # 0.1 did not tell; what it was told holds unless the name of the file says something
            by_hand = declared_coverage(settings, capture_path(location(lake, place))) is None
        copies = {path: tuple(facts) for path, facts in documents.stored_object(row["copies"] or "{}").items()}
        found[row["attempt"]] = _File(
            row["attempt"],
            row["capture"],
            row["sha256"] or row["capture"],
            place,
            source,
            row["bytes"],
            row["ingested_at"],
            bool(row["growing"]),
            bool(row["aside"]),
            by_hand and row["declared_from"] is not None,
            (row["declared_from"], row["declared_to"]),
            row["rotated"],
            row["name"],
            copies,
        )
    return list(found.values())


def _place(lake: layout.Lake, where: Whereabouts, row: Mapping[str, Any]) -> str:
    """Returns the path by which format 2 knows a file: from the folder of the lake, with which it may have been moved.
    Before there was a `place`, a file was known by its name at ingest; then its link says where it lies now."""
    path, place = row["path"], row["place"]
    if place is None:
        place = key_of(lake, path)
        moved = where(place, row["name"])
        return key_of(lake, moved) if is_there(moved) else place
    alone = not is_address(path) and os.path.isabs(path) and is_there(path)  # the lake was moved without it
    return key_of(lake, path) if alone and not is_there(location(lake, place)) else place


def sightings(
    lake: layout.Lake, config: Config, ledgers: Ledgers, said: Sequence[Statement]
) -> tuple[list[SeenFile], list[Statement]]:
    """Returns the rows of `sightings`, in order, and the statements by which what people did stays in force: coverage
    that they declared before there were any, and files that they set aside. `said`: the statements of the lake, oldest
    first."""
    files = _files(lake, config, ledgers.captures)
    declared: dict[str, list[int]] = defaultdict(list)
    for statement in said:
        if statement.act == COVERS and statement.file:
            declared[statement.file].append(statement.at)
    rows, more = list[SeenFile](), list[Statement]()
    for file in files:
        at, told = file.ingested_at, declared[file.path]
        if file.by_hand:
            if not told:
                what = file.declared[0] or 0, file.declared[1] or 0
                more.append(Statement(at - 1, "", COVERS, "", file.link, "", file.capture, *what, 0, file.path))
            at = max(at, *(each + 1 for each in told)) if told else at
        elif told:  # it was said of what lay there later, or holds no more
            at = min(at, told[0] - 1)
        rows.append(_of_file(file, ledgers.files.get(file.path), at))
        rows += _copies(file, ledgers.files, at)
    rows += _others(files, ledgers.files, {each.path for each in rows})
    return _in_order(rows), [*more, *_asides(files, ledgers.files, said)]


def _of_file(file: _File, seen: Mapping[str, Any] | None, at: int) -> SeenFile:
    state = states.GROWING if file.growing else states.READ
    row = replace(_read(file, file.path, file.size, seen, at), state=state, folder_name=file.name, sha256=file.sha256)
    if not file.by_hand:
        begin, end = file.declared
        rotated = file.rotated if begin is not None else None
        row = replace(row, declared_from=begin, declared_to=end, rotated=rotated)
    return row


def _asides(
    files: Sequence[_File], seen: Mapping[str, Mapping[str, Any]], said: Sequence[Statement]
) -> Iterator[Statement]:
    """Yields the statement of each file that is set aside, with the size by which it is known from now on: the one that
    tells it, or one of who did it by the ledger of files."""
    newest = {each.file: each for each in said if each.act == ASIDE}
    read = {file.path: file for file in files if file.aside}
    for path in {**read, **{path: None for path, row in seen.items() if row["state"] == ASIDE}}:
        row, file = seen.get(path), read.get(path)
        links = (file.link,) if file is not None else tuple(row["links"] or ("",)) if row else ("",)
        size = file.size if file is not None else row["size"] if row else 0
        told = newest.get(path)
        if told is None:
            why, person, at = (row["reason"], row["person"], row["seen_at"]) if row else ("", None, 0)
            told = Statement(at, person or "", ASIDE, why, file=path)
        for link in links:
            yield replace(told, link=link, what="" if file is None else file.sha256, amount=size)


def _copies(file: _File, seen: Mapping[str, Mapping[str, Any]], at: int) -> Iterator[SeenFile]:
    for path, (sha256, size, _) in file.copies.items():
        yield replace(_read(file, path, size, seen.get(path), at), sha256=sha256)


def _read(file: _File, path: str, size: int, seen: Mapping[str, Any] | None, at: int) -> SeenFile:
    """Returns the sighting of a file at a path. Where no look saw it with its size its last write is 0: the next look
    compares its bytes."""
    written = int(seen["written"]) if seen is not None and seen["size"] == size else 0
    about = states.READ, "", False, (file.link,), size, written
    settled = seen is not None and written < seen["seen_at"] - SETTLED
    return SeenFile(path, *about, attempts=(file.attempt,), seen_at=at, settled=settled)


def _others(files: Sequence[_File], seen: Mapping[str, Mapping[str, Any]], known: Iterable[str]) -> Iterator[SeenFile]:
    """Yields the sightings of what a look saw, and no capture tells."""
    by_content: dict[str, list[str]] = defaultdict(list)
    for file in files:
        by_content[file.capture].append(file.attempt)
    known = set(known)
    for path, row in seen.items():
        if row["state"] in (states.READ, states.GROWING, ASIDE) and path in known:
            continue
        values = {name: row[name] for name in _OF_FILES.names if name not in ("capture", "person")}
        values |= {name: tuple(row[name] or ()) for name in ("links", "silences")}
        of = by_content.get(row["capture"] or "", []) if row["state"] == states.READ else []
        values["attempts"] = tuple(of)
        if row["state"] in (_OVERLAPS, ASIDE) or (row["state"] == states.READ and not values["attempts"]):
            values |= {"state": states.NEW, "reason": "", "unread": True}  # the next ingest reads it
        yield SeenFile(**values)


def _in_order(rows: Iterable[SeenFile]) -> list[SeenFile]:
    """Returns the rows in the order in which they were seen, each at an instant of its own; what a look saw of a path
    comes behind what was read there."""
    newest: dict[str, int] = {}
    ordered = list[SeenFile]()
    for row in rows:
        at = max(row.seen_at, newest.get(row.path, row.seen_at - 1) + 1)
        newest[row.path] = at
        ordered.append(replace(row, seen_at=at))
    before, found = 0, list[SeenFile]()
    for row in sorted(ordered, key=lambda row: row.seen_at):
        before = max(row.seen_at, before + 1)
        found.append(replace(row, seen_at=before))
    return found
