"""Ingest: idempotent by identity, whole after a crash at any point, ordered by coverage."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from lowwater.config import Config, Link
from lowwater.errors import BusyError, CaptureError, LakeError, OverlapError
from lowwater.instants import HOUR
from lowwater.lake import open_tables, tables
from lowwater.lake.ingestion import batch as batching, ingest as module, known_files as replacing
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import MALFORMED, Lake
from lowwater.lake.ledgers import files as sightings
from lowwater.lake.ledgers.captures import malformed_between, read_captures
from lowwater.lake.locks import attempt, hold
from tests.breadth import some
from tests.lake.support import BASE, at, capture, packet_rows

CONFIG = Config()


def contents(lake: Lake) -> list[tuple[Any, ...]]:
    """What readers see of a link: (sha256, position, arrival, timestamp) of every packet."""
    return [tuple(row.values()) for row in packet_rows(lake)]


def stored_files(lake: Lake) -> set[Path]:
    return set(lake.packets.rglob("*.parquet")) - set((lake.packets / "_delta_log").rglob("*"))


def committed_files(lake: Lake) -> set[Path]:
    table = open_tables.existing(lake.packets)
    return {lake.packets / row["path"] for row in tables.live_files(table)}


def versions(lake: Lake) -> list[int]:
    found = [tables.open_table(path) for path in (lake.packets, lake.contents, lake.malformed)]
    return [table.version() for table in found if table is not None]


def test_ingests_over_hours_and_keeps_the_facts(lake: Lake, tmp_path: Path) -> None:
    path = capture(tmp_path / "a.pcap", [1, 3, 2, 3600.5, 3599.9, 7201])
    (done,) = ingest(lake, "a", [path], CONFIG)
    assert done.state == "added"
    row = done.capture
    assert (row.packets, row.first, row.last, row.smallest, row.largest) == (6, at(1), at(7201), at(1), at(7201))
    assert (row.covers_from, row.covers_to, row.declared, row.ended_cleanly) == (at(1), at(7201), None, True)
    arrivals = [at(s) for s in (1, 3, 3, 3600.5, 3600.5, 7201)]
    assert [(row[1], row[2]) for row in contents(lake)] == list(enumerate(arrivals))
    assert {file.parent.name for file in stored_files(lake)} == {f"hour={BASE // HOUR + n}" for n in range(3)}


def test_the_same_file_again_adds_nothing_and_says_so(lake: Lake, tmp_path: Path) -> None:
    path = capture(tmp_path / "a.pcap", [1, 2])
    ingest(lake, "a", [path], CONFIG)
    before, seen = versions(lake), contents(lake)
    (again,) = ingest(lake, "a", [path], CONFIG)
    assert again.state == "known" and str(path) in again.note
    assert (versions(lake), contents(lake)) == (before, seen)


@pytest.mark.slow
def test_a_cut_capture_covers_to_its_clock_until_the_whole_one_comes(lake: Lake, tmp_path: Path) -> None:
    cut = capture(tmp_path / "cut.pcap", [1, 5, 4, 9], cut=3)
    (done,) = ingest(lake, "a", [cut], CONFIG, covers=(BASE, BASE + HOUR))
    assert (done.capture.covers_from, done.capture.covers_to) == (BASE, at(5))
    assert not done.capture.ended_cleanly and "cut" in done.note
    rows = tables.read_rows(lake.malformed, MALFORMED).to_pylist()
    assert [(row["reason"], row["position"], row["arrival"]) for row in rows] == [("cut", 3, at(5))]
    assert malformed_between(lake, "a", [done.capture], at(5), at(6)).num_rows == 1
    whole = capture(tmp_path / "whole.pcap", [1, 5, 4, 9])
    (done,) = ingest(lake, "a", [whole], CONFIG, covers=(BASE, BASE + HOUR))
    assert done.state == "replaced"
    assert [row.covers_to for row in read_captures(lake, ["a"])["a"]] == [BASE + HOUR]
    assert [row[3] for row in contents(lake)] == [at(1), at(5), at(4), at(9)]
    assert malformed_between(lake, "a", read_captures(lake, ["a"])["a"], 0, at(HOUR)).num_rows == 0
    assert stored_files(lake) == committed_files(lake)


@pytest.mark.slow
def test_overlap_proposes_two_links_and_reads_the_first(lake: Lake, tmp_path: Path) -> None:
    ingest(lake, "a", [capture(tmp_path / "1.pcap", [0, 10])], CONFIG)
    ingest(lake, "a", [capture(tmp_path / "2.pcap", [9.5, 20])], CONFIG)
    before = contents(lake)
    with pytest.raises(
        OverlapError,
        match=r"3\.pcap begins at .*18Z, 2 s before .*2\.pcap ends.* 1s.*two recorders, or[\s\S]*--link a-2.*"
        r'"2s" in \[links.a\]',
    ):
        ingest(lake, "a", [capture(tmp_path / "3.pcap", [18, 30])], CONFIG)
    assert contents(lake) == before
    assert stored_files(lake) == committed_files(lake)


@pytest.mark.slow
def test_captures_are_ordered_by_declared_start_then_median_then_hash(lake: Lake, tmp_path: Path) -> None:
    for name, seconds in (("late", [30, 31]), ("early", [10, 11]), ("middle", [20, 21])):
        ingest(lake, "a", [capture(tmp_path / f"{name}.pcap", seconds)], CONFIG)
    ingest(lake, "a", [capture(tmp_path / "declared.pcap", [16])], CONFIG, covers=(at(15), at(20)))
    assert [Path(row.path).stem for row in read_captures(lake, ["a"])["a"]] == ["early", "declared", "middle", "late"]


def test_bad_files_do_not_hold_back_good_ones(lake: Lake, tmp_path: Path) -> None:
    empty, text = tmp_path / "empty.pcap", tmp_path / "text.pcap"
    empty.write_bytes(b"")
    text.write_text("no capture at all, but long enough to hold a header\n")
    good = capture(tmp_path / "good.pcap", [1])
    folder = tmp_path / "folder.pcap"
    folder.mkdir()
    with pytest.raises(CaptureError) as caught:
        ingest(lake, "a", [empty, text, folder, good, tmp_path / "absent.pcap"], CONFIG)
    assert all(f"{name}.pcap" in str(caught.value) for name in ("empty", "text", "folder", "absent"))
    assert len(contents(lake)) == 1


@pytest.mark.slow
def test_a_max_jump_that_matters_replaces_and_one_that_does_not_is_known(lake: Lake, tmp_path: Path) -> None:
    path = capture(tmp_path / "a.pcap", [*range(20), 100, *range(20, 40)])
    (first,) = ingest(lake, "a", [path], CONFIG)
    assert (first.capture.packets, first.capture.malformed) == (40, 1)
    assert first.capture.smallest_jump is not None
    same = Config(links={"a": Link(max_jump="70s")})  # type: ignore[arg-type]
    assert ingest(lake, "a", [path], same)[0].state == "known"
    wide = Config(links={"a": Link(max_jump="90s")})  # type: ignore[arg-type]
    (again,) = ingest(lake, "a", [path], wide)
    assert (again.state, again.capture.packets, again.capture.malformed) == ("replaced", 41, 0)
    assert len(contents(lake)) == 41
    assert tables.read_rows(lake.malformed, MALFORMED).num_rows == 0
    assert stored_files(lake) == committed_files(lake)


class Crash(BaseException):
    """Stands for a kill: nothing handles it."""


POINTS = {"swap_files": batching, "append_rows": batching, "put_seen": sightings, "clean": module}


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("point", some(POINTS, 2))
@pytest.mark.parametrize("old", [False, True], ids=["new", "again"])
def test_a_crash_at_any_commit_then_a_retry_gives_one_copy(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, after: bool, old: bool
) -> None:
    path = capture(tmp_path / "a.pcap", [1, 2, 3700, 3701], cut=1)
    if old:
        ingest(lake, "a", [path], CONFIG)
        monkeypatch.setattr(replacing, "DECODER_VERSION", 99)
    seen = contents(lake)
    real: Callable[..., Any] = getattr(POINTS[point], point)
    calls = iter(range(9))

    def crash(*args: Any, **names: Any) -> None:
        if point == "clean" and next(calls) == 0:  # it begins with clearing what others left
            return
        if after:
            real(*args, **names)
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(POINTS[point], point, crash)
        with pytest.raises(Crash):
            ingest(lake, "a", [path], CONFIG)
    switched = point == "clean" or (point == "put_seen" and after)
    assert len(contents(lake)) == (3 if switched or old else 0)
    if old and not switched:
        assert contents(lake) == seen
    ingest(lake, "a", [path], CONFIG)
    assert [row[1] for row in contents(lake)] == [0, 1, 2]
    assert stored_files(lake) == committed_files(lake)
    assert tables.read_rows(lake.malformed, MALFORMED).num_rows == 1


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["delete", "restore", "file"])
def test_packets_that_another_program_took_away_come_back_with_their_file(
    lake: Lake, tmp_path: Path, damage: str
) -> None:
    files = [capture(tmp_path / f"{number}.pcap", [number, number + 1]) for number in (1, 10)]
    before = versions(lake)[0]
    for file in files:
        ingest(lake, "a", [file], CONFIG)
    held, table = contents(lake), DeltaTable(str(lake.packets))
    if damage == "delete":
        table.delete(f"timestamp = {at(10)}")
    elif damage == "restore":
        table.restore(before)
    else:
        for file in stored_files(lake):
            file.unlink()
    with pytest.raises(LakeError, match=r"some are missing|cannot be read") as found:
        contents(lake)
    assert "`lowwater ingest`" in (found.value.hint or "")
    results = ingest(lake, "a", files, CONFIG)
    made = {"delete": [False, True]}.get(damage, [True, True])
    assert [result.note == "read again: packets of it were missing" for result in results] == made
    assert [result.state for result in results] == ["replaced" if again else "known" for again in made]
    assert contents(lake) == held
    assert {result.state for result in ingest(lake, "a", files, CONFIG)} == {"known"}


def test_locks_name_their_holder_and_attempts_clean_up(lake: Lake) -> None:
    with hold(lake, "x"), pytest.raises(BusyError, match=f"process {os.getpid()}"), hold(lake, "x"):
        pass
    dead = lake.work / "run" / "0123"
    dead.mkdir(parents=True)
    with attempt(lake, "run") as folder:
        assert folder.is_dir() and not dead.exists()
        with pytest.raises(BusyError), attempt(lake, "run"):
            pass
        assert folder.is_dir()
    assert not (lake.work / "run").exists()
    with hold(lake, "x"):
        pass
