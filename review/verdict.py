"""The verdict of the overview: one sentence on a month of intervals, and what to do about it.

States and reasons are those of `lowwater status`. The gravest state speaks; within it the oldest interval, because
later ones often wait for it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lowwater_expectations.audits import headline

from lowwater.instants import format_instant, spoken_instant
from lowwater.lake.tables import interval_page, safe_name
from lowwater.lake.words import (
    BLOCKED,
    DAMAGED,
    DONE,
    FAILED,
    HALF,
    HELD,
    INCOMPLETE,
    KEPT,
    MISSING,
    PROVISIONAL,
    ROLLED_BACK,
    RUNNING,
    STALE,
    WARNED,
    gravest,
)
from lowwater.quality.reports import IntervalAudit, Key

from .ledgers import Interval, Snapshot

GOOD = (KEPT, WARNED, DONE)
SENTENCES = {
    FAILED: "failed",
    BLOCKED: BLOCKED,
    HALF: "published only some of their queries",
    MISSING: "have not run",
    HELD: "passed the audit and were not published",
    STALE: "are published from inputs that have changed",
    DAMAGED: "are not in the tables as they were published",
    ROLLED_BACK: "were rolled back to an earlier version",
    INCOMPLETE: "are published without traffic that is missing",
    PROVISIONAL: "are published before all records could have come",
}
ADVICE = {
    FAILED: (
        "look at what failed, mend it, and run the interval again",
        "lowwater report --lake {lake} --interval {start}",
    ),
    BLOCKED: ("ingest the captures that are missing", "lowwater ingest --lake {lake}"),
    HELD: ("approve it", "lowwater replay {set} --lake {lake} --stage publish --from {start} --to {end}"),
    ROLLED_BACK: (
        "nothing, or lift the roll back: then it runs again",
        "lowwater rollback QUERY --lake {lake} --at {start} --lift --because REASON",
    ),
    INCOMPLETE: (
        "ingest what is missing if it exists, or set its files aside, and run it again",
        "lowwater ingest --lake {lake}",
    ),
    PROVISIONAL: (
        "nothing: it becomes whole when later records have come and it runs again",
        "lowwater plan --lake {lake}",
    ),
}
RUN = ("run what is due", "lowwater backfill --lake {lake}")


@dataclass(frozen=True)
class OverviewVerdict:
    """What the overview says first."""

    state: str  # gravest state; `done` if all is good
    sentence: str  # what is so, of which query set and link, since when
    reason: str = ""  # why; empty if all is good
    advice: str = ""  # what to do; empty if nothing is to be done
    command: str = ""  # the command that does it
    address: str = ""  # page of the interval to look at; empty without one
    act: tuple[str, str] | None = None  # address and name of the act that mends it; None without one


def overview_verdict(
    snapshot: Snapshot, intervals: Sequence[Interval], audits: Mapping[Key, IntervalAudit]
) -> OverviewVerdict | None:
    """Judges the intervals of a month; None without intervals.

    Args:
        intervals: intervals of the month, of all query sets.
        audits: newest audits of the intervals.
    """
    judged = [interval for interval in intervals if interval.state != RUNNING]
    if not judged:
        return None
    bad = [interval for interval in judged if interval.state not in GOOD]
    if not bad:
        names = len({interval.query_set for interval in judged})
        warned = sum(interval.state == WARNED for interval in judged)
        since = spoken_instant(min(interval.start for interval in judged))
        told = f", {_counted(warned, 'of them with a warning', 'of them with warnings')}" if warned else ""
        kept = sum(interval.intervals for interval in judged if interval.state == KEPT)
        told += f", {_counted(kept, 'of them kept as it is', 'of them kept as they are')}" if kept else ""
        number = f"{_counted(_number(judged), 'interval', 'intervals')} of {_counted(names, 'query set', 'query sets')}"
        return OverviewVerdict(DONE, f"All good since {since}: {number} published{told}.")
    state = gravest(interval.state for interval in bad)
    worst = [interval for interval in bad if interval.state == state]
    first = min(worst, key=lambda interval: interval.start)
    links = [link for link in sorted(snapshot.captures) if any(_names(link, interval.reason) for interval in worst)]
    sets = sorted({interval.query_set for interval in worst})
    of = f" of query set {sets[0]}" if len(sets) == 1 else f" of {len(sets)} query sets"
    by = f" for {_listed('link', links)}" if links else ""
    words = SENTENCES.get(state, state)
    if _number(worst) == 1:
        words = re.sub("^have", "has", re.sub("^are", "is", words)).replace("their", "its").replace("were", "was")
        number, since = "1 interval", ": that of"
    else:
        number, since = f"{_number(worst):,} intervals", ", since"
    others = _number(bad) - _number(worst)
    more = f" {others:,} more {'is' if others == 1 else 'are'} not done." if others else ""
    sentence = f"{number}{of} {words}{by}{since} {spoken_instant(first.start)}.{more}"
    advice, command = ADVICE.get(state, RUN)
    values = {"lake": shlex.quote(str(snapshot.lake.root)), "set": shlex.quote(first.query_set)}
    bounds = {"start": format_instant(first.start), "end": format_instant(first.end)}
    address = interval_page(first.query_set, first.start, first.end)
    audit = audits.get(first.key)
    failures = audit.failures if audit is not None and state == FAILED and first.by_audit else ()
    reason = headline(failures[0].messages, failures[0].title) if failures else first.reason
    mine = [interval for interval in worst if interval.query_set == first.query_set]
    act = _act(state, first, max(mine, key=lambda interval: interval.start))
    return OverviewVerdict(state, sentence, reason, advice, command.format(**values, **bounds), address, act)


def _act(state: str, first: Interval, last: Interval) -> tuple[str, str] | None:
    """The act that mends the intervals of a query set from one to another."""
    safe, start = safe_name(first.query_set), format_instant(first.start)
    one = f"{safe}?start={start}&end={format_instant(first.end)}"
    if state == HELD:
        return f"act/approve/{one}", "Approve it"
    if state == FAILED:
        return f"act/run/{one}", "Run it again"
    if state in (MISSING, HALF, STALE, DAMAGED):
        return f"act/backfill/{safe}?start={start}&end={format_instant(last.end)}", "Backfill them"
    return None


def _number(intervals: Sequence[Interval]) -> int:
    return sum(interval.intervals for interval in intervals)


def _counted(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _listed(noun: str, names: Sequence[str]) -> str:
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"{noun}{'s' if len(names) > 1 else ''} {shown}"


def _names(name: str, text: str) -> bool:
    """Whether a text has a name as a whole word."""
    return re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w/-])", text) is not None
