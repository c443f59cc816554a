"""A clock that is wrong: what is over only by the clock of this machine waits, and one line says why."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from lowwater.instants import HOUR
from lowwater.lake import clocks
from lowwater.lake.clocks import doubts, present
from lowwater.lake.layout import lake_to_read
from lowwater.replay.schedule.looks import Looker
from tests.lake.damage import publish
from tests.replay.support import START

DAY = 24 * HOUR


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake of three published hours, whose links publish what no capture covers."""
    lake = publish(tmp_path) / "lake"
    settings = (lake / "lowwater.toml").read_text().replace('skew = "2s"', 'skew = "2s"\npolicy = "publish"')
    (lake / "lowwater.toml").write_text(f'[replay]\npatience = "0s"\n{settings}')
    return lake


def look(lake: Path, now: int) -> tuple[list[str], int]:
    """Lines that a look by a clock says, and the last hour of those that it ran, by the begin of the captures."""
    lines: list[str] = []
    found = Looker(lake, (), lake, lambda line, _: lines.append(line), clock=lambda: now).look()
    return lines, max((result.due.end - START) // HOUR - 1 for result in found.results)


def wrong(monkeypatch: pytest.MonkeyPatch, off: int) -> None:
    """Sets the clock of this machine, beside that of the disk."""
    monkeypatch.setattr(clocks, "store_clock", lambda *_, **__: time.time_ns() - off)
    clocks._KNOWN.clear()


def test_hours_that_have_not_come_yet_wait(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host a day ahead published 23 hours of the future as `incomplete`."""
    wrong(monkeypatch, DAY)
    lines, ran = look(lake, START + DAY + 3 * HOUR)
    (line,) = [line for line in lines if "the clock of this machine is 24h ahead of that of the lake's disk" in line]
    assert "intervals that end after" in line and "wait; set the clock" in line
    assert ran == 3, "the hour of the newest packets"
    wrong(monkeypatch, 0)
    lines, ran = look(lake, START + 27 * HOUR)
    assert ran == 26 and not [line for line in lines if "clock" in line], "they run by a clock that is right"


def test_a_clock_behind_is_said_and_holds_what_is_not_over_by_it(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong(monkeypatch, -DAY)
    lines, ran = look(lake, START + 3 * HOUR)
    assert ran == 3 and any("24h behind that of the lake's disk or store" in line for line in lines)
    assert present(lake_to_read(lake), START) == START


def test_a_capture_that_was_written_later_than_now_says_that_a_clock_is_wrong(lake: Path) -> None:
    clocks._KNOWN.clear()
    said = doubts(lake_to_read(lake), time.time_ns() - DAY)
    assert len(said) == 1 and "was last written" in said[0] and "after the present time of this machine" in said[0]
    assert doubts(lake_to_read(lake), time.time_ns()) == []


def test_records_later_than_now_say_that_a_clock_is_wrong(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "_newest_write", lambda _: 0)  # as of a recorder whose own clock is right
    clocks._KNOWN.clear()
    (said,) = doubts(lake_to_read(lake), START + HOUR)
    assert "records of 121min" in said and "its clock, or that of the recorder, is wrong" in said
