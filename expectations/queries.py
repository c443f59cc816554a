"""Expectations of the stream of an output query before its publication: columns, rows, promises and keys.

They are the suite `queries`, on the frame with one row for each output query.
"""

from __future__ import annotations

from abc import ABC
from typing import ClassVar

from .rules import Row, Rule
from .text import count, span


class QueryRule(Rule, ABC):
    """A rule about the stream of one output query."""

    noun = "query"
    subjects: ClassVar[tuple[str, ...]] = ("query",)
    message_columns: ClassVar[tuple[str, ...]] = ("interval", "captures", "links")

    def about(self, row: Row) -> str:
        return f"query {row['query']}"

    def message(self, row: Row) -> str:
        return (
            f"{self.about(row)}, {row['interval']}: {self.reason(row)}; "
            f"links: {row['links']}; captures: {row['captures']}"
        )


class ExpectQueryColumnsAsPlanned(QueryRule):
    """The stream has the columns and types of the plan (SEMANTICS P5)."""

    rule = "The columns of the stream match the plan"
    measures = ("columns",)

    def holds(self, row: Row) -> bool:
        return bool(row["columns"] == "")

    def reason(self, row: Row) -> str:
        return f"the columns differ from the plan: {row['columns']}"


class ExpectQueryRowsAsMade(QueryRule):
    """The stream holds exactly the files and rows that the high stage wrote (SEMANTICS Q1)."""

    rule = "The stream holds exactly the rows that the high stage wrote"
    measures = ("rows", "made", "changed")

    def holds(self, row: Row) -> bool:
        return bool(row["changed"] == 0 and row["rows"] == row["made"])

    def reason(self, row: Row) -> str:
        if row["rows"] == row["made"]:
            return f"the files of the stream, {count(row['rows'], 'row')}, have changed since the high stage wrote them"
        files = "; the files have changed since" if row["changed"] != 0 else ""
        return f"the stream has {count(row['rows'], 'row')}, but the high stage wrote {count(row['made'])}{files}"


class ExpectQueryToBeClosed(QueryRule):
    """The stream ends with the promise of the interval's end (SEMANTICS T6)."""

    rule = "The stream ends with the promise of the interval's end"
    measures = ("open_ns",)

    def holds(self, row: Row) -> bool:
        return bool(row["open_ns"] == 0)

    def reason(self, row: Row) -> str:
        return f"its last promise is {span(row['open_ns'])} before the interval's end"


class ExpectQueryRowsToBeOwned(QueryRule):
    """`_last` of every row is in the interval [start, end) (SEMANTICS I1)."""

    rule = "Every row belongs to the interval"
    measures = ("rows", "not_owned", "example")

    def holds(self, row: Row) -> bool:
        return bool(row["not_owned"] == 0)

    def reason(self, row: Row) -> str:
        return f"{count(row['not_owned'], 'row')} with _last outside of the interval{_first(row)}"


class ExpectQueryPromisesToBeKept(QueryRule):
    """No row precedes an earlier punctuation of its stream (SEMANTICS P1)."""

    rule = "No row precedes an earlier promise of its stream"
    measures = ("rows", "below_promise", "example")

    def holds(self, row: Row) -> bool:
        return bool(row["below_promise"] == 0)

    def reason(self, row: Row) -> str:
        return f"{count(row['below_promise'], 'row')} below an earlier promise{_first(row)}"


class ExpectQueryKeysToBeUnique(QueryRule):
    """No two rows have the same key: every group has one row (SEMANTICS P1, O2)."""

    rule = "Keys are unique"
    measures = ("rows", "duplicate_keys", "keys", "example")

    def holds(self, row: Row) -> bool:
        return bool(row["duplicate_keys"] == 0)

    def reason(self, row: Row) -> str:
        return f"{count(row['duplicate_keys'], 'key')} ({row['keys']}) in more than one row{_first(row)}"


class ExpectQueryPublishedRowsToStand(QueryRule):
    """What was published of the interval before is still there, and once (SEMANTICS S9)."""

    rule = "The rows that were published before are still there, once"
    measures = ("damage",)

    def holds(self, row: Row) -> bool:
        return bool(row["damage"] == "")

    def reason(self, row: Row) -> str:
        return f"the published rows of the interval were damaged: {row['damage']}"


def _first(row: Row) -> str:
    return f"; the first: {row['example']}" if row["example"] else ""
