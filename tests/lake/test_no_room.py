"""A disk without room: `maintain` frees some without needing any, and `status --space` says what takes it."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lowwater.config import Retention
from lowwater.errors import BusyError, LakeError
from lowwater.instants import DAY
from lowwater.lake import space
from lowwater.lake.layout import lake_to_read, open_lake
from lowwater.lake.locks import hold
from lowwater.lake.maintain import LEFT, maintain
from lowwater.lake.space import space_of
from tests.cli.hostile import clean
from tests.lake.damage import TO, change_skew, copied, data_files, publish, rows_of
from tests.replay.support import START


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake whose hours were published twice, so that versions are old."""
    folder = publish(tmp_path_factory.mktemp("published"))
    change_skew(folder / "lake")
    clean("backfill", "--lake", folder / "lake", "--to", TO)
    settings = folder / "lake" / "lowwater.toml"
    settings.write_text(settings.read_text() + '\n[retention]\nversions = "1h"\n')
    return folder


def grow_old(lake: Path) -> None:
    for file in lake.rglob("*"):
        if file.is_file():
            os.utime(file, (time.time() - 3 * 86_400,) * 2)


@pytest.fixture
def disk(published: Path, tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own, with the lake."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", place], capture_output=True)
    if mounted.returncode:
        pytest.skip("a disk of its own needs the right to mount one")
    try:
        shutil.copytree(published / "lake", place / "lake")
        grow_old(place / "lake")
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def size_of(lake: Path, below: str) -> int:
    return sum(file.stat().st_size for file in data_files(lake, below))


def fill(disk: Path) -> None:
    with suppress_full(), (disk / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


class suppress_full:
    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, frames: object) -> bool:
        return isinstance(error, OSError) and error.errno == errno.ENOSPC


def test_maintain_frees_on_a_full_disk(disk: Path) -> None:
    """It could not make its lock, nor ask the disk for the time, so nothing was freed when it was needed most."""
    lake, before, files = disk / "lake", rows_of(disk / "lake"), len(data_files(disk / "lake"))
    (lake / "_locks" / "maintenance.lock").unlink(missing_ok=True)
    fill(disk)
    assert shutil.disk_usage(disk).free == 0
    said = clean("maintain", "--lake", lake, "--dry-run")
    assert "removed files" in said.out and len(data_files(lake)) == files
    said = clean("maintain", "--lake", lake)
    assert "removed files" in said.out and len(data_files(lake)) < files and shutil.disk_usage(disk).free > 0
    assert rows_of(lake) == before
    assert "0 kB of" not in clean("status", "--lake", lake, "--space").out


def test_packets_go_from_a_full_disk_on_which_nothing_is_old(disk: Path) -> None:
    """The commits by which they go need some room, which an earlier maintenance has kept."""
    lake = disk / "lake"
    clean("maintain", "--lake", lake)
    with (lake / "lowwater.toml").open("a") as settings:
        settings.write('packets = "1d"\n')
    fill(disk)
    before = rows_of(lake)
    assert "removed packets" in clean("maintain", "--lake", lake).out and rows_of(lake) == before
    assert shutil.disk_usage(disk).free > 0 and not [*(lake / "packets").rglob("hour=*/*.parquet")]


def test_a_disk_that_is_read_only_is_looked_at(disk: Path) -> None:
    lake, files = disk / "lake", len(data_files(disk / "lake"))
    (lake / "_locks" / "maintenance.lock").unlink(missing_ok=True)
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    try:
        assert "removed files" in clean("maintain", "--lake", lake, "--dry-run").out
        said = clean("maintain", "--lake", lake, code=1)
        assert "cannot be written" in said.err and len(data_files(lake)) == files
        assert "packets" in clean("status", "--lake", lake, "--space").out
        clean("verify", "--lake", lake)
    finally:
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)


def test_what_writes_is_left_for_later_and_what_frees_is_done(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit needs room. The removal of files that no version names does not wait for one that has none."""
    lake = copied(published, tmp_path) / "lake"
    grow_old(lake)
    real = os.statvfs

    class Full:
        def __init__(self, path: Any) -> None:
            self.f_frsize, self.f_bavail = real(path).f_frsize, 0

    monkeypatch.setattr(os, "statvfs", Full)
    later = time.time_ns() + 3 * DAY
    steps = maintain(open_lake(lake), Retention(versions="1h", streams="1h"), clock=lambda: later)
    assert "removed files" in [step.what for step in steps]
    left = [step for step in steps if step.what == LEFT]
    assert left and all("No space left" in step.why for step in left), "streams go by a commit"


def test_one_maintenance_holds_the_folder_of_locks_where_no_file_can_be_made(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = lake_to_read(copied(published, tmp_path) / "lake")
    (Path(lake.locks) / "maintenance.lock").unlink(missing_ok=True)
    real = os.open

    def full(path: Any, flags: int, *rest: int, **named: Any) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return real(path, flags, *rest, **named)

    monkeypatch.setattr(os, "open", full)
    with hold(lake, "maintenance", roomless=True), pytest.raises(BusyError), hold(lake, "maintenance", roomless=True):
        raise AssertionError("two hold it")
    with pytest.raises(LakeError, match="No space left"), hold(lake, "ingest of main1"):
        raise AssertionError("only maintenance frees")


def test_space_is_added_up_by_stage_link_and_day(published: Path) -> None:
    lake = published / "lake"
    files = [file for file in lake.rglob("*") if file.is_file()]
    found = space_of(lake_to_read(lake), time.time_ns())
    assert (found.files, found.bytes) == (len(files), sum(file.stat().st_size for file in files))
    packets = {name: size_of(lake, f"packets/link={name}") for name in ("main1", "main2")}
    assert found.links == packets and found.stages["packets"] == sum(packets.values())
    below = ("packets", "lfta", "streams", "tables")
    assert found.days == {START // DAY * DAY: sum(size_of(lake, name) for name in below)}
    said = clean("status", "--lake", lake, "--space").out
    assert "main1" in said and "2026-01-01" in said and "at this rate" in said


def test_the_rate_is_that_of_the_last_days(published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = copied(published, tmp_path) / "lake"
    grow_old(lake)
    now = time.time_ns()
    for at, size in ((30 * DAY, 1 << 20), (2 * DAY, 7 << 20)):
        (lake / "reports" / f"{at}.html").parent.mkdir(exist_ok=True)
        (lake / "reports" / f"{at}.html").write_bytes(bytes(size))
        os.utime(lake / "reports" / f"{at}.html", ns=(now - at, now - at))
    monkeypatch.setattr(space.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1 << 30, 0, 100 << 20))
    found = space_of(lake_to_read(lake), now)
    rest = sum(file.stat().st_size for file in lake.rglob("*") if file.is_file()) - (8 << 20)
    assert found.span == 7 * DAY and found.grown == (7 << 20) + rest
    left = found.full_in()
    assert left is not None and left // DAY == (100 << 20) * 7 // found.grown
