"""Copies of folders of a store on this machine, for programs that read files only."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from pathlib import Path

from lowwater.storage import objects, paths
from lowwater.storage.object_paths import ObjectPath
from lowwater.storage.untrusted import require_inside


def mirror(root: ObjectPath, place: Path, names: Sequence[str]) -> None:
    """Makes folders of `place` those of the store; what was copied before is not read again.

    Raises:
        OSError: the store fails.
    """
    found: set[Path] = set()
    listed = [each for name in names for each in paths.listed(root / name)]
    # A log comes before the files that it names: those that a later version no longer names stay for a while.
    for path, size, at in sorted(listed, key=lambda each: ("_delta_log" not in each.path.parts, each.path)):
        assert isinstance(path, ObjectPath)
        target = place / path.relative_to(root)
        require_inside(target)
        found.add(target)
        before = target.stat() if target.exists() else None
        if before is None or (before.st_size, before.st_mtime_ns) != (size, at):
            target.parent.mkdir(parents=True, exist_ok=True)
            draft = target.with_name(f".{uuid.uuid4().hex}.tmp")
            objects.download(path, draft)
            os.utime(draft, ns=(at, at))
            draft.replace(target)
    for file in [file for name in names for file in (place / name).rglob("*")]:
        if file.is_file() and file not in found:
            file.unlink()
