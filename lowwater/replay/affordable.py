"""What a query would cost beyond reason: windows and groupings that multiply its rows too often.

Beside `lowered`: `run` and `replay` ask before anything starts, `check` and `explain` say it as notes.
"""

from __future__ import annotations

from collections.abc import Iterator

from lowwater.config import Replay
from lowwater.errors import QueryError, in_order, raise_all
from lowwater.plan.copies import copies, times
from lowwater.plan.nodes import Bucket, Expand
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
        in_order(
            [
                QueryError(f"query {node.query}: {what}", hint, files.get(node.query, ""), *node.place)
                for node, what, hint in _above(plan, most)
            ]
        )
    )


def costly(plan: Plan, most: int = MOST_COPIES) -> tuple[Note, ...]:
    """What `require_affordable` refuses, as notes."""
    return tuple(Note(node.query, f"{what}; {hint}", node.place) for node, what, hint in _above(plan, most))


def _above(plan: Plan, most: int) -> Iterator[tuple[Bucket | Expand, str, str]]:
    """The operators above the limit, each once, with what they make and what to do."""
    seen: set[tuple[str, tuple[int, int]]] = set()
    for query in plan.queries:
        for node, made in copies(query.logical):
            if made > most and (node.query, node.place) not in seen:
                seen.add((node.query, node.place))
                yield node, _what(node, made, most), _hint(node, made)


def _what(node: Bucket | Expand, made: int, most: int) -> str:
    own = times(node)
    kind = "overlapping windows" if isinstance(node, Bucket) else "groupings"
    rest = f", {made:,} with the windows below" if made > own else ""
    return f"each row is in {own:,} {kind}{rest}; {most:,} are allowed"


def _hint(node: Bucket | Expand, made: int) -> str:
    less = (
        "use a longer SLIDE or a shorter RANGE" if isinstance(node, Bucket) else "write GROUPING_SETS of those you need"
    )
    return f"{less}, or allow more: copies = {made} in [replay], --copies {made} of run"
