"""The ledger `statements`: what people say of the data, that a known defect is accepted or is not any more."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lowwater.lake import layout, locks, tables
from lowwater.lake.open_tables import cached_value

# A statement is about one defect, and not about an interval: whoever reads the same time of the link, by another
# length of intervals too, has it. It holds for the defect as it was: another file, another cause, another range, or
# more of it is another defect, which nobody has accepted.

ACCEPT, UNDO = "accept", "undo"


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
    act: str  # ACCEPT or UNDO
    why: str
    link: str
    cause: str
    what: str
    start: int
    end: int
    amount: int

    @property
    def key(self) -> tuple[str, str, str, int, int]:
        return self.link, self.cause, self.what, self.start, self.end


def accepted(lake: layout.Lake) -> Mapping[tuple[str, str, str, int, int], Statement]:
    """Reads the statements in force: the newest one about each defect, where it accepts it."""
    with tables.lake_errors(f"{lake.statements}: the table cannot be read"):
        return cached_value(lake.statements, "accepted", lambda table: {} if table is None else _in_force(lake))


def _in_force(lake: layout.Lake) -> dict[tuple[str, str, str, int, int], Statement]:
    rows = tables.read_rows(lake.statements, layout.STATEMENTS).sort_by("at").to_pylist()
    newest = {statement.key: statement for row in rows for statement in [Statement(**row)]}
    return {key: statement for key, statement in newest.items() if statement.act == ACCEPT}


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


def state(
    lake: layout.Lake, act: str, about: Iterable[tuple[str, str, Defect]], person: str, why: str
) -> list[Statement]:
    """Appends what a person says of defects, given as (link, cause, defect), in one commit; returns the new rows.
    Raises LakeError if the ledger cannot be written."""
    with locks.hold(lake, "ledger of statements", 600.0, [lake.statements]) as fence:
        tables.fence_off([lake.statements], fence)
        tables.create(lake.statements, layout.STATEMENTS)
        known = tables.read_rows(lake.statements, layout.STATEMENTS.empty_table().select(["at"]).schema)
        at = max(time.time_ns(), 1 + max(known.column("at").to_pylist(), default=0))
        rows = [
            Statement(at, person, act, why, link, cause, defect.what, defect.start, defect.end, defect.amount)
            for link, cause, defect in dict.fromkeys(about)
        ]
        tables.append_rows(lake.statements, tables.table_of(rows, layout.STATEMENTS), fence)
    return rows
