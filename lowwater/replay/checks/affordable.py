"""Refuses excessive costs: windows and groupings that multiply rows too often.

`run` and `replay` check before they start; `check` and `explain` print notes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lowwater.config import Replay
from lowwater.errors import QueryError, raise_all, sort_errors
from lowwater.plan.fields import Place
from lowwater.plan.properties.state import copies
from lowwater.plan.queryset import Plan
from lowwater.plan.text import Note

MOST_COPIES = Replay().copies


def require_affordable(plan: Plan, most: int) -> None:
    """Checks that no operator makes more than a number of rows from one row.

    Raises:
        QueryError: an operator exceeds the limit, with query and place; QueryErrors for several operators.
    """
    files = {query.name: query.file for query in (*plan.queries, *plan.internal)}
    raise_all(
        sort_errors(
            [
                QueryError(f"query {note.query}: {note.text}", hint, files.get(note.query, ""), *note.place)
                for note, hint in _exceeding(plan, most)
            ]
        )
    )


def cost_notes(plan: Plan, most: int = MOST_COPIES) -> tuple[Note, ...]:
    """The findings of `require_affordable` as notes."""
    return tuple(replace(note, text=f"{note.text}; {hint}") for note, hint in _exceeding(plan, most))


def _exceeding(plan: Plan, most: int) -> Iterator[tuple[Note, str]]:
    """Yields each operator above the limit once: a note about its factor, and a hint."""
    reported: set[tuple[str, Place]] = set()
    for query in plan.queries:
        for node, factor, total in copies(query.logical):
            if total > most and (node.query, factor.place) not in reported:
                reported.add((node.query, factor.place))
                with_windows = f", {total:,} with the windows below" if total > factor.times else ""
                text = f"each row is in {factor.times:,} {factor.what}{with_windows}; {most:,} are allowed"
                hint = f"{factor.less}, or allow more: copies = {total} in [replay], --copies {total} of run"
                yield Note(node.query, text, factor.place), hint
