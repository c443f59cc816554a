"""What queries hand over from interval to interval (SEMANTICS I4): a folder a query and interval, named by its inputs.

Written by the high stage, read by that of the next interval; the publication says which of them counts.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from lowwater.errors import LakeError
from lowwater.lake.layout import Lake
from lowwater.lake.tables import safe_name

FORM = 3
"""Of the files in a state's folder, in its name and in digests; another one is never read. Form 1 held pickles."""


def state_folder(lake: Lake, query_set: str, query: str, start: int, end: int, digest: str) -> Path:
    """Where the state of a query after [start, end), ns, lies that was made of inputs with this digest.

    Args:
        lake: the open lake.
        query_set: name of the query set.
        query: a query of it.
        start: first instant of the interval, ns since the epoch.
        end: end of the interval, ns since the epoch, exclusive.
        digest: digest of the inputs that the state was made of, hexadecimal.
    """
    return lake.states / safe_name(query_set) / safe_name(query) / f"{start}-{end}-{digest}.{FORM}"


def keep_state(made: Path, folder: Path) -> None:
    """Moves what a run left to its place; the same inputs make the same state, so one that is there is replaced.

    Raises:
        LakeError: it cannot be written.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(made, folder)
    except OSError as error:
        raise LakeError(
            f"{folder}: cannot be written: {error.strerror}", "check that the lake is writable and its disk has room"
        ) from None


def forget_others(folder: Path) -> None:
    """Removes the states of the same interval that were made of other inputs, once this one is published."""
    span = folder.name.rpartition("-")[0]  # its bounds may be before 1970, and have a sign of their own
    for other in folder.parent.glob(f"{span}-*"):
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
