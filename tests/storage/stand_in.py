"""Runs of intervals without a JVM, for measures and tests of what a lake asks of its store.

Spark streams only the punctuation of an interval: which slices a micro-batch closes. Here a loop says so. Everything
else, the slices, the audit and every write to the lake, is what runs otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from lowwater.high import query_runs
from lowwater.high.slices import driver


class _Session:
    """What the high stage does with a session before its stream begins."""

    def __getattr__(self, name: str) -> Any:
        return self if name == "readStream" else lambda *_: self


def _play(queries: str, name: str, rows: object, batches: driver.SliceBatches, checkpoint: Path) -> None:
    for number, group in enumerate(batches.groups):
        closed = [{"slice": at} for at in group]
        frame: Any = SimpleNamespace(columns=["slice", "promise"], collect=lambda closed=closed: closed)
        frame.sparkSession = None
        batches(frame, number)


@contextmanager
def without_spark() -> Iterator[Any]:
    """Lets the high stage run on the threads of this process; yields a session for it."""
    with patch.object(query_runs, "run_session", lambda *_: _Session()), patch.object(driver, "play", _play):
        yield _Session()
