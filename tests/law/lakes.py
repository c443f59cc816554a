"""The lake of the last world that a case asked for: cases of one world share it, since to ingest takes long."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.captures import Captures, read_captures

W = TypeVar("W")


class LastLake(Generic[W]):
    """Makes the lake of a world, and keeps it until another world is asked for."""

    def __init__(self, links: Sequence[str], fill: Callable[[W, Lake, Path], None]) -> None:
        self._links, self._fill = links, fill
        self._made: tuple[W, tempfile.TemporaryDirectory[str], Lake, dict[str, Captures]] | None = None

    def of(self, world: W) -> tuple[Lake, dict[str, Captures]]:
        """The lake of a world, and its ledger."""
        if self._made is None or self._made[0] != world:
            if self._made is not None:
                self._made[1].cleanup()
            folder = tempfile.TemporaryDirectory(prefix="lowwater-law-")
            lake = open_lake(Path(folder.name) / "lake")
            self._fill(world, lake, Path(folder.name))
            self._made = world, folder, lake, read_captures(lake, self._links)
        return self._made[2:]
