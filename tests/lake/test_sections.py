"""The section of a link goes from the settings: the link has ended, and its history stays (SEMANTICS T5)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lowwater.config import load_config
from lowwater.instants import HOUR, format_instant
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.replay.schedule.due import statuses
from tests.lake.support import BASE, at, capture
from tests.replay.support import lowwater

QUERY = "DEFINE { query_name n; } SELECT tb, count(*) AS c FROM ETH GROUP BY time/3600 AS tb\n"


def hour(folder: Path, link: str, number: int, records: int) -> None:
    path = capture(
        folder / link / f"x_20270115{8 + number:02}.pcap", [3600 * number + 3600 / records * n for n in range(records)]
    )
    os.utime(path, ns=(BASE - 2000 * HOUR,) * 2)


def sections(folder: Path, *names: str, more: str = "") -> str:
    links = "".join(
        f'[links.{name.partition("=")[0]}]\ncaptures = "{folder}/{name.rpartition("=")[2]}/x_%Y%m%d%H.pcap"\n'
        f'rotation = "1h"\nskew = "3s"\n{more}'
        for name in names
    )
    return f'[query_sets.n]\nfiles = ["n.gsql"]\n{links}'


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Three hours of links a and b, all published."""
    root = tmp_path / "lake"
    root.mkdir()
    (root / "n.gsql").write_text(QUERY)
    for number in range(3):
        hour(tmp_path, "a", number, 60)
        hour(tmp_path, "b", number, 30)
    settle(root, sections(tmp_path, "a", "b"))
    return open_lake(root)


def settle(root: Path, text: str) -> None:
    """Writes settings, ingests, and runs what is due."""
    (root / "lowwater.toml").write_text(text)
    for command in ("ingest", "backfill"):
        said = lowwater(command, "--lake", root)
        assert said.code == 0, said.err


def published(lake: Lake) -> dict[str, int]:
    said = lowwater("rows", "n", "--lake", lake.root, "--format", "csv")
    assert said.code == 0, said.err
    lines = [line.split(",") for line in said.out.splitlines()[1:]]
    return {line[0]: int(line[1]) for line in lines}


def words(lake: Lake) -> dict[str, str]:
    """Hour -> its state; the last one waits for its skew."""
    return {format_instant(row.start)[11:13]: row.shown for row in statuses(lake.root, lake.root)[:-1]}


@pytest.mark.slow
def test_a_link_that_is_over_keeps_its_history(lake: Lake, tmp_path: Path) -> None:
    assert set(words(lake).values()) == {"done"} and sorted(published(lake).values()) == [90, 90, 90]
    hour(tmp_path, "a", 3, 60)
    settle(lake.root, sections(tmp_path, "a"))
    assert sorted(published(lake).values()) == [60, 90, 90, 90], "hour 3 has link a alone"
    assert set(words(lake).values()) == {"done"}
    for command in ("status", "plan", "report", "skew"):
        said = lowwater(command, "--lake", lake.root)
        assert said.code == 0 and (command == "skew" or "no section [links.b] any more" in said.out + said.err)
    said = lowwater("status", "--lake", lake.root)
    assert f'until = "{format_instant(at(3 * 3600))}"' in said.out + said.err
    # what the hint says to write changes nothing
    text = (
        sections(tmp_path, "a")
        + sections(tmp_path, "b", more=f'until = "{format_instant(at(3 * 3600))}"\n')
        .partition("\n")[2]
        .partition("\n")[2]
    )
    settle(lake.root, text)
    assert set(words(lake).values()) == {"done"} and sorted(published(lake).values()) == [60, 90, 90, 90]
    # and a link that comes back goes on
    hour(tmp_path, "b", 3, 30)
    settle(lake.root, sections(tmp_path, "a", "b"))
    assert sorted(published(lake).values()) == [90] * 4 and not load_config(lake.root).ended


@pytest.mark.slow
def test_a_section_that_is_renamed_counts_no_record_twice(lake: Lake, tmp_path: Path) -> None:
    settle(lake.root, sections(tmp_path, "a", "c=b"))
    assert sorted(published(lake).values()) == [90] * 3 and set(words(lake).values()) == {"done"}
    config = load_config(lake.root)
    found = read_captures(lake, ["a", "b", "c"], config)
    assert [len(found[link]) for link in "abc"] == [3, 0, 3]
    said = lowwater("status", "--lake", lake.root)
    assert "no section" not in said.out + said.err


@pytest.mark.slow
def test_hours_without_a_record_are_no_copies_of_each_other(tmp_path: Path) -> None:
    """Counterexample: a link that was taken down had a silent hour, and so had another one."""
    root = tmp_path / "lake"
    root.mkdir()
    (root / "n.gsql").write_text(QUERY)
    for number in range(3):
        hour(tmp_path, "a", number, 60 if number != 2 else 1)
        hour(tmp_path, "b", number, 30 if number != 1 else 1)
    for path in (tmp_path / "a" / "x_2027011510.pcap", tmp_path / "b" / "x_2027011509.pcap"):
        path.write_bytes(path.read_bytes()[:24])
        os.utime(path, ns=(BASE - 2000 * HOUR,) * 2)
    settle(root, sections(tmp_path, "a", "b"))
    lake = open_lake(root)
    assert set(words(lake).values()) == {"done"}
    (root / "lowwater.toml").write_text(sections(tmp_path, "a"))
    assert len(read_captures(lake, ["b"])["b"]) == 3 and set(words(lake).values()) == {"done"}
    settle(root, sections(tmp_path, "c=b", "a"))
    assert [len(found) for found in read_captures(lake, ["b", "c"]).values()] == [0, 3], "and by another name they are"


@pytest.mark.slow
def test_who_names_a_link_that_is_renamed_in_part_names_both(lake: Lake, tmp_path: Path) -> None:
    """Counterexample: the old files of a link were deleted when its section was renamed, and a set named the old link:
    the hours of the files that were there were published again without it, `done`."""
    (tmp_path / "c").mkdir()
    (tmp_path / "b" / "x_2027011510.pcap").rename(tmp_path / "c" / "x_2027011510.pcap")
    (lake.root / "n.gsql").write_text(QUERY.replace("ETH", "[ab].ETH"))
    (lake.root / "lowwater.toml").write_text(sections(tmp_path, "a", "c") + '[sets]\nab = ["a", "b"]\n')
    assert lowwater("ingest", "--lake", lake.root).code == 0
    said = lowwater("backfill", "--lake", lake.root)
    assert said.code != 0 and "some of its captures are of link c now" in said.out + said.err
    assert sorted(published(lake).values()) == [90, 90, 90]
    for command in ("status", "plan", "report"):
        said = lowwater(command, "--lake", lake.root)
        assert "some of its captures are of link c now" in said.out + said.err
    (lake.root / "n.gsql").write_text(QUERY)
    since = sections(tmp_path, "c", more=f'since = "{format_instant(at(7200))}"\n').partition("[links")
    settle(lake.root, sections(tmp_path, "a") + "".join(since[1:]))
    assert sorted(published(lake).values()) == [90, 90, 90] and set(words(lake).values()) == {"done"}


@pytest.mark.slow
def test_names_with_ends_go_on_to_share_their_last_unit(tmp_path: Path) -> None:
    """Counterexample: a recorder that is started again within the last minute of a file names both files by it, and of
    a link that was taken down one of the two was read no more."""
    root, b = tmp_path / "lake", tmp_path / "b"
    root.mkdir()
    for name, begin, end in (("0800-202701150929", 0, 5350), ("0929-202701151059", 5401, 10800)):
        path = capture(b / f"x_20270115{name}.pcap", range(begin, end, 60))
        os.utime(path, ns=(BASE - 2000 * HOUR,) * 2)
    hour(tmp_path, "a", 0, 60)
    pattern = "x_%Y%m%d%H%M-%LY%Lm%Ld%LH%LM.pcap"
    (root / "lowwater.toml").write_text(
        sections(tmp_path, "a") + f'[links.b]\ncaptures = "{b}/{pattern}"\nskew = "3s"\n'
    )
    assert lowwater("ingest", "--lake", root).code == 0
    lake = open_lake(root)
    assert len(read_captures(lake, ["b"])["b"]) == 2
    (root / "lowwater.toml").write_text(sections(tmp_path, "a"))
    (found,) = read_captures(lake, ["b"]).values()
    assert len(found) == 2 and not found.unread


@pytest.mark.slow
@pytest.mark.parametrize("text", ["{", '{"b": {"section": {}, "end": -5}}', '{"b": {"section": {"captures": 5}}}'])
def test_sections_that_another_program_changed_are_no_reason_to_publish_without_a_link(
    tmp_path: Path, text: str
) -> None:
    root = tmp_path / "lake"
    root.mkdir()
    (root / "n.gsql").write_text(QUERY)
    (root / "lowwater.toml").write_text(sections(tmp_path, "a", "b"))
    for link in ("a", "b"):
        hour(tmp_path, link, 0, 60)
    assert lowwater("ingest", "--lake", root).code == 0
    (root / "lowwater.toml").write_text(sections(tmp_path, "a"))
    (root / "_links" / "sections.json").write_text(text)
    for command in ("plan", "backfill", "ingest"):
        said = lowwater(command, "--lake", root)
        assert said.code != 0 and "it does not have the last section of each link" in said.err
    (root / "_links" / "sections.json").unlink()
    (root / "lowwater.toml").write_text(sections(tmp_path, "a", "b"))
    assert lowwater("plan", "--lake", root).code == 0


@pytest.mark.slow
def test_a_link_whose_section_no_command_has_known_has_ended_all_the_same(lake: Lake, tmp_path: Path) -> None:
    """As in a lake of an older version, which kept no sections: its hours stay, and none is published without it."""
    before = published(lake)
    (lake.root / "_links" / "sections.json").unlink()
    for number in range(3, 5):
        hour(tmp_path, "a", number, 60)
    settle(Path(lake.root), sections(tmp_path, "a"))
    after = published(lake)
    assert {begin: after[begin] for begin in before} == before and len(after) > len(before)
    assert load_config(lake.root).ended.keys() == {"b"}


@pytest.mark.slow
def test_a_link_that_joins_later_leaves_the_hours_before_as_they_are(lake: Lake, tmp_path: Path) -> None:
    """All hours were stale, although no record of it can be in those before its `since`."""
    text = sections(tmp_path, "a", "b") + sections(tmp_path, "c", more=f'since = "{format_instant(at(2 * 3600))}"\n')
    text = text.replace('[query_sets.n]\nfiles = ["n.gsql"]\n', "", 1)
    (lake.root / "lowwater.toml").write_text(text)
    assert [words(lake)[hour] for hour in ("08", "09")] == ["done"] * 2
    hour(tmp_path, "c", 2, 10)
    assert lowwater("ingest", "--lake", lake.root).code == 0
    assert [words(lake)[hour] for hour in ("08", "09")] == ["done"] * 2
    settle(lake.root, text)
    assert sorted(published(lake).values()) == [90, 90, 100]
