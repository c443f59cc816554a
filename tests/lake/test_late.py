"""Rule T6: what was refused as late is missing from the hours of its own time, whatever interval it arrives in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lowwater.config import Config
from lowwater.instants import HOUR
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers import late
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.ledgers.missing import KnownMissing, occupied_intervals
from lowwater.lake.ledgers.statements import ACCEPT, about_defect, state
from lowwater.lake.packets import PacketFiles
from lowwater.lake.query_sets import LATE
from tests.lake.support import BASE, at
from tests.lake.test_edges import YEARS, config, hourly, taken, written

pytestmark = pytest.mark.slow


def missing(lake: Lake, settings: Config, start: float, end: float) -> list[tuple[str, int, int]]:
    """(cause, records refused, of hours from 08:00) of what is missing in [start, end) seconds and not accepted."""
    known = KnownMissing(lake, settings, read_captures(lake, ["a"]))
    found = known.of({"a": at(start)}, at(start), at(end))
    return [
        (each.cause, sum(defect.amount for defect in each.defects), (each.defects[0].start - BASE) // HOUR)
        for each in found
        if not known.accepted(each)
    ]


@pytest.mark.parametrize("ahead", [YEARS, 3 * 3600 + 7])
def test_hours_behind_a_clock_that_was_believed_are_not_whole(tmp_path: Path, ahead: int) -> None:
    files = hourly(60, 5)
    files[1] = [second + ahead for second in files[1]]  # the whole file, so that its clock is believed
    settings = config(tmp_path / "in")
    for order in (1, -1):
        lake = taken(tmp_path / f"lake{order}", written(tmp_path / "in", files)[::order], settings, 2)
        assert missing(lake, settings, 0, 7200) == []
        for hour in (2, 3, 4) if ahead == YEARS else (2, 3):
            assert missing(lake, settings, 3600 * hour, 3600 * (hour + 1)) == [(LATE, 60, hour)]
        assert missing(lake, settings, 7200, 14_400) == [(LATE, 60, 2), (LATE, 60, 3)], "an interval of two hours"
        assert missing(lake, settings, 7200, 7500) == [(LATE, 5, 2)], "an interval of five minutes"
        captures: Any = read_captures(lake, ["a"])
        busy = occupied_intervals(PacketFiles.of(lake), captures, settings, HOUR)
        assert any(first <= BASE // HOUR + 2 < last for first, last in busy)


@pytest.mark.parametrize(("late", "told"), [(0, []), (1, []), (2, [(LATE, 2, 1)])])
def test_one_in_a_hundred_is_let_pass(tmp_path: Path, late: int, told: list[tuple[str, int, int]]) -> None:
    files = hourly(120, 3)
    files[1][60 : 60 + late] = [second - 700 for second in files[1][60 : 60 + late]]
    settings = config(tmp_path / "in")
    lake = taken(tmp_path / "lake", written(tmp_path / "in", files), settings)
    assert missing(lake, settings, 3600, 7200) == told
    wide = config(tmp_path / "in", skew="20min")
    assert missing(lake, wide, 3600, 7200) == [], "as of the skew that is in force"
    allowed = settings.model_copy(
        update={"thresholds": Config.model_validate({"thresholds": {"violating": {"warning": 0.5}}}).thresholds}
    )
    assert missing(lake, allowed, 3600, 7200) == []


def test_what_was_accepted_is_accepted_as_it_was(tmp_path: Path) -> None:
    files = hourly(60, 3)
    files[1] = [second + 3 * 3600 for second in files[1]]
    settings, paths = config(tmp_path / "in"), written(tmp_path / "in", files)
    lake = taken(tmp_path / "lake", paths, settings)
    known = KnownMissing(lake, settings, read_captures(lake, ["a"]))
    (found,) = known.of({"a": at(7200)}, at(7200), at(10_800))
    state(lake, [about_defect(ACCEPT, found.link, found.cause, defect, "Ann", "known") for defect in found.defects])
    assert missing(lake, settings, 7200, 10_800) == []
    files[2] = [second + 0.5 for second in files[2]]
    taken(tmp_path / "lake", written(tmp_path / "in", files)[2:], settings)  # another file
    assert missing(lake, settings, 7200, 10_800) == [(LATE, 60, 2)]


def test_records_outside_of_the_life_of_a_link_are_none_of_its_hour(tmp_path: Path) -> None:
    files = hourly(120, 3)
    files[1][100] -= 700  # to 01:38:20; half of the hour lies before the life of the link
    settings = config(tmp_path / "in", since="2027-01-15T09:30:00Z")
    lake = taken(tmp_path / "lake", written(tmp_path / "in", files), settings)
    assert missing(lake, settings, 3600, 7200)[-1] == (LATE, 1, 1)


def test_only_captures_of_whose_late_records_somebody_asks_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that looks what is due would else read the times of all packets of a lake."""
    read = []
    of_capture = late._of_capture

    def counted(files: PacketFiles, capture: Any, *rest: Any) -> Any:
        read.append(Path(capture.path).name)
        return of_capture(files, capture, *rest)

    monkeypatch.setattr(late, "_of_capture", counted)
    files = hourly(60, 5)
    files[1][30] -= 700  # of the hour of its capture
    files[2][30] -= 3000  # of the hour before, which is there
    settings = config(tmp_path / "in")
    lake = taken(tmp_path / "lake", written(tmp_path / "in", files), settings)
    busy = {"a": read_captures(lake, ["a"])["a"]}
    assert occupied_intervals(PacketFiles.of(lake), busy, settings, HOUR) == [(BASE // HOUR, BASE // HOUR + 5)]
    known = KnownMissing(lake, settings, busy)
    for hour, count in ((4, 0), (1, 2), (2, 0)):  # two have late records of 09:00; what was read stays
        known.of({"a": at(3600 * hour)}, at(3600 * hour), at(3600 * (hour + 1)))
        assert len(read) == count, hour
        read.clear()
    files[2][30] -= 10 * 3600  # of an hour of which no capture is there
    lake = taken(tmp_path / "other", written(tmp_path / "in", files), settings)
    busy = {"a": read_captures(lake, ["a"])["a"]}
    first, rest = occupied_intervals(PacketFiles.of(lake), busy, settings, HOUR)
    assert (first[1] - first[0], rest) == (1, (BASE // HOUR, BASE // HOUR + 5))
    assert len(read) == 1
