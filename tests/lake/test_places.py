"""A capture is its link and its name under the folder of the pattern (T5): lake, captures, or both may move."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from lowwater.config import Config, Link
from lowwater.errors import LowwaterError, OverlapError
from lowwater.instants import HOUR
from lowwater.lake.ingestion.arrivals import arrivals
from lowwater.lake.ingestion.folders import look, set_aside
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.captures import Capture, read_captures
from lowwater.lake.ledgers.files import read_seen, told_files, unread_lines
from lowwater.lake.ledgers.states import ASIDE, GONE, READ, REFUSED
from tests.lake.support import BASE, capture, known_captures
from tests.replay.support import lowwater

OLD = BASE - 2000 * HOUR
NAME = "a_%Y%m%d%H.pcap"


def hourly(folder: Path, hour: int, seconds: Sequence[float] = (1, 2, 3)) -> Path:
    """A capture of an hour, written long ago."""
    path = capture(folder / f"a_20270115{8 + hour:02}.pcap", [hour * 3600 + 60 * second for second in seconds])
    os.utime(path, ns=(OLD, OLD))
    return path


def settings(*folders: Path | str, **more: Any) -> Config:
    """A link with one pattern in each folder."""
    patterns = tuple(f"{folder}/{NAME}" for folder in folders)
    return Config(links={"a": Link(captures=patterns, rotation="1h", **more)})


def take(lake: Lake, config: Config) -> dict[str, str]:
    """What `lowwater ingest` does: name of each file that was read -> what became of it."""
    done = {}
    for link, found in arrivals(lake, config).items():
        try:
            done |= {each.path.name: each.state for each in ingest(lake, link, found.new, config)}
        except LowwaterError as error:
            done |= {"": type(error).__name__}
    look(lake, config)
    return done


def rows(lake: Lake) -> list[Capture]:
    """The ledger of the link, by time."""
    return sorted(known_captures(lake, "a"), key=lambda row: (row.covers_from, row.path))


def move_both(top: Path) -> tuple[Path, Path]:
    top.rename(top.with_name("new"))
    return top.with_name("new") / "lake", top.with_name("new") / "cap"


def move_captures(top: Path) -> tuple[Path, Path]:
    target = top.with_name("disk") / "2" / "cap"
    target.parent.mkdir(parents=True)
    (top / "cap").rename(target)
    return top / "lake", target


def move_lake(top: Path) -> tuple[Path, Path]:
    target = top.with_name("x") / "y" / "z" / "lake"
    target.parent.mkdir(parents=True)
    (top / "lake").rename(target)
    return target, top / "cap"


def copy_captures(top: Path) -> tuple[Path, Path]:
    target = top.with_name("mount")
    shutil.copytree(top / "cap", target)
    return top / "lake", target


MOVES = [move_both, move_captures, move_lake, copy_captures]


@pytest.mark.slow
@pytest.mark.parametrize(("move", "by_hand"), [*((move, False) for move in MOVES), (move_both, True)])
def test_a_corrected_file_replaces_the_old_one_wherever_both_lie(
    tmp_path: Path, move: Callable[[Path], tuple[Path, Path]], by_hand: bool
) -> None:
    top = tmp_path / "old"
    for hour in range(2):
        hourly(top / "cap", hour)
    assert set(take(open_lake(top / "lake"), settings(top / "cap")).values()) == {"added"}
    root, folder = move(top)
    lake, config = open_lake(root), settings(folder)
    mended = hourly(folder, 1, (1, 2))
    if by_hand:
        (done,) = ingest(lake, "a", [mended], config)
        assert done.state == "replaced"
    assert take(lake, config) == ({} if by_hand else {mended.name: "replaced"}), "nothing else is read again"
    assert [row.packets for row in rows(lake)] == [3, 2]
    assert unread_lines(lake, config) == [] and take(lake, config) == {}


@pytest.mark.slow
def test_one_name_in_two_folders_of_a_link_is_two_files(tmp_path: Path) -> None:
    first, second = tmp_path / "old" / "one", tmp_path / "old" / "two"
    lake, skew = open_lake(tmp_path / "lake"), {"skew": "1h"}
    hourly(first, 0, (1, 2)), hourly(second, 0, (3, 4, 5))
    assert len(take(lake, settings(first, second, **skew))) == 1 and len(rows(lake)) == 2
    mended = hourly(second, 0, (3, 4, 5, 6))
    assert take(lake, settings(first, second, **skew)) == {mended.name: "replaced"}
    assert [row.packets for row in rows(lake)] == [2, 4]
    (tmp_path / "old").rename(tmp_path / "new")
    first, second = tmp_path / "new" / "one", tmp_path / "new" / "two"
    hourly(first, 0, (1,))
    assert take(lake, settings(first, second, **skew)) == {mended.name: "replaced"}
    assert [row.packets for row in rows(lake)] == [1, 4]
    second.rename(tmp_path / "three")  # the name of the folder tells nothing: one of the two is taken
    hourly(tmp_path / "three", 0, (4, 5))
    assert take(lake, settings(first, tmp_path / "three", **skew)) == {mended.name: "replaced"}
    assert [row.packets for row in rows(lake)] == [1, 2]


@pytest.mark.slow
def test_a_version_elsewhere_does_not_replace_the_file_of_the_folder(tmp_path: Path) -> None:
    lake, config = open_lake(tmp_path / "lake"), settings(tmp_path / "cap")
    hourly(tmp_path / "cap", 0)
    take(lake, config)
    with pytest.raises(OverlapError):
        ingest(lake, "a", [hourly(tmp_path / "else", 0, (2, 3))], config)
    assert [row.packets for row in read_captures(lake, ["a"], config)["a"]] == [3]


@pytest.mark.slow
def test_what_the_ledger_of_files_says_follows_the_captures(tmp_path: Path) -> None:
    lake, folder = open_lake(tmp_path / "lake"), tmp_path / "cap"
    hourly(folder, 0), hourly(folder, 2), hourly(folder, 3).write_bytes(b"no capture at all")
    hourly(folder, 0, (5, 6)).rename(folder / "a_2027011508.pcap1")
    hourly(folder, 0)
    take(lake, settings(folder))
    set_aside(lake, settings(folder), ["a_2027011510.pcap1", "a_2027011508.pcap1"][1:], "a test", "me")
    hourly(folder, 1)
    set_aside(lake, settings(folder), ["a_2027011509.pcap"], "another", "me")
    before = told(lake, folder)
    assert {state for _, state, _ in before} == {READ, REFUSED, ASIDE}
    folder.rename(tmp_path / "moved")
    moved = settings(tmp_path / "moved")
    done = take(lake, moved)
    assert set(done) <= {""}, "only the refused file is tried"
    assert told(lake, tmp_path / "moved") == before


def told(lake: Lake, folder: Path) -> set[tuple[str, str, str]]:
    """Name, state and reason of what lies there, or is told."""
    rows = ({**read_seen(lake), **told_files(lake)}).values()
    return {(row.name, row.state, row.reason.replace(str(folder), "F")) for row in rows if row.state != GONE}


@pytest.mark.slow
def test_a_folder_that_is_not_there_is_an_error_of_ingest(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    hourly(tmp_path / "cap", 0)
    lake.mkdir()
    text = "[links.{}]\ncaptures = {}\nrotation = '1h'\n"
    (lake / "lowwater.toml").write_text(
        text.format("a", f"['../cap/{NAME}', '../gone/{NAME}']") + text.format("b", f"'../none/%Y/{NAME}'")
    )
    said = lowwater("ingest", "--lake", lake)
    assert said.code == 1 and "added" in said.out
    for link, folder, pattern in (("a", "gone", NAME), ("b", "none", f"%Y/{NAME}")):
        place = tmp_path / folder
        assert f"link {link!r}: the folder {place} is not there" in said.err
        assert f"captures = '{place}/{pattern}' in [links.{link}]" in said.err
    assert "no new file" not in said.out + said.err and said.err.count("is not there") == 2
    (tmp_path / "gone").mkdir()
    (tmp_path / "none").mkdir()
    said = lowwater("ingest", "--lake", lake)
    assert said.code == 0 and "no new file" in said.out + said.err
