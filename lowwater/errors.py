"""Errors: one root, a class for every cause, data as attributes; `repeats` says that a retry fails again.

Below every stage. Spark workers raise errors across processes, so every error can be pickled: the constructor arguments
are the attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lowwater import limits

SHOWN = 160
"""Most characters of a source line that an error message shows."""


class LowwaterError(Exception):
    """Root of the errors that the user can correct. The command line prints them and exits with 1.

    Args:
        message: the problem, with the file, link, interval or option.
        hint: what to do about it, or an empty string.

    Attributes:
        repeats: whether the same inputs fail again, so that only a person, or another input, can end it.
    """

    repeats = False

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


class QueryError(LowwaterError):
    """A query text is wrong.

    Args:
        message: the cause.
        hint: what to write instead, or an empty string.
        file: name of the query file.
        line: line number from 1; 0 if unknown.
        column: column number from 1; 0 if unknown.
        source: text of the file; the message shows the line with a mark.
    """

    repeats = True

    def __init__(
        self,
        message: str,
        hint: str = "",
        file: str = "",
        line: int = 0,
        column: int = 0,
        source: str = "",
    ) -> None:
        super().__init__(message, hint)
        self.args = (message, hint, file, line, column, source)
        self.file = file
        self.line = line
        self.column = column
        self.source = source

    def __str__(self) -> str:
        where = ":".join(str(part) for part in (self.file, self.line, self.column) if part)
        text = f"{where}: {self.message}" if where else self.message
        lines = self.source.split("\n")
        if 0 < self.line <= len(lines):
            # Of a very long line only the part around the column is shown.
            first = max(self.column - 1 - SHOWN // 2, 0)
            excerpt = lines[self.line - 1][first : first + SHOWN]
            indent = "".join("\t" if char == "\t" else " " for char in excerpt[: max(self.column - 1 - first, 0)])
            text += f"\n  {excerpt}\n  {indent}^" if excerpt.strip() else ""
        if self.hint:
            text += f"\n  hint: {self.hint}"
        return text


class QueryErrors(QueryError):
    """Several errors of a query set, in text order.

    Args:
        errors: the errors, at least one.
    """

    def __init__(self, errors: Sequence[QueryError]) -> None:
        first = errors[0]
        super().__init__(first.message, first.hint, first.file, first.line, first.column, first.source)
        self.args = (tuple(errors),)
        self.errors = tuple(errors)

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self.errors)


def error_of_query(query: str, error: Exception) -> LowwaterError:
    """Returns the error of a query as one that names the query; a fault of Lowwater itself becomes one, too."""
    if not isinstance(error, LowwaterError):
        hint = "this is a fault of Lowwater: LOWWATER_DEBUG=1 shows where, please report it"
        named = LowwaterError(f"query {query}: {type(error).__name__}: {error}", hint)
        named.__cause__ = error
        return named
    if f"query {query}" in error.message:
        return error
    return LowwaterError(f"query {query}: {error.message}", error.hint)


def flatten_errors(errors: Sequence[QueryError]) -> list[QueryError]:
    """Returns the single errors; errors with the same place and message occur once."""
    flat = (single for error in errors for single in (error.errors if isinstance(error, QueryErrors) else (error,)))
    return list({(single.file, single.line, single.column, single.message): single for single in flat}.values())


def sort_errors(errors: Sequence[QueryError]) -> list[QueryError]:
    """Returns the single errors in text order."""
    return sorted(flatten_errors(errors), key=lambda error: (error.file, error.line, error.column))


def raise_all(errors: Sequence[QueryError]) -> None:
    """Raises one error as it is, several as QueryErrors; does nothing without errors."""
    flat = flatten_errors(errors)
    if flat:
        raise flat[0] if len(flat) == 1 else QueryErrors(flat)


def full(errors: list[QueryError]) -> bool:
    """Whether there are so many mistakes that no others are looked for; then the last error says so.

    To find one takes milliseconds, most of them for its hint, and a text has room for tens of thousands."""
    flat = flatten_errors(errors)
    if len(flat) < limits.QUERY_MISTAKES:
        return False
    last = flat[-1]
    hint = "correct those above, and check the text again"
    errors.append(QueryError("further mistakes are not looked for", hint, last.file, last.line, last.column))
    return True


class UnsupportedError(QueryError):
    """A construct that Lowwater recognises but cannot run yet."""


class SqlError(LowwaterError):
    """A statement of SQL cannot be bound or evaluated."""

    repeats = True


class CaptureError(LowwaterError):
    """A file cannot be read as a capture."""

    repeats = True


class OverlapError(LowwaterError):
    """Two captures of one link overlap by more than its skew, and one of them is read (SEMANTICS T1).

    Args:
        link: the link of both captures.
        path: the file that is not read and its coverage, as text.
        other: the file that is read and its coverage, as text.
        beside: whether they overlap for at least half of the shorter one, so were taken at the same time.
    """

    repeats = True

    def __init__(
        self,
        message: str,
        hint: str = "",
        link: str = "",
        path: str = "",
        other: str = "",
        beside: bool = False,
        overlap: int = 0,
    ) -> None:
        super().__init__(message, hint)
        self.args = (message, hint, link, path, other, beside, overlap)
        self.link = link
        self.path = path
        self.other = other
        self.beside = beside
        self.overlap = overlap


class ConfigError(LowwaterError):
    """`lowwater.toml` or an option is wrong."""

    repeats = True


class AbsentExtraError(LowwaterError, ModuleNotFoundError):
    """A package of an extra (`lowwater[spark]`) is not installed. Callers may also catch it as ModuleNotFoundError."""

    repeats = True


class LakeError(LowwaterError):
    """The lake cannot be read or written."""


class AwayError(LakeError):
    """The disk of the lake has no room, its store or its Spark does not answer: it passes without another input."""


class SparkError(LowwaterError):
    """The Spark of a command does not start: an error of every file and every interval."""


class OwnerError(LakeError):
    """A table belongs to another query set (SEMANTICS S3)."""

    repeats = True


class GapError(LakeError):
    """A link has not reported over the whole read range of an interval (SEMANTICS T5, T6).

    Args:
        since: end of its coverage before the gap, ns since the epoch.
        until: begin of its coverage after the gap, or end of the interval, ns.
    """

    repeats = True

    def __init__(self, message: str, hint: str = "", link: str = "", since: int = 0, until: int = 0) -> None:
        super().__init__(message, hint)
        self.args = (message, hint, link, since, until)
        self.link = link
        self.since = since
        self.until = until


class BusyError(LakeError):
    """Another process holds the lock of a capture or of an overlapping interval."""


class TakenOverError(LakeError):
    """Another process has taken over the work of this one, whose lease has ended."""


class BehindError(LakeError):
    """The log of a stream no longer has what comes after the position of a subscriber."""

    repeats = True


class ValueOverflowError(LowwaterError):
    """An exact integer sum does not fit 64 bits (SEMANTICS O3)."""

    repeats = True


class PartialError(LowwaterError):
    """Some queries of a run fail; the results of the other queries are written.

    Args:
        message: the messages of the queries without a result, one a line.
        summary: summary of the run.
    """

    def __init__(self, message: str, hint: str = "", summary: Mapping[str, Any] | None = None) -> None:
        super().__init__(message, hint)
        self.args = (message, hint, summary)
        self.summary = summary or {}


class LawError(LowwaterError):
    """An internal check failed: results would be wrong, so nothing is published."""

    repeats = True


class AuditError(LawError):
    """The audit of an interval forbids its publication.

    Args:
        message: the critical failures, one a line.
        report: absolute path of the page with the failures.

    Attributes:
        accounting: accounts of links and LFTAs (A1), for the ledger.
    """

    def __init__(self, message: str, hint: str = "", report: str = "") -> None:
        super().__init__(message, hint)
        self.args = (message, hint, report)
        self.report = report
        self.accounting: dict[str, Any] = {}


def nearest(name: str, candidates: Iterable[str]) -> str:
    """Returns a hint with the most similar known names, else with all names if they are few, else an empty text.

    Example:
        >>> nearest("IP", ["IPV4", "IPV6", "TCP"])
        'did you mean IPV4 or IPV6?'
    """
    from difflib import SequenceMatcher, get_close_matches  # few commands refuse a name

    def similarity(candidate: str) -> float:
        return SequenceMatcher(None, candidate, name.lower()).ratio()

    names = sorted(candidates)
    lower = {n.lower(): n for n in names}
    close = get_close_matches(name.lower(), lower, 3)
    if close:
        alike = [lower[n] for n in close if similarity(n) == similarity(close[0])]
        return f"did you mean {' or '.join(sorted(alike))}?"
    return f"there are: {', '.join(names)}" if 0 < len(names) <= 12 else ""
