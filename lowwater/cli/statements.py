"""`lowwater log`: what people have said of a lake."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path, PurePath

from lowwater import terminal
from lowwater.instants import SECOND, format_instant
from lowwater.lake.ledgers import statements
from lowwater.lake.sheets import INSTANT, TEXT, Sheet, say_sheet
from lowwater.replay.statement_log import Said, StatementSelection, said_of


def show_log(root: PurePath, queries: Path, selection: StatementSelection, as_json: bool) -> None:
    """Prints what people have said, oldest first, as a table or as JSON."""
    found = said_of(root, queries, selection)
    if as_json:
        rows = [{**asdict(each.statement), "in_force": each.in_force, "note": each.note} for each in found]
        terminal.say(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    if not found:
        terminal.say("nobody has said anything of that")
        return
    lines = []
    for _, group in groupby(found, _act):
        said = [*group]
        first = said[0].statement
        force = "; ".join(filter(None, ("yes" if said[0].in_force else "no", said[0].note)))
        when = first.at // SECOND * SECOND
        lines.append((when, first.person or "unknown", first.act, _about(said), first.why, force))
    columns = {"said": INSTANT} | dict.fromkeys(("who", "what", "about", "why", "in force"), TEXT)
    say_sheet(Sheet(columns, lines))


_GOES_ON = {
    statements.RETIRE: "now",
    statements.DROP: "now",
    statements.RENAME: "now",
    statements.MOVE: "to query set",
}


def _act(said: Said) -> tuple[object, ...]:
    """What one line tells: an acceptance is of many defects where many files have one."""
    each = said.statement
    return each.at, each.act, each.link, each.cause, each.file, said.in_force, said.note


def _about(said: Sequence[Said]) -> str:
    """Names the file, defects or rows that one act is about, and their time."""
    each = said[0].statement
    if each.query_set is not None:
        what = f"query set {each.query_set}" if each.query is None else f"query {each.query} of {each.query_set}"
        to = _GOES_ON.get(each.act, "to version")
        what += f" {to} {each.what}" if each.what else ""
    else:
        parts = each.file, f"link {each.link!r}" if each.link else "", each.cause
        what = (
            ", ".join(filter(None, parts))
            + (f" now {each.what}" if each.act == statements.RENAME else "")
            + (f" ({len(said):,} defects)" if len(said) > 1 else "")
        )
    start, end = min(one.statement.start for one in said), max(one.statement.end for one in said)
    return what if (start, end) == (0, 0) else f"{what}, {format_instant(start)} to {format_instant(end)}"
