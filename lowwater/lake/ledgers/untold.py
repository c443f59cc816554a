"""Failures of intervals that could not be written to the ledger, since the disk was full or the store was away.

They wait on this machine, in the cache of this user, and the next process here that can write to the lake tells them.
One file for each interval: the newest failure of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

from lowwater.caches import cache_folder
from lowwater.errors import LowwaterError
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.runs import ReplayRow, read_replays, record_replays

_held: dict[Path, bytes] = {}
"""Those that this machine has no room for either; they last as long as this process."""


def keep(lake: Lake, row: ReplayRow) -> None:
    """Keeps the failure of an interval for the next process that can write to the lake."""
    name = sha256(json.dumps([row.query_set, row.interval_start, row.interval_end]).encode()).hexdigest()[:24]
    data = json.dumps(asdict(row)).encode()
    path = _folder(lake) / f"{name}.json"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.with_suffix(".new").write_bytes(data)
        path.with_suffix(".new").replace(path)
    except OSError:
        _held[path] = data


def tell(lake: Lake) -> None:
    """Writes what was kept to the ledger. What cannot be written yet stays.

    Raises:
        LakeError: the ledger cannot be read or written.
    """
    kept = dict(_kept(lake))
    if not kept:
        return
    known = {(row.query_set, row.interval_start, row.interval_end, row.finished_at) for row in read_replays(lake)}
    new = [
        row
        for row in kept.values()
        if row is not None and (row.query_set, row.interval_start, row.interval_end, row.finished_at) not in known
    ]
    record_replays(lake, sorted(new, key=lambda row: row.finished_at))
    for path in kept:
        _held.pop(path, None)
        with suppress(OSError):
            path.unlink()


def _kept(lake: Lake) -> Iterator[tuple[Path, ReplayRow | None]]:
    """What is kept, by its file; None for what nobody can read."""
    folder = _folder(lake)
    with suppress(OSError):
        for path in sorted(folder.glob("*.json")):
            yield path, _row(path.read_bytes())
    yield from ((path, _row(data)) for path, data in [*_held.items()] if path.parent == folder)


def _row(data: bytes) -> ReplayRow | None:
    try:
        return ReplayRow(**json.loads(data))
    except (ValueError, TypeError):
        return None


def _folder(lake: Lake) -> Path:
    try:
        home = cache_folder()
    except LowwaterError:
        home = Path("/nonexistent")  # in memory only
    absolute = lake.root.absolute() if isinstance(lake.root, Path) else lake.root
    return home / "untold" / sha256(str(absolute).encode()).hexdigest()[:24]
