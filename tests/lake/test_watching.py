"""Files that a watch finds: each state of a file once, complete ones apart from those that are still being written."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from lowwater.config import Config, Link
from lowwater.errors import ConfigError
from lowwater.instants import HOUR, SECOND
from lowwater.lake.ingestion import folders
from lowwater.lake.ingestion.arrivals import Watch
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.captures import read_captures
from tests.lake.support import BASE, at, capture

SETTLE = 10 * SECOND
NOW = BASE + 12 * HOUR


class Clock:
    """A clock that the test moves, ns."""

    now = NOW

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def config(tmp_path: Path) -> Config:
    links = {
        "dated": Link(captures=str(tmp_path / "dated-%Y%m%d%H.pcap"), rotation="1h"),  # type: ignore[arg-type]
        "free": Link(captures=str(tmp_path / "free*.pcap")),
        "none": Link(),
    }
    return Config(links=links)


def written(path: Path, instant: int) -> Path:
    """Sets the last write of a file."""
    os.utime(path, ns=(instant, instant))
    return path


def look(watch: Watch, config: Config) -> dict[str, tuple[list[str], list[str], int]]:
    """Link -> names of complete files, names of growing files, number of files that wait."""
    return {
        found.link: ([path.name for path, _ in found.complete], [path.name for path, _ in found.growing], found.waiting)
        for found in watch.look(config)
    }


def take(watch: Watch, config: Config, lake: Lake, clock: Clock) -> list[str]:
    """Ingests what a watch finds; returns the states."""
    states = []
    for found in watch.look(config):
        for files, growing in ((found.complete, False), (found.growing, True)):
            if files:
                paths = [path for path, _ in files]
                states += [r.state for r in ingest(lake, found.link, paths, config, None, growing=growing, clock=clock)]
                watch.tried(files)
    return states


def test_a_file_is_complete_once_nobody_writes_and_its_time_is_over(lake: Lake, config: Config, tmp_path: Path) -> None:
    clock = Clock()
    watch, both = Watch(lake, SETTLE, clock=clock), Watch(lake, SETTLE, True, clock=clock)
    written(capture(tmp_path / "free1.pcap", [1, 2]), NOW - SETTLE)
    written(capture(tmp_path / "free2.pcap", [5000, 5001]), NOW - SETTLE + 1)
    written(capture(tmp_path / "dated-2027011508.pcap", [3]), NOW - HOUR)
    written(capture(tmp_path / "dated-2027011520.pcap", [12 * 3600]), NOW - HOUR)  # its hour begins now
    assert look(watch, config) == {"dated": (["dated-2027011508.pcap"], [], 1), "free": (["free1.pcap"], [], 1)}
    assert look(both, config) == {
        "dated": (["dated-2027011508.pcap"], ["dated-2027011520.pcap"], 0),
        "free": (["free1.pcap"], ["free2.pcap"], 0),
    }
    clock.now = NOW + 1
    assert look(watch, config)["free"] == (["free1.pcap", "free2.pcap"], [], 0)
    clock.now = NOW + HOUR
    assert look(watch, config)["dated"] == (["dated-2027011508.pcap", "dated-2027011520.pcap"], [], 0)
    assert look(Watch(lake, SETTLE, link="free", clock=clock), config).keys() == {"free"}
    span = at(3600), at(7200)
    assert look(Watch(lake, SETTLE, span=span, clock=clock), config)["dated"] == ([], [], 0)
    with pytest.raises(ConfigError, match="does not have a pattern"):
        look(Watch(lake, SETTLE, link="none", clock=clock), config)


def test_a_last_write_in_the_future_holds_up_nobody_who_looks_in_a_process_of_its_own(
    lake: Lake, config: Config, tmp_path: Path
) -> None:
    """It counts what the ledger of files saw first."""
    path = written(capture(tmp_path / "free.pcap", [1, 2]), 1 << 62)
    first = Watch(lake, SETTLE)
    assert look(first, config)["free"] == ([], [], 1)
    folders.look(lake, config)
    now = time.time_ns()
    for later, found in ((0, ([], [], 1)), (SETTLE, (["free.pcap"], [], 0))):
        assert look(Watch(lake, SETTLE, clock=lambda later=later: now + later), config)["free"] == found  # type: ignore[misc]
    written(capture(path, [1, 2, 3]), 1 << 61)
    assert look(Watch(lake, SETTLE, clock=lambda: now + SETTLE), config)["free"] == ([], [], 1), "it is another one"


@pytest.mark.slow
def test_each_state_of_a_file_is_tried_once(lake: Lake, config: Config, tmp_path: Path) -> None:
    clock = Clock()
    watch = Watch(lake, SETTLE, clock=clock)
    path = written(capture(tmp_path / "free1.pcap", [1, 2]), NOW - HOUR)
    copy = written(
        capture(tmp_path / "free2.pcap", [1, 2]), NOW - HOUR
    )  # the same bytes: it is in no row of the ledger
    assert take(watch, config, lake, clock) == ["added", "known"]
    assert take(watch, config, lake, clock) == []
    written(capture(path, [1, 2, 9]), NOW - SETTLE)
    assert take(watch, config, lake, clock) == ["replaced"]
    path.unlink()
    copy.unlink()
    assert take(watch, config, lake, clock) == []
    kept = Config(links={**config.links, "free": config.links["free"].model_copy(update={"payload": 4})})
    capture(path, [1, 2, 9])
    written(path, NOW - SETTLE)
    assert take(watch, config, lake, clock) in (["known"], [])
    assert take(watch, kept, lake, clock) == ["replaced"]
    assert take(watch, kept, lake, clock) == []


@pytest.mark.slow
def test_a_growing_file_is_read_as_it_grows_and_once_more_when_it_is_complete(
    lake: Lake, config: Config, tmp_path: Path
) -> None:
    clock = Clock()
    watch, path = Watch(lake, SETTLE, True, clock=clock), tmp_path / "free1.pcap"
    written(capture(path, [1, 2]), NOW)
    assert take(watch, config, lake, clock) == ["added"]
    assert take(watch, config, lake, clock) == []
    written(capture(path, [1, 2, 3]), NOW + SECOND)
    clock.now = NOW + SECOND
    assert take(watch, config, lake, clock) == ["replaced"]
    (row,) = read_captures(lake, ["free"])["free"]
    assert row.growing and row.packets == 3
    clock.now = NOW + SECOND + SETTLE
    assert take(watch, config, lake, clock) == ["replaced"]
    (row,) = read_captures(lake, ["free"])["free"]
    assert not row.growing and row.packets == 3
    assert take(watch, config, lake, clock) == []
