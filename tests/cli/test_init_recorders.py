"""`init` over what recorders leave: spills, archives, zones, folders, lost and cut files, copies."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from lowwater.config import load_config
from lowwater.instants import HOUR, SECOND
from lowwater.lake.files.patterns import declared_coverage
from lowwater.lake.files.proposal import LinkProposal, propose
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.ledgers.coverage import gaps
from tests.capturemaker import pcap_bytes, tcp
from tests.replay.support import lowwater

FRAME = tcp("10.0.0.1", "10.0.0.2", 1024, 80)
BASE = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
ZEEK = (
    "#separator \\x09\n#set_separator\t,\n#empty_field\t(empty)\n#unset_field\t-\n#path\tconn\n"
    "#fields\tts\tuid\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\tduration\n"
    "#types\ttime\tstring\taddr\tport\taddr\tport\tenum\tinterval\n"
)


def capture(path: Path, begin: float, length: float, count: int = 60, cut: bool = False) -> None:
    """A capture with packets from `begin` on, seconds after BASE."""
    path.parent.mkdir(parents=True, exist_ok=True)
    stamps = [int((BASE + begin + length * at / count) * SECOND) + 1000 for at in range(count)]
    data = pcap_bytes([(stamp, FRAME) for stamp in stamps])
    data = data[:-9] if cut else data
    path.write_bytes(gzip.compress(data, 1) if path.suffix == ".gz" else data)


def at(seconds: int, form: str, zone: str = "UTC") -> str:
    return datetime.fromtimestamp(BASE + seconds, ZoneInfo(zone)).strftime(form)


def links(folder: Path) -> dict[str, LinkProposal]:
    return {link.named.link: link for link in propose(folder, 3).links}


def conn(path: Path, begin: int, records: Iterable[tuple[int, int]]) -> None:
    """A log of Zeek: a line stands where its connection ends; records are (end, duration), seconds after `begin`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        f"{BASE + begin + end - length}.000000\tC{end}\t192.0.2.1\t4000\t198.51.100.1\t443\ttcp\t{length}.000000\n"
        for end, length in records
    ]
    path.write_bytes(gzip.compress((ZEEK + "".join(lines)).encode(), 1))


@pytest.mark.slow
def test_a_minute_that_spills_is_of_one_link(tmp_path: Path) -> None:
    """`tcpdump -G 60 -C`, names without an ending: the count stands right behind the date and is not reset."""
    count = 0
    for minute, parts in enumerate((1, 3, 2, 1, 2)):
        for part in range(parts):
            count += part > 0
            name = at(60 * minute, "cap_%Y%m%d%H%M%S") + (str(count) if part else "")
            capture(tmp_path / "in" / name, 60 * (minute + part / parts), 60 / parts, 60 // parts)
    lake = tmp_path / "lake"
    assert lowwater("init", tmp_path / "in", "--lake", lake).code == 0
    (link,) = load_config(lake).links.values()
    assert (
        link.captures is not None and link.captures[0].endswith("/cap_%Y%m%d%H%M%S%c") and link.rotation == 60 * SECOND
    )
    assert lowwater("ingest", "--lake", lake).code == 0
    captures = read_captures(open_lake(lake), ["cap"])["cap"]
    assert sum(row.packets for row in captures) == 300
    assert not gaps("cap", captures, link, BASE * SECOND, (BASE + 300) * SECOND)


@pytest.mark.slow
def test_the_first_spill_comes_after_init(tmp_path: Path) -> None:
    for hour in range(3):
        capture(tmp_path / "in" / at(3600 * hour, "cap_%Y%m%d%H%M%S.pcap"), 3600 * hour, 3600)
    lake = tmp_path / "lake"
    assert lowwater("init", tmp_path / "in", "--lake", lake).code == 0
    for part in range(3):
        name = at(3 * 3600, "cap_%Y%m%d%H%M%S.pcap") + (str(part) if part else "")
        capture(tmp_path / "in" / name, 3600 * (3 + part / 3), 1200)
    (link,) = load_config(lake).links.values()
    assert link.captures is not None and link.captures[0].endswith(".pcap%c") and link.rotation == HOUR
    assert lowwater("ingest", "--lake", lake).code == 0
    captures = read_captures(open_lake(lake), ["cap"])["cap"]
    assert sum(row.packets for row in captures) == 360
    found = gaps("cap", captures, link, BASE * SECOND, (BASE + 4 * 3600) * SECOND)
    assert all(gap.until - gap.since < 21 * SECOND for gap in found), "pauses of 20 s where a file was full"


@pytest.mark.slow
def test_two_days_of_the_archive_of_zeek(tmp_path: Path) -> None:
    """Each hour begins with connections of the one before it; at 03:00 Zeek was down for ten minutes."""
    spans = [(hour * 3600, 3600) for hour in range(48)]
    spans[3:4] = [(3 * 3600, 1200), (3 * 3600 + 1800, 1800)]
    for begin, length in spans:
        name = at(begin, "%Y-%m-%d/conn.%H:%M:%S-") + at(begin + length, "%H:%M:%S.log.gz")
        conn(tmp_path / "in" / name, begin, [(1 + tick * 20, tick % 5 * 60) for tick in range(length // 20)])
    lake = tmp_path / "lake"
    said = lowwater("init", tmp_path / "in", "--lake", lake)
    assert said.code == 0 and "no file for 2026-01-01T03:20:00Z to 2026-01-01T03:30:00Z" in said.out, said
    (link,) = load_config(lake).links.values()
    assert (link.kind, link.rotation, link.timezone) == ("zeek", HOUR, "UTC")
    path = tmp_path / "in" / "2026-01-01" / "conn.03:00:00-03:20:00.log.gz"
    assert declared_coverage(link, path) == ((BASE + 10800) * SECOND, (BASE + 12000) * SECOND)
    last = declared_coverage(link, path.parent / "conn.23:00:00-00:00:00.log.gz")
    assert last is not None and last[1] == (BASE + 86400) * SECOND


@pytest.mark.parametrize("hour", [0, 5, 8, 12, 13, 14, 15, 20, 23])
def test_an_hour_a_day_proves_no_zone(tmp_path: Path, hour: int) -> None:
    for day in range(3):
        begin = 86_400 * day + 3600 * hour
        capture(tmp_path / at(begin, "lab_%Y%m%d.pcap"), begin, 3600)
    link = links(tmp_path)["lab"]
    assert (link.dates.zone, link.dates.rotation) == ("UTC", 24 * HOUR)
    assert any("its files hold at most 59min" in note for note in link.notes), "the other reading"


@pytest.mark.parametrize(
    ("zone", "form", "proposed"),
    [
        ("Europe/Berlin", "%Y%m%d", "Etc/GMT-1"),
        ("Pacific/Kiritimati", "%Y%m%d", "Etc/GMT-14"),
        ("America/Los_Angeles", "%Y%m%d", "Etc/GMT+8"),
        ("Asia/Kathmandu", "%Y%m%d", "Asia/Kathmandu"),
        ("Pacific/Pago_Pago", "%Y%m%d%H", "Etc/GMT+11"),
        ("Pacific/Chatham", "%Y%m%d%H", ""),
    ],
)
def test_several_full_files_prove_a_zone(tmp_path: Path, zone: str, form: str, proposed: str) -> None:
    length = 3600 if "H" in form else 86_400
    shift = datetime.fromtimestamp(BASE, ZoneInfo(zone)).utcoffset()
    assert shift is not None
    for number in range(4):
        begin = length * number - int(shift.total_seconds()) % length
        capture(tmp_path / f"a_{at(begin, form, zone)}.pcap", begin, length)
    link = links(tmp_path)["a"]
    assert (link.dates.zone, link.dates.rotation) == (proposed or "UTC", length * SECOND if proposed else None)
    assert bool(link.dates.why) == (not proposed)


def test_names_that_say_the_end_have_two_readings(tmp_path: Path) -> None:
    for hour in range(3):
        capture(tmp_path / "in" / at(3600 * hour + 3600, "a_%Y%m%d%H.pcap"), 3600 * hour, 3600)
    said = lowwater("init", tmp_path / "in", "--lake", tmp_path / "lake")
    assert "its names are read as times of Etc/GMT-1, or say when files end" in said.out
    assert "or say when files end; here it is the same" in (tmp_path / "lake" / "lowwater.toml").read_text()


def test_days_that_one_hour_contradicts_have_no_zone(tmp_path: Path) -> None:
    """Named by the day after: any zone from +4 to +14 would do."""
    for day in range(3):
        capture(tmp_path / at(86_400 * (day + 1), "lab_%Y%m%d.pcap"), 86_400 * day + 20 * 3600, 3600)
    dates = links(tmp_path)["lab"].dates
    assert (dates.zone, dates.rotation) == ("UTC", None) and "They do not prove it" in dates.why


def test_names_of_a_zone_with_summer_time_ask_for_it(tmp_path: Path) -> None:
    begin = int(datetime(2026, 3, 28, 22, tzinfo=UTC).timestamp()) - BASE
    for hour in range(0, 8):
        capture(tmp_path / at(begin + 3600 * hour, "a_%Y%m%d%H.pcap", "Europe/Berlin"), begin + 3600 * hour, 3600)
    dates = links(tmp_path)["a"].dates
    assert (dates.zone, dates.rotation) == ("UTC", None) and 'timezone = "Europe/Berlin"' in dates.why


def test_a_folder_that_differs_by_a_word(tmp_path: Path) -> None:
    """One recorder whose older files were moved; two sensors at one time; and files that leave it open."""
    for hour in range(6):
        name = at(3600 * hour, "%Y%m%d%H.pcap")
        capture(tmp_path / "moved" / ("archive" if hour < 3 else "live") / f"a_{name}", 3600 * hour, 3600)
        for number, sensor in enumerate(("north", "south")):
            capture(tmp_path / "sensors" / sensor / f"s_{name}", 3600 * hour + number, 3600)
        later = 5 * 86_400 * (hour > 2) + 3600 * hour
        capture(tmp_path / "open" / ("x" if hour < 3 else "y") / at(later, "o_%Y%m%d%H.pcap"), later, 3600)
    moved = links(tmp_path / "moved")["a"]
    assert moved.named.patterns == ("*/a_%Y%m%d%H.pcap%c",) and moved.dates.rotation == HOUR
    assert any("one link of several names" in note for note in moved.notes)
    assert set(links(tmp_path / "sensors")) == {"north", "south"}
    apart = links(tmp_path / "open")
    assert len(apart) == 2 and all("list both patterns in one link" in link.notes[0] for link in apart.values())


def test_logs_of_two_kinds_are_never_joined(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "x.csv").write_text("time,a,b\n" + "".join(f"{BASE + n},{n},{n}\n" for n in range(60)))
    (tmp_path / "b" / "x.csv").write_text("time,c,d\n" + "".join(f"{BASE + n},{n},z\n" for n in range(60, 120)))
    assert len(links(tmp_path)) == 2


@pytest.mark.slow
def test_the_missing_hour_and_the_cut_file_among_48(tmp_path: Path) -> None:
    for hour in range(48):
        if hour != 17:
            name = at(3600 * hour, "a_%Y%m%dT%H.pcap")
            capture(tmp_path / "in" / name, 3600 * hour, 3600, cut=hour == 29)
    lake = tmp_path / "lake"
    said = lowwater("init", tmp_path / "in", "--lake", lake)
    text = (lake / "lowwater.toml").read_text()
    for line in (
        "no file for 2026-01-01T17:00:00Z to 2026-01-01T18:00:00Z",
        "a_20260102T05.pcap is cut: it covers no more than it holds",
    ):
        assert line in said.out and f"# {line}" in text, (line, said.out)


def test_a_copy_beside_its_original_counts_once(tmp_path: Path) -> None:
    for number in range(3):
        capture(tmp_path / "in" / f"a-{number}.pcap", 0 if number else 3600, 3600)
    lake = tmp_path / "lake"
    said = lowwater("init", tmp_path / "in", "--lake", lake)
    assert "a-2.pcap has the same bytes as a-1.pcap: it counts once" in said.out
    assert list(load_config(lake).links) == ["a"]
    assert lowwater("ingest", "--lake", lake).code == 0
    assert sum(row.packets for row in read_captures(open_lake(lake), ["a"])["a"]) == 120


@pytest.mark.slow
def test_names_with_wildcards_of_their_own(tmp_path: Path) -> None:
    capture(tmp_path / "in [1]" / "50%?" / "a*_20260101.pcap", 0, 86_400)
    lake = tmp_path / "lake"
    assert lowwater("init", tmp_path / "in [1]", "--lake", lake).code == 0
    said = lowwater("ingest", "--lake", lake)
    assert said.code == 0 and "added" in said.out
