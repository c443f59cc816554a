"""A person accepts what is known to be missing of intervals, or takes that back; or approves what an audit holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lowwater.errors import ConfigError
from lowwater.instants import format_duration, format_instant
from lowwater.lake.ledgers import intervals, runs, statements
from lowwater.lake.ledgers.missing import Missing
from lowwater.replay.job import IntervalInputs, Job


def bounds_of(job: Job, start: int, end: int | None) -> tuple[int, int]:
    """Returns the intervals that begin at `start`, and end at `end`, ns; None for one of them.
    Raises ConfigError if a bound is no bound of an interval, or there is none between them."""
    unit, until = format_duration(job.length), start + job.length if end is None else end
    for option, at in (("--interval", start), ("--to", until)):
        if at % job.length:
            message = (
                f"{option} {format_instant(at)}: no interval of {job.query_set} has its bound there, each is {unit}"
            )
            raise ConfigError(message, f"give {option} {format_instant(at - at % job.length)}")
    if until <= start:
        message = f"--to {format_instant(until)} is not behind --interval {format_instant(start)}"
        raise ConfigError(message, f"give --to {format_instant(start + job.length)}, or a later one")
    return start, until


def accept(
    job: Job, start: int, end: int, link: str | None, cause: str, person: str, why: str, undo: bool = False
) -> list[Missing]:
    """Writes that a person accepts what is missing of a link, or of all that the set reads, for a cause, in the
    intervals of [start, end), ns; with `undo` that it is not accepted any more. Returns what that is about.
    Raises ConfigError if nothing of that kind is missing, or accepted, and LakeError if it cannot be written."""
    everything, chosen = [], []
    for inputs in _intervals(job, start, end):
        for found in inputs.all_missing():
            everything.append(found)
            if found.cause == cause and link in (None, found.link) and undo == bool(inputs.known.accepted(found)):
                chosen.append(found)
    if not chosen:
        raise _none(job, start, end, link, cause, undo, everything)
    act = statements.UNDO if undo else statements.ACCEPT
    about = ((found.link, found.cause, defect) for found in chosen for defect in found.defects)
    statements.state(job.lake, (statements.about_defect(act, *each, person, why) for each in about))
    return chosen


def _intervals(job: Job, start: int, end: int) -> Iterator[IntervalInputs]:
    captures = job.captures()
    known = job.known_missing(captures)
    for bounds in job.intervals(start, end):
        yield job.inputs(*bounds, captures, known)


def _none(
    job: Job, start: int, end: int, link: str | None, cause: str, undo: bool, everything: Sequence[Missing]
) -> ConfigError:
    span = f"{job.query_set}, {format_instant(start)} to {format_instant(end)}"
    of_link = f" of link {link!r}" if link is not None else ""
    state = "is accepted" if undo else "is missing that nobody has accepted"
    others = sorted({f"--link {found.link} --cause {found.cause}" for found in everything})
    hint = f"what is missing there: {', '.join(others)}" if others else "`lowwater status` says what is missing"
    return ConfigError(f"{span}: nothing{of_link} {state} for the cause {cause}", hint)


def approve_held(job: Job, start: int, end: int, person: str) -> None:
    """Keeps that a person approves the intervals of [start, end), ns, that wait for it: who publishes one by hand says
    so. Raises BusyError if a run is at work on one, and LakeError if it cannot be written."""
    if not job.approval:
        return
    for at, until in job.intervals(start, end):
        rows = runs.interval_replays(job.lake, job.query_set, at, until)
        mine = [row for row in rows if row.interval == (at, until)]
        if intervals.awaited(mine) and not intervals.consented(mine):
            intervals.approve(job.lake, job.query_set, at, until, person)
