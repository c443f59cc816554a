"""Implements `lowwater doctor --lake`: prints what a lake's store or disk has of what a lake needs."""

from __future__ import annotations

from pathlib import PurePath

from rich.table import Table

from lowwater.storage.paths import lake_path, private
from lowwater.storage.probes import FOLDER, MISSING, OK, WARNING, findings
from lowwater.terminal import Terminal, styled


def examine_lake(root: PurePath, console: Terminal) -> int:
    """Tries the store or the disk of a lake, and prints a table, then what does not hold.

    Args:
        root: the lake.
        console: terminal to print to.

    Returns:
        0 if nothing is missing (warnings allowed), else 1.

    Raises:
        LakeError: nothing can be tried.
    """
    path = lake_path(root)
    with private():
        found = list(findings(path))
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
    return int(not sound)
