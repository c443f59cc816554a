"""Expectations of the rows of a query that users write in custom suites beside `lowwater.toml`.

They are the suite `rows`, on the frame with one row for each rule. `lowwater.quality.custom` lets Great
Expectations judge them, and this module reports the failures by severity.
"""

from __future__ import annotations

from typing import Literal

from .queries import QueryRule
from .rules import Row
from .text import count


class ExpectQueryRowsToKeepRule(QueryRule):
    """No more rows break a rule of this severity than the rule allows."""

    limit: Literal["warning", "critical"]
    success_keys = ("limit",)
    noun = "rule"
    subjects = ("query", "rule")
    rule = "Rows obey the custom rules of severity {limit}"
    measures = ("severity", "values", "broken", "allowed", "kept", "observed", "example")
    message_columns = ("interval", "captures", "links", "why")

    def holds(self, row: Row) -> bool:
        return bool(row["severity"] != self.limit or row["kept"])

    def reason(self, row: Row) -> str:
        allowed = f", {count(row['allowed'])} allowed" if row["allowed"] else ""
        why = f" ({row['why']})" if row["why"] else ""
        first = f"; the first: {row['example']}" if row["example"] else ""
        if row["observed"]:
            seen = row["observed"] if row["observed"].startswith("not judged") else f"observed {row['observed']}"
            return f"{row['rule']}{why}: {seen}{first}"
        return f"{row['rule']}{why}: broken by {count(row['broken'])} of {count(row['values'])}{allowed}{first}"
