"""Rules A1, T6: drops that captures declare, counted over the files of a link and charged to intervals."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from lowwater.config import Config, Link
from lowwater.instants import HOUR, SECOND
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.ledgers.drops import counted
from lowwater.lake.ledgers.missing import declared_drops, drop_lines, lost_of_link
from tests.capturemaker import udp
from tests.lake.support import BASE
from tests.pcapngmaker import Section

FRAME = udp("10.0.0.1", "10.0.0.2", 4000, 53)
MADE = Section()
CONFIG = Config(links={"a": Link()})


def hour(folder: Path, number: int, packets: int = 60, **counts: int) -> Path:
    """An hour of a recorder with a packet a minute, and a statistics block at its end; `since` is an hour."""
    begin = (BASE + number * HOUR) // 1000
    blocks = [MADE.header(), MADE.interface("eth0")]
    blocks += [MADE.packet(begin + at * 3_600_000_000 // packets, FRAME) for at in range(packets)]
    if counts:
        if (since := counts.pop("since", None)) is not None:
            counts["start"] = (BASE + since * HOUR) // 1000
        last = begin + 3_599_000_000
        blocks.append(MADE.statistics(last, end=last, **counts))
    path = folder / f"{number:02}.pcapng"
    path.write_bytes(b"".join(blocks))
    return path


def lost(lake: Lake, hours: int, link: str = "a/eth0") -> list[int]:
    captures = read_captures(lake, [link])[link]
    return [
        counted(lost_of_link(lake, link, captures, BASE + at * HOUR, BASE + (at + 1) * HOUR))[0] for at in range(hours)
    ]


@pytest.mark.parametrize(
    ("counts", "right"),
    [
        # each file counts its own, as its counters begin with it
        ([{"ifdrop": 5, "since": 0}, {"ifdrop": 7, "since": 1}, {"ifdrop": 7, "since": 2}], [5, 7, 7]),
        # one counter goes on over the files of a recorder
        ([{"ifdrop": 5, "since": 0}, {"ifdrop": 7, "since": 0}, {"ifdrop": 7, "since": 0}], [5, 2, 0]),
        # nothing says when they began: the received packets tell
        ([{"ifdrop": 5, "ifrecv": 65}, {"ifdrop": 7, "ifrecv": 67}, {"ifdrop": 9, "ifrecv": 69}], [5, 7, 9]),
        ([{"ifdrop": 5, "ifrecv": 65}, {"ifdrop": 7, "ifrecv": 127}, {"ifdrop": 9, "ifrecv": 189}], [5, 2, 2]),
        # a recorder that was started again
        ([{"ifdrop": 5, "since": 0}, {"ifdrop": 4, "since": 1}, {"ifdrop": 6, "since": 1}], [5, 4, 2]),
        ([{"ifdrop": 5}, {"ifdrop": 4}, {}], [5, 4, 0]),
    ],
)
def test_a_counter_counts_once_over_the_files_in_any_order(
    tmp_path: Path, counts: list[dict[str, int]], right: list[int]
) -> None:
    files = [hour(tmp_path, number, **given) for number, given in enumerate(counts)]
    for turn, order in enumerate(permutations(range(3))):
        lake = open_lake(tmp_path / f"lake{turn}")
        for number in order[: 1 + turn % 3]:
            ingest(lake, "a", [files[number]], CONFIG)
        ingest(lake, "a", [files[number] for number in order[1 + turn % 3 :]], CONFIG)
        assert lost(lake, 3) == right, order


def test_a_count_of_a_time_that_meets_several_intervals_is_told_in_each_and_divided_in_none(tmp_path: Path) -> None:
    lake, begin = open_lake(tmp_path / "lake"), BASE // 1000
    blocks = [MADE.header(), MADE.interface("eth0")]
    blocks += [MADE.packet(begin + at * 60_000_000, FRAME) for at in range(180)]
    blocks.append(MADE.statistics(begin + 179 * 60_000_000, ifdrop=30))
    blocks.append(MADE.dropping(begin + 180 * 60_000_000 - 1, FRAME, 2))
    (tmp_path / "a.pcapng").write_bytes(b"".join(blocks))
    ingest(lake, "a", [tmp_path / "a.pcapng"], CONFIG)
    assert lost(lake, 4) == [30, 30, 32, 0]
    (line,) = drop_lines(lake)
    assert (
        line.startswith("link 'a/eth0': 32 records were lost between 2027-01-15T08:00:00Z and ") and "a.pcapng" in line
    )


def test_an_interval_is_incomplete_above_the_limit_of_its_link_only(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "lake")
    ingest(lake, "a", [hour(tmp_path, 0, 1000, ifdrop=1, since=0), hour(tmp_path, 1, 1000, ifdrop=2, since=1)], CONFIG)
    captures = read_captures(lake, ["a/eth0"])

    def found(start: int, end: int, **settings: float) -> list[str]:
        config = Config(links={"a/eth0": Link(**settings)})
        find = declared_drops(lake, config, captures)
        return [each.reason for each in find("a/eth0", start, start, end)]

    assert found(BASE, BASE + HOUR) == []  # one of 1,001
    (text,) = found(BASE + HOUR, BASE + 2 * HOUR)
    assert text == (
        "link 'a/eth0': 2 records were lost between 2027-01-15T09:00:00Z and 2027-01-15T09:59:56.4Z, as 01.pcapng "
        "says: more than max_drops = 0.001 of the records of the interval, and in no row"
    )
    assert found(BASE + HOUR, BASE + 2 * HOUR, max_drops=0.002) == []
    assert found(BASE, BASE + HOUR, max_drops=0) != []
    # a part of a file: its packets of this time count, and no others
    assert found(BASE, BASE + HOUR // 2) != [] and found(BASE, BASE + HOUR // 2, max_drops=0.002) == []
    assert found(BASE + 3 * HOUR, BASE + 4 * HOUR) == []


def test_a_file_that_grew_or_was_replaced_says_its_own(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "lake")
    path = hour(tmp_path, 0, ifdrop=5, since=0)
    ingest(lake, "a", [path], CONFIG)
    whole = path.read_bytes()
    last = (BASE + HOUR - SECOND // 2) // 1000
    path.write_bytes(whole + MADE.dropping(last, FRAME, 3))
    ingest(lake, "a", [path], CONFIG)
    assert lost(lake, 1) == [8]
    ingest(lake, "a", [hour(tmp_path, 0, ifdrop=5, since=0)], CONFIG)
    hour(tmp_path, 0, 61)
    ingest(lake, "a", [path], CONFIG)
    assert lost(lake, 1) == [0] and drop_lines(lake) == []


def test_interfaces_keep_their_own_or_add_up_as_one_link(tmp_path: Path) -> None:
    begin = BASE // 1000
    blocks = [MADE.header(), MADE.interface("x"), MADE.interface("y")]
    blocks += [MADE.packet(begin + at * 60_000_000, FRAME, at % 2) for at in range(60)]
    blocks += [MADE.statistics(begin + 59 * 60_000_000, number, ifdrop=count) for number, count in ((0, 3), (1, 4))]
    path = tmp_path / "a.pcapng"
    path.write_bytes(b"".join(blocks))
    each, one = open_lake(tmp_path / "each"), open_lake(tmp_path / "one")
    ingest(each, "a", [path], CONFIG)
    assert (lost(each, 1, "a/x"), lost(each, 1, "a/y")) == ([3], [4])
    ingest(one, "a", [path], Config(links={"a": Link(interfaces="one")}))
    assert lost(one, 1, "a") == [7]
