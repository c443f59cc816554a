"""Errors: one root, one leaf per cause, data as attributes.

Stands below every stage. Spark workers raise across processes, so every error pickles: the constructor
arguments are the attributes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

SHOWN = 160
"""Most characters of a source line that an error shows."""


class LowwaterError(Exception):
    """Root of every error that is the user's to mend; the command line prints it and exits with 1.

    Args:
        message: what is wrong, naming the file, link, interval or option.
        hint: what to do about it, or an empty string.
    """

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
        line: 1-based line, 0 where unknown.
        column: 1-based column, 0 where unknown.
        source: the whole text of the file; the offending line is shown marked.
    """

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
            # Of a very long line only the surroundings of the column are shown.
            first = max(self.column - 1 - SHOWN // 2, 0)
            shown = lines[self.line - 1][first : first + SHOWN]
            indent = "".join("\t" if char == "\t" else " " for char in shown[: max(self.column - 1 - first, 0)])
            text += f"\n  {shown}\n  {indent}^" if shown.strip() else ""
        if self.hint:
            text += f"\n  hint: {self.hint}"
        return text


class QueryErrors(QueryError):
    """Several errors of one query set, in the order of the text.

    Args:
        errors: each with its own place, at least one.
    """

    def __init__(self, errors: Sequence[QueryError]) -> None:
        first = errors[0]
        super().__init__(first.message, first.hint, first.file, first.line, first.column, first.source)
        self.args = (tuple(errors),)
        self.errors = tuple(errors)

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self.errors)


def singles(errors: Sequence[QueryError]) -> list[QueryError]:
    """The errors one by one, those of one place and cause once."""
    single = (each for error in errors for each in (error.errors if isinstance(error, QueryErrors) else (error,)))
    return list({(each.file, each.line, each.column, each.message): each for each in single}.values())


def in_order(errors: Sequence[QueryError]) -> list[QueryError]:
    """The errors one by one in the order of the text."""
    return sorted(singles(errors), key=lambda error: (error.file, error.line, error.column))


def raise_all(errors: Sequence[QueryError]) -> None:
    """Raises the one error as it is, several as QueryErrors; nothing for none."""
    found = singles(errors)
    if found:
        raise found[0] if len(found) == 1 else QueryErrors(found)


class UnsupportedError(QueryError):
    """A construct that Lowwater knows by name and does not run yet."""


class CaptureError(LowwaterError):
    """A file that cannot be read as a capture at all."""


class OverlapError(LowwaterError):
    """Two captures of one link overlap by more than its skew (SEMANTICS T1).

    Args:
        message: the cause.
        hint: what to do.
        link: of both.
        path: the file that is refused, and when it was taken, as text.
        other: the file that is in the lake, likewise.
        beside: whether they were taken at the same time, for half of the shorter at least.
    """

    def __init__(
        self, message: str, hint: str = "", link: str = "", path: str = "", other: str = "", beside: bool = False
    ) -> None:
        super().__init__(message, hint)
        self.args = (message, hint, link, path, other, beside)
        self.link = link
        self.path = path
        self.other = other
        self.beside = beside


class ConfigError(LowwaterError):
    """`lowwater.toml` or an option is wrong."""


class LakeError(LowwaterError):
    """The lake cannot be read or written."""


class OwnerError(LakeError):
    """A table belongs to another query set (SEMANTICS S3)."""


class GapError(LakeError):
    """A link has not reported over the whole read range of an interval (SEMANTICS T5, T6).

    Args:
        message: the cause.
        hint: what to do.
        link: the silent link.
        since: ns since the epoch at which its coverage ends.
        until: ns at which it begins again, or the end of the interval.
    """

    def __init__(self, message: str, hint: str = "", link: str = "", since: int = 0, until: int = 0) -> None:
        super().__init__(message, hint)
        self.args = (message, hint, link, since, until)
        self.link = link
        self.since = since
        self.until = until


class BusyError(LakeError):
    """Another process holds the lock: of a capture, or of an interval that overlaps this one."""


class ValueOverflowError(LowwaterError):
    """An exact integer sum does not fit 64 bits (SEMANTICS O3)."""


class PartialError(ValueOverflowError):
    """Sums of some queries of a run do not fit; the results of the others are written.

    Args:
        message: the message of every query that has no result, one a line.
        hint: what to do.
        summary: the summary of the run.
    """

    def __init__(self, message: str, hint: str = "", summary: Mapping[str, Any] | None = None) -> None:
        super().__init__(message, hint)
        self.args = (message, hint, summary)
        self.summary = summary or {}


class LawError(LowwaterError):
    """An internal check of the law failed: results would not be right, so nothing is published."""


class AuditError(LawError):
    """The audit of an interval found its results not fit to be published.

    Args:
        message: every critical failure, one a line.
        hint: what to do.
        report: absolute path of the page that shows the failures.

    Attributes:
        accounting: of links and LFTAs (A1), for the ledger.
    """

    def __init__(self, message: str, hint: str = "", report: str = "") -> None:
        super().__init__(message, hint)
        self.args = (message, hint, report)
        self.report = report
        self.accounting: dict[str, Any] = {}
