"""What people expect of the rows of a query, in suites of their own beside `lowwater.toml`.

The suite `rows`, on the frame with one row a rule: what a person wrote was judged where the rows are
(`lowwater.quality.custom.row_checks`), here its severity decides.
"""

from __future__ import annotations

from typing import Literal

from .queries import QueryRule
from .rules import Row
from .text import count


class ExpectQueryRowsToKeepRule(QueryRule):
    """No rule of one severity is broken by more rows than it allows."""

    limit: Literal["warning", "critical"]
    success_keys = ("limit",)
    noun = "rule"
    subjects = ("query", "rule")
    rule = "The rules written for the rows hold, those of severity {limit}"
    measures = ("severity", "values", "broken", "allowed", "example")
    told = ("interval", "captures", "links", "why")

    def holds(self, row: Row) -> bool:
        return bool(row["severity"] != self.limit or row["broken"] <= row["allowed"])

    def reason(self, row: Row) -> str:
        allowed = f", {count(row['allowed'])} allowed" if row["allowed"] else ""
        why = f" ({row['why']})" if row["why"] else ""
        first = f"; the first: {row['example']}" if row["example"] else ""
        return f"{row['rule']}{why}: broken by {count(row['broken'])} of {count(row['values'])}{allowed}{first}"
