"""Few records are run by plain Python and compile nothing; many, and kernels whose machine code is there, by numba."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lowwater.low import Bounds, LowSettings, run_link
from lowwater.low.run import _LinkPass
from lowwater.plan.operators import Lfta
from tests.lftamaker import SECOND, by_tick, col, count, lit, make, op, partial, records

BOUNDS = Bounds({"q": 0}, 0, 1 << 62)
PACKETS = [{"timestamp": at * SECOND, "len": 60 + at} for at in range(20)]


def query(number: int) -> Lfta:
    """An LFTA whose kernel no other test has."""
    keys = {"time": col("time"), "len": op(col("len"), "/", lit(number))}
    return make("q", keys, [count(), partial("sum", col("len"))])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOWWATER_CACHE", str(tmp_path))
    monkeypatch.delenv("LOWWATER_KERNEL", raising=False)
    return tmp_path


def compiles(lfta: Lfta, count: int | None, settings: LowSettings) -> bool:
    link = _LinkPass([lfta], "L", BOUNDS, settings, lambda *_: None, {}, count)
    return hasattr(link._kernel, "signatures")


def passed(lfta: Lfta, settings: LowSettings) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    batch = records(PACKETS)
    run_link([lfta], "L", [batch], BOUNDS, settings, lambda _, rows: found.extend(rows.to_pylist()), None, len(PACKETS))
    return by_tick(found)


def test_few_records_compile_nothing(folder: Path) -> None:
    assert len([row for row in passed(query(1001), LowSettings(skew=0)) if row["_kind"] == "row"]) == 20
    assert list(folder.iterdir()) == []


def test_the_rows_and_the_room_are_those_of_any_settings() -> None:
    few = passed(query(1002), LowSettings(skew=0))
    assert few == passed(query(1002), LowSettings(skew=0, compiled=False, chunk_rows=7))
    link = _LinkPass([query(1002)], "L", BOUNDS, LowSettings(skew=0), lambda *_: None, {}, 5)
    assert link._settings.chunk_rows == 5 and len(link._late) == 5


def test_many_records_are_compiled_and_so_is_what_nobody_counts(folder: Path) -> None:
    setting = LowSettings(skew=0, few=10)
    assert not compiles(query(1003), 10, setting)
    assert compiles(query(1004), 11, setting) and compiles(query(1005), None, setting)
    assert not compiles(query(1006), 11, replace(setting, compiled=False))
    assert len(list(folder.glob("kernel_*.py"))) == 2
