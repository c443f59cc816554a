"""What a query would cost beyond reason: windows and groupings that multiply its rows too often.

Beside `capabilities`: `run` and `replay` ask before anything starts, `check` and `explain` say it as notes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lowwater.config import Replay
from lowwater.errors import QueryError, raise_all, sort_errors
from lowwater.plan.fields import Place
from lowwater.plan.properties.copies import copies
from lowwater.plan.queryset import Plan
from lowwater.plan.text import Note

MOST_COPIES = Replay().copies


def require_affordable(plan: Plan, most: int) -> None:
    """Checks that no operator makes more than so many rows of one.

    Raises:
        QueryError: one that does, with the query and the place; QueryErrors: several of these.
    """
    files = {each.name: each.file for each in (*plan.queries, *plan.internal)}
    raise_all(
        sort_errors(
            [
                QueryError(f"query {note.query}: {note.text}", hint, files.get(note.query, ""), *note.place)
                for note, hint in _above(plan, most)
            ]
        )
    )


def costly(plan: Plan, most: int = MOST_COPIES) -> tuple[Note, ...]:
    """What `require_affordable` refuses, as notes."""
    return tuple(replace(note, text=f"{note.text}; {hint}") for note, hint in _above(plan, most))


def _above(plan: Plan, most: int) -> Iterator[tuple[Note, str]]:
    """What is above the limit, each once: a note of what is made, and what to do."""
    seen: set[tuple[str, Place]] = set()
    for query in plan.queries:
        for node, own, made in copies(query.logical):
            if made > most and (node.query, own.place) not in seen:
                seen.add((node.query, own.place))
                rest = f", {made:,} with the windows below" if made > own.times else ""
                what = f"each row is in {own.times:,} {own.what}{rest}; {most:,} are allowed"
                hint = f"{own.less}, or allow more: copies = {made} in [replay], --copies {made} of run"
                yield Note(node.query, what, own.place), hint
