"""A lake of format 1 becomes one of format 2, and back, until a person confirms it (docs/adr/0185).

The ledger `captures` is closed first: a commit asks of its readers a feature that no program has, so every older one
says in one line that it cannot read the lake, and none writes to it meanwhile. What is made of it is made anew after
a kill. The lake is of format 2 with the file `layout.FORMAT`, which comes last; behind it follows what only spares
work: digests of publications in the form of now, and instants in published tables.
"""

from __future__ import annotations

import json
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lowwater import errors
from lowwater.config import load_config
from lowwater.documents import stored_object
from lowwater.lake import conversion, keys, layout, locks, open_tables, tables
from lowwater.lake.ledgers import files, runs, statements
from lowwater.lake.ledgers.captures import family_claims, ingested_links
from lowwater.lake.ledgers.claims import Left
from lowwater.lake.ledgers.sections import keep_sections
from lowwater.lake.results import publish
from lowwater.lake.words import FAILED
from lowwater.link_names import family_of
from lowwater.replay.job import Job
from lowwater.replay.kept_digests import KeptPublications, take_state
from lowwater.replay.schedule.links import jobs
from lowwater.storage import paths

Tell = Callable[[str, errors.LowwaterError], None]

NOTE = "_upgrade.json"
"""What an upgrade did, until it is confirmed, JSON: the versions of tables that it read and made, and when it ended."""

STAY = "stay with format 2: `lowwater upgrade` with --confirm removes what is left of format 1"


@dataclass
class Upgrade:
    """What a conversion does, or did.

    Attributes:
        captures: captures of links, and the files that a look saw.
        files: how many.
        declared: files whose coverage people declared before there were statements.
        otherwise: what is read otherwise than before, a line for each file.
        kept: publications that stay what they are under the digest of now.
        instants: files of published tables that got their instants.
    """

    captures: int = 0
    files: int = 0
    declared: int = 0
    otherwise: list[str] = field(default_factory=list)
    kept: int = 0
    instants: int = 0


def is_current(root: PurePath) -> bool:
    """Whether a lake has the format of this version, and all of what an upgrade does is done."""
    lake, note = _lake(root), _note(root)
    return not layout.is_format_1(paths.names_in(lake.root)) and ("left" in note or not note)


def is_pending(root: PurePath) -> bool:
    """Whether an upgrade of a lake is not confirmed."""
    return paths.has_file(root / NOTE)


def proposed(root: PurePath) -> Upgrade:
    """Returns what an upgrade would convert; nothing is written. Raises LakeError if the lake has no format 1."""
    lake = _lake(root)
    ledgers = conversion.Ledgers.read(lake)
    rows, declared = conversion.sightings(lake, load_config(root), ledgers, statements.read_statements(lake))
    return Upgrade(ledgers.captures.num_rows, len({row.path for row in rows}), _covering(declared))


def _covering(said: Sequence[statements.Statement]) -> int:
    return sum(each.act == statements.COVERS for each in said)


def upgrade(root: PurePath, queries: Path, tell: Tell) -> Upgrade:
    """Converts a lake, or goes on where an earlier call was killed.
    Raises BusyError if something runs in the lake, and LakeError if it cannot be read or written."""
    lake = _lake(root)
    _make_folders(lake)
    with locks.hold(lake, "maintenance") as fence:
        done = Upgrade()
        if not paths.has_file(root / layout.FORMAT):
            done = _convert(replace(lake, fence=fence))
        keep_sections(layout.lake_to_read(root), load_config(root))  # of each link, before anything runs
        note = _note(root)
        done.kept = _keep(lake, queries, tell)
        done.instants = _fill(lake, queries, tell)
        note |= {"left": time.time_ns()}
        paths.write(root / NOTE, json.dumps(note).encode(), fence=fence)
        return done


def undo(root: PurePath) -> None:
    """Makes a lake that is not confirmed one of format 1 again.
    Raises LakeError if something was ingested or published since, which format 1 would not know."""
    lake, note = _lake(root), _pending(root)
    _make_folders(lake)
    with locks.hold(lake, "maintenance") as fence:
        if paths.has_file(root / layout.FORMAT):
            _undo_replays(replace(lake, fence=fence), note)
            paths.remove(root / layout.FORMAT)
        # From here on older versions may write: killed, the next call takes nothing away that is theirs.
        if _is_closed(lake, note["captures"]):
            paths.remove(_entry(lake, note["captures"] + 1))
        for folder in (lake.contents, lake.sightings):
            paths.remove_tree(folder)
        paths.remove(root / NOTE)


def _undo_replays(lake: layout.Lake, note: Mapping[str, Any]) -> None:
    """Gives `replays` the digests back that it had. Raises LakeError if something came since that format 1 would not
    know."""
    made, before, there = note["made"], note["replays"], open_tables.has_table(lake.replays)
    changed = [folder.name for folder in (lake.contents, lake.sightings) if _version(folder) != made[folder.name]]
    rows = pa.Table.from_pylist([], layout.REPLAYS)
    if before is not None and there:
        try:
            with tables.lake_errors(f"{lake.replays}: version {before}, of before the upgrade, cannot be read"):
                was = tables.table_dataset(lake.replays, open_tables.at_version(lake.replays, before))
                rows = tables.fetch_rows(lake.replays, was).to_table()
        except errors.LakeError as error:  # a backup has only the newest version, so a restored lake has no other
            raise errors.LakeError(
                error.message, f"in a lake that was restored there is no way back: {STAY}"
            ) from error
    now = tables.read_rows(lake.replays, layout.REPLAYS)
    if _runs(now) != _runs(rows):
        changed.append(lake.replays.name)
    if changed:
        raise errors.LakeError(
            f"{lake.root}: {', '.join(changed)} changed since the upgrade, and format 1 would not know it",
            STAY,
        )
    if rows.num_rows:
        tables.replace_rows(lake.replays, rows, None, lake.fence)


def _runs(replays: pa.Table) -> Counter[tuple[Any, ...]]:
    """What tells rows of `replays` from others, but for the digest."""
    names = ("query_set", "query", "interval_start", "interval_end", "stage", "state", "finished_at")
    return Counter(zip(*(replays.column(name).to_pylist() for name in names), strict=True))


def confirm(root: PurePath) -> int:
    """Removes what is left of format 1, and returns its bytes. There is no way back then."""
    lake, note = _lake(root), _pending(root)
    if "left" not in note or not paths.has_file(root / layout.FORMAT):  # or it is being undone
        hint = f"lowwater upgrade --lake {shlex.quote(str(root))}"
        raise errors.LakeError(f"{root}: its upgrade has not ended", f"`{hint}` goes on with it")
    _make_folders(lake)
    with locks.hold(lake, "maintenance"):
        folders = conversion.folders(root)
        size = sum(each for folder in folders for _, each in paths.sizes(folder))
        for folder in folders:
            paths.remove_tree(folder)
        layout.close_format_1(root)
        paths.remove(root / NOTE)
        return size


def _lake(root: PurePath) -> layout.Lake:
    """Opens a lake of format 1 or 2. Raises LakeError if it is none, or of a later format."""
    with tables.lake_errors(f"{root}: cannot be read"):
        return layout.Lake(root) if layout.is_format_1(paths.names_in(root)) else layout.lake_to_read(root)


def _make_folders(lake: layout.Lake) -> None:
    """Makes what a lake lacks before anything runs in it, as one that was restored does."""
    paths.keep_private()
    with tables.lake_errors(f"{lake.root}: cannot be written"):
        paths.make_folders(lake.work, lake.locks)


def _note(root: PurePath) -> dict[str, Any]:
    try:
        return stored_object(paths.read(root / NOTE).decode())
    except FileNotFoundError:
        return {}


def _pending(root: PurePath) -> dict[str, Any]:
    note = _note(root)
    if "captures" not in note:
        raise errors.LakeError(f"{root}: no upgrade of it waits to be confirmed", "`lowwater status` opens it")
    return note


def _version(folder: PurePath) -> int | None:
    table = tables.open_table(folder)
    return None if table is None else table.version()


# Contents and sightings.


def _convert(lake: layout.Lake) -> Upgrade:
    if "captures" not in _note(lake.root):
        conversion.Ledgers.read(lake)  # one that is damaged is not closed
    version = _close(lake)
    ledgers = conversion.Ledgers.read(lake, version)
    said = statements.read_statements(lake)
    rows, declared = conversion.sightings(lake, load_config(lake.root), ledgers, said)
    contents = conversion.contents(ledgers.captures)
    for folder in (lake.contents, lake.sightings):
        paths.remove_tree(folder)
        open_tables.forget(folder)
    layout.make_facts(lake)
    tables.append_rows(lake.contents, contents, lake.fence)
    tables.append_rows(lake.sightings, files.table_of(rows), lake.fence)
    if declared:  # each before what it is about was seen
        tables.create(lake.statements, layout.STATEMENTS)
        anew = {(each.act, each.file, each.at) for each in declared}
        said = [each for each in said if (each.act, each.file, each.at) not in anew]
        everything = sorted([*said, *declared], key=lambda each: each.at)
        tables.replace_rows(lake.statements, tables.table_of(everything, layout.STATEMENTS), None, lake.fence)
    made = {folder.name: _version(folder) for folder in (lake.contents, lake.sightings)}
    note = {name: value for name, value in _note(lake.root).items() if name != "left"} | {"made": made}
    paths.write(lake.root / NOTE, json.dumps(note).encode(), fence=lake.fence)
    paths.write(lake.root / layout.FORMAT, b"", fence=lake.fence)
    layout.make_ledgers(lake)
    return Upgrade(
        ledgers.captures.num_rows, len({row.path for row in rows}), _covering(declared), [*_otherwise(lake, ledgers)]
    )


def _close(lake: layout.Lake) -> int:
    """Closes the ledger `captures`, so that nobody writes it any more, and returns its last version before that."""
    if "captures" in (note := _note(lake.root)):
        version = int(note["captures"])
        if _is_closed(lake, version):  # else killed before it, and ingested into since, by an older version
            return version
    captures, _ = conversion.folders(lake.root)
    for _ in range(paths.FENCED):
        with tables.lake_errors(f"{captures}: the table cannot be read"):
            table = open_tables.existing(captures)
        version = table.version()
        note = {"captures": version, "replays": _version(lake.replays)}
        paths.write(lake.root / NOTE, json.dumps(note).encode(), fence=lake.fence)
        if paths.add(_entry(lake, version + 1), layout.closing_entry(version + 1)):
            return version
    raise errors.BusyError(f"{lake.root}: it is being ingested into", "end that, and upgrade then")


def _is_closed(lake: layout.Lake, version: int) -> bool:
    """Whether the ledger `captures` is closed behind a version."""
    with suppress(FileNotFoundError):
        return layout.is_closing(paths.read(_entry(lake, version + 1)))
    return False


def _entry(lake: layout.Lake, version: int) -> PurePath:
    return open_tables.commit_file(conversion.folders(lake.root)[0], version)


def _otherwise(lake: layout.Lake, ledgers: conversion.Ledgers) -> Iterator[str]:
    """Tells of each file that was read, and is not now, or covers another time."""
    config = load_config(lake.root)
    rows = tables.grouped((family_of(row["link"]), row) for row in ledgers.captures.to_pylist() if not row["aside"])
    for family in sorted({family_of(link) for link in ingested_links(lake)}):
        view = family_claims(lake, family, config)
        now = {(row["link"], row["attempt"]): row for row in view.captures.to_pylist()}
        for row in rows.get(family, ()):
            key = row["link"], row["attempt"]
            if key not in now:
                left: Left | None = view.left.get(key[1])
                yield f"link {key[0]!r}: {row['path']} is not read any more{'' if left is None else f': {left.why}'}"
            elif (now[key]["declared_from"], now[key]["declared_to"]) != (row["declared_from"], row["declared_to"]):
                yield f"link {key[0]!r}: {row['path']} is declared to cover another time by the settings of now"


# Digests of publications. Before, a link's life counted as it is set, and its policy where no gap asks for it.


def _older(key: keys.HighKey, job: Job) -> Iterator[keys.HighKey]:
    """Yields the forms that the key of a publication had before."""
    links = [(each, job.config.link(each["link"])) for each in key.links]
    lived: list[keys.Key] = [{**each, "life": [link.since, link.until]} for each, link in links]
    yield replace(key, links=lived)
    policies = [keys.POLICIES.get(link.policy, link.policy) for _, link in links]
    yield replace(key, links=[{**each, "policy": policy} for each, policy in zip(lived, policies, strict=True)])


def _keep(lake: layout.Lake, queries: Path, tell: Tell) -> int:
    """Gives the publications whose inputs have not changed the digest of now; returns their number."""
    lake, found = layout.lake_to_read(lake.root), dict[tuple[str, str, int, int, str], str]()
    for job in jobs(lake.root, queries, tell):
        for key, digest in _of_set(job).items():
            found[(job.query_set, *key)] = digest
    if found:
        rows = tables.read_rows(lake.replays, layout.REPLAYS).to_pylist()
        names = ("query_set", "query", "interval_start", "interval_end", "digest")
        for row in rows:
            row["digest"] = found.get(tuple(row[name] for name in names), row["digest"])
        newest = max(row["finished_at"] for row in rows)  # a run of an older version may end meanwhile
        known = pc.field("finished_at") <= newest
        tables.replace_rows(lake.replays, pa.Table.from_pylist(rows, layout.REPLAYS), known, lake.fence)
    return len(found)


def _of_set(job: Job) -> dict[tuple[str, int, int, str], str]:
    past = runs.Publications(job.lake, job.query_set)
    captures, found = job.captures(), dict[tuple[str, int, int, str], str]()
    known, now = job.known_missing(captures), KeptPublications(past, found)
    rows = [row for row in runs.read_replays(job.lake, job.query_set, stage=runs.PUBLISH) if row.state != FAILED]
    intervals = sorted({row.interval for row in rows})
    for start, end in intervals:
        before = job.inputs(start, end, captures, known, past)
        for query in job.plan.queries:
            last = past.last(query.name, start, end)
            if last is None or not last.digest:
                continue
            key = before.key(query)
            after = job.inputs(start, end, captures, known, now)
            digest = after.key(query).digest
            if last.digest != digest and last.digest in {each.digest for each in (key, *_older(key, job))}:
                found[(query.name, start, end, last.digest)] = digest
                take_state(before, query, last.digest, digest)
    return found


# Columns of instants, which tables of 0.1 lack.


def _fill(lake: layout.Lake, queries: Path, tell: Tell) -> int:
    """Gives published tables the columns of instants that new tables have; returns the files that were written again.
    A table of another query set, or one that cannot be read or written, is told and stays as it is."""
    count = 0
    for job in jobs(lake.root, queries):
        for query in job.plan.queries:
            try:
                tables.check_owner(job.lake.table(query.name), job.query_set)
                count += publish.fill_instants(job.lake, query.name, query.high.fields)[0]
            except errors.AwayError:
                raise
            except errors.LakeError as error:
                tell(job.query_set, error)
    return count
