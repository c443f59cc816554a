"""Backups: of one instant while runs go on, incremental, resumable; a restore gives the lake of that instant."""

from __future__ import annotations

import errno
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path, PurePath
from threading import Lock

import pytest

from lowwater.config import Retention
from lowwater.instants import HOUR
from lowwater.lake import open_tables
from lowwater.lake.layout import open_lake
from lowwater.lake.maintain import maintain
from lowwater.storage import locks, paths
from tests.cli.hostile import clean
from tests.lake.damage import TO, copied, data_files, flip, publish, rows_of

FIRST = "2026-01-01T01:00Z"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish(tmp_path_factory.mktemp("published"))


@pytest.fixture
def folder(published: Path, tmp_path: Path) -> Path:
    return copied(published, tmp_path)


def tree(lake: Path) -> dict[str, bytes]:
    """What a backup has of a lake."""
    names = {"_locks", "_work", "backup.json", "verified.json"}
    found = (path for path in lake.rglob("*") if path.is_file() and path.relative_to(lake).parts[0] not in names)
    return {path.relative_to(lake).as_posix(): path.read_bytes() for path in found}


def agree(lake: Path) -> None:
    """Its three hours are done, and all bytes are as written."""
    clean("verify", "--lake", lake, "--data")
    said = clean("status", "--lake", lake).out.splitlines()
    assert [line.split()[3] for line in said[1:4]] == ["done"] * 3, said


class Killed(BaseException):
    """What ends a process anywhere."""


@contextmanager
def each_copy(monkeypatch: pytest.MonkeyPatch, act: Callable[[int, PurePath], None]) -> Iterator[None]:
    """Does something before each file that is copied, with its number."""
    made, count, lock = paths.copy_as, iter(range(1 << 30)), Lock()

    def copy_as(source: PurePath, *rest: object) -> object:
        with lock:  # files are copied side by side; none of them meanwhile
            act(next(count), source)
        return made(source, *rest)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(paths, "copy_as", copy_as)
        yield


def test_a_restore_has_all_that_the_lake_had(folder: Path, tmp_path: Path) -> None:
    lake, place = folder / "lake", tmp_path / "backups"
    said = clean("backup", "--lake", lake, "--to", place, "--dry-run")
    assert "would be copied; nothing was written" in said.out and not place.exists()
    clean("backup", "--lake", lake, "--to", place)
    before = tree(lake)
    assert " 0 files, 0 kB, copied" in clean("backup", "--lake", lake, "--to", place).out
    assert "all as written" in clean("restore", "--from", place, "--dry-run").out
    shutil.rmtree(lake)
    said = clean("restore", "--from", place, "--lake", lake)
    assert "is restored to" in said.out and "nothing lies there" not in said.err
    # Delta's hint of the newest checkpoint is made again by the next one
    assert tree(lake).keys() == {name for name in before if not name.endswith("_last_checkpoint")}
    assert all(before[name] == content for name, content in tree(lake).items())
    agree(lake)


def test_what_was_lost_since_is_computed_again(tmp_path: Path) -> None:
    """The disk was lost after two more hours had been published; the captures are elsewhere."""
    folder = publish(tmp_path)
    lake, place = folder / "lake", folder / "backups"
    settings = (lake / "lowwater.toml").read_text()
    whole = rows_of(lake)
    shutil.rmtree(lake)
    lake.mkdir()
    (lake / "lowwater.toml").write_text(settings)
    late = [shutil.move(file, folder) for file in sorted((folder / "captures" / "main1").iterdir())[1:]]
    clean("ingest", "--lake", lake)
    clean("backfill", "--lake", lake, "--to", FIRST)
    clean("backup", "--lake", lake, "--to", place)
    for file in late:
        shutil.move(file, folder / "captures" / "main1")
    clean("ingest", "--lake", lake)
    clean("backfill", "--lake", lake, "--to", TO)
    assert rows_of(lake) == whole
    shutil.rmtree(lake)
    other = folder / "other"  # the settings name captures and queries beside the lake
    clean("restore", "--from", place, "--lake", other)
    assert 0 < len(rows_of(other)) < len(whole)
    clean("ingest", "--lake", other)
    clean("backfill", "--lake", other, "--to", TO)
    assert rows_of(other) == whole
    agree(other)


def test_a_backup_is_of_one_instant_while_runs_and_maintenance_go_on(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hours are published again, and what older versions had is removed at once, between any two files."""
    lake, whole = folder / "lake", rows_of(folder / "lake")
    settings = lake / "lowwater.toml"

    def clear() -> None:
        """What is not needed any more goes, as if a year had passed."""
        maintain(open_lake(lake), Retention(streams="1h"), clock=lambda: time.time_ns() + 365 * 24 * HOUR)

    acts = {
        5: lambda: settings.write_text(settings.read_text().replace('skew = "2s"', 'skew = "1500ms"')),
        20: lambda: clean("backfill", "--lake", lake, "--to", FIRST),
        50: clear,
        70: lambda: clean("backfill", "--lake", lake, "--to", TO),
        105: clear,
    }

    def act(number: int, _: PurePath) -> None:
        acts.pop(number, lambda: None)()

    place = tmp_path / "backups"
    with each_copy(monkeypatch, act):
        clean("backup", "--lake", lake, "--to", place)
    assert not acts, "the backup went on behind the last act"
    other = folder / "other"
    clean("restore", "--from", place, "--lake", other)
    clean("verify", "--lake", other, "--data")
    clean("backfill", "--lake", other, "--to", TO)
    assert rows_of(other) == whole
    agree(other)


def files_of(said: str) -> int:
    """How many files a backup says that it has copied, or would."""
    return int(said.split(": ")[1].split()[0])


@pytest.mark.parametrize("at", [0, 7, 60])
def test_who_is_killed_goes_on(at: int, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, place, other = folder / "lake", tmp_path / "backups", folder / "other"
    whole = files_of(clean("backup", "--lake", lake, "--to", place, "--dry-run").out)

    def die(number: int, _: PurePath) -> None:
        if number == at:
            raise Killed

    with each_copy(monkeypatch, die), pytest.raises(Killed):
        clean("backup", "--lake", lake, "--to", place)
    (place / "_work").mkdir(exist_ok=True)
    (place / "_work" / "part-1").write_bytes(b"half")
    assert "there is no backup" in clean("restore", "--from", place, "--lake", other, code=1).err
    said = clean("backup", "--lake", lake, "--to", place).out
    assert [*(place / "_work").iterdir()] == []
    if at == 60:
        assert files_of(said) < whole, "what was copied is not copied again"
    with each_copy(monkeypatch, die), pytest.raises(Killed):
        clean("restore", "--from", place, "--lake", other)
    said_of = clean("status", "--lake", other, code=1)
    assert "was not restored to its end here" in said_of.err
    assert "goes on" in clean("restore", "--from", place, "--lake", other).err
    agree(other)


@pytest.mark.parametrize("left", ["_format=2", "lowwater.toml"])
def test_a_part_of_a_lake_is_no_lake(left: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counterexample: a restore that was ended before `_format=2` left a lake of format 1, which an upgrade took."""
    place, other, numbers = tmp_path / "backups", folder / "other", iter(range(1 << 30))

    def end(_: int, source: PurePath) -> None:
        if next(numbers) == at:
            raise Killed

    clean("backup", "--lake", folder / "lake", "--to", place)
    (listed,) = (place / "backups").iterdir()
    at = len(json.loads(listed.read_text())["files"]) - (2 if left == "_format=2" else 1)
    with each_copy(monkeypatch, end), pytest.raises(Killed):
        clean("restore", "--from", place, "--lake", other)
    assert not (other / left).exists() and (other / "captures" / "_delta_log").exists()
    before = tree(other)
    for command in ("status", "ingest", "upgrade"):
        assert "was not restored to its end here" in clean(command, "--lake", other, code=1).err
    assert tree(other) == before
    clean("restore", "--from", place, "--lake", other)
    assert (other / "_format=2").exists() and tree(other).keys() >= {left, "captures/_delta_log/" + "0" * 20 + ".json"}
    agree(other)


def test_old_backups_go_with_what_only_they_have(folder: Path, tmp_path: Path) -> None:
    lake, place = folder / "lake", tmp_path / "backups"
    clean("backup", "--lake", lake, "--to", place)
    first = sum(path.stat().st_size for path in (place / "data").rglob("*.parquet"))
    settings = lake / "lowwater.toml"
    settings.write_text(settings.read_text().replace('skew = "2s"', 'skew = "1500ms"'))
    clean("backfill", "--lake", lake, "--to", TO)
    assert "would be removed" in clean("backup", "--lake", lake, "--to", place, "--keep", "1", "--dry-run").out
    assert len(list((place / "backups").iterdir())) == 1
    clean("backup", "--lake", lake, "--to", place)
    both = sum(path.stat().st_size for path in (place / "data").rglob("*.parquet"))
    assert both > first
    listed = clean("restore", "--from", place, "--list").out
    assert listed.count(str(lake)) == 2
    said = clean("backup", "--lake", lake, "--to", place, "--keep", "1").out
    assert said.count("is removed") == 2 and "are freed" in said
    assert len(list((place / "backups").iterdir())) == 1
    assert sum(path.stat().st_size for path in (place / "data").rglob("*.parquet")) < both
    clean("restore", "--from", place, "--lake", folder / "other")
    agree(folder / "other")


def test_an_older_backup_is_chosen_by_its_time(folder: Path, tmp_path: Path) -> None:
    lake, place = folder / "lake", tmp_path / "backups"
    clean("backup", "--lake", lake, "--to", place)
    said = clean("restore", "--from", place, "--lake", folder / "other", "--at", "2020-01-01T00:00Z", code=1)
    assert "there is no backup up to 2020-01-01T00:00:00Z" in said.err and "restore` with --list" in said.err
    clean("restore", "--from", place, "--lake", folder / "other", "--at", "2100-01-01T00:00Z")


def test_a_damaged_file_is_no_part_of_a_backup(folder: Path, tmp_path: Path) -> None:
    """One that an earlier backup has stays whole there."""
    lake, place = folder / "lake", tmp_path / "backups"
    file = flip(data_files(lake, "tables/flows")[0])
    said = clean("backup", "--lake", lake, "--to", place, code=1)
    name = file.relative_to(lake).as_posix()
    assert f"{name}: has other bytes than were written" in said.out and "1 file could not be copied" in said.err
    clean("restore", "--from", place, "--lake", folder / "other")
    assert "damaged" in clean("status", "--lake", folder / "other").out
    clean("backfill", "--lake", folder / "other", "--to", TO)
    agree(folder / "other")


def test_a_backup_that_is_not_whole_says_so(folder: Path, tmp_path: Path) -> None:
    lake, place, other = folder / "lake", tmp_path / "backups", folder / "other"
    clean("backup", "--lake", lake, "--to", place)
    flip(data_files(place / "data", "tables")[0])
    said = clean("restore", "--from", place, "--dry-run", code=1)
    assert "has other bytes than were written" in said.out
    assert "is not whole" in clean("restore", "--from", place, "--lake", other, code=1).err
    data_files(place / "data", "tables")[0].unlink()
    shutil.rmtree(other)
    assert "is gone" in clean("restore", "--from", place, "--lake", other, code=1).err
    clean("backup", "--lake", lake, "--to", place)
    shutil.rmtree(other)
    clean("restore", "--from", place, "--lake", other)
    (listed,) = sorted((place / "backups").iterdir())[:1]
    listed.write_text(listed.read_text().replace("main1", "main2"))
    said = clean("restore", "--from", place, "--list", code=1)
    assert "its bytes are not those that were written" in said.err


def test_a_place_has_backups_of_one_lake(folder: Path, tmp_path: Path) -> None:
    lake, place = folder / "lake", tmp_path / "backups"
    clean("backup", "--lake", lake, "--to", place)
    other = folder / "other"
    other.mkdir()
    (other / "lowwater.toml").write_text((lake / "lowwater.toml").read_text())
    clean("ingest", "--lake", other)
    assert "has backups of another lake" in clean("backup", "--lake", other, "--to", place, code=1).err
    assert "cannot lie in the lake" in clean("backup", "--lake", lake, "--to", lake / "backups", code=1).err
    assert "there is a lake already" in clean("restore", "--from", place, "--lake", lake, code=1).err
    with locks.hold_file(place / "_locks" / "backup.lock"):
        assert "is at work on it" in clean("backup", "--lake", lake, "--to", place, code=1).err


def test_a_list_of_files_leads_nowhere_else(folder: Path, tmp_path: Path) -> None:
    """A backup may come from a stranger."""
    place = tmp_path / "backups"
    clean("backup", "--lake", folder / "lake", "--to", place)
    (listed,) = (place / "backups").iterdir()
    values = json.loads(listed.read_text())
    values["files"][0][0] = "../../outside"
    text = json.dumps(values)
    named = f"{listed.name.rsplit('.', 2)[0]}.{sha256(text.encode()).hexdigest()[:16]}.json"
    listed.unlink()
    (place / "backups" / named).write_text(text)
    said = clean("restore", "--from", place, "--lake", tmp_path / "lake", code=1)
    assert "names a file outside" in said.err and not (tmp_path.parent / "outside").exists()


def test_a_full_disk_is_one_line_and_the_next_backup_goes_on(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(number: int, _: PurePath) -> None:
        if number >= 30:
            raise OSError(errno.ENOSPC, "No space left on device")

    lake, place = folder / "lake", tmp_path / "backups"
    with each_copy(monkeypatch, full):
        said = clean("backup", "--lake", lake, "--to", place, code=None)
    assert said.code > 0 and said.err.count("error:") == 1
    assert "No space left on device" in said.err and "goes on where it was" in said.err
    clean("backup", "--lake", lake, "--to", place)
    with each_copy(monkeypatch, full):
        said = clean("restore", "--from", place, "--lake", folder / "other", code=None)
    assert said.code > 0 and "No space left on device" in said.err
    clean("restore", "--from", place, "--lake", folder / "other")
    open_tables._OPEN.tables.clear()
    agree(folder / "other")
