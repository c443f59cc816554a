"""Which query sets must run their intervals in order, since each hands its state to the next (SEMANTICS I4).

A marker file for every such set. Whoever plans a set writes it; Airflow's DAG files read it and must parse quickly, so
this module imports nothing slow.
"""

from __future__ import annotations

from pathlib import PurePath
from urllib.parse import quote

from lowwater.errors import LakeError
from lowwater.storage import objects, paths


def store_chained(root: PurePath, query_set: str, chained: bool) -> None:
    """Stores whether the intervals of a query set must run in order.

    Args:
        chained: whether the intervals run in order.

    Raises:
        LakeError: if the marker cannot be written.
    """
    path = _path(root, query_set)
    if (paths.may_hold(root, path.parent.name) and paths.has_file(path)) == chained:
        return
    objects.look_again(root)
    try:
        if chained:
            paths.write(path, b"")
        else:
            paths.remove(path)
    except OSError as error:
        raise LakeError(f"{path}: cannot be written: {error.strerror}", "check that the lake is writable") from error


def is_chained(root: PurePath, query_set: str) -> bool:
    """Whether the intervals of a query set run in order, according to its last plan; False if it was never planned."""
    return paths.has_file(_path(root, query_set))


def _path(root: PurePath, query_set: str) -> PurePath:
    return root / "_chained" / quote(query_set, safe="").replace(".", "%2E")
