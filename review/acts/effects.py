"""What a person can do on the pages, and what each act would do, before it is done.

An act is run again, backfill, approve, or set a skew. This module computes it from the ledgers; `pages` shows it,
and the host application (Airflow) does it with its own permissions. Without a host the command is shown.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lowwater.errors import LakeError
from lowwater.instants import format_duration, format_instant, parse_duration
from lowwater.lake.query_sets import KINDS
from lowwater.lake.results.exploring import instant_of
from lowwater.lake.tables import interval_page, safe_name
from lowwater.lake.words import HELD, RUNNING, STALE
from lowwater.replay.job import Job
from lowwater.replay.schedule.due import Due, DueSelection, due
from lowwater.replay.schedule.skew_review import SkewChange, skew_change

from ..lateness import link_review
from ..ledgers import Interval, Ledgers, Snapshot

RUN, BACKFILL, APPROVE, SKEW = "run", "backfill", "approve", "skew"
ACTS = (RUN, BACKFILL, APPROVE, SKEW)
SHOWN = 50
"""Most intervals that a page lists; the number is that of all."""


@dataclass(frozen=True)
class Act:
    """An act before it is done."""

    kind: str  # one of `ACTS`
    name: str  # name of the query set, of the link for a skew
    title: str  # what would be done
    effects: tuple[str, ...]  # sentences that say what would follow
    work: tuple[Due, ...]  # intervals that would run, or become stale
    command: str  # the command that does the same
    fields: Mapping[str, str]  # what the form sends, by name
    query_sets: tuple[str, ...]  # query sets whose rows would change
    span: tuple[int, int] | None  # first instant and end of the time concerned, ns since the epoch; None for a skew
    refusal: str  # why it cannot be done now; empty if it can
    change: SkewChange | None  # the change of the settings; None unless it is a skew
    back: str  # address of the page to go back to, from the start of the pages
    in_order: bool = False  # whether its intervals run one at a time, each from the state of the one before

    @property
    def said(self) -> str:
        """The act and its effects as one text: whoever confirms it has seen exactly this."""
        work = [f"{each.query_set} {each.start} {each.end} {each.state} {each.blocked}" for each in self.work]
        return "\n".join([self.kind, self.name, repr(sorted(self.fields.items())), *self.effects, *work])


class Host(Protocol):
    """The application that does an act for the user of one request."""

    def refusal(self, act: Act) -> str:
        """Says why this user may not do the act, or why it cannot be done; empty if it can."""

    def effects(self, act: Act) -> Sequence[str]:
        """Sentences about what the host itself would do."""

    def seal(self, text: str) -> str:
        """Signs a text for this user, so that a form proves where it comes from."""

    def perform(self, act: Act) -> str:
        """Does the act; returns a sentence about what was done. Raises LowwaterError if it was refused."""


class CommandHost:
    """The pages without Airflow: nothing is done, the command is shown."""

    def refusal(self, act: Act) -> str:
        return "These pages only read. Run the command below, or use the pages inside Airflow."

    def effects(self, act: Act) -> Sequence[str]:
        return ()

    def seal(self, text: str) -> str:
        return ""

    def perform(self, act: Act) -> str:
        raise LakeError("these pages only read")


def make_act(ledgers: Ledgers, snapshot: Snapshot, kind: str, safe: str, given: Mapping[str, str]) -> Act | None:
    """Computes an act; None if the query set or link is unknown to the user.
    Raises LowwaterError if a parameter is wrong, or the ledgers cannot be read.

    Args:
        kind: one of `ACTS`.
        safe: name of the query set or link, as addresses have it.
        given: parameters: `start` and `end`, `only`, `order`, `bound`.
    """
    if kind == SKEW:
        link = next((name for name in snapshot.captures if safe_name(name) == safe), None)
        return None if link is None else _skew(ledgers, snapshot, link, given.get("bound", ""))
    job = next((job for name, job in snapshot.jobs.items() if safe_name(name) == safe), None)
    if job is None or kind not in ACTS:
        return None
    start, end = (instant_of(given.get(name, ""), name) for name in ("start", "end"))
    job.require_bounds(start, end)
    if kind == BACKFILL:
        return _backfill(snapshot, job, start, end, given)
    key = job.query_set, start, end
    interval = next((each for each in snapshot.part(start, start + 1).intervals if each.key == key), None)
    if kind == RUN and interval is not None and interval.intervals > 1:
        return _backfill(snapshot, job, start, end, given)
    if end - start != job.length:
        raise LakeError(f"{format_instant(start)} to {format_instant(end)} is not one interval")
    return (_run if kind == RUN else _approve)(snapshot, job, start, end, interval)


def _words(snapshot: Snapshot, *words: str) -> str:
    return shlex.join(["lowwater", *words, "--lake", str(snapshot.lake.root)])


def _bounds(start: int, end: int) -> tuple[str, ...]:
    return "--from", format_instant(start), "--to", format_instant(end)


def _run(snapshot: Snapshot, job: Job, start: int, end: int, interval: Interval | None) -> Act:
    work = due(job, DueSelection(start, end))
    state = interval.state if interval else "missing"
    refusal = ""
    if not work:
        effects = ["Nothing would change: the interval is published from the same inputs, and is left alone."]
    elif work[0].blocked:
        effects = [f"The run would wait, then fail: {work[0].blocked}."]
    elif interval is not None and interval.rows is not None:
        effects = [f"The {interval.rows:,} published rows are replaced in one commit. Readers see the old or the new."]
    else:
        effects = ["The rows become visible in one commit, if no critical expectation fails."]
    if state == RUNNING:
        refusal = "A process is at work on the interval."
    if job.chained and work:
        effects.append("Later intervals hand on its state, so they become stale if its rows change.")
    return Act(
        RUN,
        job.query_set,
        f"Run {job.query_set} again",
        tuple(effects),
        tuple(work),
        _words(snapshot, "replay", job.query_set, *_bounds(start, end)),
        {"start": format_instant(start), "end": format_instant(end)},
        (job.query_set,),
        (start, end),
        refusal,
        None,
        interval_page(job.query_set, start, end),
    )


def _approve(snapshot: Snapshot, job: Job, start: int, end: int, interval: Interval | None) -> Act:
    return Act(
        APPROVE,
        job.query_set,
        f"Publish {job.query_set} in spite of its warnings",
        ("The audited rows become visible in one commit.",),
        (),
        _words(snapshot, "replay", job.query_set, "--stage", "publish", *_bounds(start, end)),
        {"start": format_instant(start), "end": format_instant(end)},
        (job.query_set,),
        (start, end),
        "" if interval and interval.state in (HELD, STALE) else "The interval does not wait for approval.",
        None,
        interval_page(job.query_set, start, end),
    )


def _number(work: Sequence[Due]) -> int:
    return sum(each.intervals for each in work)


def _backfill(snapshot: Snapshot, job: Job, start: int, end: int, given: Mapping[str, str]) -> Act:
    only = tuple(kind for kind in KINDS if kind in given.get("only", "").split(","))
    newest = given.get("order") == "newest" and not job.chained
    work = due(job, DueSelection(start, end, only))
    ready = [each for each in work if not each.blocked]
    seconds = [each.seconds for each in ready if each.seconds is not None]
    effects = [
        f"{_number(ready):,} of {(end - start) // job.length:,} intervals are due and would run; the others are left "
        "alone."
    ]
    if len(ready) < len(work):
        blocked = _number(work) - _number(ready)
        effects.append(f"{blocked:,} cannot start: each waits for its links, then fails.")
    if seconds:
        effects.append(f"About {sum(seconds):,.0f} s of work, by earlier runs.")
    words = [word for kind in only for word in ("--only", kind)] + (["--order", "newest"] if newest else [])
    fields = {"start": format_instant(start), "end": format_instant(end)}
    fields |= {"only": ",".join(only), "order": "newest" if newest else "oldest"}
    return Act(
        BACKFILL,
        job.query_set,
        f"Backfill {job.query_set}",
        tuple(effects),
        tuple(work),
        _words(snapshot, "backfill", "--query-set", job.query_set, *_bounds(start, end), *words),
        fields,
        (job.query_set,),
        (start, end),
        "" if work else "Nothing is due in this range.",
        None,
        f"set/{safe_name(job.query_set)}.html",
        job.chained,
    )


def _skew(ledgers: Ledgers, snapshot: Snapshot, link: str, text: str) -> Act:
    review = link_review(snapshot, link)
    try:
        bound = parse_duration(text) if text else review.skew if review.recommended is None else review.recommended
    except ValueError as error:
        raise LakeError(f"bound={text!r:.40}: {error}") from None
    everything = ledgers.now()  # what becomes stale does not depend on who looks
    change = skew_change(ledgers.root, ledgers.queries, everything.jobs.values(), link, bound)
    lost, now = review.lost(bound), review.lost(review.skew)
    hidden = len(set(change.query_sets) - set(snapshot.jobs))
    effects = [
        f"The skew of {change.link} becomes {format_duration(bound)} in lowwater.toml; it is "
        f"{format_duration(change.before)}.",
        f"Of the records that were reviewed it refuses {lost:,}; the present one refuses {now:,}.",
        f"{change.effect}. What is stale stays visible until it is run again.",
    ]
    if hidden:
        effects.append(f"{hidden} query sets that you may not see read the link.")
    stale = [each for each in change.stale if each.query_set in snapshot.jobs]
    same = "The skew is in force already." if bound == change.before else ""
    return Act(
        SKEW,
        link,
        f"Set the skew of {change.link} to {format_duration(bound)}",
        tuple(effects),
        tuple(stale),
        _words(snapshot, "skew", "--link", link, "--set", format_duration(bound)),
        {"bound": format_duration(bound)},
        change.query_sets,
        None,
        same,
        change,
        f"skew/{safe_name(link)}.html",
    )


def after(act: Act) -> list[tuple[str, str]]:
    """Lists (address, name) of what to do after an act: a backfill of each query set whose intervals became stale."""
    if act.change is None:
        return []
    of_set: dict[str, list[Due]] = {}
    for each in act.work:
        of_set.setdefault(each.query_set, []).append(each)
    return [
        (
            f"act/{BACKFILL}/{safe_name(name)}?start={format_instant(stale[0].start)}"
            f"&end={format_instant(stale[-1].end)}&only=stale",
            f"Backfill the {len(stale):,} stale interval{'s' * (len(stale) != 1)} of {name}",
        )
        for name, stale in sorted(of_set.items())
    ]


__all__ = ["ACTS", "Act", "CommandHost", "Host", "after", "make_act"]
