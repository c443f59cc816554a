"""Status of every interval of every query: missing, done, stale and so on (SEMANTICS T6, S1, S4).

Reads the ledgers only; the caller brings the current digests of the inputs, which need the plan.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.captures import Captures, read_captures
from lowwater.lake.ledgers.runs import (
    DONE,
    FAILED,
    INCOMPLETE,
    PROVISIONAL,
    PUBLISH,
    ROLLED_BACK,
    ReplayRow,
    read_replays,
)

MISSING, STALE, HALF = "missing", "stale", "half published"
BLOCKED = "cannot start"
"""Status of a due interval that cannot run yet: a link has not reported, or a capture must be ingested again."""

GRAVEST = (FAILED, STALE, HALF, MISSING, ROLLED_BACK, PROVISIONAL, INCOMPLETE, DONE)
"""States of queries, the most important first: an interval shows the first one among its queries."""
NEVER = "never run"
NOTHING_MISSING = "nothing is missing any more, or what is missing is accepted"


@dataclass(frozen=True)
class StatusInputs:
    """A query set and its current inputs, for the status of its intervals.

    Attributes:
        name: name of the set.
        queries: output queries of the set.
        links: links that the set reads.
        length: length of an interval, ns.
        digest: (query, start, end) -> current digest of the inputs of [start, end), ns, in hex.
        outdated: (start, end) -> why captures that the interval reads must be ingested again; empty if they need not.
        lacking: (start, end) -> reasons why a run cannot start now; empty if it can.
        through: instant (ns) up to which rows are due although every link has ended; 0 while one has not.
        also: further intervals [start, end), ns, to report even without coverage or runs: with packets, or requested by
            the caller.
        changed: (query, start, end, accounting as JSON) -> how the inputs differ from those of the publication.
        lost: (query, start, end) -> why an interval with unchanged inputs must run again: its state is gone; or empty.
        missing: (start, end) -> what is known to be missing now, although its coverage has no gap (T6).
        gaps: (start, end) -> the gaps that its publication lets pass; None to take the reason that it gave.
    """

    name: str
    queries: tuple[str, ...]
    links: tuple[str, ...]
    length: int
    digest: Callable[[str, int, int], str]
    outdated: Callable[[int, int], str] = lambda start, end: ""
    lacking: Callable[[int, int], Sequence[str]] = lambda start, end: ()
    through: int = 0
    also: tuple[tuple[int, int], ...] = ()
    changed: Callable[[str, int, int, str], str] = lambda query, start, end, accounting: "its inputs have changed since"
    lost: Callable[[str, int, int], str] = lambda query, start, end: ""
    missing: Callable[[int, int], Sequence[str]] = lambda start, end: ()
    gaps: Callable[[int, int], Sequence[str]] | None = None


@dataclass(frozen=True)
class StatusRow:
    """State of a query over the interval [start, end), ns.

    Attributes:
        query_set: name of the query set.
        query: name of the query.
        start: begin of the interval, ns.
        end: end of the interval, ns, exclusive.
        state: state of the query.
        reason: reason why it is not done.
        rows: number of visible rows according to the last publication; None without one.
        lacking: reasons why a due interval cannot run.
    """

    query_set: str
    query: str
    start: int
    end: int
    state: str
    reason: str
    rows: int | None
    lacking: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """State to show: `cannot start` comes before every other."""
        return BLOCKED if self.lacking else self.state

    @property
    def why(self) -> str:
        """Reasons why the interval is not done, and why it cannot run."""
        if not self.lacking:
            return self.reason
        state_text = "" if self.reason == NEVER else f"{self.state}: {self.reason}"
        return "; ".join(filter(None, (state_text, *(cause for cause in self.lacking if cause not in state_text))))


def status(
    lake: Lake,
    sets: Iterable[StatusInputs],
    wanted: Callable[[int, int], bool] = lambda start, end: True,
    span: tuple[int, int] | None = None,
) -> list[StatusRow]:
    """Computes the state of every interval with coverage, with a run, or in `also`.

    Args:
        lake: the open lake.
        sets: what is expected of each query set.
        wanted: whether the interval [start, end), ns, is asked for; the others cost nothing.
        span: range, ns, that all intervals that are asked for meet; None for no bounds.

    Returns:
        Rows by set, interval and query.
    """
    return [row for inputs in sets for row in _of_set(lake, inputs, wanted, span)]


def _of_set(
    lake: Lake, expected: StatusInputs, wanted: Callable[[int, int], bool], span: tuple[int, int] | None
) -> Iterator[StatusRow]:
    replays = read_replays(lake, expected.name, span)
    captures = read_captures(lake, expected.links)
    intervals = {*covered(captures.values(), expected.length, expected.through), *expected.also}
    intervals |= {(row.interval_start, row.interval_end) for row in replays if row.query in ("", *expected.queries)}
    newest: dict[tuple[int, int], dict[tuple[str, str], ReplayRow]] = defaultdict(dict)
    for row in replays:
        newest[row.interval_start, row.interval_end][row.query, row.stage] = row
    for start, end in sorted(interval for interval in intervals if wanted(*interval)):
        yield from _of_interval(expected, start, end, list(newest[start, end].values()))


def covered(captures: Iterable[Captures], length: int, through: int = 0) -> Iterator[tuple[int, int]]:
    """Yields the intervals of a length, ns, from the first to the last coverage of links, or up to `through`."""
    spans = [(rows.spans[0][0], rows.spans[-1][1]) for rows in captures if rows.spans]
    if spans:
        last = max(end for _, end in spans)
        for start in range(min(begin for begin, _ in spans) // length * length, max(last, through), length):
            # No link has reported to the end of a later interval, unless all links have ended.
            if start + length <= last or start < through:
                yield start, start + length


def _of_interval(expected: StatusInputs, start: int, end: int, rows: Sequence[ReplayRow]) -> Iterator[StatusRow]:
    states = {query: _of_query(expected, query, start, end, rows) for query in expected.queries}
    visible = [query for query, (state, _) in states.items() if state not in (MISSING, STALE, FAILED)]
    waits = any(state in (MISSING, STALE, FAILED) for state, _ in states.values())
    lacking = tuple(expected.lacking(start, end)) if waits else ()
    for query, (state, reason) in states.items():
        if visible and state == MISSING:
            reason = f"published: {', '.join(visible)}; not: {query} ({reason}): run the interval again"
            state = HALF
        published = [row for row in rows if row.query == query and row.stage == PUBLISH and row.state != FAILED]
        visible_rows = published[-1].rows if published else None
        blocked = lacking if state in (MISSING, HALF, STALE, FAILED) else ()
        yield StatusRow(expected.name, query, start, end, state, reason, visible_rows, blocked)


def _of_query(expected: StatusInputs, query: str, start: int, end: int, rows: Sequence[ReplayRow]) -> tuple[str, str]:
    query_rows = sorted((row for row in rows if row.query in (query, "")), key=lambda row: row.finished_at)
    if not query_rows:
        return MISSING, NEVER
    published = [row for row in query_rows if row.query == query and row.stage == PUBLISH and row.state != FAILED]
    if query_rows[-1].state == FAILED:
        note = "; what was published before is still visible" if published else ""
        cause = query_rows[-1].reason.partition("\n")[0]  # the first failure of an audit; the report has all
        return FAILED, f"{query_rows[-1].stage}: {cause}{note}"
    if not published:
        return MISSING, f"{query_rows[-1].stage} was the last stage that ran"
    if published[-1].state == ROLLED_BACK and not published[-1].digest:
        return STALE, published[-1].reason  # lifted
    if published[-1].digest != expected.digest(query, start, end):
        return STALE, expected.changed(query, start, end, published[-1].accounting)
    for reason in (expected.lost(query, start, end), expected.outdated(start, end)):
        if reason:
            return STALE, reason
    state, reason = published[-1].state, published[-1].reason
    # What is missing may have become known, or have been read or set aside, only after the publication.
    missing = expected.missing(start, end) if state in (DONE, PROVISIONAL, INCOMPLETE) else ()
    if state == INCOMPLETE and expected.gaps is not None:
        return state, "; ".join([*expected.gaps(start, end), *missing]) or NOTHING_MISSING
    if missing:
        return INCOMPLETE, "; ".join(missing)
    return state, "" if state == DONE else reason


def gravest(rows: Iterable[StatusRow]) -> StatusRow:
    """Returns the row that stands for an interval: that with the most important state."""
    return min(rows, key=lambda row: GRAVEST.index(row.state))


def interval_status(expected: StatusInputs, start: int, end: int, rows: Sequence[ReplayRow]) -> list[StatusRow]:
    """Computes the state of the queries over one interval from ledger rows.

    Args:
        expected: the query set and its current inputs.
        start: first instant of the interval, ns since the epoch.
        end: end of the interval, ns since the epoch, exclusive.
        rows: rows of `replays`, the newest of every stage and query.
    """
    return list(_of_interval(expected, start, end, rows))
