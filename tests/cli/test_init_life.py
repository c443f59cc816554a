"""What `init` proposes is checked against the records: lives, rotations, zones, and which files are one link."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowwater.config import Link, load_config
from lowwater.instants import HOUR, SECOND, parse_instant
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.ledgers.coverage import gaps
from tests.capturemaker import pcap_bytes, tcp
from tests.replay.support import Said, lowwater

DAY = parse_instant("2021-09-30T00:00:00Z")
FRAME = tcp("10.0.0.1", "10.0.0.2", 1024, 80)
MINUTE = 60 * SECOND


def capture(path: Path, begin: int, end: int, step: int = 10 * SECOND) -> None:
    """A capture with a record each `step` from `begin` on, before `end`, both ns after midnight."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pcap_bytes([(DAY + at, FRAME) for at in range(begin, end, step)]))


def proposed(tmp_path: Path, **given: str) -> tuple[dict[str, Link], str, Said]:
    said = lowwater("init", tmp_path / "c", "--lake", tmp_path / "lake", *(x for pair in given.items() for x in pair))
    assert said.code == 0, said.err
    return load_config(tmp_path / "lake").links, (tmp_path / "lake" / "lowwater.toml").read_text(), said


def clock(hour: int, minute: int, second: int = 0) -> int:
    """ns after midnight."""
    return hour * HOUR + minute * MINUTE + second * SECOND


BEGIN, END = clock(1, 52, 36), clock(2, 38)


@pytest.mark.slow
@pytest.mark.parametrize("dated", [True, False])
def test_settings_of_a_recorder_that_was_started_again_run(tmp_path: Path, dated: bool) -> None:
    """Three hours, a stop at 03:10, and files of an hour from 03:20 on: the gap is named, and nothing else is one."""
    begins = [clock(hour, 0) for hour in range(4)] + [clock(hour, 20) for hour in (3, 4, 5)]
    for number, begin in enumerate(begins):
        at = f"{begin // HOUR:02}{begin % HOUR // MINUTE:02}"
        name = f"n-20210930-{at}.pcap" if dated else f"n-{number:03}.pcap"
        capture(tmp_path / "c" / name, begin, clock(3, 10) if begin == clock(3, 0) else begin + HOUR)
    links, _, _ = proposed(tmp_path, **{"--sample": "7"})
    link = links["n"]
    assert (link.rotation, link.gap_tolerance) == ((HOUR, 2 * SECOND) if dated else (None, 10 * SECOND))
    assert lowwater("ingest", "--lake", tmp_path / "lake").code == 0
    captures = read_captures(open_lake(tmp_path / "lake"), ["n"])["n"]
    found = gaps("n", captures, link, DAY, DAY + clock(6, 0))
    assert [(gap.since - DAY, gap.until - DAY) for gap in found] == [(clock(3, 9, 50), clock(3, 20))]
