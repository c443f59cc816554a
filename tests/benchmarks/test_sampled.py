"""The sampler names the part of a thread by its stack, and counts what threads compute."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any

import pytest

from benchmarks.sampled import EXPECTATIONS, IMPORTS, OTHER, SAMPLER, Sampler, part_of


def call(inner: Callable[[], None]) -> None:
    """Calls a function; its code is copied under other file names."""
    inner()


def stack(*files: str) -> FrameType:
    """The innermost frame of calls through files of these names."""
    found: list[FrameType] = []

    def note() -> None:
        found.append(sys._getframe(1))

    inner: Callable[[], None] = note
    for file in reversed(files):
        inner = partial(FunctionType(call.__code__.replace(co_filename=file), {}), inner)
    inner()
    return found[0]


def test_outermost_known_file_names_the_part() -> None:
    low = part_of(stack("/x/lowwater/low/run.py", "/x/lowwater/capture/reader.py"))
    assert low == "low: packets to LFTA rows"
    assert part_of(stack("/x/lowwater/capture/reader.py")) == "captures: decoded"
    assert part_of(stack("/y/other.py")) == OTHER
    assert part_of(None) == OTHER


def test_import_counts_as_import(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, expected in (("lowwater_sampled_one", IMPORTS), ("great_expectations_sampled", EXPECTATIONS)):
        (tmp_path / f"{name}.py").write_text("import sys\nFRAME = sys._getframe()\n", encoding="utf-8")
        assert part_of(seen_in(name)) == expected


def seen_in(name: str) -> FrameType:
    """The frame of a module while it is imported."""
    frame: FrameType = __import__(name).FRAME
    return frame


@pytest.mark.slow
def test_seconds_of_a_busy_thread_are_counted() -> None:
    sampler = Sampler()
    sampler.begin()
    begin = time.thread_time()
    while time.thread_time() - begin < 0.3:
        pass
    while sum(spent for part, spent in list(sampler.parts.items()) if part != SAMPLER) < 0.25e9:
        time.sleep(0.01)
    found = sampler.end()
    counted = sum(spent for part, spent in found["parts"].items() if part != SAMPLER)
    assert 0.25 <= counted <= 1.1 * found["python"] + 0.1
