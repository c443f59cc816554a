"""Files that people set aside (SEMANTICS T9): what they said decides, whatever looks and ingests find at that time."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lowwater.config import load_config
from lowwater.lake.ingestion.arrivals import arrivals
from lowwater.lake.ingestion.folders import look, set_aside, undo
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers import files, statements
from lowwater.lake.ledgers.states import ASIDE, GROWING
from tests.lake.support import at
from tests.lake.test_overlaps import capture, every, take, view, world


def aside(lake: Lake, *names: str) -> None:
    set_aside(lake, load_config(lake.root), names, "a test", "me")


def again(lake: Lake, *names: str) -> None:
    undo(lake, load_config(lake.root), names, "me")


def told(lake: Lake) -> dict[str, str]:
    """Name -> state of each file of which people are told."""
    return {row.name: row.state for row in files.told_files(lake).values()}


@pytest.mark.slow
@pytest.mark.parametrize("then", [aside, again])
def test_what_is_said_while_a_file_is_ingested_holds(tmp_path: Path, then: Callable[..., None]) -> None:
    lake, path = world(tmp_path / "lake"), capture(tmp_path / "in" / "t.pcap", every(0, 600))
    config, said = load_config(lake.root), list[str]()
    look(lake, config)
    if then is again:
        aside(lake, path.name)

    def tell(progress: str) -> None:  # it is decoded, and not committed
        if not said:
            said.append(progress)
            then(lake, path.name)

    ingest(lake, "a", [path], config, tell=tell)
    look(lake, config)
    assert said
    read = [(path.name, at(0), at(590))]
    assert view(lake) == (([], []) if then is aside else (read, []))
    assert told(lake) == ({path.name: ASIDE} if then is aside else {})
    if then is aside:
        assert take(lake) == {}
        again(lake, path.name)
        assert view(lake) == (read, []) and take(lake) == {}, "it is in the lake"


@pytest.mark.slow
def test_a_file_that_is_still_written_is_so_after_it_was_set_aside(tmp_path: Path) -> None:
    lake = world(tmp_path / "lake", 'covers = { "t.pcap" = "2027-01-15T08:00:00Z/2027-01-15T09:00:00Z" }')
    path, config = capture(tmp_path / "in" / "t.pcap", every(0, 600)), load_config(lake.root)
    ingest(lake, "a", [path], config, clock=lambda: at(700))
    read = [(path.name, at(0), at(590))]
    assert view(lake) == (read, [])
    aside(lake, path.name)
    assert view(lake) == ([], []) and told(lake) == {path.name: ASIDE}
    look(lake, config)
    assert view(lake) == ([], [])
    again(lake, path.name)
    assert view(lake) == (read, []), "nobody found that it is whole"
    assert [row.state for row in files.read_seen(lake).values()] == [GROWING]
    # What it becomes is another file, as any file of another size.
    aside(lake, path.name)
    capture(path, every(0, 1200))
    ingest(lake, "a", [path], config, clock=lambda: at(7200))
    assert view(lake) == ([(path.name, at(0), at(3600))], [])


@pytest.mark.slow
@pytest.mark.parametrize("looks", [True, False])
def test_it_follows_a_file_that_is_moved_under_its_name(tmp_path: Path, looks: bool) -> None:
    lake = world(tmp_path / "lake")
    text = (lake.root / "lowwater.toml").read_text().replace("/in/*.pcap*", "/in*/*.pcap*")
    (lake.root / "lowwater.toml").write_text(text)
    path = capture(tmp_path / "in" / "t.pcap", every(0, 600))
    other = capture(tmp_path / "in" / "unread.pcap", every(3600, 4200))
    take(lake, [path])
    aside(lake, path.name, other.name)
    (tmp_path / "in2").mkdir()
    for each in (path, other):
        shutil.move(each, tmp_path / "in2" / each.name)
    if looks:
        look(lake, load_config(lake.root))
        assert take(lake) == {}
    else:
        take(lake, [tmp_path / "in2" / path.name])
    assert view(lake) == ([], []) and told(lake) == dict.fromkeys((path.name, other.name), ASIDE)
    again(lake, *(str(tmp_path / "in2" / each.name) for each in (path, other)))
    take(lake)
    assert len(view(lake)[0]) == 2 and told(lake) == {}


@pytest.mark.slow
def test_a_pattern_that_found_a_file_before_does_not_take_it_back(tmp_path: Path) -> None:
    """`arrivals` found it, a person sets it aside, and only then its ingest begins; who names it wants it read."""
    lake, path = world(tmp_path / "lake"), capture(tmp_path / "in" / "t.pcap", every(0, 600))
    config = load_config(lake.root)
    found = arrivals(lake, config)["a"].new
    aside(lake, path.name)
    ingest(lake, "a", found, config)
    assert view(lake) == ([], [])
    ingest(lake, "a", [path], config, said=("you", ""))
    assert [name for name, *_ in view(lake)[0]] == [path.name]
    assert [(each.act, each.person) for each in statements.read_statements(lake)] == [
        (statements.ASIDE, "me"), (statements.COUNT, "you"),
    ]  # fmt: skip


@pytest.mark.slow
def test_other_bytes_of_its_size_are_another_file(tmp_path: Path) -> None:
    lake, path = world(tmp_path / "lake"), capture(tmp_path / "in" / "t.pcap", every(0, 600))
    take(lake)
    aside(lake, path.name)
    ingest(lake, "a", [capture(path, every(7200, 7800))], load_config(lake.root))
    assert [name for name, *_ in view(lake)[0]] == [path.name] and told(lake) == {}


@pytest.mark.slow
def test_what_counts_again_is_what_the_looks_have_found(tmp_path: Path) -> None:
    """Also a file in no folder of a link, one that was refused, and one that is gone."""
    lake = world(tmp_path / "lake")
    broken = tmp_path / "in" / "broken.pcap"
    broken.parent.mkdir()
    broken.write_bytes(b"no capture" * 99)
    gone = capture(tmp_path / "in" / "gone.pcap", every(0, 600))
    look(lake, load_config(lake.root))
    ingest(lake, "a", [broken], load_config(lake.root), refusals={})
    gone.unlink()
    look(lake, load_config(lake.root))
    before = told(lake)
    assert before == {"broken.pcap": "refused", "gone.pcap": "gone"}
    aside(lake, *before)
    assert set(told(lake).values()) == {ASIDE} and not [row for row in files.told_files(lake).values() if row.unread]
    again(lake, *before)
    assert told(lake) == before


@pytest.mark.slow
def test_a_write_behind_a_look_is_seen_though_a_clock_was_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order of what was seen is ahead of the clock then, and tells nothing of a last write."""
    lake, path = world(tmp_path / "lake"), capture(tmp_path / "in" / "t.pcap", every(0, 600))
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + 86_400 * 10**9)
    take(lake)
    monkeypatch.undo()
    size = path.stat().st_size
    os.utime(capture(path, every(1000, 1600)))
    take(lake)
    written = path.stat().st_mtime_ns
    capture(path, every(4000, 4600))
    os.utime(path, ns=(written, written))  # within the same tick of the clock of its disk
    assert path.stat().st_size == size
    take(lake)
    assert view(lake)[0][-1] == (path.name, at(4000), at(4590))
