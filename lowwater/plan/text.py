"""The source text of a statement, and errors that mark a place in it.

Below `scope` and all modules that bind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from lowwater.errors import QueryError, UnsupportedError, full, raise_all
from lowwater.gsql.nodes import Place

T = TypeVar("T")


@dataclass(frozen=True)
class Text:
    """The file and the text of a statement, for errors."""

    file: str = ""
    source: str = ""

    def error(self, place: Place, message: str, hint: str = "") -> QueryError:
        return QueryError(message, hint, self.file, place.line, place.column, self.source)

    def unsupported(self, place: Place, message: str, hint: str = "") -> UnsupportedError:
        return UnsupportedError(message, hint, self.file, place.line, place.column, self.source)

    def require_inside(self, path: str, place: Place, folders: Iterable[Path]) -> None:
        """Refuses a file that a query may not read, since messages and rows would show its content. `path`: as the
        query names it, relative to the working folder; `folders`: in which it may read, besides the folder of its own
        file.
        Raises QueryError if the file, or the target of a symbolic link, lies outside of these folders."""
        try:
            real = Path(path).resolve()
            if any(real.is_relative_to(folder.resolve()) for folder in (Path(self.file).parent, *folders)):
                return
        except (OSError, ValueError, RuntimeError):
            pass  # symbolic links in a circle, or an invalid path
        hint = (
            "put it beside the query, and name it from the folder in which Lowwater runs; "
            "or name its folder: folders = [...] under [files] of the settings"
        )
        raise self.error(place, f"{path}: a query reads files in the folder of its own file only", hint)


@dataclass(frozen=True)
class Note:
    """A remark about a query that is correct."""

    query: str
    text: str
    place: tuple[int, int] = (0, 0)  # line and column in the file of the query; (0, 0) for the entire query

    def __str__(self) -> str:
        return f"{self.place[0]}:{self.place[1]}: {self.text}" if self.place[0] else self.text


class BelowError(QueryError):
    """A query cannot be bound because a query that it reads has errors; those are reported there."""


def place_of(node: object) -> Place:
    """Returns the place of a syntax node; an unknown place if it has none."""
    place = getattr(node, "place", None)
    return place if isinstance(place, Place) else Place()


def spot(node: object) -> tuple[int, int]:
    """Returns line and column of a syntax node, the form in which plan nodes keep it."""
    place = place_of(node)
    return place.line, place.column


def attempt_all(steps: Sequence[Callable[[], T]]) -> list[T]:
    """Runs independent steps, and reports the errors of all of them together. Returns the results, in order.
    Raises the error of the step that fails; QueryErrors if several fail."""
    results: list[T] = []
    errors: list[QueryError] = []
    for step in steps:
        try:
            results.append(step())
        except QueryError as error:
            errors.append(error)
            if full(errors):
                break
    raise_all([error for error in errors if not isinstance(error, BelowError)])
    raise_all(errors[:1])
    return results
