"""What every interval of every query is: missing, done, stale and so on (SEMANTICS T6, S1, S4).

Reads the ledgers only; whoever asks brings the digest of the inputs as they are now, which needs the plan.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.captures import Capture, read_captures
from lowwater.lake.ledgers.runs import DONE, FAILED, INCOMPLETE, PROVISIONAL, PUBLISH, Replay, read_replays

MISSING, STALE, HALF = "missing", "stale", "half published"
BLOCKED = "cannot start"
"""What an interval that is to run is called where it cannot: a link has not reported, a capture is to be read again."""

GRAVEST = (FAILED, STALE, HALF, MISSING, PROVISIONAL, INCOMPLETE, DONE)
"""The states of the queries of an interval, that which is told of the interval first."""
NEVER = "never run"


@dataclass(frozen=True)
class Expected:
    """A query set as status needs it.

    Attributes:
        name: the name of the set.
        queries: its output queries.
        links: that it reads.
        length: the length of its intervals, ns.
        digest: the digest of the inputs of [start, end), ns, of one query, as they are now: (query, start, end) -> hex.
        outdated: why captures that [start, end) reads must be ingested again first, or an empty text.
        lacking: why a run of [start, end), ns, cannot start as things are now; empty where it can.
        through: instant (ns) up to which rows are due though every link has ended; 0 where one has not.
        also: intervals [start, end), ns, that are told of even where no capture covers them and nothing ran: those that
            hold packets, and those that somebody asks for.
        changed: how the inputs differ from those of a publication, given its accounting: (query, start, end, JSON).
        lost: why an interval of unchanged inputs runs again: its state is gone; or an empty text: (query, start, end).
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


@dataclass(frozen=True)
class StatusRow:
    """The state of one query over one interval [start, end), ns; `reason` says why it is not done.

    `rows` are those that are visible, as the last publication counted them; None where there was none. `lacking` says
    why an interval that is to run cannot start.
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
        """What people are shown of it: its state, or that it cannot start, which comes before every other."""
        return BLOCKED if self.lacking else self.state

    @property
    def why(self) -> str:
        """Why it is not done, and what keeps it from running."""
        if not self.lacking:
            return self.reason
        said = "" if self.reason == NEVER else f"{self.state}: {self.reason}"
        return "; ".join(filter(None, (said, *(each for each in self.lacking if each not in said))))


def status(lake: Lake, sets: Iterable[Expected]) -> list[StatusRow]:
    """The state of each interval between the first and the last coverage of a set's links, ever run, or of `also`.

    Returns:
        Rows by set, interval and query.
    """
    return [row for each in sets for row in _of_set(lake, each)]


def _of_set(lake: Lake, expected: Expected) -> Iterator[StatusRow]:
    replays = read_replays(lake, expected.name)
    captures = [row for rows in read_captures(lake, expected.links).values() for row in rows]
    intervals = {*covered(captures, expected.length, expected.through), *expected.also}
    intervals |= {(row.interval_start, row.interval_end) for row in replays if row.query in ("", *expected.queries)}
    newest: dict[tuple[int, int], dict[tuple[str, str], Replay]] = defaultdict(dict)
    for row in replays:
        newest[row.interval_start, row.interval_end][row.query, row.stage] = row
    for start, end in sorted(intervals):
        yield from _of_interval(expected, start, end, list(newest[start, end].values()))


def covered(captures: Sequence[Capture], length: int, through: int = 0) -> Iterator[tuple[int, int]]:
    """The intervals of a length, ns, between the first and the last coverage of some links, or up to `through`."""
    spans = [(row.covers_from, row.covers_to) for row in captures if row.covers_to > row.covers_from]
    if spans:
        last = max(end for _, end in spans)
        for start in range(min(begin for begin, _ in spans) // length * length, max(last, through), length):
            # Nobody has reported to the end of a later one, unless nothing comes any more.
            if start + length <= last or start < through:
                yield start, start + length


def _of_interval(expected: Expected, start: int, end: int, rows: Sequence[Replay]) -> Iterator[StatusRow]:
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
        held = lacking if state in (MISSING, HALF, STALE, FAILED) else ()
        yield StatusRow(expected.name, query, start, end, state, reason, visible_rows, held)


def _of_query(expected: Expected, query: str, start: int, end: int, rows: Sequence[Replay]) -> tuple[str, str]:
    mine = sorted((row for row in rows if row.query in (query, "")), key=lambda row: row.finished_at)
    if not mine:
        return MISSING, NEVER
    published = [row for row in mine if row.query == query and row.stage == PUBLISH and row.state != FAILED]
    if mine[-1].state == FAILED:
        kept = "; what was published before is still visible" if published else ""
        cause = mine[-1].reason.partition("\n")[0]  # of an audit the first failure; the report has all
        return FAILED, f"{mine[-1].stage}: {cause}{kept}"
    if not published:
        return MISSING, f"{mine[-1].stage} was the last stage that ran"
    if published[-1].digest != expected.digest(query, start, end):
        return STALE, expected.changed(query, start, end, published[-1].accounting)
    for reason in (expected.lost(query, start, end), expected.outdated(start, end)):
        if reason:
            return STALE, reason
    return published[-1].state, "" if published[-1].state == DONE else published[-1].reason


def gravest(rows: Iterable[StatusRow]) -> StatusRow:
    """What is told of an interval: the row of that of its queries which is told first."""
    return min(rows, key=lambda row: GRAVEST.index(row.state))


def interval_status(expected: Expected, start: int, end: int, rows: Sequence[Replay]) -> list[StatusRow]:
    """The state of each query over one interval, given the newest row of each of its stages and queries.

    Args:
        expected: the query set, and what its intervals are held against.
        start: first instant of the interval, ns since the epoch.
        end: end of the interval, ns since the epoch, exclusive.
        rows: the rows of the ledger `replays`, the newest of each stage and query.
    """
    return list(_of_interval(expected, start, end, rows))
