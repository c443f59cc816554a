"""Hours whose packets went by age owe nothing, whatever changes: links, interfaces, decoders, runs that failed
(SEMANTICS S11)."""

from __future__ import annotations

import copy
import os
import shutil
import time
from pathlib import Path

import pytest
from lowwater_review.ledgers import Ledgers
from lowwater_review.pages import render

from lowwater.instants import HOUR, SECOND, format_instant
from lowwater.lake.ingestion import known_files
from lowwater.lake.layout import lake_to_read
from lowwater.lake.ledgers.runs import ReplayRow, record_replays
from lowwater.lake.packets import PacketFiles
from lowwater.replay.schedule.due import statuses
from tests.cli.hostile import clean
from tests.lake.support import BASE, capture
from tests.lake.test_interfaces import pcapng
from tests.replay.month import page_states
from tests.replay.support import column_rows

pytestmark = pytest.mark.slow
YEAR = 8760 * 3600  # the captures are so much older than BASE, s
BEGIN = BASE - YEAR * SECOND
QUERY = "DEFINE { query_name n; } SELECT tb, count(*) AS c FROM ETH GROUP BY time/3600 AS tb\n"


class Old:
    """A lake of some links and four hours, all published, whose first two hours go with `trim`."""

    def __init__(self, folder: Path, links: str = "ab") -> None:
        self.folder, self.links, self.more, self.age = folder, links, "", ""
        self.root = folder / "lake"
        self.root.mkdir()
        (folder / "n.gsql").write_text(QUERY)
        for link in links:
            self.record(link)
        self.settle()

    def record(self, link: str, hours: tuple[int, ...] = (0, 1, 2, 3)) -> None:
        for hour in hours:
            path = self.folder / link / f"x_20260115{8 + hour:02}.pcap"
            capture(path, [3600 * hour - YEAR + 240 * number + ord(link) % 7 for number in range(15)])
            os.utime(path, ns=(BEGIN - 100 * HOUR,) * 2)

    def write(self) -> None:
        text = f'[query_sets.n]\nfiles = ["../n.gsql"]\n{self.age}'
        for link in self.links:
            text += f'[links.{link}]\ncaptures = "../{link}/x_%Y%m%d%H.pcap"\nrotation = "1h"\n'
            text += f'skew = "3s"\n{self.more}'
        (self.root / "lowwater.toml").write_text(text)

    def settle(self) -> None:
        """Writes the settings, ingests, and runs what is due."""
        self.write()
        clean("ingest", "--lake", self.root)
        clean("backfill", "--lake", self.root, code=None)

    def retain(self, hours: float = 2.5) -> None:
        age = (time.time_ns() - BEGIN) // SECOND - round(3600 * hours)
        self.age = f'[retention]\npackets = "{age}s"\n'
        self.write()

    def trim(self, hours: float = 2.5) -> None:
        self.retain(hours)
        assert "removed packets" in clean("maintain", "--lake", self.root).out

    def words(self) -> list[str]:
        return [row.shown for row in statuses(self.root, self.folder)]

    def pages(self) -> list[str]:
        snapshot = Ledgers(self.root, self.folder).now()
        return [*page_states(lambda address: render(snapshot, address)).values()]

    def counts(self) -> list[int]:
        """The number of packets of each hour, as published."""
        found = column_rows(self.root, "n", ["tb", "c"], BEGIN, BASE)
        return [count for _, count in sorted(found)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Old:
    return Old(tmp_path_factory.mktemp("old"))


@pytest.fixture
def lake(made: Old, tmp_path: Path) -> Old:
    """A copy at another place, with its captures."""
    shutil.copytree(made.folder, tmp_path / "old")
    lake = copy.copy(made)
    lake.folder, lake.root = tmp_path / "old", tmp_path / "old" / "lake"
    return lake


def test_a_link_that_joins_or_goes(lake: Old) -> None:
    lake.trim()
    assert lake.words() == ["done", "done", "done", "provisional"] and lake.counts() == [30] * 4
    lake.record("c")
    lake.links = "abc"
    lake.settle()
    assert lake.words() == ["kept", "kept", "done", "provisional"] and lake.counts() == [30, 30, 45, 45]
    clean("maintain", "--lake", lake.root)
    assert lake.words() == ["kept", "kept", "done", "provisional"]
    lake.links = "ac"
    lake.settle()
    assert lake.words() == ["kept", "kept", "done", "provisional"] and lake.counts() == [30, 30, 45, 45]
    clean("verify", "--lake", lake.root)


def test_a_copy_of_a_time_that_has_gone_leaves_no_packets(lake: Old) -> None:
    """Damaged, they would end each backup."""
    lake.trim()
    corrected = capture(lake.folder / "a" / "x_2026011508.pcap", [240 * number + 5 - YEAR for number in range(15)])
    os.utime(corrected, ns=(BEGIN - 99 * HOUR,) * 2)
    assert "a: 1 new" in clean("ingest", "--lake", lake.root).err
    left = {path.parent.name for path in (lake.root / "packets").rglob("hour=*/*.parquet")}
    assert left == {f"hour={BEGIN // HOUR + hour}" for hour in (2, 3)}
    assert lake.words() == ["kept", "done", "done", "provisional"] and lake.counts() == [30] * 4
    assert "a: no new file" in clean("ingest", "--lake", lake.root).err
    clean("verify", "--lake", lake.root, "--data")


def test_an_hour_that_waits_for_a_link_when_its_packets_go(lake: Old) -> None:
    lake.record("a", (5,))
    lake.record("b", (5,))
    lake.settle()
    assert lake.words()[3:] == ["provisional", "cannot start", "provisional"]
    lake.trim(4.5)
    assert lake.words()[3:] == ["kept", "cannot start", "provisional"], "hour 4 may bring late packets, for no run"
    lake.record("a", (4,))
    lake.record("b", (4,))
    lake.settle()
    assert lake.words()[3:] == ["done", "done", "provisional"] and lake.counts() == [30] * 6


def test_hours_are_kept_when_intervals_are_longer_from_now_on(lake: Old) -> None:
    lake.trim(1.5)
    lake.age += '[interval]\nlength = "2h"\n'
    lake.settle()
    assert lake.words() == ["done", "done", "provisional"], "no run makes the first two hours one"
    (lake.folder / "n.gsql").write_text(QUERY.replace("count(*)", "count(*)+0"))
    assert lake.words() == ["kept", "kept", "stale"]
    assert lake.pages() == ["kept", "stale"], "a cell of two hours shows the graver one"
    lake.settle()
    assert lake.words() == ["kept", "kept", "provisional"] and lake.counts() == [30] * 4
    lake.age = lake.age.replace("2h", "1h")
    lake.settle()
    assert lake.words() == lake.pages() == ["kept", "done", "done", "provisional"] and lake.counts() == [30] * 4


def test_what_a_person_says_of_hours_whose_packets_are_gone(lake: Old) -> None:
    """What they accept makes nothing `done` that only packets could tell of, and what they drop is made by no run."""
    path = lake.folder / "a" / "x_2026011508.pcap"
    lake.more = 'policy = "publish"\nthresholds.malformed = 0.9\n'
    data = bytearray(path.read_bytes())
    data[24 + 150 : 24 + 550] = b"\xff" * 400  # 8 of 15 records
    path.write_bytes(data)
    os.utime(path, ns=(BEGIN - 99 * HOUR,) * 2)
    lake.settle()
    lake.trim()
    assert lake.words() == ["incomplete", "done", "done", "provisional"]
    act = ("accept", "n", "--lake", lake.root, "--interval", format_instant(BEGIN), "--cause", "damage")
    assert "accepted" in clean(*act, "--why", "the disk failed").out
    assert lake.words()[0] == "kept" and "kept" in clean("backfill", "--lake", lake.root).err
    clean(*act, "--undo")
    assert lake.words()[0] == "incomplete" and lake.counts() == [22, 30, 30, 30]
    drop = ("retire", "query", "n", "--lake", lake.root, "--drop", "--why", "made anew")
    said = clean(*drop).out
    assert "2 intervals of it can be made by no run again" in said and "nothing was changed: --yes drops it" in said
    assert lake.words()[0] == "incomplete" and lake.counts() == [22, 30, 30, 30]
    assert "tables/n: gone" in clean(*drop, "--yes").out
    lake.settle()
    assert lake.words() == ["kept", "kept", "done", "provisional"] and lake.counts() == [30, 30]


class WithInterfaces(Old):
    """Each file has two interfaces, of which one hears half as much."""

    def record(self, link: str, hours: tuple[int, ...] = (0, 1, 2, 3)) -> None:
        (self.folder / link).mkdir()
        for hour in hours:
            path = self.folder / link / f"x_20260115{8 + hour:02}.pcap"
            begin = 3600 * hour - YEAR
            packets = [(begin + 240 * number, number % 3 // 2) for number in range(15)]
            pcapng(path, ["eth0", "eth1"], packets)
            os.utime(path, ns=(BEGIN - 100 * HOUR,) * 2)


def test_a_link_with_interfaces_that_is_dropped_later(tmp_path: Path) -> None:
    lake = WithInterfaces(tmp_path, "d")
    lake.trim()
    packets = [path for path in (lake.root / "packets").rglob("*.parquet") if "_delta_log" not in path.parts]
    assert len(packets) == 4, "packets of interfaces lie in the folder of their link, and go from there"
    assert {*PacketFiles.of(lake_to_read(lake.root)).horizons} == {"d/eth0", "d/eth1"}
    assert lake.words() == ["done", "done", "done", "provisional"] and lake.counts() == [15] * 4
    clean("rename", "link", "d", "east", "--lake", lake.root, "--why", "a better name")
    lake.more = f'until = "{format_instant(BEGIN + 4 * HOUR)}"\n'
    settings = lake.root / "lowwater.toml"
    settings.write_text(settings.read_text() + lake.more)
    clean("backfill", "--lake", lake.root)
    assert lake.words() == ["done"] * 4
    said = clean("retire", "link", "east", "--lake", lake.root, "--drop", "--yes", "--why", "the contract ended").out
    assert "packets/link=east" in said
    assert not [path for path in (lake.root / "packets").rglob("*.parquet") if "_delta_log" not in path.parts]
    assert lake.words() == ["done"] * 4 and lake.counts() == [15] * 4
    for command in ("ingest", "maintain", "verify", "report", "skew"):
        clean(command, "--lake", lake.root)


def test_a_file_of_which_one_interface_has_gone(tmp_path: Path) -> None:
    lake = WithInterfaces(tmp_path, "d")
    size = sum(path.stat().st_size for path in (lake.root / "packets").rglob("hour=*/*.parquet"))
    lake.age = f'[retention]\npackets = "{(size - 1) / 1000:.3f}kB"\n'
    lake.write()
    clean("maintain", "--lake", lake.root)
    assert {*PacketFiles.of(lake_to_read(lake.root)).horizons} == {"d/eth0"}
    assert "d: no new file" in clean("ingest", "--lake", lake.root).err, "what is gone of it is not missing"


def test_a_decoder_that_reads_otherwise_than_captures_that_are_gone(lake: Old, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing could be done about the hours, which were told of for ever."""
    monkeypatch.setattr(known_files, "DECODER_VERSION", 99)
    (lake.folder / "a" / "x_2026011508.pcap").unlink()
    assert lake.words() == ["cannot start"] * 4, "nobody has looked yet"
    clean("ingest", "--lake", lake.root)
    assert lake.words() == ["kept", "stale", "stale", "stale"]
    assert "lies nowhere any more" in "".join(clean("plan", "--lake", lake.root).out.split("\n"))
    clean("backfill", "--lake", lake.root)
    assert lake.words() == ["kept", "done", "done", "provisional"] and lake.counts() == [30] * 4
    clean("why", "n", format_instant(BEGIN), "--lake", lake.root)
    lake.record("a", (0,))
    clean("ingest", "--lake", lake.root)
    assert lake.words()[0] == "stale", "it has come back"


def test_a_decoder_that_reads_otherwise(lake: Old, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.trim()
    monkeypatch.setattr(known_files, "DECODER_VERSION", 99)
    said = clean("ingest", "--lake", lake.root).out
    assert said.count("replaced") == 4, "captures before the horizon are not read again"
    clean("backfill", "--lake", lake.root)
    assert lake.words()[:2] in (["kept", "kept"], ["done", "done"]) and lake.words()[2] == "done"
    assert lake.counts() == [30] * 4 and "nothing is due" in clean("plan", "--lake", lake.root).out


def test_a_run_that_failed_before(lake: Old) -> None:
    failed = ReplayRow("n", "", BEGIN, BEGIN + HOUR, "low", "failed", time.time_ns(), "a full disk")
    record_replays(lake_to_read(lake.root), [failed])
    assert lake.words()[0] == "failed"
    lake.trim()
    assert lake.words()[:2] == ["kept", "done"] and lake.counts() == [30] * 4
    assert "a full disk" in " ".join(clean("plan", "--lake", lake.root).out.split())
