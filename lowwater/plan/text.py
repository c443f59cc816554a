"""The text that a statement stands in, and the errors that are marked in it.

Below `scope` and everything that binds.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from lowwater.errors import QueryError, UnsupportedError, raise_all
from lowwater.gsql.nodes import Place

T = TypeVar("T")


@dataclass(frozen=True)
class Text:
    """The file that a statement stands in, to mark errors in."""

    file: str = ""
    source: str = ""

    def error(self, place: Place, message: str, hint: str = "") -> QueryError:
        return QueryError(message, hint, self.file, place.line, place.column, self.source)

    def unsupported(self, place: Place, message: str, hint: str = "") -> UnsupportedError:
        return UnsupportedError(message, hint, self.file, place.line, place.column, self.source)

    def require_inside(self, path: str, place: Place, folders: Iterable[Path]) -> None:
        """Refuses a file that a query may not read: messages and rows would show what is in it.

        Args:
            path: as the query names it, relative to the working folder.
            place: where.
            folders: what queries may read files in, beside the folder of their own file.

        Raises:
            QueryError: the file lies, or a link leads, outside of them all.
        """
        try:
            real = Path(path).resolve()
            if any(real.is_relative_to(each.resolve()) for each in (Path(self.file).parent, *folders)):
                return
        except (OSError, ValueError, RuntimeError):
            pass  # links in a circle, or no text of a path
        hint = (
            "put it beside the query, and name it from the folder in which Lowwater runs; "
            "or name its folder: folders = [...] under [files] of the settings"
        )
        raise self.error(place, f"{path}: a query reads files in the folder of its own file only", hint)


@dataclass(frozen=True)
class Note:
    """What is worth knowing of a query that has a meaning.

    Attributes:
        query: its name.
        text: what is worth knowing.
        place: line and column in its file; (0, 0) for the whole query.
    """

    query: str
    text: str
    place: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        return f"{self.place[0]}:{self.place[1]}: {self.text}" if self.place[0] else self.text


class BelowError(QueryError):
    """A query cannot be bound because one that it reads has errors of its own, which are reported there."""


def place_of(node: object) -> Place:
    """Where a syntax node begins; an unknown place where it has none."""
    place = getattr(node, "place", None)
    return place if isinstance(place, Place) else Place()


def spot(node: object) -> tuple[int, int]:
    """Line and column of a syntax node, as plan nodes keep them."""
    place = place_of(node)
    return place.line, place.column


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint with the nearest known names, or with all of them where they are few, or nothing.

    Example:
        >>> nearest("IP", ["IPV4", "IPV6", "TCP"])
        'did you mean IPV4 or IPV6?'
    """
    names = sorted(known)
    lower = {n.lower(): n for n in names}
    close = difflib.get_close_matches(name.lower(), lower, 3)
    if close:
        alike = [lower[n] for n in close if _likeness(name, n) == _likeness(name, close[0])]
        return f"did you mean {' or '.join(sorted(alike))}?"
    return f"there are: {', '.join(names)}" if 0 < len(names) <= 12 else ""


def _likeness(name: str, known: str) -> float:
    return difflib.SequenceMatcher(None, known, name.lower()).ratio()


def each(steps: Sequence[Callable[[], T]]) -> list[T]:
    """Does all of some steps that do not need one another, so that their errors are reported together.

    Raises:
        QueryError: the error of the one step that fails; of several steps QueryErrors.
    """
    done: list[T] = []
    errors: list[QueryError] = []
    for step in steps:
        try:
            done.append(step())
        except QueryError as error:
            errors.append(error)
    raise_all([error for error in errors if not isinstance(error, BelowError)])
    raise_all(errors[:1])
    return done
