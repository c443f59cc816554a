"""States that queries hand from interval to interval (SEMANTICS I4): a folder for every query, interval and inputs.

Written by the high stage, read by the high stage of the next interval. The publication decides which state counts.
"""

from __future__ import annotations

from pathlib import Path, PurePath

from lowwater.errors import LakeError
from lowwater.lake.layout import Lake
from lowwater.lake.tables import safe_name
from lowwater.storage import paths

FORM = 3
"""Version of the files in a state folder, part of its name and of digests. Other versions are never read; version 1
held pickles."""


def state_folder(lake: Lake, query_set: str, query: str, start: int, end: int, digest: str) -> PurePath:
    """Returns the folder of a query's state after [start, end), ns, for inputs with this digest.

    Args:
        lake: the open lake.
        query_set: name of the query set.
        query: a query of the set.
        start: first instant of the interval, ns since the epoch.
        end: end of the interval, ns since the epoch, exclusive.
        digest: digest of the inputs, hex.
    """
    return lake.states / safe_name(query_set) / safe_name(query) / f"{start}-{end}-{digest}.{FORM}"


def keep_state(staged: Path, folder: PurePath) -> None:
    """Moves the state of a run to its folder. Equal inputs make equal states, so an existing state is replaced.

    Args:
        staged: folder that the run wrote.
        folder: `state_folder` of the state.

    Raises:
        LakeError: if the folder cannot be written.
    """
    try:
        paths.take_folder(staged, folder)
    except OSError as error:
        raise LakeError(
            f"{folder}: cannot be written: {error.strerror}", "check that the lake is writable and its disk has room"
        ) from None


def other_states(folder: PurePath) -> list[PurePath]:
    """Returns the states of the same interval from other inputs, which go once this state is published."""
    span = folder.name.rpartition("-")[0]  # bounds before 1970 have a sign of their own
    return [each for each in paths.folders(folder.parent) if each.name.startswith(f"{span}-") and each != folder]
