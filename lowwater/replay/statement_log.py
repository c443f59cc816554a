"""What people have said of a lake, in order, and what of it is in force: `lowwater log`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePath

import pyarrow.compute as pc

from lowwater.config import load_config
from lowwater.documents import stored_object
from lowwater.errors import LowwaterError
from lowwater.instants import format_instant
from lowwater.lake import layout, tables, words
from lowwater.lake.ledgers import files, runs, statements
from lowwater.lake.ledgers.captures import family_claims, ingested_links
from lowwater.lake.ledgers.statements import Statement
from lowwater.link_names import family_of
from lowwater.replay.job import Job, query_files
from lowwater.replay.schedule.links import known_sets, set_names

# A statement tells an act; whether it is in force, what it acted on tells: acceptances are read from the ledger of
# statements itself, set-asides from it and the files that lie there, declared coverage from the view of captures,
# approvals and roll backs from `replays`, whose rows also tell the acts that an older version kept there only.

OLDER = "by an older version, which kept no statement"


@dataclass(frozen=True)
class Said:
    """A statement, whether it is in force, and why it is not, or what else is to be known of it."""

    statement: Statement
    in_force: bool
    note: str = ""


@dataclass(frozen=True)
class StatementSelection:
    """Which statements: of a link and its interfaces, of what a query set reads or is, about a range of time, ns."""

    link: str | None = None
    query_set: str | None = None
    start: int | None = None
    end: int | None = None


def said_of(root: PurePath, queries: Path, selection: StatementSelection | None = None) -> list[Said]:
    """Lists what people have said, oldest first. `queries`: folder of query sets.
    Raises ConfigError if there is no such query set, and LakeError if the lake cannot be read."""
    log, chosen = _Log(root, queries), selection or StatementSelection()
    known = set().union(*known_sets(root, queries), set_names(root, queries))
    if chosen.query_set is not None and chosen.query_set not in known:
        query_files(load_config(root), chosen.query_set, queries)  # it says so
    found = [
        *log.acceptances(),
        *log.set_asides(),
        *log.declarations(),
        *log.of_intervals(),
        *log.retirements(),
        *log.renames(),
    ]
    found += [Said(each, True) for each in log.told if each.act == statements.ERASE]
    found = [each for each in found if _is_chosen(each.statement, chosen, log)]
    return sorted(found, key=lambda each: each.statement.at)


def _is_chosen(about: Statement, chosen: StatementSelection, log: _Log) -> bool:
    if chosen.link is not None:
        of_set = log.links(about.query_set) if about.query_set else {about.link}
        if not any(chosen.link in (link, family_of(link)) for link in of_set):
            return False
    if chosen.query_set is not None and about.query_set != chosen.query_set:
        read = {family_of(link) for link in log.links(chosen.query_set)}
        if about.query_set or (about.link and family_of(about.link) not in read):
            return False
    if (about.start, about.end) == (0, 0):  # nobody knows of what time it is
        return True
    return (chosen.end is None or about.start < chosen.end) and (chosen.start is None or about.end > chosen.start)


@dataclass
class _Log:
    """Reads the statements, and the ledgers on which they act."""

    root: PurePath
    queries: Path
    _jobs: dict[str, Job | LowwaterError] = field(default_factory=dict)

    @cached_property
    def lake(self) -> layout.Lake:
        return layout.lake_to_read(self.root)

    @cached_property
    def told(self) -> list[Statement]:
        return statements.read_statements(self.lake)

    def job(self, query_set: str) -> Job | LowwaterError:
        if query_set not in self._jobs:
            try:
                self._jobs[query_set] = Job.open(self.root, query_set, self.queries)
            except LowwaterError as error:
                self._jobs[query_set] = error
        return self._jobs[query_set]

    def links(self, query_set: str) -> set[str]:
        """The links that a query set reads; none where it cannot be planned."""
        job = self.job(query_set)
        return set(job.plan.links) if isinstance(job, Job) else set()

    def acceptances(self) -> Iterator[Said]:
        mine = [each for each in self.told if each.act in (statements.ACCEPT, statements.UNDO)]
        newest = {each.key: each for each in mine}
        for each in mine:
            last = newest[each.key]
            yield Said(each, each is last, "" if each is last else _superseded(last))

    def set_asides(self) -> Iterator[Said]:
        seen = files.read_seen(self.lake)
        mine = [each for each in self.told if each.act in (statements.ASIDE, statements.COUNT)]
        newest = {each.file: each for each in mine}
        asides = statements.Asides(tuple(mine))
        for each in mine:
            last, row = newest[each.file], seen.get(each.file or "")
            if each.at != last.at:
                yield Said(each, False, _superseded(last))
            elif row is None or asides.said(row.path, row.size, row.sha256) is None:
                yield Said(each, False, "another file lies there since")
            else:
                yield Said(each, True)

    def declarations(self) -> Iterator[Said]:
        mine = [each for each in self.told if each.act == statements.COVERS]
        newest = {(each.link, each.file): each for each in mine}
        by_hand = set[tuple[str, int, int]]()
        for family in sorted({*map(family_of, ingested_links(self.lake))}):
            rows = family_claims(self.lake, family).captures
            told = rows.filter(rows.column("by_hand")).select(["declared_from", "declared_to"]).to_pylist()
            by_hand |= {(family, row["declared_from"], row["declared_to"]) for row in told}
        for each in mine:
            if (last := newest[each.link, each.file]) is not each:
                yield Said(each, False, _superseded(last))
            elif (family_of(each.link), each.start, each.end) in by_hand:
                yield Said(each, True)
            else:
                yield Said(each, False, "no capture has it: its ingest failed, or another file stands there since")

    def of_intervals(self) -> Iterator[Said]:
        """Approvals, roll backs and what lifts them."""
        done: dict[Statement, list[runs.ReplayRow]] = {}
        for row in self._acted_rows():
            if (act := _act_of(row)) is not None:
                done.setdefault(act, []).append(row)
        named, older = {act.at: rows for act, rows in done.items()}, dict[Statement, Statement]()
        kept = {each.at for each in self.told}
        acts = (statements.APPROVE, statements.ROLL_BACK, statements.LIFT)
        for each in (each for each in self.told if each.act in acts):
            if each.at in named:
                yield self._stands(each, named[each.at])
            else:
                yield Said(each, False, "it never took effect: the act did not end")
        for act in done:  # the newest row of a table is written again with an act on another table of its set
            if act.at not in kept:
                older.setdefault(replace(act, at=0), act)
        for act in older.values():
            yield self._stands(act, done[act], OLDER)

    def retirements(self) -> Iterator[Said]:
        """Which queries are made no more, and which links have ended."""
        mine = [each for each in self.told if each.act in (statements.RETIRE, statements.DROP, statements.REVIVE)]
        newest = {(each.link, each.query): each for each in mine}
        for each in mine:
            last = newest[each.link, each.query]
            yield Said(each, each is last, "" if each is last else _superseded(last))

    def renames(self) -> Iterator[Said]:
        """Which names have changed, and which still hold."""
        mine = statements.renames(self.lake)
        for at, each in enumerate(mine):
            later = [other for other in mine[at + 1 :] if statements.kind_of(other) == statements.kind_of(each)]
            gone = next((other for other in later if _name_of(other) == each.what and other.act == each.act), None)
            yield Said(each, gone is None, "" if gone is None else _superseded(gone))

    def _acted_rows(self) -> list[runs.ReplayRow]:
        acted = (pc.field("state") == words.ROLLED_BACK) | pc.match_substring(pc.field("accounting"), '"consent"')
        return runs.replay_rows(tables.read_rows(self.lake.replays, layout.REPLAYS, acted))

    def _stands(self, about: Statement, acted: Sequence[runs.ReplayRow], note: str = "") -> Said:
        """Whether rows of the ledger that an act has written are still what counts, and their inputs those of today."""
        query_set, span = about.query_set or "", (about.start, about.end)
        job, notes = self.job(query_set), [note] if note else []
        for row in {row.query: row for row in acted}.values():
            if why := _replaced(row, runs.interval_replays(self.lake, query_set, *span)):
                return Said(about, False, "; ".join([*notes, why]))
            if isinstance(job, LowwaterError):
                return Said(
                    about, True, "; ".join([*notes, f"whether its inputs have changed is unknown: {job.message}"])
                )
            query = next((each for each in job.plan.queries if each.name == row.query), None)
            if query is None:
                return Said(about, False, f"query set {query_set} has no query {row.query!r} any more")
            if row.digest and job.inputs(*span, job.captures()).digest(query) != row.digest:
                return Said(about, False, "; ".join([*notes, "its inputs have changed since"]))
        return Said(about, True, "; ".join(notes))


def _name_of(said: Statement) -> str:
    """The name that something had."""
    return said.link or (said.query_set if said.query is None or said.act == statements.MOVE else said.query) or ""


def _replaced(row: runs.ReplayRow, rows: Sequence[runs.ReplayRow]) -> str:
    """Why the row of an act is not the newest of its kind, of all that meet its interval, oldest first; or empty."""
    if row.stage == runs.AUDIT:
        mine = [each for each in rows if (each.interval, each.stage) == (row.interval, runs.AUDIT)]
        last = next((each for each in reversed(mine) if each.query in (row.query, "")), row)
    else:
        last = next((each for each in reversed(rows) if each.query == row.query and each.is_published), row)
    if _act_of(last) == _act_of(row):
        return ""
    by = _act_of(last)
    return f"until it ran again at {format_instant(last.finished_at)}" if by is None else _superseded(by)


def _act_of(row: runs.ReplayRow) -> Statement | None:
    """What a row of the ledger of runs tells of the act of a person; None where it is of a run."""
    told = stored_object(row.accounting)
    if row.stage == runs.AUDIT and "consent" in told:
        act, kind, what, query = {"by": told["consent"], **told}, statements.APPROVE, "", None
    elif row.state == words.ROLLED_BACK and "lifted" in told:
        act, kind, what, query = told["lifted"], statements.LIFT, "", row.query
    elif row.state == words.ROLLED_BACK and "rolled_back" in told:
        act, query = told["rolled_back"], row.query
        kind, what = statements.ROLL_BACK, str(act["to"])
    else:
        return None
    at, why, (start, end) = int(act.get("statement", row.finished_at)), str(act.get("why", "")), row.interval
    person = str(act["by"])
    return Statement(at, person, kind, why, "", "", what, start, end, query_set=row.query_set, query=query)


def _superseded(by: Statement) -> str:
    return f"until {by.person or 'somebody'} said {by.act!r} at {format_instant(by.at)}"
