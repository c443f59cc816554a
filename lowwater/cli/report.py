"""What `lowwater report` does: the verdicts of the audits, where the pages of the report are, the review as files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from rich.table import Table

from lowwater.config import load_config
from lowwater.errors import LakeError, LowwaterError
from lowwater.instants import format_instant
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.coverage import tolerated_lines
from lowwater.lake.ledgers.interval_states import BLOCKED, HALF, MISSING, STALE, StatusRow, gravest
from lowwater.lake.ledgers.outside import outside_lines
from lowwater.lake.ledgers.runs import DONE, FAILED, INCOMPLETE, PROVISIONAL, read_quarantine, replayed_sets
from lowwater.quality.report_pages import HELD, INDEX
from lowwater.quality.verdicts import IntervalAudit, Key, findings, interval_audits
from lowwater.replay.interval import statuses
from lowwater.terminal import open_console, say, styled


def show_report(root: Path, interval: int | None, queries: Path) -> None:
    """Prints what the audits of a lake found, which intervals are not done and why, and how many there are of each.

    Args:
        root: the root of the lake.
        interval: begin of the only interval to show, in detail; None for all.
        queries: folder of the query sets.

    Raises:
        LakeError: there is no interval, or not this one.
    """
    lake = open_lake(root, make=False)
    audits = {each.key: each for each in interval_audits(lake)}
    states = _states(lake, queries)
    keys = sorted({*audits, *states})
    if not keys:
        raise LakeError(f"{lake.root}: no interval has been audited yet", "the audit is a stage of `lowwater replay`")
    chosen = [key for key in keys if interval in (None, key[1])]
    if not chosen:
        starts = sorted({start for _, start, _ in keys})
        known = f"{format_instant(starts[0])} to {format_instant(starts[-1])}" if len(starts) > 1 else ""
        raise LakeError(
            f"no interval begins at {format_instant(interval or 0)}",
            f"{len(starts)} do, from {known}" if known else f"the only one begins at {format_instant(starts[0])}",
        )
    for said, together in groupby(chosen, lambda key: key if key in audits else (key[0], _said(states[key]))):
        if said in audits:
            _show(lake, audits[said], states.get(said), detailed=interval is not None)
        else:
            _tell(list(together), states)
    config = load_config(root)
    for line in (*outside_lines(lake, config), *tolerated_lines(lake, config)):
        say(line)
    say(f"all intervals: {lake.reports / INDEX}")
    if counted := [states[key] for key in chosen if key in states]:
        say(summary(counted))


def _states(lake: Lake, queries: Path) -> dict[Key, StatusRow]:
    """What `lowwater status` says of each interval, of its queries that which is told first."""
    known = {*load_config(lake.root).query_sets, *replayed_sets(lake)}

    def tell(name: str, error: LowwaterError) -> None:
        if name in known:  # of a folder nobody is told: examples read links that this lake does not have
            say(f"query set {name}: {error}", err=True)

    rows = groupby(statuses(lake.root, queries, tell), lambda row: (row.query_set, row.start, row.end))
    return {key: gravest(mine) for key, mine in rows}


def summary(rows: Sequence[StatusRow]) -> str:
    """How many intervals are due, done, provisional, cannot start, have failed; each is counted once.

    Example:
        >>> rows = [StatusRow("q", "q", 0, 1, state, "", None) for state in ("done", "missing", "failed", "done")]
        >>> summary([*rows, StatusRow("q", "q", 0, 1, "stale", "", 7, ("link 'a' has no capture",))])
        '5 intervals: 1 due, 2 done, 0 provisional, 1 cannot start, 1 failed; `lowwater plan` says what is due and why'
    """
    counts = Counter(row.shown for row in rows)
    due = sum(counts[state] for state in (MISSING, HALF, STALE))
    said = {"due": due} | {name: counts[name] for name in (DONE, PROVISIONAL, INCOMPLETE, BLOCKED, FAILED)}
    shown = ", ".join(f"{count:,} {name}" for name, count in said.items() if count or name != INCOMPLETE)
    ask = "; `lowwater plan` says what is due and why" if due or counts[BLOCKED] or counts[FAILED] else ""
    return f"{len(rows):,} interval{'' if len(rows) == 1 else 's'}: {shown}{ask}"


def write_pages(root: Path, queries: Path, folder: Path) -> None:
    """Writes the review pages of a lake as files.

    Raises:
        LakeError: the lake cannot be read, or the folder not be written.
    """
    from lowwater_review import Board, write_site

    count = write_site(Board(root, queries), folder)
    say(f"{count} pages: {folder / 'index.html'}")


def _said(row: StatusRow) -> tuple[str, str]:
    return row.shown, row.why


def _tell(keys: Sequence[Key], states: Mapping[Key, StatusRow]) -> None:
    """Intervals beside each other that were not audited, of which the same is to be said."""
    (name, start, _), (_, _, end) = keys[0], keys[-1]
    shown, why = _said(states[keys[0]])
    many = f" ({len(keys):,} intervals)" if len(keys) > 1 else ""
    _say_marked(f"{name}, {format_instant(start)} to {format_instant(end)}{many}: ", shown)
    for line in why.split("; "):
        say(f"  {line}")


def _say_marked(before: str, shown: str, behind: str = "") -> None:
    """Prints a line with a state in it, in red where somebody has to act."""
    state = styled(shown, "bold red" if shown in (BLOCKED, FAILED) else "")
    open_console().print(styled(before) + state + styled(behind), soft_wrap=True)


def _show(lake: Lake, audit: IntervalAudit, state: StatusRow | None, detailed: bool) -> None:
    _say_marked(f"{audit.query_set}, {audit.interval}: ", audit.verdict)
    if state is not None and state.shown not in (DONE, audit.verdict):
        held = state.shown == MISSING and audit.verdict != FAILED
        shown, why = (HELD, "audited and not published") if held else _said(state)
        _say_marked("  ", shown, f": {why}")
    all_of_them = tuple((each.severity, message) for each in audit.failures for message in each.messages)
    for severity, message in all_of_them if detailed else audit.brief:
        say(f"  {severity}: {message}")
    if detailed:
        open_console().print(_expectations(lake, audit))
    say(f"  page: {lake.reports / audit.page}")


def _expectations(lake: Lake, audit: IntervalAudit) -> Table:
    rows = read_quarantine(lake, audit.query_set, audit.start, audit.end)
    kept = Counter(rows.column("expectation").to_pylist())
    subjects = {(row["expectation"], row["subject"]): row["total"] for row in rows.to_pylist()}
    total: Counter[str] = Counter()
    for (expectation, _), count in subjects.items():
        total[expectation] += count
    table = Table("suite", "expectation", "severity", "found", "rows in quarantine", box=None)
    for each in findings(lake, audit):
        found = "holds" if each.success else f"{each.unexpected} of {each.evaluated} fail"
        held = f"{kept[each.expectation]:,} of {total[each.expectation]:,}" if kept[each.expectation] else ""
        table.add_row(each.suite, each.title, each.severity, found, held)
    return table
