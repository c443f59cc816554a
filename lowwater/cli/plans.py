"""`lowwater plan`: the intervals that are due, and what they cost; also what `backfill` says before it runs them."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePath

from lowwater import errors, terminal
from lowwater.cli.by_day import work_of_days
from lowwater.cli.options import require_range
from lowwater.cli.why import asks_why
from lowwater.instants import HOUR, format_instant
from lowwater.lake import keys, words
from lowwater.lake.answers import answered
from lowwater.lake.ingestion import known_files
from lowwater.lake.ingestion.settled import lying
from lowwater.lake.ledgers import captures, intervals, missing
from lowwater.lake.ledgers.files import told_files, unread_lines
from lowwater.lake.ledgers.places import location
from lowwater.lake.sheets import RANGE, REASON, SET, TEXT, Sheet, say_sheet
from lowwater.replay.job import Job, TrialChanges
from lowwater.replay.schedule.due import Due, DueSelection, due, open_jobs, outdated_audits, timeless

DIGITS = 3
"""Number of digits of an estimate."""

SHOWN = 3
"""Maximum number of reasons of an interval in a table; JSON has all."""


@dataclass(frozen=True)
class IntervalSelection:
    """Selects intervals of query sets: the options that `plan` and `backfill` share."""

    lake: PurePath
    start: int | None  # first instant, ns since the epoch; None for no bound
    end: int | None  # end, ns since the epoch, exclusive; None for no bound
    names: tuple[str, ...]  # names of query sets; empty for all of the settings
    kinds: tuple[str, ...]  # words of `lake.words` to include; empty for all
    through_end: bool  # whether to include intervals that captures cover only in part, where a link begins or ends
    queries: Path
    changes: TrialChanges | None = None  # query files and skews to try; None for none


def show_plan(selection: IntervalSelection, form: str, zone: str | None = None) -> None:
    """Prints the intervals that are due, as `text` or `json`; as text with a `zone` a line for each of its days."""
    kept: list[intervals.StatusRow] = []
    jobs, work, _ = find_due(selection, kept=kept)
    lake, config, links = jobs[0].lake, jobs[0].config, _links(jobs)

    def told() -> list[object]:
        lost = [*missing.outside_lines(lake, config), *missing.drop_lines(lake)]
        return [lost, unread_lines(lake, config, links), any(captures.read_captures(lake, sorted(links)).values())]

    lost, unread, captured = answered(lake, "lines of a plan", repr((config, config.ended, sorted(links))), told)
    unread = [*_lying(jobs), *unread]
    if form == "json":
        terminal.say(_as_json(work, kept, unread))
        return
    if not work:
        terminal.say("nothing is due" if captured else nothing_due(selection.lake, jobs))
    else:
        _show_table(work, counted_word(jobs), zone)
        if selection.changes is None:
            terminal.say(asks_why(selection.lake))
    for line in kept_lines(kept):
        terminal.say(line)
    for line in (*lost, *unread):
        terminal.say(line)
    for job in jobs:
        if others := outdated_audits(job, DueSelection(selection.start, selection.end)):
            first, last = format_instant(others[0][0]), format_instant(others[-1][1])
            terminal.say(
                f"{job.query_set}: {in_intervals(len(others))} audited by suites or limits that have changed since; to "
                f"audit the same rows again: lowwater replay {job.query_set} --lake {shlex.quote(str(selection.lake))} "
                f"--stage audit --from {first} --to {last}"
            )


def nothing_due(root: PurePath, jobs: Sequence[Job]) -> str:
    """Says that nothing is due; where that is because the lake holds no captures, what to do."""
    links = sorted(_links(jobs))
    if not links or any(captures.read_captures(jobs[0].lake, links).values()):
        return "nothing is due"
    if unread_lines(jobs[0].lake, jobs[0].config, links):  # which say what to do
        return f"nothing is due: the lake has no captures of link{'s' * (len(links) > 1)} {', '.join(links)}"
    command = f"lowwater ingest --lake {shlex.quote(str(root))}"
    if any(jobs[0].config.link(link).patterns for link in links):
        more = "` takes in those that its settings name"
    else:
        more = f" --link {shlex.quote(links[0])} FILE` takes in a file"
    many = "s" if len(links) > 1 else ""
    return f"nothing is due: the lake has no captures of link{many} {', '.join(links)}\n  hint: `{command}{more}"


def _lying(jobs: Sequence[Job]) -> list[str]:
    """Says which files lie in the folders of links that no ingest has seen yet: what is due follows from them, too."""
    lake, config = jobs[0].lake, jobs[0].config
    lie = lying(lake, config, _links(jobs), time.time_ns())
    known = {location(lake, key) for key in told_files(lake)} if lie else set()
    files: dict[str, list[str]] = {}
    ledgers: dict[str, known_files.KnownFiles] = {}
    for link, path in lie:
        if link not in ledgers:  # it takes a look at every file of the link
            ledgers[link] = known_files.KnownFiles(lake, link, config)
        # What was ingested while its last write was new is looked at once more, and is no news.
        seen = any(row.size == path.stat().st_size for row, _ in ledgers[link].at(path))
        if not seen and str(path.absolute()) not in known:
            files.setdefault(link, []).append(path.name)
    return [
        f"link {link!r}: {len(names):,} file{'' if len(names) == 1 else 's'} not ingested yet, {sorted(names)[0]}"
        f"{' the first' if len(names) > 1 else ''}: lowwater ingest --lake {shlex.quote(str(lake.root))}"
        for link, names in sorted(files.items())
    ]


def _links(jobs: Sequence[Job]) -> set[str]:
    return {link for job in jobs for link in job.plan.links}


def counted_word(jobs: Sequence[Job]) -> str:
    """Names what the links of query sets hold: packets, or records where some links hold others."""
    kinds = {job.config.link(link).kind for job in jobs for link in job.plan.links}
    return "packets" if kinds <= {"pcap"} else "records"


def _show_table(work: Sequence[Due], counted: str, zone: str | None) -> None:
    say_sheet(_of_intervals(work, counted) if zone is None else work_of_days(work, zone))
    for line in stale_lines(work):
        terminal.say(line)
    terminal.say(total(work, counted))


def _of_intervals(work: Sequence[Due], counted: str) -> Sheet:
    """The intervals that are due, those that are alike together."""
    columns = {"interval": RANGE, "query set": SET, "state": TEXT, counted: TEXT, "seconds": TEXT, "why": REASON}
    rows = []
    for group in alike(work, _why):
        first, known = group[0], [each.seconds for each in group if each.seconds is not None]
        row = (
            (first.start, group[-1].end, number_of(group)),
            first.query_set,
            first.word,
            _packets(sum(each.packets for each in group), all(each.exact for each in group)),
            f"{sum(known):,.1f}" if len(known) == len(group) else "?",
            together(group, _why(first)),
        )
        rows.append(row)
    return Sheet(columns, rows)


def stale_lines(work: Sequence[Due]) -> list[str]:
    """Says once of each cause why rows are stale: of which queries, how many intervals, the first and the last."""
    by_cause: dict[tuple[str, str, str], dict[Due, None]] = {}
    for interval in work:
        for query, causes in interval.causes.items():
            for cause in causes:
                by_cause.setdefault((interval.query_set, query, keys.kind(cause)), {})[interval] = None
    queries_of: dict[tuple[str, tuple[Due, ...]], list[str]] = {}
    for (_, query, cause), intervals_of in by_cause.items():
        queries_of.setdefault((cause, tuple(intervals_of)), []).append(query)
    lines = []
    for (cause, stale), queries in queries_of.items():
        count = number_of(stale)
        hours = all(each.end - each.start == HOUR * each.intervals for each in stale)
        unit = f"{'hour' if hours else 'interval'}{'' if count == 1 else 's'}"
        first, last = min(each.start for each in stale), max(each.end for each in stale)
        span = format_instant(first) + (f" to {format_instant(last)}" if count > 1 else "")
        lines.append(f"{', '.join(queries)}: {count:,} {unit} stale: {cause}, {span}")
    return lines


def kept_lines(kept: Sequence[intervals.StatusRow]) -> list[str]:
    """Says once of each cause which intervals are not of today's inputs and stay as they are (S11): of which queries,
    how many, the first and the last, and which packets were removed."""
    by_cause: dict[tuple[str, str, str], dict[tuple[int, int], intervals.StatusRow]] = {}
    for row in kept:
        text = row.reason.removesuffix(row.removed).removesuffix("; ")
        for cause in text.split("; "):
            by_cause.setdefault((row.query_set, row.query, keys.kind(timeless(cause))), {})[row.start, row.end] = row
    queries_of: dict[tuple[str, tuple[tuple[int, int], ...]], list[tuple[str, intervals.StatusRow]]] = {}
    for (_, query, cause), rows in by_cause.items():
        for row in rows.values():
            queries_of.setdefault((cause, tuple(rows)), []).append((query, row))
    lines = []
    for (cause, spans), found in queries_of.items():
        count = sum({(row.start, row.end): row.intervals for _, row in found}.values())
        queries = ", ".join(dict.fromkeys(query for query, _ in found))
        removed = max((row for _, row in found), key=lambda row: row.start).removed
        lines.append(
            f"{queries}: {in_intervals(count)} kept, which no run reaches: {cause}, {format_instant(min(spans)[0])} to "
            f"{format_instant(max(spans)[1])}; {removed}"
        )
    return lines


def alike(work: Sequence[Due], why: Callable[[Due], str]) -> list[list[Due]]:
    """Puts intervals together that follow each other and cannot start, or are stale, for causes that differ in their
    instants or captures only."""
    groups: list[list[Due]] = []
    for interval in sorted(work, key=lambda due: (due.query_set, due.start)):
        last = groups[-1] if groups else []
        if (
            last
            and (interval.blocked or interval.causes)
            and (last[-1].query_set, last[-1].end, last[-1].state, bool(last[-1].running), [*last[-1].causes])
            == (interval.query_set, interval.start, interval.state, bool(interval.running), [*interval.causes])
            and _kinds(why(last[-1])) == _kinds(why(interval))
        ):
            last.append(interval)
        else:
            groups.append([interval])
    return sorted(groups, key=lambda group: (group[0].start, group[0].query_set))


def _kinds(why: str) -> list[str]:
    return list(dict.fromkeys(keys.kind(timeless(part)) for part in re.split(r"; |\. Cannot start: ", why)))


def together(group: Sequence[Due], why: str) -> str:
    """Adds to the cause of the first interval of a group that the others have others of its kind."""
    if len(group) == 1 or all(each.causes == group[0].causes != {} and not each.blocked for each in group):
        return why
    return f"{why}; and so in each, at its own instants"


def _as_json(work: Sequence[Due], kept: Sequence[intervals.StatusRow], unread: Sequence[str]) -> str:
    """Formats intervals as JSON, one object each, with bounds in ns and as text: those that are due, and the queries of
    those that are kept; and the lines about unread files."""

    def rows(found: Sequence[Due] | Sequence[intervals.StatusRow]) -> list[dict[str, object]]:
        return [{**asdict(each), "from": format_instant(each.start), "to": format_instant(each.end)} for each in found]

    told = {"intervals": rows(work), "kept": rows(kept), "files": list(unread)}
    return json.dumps(told, indent=2, ensure_ascii=False)


def find_due(
    selection: IntervalSelection, runs: bool = False, kept: list[intervals.StatusRow] | None = None
) -> tuple[list[Job], list[Due], bool]:
    """Finds the intervals that are due, and prints the errors of query sets that cannot be planned. Returns the query
    sets, their due intervals, and whether all configured query sets can be planned; `kept` as of `due`."""
    start, end = selection.start, selection.end
    require_range(start, end)
    refused: list[str] = []

    def tell(name: str, error: errors.LowwaterError) -> None:
        refused.append(name)
        terminal.say(f"query set {name}: {error}", err=True)

    jobs = [
        replace(job, through_end=selection.through_end)
        for job in open_jobs(selection.lake, selection.names, selection.queries, tell, selection.changes, runs)
    ]
    if selection.changes is not None:
        selection.changes.require_used([file for job in jobs for file in job.files])
    chosen = DueSelection(start, end, selection.kinds)
    return jobs, [interval for job in jobs for interval in due(job, chosen, kept)], not refused


def _why(interval: Due) -> str:
    text = "; ".join(interval.reasons[:SHOWN])
    more = len(interval.reasons) - SHOWN
    text += f"; and {more} more" if more > 0 else ""
    text = f"{interval.running}; {text}" if interval.running else text
    if interval.word == words.BLOCKED and interval.state != words.MISSING:
        text = f"{interval.state}: {text}"
    return f"{text}. Cannot start: {interval.blocked}" if interval.blocked else text


def left_out(work: Sequence[Due], counted: str) -> str:
    """Describes the intervals that cannot start because captures begin or end inside them; empty if there are none."""
    edges = [interval for interval in work if interval.at_edge]
    if not edges:
        return ""
    packets = _packets(sum(interval.packets for interval in edges), all(interval.exact for interval in edges))
    return (
        f"; not run: {in_intervals(number_of(edges))}, {packets} {counted}, in which captures begin or end: "
        "add since and until to the links, or --through-end"
    )


def total(work: Sequence[Due], counted: str) -> str:
    """Says how many intervals can start, of how many packets or records, in what time."""
    startable = [interval for interval in work if not interval.blocked]
    packets = _packets(sum(interval.packets for interval in startable), all(interval.exact for interval in startable))
    durations = [interval.seconds for interval in startable if interval.seconds is not None]
    unknown = len(startable) - len(durations)
    spent = f"about {duration_text(sum(durations))} one after another" if durations else "no earlier run tells how long"
    spent += f", {unknown} of them unknown" if durations and unknown else ""
    written = [interval.bytes for interval in startable if interval.bytes is not None]
    spent += f", about {terminal.size_text(sum(written))} between the stages" if sum(written) else ""
    runs = "" if number_of(startable) == len(startable) else f" in {len(startable):,} run{'s' * (len(startable) != 1)}"
    waiting = number_of(work) - number_of(startable)
    rest = f"; {waiting:,} cannot start" if waiting else ""
    running = number_of([interval for interval in startable if interval.running])
    rest += f"; {running:,} of them {'run' if running > 1 else 'runs'} now" if running else ""
    rest += left_out([interval for interval in work if interval.blocked], counted)
    return f"{in_intervals(number_of(startable))} to run{runs}, {packets} {counted}, {spent}{rest}"


def number_of(work: Sequence[Due]) -> int:
    """The number of intervals in runs, some of which run several as one."""
    return sum(interval.intervals for interval in work)


def _packets(count: int, exact: bool) -> str:
    """Formats a number of packets; an estimate is rounded to three digits."""
    if exact:
        return f"{count:,}"
    unit = max(10 ** (len(str(count)) - DIGITS), 1)
    return f"about {round(count / unit) * unit:,}"


def in_intervals(count: int) -> str:
    """A number of intervals as text."""
    return f"{count:,} interval{'' if count == 1 else 's'}"


def duration_text(seconds: float) -> str:
    """A time as text, in the unit that fits it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
