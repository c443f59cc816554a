"""Statistics in the ledger, what they recommend, and that runs which take it publish the same rows and accounts."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from click.testing import CliRunner
from hypothesis import given, strategies as st

from lowwater.cli.main import cli
from lowwater.instants import HOUR, SECOND
from lowwater.lake.layout import OUTCOMES, open_lake
from lowwater.lake.ledgers.runs import read_heartbeats
from lowwater.replay.tuning import (
    FULL_SHARE,
    MOST_SLOTS,
    PERIODS,
    SLOTS_PER_GROUP,
    LftaStatistics,
    _period,
    _slots,
    groups_of,
)
from tests.replay.support import QUERIES, START
from tests.replay.tuning_cases import GOLDEN, make_lake, told

ACCOUNTS = ["lfta", "link", "start", "sane", *OUTCOMES]


def test_the_golden(tmp_path: Path) -> None:
    lake, file = make_lake(tmp_path)
    assert told(lake, file) == GOLDEN.read_text(encoding="utf-8")
    shown = json.loads(told(lake, file, "--format", "json"))
    assert [each["measured"] is None for each in shown["lftas"]] == [False, False, False, True]
    assert {each["setting"]: each["changes"] for each in shown["lftas"][0]["advice"]} == {
        "table": True,
        "heartbeat": False,
    }


@pytest.mark.slow
@given(groups=st.integers(0, MOST_SLOTS // SLOTS_PER_GROUP), slots=st.integers(4, 22).map(lambda power: 1 << power))
def test_a_table_that_was_recommended_stays(groups: int, slots: int) -> None:
    found, lfta_statistics = slots, LftaStatistics(0, 1)
    for _ in range(12):
        taken = round(found * (1 - (1 - 1 / found) ** groups))
        lfta_statistics = LftaStatistics(0, 1, groups=taken, slots=found)
        lfta_statistics.alive, lfta_statistics.full = groups_of(taken, found)
        lfta_statistics.sums |= {"accepted": 1000, "collisions": 500 if groups > found / 2 else 0}
        before, found = found, _slots(slots, lfta_statistics)
    assert found == before
    assert taken < FULL_SHARE * found
    assert abs(lfta_statistics.alive - groups) <= 2 + groups * 0.05


@given(period=st.sampled_from(PERIODS), share=st.floats(0, 1), wait=st.integers(0, 10**12))
def test_a_period_that_was_recommended_stays(period: int, share: float, wait: int) -> None:
    found = LftaStatistics(0, 1, period=period)
    found.sums |= {"nanoseconds": 10**9, "beat_nanoseconds": round(share * 10**9)}
    better = _period(found, wait)
    again = LftaStatistics(0, 1, period=better)
    again.sums |= {"nanoseconds": 10**9, "beat_nanoseconds": round(min(1, share * period / better) * 10**9)}
    assert _period(again, wait) == better


def low(lake: Path) -> pa.Table:
    """Runs the low stage of the first hour by command; the ledger of it."""
    bounds = ["--from", "2026-01-01T00:00Z", "--to", "2026-01-01T01:00Z", "--stage", "low", "--queries", str(QUERIES)]
    done = CliRunner().invoke(cli, ["replay", "demo", "--lake", str(lake), *bounds], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    order = [(name, "ascending") for name in ("lfta", "link", "start")]
    return read_heartbeats(open_lake(lake), "demo", START, START + HOUR).sort_by(order)


def tune(lake: Path) -> None:
    """Writes that runs are tuned."""
    settings = lake / "lowwater.toml"
    settings.write_text(settings.read_text() + "\n[replay]\ntuned = true\n")


@pytest.mark.slow
def test_a_tuned_run_has_the_same_accounts(lake: Path) -> None:
    first = low(lake)
    for row in first.to_pylist():
        assert row["sane"] == sum(row[name] for name in OUTCOMES)
        assert row["nanoseconds"] >= row["beat_nanoseconds"] >= 0 and row["period"] == SECOND
        assert START <= row["start"] < row["end"] <= START + HOUR
    assert sum(first["records"].to_pylist()) >= sum(first["sane"].to_pylist()) > 0
    said = told(lake, QUERIES / "demo.gsql")
    assert "table: 16,384 slots -> 256 slots" in said and "with tuned = true" in said
    tune(lake)
    second = low(lake)
    assert set(first["slots"].to_pylist()) == {16384} and set(second["slots"].to_pylist()) == {256}
    assert second.select(ACCOUNTS).filter(pc.greater(second["sane"], 0)) == first.select(ACCOUNTS).filter(
        pc.greater(first["sane"], 0)
    )
