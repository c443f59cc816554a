"""What `init` proposes is checked against the records: lives, rotations, zones, and which files are one link."""

from __future__ import annotations

from collections.abc import Sequence
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


@pytest.mark.parametrize("name", ["n-20210930-03-baseline.pcap", "n-20210930-02.pcap", "n-20210930.pcap"])
def test_a_lone_file_that_does_not_begin_at_its_name(tmp_path: Path, name: str) -> None:
    """No rotation, no zone, and a life that holds every record."""
    capture(tmp_path / "c" / name, BEGIN, END)
    links, text, _ = proposed(tmp_path)
    link = links["n"] if "n" in links else links["n_baseline"]
    assert (link.rotation, link.timezone, link.since) == (None, "UTC", DAY + BEGIN)
    assert "the records contradict the names" in text and "its records are of 2021-09-30T01:52:36Z" in text
    assert '# until = "2021-09-30T02:37:56.000000001Z"' in text


@pytest.mark.parametrize(
    ("name", "begin", "end", "rotation"),
    [
        ("n-20210930-02.pcap", clock(2, 0), clock(3, 0), HOUR),
        ("n-20210930-02.pcap", clock(2, 0), clock(2, 46), None),
        ("n-20210930-02.pcap", clock(2, 8), clock(3, 0), None),
        ("n-20210930-04.pcap", clock(2, 0), clock(3, 0), None),
        ("n-20210930_020000.pcap", clock(1, 59, 59), clock(2, 59), None),
    ],
)
def test_a_lone_file_fills_the_time_that_is_guessed(
    tmp_path: Path, name: str, begin: int, end: int, rotation: int | None
) -> None:
    capture(tmp_path / "c" / name, begin, end)
    link = proposed(tmp_path)[0]["n"]
    assert link.rotation == rotation and link.since == DAY + begin
    assert link.timezone == "UTC", "one file proves no zone"


def rotated(tmp_path: Path, spans: Sequence[tuple[str, int, int]]) -> Link:
    for name, begin, end in spans:
        capture(tmp_path / "c" / f"n_20210930_{name}.pcap", begin, end)
    return proposed(tmp_path)[0]["n"]


def test_a_first_file_that_begins_late_in_its_hour(tmp_path: Path) -> None:
    link = rotated(tmp_path, [("01", BEGIN, clock(2, 0)), ("02", clock(2, 0), clock(2, 38))])
    assert (link.rotation, link.timezone, link.since) == (HOUR, "UTC", DAY + BEGIN)


def test_files_that_run_over_their_rotation(tmp_path: Path) -> None:
    link = rotated(tmp_path, [("01", clock(1, 0), clock(2, 0)), ("02", clock(2, 0), clock(3, 20))])
    assert link.rotation is None and link.since == DAY + clock(1, 0)


def test_a_file_that_begins_before_its_name(tmp_path: Path) -> None:
    link = rotated(tmp_path, [("01", clock(0, 58), clock(1, 58)), ("02", clock(1, 58), clock(2, 58))])
    assert link.rotation is None and link.since == DAY + clock(0, 58)


def test_names_nearer_than_their_rotation(tmp_path: Path) -> None:
    """tcpdump was started again within an hour: the file before covers to its last record."""
    hours = [(0, 0), (1, 0), (1, 20), (2, 20), (3, 20)]
    spans = [(f"{h:02d}{m:02d}", clock(h, m), clock(h, m) + 15 * MINUTE) for h, m in hours]
    assert rotated(tmp_path, spans).rotation == HOUR


def test_counted_files_of_one_date(tmp_path: Path) -> None:
    """`tcpdump -C` with a date in the name: the date is when it was started."""
    for number, begin in enumerate((BEGIN, BEGIN + 15 * MINUTE, BEGIN + 30 * MINUTE)):
        capture(tmp_path / "c" / f"n_20210930_015236.pcap{number or ''}", begin, begin + 15 * MINUTE)
    links, text, _ = proposed(tmp_path)
    assert list(links) == ["n"] and links["n"].rotation is None and links["n"].since == DAY + BEGIN
    assert links["n"].captures is not None and links["n"].captures[0].endswith("n_%Y%m%d_%H%M%S.pcap%c")
    assert "several files have the same date in their names" in text


@pytest.mark.parametrize(
    "pattern",
    ["node_10.{0}.0.1{0}.pcap", "10.{0}.0.1/trace.pcap", "b-20210930-03__node_10.{0}.0.1{0}.pcap", "x{0}.pcap"],
)
def test_files_that_overlap_are_several_links(tmp_path: Path, pattern: str) -> None:
    for number in range(1, 10):
        capture(tmp_path / "c" / pattern.format(number), BEGIN + number * SECOND, END + number * SECOND)
    links, text, said = proposed(tmp_path)
    assert len(links) == 9 and {link.since for link in links.values()} == {
        DAY + BEGIN + n * SECOND for n in range(1, 10)
    }
    assert len(load_config(tmp_path / "lake").sets["all"]) == 9
    if pattern != "x{0}.pcap":  # a number at the end of a word is no counter: these are links by their names already
        assert "its files overlap in time, so they belong to 9 links, told apart by name" in said.out
        assert "files that overlap in time belong to several links" in text


@pytest.mark.parametrize("dated", [False, True])
def test_rotated_files_of_several_links_in_one_folder(tmp_path: Path, dated: bool) -> None:
    """The number that tells the links apart is found among those that count their files."""
    for node in (1, 2, 3):
        for part in range(4):
            begin = BEGIN + node * SECOND + part * 15 * MINUTE
            text = f"-20210930{begin // HOUR:02d}{begin // MINUTE % 60:02d}{begin // SECOND % 60:02d}" if dated else ""
            counter = "" if dated else str(part or "")
            capture(tmp_path / "c" / f"10.{node}.0.7-trace{text}.pcap{counter}", begin, begin + 15 * MINUTE)
    links, text, _ = proposed(tmp_path)
    assert len(links) == 3 and {link.rotation for link in links.values()} == ({15 * MINUTE} if dated else {None})
    assert {link.since for link in links.values()} == {DAY + BEGIN + node * SECOND for node in (1, 2, 3)}
    assert text.count("follow one another in time") + text.count("one of the links of") == 3


def test_files_that_follow_one_another_within_their_disorder(tmp_path: Path) -> None:
    for number in range(3):
        capture(tmp_path / "c" / f"n-{number}.pcap", number * HOUR, (number + 1) * HOUR + 3 * SECOND, SECOND)
    links = proposed(tmp_path)[0]
    assert list(links) == ["n"] and links["n"].skew == 2 * SECOND, "what one file is behind the other counts as late"


@pytest.mark.parametrize(("step", "pause", "proposed_tolerance"), [(1, 1, 2), (7, 7, 10), (1, 7, 2)])
def test_pauses_that_are_no_longer_than_silences(
    tmp_path: Path, step: int, pause: int, proposed_tolerance: int
) -> None:
    """`tcpdump -C`: a pause between two files says nothing where the link is silent for as long inside of them."""
    capture(tmp_path / "c" / "n.pcap", 0, 700 * SECOND, step * SECOND)
    last = (700 - 1) // step * step * SECOND
    capture(tmp_path / "c" / "n.pcap1", last + pause * SECOND, HOUR, step * SECOND)
    links = proposed(tmp_path)[0]
    assert list(links) == ["n"] and links["n"].gap_tolerance == proposed_tolerance * SECOND


def test_the_same_time_under_names_that_say_nothing(tmp_path: Path) -> None:
    for day in (1, 2):
        capture(tmp_path / "c" / f"n_202109{day + 28}.pcap", BEGIN + day * SECOND, END)
    said = proposed(tmp_path)[2]
    assert "their names do not show which links they belong to" in said.out


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


def test_a_file_within_the_rotation_of_another_is_no_restart_where_both_go_on(tmp_path: Path) -> None:
    for begin in (*(clock(hour, 0) for hour in range(6)), clock(3, 20)):
        at = f"{begin // HOUR:02}{begin % HOUR // MINUTE:02}"
        capture(tmp_path / "c" / f"n-20210930-{at}.pcap", begin, begin + (HOUR if begin % HOUR == 0 else 10 * MINUTE))
    links, text, _ = proposed(tmp_path, **{"--sample": "7"})
    assert links["n"].rotation is None and "go on when the next one begins" in text
