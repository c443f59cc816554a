"""Implements `lowwater report`: prints the verdicts of the audits, or writes the review pages as files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path, PurePath

from lowwater.cli.by_day import answers
from lowwater.cli.lake_lines import lake_lines
from lowwater.config import load_config
from lowwater.errors import LakeError, LowwaterError
from lowwater.instants import format_instant, meets
from lowwater.lake import words
from lowwater.lake.layout import Lake, lake_to_read
from lowwater.lake.ledgers import runs
from lowwater.lake.ledgers.intervals import StatusRow, gravest
from lowwater.lake.sheets import TEXT, Sheet, say_sheet
from lowwater.quality.reports import IntervalAudit, Key, findings, interval_audits, left_out, told_audits
from lowwater.replay.schedule.day_states import Stretch, stretches
from lowwater.replay.schedule.due import statuses
from lowwater.terminal import open_console, say, styled


def show_report(
    root: PurePath,
    interval: int | None,
    queries: Path,
    span: tuple[int | None, int | None] = (None, None),
    zone: str | None = None,
) -> None:
    """Prints the verdicts of the audits of a lake, the reasons of unfinished intervals, and a summary. `interval`:
    start of the only interval to show, in detail, ns since the epoch; None for all that meet `span`. `zone`: by days of
    this one, a line each.
    Raises LakeError if there is no interval, or none starts at this instant, or meets the range."""
    lake = lake_to_read(root)
    found, missing = told_audits(lake) if interval is None else (interval_audits(lake), left_out(lake))
    audits = {audit.key: audit for audit in found}
    states = _states(lake, queries)
    planned = {name for name, *_ in states}  # whose audits of other intervals are of what was published again since
    keys = sorted({*states, *(key for key in audits if key[0] not in planned)})
    if not keys:
        raise LakeError(f"{lake.root}: no interval has been audited yet", "the audit is a stage of `lowwater replay`")
    chosen = [key for key in keys if interval in (None, key[1]) and meets(*key[1:], *span)]
    if not chosen and interval is None:
        raise LakeError(f"{lake.root}: no interval meets the range", _several(keys))
    if not chosen:
        raise LakeError(f"no interval begins at {format_instant(interval or 0)}", _several(keys))
    if zone is not None:
        say_sheet(answers(_stretches(states, audits), zone, *span))
    else:
        _show_all(lake, chosen, audits, states, missing, detailed=interval is not None)
    for line in lake_lines(lake, load_config(root)):
        say(line)
    if counted_rows := [states[key] for key in chosen if key in states]:
        say(summary(counted_rows))


def _several(keys: Sequence[Key]) -> str:
    """Which intervals there are."""
    starts = sorted({start for _, start, _ in keys})
    first, last = format_instant(starts[0]), format_instant(starts[-1])
    return f"{len(starts)} do, from {first} to {last}" if len(starts) > 1 else f"the only one begins at {first}"


def _stretches(states: Mapping[Key, StatusRow], audits: Mapping[Key, IntervalAudit]) -> Iterator[Stretch]:
    """Yields what each interval comes to; one that is done is `warned` where its audit was."""
    for each in stretches(states.values()):
        audit = audits.get((each.query_set, each.start, each.end))
        if each.word == words.DONE and audit is not None and audit.verdict == "warned":
            yield replace(each, word=words.WARNED, why=next(iter(audit.messages), ""))
        else:
            yield each


def _show_all(
    lake: Lake,
    chosen: Sequence[Key],
    audits: Mapping[Key, IntervalAudit],
    states: Mapping[Key, StatusRow],
    missing: Mapping[Key, Sequence[str]],
    detailed: bool,
) -> None:
    """Prints each interval that was audited, and one entry for others that follow one another and are alike."""
    for _, together in groupby(
        chosen, lambda key: key if key in audits else (key[0], (states[key].shown, states[key].why))
    ):
        group = list(together)
        if (audit := audits.get(group[0])) is not None:
            _show(lake, audit, states.get(group[0]), missing.get(group[0], ()), detailed)
        else:
            _tell(group, states)


def _states(lake: Lake, queries: Path) -> dict[Key, StatusRow]:
    """Returns the state of each interval as in `lowwater status`, taken from its query in the gravest state."""
    relevant = {*load_config(lake.root).query_sets, *runs.replayed_sets(lake)}

    def tell(name: str, error: LowwaterError) -> None:
        if name in relevant:  # other sets of the folder, such as examples, may read links that this lake does not have
            say(f"query set {name}: {error}", err=True)

    rows = groupby(statuses(lake.root, queries, tell), lambda row: (row.query_set, row.start, row.end))
    return {key: gravest(group) for key, group in rows}


def summary(rows: Sequence[StatusRow]) -> str:
    """Summarises how many intervals are due, done, provisional, failed or cannot start; each counts once.

    Example:
        >>> rows = [StatusRow("q", "q", 0, 1, state, "", None) for state in ("done", "missing", "failed", "done")]
        >>> summary([*rows, StatusRow("q", "q", 0, 1, "stale", "", 7, ("link 'a' has no capture",))])
        '5 intervals: 1 due, 2 done, 0 provisional, 1 cannot start, 1 failed; `lowwater plan` says what is due and why'
    """
    counts: Counter[str] = Counter()
    for row in rows:
        counts[row.shown] += row.intervals
    due = sum(counts[word] for word in words.OWED if word != words.FAILED)
    rare = (words.INCOMPLETE, words.ROLLED_BACK, words.KEPT)
    shown = (words.DONE, words.PROVISIONAL, *rare, words.BLOCKED, words.FAILED)
    numbers = {"due": due} | {name: counts[name] for name in shown}
    text = ", ".join(f"{count:,} {name}" for name, count in numbers.items() if count or name not in rare)
    ask = "; `lowwater plan` says what is due and why" if due or counts[words.BLOCKED] or counts[words.FAILED] else ""
    return f"{counts.total():,} interval{'' if counts.total() == 1 else 's'}: {text}{ask}"


def write_pages(root: PurePath, queries: Path, folder: Path) -> None:
    """Writes the review pages of a lake as files.
    Raises LakeError if the lake cannot be read, or the folder cannot be written."""
    from lowwater_review import Ledgers, write_site

    count = write_site(Ledgers(root, queries), folder)
    say(f"{count} pages: {folder / 'index.html'}")


def _tell(keys: Sequence[Key], states: Mapping[Key, StatusRow]) -> None:
    """Prints one entry for adjacent intervals that were not audited and have the same state and reason."""
    (name, start, _), (_, _, end) = keys[0], keys[-1]
    row = states[keys[0]]
    number = sum(states[key].intervals for key in keys)
    many = f" ({number:,} intervals)" if number > 1 else ""
    _say_marked(f"{name}, {format_instant(start)} to {format_instant(end)}{many}: ", row.shown)
    for line in row.why.split("; "):
        say(f"  {line}")


def _say_marked(before: str, state_text: str, behind: str = "") -> None:
    """Prints a line with a state in it, in red if the state needs action."""
    if state_text not in words.URGENT:
        say(f"{before}{state_text}{behind}")
        return
    state = styled(state_text, "bold red")
    open_console().print(styled(before) + state + styled(behind), soft_wrap=True)


def _show(lake: Lake, audit: IntervalAudit, state: StatusRow | None, missing: Sequence[str], detailed: bool) -> None:
    _say_marked(f"{audit.query_set}, {audit.interval}: ", audit.verdict)
    if state is not None and state.shown != words.DONE and not audit.says(state.shown, state.reason):
        _say_marked("  ", state.shown, f": {state.why}")
    elif state is not None and state.shown == words.DONE and state.reason:
        say(f"  {state.reason}")
    messages = tuple((failure.severity, message) for failure in audit.failures for message in failure.messages)
    for severity, message in messages if detailed else audit.brief:
        say(f"  {severity}: {message}")
    for line in missing:
        say(f"  {line}")
    if detailed:
        say_sheet(_expectations(lake, audit))
    if audit.failures:  # the pages of others are drawn when somebody opens them
        say(f"  page: {lake.reports / audit.page}")


def _expectations(lake: Lake, audit: IntervalAudit) -> Sheet:
    rows = runs.read_quarantine(lake, audit.query_set, audit.start, audit.end)
    stored = Counter(rows.column("expectation").to_pylist())
    subjects = {(row["expectation"], row["subject"]): row["total"] for row in rows.to_pylist()}
    total: Counter[str] = Counter()
    for (expectation, _), count in subjects.items():
        total[expectation] += count
    lines = []
    for finding in findings(lake, audit):
        outcome = "holds" if finding.success else f"{finding.unexpected} of {finding.evaluated} fail"
        kept = stored[finding.expectation]
        quarantined = f"{kept:,} of {total[finding.expectation]:,}" if kept else ""
        lines.append((finding.suite, finding.title, finding.severity, outcome, quarantined))
    titles = "suite", "expectation", "severity", "found", "rows in quarantine"
    return Sheet(dict.fromkeys(titles, TEXT), lines)
