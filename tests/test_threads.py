"""Threads: as many as the process has cores, fewer where memory is short; work that they share comes back in order."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowwater import threads
from lowwater.limits import THREAD_BYTES

MACHINE = 64 << 30


@pytest.mark.parametrize(
    ("cpu", "limit", "count"),
    [
        ("", "", 16),
        ("max 100000", "max", 16),
        ("150000 100000", "", 2),
        ("50000 100000", "max", 1),
        ("", f"{3 * THREAD_BYTES}", 3),
        ("", "1000000", 1),
        ("9900000 100000", f"{MACHINE * 2}", 16),
    ],
)
def test_threads_follow_cores_and_memory_of_a_container(
    cpu: str, limit: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (("cpu.max", cpu), ("memory.max", limit)):
        if text:
            (tmp_path / name).write_text(f"{text}\n")
    monkeypatch.setattr(threads, "CGROUP", tmp_path)
    monkeypatch.setattr(threads.os, "sched_getaffinity", lambda process: set(range(16)))
    monkeypatch.setattr(
        threads.os, "sysconf", lambda name: {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": MACHINE // 4096}[name]
    )
    assert threads.thread_count() == count
    assert threads.thread_count(2 * THREAD_BYTES) == min(count, 2), "a setting is another bound"


@pytest.mark.parametrize("number", [0, 1, 3])
def test_results_are_in_the_order_of_arguments(number: int) -> None:
    assert list(threads.each_on_threads(lambda value: value * value, range(40), number)) == [
        value * value for value in range(40)
    ]
