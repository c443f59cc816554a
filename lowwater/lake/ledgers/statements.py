"""The ledger `statements`: what people say of the data, with who, when and why (SEMANTICS T6, T9, S7)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from lowwater.instants import SECOND, format_instant
from lowwater.lake import layout, locks, tables
from lowwater.lake.open_tables import cached_value
from lowwater.link_names import family_of

if TYPE_CHECKING:
    from deltalake import DeltaTable

# Each act of a person appends a row for each thing that it is about, before it does anything: where a crash comes
# between, a statement is there that never took effect, and no effect that nobody said.
#
# An acceptance is about one defect, and not about an interval: whoever reads the same time of the link, by another
# length of intervals too, has it. It holds for the defect as it was: another file, another cause, another range, or
# more of it is another defect, which nobody has accepted.

ACCEPT, UNDO = "accept", "undo"
ASIDE, COUNT = "set aside", "count again"
COVERS = "covers"
APPROVE, ROLL_BACK, LIFT = "approve", "roll back", "lift"
RETIRE, DROP, REVIVE = "retire", "drop", "make again"
RENAME, MOVE = "rename", "move"
ERASE = "erase"

ACTS = {
    ACCEPT: "what is missing is accepted, and is no reason against `done`",
    UNDO: "what was accepted is not accepted any more",
    ASIDE: "nobody reads a file, and no interval lacks it",
    COUNT: "a file that was set aside counts again",
    COVERS: "a file covers a range, whatever its name and its records tell",
    APPROVE: "an interval is published although its audit warned",
    ROLL_BACK: "earlier rows of an interval stand for its present inputs",
    LIFT: "a roll back ends, and the interval is due again",
    RETIRE: "a query is made no more, or a link has ended, and what there is of it stays",
    DROP: "a query is made no more, or is made anew, and its table goes; or a link has ended, and its packets go",
    REVIVE: "a query or a link that was retired or dropped goes on",
    RENAME: "a link, query or query set is called otherwise from then on",
    MOVE: "a query is one of another query set from then on",
    ERASE: "packets are taken out of what the lake has of a file, which is not read again",
}
"""What people say, and what it means."""


@dataclass(frozen=True, slots=True)
class Defect:
    """A part of what is missing of a link."""

    what: str  # identity of the file and, where it has several defects of a cause in one range, which of them it is
    start: int  # the time in which its records lie, [start, end), ns
    end: int
    amount: int  # number of what is missing, in the unit of its cause: records, bytes, files


@dataclass(frozen=True, slots=True)
class Statement:
    """A row of the ledger; see `layout.STATEMENTS` for the columns. Instants are ns since the epoch."""

    at: int
    person: str
    act: str
    why: str
    link: str = ""
    cause: str = ""
    what: str = ""
    start: int = 0
    end: int = 0
    amount: int = 0
    file: str | None = None
    query_set: str | None = None
    query: str | None = None

    @property
    def key(self) -> tuple[str, str, str, int, int]:
        """The defect that an acceptance is about."""
        return self.link, self.cause, self.what, self.start, self.end


def about_defect(act: str, link: str, cause: str, defect: Defect, person: str, why: str) -> Statement:
    """Returns what `state` appends of a defect that is accepted, or is not any more."""
    return Statement(0, person, act, why, link, cause, defect.what, defect.start, defect.end, defect.amount)


def accepted(lake: layout.Lake) -> Mapping[tuple[str, str, str, int, int], Statement]:
    """Reads the acceptances in force: the newest statement about each defect, where it accepts it."""
    with tables.lake_errors(f"{lake.statements}: the table cannot be read"):
        return cached_value(lake.statements, "accepted", lambda table: {} if table is None else _in_force(lake))


def _in_force(lake: layout.Lake) -> dict[tuple[str, str, str, int, int], Statement]:
    newest = {each.key: each for each in read_statements(lake, (ACCEPT, UNDO))}
    return {key: statement for key, statement in newest.items() if statement.act == ACCEPT}


def retired(lake: layout.Lake) -> Mapping[str, Statement]:
    """Reads which queries are retired or dropped, by the newest statement about each."""
    with tables.lake_errors(f"{lake.statements}: the table cannot be read"):
        return cached_value(lake.statements, "retired", lambda table: {} if table is None else _retired(lake))


def _retired(lake: layout.Lake) -> dict[str, Statement]:
    newest = {each.query: each for each in read_statements(lake, (RETIRE, DROP, REVIVE)) if each.query}
    return {query: each for query, each in newest.items() if each.act != REVIVE}


def retired_links(lake: layout.Lake) -> Mapping[str, Statement]:
    """Reads which links are retired or dropped, by the newest statement about each."""

    def read(table: DeltaTable | None) -> Mapping[str, Statement]:
        said = [] if table is None else read_statements(lake, (RETIRE, DROP, REVIVE))
        newest = {each.link: each for each in said if each.link}
        return {link: each for link, each in newest.items() if each.act != REVIVE}

    with tables.lake_errors(f"{lake.statements}: the table cannot be read"):
        return cached_value(lake.statements, "retired links", read)


def erased(lake: layout.Lake) -> Mapping[str, Statement]:
    """Reads of which contents packets were erased (T11), by the newest statement about each."""
    with tables.lake_errors(f"{lake.statements}: the table cannot be read"):
        return cached_value(
            lake.statements,
            "erased",
            lambda table: {} if table is None else {each.what: each for each in read_statements(lake, (ERASE,))},
        )


def erased_words(said: Statement) -> str:
    """Says that packets of a file were erased: when, by whom and why."""
    when = format_instant(said.at // SECOND * SECOND)
    return f"{said.amount:,} of its packets were erased at {when} by {said.person}: {said.why}"


def erased_lines(lake: layout.Lake) -> list[str]:
    """Returns a line for each link of which packets were erased, for `status` and reports. An act that was ended and
    done again counts once."""
    by_link: dict[str, dict[tuple[str, int, int, int], Statement]] = {}
    for each in read_statements(lake, (ERASE,)):
        by_link.setdefault(each.link, {})[each.what, each.start, each.end, each.amount] = each
    return [
        f"link {link}: {sum(each.amount for each in said.values()):,} packets were erased, from "
        f"{format_instant(min(each.start for each in said.values()))} to "
        f"{format_instant(max(each.end for each in said.values()))}: `lowwater log` has who and why"
        for link, said in sorted(by_link.items())
    ]


def retired_words(said: Statement) -> str:
    """Says that a query was retired: when, by whom, why, and which one goes on in its place."""
    verb = {RETIRE: "retired", DROP: "dropped"}[said.act]
    when = format_instant(said.at // SECOND * SECOND)
    goes_on = f"; it goes on as {said.what}" if said.what else ""
    return f"{said.query} was {verb} at {when} by {said.person}: {said.why}{goes_on}"


def read_statements(lake: layout.Lake, acts: Sequence[str] | None = None) -> list[Statement]:
    """Reads the statements, or those of some acts, oldest first."""
    chosen = None if acts is None else pc.field("act").isin(list(acts))
    rows = tables.read_rows(lake.statements, layout.STATEMENTS, chosen)
    said, renamed = [Statement(**row) for row in rows.sort_by("at").to_pylist()], renames(lake)
    return [_called_now(each, renamed) for each in said] if renamed else said


# Rows are never changed: what they are about has, when they are read, the name that it has now.


def renames(lake: layout.Lake) -> Sequence[Statement]:
    """Reads what got another name, or another query set, oldest first, as it was said."""

    def read(table: DeltaTable | None) -> Sequence[Statement]:
        if table is None:
            return ()
        chosen = pc.field("act").isin([RENAME, MOVE])
        rows = tables.read_rows(lake.statements, layout.STATEMENTS, chosen)
        return [Statement(**row) for row in rows.sort_by("at").to_pylist()]

    with tables.lake_errors(f"{lake.statements}: the table cannot be read"):
        return cached_value(lake.statements, "renames", read)


LINK, QUERY, SET = "link", "query", "query set"
"""Kinds of things that have a name."""


def kind_of(said: Statement) -> str:
    """Of which kind of thing a statement says that it got another name."""
    return LINK if said.link else SET if said.query is None else QUERY


def link_called(link: str, old: str, new: str) -> str:
    """Returns the name of a link, or of an interface of one, once the link `old` is called `new`."""
    return new + link[len(old) :] if family_of(link) == old else link


def _called_now(said: Statement, renamed: Sequence[Statement]) -> Statement:
    if said.act in (RENAME, MOVE):
        return said
    for each in renamed:
        if each.at <= said.at:
            continue
        if each.act == MOVE:
            if (said.query_set, said.query) == (each.query_set, each.query):
                said = replace(said, query_set=each.what)
        elif (kind := kind_of(each)) == LINK:
            said = replace(said, link=link_called(said.link, each.link, each.what)) if said.link else said
        elif said.query_set == each.query_set:
            if kind == SET:
                said = replace(said, query_set=each.what)
            elif said.query == each.query:
                said = replace(said, query=each.what)
            elif said.act in (RETIRE, DROP) and said.what == each.query:
                said = replace(said, what=each.what)
    return said


def new_name(lake: layout.Lake, kind: str, name: str) -> tuple[str, str]:
    """Returns the name that a link, query or query set has now which got another one, and a sentence that says so;
    two empty texts if it never did."""
    last: Statement | None = None
    now = name
    for each in renames(lake):
        known = {LINK: each.link, QUERY: each.query, SET: each.query_set}[kind]
        if each.act == RENAME and kind_of(each) == kind and known == now:
            now, last = each.what, each
    if last is None or now == name:
        return "", ""
    when = format_instant(last.at // SECOND * SECOND)
    return now, f"{kind} {name} is called {now} since {when}, by {last.person}: {last.why}"


@dataclass(frozen=True)
class Asides:
    """What people said of files that nobody is to read, oldest first; of each file the newest statement counts. A file
    is known by its path, its size and, where it was read, its bytes: another size or other bytes are another file (T9).
    """

    statements: tuple[Statement, ...] = ()

    @cached_property
    def _by_file(self) -> Mapping[str, list[Statement]]:
        return tables.grouped((each.file or "", each) for each in self.statements)

    @property
    def paths(self) -> list[str]:
        """The files of which somebody spoke."""
        return [*self._by_file]

    def said(self, path: str, size: int, sha256: str | None) -> Statement | None:
        """Returns the newest statement about a file: it is set aside, or counts again; None without one."""
        for each in reversed(self._by_file.get(path, ())):
            if each.amount == size and (not each.what or sha256 is None or each.what == sha256):
                return each
        return None


def asides(lake: layout.Lake) -> Asides:
    """Reads which files people set aside."""
    with tables.lake_errors(f"{lake.statements}: the table cannot be read"):
        return cached_value(
            lake.statements,
            "asides",
            lambda table: Asides() if table is None else Asides(tuple(read_statements(lake, (ASIDE, COUNT)))),
        )


def declared(lake: layout.Lake) -> Sequence[Statement]:
    """Reads what people declared that files cover, oldest first."""
    with tables.lake_errors(f"{lake.statements}: the table cannot be read"):
        return cached_value(
            lake.statements, "declared", lambda table: [] if table is None else read_statements(lake, (COVERS,))
        )


def covering(
    statements: Mapping[tuple[str, str, str, int, int], Statement], link: str, cause: str, defects: Sequence[Defect]
) -> list[Statement]:
    """Returns the statements that accept all of some defects, in their order; none where one is not accepted, or has
    grown since."""
    found = []
    for defect in defects:
        statement = statements.get((link, cause, defect.what, defect.start, defect.end))
        if statement is None or statement.amount < defect.amount:
            return []
        found.append(statement)
    return found


def state(lake: layout.Lake, said: Iterable[Statement]) -> list[Statement]:
    """Appends what a person says in one act, in one commit. Returns the rows, whose instants are one: that of now, or
    the least of those given, and later than all before.
    Raises LakeError if the ledger cannot be written."""
    said = list(dict.fromkeys(said))
    with locks.hold(lake, "ledger of statements", 600.0, [lake.statements]) as fence:
        tables.fence_off([lake.statements], fence)
        tables.create(lake.statements, layout.STATEMENTS)
        known = tables.read_rows(lake.statements, layout.STATEMENTS.empty_table().select(["at"]).schema)
        before = max((*known.column("at").to_pylist(), *(each.at for each in said)), default=0)
        at = max(time.time_ns(), 1 + before)
        rows = [replace(each, at=at) for each in said]
        tables.append_rows(lake.statements, tables.table_of(rows, layout.STATEMENTS), fence)
    return rows
