"""Query sets whose intervals hand state to the next one (SEMANTICS I4), for code that must not plan queries.

A marker file for every such set. Whoever plans a set writes it; Airflow's DAG files read it and must parse quickly, so
this module imports nothing slow.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from lowwater.errors import LakeError


def store_chained(root: Path, query_set: str, chained: bool) -> None:
    """Stores whether the intervals of a query set must run in order.

    Args:
        root: folder of the lake.
        query_set: name of the query set.
        chained: whether the intervals run in order.

    Raises:
        LakeError: if the marker cannot be written.
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


def is_chained(root: Path, query_set: str) -> bool:
    """Whether the intervals of a query set run in order, according to its last plan; False if it was never planned."""
    return _path(root, query_set).is_file()


def _path(root: Path, query_set: str) -> Path:
    return root / "_chained" / quote(query_set, safe="").replace(".", "%2E")
