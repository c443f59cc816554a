"""Which query sets hand state from interval to interval (SEMANTICS I4), for those who may not plan queries.

A file a set, made by whoever plans one over the lake and read by Airflow's DAG files, which must parse quickly: imports
nothing that is slow to import.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from lowwater.errors import LakeError


def note_chained(root: Path, query_set: str, chained: bool) -> None:
    """Keeps whether the intervals of a query set run in order; `root` is the folder of the lake.

    Raises:
        LakeError: it cannot be written.
    """
    path = _path(root, query_set)
    if path.is_file() == chained:
        return
    try:
        if chained:
            path.parent.mkdir(exist_ok=True)
            path.touch()
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise LakeError(f"{path}: cannot be written: {error.strerror}", "check that the lake is writable") from error


def noted_chained(root: Path, query_set: str) -> bool:
    """Whether the intervals of a query set run in order, as it was planned last; False where it never was."""
    return _path(root, query_set).is_file()


def _path(root: Path, query_set: str) -> Path:
    return root / "_chained" / quote(query_set, safe="").replace(".", "%2E")
