"""Implements `lowwater doctor --lake`: prints what a lake's store or disk has of what a lake needs, and what is wrong
with the tables of the lake."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import PurePath

from rich.table import Table

from lowwater.errors import LakeError
from lowwater.instants import format_instant
from lowwater.lake.commits import MEND
from lowwater.lake.layout import Lake, is_lake, lake_to_read
from lowwater.lake.ledgers.runs import read_replays
from lowwater.lake.mending import doubled_tables
from lowwater.lake.results.table_state import all_damages, lost_text, table_state
from lowwater.storage import paths
from lowwater.storage.paths import lake_path, private
from lowwater.storage.probes import FOLDER, MISSING, OK, WARNING, findings
from lowwater.terminal import Terminal, styled


def examine_lake(root: PurePath, console: Terminal) -> int:
    """Tries the store or the disk of a lake, and prints a table, then what does not hold, and which tables are wrong.

    Args:
        root: the lake.
        console: terminal to print to.

    Returns:
        0 if nothing is missing (warnings allowed) and no table is wrong, else 1.

    Raises:
        LakeError: nothing can be tried.
    """
    path = lake_path(root)
    try:
        with private():
            found = list(findings(path))
    except LakeError as error:
        if not is_lake(path):
            raise
        console.print(f"{error.message}: so it can be read only, and its disk is not tried", soft_wrap=True)
        return _tell_wrong(path, console)
    colours = {OK: "green", WARNING: "yellow", MISSING: "red"}
    table = Table("needed", "state", "found", "median / longest ms", box=None)
    table.columns[2].overflow = "fold"
    for each in found:
        table.add_row(each.name, styled(each.state, colours[each.state]), styled(each.found), each.timing)
    console.print(table)
    for each in found:
        if each.state != OK:
            console.print(f"{each.name}: {each.state}: {each.found}; then {each.then}", soft_wrap=True)
    sound = all(each.state != MISSING for each in found)
    if not sound:
        console.print("what a store must have, and why: docs/object-stores.md", soft_wrap=True)
    console.print(f"written only below {path / FOLDER}, and removed", soft_wrap=True)
    return int(bool(is_lake(path) and _tell_wrong(path, console)) or not sound)


def _tell_wrong(path: PurePath, console: Terminal) -> int:
    """Prints which tables of a lake are wrong; returns 1 if there are some, else 0."""
    wrong = list(_wrong_tables(lake_to_read(path)))
    for line in wrong:
        console.print(line, soft_wrap=True)
    return int(bool(wrong))


def _wrong_tables(lake: Lake) -> Iterator[str]:
    """Says which tables have rows twice, and which do not have what was published, each with what mends it."""
    found = False
    try:
        for path, doubled in doubled_tables(lake):
            found = True
            yield f"{path.relative_to(lake.root)}: {doubled.words()}; {MEND}"
        damages = all_damages(lake, read_replays(lake))
        for path in paths.folders(lake.root / "tables"):
            state = table_state(path)
            lost = () if state is None else map(lost_text, state.lost_objects().values())
            for text in sorted({*lost} - {*damages.values()}):
                yield f"{path.name}: {text}; run `lowwater maintain`, then `lowwater backfill`"
    except LakeError as error:
        yield f"{error.message}; {error.hint}"
        return
    together: dict[tuple[str, str], list[tuple[int, int, str]]] = defaultdict(list)
    for (query_set, query, start, end), why in sorted(damages.items()):
        together[query_set, query].append((start, end, why))
    for (query_set, query), ranges in together.items():
        start, end, why = ranges[0]
        more = f", and {len(ranges) - 1:,} more intervals" if len(ranges) > 1 else ""
        first = "first mend what is there twice, then " if found else ""
        yield (
            f"{query}: damaged, {format_instant(start)} to {format_instant(end)}{more}: {why}; "
            f"{first}run `lowwater backfill` for query set {query_set}, from {format_instant(start)} to "
            f"{format_instant(max(end for _, end, _ in ranges))}"
        )
