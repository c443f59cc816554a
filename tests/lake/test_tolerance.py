"""A short pause between two captures is no gap, and is told (ADR 144)."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowwater.config import Link
from lowwater.lake.keys import link_key
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import Capture
from lowwater.lake.ledgers.coverage import Gap, gaps, tolerated, tolerated_lines
from tests.lake.support import at, capture
from tests.lake.test_coverage import row
from tests.lake.test_outside import listed, load_config, settings, take


@pytest.mark.parametrize(
    ("captures", "tolerance", "left"),
    [
        ([row(0, 10), row(12, 20)], "2s", []),
        ([row(0, 10), row(12, 20)], "1999ms", [Gap("a", at(10), at(12))]),
        ([row(0, 10, ended_cleanly=False), row(12, 20)], "2s", [Gap("a", at(10), at(12))]),
        ([row(0, 10, growing=True), row(11, 20)], "2s", [Gap("a", at(10), at(11))]),
        ([row(0, 10), row(5, 8, ended_cleanly=False), row(11, 20)], "2s", []),
    ],
)
def test_a_pause_within_the_tolerance_is_no_gap(captures: list[Capture], tolerance: str, left: list[Gap]) -> None:
    link = Link(gap_tolerance=tolerance)  # type: ignore[arg-type]
    assert gaps("a", captures, link, at(0), at(20)) == left
    assert bool(tolerated("a", captures, link)) == (not left)


def test_files_of_tcpdump_need_no_edit_and_are_told(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    settings(root, {"captures": "a-%Y%m%d%H%M%S.pcap", "rotation": "15m"})
    begins = [0, 900, 1801, 2702]
    names = ("20270115080000", "20270115081500", "20270115083001", "20270115084502")
    files = [
        capture(tmp_path / f"a-{name}.pcap", [begin, begin + 890]) for name, begin in zip(names, begins, strict=True)
    ]
    take(root, *files)
    assert listed(root) == [(0, False, False)]
    assert tolerated_lines(open_lake(root), load_config(root)) == [
        "link 'a': 2 pauses between captures within gap_tolerance = 2s, the longest 1s at 2027-01-15T08:30:00Z: "
        "taken as covered"
    ]
    settings(root, {"captures": "a-%Y%m%d%H%M%S.pcap", "rotation": "15m", "gap_tolerance": "0s"})
    assert listed(root)[0] == (0, True, False)


@pytest.mark.parametrize("pause", [30, 7200])
def test_a_tolerance_or_a_policy_changes_the_inputs_of_the_hour_with_the_pause_alone(pause: int) -> None:
    """Of 38 hours one has other inputs: stale is only what could have other rows, or another state (S1)."""
    before = Link(gap_tolerance="1min", policy="publish")  # type: ignore[arg-type]
    hours = [row(3600 * hour, 3600 * (hour + 1)) for hour in range(38) if hour != 17]
    captures = [*hours, row(3600 * 17, 3600 * 17 + 1000), row(3600 * 17 + 1000 + min(pause, 2000), 3600 * 18)]

    def changed(after: Link) -> list[int]:
        bounds = [(at(3600 * hour), at(3600 * (hour + 1))) for hour in range(38)]
        return [
            hour
            for hour, (start, end) in enumerate(bounds)
            if link_key("a", captures, before, start, end) != link_key("a", captures, after, start, end)
        ]

    for tolerance in ("1s", "29s", "45s", "3000s"):
        kept = (pause <= 60) == (pause <= int(tolerance[:-1]) or tolerance == "3000s")
        assert changed(before.model_copy(update=_read(tolerance))) == ([] if kept else [17]), tolerance
    assert changed(before.model_copy(update={"policy": "fail"})) == ([] if pause <= 60 else [17])


def _read(tolerance: str) -> dict[str, int]:
    return {"gap_tolerance": Link(gap_tolerance=tolerance).gap_tolerance}  # type: ignore[arg-type]
