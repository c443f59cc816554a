"""Links that have ended, queries and query sets that are made no more: what there is of them stays, or goes, and
subscribers are told.

A retirement is a statement (`lowwater log`), made before anything goes. Whoever is killed runs the same again.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

import pyarrow as pa
import pyarrow.compute as pc

from lowwater import documents
from lowwater.config import load_config, section_of
from lowwater.errors import LakeError, nearest
from lowwater.lake import layout, locks, open_tables, tables
from lowwater.lake.ledgers import runs, statements
from lowwater.lake.ledgers.captures import ingested_links
from lowwater.lake.ledgers.statements import Statement
from lowwater.lake.results.pins import pins_file, tables_by_owner
from lowwater.lake.results.subscription import consumers_folder, consumers_of
from lowwater.link_names import family_of
from lowwater.replay.job import Job
from lowwater.replay.schedule.links import known_sets
from lowwater.storage import paths
from lowwater.storage.object_paths import ObjectPath

EVER = -(1 << 62), 1 << 62
"""A range that meets every interval, ns."""


@dataclass(frozen=True)
class Retirement:
    """What is retired, and what that is about."""

    lake: layout.Lake
    query_set: str
    queries: tuple[str, ...]
    whole: bool  # whether the query set itself is retired
    drop: bool
    made: tuple[str, ...] = ()  # those of the queries that the texts still have: they are made anew

    def subscribers(self) -> list[str]:
        """Names the subscribers that the lake knows."""
        return [
            f"{each.name} of {query}, which has read up to version {each.version}"
            for query in self.queries
            for each in consumers_of(self.lake, query)
        ]

    def folders(self) -> list[PurePath]:
        """Lists what goes, that is there: the folders of queries, then those of the set."""
        lake, name = self.lake, tables.safe_name(self.query_set)
        found = [
            folder
            for query in self.queries
            for folder in (
                lake.table(query),
                lake.stream(query),
                lake.root / "sums" / tables.safe_name(query),
                lake.states / name / tables.safe_name(query),
                *([] if query in self.made else [consumers_folder(lake, query)]),
            )
        ]
        if self.whole:
            found += [lake.root / "lfta" / name, lake.states / name, lake.reports / name]
        return [folder for folder in found if any(True for _ in paths.files_below(folder))]

    def bytes(self) -> int:
        return sum(each.size for folder in self.folders() for each in paths.listed(folder))


def retirement(root: PurePath, queries: Path, kind: str, name: str, drop: bool) -> Retirement:
    """Finds what it is to retire a `query` or a `set` of a name.
    Raises LakeError if there is none, or its text is still there, so that the next run would make it."""
    lake = layout.lake_to_read(root)
    owned = {owner: list(names) for owner, names in tables_by_owner(lake).items()}
    for row in runs.read_replays(lake):  # also what is not published, or whose table is gone already
        names = owned.setdefault(row.query_set, [])
        if row.query and row.query not in names and tables.safe_name(row.query) not in names:
            names.append(row.query)
    for said in statements.retired(lake).values():  # of which nothing is left, or what a command that was ended left
        names = owned.setdefault(said.query_set or "", [])
        if said.query and said.query not in names:
            names.append(said.query)
    known, _ = known_sets(root, queries)
    if kind == "set":
        return _of_set(lake, name, owned, known, drop)
    owners = [owner for owner, names in owned.items() if name in names]
    if not owners:
        there = sorted({query for names in owned.values() for query in names})
        raise LakeError(f"no query {name!r} was ever run", nearest(name, there) or _STREAMS)
    table = tables.open_table(lake.table(name))
    holder = None if table is None else table.metadata().configuration.get(tables.OWNER)
    owner = str(holder or owners[-1])
    made = owner in known and name in {query.name for query in Job.open(root, owner, queries).plan.queries}
    if made and not drop:
        raise LakeError(
            f"query set {owner} has the query {name} still, so that the next run makes it again",
            "take it out of its file first; --drop removes its table, which the next `lowwater backfill` makes anew",
        )
    return Retirement(lake, owner, (name,), False, drop, (name,) if made else ())


_STREAMS = "`lowwater streams` lists what is published"


def _of_set(
    lake: layout.Lake, name: str, owned: dict[str, list[str]], known: Collection[str], drop: bool
) -> Retirement:
    if name not in owned:
        raise LakeError(f"no query set {name!r} was ever run", nearest(name, sorted(owned)) or _STREAMS)
    if name in known:
        raise LakeError(
            f"query set {name} is there still, so that the next run makes it again",
            f"take {section_of(name, of='query_sets')} out of {documents.FILE_NAME}, or its file out of the folder of "
            "queries, first; "
            "where the settings name no query set, the folder counts that --queries names",
        )
    return Retirement(lake, name, tuple(owned[name]), True, drop)


def retire(what: Retirement, successor: str, person: str, why: str) -> None:
    """Retires queries: says so, and with `drop` removes what they have. It may be killed and run again.
    Raises BusyError if a run is at work on the query set, and LakeError if the lake cannot be written."""
    lake = layout.open_lake(what.lake.root, make=False)
    act = statements.DROP if what.drop else statements.RETIRE
    said = [
        Statement(0, person, act, why, what=successor, query_set=what.query_set, query=query) for query in what.queries
    ]
    with ExitStack() as stack:
        # A run that begins later finds neither text nor table; one that is at work has the range.
        lake = replace(lake, fence=stack.enter_context(locks.hold_range(lake, what.query_set, *EVER)))
        stack.enter_context(locks.hold(lake, f"publication of {what.query_set}", 60.0))
        statements.state(lake, said)
        if what.drop:
            tables.fence_off(lake.run_ledgers(), lake.fence)
            _drop(what, lake)
        if what.made:
            statements.state(lake, (_revival(each, person, why) for each in said))


def undo(lake: layout.Lake, kind: str, name: str, person: str, why: str) -> None:
    """Says that a query which was retired is made again, so that its subscribers wait for it, or that a link goes on.
    Raises LakeError if it is not retired, or the lake cannot be written."""
    said = (statements.retired_links(lake) if kind == "link" else statements.retired(lake)).get(name)
    if said is None:
        raise LakeError(f"{kind} {name} is not retired", "`lowwater log` lists what was said")
    statements.state(layout.open_lake(lake.root, make=False), [_revival(said, person, why)])


def retire_link(root: PurePath, link: str, person: str, why: str, dry_run: bool = False) -> None:
    """Retires a link: it has ended, and what there is of it stays.
    Raises LakeError if it never had captures, or its section says that it goes on."""
    lake, config = layout.lake_to_read(root), load_config(root)
    there = {family_of(each) for each in ingested_links(lake)}
    if link not in there:
        raise LakeError(f"no link {link!r} has captures", nearest(link, there))
    if link in config.links.keys() - config.ended.keys() and config.links[link].until is None:
        raise LakeError(
            f"link {link} has a section, by which it goes on",
            f"take {section_of(link)} out of {documents.FILE_NAME} first, or write until in it",
        )
    if not dry_run:
        said = Statement(0, person, statements.RETIRE, why, link)
        statements.state(layout.open_lake(root, make=False), [said])


def _revival(said: Statement, person: str, why: str) -> Statement:
    return Statement(0, person, statements.REVIVE, why, said.link, query_set=said.query_set, query=said.query)


def _drop(what: Retirement, lake: layout.Lake) -> None:
    """Removes the tables first, of which readers are; then what a ledger tells of them, so that a look after a crash
    tells of what is left."""
    for folder in what.folders():
        _remove(lake, folder)
    paths.remove(*([pins_file(lake, what.query_set)] if what.whole else []))
    mine = pc.field("query_set") == what.query_set
    if what.whole:
        for path in (*lake.run_ledgers()[1:], lake.replays):
            table = tables.open_table(path)
            if table is not None and "query_set" in [field.name for field in table.schema().fields]:
                tables.replace_rows(path, _empty(path), mine, lake.fence)
        for notes in ("_chained", "_looks"):
            for file in paths.children(lake.root / notes):
                if file.name.removesuffix(".json") in (what.query_set, tables.safe_name(what.query_set)):
                    paths.remove(file)
        return
    (query,) = what.queries
    tables.replace_rows(lake.quarantine, _empty(lake.quarantine), mine & (pc.field("subject") == query), lake.fence)
    tables.replace_rows(lake.replays, _empty(lake.replays), mine & (pc.field("query") == query), lake.fence)


def _empty(path: PurePath) -> pa.Table:
    return pa.schema(open_tables.existing(path).schema().to_arrow()).empty_table()


def _remove(lake: layout.Lake, folder: PurePath) -> None:
    """Removes a folder, which on a disk goes at once, also if this process is killed; what is left `maintain` removes.
    In a store the log goes first, so that what is left is no table."""
    if isinstance(folder, ObjectPath):
        paths.remove_tree(folder / "_delta_log")
        paths.remove_tree(folder)
    else:
        gone = lake.work / f"retired-{uuid.uuid4().hex[:12]}"
        paths.take(folder, gone)
        paths.remove_tree(gone)
    open_tables.forget(folder)
