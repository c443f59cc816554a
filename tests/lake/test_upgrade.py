"""Lakes of format 1 (of 0.1, 0.2, and of the last version that wrote them) become lakes of format 2, and back."""

from __future__ import annotations

import gzip
import re
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from lowwater.config import load_config
from lowwater.errors import LowwaterError
from lowwater.lake import tables
from lowwater.lake.layout import FORMAT, Lake, lake_to_read, open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.ledgers.files import told_files
from lowwater.replay import upgrade
from lowwater.storage import paths
from tests.replay.support import Rows, lowwater, table_rows

QUERIES = ("talkers", "loud", "both")
VERSIONS = ("0.1", "0.2", "0.3-dev")

# What made the archives: `lowwater` of each version over captures of `lowwater generate`. That of 0.2 has a file that
# was cut and is whole, a copy, damage, a gap, coverage by hand, an edited query; that of 0.3-dev also a compressed
# copy, a part of a file, files set aside, a damage that is accepted, and an interval that is rolled back.


def unpacked(version: str, folder: Path) -> Path:
    with tarfile.open(Path(__file__).with_name(f"lake-{version}.tar.xz")) as archive:
        archive.extractall(folder, filter="data")
    return folder / "lake"


@pytest.fixture(params=VERSIONS)
def old(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return unpacked(request.param, tmp_path)


def published(lake: Path) -> dict[str, Rows]:
    return {query: table_rows(lake, query) for query in QUERIES if (lake / "tables" / query).is_dir()}


def stored(lake: Path, name: str) -> list[dict[str, Any]]:
    """The rows of a ledger without NULL: columns that an older one lacks are added."""
    rows = DeltaTable(str(lake / name)).to_pyarrow_table().to_pylist()
    return sorted(({key: value for key, value in row.items() if value is not None} for row in rows), key=repr)


def converted(lake: Path) -> upgrade.Upgrade:
    told = list[str]()
    done = upgrade.upgrade(lake, Path("queries"), lambda name, error: told.append(f"{name}: {error}"))
    assert not told
    return done


def states(lake: Path) -> dict[str, str]:
    return states_in(lowwater("status", "--lake", lake, "--queries", "queries").out)


def states_in(text: str) -> dict[str, str]:
    """Interval and query -> state, as `status` prints them."""
    found = re.findall(r"^ (\S+Z(?: to \S+Z)?)(?: \(\d+ intervals\))? +(\w+) +(\w+) +(\w+(?: \w+)*)", text, re.M)
    return {f"{interval} {query}": state for interval, _, query, state in found}


@pytest.mark.slow
def test_rows_and_ledgers_stay(old: Path) -> None:
    rows, replays = published(old), stored(old, "replays")
    done = converted(old)
    assert done.captures == len(stored(old, "contents")) and not done.otherwise
    assert published(old) == rows
    assert len(stored(old, "replays")) == len(replays)
    assert lowwater("upgrade", "--lake", old, "--queries", "queries").out.startswith("nothing to do")


@pytest.mark.slow
def test_nothing_is_stale_that_was_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last version that wrote format 1 printed its states into the archive."""
    monkeypatch.chdir(tmp_path)
    lake = unpacked("0.3-dev", tmp_path)
    converted(lake)
    before = states_in((tmp_path / "status.txt").read_text())
    assert {"done", "provisional", "incomplete", "rolled back", "cannot start"} <= {*before.values()}
    assert states(lake) == before


@pytest.mark.slow
def test_a_lake_of_0_2_gives_its_rows_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lake = unpacked("0.2", tmp_path)
    rows = published(lake)
    converted(lake)
    lowwater("ingest", "--lake", lake)  # an older decoder read the captures
    assert {"done", "provisional"} & {*states(lake).values()} == set()
    lowwater("backfill", "--lake", lake, "--queries", "queries", "--spark", "none")
    assert published(lake) == rows and "done" in states(lake).values()


@pytest.mark.slow
def test_there_is_a_way_back_until_it_is_confirmed(old: Path) -> None:
    before = {name: stored(old, name) for name in ("captures", "replays")}
    converted(old)
    with pytest.raises(DeltaError, match="a lake of format 2"):  # what each older version says, in one line
        DeltaTable(str(old / "captures"))
    assert lowwater("upgrade", "--lake", old, "--undo").code == 0
    assert {name: stored(old, name) for name in before} == before
    assert not (old / "contents").exists() and not (old / FORMAT).exists()
    with pytest.raises(LowwaterError, match="format 1"):
        lake_to_read(old)
    converted(old)
    said = lowwater("upgrade", "--lake", old, "--confirm")
    assert said.code == 0 and not (old / "files").exists() and states(old)
    with pytest.raises(DeltaError, match="a lake of format 2"):
        DeltaTable(str(old / "captures"))
    said = lowwater("upgrade", "--lake", old, "--undo")
    assert said.code == 1 and "no upgrade of it waits" in said.err


@pytest.mark.slow
def test_what_came_since_is_not_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lake = unpacked("0.2", tmp_path)
    converted(lake)
    lowwater("ingest", "--lake", lake)
    said = lowwater("upgrade", "--lake", lake, "--undo")
    assert said.code == 1 and "contents" in said.err and "--confirm" in said.err and (lake / FORMAT).exists()


WRITES: list[tuple[Any, str]] = [
    (paths, "write"), (paths, "add"), (tables, "append_rows"), (tables, "replace_rows"), (tables, "create"),
]  # fmt: skip


class Killed(BaseException):
    """Nothing catches it, as nothing catches a kill."""


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Counts writes of a conversion: [those that were made, that before which it is killed]."""
    count = [0, -1]

    def counted(act: Callable[..., Any]) -> Callable[..., Any]:
        def write(*arguments: Any, **options: Any) -> Any:
            count[0] += 1
            if count[0] == count[1]:
                raise Killed
            return act(*arguments, **options)

        return write

    for module, name in WRITES:
        monkeypatch.setattr(module, name, counted(getattr(module, name)))
    yield count
    monkeypatch.undo()


@pytest.mark.slow
def test_a_conversion_may_be_killed_at_any_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: list[int]
) -> None:
    monkeypatch.chdir(tmp_path)
    whole = unpacked("0.3-dev", tmp_path)
    converted(whole)
    expected, rows, number = stored(whole, "sightings"), published(whole), writes[0]
    assert number >= 6
    for at in range(1, number + 1):
        folder = tmp_path / f"killed-{at}"
        folder.mkdir()
        monkeypatch.chdir(folder)
        lake = unpacked("0.3-dev", folder)
        writes[:] = [0, at]
        with pytest.raises(Killed):
            converted(lake)
        writes[1] = -1
        converted(lake)
        assert stored(lake, "sightings") == expected and published(lake) == rows, at
        assert len(stored(lake, "contents")) == len(stored(whole, "contents")), at
        upgrade.undo(lake)
        assert not (lake / FORMAT).exists(), at


@pytest.mark.slow
def test_a_lake_is_restored_with_its_upgrade(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backup has the format, the closed ledger and what waits to be confirmed, but no older versions."""
    monkeypatch.chdir(tmp_path)
    lake, other, place = unpacked("0.2", tmp_path), tmp_path / "other", tmp_path / "backups"
    converted(lake)
    assert lowwater("backup", "--lake", lake, "--to", place).code == 0
    assert lowwater("restore", "--from", place, "--lake", other).code == 0
    assert (other / FORMAT).exists() and (other / upgrade.NOTE).exists()
    with pytest.raises(DeltaError, match="a lake of format 2"):
        DeltaTable(str(other / "captures"))
    assert states(other) == states(lake) and published(other) == published(lake)
    said = lowwater("upgrade", "--lake", other, "--undo")
    assert said.code == 1 and "there is no way back" in said.err and (other / FORMAT).exists()
    assert lowwater("upgrade", "--lake", other, "--confirm").code == 0
    assert states(other) == states(lake) and published(other) == published(lake)


def test_older_versions_cannot_open_a_new_lake(tmp_path: Path) -> None:
    lake: Lake = open_lake(tmp_path / "lake")
    with pytest.raises(DeltaError, match="a lake of format 2, for Lowwater 0"):
        DeltaTable(str(lake.root / "captures"))


@pytest.mark.slow
def test_an_undo_may_be_killed_at_any_removal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Older versions may write to the lake once it is theirs again, and nothing of that goes."""
    monkeypatch.chdir(tmp_path)
    for at in (1, 2, 4):
        folder = tmp_path / f"killed-{at}"
        folder.mkdir()
        monkeypatch.chdir(folder)
        lake = unpacked("0.2", folder)
        before = {name: stored(lake, name) for name in ("captures", "replays")}
        converted(lake)
        left = [at]

        def killed(act: Callable[..., Any], left: list[int] = left) -> Callable[..., Any]:
            def remove(*arguments: Any) -> Any:
                left[0] -= 1
                if left[0] < 0:
                    raise Killed
                return act(*arguments)

            return remove

        with monkeypatch.context() as context:
            for name in ("remove", "remove_tree"):
                context.setattr(paths, name, killed(getattr(paths, name)))
            with pytest.raises(Killed):
                upgrade.undo(lake)
        with pytest.raises(LowwaterError, match="has not ended"):
            upgrade.confirm(lake)
        if at > 1:
            table = DeltaTable(str(lake / "captures"))  # an entry of an older version, in the place of that of now
            table.alter.set_table_properties({"delta.logRetentionDuration": "interval 9 days"})
            version = table.version()
        upgrade.undo(lake)
        assert {name: stored(lake, name) for name in before} == before, at
        assert not upgrade.is_pending(lake) and not (lake / "contents").exists()
        if at > 1:
            assert DeltaTable(str(lake / "captures")).version() == version


@pytest.mark.slow
def test_what_came_before_the_end_of_an_upgrade_is_not_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lake = unpacked("0.2", tmp_path)
    with monkeypatch.context() as context, pytest.raises(Killed):
        context.setattr(upgrade, "_fill", killed)
        converted(lake)
    lowwater("ingest", "--lake", lake)
    converted(lake)
    said = lowwater("upgrade", "--lake", lake, "--undo")
    assert said.code == 1 and "contents" in said.err and (lake / FORMAT).exists()


def killed(*arguments: Any) -> Any:
    raise Killed


@pytest.mark.slow
def test_a_damaged_ledger_is_not_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lake = unpacked("0.2", tmp_path)
    before = sorted((lake / "captures" / "_delta_log").iterdir())
    file = next((lake / "captures").rglob("*.parquet"))
    data = file.read_bytes()
    file.write_bytes(b"damaged")
    with pytest.raises(LowwaterError, match="captures"):
        converted(lake)
    assert sorted((lake / "captures" / "_delta_log").iterdir()) == before and not (lake / FORMAT).exists()
    file.write_bytes(data)
    assert converted(lake).captures


@pytest.mark.slow
def test_what_was_set_aside_stays_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lake = unpacked("0.3-dev", tmp_path)
    before = {row["path"] for row in stored(lake, "files") if row["state"] == "set aside"}
    assert before
    converted(lake)
    told = told_files(lake_to_read(lake))
    assert {path for path, row in told.items() if row.state == "set aside"} == before
    assert all(row.reason and row.person for row in told.values() if row.path in before)
    said = lowwater("log", "--lake", lake, "--queries", "queries").out
    assert said.count("set aside") >= len(before) and "older version" not in said
    # and counts again
    name = told[min(before)].name
    assert lowwater("set-aside", "--lake", lake, name, "--undo").code == 0
    told = told_files(lake_to_read(lake))
    assert {path for path, row in told.items() if row.state == "set aside"} == before - {min(before)}


@pytest.mark.slow
def test_a_link_without_a_section_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was removed before this version could keep it."""
    monkeypatch.chdir(tmp_path)
    lake = unpacked("0.2", tmp_path)
    text = (lake / "lowwater.toml").read_text()
    links = [*load_config(lake).links]
    cut = re.sub(rf"\[links\.{links[0]}\][^\[]*", "", text).replace(f'"{links[0]}", ', "")
    assert cut != text and len(links) > 1
    (lake / "lowwater.toml").write_text(cut)
    converted(lake)
    assert load_config(lake).ended.keys() == {links[0]} and all(each.end for each in load_config(lake).ended.values())


@pytest.mark.slow
def test_backups_go_on_behind_an_upgrade(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lake, place = unpacked("0.2", tmp_path), tmp_path / "backups"
    converted(lake)
    assert lowwater("backup", "--lake", lake, "--to", place).code == 0
    upgrade.undo(lake)
    converted(lake)
    assert lowwater("backup", "--lake", lake, "--to", place).code == 0


@pytest.mark.slow
def test_captures_that_are_compressed_behind_an_upgrade_are_the_same_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lake of 0.1 knows a capture by its bytes, which are others then."""
    monkeypatch.chdir(tmp_path)
    lake = unpacked("0.1", tmp_path)
    converted(lake)
    (before,) = read_captures(lake_to_read(lake), ["main1"]).values()
    packed = [path.with_name(f"{path.name}.gz") for path in sorted(tmp_path.rglob("main1*.pcap"))]
    for path in packed:
        path.write_bytes(gzip.compress(path.with_suffix("").read_bytes()))
        path.with_suffix("").unlink()
    said = lowwater("ingest", "--lake", lake, "--link", "main1", *packed)
    assert said.code == 0, said.err
    (rows,) = read_captures(lake_to_read(lake), ["main1"]).values()
    assert len(rows) == len(before) > 0 and all(row.path.endswith(".gz") for row in rows) and not rows.unread
