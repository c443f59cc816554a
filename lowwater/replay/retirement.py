"""Links that have ended, queries and query sets that are made no more: what there is of them stays, or goes, and
subscribers are told.

A retirement is a statement (`lowwater log`), made before anything goes. Whoever is killed runs the same again.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

import pyarrow as pa
import pyarrow.compute as pc

from lowwater import documents
from lowwater.config import Config, load_config, section_of
from lowwater.errors import LakeError, nearest
from lowwater.lake import layout, locks, open_tables, tables, words
from lowwater.lake.ledgers import intervals, runs, statements
from lowwater.lake.ledgers.captures import ingested_links, read_captures
from lowwater.lake.ledgers.statements import Statement
from lowwater.lake.packets import PacketFiles
from lowwater.lake.results.pins import pins_file, tables_by_owner
from lowwater.lake.results.subscription import consumers_folder, consumers_of
from lowwater.lake.trimming import Trimmed, drop_link, horizon_of_end, trim_interval
from lowwater.link_names import family_of
from lowwater.replay.job import Job
from lowwater.replay.schedule.due import expected
from lowwater.replay.schedule.links import jobs as open_sets, known_sets
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

    def lost(self) -> int:
        """Counts the published intervals whose rows no run makes again, since packets of their time were removed."""
        horizon = max(PacketFiles.of(self.lake).horizons.values(), default=0)
        published = (row for row in runs.read_replays(self.lake) if row.is_published and row.query in self.queries)
        return len({row.interval for row in published if row.interval_start < horizon})

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


@dataclass(frozen=True)
class LinkRetirement:
    """A link that is retired, and with `drop` what goes of it: packets and rows of `trimming.drop_link`, and what lies
    between the stages of intervals that read it. What the ledgers know of its captures stays, and so do published
    rows: no run reaches these intervals any more (S11)."""

    lake: layout.Lake
    config: Config
    link: str
    queries: Path
    drop: bool
    captures: bool  # whether the capture files go, too

    def never_made(self) -> int:
        """Counts the intervals that are due and read packets which go: no run will make them."""
        span, jobs = self._span(), self._jobs()
        captures = {job.query_set: job.captures() for job in jobs}
        rows = intervals.status(self.lake, [expected(job, captures[job.query_set]) for job in jobs])
        return len(
            {(row.query_set, row.start) for row in rows if row.state in words.DUE and _meet((row.start, row.end), span)}
        )

    def drops(self, dry_run: bool) -> Iterator[Trimmed]:
        """Removes what goes, step by step. It may be killed and run again."""
        if not self.drop:
            return
        span = self._span()
        for job in self._jobs():
            with ExitStack() as stack:
                lake = self.lake
                if not dry_run:
                    lake = replace(lake, fence=stack.enter_context(locks.hold_range(lake, job.query_set, *span)))
                lfta = lake.root / "lfta" / tables.safe_name(job.query_set)
                folders = [*paths.folders(lfta), *(lake.stream(query.name) for query in job.plan.queries)]
                if not dry_run:
                    tables.fence_off(folders, lake.fence)
                for part in (part for folder in folders for part in paths.folders(folder)):
                    label = part.name.removeprefix("interval=")
                    if (bounds := tables.label_bounds(label)) is not None and _meet(bounds, span):
                        yield from trim_interval(lake, part.parent, label, f"it is of link {self.link}", dry_run)
                        if not dry_run:  # what the log does not name any more
                            paths.remove_tree(part)
        with ExitStack() as stack:
            lake = self.lake
            if not dry_run:
                lake = replace(lake, fence=stack.enter_context(locks.hold(lake, f"ingest of {self.link}")))
            yield from drop_link(lake, self.config, self.link, self.captures, dry_run)

    def _links(self) -> list[str]:
        return [link for link in ingested_links(self.lake) if family_of(link) == self.link]

    def _span(self) -> tuple[int, int]:
        """From the first capture of the link to the horizon that it has then, ns."""
        begins = [rows.begin for rows in read_captures(self.lake, self._links(), self.config).values()]
        ends = [horizon_of_end(self.lake, link, self.config) for link in self._links()]
        return min((begin for begin in begins if begin is not None), default=0), max(ends)

    def _jobs(self) -> list[Job]:
        every = open_sets(self.lake.root, self.queries, lambda *_: None)
        return [job for job in every if not {*self._links(), self.link}.isdisjoint(job.plan.links)]


def _meet(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def link_retirement(root: PurePath, queries: Path, link: str, drop: bool, captures: bool) -> LinkRetirement:
    """Finds what it is to retire a link that has ended.
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
    return LinkRetirement(lake, config, link, queries, drop, captures)


def retire_link(what: LinkRetirement, person: str, why: str) -> Iterator[Trimmed]:
    """Says that a link is retired, then yields what goes of it, once it is gone.
    Raises BusyError if a run that reads it or an ingest is at work, and LakeError if the lake cannot be written."""
    lake = layout.open_lake(what.lake.root, make=False)
    act = statements.DROP if what.drop else statements.RETIRE
    statements.state(lake, [Statement(0, person, act, why, what.link)])
    yield from replace(what, lake=lake).drops(dry_run=False)


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
