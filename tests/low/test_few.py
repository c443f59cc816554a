"""Few records are run by plain Python and compile nothing; many, and kernels whose machine code is there, by numba."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lowwater.errors import ConfigError
from lowwater.low import Bounds, LowSettings, run_link
from lowwater.low import compiles as foretold
from lowwater.low.code.compiler import worth_compiling
from lowwater.low.code.kernel import generate
from lowwater.low.run import _LinkPass
from lowwater.plan.operators import Lfta
from tests.lftamaker import SECOND, col, count, lit, make, op, partial, records

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
    return found


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


def test_the_passes_of_a_process_add_up() -> None:
    setting = LowSettings(skew=0, few=25)
    assert [compiles(query(1007), 10, setting) for _ in range(4)] == [False, False, True, True]


def test_machine_code_that_is_there_is_used() -> None:
    program = generate([query(1008)], "L", LowSettings(skew=0))
    assert not worth_compiling(program.functions, 1, 100)
    assert compiles(query(1008), 1000, LowSettings(skew=0, few=100))
    assert compiles(query(1008), 1, LowSettings(skew=0, few=100))


def test_what_will_be_compiled_is_known_before(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = LowSettings(skew=0, few=25)
    assert not foretold([query(1010)], "L", setting, 25) and foretold([query(1010)], "L", setting, 26)
    assert not compiles(query(1010), 20, setting)
    assert not foretold([query(1010)], "L", setting, 5) and foretold([query(1010)], "L", setting, 6)
    assert compiles(query(1010), 6, setting) and not foretold([query(1010)], "L", setting, 100)
    monkeypatch.setenv("LOWWATER_KERNEL", "python")
    assert not foretold([query(1011)], "L", setting, 100)


def test_a_negative_number_is_refused() -> None:
    with pytest.raises(ConfigError, match="few is -1"):
        LowSettings(skew=0, few=-1)


@pytest.mark.slow
def test_compiled_passes_write_the_same_rows() -> None:
    assert passed(query(1009), LowSettings(skew=0, few=0)) == passed(query(1009), LowSettings(skew=0, compiled=False))
