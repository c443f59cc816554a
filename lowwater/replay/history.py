"""The versions of a published table: when and why each was made, and which one a person means.

For `lowwater history`, and for the versions that `diff` and `rollback` are given. The log of the table says what was
published when; the ledger `replays` says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from lowwater.documents import json_value, stored_object
from lowwater.errors import LakeError
from lowwater.instants import format_instant, parse_instant
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.captures import Captures, read_captures
from lowwater.lake.ledgers.runs import FAILED, PUBLISH, ROLLED_BACK, ReplayRow, read_replays
from lowwater.lake.results.exploring import result_table
from lowwater.lake.results.publish import ROLLED_BACK_NOTE
from lowwater.lake.results.published_log import LogEntry, read_entry
from lowwater.lake.run_inputs import Parts, changes

PREVIOUS = "previous"
PUBLISHED, FOREIGN = "published", "changed by another program"

Range = tuple[int, int]


@dataclass(frozen=True)
class PublishedVersion:
    """A version of a published table in which rows differ from those of the version before.

    Attributes:
        version: number of the version.
        at: when it was made, by the clock of its writer, ns since the epoch.
        what: `published`, `rolled back`, or `changed by another program`.
        start: first instant of its interval, ns since the epoch; None if it is of no interval.
        end: end of its interval, ns since the epoch, exclusive; None if it is of no interval.
        state: state of the interval then; empty if the ledger does not know.
        rows: rows of the interval then; None if the ledger does not know.
        why: how its inputs differ from those of the version of the interval before, or who rolled it back and why.
    """

    version: int
    at: int
    what: str
    start: int | None = None
    end: int | None = None
    state: str = ""
    rows: int | None = None
    why: tuple[str, ...] = ()


@dataclass(frozen=True)
class VersionChoice:
    """A version as a person names it.

    Attributes:
        text: as it was given.
        number: its number; None if it is named otherwise.
        instant: the version that was the newest at this instant, ns since the epoch; None if it is named otherwise.
    """

    text: str
    number: int | None = None
    instant: int | None = None

    @staticmethod
    def parse(text: str) -> VersionChoice:
        """Reads a number, an ISO 8601 instant, or `previous`.

        Raises:
            ValueError: it is none of them.

        Example:
            >>> VersionChoice.parse("4").number, VersionChoice.parse("previous").number
            (4, None)
        """
        if text == PREVIOUS:
            return VersionChoice(text)
        if text.isascii() and text.isdigit():
            return VersionChoice(text, number=int(text[:20]))
        try:
            return VersionChoice(text, instant=parse_instant(text))
        except ValueError:
            raise ValueError(f"{text!r} is no version: write its number, an ISO 8601 instant, or {PREVIOUS}") from None

    def find(self, lake: Lake, query: str, span: Range | None = None) -> int:
        """Returns the number of the version.

        Args:
            lake: the lake.
            query: an output query.
            span: the interval whose versions count, [start, end), ns; None for all.

        Raises:
            LakeError: there is no such version.
        """
        hint = f"`lowwater history {query}` lists the versions"
        if self.number is not None:
            return self.number
        entries = _entries(lake, query)
        if self.instant is not None:
            found = next((entry.version for entry in entries if entry.at <= self.instant), None)
            if found is None:
                raise LakeError(f"table {query} has no version of {format_instant(self.instant)} or before", hint)
            return found
        made = [entry.version for entry, _ in zip(_meeting(entries, span), range(2), strict=False)]
        if len(made) < 2:
            of = f" of the interval of {format_instant(span[0])}" if span else ""
            raise LakeError(f"table {query} has no version{of} before the newest one", hint)
        return made[1]


def published_versions(
    lake: Lake, query: str, span: Range | None = None, most: int | None = None
) -> list[PublishedVersion]:
    """Lists the versions of a published table whose rows differ, newest first.

    Args:
        lake: the lake.
        query: an output query.
        span: only versions of intervals that meet [start, end), ns; None for all.
        most: most versions; None for all that the log has.

    Raises:
        LakeError: there is no such table, or its log cannot be read.
    """
    rows = [row for row in read_replays(lake, span=span, stage=PUBLISH) if row.query == query and row.state != FAILED]
    links = {name for row in rows for name in _inputs(row).get("links", {})}
    captures = read_captures(lake, sorted(links))
    entries = _meeting(_entries(lake, query), span)
    chosen = list(entries) if most is None else [entry for entry, _ in zip(entries, range(most), strict=False)]
    return [_described(entry, rows, captures) for entry in chosen]


def _entries(lake: Lake, query: str) -> Iterator[LogEntry]:
    """Yields the commits that changed rows, newest first, as far back as the log goes."""
    path: PurePath = lake.table(query)
    version = result_table(lake, query).newest
    while version >= 0 and (entry := read_entry(path, version)) is not None:
        if entry.changes or entry.publication is not None:
            yield entry
        version -= 1


def _meeting(entries: Iterator[LogEntry], span: Range | None) -> Iterator[LogEntry]:
    """Yields the commits that published an interval which meets a range; without a range all."""
    for entry in entries:
        of = entry.publication
        if span is None or (of is not None and of.start < span[1] and span[0] < of.end):
            yield entry


def _described(entry: LogEntry, rows: Sequence[ReplayRow], captures: dict[str, Captures]) -> PublishedVersion:
    of = entry.publication
    if of is None:
        operation = str(entry.told.get("operation", "")).lower()
        by = str(entry.told.get("engineInfo") or entry.told.get("clientVersion") or "")
        return PublishedVersion(entry.version, entry.at, FOREIGN, why=(" by ".join(filter(None, (operation, by))),))
    same = [row for row in rows if (row.interval_start, row.interval_end) == (of.start, of.end)]
    # The row is written behind the commit by the same process, so by one clock; that of a killed run is missing.
    now = next((row for row in same if row.finished_at >= entry.at), None)
    before = next((row for row in reversed(same) if now is not None and row.finished_at < now.finished_at), None)
    state, count = (now.state, now.rows) if now is not None else ("", None)
    if ROLLED_BACK_NOTE in entry.told:
        told = json_value(entry.told[ROLLED_BACK_NOTE])
        why: tuple[str, ...] = (f"to version {told['version']} by {told['by']}: {told['why']}",)
        return PublishedVersion(entry.version, entry.at, ROLLED_BACK, of.start, of.end, state, count, why)
    why = ()
    if now is not None and before is not None and _inputs(now):
        why = tuple(changes(_inputs(before), _inputs(now), captures))
    elif now is not None and before is None:
        why = ("first publication",)
    return PublishedVersion(entry.version, entry.at, PUBLISHED, of.start, of.end, state, count, why)


def _inputs(row: ReplayRow) -> Parts:
    """The parts of the inputs of a publication; empty in rows of an older version."""
    found: Parts = stored_object(row.accounting).get("inputs", {})
    return found
